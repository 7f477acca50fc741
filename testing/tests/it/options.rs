use super::*;

#[test]
fn accounts_have_their_own_keys_and_data() {
    let key = "AAECAwQFBgcICQoLDA0ODw==";
    let server = TestServer::builder().account("orchard", key).start_blocking().unwrap();
    let address = server.address().to_string();
    let tables = |account: &Account| {
        let created =
            Client::connect_as(&address, account).unwrap().request("POST", "/Tables", &[], br#"{"TableName":"Trees"}"#);
        created.status
    };
    assert_eq!(tables(&Account::new("orchard", key)), 201);
    assert_eq!(tables(&Account::development()), 201);
    assert_eq!(tables(&Account::new("orchard", rowhouse_testing::DEVELOPMENT_KEY)), 403);
    assert_eq!(server.endpoint_of("meadow"), None);
    assert_eq!(
        server.connection_string_of("orchard").unwrap(),
        format!(
            "DefaultEndpointsProtocol=http;AccountName=orchard;AccountKey={key};TableEndpoint=http://{address}/orchard;"
        )
    );
}

#[test]
fn without_time_a_query_responds_after_each_entity() {
    let server = TestServer::builder().query_time(Duration::ZERO).start_blocking().unwrap();
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    for row in ["1", "2", "3"] {
        client.insert("Trees", &json!({ "PartitionKey": "north", "RowKey": row }));
    }
    let (mut path, mut pages) = ("/Trees()?$filter=RowKey%20eq%20'3'".to_owned(), Vec::new());
    loop {
        let page = client.request("GET", &path, &Value::Null);
        pages.push(page.json()["value"].as_array().unwrap().len());
        let Some(row) = page.header("x-ms-continuation-nextrowkey") else { break };
        let partition = page.header("x-ms-continuation-nextpartitionkey").unwrap();
        path = format!("/Trees()?$filter=RowKey%20eq%20'3'&NextPartitionKey={partition}&NextRowKey={row}");
    }
    assert_eq!(pages, [0, 0, 1]);
}

#[test]
fn a_throttled_account_gets_503() {
    let server = TestServer::builder().throttle(1, 1).start_blocking().unwrap();
    let mut client = DatedClient::new(&server);
    let statuses: Vec<_> = (0..20).map(|_| client.request("GET", "/Tables", &Value::Null).status).collect();
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
}

#[test]
fn extensions_are_off_unless_they_are_requested() {
    for (builder, expected) in [(TestServer::builder(), 400), (TestServer::builder().extensions(), 200)] {
        let server = builder.start_blocking().unwrap();
        let mut client = DatedClient::new(&server);
        client.create_table("Trees");
        assert_eq!(client.request("GET", "/Trees()/$count", &Value::Null).status, expected);
    }
}
