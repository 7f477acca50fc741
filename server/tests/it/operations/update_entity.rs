//! Update, Merge, Insert Or Replace, Insert Or Merge and Delete Entity (02 §5.2 to §5.6).

use super::{ENTITY, entity, properties};
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

#[test]
fn given_properties_are_set_and_others_kept() {
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

#[test]
fn an_entity_is_created_or_merged() {
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
fn merges_without_a_condition_that_are_refused() {
    let long = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(513));
    let many = format!("{{{}}}", properties(0..253));
    check(
        &Server::with_tables(&["cars"]),
        [
            merge(&long, "{}").fails(400, "PropertyValueTooLarge", Storage),
            merge(ENTITY, &many).fails(400, "TooManyProperties", Storage),
            merge("/cars", "{}").fails(405, "MethodNotAllowed", Query),
            get(ENTITY).fails(404, "ResourceNotFound", Storage),
        ],
    );
}

#[test]
fn an_entity_is_created_or_replaced() {
    check(
        &Server::with_tables(&["cars"]),
        [
            // 204 without a location, even if the entity is new (02 §5.5).
            put(ENTITY, r#"{"Model":"K"}"#).ok(204).header("etag", etag(0)),
            stored(0, r#","Model":"K""#),
            put(ENTITY, r#"{"PartitionKey":"x","Doors":4}"#)
                .with("Prefer", "return-no-content")
                .ok(204)
                .header("etag", etag(1))
                .header("preference-applied", "return-no-content"),
            stored(1, r#","Doors":4"#),
            post(ENTITY, r#"{"A":1}"#).with("X-HTTP-Method", "PUT").ok(204).header("etag", etag(2)),
            put("/cars(PartitionKey='',RowKey='')", "{}").ok(204).header("etag", etag(3)),
        ],
    );
}

#[test]
fn upserts_that_are_refused() {
    let long = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(513));
    check(
        &Server::with_tables(&["cars"]),
        [
            // An upsert does not look for the entity, so it cannot be missing (01 §3).
            put(&long, "{}").fails(400, "PropertyValueTooLarge", Storage),
            put(ENTITY, r#"{"A":"#).with("Prefer", "return-no-content").fails(400, "InvalidInput", Query),
            put("/other(PartitionKey='p',RowKey='r')", "{}").fails(404, "TableNotFound", Query),
            // Versions before upserts existed (02 §7)
            put(ENTITY, "").atom().version("2009-09-19").answers(400, "InvalidInput"),
            get(ENTITY).fails(404, "ResourceNotFound", Storage),
        ],
    );
    let body = r#"<entry xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><m:properties></m:properties></content></entry>"#;
    let upsert = |version| put(ENTITY, body).atom().version(version);
    check(
        &Server::with_tables(&["cars"]),
        [
            upsert("2009-09-19").fails(400, "MissingRequiredHeader", Storage).in_xml(),
            upsert("2011-08-18").ok(204).header("etag", etag(0)),
        ],
    );
}

#[test]
fn an_entity_is_deleted_if_its_etag_is_right() {
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", &entity("r", "")).answers(201, None),
            post("/cars", &entity("s", "")).answers(201, None),
            // No ETag, and no preference (02 §4.3).
            delete(ENTITY).with("If-Match", etag(0)).with("Prefer", "return-no-content").ok(204),
            get(ENTITY).fails(404, "ResourceNotFound", Storage),
            delete(ENTITY)
                .with("If-Match", etag(0))
                .fails(404, "ResourceNotFound", Storage)
                .says("The specified resource does not exist."),
            post("/cars(PartitionKey='p',RowKey='s')", "")
                .with("X-HTTP-Method", "DELETE")
                .with("If-Match", "*")
                .ok(204),
        ],
    );
}

#[test]
fn deletions_that_are_refused() {
    let long = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(513));
    let key_count = "The number of keys specified in the URI does not match number of key properties for the resource 'devstoreaccount1.cars'.";
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", &entity("r", "")).answers(201, None),
            // `If-Match` is required, even before the table is looked up.
            delete(ENTITY).fails(400, "MissingRequiredHeader", Storage),
            delete("/other(PartitionKey='p',RowKey='r')").fails(400, "MissingRequiredHeader", Storage),
            delete(&long).with("If-Match", "*").fails(404, "ResourceNotFound", Storage),
            // Keys that address no entity, also below a table (02 §1)
            delete("/cars/Tables('x')").fails(400, "InvalidInput", Query).says(key_count),
            delete("/cars('x')").fails(400, "InvalidInput", Query).says(key_count),
            delete("/cars(PartitionKey='p')").with("If-Match", "*").fails(400, "InvalidInput", Query).says(key_count),
            put("/cars(RowKey='r')", "{}").fails(400, "InvalidInput", Query).says(key_count),
            get(ENTITY).answers(200, None),
        ],
    );
}

#[test]
fn an_entity_below_another_table_cannot_be_written() {
    // 02 §1
    let server = server();
    let operations: [Operation; 4] =
        [|path| put(path, "{}"), |path| merge(path, "{}"), |path| Case::new("PATCH", path, "{}"), delete];
    for operation in operations {
        for nested in ["/cars/cars(PartitionKey='p',RowKey='r')", "/cars/other(PartitionKey='p',RowKey='r')"] {
            let refused = || operation(nested).fails(501, "NotImplemented", Storage);
            check(&server, [refused(), refused().with("If-Match", "*")]);
        }
        let of_none = operation("/other/cars(PartitionKey='p',RowKey='r')");
        check(&server, [of_none.fails(404, "TableNotFound", Query)]);
    }
    check(
        &server,
        [
            post("/cars/cars(PartitionKey='p',RowKey='r')", "{}").fails(405, "MethodNotAllowed", Query),
            stored(0, r#","Model":"K","Doors":4"#),
        ],
    );
}
