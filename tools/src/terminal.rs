//! The output of commands for people: results to standard output; notices, progress and errors to standard error.
//!
//! Invariant: text for people passes through [`escaped`] exactly once, here, so that nothing from a server or a file
//! can control the terminal. Data for programs (JSON Lines, CSV) is written unchanged. This module must not depend on
//! any command.

use anyhow::Context;
pub(crate) use indicatif::HumanCount;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::control_characters::is_control_character;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt::Display;
use std::future::Future;
use std::io::{BufRead, ErrorKind, IsTerminal, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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

/// Asks a question on standard error. Returns `None` without asking if no one can answer, because standard input or
/// standard error is not a terminal.
pub(crate) fn ask(question: impl Display) -> anyhow::Result<Option<bool>> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    to_standard_error(&format!("{} [y/N] ", escaped(&question.to_string())));
    read_answer(&mut std::io::stdin().lock()).context("reading the answer").map(Some)
}

/// The end of the input is a no.
fn read_answer(input: &mut impl BufRead) -> std::io::Result<bool> {
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
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
/// Without a total, there is nothing that a bar could show.
const COUNT_TEMPLATE: &str = "{prefix} {wide_msg}";
const BAR_INTERVAL: Duration = Duration::from_millis(200);
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// An estimate from less time would only confuse.
const ESTIMATE_MIN: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Progress {
    action: &'static str,
    tables: AtomicUsize,
    tables_done: AtomicUsize,
    /// Counts only the entities of this run.
    entities: AtomicU64,
    /// The total work of all runs, in entities or in another unit that the command chooses. 0 if it is unknown.
    work: AtomicU64,
    is_in_entities: AtomicBool,
    /// Only if the unit is not entities.
    work_done: AtomicU64,
    /// The part of the work that earlier runs have done.
    work_before: AtomicU64,
    began: Instant,
    /// Hidden if standard error is not a terminal.
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(action: &'static str, tables: usize) -> Self {
        Self::drawn_to(ProgressDrawTarget::stderr(), action, tables)
    }

    fn drawn_to(target: ProgressDrawTarget, action: &'static str, tables: usize) -> Self {
        let style = ProgressStyle::with_template(COUNT_TEMPLATE).expect("the template is valid");
        Self {
            action,
            tables: AtomicUsize::new(tables),
            tables_done: AtomicUsize::new(0),
            entities: AtomicU64::new(0),
            work: AtomicU64::new(0),
            is_in_entities: AtomicBool::new(false),
            work_done: AtomicU64::new(0),
            work_before: AtomicU64::new(0),
            began: Instant::now(),
            bar: ProgressBar::with_draw_target(None, target).with_style(style).with_prefix(action),
        }
    }

    /// Announces the total work in a unit of which [`add_work`](Self::add_work) counts what is done.
    pub(crate) fn expect_work(&self, work: u64) {
        self.work.store(work, Ordering::Relaxed);
        self.show_bar();
    }

    /// Announces the total number of entities. It may be an estimate: if it is exceeded, the total is unknown.
    pub(crate) fn expect_entities(&self, entities: u64) {
        self.is_in_entities.store(true, Ordering::Relaxed);
        self.expect_work(entities);
    }

    pub(crate) fn add_work(&self, work: u64) {
        self.work_done.fetch_add(work, Ordering::Relaxed);
    }

    /// Counts a part of the total work that an earlier run has done.
    pub(crate) fn skip_work(&self, work: u64) {
        self.work_before.fetch_add(work, Ordering::Relaxed);
    }

    pub(crate) fn set_tables(&self, tables: usize) {
        self.tables.store(tables, Ordering::Relaxed);
    }

    pub(crate) fn add_entities(&self, count: u64) {
        self.entities.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set_entities(&self, count: u64) {
        self.entities.store(count, Ordering::Relaxed);
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

    fn show_bar(&self) {
        let style = ProgressStyle::with_template(BAR_TEMPLATE).expect("the template is valid").progress_chars("#.");
        self.bar.set_style(style);
    }

    fn show(&self) {
        if self.bar.is_hidden() {
            notice(format_args!("{}: {}", self.action, self.status()));
            return;
        }
        match self.work() {
            Some(work) => self.bar.update(|state| {
                state.set_pos(work.done);
                state.set_len(work.total);
            }),
            None => self.bar.set_style(ProgressStyle::with_template(COUNT_TEMPLATE).expect("the template is valid")),
        }
        self.bar.set_message(self.status());
    }

    /// Returns `None` if the total is unknown.
    fn work(&self) -> Option<Work> {
        let total = self.work.load(Ordering::Relaxed);
        let is_in_entities = self.is_in_entities.load(Ordering::Relaxed);
        let done = if is_in_entities { &self.entities } else { &self.work_done };
        let (done, before) = (done.load(Ordering::Relaxed), self.work_before.load(Ordering::Relaxed));
        let work = Work { done: done.saturating_add(before), before, total };
        (total > 0 && work.done <= total).then_some(work)
    }

    fn status(&self) -> String {
        let ((tables_done, entities), tables) = (self.done(), self.tables.load(Ordering::Relaxed));
        let is_in_entities = self.is_in_entities.load(Ordering::Relaxed);
        let work = self.work();
        let mut parts = Vec::new();
        parts.extend(work.and_then(Work::percent).map(|percent| format!("{percent} %")));
        parts.push(match work.filter(|_| is_in_entities) {
            Some(work) => format!("{} of {}", HumanCount(work.done), counted(work.total, "entity", "entities")),
            None => counted(entities, "entity", "entities"),
        });
        parts.push(format!("{}/s", self.entities_per_second()));
        let left = work.and_then(|work| work.time_left(self.began.elapsed()));
        parts.extend(left.map(|left| format!("about {:#} left", HumanDuration(left))));
        // A single table is counted by its entities.
        parts.extend((tables > 1).then(|| format!("{tables_done} of {tables} tables")));
        parts.join(", ")
    }

    fn entities_per_second(&self) -> HumanCount {
        let milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        HumanCount(self.entities.load(Ordering::Relaxed).saturating_mul(1000) / milliseconds)
    }
}

/// Work in the unit of the command.
#[derive(Debug, Clone, Copy)]
struct Work {
    done: u64,
    /// The part that earlier runs have done.
    before: u64,
    total: u64,
}

impl Work {
    fn percent(self) -> Option<u64> {
        self.done.saturating_mul(100).checked_div(self.total)
    }

    /// Returns `None` if it is too early to tell. Assumes that the rest is as fast as this run was so far.
    fn time_left(self, elapsed: Duration) -> Option<Duration> {
        let rest = u128::from(self.total - self.done);
        let milliseconds = elapsed.as_millis().checked_mul(rest)?.checked_div(u128::from(self.done - self.before))?;
        let left = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        left.filter(|left| elapsed >= ESTIMATE_MIN && !left.is_zero())
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

    #[test]
    fn only_a_yes_is_a_yes() {
        for (input, expected) in
            [("y\n", true), (" YES \r\n", true), ("n\n", false), ("\n", false), ("", false), ("yy\n", false)]
        {
            assert_eq!(read_answer(&mut input.as_bytes()).unwrap(), expected, "{input:?}");
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
    fn without_a_total_entities_are_counted() {
        let terminal = InMemoryTerm::new(5, 100);
        let progress = progress(&terminal, 4);
        progress.add_table();
        progress.add_entities(1234);
        assert!(progress.status().starts_with("1,234 entities, "), "{}", progress.status());
        assert!(progress.status().ends_with("/s, 1 of 4 tables"), "{}", progress.status());
        assert!(progress.summary().starts_with("1 table, 1,234 entities in "), "{}", progress.summary());
        progress.show();
        assert!(terminal.contents().starts_with("copying 1,234 entities, "), "{}", terminal.contents());
        progress.set_tables(1);
        assert!(!progress.status().contains("table"), "{}", progress.status());
    }

    #[test]
    fn work_in_another_unit_moves_the_bar() {
        let terminal = InMemoryTerm::new(5, 100);
        let progress = progress(&terminal, 4);
        progress.add_entities(1234);
        progress.expect_work(3000);
        progress.skip_work(500);
        progress.add_work(1500);
        progress.show();
        let line = terminal.contents();
        assert!(line.starts_with("copying [#############.......] 66 %, 1,234 entities, "), "{line}");
        assert!(line.ends_with("/s, 0 of 4 tables"), "{line}");
        assert_eq!(line.lines().count(), 1);
        let formatted = String::from_utf8(terminal.contents_formatted()).unwrap();
        assert!(!formatted.contains("\u{1b}[3"), "no colors: {formatted:?}");
    }

    #[test]
    fn entities_move_the_bar_until_there_are_more_than_expected() {
        let terminal = InMemoryTerm::new(5, 100);
        let progress = progress(&terminal, 1);
        progress.expect_entities(2000);
        progress.skip_work(500);
        progress.add_entities(500);
        progress.show();
        let line = terminal.contents();
        assert!(line.starts_with("copying [##########..........] 50 %, 1,000 of 2,000 entities, "), "{line}");
        progress.add_entities(1001);
        progress.show();
        assert!(terminal.contents().starts_with("copying 1,501 entities, "), "{}", terminal.contents());
    }

    #[test]
    fn the_time_left_depends_on_this_run() {
        let left = |done, before, seconds| {
            Work { done, before, total: 1000 }.time_left(Duration::from_secs(seconds)).map(|left| left.as_secs())
        };
        for (done, before, seconds, expected) in [
            (250, 0, 60, Some(180)),
            (750, 500, 60, Some(60)),
            (250, 0, 2, None),
            (500, 500, 60, None),
            (0, 0, 60, None),
            (1000, 0, 60, None),
        ] {
            assert_eq!(left(done, before, seconds), expected, "{done} {before} {seconds}");
        }
        assert_eq!(Work { done: 1, before: 0, total: u64::MAX }.time_left(Duration::MAX), None, "too far away");
    }

    #[test]
    fn a_narrow_terminal_cuts_the_message() {
        let terminal = InMemoryTerm::new(5, 40);
        let progress = progress(&terminal, 0);
        progress.expect_entities(10);
        progress.show();
        assert_eq!(terminal.contents(), "copying [....................] 0 %, 0 of");
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
