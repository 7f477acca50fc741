//! The stream in which a server sends a snapshot of its data folder to the process that creates the backup.
//!
//! ```text
//! frame    a tag (1 byte), a length (4 bytes), that many bytes
//! H        the header: JSON, see [`SnapshotHeader`]
//! A        an account with service properties: JSON, see [`AccountEntry`]
//! T        a table: JSON, see [`TableEntry`]; its entities follow
//! E        entities in key order, see `chunk.rs`
//! Z        the end: JSON, see [`SnapshotTotals`]
//! D        the stream ends early because data is damaged: text
//! X        the stream ends early for another reason: text
//! ```
//!
//! H comes first, then the accounts, then each table with its entities, then Z. A stream without Z is incomplete.

use crate::backup::repository::{AccountEntry, ENTITY_BYTES_MAX, LogPosition, TableEntry, push_entity, seven_digits};
use anyhow::{Context, anyhow, bail, ensure};
use engine::{Fault, Snapshot, SnapshotError};
use model::Clock;
use model::clock::SystemClock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};

/// The size at which collected entities are sent, in bytes.
const ENTITIES_BYTES: usize = 256 * 1024;
/// A frame may exceed `ENTITIES_BYTES` by one entity.
const FRAME_BYTES_MAX: usize = ENTITIES_BYTES + ENTITY_BYTES_MAX;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct SnapshotHeader {
    /// The time of the snapshot by the server's clock.
    pub(in crate::backup) time: String,
    pub(in crate::backup) version: String,
    /// The value from [`engine::SnapshotContents`], in ticks of 100 ns since 1601.
    pub(in crate::backup) last_stamp: i64,
    pub(in crate::backup) tables: usize,
    /// The position in the change log after the snapshot. `None` if the data folder has no log.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::backup) log: Option<LogPosition>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct SnapshotTotals {
    pub(in crate::backup) tables: u64,
    pub(in crate::backup) entities: u64,
}

#[derive(Debug)]
pub(in crate::backup) enum Frame {
    Header(SnapshotHeader),
    Account(AccountEntry),
    Table(TableEntry),
    /// Entities of the last table, in the format of `chunk.rs`.
    Entities(Vec<u8>),
    End(SnapshotTotals),
}

pub(super) fn send_snapshot(
    out: &mut impl Write,
    snapshot: &dyn Snapshot,
    log_id: Option<String>,
) -> Result<(), SnapshotError> {
    let contents = snapshot.contents();
    let log = log_id.zip(contents.position).map(|(id, position)| LogPosition { id, position });
    let header = SnapshotHeader {
        time: seven_digits(SystemClock.now()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        last_stamp: contents.last_stamp.ticks(),
        tables: contents.tables.len(),
        log,
    };
    let failed = SnapshotError::Sink;
    write_json(out, b'H', &header).map_err(failed)?;
    for (account, properties) in &contents.properties {
        write_json(out, b'A', &AccountEntry::new(account, properties)).map_err(failed)?;
    }
    let mut totals = SnapshotTotals::default();
    let mut entities = Vec::with_capacity(ENTITIES_BYTES);
    for (index, table) in contents.tables.iter().enumerate() {
        write_json(out, b'T', &TableEntry::new(table)).map_err(failed)?;
        totals.tables += 1;
        snapshot.entities(index, &mut |key, record| {
            totals.entities += 1;
            push_entity(&mut entities, key, record).ok_or_else(|| io::Error::other("an entity is too large"))?;
            if entities.len() < ENTITIES_BYTES {
                return Ok(());
            }
            write_frame(out, b'E', &entities)?;
            entities.clear();
            Ok(())
        })?;
        if !entities.is_empty() {
            write_frame(out, b'E', &entities).map_err(failed)?;
            entities.clear();
        }
    }
    write_json(out, b'Z', &totals).map_err(failed)?;
    out.flush().map_err(failed)
}

/// Ends a stream early for a reason other than damage.
pub(super) fn send_refusal(out: &mut impl Write, why: &str) -> io::Result<()> {
    write_frame(out, b'X', why.as_bytes())?;
    out.flush()
}

/// Ends a stream early because the snapshot could not be read or sent.
pub(super) fn send_failure(out: &mut impl Write, error: &SnapshotError) -> io::Result<()> {
    let tag = if matches!(error, SnapshotError::Fault(Fault::Damaged(_) | Fault::Storage(_))) { b'D' } else { b'X' };
    write_frame(out, tag, error.to_string().as_bytes())?;
    out.flush()
}

#[derive(Debug)]
pub(super) struct DamagedDataError(String);

impl fmt::Display for DamagedDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server cannot provide its data: {}; see its log for details", self.0)
    }
}

impl std::error::Error for DamagedDataError {}

pub(super) fn write_json(out: &mut impl Write, tag: u8, value: &impl Serialize) -> io::Result<()> {
    write_frame(out, tag, &serde_json::to_vec(value)?)
}

pub(super) fn write_frame(out: &mut impl Write, tag: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&[tag])?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(bytes)
}

#[derive(Debug)]
pub(in crate::backup) struct FrameReader<R> {
    input: R,
    is_at_end: bool,
}

impl<R: Read> FrameReader<R> {
    pub(in crate::backup) fn new(input: R) -> Self {
        Self { input, is_at_end: false }
    }

    /// The header must be the first frame.
    pub(in crate::backup) fn header(&mut self) -> anyhow::Result<SnapshotHeader> {
        match self.next()? {
            Some(Frame::Header(header)) => Ok(header),
            _ => bail!("the snapshot does not begin with a header"),
        }
    }

    /// Returns `None` after the end of the snapshot.
    pub(in crate::backup) fn next(&mut self) -> anyhow::Result<Option<Frame>> {
        if self.is_at_end {
            return Ok(None);
        }
        let (tag, bytes) = read_frame(&mut self.input, FRAME_BYTES_MAX)?;
        Ok(Some(match tag {
            b'H' => Frame::Header(json(&bytes)?),
            b'A' => Frame::Account(json(&bytes)?),
            b'T' => Frame::Table(json(&bytes)?),
            b'E' => Frame::Entities(bytes),
            b'Z' => {
                self.is_at_end = true;
                Frame::End(json(&bytes)?)
            }
            other => return Err(unknown(other)),
        }))
    }
}

/// Returns the tag and the content of the next frame, or the error with which the server ends the stream.
pub(super) fn read_frame(input: &mut impl Read, bytes_max: usize) -> anyhow::Result<(u8, Vec<u8>)> {
    let incomplete = "the answer of the server ended before it was complete";
    let mut head = [0; 5];
    input.read_exact(&mut head).context(incomplete)?;
    let [tag, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length))?;
    ensure!(length <= bytes_max, "the server sent a frame that is too long");
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).context(incomplete)?;
    match tag {
        b'D' => Err(DamagedDataError(String::from_utf8_lossy(&bytes).into_owned()).into()),
        b'X' => bail!("the server cannot provide its data: {}", String::from_utf8_lossy(&bytes)),
        _ => Ok((tag, bytes)),
    }
}

pub(super) fn unknown(tag: u8) -> anyhow::Error {
    anyhow!(
        "the server sent a frame of an unknown kind ({tag}); the versions of the server and of this command may differ"
    )
}

pub(super) fn json<T: DeserializeOwned>(bytes: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(bytes).context("the server sent a frame that this version does not understand")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_snapshot_is_an_error() {
        let mut bytes = Vec::new();
        write_json(&mut bytes, b'Z', &SnapshotTotals { tables: 1, entities: 2 }).unwrap();
        for length in 0..bytes.len() {
            assert!(FrameReader::new(bytes.get(..length).unwrap()).next().is_err(), "cut to {length}");
        }
        let mut reader = FrameReader::new(bytes.as_slice());
        assert!(matches!(reader.next().unwrap(), Some(Frame::End(SnapshotTotals { tables: 1, entities: 2 }))));
        assert!(reader.next().unwrap().is_none());
        for (bytes, expected) in [
            (&b"X\0\0\0\x04busy"[..], "provide its data: busy"),
            (b"D\0\0\0\x04hole", "provide its data: hole"),
            (b"?\0\0\0\0", "unknown kind"),
            (b"E\xFF\xFF\xFF\xFF", "too long"),
            (b"H\0\0\0\x02{}", "does not understand"),
        ] {
            let error = FrameReader::new(bytes).next().unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }
}
