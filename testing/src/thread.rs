//! The thread of a server, which has a runtime of its own. So the server works whatever the test runs on, and responds
//! while the test blocks its thread.
//!
//! This module must not know addresses of accounts, nor how a test names what it wants.

use crate::TestClock;
use crate::faults::FaultQueue;
use anyhow::{Context, anyhow};
use server::{Accounts, Metrics, Observers, Quota, RehearsalSettings, Secondary, Server, Settings, Targets, TestData};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use store::{Durability, Embedded, EmbeddedOptions, Engine, Memory, MemoryCheckpoints};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Most connections at one time, as for the program.
const CONNECTIONS_MAX: usize = 10_000;
/// Most requests in work at one time, as for the program.
const REQUESTS_MAX: usize = 1024;
/// Memory for bodies, in bytes; allocated as it is needed.
const BODY_BYTES: usize = 512 * 1024 * 1024;
/// Memory for blocks read from disk, in bytes; allocated as it is needed.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// How often the data are synced. A test does not survive a loss of power.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);
/// How long requests may go on once the server ends.
const SHUTDOWN_TIME: Duration = Duration::from_millis(100);

/// Where the data are.
#[derive(Debug)]
pub(crate) enum Storage {
    Memory,
    Folder(PathBuf),
    TemporaryFolder,
}

/// What a server is started with.
#[derive(Debug)]
pub(crate) struct Options {
    /// Names and keys; the first is the development account.
    pub(crate) accounts: Vec<(String, String)>,
    pub(crate) storage: Storage,
    pub(crate) clock: TestClock,
    pub(crate) query_time: Duration,
    pub(crate) targets: Option<Targets>,
    /// The list of conditions that are rehearsed; `None` for none.
    pub(crate) rehearsal: Option<String>,
    pub(crate) faults: FaultQueue,
}

/// The thread of a server.
#[derive(Debug)]
pub(crate) struct ServerThread {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<anyhow::Result<()>>,
}

/// What the thread of a server reports once the server takes requests.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    /// `None` if they are on disk.
    pub(crate) data: Option<TestData>,
}

impl ServerThread {
    /// Starts a server, which reports where it is once it takes requests. If it cannot start, its thread ends without a
    /// report.
    pub(crate) fn start(options: Options, report: impl FnOnce(Started) + Send + 'static) -> anyhow::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("rowhouse-testing".to_owned());
        let thread = thread.spawn(move || run(options, report, stopped)).context("starting a thread")?;
        Ok(Self { stop, thread })
    }

    /// Ends the server, if it still runs, and returns how it ended.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        // Nobody receives it any more if the server has ended, which its result explains.
        let _is_running = self.stop.send(());
        self.thread.join().map_err(|_| anyhow!("the thread of the server panicked"))?
    }
}

/// Runs a server until it is stopped.
fn run(options: Options, report: impl FnOnce(Started), stopped: oneshot::Receiver<()>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    runtime.block_on(async {
        let Options { accounts, storage, clock, query_time, targets, rehearsal, faults } = options;
        let rehearsal =
            rehearsal.as_deref().map(RehearsalSettings::parse).transpose().context("reading the rehearsal")?;
        let limits = (
            query_time,
            targets.or_else(|| rehearsal.filter(RehearsalSettings::rehearses_targets).map(|_| Targets::SERVICE)),
        );
        let settings = settings(&accounts, clock.clone(), limits, rehearsal, faults)?;
        let temporary = match storage {
            Storage::TemporaryFolder => Some(tempfile::tempdir().context("creating a temporary folder")?),
            Storage::Memory | Storage::Folder(_) => None,
        };
        let folder = match &storage {
            Storage::Memory => None,
            Storage::Folder(path) => Some(path.as_path()),
            Storage::TemporaryFolder => temporary.as_ref().map(TempDir::path),
        };
        match folder {
            None => {
                let engine = Memory::for_tests(clock.clone());
                let states = (clock, engine.checkpoints());
                serve(settings, engine, Some(states), report, stopped).await
            }
            Some(path) => serve(settings, open(path, clock)?, None, report, stopped).await,
        }
    })
}

fn open(path: &Path, clock: TestClock) -> anyhow::Result<Embedded> {
    let options = EmbeddedOptions {
        durability: Durability::Interval(SYNC_INTERVAL),
        cache_bytes: CACHE_BYTES,
        // A test that fills the disk sees that of the disk.
        min_free_bytes: 0,
        ..EmbeddedOptions::default()
    };
    Ok(Embedded::open(path, &options, clock)?)
}

async fn serve(
    settings: Settings,
    engine: impl Engine,
    states: Option<(TestClock, MemoryCheckpoints<TestClock>)>,
    report: impl FnOnce(Started),
    stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening on a free port")?;
    let address = listener.local_addr().context("reading the address that was bound")?;
    let (observers, metrics) = Observers::counting();
    let server = Server::start(settings, observers, engine).await?;
    let data = states.map(|(clock, engine)| server.test_data(clock, engine));
    report(Started { address, metrics, data });
    // Without a sender nobody has the server.
    server.run(listener, async { drop(stopped.await) }).await
}

fn settings(
    accounts: &[(String, String)],
    clock: TestClock,
    (query_time, targets): (Duration, Option<Targets>),
    rehearsal: Option<RehearsalSettings>,
    faults: FaultQueue,
) -> anyhow::Result<Settings> {
    let accounts: Vec<_> = accounts.iter().map(|(name, key)| format!("{name}:{key}")).collect();
    Ok(Settings {
        clock: Arc::new(clock.clone()),
        test_clock: Some(clock),
        accounts: Accounts::from_environment_text(&accounts.join(";"))?,
        account_file: None,
        check_accounts: Box::new(|_| Ok(())),
        tls: None,
        oauth: None,
        domains: Vec::new(),
        development_key_for_any_host: false,
        query_time,
        secondary: Secondary::Mirror,
        // A client with an address in path style asks the primary endpoint.
        stats_on_primary: true,
        explorer: false,
        connections_max: CONNECTIONS_MAX,
        connections_per_address_max: None,
        requests_max: REQUESTS_MAX,
        body_bytes: BODY_BYTES,
        targets,
        rehearsal,
        quota: Quota::default(),
        has_analytics: false,
        names_emulator_version: false,
        faults: Some(faults.into_script()),
        test_controls: None,
        shutdown_time: SHUTDOWN_TIME,
    })
}
