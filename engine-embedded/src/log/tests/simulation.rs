//! Runs a random workload on a simulated disk, and lets it crash before and after every operation of the disk. After
//! each crash, the log is recovered and compared with the model. Crashes during recovery, and further rounds after it,
//! are part of the simulation.

use super::disk::{Contents, Crash, Lie, Observer, SimulatedDisk};
use super::workload::{Found, Misuse, Model, Step, Workload, options};
use crate::log::errors::OpenLogError;
use crate::log::options::Durability;
use crate::log::reader::LogReader;
use crate::log::recovery::{self, Known, Recovered};
use crate::log::segments::Name;
use crate::log::writer::Writer;
use crate::sequence::Sequence;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use test_support::Random;

/// A crash in a workload that continues after a crash, or in its recovery, is at depth 1, and so on.
const DEPTH_MAX: u32 = 2;
const STEPS: u64 = 60;
/// The maximum number of workloads in which a planted mistake must show.
const ROUNDS_TO_FIND: u64 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Planted {
    Disk(Lie),
    Caller(Misuse),
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) crashes: u64,
    pub(super) crashes_in_recovery: u64,
    pub(super) damages: u64,
    pub(super) damages_refused: u64,
    pub(super) steps: u64,
}

impl Counts {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            crashes: self.crashes + other.crashes,
            crashes_in_recovery: self.crashes_in_recovery + other.crashes_in_recovery,
            damages: self.damages + other.damages,
            damages_refused: self.damages_refused + other.damages_refused,
            steps: self.steps + other.steps,
        }
    }
}

#[derive(Debug)]
struct Progress {
    counts: Counts,
    failure: Option<String>,
    random: Random,
}

/// What all parts of one run share.
#[derive(Debug, Clone)]
struct Simulation {
    durability: Durability,
    planted: Option<Planted>,
    /// Whether released segments are kept for readers.
    keeps: bool,
    progress: Arc<Mutex<Progress>>,
}

/// Runs one workload. Returns the first broken promise.
pub(super) fn run(durability: Durability, planted: Option<Planted>, seed: u64) -> (Counts, Option<String>) {
    let progress = Progress { counts: Counts::default(), failure: None, random: Random::new(seed) };
    let simulation =
        Simulation { durability, planted, keeps: seed.is_multiple_of(2), progress: Arc::new(Mutex::new(progress)) };
    let mut contents = Contents::new(seed);
    if let Some(Planted::Disk(lie)) = planted {
        contents.lie = Some(lie);
    }
    let result = simulation.live(contents, Model::default(), STEPS, 0);
    let mut progress = simulation.progress();
    let failure = progress.failure.take().or(result.err());
    (progress.counts, failure)
}

/// Returns whether a planted mistake was found.
pub(super) fn finds(name: &str, durability: Durability, planted: Option<Planted>) -> bool {
    let mut total = Counts::default();
    for round in 1..=ROUNDS_TO_FIND {
        let (counts, failure) = run(durability, planted, round);
        total = total.and(counts);
        if let Some(failure) = failure {
            println!("{name}: found in round {round} after {} crashes: {failure}", total.crashes);
            return true;
        }
    }
    false
}

impl Simulation {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap()
    }

    fn one_in(&self, of: u64) -> bool {
        self.progress().random.below(of) == 0
    }

    fn random(&self) -> Random {
        Random::new(self.progress().random.number())
    }

    fn has_failed(&self) -> bool {
        self.progress().failure.is_some()
    }

    /// Opens the log, and performs a number of steps with crashes before and after every operation of the disk.
    fn live(&self, contents: Contents, model: Model, steps: u64, depth: u32) -> Result<(), String> {
        let model = Arc::new(Mutex::new(model));
        let disk = SimulatedDisk::new(contents, Some(self.observer(&model, depth, false)));
        let writer = self.reopen(&disk, &model)?;
        let misuse = match self.planted {
            Some(Planted::Caller(misuse)) => Some(misuse),
            _ => None,
        };
        let how = (self.durability, misuse);
        let mut workload = Workload::new(disk, writer, Arc::clone(&model), how, self.random().number());
        for _ in 0..steps {
            if self.has_failed() {
                return Ok(());
            }
            self.progress().counts.steps += 1;
            let step = workload.step()?;
            if step != Step::Continues {
                let Workload { disk, writer, mut random, .. } = workload;
                self.stop(&disk, writer, &model, step)?;
                let writer = self.reopen(&disk, &model)?;
                workload = Workload::new(disk, writer, Arc::clone(&model), how, random.number());
            }
        }
        Ok(())
    }

    /// Ends the process, cleanly or not.
    fn stop(
        &self,
        disk: &SimulatedDisk,
        mut writer: Writer<SimulatedDisk>,
        model: &Mutex<Model>,
        step: Step,
    ) -> Result<(), String> {
        if step != Step::Close || writer.close().is_err() {
            return Ok(());
        }
        let mut model = model.lock().unwrap();
        let count = model.acknowledged;
        model.all.truncate(count);
        (model.synced, model.evidenced) = (count, count);
        let model = model.clone();
        for _ in 0..4 {
            let mut contents = disk.contents().clone();
            contents.crash(Crash::PowerLoss, &mut self.random());
            self.damage(contents, &model, count, true)?;
        }
        Ok(())
    }

    /// Opens the log, with failures of the disk that were not used up. A second attempt has none.
    fn reopen(&self, disk: &SimulatedDisk, model: &Mutex<Model>) -> Result<Writer<SimulatedDisk>, String> {
        for _ in 0..2 {
            let known = model.lock().unwrap().clone();
            match self.open(disk, &known) {
                Ok((writer, recovered, found)) => {
                    let recovered = known.compare(&found, recovered.last, known.required(Crash::Kill))?;
                    self.read_all(&writer, &recovered)?;
                    *model.lock().unwrap() = recovered;
                    return Ok(writer);
                }
                Err(OpenLogError::Disk(_)) => {
                    let mut contents = disk.contents();
                    contents.fails_in = None;
                    contents.capacity_bytes = usize::MAX;
                }
                Err(error) => return Err(format!("after the end of the process: {error}")),
            }
        }
        Err("the log could not be opened on a disk that works".to_owned())
    }

    fn open(
        &self,
        disk: &SimulatedDisk,
        model: &Model,
    ) -> Result<(Writer<SimulatedDisk>, Recovered, Found), OpenLogError> {
        let known = Known { persisted: model.persisted(), may_be_missing: model.synced == 0 };
        let mut found = Found::default();
        let (writer, recovered) = recovery::open(disk.clone(), options(self.durability), known, &mut |record| {
            found.add(record);
            Ok(())
        })?;
        if self.keeps {
            writer.upkeep().keep_in(disk.archive())?;
        }
        Ok((writer, recovered, found))
    }

    /// If all segments are kept, a reader finds every transaction since the first one.
    fn read_all(&self, writer: &Writer<SimulatedDisk>, model: &Model) -> Result<(), String> {
        if !self.keeps {
            return Ok(());
        }
        let upkeep = writer.upkeep();
        let (reader, mut found) = (LogReader::new(&upkeep), Found::default());
        let last = upkeep.synced_through();
        let read = reader.read(Sequence::ZERO.next(), last, &mut |record| {
            found.add(record);
            ControlFlow::Continue(())
        });
        read.map_err(|error| format!("a reader finds {last} transactions: {error}"))?;
        Model { persisted: 0, ..model.clone() }.compare(&found, last, model.all.len()).map(drop)
    }

    fn observer(&self, model: &Arc<Mutex<Model>>, depth: u32, in_recovery: bool) -> Observer {
        let (simulation, model) = (self.clone(), Arc::clone(model));
        Arc::new(move |contents| {
            if simulation.has_failed() {
                return;
            }
            let model = model.lock().unwrap().clone();
            if in_recovery {
                simulation.progress().counts.crashes_in_recovery += 1;
            }
            if let Err(failure) = simulation.crash(contents, &model, depth) {
                simulation.progress().failure.get_or_insert(failure);
            }
        })
    }

    fn crash(&self, contents: &Contents, model: &Model, depth: u32) -> Result<(), String> {
        let mut crashes = vec![Crash::PowerLoss];
        if self.one_in(2) {
            crashes.push(Crash::PowerLoss);
        }
        if self.one_in(2) {
            crashes.push(Crash::Kill);
        }
        for crash in crashes {
            let mut after = contents.clone();
            after.crash(crash, &mut self.random());
            let required = model.required(crash);
            let model = Model { acknowledged: required, ..model.clone() };
            if self.one_in(6) {
                self.damage(after.clone(), &model, required.min(model.evidenced), false)?;
            }
            self.recover(after, &model, depth).map_err(|failure| format!("after {crash:?}: {failure}"))?;
        }
        Ok(())
    }

    /// Recovers the log after a crash, and sometimes crashes during the recovery or continues afterwards.
    fn recover(&self, contents: Contents, model: &Model, depth: u32) -> Result<(), String> {
        self.progress().counts.crashes += 1;
        let goes_deeper = depth < DEPTH_MAX && self.one_in(40);
        let watched = Arc::new(Mutex::new(model.clone()));
        let observer = (goes_deeper && self.one_in(2)).then(|| self.observer(&watched, depth + 1, true));
        let disk = SimulatedDisk::new(contents, observer);
        let (writer, recovered, found) = self.open(&disk, model).map_err(|error| error.to_string())?;
        let required = model.required(Crash::Kill);
        let recovered = model.compare(&found, recovered.last, required)?;
        self.read_all(&writer, &recovered)?;
        if goes_deeper && !self.has_failed() {
            drop(writer);
            let contents = disk.contents().clone();
            return self.live(contents, recovered, 6, depth + 1);
        }
        if self.one_in(3) {
            self.crash_again(&disk, &recovered)?;
        }
        Ok(())
    }

    /// What recovery found must be on disk.
    fn crash_again(&self, disk: &SimulatedDisk, model: &Model) -> Result<(), String> {
        self.progress().counts.crashes += 1;
        let mut contents = disk.contents().clone();
        contents.crash(Crash::PowerLoss, &mut self.random());
        let disk = SimulatedDisk::new(contents, None);
        let again = |error: String| format!("after recovery and a power failure: {error}");
        let (_, recovered, found) = self.open(&disk, model).map_err(|error| again(error.to_string()))?;
        model.compare(&found, recovered.last, model.synced).map_err(again)?;
        Ok(())
    }

    /// Damages a live segment, opens the log, and expects that the damage is detected or harmless.
    fn damage(&self, mut contents: Contents, model: &Model, required: usize, is_closed: bool) -> Result<(), String> {
        let mut random = self.random();
        let mut live: Vec<_> = contents.names().filter(|name| is_live(name)).map(str::to_owned).collect();
        if is_closed {
            // The last segment is empty after a clean shutdown, and the only record of it.
            live.pop();
        }
        if live.is_empty() {
            return Ok(());
        }
        let name = live.swap_remove(random.index(live.len()));
        let length = contents.length(&name);
        // Most of a header is padding.
        let at = if random.below(8) == 0 {
            random.index(80)
        } else {
            4096 + random.index(length.saturating_sub(4096).max(1))
        };
        match random.below(if is_closed { 4 } else { 1 }) {
            0 => contents.damage(&name, |bytes| {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }),
            1 => contents.damage(&name, |bytes| bytes.truncate(at)),
            2 => contents.damage(&name, |bytes| bytes.iter_mut().skip(at).for_each(|byte| *byte = 0)),
            _ => contents.lose(&name),
        }
        self.progress().counts.damages += 1;
        let before = contents.clone();
        let disk = SimulatedDisk::new(contents, None);
        let place = format!("damage to {name} at byte {at}");
        match self.open(&disk, model) {
            Ok((_, recovered, found)) => {
                model.compare(&found, recovered.last, required).map_err(|failure| format!("{place}: {failure}"))?;
            }
            Err(OpenLogError::Damaged { .. }) => {
                self.progress().counts.damages_refused += 1;
                if !disk.contents().reads_like(&before) {
                    return Err(format!("{place}: the log was refused, but changed"));
                }
            }
            Err(error) => return Err(format!("{place}: {error}")),
        }
        Ok(())
    }
}

fn is_live(name: &str) -> bool {
    matches!(Name::parse(name), Some(Name::Live(_)))
}
