//! Get User Delegation Key, and the signatures that are made with such keys (08 §11).

use super::bearer::{Answer, ENTITY, KEYS, NEW, World, denied, fine, outcome, refused, send_text};
use crate::Server;
use serde_json::json;
use test_support::delegation::{ABROAD, Key, PATH, TENANT, VERSION, key_info, time};
use test_support::issuer::request;
use test_support::minting::header;
use wire::sas::Fields;
use wire::signing::AccountKey;

type Change = fn(&mut Fields<'static>);

const INSERTED: &str = r#"{"PartitionKey":"p","RowKey":"r","n":1}"#;

/// Sends a request with a signature in its URL and, optionally, a token.
fn send(server: &Server, token: Option<&str>, method: &str, path: &str, signature: &str, body: &str) -> (u16, String) {
    let authorization = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    let path = format!("{path}{}{signature}", if path.contains('?') { '&' } else { '?' });
    outcome(&send_text(server, &request(&authorization, NEW, method, &path, body)))
}

fn ask(world: &World, method: &str, path: &str, signature: &str, body: &str) -> (u16, String) {
    send(&world.server, None, method, path, signature, body)
}

#[test]
fn a_key_and_signatures_made_with_it() {
    let world = World::start();
    world.create_tables();
    let key = key_for(&world, "writer");
    for (name, expected) in
        [("SignedOid", "writer"), ("SignedTid", TENANT), ("SignedService", "t"), ("SignedVersion", VERSION)]
    {
        assert_eq!(key.text(name), expected);
    }
    assert_eq!(key.text("SignedDelegatedUserTid"), "");
    let all = key.sign("raud", |_| {});
    assert_eq!(ask(&world, "POST", "/orchard/harvest", &all, INSERTED), fine(201));
    assert_eq!(ask(&world, "GET", ENTITY, &all, ""), fine(200));
    assert_eq!(ask(&world, "GET", "/orchard/HARVEST()?$top=1", &all, ""), fine(200));
    assert_eq!(ask(&world, "PUT", ENTITY, &all, "{}"), fine(204));
    // A signature allows only its permissions, its table and its range.
    let read = key.sign("r", |_| {});
    assert_eq!(ask(&world, "GET", ENTITY, &read, ""), fine(200));
    assert_eq!(ask(&world, "PUT", ENTITY, &read, "{}"), denied());
    let elsewhere = (403, "AuthorizationFailure".to_owned());
    assert_eq!(ask(&world, "GET", "/orchard/winter()", &all, ""), elsewhere);
    assert_eq!(ask(&world, "GET", "/orchard/Tables", &all, "").0, 403);
    assert_eq!(ask(&world, "GET", "/orchard/harvest?comp=acl", &all, "").0, 403);
    let other_range = key.sign("raud", |fields| fields.start_partition = "q".into());
    assert_eq!(ask(&world, "GET", ENTITY, &other_range, ""), (404, "ResourceNotFound".into()));
    assert_eq!(ask(&world, "PUT", ENTITY, &other_range, "{}"), elsewhere);
    let delete = |signature: &str| request("If-Match: *\r\n", NEW, "DELETE", &format!("{ENTITY}?{signature}"), "");
    let delete = |signature: &str| outcome(&send_text(&world.server, &delete(signature)));
    assert_eq!((delete(&read), delete(&all)), (denied(), fine(204)));
}

#[test]
fn signatures_that_are_refused() {
    let world = World::start();
    world.create_tables();
    let key = key_for(&world, "writer");
    let get = |signature: &str| ask(&world, "GET", "/orchard/harvest()", signature, "");
    let good = key.sign("r", |_| {});
    assert_eq!(get(&good), fine(200));
    for pair in good.split('&') {
        let changed = good.replacen(pair, &pair.replacen('=', "=1", 1), 1);
        assert_eq!(get(&changed), failed(), "{pair}");
    }
    for added in ["spk=a", "sduoid=u", "skdutid=t", "si=pol", "sp=raud"] {
        let changed = format!("{added}&{good}");
        assert_eq!(get(&changed), failed(), "{added}");
    }
    let wrong: [(&str, Change); 10] = [
        ("expired", |fields| fields.expiry = time(-1).into()),
        ("not yet valid", |fields| fields.start = time(600).into()),
        ("a stored access policy", |fields| fields.policy = "pol".into()),
        ("another principal", |fields| fields.delegator = "owner".into()),
        ("another tenant", |fields| fields.delegator_tenant = ABROAD.into()),
        ("an older start", |fields| fields.key_start = time(-7200).into()),
        ("a later expiry", |fields| fields.key_expiry = time(7200).into()),
        ("another service", |fields| fields.key_service = "q".into()),
        ("another version", |fields| fields.key_version = "2026-02-06".into()),
        ("another tenant of users", |fields| fields.user_tenant = ABROAD.into()),
    ];
    for (what, change) in wrong {
        assert_eq!(get(&key.sign("r", change)), failed(), "{what}");
    }
    let https = key.sign("r", |fields| fields.protocols = "https".into());
    assert_eq!(get(&https), (403, "AuthorizationProtocolMismatch".into()));
    let address = key.sign("r", |fields| fields.sources = "203.0.113.4".into());
    assert_eq!(get(&address), (403, "AuthorizationSourceIPMismatch".into()));
    // The same fields, signed with an account key.
    let mut fields = Fields::default();
    key.sign("r", |made| fields = made.clone());
    let by_account_key = fields.sign("orchard", &AccountKey::parse(KEYS[0]).unwrap()).unwrap();
    assert_eq!(get(&by_account_key), failed());
}

#[test]
fn a_signature_allows_what_the_delegator_may_do() {
    let world = World::start();
    world.create_tables();
    let read = |oid: &str, table: &str| {
        let signature = key_for(&world, oid).sign("raud", |fields| fields.table = table.to_owned().into());
        ask(&world, "GET", &format!("/orchard/{table}()"), &signature, "")
    };
    assert_eq!(read("writer", "winter"), fine(200));
    assert_eq!(read("local", "harvest"), fine(200));
    assert_eq!(read("local", "winter"), denied(), "the delegator has no role on this table");
    assert_eq!(read("keymaker", "harvest"), denied(), "a key gives no role");
    world.server.wait_for_log("QueryEntities on orchard is denied to principal \"keymaker\" of");
    // The same ID at a different issuer is a different principal, whose roles are in tokens and therefore not in
    // signatures.
    let claims = world.other.claims("writer", &json!({ "realm": { "roles": ["delegate", "tables.write"] } }));
    let token = world.ec.sign(&header("ES256", &world.ec), &claims);
    let key = key_of(&world.send(&token, VERSION, "POST", PATH, &key_info("")));
    let signature = key.sign("r", |_| {});
    assert_eq!(world.ask(&token, "GET", "/orchard/harvest()", "").0, 200);
    assert_eq!(ask(&world, "GET", "/orchard/harvest()", &signature, ""), denied());
}

#[test]
fn a_delegator_without_an_object_id_is_known_by_its_subject() {
    let world = World::start();
    world.create_tables();
    let get = |token: &str| world.send(token, VERSION, "POST", PATH, &key_info(""));
    let key = key_of(&get(&world.token("subject", &json!({ "oid": null }))));
    assert_eq!(key.text("SignedOid"), "subject");
    let signature = key.sign("raud", |_| {});
    assert_eq!(ask(&world, "GET", "/orchard/harvest()", &signature, ""), fine(200));
    assert_eq!(ask(&world, "PUT", ENTITY, &signature, "{}"), denied());
    // A principal with this object ID has a different key, to which the roles of the subject do not apply.
    let other = world.token("subject", &json!({ "sub": "writer" }));
    assert_eq!(outcome(&get(&other)), denied());
}

#[test]
fn each_operation_of_a_batch_is_delegated() {
    let world = World::start();
    world.create_tables();
    let batch = |table: &str| {
        format!(
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\nPOST http://127.0.0.1/orchard/{table} HTTP/1.1\r\n\
             Content-Type: application/json\r\nAccept: application/json\r\n\r\n{INSERTED}\r\n--c--\r\n--batch_b--\r\n"
        )
    };
    let send = |signature: &str, table: &str| {
        let text = request("", NEW, "POST", &format!("/orchard/$batch?{signature}"), &batch(table));
        send_text(&world.server, &text)
    };
    let local = key_for(&world, "local");
    let both = |table: &'static str| local.sign("raud", move |fields| fields.table = table.into());
    let answer = send(&both("winter"), "winter");
    assert!(answer.body.contains("AuthorizationPermissionMismatch"), "{answer:?}");
    let answer = send(&both("harvest"), "winter");
    assert!(answer.body.contains("AuthorizationFailure"), "{answer:?}");
    let answer = send(&both("harvest"), "harvest");
    assert!(answer.body.contains("HTTP/1.1 201"), "{answer:?}");
}

#[test]
fn a_signature_that_is_bound_to_a_user_needs_the_users_token() {
    let world = World::start();
    world.create_tables();
    let bound = key_for(&world, "writer").sign("r", |fields| fields.user = "guest".into());
    let read = |token: Option<&str>| send(&world.server, token, "GET", "/orchard/harvest()", &bound, "");
    let of = |oid: &str, change: serde_json::Value| world.token(oid, &change);
    let guest = of("guest", json!({ "tid": TENANT }));
    assert_eq!(world.ask(&guest, "GET", "/orchard/harvest()", ""), denied(), "the user has no role");
    assert_eq!(read(Some(&guest)), fine(200));
    assert_eq!(send(&world.server, Some(&guest), "PUT", ENTITY, &bound, "{}"), denied());
    assert_eq!(read(None), failed());
    for (what, token) in [
        ("another user", of("writer", json!({ "tid": TENANT }))),
        ("another tenant", of("guest", json!({ "tid": ABROAD }))),
        ("no tenant", of("guest", json!({}))),
        ("the id in another claim", of("guest", json!({ "tid": TENANT, "oid": null }))),
    ] {
        assert_eq!(read(Some(&token)), failed(), "{what}");
    }
    let stranger = world.ec.sign(&header("ES256", &world.ec), &world.other.claims("guest", &json!({ "tid": TENANT })));
    assert_eq!(read(Some(&stranger)), failed(), "a user of another issuer");
    assert_eq!(read(Some(&of("guest", json!({ "tid": TENANT, "exp": 1 })))), refused());
    assert_eq!(read(Some("nonsense")), refused());
    // With a forged signature, even the owner's token is refused.
    let forged = bound.replace("sig=", "sig=A");
    assert_eq!(send(&world.server, Some(&world.good("owner")), "GET", "/orchard/harvest()", &forged, ""), failed());
    // If the signature is bound to no user, the token decides.
    let free = key_for(&world, "writer").sign("r", |_| {});
    assert_eq!(send(&world.server, Some(&guest), "GET", "/orchard/harvest()", &free, ""), denied());
}

fn key_of(answer: &Answer) -> Key {
    assert_eq!(outcome(answer), fine(200), "{}", answer.body);
    Key::parse(&answer.body)
}

/// Gets a key for a principal of the first issuer.
fn key_for(world: &World, oid: &str) -> Key {
    let token = world.token(oid, &json!({ "tid": TENANT }));
    key_of(&world.send(&token, VERSION, "POST", PATH, &key_info("")))
}

fn failed() -> (u16, String) {
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
    assert_eq!(plain("", PATH), (401, "NoAuthenticationInformation".into()));
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
    world.server.wait_for_log("Only a principal can request a user delegation key");
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
        ("<Other/>".to_owned(), "InvalidXmlDocument"),
        (format!("<KeyInfo><Start>{}</Start></KeyInfo>", time(0)), "MissingRequiredXmlNode"),
        (interval(0, week + 3600), "InvalidXmlNodeValue"),
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
