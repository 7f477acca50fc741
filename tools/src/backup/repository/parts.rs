//! Parts of a change log: files that continue a backup. `docs/backup-format.md` describes the format.
//!
//! Invariants:
//!
//! 1. A part contains every transaction from its first position up to, but not including, its next position.
//! 2. A part that has its final name is complete and on disk.
//! 3. The name of a part says everything except the transactions, so an empty part is never opened.

use super::folder::Folder;
use super::manifest::{name_of_time, time_of_name};
use super::names::{incomplete_name, is_incomplete};
use super::packed::{self, Magic};
use super::transactions::{TRANSACTION_BYTES_MAX, each_transaction, take, take_time};
use crate::digest::sha256;
use anyhow::{Context, ensure};
use engine::ChangedTransaction;
use model::DateTime;
use std::fmt;
use std::io::ErrorKind;

const MAGIC: Magic = *b"RHCHLOG1";
/// A part ends after the transaction with which it reaches this size, in bytes.
const PART_BYTES: usize = 4 * 1024 * 1024;
/// First position (8), next position (8), time of the first transaction (8), time until which the part is complete (8).
const HEADER_BYTES: usize = 32;
const CONTENT_BYTES_MAX: usize = HEADER_BYTES + PART_BYTES + TRANSACTION_BYTES_MAX;
const FILE_BYTES_MAX: u64 = packed::file_bytes_max(CONTENT_BYTES_MAX);
/// The number of characters of the content's SHA-256 that are part of the name.
const HASH_CHARS: usize = 16;
const POSITION_CHARS: usize = 20;

/// The range of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::backup) struct PartRange {
    /// The position from which the part contains all transactions.
    pub(in crate::backup) first: u64,
    /// The position after the part. Equal to `first` if the part is empty.
    pub(in crate::backup) next: u64,
    /// The time of the first transaction, or `until` if there is none.
    pub(in crate::backup) since: DateTime,
    /// All transactions that were acknowledged until this time have positions before `next`.
    pub(in crate::backup) until: DateTime,
}

/// The name of a part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::backup) struct PartName {
    pub(in crate::backup) range: PartRange,
    hash: String,
}

impl PartName {
    fn new(range: PartRange, content: &[u8]) -> Self {
        Self { range, hash: sha256(content).get(..HASH_CHARS).unwrap_or_default().to_owned() }
    }

    /// Returns `None` if Rowhouse does not assign such a name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let mut fields = name.split('-');
        let mut field = || fields.next();
        let position = |text: Option<&str>| text?.parse::<u64>().ok();
        let (first, next) = (position(field())?, position(field())?);
        let (since, until) = (time_of_name(field()?)?, time_of_name(field()?)?);
        let part = Self { range: PartRange { first, next, since, until }, hash: field()?.to_owned() };
        let is_hash =
            part.hash.len() == HASH_CHARS && part.hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        // Other spellings of the same values are not names.
        let is_name = is_hash && first <= next && since <= until && part.to_string() == name;
        is_name.then_some(part)
    }

    /// Returns true if the part contains no transactions, and only says that there were none.
    pub(in crate::backup) fn is_empty(&self) -> bool {
        self.range.first == self.range.next
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PartRange { first, next, since, until } = self.range;
        let (since, until) = (name_of_time(since), name_of_time(until));
        write!(f, "{first:0POSITION_CHARS$}-{next:0POSITION_CHARS$}-{since}-{until}-{}", self.hash)
    }
}

/// A part that is being collected.
#[derive(Debug)]
pub(in crate::backup) struct PartContent {
    first: u64,
    next: u64,
    times: Option<(DateTime, DateTime)>,
    transactions: u64,
    bytes: Vec<u8>,
}

impl PartContent {
    pub(in crate::backup) fn new(first: u64) -> Self {
        Self { first, next: first, times: None, transactions: 0, bytes: vec![0; HEADER_BYTES] }
    }

    /// Adds all transactions up to `next`, as consecutive bytes.
    pub(in crate::backup) fn push(&mut self, next: u64, transactions: &[u8]) -> anyhow::Result<()> {
        ensure!(self.next <= next, "the log goes back from position {} to {next}", self.next);
        let mut last = self.times.map_or(DateTime::MIN, |(_, last)| last);
        each_transaction(transactions, |ChangedTransaction { position, time, .. }| {
            ensure!((self.next..next).contains(&position), "transaction {position} is outside of its range");
            ensure!(last <= time, "the time of transaction {position} is earlier than the time of its predecessor");
            last = time;
            self.times = Some((self.times.map_or(time, |(first, _)| first), time));
            self.transactions += 1;
            Ok(())
        })?;
        self.bytes.extend_from_slice(transactions);
        self.next = next;
        Ok(())
    }

    pub(in crate::backup) fn next(&self) -> u64 {
        self.next
    }

    pub(in crate::backup) fn transactions(&self) -> u64 {
        self.transactions
    }

    pub(in crate::backup) fn is_full(&self) -> bool {
        self.bytes.len() >= PART_BYTES
    }

    /// Ends the part. `until` is the time until which it is complete; without it, this is the time of the last
    /// transaction.
    fn finish(mut self, until: Option<DateTime>) -> (PartName, Vec<u8>) {
        let last = self.times.map_or(DateTime::MIN, |(_, last)| last);
        let until = until.map_or(last, |until| until.max(last));
        let since = self.times.map_or(until, |(first, _)| first);
        let range = PartRange { first: self.first, next: self.next, since, until };
        for (slot, byte) in self.bytes.iter_mut().zip(header(&range)) {
            *slot = byte;
        }
        (PartName::new(range, &self.bytes), self.bytes)
    }
}

fn header(range: &PartRange) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let fields = [
        range.first.to_be_bytes(),
        range.next.to_be_bytes(),
        range.since.ticks().to_be_bytes(),
        range.until.ticks().to_be_bytes(),
    ];
    for (slot, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
        *slot = byte;
    }
    bytes
}

/// The parts of one change log.
#[derive(Debug)]
pub(in crate::backup) struct PartFolder(pub(super) Folder);

impl PartFolder {
    /// Adds a part, which is on disk when this returns.
    pub(in crate::backup) fn add(&self, part: PartContent, until: Option<DateTime>) -> anyhow::Result<PartName> {
        let (name, content) = part.finish(until);
        let file = packed::pack(MAGIC, &content)?;
        let text = name.to_string();
        let temporary = incomplete_name(&format!("{text}.{}-0", std::process::id()));
        let written = self.0.write(&text, &temporary, &file).and_then(|()| self.0.sync());
        written.with_context(|| format!("writing {}", self.0.path_of(&text).display()))?;
        Ok(name)
    }

    /// Returns the parts in the order of their positions.
    pub(in crate::backup) fn names(&self) -> anyhow::Result<Vec<PartName>> {
        let mut names: Vec<_> = self.0.names()?.iter().filter_map(|name| PartName::parse(name)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Passes the transactions of a part to the sink, after the whole part has been verified.
    pub(in crate::backup) fn each_transaction(
        &self,
        name: &PartName,
        mut sink: impl FnMut(ChangedTransaction) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let what = || format!("part {} of the log is damaged", self.0.path_of(&name.to_string()).display());
        if name.is_empty() {
            ensure!(*name == PartName::new(name.range, &header(&name.range)), "{}: its name is wrong", what());
            return Ok(());
        }
        let content = self.read(name).with_context(what)?;
        let transactions = content.get(HEADER_BYTES..).unwrap_or_default();
        each_transaction(transactions, |transaction| {
            let ChangedTransaction { position, time, .. } = transaction;
            let PartRange { first, next, since, until } = name.range;
            let is_inside = (first..next).contains(&position) && (since..=until).contains(&time);
            ensure!(is_inside, "transaction {position} is outside of its range");
            sink(transaction)
        })
        .with_context(what)
    }

    fn read(&self, name: &PartName) -> anyhow::Result<Vec<u8>> {
        let file = self.0.read(&name.to_string(), FILE_BYTES_MAX)?;
        let content = packed::unpack(MAGIC, CONTENT_BYTES_MAX, &file)?;
        let mut rest = content.as_slice();
        let range = || {
            let (first, next) = (u64::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
            Some(PartRange { first, next, since: take_time(&mut rest)?, until: take_time(&mut rest)? })
        };
        let range = { range }();
        ensure!(
            range.is_some_and(|range| PartName::new(range, &content) == *name),
            "the hash of its content differs from its name"
        );
        Ok(content)
    }

    /// Removes parts that are no longer wanted. Returns their size in bytes.
    pub(in crate::backup) fn remove(&self, names: &[PartName]) -> anyhow::Result<u64> {
        let mut removed = 0;
        for name in names {
            removed += self.remove_file(&name.to_string())?;
        }
        Ok(removed)
    }

    /// Removes files whose writing was interrupted.
    pub(super) fn remove_incomplete(&self) -> anyhow::Result<u64> {
        let mut removed = 0;
        for name in self.0.names()?.iter().filter(|name| is_incomplete(name, |name| PartName::parse(name).is_some())) {
            removed += self.remove_file(name)?;
        }
        Ok(removed)
    }

    fn remove_file(&self, name: &str) -> anyhow::Result<u64> {
        match self.0.remove(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            removed => removed.with_context(|| format!("removing {}", self.0.path_of(name).display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::transactions::push_transaction;
    use super::*;
    use engine::{Change, ChangeEffect, TableKey};
    use model::{AccountName, TableName};
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    fn ticks(ticks: i64) -> DateTime {
        DateTime::from_ticks(ticks).unwrap()
    }

    fn part() -> PartContent {
        let table = TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("Cars").unwrap() };
        let effect = ChangeEffect::DeleteTable { table: Arc::new(table) };
        let changes = vec![Change { index: 0, effect }];
        let mut bytes = Vec::new();
        push_transaction(&mut bytes, &ChangedTransaction { position: 5, time: ticks(70), changes }).unwrap();
        let mut part = PartContent::new(4);
        part.push(7, &bytes).unwrap();
        part
    }

    fn folder(place: &Path) -> PartFolder {
        PartFolder(Folder::open(place).unwrap())
    }

    fn read(folder: &PartFolder, name: &PartName) -> anyhow::Result<Vec<u64>> {
        let mut positions = Vec::new();
        folder.each_transaction(name, |transaction| {
            positions.push(transaction.position);
            Ok(())
        })?;
        Ok(positions)
    }

    #[test]
    fn the_format_of_parts_is_pinned() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let name = folder.add(part(), Some(ticks(90))).unwrap();
        let expected = "00000000000000000004-00000000000000000007-16010101T0000000000070Z-16010101T0000000000090Z-3e48a1f59bb604be";
        assert_eq!(name.to_string(), expected);
        let file = fs::read(place.path().join(expected)).unwrap();
        assert!(file.starts_with(b"RHCHLOG1"));
        let content = packed::unpack(MAGIC, CONTENT_BYTES_MAX, &file).unwrap();
        let header = b"\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0F\0\0\0\0\0\0\0Z".as_slice();
        let transaction = b"\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0F\0\0\0\x01\0\0\0\0\x05\x04acct\x04Cars".as_slice();
        assert_eq!(content.escape_ascii().to_string(), [header, transaction].concat().escape_ascii().to_string());
        assert_eq!((read(&folder, &name).unwrap(), folder.names().unwrap()), (vec![5], vec![name]));
    }

    #[test]
    fn every_flipped_bit_of_a_part_is_found() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let name = folder.add(part(), None).unwrap();
        assert_eq!(name.range.until, ticks(70));
        let path = place.path().join(name.to_string());
        let file = fs::read(&path).unwrap();
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            assert!(read(&folder, &name).is_err(), "bit {bit}");
        }
        for length in 0..file.len() {
            fs::write(&path, &file[..length]).unwrap();
            assert!(read(&folder, &name).is_err(), "cut to {length}");
        }
        // An intact part under another name.
        fs::write(&path, &file).unwrap();
        for (from, to) in [("04-", "03-"), ("07-", "08-")] {
            let other = name.to_string().replacen(from, to, 1);
            fs::copy(&path, place.path().join(&other)).unwrap();
            assert!(read(&folder, &PartName::parse(&other).unwrap()).is_err(), "{other}");
        }
    }

    #[test]
    fn an_empty_part_is_read_from_its_name() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let name = folder.add(PartContent::new(9), Some(ticks(90))).unwrap();
        assert!(name.is_empty() && name.range == PartRange { first: 9, next: 9, since: ticks(90), until: ticks(90) });
        fs::remove_file(place.path().join(name.to_string())).unwrap();
        assert_eq!(read(&folder, &name).unwrap(), [0; 0]);
        let other = PartName { range: PartRange { first: 8, next: 8, ..name.range }, ..name };
        assert!(read(&folder, &other).is_err());
    }

    #[test]
    fn only_names_that_rowhouse_gives_are_parts_and_interrupted_writes_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let name = folder.add(part(), None).unwrap();
        let text = name.to_string();
        for at in 0..text.len() {
            let mut other = text.clone();
            other.replace_range(at..=at, "/");
            assert_eq!(PartName::parse(&other), None, "{other}");
        }
        let swapped = text.replacen("07-", "03-", 1);
        for other in ["", "..", &text[1..], &format!("{text}-"), &format!("+{}", &text[1..]), &swapped] {
            assert_eq!(PartName::parse(other), None, "{other}");
        }
        let unfinished = incomplete_name(&format!("{text}.17-0"));
        for file in [unfinished.as_str(), "my.new", "notes"] {
            fs::write(place.path().join(file), b"half").unwrap();
        }
        assert_eq!(folder.names().unwrap(), [name]);
        assert_eq!(folder.remove_incomplete().unwrap(), 4);
        let mut left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [text.as_str(), "my.new", "notes"]);
    }

    #[test]
    fn a_server_that_sends_a_log_with_gaps_is_not_believed() {
        let mut bytes = Vec::new();
        push_transaction(&mut bytes, &ChangedTransaction { position: 5, time: ticks(70), changes: Vec::new() })
            .unwrap();
        assert!(PartContent::new(6).push(7, &bytes).is_err());
        assert!(PartContent::new(4).push(5, &bytes).is_err());
        assert!(PartContent::new(4).push(3, &[]).is_err());
        let mut part = part();
        let mut earlier = Vec::new();
        let transaction = ChangedTransaction { position: 8, time: ticks(60), changes: Vec::new() };
        push_transaction(&mut earlier, &transaction).unwrap();
        assert!(part.push(9, &earlier).is_err());
    }
}
