//! Requests to the test controls on the program's admin listener.

use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The timeout for the parts of an exchange.
const TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Controls(SocketAddr);

impl Controls {
    /// `address` is the URL that the program prints.
    pub(super) fn new(address: &str) -> anyhow::Result<Self> {
        let authority = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        Ok(Self(authority.parse().with_context(|| format!("reading the address {address}"))?))
    }

    /// Sends a request, and returns the JSON of the response, or null if the response has no body.
    pub(super) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let body = body.map_or_else(String::new, Value::to_string);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.0,
            body.len()
        );
        let response = self.exchange(&request).context("the server does not respond")?;
        let (head, body) = response.split_once("\r\n\r\n").context("the response is not complete")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        match status.context("the response has no status")? {
            200..=299 if body.is_empty() => Ok(Value::Null),
            200..=299 => serde_json::from_str(body).context("reading the response"),
            status => {
                let error: Option<Value> = serde_json::from_str(body).ok();
                let reason = error.as_ref().and_then(|error| error.get("error")?.as_str());
                bail!("the server responded with {status}: {}", reason.unwrap_or(body))
            }
        }
    }

    fn exchange(&self, request: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.0, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(request.as_bytes())?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    }
}
