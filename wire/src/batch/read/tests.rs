//! No input may cause a panic.

use super::*;
use model::limits::TRANSACTION_OPERATIONS_MAX;
use proptest::prelude::*;

const CONTENT_TYPE: &str = "multipart/mixed; boundary=batch_0a1b";

/// The changeset from 05 §3.
const BODY: &str = "\
--batch_0a1b
Content-Type: multipart/mixed; boundary=changeset_77

--changeset_77
Content-Type: application/http
Content-Transfer-Encoding: binary

POST https://acct.table.example/cars HTTP/1.1
Content-ID: 1
Accept: application/json;odata=minimalmetadata
Content-Type: application/json
Prefer: return-no-content
DataServiceVersion: 3.0;

{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"A\":1}
--changeset_77
Content-Type: application/http
Content-Transfer-Encoding: binary

MERGE /cars(PartitionKey='p',RowKey='2') HTTP/1.1
Content-ID: 2
Accept: application/json;odata=minimalmetadata
Content-Type: application/json
If-Match: *
Content-Length: 7

{\"A\":2}
--changeset_77
Content-Type: application/http
Content-Transfer-Encoding: binary

DELETE /cars(PartitionKey='p',RowKey='3') HTTP/1.1
If-Match: W/\"datetime'2024-01-01T00%3A00%3A00.1Z'\"
Accept: application/json;odata=minimalmetadata

--changeset_77--
--batch_0a1b--
";

fn crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

const MINIMAL: Option<&str> = Some("application/json;odata=minimalmetadata");

fn expected() -> Vec<PartRequest<'static>> {
    vec![
        PartRequest {
            method: "POST",
            target: "https://acct.table.example/cars",
            headers: Headers {
                accept: MINIMAL,
                content_type: Some("application/json"),
                prefer: Some("return-no-content"),
                data_service_version: Some("3.0;"),
                ..Headers::default()
            },
            content_id: Some("1"),
            body: b"{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"A\":1}",
            ..PartRequest::default()
        },
        PartRequest {
            method: "MERGE",
            target: "/cars(PartitionKey='p',RowKey='2')",
            headers: Headers {
                accept: MINIMAL,
                content_type: Some("application/json"),
                if_match: Some("*"),
                ..Headers::default()
            },
            content_id: Some("2"),
            body: b"{\"A\":2}",
            ..PartRequest::default()
        },
        PartRequest {
            method: "DELETE",
            target: "/cars(PartitionKey='p',RowKey='3')",
            headers: Headers {
                accept: MINIMAL,
                if_match: Some("W/\"datetime'2024-01-01T00%3A00%3A00.1Z'\""),
                ..Headers::default()
            },
            ..PartRequest::default()
        },
    ]
}

fn read<'a>(content_type: &str, body: &'a [u8]) -> Result<Batch<'a>, BatchError> {
    super::read(content_type, body, TRANSACTION_OPERATIONS_MAX)
}

fn changeset(body: &str) -> Changeset<'_> {
    match read(CONTENT_TYPE, body.as_bytes()) {
        Ok(Batch::Changeset(changeset)) => changeset,
        other => panic!("not a changeset: {other:?} in {body:?}"),
    }
}

#[test]
fn bodies_as_clients_send_them() {
    let exact = crlf(BODY);
    let spellings = [
        exact.clone(),
        BODY.to_owned(),
        exact.replace("binary\r\n", "binary\n"),
        exact.replace("--batch_0a1b--\r\n", ""),
        exact.trim_end().to_owned(),
        format!("\r\n\r\npreamble\r\n{exact}\r\nepilogue\r\n--batch_0a1b\r\n"),
        exact.replace("--changeset_77\r\n", "--changeset_77 \t\r\n"),
        exact.replace("Content-Type: application/http", "content-TYPE :application/HTTP; msgtype=request"),
        exact.replace("Content-Type: application/http\r\n", ""),
        exact.replace("Content-Transfer-Encoding: binary\r\n", "content-id: 9\r\n"),
        exact.replace("Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n", ""),
        exact.replace("boundary=changeset_77", "boundary=\"changeset_77\""),
        exact.replace("Accept: ", "x-ms-version: 1999-01-01\r\nAuthorization: nothing\r\nDate: \u{e9}\r\naccept:"),
        exact.replace("\r\n\r\nPOST", "\r\n\r\n\r\nPOST"),
    ];
    for body in &spellings {
        let changeset = changeset(body);
        assert_eq!(changeset.operations, expected(), "{body:?}");
        assert!(!changeset.is_followed);
    }
    // A body without a length includes the blank lines after it, which every format ignores.
    let blank_lines = exact.replace("\r\n--changeset_77", "\r\n\r\n\r\n--changeset_77");
    let bodies: Vec<_> = changeset(&blank_lines).operations.iter().map(|o| o.body.trim_ascii().len()).collect();
    assert_eq!(bodies, [39, 7, 0]);
}

#[test]
fn a_part_may_end_with_its_headers() {
    for end in ["", "\n", "\n\n", "\n\n\n"] {
        let part = format!("--b\n\nGET /t(PartitionKey='a b',RowKey='') HTTP/1.1\nAccept: x{end}\n--b--");
        let Ok(Batch::Single(operation)) = read("multipart/mixed; boundary=b", part.as_bytes()) else {
            panic!("{part:?}")
        };
        assert_eq!((operation.method, operation.target), ("GET", "/t(PartitionKey='a b',RowKey='')"));
        assert_eq!((operation.headers.accept, operation.body.trim_ascii()), (Some("x"), &b""[..]));
    }
}

#[test]
fn content_length_may_be_short_but_not_longer_than_with_the_line_break_of_the_delimiter() {
    let body = |length: &str| crlf(BODY).replace("Content-Length: 7", &format!("Content-Length: {length}"));
    assert_eq!(changeset(&body("6")).operations[1].body, b"{\"A\":2");
    assert_eq!(changeset(&body("0")).operations[1].body, b"");
    for length in ["7", "8", "9"] {
        assert_eq!(changeset(&body(length)).operations[1].body, b"{\"A\":2}", "{length}");
    }
    for length in ["10", "100000", "99999999999999999999999", "-1", "abc", ""] {
        assert!(
            matches!(read(CONTENT_TYPE, body(length).as_bytes()), Err(BatchError::MalformedChangeset(..))),
            "{length}"
        );
    }
}

#[test]
fn every_method_override_is_seen() {
    let body = crlf(BODY).replace("If-Match: *", "X-HTTP-Method: MERGE\r\nx-http-method: PUT");
    assert_eq!(changeset(&body).operations[1].method_overrides, ["MERGE", "PUT"]);
}

fn inserts(count: usize) -> String {
    let part = "--c\n\nPOST /t HTTP/1.1\n\n{}\n";
    format!("--batch_0a1b\nContent-Type: multipart/mixed; boundary=c\n\n{}--c--\n--batch_0a1b--\n", part.repeat(count))
}

#[test]
fn counting_stops_after_a_hundred() {
    for (count, kept) in [(0, 0), (1, 1), (100, 100), (101, 100)] {
        let body = inserts(count);
        let changeset = changeset(&body);
        assert_eq!((changeset.operations.len(), changeset.operations_sent), (kept, count));
    }
    // Nothing is read after the hundredth operation.
    let body = inserts(5000).replacen("{}\n--c--", "\0", 1);
    assert_eq!(changeset(&body).operations_sent, 5000);
}

#[test]
fn more_than_one_thing() {
    let changeset_part = BODY.strip_suffix("--batch_0a1b--\n").unwrap();
    let query = "--batch_0a1b\nContent-Type: application/http\n\nGET /t() HTTP/1.1\n\n";
    let two = format!("{changeset_part}{BODY}");
    let changeset = changeset(&two);
    assert_eq!((changeset.operations, changeset.is_followed), (expected(), true));
    for mixed in [format!("{query}{BODY}"), format!("{changeset_part}{query}"), format!("{query}{query}--batch_0a1b--")]
    {
        assert_eq!(read(CONTENT_TYPE, mixed.as_bytes()), Ok(Batch::Mixed), "{mixed}");
    }
}

#[test]
fn what_is_no_batch() {
    for content_type in
        ["", "application/json", "multipart/mixed", "multipart/mixed; boundary=", "multipart/related; boundary=b"]
    {
        assert_eq!(read(content_type, BODY.as_bytes()), Err(BatchError::ContentType), "{content_type}");
    }
    let exact = crlf(BODY);
    for malformed in [
        String::new(),
        "hello".to_owned(),
        "--batch_0a1b--\r\n".to_owned(),
        "--batch_0a1b\r\n".to_owned(),
        exact.replace("batch_0a1b", "other"),
        exact.replace(" HTTP/1.1", ""),
        exact.replace("POST https", "POST"),
        exact.replace("POST ", "P@ST "),
        exact.replace("POST https://acct.table.example/cars", "POST "),
        exact.replace("cars(Par", "cars(\u{7}Par"),
        exact.replace("; boundary=changeset_77", ""),
        exact.replace("boundary=changeset_77", "boundary=other"),
        exact.replace("--changeset_77--\r\n", ""),
        exact.replace("application/http", "text/plain"),
        exact.replace("application/http", "multipart/mixed; boundary=deeper"),
        exact.replace("Accept: application", "Accept: \u{e9}"),
        exact.replace("Accept: ", &format!("X: {}\r\nAccept: ", "x".repeat(100_000))),
        exact.replace("/cars(", &format!("/{}(", "x".repeat(70_000))),
    ] {
        let result = read(CONTENT_TYPE, malformed.as_bytes());
        let is_malformed = matches!(result, Err(BatchError::Malformed(_) | BatchError::MalformedChangeset(..)));
        assert!(is_malformed, "{result:?} for {malformed:.300}");
    }
}

const PIECES: &[&str] = &[
    "--b",
    "--c",
    "--",
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "Content-Type: multipart/mixed; boundary=c",
    "boundary=\"",
    ":",
    "Content-Type: application/http",
    "POST /t HTTP/1.1",
    "GET t(PartitionKey='',RowKey='') HTTP/1.1",
    "Content-Length: 3",
    "Content-ID: 1",
    "{}",
    " ",
    "\0",
    "\u{e9}",
];

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(body in proptest::collection::vec(any::<u8>(), 0..300), content_type in ".{0,40}") {
        let _ = read(&content_type, &body);
        let _ = read("multipart/mixed; boundary=-", &body);
    }

    #[test]
    fn any_pieces_are_read_without_panic(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..60)) {
        let _ = read("multipart/mixed; boundary=b", pieces.concat().as_bytes());
    }

    /// A trailing CR is not part of the body, because it is indistinguishable from the line break of the delimiter.
    #[test]
    fn bodies_come_out_as_they_went_in(bodies in proptest::collection::vec("[ -~\n\r\u{e9}]{0,30}", 1..5), line_end in "\r?\n") {
        prop_assume!(bodies.iter().all(|body| !body.contains("--c") && !body.contains("--b")));
        prop_assume!(bodies.iter().all(|body| !body.ends_with('\r')));
        let n = &line_end;
        let parts = bodies.iter().map(|body| {
            let length = body.len();
            format!("--c{n}{n}PUT /t HTTP/1.1{n}Content-Length: {length}{n}{n}{body}{n}")
        });
        let parts = parts.collect::<String>();
        let text = format!("--b{n}Content-Type: multipart/mixed; boundary=c{n}{n}{parts}--c--{n}--b--{n}");
        let Ok(Batch::Changeset(changeset)) = read("multipart/mixed; boundary=b", text.as_bytes()) else {
            return Err(TestCaseError::fail(text));
        };
        let read: Vec<_> = changeset.operations.iter().map(|operation| operation.body).collect();
        prop_assert_eq!(read, bodies.iter().map(String::as_bytes).collect::<Vec<_>>());
    }
}

fn batch_of(parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| ["--c\r\n", part, "\r\n"].concat()).collect();
    let parts = parts.concat();
    format!("--batch_0a1b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--batch_0a1b--\r\n")
}

#[test]
fn a_head_that_is_that_of_the_part_before_reads_as_it_does_alone() {
    let head = "Content-Type: application/http\r\n\r\nPOST /cars HTTP/1.1\r\nPrefer: return-no-content\r\n";
    let blank = "\r\n";
    let sized = "Content-Length: 4\r\n\r\n";
    for parts in [
        [[head, blank, "{\"a\":1}"].concat(), [head, blank, "{\"a\":2}"].concat(), [head, blank, ""].concat()],
        [[head, sized, "{  }"].concat(), [head, sized, "{\t\t}and more"].concat(), [head, blank, "{}"].concat()],
        // The first part ends within its headers; the second continues where the first ended.
        [head.to_owned(), [head, "Accept: */*\r\n\r\n", "{}"].concat(), [head, blank, "{}"].concat()],
        [[head, " "].concat(), [head, " \r\n{}"].concat(), [head, " \r\n{ }"].concat()],
        [[head, blank, "{}"].concat(), [head, blank, "\r\n{}"].concat(), ["Other: x\r\n", head, blank].concat()],
    ] {
        let alone: Vec<_> = parts.iter().map(|part| batch_of(&[part])).collect();
        let together = batch_of(&parts.each_ref().map(String::as_str));
        let operations = |body: &str| match read(CONTENT_TYPE, body.as_bytes()) {
            Ok(Batch::Changeset(changeset)) => format!("{:?}", changeset.operations),
            other => panic!("{other:?}"),
        };
        let expected: Vec<_> = alone.iter().map(|body| operations(body)).collect();
        let expected: Vec<_> = expected.iter().map(|list| list.trim_matches(['[', ']'])).collect();
        let found = operations(&together);
        assert_eq!(found.get(1..found.len() - 1), Some(expected.join(", ").as_str()));
    }
    let short = batch_of(&[&[head, sized, "{   }"].concat(), &[head, sized, "{"].concat()]);
    assert_eq!(
        read(CONTENT_TYPE, short.as_bytes()),
        Err(BatchError::MalformedChangeset("a Content-Length reaches beyond its part", 1))
    );
}

#[test]
fn operations_are_alike_if_they_differ_in_body_and_content_id_at_most() {
    let one =
        PartRequest { method: "POST", target: "/cars", body: b"1", content_id: Some("1"), ..PartRequest::default() };
    assert!(one.is_like(&PartRequest { body: b"2", content_id: None, ..one.clone() }));
    assert!(!one.is_like(&PartRequest { target: "/vans", ..one.clone() }));
    assert!(
        !one.is_like(&PartRequest {
            headers: Headers { prefer: Some("return-content"), ..one.headers },
            ..one.clone()
        })
    );
    assert!(!one.is_like(&PartRequest { method_overrides: vec!["MERGE"], ..one.clone() }));
}
