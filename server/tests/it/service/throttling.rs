//! Tests of the throttling targets. The targets are so small that a transaction of 100 entities
//! uses up the capacity of minutes, so the speed of the machine does not matter.

use crate::Server;
use rowhouse_server::Targets;
use test_support::{Client, Response, eventually, statuses};

const ACCOUNT_BUSY: &str = "Operations per second is over the account limit.";
const PARTITION_BUSY: &str = "The server is busy.";

/// Starts a server with targets for accounts and for partitions.
fn server(account: u64, partition: u64) -> (Server, Client) {
    let targets = Targets { account_entities_per_second: account, partition_entities_per_second: partition };
    let server = Server::with(|settings| settings.targets = Some(targets));
    let client = server.client();
    (server, client)
}

fn create_table(client: &mut Client, name: &str) -> Response {
    client.request("POST", "/Tables", &[], format!("{{\"TableName\":\"{name}\"}}").as_bytes())
}

fn insert(client: &mut Client, partition: &str, row: &str) -> Response {
    let body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
    client.request("POST", "/harvest", &[], body.as_bytes())
}

/// Upserts a hundred entities of a partition in one transaction.
fn hundred(client: &mut Client, partition: &str) -> Response {
    let put = |row| {
        format!(
            "--c\nContent-Type: application/http\n\nPUT /harvest(PartitionKey='{partition}',RowKey='{row:02}') HTTP/1.1\n\
             Accept: application/json\nContent-Type: application/json\n\n{{}}\n"
        )
    };
    let parts = (0..100).map(put).collect::<String>();
    let body = format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{parts}--c--\n--b--\n");
    client.request("POST", "/$batch", &[("Content-Type", "multipart/mixed; boundary=b")], body.as_bytes())
}

/// A busy transaction fails in its only part, without an index (05 §5.1).
fn assert_transaction_busy(answer: &Response, message: &str) {
    assert_eq!(statuses(answer), [503], "{answer:?}");
    assert_eq!(answer.header("retry-after"), None, "the status is a success");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    let error = format!(
        "{{\"odata.error\":{{\"code\":\"ServerBusy\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{message}\\n"
    );
    assert!(text.contains(&error), "{text}");
}

fn assert_busy(answer: &Response, message: &str) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("x-ms-error-code"), Some("ServerBusy"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    let body = answer.json();
    assert_eq!(body["odata.error"]["code"], "ServerBusy");
    assert!(body["odata.error"]["message"]["value"].as_str().unwrap().starts_with(message), "{body}");
}

#[test]
fn a_partition_beyond_its_rate_is_busy_and_others_are_not() {
    let (_server, mut client) = server(20_000, 1);
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert_eq!(create_table(&mut client, "other").status, 201);
    assert_eq!(statuses(&hundred(&mut client, "a")), [204; 100]);
    // The partition is busy for more than a minute and a half.
    assert_transaction_busy(&hundred(&mut client, "a"), PARTITION_BUSY);
    assert_busy(&insert(&mut client, "a", "new"), PARTITION_BUSY);
    let entity = "/harvest(PartitionKey='a',RowKey='07')";
    for (method, headers) in
        [("GET", &[][..]), ("PUT", &[]), ("MERGE", &[("If-Match", "*")]), ("DELETE", &[("If-Match", "*")])]
    {
        assert_busy(&client.request(method, entity, headers, b"{}"), PARTITION_BUSY);
    }
    let of_partition = "/harvest()?$filter=PartitionKey%20eq%20'a'";
    assert_busy(&client.request("GET", of_partition, &[], b""), PARTITION_BUSY);
    // Other partitions, queries over several partitions, and tables are not affected.
    assert_eq!(insert(&mut client, "b", "1").status, 201);
    let all = client.request("GET", "/harvest()", &[], b"");
    assert_eq!(all.status, 200);
    assert_eq!(all.json()["value"].as_array().unwrap().len(), 101, "refused requests must have no effect");
    assert_eq!(client.request("GET", "/other()?$filter=PartitionKey%20eq%20'a'", &[], b"").status, 200);
    assert_eq!(client.request("GET", "/Tables", &[], b"").status, 200);
}

#[test]
fn an_account_beyond_its_rate_is_busy_for_every_operation() {
    let (_server, mut client) = server(1, 2000);
    // Creating the table uses up the capacity of that second, so it takes a while until the transaction is admitted.
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    eventually("the transaction", || (statuses(&hundred(&mut client, "a")) != [503]).then_some(()));
    assert_busy(&insert(&mut client, "b", "1"), ACCOUNT_BUSY);
    assert_transaction_busy(&hundred(&mut client, "c"), ACCOUNT_BUSY);
    assert_busy(&create_table(&mut client, "other"), ACCOUNT_BUSY);
    assert_busy(&client.request("GET", "/Tables", &[], b""), ACCOUNT_BUSY);
    assert_busy(&client.request("GET", "/harvest()", &[], b""), ACCOUNT_BUSY);
    let properties = client.request("GET", "/?restype=service&comp=properties", &[], b"");
    assert_eq!((properties.status, properties.header("retry-after")), (503, Some("1")));
}

#[test]
fn a_query_counts_the_entities_it_examined() {
    let (_server, mut client) = server(20_000, 200);
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    assert_eq!(hundred(&mut client, "a").status, 202);
    // The query examines 100 entities and returns none. If it counted as one entity, all would be admitted.
    let query = "/harvest()?$filter=PartitionKey%20eq%20'a'%20and%20Kind%20eq%20'none'";
    assert!((0..20).any(|_| client.request("GET", query, &[], b"").status == 503));
}
