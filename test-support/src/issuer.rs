//! A token issuer: a small HTTP server with a discovery document and a key set.

use crate::minting::KeyPair;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A running issuer. It stops with the test process.
#[derive(Debug)]
pub struct Issuer {
    /// The issuer's name, which is also its URL.
    pub name: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    name: String,
    keys: Vec<Value>,
    is_down: bool,
    key_requests: usize,
}

impl Issuer {
    /// Starts an issuer with the given keys.
    pub fn start(pairs: &[&KeyPair]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { name: name.clone(), ..State::default() }));
        let issuer = Self { name, state: Arc::clone(&state) };
        issuer.publish(pairs);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &state);
            }
        });
        issuer
    }

    /// Replaces the published keys.
    pub fn publish(&self, pairs: &[&KeyPair]) {
        self.state.lock().unwrap().keys = pairs.iter().map(|pair| pair.jwk()).collect();
    }

    /// Makes the issuer respond to all requests with 503, or makes it work again.
    pub fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    /// Changes the name in the discovery document.
    pub fn rename(&self, name: &str) {
        name.clone_into(&mut self.state.lock().unwrap().name);
    }

    /// Returns how many times the keys were fetched.
    pub fn key_requests(&self) -> usize {
        self.state.lock().unwrap().key_requests
    }

    /// Returns the claims of a valid token for a principal, with the given changes; null removes a claim.
    pub fn claims(&self, oid: &str, change: &Value) -> Value {
        let now = now();
        let mut claims = json!({
            "iss": self.name, "aud": "https://storage.azure.com", "iat": now, "nbf": now, "exp": now + 3600,
            "oid": oid, "sub": oid, "appid": "app", "uti": "token-id", "ver": "1.0",
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        claims
    }
}

/// Returns the time in seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Returns the section `[oauth]` of a configuration with the given switches, two issuers, and principals with every
/// kind of role in the account `orchard`.
pub fn oauth_section(switches: &str, issuer: &Issuer, other: &Issuer) -> String {
    let (one, two) = (&issuer.name, &other.name);
    let assign = |oid: &str, role: &str, scope: &str| {
        format!(
            "[[oauth.assignments]]\nprincipal = {{ issuer = \"{one}\", oid = \"{oid}\" }}\nrole = \"{role}\"\nscope = \"{scope}\"\n"
        )
    };
    format!(
        r#"
        [oauth]
        authorization-uri = "https://login.example.net/66666666-7777-8888-9999-000000000000/oauth2/authorize"
        allow-plain-http-issuer-on-loopback = true
        {switches}
        [oauth.roles]
        appender = ["tables/entities/add/action"]
        [[oauth.issuers]]
        issuer = "{one}"
        aliases = ["{one}/v2.0"]
        audiences = ["https://storage.azure.com", "https://{{account}}.table.example.net"]
        [[oauth.issuers]]
        issuer = "{two}"
        jwks-uri = "{two}/keys"
        algorithms = ["ES256"]
        [oauth.issuers.role-claim]
        path = "realm.roles"
        scopes = ["orchard"]
        values = {{ "tables.write" = "contributor", "delegate" = "delegator" }}
        {}{}{}{}{}{}{}{}
        [[oauth.assignments]]
        principal = {{ issuer = "{one}", sub = "subject" }}
        role = "delegator"
        scope = "orchard"
        [[oauth.assignments]]
        principal = {{ issuer = "{one}", sub = "subject" }}
        role = "reader"
        scope = "orchard"
        "#,
        assign("reader", "reader", "orchard"),
        assign("writer", "contributor", "orchard"),
        assign("owner", "owner", "orchard"),
        assign("local", "contributor", "orchard/harvest"),
        assign("appender", "appender", "orchard/harvest"),
        assign("writer", "delegator", "orchard"),
        assign("local", "delegator", "orchard"),
        assign("keymaker", "Storage Table Delegator", "orchard"),
    )
}

/// Returns a request to the account, with the given line or lines of `Authorization`.
pub fn request(authorization: &str, version: &str, method: &str, path: &str, body: &str) -> String {
    let content_type = if path.contains("$batch") { "multipart/mixed; boundary=batch_b" } else { "application/json" };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-version: {version}\r\nAccept: application/json\r\n\
         {authorization}Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn answer(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let mut state = state.lock().unwrap();
    let body = match path {
        _ if state.is_down => None,
        "/.well-known/openid-configuration" => {
            let jwks_uri = format!("{}/moved", head_host(&head));
            Some(json!({ "issuer": state.name, "jwks_uri": jwks_uri }))
        }
        "/keys" => {
            state.key_requests += 1;
            Some(json!({ "keys": state.keys }))
        }
        _ => None,
    };
    let text = match (path, body) {
        (_, Some(body)) => {
            let body = body.to_string();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: max-age=600\r\n\r\n{body}", body.len())
        }
        ("/moved", None) => "HTTP/1.1 302 Found\r\nLocation: /keys\r\nContent-Length: 0\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned(),
    };
    // The other end may have disconnected.
    let _ = reader.get_mut().write_all(text.as_bytes());
}

fn head_host(head: &str) -> String {
    let host =
        head.lines().find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("host")));
    format!("http://{}", host.unwrap().1)
}
