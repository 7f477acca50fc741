//! Runs one step: checks its tools, installs packages, starts its database and its server, runs its commands, and
//! counts their results.

use crate::count::Tests;
use crate::process;
use crate::service::{RunningDatabase, RunningServer};
use crate::step::{Count, Install, Line, Step, Tool};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Held during an installation, because steps may need the same packages.
static INSTALLING: Mutex<()> = Mutex::new(());

/// The result of a step.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tests: Tests,
    /// Why the step failed.
    pub(crate) failure: Option<String>,
    /// What is shown after the step, unless its output was shown while it ran.
    pub(crate) output: String,
}

/// How a step runs.
pub(crate) struct Mode<'m> {
    pub(crate) is_live: bool,
    /// Whether a missing tool is an error.
    pub(crate) is_ci: bool,
    /// Returns true once another step has failed.
    pub(crate) stopped: &'m dyn Fn() -> bool,
}

pub(crate) fn run(step: &Step, workspace: &Workspace, mode: &Mode<'_>) -> Outcome {
    if let Some(outcome) = missing_tool(step, mode.is_ci, |tool| workspace.has(tool)) {
        return outcome;
    }
    let mut run = Run { step, workspace, mode, values: Vec::new(), commands: 0 };
    let result = run.all();
    let output = fs::read_to_string(run.file("log")).unwrap_or_default();
    let counted = run.report().and_then(|report| step.count.tests(&output, run.commands, report.as_deref()));
    // If a command failed, its report may be missing, too.
    let result = result.and_then(|()| match &counted {
        Err(error) => bail!("{error:#}"),
        Ok(Tests { failed: 1.., .. }) => bail!("tests failed"),
        Ok(Tests { passed: 0, skipped: 0, .. }) if step.count.is_of_suite() => bail!("no test ran"),
        Ok(_) => Ok(()),
    });
    let mut tests = counted.unwrap_or_default();
    let failure = result.err().map(|error| format!("{error:#}"));
    if failure.is_some() {
        tests.failed = tests.failed.max(1);
    } else {
        // The data of a failed step is kept.
        let _ = fs::remove_dir_all(run.file("data"));
    }
    let output = step.count.excerpt(&output, tests, failure.is_some());
    Outcome { tests, failure, output }
}

/// Returns the outcome of a step that cannot run because a tool is missing.
fn missing_tool(step: &Step, is_ci: bool, has: impl Fn(&Tool) -> bool) -> Option<Outcome> {
    // Without an optional tool, the others do not matter.
    let (required, optional): (Vec<_>, Vec<_>) = step.tools.iter().partition(|tool| tool.is_required);
    let tool = optional.into_iter().chain(required).find(|tool| !has(tool))?;
    let name = format!("{} ({})", tool.name, tool.hint);
    Some(if !tool.is_required {
        let output = format!("not run, because this is not installed: {name}");
        Outcome { tests: Tests::default(), failure: None, output }
    } else if is_ci {
        Outcome { tests: Tests::default(), failure: Some(format!("missing: {name}")), output: String::new() }
    } else {
        let output = format!("SKIPPED, because this is missing: {name}");
        Outcome { tests: Tests::SKIPPED, failure: None, output }
    })
}

struct Run<'r> {
    step: &'r Step,
    workspace: &'r Workspace,
    mode: &'r Mode<'r>,
    /// The placeholders of this step that have a value, each without its braces.
    values: Vec<(&'static str, String)>,
    /// The number of commands that succeeded.
    commands: u64,
}

impl Run<'_> {
    fn all(&mut self) -> Result<()> {
        let scratch = &self.workspace.scratch;
        fs::create_dir_all(self.file(""))?;
        fs::create_dir_all(scratch.join("results"))?;
        let port = reserve_port()?;
        self.values = vec![
            ("name", self.step.name.to_owned()),
            ("program", path(&self.workspace.program)),
            ("target", path(&self.workspace.target)),
            ("xtask", path(&std::env::current_exe()?)),
            ("results", path(&scratch.join("results"))),
            ("data", path(&self.file("data"))),
            ("port", port.local_addr()?.port().to_string()),
        ];
        for install in &self.step.installs {
            self.install(*install)?;
        }
        // Dropped after the server.
        let database = match self.step.database {
            Some(database) => Some(RunningDatabase::start(database, self.workspace, &self.file("database.log"))?),
            None => None,
        };
        if let Some(database) = &database {
            self.values.push(("store", database.url.clone()));
        }
        if let Some(server) = self.step.server {
            let line = Line { folder: ".", text: server.line, is_shell: false };
            let running = RunningServer::start(server, &self.command(&line)?, &self.file("server.log"))?;
            self.values.push(("endpoint", running.endpoint.clone()));
            self.commands()?;
            return running.stop();
        }
        self.commands()
    }

    fn commands(&mut self) -> Result<()> {
        for line in &self.step.commands {
            self.execute(&self.command(line)?)?;
            self.commands += 1;
        }
        Ok(())
    }

    /// Runs a command to its end. Its output belongs to the step.
    fn execute(&self, command: &Command) -> Result<()> {
        let succeeded = process::run(command, &self.file("log"), self.mode.is_live, self.mode.stopped)?;
        if (self.mode.stopped)() {
            bail!("stopped, because another step failed");
        }
        ensure!(succeeded, "this command failed: {}", display(command));
        Ok(())
    }

    /// Returns the report from which the tests are counted.
    fn report(&self) -> Result<Option<PathBuf>> {
        let Count::Junit(report) = self.step.count else { return Ok(None) };
        Ok(Some(self.workspace.root.join(expand(report, |name| self.value(name))?)))
    }

    /// Returns a file of this step.
    fn file(&self, name: &str) -> PathBuf {
        self.workspace.scratch.join(self.step.name).join(name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn command(&self, line: &Line) -> Result<Command> {
        let mut command = if line.is_shell {
            self.workspace.shell(&expand(line.text, |name| self.value(name))?, line.folder)
        } else {
            let mut words = line.text.split(' ').map(|word| expand(word, |name| self.value(name)));
            let program = words.next().context("a step has an empty command")??;
            // A script is named relative to the repository.
            let mut command = self.workspace.command(&program, line.folder);
            command.args(words.collect::<Result<Vec<_>>>()?);
            command
        };
        let endpoint = self.value("endpoint");
        if self.step.server.is_some() && endpoint.is_none() {
            // This is the server, which must not see the variables of its clients.
            return Ok(command);
        }
        command.env("ROWHOUSE_BINARY", &self.workspace.program);
        if let Some(endpoint) = endpoint {
            command.env("TABLES_ENDPOINT", endpoint);
        }
        for (name, value) in &self.step.environment {
            command.env(name, expand(value, |name| self.value(name))?);
        }
        Ok(command)
    }

    fn install(&mut self, install: Install) -> Result<()> {
        let _guard = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        let root = &self.workspace.root;
        match install {
            Install::Python { home, requirements } => {
                let (wanted, installed) = (root.join(requirements), root.join(home).join("requirements.txt"));
                let python = path(&root.join(home).join("bin/python"));
                if !is_same(&wanted, &installed) {
                    let mut create = self.workspace.command("python3", ".");
                    create.args(["-m", "venv", "--clear", home]);
                    self.execute(&create)?;
                    let mut pip = self.workspace.command(&python, ".");
                    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
                    pip.args(["--requirement", requirements]);
                    self.execute(&pip)?;
                    fs::copy(wanted, installed)?;
                }
                self.values.push(("python", python));
            }
            Install::Npm(folder) => {
                let wanted = root.join(folder).join("package-lock.json");
                let installed = root.join(folder).join("node_modules/installed-lock.json");
                if !is_same(&wanted, &installed) {
                    let mut npm = self.workspace.command("npm", folder);
                    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
                    self.execute(&npm)?;
                    fs::copy(wanted, installed)?;
                }
            }
        }
        Ok(())
    }
}

/// Reserves a free port. No other test gets it while the socket is open: all of them reserve ports as
/// `test-support/src/port.rs` does. A port that the system chooses might be in use again before the server starts.
fn reserve_port() -> Result<UdpSocket> {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (12_000..20_000)
        .find_map(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok().filter(|_| is_free(port)))
        .context("all ports for tests are in use")
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns true if two files exist and are equal.
fn is_same(first: &Path, second: &Path) -> bool {
    matches!((fs::read(first), fs::read(second)), (Ok(first), Ok(second)) if first == second)
}

fn display(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Replaces each placeholder, such as `{data}`, by its value.
fn expand<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> Result<String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        expanded.push_str(before);
        let placeholder = after.split_once('}').filter(|(name, _)| name.chars().all(|c| c.is_ascii_lowercase()));
        // Other braces belong to the shell.
        if let Some((name, following)) = placeholder.filter(|_| !before.ends_with('$')) {
            expanded.push_str(value(name).with_context(|| format!("{{{name}}} has no value here"))?);
            rest = following;
        } else {
            expanded.push('{');
            rest = after;
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let value = |name: &str| (name == "data").then_some("/a folder");
        assert_eq!(expand("--data {data} {data}/x", value).unwrap(), "--data /a folder /a folder/x");
        let shell = "f \"${FUZZ_SECONDS:-3}\" ${data} || { echo; exit 1; }";
        assert_eq!(expand(shell, value).unwrap(), shell);
        assert!(expand("{store}", value).unwrap_err().to_string().contains("{store}"));
    }

    #[test]
    fn a_missing_tool_is_an_error_in_ci_only() {
        let tool = |name, is_required| Tool { name, hint: "install it", probe: "", is_required };
        let step = Step::new("suite", "").needs(&[tool("Go", true), tool("recordings", false), tool("Python", true)]);
        let outcome = |is_ci, missing: &[&str]| missing_tool(&step, is_ci, |tool| !missing.contains(&tool.name));
        assert!(outcome(true, &[]).is_none());
        let skipped = outcome(false, &["Go"]).unwrap();
        assert_eq!((skipped.tests, skipped.failure), (Tests::SKIPPED, None));
        assert!(skipped.output.contains("Go"));
        assert_eq!(outcome(true, &["Python"]).unwrap().failure.unwrap(), "missing: Python (install it)");
        let optional = outcome(true, &["Go", "recordings"]).unwrap();
        assert_eq!((optional.tests, optional.failure), (Tests::default(), None));
    }
}
