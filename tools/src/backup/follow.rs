//! `rowhouse backup --follow`: adds the change log of a running server to the repository, until a signal stops it.
//!
//! Nothing is remembered between runs: the backups and the parts in the repository say where the log continues. The
//! repository is opened for each step, so that another process can remove old backups between two steps.
//!
//! If an old copy of the data folder was put back, its log has the same identifier, but other transactions from some
//! position on. Therefore, the last transaction before the position is read again, and compared.

use super::args::RepositoryAddress;
use super::coverage::{Continuation, ListedParts};
use super::create::{self, BackupSummary};
use super::repository::{PartContent, PartName, RemovalSummary, Repository, skip_before};
use super::snapshot::{NoServer, request_changes, request_server_snapshot};
use crate::terminal::{Progress, notice};
use anyhow::{Context, ensure};
use engine::ChangedTransaction;
use model::DateTime;
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, thread};

/// The interval at which the stop flag is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A server that is started at the same time as the command may need this long until it can be reached.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// A position that no log reaches: only the header is sent.
const NO_POSITION: u64 = u64::MAX;
/// How many positions are read again if the repository contains no transaction. Some have no transaction.
const OVERLAP: u64 = 1024;

const PUT_BACK: &str = "If an old copy of the folder was put back, remove its file rowhouse.log-id and its folder archive while \
    no server is running: a new log then begins";

pub(super) struct Follower<R> {
    pub(super) data: PathBuf,
    pub(super) to: RepositoryAddress,
    pub(super) every: Duration,
    /// The number of backups to keep when a new one has been made.
    pub(super) keep: Option<usize>,
    /// Reports each step.
    pub(super) report: R,
}

/// The log has other transactions than the repository. This does not change by itself.
#[derive(Debug)]
struct OtherHistory(String);

impl fmt::Display for OtherHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {PUT_BACK}", self.0)
    }
}

impl Error for OtherHistory {}

/// A step of a follower.
#[derive(Debug)]
pub(super) enum FollowStep {
    BackedUp(Box<BackupSummary>, RemovalSummary),
    Added { part: PartName, transactions: u64 },
}

/// Where the log continues.
#[derive(Debug)]
pub(super) struct FollowedLog {
    id: String,
    /// `None` if the log continues no backup.
    end: Option<StoredEnd>,
    /// Parts without transactions before the end. The next part makes them superfluous. Not those at the end of a range
    /// that is followed by a gap: they say up to which time it can be restored.
    empty: Vec<PartName>,
}

/// The end of what the repository contains of a log.
#[derive(Debug)]
struct StoredEnd {
    /// The position after it.
    next: u64,
    /// The last transaction in the parts. `None` if they contain none.
    last: Option<ChangedTransaction>,
    /// No transaction before `next` is later.
    until: DateTime,
}

impl StoredEnd {
    /// Returns whether a log that has this transaction as the last one before `next` is the log in the repository.
    fn continues(&self, before: Option<&ChangedTransaction>) -> bool {
        match &self.last {
            Some(last) => before == Some(last),
            None => before.is_none_or(|before| before.time <= self.until),
        }
    }
}

impl<R: FnMut(FollowStep) -> anyhow::Result<()>> Follower<R> {
    /// Before the first success, any failure is an error, except that a starting server is waited for. After it, the
    /// follower tries again until it is stopped, or until the log has other transactions than the repository.
    pub(super) fn run(mut self, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut followed = None;
        let mut has_succeeded = false;
        let mut last_failure = String::new();
        let started = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let mut pause = self.every;
            match self.step(&mut followed, progress, stop) {
                Ok(()) => {
                    if !last_failure.is_empty() {
                        notice("following again");
                    }
                    last_failure.clear();
                    has_succeeded = true;
                }
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(error) if !has_succeeded && error.is::<NoServer>() && started.elapsed() < START_TIMEOUT => {
                    pause = POLL_INTERVAL;
                }
                Err(error) if has_succeeded && !error.is::<OtherHistory>() => {
                    // Another process may have changed the repository.
                    followed = None;
                    let failure = format!("{error:#}");
                    if failure != last_failure {
                        notice(format_args!("{failure}; trying again every {} s", self.every.as_secs_f32()));
                    }
                    last_failure = failure;
                }
                Err(error) => return Err(error),
            }
            while began.elapsed() < pause && !stop.load(Ordering::Relaxed) {
                thread::sleep(POLL_INTERVAL.min(pause.saturating_sub(began.elapsed())));
            }
        }
        Ok(())
    }

    /// Adds everything that the log contains now. Makes a backup first if the repository has none that the log
    /// continues.
    pub(super) fn step(
        &mut self,
        followed: &mut Option<FollowedLog>,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let log = match followed {
            Some(log) => log,
            None => followed.insert(self.find()?),
        };
        if self.add(log, stop)? {
            return Ok(());
        }
        log.end = Some(self.back_up(log, progress, stop)?);
        log.empty.clear();
        ensure!(
            self.add(log, stop)?,
            "the server dropped changes before the backup was complete: keep more of the log with --keep-log and --keep-log-mib"
        );
        Ok(())
    }

    /// Finds the first position that continues a backup and that the log still reaches.
    fn find(&self) -> anyhow::Result<FollowedLog> {
        let header = request_changes(&self.data, NO_POSITION)?.header;
        let repository = Repository::create_or_open(&self.to)?;
        let parts = ListedParts::list(&repository)?;
        let mut end: Option<StoredEnd> = None;
        let mut empty = Vec::new();
        for backup in repository.backups()? {
            // A backup that cannot be read is no reason to make another one as long as there is a readable one.
            let Ok(manifest) = repository.manifest(&backup) else { continue };
            let continuation = parts.continuation(&manifest).filter(|continuation| continuation.log.id == header.log);
            let Some(Continuation { next, until, parts, .. }) = continuation else { continue };
            if next < header.first || end.as_ref().is_some_and(|end| end.next <= next) {
                continue;
            }
            match last_transaction(&repository, &header.log, &parts) {
                Ok(last) => {
                    let latest = manifest.latest()?;
                    end = Some(StoredEnd { next, last, until: until.map_or(latest, |until| until.max(latest)) });
                    empty = parts.into_iter().filter(PartName::is_empty).collect();
                }
                Err(error) => notice(format_args!("a backup is not continued: {error:#}")),
            }
        }
        Ok(FollowedLog { id: header.log, end, empty })
    }

    /// Adds the log from the position on. Returns false if the log no longer reaches it.
    fn add(&mut self, log: &mut FollowedLog, stop: &AtomicBool) -> anyhow::Result<bool> {
        let Some(end) = &log.end else { return Ok(false) };
        let next = end.next;
        let mut from = end.last.as_ref().map_or(next.saturating_sub(OVERLAP), |last| last.position);
        let mut incoming = request_changes(&self.data, from)?;
        if end.last.is_none() && (from + 1..=next).contains(&incoming.header.first) {
            from = incoming.header.first;
            incoming = request_changes(&self.data, from)?;
        }
        let header = incoming.header.clone();
        ensure!(header.log == log.id, "the data folder now has a different log");
        if from < header.first {
            return Ok(false);
        }
        ensure!(
            next <= header.next,
            self.other_history(format_args!(
                "its log ends before position {}, but the repository contains {next} already",
                header.next
            ))
        );
        let repository = Repository::create_or_open(&self.to)?;
        let mut part = PartContent::new(next);
        let (mut before, mut is_compared) = (None, false);
        while incoming.next(|after, transactions| {
            let rest = skip_before(transactions, next, |transaction| before = Some(transaction))?;
            if after < next {
                return Ok(());
            }
            if !is_compared {
                let end = log.end.as_ref();
                ensure!(
                    end.is_some_and(|end| end.continues(before.as_ref())),
                    self.other_history(format_args!("the last transaction before position {next} is a different one"))
                );
                is_compared = true;
            }
            part.push(after, rest)
        })? {
            ensure!(!stop.load(Ordering::Relaxed), "stopped");
            if part.is_full() {
                let rest = PartContent::new(part.next());
                self.store(log, &repository, std::mem::replace(&mut part, rest), None)?;
            }
        }
        self.store(log, &repository, part, Some(header.time()?))?;
        Ok(true)
    }

    fn store(
        &mut self,
        log: &mut FollowedLog,
        repository: &Repository,
        part: PartContent,
        until: Option<DateTime>,
    ) -> anyhow::Result<()> {
        let (transactions, last) = (part.transactions(), part.last().cloned());
        let part = repository.add_part(&log.id, part, until)?;
        let last = last.or_else(|| log.end.take()?.last);
        log.end = Some(StoredEnd { next: part.range.next, last, until: part.range.until });
        log.empty.retain(|empty| *empty != part);
        repository.remove_parts(&log.id, &std::mem::take(&mut log.empty))?;
        if part.is_empty() {
            log.empty.push(part.clone());
        }
        (self.report)(FollowStep::Added { part, transactions })
    }

    fn other_history(&self, why: fmt::Arguments<'_>) -> OtherHistory {
        let data = self.data.display();
        OtherHistory(format!("the data folder {data} does not continue the repository {}: {why}", self.to))
    }

    /// Returns where the log continues the new backup.
    fn back_up(&mut self, log: &FollowedLog, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<StoredEnd> {
        let repository = Repository::create_or_open(&self.to)?;
        repository.begin_backup()?;
        let input = request_server_snapshot(&self.data)?;
        let summary = create::create(input, &repository, progress, stop)?;
        let position = summary.log.as_ref().filter(|position| position.id == log.id).map(|log| log.position);
        let next = position.context("the snapshot does not name the position of the log")?;
        let end = StoredEnd { next, last: None, until: repository.manifest(&summary.id)?.latest()? };
        let removed = self.keep.map(|count| repository.remove_old(count, &summary.id)).transpose()?;
        (self.report)(FollowStep::BackedUp(Box::new(summary), removed.unwrap_or_default()))?;
        Ok(end)
    }
}

/// Returns the last transaction in successive parts, if they contain one.
fn last_transaction(
    repository: &Repository,
    log: &str,
    parts: &[PartName],
) -> anyhow::Result<Option<ChangedTransaction>> {
    for part in parts.iter().rev().filter(|part| !part.is_empty()) {
        let mut last = None;
        repository.each_transaction(log, part, &repository.part(log, part)?, |transaction| {
            last = Some(transaction);
            Ok(())
        })?;
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}
