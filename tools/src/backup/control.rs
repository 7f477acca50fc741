//! The socket in the data folder through which other commands ask the process that has the folder open.
//!
//! Whoever may use the folder may use the socket: it belongs to the owner of the server, with mode 0600, and is reached
//! through the file system alone. A request is one line. What is answered, the command decides; so far there is one:
//!
//! ```text
//! rowhouse control 1 snapshot      everything, as `backup/frames.rs` describes
//! ```
//!
//! Invariants:
//!
//! 1. The process that has the lock of the folder has the socket. What an earlier one left behind is replaced.
//! 2. A client that takes nothing for a while, or that goes away, is let go, and its snapshot with it.
//! 3. There is a bound on the clients at a time, and on the length of what they may send.

use super::{send, send_failure, send_refusal};
use anyhow::{Context, anyhow};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Snapshot, SnapshotError, Snapshots};
use tracing::{info, warn};

const SOCKET: &str = "control.sock";
/// The folder in which a socket gets its mode before anyone can reach it.
const PREPARATION: &str = "control.new";
const REQUEST: &str = "rowhouse control 1 snapshot\n";

/// Most clients at a time: each holds a snapshot, and takes a thread.
const CLIENTS_MAX: usize = 4;
/// Most clients at a time that are told that there are too many; those beyond are let go without a word.
const REFUSALS_MAX: usize = 16;
/// How much is handed to the operating system at a time, in bytes.
const WRITE_BYTES: usize = 64 * 1024;
/// How long a client may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long a client may take nothing before it is let go.
const STALL_TIME: Duration = Duration::from_secs(120);
/// How often a thread that waits for a client looks whether it must end.
const POLL: Duration = Duration::from_millis(250);

/// The socket while it is served; it goes with the value.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    accepting: tokio::task::JoinHandle<()>,
    clients: Arc<Clients>,
}

/// The clients that are served at this moment, each by a thread.
#[derive(Debug, Default)]
struct Clients {
    /// They are to end soon.
    stop: AtomicBool,
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    /// They give snapshots.
    giving: Vec<JoinHandle<()>>,
    /// They only say that there are too many clients.
    refusing: Vec<JoinHandle<()>>,
}

impl Control {
    /// Serves the socket of a data folder that this process has locked, on the runtime that it is called on.
    pub fn start(folder: &Path, snapshots: Arc<dyn Snapshots>) -> io::Result<Self> {
        let listener = bind(folder)?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let clients = Arc::new(Clients::default());
        let accepting = tokio::spawn(accept(listener, snapshots, Arc::clone(&clients)));
        Ok(Self { path: folder.join(SOCKET), accepting, clients })
    }
}

impl Drop for Control {
    /// Waits for the clients, which are told to end.
    fn drop(&mut self) {
        self.accepting.abort();
        self.clients.stop.store(true, Ordering::Relaxed);
        let Threads { giving, refusing } = std::mem::take(&mut *self.clients.threads());
        for thread in giving.into_iter().chain(refusing) {
            if thread.join().is_err() {
                tracing::error!("a thread of the control socket panicked");
            }
        }
        // The next process replaces what is left.
        let _left_behind = fs::remove_file(&self.path);
    }
}

impl Clients {
    fn threads(&self) -> MutexGuard<'_, Threads> {
        // A list of threads is never half changed.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one more, or tells it that there are too many, or lets it go if even those who are told are too many.
    fn add(self: &Arc<Self>, stream: UnixStream, snapshots: &Arc<dyn Snapshots>) -> io::Result<()> {
        let mut threads = self.threads();
        let Threads { giving, refusing } = &mut *threads;
        giving.retain(|thread| !thread.is_finished());
        refusing.retain(|thread| !thread.is_finished());
        let is_one_too_many = giving.len() >= CLIENTS_MAX;
        if is_one_too_many && refusing.len() >= REFUSALS_MAX {
            return Ok(());
        }
        let (clients, snapshots) = (Arc::clone(self), Arc::clone(snapshots));
        let serve = move || serve(&stream, &*snapshots, &clients.stop, is_one_too_many);
        let of_its_kind = if is_one_too_many { refusing } else { giving };
        of_its_kind.push(std::thread::Builder::new().name("rowhouse snapshot".to_owned()).spawn(serve)?);
        Ok(())
    }
}

/// Makes the socket of a folder. It gets its name once nobody but the owner can use it.
fn bind(folder: &Path) -> io::Result<UnixListener> {
    let preparation = folder.join(PREPARATION);
    match fs::remove_dir_all(&preparation) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => DirBuilder::new().mode(0o700).create(&preparation)?,
    }
    let listener = at_short_path(&preparation, |path| UnixListener::bind(path))?;
    let socket = preparation.join(SOCKET);
    fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    fs::rename(&socket, folder.join(SOCKET))?;
    fs::remove_dir(&preparation)?;
    Ok(listener)
}

/// Uses the socket of a folder by a path that is short enough, however long that of the folder is: sockets have at most
/// some 100 bytes for it.
fn at_short_path<T>(folder: &Path, using: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    /// What every system takes, with room for the name of the socket.
    const PATH_BYTES_MAX: usize = 80;
    if folder.as_os_str().len() <= PATH_BYTES_MAX || !Path::new("/proc/self/fd").exists() {
        return using(&folder.join(SOCKET));
    }
    let open = File::open(folder)?;
    using(&Path::new("/proc/self/fd").join(open.as_raw_fd().to_string()).join(SOCKET))
}

/// Takes clients until it is told to stop.
async fn accept(listener: tokio::net::UnixListener, snapshots: Arc<dyn Snapshots>, clients: Arc<Clients>) {
    loop {
        let accepted = listener.accept().await;
        let served = accepted.and_then(|(stream, _)| clients.add(stream.into_std()?, &snapshots));
        if let Err(error) = served {
            warn!(%error, "the control socket could not take a client");
            tokio::time::sleep(POLL).await;
        }
    }
}

fn serve(stream: &UnixStream, snapshots: &dyn Snapshots, stop: &AtomicBool, is_one_too_many: bool) {
    let served = || -> anyhow::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(REQUEST_TIME))?;
        stream.set_write_timeout(Some(POLL))?;
        let mut request = String::new();
        let bytes = REQUEST.len() as u64;
        BufReader::new(stream.take(bytes)).read_line(&mut request).context("reading what a client wants")?;
        let plain = || Patient { stream, stop, snapshot: None };
        if request != REQUEST {
            let why = "this server does not know the request; is it of another version?";
            return Ok(send_refusal(&mut plain(), why)?);
        }
        if is_one_too_many {
            return Ok(send_refusal(
                &mut plain(),
                "as many snapshots as there may be at a time are being read already",
            )?);
        }
        let began = Instant::now();
        let taken = snapshots.take().map_err(|fault| (SnapshotError::Fault(fault), Vec::new()));
        let given = taken.and_then(|snapshot| {
            let patient = Patient { stream, stop, snapshot: Some(&*snapshot) };
            let mut out = BufWriter::with_capacity(WRITE_BYTES, patient);
            send(&mut out, &*snapshot).map_err(|error| (error, out.into_parts().1.unwrap_or_default()))
        });
        if let Err((error, rest)) = given {
            // What was on its way goes first, so that the client knows where the message begins. Whoever went away does
            // not hear it.
            let _gone = plain().write_all(&rest).and_then(|()| send_failure(&mut plain(), &error));
            return Err(error.into());
        }
        info!(seconds = began.elapsed().as_secs_f32(), "a snapshot was given");
        Ok(())
    };
    if let Err(error) = served() {
        warn!("a snapshot was not given to its end: {error:#}");
    }
}

/// A client that may be slow, but not for ever, and not when the server wants to stop or to open its database again.
struct Patient<'a> {
    stream: &'a UnixStream,
    stop: &'a AtomicBool,
    snapshot: Option<&'a dyn Snapshot>,
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            // Also while the client takes something: little by little it could hold the snapshot for long.
            if let Some(snapshot) = self.snapshot {
                snapshot.check().map_err(io::Error::other)?;
            }
            let mut stream = self.stream;
            match stream.write(bytes) {
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                    if self.stop.load(Ordering::Relaxed) {
                        return Err(io::Error::other("the server is stopping"));
                    }
                    if began.elapsed() >= STALL_TIME {
                        return Err(io::Error::new(ErrorKind::TimedOut, "the client takes nothing any more"));
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

/// Asks the process that has a data folder open for a snapshot; `None` if no process serves its socket.
pub(crate) fn ask_for_snapshot(folder: &Path) -> anyhow::Result<Option<BufReader<UnixStream>>> {
    let stream = match at_short_path(folder, |path| UnixStream::connect(path)) {
        Ok(stream) => stream,
        Err(error) if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(anyhow!(
                "no right to use {}: run the command as the user that the server runs as",
                folder.join(SOCKET).display()
            ));
        }
        Err(error) => return Err(error).with_context(|| format!("connecting to {}", folder.join(SOCKET).display())),
    };
    let mut out = &stream;
    out.write_all(REQUEST.as_bytes()).context("asking the server for a snapshot")?;
    Ok(Some(BufReader::with_capacity(256 * 1024, stream)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::clock::SystemClock;

    #[test]
    fn a_socket_is_for_its_owner_replaces_a_stale_one_and_may_lie_deep() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("d".repeat(120)).join("e".repeat(120));
        for folder in [place.path(), deep.as_path()] {
            fs::create_dir_all(folder).unwrap();
            assert!(ask_for_snapshot(folder).unwrap().is_none(), "there is none yet");
            drop(bind(folder).unwrap());
            assert!(ask_for_snapshot(folder).unwrap().is_none(), "nobody listens");
            fs::create_dir(folder.join(PREPARATION)).unwrap();
            let listener = bind(folder).unwrap();
            assert!(ask_for_snapshot(folder).unwrap().is_some());
            drop(listener);
            let mode = fs::metadata(folder.join(SOCKET)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(!folder.join(PREPARATION).exists());
        }
    }

    #[test]
    fn threads_that_only_refuse_are_bounded_and_take_no_place_of_a_snapshot() {
        let place = tempfile::tempdir().unwrap();
        let engine = store::Embedded::open(place.path(), &store::EmbeddedOptions::default(), SystemClock).unwrap();
        let (snapshots, clients) = (engine.snapshots(), Arc::new(Clients::default()));
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..CLIENTS_MAX {
            let ended = Arc::clone(&ended);
            clients.threads().giving.push(std::thread::spawn(move || assert!(ended.lock().unwrap().recv().is_err())));
        }
        let mut streams = Vec::new();
        for _ in 0..=REFUSALS_MAX {
            let (ours, theirs) = UnixStream::pair().unwrap();
            clients.add(theirs, &snapshots).unwrap();
            streams.push(ours);
        }
        assert_eq!(clients.threads().refusing.len(), REFUSALS_MAX);
        let mut beyond = Vec::new();
        streams.pop().unwrap().read_to_end(&mut beyond).unwrap();
        assert!(beyond.is_empty(), "the one beyond is let go without a word");
        let mut told = streams.pop().unwrap();
        told.write_all(REQUEST.as_bytes()).unwrap();
        let mut answer = Vec::new();
        told.read_to_end(&mut answer).unwrap();
        assert!(String::from_utf8_lossy(&answer).contains("as many snapshots"));
        drop((end, streams));
        let Threads { giving, refusing } = std::mem::take(&mut *clients.threads());
        giving.into_iter().chain(refusing).for_each(|thread| thread.join().unwrap());
    }
}
