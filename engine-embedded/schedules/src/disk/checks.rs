//! The disk of a schedule, with checks of what the engine writes to it: it decodes each group that is written to the
//! log, and recovers what a crash would leave.

use super::contents::{
    Contents, Items, Survivors, contents_of_log, is_of_entity, items_of, last_stamp, properties, stamp,
};
use crate::disk::layout;
use crate::hardware::{Crash, Hardware, Mishap, Observer, Remains};
use crate::log::format::{GROUP_HEADER_BYTES, SEGMENT_HEADER_BYTES, records};
use crate::sequence::Sequence;
use model::{DateTime, RecordView};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) hardware: Arc<Hardware>,
    journal: Arc<Mutex<Journal>>,
}

/// What was written to the log. The lock is never held while another thread may run.
#[derive(Debug, Default)]
struct Journal {
    /// The transactions that were written and not replaced later, in the order of their numbers.
    transactions: Vec<(Sequence, Items)>,
    /// The properties of transactions that were replaced. No later write may contain them.
    lost: BTreeSet<String>,
    checks_merges: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new([], 0, false)
    }
}

impl Disk {
    /// Creates a disk on which the given operations fail, counted from 0, and which then refuses some probes. Every
    /// write of an entity must keep the entity's properties.
    pub(crate) fn failing(mishaps: impl IntoIterator<Item = (usize, Mishap)>, refused_probes: usize) -> Arc<Self> {
        Arc::new(Self::new(mishaps, refused_probes, true))
    }

    fn new(mishaps: impl IntoIterator<Item = (usize, Mishap)>, refused_probes: usize, checks_merges: bool) -> Self {
        let journal = Arc::new(Mutex::new(Journal { checks_merges, ..Journal::default() }));
        let observer: Arc<dyn Observer> = Arc::<Mutex<Journal>>::clone(&journal);
        Self { hardware: Hardware::new(observer, mishaps, refused_probes), journal }
    }

    /// Panics if an invariant was violated.
    pub(crate) fn finish(&self) {
        self.survivors(Crash::Worst);
        self.survivors(Crash::Any);
        self.hardware.assert_no_violations();
    }

    /// Returns the number of transactions on disk that contain the key.
    pub(crate) fn writes_of(&self, key: &[u8]) -> usize {
        let last = self.survivors(Crash::Worst).last;
        let journal = self.journal.lock().unwrap();
        let survivors = journal.transactions.iter().filter(|(sequence, _)| *sequence <= last);
        survivors.flat_map(|(_, items)| items).filter(|(other, _)| other == key).count()
    }

    /// Returns the last Timestamp that is certain to be on disk.
    pub(crate) fn last_stamp(&self) -> DateTime {
        let survivors = self.survivors(Crash::Worst);
        match survivors.contents.get(layout::LAST_STAMP).map(|value| stamp(value)) {
            Some(stamp) => stamp,
            None => DateTime::MIN,
        }
    }

    /// Returns what recovery would find after a crash at this moment. It is a violation if recovery would refuse the
    /// folder.
    pub(crate) fn survivors(&self, crash: Crash) -> Survivors {
        let (survivors, violation) = Survivors::new(self.hardware.remains(crash));
        if let Some(violation) = violation {
            self.hardware.violation(violation);
        }
        survivors
    }
}

impl Observer for Mutex<Journal> {
    fn check_write(&self, bytes: &[u8]) -> Vec<String> {
        self.lock().unwrap().check_groups(bytes)
    }

    /// Everything in sorted files must be in the log, on disk.
    fn check_list(&self, remains: Remains) -> Vec<String> {
        Survivors::new(remains).1.into_iter().collect()
    }
}

impl Journal {
    /// Checks the groups in bytes that are written to a segment. They replace everything from their first transaction.
    fn check_groups(&mut self, bytes: &[u8]) -> Vec<String> {
        const FIRST: usize = 24;
        const COUNT: usize = 32;
        let mut rest = if bytes.starts_with(b"RowhsLog") { &bytes[SEGMENT_HEADER_BYTES..] } else { bytes };
        let (mut replaced, mut violations) = (Vec::new(), Vec::new());
        while rest.starts_with(b"RGrp") {
            let length = u32::from_be_bytes(rest[4..8].try_into().unwrap()) as usize;
            let first = Sequence::new(u64::from_be_bytes(rest[FIRST..COUNT].try_into().unwrap()));
            let count = u32::from_be_bytes(rest[COUNT..COUNT + 4].try_into().unwrap());
            let kept = self.transactions.iter().take_while(|(sequence, _)| *sequence < first).count();
            replaced.extend(self.transactions.split_off(kept));
            for record in records(&rest[GROUP_HEADER_BYTES..length], count) {
                let items = items_of(record.payload, record.header.stamp);
                violations.extend(self.check_items(&items));
                self.transactions.push((record.header.sequence, items));
            }
            rest = &rest[length..];
        }
        let found: BTreeSet<_> =
            contents_of_log(&self.transactions).values().flat_map(|value| properties(value)).collect();
        let lost = replaced.iter().flat_map(|(_, items)| items).flat_map(|(_, value)| value);
        self.lost.extend(lost.flat_map(|value| properties(value)).filter(|name| !found.contains(name)));
        violations
    }

    /// Checks that stamps ascend, that no update is lost, and that no entity is written to a deleted table.
    fn check_items(&self, items: &Items) -> Vec<String> {
        let mut violations = Vec::new();
        let last = last_stamp(items);
        let mut current: Contents = contents_of_log(&self.transactions);
        let earlier = current.get(layout::LAST_STAMP).map(|value| stamp(value));
        let tables: Vec<_> =
            current.iter().filter_map(|(key, value)| layout::decode_catalog_entry(key, value)).collect();
        for (key, value) in items.iter().filter(|(key, _)| is_of_entity(key)) {
            if !tables.iter().any(|entry| key.starts_with(&entry.id.to_bytes())) {
                violations.push("an entity was written to a deleted table".to_owned());
            }
            let stamp = value.as_ref().map(|value| RecordView::new(value).unwrap().timestamp());
            if stamp.is_some() && (stamp > last || stamp <= earlier) {
                violations.push(format!("{stamp:?} is not between {earlier:?} and {last:?}"));
            }
            let (old, new) =
                (current.get(key).map(|value| properties(value)), value.as_ref().map(|value| properties(value)));
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            if self.checks_merges && (!old.is_subset(&new) || !new.is_disjoint(&self.lost)) {
                violations.push(format!("{old:?} became {new:?}, but {:?} are lost", self.lost));
            }
            match value {
                Some(value) => current.insert(key.clone(), value.clone()),
                None => current.remove(key),
            };
        }
        violations
    }
}
