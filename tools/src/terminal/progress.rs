//! What the person at the terminal sees while it goes on.
//!
//! A terminal gets one line that is written over; everything else gets a line now and then. Both go to standard error.

use super::to_standard_error;
use std::fmt::Write as _;
use std::future::Future;
use std::io::IsTerminal;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// The width of the bar, in characters.
const BAR_CHARS: usize = 20;

/// How far one part of the work is.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    tables: AtomicUsize,
    tables_done: AtomicUsize,
    /// Those of this run.
    entities: AtomicU64,
    /// What is done and what there is to do, in a unit of the command's own; nothing to do if only tables are counted.
    work: AtomicU64,
    work_total: AtomicU64,
    began: Instant,
}

impl Progress {
    /// The beginning.
    pub(crate) fn new(what: &'static str, tables: usize) -> Self {
        let (tables_done, entities) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (work, work_total) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { what, tables: AtomicUsize::new(tables), tables_done, entities, work, work_total, began: Instant::now() }
    }

    /// There is so much to do, in a finer unit than tables.
    pub(crate) fn expect_work(&self, work: u64) {
        self.work_total.store(work, Ordering::Relaxed);
    }

    /// So much more of it is done.
    pub(crate) fn add_work(&self, work: u64) {
        self.work.fetch_add(work, Ordering::Relaxed);
    }

    /// How many tables there are, once that is known.
    pub(crate) fn set_tables(&self, tables: usize) {
        self.tables.store(tables, Ordering::Relaxed);
    }

    /// How many tables and entities are done.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.tables_done.load(Ordering::Relaxed) as u64, self.entities.load(Ordering::Relaxed))
    }

    /// More entities are done.
    pub(crate) fn add_entities(&self, count: u64) {
        self.entities.fetch_add(count, Ordering::Relaxed);
    }

    /// Another table is done.
    pub(crate) fn add_table(&self) {
        self.tables_done.fetch_add(1, Ordering::Relaxed);
    }

    /// What is done, in words: tables, entities, time and rate.
    pub(crate) fn summary(&self) -> String {
        let (tables, entities) = (self.tables_done.load(Ordering::Relaxed), self.entities.load(Ordering::Relaxed));
        let elapsed = self.began.elapsed();
        let tables = if tables == 1 { "1 table".to_owned() } else { format!("{} tables", grouped(tables as u64)) };
        let seconds = elapsed.as_secs_f64();
        format!("{tables}, {} entities in {seconds:.1} s ({}/s)", grouped(entities), grouped(rate(entities, elapsed)))
    }

    /// Shows the progress for as long as the work goes on.
    pub(crate) async fn show_during<T>(&self, work: impl Future<Output = T>) -> T {
        let is_terminal = std::io::stderr().is_terminal();
        let mut interval = tokio::time::interval(if is_terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL });
        // The first tick comes at once.
        interval.tick().await;
        let _cleared = Clear(is_terminal);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                _ = interval.tick() => self.show(is_terminal),
            }
        }
    }

    fn show(&self, is_terminal: bool) {
        let line = self.line();
        let text = if is_terminal { format!("\r{line}\x1b[K") } else { format!("{line}\n") };
        to_standard_error(&text);
    }

    fn line(&self) -> String {
        let (done, entities) = (self.tables_done.load(Ordering::Relaxed), self.entities.load(Ordering::Relaxed));
        let tables = self.tables.load(Ordering::Relaxed);
        let (work, total) = (self.work.load(Ordering::Relaxed), self.work_total.load(Ordering::Relaxed));
        let percent = work.saturating_mul(100).checked_div(total).map(|percent| percent.min(100));
        let filled = match percent {
            Some(percent) => usize::try_from(percent).unwrap_or(100) * BAR_CHARS / 100,
            None => (done * BAR_CHARS).checked_div(tables).unwrap_or(BAR_CHARS),
        };
        let percent = percent.map(|percent| format!("{percent} %, ")).unwrap_or_default();
        let mut line = format!("{} [", self.what);
        (0..BAR_CHARS).for_each(|at| line.push(if at < filled { '#' } else { '.' }));
        let rate = grouped(rate(entities, self.began.elapsed()));
        write!(line, "] {percent}{done} of {tables} tables, {} entities, {rate}/s", grouped(entities))
            .expect("writing to memory does not fail");
        line
    }
}

/// Wipes the line of a terminal, also when the work is given up.
struct Clear(bool);

impl Drop for Clear {
    fn drop(&mut self) {
        if self.0 {
            to_standard_error("\r\x1b[K");
        }
    }
}

fn rate(entities: u64, elapsed: Duration) -> u64 {
    let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    entities.saturating_mul(1000) / milliseconds
}

/// A number with commas between the thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lines() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), expected);
        }
        assert_eq!(rate(500, Duration::from_millis(250)), 2000);
        let progress = Progress::new("copying", 4);
        progress.add_table();
        progress.add_entities(1234);
        let line = progress.line();
        assert!(line.starts_with("copying [#####...............] 1 of 4 tables, 1,234 entities, "), "{line}");
        assert!(progress.summary().starts_with("1 table, 1,234 entities in "), "{}", progress.summary());
        progress.expect_work(3000);
        progress.add_work(2000);
        let line = progress.line();
        assert!(line.starts_with("copying [#############.......] 66 %, 1 of 4 tables, 1,234 entities, "), "{line}");
        assert!(Progress::new("copying", 0).line().contains("[####################] 0 of 0 tables"));
    }
}
