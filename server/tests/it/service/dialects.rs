//! What the server answers as Azure Cosmos DB for Table (11), as complete responses.

use crate::{Server, timestamp};
use model::{AccountName, Dialect};
use rowhouse_server::{Accounts, Targets};
use test_support::{Client, Response, transact};
use wire::signing::{AccountKey, Scheme, SignedRequest};

const ENTITY: &str = "/cars(PartitionKey='p',RowKey='r')";
const LAST_LINE: &str = r"\nRequestID:ID\n";
const ACTIVITY: &str =
    r"\r\nActivityId: ID, documentdb-dotnet-sdk/2.11.0 Host/64-bit MicrosoftWindowsNT/6.2.9200.0\nRequestID:ID\n";

fn cosmos() -> Server {
    let server = Server::with(|settings| settings.dialect = Dialect::Cosmos);
    server.create(&["cars"]);
    server
}

/// Returns a whole response as text: status, headers, body. What is the same in all responses is omitted, and `ID`
/// replaces the request ID.
fn text(response: &Response) -> String {
    let id = response.header("x-ms-request-id").unwrap();
    let omitted = ["date", "server", "content-length", "x-ms-request-id", "x-ms-rowhouse-reason"];
    let mut headers: Vec<_> = response
        .headers
        .iter()
        .filter(|(name, _)| !omitted.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    headers.sort();
    let body = String::from_utf8_lossy(&response.body);
    format!("{}\n{}\n{body}", response.status, headers.concat())
        .replace(id, "ID")
        .replace("http://127.0.0.1/devstoreaccount1", "BASE")
}

fn send(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    text(&client.request(method, path, headers, body.as_bytes()))
}

/// Returns the ETag of the nth write with all seven digits.
fn etag(write: u32) -> String {
    format!("W/\"datetime'{}'\"", stamp(write).replace(':', "%3A"))
}

/// Returns the Timestamp of the nth write with all seven digits.
fn stamp(write: u32) -> String {
    let trimmed = timestamp(write);
    let (second, fraction) = trimmed.trim_end_matches('Z').split_once('.').unwrap();
    format!("{second}.{fraction:0<7}Z")
}

fn failure(status: u16, level: &str, code: &str, message: &str) -> String {
    format!(
        "{status}\ncontent-type: application/json;odata={level}metadata\n\n{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-us\",\"value\":\"{message}\"}}}}}}\r\n"
    )
}

#[test]
fn tables_and_entities_in_the_form_of_cosmos() {
    let server = cosmos();
    let mut client = server.client();
    let created = send(&mut client, "POST", "/Tables", &[], r#"{"TableName":"planes"}"#);
    let tables = r#"{"TableName":"planes","odata.metadata":"BASE/$metadata#Tables/@Element"}"#;
    let head = |location: &str| {
        format!(
            "content-type: application/json;odata=minimalmetadata\netag: W/\"datetime'2031-03-14T08%3A15%3A30.1234567Z'\"\nlocation: BASE/{location}\n"
        )
    };
    assert_eq!(created, format!("201\n{}\n{tables}", head("Tables('planes')")));
    let list = send(&mut client, "GET", "/Tables", &[], "");
    let names = r#"{"value":[{"TableName":"cars"},{"TableName":"planes"}],"odata.metadata":"BASE/$metadata#Tables"}"#;
    assert_eq!(list, format!("200\ncontent-type: application/json;odata=minimalmetadata\n\n{names}"));

    // A property named `Etag` is not stored.
    let body = r#"{"PartitionKey":"p","RowKey":"r","Born@odata.type":"Edm.DateTime","Born":"1973-10-04T00:00:00Z","etag":"1","Etag":"2","N":5}"#;
    let members = |write: u32| {
        format!(
            r#""PartitionKey":"p","RowKey":"r","Born@odata.type":"Edm.DateTime","Born":"1973-10-04T00:00:00.0000000Z","etag":"1","N":5,"Timestamp":"{}"}}"#,
            stamp(write)
        )
    };
    let quoted = |write: u32| etag(write).replace('"', "\\\"");
    let alone = |write: u32| {
        format!(
            r#"{{"odata.metadata":"BASE/cars/$metadata#cars/@Element","odata.etag":"{}",{}"#,
            quoted(write),
            members(write)
        )
    };
    let inserted = send(&mut client, "POST", "/cars", &[], body);
    assert_eq!(inserted, format!("201\n{}\n{}", head("cars(PartitionKey='p',RowKey='r')"), alone(0)));
    let found = |write: u32, body: &str| {
        format!("200\ncontent-type: application/json;odata=minimalmetadata\netag: {}\n\n{body}", etag(write))
    };
    assert_eq!(send(&mut client, "GET", ENTITY, &[], ""), found(0, &alone(0)));
    let selected = send(&mut client, "GET", &format!("{ENTITY}?$select=N,RowKey"), &[], "");
    let members_selected = r#""RowKey":"r","N":5}"#;
    assert_eq!(
        selected,
        found(
            0,
            &format!(
                r#"{{"odata.metadata":"BASE/cars/$metadata#cars/@Element","odata.etag":"{}",{members_selected}"#,
                quoted(0)
            )
        )
    );
    let full = send(&mut client, "GET", ENTITY, &[("Accept", "application/json;odata=fullmetadata")], "");
    let annotations = r#"{"odata.type":"devstoreaccount1.cars","odata.id":"BASE/cars(PartitionKey='p',RowKey='r')","odata.editLink":"cars(PartitionKey='p',RowKey='r')","odata.metadata":"BASE/cars/$metadata#cars/@Element","odata.etag":"#;
    assert!(full.contains(&format!("{annotations}\"{}\",\"PartitionKey\"", quoted(0))), "{full}");
    assert!(
        full.ends_with(&format!(r#","Timestamp@odata.type":"Edm.DateTime","Timestamp":"{}"}}"#, stamp(0))),
        "{full}"
    );
    let page = send(&mut client, "GET", "/cars()", &[("Accept", "application/json;odata=nometadata")], "");
    let bare = members(0).replace(r#""Born@odata.type":"Edm.DateTime","#, "");
    assert_eq!(page, format!("200\ncontent-type: application/json;odata=nometadata\n\n{{\"value\":[{{{bare}]}}"));
    let page = send(&mut client, "GET", "/cars()?$select=N", &[], "");
    let set = format!(r#"{{"value":[{{"odata.etag":"{}","N":5}}],"odata.metadata":"BASE/$metadata#cars"}}"#, quoted(0));
    assert_eq!(page, format!("200\ncontent-type: application/json;odata=minimalmetadata\n\n{set}"));

    // An upsert names a type, and an update does not. The ETag of the fourth write ends with a zero.
    let put = |client: &mut Client, headers: &[(&str, &str)]| send(client, "PUT", ENTITY, headers, "{\"N\":6}");
    assert_eq!(put(&mut client, &[]), format!("204\ncontent-type: application/json\netag: {}\n\n", etag(1)));
    assert_eq!(put(&mut client, &[("If-Match", &etag(1))]), format!("204\netag: {}\n\n", etag(2)));
    assert_eq!(put(&mut client, &[("If-Match", "*")]), format!("204\netag: {}\n\n", etag(3)));
    assert!(etag(3).ends_with("0Z'\""));
    assert_eq!(put(&mut client, &[("If-Match", &etag(3))]), format!("204\netag: {}\n\n", etag(4)));
    let none = [("Prefer", "return-no-content")];
    let other = send(&mut client, "POST", "/cars", &none, r#"{"PartitionKey":"p","RowKey":"s"}"#);
    let location = "location: BASE/cars(PartitionKey='p',RowKey='s')\npreference-applied: return-no-content\n";
    assert_eq!(other, format!("204\netag: {}\n{location}\n", etag(5)));
    server.assert_unharmed();
}

#[test]
fn errors_in_the_form_of_cosmos() {
    let server = cosmos();
    let mut client = server.client();
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    assert_eq!(client.request("POST", "/cars", &[], entity.as_bytes()).status, 201);
    let plain = |text: &str| format!("{text}{LAST_LINE}");
    let missing = plain("The specified resource does not exist.");
    let unsupported = format!("The requested operation is not supported.{ACTIVITY}");
    let empty = format!("PartitionKey/RowKey cannot be empty{ACTIVITY}");
    let value = format!("One of the input values is invalid.{ACTIVITY}");
    let url = format!("Request url is invalid.{ACTIVITY}");
    let old = [("If-Match", "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\"")];
    let any = [("If-Match", "*")];
    for (method, path, headers, body, expected) in [
        (
            "GET",
            "/cars(PartitionKey='p',RowKey='x')",
            &[][..],
            "",
            failure(404, "minimal", "ResourceNotFound", &missing),
        ),
        ("GET", "/none()", &[], "", failure(404, "minimal", "ResourceNotFound", &missing)),
        ("DELETE", "/Tables('none')", &[], "", failure(404, "full", "ResourceNotFound", &missing)),
        ("DELETE", "/cars(PartitionKey='p',RowKey='x')", &any, "", failure(404, "full", "ResourceNotFound", &missing)),
        ("MERGE", "/cars(PartitionKey='p',RowKey='x')", &any, "{}", failure(404, "full", "ResourceNotFound", &missing)),
        (
            "POST",
            "/Tables",
            &[],
            r#"{"TableName":"cars"}"#,
            failure(409, "minimal", "TableAlreadyExists", &plain("The specified table already exists.")),
        ),
        (
            "POST",
            "/cars",
            &[],
            entity,
            failure(409, "minimal", "EntityAlreadyExists", &plain("The specified entity already exists.")),
        ),
        (
            "DELETE",
            ENTITY,
            &old,
            "",
            failure(
                412,
                "full",
                "UpdateConditionNotSatisfied",
                &plain("The update condition specified in the request was not satisfied."),
            ),
        ),
        (
            "POST",
            "/cars",
            &[],
            r#"{"PartitionKey":"","RowKey":"r"}"#,
            failure(400, "full", "PropertiesNeedValue", &empty),
        ),
        ("POST", "/cars", &[], r#"{"PartitionKey":"p"}"#, failure(400, "full", "PropertiesNeedValue", &empty)),
        ("PUT", "/cars(PartitionKey='p',RowKey='')", &[], "{}", failure(400, "full", "PropertiesNeedValue", &empty)),
        ("PUT", ENTITY, &[], r#"{"PartitionKey":"p","RowKey":"other"}"#, failure(400, "full", "InvalidInput", &value)),
        (
            "PUT",
            ENTITY,
            &[],
            r#"{"PartitionKey@odata.type":"Edm.Binary","PartitionKey":"p"}"#,
            failure(400, "full", "InvalidInput", &value),
        ),
        ("POST", "/cars", &[], "{", failure(400, "minimal", "InvalidInput", &value)),
        ("GET", "/cars()?$filter=aaa%20bbb%20ccc", &[], "", failure(400, "minimal", "InvalidInput", &url)),
        ("POST", "/cars/Tables", &[], r#"{"TableName":"x12"}"#, failure(400, "minimal", "InvalidInput", &url)),
        ("GET", "/?restype=service&comp=properties", &[], "", failure(501, "full", "NotImplemented", &unsupported)),
        ("PUT", "/?restype=service&comp=properties", &[], "<x/>", failure(501, "full", "NotImplemented", &unsupported)),
        ("GET", "/?restype=service&comp=stats", &[], "", failure(501, "full", "NotImplemented", &unsupported)),
        ("GET", "/cars?comp=acl", &[], "", failure(501, "full", "NotImplemented", &unsupported)),
    ] {
        assert_eq!(send(&mut client, method, path, headers, body), expected, "{method} {path} {body}");
    }
    // The keys of the URL may be repeated. The client's own ID is the one in the message.
    assert!(send(&mut client, "PUT", ENTITY, &[], entity).starts_with("204\n"));
    let told = send(&mut client, "GET", "/none()", &[("x-ms-client-request-id", "mine")], "");
    assert!(told.contains(r"\nRequestID:mine\n"), "{told}");
    server.assert_unharmed();
}

#[test]
fn signatures_with_a_key_range_are_not_supported() {
    let server = cosmos();
    let signed = crate::signature("r", |fields| fields.start_partition = "p".into());
    let insert = crate::get("/cars").signed(&signed);
    let response = insert.send(&mut server.client());
    let message = format!("Shared access signature with PartitionKey or RowKey are not supported{ACTIVITY}");
    assert_eq!(text(&response), failure(501, "minimal", "NotImplemented", &message));
    let whole = crate::get("/cars").signed(&crate::signature("r", |_| {}));
    assert_eq!(whole.send(&mut server.client()).status, 200);
}

#[test]
fn a_client_that_is_too_fast_gets_429() {
    let targets = Targets { account_entities_per_second: 1, partition_entities_per_second: 1 };
    let server = Server::with(|settings| {
        settings.dialect = Dialect::Cosmos;
        settings.targets = Some(targets);
    });
    let mut client = server.client();
    let answers: Vec<_> = (0..20).map(|_| client.request("GET", "/Tables", &[], b"")).collect();
    let refused = answers.iter().find(|response| response.status != 200).expect("the target is one a second");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), None);
    assert!(text(refused).contains(
        r#""code":"TooManyRequests","message":{"lang":"en-us","value":"Message: {\"Errors\":[\"Request rate is large."#
    ));
}

#[test]
fn pages_continue_with_one_token() {
    let server = cosmos();
    let mut client = server.client();
    for row in ["a", "b", "c"] {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        assert_eq!(client.request("POST", "/cars", &[], body.as_bytes()).status, 201);
    }
    let first = client.request("GET", "/cars()?$top=2", &[], b"");
    let partition = first.header("x-ms-continuation-nextpartitionkey").unwrap();
    assert!(
        partition.starts_with("{\"token\":\"") && partition.ends_with(r#"","range":{"min":"","max":"FF"}}"#),
        "{partition}"
    );
    assert_eq!(first.header("x-ms-continuation-nextrowkey"), Some("NA"));
    let rows: Vec<_> =
        client.query("/cars()?$top=2", &[]).unwrap().into_iter().map(|entity| entity["RowKey"].clone()).collect();
    assert_eq!(rows, ["c", "b", "a"]);
    let plain = client.request("GET", "/cars()?NextPartitionKey=1!4!cGs-&NextRowKey=1!4!cGs-", &[], b"");
    assert_eq!(plain.status, 400, "a token of the other service");
}

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |escaped, byte| format!("{escaped}%{byte:02X}"))
}

/// Returns the path of a request that continues after a response.
fn continued(path: &str, response: &Response) -> String {
    let escaped = |name: &str| escaped(response.header(name).unwrap());
    let partition = escaped("x-ms-continuation-nextpartitionkey");
    format!("{path}&NextPartitionKey={partition}&NextRowKey={}", escaped("x-ms-continuation-nextrowkey"))
}

#[test]
fn queries_return_entities_in_descending_order_of_keys() {
    let server = cosmos();
    let mut client = server.client();
    for (partition, row) in [("p", "a"), ("p", "b"), ("p", "c"), ("q", "a"), ("q", "b")] {
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
        assert_eq!(client.request("POST", "/cars", &[], body.as_bytes()).status, 201);
    }
    for (options, expected) in [
        ("", &["q/b", "q/a", "p/c", "p/b", "p/a"][..]),
        ("&$filter=PartitionKey%20eq%20'p'", &["p/c", "p/b", "p/a"]),
        ("&$filter=PartitionKey%20eq%20'p'%20and%20RowKey%20lt%20'c'", &["p/b", "p/a"]),
        ("&$filter=RowKey%20eq%20'a'", &["q/a", "p/a"]),
        ("&$filter=RowKey%20eq%20'a'%20or%20RowKey%20eq%20'c'", &["q/a", "p/c", "p/a"]),
    ] {
        for top in [1, 2, 1000] {
            let path = format!("/cars()?$top={top}{options}");
            let entities = client.query(&path, &[]).unwrap();
            let keys: Vec<_> = entities
                .into_iter()
                .map(|entity| {
                    format!("{}/{}", entity["PartitionKey"].as_str().unwrap(), entity["RowKey"].as_str().unwrap())
                })
                .collect();
            assert_eq!(keys, expected, "{path}");
        }
    }
    server.assert_unharmed();
}

#[test]
fn a_token_continues_nothing_but_its_order() {
    let (cosmos, storage) = (cosmos(), Server::with_tables(&["cars"]));
    let tokens = [&cosmos, &storage].map(|server| {
        let mut client = server.client();
        for row in ["a", "b", "c"] {
            let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
            assert_eq!(client.request("POST", "/cars", &[], body.as_bytes()).status, 201);
        }
        let page = client.request("GET", "/cars()?$top=1", &[], b"");
        assert_eq!(page.status, 200);
        page
    });
    let foreign = escaped(r#"{"token":"+RID:~abc==#RT:1#TRC:5","range":{"min":"","max":"FF"}}"#);
    let foreign = format!("/cars()?$top=1&NextPartitionKey={foreign}&NextRowKey=NA");
    let [descending, ascending] = tokens.map(|page| continued("/cars()?$top=1", &page));
    for (server, path, status) in [
        (&cosmos, &descending, 200),
        (&cosmos, &ascending, 400),
        (&cosmos, &foreign, 400),
        (&storage, &ascending, 200),
        (&storage, &descending, 400),
    ] {
        let response = server.client().request("GET", path, &[], b"");
        assert_eq!(response.status, status, "{path}");
        let reason = response.header("x-ms-rowhouse-reason");
        assert_eq!(
            reason.is_some_and(|reason| reason.starts_with("continuation-invalid")),
            status == 400,
            "{reason:?}"
        );
    }
}

/// Returns the parts of the response to a changeset, without the delimiters.
fn parts(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 202);
    let body = String::from_utf8_lossy(&response.body).replace(response.header("x-ms-request-id").unwrap(), "ID");
    let start = "Content-Transfer-Encoding: binary\r\n\r\n";
    body.split(start)
        .skip(1)
        .map(|part| part.split("\r\n--").next().unwrap().replace("http://127.0.0.1/devstoreaccount1", "BASE"))
        .collect()
}

#[test]
fn transactions_in_the_form_of_cosmos() {
    let server = cosmos();
    let mut client = server.client();
    let insert = |row: &str| {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        format!(
            "POST /cars HTTP/1.1\r\nContent-ID: 9\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\r\n{body}"
        )
    };
    let merge = |row: &str, body: &str| {
        format!(
            "MERGE /cars(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nContent-Type: application/json\r\nIf-Match: *\r\n\r\n{body}"
        )
    };
    let upsert =
        "PUT /cars(PartitionKey='p',RowKey='u') HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{}".to_owned();
    let delete = |row: &str| format!("DELETE /cars(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nIf-Match: *\r\n\r\n");
    let answer = transact(&mut client, &[insert("r"), upsert]).unwrap();
    assert_eq!(
        parts(&answer),
        [
            format!(
                "HTTP/1.1 204 No Content\r\nETag: {}\r\nPreference-Applied: return-no-content\r\nLocation: BASE/cars(PartitionKey='p',RowKey='r')\r\nContent-ID: 1\r\n\r\n",
                etag(0)
            ),
            format!(
                "HTTP/1.1 204 No Content\r\nETag: {}\r\nContent-Type: application/json\r\nContent-ID: 2\r\n\r\n",
                etag(0)
            ),
        ]
    );
    assert_eq!(answer.header("cache-control").or(answer.header("x-ms-version")), None);
    // The same entity several times, and another one between.
    let answer =
        transact(&mut client, &[merge("r", "{\"A\":1,\"B\":1}"), delete("u"), merge("r", "{\"B\":2}")]).unwrap();
    let etags: Vec<_> = parts(&answer).iter().map(|part| part.contains("ETag: ")).collect();
    assert_eq!(etags, [true, false, true]);
    let stored = client.request("GET", "/cars()", &[("Accept", "application/json;odata=nometadata")], b"").results();
    assert_eq!(stored.len(), 1);
    assert_eq!((&stored[0]["A"], &stored[0]["B"]), (&1.into(), &2.into()));
    // A failure has the index of the operation that the client sent, even if it is the only one.
    let failed = |message: &str, status: &str, code: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json;odata=fullmetadata\r\n\r\n{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-us\",\"value\":\"{message}\"}}}}}}"
        )
    };
    let missing =
        failed(r"0:The specified resource does not exist.\n\nRequestID:ID\n", "404 Not Found", "ResourceNotFound");
    assert_eq!(parts(&transact(&mut client, &[delete("x")]).unwrap()), [missing]);
    let exists =
        failed(r"3:The specified entity already exists.\n\nRequestID:ID\n", "409 Conflict", "EntityAlreadyExists");
    let answer =
        transact(&mut client, &[merge("r", "{}"), merge("r", "{}"), insert("new"), insert("r2"), insert("new2")]);
    assert_eq!(parts(&answer.unwrap()).len(), 5);
    let answer = transact(&mut client, &[merge("r", "{}"), merge("r", "{}"), insert("new3"), insert("r2")]);
    assert_eq!(parts(&answer.unwrap()), [exists]);
    let table = failed(r"The specified resource does not exist.\nRequestID:ID\n", "404 Not Found", "ResourceNotFound");
    let nowhere = insert("r").replace("/cars", "/none");
    assert_eq!(parts(&transact(&mut client, &[nowhere]).unwrap()), [table]);
    // What cannot be combined is refused as by the other service.
    let twice = parts(&transact(&mut client, &[delete("r"), delete("r")]).unwrap());
    assert!(
        twice.len() == 1 && twice[0].contains(r#""code":"InvalidDuplicateRow""#) && twice[0].contains("\"value\":\"1:"),
        "{twice:?}"
    );
    server.assert_unharmed();
}

#[test]
fn a_url_without_an_account_is_of_the_default_account() {
    let accounts = Accounts::development_of(Dialect::Cosmos);
    let (name, keys) = accounts.all().find(|(name, _)| name.as_str() == "localhost").unwrap();
    assert_eq!((name.as_str(), keys.len()), ("localhost", 1));
    let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
    let server = Server::with_access(crate::server::access(accounts), |settings| {
        settings.dialect = Dialect::Cosmos;
        settings.default_account = AccountName::new("localhost");
    });
    let request = |method: &str, path: &str, body: &str| {
        let date = "Fri, 14 Mar 2031 08:15:30 GMT";
        let content_type = "application/json";
        let signed =
            SignedRequest { method, content_md5: "", content_type, date, account: "localhost", path, comp: None };
        let signature = AccountKey::parse(key).unwrap().sign(&signed.string_to_sign(Scheme::SharedKey));
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:8902\r\nx-ms-version: 2019-02-02\r\nx-ms-date: {date}\r\nAccept: {content_type}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nAuthorization: SharedKey localhost:{signature}\r\n\r\n{body}"
        )
    };
    let send = |server: &Server, request: &str| {
        let mut client = server.client();
        client.send(request.as_bytes()).unwrap();
        client.receive().unwrap()
    };
    let created = send(&server, &request("POST", "/Tables", r#"{"TableName":"cars"}"#));
    assert_eq!((created.status, created.header("location")), (201, Some("http://localhost:8902/Tables('cars')")));
    for path in ["/cars()", "/localhost/cars()"] {
        assert_eq!(send(&server, &request("GET", path, "")).status, 200, "{path}");
    }
    // Another account is still addressed by its name.
    assert_eq!(server.client().request("GET", "/cars()", &[], b"").status, 404);
    // Without the setting, such a URL names no account.
    let strict = Server::with_access(crate::server::access(Accounts::development_of(Dialect::Cosmos)), |_| {});
    assert_eq!(send(&strict, &request("GET", "/cars()", "")).status, 403);
}
