//! Processes that never outlive this program, even if it is killed.
//!
//! Each command runs below a guard: another process of this program, which stops the command and its children when its
//! standard input closes. The system closes it when this program ends, for whatever reason.

use crate::console;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The subcommand that runs a guard.
pub(crate) const GUARD: &str = "guard";

/// The interval at which a guard checks whether its command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time after which a command that was asked to stop is killed.
const STOP_TIME: Duration = Duration::from_secs(20);

/// A process that stops when its standard input closes: a guard, or a script that does the same.
#[derive(Debug)]
pub(crate) struct Guarded {
    child: Child,
    /// Open as long as the process may run.
    input: Option<ChildStdin>,
}

impl Guarded {
    /// Starts a command with a guard. Its output is appended to a file.
    pub(crate) fn start(command: &Command, log: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        let mut guard = Command::new(std::env::current_exe()?);
        guard.arg(GUARD).arg("--").arg(command.get_program()).args(command.get_args());
        copy_context(command, &mut guard);
        guard.stdout(file.try_clone()?).stderr(file);
        Self::spawn(guard)
    }

    /// Starts a program that stops when its standard input closes.
    pub(crate) fn spawn(mut command: Command) -> Result<Self> {
        in_own_group(&mut command);
        let mut child = command.stdin(Stdio::piped()).spawn().with_context(|| format!("starting {command:?}"))?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    pub(crate) fn input(&mut self) -> Option<&mut ChildStdin> {
        self.input.as_mut()
    }

    pub(crate) fn output(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns the exit status if the process has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Stops the process and waits until it has ended.
    pub(crate) fn stop(&mut self) -> Result<ExitStatus> {
        self.input = None;
        Ok(self.child.wait()?)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The status is of no interest here.
        let _ = self.stop();
    }
}

/// Copies the folder and the environment of a command.
fn copy_context(from: &Command, to: &mut Command) {
    if let Some(folder) = from.get_current_dir() {
        to.current_dir(folder);
    }
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// Prevents signals of the terminal from reaching a process: its standard input says when it must stop.
fn in_own_group(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Runs a guard: runs a command until it ends or until `input` closes, and returns its exit code.
pub(crate) fn guard(line: &[OsString], mut input: impl Read + Send + 'static) -> Result<u8> {
    let (program, arguments) = line.split_first().context("a guard needs a command")?;
    let mut command = Command::new(program);
    in_own_group(&mut command);
    let started = command.args(arguments).stdin(Stdio::null()).spawn();
    let mut child = started.with_context(|| format!("starting {}", program.display()))?;
    let (sender, closed) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = io::copy(&mut input, &mut io::sink());
        drop(sender);
    });
    while closed.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) && child.try_wait()?.is_none() {}
    if child.try_wait()?.is_none() {
        signal(&mut child, "TERM")?;
        let began = Instant::now();
        while child.try_wait()?.is_none() && began.elapsed() < STOP_TIME {
            thread::sleep(POLL_INTERVAL);
        }
    }
    // Also the children that the command has left behind.
    signal(&mut child, "KILL")?;
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(1))
}

/// Sends a signal to a process and its children. Systems without signals kill the process.
fn signal(child: &mut Child, name: &str) -> Result<()> {
    if cfg!(unix) {
        let group = format!("-{}", child.id());
        // Fails if no process is left.
        Command::new("kill").args(["-s", name, "--", &group]).stderr(Stdio::null()).status().context("running kill")?;
    } else if child.try_wait()?.is_none() {
        child.kill()?;
    }
    Ok(())
}

/// Runs a command to its end and returns whether it succeeded. Appends its output to a file, and shows it if `is_live`.
/// Stops the command when `is_stopped` returns true.
pub(crate) fn run(command: &Command, log: &Path, is_live: bool, is_stopped: impl Fn() -> bool) -> Result<bool> {
    let mut guarded = Guarded::start(command, log)?;
    let mut output = File::open(log)?;
    output.seek(io::SeekFrom::End(0))?;
    loop {
        let status = guarded.ended()?;
        if is_live {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes)?;
            console::raw(&bytes);
        }
        if let Some(status) = status {
            return Ok(status.success());
        }
        if is_stopped() {
            guarded.stop()?;
            return Ok(false);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a line of the shell below a guard whose input stays open as long as the returned writer.
    #[cfg(unix)]
    fn start_guard(line: &str) -> (io::PipeWriter, thread::JoinHandle<u8>) {
        let (reader, writer) = io::pipe().unwrap();
        let line: Vec<OsString> = ["sh", "-c", line].map(OsString::from).into();
        (writer, thread::spawn(move || guard(&line, reader).unwrap()))
    }

    #[cfg(unix)]
    #[test]
    fn a_guard_returns_the_exit_code_of_its_command() {
        let (_writer, guard) = start_guard("exit 7");
        assert_eq!(guard.join().unwrap(), 7);
    }

    /// The input also closes if this program is killed.
    #[cfg(unix)]
    #[test]
    fn a_command_and_its_children_stop_when_the_input_of_their_guard_closes() {
        let folder = tempfile::tempdir().unwrap();
        let (ready, stopped) = (folder.path().join("ready"), folder.path().join("stopped"));
        let child =
            format!("trap 'touch {}; exit' TERM; touch {}; sleep 600 & wait", stopped.display(), ready.display());
        let (writer, guard) = start_guard(&format!("trap 'wait; exit 3' TERM; sh -c \"{child}\" & wait"));
        while !ready.exists() {
            thread::sleep(POLL_INTERVAL);
        }
        drop(writer);
        assert_eq!(guard.join().unwrap(), 3);
        assert!(stopped.exists());
    }
}
