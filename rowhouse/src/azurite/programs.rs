//! The emulator's programs for blobs and queues: where they are, how they start, and how they stop.
//!
//! Each gets a pipe as its standard input, and code for Node.js that closes its service in order when the pipe ends. So a program
//! stops in the same way when it is asked to and when this process is gone, even by SIGKILL, without unsafe code and on every
//! system. It is in a process group of its own: Ctrl-C reaches this process alone, which stops the programs.
//!
//! This module must not know what their options mean.

use super::ACCOUNTS_VARIABLE;
use crate::serve::print_at_once;
use anyhow::{Context, bail};
use platform::files::{is_program, script_name};
use platform::process::begin_own_group;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// The options of Node.js for every program that it runs.
const NODE_OPTIONS: &str = "NODE_OPTIONS";
/// Closes the service when standard input ends, as SIGTERM does; before there is a service it ends at once. That nobody reads its
/// output then must not end it before it has written its data. A space would end the option.
const STOP_WITH_INPUT: &str = "--import=data:text/javascript,process.stdout.on('error',()=>0);\
    process.stdin.on('end',()=>process.emit('SIGTERM')||process.exit()).resume()";
/// How long a program may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(120);
/// How long the programs may take to stop before they are killed.
const STOP_TIME_MAX: Duration = Duration::from_secs(10);

/// A program of the emulator.
#[derive(Debug)]
pub(super) struct Program {
    /// The service as the program calls it in its lines.
    title: &'static str,
    service: &'static str,
    name: &'static str,
    /// Where it is; `None` if it is not installed.
    path: Option<PathBuf>,
    args: Vec<OsString>,
}

impl Program {
    /// The program for blobs, with these options.
    pub(super) fn blob(args: Vec<OsString>) -> Self {
        Self { title: "Blob", service: "blobs", name: "azurite-blob", path: find("azurite-blob"), args }
    }

    /// The program for queues, with these options.
    pub(super) fn queue(args: Vec<OsString>) -> Self {
        Self { title: "Queue", service: "queues", name: "azurite-queue", path: find("azurite-queue"), args }
    }

    pub(super) fn is_installed(&self) -> bool {
        self.path.is_some()
    }

    /// What it serves.
    pub(super) fn service(&self) -> &'static str {
        self.service
    }

    /// The name of its file.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn start(&self, accounts: Option<&str>) -> anyhow::Result<Running> {
        let path = self.path.as_deref().context("the program is not installed")?;
        let mut options = env::var_os(NODE_OPTIONS).unwrap_or_default();
        if !options.is_empty() {
            options.push(" ");
        }
        options.push(STOP_WITH_INPUT);
        let mut command = Command::new(path);
        command
            .args(&self.args)
            .env(NODE_OPTIONS, options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command.envs(accounts.map(|accounts| (ACCOUNTS_VARIABLE, accounts)));
        begin_own_group(command.as_std_mut());
        let mut child = command.spawn().with_context(|| format!("starting {}", path.display()))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the program has no standard output")?;
        Ok(Running { title: self.title, service: self.service, child, input, lines: BufReader::new(output).lines() })
    }
}

/// Finds a program in PATH, or else among the packages of the current folder or of one above it, where npm installs them.
fn find(name: &str) -> Option<PathBuf> {
    let in_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let current = env::current_dir().unwrap_or_default();
    let in_packages = current.ancestors().map(|folder| folder.join("node_modules").join(".bin"));
    let file = script_name(name);
    in_path.into_iter().chain(in_packages).map(|folder| folder.join(&file)).find(|path| is_program(path))
}

/// A program that was started.
struct Running {
    title: &'static str,
    service: &'static str,
    child: Child,
    /// The program stops when it is dropped.
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A program that ended, although nobody asked it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    /// What it served.
    pub(super) service: &'static str,
    /// The exit code for this process.
    pub(super) code: u8,
}

impl Ended {
    fn new(service: &'static str, status: Option<ExitStatus>) -> Self {
        let code = status.and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok());
        Self { service, code: code.filter(|code| *code != 0).unwrap_or(1) }
    }
}

/// The programs that run beside the server.
pub(super) struct Programs {
    found: Vec<Program>,
    /// That of their addresses.
    scheme: &'static str,
    /// Names and keys of accounts; the programs have the development account if it is `None`.
    accounts: Option<String>,
    inputs: Vec<ChildStdin>,
    /// Ends of programs that were started; the channel closes after the last one.
    ends: Option<mpsc::Receiver<Ended>>,
    ended: Option<Ended>,
}

impl Programs {
    pub(super) fn new(found: Vec<Program>, scheme: &'static str, accounts: Option<String>) -> Self {
        Self { found, scheme, accounts, inputs: Vec::new(), ends: None, ended: None }
    }

    /// Starts all and waits until each of them listens. Their lines come in the order of the programs, although all start at once.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let (sender, ends) = mpsc::channel(self.found.len().max(1));
        let mut running: Vec<_> =
            self.found.iter().map(|program| program.start(self.accounts.as_deref())).collect::<anyhow::Result<_>>()?;
        let latest = Instant::now() + START_TIME_MAX;
        for program in &mut running {
            if let Err(ended) = program.until_listening(self.scheme, latest).await? {
                self.ended = Some(ended);
                bail!("the emulator's program for {} ended before it listened", ended.service);
            }
        }
        for mut program in running {
            self.inputs.extend(program.input.take());
            tokio::spawn(program.until_end(sender.clone()));
        }
        self.ends = Some(ends);
        Ok(())
    }

    /// Completes when a program ends, or never.
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

    /// Asks all to stop.
    pub(super) fn stop(&mut self) {
        self.inputs.clear();
    }

    /// Completes when all have ended. Those that take too long are killed with the runtime.
    pub(super) async fn all_ended(&mut self) {
        if let Some(ends) = &mut self.ends {
            let latest = Instant::now() + STOP_TIME_MAX;
            while let Ok(Some(_)) = timeout_at(latest, ends.recv()).await {}
        }
    }

    /// The program whose end nobody asked for.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended
    }
}

impl Running {
    /// Prints the program's lines up to the one which says that it listens. The inner error is its end.
    async fn until_listening(&mut self, scheme: &str, latest: Instant) -> anyhow::Result<Result<(), Ended>> {
        loop {
            let line = timeout_at(latest, self.lines.next_line()).await;
            let line = line.with_context(|| {
                format!(
                    "the emulator's program for {} does not listen after {} s",
                    self.service,
                    START_TIME_MAX.as_secs()
                )
            })?;
            // Text that is not UTF-8 ends the lines, too; the program then stops with its input.
            let Ok(Some(line)) = line else {
                self.input = None;
                let status = timeout(STOP_TIME_MAX, self.child.wait()).await;
                return Ok(Err(Ended::new(self.service, status.ok().and_then(Result::ok))));
            };
            let (line, listens) = as_of_the_emulator(self.title, scheme, line);
            print_at_once(&format!("{line}\n"))?;
            if listens {
                return Ok(Ok(()));
            }
        }
    }

    /// Prints the program's lines, and sends its end.
    async fn until_end(mut self, ends: mpsc::Sender<Ended>) {
        while let Ok(Some(line)) = self.lines.next_line().await {
            // It goes on when nobody reads what it prints.
            let _printed = print_at_once(&format!("{line}\n"));
        }
        let status = self.child.wait().await.ok();
        // If nobody receives it, this process ends, too.
        let _sent = ends.send(Ended::new(self.service, status)).await;
    }
}

/// A line of a program that runs alone as the emulator prints it for the same service, and whether the service listens now.
///
/// Alone it says "is starting on HOST:PORT" and "successfully listens on URL".
fn as_of_the_emulator(title: &str, scheme: &str, line: String) -> (String, bool) {
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
            assert_eq!(as_of_the_emulator("Blob", "https", line.to_owned()), (expected.to_owned(), listens));
        }
    }
}
