//! Delete Entities, an extension (`docs/extensions.md`).

use super::entity;
use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, delete, get, post, signature};
use std::time::Duration;
use test_support::content::fill_partition;

const TEXT: &str = "text/plain;charset=utf-8";
const ALL: &str = "/cars()?$filter=true";

fn server() -> Server {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&["cars", "empty"]);
    fill(&server);
    server
}

/// Inserts the entities p0 to p4, whose `A` is their row key, and q0, whose `A` is 4.
fn fill(server: &Server) {
    let inserts =
        (0..5).map(|row| post("/cars", &entity(&row.to_string(), &format!(",\"A\":{row}"))).answers(201, None));
    check(server, inserts);
    check(server, [post("/cars", r#"{"PartitionKey":"q","RowKey":"0","A":4}"#).answers(201, None)]);
}

fn deletes(url: &str, count: &str) -> Case {
    delete(url).ok(200).text(TEXT, count)
}

fn keys(keys: &str) -> Case {
    let keys: Vec<_> = keys
        .split_whitespace()
        .map(|keys| format!(r#"{{"PartitionKey":"{}","RowKey":"{}"}}"#, &keys[..1], &keys[1..]))
        .collect();
    let query = get("/cars()?$select=PartitionKey,RowKey").level("nometadata");
    query.ok(200).json(&format!("{{\"value\":[{}]}}", keys.join(",")))
}

#[test]
fn matching_entities_are_deleted_and_others_are_not() {
    for (url, count, rest) in [
        ("/cars()?$filter=A%20ge%203", "3", "p0 p1 p2"),
        ("/cars()?$filter=PartitionKey%20eq%20'p'%20and%20RowKey%20lt%20'2'", "2", "p2 p3 p4 q0"),
        ("/cars()?$filter=startswith(PartitionKey,'p')%20and%20not%20endswith(RowKey,'4')", "4", "p4 q0"),
        ("/cars()?$filter=A%20gt%209", "0", "p0 p1 p2 p3 p4 q0"),
        ("/cars()?$filter=true", "6", ""),
        ("/cars()?$filter=true&NextPartitionKey=1!4!cA--&NextRowKey=1!4!NA--", "2", "p0 p1 p2 p3"),
        ("/empty()?$filter=true", "0", "p0 p1 p2 p3 p4 q0"),
    ] {
        check(&server(), [deletes(url, count), deletes(url, "0"), keys(rest)]);
    }
}

#[test]
fn the_forms_of_the_request() {
    let server = server();
    for case in [
        delete(ALL).with("If-Match", "*"),
        post(ALL, "").with("X-HTTP-Method", "DELETE"),
        // The client does not choose the media type.
        delete(ALL).with("Accept", "text/plain"),
        delete(ALL).level("fullmetadata"),
    ] {
        check(&server, [case.ok(200).text(TEXT, "6"), keys("")]);
        fill(&server);
    }
}

#[test]
fn what_is_refused_deletes_nothing() {
    let missing = "Deleting the entities of a table requires $filter. To delete all of them, specify $filter=true.";
    let server = server();
    check(
        &server,
        [
            delete("/cars").fails(400, "MissingRequiredQueryParameter", Query).says(missing),
            delete("/cars()").fails(400, "MissingRequiredQueryParameter", Query).says(missing),
            delete("/cars()?$filter=%20").fails(400, "MissingRequiredQueryParameter", Query).says(missing),
            delete("/cars()?$filter=A%20eq").fails(400, "InvalidInput", Query),
            delete("/cars()?$filter=true&$top=1").fails(400, "InvalidInput", Query),
            delete("/cars()?$filter=true&$orderby=A").fails(501, "NotImplemented", Storage),
            delete("/cars()?$filter=true&$limit=1").fails(400, "InvalidInput", Query),
            delete("/cars()?$filter=true&NextRowKey=1!4!NA--").fails(400, "InvalidInput", Query),
            delete("/cars()?$filter=true").with("If-Match", "W/\"datetime'x'\"").fails(400, "InvalidInput", Query),
            delete("/other()?$filter=true").fails(404, "TableNotFound", Query),
            delete("/cars()/$count?$filter=true").fails(405, "MethodNotAllowed", Query),
            delete("/cars/more?$filter=true").fails(405, "MethodNotAllowed", Query),
            delete("/cars(PartitionKey='p')?$filter=true").fails(400, "InvalidInput", Query),
            delete("-secondary/cars()?$filter=true").fails(403, "InsufficientAccountPermissions", Storage),
            keys("p0 p1 p2 p3 p4 q0"),
        ],
    );
}

#[test]
fn without_extensions_entities_are_not_deleted_by_filter() {
    let server = Server::with_tables(&["cars"]);
    fill(&server);
    for url in ["/cars", "/cars()", "/other", "/cars?$filter=true", "/cars()?$filter=true", "/cars()?$filter=x%20eq"] {
        check(&server, [delete(url).fails(405, "MethodNotAllowed", Query)]);
    }
    check(&server, [keys("p0 p1 p2 p3 p4 q0")]);
}

#[test]
fn a_signature_deletes_only_in_its_range() {
    let server = server();
    let range = |letters| {
        signature(letters, |fields| {
            (fields.start_partition, fields.start_row) = ("p".into(), "3".into());
            (fields.end_partition, fields.end_row) = ("p".into(), "4".into());
        })
    };
    for letters in ["r", "a", "u", "rau"] {
        let refused = delete(ALL).signed(&range(letters));
        check(&server, [refused.answers(403, "AuthorizationPermissionMismatch")]);
    }
    let other = signature("d", |fields| fields.table = "empty".into());
    check(&server, [delete(ALL).signed(&other).answers(403, "AuthorizationFailure")]);
    let at_the_start = "/cars()?$filter=true&NextPartitionKey=1!4!cA--&NextRowKey=1!4!MA--";
    check(
        &server,
        [
            deletes("/cars()?$filter=A%20eq%203", "1").signed(&range("d")),
            deletes(at_the_start, "1").signed(&range("d")),
            keys("p0 p1 p2 q0"),
        ],
    );
}

#[test]
fn a_deletion_that_takes_too_long_is_continued() {
    let server = Server::with(|settings| {
        settings.extensions = true;
        settings.query_time = Duration::ZERO;
    });
    server.create(&["cars"]);
    let mut client = server.client();
    for partition in 0..3 {
        fill_partition(&mut client, "cars", partition, 100);
    }
    let (mut options, mut count, mut responses) = (String::new(), 0, 0);
    loop {
        let response = client.request("DELETE", &format!("{ALL}{options}"), &[], b"");
        let deleted: u32 = std::str::from_utf8(&response.body).unwrap().parse().unwrap();
        assert!(deleted > 0, "every request makes progress");
        count += deleted;
        responses += 1;
        let token = |name| response.header(name).map(ToOwned::to_owned);
        let Some(partition) = token("x-ms-continuation-nextpartitionkey") else { break };
        let row = token("x-ms-continuation-nextrowkey").unwrap();
        options = format!("&NextPartitionKey={partition}&NextRowKey={row}");
    }
    assert_eq!(count, 300);
    assert!(responses > 1, "the deadline passes at once");
    check(&server, [keys("")]);
}
