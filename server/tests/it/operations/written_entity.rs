//! `Prefer` on updates, merges and upserts (02 §4.3).

use super::{ENTITY, entity};
use crate::Layer::{Format, Storage};
use crate::{Case, Server, check, etag, get, merge, post, put, signature, timestamp};
use test_support::{Response, statuses, transact};

const PREFER: &str = "Prefer";
const CONTENT: &str = "return-content";
const APPLIED: &str = "preference-applied";
const ATOM: &str = r#"<entry xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><m:properties><d:A m:type="Edm.Int32">5</d:A></m:properties></content></entry>"#;

/// Starts a server with one entity, which has two properties.
fn server() -> Server {
    let server = Server::with_tables(&["cars"]);
    check(&server, [post("/cars", &entity("r", r#","Model":"K","Doors":4"#)).answers(201, None)]);
    server
}

/// Expects the entity, at the level that the request accepts.
fn returns(case: Case, write: u32, properties: &str) -> Case {
    let json = entity("r", &format!(r#","Timestamp":"{}"{properties}"#, timestamp(write)));
    let case = case.level("nometadata").with(PREFER, CONTENT).ok(200);
    case.header("etag", etag(write)).header(APPLIED, CONTENT).json(&json)
}

#[test]
fn an_update_returns_the_stored_entity_to_a_client_that_prefers_content() {
    let patch = |body: &str| Case::new("PATCH", ENTITY, body);
    let of_post = |method: &str, body: &str| post(ENTITY, body).with("X-HTTP-Method", method);
    check(
        &server(),
        [
            returns(put(ENTITY, r#"{"b":1,"a":"x"}"#).with("If-Match", "*"), 1, r#","a":"x","b":1"#),
            returns(merge(ENTITY, r#"{"c":true,"b":null}"#).with("If-Match", etag(1)), 2, r#","a":"x","b":1,"c":true"#),
            returns(patch(r#"{"b":2}"#).with("If-Match", "*"), 3, r#","a":"x","b":2,"c":true"#),
            returns(patch(r#"{"a":"y"}"#), 4, r#","a":"y","b":2,"c":true"#),
            returns(merge(ENTITY, "{}"), 5, r#","a":"y","b":2,"c":true"#),
            returns(put(ENTITY, r#"{"z":1,"d":2}"#), 6, r#","d":2,"z":1"#),
            returns(of_post("MERGE", r#"{"e":3}"#), 7, r#","d":2,"e":3,"z":1"#),
            returns(of_post("PUT", r#"{"f":4}"#), 8, r#","f":4"#),
            get(ENTITY)
                .level("nometadata")
                .ok(200)
                .header("etag", etag(8))
                .json(&entity("r", &format!(r#","Timestamp":"{}","f":4"#, timestamp(8)))),
        ],
    );
    // An upsert of an entity that does not exist has no location either.
    check(
        &Server::with_tables(&["cars"]),
        [returns(merge(ENTITY, r#"{"a":1}"#), 0, r#","a":1"#), returns(put(ENTITY, r#"{"a":2}"#), 1, r#","a":2"#)],
    );
}

#[test]
fn the_entity_has_the_form_that_a_query_returns() {
    let server = server();
    let mut client = server.client();
    for level in ["nometadata", "minimalmetadata", "fullmetadata"] {
        for update in [merge(ENTITY, r#"{"A":5}"#), put(ENTITY, r#"{"A":"5"}"#)] {
            let updated = update.level(level).with(PREFER, CONTENT).send(&mut client);
            let found = get(ENTITY).level(level).send(&mut client);
            assert_eq!((updated.status, found.status), (200, 200), "{level}");
            assert_eq!(updated.body, found.body, "{level}");
            assert_eq!(updated.header("content-type"), found.header("content-type"), "{level}");
            assert_eq!(updated.header("etag"), found.header("etag"), "{level}");
        }
    }
    let updated = merge(ENTITY, ATOM).atom().with(PREFER, CONTENT).send(&mut client);
    let found = get(ENTITY).atom().send(&mut client);
    assert_eq!((updated.status, updated.header(APPLIED)), (200, Some(CONTENT)));
    let text = |response: &Response| String::from_utf8(response.body.clone()).unwrap();
    assert_eq!(text(&updated), text(&found));
    assert_eq!(updated.header("content-type"), Some("application/atom+xml;type=entry;charset=utf-8"));
}

#[test]
fn a_preference_that_cannot_be_honored() {
    let stale = "W/\"datetime'2031-03-14T08%3A15%3A30.1Z'\"";
    check(
        &server(),
        [
            // An error repeats the preference, as for an insert.
            merge(ENTITY, "{}")
                .with("If-Match", stale)
                .with(PREFER, CONTENT)
                .fails(412, "UpdateConditionNotSatisfied", Storage)
                .header(APPLIED, CONTENT),
            // The format of the entity is resolved before the write.
            put(ENTITY, r#"{"A":1}"#)
                .with("Accept", "text/plain")
                .with(PREFER, CONTENT)
                .fails(415, "MediaTypeNotSupported", Format)
                .in_xml(),
            get(ENTITY)
                .level("nometadata")
                .ok(200)
                .header("etag", etag(0))
                .json(&entity("r", &format!(r#","Timestamp":"{}","Model":"K","Doors":4"#, timestamp(0)))),
            // Versions and data service versions without `Prefer`, and other values
            merge(ENTITY, ATOM).atom().version("2011-08-18").with(PREFER, CONTENT).ok(204).header("etag", etag(1)),
            merge(ENTITY, ATOM)
                .atom()
                .with("DataServiceVersion", "2.0")
                .with(PREFER, CONTENT)
                .ok(204)
                .header("etag", etag(2)),
            merge(ENTITY, "{}").with(PREFER, "return-all").ok(204).header("etag", etag(3)),
            Case::new("DELETE", ENTITY, "").with("If-Match", "*").with(PREFER, CONTENT).ok(204),
        ],
    );
}

#[test]
fn a_credential_that_must_not_read_gets_nothing_that_it_did_not_send() {
    let server = server();
    let signed = |permissions| signature(permissions, |_| {});
    let quiet = |case: Case, write| case.with(PREFER, CONTENT).ok(204).header("etag", etag(write));
    let any = |case: Case| case.with("If-Match", "*");
    check(
        &server,
        [
            // The preference is ignored for a merge, which would return `Model` and `Doors`.
            quiet(any(merge(ENTITY, r#"{"A":1}"#)).signed(&signed("u")), 1),
            quiet(merge(ENTITY, r#"{"A":1}"#).signed(&signed("au")), 2),
            // A replaced entity is what the client sent, like an inserted one.
            returns(any(put(ENTITY, r#"{"B":2}"#)).signed(&signed("u")), 3, r#","B":2"#),
            returns(put(ENTITY, r#"{"C":3}"#).signed(&signed("au")), 4, r#","C":3"#),
            returns(merge(ENTITY, r#"{"D":4}"#).signed(&signed("rau")), 5, r#","C":3,"D":4"#),
        ],
    );
    let part = |method: &str| {
        format!(
            "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n{method} {ENTITY} HTTP/1.1\nAccept: application/json\nContent-Type: application/json\nPrefer: return-content\n\n{{\"E\":5}}\n--c--\n--b--"
        )
    };
    let batch = |method: &str, permissions| {
        let case = post("/$batch", &part(method)).with("Content-Type", "multipart/mixed; boundary=b");
        let response = case.signed(&signed(permissions)).send(&mut server.client());
        (statuses(&response), String::from_utf8(response.body).unwrap())
    };
    let (merged, text) = batch("MERGE", "au");
    assert!(merged == [204] && !text.contains("\"C\"") && !text.contains("Preference-Applied"), "{text}");
    let (merged, text) = batch("MERGE", "rau");
    assert!(merged == [200] && text.contains("\"C\":3,\"D\":4,\"E\":5"), "{text}");
    let (replaced, text) = batch("PUT", "au");
    assert!(replaced == [200] && text.contains("\"E\":5") && !text.contains("\"C\""), "{text}");
}

fn change(method: &str, row: usize, body: &str) -> String {
    format!(
        "{method} /cars(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n\
         Content-Type: application/json\r\nPrefer: return-content\r\n\r\n{body}"
    )
}

#[test]
fn the_parts_of_a_batch_return_their_entities() {
    let server = server();
    let mut client = server.client();
    let plain = change("MERGE", 2, "{}").replace("Prefer: return-content\r\n", "");
    let with_id = change("MERGE", 1, r#"{"A":1}"#).replacen("\r\n", "\r\nContent-ID: 7\r\n", 1);
    let response = transact(&mut client, &[with_id, plain, change("PUT", 3, r#"{"B":2}"#)]).unwrap();
    assert_eq!(statuses(&response), [200, 204, 200]);
    let text = String::from_utf8(response.body).unwrap().replace("\r\n", "\n");
    let head = "HTTP/1.1 200 OK\nDataServiceVersion: 3.0;\nContent-Type: application/json;odata=nometadata;streaming=true;charset=utf-8\n";
    let rest = "X-Content-Type-Options: nosniff\nCache-Control: no-cache\nPreference-Applied: return-content\nETag: W/";
    assert!(text.contains(&format!("{head}Content-ID: 7\n{rest}")), "{text}");
    assert!(text.contains(&format!("{head}{rest}")) && !text.contains("Location:"), "{text}");
    for body in ["{\"PartitionKey\":\"p\",\"RowKey\":\"1\",", "{\"PartitionKey\":\"p\",\"RowKey\":\"3\","] {
        assert!(text.contains(body), "{text}");
    }
}

#[test]
fn a_batch_of_small_merges_returns_a_bounded_part_of_large_entities() {
    let server = server();
    let mut client = server.client();
    let text = "x".repeat(32 * 1024 - 1);
    let properties: Vec<String> = (0..15).map(|number| format!("\"P{number}\":\"{text}\"")).collect();
    for row in 0..20 {
        let large = put(&format!("/cars(PartitionKey='p',RowKey='{row}')"), &format!("{{{}}}", properties.join(",")));
        assert_eq!(large.send(&mut client).status, 204);
    }
    let merges: Vec<String> = (0..20).map(|row| change("MERGE", row, r#"{"A":1}"#)).collect();
    let response = transact(&mut client, &merges).unwrap();
    let found = statuses(&response);
    let returned = found.iter().filter(|status| **status == 200).count();
    assert!(found.len() == 20 && found.iter().all(|status| [200, 204].contains(status)), "{found:?}");
    assert!((1..20).contains(&returned) && found[0] == 200, "{found:?}");
    assert!(response.body.len() < 2 * 1024 * 1024 + 64 * 1024, "{}", response.body.len());
    // All of them are written.
    let query = get("/cars()?$filter=A%20eq%201&$select=RowKey").level("nometadata").send(&mut client);
    assert_eq!(query.json()["value"].as_array().unwrap().len(), 20);
}
