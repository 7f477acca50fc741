//! Runs the test programs of the workspace, as `cargo test` does, with two differences: a test that does not end is
//! named and stopped, and the time of each test is kept.
//!
//! The test runner of Rust reports the beginning and the end of each test as JSON. This is unstable, so it asks for an
//! environment variable, which does not change what the tests do. (cargo-nextest does the same with a process for each
//! test, but takes minutes to install, and the tests of an engine share a database server within their process.)

use crate::console;
use crate::count::Tests;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The time after which a test counts as hanging.
const TEST_TIME_MAX: Duration = Duration::from_mins(10);

/// The interval at which the times of running tests are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The messages of `cargo test --no-run --message-format=json`, which name the test programs
    messages: PathBuf,
    /// The file for the time of each test
    times: PathBuf,
    /// Run only these programs: the folder of their package, a slash, and the target, such as rowhouse/it
    #[arg(long)]
    only: Vec<String>,
    /// Run all programs but these
    #[arg(long, conflicts_with = "only")]
    except: Vec<String>,
}

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    /// The folder of the package and the target, such as "rowhouse/it".
    name: String,
    /// The folder of the package, in which its tests run.
    folder: PathBuf,
    executable: PathBuf,
}

/// Returns the test program that a message of Cargo announces.
fn program(message: &Value) -> Option<Program> {
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    let executable = message.get("executable")?.as_str().filter(|_| is_test)?.into();
    let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    let target = message.pointer("/target/name")?.as_str()?;
    let kind = message.pointer("/target/kind/0")?.as_str()?;
    // A library and a program can have the same name.
    let target = if kind == "test" || kind == "example" { target } else { kind };
    Some(Program { name: format!("{}/{target}", folder.file_name()?.display()), folder, executable })
}

/// Runs the selected programs, and prints what failed and the line that counts the tests.
pub(crate) fn run(args: &RunArgs) -> Result<bool> {
    let messages =
        fs::read_to_string(&args.messages).with_context(|| format!("reading {}", args.messages.display()))?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let all: Vec<_> = messages.filter_map(|message| program(&message)).collect();
    if let Some(unknown) = args.only.iter().chain(&args.except).find(|name| all.iter().all(|one| one.name != **name)) {
        bail!("there is no test program {unknown}");
    }
    let is_selected = |program: &&Program| {
        let is_named = |names: &[String]| names.contains(&program.name);
        if args.only.is_empty() { !is_named(&args.except) } else { is_named(&args.only) }
    };
    let mut report = Report::default();
    let libraries = library_path()?;
    for program in all.iter().filter(is_selected) {
        report.add(program, run_program(program, &libraries));
    }
    fs::write(&args.times, report.times()).with_context(|| format!("writing {}", args.times.display()))?;
    for failure in &report.failures {
        console::line(&format!("\n{failure}"));
    }
    console::line(&format!("\n{}", report.tests));
    Ok(report.tests.failed == 0)
}

/// The variable with the folders of shared libraries.
const LIBRARY_PATH: &str = if cfg!(windows) {
    "PATH"
} else if cfg!(target_os = "macos") {
    "DYLD_FALLBACK_LIBRARY_PATH"
} else {
    "LD_LIBRARY_PATH"
};

/// Returns the value of [`LIBRARY_PATH`] for test programs. The tests of a macro need the libraries of the compiler.
fn library_path() -> Result<OsString> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output().context("starting rustc")?;
    let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let earlier = std::env::var_os(LIBRARY_PATH).unwrap_or_default();
    // An empty folder would stand for the current one.
    let earlier = std::env::split_paths(&earlier).filter(|folder| !folder.as_os_str().is_empty());
    let folders = std::iter::once(folder).chain(earlier);
    Ok(std::env::join_paths(folders)?)
}

/// What a program reported.
#[derive(Debug, Default)]
struct Ran {
    tests: Tests,
    /// Each test with its time in seconds.
    times: Vec<(String, f64)>,
    failures: Vec<String>,
    running: BTreeMap<String, Instant>,
}

#[derive(Debug, Default)]
struct Report {
    tests: Tests,
    times: Vec<(String, f64)>,
    failures: Vec<String>,
}

impl Report {
    fn add(&mut self, program: &Program, ran: Result<Ran>) {
        let name = &program.name;
        match ran {
            Ok(ran) => {
                let time: f64 = ran.times.iter().map(|(_, time)| time).sum();
                console::line(&format!("{name}: {} (the tests took {time:.1} s)", ran.tests));
                self.tests += ran.tests;
                self.times.extend(ran.times.into_iter().map(|(test, time)| (format!("{name}: {test}"), time)));
                self.failures.extend(ran.failures.into_iter().map(|failure| format!("{name}: {failure}")));
            }
            Err(error) => {
                self.tests.failed += 1;
                self.failures.push(format!("{name}: {error:#}"));
            }
        }
    }

    fn times(&self) -> String {
        let lines: Vec<_> = self.times.iter().map(|(test, time)| format!("{time:.3} {test}")).collect();
        lines.join("\n")
    }
}

fn run_program(program: &Program, libraries: &OsStr) -> Result<Ran> {
    let mut command = Command::new(&program.executable);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env(LIBRARY_PATH, libraries).env("RUSTC_BOOTSTRAP", "1");
    command.args(["-Zunstable-options", "--format=json", "--report-time"]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting the program")?;
    let output = child.stdout.take().context("the program has no output")?;
    let (sender, lines) = mpsc::channel();
    // Ends with the output, which may be after the program: a process that a test has left behind can keep it open.
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut ran = Ran::default();
    let mut has_ended = false;
    loop {
        match lines.recv_timeout(CHECK_INTERVAL) {
            Ok(line) => has_ended |= ran.read(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if has_ended => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(hanging) = ran.hanging(Instant::now()) {
            child.kill()?;
            ran.fail(format!(
                "{hanging} has not ended after {} s, so its program was stopped",
                TEST_TIME_MAX.as_secs()
            ));
            break;
        }
    }
    let status = child.wait()?;
    if !status.success() && ran.failures.is_empty() {
        let running: Vec<_> = ran.running.keys().map(String::as_str).collect();
        ran.fail(format!("the program ended early ({status}) while these tests ran: {}", running.join(", ")));
    }
    Ok(ran)
}

impl Ran {
    fn fail(&mut self, failure: String) {
        self.tests.failed += 1;
        self.failures.push(failure);
    }

    /// Returns a test that has run for too long.
    fn hanging(&self, now: Instant) -> Option<&str> {
        let is_hanging = |began: &Instant| now.duration_since(*began) > TEST_TIME_MAX;
        self.running.iter().find(|(_, began)| is_hanging(began)).map(|(name, _)| name.as_str())
    }

    /// Reads a line of the program's output. Returns true if it says that all tests have ended.
    fn read(&mut self, line: &str) -> bool {
        let message = serde_json::from_str(line).unwrap_or(Value::Null);
        let text = |name| message.get(name).and_then(Value::as_str);
        let (Some(kind), Some(event)) = (text("type"), text("event")) else {
            // A test or its processes wrote this.
            console::line(line);
            return false;
        };
        if kind != "test" {
            return kind == "suite" && event != "started";
        }
        let name = text("name").unwrap_or_default().to_owned();
        if event == "started" {
            self.running.insert(name, Instant::now());
            return false;
        }
        // The runner mentions tests that take more than a minute.
        if event == "timeout" {
            return false;
        }
        self.running.remove(&name);
        let time = message.get("exec_time").and_then(Value::as_f64).unwrap_or_default();
        match event {
            "ok" => self.tests.passed += 1,
            "ignored" => self.tests.skipped += 1,
            _ => self.fail(format!(
                "{name} FAILED\n{}{}",
                text("message").unwrap_or_default(),
                text("stdout").unwrap_or_default()
            )),
        }
        self.times.push((name, time));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_the_messages_of_cargo() {
        let message = |kind: &str, is_test: bool| {
            let text = format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/a/wire/Cargo.toml\",\"target\":{{\"kind\":[\"{kind}\"],\
                 \"name\":\"wire_it\"}},\"profile\":{{\"test\":{is_test}}},\"executable\":\"/a/target/wire-1\"}}"
            );
            program(&serde_json::from_str(&text).unwrap())
        };
        let expected = |name: &str| Program {
            name: name.to_owned(),
            folder: "/a/wire".into(),
            executable: "/a/target/wire-1".into(),
        };
        assert_eq!(message("test", true), Some(expected("wire/wire_it")));
        assert_eq!(message("lib", true), Some(expected("wire/lib")));
        assert_eq!(message("bin", false), None);
    }

    #[test]
    fn results_are_read_and_a_hanging_test_is_named() {
        let mut ran = Ran::default();
        for line in [
            r#"{ "type": "suite", "event": "started", "test_count": 3 }"#,
            r#"{ "type": "test", "event": "started", "name": "a::one" }"#,
            r#"{ "type": "test", "event": "started", "name": "a::two" }"#,
            r#"{ "type": "test", "event": "started", "name": "a::three" }"#,
            r#"{ "type": "test", "name": "a::one", "event": "ok", "exec_time": 0.25 }"#,
            r#"{ "type": "test", "name": "a::two", "event": "timeout" }"#,
            r#"{ "type": "test", "name": "a::two", "event": "failed", "exec_time": 1.5, "stdout": "it broke\n" }"#,
            r#"{ "type": "test", "name": "a::four", "event": "ignored" }"#,
        ] {
            assert!(!ran.read(line), "{line}");
        }
        assert_eq!(ran.tests, Tests { passed: 1, failed: 1, skipped: 1 });
        assert_eq!(ran.failures, ["a::two FAILED\nit broke\n"]);
        let now = Instant::now();
        assert_eq!(ran.hanging(now), None);
        assert_eq!(ran.hanging(now + TEST_TIME_MAX + CHECK_INTERVAL), Some("a::three"));
        assert!(ran.read(r#"{ "type": "suite", "event": "failed", "passed": 1, "failed": 1 }"#));
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_ends_early_has_failed() {
        let program = Program { name: "a/b".to_owned(), folder: "/".into(), executable: "/bin/false".into() };
        let ran = run_program(&program, OsStr::new("")).unwrap();
        assert_eq!(ran.tests.failed, 1);
        assert!(ran.failures[0].contains("ended early"), "{:?}", ran.failures);
    }
}
