//! Runs the selected steps, several at a time, and reports what they print and how long they take.

use crate::console;
use crate::count::Tests;
use crate::plan::{self, State};
use crate::run::{self, Mode, Outcome};
use crate::step::{Count, Share, Step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The result of a run.
#[derive(Debug, Default)]
struct Report {
    tests: Tests,
    times: Vec<(&'static str, Duration)>,
    /// The step that failed first, and its output.
    failure: Option<(&'static str, String)>,
}

/// Runs the steps. Returns true if all of them passed.
pub(crate) fn run(steps: &[Step], workspace: &Workspace, processors: usize) -> Result<bool> {
    let _lock = lock(workspace)?;
    // The logs of an earlier run.
    let _ = fs::remove_dir_all(&workspace.scratch);
    fs::create_dir_all(&workspace.scratch)?;
    let report = run_all(steps, workspace, processors);
    console::line(&report.closing());
    Ok(report.failure.is_none())
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
    let is_failed = AtomicBool::new(false);
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let (sender, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        loop {
            while !is_failed.load(Ordering::Relaxed) {
                let Some(index) = plan::next(steps, &states, processors) else { break };
                let (Some(step), Some(state)) = (steps.get(index), states.get_mut(index)) else { break };
                *state = State::Running;
                begin(step);
                let (sender, is_failed) = (sender.clone(), &is_failed);
                scope.spawn(move || {
                    let mode = Mode { is_live: is_live(step), is_ci, stopped: &|| is_failed.load(Ordering::Relaxed) };
                    let started = Instant::now();
                    let outcome = run::run(step, workspace, &mode);
                    if outcome.failure.is_some() {
                        is_failed.store(true, Ordering::Relaxed);
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
                *state = State::Done;
                console::raw(report.add(step, outcome, time).as_bytes());
            }
        }
    });
    report
}

/// Returns true if a step shows its output while it runs: if no other step runs then, and its output is made for
/// people.
fn is_live(step: &Step) -> bool {
    step.share == Share::Whole && !matches!(step.count, Count::Tap | Count::Go | Count::Surefire(_))
}

fn begin(step: &Step) {
    match step.share {
        Share::Whole => console::line(&format!("\n== {}: {}", step.name, step.title)),
        Share::OneProcessor => console::line(&format!("started: {}", step.name)),
    }
}

impl Report {
    /// Adds the outcome of a step, and returns what is shown now: the output of a failed step comes last.
    fn add(&mut self, step: &Step, outcome: Outcome, time: Duration) -> String {
        self.times.push((step.name, time));
        let header = match step.share {
            Share::OneProcessor => format!("\n== {}: {}\n", step.name, step.title),
            Share::Whole => String::new(),
        };
        let output = if is_live(step) && outcome.tests != Tests::SKIPPED { String::new() } else { outcome.output };
        if let Some(failure) = outcome.failure {
            if self.failure.is_none() {
                self.tests += outcome.tests;
                self.failure = Some((step.name, format!("{header}{output}\n{failure}")));
            }
            return String::new();
        }
        self.tests += outcome.tests;
        let output = if output.is_empty() { output } else { format!("{output}\n") };
        format!("{header}{output}-- {}: {}\n", step.name, seconds(time))
    }

    /// Returns the times of all steps, the failure, and the line that counts the tests.
    fn closing(&self) -> String {
        let mut times = self.times.clone();
        times.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
        let mut lines = vec![String::new()];
        lines.extend(times.iter().map(|(name, time)| format!("{:>8}  {name}", seconds(*time))));
        let mut tests = self.tests;
        if let Some((name, output)) = &self.failure {
            lines.extend([output.clone(), format!("\nFAILED in: {name}")]);
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
        let short = Step::new("short", "A title").on_one_processor();
        let shown = report.add(&short, outcome(1, 0), Duration::from_millis(1999));
        assert_eq!(shown, "\n== short: A title\nwhat it printed\n-- short: 1 s\n");
        // This step has shown its output.
        let shown = report.add(&Step::new("long", ""), outcome(2, 0), Duration::from_secs(75));
        assert_eq!(shown, "-- long: 75 s\n");
        assert_eq!(report.closing(), "\n    75 s  long\n     1 s  short\n\n3 passed, 0 failed");
    }

    #[test]
    fn the_output_of_the_first_failed_step_comes_last() {
        let mut report = Report::default();
        for (name, failed) in [("broken", 2), ("stopped", 1)] {
            let step = Step::new(name, "A title").on_one_processor();
            assert_eq!(report.add(&step, outcome(1, failed), Duration::ZERO), "");
        }
        let closing = report.closing();
        let end = "\n== broken: A title\nwhat it printed\ntests failed\n\nFAILED in: broken\n\n1 passed, 2 failed";
        assert!(closing.ends_with(end), "{closing}");
    }
}
