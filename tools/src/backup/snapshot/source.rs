//! The source of a snapshot: the server that has the data folder open, or otherwise the folder itself.

use crate::backup::snapshot::changes::read_log_id;
use crate::backup::snapshot::control_socket::request_snapshot;
use crate::backup::snapshot::frames::{send_failure, send_snapshot};
use anyhow::{Context, anyhow, bail};
use engine::SnapshotError;
use engine_embedded::{Embedded, EmbeddedOptions, OpenError};
use model::clock::SystemClock;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The size of the cache, in bytes. A small cache is enough, because a snapshot reads each block only once.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// The timeout for the socket of a server that has locked the folder and is starting.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const START_POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(in crate::backup) struct IncomingSnapshot {
    pub(in crate::backup) input: Box<dyn Read + Send>,
    pub(in crate::backup) sender: SnapshotSender,
}

pub(in crate::backup) enum SnapshotSender {
    Server,
    Thread(JoinHandle<anyhow::Result<()>>),
}

impl SnapshotSender {
    /// Must be called with the result of processing the frames. Returns the sender's error if there is one.
    pub(in crate::backup) fn finish<T>(self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        match self {
            Self::Server => result,
            Self::Thread(thread) => {
                let sent = thread.join().map_err(|_| anyhow!("the thread that reads the data folder panicked"))?;
                // If the sender failed, its last frame contained the error, and the result is that error.
                result.and_then(|result| sent.map(|()| result))
            }
        }
    }
}

/// The engine would create a missing folder, so a misspelled name would go unnoticed.
pub(in crate::backup) fn require_data_folder(folder: &Path) -> anyhow::Result<()> {
    let exists = std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some());
    if exists { Ok(()) } else { bail!("there is no data folder at {}", folder.display()) }
}

/// The folder must exist.
pub(in crate::backup) fn open_snapshot(folder: &Path) -> anyhow::Result<IncomingSnapshot> {
    let began = Instant::now();
    loop {
        if let Some(input) = request_snapshot(folder)? {
            return Ok(IncomingSnapshot { input: Box::new(input), sender: SnapshotSender::Server });
        }
        let options = EmbeddedOptions { cache_bytes: CACHE_BYTES, ..EmbeddedOptions::default() };
        match Embedded::open(folder, &options, SystemClock) {
            Ok(engine) => {
                return from_engine(engine, read_log_id(folder).context("reading the identifier of the log")?);
            }
            Err(OpenError::Locked { .. }) if began.elapsed() < START_TIMEOUT => {
                std::thread::sleep(START_POLL_INTERVAL);
            }
            Err(OpenError::Locked { folder }) => bail!(
                "another process, such as rowhouse copy or an older server, is using {} and provides no snapshots; try again \
                 when it has ended",
                folder.display()
            ),
            Err(error) => return Err(error).context("opening the data folder"),
        }
    }
}

/// Sends the snapshot through a pipe, as a server sends it through a socket.
fn from_engine(engine: Embedded, log_id: Option<String>) -> anyhow::Result<IncomingSnapshot> {
    let (input, output) = std::io::pipe().context("creating a pipe")?;
    let send = move || {
        let mut out = BufWriter::with_capacity(64 * 1024, &output);
        let sent = engine.snapshots().take().map_err(SnapshotError::Fault);
        let sent = sent.and_then(|snapshot| send_snapshot(&mut out, &*snapshot, log_id));
        if let Err(error) = &sent {
            // The other end is closed if the backup has failed.
            let _ = send_failure(&mut out, error);
        }
        drop(out);
        let runtime = tokio::runtime::Builder::new_current_thread().build().context("closing the data folder")?;
        runtime.block_on(engine::Engine::close(&engine)).context("closing the data folder")?;
        Ok(sent?)
    };
    let thread = std::thread::Builder::new().name("rowhouse snapshot".to_owned()).spawn(send)?;
    let input = Box::new(BufReader::with_capacity(256 * 1024, input));
    Ok(IncomingSnapshot { input, sender: SnapshotSender::Thread(thread) })
}
