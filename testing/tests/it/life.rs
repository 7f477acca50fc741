use super::*;
use std::net::TcpStream;

#[test]
fn servers_work_on_every_runtime_and_without_one() {
    fn is_served(server: &TestServer) {
        DatedClient::new(server).create_table("Trees");
    }
    // The client blocks the runtime's thread, so the server must not depend on it.
    let one_thread = tokio::runtime::Builder::new_current_thread().build().unwrap();
    one_thread.block_on(async { is_served(&TestServer::start().await.unwrap()) });
    one_thread.block_on(async { is_served(&TestServer::start_blocking().unwrap()) });
    tokio::runtime::Builder::new_multi_thread()
        .build()
        .unwrap()
        .block_on(async { is_served(&TestServer::start().await.unwrap()) });
    is_served(&TestServer::start_blocking().unwrap());
}

#[test]
fn servers_share_nothing() {
    let servers: Vec<_> = (0..4).map(|_| TestServer::start_blocking().unwrap()).collect();
    for server in &servers {
        DatedClient::new(server).create_table("Trees");
        assert_eq!(server.costs().requests, 1);
    }
}

#[test]
fn nothing_listens_once_a_server_is_dropped() {
    let server = TestServer::start_blocking().unwrap();
    let address = server.address();
    // The connection is idle and must not keep the server running.
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    let DatedClient { client, .. } = client;
    drop(server);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    drop(client);
}

#[test]
fn a_server_continues_with_the_data_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let start = || TestServer::builder().data(folder.path()).start_blocking();
    let server = start().unwrap();
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    let inserted = client.insert("Trees", &json!({ "PartitionKey": "north", "RowKey": "1" }));
    let error = start().unwrap_err().to_string();
    assert!(error.contains(&folder.path().display().to_string()), "only one server may use the folder: {error}");
    drop(client);
    server.stop().unwrap();
    let server = start().unwrap();
    let found = DatedClient::new(&server).request("GET", "/Trees(PartitionKey='north',RowKey='1')", &Value::Null);
    assert_eq!(found.json()["Timestamp"], inserted["Timestamp"]);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let message = |builder: rowhouse_testing::TestServerBuilder| builder.start_blocking().unwrap_err().to_string();
    assert!(message(TestServer::builder().data(file.path())).contains(&file.path().display().to_string()));
    let key = "AAECAwQFBgcICQoLDA0ODw==";
    assert!(message(TestServer::builder().account("Orchard!", key)).contains("the name of account 2 is invalid"));
    assert!(message(TestServer::builder().account("orchard", key).account("orchard", key)).contains("is given twice"));
    assert!(
        !message(TestServer::builder().account("orchard", "c2hvcnQ=")).contains("c2hvcnQ="),
        "errors must not contain keys"
    );
}
