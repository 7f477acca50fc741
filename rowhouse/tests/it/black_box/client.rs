//! A small client: signed requests over a persistent connection, with or without TLS.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::SystemTime;
use test_support::TIMEOUT;
use wire::signing::{AccountKey, Scheme, SignedRequest};

pub(crate) const ACCOUNT: &str = "orchard";

pub(crate) fn key(number: u8) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([number; 64])
}

pub(crate) fn account_file(name: &str, key1: &str, key2: &str) -> String {
    format!("[[account]]\nname = \"{name}\"\nkey1 = \"{key1}\"\nkey2 = \"{key2}\"\n")
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub(crate) struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: &'a str,
    pub(crate) key: &'a str,
}

impl<'a> Request<'a> {
    pub(crate) fn create_table(key: &'a str) -> Self {
        Self { method: "POST", path: "/orchard/Tables", body: r#"{"TableName":"apples"}"#, key }
    }

    pub(crate) fn list_tables(key: &'a str) -> Self {
        Self { method: "GET", path: "/orchard/Tables", body: "", key }
    }

    pub(crate) fn upsert(path: &'a str, key: &'a str) -> Self {
        Self { method: "PUT", path, body: r#"{"Weight":3}"#, key }
    }

    fn head(&self) -> String {
        let Self { method, path, body, key } = *self;
        let date = httpdate::fmt_http_date(SystemTime::now());
        let content_type = if body.is_empty() { "" } else { "application/json" };
        let account = path.split('/').nth(1).unwrap();
        let (content_md5, date) = ("", date.as_str());
        let signed = SignedRequest { method, content_md5, content_type, date, account, path, comp: None };
        let signature = AccountKey::parse(key).unwrap().sign(&signed.string_to_sign(Scheme::SharedKeyLite));
        let body_headers = match body.len() {
            0 => String::new(),
            length => format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\n"),
        };
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-date: {date}\r\nx-ms-version: 2019-02-02\r\n\
             Accept: application/json;odata=fullmetadata\r\nAuthorization: SharedKeyLite {account}:{signature}\r\n\
             {body_headers}\r\n"
        )
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

pub(crate) fn tls_config(
    trusted: &CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: &[&[u8]],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

impl Client {
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self { stream: BufReader::new(Box::new(tcp(address))) }
    }

    pub(crate) fn tls(address: SocketAddr, trusted: &CertificateDer<'static>) -> Result<Self, String> {
        Self::tls_with(address, tls_config(trusted, rustls::ALL_VERSIONS, &[])).map(|(client, _)| client)
    }

    pub(crate) fn tls_with(address: SocketAddr, config: ClientConfig) -> Result<(Self, Option<Vec<u8>>), String> {
        let name = ServerName::from(address.ip());
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = tcp(address);
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
        }
        let agreed = connection.alpn_protocol().map(<[u8]>::to_vec);
        Ok((Self { stream: BufReader::new(Box::new(StreamOwned::new(connection, stream))) }, agreed))
    }

    pub(crate) fn send(&mut self, request: Request<'_>) -> Answer {
        self.write(&(request.head() + request.body));
        self.read_answer().expect("a response")
    }

    pub(crate) fn send_text(&mut self, request: &str) -> Answer {
        self.write(request);
        self.read_answer().expect("a response")
    }

    /// Sends only the head of a request, and waits until the server, which has then checked the credential, requests
    /// the body.
    pub(crate) fn send_head(&mut self, request: Request<'_>) {
        let head = request.head();
        self.write(&format!("{}Expect: 100-continue\r\n\r\n", head.strip_suffix("\r\n").unwrap()));
        assert_eq!(self.read_answer().expect("a request for the body").status, 100);
    }

    pub(crate) fn send_body(&mut self, request: Request<'_>) -> Answer {
        self.write(request.body);
        self.read_answer().expect("a response")
    }

    fn write(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
        self.stream.get_mut().flush().unwrap();
    }

    fn read_answer(&mut self) -> std::io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        answer.body = String::from_utf8(body).unwrap();
        Ok(answer)
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
