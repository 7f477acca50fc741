//! Merge Entity (02 §5.3).

use super::{ENTITY, entity, properties};
use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, etag, get, merge, post, timestamp};

#[test]
fn given_properties_are_set_and_others_kept() {
    let stored = |write, properties: &str| {
        let json = entity("r", &format!(r#","Timestamp":"{}"{properties}"#, timestamp(write)));
        get(ENTITY).level("nometadata").ok(200).header("etag", etag(write)).json(&json)
    };
    let patch = |body: &str| Case::new("PATCH", ENTITY, body);
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", &entity("r", r#","b":"K","a":4,"C":1"#)).answers(201, None),
            // The type may change, and null keeps the old value.
            merge(ENTITY, r#"{"a":"four","b":null,"D":true}"#).with("If-Match", "*").ok(204).header("etag", etag(1)),
            stored(1, r#","C":1,"D":true,"a":"four","b":"K""#),
            // Even a merge that changes nothing is a new version (01 §7).
            patch("{}").with("If-Match", etag(1)).ok(204).header("etag", etag(2)),
            stored(2, r#","C":1,"D":true,"a":"four","b":"K""#),
            post(ENTITY, r#"{"C":2}"#)
                .with("X-HTTP-Method", "MERGE")
                .with("If-Match", "*")
                .with("Prefer", "return-no-content")
                .ok(204)
                .header("etag", etag(3))
                .header("preference-applied", "return-no-content"),
            stored(3, r#","C":2,"D":true,"a":"four","b":"K""#),
        ],
    );
}

#[test]
fn the_limits_apply_to_the_merged_entity() {
    let half = |start| properties(start..start + 127);
    let change = |start| format!("{{{}}}", half(start));
    let update = |body: &str| merge(ENTITY, body).with("If-Match", "*");
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", &entity("r", &format!(",{}", half(0)))).answers(201, None),
            update(&change(127)).fails(400, "TooManyProperties", Storage),
            update(&change(125)).ok(204).header("etag", etag(1)),
            update("{").fails(400, "InvalidInput", Query),
            merge("/other(PartitionKey='p',RowKey='r')", "{}").with("If-Match", "*").fails(404, "TableNotFound", Query),
        ],
    );
    // A merged entity above 1 MiB.
    let large = |start: usize| {
        let values = (start..start + 9).map(|number| format!("\"P{number}\":\"{}\"", "x".repeat(32_000)));
        values.collect::<Vec<_>>().join(",")
    };
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", &entity("r", &format!(",{}", large(0)))).answers(201, None),
            update(&format!("{{{}}}", large(9))).fails(400, "EntityTooLarge", Storage),
        ],
    );
}
