//! Tests of pages that end early, and of pages without entities.

use super::*;
use std::collections::BTreeSet;
use test_support::transact;

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

fn orchard(list: &str) -> (Server, Client) {
    let (server, mut client) = rehearsing(list);
    assert_eq!(create_table(&mut client, "harvest").status, 201);
    for partition in ["a", "b", "c"] {
        for row in ["1", "2"] {
            assert_eq!(insert(&mut client, partition, row).status, 201);
        }
    }
    (server, client)
}

const ALL: &str = "/harvest()?$top=1000";

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
    let (_server, mut client) = orchard("short-pages=100%,seed=3");
    for _ in 0..20 {
        for (top, most) in [(6, 3), (4, 2), (1, 1)] {
            let found = pages(&mut client, &format!("/harvest()?$top={top}"));
            assert!(found.iter().all(|(entities, _)| (1..=most).contains(&entities.len())), "{found:?}");
            let entities: Vec<_> = found.into_iter().flat_map(|(entities, _)| entities).collect();
            assert_eq!(entities, ["a/1", "a/2", "b/1", "b/2", "c/1", "c/2"]);
        }
    }
    assert_eq!(create_table(&mut client, "other").status, 201);
    assert_eq!(pages(&mut client, "/Tables?$top=2"), [page(&["harvest"], true), page(&["other"], false)]);
}

#[test]
fn a_query_in_a_batch_gets_the_same_pages() {
    let (_server, mut client) = orchard("partition-pages");
    let query = "--b\r\nContent-Type: application/http\r\n\r\nGET /harvest() HTTP/1.1\r\nAccept: application/json\r\n\r\n\r\n--b--\r\n";
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let answer = client.request("POST", "/$batch", &headers, query.as_bytes());
    let text = String::from_utf8(answer.body).unwrap();
    assert!(text.contains("200 OK") && text.to_lowercase().contains("x-ms-continuation-nextpartitionkey"), "{text}");
    assert!(text.contains("\"PartitionKey\":\"a\"") && !text.contains("\"PartitionKey\":\"b\""), "{text}");
    let entity =
        "DELETE /harvest(PartitionKey='a',RowKey='1') HTTP/1.1\r\nIf-Match: *\r\nAccept: application/json\r\n\r\n";
    assert_eq!(transact(&mut client, &[entity.to_owned()]).unwrap().status, 202, "changes have no pages");
}
