//! Connections between processes of one user through a folder: a port on the loopback address, and a file `NAME.port`
//! in the folder that contains the port and two secrets.
//!
//! Any process that can read the folder can connect, as with a socket in the folder. The client sends the first secret,
//! and is disconnected if it does not. The server responds with the second secret. It detects a program that has reused
//! the port of a crashed server, because such a program does not have that secret. Each listener generates new secrets.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// A connection.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    /// The timeout for a write. If it is `None`, a write waits indefinitely.
    write_timeout: Option<Duration>,
}

const SECRET_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_PAUSE: Duration = Duration::from_millis(1);
/// The length of a secret, in bytes.
const SECRET_BYTES: usize = uuid::fmt::Simple::LENGTH;

#[derive(Debug, Clone)]
struct Secrets {
    client: String,
    server: String,
}

/// The listener on a folder's port.
#[derive(Debug)]
pub struct Listener {
    listener: tokio::net::TcpListener,
    secrets: Secrets,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Incoming {
    socket: TcpStream,
    secrets: Secrets,
}

impl Listener {
    /// Opens a port and publishes it in the folder, replacing one left by an earlier process. The current runtime
    /// drives the listener.
    pub fn bind(folder: &Path, name: &str) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let secrets = Secrets::new();
        let text = format!("{}\n{}\n{}\n", listener.local_addr()?.port(), secrets.client, secrets.server);
        let new = folder.join(name).with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, path(folder, name))?;
        Ok(Self { listener: tokio::net::TcpListener::from_std(listener)?, secrets })
    }

    /// Accepts a connection.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (socket, _) = self.listener.accept().await?;
        Ok(Incoming { socket: socket.into_std()?, secrets: self.secrets.clone() })
    }
}

impl Incoming {
    /// Converts the accepted connection to a blocking one after the client has proved that it can read the folder. A
    /// write fails if nothing can be written within `write_timeout`.
    pub fn open(self, write_timeout: Duration) -> io::Result<Stream> {
        let Self { mut socket, secrets } = self;
        socket.set_nonblocking(false)?;
        expect(&mut socket, &secrets.client)?;
        socket.write_all(secrets.server.as_bytes())?;
        Ok(Stream { socket, write_timeout: Some(write_timeout) })
    }
}

impl Stream {
    /// Sets the timeout for reads.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)
    }

    /// Retries nonblocking writes until the timeout: after a blocking send times out, Windows does not report how much
    /// was sent.
    fn write_within(&self, timeout: Duration, bytes: &[u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match (&self.socket).write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && began.elapsed() < timeout => sleep(WRITE_PAUSE),
                written => return written,
            }
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(bytes)
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.read(bytes)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(timeout) = self.write_timeout else { return (&self.socket).write(bytes) };
        self.socket.set_nonblocking(true)?;
        let written = self.write_within(timeout, bytes);
        self.socket.set_nonblocking(false)?;
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the path at which clients find the port.
pub fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("port")
}

/// Connects to the process that listens on the port of a folder. Returns `NotFound` or `ConnectionRefused` if there is
/// no such process.
pub fn connect(folder: &Path, name: &str) -> io::Result<Stream> {
    let text = fs::read_to_string(path(folder, name))?;
    let (port, secrets) = parse(&text).ok_or(ErrorKind::InvalidData)?;
    let mut socket = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.write_all(secrets.client.as_bytes())?;
    // A mismatch means that a different program is using the port.
    expect(&mut socket, &secrets.server).map_err(|_| ErrorKind::ConnectionRefused)?;
    Ok(Stream { socket, write_timeout: None })
}

impl Secrets {
    fn new() -> Self {
        let secret = || Uuid::new_v4().simple().to_string();
        Self { client: secret(), server: secret() }
    }
}

fn parse(text: &str) -> Option<(u16, Secrets)> {
    let mut lines = text.lines();
    let port = lines.next()?.parse().ok()?;
    let mut secret = || lines.next().filter(|secret| secret.len() == SECRET_BYTES).map(str::to_owned);
    Some((port, Secrets { client: secret()?, server: secret()? }))
}

fn expect(socket: &mut TcpStream, secret: &str) -> io::Result<()> {
    let mut found = [0; SECRET_BYTES];
    socket.set_read_timeout(Some(SECRET_TIMEOUT))?;
    socket.read_exact(&mut found)?;
    socket.set_read_timeout(None)?;
    if found.ct_eq(secret.as_bytes()).into() { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
}
