use super::*;
use rowhouse_testing::Costs;
use test_support::transact;

fn counts(costs: Costs) -> [u64; 4] {
    [costs.requests, costs.entities_examined, costs.entities_returned, costs.entities_written]
}

#[test]
fn every_kind_of_request_is_counted_with_the_entities_that_it_works_on() {
    for builder in [TestServer::builder(), TestServer::builder().embedded()] {
        let server = builder.start_blocking().unwrap();
        let mut client = DatedClient::new(&server);
        let mut cost = |method: &str, path: &str, body: &Value| {
            let before = server.costs();
            client.request(method, path, body);
            counts(server.costs() - before)
        };
        assert_eq!(cost("POST", "/Tables", &json!({ "TableName": "Trees" })), [1, 0, 0, 0]);
        for partition in ["north", "south"] {
            for row in 0..6 {
                let entity = json!({ "PartitionKey": partition, "RowKey": row.to_string(), "Height": row });
                assert_eq!(cost("POST", "/Trees", &entity), [1, 0, 0, 1]);
            }
        }
        let one = "/Trees(PartitionKey='north',RowKey='3')";
        assert_eq!(cost("GET", one, &Value::Null), [1, 1, 1, 0]);
        assert_eq!(cost("GET", "/Trees(PartitionKey='north',RowKey='9')", &Value::Null), [1, 0, 0, 0]);
        assert_eq!(
            cost("POST", "/Trees", &json!({ "PartitionKey": "north", "RowKey": "3" })),
            [1, 0, 0, 0],
            "a conflict"
        );
        let query = |filter: &str| format!("/Trees()?$filter={}", filter.replace(' ', "%20"));
        assert_eq!(cost("GET", "/Trees()", &Value::Null), [1, 12, 12, 0]);
        assert_eq!(
            cost("GET", "/Trees()?$top=2", &Value::Null),
            [1, 3, 2, 0],
            "one more entity is read to determine that there are more"
        );
        assert_eq!(cost("GET", &query("Height ge 4"), &Value::Null), [1, 12, 4, 0]);
        assert_eq!(cost("GET", &query("PartitionKey eq 'south' and Height ge 4"), &Value::Null), [1, 6, 2, 0]);
        assert_eq!(cost("GET", &query("PartitionKey eq 'south' and RowKey lt '2'"), &Value::Null), [1, 2, 2, 0]);
        assert_eq!(cost("PUT", one, &json!({ "Height": 9 })), [1, 0, 0, 1]);
        assert_eq!(cost("GET", "/Nowhere()", &Value::Null), [1, 0, 0, 0]);
    }
}

#[test]
fn a_transaction_is_one_request_with_all_its_entities() {
    let server = TestServer::start_blocking().unwrap();
    let mut client = DatedClient::new(&server);
    client.create_table("Trees");
    let operation = |row: u32| {
        let body = json!({ "PartitionKey": "north", "RowKey": row.to_string() }).to_string();
        let length = body.len();
        format!(
            "POST /devstoreaccount1/Trees HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let before = server.costs();
    transact(&mut client.client, &[operation(1), operation(2), operation(3)]).unwrap();
    assert_eq!(counts(server.costs() - before), [1, 0, 0, 3]);
    let before = server.costs();
    transact(&mut client.client, &[operation(4), operation(3)]).unwrap();
    assert_eq!(counts(server.costs() - before), [1, 0, 0, 0], "the rejected insert wrote nothing");
}

#[test]
fn bodies_are_counted_in_bytes_and_costs_add_up() {
    let server = TestServer::start_blocking().unwrap();
    let mut client = DatedClient::new(&server);
    let response = client.request("POST", "/Tables", &json!({ "TableName": "Trees" }));
    let costs = server.costs();
    assert_eq!(costs.request_bytes, r#"{"TableName":"Trees"}"#.len() as u64);
    assert_eq!(costs.response_bytes, response.body.len() as u64);
    assert_eq!(costs + costs - costs, costs);
    assert_eq!(Costs::default() - costs, Costs::default());
    assert_eq!(costs.to_string(), "1 requests; entities: 0 examined, 0 returned, 0 written");
}
