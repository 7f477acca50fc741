//! Parts of a change log: files that continue a backup. `docs/backup-format.md` describes the format.
//!
//! Invariants:
//!
//! 1. A part contains every transaction from its first position up to, but not including, its next position.
//! 2. The name of a part says everything except the transactions, so an empty part is never opened.

use super::manifest::{name_of_time, time_of_name};
use super::packed::{self, Magic};
use super::transactions::{TRANSACTION_BYTES_MAX, each_transaction, take, take_time};
use crate::digest::sha256;
use anyhow::{Context, ensure};
use engine::ChangedTransaction;
use model::DateTime;
use std::fmt;

const MAGIC: Magic = *b"RHCHLOG1";
/// A part ends after the transaction with which it reaches this size, in bytes.
const PART_BYTES: usize = 4 * 1024 * 1024;
/// First position (8), next position (8), time of the first transaction (8), time until which the part is complete (8).
const HEADER_BYTES: usize = 32;
const CONTENT_BYTES_MAX: usize = HEADER_BYTES + PART_BYTES + TRANSACTION_BYTES_MAX;
pub(super) const PART_FILE_BYTES_MAX: u64 = packed::file_bytes_max(CONTENT_BYTES_MAX);
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

    /// Returns the content of the part, which is verified completely. The file of an empty part is not needed.
    pub(super) fn content(&self, file: Option<&[u8]>) -> anyhow::Result<Vec<u8>> {
        if self.is_empty() {
            let content = header(&self.range).to_vec();
            ensure!(*self == Self::new(self.range, &content), "its name is wrong");
            return Ok(content);
        }
        let content = packed::unpack(MAGIC, CONTENT_BYTES_MAX, file.context("it is missing")?)?;
        let mut rest = content.as_slice();
        let range = || {
            let (first, next) = (u64::from_be_bytes(take(&mut rest)?), u64::from_be_bytes(take(&mut rest)?));
            Some(PartRange { first, next, since: take_time(&mut rest)?, until: take_time(&mut rest)? })
        };
        let range = { range }();
        ensure!(
            range.is_some_and(|range| Self::new(range, &content) == *self),
            "the hash of its content differs from its name"
        );
        Ok(content)
    }

    /// Passes the transactions in the content to the sink.
    pub(super) fn each_transaction(
        &self,
        content: &[u8],
        mut sink: impl FnMut(ChangedTransaction) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let transactions = content.get(HEADER_BYTES..).unwrap_or_default();
        each_transaction(transactions, |transaction| {
            let ChangedTransaction { position, time, .. } = transaction;
            let PartRange { first, next, since, until } = self.range;
            let is_inside = (first..next).contains(&position) && (since..=until).contains(&time);
            ensure!(is_inside, "transaction {position} is outside of its range");
            sink(transaction)
        })
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
    last: Option<ChangedTransaction>,
    transactions: u64,
    bytes: Vec<u8>,
}

impl PartContent {
    pub(in crate::backup) fn new(first: u64) -> Self {
        Self { first, next: first, times: None, last: None, transactions: 0, bytes: vec![0; HEADER_BYTES] }
    }

    /// Adds all transactions up to `next`, as consecutive bytes.
    pub(in crate::backup) fn push(&mut self, next: u64, transactions: &[u8]) -> anyhow::Result<()> {
        ensure!(self.next <= next, "the log goes back from position {} to {next}", self.next);
        let mut last = self.times.map_or(DateTime::MIN, |(_, last)| last);
        each_transaction(transactions, |transaction| {
            let ChangedTransaction { position, time, .. } = transaction;
            ensure!((self.next..next).contains(&position), "transaction {position} is outside of its range");
            ensure!(last <= time, "the time of transaction {position} is earlier than the time of its predecessor");
            last = time;
            self.times = Some((self.times.map_or(time, |(first, _)| first), time));
            self.transactions += 1;
            self.last = Some(transaction);
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

    /// Returns the last transaction.
    pub(in crate::backup) fn last(&self) -> Option<&ChangedTransaction> {
        self.last.as_ref()
    }

    pub(in crate::backup) fn is_full(&self) -> bool {
        self.bytes.len() >= PART_BYTES
    }

    /// Ends the part, and returns its name and its file. `until` is the time until which it is complete; without it,
    /// this is the time of the last transaction.
    pub(super) fn finish(mut self, until: Option<DateTime>) -> anyhow::Result<(PartName, Vec<u8>)> {
        let last = self.times.map_or(DateTime::MIN, |(_, last)| last);
        let until = until.map_or(last, |until| until.max(last));
        let since = self.times.map_or(until, |(first, _)| first);
        let range = PartRange { first: self.first, next: self.next, since, until };
        for (slot, byte) in self.bytes.iter_mut().zip(header(&range)) {
            *slot = byte;
        }
        Ok((PartName::new(range, &self.bytes), packed::pack(MAGIC, &self.bytes)?))
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

#[cfg(test)]
mod tests {
    use super::super::transactions::push_transaction;
    use super::*;
    use engine::{Change, ChangeEffect, TableKey};
    use model::{AccountName, TableName};
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

    fn read(name: &PartName, file: Option<&[u8]>) -> anyhow::Result<Vec<u64>> {
        let mut positions = Vec::new();
        name.each_transaction(&name.content(file)?, |transaction| {
            positions.push(transaction.position);
            Ok(())
        })?;
        Ok(positions)
    }

    #[test]
    fn the_format_of_parts_is_pinned() {
        let (name, file) = part().finish(Some(ticks(90))).unwrap();
        let expected = "00000000000000000004-00000000000000000007-16010101T0000000000070Z-16010101T0000000000090Z-3e48a1f59bb604be";
        assert_eq!(name.to_string(), expected);
        assert!(file.starts_with(b"RHCHLOG1"));
        let content = packed::unpack(MAGIC, CONTENT_BYTES_MAX, &file).unwrap();
        let header = b"\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0F\0\0\0\0\0\0\0Z".as_slice();
        let transaction = b"\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0F\0\0\0\x01\0\0\0\0\x05\x04acct\x04Cars".as_slice();
        assert_eq!(content.escape_ascii().to_string(), [header, transaction].concat().escape_ascii().to_string());
        assert_eq!((read(&name, Some(&file)).unwrap(), PartName::parse(expected)), (vec![5], Some(name)));
    }

    #[test]
    fn every_flipped_bit_of_a_part_is_found() {
        let (name, file) = part().finish(None).unwrap();
        assert_eq!(name.range.until, ticks(70));
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&name, Some(&damaged)).is_err(), "bit {bit}");
        }
        for length in 0..file.len() {
            assert!(read(&name, Some(&file[..length])).is_err(), "cut to {length}");
        }
        assert!(read(&name, None).unwrap_err().to_string().contains("missing"));
        // An intact part under another name.
        for (from, to) in [("04-", "03-"), ("07-", "08-")] {
            let other = name.to_string().replacen(from, to, 1);
            assert!(read(&PartName::parse(&other).unwrap(), Some(&file)).is_err(), "{other}");
        }
    }

    #[test]
    fn an_empty_part_is_read_from_its_name() {
        let (name, _) = PartContent::new(9).finish(Some(ticks(90))).unwrap();
        assert!(name.is_empty() && name.range == PartRange { first: 9, next: 9, since: ticks(90), until: ticks(90) });
        assert_eq!(read(&name, None).unwrap(), [0; 0]);
        let other = PartName { range: PartRange { first: 8, next: 8, ..name.range }, ..name };
        assert!(read(&other, None).is_err());
    }

    #[test]
    fn only_names_that_rowhouse_gives_are_parts() {
        let text = part().finish(None).unwrap().0.to_string();
        for at in 0..text.len() {
            let mut other = text.clone();
            other.replace_range(at..=at, "/");
            assert_eq!(PartName::parse(&other), None, "{other}");
        }
        let swapped = text.replacen("07-", "03-", 1);
        for other in ["", "..", &text[1..], &format!("{text}-"), &format!("+{}", &text[1..]), &swapped] {
            assert_eq!(PartName::parse(other), None, "{other}");
        }
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
