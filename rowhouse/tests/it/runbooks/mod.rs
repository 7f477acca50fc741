//! Executes pages of the documentation as an operator does: every command, as printed and in order, with its exit code.
//!
//! A test of a page names each of its commands by the beginning. It fails when it reaches another command or the page
//! has more, so a new command on a page is either executed or skipped with a reason. Only the words in a table differ
//! from the page: hosts, ports, folders, names and times.

mod backup;
mod pages;
mod servers;
mod standby;

use crate::PROGRAM;
use crate::documents::command_lines::{blocks, invocations};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use test_support::{ReservedPort, Server};

/// The pages in `docs` that are executed here.
const EXECUTED: [&str; 18] = [
    "analytics.md",
    "backup.md",
    "change-feed.md",
    "commands.md",
    "copy.md",
    "explorer.md",
    "export.md",
    "extensions.md",
    "getting-started.md",
    "installing.md",
    "moving-between-azure-tables-and-cosmos.md",
    "observability.md",
    "rehearsing.md",
    "security.md",
    "standby.md",
    "test-controls.md",
    "testing-with-rowhouse.md",
    "throttling.md",
];

/// The other pages with commands, and the reason why they are not executed here.
const ELSEWHERE: [(&str, &str); 8] = [
    ("azurite.md", "`scripts/test_packages.sh` and the suites of the emulator run them"),
    ("client.md", "the test of the example `quickstart` runs it"),
    ("compatibility.md", "it runs the conformance suites"),
    ("from-one-machine-to-a-cluster.md", "`citus::guide` executes it, because it needs a cluster"),
    ("patterns.md", "the example updates its own page"),
    ("reliability.md", "it takes days"),
    ("reverse-proxies.md", "`black_box::proxies` starts such a server behind nginx"),
    ("scaling.md", "`database_recovery` executes the procedures, because they need database servers"),
];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Returns the commands of a page, each with the number of the first line of its block. A command that continues on
/// the next line is one.
fn commands(page: &str) -> VecDeque<(usize, String)> {
    let text = std::fs::read_to_string(docs().join(page)).unwrap();
    let mut commands = VecDeque::new();
    for (language, line, block) in blocks(&text) {
        // A note for tests may follow.
        if !language.split(' ').next().is_some_and(|language| ["sh", "bash", "console"].contains(&language)) {
            continue;
        }
        let mut command = String::new();
        for text in block.lines().map(str::trim_start).filter(|text| !text.is_empty() && !text.starts_with('#')) {
            command.push_str(text);
            command.push('\n');
            if !text.ends_with('\\') {
                commands.push_back((line, std::mem::take(&mut command)));
            }
        }
        assert!(command.is_empty(), "docs/{page}:{line}: the last command is incomplete");
    }
    commands
}

/// A page, and the folder in which its commands run. Folders of the system, such as `/var/lib`, are in there, too.
struct Runbook {
    page: &'static str,
    commands: VecDeque<(usize, String)>,
    folder: tempfile::TempDir,
    /// Words of the page, and what replaces them.
    words: Vec<(String, String)>,
    used: BTreeSet<String>,
    /// Where servers listen unless the page says where.
    listen: String,
    environment: Vec<(&'static str, String)>,
    _port: ReservedPort,
}

/// A command that runs until it is stopped. Dropping it kills the process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Runbook {
    /// Opens a page at its first command. Each of the words must be in an executed command.
    fn open(page: &'static str, words: &[(&str, &str)]) -> Self {
        let (port, folder) = (ReservedPort::new(), tempfile::tempdir().unwrap());
        for path in ["var/lib", "mnt/backup", "etc/rowhouse", "usr/share/bash-completion/completions"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let words = words.iter().map(|(word, other)| ((*word).to_owned(), (*other).to_owned())).collect();
        let (listen, environment) = (port.address(), Vec::new());
        let commands = commands(page);
        Self { page, commands, folder, words, used: BTreeSet::new(), listen, environment, _port: port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&mut self, variable: &'static str, value: &str) {
        self.environment.push((variable, value.to_owned()));
    }

    /// Replaces a word from here on.
    fn replace(&mut self, word: &str, other: &str) {
        self.words.push((word.to_owned(), other.to_owned()));
    }

    /// Returns the next command of the page, which must begin as given.
    fn next(&mut self, beginning: &str) -> String {
        let Some((line, command)) = self.commands.pop_front() else {
            panic!("docs/{}: the page ends before '{beginning}'", self.page);
        };
        let page = self.page;
        assert!(
            command.starts_with(beginning),
            "docs/{page}:{line}: the test expects '{beginning}', but the page continues with '{command}'; let the test \
             execute this command, or skip it with a reason"
        );
        command
    }

    fn adapted(&mut self, command: &str) -> String {
        let mut command = command.to_owned();
        for (word, other) in &self.words {
            if command.contains(word.as_str()) {
                command = command.replace(word, other);
                self.used.insert(word.clone());
            }
        }
        let root = self.folder.path().to_str().unwrap();
        for folder in ["/var/lib/", "/mnt/", "/etc/", "/usr/"] {
            command = command.replace(folder, &format!("{root}{folder}"));
        }
        command.replace("127.0.0.1:10002", &self.listen)
    }

    fn shell(&mut self, command: &str) -> Command {
        let programs = Path::new(PROGRAM.path()).parent().unwrap().to_str().unwrap();
        let command = self.adapted(command);
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-c", &command]).current_dir(self.folder.path()).env_clear();
        shell.env("PATH", format!("{programs}:/usr/bin:/bin")).env("HOME", self.folder.path());
        shell.env("ROWHOUSE_LISTEN", &self.listen).envs(self.environment.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// Executes the next command of the page, and returns its standard output. Panics unless the exit code is the given
    /// one.
    fn run(&mut self, code: i32, beginning: &str) -> String {
        let command = self.next(beginning);
        self.run_own(code, &command)
    }

    /// Starts the server of the next command of the page, and waits until it is ready.
    fn start(&mut self, beginning: &str) -> Server {
        let command = self.next(beginning);
        self.start_own(&command)
    }

    /// Starts the next command of the page, which runs until it is stopped.
    fn start_running(&mut self, beginning: &str) -> Running {
        let command = format!("exec env {}", self.next(beginning));
        let mut shell = self.shell(&command);
        Running(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Does not execute the next command of the page.
    fn skip(&mut self, beginning: &str, reason: &str) {
        let command = self.next(beginning);
        println!("docs/{}: {} is not executed: {reason}", self.page, command.trim_end());
    }

    /// Executes a command that is not on the page, such as one that the text describes.
    fn run_own(&mut self, code: i32, command: &str) -> String {
        let Output { status, stdout, stderr } = self.shell(command).output().unwrap();
        let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert_eq!(status.code(), Some(code), "docs/{}: {command}{stdout}{stderr}", self.page);
        stdout
    }

    /// Starts a server as a command that is not on the page.
    fn start_own(&mut self, command: &str) -> Server {
        let mut shell = self.shell(&format!("exec env {command}"));
        Server::spawn(&mut shell, false)
    }

    /// Checks that the test reached the end of the page.
    fn end(self) {
        let Self { page, commands, words, used, .. } = self;
        assert!(commands.is_empty(), "docs/{page}: the test neither executes nor skips {commands:?}");
        for (word, _) in words {
            assert!(used.contains(&word), "docs/{page}: no command contains '{word}'");
        }
    }
}

fn stop(server: Server) {
    let (status, log) = server.stop();
    assert!(status.success(), "{log:?}");
}

#[test]
fn every_page_with_commands_is_executed_or_says_why_not() {
    let pages = std::fs::read_dir(docs()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = pages.filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "md"));
    let with_commands: BTreeSet<_> = pages.filter(|page| !commands(page).is_empty()).collect();
    let decided = EXECUTED.into_iter().chain(ELSEWHERE.map(|(page, _)| page)).map(str::to_owned).collect();
    assert_eq!(with_commands, decided);
}

/// Returns true if a command occupies its terminal until it is stopped.
fn runs_until_stopped(command: &str) -> bool {
    invocations(command).iter().filter(|found| !found.is_container).any(|found| {
        let has = |option: &str| found.words.iter().any(|word| word == option);
        match found.words.first().map(String::as_str) {
            Some("serve" | "standby" | "azurite") => true,
            Some("follow") => !has("--until-end"),
            Some("backup") => has("--follow"),
            _ => false,
        }
    })
}

#[test]
fn no_command_is_pasted_behind_one_that_runs_until_it_is_stopped() {
    let pages = EXECUTED.into_iter().chain(ELSEWHERE.map(|(page, _)| page)).chain(["../README.md"]);
    for page in pages {
        let commands = commands(page);
        for ((line, command), (next, behind)) in commands.iter().zip(commands.iter().skip(1)) {
            assert!(
                line != next || !runs_until_stopped(command),
                "docs/{page}:{line}: '{behind}' must be in another block, because '{command}' does not end"
            );
        }
    }
    assert!(runs_until_stopped("cargo run -- serve") && runs_until_stopped("rowhouse follow | jq"));
    assert!(
        !runs_until_stopped("rowhouse follow --until-end") && !runs_until_stopped("rowhouse backup --data d --to t")
    );
}
