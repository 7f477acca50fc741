//! Checks a snapshot while a running server sends it.

use super::control_socket::request_snapshot;
use super::frames::{DamagedDataError, Frame, FrameReader, SnapshotTotals};
use crate::backup::repository::{check_entity, describe, each_entity};
use crate::runtime::run_blocking;
use crate::terminal::Progress;
use anyhow::{Context, bail, ensure};
use model::DateTime;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const PROBLEMS_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct SnapshotCheck {
    pub(crate) tables: u64,
    pub(crate) entities: u64,
    pub(crate) problems: Vec<String>,
    /// The number of problems that are not listed.
    pub(crate) more_problems: u64,
}

pub(crate) fn check_snapshot(folder: &Path, is_quiet: bool) -> anyhow::Result<SnapshotCheck> {
    let input = request_snapshot(folder)?;
    let input =
        input.with_context(|| format!("the process that is using {} provides no snapshots", folder.display()))?;
    run_blocking("checking", is_quiet, move |progress, stop| check(input, progress, stop))
}

/// If the server cannot read its data, the snapshot ends early, and the result contains the server's description of the
/// problem.
fn check(input: impl Read, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<SnapshotCheck> {
    let mut checked = SnapshotCheck::default();
    match read(input, progress, stop, &mut checked) {
        Err(error) if error.is::<DamagedDataError>() => {
            checked.problems.push(format!("{error:#}"));
            Ok(checked)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(checked),
    }
}

fn read(input: impl Read, progress: &Progress, stop: &AtomicBool, checked: &mut SnapshotCheck) -> anyhow::Result<()> {
    let mut frames = FrameReader::new(input);
    let header = frames.header()?;
    progress.set_tables(header.tables);
    let last_stamp = DateTime::from_ticks(header.last_stamp).context("the highest Timestamp is invalid")?;
    let mut table_name = String::new();
    let mut last_key: Option<Vec<u8>> = None;
    while let Some(frame) = frames.next()? {
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        match frame {
            Frame::Header(_) => bail!("the snapshot has two headers"),
            Frame::Account(account) => checked.record(account.decode().map(drop), ""),
            Frame::Table(table) => {
                table_name = table.to_string();
                last_key = None;
                checked.record(table.decode().map(drop), &table_name);
                checked.tables += 1;
                progress.add_table();
            }
            Frame::Entities(bytes) => {
                let before = checked.entities;
                each_entity(&bytes, |entity| {
                    let (key, _) = entity;
                    let result = check_entity(entity).and_then(|stamp| {
                        ensure!(stamp <= last_stamp, "its Timestamp is later than the highest Timestamp of the engine");
                        ensure!(last_key.as_deref().is_none_or(|last| last < key), "it is out of order");
                        Ok(())
                    });
                    checked.record(result.with_context(|| describe(entity)), &table_name);
                    last_key = Some(key.to_vec());
                    checked.entities += 1;
                    Ok(())
                })?;
                progress.add_entities(checked.entities - before);
            }
            Frame::End(sent) => {
                let arrived = SnapshotTotals { tables: checked.tables, entities: checked.entities };
                ensure!(sent == arrived, "{sent:?} were sent, but {arrived:?} arrived");
            }
        }
    }
    Ok(())
}

impl SnapshotCheck {
    fn record(&mut self, result: anyhow::Result<()>, table: &str) {
        match result {
            Err(error) if self.problems.len() < PROBLEMS_MAX => self.problems.push(format!("{table}: {error:#}")),
            Err(_) => self.more_problems += 1,
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_that_are_not_listed_are_counted() {
        let mut checked = SnapshotCheck::default();
        for _ in 0..PROBLEMS_MAX + 3 {
            checked.record(Err(anyhow::anyhow!("damaged")), "a table");
            checked.record(Ok(()), "a table");
        }
        assert_eq!((checked.problems.len(), checked.more_problems), (PROBLEMS_MAX, 3));
    }
}
