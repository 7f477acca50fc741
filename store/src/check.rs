//! What a check finds, and the check of what a snapshot holds, whatever engine it comes from.
//!
//! This module must not know how an engine stores anything.

use crate::engine::TableKey;
use crate::snapshot::{Snapshot, SnapshotError};
use model::{DateTime, EntityView, KeyText};
use std::fmt;
use std::io;

/// Most problems that are reported one by one.
pub(crate) const PROBLEMS_MAX: usize = 100;
/// How many entities are read between two reports.
pub(crate) const ENTITIES_BETWEEN_REPORTS: u64 = 256;

/// What a check found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// What is wrong; nothing if all is well.
    pub problems: Vec<Problem>,
    /// How many more problems there are than are listed.
    pub untold: u64,
    /// What is no damage and worth knowing.
    pub notes: Vec<String>,
    /// The tables, in the order of accounts and names.
    pub tables: Vec<CheckedTable>,
    /// Entities of deleted tables that are still to be removed.
    pub purged_entities: u64,
    /// Sorted files whose checksum was compared.
    pub files: u64,
    /// The size of those files.
    pub file_bytes: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, the folder, the key or the entity.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

/// A table that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedTable {
    /// Its account and name.
    pub table: TableKey,
    /// How many entities it has.
    pub entities: u64,
    /// The size of their keys and records.
    pub bytes: u64,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl CheckReport {
    pub(crate) fn problem(&mut self, place: impl fmt::Display, what: impl fmt::Display) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { place: place.to_string(), what: what.to_string() });
        } else {
            self.untold += 1;
        }
    }
}

/// Reads every entity of a snapshot, and reports what is wrong. `read` is called with the number of entities that were read
/// since its last call; it ends the check by returning `false`. Returns whether the check went to its end.
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
            report.problem(place(), "it is not in order");
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
                _ => format!("what follows the entity {} of {name}", last.escape_ascii()),
            };
            report.problem(place, fault);
            read(checked.entities % ENTITIES_BETWEEN_REPORTS)
        }
    };
    report.tables.push(checked);
    goes_on
}

/// Checks one entity: key bytes inside the table, record bytes, and a Timestamp that is not later than the last one.
pub(crate) fn check_entity(key: &[u8], record: &[u8], last_stamp: DateTime) -> Result<(), &'static str> {
    let entity = EntityView::new(key, record).map_err(|_| "the key or the record of the entity cannot be read")?;
    let is_key = |text: &str| KeyText::new(text).is_ok();
    if !is_key(&entity.key.partition) || !is_key(&entity.key.row) {
        return Err("no entity can have this key");
    }
    entity.record.check().map_err(|_| "the record of the entity cannot be read")?;
    if entity.record.timestamp() > last_stamp {
        return Err("its Timestamp is later than the highest that was given out");
    }
    Ok(())
}
