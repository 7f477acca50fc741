//! Counts tests: reads the results of test runners, and writes the closing line.

use crate::step::Count;
use anyhow::{Context, Result};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;

/// The maximum number of lines of a failed step that are shown. A suite shows its failures last.
const EXCERPT_LINES_MAX: usize = 200;

/// The numbers of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tests {
    pub(crate) const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    pub(crate) const fn passed(passed: u64) -> Self {
        Self { passed, failed: 0, skipped: 0 }
    }
}

impl AddAssign for Tests {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The closing line, which test scripts print too.
impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

impl Count {
    /// Returns true if the commands run tests, so that a run without any test is an error.
    pub(crate) fn is_of_suite(self) -> bool {
        !matches!(self, Self::Commands | Self::Nothing)
    }

    /// Counts the tests of a step. `commands` is the number of commands that succeeded, and `report` the file or folder
    /// of [`Self::Junit`].
    pub(crate) fn tests(self, output: &str, commands: u64, report: Option<&Path>) -> Result<Tests> {
        Ok(match self {
            Self::Commands => Tests::passed(commands),
            Self::Nothing => Tests::default(),
            Self::Closing => total(output.lines().filter_map(|line| counts(line, ", "))),
            Self::Rust => total(output.lines().filter_map(rust_line)),
            Self::Go => go(output),
            Self::Junit(_) => junit(report.context("the step names no report")?)?,
        })
    }

    /// Returns what is shown of a step's output: of a suite that passed, only the number of its tests.
    pub(crate) fn excerpt(self, output: &str, tests: Tests, has_failed: bool) -> String {
        if has_failed {
            let is_kept = |line: &&str| self != Self::Go || !is_passing_in_go(line);
            let lines: Vec<_> = output.lines().filter(is_kept).collect();
            return lines.get(lines.len().saturating_sub(EXCERPT_LINES_MAX)..).unwrap_or_default().join("\n");
        }
        match self {
            Self::Junit(_) | Self::Go => format!("{} tests passed", tests.passed),
            _ => output.trim_end().to_owned(),
        }
    }
}

/// Reads a line such as `3 passed, 0 failed, 1 skipped`.
fn counts(line: &str, separator: &str) -> Option<Tests> {
    let mut parts = line.split(separator);
    let number = |part: &str, word| part.strip_suffix(word)?.parse().ok();
    let passed = number(parts.next()?, " passed")?;
    let failed = number(parts.next()?, " failed")?;
    let skipped = match parts.next() {
        Some(part) => number(part, " skipped").or_else(|| number(part, " ignored"))?,
        None => 0,
    };
    Some(Tests { passed, failed, skipped })
}

/// Reads a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 5 filtered out`.
fn rust_line(line: &str) -> Option<Tests> {
    counts(line.strip_prefix("test result: ")?.split_once(". ")?.1, "; ")
}

fn total(all: impl Iterator<Item = Tests>) -> Tests {
    all.fold(Tests::default(), |mut sum, tests| {
        sum += tests;
        sum
    })
}

fn is_passing_in_go(line: &str) -> bool {
    line.starts_with("=== RUN") || line.starts_with("--- PASS: ")
}

fn go(output: &str) -> Tests {
    let count = |prefix| output.lines().filter(|line| line.starts_with(prefix)).count() as u64;
    Tests { passed: count("--- PASS: "), failed: count("--- FAIL: "), skipped: count("--- SKIP: ") }
}

/// Counts the cases of a report, or of all reports in a folder.
fn junit(path: &Path) -> Result<Tests> {
    let mut tests = Tests::default();
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "xml") {
                tests += junit(&file)?;
            }
        }
        return Ok(tests);
    }
    let text = fs::read_to_string(path).with_context(|| format!("the report {}", path.display()))?;
    cases(&text).with_context(|| format!("the report {}", path.display()))
}

fn cases(report: &str) -> Result<Tests> {
    let mut tests = Tests::default();
    let mut reader = Reader::from_str(report);
    reader.config_mut().expand_empty_elements = true;
    // The result of the case that the reader is in.
    let mut current = None;
    loop {
        match reader.read_event()? {
            Event::Start(tag) => match tag.name().as_ref() {
                "testcase" => current = Some(Tests::passed(1)),
                "failure" | "error" => current = current.map(|_| Tests { failed: 1, ..Tests::default() }),
                "skipped" => current = current.map(|_| Tests::SKIPPED),
                _ => {}
            },
            Event::End(tag) if tag.name().as_ref() == "testcase" => tests += current.take().unwrap_or_default(),
            Event::Eof => return Ok(tests),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: Count, output: &str, passed: u64, failed: u64, skipped: u64) {
        assert_eq!(count.tests(output, 2, None).unwrap(), Tests { passed, failed, skipped }, "{output}");
    }

    #[test]
    fn results_of_every_runner_are_read() {
        check(Count::Commands, "anything", 2, 0, 0);
        check(Count::Nothing, "3 passed, 1 failed", 0, 0, 0);
        let rust = "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 5 filtered out; finished in 0.12s\n";
        let failed =
            "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.00s\n";
        check(Count::Rust, &format!("{rust}{failed}"), 8, 2, 1);
        check(
            Count::Go,
            "=== RUN TestA\n--- PASS: TestA (0.1s)\n    --- PASS: TestA/part\n--- FAIL: TestB\n--- SKIP: TestC\n",
            1,
            1,
            1,
        );
        check(Count::Closing, "4 passed, 1 failed\nchecks\n12 passed, 0 failed, 2 skipped\n3 passed here\n", 16, 1, 2);
        assert_eq!(Tests { passed: 12, failed: 0, skipped: 0 }.to_string(), "12 passed, 0 failed");
        assert_eq!(Tests { passed: 1, failed: 2, skipped: 3 }.to_string(), "1 passed, 2 failed, 3 skipped");
    }

    #[test]
    fn reports_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let of_pytest = "<?xml version=\"1.0\"?><testsuites><testsuite tests=\"9\"><testcase name=\"a\" time=\"0.1\"/>\
            <testcase name=\"b\"><failure message=\"it &lt;broke&gt;\">a > b</failure></testcase>\
            <testcase name=\"c\"><skipped type=\"pytest.skip\"/></testcase>\
            <testcase name=\"d\"><system-out>3 passed</system-out></testcase></testsuite></testsuites>";
        let of_maven = "<testsuite><properties><property name=\"x\"/></properties><testcase name=\"e\"><error/></testcase></testsuite>";
        fs::write(folder.path().join("a.xml"), of_pytest).unwrap();
        fs::write(folder.path().join("b.xml"), of_maven).unwrap();
        fs::write(folder.path().join("b.txt"), of_maven).unwrap();
        let tests = |path: &Path| Count::Junit("").tests("", 1, Some(path)).unwrap();
        assert_eq!(tests(&folder.path().join("a.xml")), Tests { passed: 2, failed: 1, skipped: 1 });
        assert_eq!(tests(folder.path()), Tests { passed: 2, failed: 2, skipped: 1 });
        assert!(Count::Junit("").tests("", 1, Some(&folder.path().join("none.xml"))).is_err());
    }

    #[test]
    fn a_failed_suite_shows_its_failures() {
        let tests = Tests::passed(2);
        assert_eq!(Count::Go.excerpt("=== RUN A\n--- PASS: A\n--- FAIL: B\n", tests, true), "--- FAIL: B");
        assert_eq!(Count::Go.excerpt("=== RUN A\n--- PASS: A\n", tests, false), "2 tests passed");
        assert_eq!(
            Count::Closing.excerpt("12 files\n2 passed, 0 failed\n", tests, false),
            "12 files\n2 passed, 0 failed"
        );
        let long = "a line\n".repeat(300);
        assert_eq!(Count::Commands.excerpt(&long, tests, true).lines().count(), EXCERPT_LINES_MAX);
    }
}
