//! Update Entity (02 §5.2), and what all updates with `If-Match` have in common (01 §8).

use super::{ENTITY, entity};
use crate::Layer::{Query, Storage};
use crate::{Case, Server, check, delete, etag, get, merge, post, put, timestamp};

/// An operation on the entity with the given path.
type Operation = fn(&str) -> Case;

fn server() -> Server {
    let server = Server::with_tables(&["cars"]);
    check(&server, [post("/cars", &entity("r", r#","Model":"K","Doors":4"#)).answers(201, None)]);
    server
}

fn stored(write: u32, properties: &str) -> Case {
    let json = entity("r", &format!(r#","Timestamp":"{}"{properties}"#, timestamp(write)));
    get(ENTITY).level("nometadata").ok(200).header("etag", etag(write)).json(&json)
}

#[test]
fn all_properties_are_replaced() {
    check(
        &server(),
        [
            put(ENTITY, r#"{"Wheels":3,"Model":"M"}"#).with("If-Match", "*").ok(204).header("etag", etag(1)),
            // The properties are in the order of their names (01 §6.4).
            stored(1, r#","Model":"M","Wheels":3"#),
            put(ENTITY, "{}").with("If-Match", etag(1)).ok(204).header("etag", etag(2)),
            stored(2, ""),
            // Keys in the body are ignored, even different ones (01 §3); so is a Timestamp.
            put(ENTITY, r#"{"PartitionKey":"x","RowKey":"y","Timestamp":"2000-01-01T00:00:00Z","A":null}"#)
                .with("If-Match", "*")
                .with("Prefer", "return-no-content")
                .ok(204)
                .header("etag", etag(3))
                .header("preference-applied", "return-no-content"),
            stored(3, ""),
            post(ENTITY, r#"{"A":1}"#)
                .with("X-HTTP-Method", "PUT")
                .with("If-Match", "*")
                .ok(204)
                .header("etag", etag(4)),
            stored(4, r#","A":1"#),
        ],
    );
}

#[test]
fn conditions() {
    // 01 §8; every operation with `If-Match` treats it alike.
    let strong = etag(0).replacen("W/", "", 1);
    let doubled = etag(0).replace('\'', "''");
    let malformed = |value: &str| {
        format!(
            "The etag value '{value}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid."
        )
    };
    let none = |name| format!("The `If-None-Match` HTTP header cannot be specified for {name} operations.");
    let both = "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.";
    let not_satisfied = "The update condition specified in the request was not satisfied.";
    let not_met = "The condition specified using HTTP conditional header(s) is not met.";
    let missing = "/cars(PartitionKey='p',RowKey='none')";
    let operations: [(&str, Operation); 3] =
        [("PUT", |path| put(path, "{}")), ("MERGE", |path| merge(path, "{}")), ("DELETE", delete)];
    for (name, operation) in operations {
        let with = |value: &str| operation(ENTITY).with("If-Match", value);
        let stale = "W/\"datetime'2031-03-14T08%3A15%3A30.1Z'\"";
        check(
            &server(),
            [
                with(stale).fails(412, "UpdateConditionNotSatisfied", Storage).says(not_satisfied),
                with(&doubled).fails(412, "ConditionNotMet", Query).says(not_met),
                with(&strong).fails(400, "InvalidInput", Query).says(malformed(&strong)),
                with("x, y").fails(400, "InvalidInput", Query).says(malformed("x, y")),
                with("*").with("If-None-Match", "*").fails(400, "InvalidInput", Query).says(both),
                operation(ENTITY).with("If-None-Match", "*").fails(400, "InvalidInput", Query).says(none(name)),
                // A missing entity comes before its condition (06 §6, step 12).
                operation(missing).with("If-Match", "*").fails(404, "ResourceNotFound", Storage),
                operation(missing).with("If-Match", stale).fails(404, "ResourceNotFound", Storage),
                // A malformed condition comes before the table lookup (06 §6).
                operation("/other(PartitionKey='p',RowKey='r')").with("If-Match", "x").fails(
                    400,
                    "InvalidInput",
                    Query,
                ),
                operation("/other(PartitionKey='p',RowKey='r')").with("If-Match", "*").fails(
                    404,
                    "TableNotFound",
                    Query,
                ),
                stored(0, r#","Model":"K","Doors":4"#),
                with(&etag(0).replacen('W', "w", 1)).answers(204, None),
            ],
        );
    }
}

#[test]
fn keys_and_bodies_that_are_refused() {
    let long = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(513));
    let text = "x".repeat(32_769);
    let update = |path: &str, body: &str| put(path, body).with("If-Match", "*");
    check(
        &server(),
        [
            update(&long, "{}").fails(404, "ResourceNotFound", Storage),
            update("/cars(PartitionKey='p',RowKey='a%5Cb')", "{}").fails(400, "InvalidInput", Query),
            update("/cars(PartitionKey='p',RowKey='a%3Fb')", "{}").fails(400, "OutOfRangeInput", Query),
            update(ENTITY, "{").fails(400, "InvalidInput", Query),
            update(ENTITY, &format!("{{\"A\":\"{text}\"}}")).fails(400, "PropertyValueTooLarge", Storage),
            // Size comes before existence (06 §6).
            update("/cars(PartitionKey='p',RowKey='none')", &format!("{{\"A\":\"{text}\"}}")).fails(
                400,
                "PropertyValueTooLarge",
                Storage,
            ),
            Case::new("DELETE", "/cars()", "").fails(405, "MethodNotAllowed", Query),
            put("/cars", "{}").fails(405, "MethodNotAllowed", Query),
            post(ENTITY, "{}").fails(405, "MethodNotAllowed", Query),
            stored(0, r#","Model":"K","Doors":4"#),
        ],
    );
}
