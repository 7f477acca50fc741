//! The server and the database that a step starts, and stops at its end.

use crate::process::Guarded;
use crate::step::{Database, Server};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The time in which a server must be ready.
const START_TIME: Duration = Duration::from_mins(1);

/// The path of the account in the server's URL.
const ACCOUNT: &str = "devstoreaccount1";

/// The number of workers of a Citus cluster.
const CITUS_WORKERS: &str = "2";

/// The database of a step on a Citus cluster.
const CITUS_DATABASE: &str = "suite";

/// A running database.
#[derive(Debug)]
pub(crate) struct RunningDatabase {
    pub(crate) url: String,
    /// The script that runs the database until its standard input closes.
    _script: Guarded,
}

impl RunningDatabase {
    pub(crate) fn start(database: Database, workspace: &Workspace, log: &Path) -> Result<Self> {
        let mut command = match database {
            Database::Postgres => workspace.command("scripts/postgres.sh", "."),
            Database::Citus => workspace.command("scripts/citus.sh", "."),
        };
        if database == Database::Citus {
            command.arg(CITUS_WORKERS);
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut script = Guarded::spawn({
            command.stdout(Stdio::piped()).stderr(log);
            command
        })?;
        let mut lines = BufReader::new(script.output().context("the database has no output")?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the database did not start");
        let url = match database {
            Database::Postgres => line.split(' ').next().unwrap_or_default().to_owned(),
            Database::Citus => {
                // The answer comes when the database exists.
                let input = script.input().context("the database has no input")?;
                writeln!(input, "database {CITUS_DATABASE}")?;
                let mut answer = String::new();
                lines.read_line(&mut answer)?;
                ensure!(!answer.is_empty(), "the database could not be created");
                workers_url(&line)
            }
        };
        Ok(Self { url, _script: script })
    }
}

/// Returns the URL of the database on the workers, from the first line of `scripts/citus.sh`.
fn workers_url(line: &str) -> String {
    // The third word describes the coordinator, and the rest the workers. Each is an address and a process ID.
    let nodes = line.split_whitespace().skip(3).map(|node| node.split('=').next().unwrap_or_default());
    let workers = nodes.collect::<Vec<_>>().join(",");
    format!("postgres://rowhouse@{workers}/{CITUS_DATABASE}?load_balance_hosts=random")
}

/// A running server.
#[derive(Debug)]
pub(crate) struct RunningServer {
    /// The URL of the account.
    pub(crate) endpoint: String,
    is_checked: bool,
    process: Guarded,
    log: PathBuf,
}

impl RunningServer {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) fn start(server: Server, command: &Command, log: &Path) -> Result<Self> {
        let mut process = Guarded::start(command, log)?;
        let began = Instant::now();
        let url = loop {
            let text = fs::read_to_string(log)?;
            if let Some(url) = announced(&text, server.announcement) {
                break url.to_owned();
            }
            if process.ended()?.is_some() || began.elapsed() > START_TIME {
                bail!("the server did not start:\n{text}");
            }
            thread::sleep(Duration::from_millis(20));
        };
        let endpoint = account_url(&url);
        Ok(Self { endpoint, is_checked: server.is_checked, process, log: log.to_owned() })
    }

    /// Stops the server. Fails if it ended earlier, did not exit with 0, or logged an error.
    pub(crate) fn stop(mut self) -> Result<()> {
        let has_died = self.process.ended()?.is_some();
        let status = self.process.stop()?;
        let text = fs::read_to_string(&self.log)?;
        if self.is_checked && (has_died || !status.success() || has_error(&text)) {
            let lines: Vec<_> = text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(50)..).unwrap_or_default().join("\n");
            bail!("{last}\nthe server logged an error or failed ({status})");
        }
        Ok(())
    }
}

/// Returns the URL of the account on a server with this URL or address.
fn account_url(server: &str) -> String {
    let scheme = if server.contains("://") { "" } else { "http://" };
    format!("{scheme}{server}/{ACCOUNT}")
}

/// Returns the URL that a server announces, once its line is complete.
fn announced<'t>(text: &'t str, announcement: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(announcement)?;
    let end = rest.find(char::is_whitespace)?;
    rest.get(..end)
}

fn has_error(log: &str) -> bool {
    log.contains("panicked") || log.contains("ERROR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_when_it_has_announced_its_url() {
        assert_eq!(announced("INFO starting\nlistening on http://127.0.0.1:1234", "listening on "), None);
        let text = "INFO starting\nlistening on http://127.0.0.1:12345\nconnection string: x\n";
        assert_eq!(announced(text, "listening on "), Some("http://127.0.0.1:12345"));
    }

    #[test]
    fn the_url_of_the_account_has_a_scheme() {
        assert_eq!(account_url("http://127.0.0.1:5"), "http://127.0.0.1:5/devstoreaccount1");
        assert_eq!(account_url("127.0.0.1:5"), "http://127.0.0.1:5/devstoreaccount1");
    }

    #[test]
    fn errors_in_the_log_are_found() {
        assert!(has_error("thread 'main' panicked at") && has_error("2020 ERROR the disk is full"));
        assert!(!has_error("an error that a client made"));
    }

    #[test]
    fn clients_connect_to_the_workers_of_a_cluster() {
        let line = "postgres://rowhouse@127.0.0.1:1/postgres /bin 127.0.0.1:1=7 127.0.0.1:2=8 127.0.0.1:3=9\n";
        let url = "postgres://rowhouse@127.0.0.1:2,127.0.0.1:3/suite?load_balance_hosts=random";
        assert_eq!(workers_url(line), url);
    }
}
