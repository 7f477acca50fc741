//! Counts tests: reads the results of test runners, and writes the closing line.

use crate::step::Count;
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;

/// The maximum number of lines of a failed suite that are shown.
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

    /// Counts the tests of a step from its output. `commands` is the number of commands that succeeded.
    pub(crate) fn tests(self, output: &str, commands: u64, root: &Path) -> Tests {
        match self {
            Self::Commands => Tests::passed(commands),
            Self::Nothing => Tests::default(),
            Self::Rust => sum(output.lines().filter(|line| line.starts_with("test result: ")), &RUST),
            Self::Pytest => sum(output.lines().next_back(), &PYTEST),
            Self::Tap => tap(output),
            Self::Go => go(output),
            Self::Closing => sum(output.lines().filter(|line| is_closing_line(line)), &RUST),
            Self::Surefire(folder) => surefire(&reports(&root.join(folder).join("target/surefire-reports"))),
            Self::Recordings => recordings(output),
            Self::Fuzz => Tests::passed(output.lines().filter(|line| line.contains(" edges after ")).count() as u64),
        }
    }

    /// Returns what is shown of a step's output: of a suite that passed, only a summary.
    pub(crate) fn excerpt(self, output: &str, tests: Tests, has_failed: bool) -> String {
        if self == Self::Pytest && !has_failed {
            return output.lines().next_back().unwrap_or_default().to_owned();
        }
        let is_long = matches!(self, Self::Tap | Self::Go | Self::Surefire(_));
        if !is_long {
            return output.trim_end().to_owned();
        }
        if !has_failed {
            return format!("{} cases passed", tests.passed);
        }
        let kept: Vec<_> = match self {
            Self::Tap => failures_in_tap(output),
            Self::Go => output.lines().filter(|line| !is_passing_in_go(line)).collect(),
            _ => output.lines().filter(|line| !line.trim_start().starts_with("at ")).collect(),
        };
        kept.into_iter().take(EXCERPT_LINES_MAX).collect::<Vec<_>>().join("\n")
    }
}

/// The words after which numbers are passed, failed and skipped tests.
struct Words {
    passed: &'static [&'static str],
    failed: &'static [&'static str],
    skipped: &'static [&'static str],
}

const RUST: Words = Words { passed: &["passed"], failed: &["failed"], skipped: &["ignored", "skipped"] };

const PYTEST: Words = Words {
    passed: &["passed"],
    failed: &["failed", "error", "errors", "xpassed"],
    // An expected failure.
    skipped: &["skipped", "xfailed"],
};

/// Adds the numbers before certain words: `3 passed`.
fn sum<'l>(lines: impl IntoIterator<Item = &'l str>, words: &Words) -> Tests {
    let mut tests = Tests::default();
    for line in lines {
        let tokens: Vec<_> = line.split([' ', ',', ';', '.']).filter(|token| !token.is_empty()).collect();
        for pair in tokens.windows(2) {
            let &[number, word] = pair else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            tests.passed += if words.passed.contains(&word) { number } else { 0 };
            tests.failed += if words.failed.contains(&word) { number } else { 0 };
            tests.skipped += if words.skipped.contains(&word) { number } else { 0 };
        }
    }
    tests
}

fn is_closing_line(line: &str) -> bool {
    let mut words = line.split(' ').skip(1).step_by(2);
    let starts_with_number = line.starts_with(|c: char| c.is_ascii_digit());
    starts_with_number && words.next() == Some("passed,") && words.next().is_some_and(|word| word.starts_with("failed"))
}

fn tap(output: &str) -> Tests {
    let mut tests = Tests::default();
    for line in output.lines() {
        let Some((word, number)) = line.strip_prefix("# ").and_then(|rest| rest.split_once(' ')) else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match word {
            "pass" => tests.passed += number,
            "fail" | "cancelled" => tests.failed += number,
            "skipped" | "todo" => tests.skipped += number,
            _ => {}
        }
    }
    tests
}

/// Returns the lines from each `not ok` to the end of its details.
fn failures_in_tap(output: &str) -> Vec<&str> {
    let mut is_inside = false;
    let is_kept = |line: &&str| {
        is_inside |= line.starts_with("not ok");
        let is_kept = is_inside;
        is_inside &= *line != "  ...";
        is_kept
    };
    let kept: Vec<_> = output.lines().filter(is_kept).collect();
    // Without a failed case, the runner itself has failed.
    if kept.is_empty() { output.lines().collect() } else { kept }
}

fn is_passing_in_go(line: &str) -> bool {
    line.starts_with("=== RUN") || line.starts_with("--- PASS: ")
}

fn go(output: &str) -> Tests {
    let count = |prefix| output.lines().filter(|line| line.starts_with(prefix)).count() as u64;
    Tests { passed: count("--- PASS: "), failed: count("--- FAIL: "), skipped: count("--- SKIP: ") }
}

/// Returns the text of all reports in a folder.
fn reports(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let texts = files.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    texts.filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Reads lines such as `Tests run: 5, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: …`.
fn surefire(reports: &str) -> Tests {
    let mut tests = Tests::default();
    for line in reports.lines().filter(|line| line.starts_with("Tests run:")) {
        let number = |name: &str| {
            let fields = line.split(',').filter_map(|field| field.split_once(':'));
            let field = fields.into_iter().find(|(known, _)| known.trim() == name);
            field.and_then(|(_, number)| number.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let (failed, skipped) = (number("Failures") + number("Errors"), number("Skipped"));
        tests += Tests { passed: number("Tests run").saturating_sub(failed + skipped), failed, skipped };
    }
    tests
}

/// Reads a line such as `runs as expected: 30 of 31`.
fn recordings(output: &str) -> Tests {
    let lines = output.lines().filter_map(|line| line.strip_prefix("runs as expected: "));
    let numbers = lines.filter_map(|line| line.split_once(" of "));
    let mut tests = Tests::default();
    for (passed, all) in numbers {
        let (passed, all) = (passed.parse().unwrap_or(0), all.parse().unwrap_or(0));
        tests += Tests { passed, failed: u64::saturating_sub(all, passed), skipped: 0 };
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: Count, output: &str, passed: u64, failed: u64, skipped: u64) {
        assert_eq!(count.tests(output, 2, Path::new(".")), Tests { passed, failed, skipped }, "{output}");
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
            Count::Pytest,
            "a test says 9 failed\n== 2 failed, 40 passed, 3 skipped, 1 xfailed, 1 error in 9.01s ==\n",
            40,
            3,
            4,
        );
        check(Count::Pytest, "..\n812 passed, 1 xpassed in 31.90s (0:00:31)\n", 812, 1, 0);
        check(
            Count::Tap,
            "ok 1 - # pass\n# pass 6\n# fail 1\n# cancelled 2\n# skipped 3\n# todo 1\n# duration_ms 9\n",
            6,
            3,
            4,
        );
        check(
            Count::Go,
            "=== RUN TestA\n--- PASS: TestA (0.1s)\n    --- PASS: TestA/part\n--- FAIL: TestB\n--- SKIP: TestC\n",
            1,
            1,
            1,
        );
        check(Count::Closing, "4 passed, 1 failed\nchecks\n12 passed, 0 failed, 2 skipped\n3 passed here\n", 16, 1, 2);
        check(Count::Recordings, "runs as expected: 30 of 31\n", 30, 1, 0);
        check(
            Count::Fuzz,
            "fuzz target a: 9 edges from known inputs, 9 edges after 7 inputs\nfuzz target b failed\n",
            1,
            0,
            0,
        );
    }

    #[test]
    fn reports_of_maven_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let reports = folder.path().join("cases/target/surefire-reports");
        fs::create_dir_all(&reports).unwrap();
        let line = "Tests run: 7, Failures: 1, Errors: 2, Skipped: 1, Time elapsed: 0.5 s <<< FAILURE! - in A\n";
        fs::write(reports.join("a.txt"), format!("Test set: A\n{line}")).unwrap();
        fs::write(reports.join("b.txt"), "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s\n")
            .unwrap();
        fs::write(reports.join("b.xml"), line).unwrap();
        let tests = Count::Surefire("cases").tests("", 1, folder.path());
        assert_eq!(tests, Tests { passed: 5, failed: 3, skipped: 1 });
    }

    #[test]
    fn the_closing_line_mentions_skipped_tests_only_if_there_are_some() {
        assert_eq!(Tests { passed: 12, failed: 0, skipped: 0 }.to_string(), "12 passed, 0 failed");
        assert_eq!(Tests { passed: 1, failed: 2, skipped: 3 }.to_string(), "1 passed, 2 failed, 3 skipped");
        let closing = Tests { passed: 1, failed: 2, skipped: 3 };
        assert_eq!(Count::Closing.tests(&closing.to_string(), 1, Path::new(".")), closing);
    }

    #[test]
    fn a_failed_suite_shows_its_failures_only() {
        let tests = Tests::passed(2);
        let tap =
            "ok 1 - fine\n  ---\n  ...\nnot ok 2 - broken\n  ---\n  error: it broke\n  ...\nok 3 - fine\n# pass 2\n";
        assert_eq!(Count::Tap.excerpt(tap, tests, true), "not ok 2 - broken\n  ---\n  error: it broke\n  ...");
        assert_eq!(Count::Tap.excerpt(tap, tests, false), "2 cases passed");
        assert_eq!(Count::Tap.excerpt("node: bad option\n", tests, true), "node: bad option");
        assert_eq!(Count::Go.excerpt("=== RUN A\n--- PASS: A\n--- FAIL: B\n", tests, true), "--- FAIL: B");
        assert_eq!(Count::Surefire("").excerpt("broken\n  at A.b\n", tests, true), "broken");
        assert_eq!(Count::Pytest.excerpt("..\n2 passed in 1s\n", tests, false), "2 passed in 1s");
        assert_eq!(Count::Pytest.excerpt(".F\n1 failed\n", tests, true), ".F\n1 failed");
    }
}
