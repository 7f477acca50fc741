//! A connection over which the database streams its committed transactions (the streaming replication protocol).
//! The client library does not support this protocol.
//!
//! Only what logical decoding requires is implemented: login, simple statements, and the stream.

use crate::connections::settings::Settings;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};

/// The reason why a connection cannot be used any more.
#[derive(Debug)]
pub(crate) enum ReplicationError {
    /// The database refused something.
    Refused { code: String, message: String },
    /// The connection broke, or the database does not follow the protocol.
    Broken(String),
}

impl fmt::Display for ReplicationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code, message } => write!(f, "{message} (SQLSTATE {code})"),
            Self::Broken(what) => f.write_str(what),
        }
    }
}

impl From<std::io::Error> for ReplicationError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

fn unexpected() -> ReplicationError {
    ReplicationError::Broken("the database sent an unexpected message".to_owned())
}

/// A message of the stream.
#[derive(Debug)]
pub(crate) enum StreamMessage {
    /// A message of the output plugin.
    Data(Bytes),
    /// The position of the database's log up to which it has sent everything, and whether it waits for a response.
    KeepAlive { end: u64, is_response_expected: bool },
}

/// The result of creating a slot.
pub(crate) struct CreatedSlot {
    /// The position from which on transactions are decoded.
    pub(crate) begin: u64,
    /// The name of the snapshot that shows exactly the transactions before this position. It exists until the
    /// connection is used again.
    pub(crate) snapshot: String,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

pub(crate) struct Replication {
    stream: Box<dyn Stream>,
    received: BytesMut,
}

impl Replication {
    /// Connects to the host that accepts writes.
    pub(crate) async fn open(settings: &Settings) -> Result<Self, ReplicationError> {
        let config = settings.login.current().await;
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let ports = config.get_ports();
        let mut last = ReplicationError::Broken("the database URL contains no host".to_owned());
        for index in 0..hosts.len().max(addresses.len()) {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            let address = addresses.get(index).map(ToString::to_string);
            let connecting = Self::connect((settings, &config), hosts.get(index), address, port);
            match timeout(settings.connect_time_max, connecting).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => last = error,
                Err(_) => last = ReplicationError::Broken("no response in time".to_owned()),
            }
        }
        Err(last)
    }

    async fn connect(
        (settings, config): (&Settings, &Config),
        host: Option<&Host>,
        address: Option<String>,
        port: u16,
    ) -> Result<Self, ReplicationError> {
        let stream: Box<dyn Stream> = match (host, address) {
            #[cfg(unix)]
            (Some(Host::Unix(folder)), None) => {
                Box::new(tokio::net::UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?)
            }
            (Some(Host::Tcp(name)), address) => {
                let stream = TcpStream::connect((address.as_deref().unwrap_or(name), port)).await?;
                encrypted(settings, stream, name).await?
            }
            (_, Some(address)) => {
                let stream = TcpStream::connect((address.as_str(), port)).await?;
                encrypted(settings, stream, &address).await?
            }
            (None, None) => return Err(ReplicationError::Broken("the database URL contains no host".to_owned())),
        };
        let mut connection = Self { stream, received: BytesMut::with_capacity(64 * 1024) };
        connection.log_in(config).await?;
        let rows = connection.query("SHOW transaction_read_only").await?;
        if rows.first().and_then(|row| row.first()).map(String::as_str) != Some("off") {
            return Err(ReplicationError::Broken("the database does not accept writes".to_owned()));
        }
        Ok(connection)
    }

    async fn log_in(&mut self, config: &Config) -> Result<(), ReplicationError> {
        let user = config.get_user().unwrap_or_default();
        let mut parameters = vec![("user", user), ("client_encoding", "UTF8"), ("replication", "database")];
        parameters.extend(config.get_dbname().map(|name| ("database", name)));
        parameters.extend(config.get_options().map(|options| ("options", options)));
        parameters.extend(config.get_application_name().map(|name| ("application_name", name)));
        let mut out = BytesMut::new();
        frontend::startup_message(parameters, &mut out)?;
        self.stream.write_all(&out).await?;
        let password = || {
            config.get_password().ok_or_else(|| ReplicationError::Broken("the database requires a password".to_owned()))
        };
        let mut scram = None;
        loop {
            let (tag, mut body) = self.receive().await?;
            let mut out = BytesMut::new();
            match tag {
                b'R' => match body.try_get_u32().map_err(|_| unexpected())? {
                    0 => continue,
                    3 => frontend::password_message(password()?, &mut out)?,
                    5 => {
                        let salt = *body.first_chunk().ok_or_else(unexpected)?;
                        let hash = md5_hash(user.as_bytes(), password()?, salt);
                        frontend::password_message(hash.as_bytes(), &mut out)?;
                    }
                    10 => {
                        let offers = body.split(|byte| *byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes());
                        if !offers {
                            return Err(ReplicationError::Broken("the login method is not supported".to_owned()));
                        }
                        let state = ScramSha256::new(password()?, ChannelBinding::unsupported());
                        frontend::sasl_initial_response(SCRAM_SHA_256, state.message(), &mut out)?;
                        scram = Some(state);
                    }
                    11 => {
                        let state = scram.as_mut().ok_or_else(unexpected)?;
                        state.update(&body)?;
                        frontend::sasl_response(state.message(), &mut out)?;
                    }
                    12 => {
                        scram.as_mut().ok_or_else(unexpected)?.finish(&body)?;
                        continue;
                    }
                    _ => return Err(ReplicationError::Broken("the login method is not supported".to_owned())),
                },
                b'K' | b'S' | b'N' => continue,
                b'Z' => return Ok(()),
                _ => return Err(unexpected()),
            }
            self.stream.write_all(&out).await?;
        }
    }

    /// Runs a statement and returns its rows. Null values are returned as empty strings.
    async fn query(&mut self, sql: &str) -> Result<Vec<Vec<String>>, ReplicationError> {
        self.send_query(sql).await?;
        let mut rows = Vec::new();
        loop {
            match self.receive().await? {
                (b'D', mut body) => {
                    let mut row = Vec::new();
                    for _ in 0..body.try_get_u16().map_err(|_| unexpected())? {
                        let length = body.try_get_i32().map_err(|_| unexpected())?;
                        let length = usize::try_from(length).unwrap_or(0);
                        if body.len() < length {
                            return Err(unexpected());
                        }
                        row.push(String::from_utf8_lossy(&body.split_to(length)).into_owned());
                    }
                    rows.push(row);
                }
                (b'Z', _) => return Ok(rows),
                (b'T' | b'C' | b'N' | b'S', _) => {}
                _ => return Err(unexpected()),
            }
        }
    }

    async fn send_query(&mut self, sql: &str) -> Result<(), ReplicationError> {
        let mut out = BytesMut::new();
        frontend::query(sql, &mut out)?;
        Ok(self.stream.write_all(&out).await?)
    }

    /// Creates a slot. Waits until the transactions that are running now have ended. The name must not need escaping.
    pub(crate) async fn create_slot(&mut self, name: &str) -> Result<CreatedSlot, ReplicationError> {
        let sql = format!("CREATE_REPLICATION_SLOT \"{name}\" LOGICAL pgoutput EXPORT_SNAPSHOT");
        let rows = self.query(&sql).await?;
        let [_name, begin, snapshot, ..] = rows.first().map(Vec::as_slice).ok_or_else(unexpected)? else {
            return Err(unexpected());
        };
        Ok(CreatedSlot { begin: parse_lsn(begin).ok_or_else(unexpected)?, snapshot: snapshot.clone() })
    }

    /// Starts to stream the transactions of a slot that committed at or after a position. The publication has the name
    /// of the slot.
    pub(crate) async fn start(&mut self, name: &str, from: u64) -> Result<(), ReplicationError> {
        let from = lsn_text(from);
        let sql = format!(
            "START_REPLICATION SLOT \"{name}\" LOGICAL {from} \
             (proto_version '1', publication_names '{name}', messages 'true', binary 'true')"
        );
        self.send_query(&sql).await?;
        loop {
            match self.receive().await? {
                (b'W', _) => return Ok(()),
                (b'N' | b'S', _) => {}
                _ => return Err(unexpected()),
            }
        }
    }

    /// Returns the next message of the stream that has been received completely.
    pub(crate) fn next(&mut self) -> Result<Option<StreamMessage>, ReplicationError> {
        loop {
            let Some((tag, mut body)) = self.frame()? else { return Ok(None) };
            match tag {
                b'd' => {}
                b'N' | b'S' => continue,
                // The database ends the stream when it shuts down.
                b'c' | b'C' => return Err(ReplicationError::Broken("the database ended the stream".to_owned())),
                _ => return Err(unexpected()),
            }
            match body.try_get_u8().map_err(|_| unexpected())? {
                b'w' if body.len() >= 24 => {
                    body.advance(24);
                    return Ok(Some(StreamMessage::Data(body)));
                }
                b'k' if body.len() >= 17 => {
                    let (end, _time, response) = (body.get_u64(), body.get_u64(), body.get_u8());
                    return Ok(Some(StreamMessage::KeepAlive { end, is_response_expected: response != 0 }));
                }
                _ => return Err(unexpected()),
            }
        }
    }

    /// Waits for more bytes. Nothing is lost if the future is dropped.
    pub(crate) async fn fill(&mut self) -> Result<(), ReplicationError> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(ReplicationError::Broken("the database closed the connection".to_owned())),
            _ => Ok(()),
        }
    }

    /// Tells the database that all transactions up to a position have been stored, so that it may remove its log up to
    /// there, and asks it to respond.
    pub(crate) async fn confirm(&mut self, position: u64, is_response_expected: bool) -> Result<(), ReplicationError> {
        let mut status = BytesMut::with_capacity(64);
        status.put_u8(b'd');
        status.put_u32(4 + 34);
        status.put_u8(b'r');
        for stored in [position; 3] {
            status.put_u64(stored);
        }
        // The time of this message, which the database only shows to operators.
        status.put_u64(0);
        status.put_u8(u8::from(is_response_expected));
        self.stream.write_all(&status).await?;
        Ok(self.stream.flush().await?)
    }

    /// Returns the next message, and fails if it is an error.
    async fn receive(&mut self) -> Result<(u8, Bytes), ReplicationError> {
        loop {
            if let Some(frame) = self.frame()? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    fn frame(&mut self) -> Result<Option<(u8, Bytes)>, ReplicationError> {
        let Some([tag, length @ ..]) = self.received.first_chunk::<5>().copied() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if !(4..usize::MAX / 2).contains(&length) {
            return Err(unexpected());
        }
        if self.received.len() <= length {
            self.received.reserve(length + 1 - self.received.len());
            return Ok(None);
        }
        let mut body = self.received.split_to(length + 1).freeze();
        body.advance(5);
        if tag == b'E' {
            return Err(refusal(&body));
        }
        Ok(Some((tag, body)))
    }
}

async fn encrypted(
    settings: &Settings,
    mut stream: TcpStream,
    host: &str,
) -> Result<Box<dyn Stream>, ReplicationError> {
    stream.set_nodelay(true)?;
    let mode = settings.login.without_password().get_ssl_mode();
    if mode == SslMode::Disable {
        return Ok(Box::new(stream));
    }
    let mut out = BytesMut::new();
    frontend::ssl_request(&mut out);
    stream.write_all(&out).await?;
    if stream.read_u8().await? == b'S' {
        let handshake = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut settings.tls.clone(), host)?;
        return Ok(Box::new(handshake.connect(stream).await?));
    }
    if mode == SslMode::Require {
        return Err(ReplicationError::Broken("the database does not support TLS".to_owned()));
    }
    Ok(Box::new(stream))
}

/// Returns the code and the message of an error.
fn refusal(body: &[u8]) -> ReplicationError {
    let (mut code, mut message) = (String::new(), String::new());
    for field in body.split(|byte| *byte == 0) {
        let Some((kind, text)) = field.split_first() else { continue };
        let text = || String::from_utf8_lossy(text).into_owned();
        match kind {
            b'C' => code = text(),
            b'M' => message = text(),
            _ => {}
        }
    }
    ReplicationError::Refused { code, message }
}

/// Formats a position in the database's log as the database does.
pub(crate) fn lsn_text(position: u64) -> String {
    format!("{:X}/{:X}", position >> 32, position & 0xFFFF_FFFF)
}

fn parse_lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    Some((u64::from(u32::from_str_radix(high, 16).ok()?) << 32) | u64::from(u32::from_str_radix(low, 16).ok()?))
}

/// The time without any message after which the connection counts as lost. The database is asked to respond more often.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_written_as_the_database_writes_them() {
        for (position, text) in [(0, "0/0"), (0x16B3_7480, "0/16B37480"), (0x16_B374_D848, "16/B374D848")] {
            let position: u64 = position;
            assert_eq!(lsn_text(position), text);
            assert_eq!(parse_lsn(text), Some(position));
        }
        assert_eq!((parse_lsn("16"), parse_lsn("G/0"), parse_lsn("1/100000000")), (None, None, None));
    }

    /// Returns a connection that has received these bytes.
    fn having_received(bytes: &[u8]) -> Replication {
        Replication { stream: Box::new(tokio::io::empty()), received: BytesMut::from(bytes) }
    }

    #[test]
    fn messages_of_the_stream_are_read_when_they_are_complete() {
        let data = [b"d\0\0\0\x1Fw".as_slice(), &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 9], &[0; 8], b"xy"].concat();
        let alive = [b"d\0\0\0\x16k".as_slice(), &[0, 0, 0, 0, 0, 0, 0, 7], &[0; 8], &[1]].concat();
        for length in 0..data.len() {
            assert!(having_received(&data[..length]).next().unwrap().is_none(), "{length}");
        }
        let mut both = having_received(&[data, alive].concat());
        assert!(matches!(both.next(), Ok(Some(StreamMessage::Data(payload))) if payload[..] == *b"xy"));
        assert!(matches!(both.next(), Ok(Some(StreamMessage::KeepAlive { end: 7, is_response_expected: true }))));
        assert!(both.next().unwrap().is_none());
    }

    #[test]
    fn errors_and_malformed_messages_end_the_stream() {
        let refused = having_received(b"E\0\0\0\x17SERROR\0C55000\0Mno\0\0").next();
        assert_eq!(refused.unwrap_err().to_string(), "no (SQLSTATE 55000)");
        for bytes in [
            b"d\0\0\0\x03".as_slice(),
            b"d\0\0\0\x04",
            b"d\0\0\0\x05x",
            b"d\0\0\0\x06w\0",
            b"d\0\0\0\x06k\0",
            b"Q\0\0\0\x04",
            b"c\0\0\0\x04",
        ] {
            assert!(having_received(bytes).next().is_err(), "{bytes:?}");
        }
    }
}
