//! The process of the program: finds it, starts it, waits until it is ready, and stops it.

use anyhow::{Context, anyhow, bail, ensure};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The variable that names the program.
const BINARY: &str = "ROWHOUSE_BINARY";
/// The prefix of the variables that the program reads.
const PREFIX: &str = "ROWHOUSE_";
/// The maximum size of the kept end of the log, in bytes.
const LOG_BYTES_MAX: usize = 64 * 1024;

/// A running program. It is stopped when this value is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// The program stops when this is closed.
    input: Option<ChildStdin>,
    log: Arc<Mutex<Vec<u8>>>,
    /// Read the program's standard output and its log.
    readers: Vec<JoinHandle<()>>,
}

/// The lines that the program prints when it is ready, without their prefixes.
#[derive(Debug, Default)]
pub(super) struct ReadyLines {
    pub(super) listening: String,
    pub(super) connection_string: String,
    pub(super) admin: String,
}

impl Process {
    pub(super) fn start(executable: Option<PathBuf>, arguments: &[OsString]) -> anyhow::Result<(Self, ReadyLines)> {
        let program = executable.map_or_else(find, Ok)?;
        let mut command = Command::new(&program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX)) {
            command.env_remove(name);
        }
        // The port is set in a variable instead of an option, so that an option can override it.
        command.env("ROWHOUSE_LISTEN", "127.0.0.1:0");
        command.args(["serve", "--in-memory", "--test-controls", "--stop-with-stdin"]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                anyhow!("the program {} is missing: install it, or set {BINARY} to its path", program.display())
            }
            _ => anyhow!("{} cannot be run: {error}", program.display()),
        })?;
        let input = child.stdin.take();
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let mut process = Self { child, input, log, readers: Vec::new() };
        let (mut output, errors) =
            (BufReader::new(output.context("there is no output")?), errors.context("there is no log")?);
        let log = Arc::clone(&process.log);
        process.readers.push(std::thread::spawn(move || keep_end(errors, &log)));
        let Some(ready) = ReadyLines::read(&mut output) else {
            let ended = process.wait()?;
            bail!("rowhouse did not start: it exited with {ended}\n{}", process.log());
        };
        process.readers.push(std::thread::spawn(move || drop(std::io::copy(&mut output, &mut std::io::sink()))));
        Ok((process, ready))
    }

    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Stops the program if it is still running.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        let ended = self.wait()?;
        ensure!(ended.success(), "rowhouse exited with {ended}\n{}", self.log());
        Ok(())
    }

    fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        drop(self.input.take());
        let ended = self.child.wait().context("waiting for rowhouse to exit")?;
        for reader in self.readers.drain(..) {
            let _panicked = reader.join();
        }
        Ok(ended)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that needs the result calls `stop`.
        let _result = self.wait();
    }
}

impl ReadyLines {
    /// Reads until the last line. Returns `None` if the program exits before.
    fn read(output: &mut impl BufRead) -> Option<Self> {
        let mut ready = Self::default();
        let mut line = String::new();
        while output.read_line(&mut line).ok()? > 0 {
            let text = line.trim_end();
            for (prefix, value) in [
                ("listening on ", &mut ready.listening),
                ("connection string: ", &mut ready.connection_string),
                ("admin on ", &mut ready.admin),
            ] {
                if let Some(rest) = text.strip_prefix(prefix) {
                    rest.clone_into(value);
                }
            }
            if !ready.admin.is_empty() {
                return Some(ready);
            }
            line.clear();
        }
        None
    }
}

/// Returns the path or, for a program in the `PATH`, the name.
fn find() -> anyhow::Result<PathBuf> {
    let Some(chosen) = std::env::var_os(BINARY).filter(|chosen| !chosen.is_empty()) else {
        return Ok(PathBuf::from("rowhouse"));
    };
    let chosen = PathBuf::from(chosen);
    ensure!(chosen.exists(), "{BINARY} names a file that does not exist: {}", chosen.display());
    Ok(chosen)
}

/// Reads the log to its end, and keeps the last part of it.
fn keep_end(mut log: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = log.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(buffer.get(..bytes).unwrap_or_default());
        let excess = kept.len().saturating_sub(LOG_BYTES_MAX);
        kept.drain(..excess);
    }
}
