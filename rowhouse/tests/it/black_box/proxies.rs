//! A reverse proxy in front of the server: nginx with the configuration of `docs/reverse-proxies.md`, and with each
//! mistake about which the page warns. Without nginx, the tests are skipped and print a note.

use super::tls::{Pair, connect, write_pair};
use super::{ACCOUNT, Folder, account_file, key};
use crate::documents::command_lines::blocks;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, str};
use test_support::{Account, Client, ReservedPort, Response, Server, TIMEOUT, eventually, transact};
use wire::sas::Fields;
use wire::signing::AccountKey;

/// The client whose requests another proxy, in front of nginx on this machine, forwards.
const CLIENT: &str = "198.51.100.7";
const HOST: &str = "tables.example.net";

/// Debian's program is in a folder that is not in everyone's `PATH`.
fn nginx() -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let found = folders.split(':').map(|folder| Path::new(folder).join("nginx")).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED, because nginx is not installed here");
    }
    found
}

/// Returns the upstream and the server of the page's configuration.
fn configuration() -> (String, String) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reverse-proxies.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, _, block) = blocks(&page).into_iter().find(|(language, ..)| *language == "nginx").unwrap();
    let start = block.find("server {\n    listen").unwrap();
    (block[..start].to_owned(), block[start..].to_owned())
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the configuration on the page has no {from}");
    text.replace(from, to)
}

/// A server with the account `orchard`, and nginx in front of it. There is one site for each list of changes to the
/// configuration of the page; the first site uses TLS.
struct Proxied {
    nginx: Child,
    sites: Vec<ReservedPort>,
    pair: Pair,
    _server: Server,
    _folder: Folder,
}

impl Proxied {
    fn start(program: &Path, sites: &[&[(&str, &str)]]) -> Self {
        let folder = Folder::new();
        let pair = write_pair(&folder);
        let accounts = folder.write("accounts", &account_file(ACCOUNT, &key(1), &key(2)));
        let options = ["--accounts", &accounts, "--domain", HOST, "--extensions", "--keep-log", "1h"];
        let server = super::start(&[&options[..], &["--trust-proxy", "127.0.0.1"]].concat());
        let (upstream, site) = configuration();
        let mut content = replaced(&upstream, "127.0.0.1:10002", &server.address);
        let ports: Vec<_> = sites.iter().map(|_| ReservedPort::new()).collect();
        for (number, (port, changes)) in ports.iter().zip(sites).enumerate() {
            let ending = if number == 0 { " ssl;" } else { ";" };
            let mut site = replaced(&site, "listen 443 ssl;", &format!("listen {}{ending}", port.address()));
            site = replaced(&site, "/etc/nginx/tables.crt", &pair.certificate);
            site = replaced(&site, "/etc/nginx/tables.key", &pair.key);
            for (from, to) in *changes {
                site = replaced(&site, from, to);
            }
            content.push_str(&site);
        }
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {};\n", folder.path(kind)))
            .concat();
        let file = folder.write(
            "nginx.conf",
            &format!(
                "daemon off;\nmaster_process off;\npid {};\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{content}}}\n",
                folder.path("pid")
            ),
        );
        let mut command = Command::new(program);
        command.args(["-e", "stderr", "-c", &file]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut nginx = command.spawn().unwrap();
        let address = ports[0].address();
        eventually("nginx listens", || {
            if nginx.try_wait().unwrap().is_some() {
                let mut log = String::new();
                nginx.stderr.take().unwrap().read_to_string(&mut log).unwrap();
                panic!("nginx does not start: {log}");
            }
            TcpStream::connect(&address).ok()
        });
        Self { nginx, sites: ports, pair, _server: server, _folder: folder }
    }

    /// Opens a connection to the site with TLS.
    fn tls(&self) -> Client {
        connect(&self.sites[0].address(), &self.pair.trusted, &key(1)).unwrap()
    }

    /// Opens a connection to a site without TLS.
    fn plain(&self, site: usize) -> Client {
        Client::connect_as(&self.sites[site].address(), &Account::new(ACCOUNT, &key(1))).unwrap()
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        let _gone = self.nginx.kill();
        let _gone = self.nginx.wait();
    }
}

fn create_table(client: &mut Client) {
    assert_eq!(client.request("POST", "/Tables", &[], br#"{"TableName":"cars"}"#).status, 201);
}

/// Returns a signature for the table that only the client may use, and only over HTTPS.
fn signature() -> String {
    let fields = Fields {
        version: "2019-02-02".into(),
        table: "cars".into(),
        permissions: "r".into(),
        expiry: "2099-01-01".into(),
        protocols: "https".into(),
        sources: CLIENT.into(),
        ..Fields::default()
    };
    fields.sign(ACCOUNT, &AccountKey::parse(&key(1)).unwrap()).unwrap()
}

/// Sends a query with the signature. `headers` end with a line break.
fn query(client: &mut Client, host: &str, path: &str, headers: &str) -> Response {
    let signature = signature();
    let head = format!("GET {path}?{signature} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n{headers}\r\n");
    super::exchange(client, &head)
}

fn text(response: &Response) -> &str {
    str::from_utf8(&response.body).unwrap()
}

fn code(response: &Response) -> (u16, &str) {
    (response.status, response.header("x-ms-error-code").unwrap_or_default())
}

/// Row keys as clients write them in URLs, and what a proxy could do to them.
const KEYS: [&str; 9] =
    ["plain", "a%3Ab", "a:b", "a%25b", "a%2Bb%20c+d", "a''b", "a%27%27b", "%C3%BC", "..%3B%26%3D%2C%40"];

/// Returns the operations of a transaction that is almost as large as a transaction may be, 4 MiB.
fn large_transaction() -> Vec<String> {
    let value = "a".repeat(30_000);
    let properties = ["a", "b", "c", "d"].map(|name| format!(",\"{name}\":\"{value}\"")).concat();
    let insert = |number: usize| {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{number}\"{properties}}}");
        let head = format!("POST /{ACCOUNT}/cars HTTP/1.1\r\nContent-Type: application/json");
        format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    (0..30).map(insert).collect()
}

#[test]
fn clients_work_through_the_configuration_of_the_page() {
    let Some(nginx) = nginx() else { return };
    let proxied = Proxied::start(&nginx, &[&[]]);
    // One connection for everything, which the proxy keeps open.
    let client = &mut proxied.tls();
    create_table(client);
    for row in KEYS {
        let path = format!("/cars(PartitionKey='p',RowKey='{row}')");
        for method in ["PUT", "MERGE", "PATCH"] {
            assert_eq!(client.request(method, &path, &[], b"{}").status, 204, "{method} {row}");
        }
        let response = client.request("GET", &path, &[("Host", HOST)], b"");
        assert_eq!(response.status, 200, "{row}");
        let metadata = format!("\"odata.metadata\":\"https://{HOST}/{ACCOUNT}/$metadata#cars/@Element\"");
        assert!(text(&response).contains(&metadata), "{}", text(&response));
        assert_eq!(client.request("DELETE", &path, &[("If-Match", "*")], b"").status, 204, "{row}");
    }

    let answer = transact(client, &large_transaction()).unwrap();
    assert_eq!(test_support::statuses(&answer), vec![201; 30]);

    let body = br#"{"PartitionKey":"p","RowKey":"expected"}"#;
    let headers = [("Expect", "100-continue"), ("Content-Length", &*body.len().to_string())];
    let head = Account::new(ACCOUNT, &key(1)).head("POST", "/cars", &headers);
    client.send(head.as_bytes()).unwrap();
    assert_eq!(client.receive_head().unwrap().status, 100);
    client.send(body).unwrap();
    assert_eq!(client.receive().unwrap().status, 201);
}

#[test]
fn the_proxy_names_the_protocol_and_the_client() {
    let Some(nginx) = nginx() else { return };
    let proxied = Proxied::start(&nginx, &[&[], &[]]);
    create_table(&mut proxied.tls());
    let (client, path) = (&mut proxied.tls(), format!("/{ACCOUNT}/cars()"));
    let from = |addresses: &str| format!("X-Forwarded-For: {addresses}\r\n");
    assert_eq!(query(client, HOST, &path, &from(CLIENT)).status, 200);
    assert_eq!(query(client, &format!("{ACCOUNT}.{HOST}"), "/cars()", &from(CLIENT)).status, 200);
    // The client wrote the first address.
    assert_eq!(query(client, HOST, &path, &from(&format!("203.0.113.9, {CLIENT}"))).status, 200);
    let refused = query(client, HOST, &path, &from(&format!("{CLIENT}, 203.0.113.9")));
    assert_eq!(code(&refused), (403, "AuthorizationSourceIPMismatch"));
    // The proxy replaces what the client claims.
    let claimed = from(CLIENT) + "X-Forwarded-Proto: https\r\n";
    let refused = query(&mut proxied.plain(1), HOST, &path, &claimed);
    assert_eq!(code(&refused), (403, "AuthorizationProtocolMismatch"));
}

#[test]
fn changes_arrive_through_the_proxy_when_they_are_made() {
    let Some(nginx) = nginx() else { return };
    let proxied = Proxied::start(&nginx, &[&[], &[]]);
    let client = &mut proxied.tls();
    create_table(client);
    let mut reader = TcpStream::connect(proxied.sites[1].address()).unwrap();
    reader.set_read_timeout(Some(TIMEOUT)).unwrap();
    let accept = [("Accept", "text/event-stream")];
    let head = Account::new(ACCOUNT, &key(1)).head("GET", "/$Changescars()", &accept);
    reader.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    // The first block, with the position before the stream.
    assert!(lines.any(|line| line.starts_with("id: ")));
    for row in ["first", "second"] {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
        assert_eq!(client.request("POST", "/cars", &[], body.as_bytes()).status, 201);
        assert!(lines.any(|line| line.starts_with("data: ") && line.contains(row)));
    }
}

#[test]
fn each_mistake_about_which_the_page_warns_has_the_effect_that_it_names() {
    let Some(nginx) = nginx() else { return };
    let slash: &[(&str, &str)] = &[("proxy_pass http://rowhouse;", "proxy_pass http://rowhouse/;")];
    let prefix = &[("location / {", "location /tables/ {"), slash[0]];
    let host = &[("proxy_set_header Host $http_host;", "")];
    let size = &[("client_max_body_size 5m;", "")];
    let protocol = &[("proxy_set_header X-Forwarded-Proto $scheme;", "")];
    let proxied = Proxied::start(&nginx, &[&[], slash, prefix, host, size, protocol]);
    create_table(&mut proxied.tls());
    // 1: the proxy decodes the path, and encodes it differently.
    let client = &mut proxied.plain(1);
    assert_eq!(client.request("PUT", "/cars(PartitionKey='p',RowKey='plain')", &[], b"{}").status, 204);
    let refused = client.request("PUT", "/cars(PartitionKey='p',RowKey='a%3Ab')", &[], b"{}");
    assert_eq!(code(&refused), (403, "AuthenticationFailed"));

    // 2: clients sign the prefix.
    let path = format!("/tables/{ACCOUNT}/Tables");
    let signed = Account::new(ACCOUNT, &key(1)).head("GET", &path, &[]);
    let request = signed.replacen(&format!("/{ACCOUNT}{path}"), &path, 1);
    let refused = super::exchange(&mut proxied.plain(2), &request);
    assert_eq!(code(&refused), (403, "AuthenticationFailed"));

    // 3: the server sees the name of the upstream.
    let client = &mut proxied.plain(3);
    let response = client.request("GET", "/cars()", &[("Host", HOST)], b"");
    assert!(text(&response).contains("\"odata.metadata\":\"http://rowhouse/"), "{}", text(&response));

    // 4: the proxy accepts 1 MiB.
    let refused = transact(&mut proxied.plain(4), &large_transaction()).unwrap();
    assert_eq!((code(&refused), refused.header("x-ms-request-id")), ((413, ""), None));

    // 5: the proxy passes on what the client claims.
    let claimed = format!("X-Forwarded-For: {CLIENT}\r\nX-Forwarded-Proto: https\r\n");
    assert_eq!(query(&mut proxied.plain(5), HOST, &format!("/{ACCOUNT}/cars()"), &claimed).status, 200);
}
