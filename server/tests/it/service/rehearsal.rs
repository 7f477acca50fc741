//! Tests of which requests meet the conditions of a rehearsal, and what the conditions on pages and on deletions do.

use crate::Server;
use rowhouse_server::RehearsalSettings;
use std::collections::BTreeSet;
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
        ("PUT", "/harvest?comp=acl", &[XML], b"<SignedIdentifiers/>"),
        ("GET", entity, &[], b""),
        ("PUT", PROPERTIES, &[XML], rules),
    ] {
        let answer = client.request(method, path, headers, body);
        assert_eq!((answer.status, code(&answer)), (503, Some("ServerBusy")), "{method} {path}");
        assert_eq!(answer.header("retry-after"), Some("1"), "{method} {path}");
    }
    // A transaction fails as a whole, and the response says so in its only part (05 §5.1).
    let batch = transact(&mut client, &[UPSERT.to_owned(), MERGE.to_owned()]).unwrap();
    assert_eq!((statuses(&batch), batch.header("retry-after")), (vec![503], None));
    let query = "--b\r\nContent-Type: application/http\r\n\r\nGET /harvest() HTTP/1.1\r\n\r\n--b--\r\n";
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let query = client.request("POST", "/$batch", &headers, query.as_bytes());
    assert_eq!(statuses(&query), [503]);
    for busy in [batch, query] {
        let text = String::from_utf8(busy.body).unwrap();
        assert!(text.contains("\"ServerBusy\"") && text.contains("\"The server is busy.\\n"), "{text}");
    }
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

#[test]
fn the_entities_of_a_new_table_are_busy() {
    let (server, mut client) = rehearsing("creation=60m");
    server.create(&["harvest"]);
    let found = ["/harvest()", "/harvest(PartitionKey='a',RowKey='1')", "/harvest?comp=acl", "/Tables('harvest')"]
        .map(|path| client.request("GET", path, &[], b"").status);
    assert_eq!(found, [503, 503, 200, 200]);
    let batch = transact(&mut client, &[UPSERT.to_owned()]).unwrap();
    assert_eq!((batch.status, statuses(&batch)), (202, vec![503]));
    let missing = client.request("GET", "/other()", &[], b"");
    assert_eq!((missing.status, code(&missing)), (404, Some("TableNotFound")));
    server.assert_unharmed();
}

type Page = (Vec<String>, bool);

/// Returns all pages of a query, each as `partition/row` of its entities. No token may occur twice.
fn pages(client: &mut Client, query: &str) -> Vec<Page> {
    let (mut pages, mut tokens, mut continuation) = (Vec::new(), BTreeSet::new(), String::new());
    loop {
        let page = client.request("GET", &format!("{query}{continuation}"), &[], b"");
        assert_eq!(page.status, 200, "{page:?}");
        let entities = page.json()["value"].as_array().unwrap().iter().map(named).collect();
        let token = |name: &str| page.header(&format!("x-ms-continuation-{name}")).map(str::to_owned);
        let row = token("nextrowkey").map(|row| format!("&NextRowKey={row}")).unwrap_or_default();
        let next = token("nextpartitionkey").map(|partition| format!("&NextPartitionKey={partition}{row}"));
        let next = next.or_else(|| Some(format!("&NextTableName={}", token("nexttablename")?)));
        pages.push((entities, next.is_some()));
        let Some(next) = next else { return pages };
        assert!(tokens.insert(next.clone()), "{next} occurs again");
        continuation = next;
    }
}

fn named(value: &serde_json::Value) -> String {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    text("TableName").unwrap_or_else(|| format!("{}/{}", text("PartitionKey").unwrap(), text("RowKey").unwrap()))
}

/// Starts a server with six entities in three partitions.
fn orchard(list: &str) -> (Server, Client) {
    let (server, mut client) = rehearsing(list);
    server.create(&["harvest"]);
    for (partition, row) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1"), ("c", "2")] {
        let entity = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
        assert_eq!(client.request("POST", "/harvest", &[], entity.as_bytes()).status, 201);
    }
    (server, client)
}

const ALL: &str = "/harvest()?$top=1000";

/// Returns the partition key and the row key of a continuation token.
fn token(page: &Response) -> (Option<&str>, Option<&str>) {
    (page.header("x-ms-continuation-nextpartitionkey"), page.header("x-ms-continuation-nextrowkey"))
}

fn page(entities: &[&str], has_token: bool) -> Page {
    (entities.iter().map(|entity| (*entity).to_owned()).collect(), has_token)
}

#[test]
fn a_page_ends_where_its_partition_ends() {
    let (_server, mut client) = orchard("partition-pages");
    let expected = [page(&["a/1", "a/2"], true), page(&["b/1", "b/2"], true), page(&["c/1", "c/2"], false)];
    assert_eq!(pages(&mut client, ALL), expected);
    let found = pages(&mut client, "/harvest()?$filter=RowKey%20eq%20'2'");
    assert_eq!(found, [page(&["a/2"], true), page(&["b/2"], true), page(&["c/2"], false)]);
    assert_eq!(pages(&mut client, "/harvest()?$filter=PartitionKey%20eq%20'b'"), [page(&["b/1", "b/2"], false)]);
    // The secondary endpoint is the same server.
    assert_eq!(pages(&mut client, "-secondary/harvest()?$top=1000"), expected);
    // The next page starts with the first entity of its partition, so the token has no row key.
    let first = client.request("GET", ALL, &[], b"");
    assert_eq!(token(&first), (Some("1!4!Yg--"), None));
    let second = client.request("GET", &format!("{ALL}&NextPartitionKey=1!4!Yg--"), &[], b"");
    assert_eq!(token(&second), (Some("1!4!Yw--"), None));
    let full = client.request("GET", "/harvest()?$top=1", &[], b"");
    assert_eq!(token(&full), (Some("1!4!YQ--"), Some("1!4!Mg--")), "the page ends within a partition");
    assert_eq!(token(&client.request("GET", "/harvest()?$top=2", &[], b"")), (Some("1!4!Yg--"), None));
}

#[test]
fn an_empty_page_can_precede_a_partition() {
    let (server, mut client) = orchard("partition-pages,empty-pages=100%");
    let empty = || page(&[], true);
    let mut expected = vec![empty(), page(&["a/1", "a/2"], true), empty(), page(&["b/1", "b/2"], true), empty()];
    expected.extend([page(&["c/1", "c/2"], true), page(&[], false)]);
    assert_eq!(pages(&mut client, ALL), expected);
    let after = client.request("GET", &format!("{ALL}&NextPartitionKey=1!4!YQ--&NextRowKey=1!4!MgA-"), &[], b"");
    assert_eq!(token(&after), (Some("1!4!Yg--"), None));
    // The start of a partition includes an entity with an empty row key.
    let entity = br#"{"PartitionKey":"b","RowKey":""}"#;
    assert_eq!(client.request("POST", "/harvest", &[], entity).status, 201);
    assert_eq!(pages(&mut client, ALL).get(3), Some(&page(&["b/", "b/1", "b/2"], true)));
    server.assert_unharmed();
}

#[test]
fn pages_without_entities_have_tokens_that_go_on() {
    let (_server, mut client) = orchard("empty-pages=100%");
    let found = pages(&mut client, "/harvest()?$top=3");
    let empty = || page(&[], true);
    let mut expected = vec![empty(), page(&["a/1", "a/2", "b/1"], true), empty(), empty(), empty()];
    // After the last entity, there is an empty page without a token.
    expected.extend([page(&["b/2", "c/1", "c/2"], true), page(&[], false)]);
    assert_eq!(found, expected);
    let one = pages(&mut client, "/harvest()?$filter=PartitionKey%20eq%20'b'%20and%20RowKey%20eq%20'1'");
    assert_eq!(one, [empty(), page(&["b/1"], false)], "the only entity of a range is the last one");
    assert_eq!(pages(&mut client, "/harvest()?$filter=RowKey%20eq%20'3'"), [page(&[], false)]);
    assert_eq!(pages(&mut client, "/harvest()?$top=0"), [page(&[], false)]);
    assert_eq!(pages(&mut client, "/Tables?$top=1"), [empty(), page(&["harvest"], false)]);
    let missing = client.request("GET", "/nothing()", &[], b"");
    assert_eq!((missing.status, code(&missing)), (404, Some("TableNotFound")));
}

#[test]
fn pages_are_shorter_than_asked_for_and_lose_nothing() {
    let (server, mut client) = orchard("short-pages=100%,seed=3");
    for _ in 0..20 {
        for (top, most) in [(6, 3), (4, 2), (1, 1)] {
            let found = pages(&mut client, &format!("/harvest()?$top={top}"));
            assert!(found.iter().all(|(entities, _)| (1..=most).contains(&entities.len())), "{found:?}");
            let entities: Vec<_> = found.into_iter().flat_map(|(entities, _)| entities).collect();
            assert_eq!(entities, ["a/1", "a/2", "b/1", "b/2", "c/1", "c/2"]);
        }
    }
    server.create(&["other"]);
    assert_eq!(pages(&mut client, "/Tables?$top=2"), [page(&["harvest"], true), page(&["other"], false)]);
}

#[test]
fn the_name_of_a_deleted_table_is_not_free() {
    let (server, mut client) = rehearsing("deletion=60m");
    server.create(&["harvest"]);
    assert_eq!(client.request("DELETE", "/Tables('harvest')", &[], b"").status, 204);
    let again = client.request("POST", "/Tables", &[], br#"{"TableName":"HARVEST"}"#);
    assert_eq!((again.status, code(&again)), (409, Some("TableBeingDeleted")));
    let message = again.json()["odata.error"]["message"]["value"].as_str().unwrap().to_owned();
    assert!(message.starts_with("The specified table is being deleted. Try operation later."), "{message}");
    // In the meantime, the table does not exist for any operation.
    for (method, path) in [("GET", "/harvest()"), ("GET", "/harvest?comp=acl"), ("DELETE", "/Tables('harvest')")] {
        assert_eq!(client.request(method, path, &[], b"").status, 404, "{method} {path}");
    }
    assert_eq!(statuses(&transact(&mut client, &[UPSERT.to_owned()]).unwrap()), [404]);
    assert_eq!(client.request("GET", "/Tables", &[], b"").json()["value"].as_array().unwrap().len(), 0);
}
