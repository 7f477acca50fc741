//! Checks a snapshot that a running server gives, as it comes in.

use super::block;
use super::frames::{Damage, Frame, Receiver, Totals};
use super::read::check_entity;
use crate::endpoints::Progress;
use anyhow::{Context, bail, ensure};
use model::DateTime;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most problems that are told.
const PROBLEMS_MAX: usize = 100;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) tables: u64,
    pub(crate) entities: u64,
    pub(crate) problems: Vec<String>,
    /// How many more there are.
    pub(crate) untold: u64,
}

/// Reads all of a snapshot. What the server cannot read ends it, and is a problem in its own words.
pub(super) fn check(input: impl Read, progress: &Progress, stop: &AtomicBool) -> anyhow::Result<Checked> {
    let mut checked = Checked::default();
    match read(input, progress, stop, &mut checked) {
        Err(error) if error.is::<Damage>() => {
            checked.problems.push(format!("{error:#}"));
            Ok(checked)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(checked),
    }
}

fn read(input: impl Read, progress: &Progress, stop: &AtomicBool, checked: &mut Checked) -> anyhow::Result<()> {
    let mut frames = Receiver::new(input);
    let Some(Frame::Beginning(beginning)) = frames.next()? else { bail!("the snapshot does not begin as it should") };
    progress.set_tables(beginning.tables);
    let last_stamp = DateTime::from_ticks(beginning.last_stamp).context("the highest Timestamp is no instant")?;
    let mut place = String::new();
    let mut last_key: Option<Vec<u8>> = None;
    while let Some(frame) = frames.next()? {
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        match frame {
            Frame::Beginning(_) => bail!("the snapshot begins twice"),
            Frame::Account(account) => checked.note(account.decode().map(drop), ""),
            Frame::Table(table) => {
                place = table.to_string();
                last_key = None;
                checked.note(table.decode().map(drop), &place);
                checked.tables += 1;
                progress.add_table();
            }
            Frame::Entities(bytes) => {
                let mut rest = bytes.as_slice();
                let before = checked.entities;
                while !rest.is_empty() {
                    let (key, record) = block::take(&mut rest).context("the entities cannot be told apart")?;
                    let well = check_entity(key, record).and_then(|stamp| {
                        ensure!(stamp <= last_stamp, "its Timestamp is later than the highest that was given out");
                        ensure!(last_key.as_deref().is_none_or(|last| last < key), "it is not in order");
                        Ok(())
                    });
                    checked.note(well.with_context(|| format!("the entity {}", key.escape_ascii())), &place);
                    last_key = Some(key.to_vec());
                    checked.entities += 1;
                }
                progress.add_entities(checked.entities - before);
            }
            Frame::End(sent) => {
                let arrived = Totals { tables: checked.tables, entities: checked.entities };
                ensure!(sent == arrived, "{sent:?} were sent, and {arrived:?} have arrived");
            }
        }
    }
    Ok(())
}

impl Checked {
    fn note(&mut self, result: anyhow::Result<()>, place: &str) {
        match result {
            Err(error) if self.problems.len() < PROBLEMS_MAX => self.problems.push(format!("{place}: {error:#}")),
            Err(_) => self.untold += 1,
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_that_are_not_told_are_counted() {
        let mut checked = Checked::default();
        for _ in 0..PROBLEMS_MAX + 3 {
            checked.note(Err(anyhow::anyhow!("damaged")), "a table");
            checked.note(Ok(()), "a table");
        }
        assert_eq!((checked.problems.len(), checked.untold), (PROBLEMS_MAX, 3));
    }
}
