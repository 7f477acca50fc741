//! Where a backup gets its snapshot: from the server that works on the data folder, or, if none does, from the folder.

use crate::backup::control;
use anyhow::{Context, anyhow, bail};
use model::clock::SystemClock;
use std::io::{BufReader, BufWriter, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use store::{Embedded, EmbeddedOptions, OpenError, SnapshotError};

/// Memory for blocks of the data folder, in bytes: a snapshot reads each once.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// How long to wait for a server that has the folder and no socket yet, because it is just starting.
const START_PATIENCE: Duration = Duration::from_secs(20);
const START_POLL: Duration = Duration::from_millis(200);

/// A snapshot that comes in.
pub(super) struct Snapshot {
    input: Box<dyn Read + Send>,
    source: Source,
}

/// Who gives the snapshot.
pub(super) enum Source {
    Server,
    /// A thread of this process.
    Here(JoinHandle<anyhow::Result<()>>),
}

impl Snapshot {
    pub(super) fn into_parts(self) -> (Box<dyn Read + Send>, Source) {
        (self.input, self.source)
    }
}

impl Source {
    /// Closes what was opened, and says what went wrong there if that is why the work failed.
    pub(super) fn end<T>(self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        match self {
            Self::Server => result,
            Self::Here(thread) => {
                let given = thread.join().map_err(|_| anyhow!("the thread that reads the data folder failed"))?;
                match (result, given) {
                    (Ok(result), Ok(())) => Ok(result),
                    // What was sent told why, in the same words.
                    (Err(error), _) => Err(error),
                    (Ok(_), Err(error)) => Err(error),
                }
            }
        }
    }
}

/// The snapshot of a data folder, whoever has it.
pub(super) fn snapshot(folder: &Path) -> anyhow::Result<Snapshot> {
    // An engine would make a new folder, which helps nobody who misspelled the name of an old one.
    let is_there = std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some());
    if !is_there {
        bail!("there is no data folder at {}", folder.display());
    }
    let began = Instant::now();
    loop {
        if let Some(input) = control::ask_for_snapshot(folder)? {
            return Ok(Snapshot { input: Box::new(input), source: Source::Server });
        }
        let options = EmbeddedOptions { cache_bytes: CACHE_BYTES, ..EmbeddedOptions::default() };
        match Embedded::open(folder, &options, SystemClock) {
            Ok(engine) => return here(engine),
            Err(OpenError::Locked { .. }) if began.elapsed() < START_PATIENCE => std::thread::sleep(START_POLL),
            Err(OpenError::Locked { folder }) => bail!(
                "another process works on {} and gives no snapshots, such as rowhouse copy or an older server; try again \
                 when it is done",
                folder.display()
            ),
            Err(error) => return Err(error).context("opening the data folder"),
        }
    }
}

/// A snapshot of an engine of this process. It takes the way that all snapshots take.
fn here(engine: Embedded) -> anyhow::Result<Snapshot> {
    let (input, output) = UnixStream::pair().context("making a pair of sockets")?;
    let give = move || {
        let mut out = BufWriter::with_capacity(64 * 1024, &output);
        let given = engine.snapshots().take().map_err(SnapshotError::Fault);
        let given = given.and_then(|snapshot| super::send(&mut out, &*snapshot));
        if let Err(error) = &given {
            let _gone = super::send_failure(&mut out, error);
        }
        drop(out);
        let runtime = tokio::runtime::Builder::new_current_thread().build().context("closing the data folder")?;
        runtime.block_on(store::Engine::close(&engine)).context("closing the data folder")?;
        Ok(given?)
    };
    let thread = std::thread::Builder::new().name("rowhouse snapshot".to_owned()).spawn(give)?;
    let input = Box::new(BufReader::with_capacity(256 * 1024, input));
    Ok(Snapshot { input, source: Source::Here(thread) })
}
