//! The output of commands for people: results to standard output; notices, progress and errors to standard error.
//!
//! Invariant: text for people passes through [`escaped`] exactly once, here, so that nothing from a server or a file
//! can control the terminal. Data for programs (JSON Lines, CSV) is written unchanged. This module must not depend on
//! any command.

use anyhow::Context;
pub(crate) use indicatif::HumanCount;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::control_characters::is_control_character;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt::Display;
use std::future::Future;
use std::io::{ErrorKind, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Writes a result to standard output without escaping.
pub fn print(result: &impl Display) -> anyhow::Result<()> {
    write!(std::io::stdout().lock(), "{result}").context("writing to standard output")
}

pub(crate) fn print_line(line: impl Display) -> anyhow::Result<()> {
    print(&format_args!("{}\n", escaped(&line.to_string())))
}

/// The bar on the terminal. A notice is written above it.
static VISIBLE_BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

pub(crate) fn notice(line: impl Display) {
    let line = format!("{}\n", escaped(&line.to_string()));
    let bar = VISIBLE_BAR.lock().clone();
    match bar {
        Some(bar) => bar.suspend(|| to_standard_error(&line)),
        None => to_standard_error(&line),
    }
}

/// Returns a count with its noun, such as "1 table" or "1,234 tables".
pub fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", HumanCount(count), if count == 1 { one } else { several })
}

/// Writes an error and its causes to standard error.
pub fn report_error(error: &anyhow::Error) {
    let message = format!("rowhouse: {error:#}");
    // Messages about configuration files have several lines.
    let lines: Vec<_> = message.split('\n').map(escaped).collect();
    to_standard_error(&format!("{}\n", lines.join("\n")));
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let source = error.chain().find_map(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == ErrorKind::BrokenPipe)
}

fn to_standard_error(text: &str) {
    // A missing reader is no reason to stop.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes text unchanged to a file or pipe, but with each line [`escaped`] to a terminal.
#[derive(Debug)]
pub(crate) struct TerminalSafeWriter<W> {
    pub(crate) out: W,
    pub(crate) is_terminal: bool,
}

impl<W: Write> Write for TerminalSafeWriter<W> {
    /// The text must not end inside a character.
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(text);
        }
        for line in String::from_utf8_lossy(text).split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let line = line.strip_suffix('\r').unwrap_or(line);
            self.out.write_all(format!("{}{end}", escaped(line)).as_bytes())?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Replaces characters that control a terminal or reorder text with escapes such as `\u{1b}`.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control_character) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control_character(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// The library cuts the message to the width of the terminal.
const BAR_TEMPLATE: &str = "{prefix} [{bar:20}] {wide_msg}";
const BAR_INTERVAL: Duration = Duration::from_millis(200);
const LINE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Progress {
    action: &'static str,
    tables: AtomicUsize,
    tables_done: AtomicUsize,
    /// Counts only the entities of this run.
    entities: AtomicU64,
    /// In a unit that the command chooses. If the work is 0, only tables are counted.
    work: AtomicU64,
    work_done: AtomicU64,
    began: Instant,
    /// Hidden if standard error is not a terminal.
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(action: &'static str, tables: usize) -> Self {
        Self::drawn_to(ProgressDrawTarget::stderr(), action, tables)
    }

    fn drawn_to(target: ProgressDrawTarget, action: &'static str, tables: usize) -> Self {
        let style = ProgressStyle::with_template(BAR_TEMPLATE).expect("the template is valid").progress_chars("#.");
        Self {
            action,
            tables: AtomicUsize::new(tables),
            tables_done: AtomicUsize::new(0),
            entities: AtomicU64::new(0),
            work: AtomicU64::new(0),
            work_done: AtomicU64::new(0),
            began: Instant::now(),
            bar: ProgressBar::with_draw_target(None, target).with_style(style).with_prefix(action),
        }
    }

    pub(crate) fn expect_work(&self, work: u64) {
        self.work.store(work, Ordering::Relaxed);
    }

    pub(crate) fn add_work(&self, work: u64) {
        self.work_done.fetch_add(work, Ordering::Relaxed);
    }

    pub(crate) fn set_tables(&self, tables: usize) {
        self.tables.store(tables, Ordering::Relaxed);
    }

    pub(crate) fn add_entities(&self, count: u64) {
        self.entities.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_table(&self) {
        self.tables_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of completed tables and entities.
    pub(crate) fn done(&self) -> (u64, u64) {
        (self.tables_done.load(Ordering::Relaxed) as u64, self.entities.load(Ordering::Relaxed))
    }

    pub(crate) fn summary(&self) -> String {
        let (tables, entities) = self.done();
        let (tables, entities) = (counted(tables, "table", "tables"), counted(entities, "entity", "entities"));
        let seconds = self.began.elapsed().as_secs_f64();
        format!("{tables}, {entities} in {seconds:.1} s ({}/s)", self.entities_per_second())
    }

    pub(crate) async fn show_during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut interval = tokio::time::interval(if self.bar.is_hidden() { LINE_INTERVAL } else { BAR_INTERVAL });
        // The first tick is immediate.
        interval.tick().await;
        let _bar = ClearedOnDrop(&self.bar);
        *VISIBLE_BAR.lock() = Some(self.bar.clone());
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                _ = interval.tick() => self.show(),
            }
        }
    }

    fn show(&self) {
        if self.bar.is_hidden() {
            notice(format_args!("{}: {}", self.action, self.status()));
            return;
        }
        let (done, all) = match self.work.load(Ordering::Relaxed) {
            0 => (self.done().0, self.tables.load(Ordering::Relaxed) as u64),
            work => (self.work_done.load(Ordering::Relaxed).min(work), work),
        };
        self.bar.update(|state| {
            state.set_pos(done);
            state.set_len(all);
        });
        self.bar.set_message(self.status());
    }

    fn status(&self) -> String {
        let ((done, entities), tables) = (self.done(), self.tables.load(Ordering::Relaxed));
        let (work_done, work) = (self.work_done.load(Ordering::Relaxed), self.work.load(Ordering::Relaxed));
        let percent = work_done.saturating_mul(100).checked_div(work).map(|percent| percent.min(100));
        let percent = percent.map(|percent| format!("{percent} %, ")).unwrap_or_default();
        let (entities, rate) = (counted(entities, "entity", "entities"), self.entities_per_second());
        format!("{percent}{done} of {}, {entities}, {rate}/s", counted(tables as u64, "table", "tables"))
    }

    fn entities_per_second(&self) -> HumanCount {
        let milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        HumanCount(self.entities.load(Ordering::Relaxed).saturating_mul(1000) / milliseconds)
    }
}

/// Clears the bar even if the work is canceled.
struct ClearedOnDrop<'a>(&'a ProgressBar);

impl Drop for ClearedOnDrop<'_> {
    fn drop(&mut self) {
        *VISIBLE_BAR.lock() = None;
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    #[test]
    fn no_text_controls_the_terminal() {
        for (text, expected) in [
            ("plain \\ é 漢", "plain \\ é 漢"),
            ("a\u{1b}[31mb\r\n\t", "a\\u{1b}[31mb\\r\\n\\t"),
            ("\u{9b}2J\u{7f}\0", "\\u{9b}2J\\u{7f}\\u{0}"),
            ("user\u{202e}txt.exe\u{2069}", "user\\u{202e}txt.exe\\u{2069}"),
            ("a\u{2028}b\u{2029}c\u{85}", "a\\u{2028}b\\u{2029}c\\u{85}"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn lines_control_no_terminal_and_are_exact_elsewhere() {
        let text = "A,B\r\n\u{1b}[2J,\"\u{9b}x\ny\rz\"\r\n";
        for (is_terminal, expected) in [(true, "A,B\n\\u{1b}[2J,\"\\u{9b}x\ny\\rz\"\n"), (false, text)] {
            let mut lines = TerminalSafeWriter { out: Vec::new(), is_terminal };
            lines.write_all(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(lines.out).unwrap(), expected);
        }
    }

    fn progress(terminal: &InMemoryTerm, tables: usize) -> Progress {
        Progress::drawn_to(ProgressDrawTarget::term_like(Box::new(terminal.clone())), "copying", tables)
    }

    #[test]
    fn one_is_not_several() {
        let counts = [0, 1, 2, 1234].map(|count| counted(count, "entity", "entities"));
        assert_eq!(counts, ["0 entities", "1 entity", "2 entities", "1,234 entities"]);
    }

    #[test]
    fn numbers_and_lines() {
        let terminal = InMemoryTerm::new(5, 100);
        let progress = progress(&terminal, 4);
        progress.add_table();
        progress.add_entities(1234);
        assert!(progress.status().starts_with("1 of 4 tables, 1,234 entities, "), "{}", progress.status());
        assert!(progress.summary().starts_with("1 table, 1,234 entities in "), "{}", progress.summary());
        progress.show();
        let line = terminal.contents();
        assert!(line.starts_with("copying [#####...............] 1 of 4 tables, 1,234 entities, "), "{line}");
        progress.expect_work(3000);
        progress.add_work(2000);
        progress.show();
        let line = terminal.contents();
        assert!(line.starts_with("copying [#############.......] 66 %, 1 of 4 tables, 1,234 entities, "), "{line}");
        assert_eq!(line.lines().count(), 1);
        let formatted = String::from_utf8(terminal.contents_formatted()).unwrap();
        assert!(!formatted.contains("\u{1b}[3"), "no colors: {formatted:?}");
    }

    #[test]
    fn a_bar_without_tables_is_full_and_a_narrow_terminal_cuts_the_message() {
        let terminal = InMemoryTerm::new(5, 40);
        let progress = progress(&terminal, 0);
        progress.show();
        assert_eq!(terminal.contents(), "copying [####################] 0 of 0 ta");
    }

    #[tokio::test(start_paused = true)]
    async fn the_bar_is_cleared_when_the_work_is_cancelled() {
        let terminal = InMemoryTerm::new(5, 100);
        let progress = progress(&terminal, 4);
        let work = progress.show_during(std::future::pending::<()>());
        assert!(tokio::time::timeout(BAR_INTERVAL * 3, work).await.is_err());
        assert_eq!(terminal.contents(), "");
    }
}
