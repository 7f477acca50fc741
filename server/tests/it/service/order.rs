//! Which error comes first (06 §6). In each row, everything from the tested step on is wrong.

use crate::Layer::{Authentication, Format, FrontEnd, Query, Storage};
use crate::{Case, Server, check, get, merge, post, put, signature};

const BAD_SIGNATURE: &str = "SharedKey devstoreaccount1:AAAA";
const AUTHENTICATION: &str = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";

/// An insert into a table that does not exist, of a malformed body.
fn wrong() -> Case {
    post("/other?$top=x", "{").without("Accept").with("If-Match", "x")
}

#[test]
fn each_step_comes_before_the_next() {
    let invalid = "The value for one of the HTTP headers is not in the correct format.";
    let query_only = signature("r", |_| {});
    let long_body = "x".repeat(4 * 1024 * 1024 + 1);
    check(
        &Server::with_tables(&["cars"]),
        [
            // 3. Authentication: before the version, and in the form of `Accept`.
            wrong().version("x").authorized(BAD_SIGNATURE).answers(403, "AuthenticationFailed"),
            get("/other")
                .version("x")
                .authorized(BAD_SIGNATURE)
                .fails(403, "AuthenticationFailed", Authentication)
                .says(AUTHENTICATION),
            get("/other").with("Accept", "text/xml").authorized(BAD_SIGNATURE).fails(
                403,
                "AuthenticationFailed",
                Authentication,
            ),
            Case::new("BREW", "/other('", "").authorized(BAD_SIGNATURE).answers(403, "AuthenticationFailed"),
            // 4. The version: before the permission, the URL, and the format.
            wrong().version("2019-02-03").answers(400, "InvalidHeaderValue"),
            get("/other('").without("Accept").version("yesterday").answers(400, "InvalidHeaderValue"),
            // 6. The URL and the method: before the format of the response is missing, in XML.
            get("/cars(x)").without("Accept").fails(400, "InvalidInput", Query).in_xml(),
            put("/cars", "{").without("Accept").answers(405, "MethodNotAllowed"),
            Case::new("BREW", "/cars", "").fails(400, "InvalidHttpVerb", Query),
            // 5. The permission: before the format, the options, the body and the table.
            post("/cars?$top=x", "{")
                .with("Accept", "text/plain")
                .signed(&query_only)
                .answers(403, "AuthorizationPermissionMismatch"),
            get("/other?$top=x").without("Accept").signed(&query_only).answers(403, "AuthorizationFailure"),
            // 7. The format: before query options, the body, and the table.
            get("/other?$top=x").without("Accept").fails(415, "AtomFormatNotSupported", Format).in_xml(),
            wrong().fails(415, "AtomFormatNotSupported", Format).in_xml(),
            post("/other", "{").with("Content-Type", "text/plain").fails(415, "MediaTypeNotSupported", Format),
            // The media type of the body is checked before the body is received.
            post("/other", &long_body).with("Content-Type", "text/plain").answers(415, "MediaTypeNotSupported"),
            // 8. Query options: `$top`, the filter, the table.
            get("/other?$top=x&$filter=x%20y").fails(400, "InvalidInput", Storage),
            get("/other?$filter=x%20y%20z").fails(400, "InvalidInput", Query),
            // 9. The size of the body, its syntax, its names and keys, and only then the table.
            post("/other", &long_body).fails(413, "RequestBodyTooLarge", Storage),
            post("/other", "{").fails(400, "InvalidInput", Query),
            post("/other", r#"{"PartitionKey":"a/b","RowKey":"r"}"#).fails(400, "OutOfRangeInput", Query),
            // 10. The table, before missing keys.
            post("/other", "{}").fails(404, "TableNotFound", Query),
            // 11. and 12. The condition, the limits, existence, and the ETag.
            merge("/other(PartitionKey='p',RowKey='r')", "{}").with("If-Match", "x").fails(400, "InvalidInput", Query),
            put("/cars(PartitionKey='p',RowKey='r')", &format!("{{\"A\":\"{}\"}}", "x".repeat(32_769)))
                .with("If-Match", "W/\"datetime'x'\"")
                .fails(400, "PropertyValueTooLarge", Storage),
            // Headers that are checked in front of the service.
            get("/cars").with("x-ms-client-request-id", "é").answers(400, "InvalidHeaderValue"),
            get("/cars")
                .with("x-ms-client-request-id", "x".repeat(1025))
                .fails(400, "InvalidHeaderValue", FrontEnd)
                .says(invalid),
            get("/cars").with("MaxDataServiceVersion", "x").fails(400, "InvalidHeaderValue", FrontEnd),
        ],
    );
}

#[test]
fn methods_in_a_header() {
    // 02 §2
    let entity = "/cars(PartitionKey='p',RowKey='r')";

    check(
        &Server::with_tables(&["cars"]),
        [
            put(entity, "{}")
                .with("X-HTTP-Method", "MERGE")
                .fails(400, "XMethodNotUsingPost", Query)
                .says("The request uses X-HTTP-Method with an HTTP verb other than POST."),
            post(entity, "{}")
                .with("X-HTTP-Method", "GET")
                .fails(400, "XMethodIncorrectValue", Query)
                .says("The specified X-HTTP-Method is invalid."),
        ],
    );
}

#[test]
fn bodies_and_their_headers() {
    let insert = || post("/cars", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    check(
        &Server::with_tables(&["cars"]),
        [
            insert().with("Content-MD5", "x").fails(400, "InvalidMd5", Storage),
            insert().with("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==").fails(400, "Md5Mismatch", Storage),
            post("/cars", "").without("Content-Length").fails(411, "MissingContentLengthHeader", Query),
            insert().with("x-ms-client-request-id", "my id").answers(201, None),
            get("/Tables")
                .level("nometadata")
                .with("x-ms-client-request-id", "my id")
                .ok(200)
                .header("x-ms-client-request-id", "my id")
                .json(r#"{"value":[{"TableName":"cars"}]}"#),
        ],
    );
}
