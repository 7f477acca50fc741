//! Tests that the metrics match the traffic.

use super::page::page;
use super::send_unfinished_body;
use crate::PROGRAM;
use test_support::{ACCOUNT, Client, eventually, head, outcome};

fn requests(operation: &str, status: u16, code: &str) -> String {
    format!(r#"rowhouse_requests_total{{operation="{operation}",status="{status}",code="{code}"}}"#)
}

fn operation_series(metric: &str, operation: &str) -> String {
    format!(r#"{metric}{{operation="{operation}"}}"#)
}

fn table_series(table: &str, outcome: &str) -> String {
    format!(r#"rowhouse_table_requests_total{{account="{ACCOUNT}",table="{table}",outcome="{outcome}"}}"#)
}

fn create(client: &mut Client, table: &str) {
    let body = format!(r#"{{"TableName":"{table}"}}"#);
    assert_eq!(client.request("POST", "/Tables", &[], body.as_bytes()).status, 201);
}

fn insert(client: &mut Client, table: &str, row: &str) -> (u16, usize, usize) {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
    let answer = client.request("POST", &format!("/{table}"), &[], body.as_bytes());
    (answer.status, body.len(), answer.body.len())
}

#[test]
fn operations_statuses_codes_and_bytes_are_those_of_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = PROGRAM.start(&["--data", folder.path().to_str().unwrap(), "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    create(&mut client, "Cars");
    let (mut sent, mut received) = (0, 0);
    for (row, status) in [("1", 201), ("2", 201), ("3", 201), ("3", 409)] {
        let (answered, body, answer) = insert(&mut client, "Cars", row);
        assert_eq!(answered, status);
        (sent, received) = (sent + body, received + answer);
    }
    let mut page_bytes = 0;
    for _ in 0..5 {
        let answer = client.request("GET", "/cars()", &[], b"");
        assert_eq!(answer.status, 200);
        page_bytes += answer.body.len();
    }
    assert_eq!(client.request("GET", "/Cars(PartitionKey='p',RowKey='none')", &[], b"").status, 404);
    let ghosts = client.request("GET", "/Ghosts()", &[], b"");
    assert_eq!(ghosts.status, 404);
    page_bytes += ghosts.body.len();
    assert_eq!(client.request("GET", "/Cars()", &[("Authorization", "SharedKey a:b")], b"").status, 403);
    assert_eq!(client.request("DELETE", "/Cars(PartitionKey='p',RowKey='1')", &[("If-Match", "*")], b"").status, 204);

    let page = page(&server);
    for (sample, expected) in [
        (requests("CreateTable", 201, ""), 1),
        (requests("InsertEntity", 201, ""), 3),
        (requests("InsertEntity", 409, "EntityAlreadyExists"), 1),
        (requests("QueryEntities", 200, ""), 5),
        (requests("QueryEntities", 404, "TableNotFound"), 1),
        (requests("QueryEntity", 404, "ResourceNotFound"), 1),
        (requests("Unknown", 403, "AuthenticationFailed"), 1),
        (requests("DeleteEntity", 204, ""), 1),
        (operation_series("rowhouse_request_bytes_total", "InsertEntity"), sent as u64),
        (operation_series("rowhouse_response_bytes_total", "InsertEntity"), received as u64),
        (operation_series("rowhouse_response_bytes_total", "QueryEntities"), page_bytes as u64),
        (operation_series("rowhouse_request_duration_seconds_count", "InsertEntity"), 4),
        (r#"rowhouse_authentication_failures_total{kind="shared_key"}"#.to_owned(), 1),
        (table_series("cars", "success"), 10),
        (table_series("cars", "client_error"), 2),
        (format!(r#"rowhouse_account_requests_total{{account="{ACCOUNT}",outcome="success"}}"#), 10),
        (format!(r#"rowhouse_account_requests_total{{account="{ACCOUNT}",outcome="client_error"}}"#), 4),
        ("rowhouse_connections_open".to_owned(), 1),
        ("rowhouse_connections_accepted_total".to_owned(), 1),
        ("rowhouse_requests_in_flight".to_owned(), 0),
        ("rowhouse_tables".to_owned(), 1),
        ("rowhouse_commit_transactions_total".to_owned(), 4),
        ("rowhouse_commit_group_entities_sum".to_owned(), 4),
        ("rowhouse_commit_write_seconds_count".to_owned(), 4),
    ] {
        assert_eq!(page.count(&sample), expected, "{sample}");
    }
    assert_eq!(page.sum("rowhouse_requests_total"), 14);
    assert!(page.0["rowhouse_disk_free_bytes"] > 0.0 && page.0["rowhouse_tree_disk_bytes"] > 0.0);
    assert!(page.0["process_resident_memory_bytes"] > 1e6 && page.0["process_cpu_seconds_total"] > 0.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - 120.0..now).contains(&page.0["process_start_time_seconds"]));
    // The counters of a table are removed with it.
    assert_eq!(client.request("DELETE", "/Tables('CARS')", &[], b"").status, 204);
    assert_eq!(super::page::page(&server).sum("rowhouse_table_requests_total"), 0);
    eventually("the purge", || (super::page::page(&server).count("rowhouse_purge_backlog_tables") == 0).then_some(()));
}

fn batch(rows: &[&str]) -> String {
    let operations = rows.iter().map(|row| {
        format!(
            "--cs\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://127.0.0.1/{ACCOUNT}/Cars HTTP/1.1\r\nContent-Type: application/json\r\n\
             Accept: application/json;odata=minimalmetadata\r\n\r\n{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\r\n"
        )
    });
    let operations: String = operations.collect();
    format!("--b\r\nContent-Type: multipart/mixed; boundary=cs\r\n\r\n{operations}--cs--\r\n--b--\r\n")
}

#[test]
fn a_batch_counts_once_for_its_table_and_a_failed_one_by_its_code() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    create(&mut client, "Cars");
    let kind = [("Content-Type", "multipart/mixed; boundary=b")];
    for rows in [&["1", "2"][..], &["3", "1"]] {
        let answer = client.request("POST", "/$batch", &kind, batch(rows).as_bytes());
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
    }
    let page = page(&server);
    assert_eq!(page.count(&requests("EntityGroupTransaction", 202, "")), 1);
    assert_eq!(page.count(&requests("EntityGroupTransaction", 202, "EntityAlreadyExists")), 1);
    assert_eq!(page.count(&table_series("cars", "success")), 2, "Create Table and the batch");
    assert_eq!(page.count(&table_series("cars", "client_error")), 1);
    assert!(!page.0.contains_key("rowhouse_commit_transactions_total"), "the memory engine has no committer");
}

#[test]
fn a_batch_whose_first_operation_has_no_table_counts_for_no_table() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    create(&mut client, "Cars");
    let rows: Vec<String> = (0..90).map(|number| format!("{number:0500}")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    // The first operation is one on tables, or one on an invalid table name.
    for (place, code, times) in [("Tables", "InvalidInput", 50), ("1", "CommandsInBatchActOnDifferentPartitions", 1)] {
        let refused = batch(&rows).replacen("/Cars HTTP", &format!("/{place} HTTP"), 1);
        for _ in 0..times {
            let kind = [("Content-Type", "multipart/mixed; boundary=b")];
            assert_eq!(client.request("POST", "/$batch", &kind, refused.as_bytes()).status, 202);
        }
        let page = page(&server);
        assert_eq!(page.count(&requests("EntityGroupTransaction", 202, code)), times);
        assert_eq!(page.0.get(&table_series("cars", "client_error")), None, "{place}");
    }
}

#[test]
fn a_table_that_the_body_names_is_known_when_the_request_fails() {
    let args = ["--in-memory", "--admin", "127.0.0.1:0", "--throttle", "--partition-entities-per-second", "1"];
    let server = PROGRAM.start(&args);
    let mut client = server.client();
    create(&mut client, "Cars");
    let again = client.request("POST", "/Tables", &[], br#"{"TableName":"cars"}"#);
    assert_eq!(again.status, 409);
    assert_eq!(page(&server).count(&table_series("cars", "success")), 2, "the table exists, as the client wanted");
    let kind = [("Content-Type", "multipart/mixed; boundary=b")];
    let rows: Vec<String> = (0..100).map(|row| row.to_string()).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    // The first batch uses up the partition's capacity for more than a minute and a half.
    for status in [201, 503] {
        assert_eq!(outcome(&client.request("POST", "/$batch", &kind, batch(&rows).as_bytes())).0, status);
    }
    let query = "--b\r\nContent-Type: application/http\r\n\r\nGET /Cars(PartitionKey='q',RowKey='none') HTTP/1.1\r\n\
                 Accept: application/json;odata=minimalmetadata\r\n\r\n\r\n--b--\r\n";
    assert_eq!(client.request("POST", "/$batch", &kind, query.as_bytes()).status, 202);
    let page = page(&server);
    assert_eq!(page.count(&requests("EntityGroupTransaction", 202, "ResourceNotFound")), 1);
    assert_eq!(page.count(&requests("EntityGroupTransaction", 202, "ServerBusy")), 1);
    assert_eq!(page.count(&requests("CreateTable", 409, "TableAlreadyExists")), 1);
    assert_eq!(page.count(&table_series("cars", "success")), 3, "Create Table twice and the first batch");
    assert_eq!(page.count(&table_series("cars", "throttled")), 1);
    assert_eq!(page.count(&table_series("cars", "client_error")), 1, "the query");
}

#[test]
fn a_body_that_is_not_sent_is_not_counted() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0"]);
    let mut client = server.client();
    client.send(head("HEAD", "/Tables", &[]).as_bytes()).unwrap();
    let answer = client.receive_head().unwrap();
    assert!(answer.status >= 400 && answer.header("content-length").unwrap() != "0", "{answer:?}");
    let page = page(&server);
    assert_eq!((page.sum("rowhouse_requests_total"), page.sum("rowhouse_response_bytes_total")), (1, 0));
}

#[test]
fn aborted_requests_are_counted_separately() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0"]);
    create(&mut server.client(), "Cars");
    let mut client = Client::connect(&server.address).unwrap();
    client.send(head("POST", "/Cars", &[("Content-Length", "100"), ("Expect", "100-continue")]).as_bytes()).unwrap();
    assert_eq!(client.receive().unwrap().status, 100);
    assert_eq!(page(&server).count("rowhouse_requests_in_flight"), 1);
    // The connection over which the table was created is closed once the server notices.
    eventually("one connection", || (page(&server).count("rowhouse_connections_open") == 1).then_some(()));
    drop(client);
    eventually("the end of the request", || {
        let page = page(&server);
        let ended =
            page.count("rowhouse_requests_abandoned_total") + page.count(&requests("InsertEntity", 0, "aborted"));
        (ended == 1 && page.count("rowhouse_requests_in_flight") == 0).then_some(())
    });
    eventually("the end of the connection", || (page(&server).count("rowhouse_connections_open") == 0).then_some(()));
}

#[test]
fn refused_requests_are_counted_by_the_resource_that_was_missing() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0", "--body-mib", "16"]);
    let mut client = server.client();
    // A body of 4 MiB that never ends holds all the memory that an account can hold, until the server gives it up.
    let mut refused = || {
        let _held = send_unfinished_body(&server);
        // A body whose memory still grows would compete with the query, and could be the one that is refused. Up to
        // 16 KiB of its first and of its last growth are not counted.
        let held_bytes = || page(&server).count("rowhouse_admission_memory_bytes");
        eventually("the body", || (held_bytes() > (8 << 20) - (32 << 10)).then_some(()));
        client.request("GET", "/Cars()", &[], b"").status
    };
    // On a slow machine, the body may have been given up before the query.
    assert!((0..10).any(|_| refused() == 503));
    let page = page(&server);
    assert_eq!(page.count(r#"rowhouse_admission_refused_total{resource="memory"}"#), 1);
    assert_eq!(page.count(r#"rowhouse_admission_refused_total{resource="requests"}"#), 0);
    assert_eq!(page.count(&requests("QueryEntities", 503, "ServerBusy")), 1);
    let throttled = format!(r#"rowhouse_account_requests_total{{account="{ACCOUNT}",outcome="throttled"}}"#);
    assert_eq!(page.count(&throttled), 1);
}

#[test]
fn metrics_per_table_can_be_switched_off() {
    let server = PROGRAM.start(&["--in-memory", "--admin", "127.0.0.1:0", "--metrics-per-table=false"]);
    create(&mut server.client(), "Cars");
    let page = page(&server);
    assert_eq!(page.sum("rowhouse_table_requests_total"), 0);
    assert_eq!(page.sum("rowhouse_account_requests_total"), 1);
}
