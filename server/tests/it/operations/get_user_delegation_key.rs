//! Get User Delegation Key (08 §11.1). `service/delegation.rs` tests the signatures that are made with keys.

use crate::service::bearer::{Answer, KEYS, World, denied, fine, outcome, refused, send_text};
use serde_json::json;
use test_support::delegation::{Key, PATH, TENANT, VERSION, key_info, time};
use test_support::issuer::request;
use wire::sas::Fields;
use wire::signing::AccountKey;

pub(crate) fn key_of(answer: &Answer) -> Key {
    assert_eq!(outcome(answer), fine(200), "{}", answer.body);
    Key::parse(&answer.body)
}

/// Gets a key for a principal of the first issuer.
pub(crate) fn key_for(world: &World, oid: &str) -> Key {
    let token = world.token(oid, &json!({ "tid": TENANT }));
    key_of(&world.send(&token, VERSION, "POST", PATH, &key_info("")))
}

pub(crate) fn failed() -> (u16, String) {
    (403, "AuthenticationFailed".to_owned())
}

fn bad(code: &str) -> (u16, String) {
    (400, code.to_owned())
}

#[test]
fn the_response_has_the_fields_of_a_key() {
    let world = World::start();
    let token = world.token("writer", &json!({ "tid": TENANT }));
    let answer = world.send(&token, VERSION, "POST", PATH, &key_info(""));
    let key = key_of(&answer);
    let names = ["SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion", "Value"];
    let fields: String = names.map(|name| format!("<{name}>{}</{name}>", key.text(name))).concat();
    let root = format!("<UserDelegationKey>{fields}</UserDelegationKey>");
    assert_eq!(answer.body, format!("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>{root}"));
    assert_eq!(answer.header("content-type"), Some("application/xml"));
    assert_eq!((answer.header("cache-control"), answer.header("x-content-type-options")), (None, None));
    assert_eq!(answer.header("x-ms-version"), Some(VERSION));
    let fixed = ["SignedOid", "SignedTid", "SignedService", "SignedVersion"].map(|name| key.text(name));
    assert_eq!(fixed, ["writer", TENANT, "t", VERSION]);
    // Times have whole seconds.
    assert!(["SignedStart", "SignedExpiry"].iter().all(|name| key.text(name).len() == "2031-03-14T08:15:30Z".len()));
}

#[test]
fn who_gets_a_key() {
    let world = World::start();
    let get = |oid: &str| world.send(&world.good(oid), VERSION, "POST", PATH, &key_info(""));
    for oid in ["writer", "local", "keymaker", "owner"] {
        let key = key_of(&get(oid));
        assert_eq!((key.text("SignedOid"), key.text("SignedTid")), (oid, "00000000-0000-0000-0000-000000000000"));
    }
    for oid in ["reader", "appender", "nobody"] {
        assert_eq!(outcome(&get(oid)), denied(), "{oid}");
    }
    // A URL path without a trailing slash, and a token without an object ID.
    let path = "/orchard?restype=service&comp=userdelegationkey";
    assert_eq!(world.send(&world.good("owner"), VERSION, "POST", path, &key_info("")).status, 200);
    let pathless = world.token("owner", &json!({ "oid": null }));
    assert_eq!(outcome(&world.send(&pathless, VERSION, "POST", PATH, &key_info(""))), denied());
    // Only a token is accepted.
    let plain = |authorization: &str, path: &str| {
        let text = request(authorization, VERSION, "POST", path, &key_info(""));
        outcome(&send_text(&world.server, &text))
    };
    assert_eq!(plain("", PATH), refused());
    let fields = Fields {
        version: "2019-02-02".into(),
        services: "t".into(),
        resources: "sco".into(),
        permissions: "rwdlacu".into(),
        expiry: time(600).into(),
        ..Fields::default()
    };
    let sas = fields.sign("orchard", &AccountKey::parse(KEYS[0]).unwrap()).unwrap();
    assert_eq!(plain("", &format!("{PATH}&{sas}")), failed());
    let by_key = shared_key_request(&key_info(""));
    let answer = send_text(&world.server, &by_key);
    assert_eq!(outcome(&answer), failed());
    world.server.wait_for_log("Only authentication scheme Bearer is supported");
}

/// Returns a request for a user delegation key that is signed with an account key.
fn shared_key_request(body: &str) -> String {
    use wire::signing::{Scheme, SignedRequest};
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    let signed = SignedRequest {
        method: "POST",
        content_md5: "",
        content_type: "application/json",
        date: &date,
        account: "orchard",
        path: "/orchard/",
        comp: Some("userdelegationkey"),
    };
    let signature = AccountKey::parse(KEYS[0]).unwrap().sign(&signed.string_to_sign(Scheme::SharedKeyLite));
    let headers = format!("x-ms-date: {date}\r\nAuthorization: SharedKeyLite orchard:{signature}\r\n");
    request(&headers, VERSION, "POST", PATH, body)
}

#[test]
fn requests_for_a_key_that_are_refused() {
    let world = World::start();
    let token = world.good("owner");
    let get = |version: &str, body: &str| world.send(&token, version, "POST", PATH, body);
    for version in ["2020-12-06", "2025-05-05"] {
        assert_eq!(outcome(&get(version, &key_info(""))), bad("InvalidQueryParameterValue"), "{version}");
    }
    assert_eq!(key_of(&get("2026-04-06", &key_info(""))).text("SignedVersion"), "2026-04-06");
    let interval = |start: i64, expiry: i64| {
        format!("<KeyInfo><Start>{}</Start><Expiry>{}</Expiry></KeyInfo>", time(start), time(expiry))
    };
    let week = 7 * 24 * 3600;
    for (body, code) in [
        (String::new(), "InvalidXmlDocument"),
        ("<KeyInfo>".to_owned(), "InvalidXmlDocument"),
        ("<Other/>".to_owned(), "InvalidXmlDocument"),
        (format!("<KeyInfo><Start>{}</Start></KeyInfo>", time(0)), "MissingRequiredXmlNode"),
        ("<KeyInfo><Expiry>tomorrow</Expiry></KeyInfo>".to_owned(), "InvalidXmlNodeValue"),
        (interval(0, week + 3600), "InvalidXmlNodeValue"),
        (interval(3600, 1800), "InvalidXmlNodeValue"),
        (interval(-3600, -1800), "InvalidXmlNodeValue"),
    ] {
        let answer = get(VERSION, &body);
        assert_eq!(outcome(&answer), bad(code), "{body}");
        assert_eq!(answer.header("content-type"), Some("application/xml"));
    }
    let key = key_of(&get(VERSION, &interval(-900, week - 60)));
    assert_eq!(key.text("Value").len(), 44, "the key is 32 bytes long");
    for method in ["GET", "PUT", "DELETE"] {
        let answer = world.send(&token, VERSION, method, PATH, "");
        assert_eq!(answer.header("x-ms-error-code"), Some("UnsupportedHttpVerb"), "{method}");
    }
}
