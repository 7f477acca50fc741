//! Bearer tokens (09), with issuers and keys that are created by the test.

use crate::Server;
use crate::server::accounts;
use rowhouse_server::{BearerTokens, OAuthConfig, OAuthSection, parse_toml};
use serde::Deserialize;
use serde_json::{Value, json};
use test_support::Response;
use test_support::issuer::{Issuer, oauth_section, request};
use test_support::minting::{KeyPair, encode, header};

const CHALLENGE: &str = "Bearer authorization_uri=https://login.example.net/66666666-7777-8888-9999-000000000000/oauth2/authorize resource_id=https://storage.azure.com";
pub(crate) const NEW: &str = "2020-12-06";
const OLD: &str = "2019-02-02";
pub(crate) const ENTITY: &str = "/orchard/harvest(PartitionKey='p',RowKey='r')";
/// The keys of the account `orchard`.
pub(crate) const KEYS: [&str; 2] = ["AQEBAQEBAQEBAQEBAQEBAQ==", "AgICAgICAgICAgICAgICAg=="];

/// A server that trusts two issuers, and principals with every kind of role. Its clock follows the operating system's,
/// as the tokens' times do.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) issuer: Issuer,
    pub(crate) other: Issuer,
    pub(crate) rsa: KeyPair,
    pub(crate) ec: KeyPair,
}

/// A response, with its body as text.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: Response,
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.header(name)
    }
}

/// A configuration file.
#[derive(Deserialize)]
struct Configuration {
    oauth: OAuthSection,
}

impl World {
    pub(crate) fn start() -> Self {
        let (rsa, ec) = (KeyPair::rsa("rsa-1"), KeyPair::p256("ec-1"));
        let (issuer, other) = (Issuer::start(&[&rsa]), Issuer::start(&[&ec]));
        let text = oauth_section("allow-bearer-over-plain-http = true", &issuer, &other);
        let configuration: Configuration = parse_toml(&text, &[]).unwrap();
        let mut access = accounts(&format!("orchard:{}:{}", KEYS[0], KEYS[1]));
        access.tokens = Some(BearerTokens::OAuth(Box::new(OAuthConfig::new(&configuration.oauth).unwrap())));
        let server = Server::with_access(access, |_| {});
        server.clock.reset();
        Self { server, issuer, other, rsa, ec }
    }

    /// Returns a token of the first issuer for a principal, with the given changes to its claims.
    pub(crate) fn token(&self, oid: &str, change: &Value) -> String {
        self.rsa.sign(&header("RS256", &self.rsa), &self.issuer.claims(oid, change))
    }

    pub(crate) fn good(&self, oid: &str) -> String {
        self.token(oid, &json!({}))
    }

    pub(crate) fn send(&self, token: &str, version: &str, method: &str, path: &str, body: &str) -> Answer {
        let authorization = format!("Authorization: Bearer {token}\r\n");
        send_text(&self.server, &request(&authorization, version, method, path, body))
    }

    /// Returns the status and the error code of the response to a request with a token.
    pub(crate) fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        outcome(&self.send(token, NEW, method, path, body))
    }

    fn list(&self, token: &str) -> (u16, String) {
        self.ask(token, "GET", "/orchard/Tables", "")
    }

    pub(crate) fn create_tables(&self) {
        for table in ["harvest", "winter"] {
            let body = format!(r#"{{"TableName":"{table}"}}"#);
            assert_eq!(self.ask(&self.good("writer"), "POST", "/orchard/Tables", &body).0, 201);
        }
    }
}

/// Sends a request on a new connection.
pub(crate) fn send_text(server: &Server, request: &str) -> Answer {
    let mut client = server.client();
    client.send(request.as_bytes()).unwrap();
    let response = client.receive().unwrap();
    let body = String::from_utf8(response.body.clone()).unwrap();
    Answer { status: response.status, response, body }
}

pub(crate) fn outcome(answer: &Answer) -> (u16, String) {
    (answer.status, answer.header("x-ms-error-code").unwrap_or_default().to_owned())
}

pub(crate) fn refused() -> (u16, String) {
    (401, "InvalidAuthenticationInfo".to_owned())
}

pub(crate) fn denied() -> (u16, String) {
    (403, "AuthorizationPermissionMismatch".to_owned())
}

pub(crate) fn fine(status: u16) -> (u16, String) {
    (status, String::new())
}

#[test]
fn accepted_and_refused_tokens() {
    let world = World::start();
    let now = test_support::issuer::now();
    for (change, taken) in [
        (json!({}), true),
        (json!({ "exp": now - 200 }), true),
        (json!({ "exp": now - 400 }), false),
        (json!({ "aud": "https://graph.example" }), false),
        (json!({ "aud": "https://orchard.table.example.net" }), true),
        (json!({ "aud": "https://meadow.table.example.net" }), false),
        (json!({ "iss": world.other.name }), false),
        (json!({ "oid": null, "sub": null }), false),
    ] {
        let expected = if taken { fine(200) } else { refused() };
        assert_eq!(world.list(&world.token("reader", &change)), expected, "{change}");
    }
}

#[test]
fn forged_signatures() {
    let world = World::start();
    let good = world.good("owner");
    let (head, rest) = good.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let swapped = encode(world.issuer.claims("reader", &json!({ "uti": "other" })).to_string().as_bytes());
    for token in [format!("{head}.{swapped}.{signature}"), "nonsense".to_owned()] {
        assert_eq!(world.list(&token), refused(), "{token:.80}");
    }
    assert_eq!(world.list(&good), fine(200));
}

#[test]
fn challenges_without_a_valid_token() {
    let world = World::start();
    let expired = world.token("reader", &json!({ "exp": 1 }));
    let ask = |authorization: &str, version: &str| {
        send_text(&world.server, &request(authorization, version, "GET", "/orchard/Tables", ""))
    };
    // Recorded: the code depends on whether there is a token, and only without one does the response name the version.
    for (authorization, new, old, names_version) in [
        ("", (401, "NoAuthenticationInformation"), (404, "ResourceNotFound"), true),
        (
            &format!("Authorization: Bearer {expired}\r\n"),
            (401, "InvalidAuthenticationInfo"),
            (403, "AuthenticationFailed"),
            false,
        ),
    ] {
        let answer = ask(authorization, NEW);
        assert_eq!(outcome(&answer), (new.0, new.1.into()));
        assert_eq!(answer.header("www-authenticate"), Some(CHALLENGE));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-ms-version"), names_version.then_some(NEW));
        let message = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";
        assert!(answer.body.contains(message), "{}", answer.body);
        let answer = ask(authorization, OLD);
        assert_eq!(outcome(&answer), (old.0, old.1.into()));
        assert_eq!(answer.header("www-authenticate"), None);
    }
    for authorization in ["Authorization: Bearer\r\n", "Authorization: bearer a, b\r\n", "Authorization: Basic a\r\n"] {
        let answer = ask(authorization, NEW);
        assert_eq!(outcome(&answer), (400, "InvalidAuthenticationInfo".into()), "{authorization}");
        assert_eq!(answer.header("www-authenticate"), None);
    }
    let wrong_key = format!("Authorization: SharedKeyLite orchard:{}\r\n", KEYS[0]);
    assert_eq!(ask(&wrong_key, NEW).header("www-authenticate"), None, "no challenge for other schemes");
    // The scheme is case-insensitive, and any version may use a token.
    assert_eq!(ask(&format!("Authorization: bEARER {}\r\n", world.good("reader")), OLD).status, 200);
    assert_eq!(world.ask(&world.good("reader"), "GET", "/meadow/Tables", "").0, 403, "the account does not exist");
}

#[test]
fn roles() {
    let world = World::start();
    world.create_tables();
    let entity = r#"{"PartitionKey":"p","RowKey":"r","n":1}"#;
    let (nobody, reader, writer) = (world.good("nobody"), world.good("reader"), world.good("writer"));
    assert_eq!(world.list(&nobody), denied());
    assert_eq!(world.ask(&nobody, "GET", "/orchard/harvest()", ""), denied());
    assert_eq!(world.ask(&reader, "POST", "/orchard/harvest", entity), denied());
    assert_eq!(world.ask(&reader, "DELETE", "/orchard/Tables('harvest')", ""), denied());
    assert_eq!(world.ask(&writer, "POST", "/orchard/harvest", entity), fine(201));
    assert_eq!(world.ask(&reader, "GET", ENTITY, ""), fine(200));
    for (method, body) in [("PUT", "{}"), ("PATCH", "{}"), ("MERGE", "{}"), ("DELETE", "")] {
        assert_eq!(world.ask(&reader, method, ENTITY, body), denied(), "{method}");
    }
    // A role on one table.
    let local = world.good("local");
    assert_eq!(world.list(&local), denied(), "listing tables requires a role on the account");
    assert_eq!(world.ask(&local, "PUT", ENTITY, "{}"), fine(204));
    assert_eq!(world.ask(&local, "GET", "/orchard/HARVEST()", ""), fine(200));
    assert_eq!(world.ask(&local, "GET", "/orchard/winter()", ""), denied());
    assert_eq!(world.ask(&local, "POST", "/orchard/winter", entity), denied());
    assert_eq!(world.ask(&local, "POST", "/orchard/Tables", r#"{"TableName":"spring"}"#), denied());
    // A role with single actions: insert, but neither upsert nor read.
    let appender = world.good("appender");
    let second = r#"{"PartitionKey":"p","RowKey":"second"}"#;
    assert_eq!(world.ask(&appender, "POST", "/orchard/harvest", second), fine(201));
    assert_eq!(world.ask(&appender, "PUT", ENTITY, "{}"), denied());
    assert_eq!(world.ask(&appender, "GET", ENTITY, ""), denied());
    // Policies, properties and statistics require an owner.
    let owner = world.good("owner");
    for path in ["/orchard/harvest?comp=acl", "/orchard/?restype=service&comp=properties"] {
        assert_eq!(world.ask(&writer, "GET", path, ""), denied(), "{path}");
        assert_eq!(world.ask(&owner, "GET", path, ""), fine(200), "{path}");
    }
    assert_eq!(world.ask(&writer, "PUT", "/orchard/harvest?comp=acl", "<SignedIdentifiers/>"), denied());
    assert_eq!(world.ask(&owner, "DELETE", "/orchard/Tables('winter')", ""), fine(204));
}

#[test]
fn roles_that_tokens_name() {
    let world = World::start();
    world.create_tables();
    let token = |roles: &Value| {
        let claims = world.other.claims("reader", &json!({ "realm": { "roles": roles }, "roles": ["tables.write"] }));
        world.ec.sign(&header("ES256", &world.ec), &claims)
    };
    assert_eq!(world.list(&token(&json!([]))), denied(), "a role ID of one issuer is invalid at another");
    let reader = token(&json!(["Storage Table Data Reader"]));
    assert_eq!(world.list(&reader), fine(200));
    assert_eq!(world.ask(&reader, "PUT", ENTITY, "{}"), denied());
    assert_eq!(world.ask(&token(&json!("tables.write")), "PUT", ENTITY, "{}"), fine(204));
}

#[test]
fn each_operation_of_a_batch_is_authorized() {
    let world = World::start();
    world.create_tables();
    let operation = |method: &str, path: &str, body: &str| {
        format!(
            "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             {method} http://127.0.0.1{path} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
             Prefer: return-no-content\r\n\r\n{body}\r\n"
        )
    };
    let batch = |operations: &[String]| {
        let operations = operations.concat();
        format!(
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n{operations}--changeset_c--\r\n--batch_b--\r\n"
        )
    };
    let insert = operation("POST", "/orchard/harvest", r#"{"PartitionKey":"p","RowKey":"a"}"#);
    let upsert = operation("PUT", "/orchard/harvest(PartitionKey='p',RowKey='b')", "{}");
    let send = |oid: &str, operations: &[String]| {
        world.send(&world.good(oid), NEW, "POST", "/orchard/$batch", &batch(operations))
    };
    let entities = || world.send(&world.good("reader"), NEW, "GET", "/orchard/harvest()", "").body;
    for (oid, operations) in [("reader", vec![insert.clone()]), ("appender", vec![insert.clone(), upsert.clone()])] {
        let answer = send(oid, &operations);
        assert_eq!(answer.status, 202, "{answer:?}");
        assert!(answer.body.contains("HTTP/1.1 403 Forbidden"), "{}", answer.body);
        assert!(answer.body.contains("AuthorizationPermissionMismatch"), "{}", answer.body);
        assert!(entities().contains(r#""value":[]"#), "nothing must be applied");
    }
    let answer = send("writer", &[insert, upsert]);
    assert_eq!(answer.body.matches("HTTP/1.1 204").count(), 2, "{}", answer.body);
    // A query in a batch.
    let query = "--batch_b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
        GET http://127.0.0.1/orchard/harvest(PartitionKey='p',RowKey='a') HTTP/1.1\r\nAccept: application/json\r\n\r\n\r\n\
        --batch_b--\r\n";
    let ask = |oid: &str| world.send(&world.good(oid), NEW, "POST", "/orchard/$batch", query).body;
    assert!(ask("appender").contains("HTTP/1.1 403"));
    assert!(ask("reader").contains("HTTP/1.1 200"));
}

#[test]
fn keys_rotate_and_unknown_keys_cost_one_request_a_minute() {
    let world = World::start();
    assert_eq!(world.list(&world.good("reader")), fine(200));
    let new = KeyPair::p256("new");
    let with =
        |pair: &KeyPair, algorithm| pair.sign(&header(algorithm, pair), &world.issuer.claims("reader", &json!({})));
    let renamed = KeyPair::rsa("rsa-2");
    world.issuer.publish(&[&renamed]);
    let before = world.issuer.key_requests();
    assert_eq!(world.list(&with(&renamed, "RS256")), fine(200));
    assert_eq!(world.list(&world.good("reader")), refused(), "the old key is invalid, even for tokens seen before");
    for number in 0..5 {
        let unknown = KeyPair::rsa(&format!("unknown-{number}"));
        assert_eq!(world.list(&with(&unknown, "RS256")), refused());
    }
    assert_eq!(world.list(&with(&new, "ES256")), refused());
    assert_eq!(world.issuer.key_requests() - before, 1);
}

#[test]
fn without_issuers_bearer_is_an_unknown_scheme() {
    let server = Server::with_access(accounts(&format!("orchard:{}", KEYS[0])), |_| {});
    let ask =
        |authorization: &str| outcome(&send_text(&server, &request(authorization, NEW, "GET", "/orchard/Tables", "")));
    assert_eq!(ask("Authorization: Bearer a.b.c\r\n"), (400, "InvalidAuthenticationInfo".into()));
    assert_eq!(ask(""), (403, "AuthenticationFailed".into()), "there is no issuer to advertise");
}
