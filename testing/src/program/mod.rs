//! A server that runs as a process: the installed program, with its test controls.
//!
//! It keeps its data in memory and listens on a free port of this machine. It stops when its standard input is closed,
//! so it never outlives the test. This module must not depend on the server's code.

mod clock;
mod controls;
mod process;

pub use clock::ProgramClock;

use crate::Error;
use anyhow::{Context, anyhow, ensure};
use controls::Controls;
use process::{Process, ReadyLines};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;

/// The server prints this instead of the key of an account from a file.
const HIDDEN_KEY: &str = "<key>";

/// The settings of a [`ProgramServer`].
///
/// Unless [`executable`](Self::executable) is called, the program is the file that the environment variable
/// `ROWHOUSE_BINARY` names, or else `rowhouse` in the `PATH`. The program ignores all other variables that begin with
/// `ROWHOUSE_`.
///
/// ```no_run
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// use rowhouse_testing::TestServer;
///
/// let server = TestServer::program().argument("--seed").argument("fixtures").start_blocking()?;
/// println!("{}", server.connection_string());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "the server does not run until it is started"]
pub struct ProgramBuilder {
    executable: Option<PathBuf>,
    arguments: Vec<OsString>,
}

impl ProgramBuilder {
    /// Runs this program.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().executable("/opt/rowhouse").start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = Some(path.into());
        self
    }

    /// Adds an argument of `rowhouse serve`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().argument("--log=debug").start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Makes the server as awkward as the cloud service can be, as `--rehearse` does: `all`, or a list of conditions.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().rehearse("all").start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rehearse(self, conditions: &str) -> Self {
        self.argument("--rehearse").argument(conditions)
    }

    /// Offers the extensions of the service, as `--extensions` does.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().extensions().start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extensions(self) -> Self {
        self.argument("--extensions")
    }

    /// Offers the change feed, as `--keep-log` does.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use std::time::Duration;
    ///
    /// let server = rowhouse_testing::TestServer::program().keep_log(Duration::from_secs(3600)).start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_log(self, age: Duration) -> Self {
        self.argument("--keep-log").argument(format!("{}s", age.as_secs()))
    }

    /// Starts the server, and returns once it accepts requests. Works on every runtime.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(self) -> Result<ProgramServer, Error> {
        let (send, started) = oneshot::channel();
        // If the receiver has been dropped, the server stops immediately.
        std::thread::spawn(move || drop(send.send(self.start_blocking())));
        started.await.map_err(|_| Error::new(anyhow!("the thread that starts the server panicked")))?
    }

    /// Like [`start`](Self::start), but for a test without a runtime. Blocks the thread for some milliseconds.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_blocking(self) -> Result<ProgramServer, Error> {
        ProgramServer::start(self).map_err(Error::new)
    }
}

/// A server that runs as a process. It stops when it is dropped.
///
/// ```no_run
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// use rowhouse_testing::TestServer;
/// use std::time::{Duration, SystemTime};
///
/// let server = TestServer::program().start_blocking()?;
/// let account = server.new_account()?;
/// println!("{}", account.connection_string);
/// server.clock().advance(Duration::from_secs(86_400))?;
/// assert!(server.clock().now()? > SystemTime::now());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ProgramServer {
    process: Process,
    controls: Controls,
    address: SocketAddr,
    account: ProgramAccount,
}

/// An account of a [`ProgramServer`].
///
/// ```no_run
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// let server = rowhouse_testing::TestServer::program().start_blocking()?;
/// assert_ne!(server.new_account()?.name, server.new_account()?.name);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramAccount {
    /// The name of the account.
    pub name: String,
    /// The key, in Base64.
    pub key: String,
    /// The URL of the Table service for the account, without a trailing slash.
    pub endpoint: String,
    /// The connection string, for any client library.
    pub connection_string: String,
}

/// The complete data of a [`ProgramServer`] at one point in time; created by [`ProgramServer::snapshot`].
///
/// ```no_run
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// let server = rowhouse_testing::TestServer::program().start_blocking()?;
/// let beginning = server.snapshot()?;
/// server.restore(&beginning)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSnapshot(String);

impl ProgramServer {
    /// Returns the settings of a server to be started.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::ProgramServer::program().start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn program() -> ProgramBuilder {
        ProgramBuilder::default()
    }

    /// Returns the address and port.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// assert!(server.address().ip().is_loopback());
    /// # Ok(())
    /// # }
    /// ```
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the first account, into which `--seed` loads tables: the development account, unless an argument
    /// configures others.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// assert_eq!(server.account().name, rowhouse_testing::DEVELOPMENT_ACCOUNT);
    /// # Ok(())
    /// # }
    /// ```
    pub fn account(&self) -> &ProgramAccount {
        &self.account
    }

    /// Returns the URL of the Table service for the first account, without a trailing slash.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// assert!(server.endpoint().ends_with("/devstoreaccount1"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn endpoint(&self) -> String {
        self.account.endpoint.clone()
    }

    /// Returns the connection string of the first account, for any client library.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// assert!(server.connection_string().contains("AccountName=devstoreaccount1;"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connection_string(&self) -> String {
        self.account.connection_string.clone()
    }

    /// Creates an account without data and with a random key. Tests with their own accounts may share a server.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// let connection_string = server.new_account()?.connection_string;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_account(&self) -> Result<ProgramAccount, Error> {
        let made = self.send("POST", "/test/accounts", Some(&json!({})))?;
        let field = |name| made.get(name).and_then(Value::as_str).map(str::to_owned);
        let account = || {
            Some(ProgramAccount {
                name: field("name")?,
                key: field("key")?,
                endpoint: field("endpoint")?,
                connection_string: field("connectionString")?,
            })
        };
        account().context("the response is not an account").map_err(Error::new)
    }

    /// Returns the server's clock.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.clock().advance(std::time::Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock(&self) -> ProgramClock<'_> {
        ProgramClock(self)
    }

    /// Saves the current tables, entities, policies and service properties of all accounts.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// // … what all tests begin with …
    /// let beginning = server.snapshot()?;
    /// // … a test …
    /// server.restore(&beginning)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Result<ProgramSnapshot, Error> {
        let taken = self.send("POST", "/test/snapshots", Some(&json!({})))?;
        let id = taken.get("snapshot").and_then(Value::as_str).context("the response names no snapshot");
        Ok(ProgramSnapshot(id.map_err(Error::new)?.to_owned()))
    }

    /// Restores a snapshot of this server. The snapshot remains usable.
    ///
    /// Entities have the Timestamps and ETags of the snapshot again. New Timestamps are later than all that were issued
    /// before. The clock does not change.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// let beginning = server.snapshot()?;
    /// server.restore(&beginning)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore(&self, snapshot: &ProgramSnapshot) -> Result<(), Error> {
        self.send("POST", &format!("/test/snapshots/{}/restore", snapshot.0), Some(&json!({}))).map(drop)
    }

    /// Returns to the initial state: the data of `--seed`, if any, the initial accounts, and the clock of the operating
    /// system. Snapshots and new accounts are deleted.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.reset()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset(&self) -> Result<(), Error> {
        self.send("POST", "/test/reset", Some(&json!({}))).map(drop)
    }

    /// Returns the end of the server's log.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().argument("--log=rowhouse::access=debug").start_blocking()?;
    /// println!("{}", server.log());
    /// # Ok(())
    /// # }
    /// ```
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Stops the server, as dropping it does, but returns an error if it did not shut down cleanly.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// server.stop()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(mut self) -> Result<(), Error> {
        self.process.stop().map_err(Error::new)
    }

    fn start(settings: ProgramBuilder) -> anyhow::Result<Self> {
        let (process, ReadyLines { listening, connection_string, admin }) =
            Process::start(settings.executable, &settings.arguments)?;
        let address = listening.rsplit("//").next().unwrap_or_default().trim_end_matches('/');
        let address = address.parse().with_context(|| format!("reading the address {listening}"))?;
        let account = ProgramAccount::from_connection_string(connection_string);
        ensure!(
            account.key != HIDDEN_KEY,
            "--accounts hides the keys: leave it out; new_account creates accounts with their own keys"
        );
        Ok(Self { process, controls: Controls::new(&admin)?, address, account })
    }

    /// Sends a request to the test controls. If the server is no longer running, the error says why.
    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        let answer = self.controls.send(method, path, body);
        answer.with_context(|| format!("{method} {path}; the log ends with\n{}", self.log())).map_err(Error::new)
    }
}

impl ProgramAccount {
    fn from_connection_string(connection_string: String) -> Self {
        let field = |name: &str| {
            let fields = connection_string.split(';').filter_map(|field| field.split_once('='));
            fields.into_iter().find(|(key, _)| *key == name).map_or_else(String::new, |(_, value)| value.to_owned())
        };
        let (name, key, endpoint) = (field("AccountName"), field("AccountKey"), field("TableEndpoint"));
        Self { name, key, endpoint, connection_string }
    }
}
