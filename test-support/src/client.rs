//! A small HTTP client that signs its requests as the development account.

use crate::TIMEOUT;
use serde_json::{Map, Value};
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};
use wire::QueryOptions;
use wire::header_names::spelled;
use wire::signing::{AccountKey, Scheme, SignedRequest};
use wire::uri::encode_component;

/// The development account, which a server without configured accounts has.
pub const ACCOUNT: &str = "devstoreaccount1";
/// The key of the development account.
pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An account, and the key with which its clients sign. All clones share the key.
#[derive(Debug, Clone)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The key, in Base64. The lock is held while a request signed with the key is in flight.
    key: Arc<RwLock<String>>,
}

impl Account {
    /// Creates an account with a key in Base64.
    pub fn new(name: &str, key: &str) -> Self {
        Self { name: name.to_owned(), key: Arc::new(RwLock::new(key.to_owned())) }
    }

    /// Returns the development account, which a server without configured accounts has.
    pub fn development() -> Self {
        Self::new(ACCOUNT, KEY)
    }

    /// Returns the key with which clients sign.
    pub fn key(&self) -> String {
        self.key.read().unwrap().clone()
    }

    /// Changes the key with which all clients sign. When this returns, no request signed with the old key is in flight.
    pub fn change_key(&self, key: String) {
        *self.key.write().unwrap() = key;
    }

    /// Returns the head of a signed HTTP/1.1 request. Headers that are not given get the values that clients usually
    /// send.
    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        sign(&self.name, &self.key(), SystemTime::now(), method, path, headers)
    }
}

fn sign(account: &str, key: &str, date: SystemTime, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let date = httpdate::fmt_http_date(date);
    let usual = [
        ("Host", "127.0.0.1"),
        ("x-ms-version", "2019-02-02"),
        ("Accept", "application/json;odata=minimalmetadata"),
        ("Content-Type", "application/json"),
        ("x-ms-date", &date),
    ];
    let given =
        |name: &str| headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
    let (raw_path, query) = path.split_once('?').unwrap_or((path, ""));
    let options = QueryOptions::parse(query);
    let signed = SignedRequest {
        method,
        content_md5: given("Content-MD5").unwrap_or_default(),
        content_type: given("Content-Type").unwrap_or("application/json"),
        date: given("x-ms-date").unwrap_or(&date),
        account,
        path: &format!("/{account}{raw_path}"),
        comp: options.comp.as_deref(),
    };
    let signature = AccountKey::parse(key).unwrap().sign(&signed.string_to_sign(Scheme::SharedKey));
    let mut lines = vec![format!("{method} /{account}{path} HTTP/1.1")];
    let unless_given = usual.iter().filter(|(name, _)| given(name).is_none());
    lines.extend(unless_given.chain(headers).map(|(name, value)| format!("{name}: {value}")));
    if given("Authorization").is_none() {
        lines.push(format!("Authorization: SharedKey {account}:{signature}"));
    }
    lines.push("\r\n".to_owned());
    lines.join("\r\n")
}

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header, given its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns the results on a page.
    pub fn results(&self) -> Vec<Map<String, Value>> {
        let Value::Array(results) = self.json()["value"].take() else { panic!("{self:?}") };
        results.into_iter().map(|result| result.as_object().unwrap().clone()).collect()
    }

    /// Returns the query options that continue after a page, each with a preceding `&`; empty for the last page.
    pub fn continuation(&self) -> String {
        let option = |name: &str| {
            let value = self.header(&format!("x-ms-continuation-{}", name.to_ascii_lowercase()))?;
            Some(format!("&{name}={}", encode_component(value)))
        };
        ["NextTableName", "NextPartitionKey", "NextRowKey"].into_iter().filter_map(option).collect()
    }
}

/// A stream other than TCP, such as TLS.
pub trait Stream: Read + Write + Send + Debug {}
impl<T: Read + Write + Send + Debug> Stream for T {}

#[derive(Debug)]
enum Connection {
    Tcp(TcpStream),
    Other(Box<dyn Stream>),
}

impl Connection {
    fn stream(&mut self) -> &mut dyn Stream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Other(stream) => stream,
        }
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.stream().read(bytes)
    }
}

/// A connection over which requests are sent one after another.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<Connection>,
    account: Account,
    clock_offset_seconds: i64,
}

impl Client {
    /// Opens a connection as the development account. All waits on the connection time out after [`TIMEOUT`].
    pub fn connect(address: &str) -> Result<Self> {
        Self::connect_as(address, &Account::development())
    }

    /// Like [`Self::connect`], but for the given account.
    pub fn connect_as(address: &str, account: &Account) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self::new(Connection::Tcp(stream), account))
    }

    /// Uses an open connection.
    pub fn over(stream: impl Stream + 'static, account: &Account) -> Self {
        Self::new(Connection::Other(Box::new(stream)), account)
    }

    fn new(connection: Connection, account: &Account) -> Self {
        Self { stream: BufReader::new(connection), account: account.clone(), clock_offset_seconds: 0 }
    }

    /// Returns the socket. Panics if there is another layer above it.
    fn socket(&self) -> &TcpStream {
        match self.stream.get_ref() {
            Connection::Tcp(socket) => socket,
            Connection::Other(_) => panic!("the connection has no socket"),
        }
    }

    /// Sets the offset of the clock that dates the signed requests, in seconds, for a server whose clock is wrong.
    pub fn set_clock_offset(&mut self, seconds: i64) {
        self.clock_offset_seconds = seconds;
    }

    /// Sends a signed request. The path starts after the account: `/Tables`.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.try_request(method, path, headers, body).unwrap()
    }

    /// Like [`Self::request`], but for a server that may be down.
    pub fn try_request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Response> {
        let length = body.len().to_string();
        let account = self.account.clone();
        let key = account.key.read().unwrap();
        let offset = Duration::from_secs(self.clock_offset_seconds.unsigned_abs());
        let now = SystemTime::now();
        let date = if self.clock_offset_seconds < 0 { now - offset } else { now + offset };
        let head = sign(&account.name, &key, date, method, path, &[headers, &[("Content-Length", &length)]].concat());
        self.send(&[head.as_bytes(), body].concat())?;
        self.receive()
    }

    /// Returns the results of a query on all pages, or the first response that is not a page. The path contains a `?`.
    pub fn query(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> std::result::Result<Vec<Map<String, Value>>, Response> {
        let (mut all, mut continuation) = (Vec::new(), String::new());
        loop {
            let page = self.request("GET", &format!("{path}{continuation}"), headers, b"");
            if page.status != 200 {
                return Err(page);
            }
            all.extend(page.results());
            continuation = page.continuation();
            if continuation.is_empty() {
                return Ok(all);
            }
        }
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let stream = self.stream.get_mut().stream();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Closes the sending side of the connection.
    pub fn close_sending(&mut self) -> Result<()> {
        self.socket().shutdown(std::net::Shutdown::Write)
    }

    /// Sets the timeout for reading a response.
    pub fn set_read_timeout(&mut self, timeout: Duration) {
        self.socket().set_read_timeout(Some(timeout)).unwrap();
    }

    /// Reads one response.
    pub fn receive(&mut self) -> Result<Response> {
        let mut response = self.receive_head()?;
        let length = response.header("content-length").map_or(0, |length| length.parse().unwrap());
        response.body.resize(length, 0);
        self.stream.read_exact(&mut response.body)?;
        Ok(response)
    }

    /// Reads the head of a response without its body.
    pub fn receive_head(&mut self) -> Result<Response> {
        let status_line = self.line()?;
        let mut words = status_line.splitn(3, ' ').skip(1);
        let status = words.next().and_then(|status| status.parse().ok());
        let reason = words.next().unwrap_or_default().to_owned();
        let status = status.ok_or_else(|| Error::new(ErrorKind::InvalidData, status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            assert_spelled(name);
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Response { status, reason, headers, body: Vec::new() })
    }

    /// Reads until the server closes the connection. A connection reset counts as closing.
    pub fn receive_all(&mut self) -> Vec<u8> {
        let mut received = Vec::new();
        match self.stream.read_to_end(&mut received) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                panic!("waiting for the end of the connection: {error}")
            }
            _ => received,
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Fails unless a response spells a header's name as the service does, or is Rowhouse's own header. A header that no
/// response had before needs an entry in [`wire::header_names`].
fn assert_spelled(name: &str) {
    let is_own = name.starts_with("x-ms-rowhouse-");
    assert!(is_own || spelled(name.as_bytes()) == Some(name), "the spelling of {name}");
}

/// Like [`Account::head`], but for the development account.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    Account::development().head(method, path, headers)
}

/// Sends operations as one changeset.
pub fn transact(client: &mut Client, operations: &[String]) -> std::io::Result<Response> {
    transact_at("/$batch", client, operations)
}

/// Like [`transact`], with a path that may have options.
pub fn transact_at(path: &str, client: &mut Client, operations: &[String]) -> std::io::Result<Response> {
    let parts =
        operations.iter().map(|operation| format!("--c\r\nContent-Type: application/http\r\n\r\n{operation}\r\n"));
    let parts = parts.collect::<String>();
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n");
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    client.try_request("POST", path, &headers, body.as_bytes())
}

/// Returns the status and the error code of a response, or of the first part of a response to a batch.
pub fn outcome(answer: &Response) -> (u16, &str) {
    if answer.status != 202 {
        return (answer.status, answer.header("x-ms-error-code").unwrap_or_default());
    }
    let text = std::str::from_utf8(&answer.body).unwrap();
    let (_, part) = text.split_once("HTTP/1.1 ").unwrap_or_else(|| panic!("{text}"));
    let code = part.split_once("\"code\":\"").map_or("", |(_, rest)| rest.split('"').next().unwrap_or_default());
    (part[..3].parse().unwrap(), code)
}

/// Returns the statuses of the parts of a response to a changeset.
pub fn statuses(answer: &Response) -> Vec<u16> {
    assert_eq!(answer.status, 202, "{answer:?}");
    let text = std::str::from_utf8(&answer.body).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()).collect()
}
