//! Queries that examine far more than they find: they end in time, and with their client.

use crate::PROGRAM;
use crate::admin::page::page;
use test_support::{ACCOUNT, Client, Server, eventually, head};

/// Comparisons of the filter, so that examining an entity takes its time.
const COMPARISONS: usize = 2000;
/// Entities of a batch, all in one partition.
const BATCH_ENTITIES: usize = 100;
/// Batches that are added at a time until a query does not end within its time any more, and how often.
const BATCHES: usize = 20;
const ROUNDS_MAX: usize = 50;

fn server(folder: &tempfile::TempDir) -> Server {
    let data = folder.path().to_str().unwrap();
    let server = PROGRAM.start(&["--data", data, "--query-seconds", "1", "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"Cars"}"#).status, 201);
    server
}

fn fill(client: &mut Client, batch: usize) {
    let operation = |row: usize| {
        format!(
            "--cs\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://127.0.0.1/{ACCOUNT}/Cars HTTP/1.1\r\nContent-Type: application/json\r\n\r\n\
             {{\"PartitionKey\":\"p{batch:06}\",\"RowKey\":\"{row:03}\",\"N\":-1}}\r\n"
        )
    };
    let operations: String = (0..BATCH_ENTITIES).map(operation).collect();
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=cs\r\n\r\n{operations}--cs--\r\n--b--\r\n");
    let kind = [("Content-Type", "multipart/mixed; boundary=b")];
    assert_eq!(client.request("POST", "/$batch", &kind, body.as_bytes()).status, 202);
}

/// A query that selects nothing, and takes its time to find out.
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
    let mut batches = 0..;
    // How many entities a second is too short for depends on the machine.
    let first = (0..ROUNDS_MAX).find_map(|_| {
        batches.by_ref().take(BATCHES).for_each(|batch| fill(&mut client, batch));
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
