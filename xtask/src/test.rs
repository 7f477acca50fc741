//! Runs the selected steps, several at a time, and reports what they print and how long they take.

use crate::console;
use crate::count::Tests;
use crate::plan::{self, State};
use crate::run::{self, Mode, Outcome};
use crate::step::{Count, Share, Step, Tier};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The number of slow tests that a run reports.
const SLOWEST_TESTS: usize = 20;

/// The result of a run.
#[derive(Debug, Default)]
struct Report {
    tests: Tests,
    times: Vec<(&'static str, Duration)>,
    /// The steps that failed, and their output.
    failures: Vec<(&'static str, String)>,
    slowest: Vec<(f64, String)>,
}

/// Runs the steps. Returns true if all of them passed.
pub(crate) fn run(steps: &[Step], workspace: &Workspace, processors: usize) -> Result<bool> {
    let _lock = lock(workspace)?;
    if workspace.scratch.exists() {
        fs::remove_dir_all(&workspace.scratch).context("removing the results and logs of the last run")?;
    }
    let began = Instant::now();
    let mut report = run_all(steps, workspace, processors);
    save_times(&times_file(workspace), &report.times)?;
    report.slowest = slowest_tests(&workspace.scratch.join("results"), SLOWEST_TESTS);
    console::line(&report.closing(began.elapsed()));
    Ok(report.failures.is_empty())
}

fn times_file(workspace: &Workspace) -> PathBuf {
    workspace.target.join("test.times")
}

/// Returns the seconds that each step took when it last ran on this machine.
pub(crate) fn last_times(workspace: &Workspace) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(times_file(workspace)).unwrap_or_default();
    let times = text.lines().filter_map(|line| line.split_once(' '));
    times.filter_map(|(name, seconds)| Some((name.to_owned(), seconds.parse().ok()?))).collect()
}

fn save_times(file: &Path, times: &[(&'static str, Duration)]) -> Result<()> {
    let earlier = fs::read_to_string(file).unwrap_or_default();
    let is_later = |line: &&str| times.iter().any(|(name, _)| line.split(' ').next() == Some(name));
    let kept = earlier.lines().filter(|line| !is_later(line)).map(str::to_owned);
    let lines: Vec<_> = kept.chain(times.iter().map(|(name, time)| format!("{name} {}", time.as_secs()))).collect();
    fs::write(file, lines.join("\n") + "\n").with_context(|| format!("writing {}", file.display()))
}

/// Returns the tests that took longest, from files with lines such as `1.25 NAME`.
fn slowest_tests(folder: &Path, count: usize) -> Vec<(f64, String)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let texts = files.filter(|path| path.extension().is_some_and(|extension| extension == "times"));
    let mut tests = Vec::new();
    for text in texts.filter_map(|path| fs::read_to_string(path).ok()) {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        tests.extend(lines.filter_map(|(seconds, name)| Some((seconds.parse::<f64>().ok()?, name.to_owned()))));
    }
    tests.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    tests.truncate(count);
    tests
}

/// Prevents two runs from using the same folders.
fn lock(workspace: &Workspace) -> Result<File> {
    fs::create_dir_all(&workspace.target)?;
    let file = File::create(workspace.target.join("test.lock")).context("creating test.lock")?;
    if file.try_lock().is_err() {
        bail!("another run of the tests uses {}; wait until it has ended", workspace.scratch.display());
    }
    Ok(file)
}

fn run_all(steps: &[Step], workspace: &Workspace, processors: usize) -> Report {
    let mut states = vec![State::Waiting; steps.len()];
    let mut report = Report::default();
    // Set by a step that is not quick: nothing that is still running can change the result.
    let is_stopped = AtomicBool::new(false);
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let (sender, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        loop {
            while let Some(index) = plan::next(steps, &states, processors) {
                let (Some(step), Some(state)) = (steps.get(index), states.get_mut(index)) else { break };
                *state = State::Running;
                begin(step);
                let (sender, is_stopped) = (sender.clone(), &is_stopped);
                scope.spawn(move || {
                    let mode = Mode { is_live: is_live(step), is_ci, stopped: &|| is_stopped.load(Ordering::Relaxed) };
                    let started = Instant::now();
                    let outcome = run::run(step, workspace, &mode);
                    if outcome.failure.is_some() && step.tier != Tier::Quick {
                        is_stopped.store(true, Ordering::Relaxed);
                    }
                    // The receiver waits for every step.
                    let _ = sender.send((index, outcome, started.elapsed()));
                });
            }
            if !states.contains(&State::Running) {
                break;
            }
            let Ok((index, outcome, time)) = outcomes.recv() else { break };
            if let (Some(step), Some(state)) = (steps.get(index), states.get_mut(index)) {
                *state = if outcome.failure.is_some() { State::Failed } else { State::Passed };
                console::raw(report.add(step, outcome, time).as_bytes());
            }
        }
    });
    report
}

/// Returns true if a step shows its output while it runs: if no other step runs then, and its output is made for
/// people.
fn is_live(step: &Step) -> bool {
    step.share == Share::Whole && !matches!(step.count, Count::Junit(_) | Count::Go)
}

fn begin(step: &Step) {
    match step.share {
        Share::Whole => console::line(&format!("\n== {}: {}", step.name, step.title)),
        Share::OneProcessor => console::line(&format!("started: {}", step.name)),
    }
}

impl Report {
    /// Adds the outcome of a step, and returns what is shown now: the output of failed steps comes last.
    fn add(&mut self, step: &Step, outcome: Outcome, time: Duration) -> String {
        self.times.push((step.name, time));
        let header = match step.share {
            Share::OneProcessor => format!("\n== {}: {}\n", step.name, step.title),
            Share::Whole => String::new(),
        };
        let output = if is_live(step) && outcome.tests != Tests::SKIPPED { String::new() } else { outcome.output };
        if let Some(failure) = outcome.failure {
            // A step that was stopped because of an earlier failure has not failed itself.
            if self.failures.is_empty() || step.tier == Tier::Quick {
                self.tests += outcome.tests;
                self.failures.push((step.name, format!("{header}{output}\n{failure}")));
            }
            return format!("FAILED: {}\n", step.name);
        }
        self.tests += outcome.tests;
        let output = if output.is_empty() { output } else { format!("{output}\n") };
        format!("{header}{output}-- {}: {}\n", step.name, seconds(time))
    }

    /// Returns the times of all steps, the slowest tests, the failures, and the line that counts the tests.
    fn closing(&self, all: Duration) -> String {
        let mut times = self.times.clone();
        times.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
        let mut lines = vec![String::new()];
        lines.extend(times.iter().map(|(name, time)| format!("{:>8}  {name}", seconds(*time))));
        lines.push(format!("{:>8}  in all", seconds(all)));
        if !self.slowest.is_empty() {
            lines.push("\nthe slowest tests:".to_owned());
            lines.extend(self.slowest.iter().map(|(time, name)| format!("{time:>6.1} s  {name}")));
        }
        let mut tests = self.tests;
        lines.extend(self.failures.iter().map(|(_, output)| output.clone()));
        if !self.failures.is_empty() {
            let names: Vec<_> = self.failures.iter().map(|(name, _)| *name).collect();
            lines.push(format!("\nFAILED in: {}", names.join(", ")));
            tests.failed = tests.failed.max(1);
        }
        lines.extend([String::new(), tests.to_string()]);
        lines.join("\n")
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(passed: u64, failed: u64) -> Outcome {
        let failure = (failed > 0).then(|| "tests failed".to_owned());
        Outcome { tests: Tests { passed, failed, skipped: 0 }, failure, output: "what it printed".to_owned() }
    }

    #[test]
    fn the_closing_line_counts_the_tests_of_all_steps() {
        let mut report = Report::default();
        let short = Step::new("short", "A title");
        let shown = report.add(&short, outcome(1, 0), Duration::from_millis(1999));
        assert_eq!(shown, "\n== short: A title\nwhat it printed\n-- short: 1 s\n");
        // This step has shown its output.
        let shown = report.add(&Step::new("long", "").on_whole_machine(), outcome(2, 0), Duration::from_secs(75));
        assert_eq!(shown, "-- long: 75 s\n");
        report.slowest = vec![(12.25, "it: a_test".to_owned())];
        let times = "\n    75 s  long\n     1 s  short\n    76 s  in all\n";
        let expected = format!("{times}\nthe slowest tests:\n  12.2 s  it: a_test\n\n3 passed, 0 failed");
        assert_eq!(report.closing(Duration::from_secs(76)), expected);
    }

    #[test]
    fn the_output_of_failed_steps_comes_last() {
        let mut report = Report::default();
        for (name, tier) in [("long-line", Tier::Quick), ("link", Tier::Quick), ("broken", Tier::Gate)] {
            let step = Step::new(name, "A title").tier(tier);
            assert_eq!(report.add(&step, outcome(1, 1), Duration::ZERO), format!("FAILED: {name}\n"));
        }
        let closing = report.closing(Duration::ZERO);
        let failure = |name| format!("\n== {name}: A title\nwhat it printed\ntests failed");
        let (one, other) = (failure("long-line"), failure("link"));
        // The third step was only stopped.
        let end = format!("{one}\n{other}\n\nFAILED in: long-line, link\n\n2 passed, 2 failed");
        assert!(closing.ends_with(&end), "{closing}");
    }

    #[test]
    fn times_are_kept_until_the_step_runs_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("times");
        save_times(&file, &[("one", Duration::from_secs(1)), ("two", Duration::from_secs(2))]).unwrap();
        save_times(&file, &[("two", Duration::from_secs(3))]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "one 1\ntwo 3\n");
        fs::write(folder.path().join("a.times"), "0.5 it: one\n2.25 it: two words\n").unwrap();
        fs::write(folder.path().join("b.times"), "1.0 lib: three\n").unwrap();
        let slowest = slowest_tests(folder.path(), 2);
        assert_eq!(slowest, [(2.25, "it: two words".to_owned()), (1.0, "lib: three".to_owned())]);
    }
}
