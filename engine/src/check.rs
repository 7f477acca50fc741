//! The report of a check, and the check of a snapshot from any engine.
//!
//! This module must not know how an engine stores anything.

use crate::contract::TableKey;
use crate::snapshot::{Snapshot, SnapshotError};
use model::{DateTime, EntityView, KeyText};
use std::fmt;
use std::io;

/// The maximum number of problems that are listed individually.
pub const PROBLEMS_MAX: usize = 100;
/// The number of entities read between two progress reports.
pub const ENTITIES_BETWEEN_REPORTS: u64 = 256;

/// The results of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// The problems; empty if there are none.
    pub problems: Vec<Problem>,
    /// The number of additional problems that `problems` does not list.
    pub unlisted: u64,
    /// Observations that are not damage but worth reporting.
    pub notes: Vec<String>,
    /// The tables, ordered by account and name.
    pub tables: Vec<CheckedTable>,
    /// The number of entities of deleted tables that are still to be removed.
    pub purged_entities: u64,
    /// The number of sorted files whose checksum was verified.
    pub files: u64,
    /// The total size of those files, in bytes.
    pub file_bytes: u64,
}

/// A problem found by a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The affected file, folder, key or entity.
    pub place: String,
    /// The description of the problem.
    pub what: String,
}

/// The number and size of the entities of a checked table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedTable {
    /// The account and name of the table.
    pub table: TableKey,
    /// The number of entities.
    pub entities: u64,
    /// The total size of their keys and records, in bytes.
    pub bytes: u64,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl CheckReport {
    /// Adds a problem, or counts it if the list is full.
    pub fn problem(&mut self, place: impl fmt::Display, what: impl fmt::Display) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { place: place.to_string(), what: what.to_string() });
        } else {
            self.unlisted += 1;
        }
    }
}

/// Reads every entity of a snapshot and reports problems. `read` is called with the number of entities read since the
/// previous call. If `read` returns `false`, the check stops. Returns whether the check ran to completion.
pub fn check_snapshot(snapshot: &dyn Snapshot, report: &mut CheckReport, read: &dyn Fn(u64) -> bool) -> bool {
    (0..snapshot.contents().tables.len()).all(|index| check_table(snapshot, index, report, read))
}

fn check_table(snapshot: &dyn Snapshot, index: usize, report: &mut CheckReport, read: &dyn Fn(u64) -> bool) -> bool {
    let contents = snapshot.contents();
    let Some(listed) = contents.tables.get(index) else { return true };
    let mut checked = CheckedTable { table: listed.table.clone(), entities: 0, bytes: 0 };
    let name = format!("the table {}/{}", listed.table.account, listed.table.name);
    let mut last = Vec::new();
    let end = snapshot.stored_entities(index, &mut |key, record| {
        let place = || format!("the entity {} of {name}", key.escape_ascii());
        if checked.entities > 0 && last.as_slice() >= key {
            report.problem(place(), "its key is out of order");
        }
        if let Err(what) = check_entity(key, record, contents.last_stamp) {
            report.problem(place(), what);
        }
        last.clear();
        last.extend_from_slice(key);
        checked.entities += 1;
        checked.bytes += (key.len() + record.len()) as u64;
        let goes_on = !checked.entities.is_multiple_of(ENTITIES_BETWEEN_REPORTS) || read(ENTITIES_BETWEEN_REPORTS);
        if goes_on { Ok(()) } else { Err(SnapshotError::Sink(io::ErrorKind::Interrupted.into())) }
    });
    let goes_on = match end {
        Ok(()) => read(checked.entities % ENTITIES_BETWEEN_REPORTS),
        Err(SnapshotError::Sink(_)) => false,
        Err(SnapshotError::Fault(fault)) => {
            let place = match checked.entities {
                0 => format!("the first entity of {name}"),
                _ => format!("the data after the entity {} of {name}", last.escape_ascii()),
            };
            report.problem(place, fault);
            read(checked.entities % ENTITIES_BETWEEN_REPORTS)
        }
    };
    report.tables.push(checked);
    goes_on
}

/// Checks that the key bytes (inside the table) and the record bytes of an entity are valid, and that its Timestamp is
/// not later than `last_stamp`.
pub fn check_entity(key: &[u8], record: &[u8], last_stamp: DateTime) -> Result<(), &'static str> {
    let entity = EntityView::new(key, record).map_err(|_| "its key or record cannot be read")?;
    let is_key = |text: &str| KeyText::new(text).is_ok();
    if !is_key(&entity.key.partition) || !is_key(&entity.key.row) {
        return Err("its key is not valid");
    }
    entity.record.check().map_err(|_| "its record cannot be read")?;
    if entity.record.timestamp() > last_stamp {
        return Err("its Timestamp is later than the last one issued");
    }
    Ok(())
}
