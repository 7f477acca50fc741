//! A token issuer: a small HTTP server with a discovery document and a key set.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use test_support::minting::KeyPair;

pub(crate) struct Issuer {
    pub(crate) name: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    name: String,
    keys: Vec<Value>,
    is_down: bool,
    key_requests: usize,
}

impl Issuer {
    pub(crate) fn start(pairs: &[&KeyPair]) -> Self {
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

    pub(crate) fn publish(&self, pairs: &[&KeyPair]) {
        self.state.lock().unwrap().keys = pairs.iter().map(|pair| pair.jwk()).collect();
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    pub(crate) fn rename(&self, name: &str) {
        name.clone_into(&mut self.state.lock().unwrap().name);
    }

    pub(crate) fn key_requests(&self) -> usize {
        self.state.lock().unwrap().key_requests
    }

    /// In `change`, null removes a claim.
    pub(crate) fn claims(&self, oid: &str, change: &Value) -> Value {
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

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
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
