//! What the tests of the built server share: a server on a free port, and a small client that signs its requests.

#![allow(dead_code, reason = "each test file uses its part")]

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use wire::query::raw_comp;
use wire::signing::{AccountKey, Scheme, SignedRequest};

/// The development account, which a server without settings has.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
/// Its key.
pub(crate) const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// How long a test waits for what must happen; whoever runs into it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again until something is so.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} does not happen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The command `rowhouse serve`, without what the environment says.
pub(crate) fn serve(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowhouse"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ROWHOUSE_")) {
        command.env_remove(name);
    }
    command.arg("serve").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running server. It is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Address and port.
    pub(crate) address: String,
    /// Address and port for operators; empty without `--admin`.
    pub(crate) admin: String,
    log: Receiver<String>,
    /// Kept open, so that the server can write on.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server on a free port, and waits until it is ready.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, |_| ())
    }

    /// Starts a server as [`Self::start`] does, by a command that is changed first.
    pub(crate) fn start_with(args: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut command = serve(&[&["--listen", "127.0.0.1:0"], args].concat());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let (sender, log) = channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut ready = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut ready).unwrap();
        let Some(address) = ready.trim().strip_prefix("listening on http://").map(str::to_owned) else {
            panic!("the server did not start: {} {:?}", child.wait().unwrap(), log.iter().collect::<Vec<_>>());
        };
        let mut lines = String::new();
        stdout.read_line(&mut lines).unwrap();
        assert!(lines.starts_with("connection string: "), "{lines}");
        if args.contains(&"--admin") {
            stdout.read_line(&mut lines).unwrap();
        }
        let admin = lines.lines().find_map(|line| line.strip_prefix("admin on http://")).unwrap_or_default().to_owned();
        Self { child, address, admin, log, _stdout: stdout }
    }

    /// A client with a connection of its own.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for a line of the log that holds this text.
    pub(crate) fn wait_for_log(&self, text: &str) {
        while !self.log.recv_timeout(PATIENCE).unwrap().contains(text) {}
    }

    /// What was logged since somebody last looked.
    pub(crate) fn new_log(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }

    /// Ends the process as a crash does, and returns the rest of its log.
    pub(crate) fn kill9(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log.iter().collect()
    }

    /// Asks the server to stop, and returns its exit status and the rest of its log.
    pub(crate) fn stop(self) -> (ExitStatus, Vec<String>) {
        self.signal("TERM");
        self.wait()
    }

    /// Waits for the end of a server that was told to stop.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<String>) {
        // The log ends when the process does.
        let mut log = Vec::new();
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            log.push(line);
        }
        (self.child.wait().unwrap(), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// One connection, over which requests are sent one after the other.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a signed request. The path starts behind the account: `/Tables`.
    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.try_request(method, path, headers, body).unwrap()
    }

    /// As [`Self::request`], for a server that may be gone.
    pub(crate) fn try_request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        let length = body.len().to_string();
        let head = head(method, path, &[headers, &[("Content-Length", &length)]].concat());
        self.send(&[head.as_bytes(), body].concat())?;
        self.receive()
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Says that nothing more will be sent.
    pub(crate) fn close_sending(&mut self) -> Result<()> {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write)
    }

    /// How long to wait for bytes of an answer.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.stream.get_mut().set_read_timeout(Some(patience)).unwrap();
    }

    /// Reads one answer.
    pub(crate) fn receive(&mut self) -> Result<Response> {
        let mut response = self.receive_head()?;
        let length = response.header("content-length").map_or(0, |length| length.parse().unwrap());
        response.body.resize(length, 0);
        self.stream.read_exact(&mut response.body)?;
        Ok(response)
    }

    /// Reads one answer that has no body, whatever its head says.
    pub(crate) fn receive_head(&mut self) -> Result<Response> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Error::new(ErrorKind::InvalidData, status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Response { status, headers, body: Vec::new() })
    }

    /// Reads until the server closes the connection. A connection that is reset counts as closed.
    pub(crate) fn receive_all(&mut self) -> Vec<u8> {
        let mut received = Vec::new();
        match self.stream.read_to_end(&mut received) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("waiting for the end: {error}"),
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

/// The head of a signed HTTP/1.1 request. Headers that are not given get the values that clients send.
pub(crate) fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let date = httpdate::fmt_http_date(SystemTime::now());
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
    let signed = SignedRequest {
        method,
        content_md5: "",
        content_type: given("Content-Type").unwrap_or("application/json"),
        date: given("x-ms-date").unwrap_or(&date),
        account: ACCOUNT,
        path: &format!("/{ACCOUNT}{raw_path}"),
        comp: raw_comp(query),
    };
    let signature = AccountKey::parse(KEY).unwrap().sign(&signed.string_to_sign(Scheme::SharedKey));
    let mut lines = vec![format!("{method} /{ACCOUNT}{path} HTTP/1.1")];
    lines
        .extend(usual.iter().filter(|(name, _)| given(name).is_none()).map(|(name, value)| format!("{name}: {value}")));
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if given("Authorization").is_none() {
        lines.push(format!("Authorization: SharedKey {ACCOUNT}:{signature}"));
    }
    lines.push("\r\n".to_owned());
    lines.join("\r\n")
}

/// Numbers that a seed determines (`SplitMix64`).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Chance from a seed that is printed, and that an environment variable sets to repeat a run.
    #[allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]
    pub(crate) fn from_environment(variable: &str) -> Self {
        let seed =
            std::env::var(variable).map_or_else(|_| RandomState::new().hash_one(0), |text| text.parse().unwrap());
        println!("{variable}={seed}");
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from zero to the most.
    pub(crate) fn upto(&mut self, most: i64) -> i64 {
        i64::try_from(self.below(u64::try_from(most).unwrap() + 1)).unwrap()
    }
}

/// Sends operations as one change set.
pub(crate) fn transact(client: &mut Client, operations: &[String]) -> std::io::Result<Response> {
    let parts =
        operations.iter().map(|operation| format!("--c\r\nContent-Type: application/http\r\n\r\n{operation}\r\n"));
    let parts = parts.collect::<String>();
    let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n");
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    client.try_request("POST", "/$batch", &headers, body.as_bytes())
}

/// The statuses of the parts of an answer.
pub(crate) fn statuses(answer: &Response) -> Vec<u16> {
    assert_eq!(answer.status, 202, "{answer:?}");
    let text = std::str::from_utf8(&answer.body).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()).collect()
}
