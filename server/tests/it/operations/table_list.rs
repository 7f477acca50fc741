//! The list of tables (02 §4.1 to §4.4, 04 §7).

use crate::Layer::{Format, Query, Storage};
use crate::{Case, Server, check, delete, get, post};

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
fn a_created_table_in_atom() {
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
            name("1abc", "InvalidResourceName", characters),
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

#[test]
fn the_entry_has_the_spelling_of_the_creation() {
    let full = r#"{"odata.metadata":"BASE/$metadata#Tables/@Element","odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('MyCars')","odata.editLink":"Tables('MyCars')","TableName":"MyCars"}"#;
    let minimal = r#"{"odata.metadata":"BASE/$metadata#Tables/@Element","TableName":"MyCars"}"#;
    let none = r#"{"TableName":"MyCars"}"#;
    check(
        &Server::with_tables(&["MyCars"]),
        [
            get("/Tables('mycars')").ok(200).json(minimal),
            get("/Tables('MyCars')").level("fullmetadata").ok(200).json(full),
            get("/Tables('MyCars')").level("nometadata").ok(200).json(none),
        ],
    );
}

#[test]
fn what_does_not_exist() {
    // Bad, reserved and unknown names alike (01 §2).
    let missing =
        |case: Case| case.fails(404, "ResourceNotFound", Storage).says("The specified resource does not exist.");
    let server = Server::with_tables(&["cars"]);
    for name in ["other", "tables", "a-b", "x", "$MetricsHourPrimaryTransactionsTable"] {
        let path = format!("/Tables('{name}')");
        check(&server, [missing(get(&path)), missing(delete(&path))]);
    }
    // The format is resolved before the table is looked up (06 §6).
    let no_format = get("/Tables('other')").without("Accept");
    check(&server, [no_format.fails(415, "AtomFormatNotSupported", Format).in_xml()]);
}

#[test]
fn a_deleted_table_is_gone_with_its_entities_and_its_name_is_free() {
    let created = r#"{"TableName":"cars"}"#;
    check(
        &Server::with_tables(&["MyCars"]),
        [
            post("/MyCars", r#"{"PartitionKey":"p","RowKey":"r"}"#).answers(201, None),
            delete("/Tables('MYCARS')").ok(204),
            get("/MyCars()").fails(404, "TableNotFound", Query).says("The table specified does not exist."),
            get("/Tables").level("nometadata").ok(200).json(r#"{"value":[]}"#),
            delete("/Tables('MyCars')").fails(404, "ResourceNotFound", Storage),
            post("/Tables", &created.replace("cars", "mycars")).answers(201, None),
            get("/mycars()").level("nometadata").ok(200).json(r#"{"value":[]}"#),
        ],
    );
}

#[test]
fn requests_that_need_no_format_and_no_condition() {
    // `*/*`, and no `Accept` at all (02 §4.4, 03 §1.3).
    let server = Server::with_tables(&["one", "two", "three"]);
    check(
        &server,
        [
            delete("/Tables('one')").with("Accept", "*/*").ok(204),
            delete("/Tables('two')").without("Accept").ok(204),
            delete("/Tables('three')").with("If-Match", "nonsense").ok(204),
        ],
    );
}

const TABLES: [&str; 4] = ["beta", "Alpha", "gamma", "delta1"];

fn list(names: &[&str]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{{\"TableName\":\"{name}\"}}")).collect();
    format!("{{\"value\":[{}]}}", names.join(","))
}

/// Expects the given tables, without metadata.
fn finds(query: &str, names: &[&str]) -> Case {
    get(&format!("/Tables{query}")).level("nometadata").ok(200).json(&list(names))
}

#[test]
fn tables_are_in_the_order_of_their_names_whatever_their_case() {
    let minimal = r#"{"odata.metadata":"BASE/$metadata#Tables","value":[{"TableName":"Alpha"},{"TableName":"beta"},{"TableName":"delta1"},{"TableName":"gamma"}]}"#;
    let full = r#"{"odata.metadata":"BASE/$metadata#Tables","value":[{"odata.type":"devstoreaccount1.Tables","odata.id":"BASE/Tables('Alpha')","odata.editLink":"Tables('Alpha')","TableName":"Alpha"}]}"#;
    check(
        &Server::with_tables(&TABLES),
        [
            get("/Tables").ok(200).json(minimal),
            get("/Tables()").with("Accept", "application/json").ok(200).json(minimal),
            get("/Tables?$filter=TableName%20lt%20'b'").level("fullmetadata").ok(200).json(full),
            finds("", &["Alpha", "beta", "delta1", "gamma"]),
        ],
    );
    check(&Server::start(), [finds("", &[])]);
}

#[test]
fn pages_and_tokens() {
    // The token has the lower-case name, which the service follows by U+0001 and a creation stamp (04 §6).
    let next = "x-ms-continuation-nexttablename";
    let stamped = "NextTableName=1!16!YmV0YQEwMDAwMDAw"; // beta, U+0001, digits
    check(
        &Server::with_tables(&TABLES),
        [
            finds("?$top=2", &["Alpha", "beta"]).header(next, "1!8!ZGVsdGEx"),
            finds("?$top=2&NextTableName=1!8!ZGVsdGEx", &["delta1", "gamma"]),
            finds(&format!("?$top=1&{stamped}"), &["beta"]).header(next, "1!8!ZGVsdGEx"),
            finds("?NextTableName=Delta1", &["delta1", "gamma"]),
            finds("?$top=4", &["Alpha", "beta", "delta1", "gamma"]),
            finds("?$top=0", &[]),
            // The page looks ahead for the next match (04 §5).
            finds("?$top=1&$filter=TableName%20lt%20'b'", &["Alpha"]),
            finds("?$top=1&$filter=TableName%20ge%20'b'", &["beta"]).header(next, "1!8!ZGVsdGEx"),
        ],
    );
}

#[test]
fn filters() {
    check(
        &Server::with_tables(&TABLES),
        [
            finds("?$filter=TableName%20eq%20'ALPHA'", &["Alpha"]),
            finds("?$filter=TableName%20ge%20'b'%20and%20TableName%20lt%20'b%7B'", &["beta"]),
            finds("?$filter=not%20(TableName%20eq%20'beta')", &["Alpha", "delta1", "gamma"]),
            finds("?$filter=", &["Alpha", "beta", "delta1", "gamma"]),
        ],
    );
}

/// An extension (`docs/extensions.md`).
#[test]
fn string_functions() {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&TABLES);
    let token = "x-ms-continuation-nexttablename";
    check(
        &server,
        [
            finds("?$filter=startswith(TableName,'AL')", &["Alpha"]),
            finds("?$top=1&$filter=contains(TableName,'ta')", &["beta"]).header(token, "1!8!ZGVsdGEx"),
            get("/Tables?$filter=startswith(Color,'r')").fails(400, "InvalidInput", Query),
        ],
    );
}

#[test]
fn without_extensions_there_are_no_functions() {
    let query = get("/Tables?$filter=startswith(TableName,'a')");
    check(&Server::with_tables(&TABLES), [query.fails(501, "NotImplemented", Query)]);
}

#[test]
fn options_that_are_refused() {
    // 04 §7: `$top` is checked before the filter.
    let generic = "One of the request inputs is not valid.";
    check(
        &Server::with_tables(&TABLES),
        [
            get("/Tables?$top=-1&$filter=x").fails(400, "InvalidInput", Storage).says(generic),
            get("/Tables?$top=1001").fails(400, "InvalidInput", Storage).says(generic),
            get("/Tables?$filter=Color%20eq%20'red'").fails(400, "InvalidInput", Query).says(generic),
            get("/Tables?$filter=aaa%20bbb%20ccc")
                .fails(400, "InvalidInput", Query)
                .says("Syntax error at position 7 in 'aaa bbb ccc'."),
            get("/Tables?$orderby=TableName").fails(501, "NotImplemented", Storage),
            get("/Tables?NextTableName=1!4!x").fails(400, "InvalidInput", Query),
            get("/Tables?$select=TableName%20Color")
                .fails(400, "InvalidInput", Query)
                .says("Term 'TableName Color' is not valid in a $select or $expand expression."),
            get("/Tables('cars')?$select=%27").fails(400, "InvalidInput", Query),
            get("/Tables?$select=TableName,Color").fails(400, "InvalidInput", Query).says(generic),
            get("/Tables('beta')?$select=*").level("nometadata").ok(200).json(r#"{"TableName":"beta"}"#),
        ],
    );
}
