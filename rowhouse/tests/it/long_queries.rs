//! Queries that examine far more than they find: they end in time, and with their client.

use crate::PROGRAM;
use crate::admin::page::page;
use test_support::content::{create_table, fill_partition};
use test_support::{Client, Server, eventually, head};

/// Comparisons of the filter, so that examining an entity takes its time.
const COMPARISONS: usize = 2000;
/// Entities of a partition.
const ROWS: usize = 100;
/// Partitions that are added at a time until a query does not end within its time any more, and how often.
const PARTITIONS: usize = 20;
const ROUNDS_MAX: usize = 50;

fn server(folder: &tempfile::TempDir) -> Server {
    let data = folder.path().to_str().unwrap();
    let server = PROGRAM.start(&["--data", data, "--query-seconds", "1", "--admin", "127.0.0.1:0"]);
    create_table(&mut server.client(), "Cars");
    server
}

/// A query that selects nothing, since no entity has this property, and takes its time to find out.
fn query() -> String {
    let terms: Vec<String> = (0..COMPARISONS).map(|number| format!("N%20eq%20{number}")).collect();
    format!("/Cars()?$filter={}", terms.join("%20or%20"))
}

/// The query options for the page after this one, if there is one.
fn next(client: &mut Client, query: &str) -> Option<String> {
    let answer = client.request("GET", query, &[], b"");
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    assert_eq!(answer.json()["value"].as_array().unwrap().len(), 0);
    let partition = answer.header("x-ms-continuation-nextpartitionkey")?;
    let row = answer.header("x-ms-continuation-nextrowkey").unwrap();
    Some(format!("&NextPartitionKey={partition}&NextRowKey={row}"))
}

#[test]
fn a_query_that_finds_nothing_ends_in_time_and_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder);
    let (mut client, query) = (server.client(), query());
    let mut partitions = 0..;
    // How many entities a second is too short for depends on the machine.
    let first = (0..ROUNDS_MAX).find_map(|_| {
        partitions.by_ref().take(PARTITIONS).for_each(|partition| fill_partition(&mut client, "Cars", partition, ROWS));
        next(&mut client, &query)
    });
    let mut token = Some(first.expect("a query that takes too long ends with a token"));
    // The rest of the table needs less than the time that was too short for all of it, on a quiet machine.
    let mut pages = 1;
    while let Some(position) = token {
        token = next(&mut client, &format!("{query}{position}"));
        pages += 1;
    }
    assert!(pages >= 2);

    let abandoned = |server: &Server| {
        let page = page(server);
        let aborted = r#"rowhouse_requests_total{operation="QueryEntities",status="0",code="aborted"}"#;
        page.count("rowhouse_requests_abandoned_total") + page.count(aborted)
    };
    let before = abandoned(&server);
    eventually("a client that goes away while its query is read", || {
        let mut leaving = server.client();
        leaving.send(head("GET", &query, &[]).as_bytes()).unwrap();
        eventually("the query", || (page(&server).count("rowhouse_scans_running") > 0).then_some(()));
        drop(leaving);
        eventually("the end of the scan", || (page(&server).count("rowhouse_scans_running") == 0).then_some(()));
        (abandoned(&server) > before).then_some(())
    });
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}
