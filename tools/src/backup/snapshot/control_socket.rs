//! The control socket in the data folder, through which commands reach the process that has the folder open.
//!
//! The socket is a [`platform::local_socket`]: it belongs to the user who runs the server, and only that user can
//! connect. A request is one line:
//!
//! ```text
//! rowhouse control 1 snapshot           answered by a snapshot, as `frames.rs` describes
//! rowhouse control 1 changes POSITION   answered by the change log from a position on, as `changes.rs` describes
//! ```
//!
//! Invariants:
//!
//! 1. The process that holds the lock of the folder owns the socket. It replaces the socket of an earlier process.
//! 2. A client that stops reading is disconnected. Disconnecting a client releases its snapshot.
//! 3. The number of clients is bounded, and so is the length of a request.

use super::changes::{IncomingChanges, OfferedLog, read_log_id, read_or_create_log_id};
use super::frames::{send_failure, send_refusal, send_snapshot};
use anyhow::{Context, anyhow};
use engine::changes::DatedChangeLog;
use engine::{Snapshot, SnapshotError, Snapshots};
use parking_lot::Mutex;
use platform::local_socket::{self, Incoming, Listener, Stream};
use std::error::Error;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, fs};
use tokio::runtime::Handle;
use tracing::{info, warn};

const SOCKET: &str = "control";
const SNAPSHOT_REQUEST: &str = "rowhouse control 1 snapshot\n";
/// Followed by a position and a line feed.
const CHANGES_REQUEST: &str = "rowhouse control 1 changes ";
const REQUEST_BYTES_MAX: u64 = 64;

/// Each client has a thread, and perhaps a snapshot.
const CLIENTS_MAX: usize = 4;
/// The maximum number of threads that tell a client about `CLIENTS_MAX`. Further clients are disconnected without a
/// message.
const REFUSALS_MAX: usize = 16;
/// The size of each write, in bytes.
const WRITE_BYTES: usize = 64 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// The interval at which a thread that waits for a client checks whether it must stop.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The control socket of a data folder. It is served until the value is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    accepting: tokio::task::JoinHandle<()>,
    clients: Arc<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    stop: AtomicBool,
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    serving: Vec<JoinHandle<()>>,
    refusing: Vec<JoinHandle<()>>,
}

/// What a server offers to commands.
struct Offer {
    snapshots: Arc<dyn Snapshots>,
    /// The identifier of the log, even if no log is kept now.
    log_id: Option<String>,
    log: Option<OfferedLog>,
}

impl ControlSocket {
    /// Serves the socket of a data folder that this process has locked, on the current runtime. `log` is the change log
    /// of the folder if one is kept.
    pub fn start(
        folder: &Path,
        snapshots: Arc<dyn Snapshots>,
        log: Option<Arc<dyn DatedChangeLog>>,
    ) -> io::Result<Self> {
        let log_id = if log.is_some() { Some(read_or_create_log_id(folder)?) } else { read_log_id(folder)? };
        let offered = |(log, id)| OfferedLog { log, id, runtime: Handle::current() };
        let offer = Arc::new(Offer { snapshots, log: log.zip(log_id.clone()).map(offered), log_id });
        let listener = Listener::bind(folder, SOCKET)?;
        let clients = Arc::new(Clients::default());
        let accepting = tokio::spawn(accept(listener, offer, Arc::clone(&clients)));
        Ok(Self { path: local_socket::path(folder, SOCKET), accepting, clients })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.accepting.abort();
        self.clients.stop.store(true, Ordering::Relaxed);
        let Threads { serving, refusing } = std::mem::take(&mut *self.clients.threads.lock());
        for thread in serving.into_iter().chain(refusing) {
            if thread.join().is_err() {
                tracing::error!("a thread of the control socket panicked");
            }
        }
        // If this fails, the next process replaces the socket.
        let _ = fs::remove_file(&self.path);
    }
}

impl Clients {
    /// Serves a client, refuses it if there are too many clients, or disconnects it if too many clients are being
    /// refused.
    fn add(self: &Arc<Self>, incoming: Incoming, offer: &Arc<Offer>) -> io::Result<()> {
        let mut threads = self.threads.lock();
        let Threads { serving, refusing } = &mut *threads;
        serving.retain(|thread| !thread.is_finished());
        refusing.retain(|thread| !thread.is_finished());
        let is_refused = serving.len() >= CLIENTS_MAX;
        if is_refused && refusing.len() >= REFUSALS_MAX {
            return Ok(());
        }
        let (clients, offer) = (Arc::clone(self), Arc::clone(offer));
        let serve = move || serve(incoming, &offer, &clients.stop, is_refused);
        let threads = if is_refused { refusing } else { serving };
        threads.push(std::thread::Builder::new().name("rowhouse snapshot".to_owned()).spawn(serve)?);
        Ok(())
    }
}

async fn accept(listener: Listener, offer: Arc<Offer>, clients: Arc<Clients>) {
    loop {
        let accepted = listener.accept().await;
        let served = accepted.and_then(|incoming| clients.add(incoming, &offer));
        if let Err(error) = served {
            warn!(%error, "failed to accept a client of the control socket");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn serve(incoming: Incoming, offer: &Offer, stop: &AtomicBool, is_refused: bool) {
    let served = move || -> anyhow::Result<()> {
        let stream = &incoming.open(POLL_INTERVAL).context("opening the connection")?;
        stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let mut request = String::new();
        BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut request).context("reading the request")?;
        let refuse = |why| Ok(send_refusal(&mut ClientWriter { stream, stop, snapshot: None }, why)?);
        let position = request.strip_prefix(CHANGES_REQUEST).and_then(|text| text.strip_suffix('\n')?.parse().ok());
        if request != SNAPSHOT_REQUEST && position.is_none() {
            return refuse(
                "this server does not support the request; its version may differ from the command's version",
            );
        }
        if is_refused {
            return refuse("the maximum number of concurrent snapshots has been reached; try again later");
        }
        let began = Instant::now();
        match (position, &offer.log) {
            (None, _) => {
                send_one_snapshot(stream, offer, stop)?;
                info!(seconds = began.elapsed().as_secs_f32(), "sent a snapshot");
            }
            (Some(position), Some(log)) => {
                let writer = ClientWriter { stream, stop, snapshot: None };
                let mut out = BufWriter::with_capacity(WRITE_BYTES, writer);
                let sent = log.send(&mut out, position);
                end(sent.map_err(|error| (error, out.into_parts().1.unwrap_or_default())), stream, stop)?;
            }
            (Some(_), None) => {
                return refuse("it keeps no change log; start it with --keep-log, for example --keep-log 24h");
            }
        }
        Ok(())
    };
    if let Err(error) = served() {
        warn!("failed to serve a client of the control socket: {error:#}");
    }
}

fn send_one_snapshot(stream: &Stream, offer: &Offer, stop: &AtomicBool) -> anyhow::Result<()> {
    let taken = offer.snapshots.take().map_err(SnapshotError::Fault).and_then(|snapshot| {
        if let Some((log, position)) = offer.log.as_ref().zip(snapshot.contents().position) {
            log.wait_for(position)?;
        }
        Ok(snapshot)
    });
    let sent = taken.map_err(|error| (error, Vec::new())).and_then(|snapshot| {
        let writer = ClientWriter { stream, stop, snapshot: Some(&*snapshot) };
        let mut out = BufWriter::with_capacity(WRITE_BYTES, writer);
        send_snapshot(&mut out, &*snapshot, offer.log_id.clone())
            .map_err(|error| (error, out.into_parts().1.unwrap_or_default()))
    });
    end(sent, stream, stop)
}

/// If an answer could not be completed, tells the client why. The error contains the data that was not yet sent.
fn end(sent: Result<(), (SnapshotError, Vec<u8>)>, stream: &Stream, stop: &AtomicBool) -> anyhow::Result<()> {
    let Err((error, rest)) = sent else { return Ok(()) };
    let mut out = ClientWriter { stream, stop, snapshot: None };
    // Send the buffered data first, so that the client can find the beginning of the message. A disconnected client
    // does not receive the message.
    let _ = out.write_all(&rest).and_then(|()| send_failure(&mut out, &error));
    Err(error.into())
}

/// Writing fails if the client is idle for too long, or if the server stops.
struct ClientWriter<'a> {
    stream: &'a Stream,
    stop: &'a AtomicBool,
    snapshot: Option<&'a dyn Snapshot>,
}

impl Write for ClientWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            // A client that reads slowly but steadily must not hold the snapshot for too long.
            if let Some(snapshot) = self.snapshot {
                snapshot.check().map_err(io::Error::other)?;
            }
            let mut stream = self.stream;
            match stream.write(bytes) {
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                    if self.stop.load(Ordering::Relaxed) {
                        return Err(io::Error::other("the server is stopping"));
                    }
                    if began.elapsed() >= IDLE_TIMEOUT {
                        return Err(io::Error::new(ErrorKind::TimedOut, "the client has stopped reading"));
                    }
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns `None` if no process serves the socket.
pub(super) fn request_snapshot(folder: &Path) -> anyhow::Result<Option<BufReader<Stream>>> {
    request(folder, SNAPSHOT_REQUEST)
}

/// Requests a snapshot from the server, which must be running.
pub(in crate::backup) fn request_server_snapshot(folder: &Path) -> anyhow::Result<impl Read + use<>> {
    Ok(request_snapshot(folder)?.ok_or_else(|| NoServer(folder.to_owned()))?)
}

/// Requests the change log from the server, which must be running.
pub(in crate::backup) fn request_changes(
    folder: &Path,
    from: u64,
) -> anyhow::Result<IncomingChanges<impl Read + use<>>> {
    let input = request(folder, &format!("{CHANGES_REQUEST}{from}\n"))?;
    IncomingChanges::new(input.ok_or_else(|| NoServer(folder.to_owned()))?)
}

/// No process serves the socket of the folder.
#[derive(Debug)]
pub(in crate::backup) struct NoServer(PathBuf);

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no server is running with the data folder {}", self.0.display())
    }
}

impl Error for NoServer {}

/// Returns `None` if no process serves the socket.
fn request(folder: &Path, request: &str) -> anyhow::Result<Option<BufReader<Stream>>> {
    let stream = match local_socket::connect(folder, SOCKET) {
        Ok(stream) => stream,
        Err(error) if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(anyhow!(
                "permission denied for {}: run the command as the same user as the server",
                local_socket::path(folder, SOCKET).display()
            ));
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("connecting to {}", local_socket::path(folder, SOCKET).display()));
        }
    };
    let mut out = &stream;
    out.write_all(request.as_bytes()).context("sending a request to the server")?;
    Ok(Some(BufReader::with_capacity(256 * 1024, stream)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::clock::SystemClock;

    #[test]
    fn threads_that_refuse_are_bounded_and_do_not_count_as_snapshots() {
        let place = tempfile::tempdir().unwrap();
        let engine =
            engine_embedded::Embedded::open(place.path(), &engine_embedded::EmbeddedOptions::default(), SystemClock)
                .unwrap();
        let offer = Arc::new(Offer { snapshots: engine.snapshots(), log_id: None, log: None });
        let clients = Arc::new(Clients::default());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..CLIENTS_MAX {
            let ended = Arc::clone(&ended);
            clients.threads.lock().serving.push(std::thread::spawn(move || assert!(ended.lock().recv().is_err())));
        }
        let mut streams = Vec::new();
        for _ in 0..=REFUSALS_MAX {
            let (ours, theirs) = local_socket::pair().unwrap();
            clients.add(theirs, &offer).unwrap();
            streams.push(ours);
        }
        assert_eq!(clients.threads.lock().refusing.len(), REFUSALS_MAX);
        let mut beyond = Vec::new();
        streams.pop().unwrap().read_to_end(&mut beyond).unwrap();
        assert!(beyond.is_empty(), "the last one is disconnected without a refusal");
        let mut refused = streams.pop().unwrap();
        refused.write_all(SNAPSHOT_REQUEST.as_bytes()).unwrap();
        let mut answer = Vec::new();
        refused.read_to_end(&mut answer).unwrap();
        assert!(String::from_utf8_lossy(&answer).contains("maximum number of concurrent snapshots"));
        drop((end, streams));
        let Threads { serving, refusing } = std::mem::take(&mut *clients.threads.lock());
        serving.into_iter().chain(refusing).for_each(|thread| thread.join().unwrap());
    }
}
