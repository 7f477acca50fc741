//! Insert Entity (02 §5.1).

use super::{ENTITY, entity, properties};
use crate::Layer::{Format, Query, Storage};
use crate::{Case, Server, check, etag, get, post, put, timestamp};

const LOCATION: &str = "BASE/cars(PartitionKey='p',RowKey='r')";

fn insert(more: &str) -> Case {
    post("/cars", &entity("r", more))
}

#[test]
fn the_response_contains_the_stored_entity() {
    // 03 §3.2
    let properties = r#","Model":"K\u00e9strel","Doors":4,"Weight":981.5,"Ready":true,"Serial@odata.type":"Edm.Int64","Serial":"9007199254740993","Built@odata.type":"Edm.DateTime","Built":"2023-11-05T06:30:00Z","Blob@odata.type":"Edm.Binary","Blob":"AQIDBA==","Tag@odata.type":"Edm.Guid","Tag":"0b0c0d0e-1111-4222-8333-444455556666""#;
    let untyped = properties.replace(r#""Serial@odata.type":"Edm.Int64","#, "");
    let untyped = untyped.replace(r#""Built@odata.type":"Edm.DateTime","#, "");
    let untyped = untyped.replace(r#""Blob@odata.type":"Edm.Binary","#, "");
    let untyped = untyped.replace(r#""Tag@odata.type":"Edm.Guid","#, "");
    let quoted = etag(0).replace('"', "\\\"");
    let keys = r#""PartitionKey":"p","RowKey":"r""#;
    let stamp = timestamp(0);
    let metadata = "\"odata.metadata\":\"BASE/$metadata#cars/@Element\"";
    let minimal = format!(r#"{{{metadata},"odata.etag":"{quoted}",{keys},"Timestamp":"{stamp}"{properties}}}"#);
    let none = format!(r#"{{{keys},"Timestamp":"{stamp}"{untyped}}}"#);
    let full = format!(
        r#"{{{metadata},"odata.type":"devstoreaccount1.cars","odata.id":"{LOCATION}","odata.etag":"{quoted}","odata.editLink":"cars(PartitionKey='p',RowKey='r')",{keys},"Timestamp@odata.type":"Edm.DateTime","Timestamp":"{stamp}"{properties}}}"#
    );
    for (level, json) in [("minimalmetadata", &minimal), ("nometadata", &none), ("fullmetadata", &full)] {
        let created = |case: Case| case.level(level).ok(201).header("etag", etag(0)).header("location", LOCATION);
        let server = Server::with_tables(&["cars"]);
        check(&server, [created(insert(properties)).json(json)]);
        check(&server, [get(ENTITY).level(level).ok(200).header("etag", etag(0)).json(json)]);
    }
    // Other forms of the same values (01 §6.5)
    let other_forms = properties
        .replace("9007199254740993", " +9007199254740993 ")
        .replace("AQIDBA==", "AQ\\r\\nIDBA==")
        .replace("0b0c0d0e-1111-4222-8333-444455556666", "{0B0C0D0E-1111-4222-8333-444455556666}");
    let created = insert(&other_forms).ok(201).header("etag", etag(0)).header("location", LOCATION);
    // A charset that is not read (03 §1.4)
    let foreign = insert(",\"A\":\"é\"").with("Content-Type", "application/json;charset=iso-8859-1");
    check(
        &Server::with_tables(&["cars"]),
        [foreign.fails(415, "MediaTypeNotSupported", Format), created.json(&minimal)],
    );
    // At 2014-02-14, minimal metadata has no ETag (03 §3.4).
    let early = minimal.replacen(&format!(r#""odata.etag":"{quoted}","#), "", 1);
    let case = insert(properties).version("2014-02-14");
    let server = Server::with_tables(&["cars"]);
    check(&server, [case.ok(201).header("etag", etag(0)).header("location", LOCATION).json(&early)]);
}

#[test]
fn preferences() {
    let server = Server::with_tables(&["cars"]);
    check(
        &server,
        [
            insert("")
                .with("Prefer", "return-no-content")
                .ok(204)
                .header("etag", etag(0))
                .header("location", LOCATION)
                .header("dataserviceid", LOCATION)
                .header("preference-applied", "return-no-content"),
            post("/cars", &entity("s", ""))
                .with("Prefer", "return-content")
                .level("nometadata")
                .ok(201)
                .header("etag", etag(1))
                .header("location", LOCATION.replace("'r'", "'s'"))
                .header("preference-applied", "return-content")
                .json(&format!(r#"{{"PartitionKey":"p","RowKey":"s","Timestamp":"{}"}}"#, timestamp(1))),
            // An error repeats the preference (02 §4.3).
            insert("")
                .with("Prefer", "return-no-content")
                .fails(409, "EntityAlreadyExists", Storage)
                .says("The specified entity already exists.")
                .header("preference-applied", "return-no-content"),
        ],
    );
}

#[test]
fn atom() {
    let body = |row| {
        format!(
            r#"<entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><m:properties><d:PartitionKey>p</d:PartitionKey><d:RowKey>{row}</d:RowKey><d:Doors m:type="Edm.Int32">4</d:Doors><d:Model> K </d:Model><d:None m:null="true" /></m:properties></content></entry>"#
        )
    };
    // 03 §5.3
    let entry = format!(
        r#"<?xml version="1.0" encoding="utf-8"?><entry xml:base="BASE/" xmlns="http://www.w3.org/2005/Atom" xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" m:etag="{}"><id>{LOCATION}</id><category term="devstoreaccount1.cars" scheme="http://schemas.microsoft.com/ado/2007/08/dataservices/scheme" /><link rel="edit" title="cars" href="cars(PartitionKey='p',RowKey='r')" /><title /><updated>2031-03-14T08:15:30Z</updated><author><name /></author><content type="application/xml"><m:properties><d:PartitionKey>p</d:PartitionKey><d:RowKey>r</d:RowKey><d:Timestamp m:type="Edm.DateTime">{}</d:Timestamp><d:Doors m:type="Edm.Int32">4</d:Doors><d:Model xml:space="preserve"> K </d:Model></m:properties></content></entry>"#,
        etag(0).replace('"', "&quot;"),
        timestamp(0)
    );
    let content_type = "application/atom+xml;type=entry;charset=utf-8";
    let created = |case: Case| case.ok(201).header("etag", etag(0)).header("location", LOCATION);
    let server = Server::with_tables(&["cars"]);
    check(&server, [created(post("/cars", &body("r")).atom()).text(content_type, &entry)]);
    check(&server, [post("/cars", &body("r")).atom().fails(409, "EntityAlreadyExists", Storage).in_xml()]);
    // Before 2013-08-15, `Prefer` is ignored (02 §5.1).
    let early = post("/cars", &body("s")).atom().version("2012-02-12").with("Prefer", "return-no-content");
    check(&server, [early.answers(201, None)]);
}

/// 01 §4
#[test]
fn dashes_in_names_before_versions_had_numbers() {
    let body = |row: &str, name: &str| {
        format!(
            r#"<entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><m:properties><d:PartitionKey>p</d:PartitionKey><d:RowKey>{row}</d:RowKey><d:{name}>x</d:{name}></m:properties></content></entry>"#
        )
    };
    let insert = |row: &str, name: &str| post("/cars", &body(row, name)).atom().version("");
    let server = Server::with_tables(&["cars"]);
    check(
        &server,
        [
            insert("r", "Top-Speed").answers(201, None),
            insert("s", "_-1-").answers(201, None),
            insert("t", "Top-Speed").version("2009-04-14").fails(400, "PropertyNameInvalid", Query).in_xml(),
            insert("t", "Top.Speed").answers(400, "PropertyNameInvalid"),
            // A condition makes it an update, which every version has.
            put("/cars(PartitionKey='p',RowKey='s')", &body("s", "Wind-Up"))
                .atom()
                .version("")
                .with("If-Match", "*")
                .answers(204, None),
            // Every version reads the name.
            get("/cars(PartitionKey='p',RowKey='r')").level("nometadata").ok(200).header("etag", etag(0)).json(
                &format!(r#"{{"PartitionKey":"p","RowKey":"r","Timestamp":"{}","Top-Speed":"x"}}"#, timestamp(0)),
            ),
        ],
    );
}

#[test]
fn keys_in_urls() {
    // 02 §5.1, 03 §4: keys are percent-encoded, with quotes doubled.
    let body = r#"{"PartitionKey":"a b'c","RowKey":"é,$&+:=@\"!*()-_.~"}"#;
    let location = "BASE/cars(PartitionKey='a%20b''c',RowKey='%C3%A9%2C%24%26%2B%3A%3D%40%22!*()-_.~')";
    let empty = "BASE/cars(PartitionKey='',RowKey='')";
    let created = |case: Case, location: &str, write| {
        let case = case.with("Prefer", "return-no-content").ok(204).header("preference-applied", "return-no-content");
        case.header("etag", etag(write)).header("location", location).header("dataserviceid", location)
    };
    check(
        &Server::with_tables(&["cars"]),
        [
            created(post("/cars()", body), location, 0),
            created(post("/cars", r#"{"PartitionKey":"","RowKey":""}"#), empty, 1),
        ],
    );
}

#[test]
fn bodies_that_are_refused() {
    let malformed = "An error occurred while processing this request.";
    let generic = "One of the request inputs is not valid.";
    let incomplete = "The values are not specified for all properties in the entity.";
    let too_large = "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";
    let huge = "The entity is larger than the maximum allowed size (1MB).";
    let with = |members: &str| post("/cars", &entity("r", members));
    let names = format!(",{}", properties(0..253));
    let binary = |bytes: usize| format!(r#","B@odata.type":"Edm.Binary","B":"{}""#, "A".repeat(bytes.div_ceil(3) * 4));
    let bytes: String = (0..17).map(|number| binary(65_535).replace("\"B", &format!("\"B{number}"))).collect();
    let key = |key: &str| post("/cars", &format!(r#"{{"PartitionKey":"p","RowKey":"{key}"}}"#));
    check(
        &Server::with_tables(&["cars"]),
        [
            post("/cars", "").fails(400, "InvalidInput", Query).says(malformed),
            post("/cars", "[]").fails(400, "InvalidInput", Query).says(malformed),
            with(",").fails(400, "InvalidInput", Query).says(malformed),
            with(r#","A":{}"#).fails(400, "InvalidInput", Query).because("property-value: The value of A is an object"),
            with(r#","A":1,"A":2"#).fails(400, "InvalidInput", Query),
            with(r#","A@odata.type":"Edm.Int64","A":"x""#).fails(400, "InvalidInput", Query),
            // Keys (01 §3)
            post("/cars", r#"{"PartitionKey":"p"}"#).fails(400, "PropertiesNeedValue", Storage).says(incomplete),
            post("/cars", r#"{"PartitionKey":null,"RowKey":"r"}"#).fails(400, "PropertiesNeedValue", Storage),
            post("/cars", r#"{"PartitionKey":1,"RowKey":"r"}"#).fails(400, "InvalidInput", Query).says(generic),
            key("a/b")
                .fails(400, "OutOfRangeInput", Query)
                .says("The 'RowKey' parameter of value 'a/b' is out of range."),
            key(&"k".repeat(513))
                .fails(400, "PropertyValueTooLarge", Storage)
                .says(too_large)
                .because("key-too-long: The RowKey has 513 characters; the limit is 512."),
            // Properties (01 §4, §5)
            with(&format!(",\"{}\":1", "n".repeat(256))).fails(400, "PropertyNameTooLong", Storage),
            with(",\"a-b\":1").fails(400, "PropertyNameInvalid", Query).says("The property name is invalid."),
            with(&names).fails(400, "TooManyProperties", Storage).because("properties-too-many: The request has 253"),
            with(&format!(",\"A\":\"{}\"", "x".repeat(32_769))).fails(400, "PropertyValueTooLarge", Storage),
            with(&binary(65_538))
                .fails(400, "PropertyValueTooLarge", Storage)
                .says(too_large)
                .because("value-too-large: The binary "),
            // The total comes before single values (06 §6).
            with(&(bytes.clone() + &binary(65_538))).fails(400, "EntityTooLarge", Storage).says(huge),
            with(r#","D@odata.type":"Edm.DateTime","D":"1600-01-01T00:00:00Z""#)
                .fails(400, "OutOfRangeInput", Query)
                .says("The 'D' parameter of value '01/01/1600 00:00:00' is out of range."),
            with("")
                .with("Content-Type", "text/plain")
                .fails(415, "MediaTypeNotSupported", Format)
                .because("format-unsupported: No media type"),
            get("/cars()").level("nometadata").ok(200).json(r#"{"value":[]}"#),
            // The limits themselves are allowed.
            with(&format!(",\"{}\":\"{}\"", "n".repeat(255), "x".repeat(32_768))).answers(201, None),
            post("/cars", &entity(&"k".repeat(512), &names.replace(",\"P252\":1", ""))).answers(201, None),
        ],
    );
}

#[test]
fn tables_that_do_not_exist() {
    let missing = "The table specified does not exist.";
    let to = |table: &str| post(&format!("/{table}"), &entity("r", ""));
    check(
        &Server::with_tables(&["cars"]),
        [
            to("other").fails(404, "TableNotFound", Query).says(missing),
            // Missing keys come after the table (06 §6), a malformed body before it.
            post("/other", "{}").fails(404, "TableNotFound", Query),
            post("/other", "{").fails(400, "InvalidInput", Query),
            // Bad names (01 §2)
            to("a-b").fails(400, "InvalidResourceName", Query),
            to("ab").fails(400, "OutOfRangeInput", Query),
            to("$MetricsHourPrimaryTransactionsTable").fails(404, "TableNotFound", Query),
            // A table in front of another resource (02 §1)
            post("/cars/Tables", r#"{"TableName":"x"}"#).fails(400, "PropertiesNeedValue", Storage),
            post("/other/Tables", r#"{"TableName":"x"}"#).fails(404, "TableNotFound", Query),
        ],
    );
}
