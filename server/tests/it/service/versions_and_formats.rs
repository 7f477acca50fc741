//! Versions (02 §7, §8) and formats (03 §1).

use crate::Layer::{Format, FrontEnd, Query, Storage};
use crate::{Case, Server, check, delete, get, merge, post, put, signature};

fn tables() -> Case {
    get("/Tables")
}

const NONE: &str = r#"{"value":[{"TableName":"cars"}]}"#;

#[test]
fn versions_that_are_known() {
    let listed = |version: &str| tables().version(version).level("nometadata").ok(200).json(NONE);
    let unknown = |version: &str| tables().version(version).fails(400, "InvalidHeaderValue", FrontEnd);
    let known = ["2013-08-15", "2015-12-11", "2019-02-02", "2020-12-06", "2026-12-06"];
    let server = Server::with_tables(&["cars"]);
    check(&server, known.map(listed));
    // Any date after the newest known version (02 §7)
    check(&server, [listed("2031-01-01")]);
    // The version of a rejected request is not repeated.
    for version in ["2013-08-16", "2019-02-30", "latest"] {
        let response = unknown(version).send(&mut server.client());
        let told = (response.status, response.header("x-ms-error-code"), response.header("x-ms-version"));
        assert_eq!(told, (400, Some("InvalidHeaderValue"), None), "{version}");
    }
    // Without a version, the oldest behavior, which names no version either.
    let oldest = tables().without("x-ms-version").with("Accept", "application/atom+xml").answers(200, None);
    check(&server, [oldest, tables().without("x-ms-version").answers(415, "JsonFormatNotSupported")]);
    // Versions before 2009-09-19 are not named either (02 §7).
    let response = tables().version("2009-04-14").with("Accept", "application/atom+xml").send(&mut server.client());
    assert_eq!((response.status, response.header("x-ms-version")), (200, None));
    let response = tables().without("x-ms-version").with("Accept", "application/atom+xml").send(&mut server.client());
    assert_eq!(response.header("x-ms-version"), None);
}

#[test]
fn formats_of_responses() {
    let of = |accept: &str| tables().with("Accept", accept);
    let json = |level: &str| format!("application/json;odata={level};streaming=true;charset=utf-8");
    let minimal = r#"{"odata.metadata":"BASE/$metadata#Tables","value":[{"TableName":"cars"}]}"#;
    let atom = "Atom format is not supported.";
    let server = Server::with_tables(&["cars"]);
    check(
        &server,
        [
            of("application/json").ok(200).text(&json("minimalmetadata"), minimal),
            of("Application/JSON; OData=NoMetadata; charset=utf-8").ok(200).text(&json("nometadata"), NONE),
            of("text/plain, application/json;odata=nometadata").ok(200).text(&json("nometadata"), NONE),
            of("*/*").ok(200).text(&json("minimalmetadata"), minimal),
            get("/Tables?$format=json").with("Accept", "text/plain").ok(200).text(&json("minimalmetadata"), minimal),
            // 03 §1.3
            of("application/atom+xml").fails(415, "AtomFormatNotSupported", Format).in_xml().says(atom),
            tables().without("Accept").fails(415, "AtomFormatNotSupported", Format).in_xml().says(atom),
            of("text/plain")
                .fails(415, "MediaTypeNotSupported", Format)
                .in_xml()
                .says("None of the provided media types are supported"),
            of("application/json;odata=verbose").fails(415, "JsonVerboseFormatNotSupported", Format).in_xml(),
            tables()
                .version("2012-02-12")
                .fails(415, "JsonFormatNotSupported", Format)
                .says("JSON format is not supported."),
            of("text/plain").version("2011-08-18").fails(415, "MediaTypeNotSupported", Format).in_xml(),
            tables().with("DataServiceVersion", "1.0").fails(415, "JsonFormatNotSupported", Format),
            tables()
                .with("DataServiceVersion", "1.0;")
                .with("MaxDataServiceVersion", "3.0;NetFx")
                .ok(200)
                .json(minimal),
        ],
    );
    // Atom: by default and for `*/*` before 2015-12-11.
    for case in [tables().without("Accept"), of("*/*"), of("application/atom+xml,application/xml")] {
        let response = case.version("2015-07-08").send(&mut server.client());
        assert_eq!(
            response.header("content-type"),
            Some("application/atom+xml;type=feed;charset=utf-8"),
            "{response:?}"
        );
    }
}

/// 03 §5.5
#[test]
fn versions_in_the_first_form() {
    let server = Server::with_tables(&["cars"]);
    let feed = "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<feed xml:base=\"BASE/\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" xmlns=\"http://www.w3.org/2005/Atom\">\r\n  <title type=\"text\">cars</title>\r\n  <id>BASE/cars</id>\r\n  <updated>2031-03-14T08:15:30Z</updated>\r\n  <author>\r\n    <name />\r\n  </author>\r\n  <link rel=\"self\" title=\"cars\" href=\"cars\" />\r\n</feed>";
    let missing = "/cars(PartitionKey='p',RowKey='r')";
    for version in ["2009-04-14", "2009-09-19", "2011-08-18", ""] {
        check(
            &server,
            [
                get("/cars").atom().version(version).ok(200).text("application/atom+xml;charset=utf-8", feed),
                get(missing).atom().version(version).fails(404, "ResourceNotFound", Storage).in_xml(),
                get("/cars?$filter=(").atom().version(version).fails(400, "InvalidInput", Query).in_xml(),
                delete(missing)
                    .with("If-Match", "*")
                    .atom()
                    .version(version)
                    .fails(404, "ResourceNotFound", Storage)
                    .in_xml(),
                put("/?restype=service&comp=stats", "").version(version).fails(405, "UnsupportedHttpVerb", FrontEnd),
            ],
        );
    }
}

#[test]
fn formats_of_bodies() {
    let server = Server::start();
    let create = |name: &str, content_type: &str| {
        post("/Tables", &format!("{{\"TableName\":\"{name}\"}}")).with("Content-Type", content_type)
    };
    check(
        &server,
        [
            create("one", "application/json;odata=nometadata;charset=utf-8").answers(201, None),
            create("three", "text/plain").fails(415, "MediaTypeNotSupported", Format),
            create("three", "multipart/mixed").fails(415, "MediaTypeNotSupported", Format),
            create("three", "application/atom+xml").fails(415, "AtomFormatNotSupported", Format),
        ],
    );
}

#[test]
fn every_body_of_entities_or_tables_needs_a_content_type() {
    // 03 §1.3
    let entity = "/cars(PartitionKey='p',RowKey='r')";
    let read_only = signature("r", |_| {});
    let refused = |case: Case| {
        case.without("Content-Type").fails(400, "InvalidInput", Query).says("Content-Type header value missing.")
    };
    let insert = || post("/cars", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    check(
        &Server::with_tables(&["cars"]),
        [
            refused(post("/Tables", r#"{"TableName":"bikes"}"#)),
            refused(insert()),
            refused(insert().level("nometadata")),
            refused(insert().version("2012-02-12").with("Accept", "application/atom+xml")).in_xml(),
            refused(put(entity, "{}")),
            refused(put(entity, "{}").with("If-Match", "*")),
            refused(merge(entity, "{}")),
            refused(Case::new("PATCH", entity, "{}").with("If-Match", "*")),
            refused(post(entity, "{}").with("X-HTTP-Method", "MERGE")),
            // The table, the body and its keys are checked later.
            refused(post("/other", "{")),
            refused(post("/cars", "")),
            refused(post("/$batch", "--b--")),
            // The permission and the length of the body are checked before.
            insert().without("Content-Type").signed(&read_only).answers(403, "AuthorizationPermissionMismatch"),
            post("/cars", "").without("Content-Type").without("Content-Length").fails(
                411,
                "MissingContentLengthHeader",
                Query,
            ),
            // Nothing was written. Operations without a body need no header.
            get("/Tables")
                .without("Content-Type")
                .level("nometadata")
                .ok(200)
                .json(r#"{"value":[{"TableName":"cars"}]}"#),
            get("/cars()").level("nometadata").ok(200).json(r#"{"value":[]}"#),
            insert().answers(201, None),
            delete(entity).without("Content-Type").with("If-Match", "*").ok(204),
        ],
    );
}
