//! The server in the test's process, and its settings.

mod costs;
mod faults;
mod snapshot;
mod thread;

pub use costs::Costs;
pub use faults::Fault;
pub use snapshot::Snapshot;

use crate::error::Error;
use crate::program::ProgramBuilder;
use crate::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, TestClock};
use anyhow::bail;
use engine::KeepChanges;
use faults::FaultQueue;
use server::{Metrics, Targets};
use snapshot::SnapshotStore;
use std::net::SocketAddr;
#[cfg(feature = "embedded")]
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use thread::{Options, ServerThread, StartReport, Storage};
use tokio::sync::oneshot;

/// The time after which a query responds with a continuation token. The program `rowhouse` has the same default.
const QUERY_TIME: Duration = Duration::from_secs(5);
/// The maximum size of the log for the change feed, in bytes: 256 MiB.
const LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A running server. It stops when it is dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rowhouse_testing::Error> {
/// use rowhouse_testing::TestServer;
///
/// let (one, other) = (TestServer::start().await?, TestServer::start().await?);
/// assert_ne!(one.endpoint(), other.endpoint());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    /// The first account is the development account.
    accounts: Vec<(String, String)>,
    clock: TestClock,
    metrics: Arc<Metrics>,
    states: SnapshotStore,
    faults: FaultQueue,
    thread: Option<ServerThread>,
}

impl TestServer {
    /// Starts a server with its data in memory, and returns once it accepts requests. Works on every runtime, including
    /// single-threaded ones.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start().await?;
    /// assert!(server.endpoint().starts_with("http://127.0.0.1:"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Like [`start`](Self::start), but for a test without a runtime. Blocks the thread for a few milliseconds.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_blocking() -> Result<Self, Error> {
        Self::builder().start_blocking()
    }

    /// Returns a builder for a server with other settings.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::builder().throttle(1_000, 100).start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::new()
    }

    /// Returns the settings of a server that runs as a process: the installed program. See [`ProgramBuilder`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::program().start_blocking()?;
    /// println!("{}", server.connection_string());
    /// # Ok(())
    /// # }
    /// ```
    pub fn program() -> ProgramBuilder {
        ProgramBuilder::default()
    }

    /// Returns the address and port.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// assert!(server.address().ip().is_loopback());
    /// # Ok(())
    /// # }
    /// ```
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the Table service for the development account, without a trailing slash.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// assert_eq!(server.endpoint(), format!("http://{}/devstoreaccount1", server.address()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn endpoint(&self) -> String {
        self.endpoint_for(DEVELOPMENT_ACCOUNT)
    }

    /// Returns the URL of the Table service for an account, without a trailing slash, or `None` if the server does not
    /// have the account.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// assert_eq!(server.endpoint_of("devstoreaccount1"), Some(server.endpoint()));
    /// assert_eq!(server.endpoint_of("orchard"), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn endpoint_of(&self, account: &str) -> Option<String> {
        self.key_of(account).map(|_| self.endpoint_for(account))
    }

    /// Returns the connection string of the development account, for any client library.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// assert!(server.connection_string().ends_with(&format!("TableEndpoint={};", server.endpoint())));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connection_string(&self) -> String {
        self.connection_string_for(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY)
    }

    /// Returns the connection string of an account, for any client library, or `None` if the server does not have the
    /// account.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use rowhouse_testing::TestServer;
    ///
    /// let server = TestServer::builder().account("orchard", "AAECAwQFBgcICQoLDA0ODw==").start_blocking()?;
    /// let orchard = server.connection_string_of("orchard").expect("the account exists");
    /// assert!(orchard.contains("AccountKey=AAECAwQFBgcICQoLDA0ODw==;"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn connection_string_of(&self, account: &str) -> Option<String> {
        self.key_of(account).map(|key| self.connection_string_for(account, key))
    }

    /// Returns the server's clock.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// server.clock().advance(std::time::Duration::from_secs(60));
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// Returns the cost of all requests since the server started. A request is counted before its client receives the
    /// response, so the cost includes every request whose response has arrived.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// assert_eq!(server.costs().requests, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn costs(&self) -> Costs {
        Costs::from_totals(self.metrics.totals())
    }

    /// Saves the current tables, entities, policies and service properties of all accounts. This takes the same short
    /// time, whatever the number of entities.
    ///
    /// Fails if the data is on disk.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// // … what all tests begin with …
    /// let beginning = server.snapshot()?;
    /// // … a test …
    /// server.restore(&beginning)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        self.states.snapshot()
    }

    /// Restores a snapshot in the same short time. The snapshot remains usable. A concurrent transaction takes effect
    /// either before the restore or after it.
    ///
    /// Entities have the Timestamps and ETags of the snapshot again. New Timestamps are later than all earlier ones.
    /// The clock does not change. Fails if the data is on disk.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// let beginning = server.snapshot()?;
    /// server.restore(&beginning)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore(&self, snapshot: &Snapshot) -> Result<(), Error> {
        self.states.restore(snapshot)
    }

    /// Returns to the initial state: no data, and the clock of the operating system. Timestamps also start over. Fails
    /// if the data is on disk.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// server.reset()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset(&self) -> Result<(), Error> {
        self.states.reset()
    }

    /// Adds a fault. The fault counts requests that arrive from now on. See [`Fault`].
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use rowhouse_testing::Fault;
    ///
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// server.inject(Fault::lost_answer().method("POST"));
    /// assert_eq!(server.pending_faults(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inject(&self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Returns the number of faults that have not yet affected all their requests. If it is zero after the program has
    /// run, every fault was triggered.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// assert_eq!(server.pending_faults(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pending_faults(&self) -> usize {
        self.faults.len()
    }

    /// Removes the remaining faults.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// server.clear_faults();
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear_faults(&self) {
        self.faults.clear();
    }

    /// Stops the server, as dropping it does, but returns an error if its data could not be closed.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::start_blocking()?;
    /// server.stop()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(mut self) -> Result<(), Error> {
        self.thread.take().map_or(Ok(()), ServerThread::stop).map_err(Error::new)
    }

    fn endpoint_for(&self, account: &str) -> String {
        format!("http://{}/{account}", self.address)
    }

    fn connection_string_for(&self, account: &str, key: &str) -> String {
        server::connection_string(account, key, &self.endpoint_for(account))
    }

    fn key_of(&self, account: &str) -> Option<&str> {
        self.accounts.iter().find(|(name, _)| name == account).map(|(_, key)| key.as_str())
    }

    /// Creates the server from the report that its thread sends after it has started. Without a report, returns the
    /// thread's error.
    fn new(
        accounts: Vec<(String, String)>,
        clock: TestClock,
        faults: FaultQueue,
        thread: ServerThread,
        started: Option<StartReport>,
    ) -> Result<Self, Error> {
        let Some(StartReport { address, metrics, data }) = started else {
            return thread.stop().and_then(|()| bail!("the server stopped before it had started")).map_err(Error::new);
        };
        Ok(Self { address, accounts, clock, metrics, states: SnapshotStore::new(data), faults, thread: Some(thread) })
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // A test that needs the result calls `stop`.
        let _result = self.thread.take().map(ServerThread::stop);
    }
}

/// The settings of a [`TestServer`]; created by [`TestServer::builder`].
///
/// ```
/// # fn main() -> Result<(), rowhouse_testing::Error> {
/// use rowhouse_testing::TestServer;
///
/// let server = TestServer::builder().account("orchard", "AAECAwQFBgcICQoLDA0ODw==").start_blocking()?;
/// assert!(server.connection_string_of("orchard").is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the server does not run until it is started"]
pub struct TestServerBuilder {
    options: Options,
}

impl TestServerBuilder {
    fn new() -> Self {
        let options = Options {
            accounts: vec![(DEVELOPMENT_ACCOUNT.to_owned(), DEVELOPMENT_KEY.to_owned())],
            storage: Storage::Memory,
            clock: TestClock::new(),
            query_time: QUERY_TIME,
            extensions: false,
            keep_changes: None,
            targets: None,
            rehearsal: None,
            faults: FaultQueue::default(),
        };
        Self { options }
    }

    /// Adds an account with its key in Base64, in addition to the development account. The name must have 3 to 24
    /// lower-case letters and digits, and the key at least 16 bytes; otherwise the server does not start.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use rowhouse_testing::TestServer;
    ///
    /// let server = TestServer::builder().account("orchard", "AAECAwQFBgcICQoLDA0ODw==").start_blocking()?;
    /// assert!(server.endpoint_of("orchard").is_some_and(|endpoint| endpoint.ends_with("/orchard")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn account(mut self, name: &str, key: &str) -> Self {
        self.options.accounts.push((name.to_owned(), key.to_owned()));
        self
    }

    /// Stores the data in the given folder with Rowhouse's embedded engine, so that another server can use it later.
    /// The folder is created if it does not exist, and is never removed. Requires the feature `embedded`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use rowhouse_testing::TestServer;
    ///
    /// let folder = tempfile::tempdir()?;
    /// drop(TestServer::builder().data(folder.path()).start_blocking()?);
    /// let again = TestServer::builder().data(folder.path()).start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    pub fn data(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.storage = Storage::Folder(folder.into());
        self
    }

    /// Stores the data on disk with Rowhouse's embedded engine, in a temporary folder that is removed when the server
    /// stops. Requires the feature `embedded`.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::builder().embedded().start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    pub fn embedded(mut self) -> Self {
        self.options.storage = Storage::TemporaryFolder;
        self
    }

    /// Sets the clock, which may be shared with other servers.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use rowhouse_testing::{TestClock, TestServer};
    /// use std::time::SystemTime;
    ///
    /// let clock = TestClock::new();
    /// let server = TestServer::builder().clock(&clock).start_blocking()?;
    /// clock.set(SystemTime::UNIX_EPOCH);
    /// assert_eq!(server.clock().now(), SystemTime::UNIX_EPOCH);
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock(mut self, clock: &TestClock) -> Self {
        self.options.clock = clock.clone();
        self
    }

    /// Sets the time after which a query responds with its results so far and a continuation token. The default is 5
    /// seconds.
    ///
    /// If the time is zero, a query responds after the first entity that it examines, whether or not the entity
    /// matches. Such pages can be empty. Use this to check that a program continues queries.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use rowhouse_testing::TestServer;
    /// use std::time::Duration;
    ///
    /// let server = TestServer::builder().query_time(Duration::ZERO).start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_time(mut self, time: Duration) -> Self {
        self.options.query_time = time;
        self
    }

    /// Offers the extensions of the service, such as counts and deletions by filter, as `rowhouse serve --extensions`
    /// does. By default, the server refuses them like the cloud service.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::builder().extensions().start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn extensions(mut self) -> Self {
        self.options.extensions = true;
        self
    }

    /// Offers the change feed, as `rowhouse serve --keep-log` does, with the changes of at most the given duration. By
    /// default, there is no change feed, as in the cloud.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use std::time::Duration;
    ///
    /// let server = rowhouse_testing::TestServer::builder().keep_log(Duration::from_secs(3600)).start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn keep_log(mut self, age: Duration) -> Self {
        self.options.keep_changes = Some(KeepChanges { age, bytes: LOG_BYTES_MAX });
        self
    }

    /// Throttles requests as the service does: an account and a partition may process the given numbers of entities per
    /// second, and requests that exceed these targets get 503 with `ServerBusy`. By default, nothing is throttled. Both
    /// values must be at least 1.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::builder().throttle(20_000, 2_000).start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn throttle(mut self, account_entities_per_second: u64, partition_entities_per_second: u64) -> Self {
        self.options.targets = Some(Targets {
            account_entities_per_second: account_entities_per_second.max(1),
            partition_entities_per_second: partition_entities_per_second.max(1),
        });
        self
    }

    /// Makes the server as awkward as the cloud service can be. Takes a list of conditions in the format of `rowhouse
    /// serve --rehearse`, such as `"all,seed=7"` or `"empty-pages=100%,deletion=40s"`. The duration of conditions is
    /// measured by the server's [clock](TestServer::clock); only latency is real time. If the list is invalid, the
    /// server does not start.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use rowhouse_testing::TestServer;
    /// use std::time::Duration;
    ///
    /// let server = TestServer::builder().rehearse("busy=5%,deletion=40s,seed=7").start_blocking()?;
    /// // The names of the deleted tables are available again.
    /// server.clock().advance(Duration::from_secs(40));
    ///
    /// assert!(TestServer::builder().rehearse("rain").start_blocking().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn rehearse(mut self, conditions: &str) -> Self {
        self.options.rehearsal = Some(conditions.to_owned());
        self
    }

    /// Adds a fault. The fault counts requests from the first one on. See [`Fault`].
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// use rowhouse_testing::{Fault, TestServer};
    /// use std::time::Duration;
    ///
    /// let server = TestServer::builder()
    ///     .fault(Fault::status(503).code("ServerBusy").nth(2))
    ///     .fault(Fault::delay(Duration::from_millis(10)).times(3))
    ///     .start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fault(self, fault: Fault) -> Self {
        self.options.faults.add(fault);
        self
    }

    /// Starts the server, and returns once it accepts requests. Works on every runtime, including single-threaded ones.
    ///
    /// Fails if an account or the list of conditions is invalid, or if the data on disk cannot be opened.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::builder().start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(self) -> Result<TestServer, Error> {
        let (send, started) = oneshot::channel();
        // If the receiver has been dropped, the server stops immediately.
        let starting = self.spawn(move |report| drop(send.send(report)))?;
        starting(started.await.ok())
    }

    /// Like [`start`](Self::start), but for a test without a runtime. Blocks the thread for a few milliseconds.
    ///
    /// ```
    /// # fn main() -> Result<(), rowhouse_testing::Error> {
    /// let server = rowhouse_testing::TestServer::builder().start_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start_blocking(self) -> Result<TestServer, Error> {
        let (send, started) = mpsc::channel();
        let starting = self.spawn(move |report| drop(send.send(report)))?;
        starting(started.recv().ok())
    }

    /// Starts the thread of a server. Returns a function that creates the server from the thread's report.
    fn spawn(
        self,
        report: impl FnOnce(StartReport) + Send + 'static,
    ) -> Result<impl FnOnce(Option<StartReport>) -> Result<TestServer, Error>, Error> {
        let (accounts, clock) = (self.options.accounts.clone(), self.options.clock.clone());
        let faults = self.options.faults.clone();
        let thread = ServerThread::start(self.options, report).map_err(Error::new)?;
        Ok(|started| TestServer::new(accounts, clock, faults, thread, started))
    }
}
