use super::*;

fn rows(client: &mut DatedClient<'_>) -> usize {
    let page = client.request("GET", "/Trees()", &Value::Null);
    page.json().get("value").and_then(Value::as_array).map(Vec::len).unwrap()
}

#[test]
fn a_test_returns_to_a_snapshot_and_to_the_beginning() {
    let server = TestServer::start_blocking().unwrap();
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    let kept = client.insert("Trees", &json!({ "PartitionKey": "p", "RowKey": "1" }));
    let snapshot = server.snapshot().unwrap();
    for _ in 0..2 {
        client.insert("Trees", &json!({ "PartitionKey": "p", "RowKey": "2" }));
        assert_eq!(rows(&mut client), 2);
        server.restore(&snapshot).unwrap();
        assert_eq!(rows(&mut client), 1);
    }
    let again = client.request("GET", "/Trees(PartitionKey='p',RowKey='1')", &Value::Null).json();
    assert_eq!(again["Timestamp"], kept["Timestamp"]);
    let other = TestServer::start_blocking().unwrap();
    other.restore(&snapshot).unwrap();
    assert_eq!(rows(&mut DatedClient::new(&other)), 1, "a snapshot of another server can be restored");
    server.clock().set(july(0));
    server.reset().unwrap();
    assert_eq!(client.request("GET", "/Trees()", &Value::Null).status, 404);
    assert!(!server.clock().is_stopped());
}

#[test]
fn data_on_disk_have_no_snapshots() {
    let server = TestServer::builder().embedded().start_blocking().unwrap();
    let snapshot = TestServer::start_blocking().unwrap().snapshot().unwrap();
    for error in [server.snapshot().map(drop), server.restore(&snapshot), server.reset()] {
        assert!(error.unwrap_err().to_string().contains("in memory"));
    }
}
