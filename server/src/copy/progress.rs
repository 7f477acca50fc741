//! What the person at the terminal sees while it goes on.
//!
//! A terminal gets one line that is written over; everything else gets a line now and then. Both go to standard error.

use std::fmt::Write as _;
use std::future::Future;
use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// The width of the bar, in characters.
const BAR_CHARS: usize = 20;

/// How far one part of the work is.
#[derive(Debug)]
pub(super) struct Progress {
    what: &'static str,
    tables: usize,
    tables_done: AtomicUsize,
    /// Those of this run.
    entities: AtomicU64,
    began: Instant,
}

impl Progress {
    /// The beginning.
    pub(super) fn new(what: &'static str, tables: usize) -> Self {
        let (tables_done, entities) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { what, tables, tables_done, entities, began: Instant::now() }
    }

    /// More entities are done.
    pub(super) fn add_entities(&self, count: u64) {
        self.entities.fetch_add(count, Ordering::Relaxed);
    }

    /// Another table is done.
    pub(super) fn add_table(&self) {
        self.tables_done.fetch_add(1, Ordering::Relaxed);
    }

    /// What is done, in words: tables, entities, time and rate.
    pub(super) fn summary(&self) -> String {
        let (tables, entities) = (self.tables_done.load(Ordering::Relaxed), self.entities.load(Ordering::Relaxed));
        let elapsed = self.began.elapsed();
        let tables = if tables == 1 { "1 table".to_owned() } else { format!("{} tables", grouped(tables as u64)) };
        let seconds = elapsed.as_secs_f64();
        format!("{tables}, {} entities in {seconds:.1} s ({}/s)", grouped(entities), grouped(rate(entities, elapsed)))
    }

    /// Shows the progress for as long as the work goes on.
    pub(super) async fn show_during<T>(&self, work: impl Future<Output = T>) -> T {
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
        let filled = (done * BAR_CHARS).checked_div(self.tables).unwrap_or(BAR_CHARS);
        let mut line = format!("{} [", self.what);
        (0..BAR_CHARS).for_each(|at| line.push(if at < filled { '#' } else { '.' }));
        let rate = grouped(rate(entities, self.began.elapsed()));
        write!(line, "] {done} of {} tables, {} entities, {rate}/s", self.tables, grouped(entities))
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

/// Says something beside the progress.
pub(super) fn note(text: &str) {
    to_standard_error(&format!("{text}\n"));
}

fn to_standard_error(text: &str) {
    // Nobody reads it any more, which is no reason to stop.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn rate(entities: u64, elapsed: Duration) -> u64 {
    let milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    entities.saturating_mul(1000) / milliseconds
}

/// A number with commas between the thousands.
pub(super) fn grouped(number: u64) -> String {
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
        assert!(Progress::new("copying", 0).line().contains("[####################] 0 of 0 tables"));
    }
}
