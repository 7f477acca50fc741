//! Insert Or Replace Entity (02 §5.4).

use super::{ENTITY, entity};
use crate::Layer::{Query, Storage};
use crate::{Server, check, etag, get, post, put, timestamp};

#[test]
fn an_entity_is_created_or_replaced() {
    let stored = |write, properties: &str| {
        let json = entity("r", &format!(r#","Timestamp":"{}"{properties}"#, timestamp(write)));
        get(ENTITY).level("nometadata").ok(200).header("etag", etag(write)).json(&json)
    };
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
            // `return-content` is ignored (02 §4.3).
            put(ENTITY, "{}").with("Prefer", "return-content").answers(204, None),
            post(ENTITY, r#"{"A":1}"#).with("X-HTTP-Method", "PUT").ok(204).header("etag", etag(3)),
            put("/cars(PartitionKey='',RowKey='')", "{}").ok(204).header("etag", etag(4)),
        ],
    );
}

#[test]
fn what_is_refused() {
    let long = format!("/cars(PartitionKey='p',RowKey='{}')", "k".repeat(513));
    check(
        &Server::with_tables(&["cars"]),
        [
            // An upsert does not look for the entity, so it cannot be missing (01 §3).
            put(&long, "{}").fails(400, "PropertyValueTooLarge", Storage),
            put(ENTITY, "{").fails(400, "InvalidInput", Query),
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
