//! Tests of which requests meet the conditions of a rehearsal. The tests of the built program
//! (`rowhouse/tests/it/rehearsal`) cover what each condition does.

use crate::Server;
use rowhouse_server::RehearsalSettings;
use test_support::{Client, Response, statuses, transact};

const PROPERTIES: &str = "/?restype=service&comp=properties";
const XML: (&str, &str) = ("Content-Type", "application/xml");
const UPSERT: &str = "PUT /harvest(PartitionKey='a',RowKey='1') HTTP/1.1\r\nAccept: application/json\r\n\
                      Content-Type: application/json\r\n\r\n{\"Kind\":\"apple\"}";
const MERGE: &str = "MERGE /harvest(PartitionKey='a',RowKey='2') HTTP/1.1\r\nAccept: application/json\r\nIf-Match: *\r\n\
                     Content-Type: application/json\r\n\r\n{\"Kind\":\"apple\"}";

fn rehearsing(conditions: &str) -> (Server, Client) {
    let server = Server::with(|settings| settings.rehearsal = Some(RehearsalSettings::parse(conditions).unwrap()));
    let client = server.client();
    (server, client)
}

fn code(answer: &Response) -> Option<&str> {
    answer.header("x-ms-error-code")
}

#[test]
fn a_valid_request_that_needs_the_tables_is_refused_as_busy() {
    let (server, mut client) = rehearsing("busy=100%");
    let table = br#"{"TableName":"harvest"}"#;
    let entity = "/harvest(PartitionKey='a',RowKey='1')";
    let rules = b"<StorageServiceProperties><Cors/></StorageServiceProperties>";
    for (method, path, headers, body) in [
        ("POST", "/Tables", &[][..], &table[..]),
        ("GET", "/Tables", &[], b""),
        ("GET", "/Tables('harvest')", &[], b""),
        ("DELETE", "/Tables('harvest')", &[], b""),
        ("GET", "/harvest?comp=acl", &[], b""),
        ("PUT", "/harvest?comp=acl", &[XML], b"<SignedIdentifiers/>"),
        ("GET", "/harvest()", &[], b""),
        ("GET", entity, &[], b""),
        ("PUT", entity, &[], b"{}"),
        ("POST", "/harvest", &[], br#"{"PartitionKey":"a","RowKey":"1"}"#),
        ("DELETE", entity, &[("If-Match", "*")], b""),
        ("PUT", PROPERTIES, &[XML], rules),
    ] {
        let answer = client.request(method, path, headers, body);
        assert_eq!((answer.status, code(&answer)), (503, Some("ServerBusy")), "{method} {path}");
        assert_eq!(answer.header("retry-after"), Some("1"), "{method} {path}");
    }
    let batch = transact(&mut client, &[UPSERT.to_owned(), MERGE.to_owned()]).unwrap();
    assert_eq!((batch.status, code(&batch)), (503, Some("ServerBusy")), "the batch is refused as a whole");
    // These requests get their own response.
    assert_eq!(client.request("GET", PROPERTIES, &[], b"").status, 200);
    assert_eq!(client.request("GET", "-secondary/?restype=service&comp=stats", &[], b"").status, 200);
    let unreadable = client.request("POST", "/Tables", &[], b"{");
    assert_eq!((unreadable.status, code(&unreadable)), (400, Some("InvalidInput")));
    let unnamed = client.request("POST", "/Tables", &[], br#"{"TableName":"1harvest"}"#);
    assert_eq!((unnamed.status, code(&unnamed)), (400, Some("InvalidResourceName")));
    server.assert_unharmed();
}

#[test]
fn the_response_to_a_batch_is_lost_if_and_only_if_it_committed_something() {
    let (server, mut client) = rehearsing("lost-answers=100%");
    assert!(client.try_request("POST", "/Tables", &[], br#"{"TableName":"harvest"}"#).is_err());
    let mut client = server.client();
    let refused = transact(&mut client, &[UPSERT.to_owned(), MERGE.to_owned()]).unwrap();
    assert_eq!((refused.status, statuses(&refused)), (202, vec![404]), "the second entity does not exist");
    assert!(transact(&mut client, &[UPSERT.to_owned()]).is_err());
    let stored = server.client().request("GET", "/harvest(PartitionKey='a',RowKey='1')", &[], b"");
    assert_eq!((stored.status, stored.json()["Kind"].as_str()), (200, Some("apple")));
}

#[test]
fn a_server_without_conditions_is_like_any_other() {
    let (server, mut client) = rehearsing("off");
    server.create(&["harvest"]);
    assert_eq!(client.request("DELETE", "/Tables('harvest')", &[], b"").status, 204);
    server.create(&["harvest"]);
    let batch = transact(&mut client, &[UPSERT.to_owned()]).unwrap();
    assert_eq!(statuses(&batch), [204]);
    let page = client.request("GET", "/harvest()", &[], b"");
    assert_eq!(page.json()["value"].as_array().unwrap().len(), 1);
    assert!(!server.log().contains("rehearsing"), "nothing is rehearsed");
}
