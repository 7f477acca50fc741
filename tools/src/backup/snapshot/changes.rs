//! The stream in which a server sends its change log to the process that adds it to a repository.
//!
//! ```text
//! L        the header: JSON, see [`ChangesHeader`]
//! C        the position after the frame (8 bytes), and transactions, see `transactions.rs`
//! Z        the end, without content
//! ```
//!
//! L comes first, then any number of C without gaps, then Z. D and X end the stream as in `frames.rs`.

use super::frames::{json, read_frame, unknown, write_frame, write_json};
use crate::backup::repository::{TRANSACTION_BYTES_MAX, push_transaction, seven_digits};
use anyhow::{Context, anyhow, bail};
use engine::changes::{ChangesEnd, DatedChangeLog};
use engine::{ChangePage, ChangeSelection, ChangesError, KeptChanges, SnapshotError};
use model::DateTime;
use platform::files::{private_file, rename, sync_folder};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use uuid::Uuid;

/// The size at which transactions are sent, in bytes.
const TRANSACTIONS_BYTES: usize = 256 * 1024;
/// A frame may exceed `TRANSACTIONS_BYTES` by one transaction.
const FRAME_BYTES_MAX: usize = TRANSACTIONS_BYTES + TRANSACTION_BYTES_MAX + 8;
/// The maximum time until a transaction that a snapshot contains is on disk.
const SYNC_TIMEOUT: Duration = Duration::from_mins(1);

/// The change log of a data folder, as a server offers it to commands.
#[derive(Clone)]
pub(super) struct OfferedLog {
    pub(super) log: Arc<dyn DatedChangeLog>,
    pub(super) id: String,
    /// The runtime on which the log is read.
    pub(super) runtime: Handle,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct ChangesHeader {
    /// Identifies the log.
    pub(in crate::backup) log: String,
    /// The position of the oldest transaction that is kept.
    pub(in crate::backup) first: u64,
    /// The position after the last transaction.
    pub(in crate::backup) next: u64,
    /// A time at which `next` was the end of the log: all transactions from `next` on have later times.
    time: String,
}

impl ChangesHeader {
    pub(in crate::backup) fn time(&self) -> anyhow::Result<DateTime> {
        DateTime::parse(&self.time).map_err(|_| anyhow!("the server sent '{}' as its time", self.time))
    }
}

impl OfferedLog {
    /// Waits until all transactions before a position are on disk. Until then, a crash could replace them by others.
    pub(super) fn wait_for(&self, position: u64) -> Result<(), SnapshotError> {
        let mut next = self.log.watch();
        let reached =
            async { tokio::time::timeout(SYNC_TIMEOUT, next.wait_for(|next| *next >= position)).await.is_ok() };
        if self.runtime.block_on(reached) {
            return Ok(());
        }
        Err(SnapshotError::Sink(io::Error::other("the last transactions have not reached the disk")))
    }

    /// Sends all transactions from a position on, up to the end of the log at the time of the call, as soon as they are
    /// on disk. If the log no longer reaches the position, only the header is sent.
    pub(super) fn send(&self, out: &mut impl Write, from: u64) -> Result<(), SnapshotError> {
        let failed = SnapshotError::Sink;
        let end = self.runtime.block_on(self.log.end());
        let ChangesEnd { next, time } = end.map_err(|error| failed(io::Error::other(error)))?;
        // What is not on disk yet could have been acknowledged, and belongs to the time.
        self.wait_for(next)?;
        let KeptChanges { first, .. } = self.log.kept();
        let time = seven_digits(time);
        write_json(out, b'L', &ChangesHeader { log: self.id.clone(), first, next, time }).map_err(failed)?;
        let (mut at, everything) = (from, ChangeSelection::default());
        while (first..next).contains(&at) {
            let read = self.log.read(at, &everything, TRANSACTIONS_BYTES);
            match self.runtime.block_on(read) {
                Ok(page) => at = send_page(out, at, &page).map_err(failed)?,
                // The position was skipped, and not dropped.
                Err(ChangesError::Dropped(next)) if next > at && self.log.kept().first <= at => at = next,
                Err(ChangesError::Fault(fault)) => return Err(SnapshotError::Fault(fault)),
                Err(dropped) => return Err(failed(io::Error::other(dropped))),
            }
        }
        write_frame(out, b'Z', &[]).and_then(|()| out.flush()).map_err(failed)
    }
}

/// Returns the position after the page.
fn send_page(out: &mut impl Write, at: u64, page: &ChangePage) -> io::Result<u64> {
    if page.next <= at {
        return Err(io::Error::other(format!("the log did not advance from position {at}")));
    }
    let mut frame = vec![0; 8];
    for (index, transaction) in page.transactions.iter().enumerate() {
        push_transaction(&mut frame, transaction)
            .ok_or_else(|| io::Error::other(format!("transaction {} is too large", transaction.position)))?;
        let next = page.transactions.get(index + 1).map(|transaction| transaction.position);
        if frame.len() >= TRANSACTIONS_BYTES
            && let Some(next) = next
        {
            send_frame(out, next, &mut frame)?;
        }
    }
    send_frame(out, page.next, &mut frame)?;
    Ok(page.next)
}

fn send_frame(out: &mut impl Write, next: u64, frame: &mut Vec<u8>) -> io::Result<()> {
    for (slot, byte) in frame.iter_mut().zip(next.to_be_bytes()) {
        *slot = byte;
    }
    write_frame(out, b'C', frame)?;
    frame.truncate(8);
    Ok(())
}

/// The part of a change log that a server sends.
pub(in crate::backup) struct IncomingChanges<R> {
    pub(in crate::backup) header: ChangesHeader,
    input: R,
    is_at_end: bool,
}

impl<R: Read> IncomingChanges<R> {
    pub(super) fn new(mut input: R) -> anyhow::Result<Self> {
        match read_frame(&mut input, FRAME_BYTES_MAX)? {
            (b'L', bytes) => Ok(Self { header: json(&bytes)?, input, is_at_end: false }),
            _ => bail!("the change log does not begin with a header"),
        }
    }

    /// Passes the next transactions, as consecutive bytes, and the position after them to the sink. Returns false after
    /// the end.
    pub(in crate::backup) fn next(
        &mut self,
        sink: impl FnOnce(u64, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        if self.is_at_end {
            return Ok(false);
        }
        match read_frame(&mut self.input, FRAME_BYTES_MAX)? {
            (b'C', bytes) => {
                let (next, transactions) =
                    bytes.split_first_chunk().context("the server sent a frame that is too short")?;
                sink(u64::from_be_bytes(*next), transactions)?;
                Ok(true)
            }
            (b'Z', _) => {
                self.is_at_end = true;
                Ok(false)
            }
            (other, _) => Err(unknown(other)),
        }
    }
}

// The identifier of the change log of a data folder. Positions of different logs must not be mixed up, for example
// of a data folder and of one that was restored from its backup.
//
// It is in a file of the folder, which is created when a server first keeps a log in the folder. A restore does not
// copy it.

const LOG_ID_FILE: &str = "rowhouse.log-id";

/// Returns `None` if no server has kept a log in the folder.
pub(super) fn read_log_id(folder: &Path) -> io::Result<Option<String>> {
    let path = folder.join(LOG_ID_FILE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let malformed =
        || io::Error::other(format!("{} is malformed; remove it while no server is running", path.display()));
    let id = Uuid::try_parse(text.trim_end()).map_err(|_| malformed())?;
    Ok(Some(id.simple().to_string()))
}

/// Creates the identifier if there is none. Only the process that has locked the folder may call this.
pub(super) fn read_or_create_log_id(folder: &Path) -> io::Result<String> {
    if let Some(id) = read_log_id(folder)? {
        return Ok(id);
    }
    let id = Uuid::new_v4().simple().to_string();
    let unfinished = folder.join(format!("{LOG_ID_FILE}.new"));
    let mut file = private_file().write(true).create(true).truncate(true).open(&unfinished)?;
    file.write_all(format!("{id}\n").as_bytes())?;
    file.sync_all()?;
    rename(&unfinished, &folder.join(LOG_ID_FILE))?;
    sync_folder(folder)?;
    Ok(id)
}
