//! A snapshot on its way from the process that has the data folder open to the one that makes the backup.
//!
//! ```text
//! frame    a tag (1 byte), a length (4 bytes), that many bytes
//! H        the beginning: JSON, see [`Beginning`]
//! A        an account with service properties: JSON, see [`AccountEntry`]
//! T        a table: JSON, see [`TableEntry`]; the entities behind it are its
//! E        entities in their order, see `block.rs`
//! Z        the end: JSON, see [`Totals`]
//! D        what is damaged, so that there is no more: text
//! X        why else there is no more: text
//! ```
//!
//! H comes first, then the accounts, then each table with its entities, then Z. Whatever ends without Z is not complete.

use super::block;
use super::manifest::{AccountEntry, TableEntry};
use anyhow::{Context, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};
use store::{Fault, Snapshot, SnapshotError};

/// Entities are handed over once they have this many bytes.
const ENTITIES_BYTES: usize = 256 * 1024;
/// Longest frame, in bytes: as many entities as are handed over at a time, and the last of them.
const FRAME_BYTES_MAX: usize = ENTITIES_BYTES + block::ENTITY_BYTES_MAX;

/// What a snapshot is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Beginning {
    /// When it was taken, by the clock of the server.
    pub(super) time: String,
    /// The version of the program that took it.
    pub(super) version: String,
    /// See [`store::SnapshotContents`], in ticks of 100 ns since 1601.
    pub(super) last_stamp: i64,
    /// How many tables there are.
    pub(super) tables: usize,
}

/// What was sent in all, so that both sides can compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) tables: u64,
    pub(super) entities: u64,
}

/// One frame.
#[derive(Debug)]
pub(super) enum Frame {
    Beginning(Beginning),
    Account(AccountEntry),
    Table(TableEntry),
    /// Entities of the last table, as bytes.
    Entities(Vec<u8>),
    End(Totals),
}

/// Sends a snapshot.
pub(super) fn send(out: &mut impl Write, snapshot: &dyn Snapshot, time: String) -> Result<(), SnapshotError> {
    let contents = snapshot.contents();
    let beginning = Beginning {
        time,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        last_stamp: contents.last_stamp.ticks(),
        tables: contents.tables.len(),
    };
    let failed = SnapshotError::Sink;
    write_json(out, b'H', &beginning).map_err(failed)?;
    for (account, properties) in &contents.properties {
        write_json(out, b'A', &AccountEntry::new(account, properties)).map_err(failed)?;
    }
    let mut totals = Totals::default();
    let mut entities = Vec::with_capacity(ENTITIES_BYTES);
    for (index, table) in contents.tables.iter().enumerate() {
        write_json(out, b'T', &TableEntry::new(table)).map_err(failed)?;
        totals.tables += 1;
        snapshot.entities(index, &mut |key, record| {
            totals.entities += 1;
            block::push(&mut entities, key, record).ok_or_else(|| io::Error::other("an entity is too large"))?;
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

/// Says why there is no more.
pub(crate) fn send_refusal(out: &mut impl Write, why: &str) -> io::Result<()> {
    write_frame(out, b'X', why.as_bytes())?;
    out.flush()
}

/// Says why a snapshot could not be read to its end.
pub(crate) fn send_failure(out: &mut impl Write, error: &SnapshotError) -> io::Result<()> {
    let tag = if matches!(error, SnapshotError::Fault(Fault::Damaged(_) | Fault::Storage(_))) { b'D' } else { b'X' };
    write_frame(out, tag, error.to_string().as_bytes())?;
    out.flush()
}

/// The server cannot read what it has stored.
#[derive(Debug)]
pub(super) struct Damage(pub(super) String);

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server gives no snapshot: {}; its log says more", self.0)
    }
}

impl std::error::Error for Damage {}

fn write_json(out: &mut impl Write, tag: u8, value: &impl Serialize) -> io::Result<()> {
    write_frame(out, tag, &serde_json::to_vec(value)?)
}

fn write_frame(out: &mut impl Write, tag: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&[tag])?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(bytes)
}

/// Receives a snapshot.
#[derive(Debug)]
pub(super) struct Receiver<R> {
    input: R,
    is_over: bool,
}

impl<R: Read> Receiver<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, is_over: false }
    }

    /// The next frame; `None` behind the end.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Frame>> {
        if self.is_over {
            return Ok(None);
        }
        let [tag, length @ ..] = self.header().context("the snapshot ended before it was complete")?;
        let length = usize::try_from(u32::from_be_bytes(length))?;
        ensure!(length <= FRAME_BYTES_MAX, "the other side sent a frame that is too long");
        let mut bytes = vec![0; length];
        self.input.read_exact(&mut bytes).context("the snapshot ended before it was complete")?;
        Ok(Some(match tag {
            b'H' => Frame::Beginning(json(&bytes)?),
            b'A' => Frame::Account(json(&bytes)?),
            b'T' => Frame::Table(json(&bytes)?),
            b'E' => Frame::Entities(bytes),
            b'Z' => {
                self.is_over = true;
                Frame::End(json(&bytes)?)
            }
            b'D' => return Err(Damage(String::from_utf8_lossy(&bytes).into_owned()).into()),
            b'X' => bail!("the server gives no snapshot: {}", String::from_utf8_lossy(&bytes)),
            other => bail!("the other side sent a frame of an unknown kind ({other}); is it of another version?"),
        }))
    }

    fn header(&mut self) -> io::Result<[u8; 5]> {
        let mut header = [0; 5];
        self.input.read_exact(&mut header)?;
        Ok(header)
    }
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(bytes).context("the other side sent what this version does not understand")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_whole_snapshot_is_an_error() {
        let mut bytes = Vec::new();
        write_json(&mut bytes, b'Z', &Totals { tables: 1, entities: 2 }).unwrap();
        for length in 0..bytes.len() {
            assert!(Receiver::new(bytes.get(..length).unwrap()).next().is_err(), "cut to {length}");
        }
        let mut receiver = Receiver::new(bytes.as_slice());
        assert!(matches!(receiver.next().unwrap(), Some(Frame::End(Totals { tables: 1, entities: 2 }))));
        assert!(receiver.next().unwrap().is_none());
        for (bytes, told) in [
            (&b"X\0\0\0\x04busy"[..], "no snapshot: busy"),
            (b"D\0\0\0\x04hole", "no snapshot: hole"),
            (b"?\0\0\0\0", "unknown kind"),
            (b"E\xFF\xFF\xFF\xFF", "too long"),
            (b"H\0\0\0\x02{}", "does not understand"),
        ] {
            let error = Receiver::new(bytes).next().unwrap_err();
            assert!(format!("{error:#}").contains(told), "{error:#}");
        }
    }
}
