//! Count Entities, an extension (`docs/extensions.md`).

use super::entity;
use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, get, post};
use std::time::Duration;

const TEXT: &str = "text/plain;charset=utf-8";

fn server() -> Server {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&["cars", "empty"]);
    let inserts =
        (0..5).map(|row| post("/cars", &entity(&row.to_string(), &format!(",\"A\":{row}"))).answers(201, None));
    check(&server, inserts);
    check(&server, [post("/cars", r#"{"PartitionKey":"q","RowKey":"0","A":4}"#).answers(201, None)]);
    server
}

fn counts(url: &str, count: &str) -> Case {
    get(url).ok(200).text(TEXT, count)
}

#[test]
fn what_is_counted() {
    check(
        &server(),
        [
            counts("/cars/$count", "6"),
            counts("/cars()/$count", "6"),
            counts("/cars()/%24count", "6"),
            counts("/empty/$count", "0"),
            counts("/cars()/$count?$filter=A%20ge%203", "3"),
            counts("/cars()/$count?$filter=PartitionKey%20eq%20'p'%20and%20RowKey%20lt%20'2'", "2"),
            counts("/cars()/$count?$filter=startswith(PartitionKey,'q')%20or%20contains(RowKey,'1')", "2"),
            counts("/cars()/$count?NextPartitionKey=1!4!cA--&NextRowKey=1!4!NA--", "2"),
            // The client does not choose the media type.
            counts("/cars/$count", "6").with("Accept", "text/plain"),
            counts("/cars/$count", "6").level("fullmetadata"),
        ],
    );
}

#[test]
fn what_is_refused() {
    check(
        &server(),
        [
            get("/other/$count").fails(404, "TableNotFound", Query),
            get("/cars/$count?$filter=A%20eq").fails(400, "InvalidInput", Query),
            get("/cars/$count?$orderby=A").fails(501, "NotImplemented", Storage),
            post("/cars/$count", "{}").fails(405, "MethodNotAllowed", Query),
            get("/cars/$other").fails(501, "NotImplemented", Storage),
        ],
    );
}

#[test]
fn without_extensions_there_are_no_counts() {
    check(
        &Server::with_tables(&["cars"]),
        [
            get("/cars/$count").fails(501, "NotImplemented", Storage),
            get("/cars()/$count").fails(400, "InvalidInput", Query),
        ],
    );
}

#[test]
fn a_count_that_takes_too_long_is_continued() {
    let server = Server::with(|settings| {
        settings.extensions = true;
        settings.query_time = Duration::ZERO;
    });
    server.create(&["cars"]);
    let mut client = server.client();
    test_support::content::fill_partition(&mut client, "cars", 0, 100);
    let (mut path, mut count, mut responses) = ("/cars/$count".to_owned(), 0, 0);
    loop {
        let response = client.request("GET", &path, &[], b"");
        count += std::str::from_utf8(&response.body).unwrap().parse::<u32>().unwrap();
        responses += 1;
        let token = |name| response.header(name).map(ToOwned::to_owned);
        let Some(partition) = token("x-ms-continuation-nextpartitionkey") else { break };
        let row = token("x-ms-continuation-nextrowkey").unwrap();
        path = format!("/cars/$count?NextPartitionKey={partition}&NextRowKey={row}");
    }
    assert_eq!(count, 100);
    assert!(responses > 1, "the deadline passes at once");
}
