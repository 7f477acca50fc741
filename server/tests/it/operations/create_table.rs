//! Create Table (02 §4.3).

use crate::Layer::{Format, Query, Storage};
use crate::{Case, Server, check, get, post};

fn create(name: &str) -> Case {
    post("/Tables", &format!("{{\"TableName\":\"{name}\"}}"))
}

#[test]
fn the_response_names_the_table_and_its_url() {
    let minimal = r#"{"odata.metadata":"BASE/$metadata#Tables/@Element","TableName":"MyCars"}"#;
    let none = r#"{"TableName":"none"}"#;
    let full = r#"{"odata.metadata":"BASE/$metadata#Tables/@Element","odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('full')","odata.editLink":"Tables('full')","TableName":"full"}"#;
    let listed = r#"{"value":[{"TableName":"content"},{"TableName":"full"},{"TableName":"MyCars"},{"TableName":"none"},{"TableName":"nothing"}]}"#;
    check(
        &Server::start(),
        [
            create("MyCars").ok(201).header("location", "BASE/Tables('MyCars')").json(minimal),
            create("none").level("nometadata").ok(201).header("location", "BASE/Tables('none')").json(none),
            create("full").level("fullmetadata").ok(201).header("location", "BASE/Tables('full')").json(full),
            create("content")
                .with("Prefer", "return-content")
                .ok(201)
                .header("location", "BASE/Tables('content')")
                .header("preference-applied", "return-content")
                .json(&minimal.replace("MyCars", "content")),
            create("nothing")
                .with("Prefer", "return-no-content")
                .ok(204)
                .header("location", "BASE/Tables('nothing')")
                .header("dataserviceid", "BASE/Tables('nothing')")
                .header("preference-applied", "return-no-content"),
            get("/Tables").level("nometadata").ok(200).json(listed),
            // Extra members are ignored, and `Tables()` is the same resource (02 §1).
            post("/Tables()", r#"{"odata.metadata":"x","TableName":"extra"}"#)
                .ok(201)
                .header("location", "BASE/Tables('extra')")
                .json(&minimal.replace("MyCars", "extra")),
        ],
    );
}

#[test]
fn atom() {
    let body = r#"<entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><m:properties><d:TableName>cars</d:TableName></m:properties></content></entry>"#;
    // 03 §5.3
    let entry = r#"<?xml version="1.0" encoding="utf-8"?><entry xml:base="BASE/" xmlns="http://www.w3.org/2005/Atom" xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><id>BASE/Tables('cars')</id><category term="devstoreaccount1.Tables" scheme="http://schemas.microsoft.com/ado/2007/08/dataservices/scheme" /><link rel="edit" title="Tables" href="Tables('cars')" /><title /><updated>2031-03-14T08:15:30Z</updated><author><name /></author><content type="application/xml"><m:properties><d:TableName>cars</d:TableName></m:properties></content></entry>"#;
    let content_type = "application/atom+xml;type=entry;charset=utf-8";
    let created = |case: Case| case.ok(201).header("location", "BASE/Tables('cars')").text(content_type, entry);
    check(&Server::start(), [created(post("/Tables", body).atom())]);
    // `Prefer` is honored only since 2013-08-15 (02 §7).
    let early = post("/Tables", body).atom().version("2012-02-12").with("Prefer", "return-no-content");
    check(&Server::start(), [early.answers(201, None)]);
}

#[test]
fn names_and_bodies_that_are_refused() {
    // 01 §2; name length comes before characters, and those before existence (06 §6).
    let length = "The specified resource name length is not within the permissible limits.";
    let characters = "The specifed resource name contains invalid characters.";
    let generic = "One of the request inputs is not valid.";
    let malformed = "An error occurred while processing this request.";
    let long = "t".repeat(64);
    let name = |name, code, message| create(name).fails(400, code, Storage).says(message);
    check(
        &Server::with_tables(&["cars"]),
        [
            create("CARS").fails(409, "TableAlreadyExists", Storage).says("The table specified already exists."),
            create("cars")
                .with("Prefer", "return-no-content")
                .fails(409, "TableAlreadyExists", Storage)
                .header("preference-applied", "return-no-content"),
            name("ab", "OutOfRangeInput", length),
            name("", "OutOfRangeInput", length),
            name("_", "OutOfRangeInput", length),
            name(&long, "OutOfRangeInput", length),
            name("1abc", "InvalidResourceName", characters),
            name("a-bc", "InvalidResourceName", characters),
            name("$MetricsHourPrimaryTransactionsTable", "InvalidResourceName", characters),
            name("Tables", "InvalidInput", generic),
            post("/Tables", "{}")
                .fails(400, "PropertiesNeedValue", Storage)
                .says("The values are not specified for all properties in the entity."),
            post("/Tables", "{").fails(400, "InvalidInput", Query).says(malformed),
            create("bikes").with("Content-Type", "text/plain").fails(415, "MediaTypeNotSupported", Format),
            get("/Tables").level("nometadata").ok(200).json(r#"{"value":[{"TableName":"cars"}]}"#),
        ],
    );
}
