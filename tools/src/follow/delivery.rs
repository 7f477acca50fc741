//! Attempts to deliver changes, until they are acknowledged or given up.

use crate::file::sync_name;
use crate::follow::target::{Failed, Target};
use crate::terminal::{counted, notice};
use anyhow::{Context, bail};
use client::{ChangePosition, JsonChange};
use parking_lot::Mutex;
use platform::files::{private_file, read_at};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// The pause after the first attempt. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The time that the reader of standard output has to read a delivery in progress after a stop signal.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// The maximum pause that a webhook can request.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) target: Target,
    pub(super) attempts_max: u32,
    pub(super) dead_letters: Option<DeadLetters>,
    pub(super) stopped: watch::Receiver<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivered {
    /// All changes were acknowledged, or are in the file of dead letters.
    All,
    /// A signal stopped the delivery.
    Stopped,
}

impl Delivery {
    /// If several changes cannot be delivered together, each of them is delivered alone. Calls `record` with each
    /// position up to which all changes are acknowledged or in the file of dead letters.
    pub(super) async fn deliver(
        &self,
        changes: &[JsonChange],
        record: impl Fn(ChangePosition) -> anyhow::Result<()>,
    ) -> anyhow::Result<Delivered> {
        if let [_, .., last] = changes {
            match self.attempt_all(changes).await? {
                Ok(Delivered::All) => return record(last.position).map(|()| Delivered::All),
                Ok(Delivered::Stopped) => return Ok(Delivered::Stopped),
                Err(_) => {}
            }
        }
        for change in changes {
            match self.attempt_all(std::slice::from_ref(change)).await? {
                Ok(Delivered::All) => {}
                Ok(Delivered::Stopped) => return Ok(Delivered::Stopped),
                Err(failed) => self.give_up(change, &failed)?,
            }
            record(change.position)?;
        }
        Ok(Delivered::All)
    }

    /// Returns the last failure if all attempts failed.
    async fn attempt_all(&self, changes: &[JsonChange]) -> anyhow::Result<Result<Delivered, Failed>> {
        let mut attempts = 0;
        let mut stopped = self.stopped.clone();
        loop {
            if *stopped.borrow() {
                return Ok(Ok(Delivered::Stopped));
            }
            attempts += 1;
            let sent = tokio::select! {
                biased;
                sent = self.target.send(changes) => sent?,
                () = self.grace_ended(), if self.target.is_output() => return Ok(Ok(Delivered::Stopped)),
            };
            let Err(failed) = sent else { return Ok(Ok(Delivered::All)) };
            let positions = positions(changes);
            if attempts >= self.attempts_max {
                let attempts = counted(attempts.into(), "attempt", "attempts");
                notice(format_args!("{positions}: {}; given up after {attempts}", failed.reason));
                return Ok(Err(failed));
            }
            let pause = pause_after(attempts, failed.retry_after);
            notice(format_args!("{positions}: {}; trying again in {:.1} s", failed.reason, pause.as_secs_f32()));
            tokio::select! {
                biased;
                _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
                () = sleep(pause) => {}
            }
        }
    }

    async fn grace_ended(&self) {
        let _ = self.stopped.clone().wait_for(|is_stopped| *is_stopped).await;
        sleep(OUTPUT_GRACE).await;
    }

    fn give_up(&self, change: &JsonChange, failed: &Failed) -> anyhow::Result<()> {
        match &self.dead_letters {
            Some(file) => file.add(change, &failed.reason, self.attempts_max),
            None => bail!(
                "the change {} could not be delivered: {} (use --dead-letters to save such changes and go on)",
                change.position,
                failed.reason
            ),
        }
    }
}

fn positions(changes: &[JsonChange]) -> String {
    match changes {
        [first, .., last] => format!("{} to {}", first.position, last.position),
        [one] => one.position.to_string(),
        [] => String::new(),
    }
}

fn pause_after(attempts: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = PAUSE_MIN.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1)));
    doubled.min(PAUSE_MAX).max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
}

#[derive(Debug)]
pub(super) struct DeadLetters {
    path: PathBuf,
    file: Mutex<File>,
}

#[derive(Serialize)]
struct DeadLetter<'a> {
    error: &'a str,
    attempts: u32,
    change: &'a RawValue,
}

impl DeadLetters {
    /// Opens a file to append to it. A new file is accessible only to its owner.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = private_file().read(true).append(true).create(true).open(path);
        let file = file.and_then(|file| sync_name(path).map(|()| file));
        let file = file.with_context(|| format!("opening --dead-letters {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// The line is on disk when this returns.
    pub(super) fn add(&self, change: &JsonChange, error: &str, attempts: u32) -> anyhow::Result<()> {
        let what = || format!("writing --dead-letters {}", self.path.display());
        let letter = DeadLetter { error, attempts, change: serde_json::from_str(&change.json).with_context(what)? };
        let mut line = serde_json::to_vec(&letter).with_context(what)?;
        line.push(b'\n');
        let mut file = self.file.lock();
        if ends_within_line(&file).with_context(what)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line).and_then(|()| file.sync_data()).with_context(what)
    }
}

/// After an error, such as a full disk, the last line can be incomplete. The next one must not continue it.
fn ends_within_line(file: &File) -> io::Result<bool> {
    let mut last = [b'\n'];
    if let Some(offset) = file.metadata()?.len().checked_sub(1) {
        read_at(file, &mut last, offset)?;
    }
    Ok(last != [b'\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_bounded() {
        let seconds =
            |attempts, requested: Option<u64>| pause_after(attempts, requested.map(Duration::from_secs)).as_millis();
        assert_eq!(
            [1, 2, 3, 8, 9, 40].map(|attempts| seconds(attempts, None)),
            [200, 400, 800, 25_600, 30_000, 30_000]
        );
        assert_eq!([Some(0), Some(7), Some(100_000)].map(|asked| seconds(1, asked)), [200, 7_000, 3_600_000]);
    }

    /// Delivers seven changes to a command, and returns the result and the recorded positions.
    #[cfg(unix)]
    async fn deliver(line: String, is_stopped: bool) -> (anyhow::Result<Delivered>, Vec<u64>) {
        let target = Target::Command { line, time_max: Duration::from_mins(1) };
        let (_stopping, stopped) = watch::channel(is_stopped);
        let delivery = Delivery { target, attempts_max: 1, dead_letters: None, stopped };
        let change = |number: u64| JsonChange { position: ChangePosition::start_of(number), json: number.to_string() };
        let recorded = std::cell::RefCell::new(Vec::new());
        let record = |position: ChangePosition| {
            recorded.borrow_mut().push(position.transaction);
            Ok(())
        };
        let result = delivery.deliver(&(1..=7).map(change).collect::<Vec<_>>(), record).await;
        (result, recorded.into_inner())
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_acknowledged_changes_of_a_failed_batch_are_recorded() {
        let (result, recorded) = deliver("! grep -q 5".to_owned(), false).await;
        assert!(result.unwrap_err().to_string().contains(&ChangePosition::start_of(5).to_string()));
        assert_eq!(recorded, [1, 2, 3, 4]);
        let (result, recorded) = deliver("! grep -q 8".to_owned(), false).await;
        assert_eq!((result.unwrap(), recorded), (Delivered::All, vec![7]));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn after_a_stop_signal_no_delivery_begins() {
        let folder = tempfile::tempdir().unwrap();
        let began = folder.path().join("began");
        let (result, recorded) = deliver(format!("touch '{}'", began.display()), true).await;
        assert_eq!((result.unwrap(), recorded), (Delivered::Stopped, Vec::new()));
        assert!(!began.exists());
    }

    #[test]
    fn an_incomplete_line_does_not_damage_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead");
        let letters = DeadLetters::open(&path).unwrap();
        let change = JsonChange { position: ChangePosition::start_of(1), json: "{}".to_owned() };
        letters.add(&change, "no", 3).unwrap();
        let line = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, [line.as_str(), "{\"error\""].concat()).unwrap();
        letters.add(&change, "no", 3).unwrap();
        DeadLetters::open(&path).unwrap().add(&change, "no", 3).unwrap();
        let expected = [line.as_str(), "{\"error\"\n", &line, &line].concat();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(line, "{\"error\":\"no\",\"attempts\":3,\"change\":{}}\n");
    }
}
