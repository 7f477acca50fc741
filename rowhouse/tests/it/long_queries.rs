//! Tests of queries that examine far more entities than they find: they stop within their time limit, and when their
//! client disconnects.

use crate::PROGRAM;
use crate::admin::page::page;
use std::io::ErrorKind;
use std::time::Duration;
use test_support::content::{create_table, fill_partition};
use test_support::{Client, Server, eventually, head};

/// The number of comparisons in the filter, which makes examining an entity slow.
const COMPARISONS: usize = 2000;
const ROWS: usize = 100;
/// The number of partitions that are added in each round, until a query no longer completes within its time limit, and
/// the maximum number of rounds.
const PARTITIONS: usize = 20;
const ROUNDS_MAX: usize = 50;

fn server(folder: &tempfile::TempDir) -> Server {
    let data = folder.path().to_str().unwrap();
    let server = PROGRAM.start(&["--data", data, "--query-seconds", "1", "--admin", "127.0.0.1:0"]);
    create_table(&mut server.client(), "Cars");
    server
}

/// Returns a slow query that selects nothing, because no entity has the property.
fn query() -> String {
    let terms: Vec<String> = (0..COMPARISONS).map(|number| format!("N%20eq%20{number}")).collect();
    format!("/Cars()?$filter={}", terms.join("%20or%20"))
}

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
    // The number of entities that cannot be examined in one second depends on the machine.
    let first = (0..ROUNDS_MAX).find_map(|_| {
        partitions.by_ref().take(PARTITIONS).for_each(|partition| fill_partition(&mut client, "Cars", partition, ROWS));
        next(&mut client, &query)
    });
    let mut token = Some(first.expect("a query that takes too long must end with a token"));
    // On a quiet machine, the rest of the table takes less than the time that was too short for the whole table.
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
        leaving.set_read_timeout(Duration::from_millis(1));
        while page(&server).count("rowhouse_scans_running") == 0 {
            let answer = leaving.receive().map_err(|error| error.kind());
            if !matches!(answer, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)) {
                // On a busy machine, the query may end before it is seen.
                return None;
            }
        }
        drop(leaving);
        eventually("the end of the scan", || (page(&server).count("rowhouse_scans_running") == 0).then_some(()));
        (abandoned(&server) > before).then_some(())
    });
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}
