//! Tests that a captured signature allows only the request that was signed: the server interprets the signed parts in
//! the same way as the parts that select the operation.

use crate::{Case, Server, check, etag, get, post, signature};
use std::time::SystemTime;
use test_support::{ACCOUNT, KEY, Response, head};
use wire::signing::{AccountKey, Scheme, SignedRequest};

const POLICIES: &str = "<SignedIdentifiers><SignedIdentifier><Id>mine</Id></SignedIdentifier></SignedIdentifiers>";

fn server() -> Server {
    Server::with_tables(&["tab"])
}

fn send(server: &Server, head: &str, body: &str) -> Response {
    let mut client = server.client();
    client.send(format!("{head}{body}").as_bytes()).unwrap();
    client.receive().unwrap()
}

fn lite(method: &str, target: &str, signed_comp: Option<&str>, headers: &[(&str, &str)]) -> String {
    let date = httpdate::fmt_http_date(SystemTime::now());
    let (account, path) = (ACCOUNT, format!("/{ACCOUNT}/tab"));
    let signed = SignedRequest {
        method: "",
        content_md5: "",
        content_type: "",
        date: &date,
        account,
        path: &path,
        comp: signed_comp,
    };
    let signature = AccountKey::parse(KEY).unwrap().sign(&signed.string_to_sign(Scheme::SharedKeyLite));
    let authorization = format!("SharedKeyLite {ACCOUNT}:{signature}");
    head(method, target, &[&[("x-ms-date", date.as_str()), ("Authorization", &authorization)], headers].concat())
}

#[test]
fn the_signature_of_a_query_does_not_read_policies() {
    let server = server();
    for option in ["comp=acl", "%63omp=acl", "Com%70=acl", "COMP=%61cl", "x=y&%63%6F%6D%70=acl"] {
        let captured = head("GET", "/tab", &[]).replace("/tab HTTP", &format!("/tab?{option} HTTP"));
        assert!(captured.contains(option));
        assert_eq!(send(&server, &captured, "").status, 403, "{option}");
        // The same URL, signed for its actual meaning.
        assert_eq!(
            send(&server, &lite("GET", &format!("/tab?{option}"), Some("acl"), &[]), "").status,
            200,
            "{option}"
        );
    }
}

#[test]
fn the_signature_of_a_query_does_not_write_policies() {
    let server = server();
    let length = POLICIES.len().to_string();
    let headers = [("Content-Type", "application/xml"), ("Content-Length", length.as_str())];
    for option in ["comp=acl", "%63omp=acl", "Com%70=acl"] {
        let target = format!("/tab?{option}");
        assert_eq!(send(&server, &lite("PUT", &target, None, &headers), POLICIES).status, 403, "{option}");
    }
    let policies = |server: &Server| server.client().request("GET", "/tab?comp=acl", &[], b"").body;
    assert!(String::from_utf8(policies(&server)).unwrap().contains("<SignedIdentifiers />"));
    // Two options: the first is signed, and the request is refused whichever option is meant.
    for (target, signed, status) in [
        ("/tab?comp=acl&comp=x", Some("x"), 403),
        ("/tab?comp=x&comp=acl", Some("x"), 400),
        ("/tab?comp=x&%63omp=acl", Some("x"), 400),
        ("/tab?comp=%FF&comp=acl", None, 403),
        ("/tab?comp=acl&comp=acl", Some("acl"), 400),
    ] {
        assert_eq!(send(&server, &lite("PUT", target, signed, &headers), POLICIES).status, status, "{target}");
    }
    assert_eq!(send(&server, &lite("PUT", "/tab?%63omp=acl", Some("acl"), &headers), POLICIES).status, 204);
    assert!(String::from_utf8(policies(&server)).unwrap().contains("<Id>mine</Id>"));
}

#[test]
fn the_slash_after_an_endpoint_that_ends_with_one_is_ignored() {
    let server = server();
    let read = signature("r", |fields| fields.table = "tab".into());
    let entity = "/tab(PartitionKey='p',RowKey='r')";
    let location = format!("BASE{entity}");
    let insert = post("//tab", r#"{"PartitionKey":"p","RowKey":"r"}"#).with("Prefer", "return-no-content");
    let of_batch = |target: &str| {
        let part = format!(
            "--b\nContent-Type: application/http\n\nGET http://127.0.0.1/{ACCOUNT}{target} HTTP/1.1\nAccept: application/json\n\n--b--"
        );
        post("//$batch", &part).with("Content-Type", "multipart/mixed; boundary=b")
    };
    let found = |case: Case, is_found: bool| {
        let text = String::from_utf8(case.send(&mut server.client()).body).unwrap();
        assert_eq!(text.contains("HTTP/1.1 200 OK"), is_found, "{text}");
    };
    server.create(&["other"]);
    check(
        &server,
        [
            // The URL in the response has no empty segment.
            insert
                .ok(204)
                .header("etag", etag(0))
                .header("location", location.clone())
                .header("dataserviceid", location)
                .header("preference-applied", "return-no-content"),
            get(&format!("/{entity}")).answers(200, None),
            get("//Tables").answers(200, None),
            get("-secondary//tab()").answers(200, None),
            get("//?restype=service&comp=properties").answers(200, None),
            // A signature allows the same table as without the slash, and no other.
            get("//tab()").signed(&read).answers(200, None),
            get("//other()").signed(&read).answers(403, "AuthorizationFailure"),
            get("//tab/other()").signed(&read).answers(501, "NotImplemented"),
            get("//tab?comp=acl").signed(&read).answers(403, "AuthorizationFailure"),
        ],
    );
    found(of_batch(&format!("/{entity}")), true);
    found(of_batch(&format!("/{entity}")).signed(&read), true);
    found(of_batch("//other()").signed(&read), false);
}
