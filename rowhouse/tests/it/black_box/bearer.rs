//! Tests of bearer tokens, with an issuer and keys that are created by the test (specification 09 §8).

use super::tls::{self, write_pair};
use super::{Folder, account_file, client, exchange, key, refusal, start};
use serde_json::{Value, json};
use test_support::issuer::{Issuer, oauth_section, request};
use test_support::minting::{KeyPair, header};
use test_support::{Response, Server, eventually};

pub(super) const NEW: &str = "2020-12-06";

pub(super) struct World {
    pub(super) server: Server,
    pub(super) issuer: Issuer,
    pub(super) other: Issuer,
    pub(super) rsa: KeyPair,
    pub(super) ec: KeyPair,
    /// Kept because the server reloads its files: `rowhouse.toml` and `accounts`.
    pub(super) folder: Folder,
}

/// The file with the role assignments that change.
pub(super) const ASSIGNMENTS: &str = "roles.toml";

impl World {
    pub(super) fn start() -> Self {
        Self::with("allow-bearer-over-plain-http = true", &[])
    }

    pub(super) fn with(switches: &str, arguments: &[&str]) -> Self {
        let (rsa, ec) = (KeyPair::rsa("rsa-1"), KeyPair::p256("ec-1"));
        let (issuer, other) = (Issuer::start(&[&rsa]), Issuer::start(&[&ec]));
        let folder = Folder::new();
        let config = folder.write("rowhouse.toml", &oauth_section(switches, &issuer, &other));
        let accounts = folder.write("accounts", &account_file("orchard", &key(1), &key(2)));
        let fixed = ["--config", &config, "--accounts", &accounts, "--log", "debug"];
        let server = start(&[&fixed[..], arguments].concat());
        Self { server, issuer, other, rsa, ec, folder }
    }

    pub(super) fn with_assignments_in(folder: &Folder) -> Self {
        let file = folder.write(ASSIGNMENTS, "");
        Self::with(&format!("allow-bearer-over-plain-http = true\nassignments-file = {file:?}"), &[])
    }

    pub(super) fn assign_in(&self, folder: &Folder, oid: &str, role: &str) {
        let principal = format!("{{ issuer = \"{}\", oid = \"{oid}\" }}", self.issuer.name);
        let text = format!("[[assignments]]\nprincipal = {principal}\nrole = \"{role}\"\nscope = \"orchard\"\n");
        folder.replace(ASSIGNMENTS, &text);
        self.server.wait_for_log("role assignments: reloaded");
    }

    pub(super) fn token(&self, oid: &str, change: &Value) -> String {
        self.rsa.sign(&header("RS256", &self.rsa), &self.issuer.claims(oid, change))
    }

    pub(super) fn good(&self, oid: &str) -> String {
        self.token(oid, &json!({}))
    }

    pub(super) fn send(&self, token: &str, version: &str, method: &str, path: &str, body: &str) -> Response {
        let authorization = format!("Authorization: Bearer {token}\r\n");
        exchange(&mut client(&self.server, ""), &request(&authorization, version, method, path, body))
    }

    pub(super) fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        outcome(&self.send(token, NEW, method, path, body))
    }

    fn list(&self, token: &str) -> (u16, String) {
        self.ask(token, "GET", "/orchard/Tables", "")
    }

    pub(super) fn create_tables(&self) {
        for table in ["harvest", "winter"] {
            let body = format!(r#"{{"TableName":"{table}"}}"#);
            assert_eq!(self.ask(&self.good("writer"), "POST", "/orchard/Tables", &body).0, 201);
        }
    }
}

pub(super) fn outcome(answer: &Response) -> (u16, String) {
    (answer.status, answer.header("x-ms-error-code").unwrap_or_default().to_owned())
}

pub(super) fn refused() -> (u16, String) {
    (401, "InvalidAuthenticationInfo".to_owned())
}

pub(super) fn denied() -> (u16, String) {
    (403, "AuthorizationPermissionMismatch".to_owned())
}

pub(super) fn fine(status: u16) -> (u16, String) {
    (status, String::new())
}

pub(super) const ENTITY: &str = "/orchard/harvest(PartitionKey='p',RowKey='r')";

#[test]
fn an_issuer_that_is_down() {
    let rsa = KeyPair::rsa("rsa-1");
    let issuer = Issuer::start(&[&rsa]);
    issuer.set_down(true);
    let folder = Folder::new();
    let config = folder
        .write("rowhouse.toml", &oauth_section("allow-bearer-over-plain-http = true", &issuer, &Issuer::start(&[])));
    let accounts = folder.write("accounts", &account_file("orchard", &key(1), &key(2)));
    let server = start(&["--config", &config, "--accounts", &accounts]);
    server.wait_for_log("tokens are refused until the keys can be fetched");
    let token = rsa.sign(&header("RS256", &rsa), &issuer.claims("reader", &json!({})));
    let list = || {
        let text = request(&format!("Authorization: Bearer {token}\r\n"), NEW, "GET", "/orchard/Tables", "");
        outcome(&exchange(&mut client(&server, ""), &text))
    };
    assert_eq!(list(), (503, "ServerBusy".into()));
    issuer.set_down(false);
    eventually("the keys", || (list() == fine(200)).then_some(()));
    // With cached keys, tokens are accepted even while the issuer is down.
    issuer.set_down(true);
    assert_eq!(list(), fine(200));
}

#[test]
fn tokens_need_tls() {
    let folder = Folder::new();
    let pair = write_pair(&folder);
    let world = World::with("", &["--tls-cert", &pair.certificate, "--tls-key", &pair.key]);
    let authorization = format!("Authorization: Bearer {}\r\n", world.good("reader"));
    let text = request(&authorization, NEW, "GET", "/orchard/Tables", "");
    assert_eq!(exchange(&mut tls::connect(&world.server.address, &pair.trusted, "").unwrap(), &text).status, 200);
    let world = World::with("", &[]);
    let answer = world.send(&world.good("reader"), NEW, "GET", "/orchard/Tables", "");
    assert_eq!(outcome(&answer), (403, "AuthenticationFailed".into()));
    assert_eq!(answer.header("www-authenticate"), None);
}

#[test]
fn the_log_names_who_was_denied_and_never_a_token() {
    let world = World::start();
    let (nobody, expired) = (world.good("nobody"), world.token("reader", &json!({ "exp": 1 })));
    assert_eq!(world.list(&nobody), denied());
    assert_eq!(world.list(&expired), refused());
    let denial = format!(
        "QueryTables on orchard is denied to principal \"nobody\" of \"{}\" (client \"app\", token \"token-id\")",
        world.issuer.name
    );
    world.server.wait_for_log(&denial);
    world.server.wait_for_log("Lifetime validation failed. The token is expired.");
    for token in [nobody, expired] {
        for part in token.split('.') {
            assert!(!world.server.log().contains(part));
        }
    }
}

#[test]
fn configuration_errors_prevent_the_start() {
    let folder = Folder::new();
    let start = |text: &str| refusal(&["--listen", "127.0.0.1:0", "--config", &folder.write("c.toml", text)], &[]);
    let message = start("[oauth]\n[[oauth.issuers]]\nissuer = \"http://127.0.0.1:9\"\n");
    assert!(message.contains("allow-plain-http-issuer-on-loopback"), "{message}");
    let message = start("[oauth]\nissuer = \"x\"\n");
    assert!(message.contains("issuer"), "{message}");
    let issuer = Issuer::start(&[]);
    issuer.rename("https://somebody.else");
    let message = start(&oauth_section("", &issuer, &Issuer::start(&[])));
    assert!(message.contains("https://somebody.else") && message.contains("aliases"), "{message}");
}
