//! A server inside the test process. Only this module names an engine.

use crate::log;
use engine::{KeepChanges, Memory, MemoryCheckpoints};
use rowhouse_server::{Access, Accounts, Observers, Server as Service, Settings, TestClock, TestHooks};
use std::net::Ipv4Addr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use test_support::{Client, eventually};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The time of day of every server until a test moves its clock, in ticks of 100 ns since 1970:
/// 2031-03-14T08:15:30.1234567Z.
const NOW_TICKS: u64 = 19_312_425_301_234_567;

/// A running server. Dropping it stops the server.
pub(crate) struct Server {
    /// The address and port.
    pub(crate) address: String,
    pub(crate) clock: TestClock,
    pub(crate) checkpoints: MemoryCheckpoints,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server with the default settings and the development account.
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts a server with the given tables.
    pub(crate) fn with_tables(tables: &[&str]) -> Self {
        let server = Self::start();
        server.create(tables);
        server
    }

    /// Starts a server whose settings are changed first.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::with_access(access(Accounts::development()), change)
    }

    /// Like [`Self::with`], with accounts and bearer tokens.
    pub(crate) fn with_access(access: Access, change: impl FnOnce(&mut Settings)) -> Self {
        Self::build(access, None, change)
    }

    /// Like [`Self::with`], with a log for readers.
    pub(crate) fn with_changes(keep: KeepChanges, change: impl FnOnce(&mut Settings)) -> Self {
        Self::build(access(Accounts::development()), Some(keep), change)
    }

    fn build(access: Access, keep: Option<KeepChanges>, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { shutdown_time: Duration::from_millis(100), ..Settings::default() };
        change(&mut settings);
        let clock = TestClock::new();
        clock.set(SystemTime::UNIX_EPOCH + Duration::from_nanos(NOW_TICKS * 100));
        let hooks = TestHooks { clock: clock.clone(), faults: None, controls: None };
        let mut engine = Memory::for_tests(clock.clone());
        if let Some(keep) = keep {
            engine = engine.keep_changes(keep);
        }
        let (changes, checkpoints) = (engine.change_log(), engine.checkpoints());
        log::start();
        let (stop, stopped) = oneshot::channel::<()>();
        let (report, started) = mpsc::channel();
        let run = async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let (observers, _) = Observers::counting();
            let service =
                Service::start(settings, access, Some(hooks), observers, Arc::new(engine), changes).await.unwrap();
            report.send(address).unwrap();
            service.run(listener, async { drop(stopped.await) }).await.unwrap();
        };
        let thread = std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run);
        });
        let address = started.recv().expect("the server starts");
        Self { address, clock, checkpoints, stop: Some(stop), thread: Some(thread) }
    }

    /// Creates tables.
    pub(crate) fn create(&self, tables: &[&str]) {
        let mut client = self.client();
        for table in tables {
            let body = format!("{{\"TableName\":\"{table}\"}}");
            assert_eq!(client.request("POST", "/Tables", &[], body.as_bytes()).status, 201, "{table}");
        }
    }

    /// Opens a separate connection as the development account.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }

    /// Returns what the server has logged so far.
    pub(crate) fn log(&self) -> String {
        self.thread.as_ref().map_or_else(String::new, |thread| log::of(thread.thread().id()))
    }

    /// Waits until the log contains the given text.
    pub(crate) fn wait_for_log(&self, text: &str) {
        self.wait_for_log_after(0, text);
    }

    /// Waits until the log contains the given text at or after a position.
    pub(crate) fn wait_for_log_after(&self, start: usize, text: &str) {
        eventually(text, || self.log().get(start..)?.contains(text).then_some(()));
    }

    /// Stops the server, and asserts that it has logged no internal error.
    pub(crate) fn assert_unharmed(mut self) {
        let thread = self.thread.as_ref().unwrap().thread().id();
        self.stop();
        let log = log::of(thread);
        assert!(!log.contains("ERROR"), "{log}");
    }

    fn stop(&mut self) {
        // The server also stops when the sender is dropped.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server stops cleanly");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() { drop(self.stop.take()) } else { self.stop() }
    }
}

/// Returns the access settings of a server with the given accounts, and without bearer tokens.
pub(crate) fn access(accounts: Accounts) -> Access {
    Access { accounts, account_file: None, check_accounts: Box::new(|_| Ok(())), tokens: None, tls: None }
}

/// Reads accounts written as `name:key`, separated by semicolons.
pub(crate) fn accounts(text: &str) -> Access {
    access(Accounts::from_environment_text(text).unwrap())
}
