//! A trace collector that stores what it receives.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Export {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

pub(crate) struct Collector {
    pub(crate) endpoint: String,
    exports: Arc<Mutex<Vec<Export>>>,
}

impl Collector {
    pub(crate) fn start(status: &'static str, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let exports = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&exports);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    let Some(export) = receive(&stream) else { return };
                    kept.lock().unwrap().push(export);
                    std::thread::sleep(delay);
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
                    let _ = (&stream).write_all(answer.as_bytes());
                });
            }
        });
        Self { endpoint, exports }
    }

    pub(crate) fn exports(&self) -> Vec<Export> {
        self.exports.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Value> {
        let list = |value: &Value, field: &str| value[field].as_array().unwrap().clone();
        let exports = self.exports();
        let resources = exports.iter().flat_map(|export| list(&export.body, "resourceSpans"));
        let scopes = resources.flat_map(|resource| list(&resource, "scopeSpans"));
        scopes.flat_map(|scope| list(&scope, "spans")).collect()
    }
}

fn receive(stream: &TcpStream) -> Option<Export> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Export { path, headers, body: serde_json::from_slice(&body).ok()? })
}

pub(crate) fn attribute(of: &Value, name: &str) -> Option<String> {
    let attribute = of["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == name)?;
    let value = &attribute["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).map(str::to_owned)
}
