//! Insert Or Merge Entity (02 §5.5).

use super::{ENTITY, entity, properties};
use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, etag, get, merge, post, timestamp};

#[test]
fn an_entity_is_created_or_merged() {
    let stored = |write, properties: &str| {
        let json = entity("r", &format!(r#","Timestamp":"{}"{properties}"#, timestamp(write)));
        get(ENTITY).level("nometadata").ok(200).header("etag", etag(write)).json(&json)
    };
    check(
        &Server::with_tables(&["cars"]),
        [
            merge(ENTITY, r#"{"b":"K","a":1}"#).ok(204).header("etag", etag(0)),
            // The order of the names, even of a new entity (01 §6.4).
            stored(0, r#","a":1,"b":"K""#),
            Case::new("PATCH", ENTITY, r#"{"C":3,"a":null}"#)
                .with("Prefer", "return-no-content")
                .ok(204)
                .header("etag", etag(1))
                .header("preference-applied", "return-no-content"),
            stored(1, r#","C":3,"a":1,"b":"K""#),
            post(ENTITY, r#"{"a":2}"#).with("X-HTTP-Method", "MERGE").ok(204).header("etag", etag(2)),
            stored(2, r#","C":3,"a":2,"b":"K""#),
            post(ENTITY, r#"{"a":3}"#).with("X-HTTP-Method", "PATCH").ok(204).header("etag", etag(3)),
        ],
    );
}

#[test]
fn what_is_refused() {
    let long = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(513));
    let many = format!("{{{}}}", properties(0..253));
    check(
        &Server::with_tables(&["cars"]),
        [
            merge(&long, "{}").fails(400, "PropertyValueTooLarge", Storage),
            merge(ENTITY, &many).fails(400, "TooManyProperties", Storage),
            merge(ENTITY, "[]").fails(400, "InvalidInput", Query),
            merge("/other(PartitionKey='p',RowKey='r')", "{}").fails(404, "TableNotFound", Query),
            merge("/cars", "{}").fails(405, "MethodNotAllowed", Query),
            get(ENTITY).fails(404, "ResourceNotFound", Storage),
        ],
    );
}
