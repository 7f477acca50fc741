//! Servers that run as child processes.

use crate::generator::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Endpoint};
use crate::process::Process;
use crate::run::Target;
use anyhow::{Context, ensure};
use clap::Args;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wire::signing::AccountKey;

const START_TIME_MAX: Duration = Duration::from_mins(1);
const ANNOUNCEMENT: &str = "listening on ";
/// The name prefix of the server's threads that serve requests.
pub(crate) const REQUEST_THREADS: &str = "tokio";

/// Dropping this value kills the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) target: Target,
    /// The time from the start of the process until the server listened.
    pub(crate) start_time: Duration,
}

impl Server {
    /// Waits until the program prints its URL.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let began = Instant::now();
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        let announced = first_line(&mut child);
        let process = Process::new(child.id());
        // From here on, the child is killed on every error.
        let mut server =
            Self { child, target: target("http://127.0.0.1:0", Some(process))?, start_time: Duration::ZERO };
        let line = announced.recv_timeout(START_TIME_MAX).with_context(|| format!("{program} did not start"))?;
        server.start_time = began.elapsed();
        ensure!(line.starts_with(ANNOUNCEMENT), "{program} printed '{line}' instead of its URL");
        server.target = target(line.trim_start_matches(ANNOUNCEMENT), Some(process))?;
        Ok(server)
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status().context("running kill")?;
        let status = self.child.wait().context("waiting for the server")?;
        ensure!(signalled.success() && status.success(), "the server exited with {status}");
        Ok(())
    }

    /// Kills the process if it still runs.
    pub(crate) fn kill(&mut self) {
        // The process may already have exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    pub(crate) fn end(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program to measure, and the disk to measure it on.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// Path of the server program [default: the file `rowhouse` next to this program]
    #[arg(long, value_name = "PATH")]
    server_binary: Option<PathBuf>,

    /// Folder for the temporary folders, on the disk to measure [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl ServerArgs {
    /// Returns the server program, and a new temporary folder for its data.
    pub(crate) fn open(&self) -> anyhow::Result<(PathBuf, TempDir)> {
        let binary = match &self.server_binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe().context("locating this program")?.with_file_name("rowhouse"),
        };
        ensure!(
            binary.is_file(),
            "{} does not exist; build it or specify another path with --server-binary",
            binary.display()
        );
        let folder = self.folder.as_ref().map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        Ok((binary, folder.context("creating a temporary folder")?))
    }
}

/// Starts the two reference servers. The durable one writes its log into the given folder.
pub(crate) fn serve_floors(folder: &Path) -> anyhow::Result<(Server, Server)> {
    let program = std::env::current_exe().context("locating this program")?;
    let log = folder.join("durable-floor.log");
    let floor = Server::start(Command::new(&program).arg("floor"))?;
    Ok((floor, Server::start(Command::new(&program).args(["floor", "--durable"]).arg(log))?))
}

/// The server listens on a free port.
pub(crate) fn serve(binary: &Path, data: &Path, options: &[&str]) -> anyhow::Result<Server> {
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data"]).arg(data).args(options);
    Server::start(&mut command)
}

pub(crate) fn target(url: &str, process: Option<Process>) -> anyhow::Result<Target> {
    Ok(Target {
        endpoint: Endpoint::parse(url, DEVELOPMENT_ACCOUNT, false)?,
        account: DEVELOPMENT_ACCOUNT.to_owned(),
        key: AccountKey::parse(DEVELOPMENT_KEY).context("decoding the development key")?,
        process,
    })
}

/// The rest of the output is read as well, so that the child never blocks.
fn first_line(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Only the first line is expected.
                drop(sender.send(line));
            }
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> anyhow::Result<Server> {
        Server::start(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn a_server_prints_where_it_listens_and_is_killed_with_its_handle() {
        let mut server = shell("echo listening on http://127.0.0.1:4567; echo more; exec sleep 600").unwrap();
        assert_eq!(server.end(), None);
        assert_eq!(server.target.endpoint.address.port(), 4567);
        let process = server.target.process.unwrap();
        assert!(process.cpu().is_ok());
        drop(server);
        assert!(process.cpu().is_err());
    }

    #[test]
    fn a_program_that_is_no_server_is_an_error() {
        for script in ["exit 1", "echo hello"] {
            assert!(shell(script).is_err(), "{script}");
        }
        assert!(Server::start(&mut Command::new("/nonexistent/server")).is_err());
    }
}
