//! The header that tells why a request is refused: one case for each family of reasons, and what clients without a
//! valid credential get. The rules are tested where they are implemented.

use crate::case::{Case, check, delete, get, post, put, signature, signature_of};
use crate::server::{Server, accounts};
use rowhouse_server::{ReasonAudience, ReasonSettings};
use std::fmt::Write;
use test_support::{ACCOUNT, KEY, Response, transact};

const REASON: &str = "x-ms-rowhouse-reason";
const DATE: &str = "Fri, 14 Mar 2031 08:15:30 GMT";
const SECRET_ACCOUNT: &str = "secretaccount1";
const SECRET_KEY: &str = "AAECAwQFBgcICQoLDA0ODw==";
const NO_SIGNATURE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

fn send(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: 2019-02-02\r\n");
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    let mut client = server.client();
    client.send((request + "\r\n").as_bytes()).unwrap();
    client.receive().unwrap()
}

#[test]
fn refused_credentials() {
    let server = Server::with_tables(&["cars"]);
    let authorized = |value: &str| get("/Tables").authorized(value);
    let outdated = signature("r", |fields| fields.expiry = "2031-03-13".into());
    let restricted = |permissions| signature(permissions, |fields| fields.start_partition = "m".into());
    check(
        &server,
        [
            authorized("SharedKey devstoreaccount1")
                .answers(400, "InvalidAuthenticationInfo")
                .because("authorization-malformed: "),
            authorized("Basic x")
                .answers(400, "InvalidAuthenticationInfo")
                .because("authorization-scheme: The Authorization"),
            authorized("Bearer x")
                .answers(400, "InvalidAuthenticationInfo")
                .because("authorization-scheme: This server"),
            authorized("").answers(404, "ResourceNotFound").because("credential-missing: "),
            get("/Tables").without("x-ms-date").answers(403, "AuthenticationFailed").because("date-missing: "),
            get("/Tables")
                .with("x-ms-date", "Fri, 14 Mar 2031 07:15:30 GMT")
                .answers(403, "AuthenticationFailed")
                .because("date-skewed: The x-ms-date header is 60 minutes behind the server's clock"),
            get("/cars()").signed(&outdated).answers(403, "AuthenticationFailed").because("sas-expired: "),
            post("/cars", "{}")
                .signed(&signature("r", |_| {}))
                .answers(403, "AuthorizationPermissionMismatch")
                .because("permission-denied: The operation needs 'a' "),
            get("/bikes()")
                .signed(&signature("r", |_| {}))
                .answers(403, "AuthorizationFailure")
                .because("table-denied: "),
            get("/cars(PartitionKey='a',RowKey='b')")
                .signed(&restricted("r"))
                .answers(404, "ResourceNotFound")
                .because("range-denied: "),
            get("/?restype=service&comp=properties")
                .signed(&signature("r", |_| {}))
                .answers(403, "AuthorizationFailure")
                .because("operation-denied: "),
        ],
    );
    server.wait_for_log("sas-expired: The shared access signature expired 32 hours ago");
}

#[test]
fn refused_headers_methods_and_urls() {
    let server = Server::with_tables(&["cars"]);
    let entity = "/cars(PartitionKey='a',RowKey='b')";
    check(
        &server,
        [
            get("/Tables")
                .version("2019-02-03")
                .answers(400, "InvalidHeaderValue")
                .because("version-unknown: The service has"),
            get("/Tables")
                .with("MaxDataServiceVersion", "4.0")
                .answers(400, "InvalidHeaderValue")
                .because("data-service-version: "),
            get("/Tables")
                .with("x-ms-client-request-id", "x".repeat(1025))
                .answers(400, "InvalidHeaderValue")
                .because("client-request-id: "),
            put(entity, "{}")
                .with("If-Match", "\"x\"")
                .answers(400, "InvalidInput")
                .because("etag-malformed: The ETag in"),
            put(entity, "{}").with("If-Match", "W/\"x\"").answers(412, "ConditionNotMet").because("etag-foreign: "),
            delete(entity).answers(400, "MissingRequiredHeader").because("if-match-missing: "),
            post("/Tables", "{}")
                .with("Content-MD5", "x")
                .answers(400, "InvalidMd5")
                .because("content-md5-malformed: "),
            put("/Tables", "{}")
                .with("X-HTTP-Method", "MERGE")
                .answers(400, "XMethodNotUsingPost")
                .because("tunnelled-method: X-HTTP-Method is given in a request other than POST."),
            post(entity, "{}").answers(405, "MethodNotAllowed").because(
                "method-not-allowed: The resource in the URL does not have the method POST; it has DELETE, GET, MERGE",
            ),
            delete("/cars")
                .answers(405, "MethodNotAllowed")
                .because("extensions-off: Deleting the entities of a table"),
            get("/cars?comp=retention").answers(400, "InvalidQueryParameterValue").because("extensions-off: "),
            get("/cars?comp=x").answers(400, "InvalidQueryParameterValue").because("comp-unknown: "),
            get("/?comp=properties").answers(400, "MissingRequiredQueryParameter").because("comp-incomplete: "),
            get("/").answers(501, "NotImplemented").because("document-missing: "),
            get("/cars/$count").answers(501, "NotImplemented").because("extensions-off: Counting"),
            get("/cars()/$count").answers(400, "InvalidInput").because("extensions-off: Counting"),
            get("/$Changescars()").answers(400, "InvalidResourceName").because("extensions-off: The change feed"),
            get("/$ByTotalOfcars()").answers(400, "InvalidResourceName").because("extensions-off: An ordered view"),
            Case::new("OPTIONS", "/cars", "")
                .with("Origin", "http://page.example")
                .with("Access-Control-Request-Method", "GET")
                .answers(403, "CorsPreflightFailure")
                .because("cors-rule-missing: "),
            get("/cars(PartitionKey=a,RowKey='b')")
                .answers(400, "InvalidInput")
                .because("url-malformed: A key in the URL has no"),
            get("/Tables(cars)").answers(400, "InvalidInput").because("url-malformed: "),
            delete("/cars(PartitionKey='a')")
                .with("If-Match", "*")
                .answers(400, "InvalidInput")
                .because("url-keys: The URL has PartitionKey, but RowKey is missing."),
            get("/?restype=service&comp=stats")
                .answers(400, "InvalidQueryParameterValue")
                .because("stats-on-primary: "),
            Case::new("OPTIONS", "/Tables", "").answers(400, "InvalidHeaderValue").because("cors-header-missing: "),
        ],
    );
    let twice = send(&server, "/devstoreaccount1/Tables", &[("Host", "x")]);
    assert!(twice.header(REASON).unwrap().starts_with("host-invalid: The Host header is given twice."), "{twice:?}");
}

#[test]
fn refused_batches() {
    let server = Server::with_tables(&["cars", "bikes"]);
    let mut client = server.client();
    let insert = |table: &str, partition: &str, row: usize| {
        let body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}");
        format!("POST /{table} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{body}")
    };
    let many: Vec<_> = (0..103).map(|row| insert("cars", "p", row)).collect();
    let query = "GET /cars(PartitionKey='p',RowKey='r') HTTP/1.1\r\n".to_owned();
    for (operations, reason) in [
        (many, "batch-too-long: operation 99 of the batch: The changeset has 103 operations; the limit is 100."),
        (vec![insert("cars", "p", 0), insert("cars", "q", 1)], "batch-partitions: operation 1 of the batch: "),
        (vec![insert("cars", "p", 0), insert("bikes", "p", 1)], "batch-tables: operation 1 of the batch: "),
        (vec![insert("cars", "p", 0), insert("cars", "p", 0)], "batch-duplicate: operation 1 of the batch: "),
        (vec![insert("cars", "p", 0), query], "batch-mixed: operation 1 of the batch: A query is in a changeset."),
        (
            vec![insert("cars", "p", 0), "hello".to_owned()],
            "batch-malformed: operation 1 of the batch: The batch is malformed",
        ),
        (vec![insert("Tables", "p", 0)], "batch-operation: operation 0 of the batch: "),
        (
            vec![insert("cars", "p", 0).replace("/cars", "http://other.table.example/cars")],
            "batch-part-url: operation 0 of the batch: ",
        ),
    ] {
        let response = transact(&mut client, &operations).unwrap();
        let told = response.header(REASON).unwrap_or_default();
        assert!(response.status == 202 && told.starts_with(reason), "{told}, expected {reason}");
    }
    let batch = post("/$batch", "").with("Content-Type", "multipart/mixed");
    check(&server, [batch.answers(400, "InvalidInput").because("batch-content-type: ")]);
}

#[test]
fn refused_xml() {
    let server = Server::with(|settings| settings.extensions = true);
    server.create(&["cars"]);
    let properties = "/?restype=service&comp=properties";
    check(
        &server,
        [
            put("/cars?comp=acl", "<SignedIdentifiers><x/></SignedIdentifiers>")
                .answers(400, "InvalidXmlDocument")
                .because("xml-element: The body contains an XML element that is not allowed there, or that occurs twice. Given: 'x'."),
            put("/cars?comp=acl", "x").answers(400, "InvalidXmlDocument").because("xml-malformed: "),
            put("/cars?comp=retention", "<TableRetention><Seconds>x</Seconds></TableRetention>")
                .answers(400, "InvalidXmlDocument")
                .because("xml-value: Seconds must be"),
            put("/cars?comp=indexes", "<TableIndexes><TableIndex/></TableIndexes>")
                .answers(400, "InvalidXmlDocument")
                .because("xml-element: A TableIndex has no element Property."),
            put(properties, "<StorageServiceProperties><Logging/></StorageServiceProperties>")
                .answers(400, "InvalidXmlDocument")
                .because("xml-element: The service properties are refused: the element 'Version' is missing."),
        ],
    );
}

/// Whoever has no valid credential must not learn from a reason whether an account, a key or a policy exists.
#[test]
fn reasons_do_not_depend_on_accounts_and_signatures() {
    let everyone = ReasonSettings { header: ReasonAudience::Everyone, ..ReasonSettings::default() };
    let access = accounts(&format!("{ACCOUNT}:{KEY};{SECRET_ACCOUNT}:{SECRET_KEY}"));
    let server = Server::with_access(access, |settings| settings.reasons = everyone);
    let told = |account: &str, query: &str, headers: &[(&str, &str)]| {
        let response = send(&server, &format!("/{account}/cars(){query}"), headers);
        (response.status, response.header(REASON).map(|told| told.replace(account, "ACCOUNT")))
    };
    let signed = |change: &str| format!("SharedKey {change}:{NO_SIGNATURE}");
    for (query, signer, date, is_told) in [
        ("", None, DATE, true),
        ("", Some("another"), DATE, true),
        ("", Some("same"), "Fri, 14 Mar 2031 07:15:30 GMT", true),
        ("", Some("same"), DATE, false),
        ("?sv=2019-02-02&tn=cars&sp=r&se=2031-03-13&sig=x", None, DATE, true),
        (
            "?sv=2019-02-02&tn=cars&sp=r&se=2031-03-13&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D",
            None,
            DATE,
            true,
        ),
        (
            "?sv=2019-02-02&tn=cars&sp=r&se=2031-03-15&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D",
            None,
            DATE,
            false,
        ),
        ("?sv=2019-02-02&tn=cars&si=pol&sig=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D", None, DATE, false),
    ] {
        let [existing, missing] = [SECRET_ACCOUNT, "missingaccount1"].map(|account| {
            let authorization = signer.map(|signer| signed(if signer == "same" { account } else { signer }));
            let mut headers = vec![("x-ms-date", date)];
            headers.extend(authorization.as_deref().map(|value| ("Authorization", value)));
            told(account, query, &headers)
        });
        assert_eq!(existing, missing, "{query} {signer:?}");
        assert_eq!(existing.1.is_some(), is_told, "{query} {signer:?}: {existing:?}");
    }
    // A signature that is right, except that its policy does not exist, is told nothing either.
    let by_policy = |account, key| {
        signature_of(account, key, "", |fields| (fields.policy, fields.expiry) = ("pol".into(), "".into()))
    };
    let told_by_policy = |account, key| told(account, &format!("?{}", by_policy(account, key)), &[]);
    assert_eq!(told_by_policy(SECRET_ACCOUNT, SECRET_KEY), (403, None));
    server.wait_for_log("policies of the table (Get Table ACL). code=\"AuthenticationFailed\"");
    // An expired signature is told the same, whether it is right or not.
    let outdated = signature_of(SECRET_ACCOUNT, SECRET_KEY, "r", |fields| fields.expiry = "2031-03-13".into());
    let forged = outdated.replace("sp=r", "sp=ra");
    let [right, wrong] = [outdated, forged].map(|query| told(SECRET_ACCOUNT, &format!("?{query}"), &[]));
    assert_eq!(right, wrong);
    assert!(right.1.unwrap().starts_with("sas-expired: "));
    // The key of the development account is public, so a wrong signature has nothing to hide.
    let (status, reason) = told_by_policy(ACCOUNT, KEY);
    assert!(status == 403 && reason.is_some_and(|reason| reason.starts_with("sas-policy: ")));
    let authorization = signed(ACCOUNT);
    let headers = [("x-ms-date", DATE), ("Authorization", authorization.as_str())];
    let (status, reason) = told(ACCOUNT, "", &headers);
    assert!(status == 403 && reason.is_some_and(|reason| reason.starts_with("signature-mismatch: ")));
    // A web page that made its own name resolve to this machine learns nothing.
    let mut client = server.client();
    let page = format!("GET /{ACCOUNT}/cars()?{} HTTP/1.1\r\nHost: page.example\r\n\r\n", by_policy(ACCOUNT, KEY));
    client.send(page.as_bytes()).unwrap();
    let response = client.receive().unwrap();
    assert_eq!((response.status, response.header(REASON)), (403, None));
}
