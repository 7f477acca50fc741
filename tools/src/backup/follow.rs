//! `rowhouse backup --follow`: adds the change log of a running server to the repository, until a signal stops it.
//!
//! Nothing is remembered between runs: the backups and the parts in the repository say where the log continues. The
//! repository is opened for each step, so that another process can remove old backups between two steps.

use super::address::RepositoryAddress;
use super::coverage::ListedParts;
use super::create::{self, BackupSummary};
use super::repository::{PartContent, PartName, RemovalSummary, Repository};
use super::snapshot::{request_changes, request_server_snapshot};
use crate::terminal::{Progress, notice};
use anyhow::{Context, ensure};
use model::DateTime;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which the stop flag is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A position that no log reaches: only the header is sent.
const NO_POSITION: u64 = u64::MAX;

pub(super) struct Follower<R> {
    pub(super) data: PathBuf,
    pub(super) to: RepositoryAddress,
    pub(super) every: Duration,
    /// The number of backups to keep when a new one has been made.
    pub(super) keep: Option<usize>,
    /// Reports each step.
    pub(super) report: R,
}

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
    next: Option<u64>,
    /// Parts without transactions. The next part makes them superfluous.
    empty: Vec<PartName>,
}

impl<R: FnMut(FollowStep) -> anyhow::Result<()>> Follower<R> {
    /// Before the first success, any failure is an error. After it, the follower tries again until it is stopped.
    pub(super) fn run(mut self, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut followed = None;
        let mut has_succeeded = false;
        let mut last_failure = String::new();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            match self.step(&mut followed, progress, stop) {
                Ok(()) => {
                    if !last_failure.is_empty() {
                        notice("following again");
                    }
                    last_failure.clear();
                    has_succeeded = true;
                }
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(error) if has_succeeded => {
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
            while began.elapsed() < self.every && !stop.load(Ordering::Relaxed) {
                thread::sleep(POLL_INTERVAL.min(self.every.saturating_sub(began.elapsed())));
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
        log.next = Some(self.back_up(log, progress, stop)?);
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
        let empty = parts.iter().filter(|(log, _)| *log == header.log).flat_map(|(_, parts)| parts);
        let empty = empty.filter(|part| part.is_empty()).cloned().collect();
        let mut next: Option<u64> = None;
        for backup in repository.backups()? {
            // A backup that cannot be read is no reason to make another one as long as there is a readable one.
            let Ok(manifest) = repository.manifest(&backup) else { continue };
            let continuation = parts.continuation(&manifest).filter(|continuation| continuation.log.id == header.log);
            let reached = continuation.map(|continuation| continuation.next).filter(|next| *next >= header.first);
            next = reached.into_iter().chain(next).min();
        }
        Ok(FollowedLog { id: header.log, next, empty })
    }

    /// Adds the log from the position on. Returns false if the log no longer reaches it.
    fn add(&mut self, log: &mut FollowedLog, stop: &AtomicBool) -> anyhow::Result<bool> {
        let Some(next) = log.next else { return Ok(false) };
        let mut incoming = request_changes(&self.data, next)?;
        let header = incoming.header.clone();
        ensure!(header.log == log.id, "the data folder now has a different log");
        if next < header.first {
            return Ok(false);
        }
        ensure!(
            next <= header.next,
            "the data folder {} is older than the repository {}: its log ends before position {}, but the repository \
             contains {next} already. If an old copy of the folder was put back, remove its file rowhouse.log-id while no \
             server is running",
            self.data.display(),
            self.to,
            header.next
        );
        let repository = Repository::create_or_open(&self.to)?;
        let mut part = PartContent::new(next);
        while incoming.next(|next, transactions| part.push(next, transactions))? {
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
        let transactions = part.transactions();
        let part = repository.add_part(&log.id, part, until)?;
        log.next = Some(part.range.next);
        log.empty.retain(|empty| *empty != part);
        repository.remove_parts(&log.id, &std::mem::take(&mut log.empty))?;
        if part.is_empty() {
            log.empty.push(part.clone());
        }
        (self.report)(FollowStep::Added { part, transactions })
    }

    /// Returns the position at which the log continues the new backup.
    fn back_up(&mut self, log: &FollowedLog, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<u64> {
        let repository = Repository::create_or_open(&self.to)?;
        repository.begin_backup()?;
        let input = request_server_snapshot(&self.data)?;
        let summary = create::create(input, &repository, progress, stop)?;
        let position = summary.log.as_ref().filter(|position| position.id == log.id).map(|log| log.position);
        let position = position.context("the snapshot does not name the position of the log")?;
        let removed = self.keep.map(|count| repository.remove_old(count, &summary.id)).transpose()?;
        (self.report)(FollowStep::BackedUp(Box::new(summary), removed.unwrap_or_default()))?;
        Ok(position)
    }
}
