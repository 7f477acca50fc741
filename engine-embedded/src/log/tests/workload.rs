//! A random user of a log, with failures of the disk, who remembers what the log promised, and what the log must
//! contain after a crash.

use super::disk::{Crash, Interruption, SimulatedDisk};
use crate::log::errors::WriteError;
use crate::log::format::{GROUP_HEADER_BYTES, GroupHeader, RECORD_HEADER_BYTES, Record};
use crate::log::group::{EncodedTransaction, Group};
use crate::log::options::{Durability, Options};
use crate::log::writer::Writer;
use crate::sequence::Sequence;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use test_support::Random;

/// A mistake of the caller of the log, to prove that the simulation would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misuse {
    AcknowledgeBeforeSync,
}

/// The settings of a log whose segments are as small as its groups allow.
pub(super) fn options(durability: Durability) -> Options {
    Options {
        segment_bytes: 4096 + 2048,
        prepare_after_bytes: 4096 + 512,
        prepare_chunk_bytes: 2560,
        unsynced_bytes_max: 1024,
        read_bytes: 1024,
        ..Options::new(durability)
    }
}

/// What happened in the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Continues,
    /// The step asked for the log to be closed and opened again.
    Close,
    /// The step asked for the process to end.
    Kill,
}

pub(super) struct Workload {
    pub(super) disk: SimulatedDisk,
    pub(super) writer: Writer<SimulatedDisk>,
    pub(super) random: Random,
    model: Arc<Mutex<Model>>,
    durability: Durability,
    misuse: Option<Misuse>,
    group: Group,
    has_failed: bool,
}

impl Workload {
    pub(super) fn new(
        disk: SimulatedDisk,
        writer: Writer<SimulatedDisk>,
        model: Arc<Mutex<Model>>,
        (durability, misuse): (Durability, Option<Misuse>),
        seed: u64,
    ) -> Self {
        let group = Group::new(writer.next_sequence());
        Self { disk, writer, random: Random::new(seed), model, durability, misuse, group, has_failed: false }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    pub(super) fn step(&mut self) -> Result<Step, String> {
        if self.has_failed && self.random.below(4) != 0 {
            return self.recover().map(|()| Step::Continues);
        }
        match self.random.below(100) {
            0..56 => self.append()?,
            56..70 => self.sync()?,
            70..77 => self.release(),
            77..84 => self.prepare(),
            84..86 => self.retire()?,
            86..93 => {
                let after = self.random.below(10);
                self.disk.contents().fails_in = Some(after);
            }
            93..95 => {
                let bytes = self.random.index(6 * 6144);
                self.disk.contents().capacity_bytes = bytes;
            }
            95..97 => self.disk.contents().capacity_bytes = usize::MAX,
            97..99 => return Ok(Step::Close),
            _ => return Ok(Step::Kill),
        }
        Ok(Step::Continues)
    }

    /// Returns a payload. Some are large, and some imitate a group that claims that everything was synced.
    fn payload(&mut self) -> Vec<u8> {
        let bytes = match self.random.below(20) {
            0 => 1500,
            1..4 => 700,
            _ => 120,
        };
        let mut payload = vec![0; self.random.index(bytes)];
        for chunk in payload.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.number().to_be_bytes()[..chunk.len()]);
        }
        let (segment, end) = self.writer.place();
        let offset = end + (self.group.bytes_so_far() + RECORD_HEADER_BYTES) as u64;
        let padding = usize::try_from(offset.next_multiple_of(64) - offset).unwrap();
        if self.random.below(6) == 0 {
            payload.resize(padding + 5 * GROUP_HEADER_BYTES, 0);
            for copy in 0..5 {
                let at = padding + copy * GROUP_HEADER_BYTES;
                let imitation = GroupHeader {
                    bytes: 128,
                    offset: offset + at as u64,
                    segment,
                    first: Sequence::new(1 << 41),
                    count: 1,
                    synced_through: Sequence::new(1 << 40),
                    records: 0,
                };
                payload[at..at + GROUP_HEADER_BYTES].copy_from_slice(&imitation.encode(0));
            }
        }
        payload
    }

    fn append(&mut self) -> Result<(), String> {
        let Model { acknowledged: before, synced: synced_before, .. } = *self.model();
        self.group.restart(self.writer.next_sequence());
        if !self.has_failed && self.group.first().get() != before as u64 + 1 {
            return Err(format!("the log continues with transaction {}, not {}", self.group.first(), before + 1));
        }
        for _ in 0..=self.random.below(3) {
            let written = Written {
                payload: self.payload(),
                stamp: self.random.number(),
                origin: u8::from(self.random.below(2) == 0),
            };
            let encoded = EncodedTransaction::new(written.payload.clone()).unwrap();
            self.group.push(&encoded, written.stamp, written.origin);
            self.model().all.push(Arc::new(written));
        }
        let first = usize::try_from(self.group.first().get()).unwrap();
        let syncs_during_write = self.random.below(4) == 0;
        let sync_failed = Arc::new(AtomicBool::new(false));
        if syncs_during_write {
            self.disk.interrupt_write(Some(self.sync_by_another_thread(&sync_failed)));
        }
        let appended = self.writer.append(&mut self.group);
        self.disk.interrupt_write(None);
        if sync_failed.load(Ordering::Relaxed) {
            self.has_failed = true;
            return match appended {
                Err(WriteError::Refused | WriteError::Disk(_)) => Ok(()),
                other => Err(format!("a group counts although a concurrent sync failed: {other:?}")),
            };
        }
        match appended {
            Ok(()) => {
                let synced = usize::try_from(self.writer.upkeep().synced_through().get()).unwrap();
                let mut model = self.model();
                // The group may have been completed before the concurrent sync. If it is the first one of its segment,
                // it is synced already, but does not claim that.
                let claimed = if syncs_during_write { synced_before } else { synced.min(first - 1) };
                model.synced_through(synced);
                let end = model.all.len();
                model.claims.push((end, claimed));
                if self.durability == Durability::Interval || self.misuse == Some(Misuse::AcknowledgeBeforeSync) {
                    model.acknowledged = model.all.len();
                }
                if self.misuse == Some(Misuse::AcknowledgeBeforeSync) {
                    model.synced = model.all.len();
                }
                drop(model);
                if self.durability == Durability::Sync { self.sync() } else { Ok(()) }
            }
            Err(WriteError::Refused) if self.has_failed => {
                // Nothing was written. An earlier failed group may precede these transactions in the model.
                let added = usize::try_from(self.group.next_sequence().get() - self.group.first().get()).unwrap();
                let kept = self.model().all.len() - added;
                self.model().all.truncate(kept);
                self.group.restart(self.group.first());
                Ok(())
            }
            Err(WriteError::Disk(_)) => {
                self.has_failed = true;
                Ok(())
            }
            Err(error) => Err(format!("an append failed: {error}")),
        }
    }

    fn sync_by_another_thread(&self, failed: &Arc<AtomicBool>) -> Interruption {
        let (upkeep, model, failed) = (self.writer.upkeep(), Arc::clone(&self.model), Arc::clone(failed));
        Box::new(move || match upkeep.sync() {
            Ok(through) => {
                let through = usize::try_from(through.get()).unwrap();
                model.lock().unwrap().synced_through(through);
            }
            Err(_) => failed.store(true, Ordering::Relaxed),
        })
    }

    fn sync(&mut self) -> Result<(), String> {
        match self.writer.upkeep().sync() {
            Ok(through) => {
                let mut model = self.model();
                let through = usize::try_from(through.get()).unwrap();
                model.synced_through(through);
                model.acknowledged = model.acknowledged.max(through);
                Ok(())
            }
            Err(WriteError::Refused) if self.has_failed => Ok(()),
            Err(WriteError::Disk(_)) => {
                self.has_failed = true;
                Ok(())
            }
            Err(error) => Err(format!("a sync failed: {error}")),
        }
    }

    fn recover(&mut self) -> Result<(), String> {
        let Ok(last) = self.writer.recover_after_failure() else { return Ok(()) };
        let mut model = self.model();
        let acknowledged = model.acknowledged;
        if last.get() != acknowledged as u64 {
            return Err(format!("after a failure, {last} of {acknowledged} transactions are left"));
        }
        model.all.truncate(acknowledged);
        model.synced = acknowledged;
        model.claims.clear();
        drop(model);
        self.has_failed = false;
        self.group.restart(self.writer.next_sequence());
        Ok(())
    }

    fn release(&mut self) {
        let any = self.random.number();
        let persisted = {
            let mut model = self.model();
            model.persisted += usize::try_from(any % (model.synced - model.persisted + 1) as u64).unwrap();
            model.persisted()
        };
        // A failure changes nothing that counts, and the next call repeats what is left.
        let _ = self.writer.upkeep().release(persisted);
        let stops = self.random.below(8) == 0;
        let _ = self.writer.upkeep().keep(persisted, &mut |_| !stops);
    }

    fn prepare(&mut self) {
        let stops = self.random.below(4) == 0;
        let _ = self.writer.upkeep().prepare_next(&mut |_| !stops);
    }

    fn retire(&mut self) -> Result<(), String> {
        let persisted = {
            let mut model = self.model();
            model.persisted = model.synced;
            model.persisted()
        };
        match self.writer.retire(persisted) {
            Ok(_) => {}
            Err(WriteError::Refused) if self.has_failed => {}
            // The failure of a release does not concern the writer, so the log may continue to work. If it does, there
            // is nothing to recover from, and an attempt would sync nothing.
            Err(WriteError::Disk(_)) => self.has_failed = self.writer.upkeep().has_failed(),
            Err(error) => return Err(format!("the log could not be retired: {error}")),
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) payload: Vec<u8>,
    pub(super) stamp: u64,
    pub(super) origin: u8,
}

/// The transactions of a log, from the first one. Those after `acknowledged` were written, or are being written, and
/// may be found or not.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) all: Vec<Arc<Written>>,
    /// The number of transactions that survive every crash.
    pub(super) synced: usize,
    /// The number of transactions that survive the end of the process.
    pub(super) acknowledged: usize,
    /// The number of transactions whose loss is proven by other bytes of the log.
    pub(super) evidenced: usize,
    /// Groups that are not synced yet: the number of transactions up to each, and the number of those whose loss it
    /// would prove.
    pub(super) claims: Vec<(usize, usize)>,
    /// The number of transactions that are stored elsewhere.
    pub(super) persisted: usize,
}

/// What recovery found.
#[derive(Debug, Default)]
pub(super) struct Found {
    records: Vec<(Sequence, Written)>,
}

impl Found {
    pub(super) fn add(&mut self, record: &Record<'_>) {
        let written =
            Written { payload: record.payload.to_vec(), stamp: record.header.stamp, origin: record.header.origin };
        self.records.push((record.header.sequence, written));
    }
}

impl Model {
    pub(super) fn persisted(&self) -> Sequence {
        Sequence::new(self.persisted as u64)
    }

    pub(super) fn required(&self, crash: Crash) -> usize {
        match crash {
            Crash::Kill => self.acknowledged,
            Crash::PowerLoss => self.synced,
        }
    }

    /// Records that everything up to a transaction is on disk.
    pub(super) fn synced_through(&mut self, through: usize) {
        self.synced = self.synced.max(through);
        let claimed = self.claims.iter().filter(|(end, _)| *end <= through).map(|(_, proven)| *proven).max();
        self.evidenced = self.evidenced.max(claimed.unwrap_or(0));
        self.claims.retain(|(end, _)| *end > through);
    }

    /// Compares what recovery found, and returns the model of the recovered log.
    pub(super) fn compare(&self, found: &Found, last: Sequence, required: usize) -> Result<Self, String> {
        for (at, (sequence, written)) in found.records.iter().enumerate() {
            let index = self.persisted + at;
            if sequence.get() != index as u64 + 1 {
                return Err(format!("transaction {sequence} was found in place of {}", index + 1));
            }
            if self.all.get(index).map(Arc::as_ref) != Some(written) {
                return Err(format!(
                    "transaction {sequence} was found with contents that were cut off or never written"
                ));
            }
        }
        let count = self.persisted + found.records.len();
        if last.get() != count as u64 {
            return Err(format!("{count} transactions were found, but the last one is said to be {last}"));
        }
        if count < required {
            return Err(format!("only {count} of {required} acknowledged transactions were found"));
        }
        let all = self.all[..count].to_vec();
        let evidenced = self.evidenced.min(count);
        let claims = Vec::new();
        Ok(Self { all, synced: count, acknowledged: count, evidenced, claims, persisted: self.persisted })
    }
}
