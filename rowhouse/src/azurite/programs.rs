//! The emulator's programs for blobs and queues: where they are, how they start, and how they stop.
//!
//! Each program gets a pipe as its standard input, and code for Node.js that shuts down its service cleanly when the
//! pipe is closed. The program therefore stops in the same way whether it is told to or this process exits, even by
//! SIGKILL. This needs no unsafe code and works on every system. Each program has its own process group: Ctrl-C reaches
//! only this process, which stops the programs.
//!
//! This module must not know what the programs' options mean.

use super::ACCOUNTS_VARIABLE;
use crate::serve::print_and_flush;
use anyhow::{Context, bail};
use platform::files::script;
use platform::process::start_in_own_group;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

const NODE_OPTIONS: &str = "NODE_OPTIONS";
/// Shuts down the service when standard input is closed, as SIGTERM does; if there is no service yet, exits
/// immediately. The program must still write its data after the reader of its output has exited, so errors of standard
/// output are ignored. The code has no spaces, because a space would end the option.
const STOP_WITH_STDIN_OPTION: &str = "--import=data:text/javascript,process.stdout.on('error',()=>0);\
    process.stdin.on('end',()=>process.emit('SIGTERM')||process.exit()).resume()";
const START_TIME_MAX: Duration = Duration::from_mins(2);
/// The timeout for the programs to stop; then they are killed.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Program {
    title: &'static str,
    service: &'static str,
    name: &'static str,
    /// The path of the program; `None` if it is not installed.
    path: Option<PathBuf>,
    args: Vec<OsString>,
}

impl Program {
    pub(super) fn blob(args: Vec<OsString>) -> Self {
        Self { title: "Blob", service: "blobs", name: "azurite-blob", path: find("azurite-blob"), args }
    }

    pub(super) fn queue(args: Vec<OsString>) -> Self {
        Self { title: "Queue", service: "queues", name: "azurite-queue", path: find("azurite-queue"), args }
    }

    pub(super) fn is_installed(&self) -> bool {
        self.path.is_some()
    }

    pub(super) fn service(&self) -> &'static str {
        self.service
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn start(&self, accounts: Option<&str>) -> anyhow::Result<RunningProgram> {
        let path = self.path.as_deref().context("the program is not installed")?;
        let mut options = env::var_os(NODE_OPTIONS).unwrap_or_default();
        if !options.is_empty() {
            options.push(" ");
        }
        options.push(STOP_WITH_STDIN_OPTION);
        let mut command = Command::new(path);
        command
            .args(&self.args)
            .env(NODE_OPTIONS, options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command.envs(accounts.map(|accounts| (ACCOUNTS_VARIABLE, accounts)));
        start_in_own_group(command.as_std_mut());
        let mut child = command.spawn().with_context(|| format!("starting {}", path.display()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the program has no standard output")?;
        Ok(RunningProgram {
            title: self.title,
            service: self.service,
            child,
            input,
            lines: BufReader::new(output).lines(),
        })
    }
}

/// Finds a program in PATH, or else where npm installs it: among the packages of the current folder or of a parent
/// folder.
fn find(name: &str) -> Option<PathBuf> {
    let in_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let current = env::current_dir().unwrap_or_default();
    let in_packages = current.ancestors().map(|folder| folder.join("node_modules").join(".bin"));
    in_path.into_iter().chain(in_packages).find_map(|folder| script(&folder, name))
}

struct RunningProgram {
    title: &'static str,
    service: &'static str,
    child: Child,
    /// Dropping this stops the program.
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndedProgram {
    pub(super) service: &'static str,
    pub(super) code: u8,
}

impl EndedProgram {
    fn new(service: &'static str, status: Option<ExitStatus>) -> Self {
        let code = status.and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
        Self { service, code: code.filter(|code| *code != 0).unwrap_or(1) }
    }
}

pub(super) struct Programs {
    found: Vec<Program>,
    scheme: &'static str,
    /// Names and keys of accounts. With `None`, the programs use the development account.
    accounts: Option<String>,
    inputs: Vec<ChildStdin>,
    /// Receives the exits of started programs. Closed after the last exit.
    ends: Option<mpsc::Receiver<EndedProgram>>,
    ended: Option<EndedProgram>,
}

impl Programs {
    pub(super) fn new(found: Vec<Program>, scheme: &'static str, accounts: Option<String>) -> Self {
        Self { found, scheme, accounts, inputs: Vec::new(), ends: None, ended: None }
    }

    /// Starts all programs at the same time, and waits until each of them listens. Prints their output in program
    /// order.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let (sender, ends) = mpsc::channel(self.found.len().max(1));
        let mut running: Vec<_> =
            self.found.iter().map(|program| program.start(self.accounts.as_deref())).collect::<anyhow::Result<_>>()?;
        let latest = Instant::now() + START_TIME_MAX;
        for program in &mut running {
            if let Err(ended) = program.until_listening(self.scheme, latest).await? {
                self.ended = Some(ended);
                bail!("the emulator's program for {} exited before it listened on its port", ended.service);
            }
        }
        for mut program in running {
            self.inputs.extend(program.input.take());
            tokio::spawn(program.until_end(sender.clone()));
        }
        self.ends = Some(ends);
        Ok(())
    }

    /// Completes when a program exits. If none does, never completes.
    pub(super) async fn first_end(&mut self) {
        let end = match &mut self.ends {
            Some(ends) => ends.recv().await,
            None => None,
        };
        match end {
            Some(ended) => self.ended = Some(ended),
            None => std::future::pending().await,
        }
    }

    pub(super) fn stop(&mut self) {
        self.inputs.clear();
    }

    /// Completes when all programs have exited. Programs that take too long are killed with the runtime.
    pub(super) async fn all_ended(&mut self) {
        if let Some(ends) = &mut self.ends {
            let latest = Instant::now() + STOP_TIME_MAX;
            while let Ok(Some(_)) = timeout_at(latest, ends.recv()).await {}
        }
    }

    pub(super) fn ended(&self) -> Option<EndedProgram> {
        self.ended
    }
}

impl RunningProgram {
    /// Prints the program's lines up to the one that announces its service. The inner error means that the program
    /// exited.
    async fn until_listening(&mut self, scheme: &str, latest: Instant) -> anyhow::Result<Result<(), EndedProgram>> {
        loop {
            let line = timeout_at(latest, self.lines.next_line()).await;
            let line = line.with_context(|| {
                format!(
                    "the emulator's program for {} is not listening after {} s",
                    self.service,
                    START_TIME_MAX.as_secs()
                )
            })?;
            // Invalid UTF-8 also counts as the end of the output; the program then stops when its input is closed.
            let Ok(Some(line)) = line else {
                self.input = None;
                let status = timeout(STOP_TIME_MAX, self.child.wait()).await;
                return Ok(Err(EndedProgram::new(self.service, status.ok().and_then(Result::ok))));
            };
            let (line, listens) = to_emulator_line(self.title, scheme, line);
            print_and_flush(&format!("{line}\n"))?;
            if listens {
                return Ok(Ok(()));
            }
        }
    }

    async fn until_end(mut self, ends: mpsc::Sender<EndedProgram>) {
        while let Ok(Some(line)) = self.lines.next_line().await {
            // Writing blocks if the reader of standard output is slow, so it must not happen on a thread that serves
            // requests. It does not matter if there is no reader.
            let _printed = spawn_blocking(move || print_and_flush(&format!("{line}\n"))).await;
        }
        let status = self.child.wait().await.ok();
        // If there is no receiver, this process is exiting too.
        let _sent = ends.send(EndedProgram::new(self.service, status)).await;
    }
}

/// Converts a line from a separate program to the line that the emulator prints for the same service. Also returns
/// whether the service is now listening.
///
/// A separate program prints "is starting on HOST:PORT" and "successfully listens on URL".
fn to_emulator_line(title: &str, scheme: &str, line: String) -> (String, bool) {
    let rest = line.strip_prefix(&format!("Azurite {title} service "));
    if let Some(address) = rest.and_then(|rest| rest.strip_prefix("is starting on ")) {
        return (format!("Azurite {title} service is starting at {scheme}://{address}"), false);
    }
    match rest.and_then(|rest| rest.rsplit_once(' ')) {
        Some((words, url)) if words.starts_with("successfully") && url.contains("://") => {
            (format!("Azurite {title} service is successfully listening at {url}"), true)
        }
        _ => (line, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_programs_that_run_alone() {
        for (line, expected, listens) in [
            (
                "Azurite Blob service successfully listens on https://127.0.0.1:1",
                "Azurite Blob service is successfully listening at https://127.0.0.1:1",
                true,
            ),
            (
                "Azurite Blob service is starting on 127.0.0.1:1",
                "Azurite Blob service is starting at https://127.0.0.1:1",
                false,
            ),
            ("Azurite Queue service successfully listens on http://[::]:1", "", false),
            ("Azurite Blob service successfully closed", "", false),
            ("In-memory extent storage is enabled", "", false),
        ] {
            let expected = if expected.is_empty() { line } else { expected };
            assert_eq!(to_emulator_line("Blob", "https", line.to_owned()), (expected.to_owned(), listens));
        }
    }
}
