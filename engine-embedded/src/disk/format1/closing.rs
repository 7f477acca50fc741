//! The record of the journals' state that a clean shutdown of format 1 left in `rowhouse.closed`, and its comparison
//! with the journals.
//!
//! If a journal is empty or ends early, nothing more was written to it, or it lost data. After a crash, the first may
//! be true. After a clean shutdown, it is data loss, and only the record reveals the loss.

use crate::disk::open_error::OpenError;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Records that the database was closed cleanly.
pub(crate) const CLOSED: &str = "rowhouse.closed";
/// The same file while it was being written.
pub(crate) const NEW_CLOSED: &str = "rowhouse.closed.new";
/// The maximum size of the record in `CLOSED`, in bytes. Each journal takes at most 80.
const CLOSED_BYTES_MAX: u64 = 1024 * 1024;

const FIRST_LINE: &str = "rowhouse closed";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosedJournal {
    pub(crate) number: u64,
    pub(crate) bytes: usize,
    pub(crate) checksum: u128,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClosingRecord(pub(crate) Vec<ClosedJournal>);

#[derive(Debug)]
pub(crate) enum Closing {
    /// Written by an earlier version, which recorded only that everything was synced.
    Unrecorded,
    Recorded(ClosingRecord),
}

impl Closing {
    /// Reads the record in a data folder. Returns `None` if the database was not closed cleanly.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, OpenError> {
        let path = folder.join(CLOSED);
        let mut text = String::new();
        match File::open(&path).and_then(|file| file.take(CLOSED_BYTES_MAX).read_to_string(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                return Err(OpenError::io("read", &path, error));
            }
            Ok(0) => return Ok(Some(Self::Unrecorded)),
            _ => {}
        }
        let what = "it is not the record that Rowhouse wrote when the database was closed; \
                    to accept that the journals may have lost data since then, delete it";
        let record = ClosingRecord::from_text(&text).ok_or_else(|| OpenError::damaged(&path, what))?;
        Ok(Some(Self::Recorded(record)))
    }
}

impl ClosingRecord {
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for ClosedJournal { number, bytes, checksum } in &self.0 {
            // Writing to a string never fails.
            let _ = writeln!(text, "journal {number} {bytes} {checksum:032x}");
        }
        let checksum = xxh3_64(text.as_bytes());
        text + &format!("checksum {checksum:016x}\n")
    }

    /// Parses the output of [`Self::to_text`] and accepts nothing else.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let journals = text.strip_prefix(FIRST_LINE)?.lines().filter_map(|line| line.strip_prefix("journal "));
        let record = Self(journals.map(journal).collect::<Option<_>>()?);
        (record.to_text() == text).then_some(record)
    }

    /// Returns the number of the first journal that differs from the record, and a description of the difference.
    pub(crate) fn difference(&self, found: &[ClosedJournal]) -> Option<(u64, String)> {
        for closed in &self.0 {
            let Some(found) = found.iter().find(|found| found.number == closed.number) else {
                return Some((closed.number, "the file is missing".to_owned()));
            };
            if found.bytes != closed.bytes {
                let what = format!(
                    "it held {} bytes of writes when it was closed, but now holds {}",
                    closed.bytes, found.bytes
                );
                return Some((closed.number, what));
            }
            if found.checksum != closed.checksum {
                return Some((
                    closed.number,
                    "its writes differ from those that it held when it was closed".to_owned(),
                ));
            }
        }
        let is_known = |number| self.0.iter().any(|closed| closed.number == number);
        let unknown = found.iter().find(|found| !is_known(found.number))?;
        Some((unknown.number, "it did not exist when the database was closed".to_owned()))
    }
}

fn journal(line: &str) -> Option<ClosedJournal> {
    let mut fields = line.split(' ');
    let (number, bytes, checksum) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?, fields.next()?);
    Some(ClosedJournal { number, bytes, checksum: u128::from_str_radix(checksum, 16).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: ClosedJournal = ClosedJournal { number: 7, bytes: 0, checksum: 0 };
    const SECOND: ClosedJournal = ClosedJournal { number: 8, bytes: 1234, checksum: 0xABC };

    #[test]
    fn the_record_is_pinned_and_a_changed_one_is_not_read() {
        let record = ClosingRecord(vec![FIRST, SECOND]);
        let text = record.to_text();
        let pinned = "rowhouse closed\njournal 7 0 00000000000000000000000000000000\n\
                      journal 8 1234 00000000000000000000000000000abc\nchecksum be6732b232a2177d\n";
        assert_eq!(text, pinned);
        assert_eq!(ClosingRecord::from_text(&text), Some(record));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            assert_eq!(ClosingRecord::from_text(&text[..at]), None, "cut at {at}");
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(ClosingRecord::from_text(&changed), None, "changed at {at}");
        }
        assert_eq!(ClosingRecord::from_text(&format!("{text}\n")), None);
        assert_eq!(ClosingRecord::from_text("\0\0\0"), None);
    }

    #[test]
    fn every_difference_is_found() {
        let record = ClosingRecord(vec![FIRST, SECOND]);
        assert_eq!(record.difference(&[FIRST, SECOND]), None);
        let third = ClosedJournal { number: 9, ..SECOND };
        for (found, number, expected) in [
            (vec![SECOND], 7, "missing"),
            (vec![FIRST], 8, "missing"),
            (vec![FIRST, ClosedJournal { bytes: 0, ..SECOND }], 8, "held 1234 bytes"),
            (vec![FIRST, ClosedJournal { checksum: 1, ..SECOND }], 8, "its writes differ"),
            (vec![FIRST, SECOND, third], 9, "did not exist"),
        ] {
            let (found_in, what) = record.difference(&found).unwrap();
            assert!(found_in == number && what.contains(expected), "{found_in}: {what}");
        }
    }
}
