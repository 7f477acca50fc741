//! Which instants and positions a repository covers: backups, and the parts of the log that continue them.

use super::repository::{BackupManifest, LogPosition, PartName, PartRange, Repository, name_of_time, seven_digits};
use anyhow::{Context, anyhow, bail};
use engine::ChangedTransaction;
use model::{ChangePosition, DateTime};
use std::collections::BTreeMap;
use std::fmt;

/// The state that `restore --to` restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// All transactions until this time.
    Time(DateTime),
    /// All transactions up to and including this position.
    Position(u64),
}

impl Target {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let position = text.parse().map_err(|_| anyhow!("the position {text} is too large"))?;
            return Ok(Self::Position(position));
        }
        if let Some(position) = ChangePosition::parse(text) {
            return Ok(Self::Position(position.transaction));
        }
        DateTime::parse(text).map(Self::Time).map_err(|_| {
            anyhow!(
                "'{text}' is neither a time nor a position: write a time like 2031-03-01T09:30:00Z, or the position or \
                 number of the last transaction to restore, like 00000000000000004711-000 or 4711"
            )
        })
    }

    pub(super) fn includes(self, transaction: &ChangedTransaction) -> bool {
        match self {
            Self::Time(time) => transaction.time <= time,
            Self::Position(position) => transaction.position <= position,
        }
    }

    /// Returns whether no transaction in a part belongs to the target.
    pub(super) fn is_before(self, part: &PartRange) -> bool {
        match self {
            Self::Time(time) => time < part.since,
            Self::Position(position) => position < part.first,
        }
    }

    /// Returns whether all transactions in a backup belong to the target.
    fn includes_backup(self, manifest: &BackupManifest, log: &LogPosition) -> anyhow::Result<bool> {
        Ok(match self {
            Self::Time(time) => manifest.latest()? <= time,
            Self::Position(position) => log.position <= position.saturating_add(1),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => f.write_str(&seven_digits(*time)),
            Self::Position(position) => write!(f, "position {position}"),
        }
    }
}

/// The parts of the log that continue a backup without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Continuation {
    pub(super) log: LogPosition,
    pub(super) parts: Vec<PartName>,
    /// The position after the last part.
    pub(super) next: u64,
    /// The time until which everything is known. `None` if there are no parts.
    pub(super) until: Option<DateTime>,
    /// The first position of the next part, if parts before it are missing.
    gap_until: Option<u64>,
}

impl Continuation {
    /// `parts` are the parts of the log in order, and `last_stamp` is the last Timestamp in the backup.
    pub(super) fn new(log: LogPosition, last_stamp: DateTime, parts: &[PartName]) -> Self {
        let mut found = Self { next: log.position, log, parts: Vec::new(), until: None, gap_until: None };
        for part in parts {
            let range = part.range;
            if range.next < found.next || (range.next == found.next && !part.is_empty()) {
                continue;
            }
            // What follows a backup is later. This part is from before an old copy of the folder was put back, so its
            // transactions are not the ones that follow.
            if range.until < last_stamp {
                continue;
            }
            if range.first > found.next {
                found.gap_until = Some(range.first);
                break;
            }
            found.next = range.next;
            found.until = found.until.max(Some(range.until));
            found.parts.push(part.clone());
        }
        found
    }

    fn covers(&self, target: Target) -> bool {
        match target {
            Target::Time(time) => self.until.is_some_and(|until| time <= until),
            Target::Position(position) => position < self.next,
        }
    }
}

/// The parts of all logs, which are listed only once.
#[derive(Debug, Default)]
pub(super) struct ListedParts(BTreeMap<String, Vec<PartName>>);

impl ListedParts {
    pub(super) fn list(repository: &Repository) -> anyhow::Result<Self> {
        repository.parts().map(Self)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[PartName])> {
        self.0.iter().map(|(id, parts)| (id.as_str(), parts.as_slice()))
    }

    /// Returns `None` if the backup does not say where a log continues it.
    pub(super) fn continuation(&self, manifest: &BackupManifest) -> Option<Continuation> {
        let log = manifest.log.clone()?;
        let parts = self.0.get(&log.id).map(Vec::as_slice).unwrap_or_default();
        Some(Continuation::new(log, manifest.last_stamp().ok()?, parts))
    }
}

/// A backup with the log that leads from it to a target.
#[derive(Debug)]
pub(super) struct CoveringBackup {
    pub(super) id: String,
    pub(super) manifest: BackupManifest,
    /// `None` if the target is the backup itself.
    pub(super) log: Option<(Continuation, Target)>,
}

/// Returns the newest backup and the log that continues it, up to its end. Fails if a part of the log is missing, as if
/// it were damaged.
pub(super) fn find_latest(repository: &Repository) -> anyhow::Result<CoveringBackup> {
    let mut found = newest(repository)?;
    if found.2.as_ref().is_some_and(|continuation| continuation.gap_until.is_some()) {
        // While parts are being added, a listing may contain a part without an earlier one.
        found = newest(repository)?;
    }
    let (id, manifest, continuation) = found;
    if let Some(Continuation { next, gap_until: Some(gap_until), .. }) = continuation {
        let last = next.saturating_sub(1);
        bail!(
            "the log continues the newest backup {id} only up to position {last}: the parts from position {next} to \
             {gap_until} are missing, so later changes cannot be restored; pass --to {last} to restore the state up to there"
        );
    }
    let log = continuation.and_then(|continuation| {
        let until = Target::Time(continuation.until?);
        Some((continuation, until))
    });
    Ok(CoveringBackup { id, manifest, log })
}

/// Returns the newest backup, or an earlier one whose log leads to the newest one if that cannot be read.
fn newest(repository: &Repository) -> anyhow::Result<(String, BackupManifest, Option<Continuation>)> {
    let parts = ListedParts::list(repository)?;
    let mut unreadable: Option<(String, anyhow::Error)> = None;
    for id in repository.backups()?.into_iter().rev() {
        match repository.manifest(&id) {
            Ok(manifest) => {
                let continuation = parts.continuation(&manifest);
                let Some((newest, error)) = unreadable else { return Ok((id, manifest, continuation)) };
                let until = continuation.as_ref().and_then(|continuation| continuation.until);
                if until.is_none_or(|until| name_of_time(until).as_str() < time_in_name(&newest)) {
                    return Err(error).with_context(|| {
                        format!("the newest backup cannot be restored; pass --backup {id} to restore an earlier one")
                    });
                }
                tracing::warn!("an earlier backup and more of the log are used: {error:#}");
                return Ok((id, manifest, continuation));
            }
            Err(error) if unreadable.is_none() => unreadable = Some((id, error)),
            Err(_) => {}
        }
    }
    match unreadable {
        Some((_, error)) => Err(error),
        None => bail!("the repository has no backup yet"),
    }
}

/// Returns the time of a backup as it is in the backup's name.
pub(super) fn time_in_name(id: &str) -> &str {
    id.split('-').next().unwrap_or_default()
}

/// Returns the newest backup that, together with the log, leads to the target.
pub(super) fn find(repository: &Repository, target: Target) -> anyhow::Result<CoveringBackup> {
    let parts = ListedParts::list(repository)?;
    for id in repository.backups()?.into_iter().rev() {
        // The names contain the times, so later backups are not read.
        if matches!(target, Target::Time(time) if time_in_name(&id) > name_of_time(time).as_str()) {
            continue;
        }
        let manifest = match repository.manifest(&id) {
            Ok(manifest) => manifest,
            Err(error) => {
                tracing::warn!("an earlier backup and more of the log are used: {error:#}");
                continue;
            }
        };
        let Some(continuation) = parts.continuation(&manifest) else { continue };
        if target.includes_backup(&manifest, &continuation.log)? && continuation.covers(target) {
            return Ok(CoveringBackup { id, manifest, log: Some((continuation, target)) });
        }
    }
    let ranges = ranges(repository, &parts).context("listing what can be restored")?;
    if ranges.is_empty() {
        bail!(
            "the repository contains no log, so it cannot be restored to {target}: rowhouse backup --follow adds the log, and \
             --at restores the newest backup from a time or earlier"
        );
    }
    let covered: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    bail!("the repository cannot be restored to {target}; with --to, it covers {}", covered.join(", and "));
}

/// A range that the repository covers without a gap.
struct CoveredRange {
    log: String,
    from: DateTime,
    until: DateTime,
    /// The position of the last transaction in the first backup.
    first: u64,
    /// The position of the last transaction.
    last: u64,
}

impl fmt::Display for CoveredRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, until) = (seven_digits(self.from), seven_digits(self.until));
        write!(f, "{from} to {until} (positions {} to {})", self.first, self.last)
    }
}

fn ranges(repository: &Repository, parts: &ListedParts) -> anyhow::Result<Vec<CoveredRange>> {
    let mut ranges: Vec<CoveredRange> = Vec::new();
    for id in repository.backups()? {
        let Ok(manifest) = repository.manifest(&id) else { continue };
        let Some(Continuation { log, next, until, .. }) = parts.continuation(&manifest) else { continue };
        let (from, last) = (manifest.latest()?, next.saturating_sub(1));
        let Some(until) = until.filter(|until| from <= *until) else { continue };
        match ranges.last_mut() {
            Some(range) if range.log == log.id && log.position.saturating_sub(1) <= range.last => {
                range.until = range.until.max(until);
                range.last = range.last.max(last);
            }
            _ => ranges.push(CoveredRange { log: log.id, from, until, first: log.position.saturating_sub(1), last }),
        }
    }
    Ok(ranges)
}
