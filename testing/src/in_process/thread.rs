//! The thread of a server, with its own runtime. The server therefore works with any runtime, and responds while the
//! test blocks its own thread.
//!
//! This module must not depend on the URLs of accounts or on the builder's interface.

use super::faults::FaultQueue;
use crate::TestClock;
use anyhow::{Context, anyhow};
use engine::{ChangeLog, Engine, KeepChanges, Memory, MemoryCheckpoints};
#[cfg(feature = "embedded")]
use engine_embedded::{Durability, Embedded, EmbeddedOptions, KeptLog};
use server::{Access, Accounts, Metrics, Observers, RehearsalSettings, Server, Settings, Targets, TestData, TestHooks};
use std::net::{Ipv4Addr, SocketAddr};
#[cfg(feature = "embedded")]
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Memory limit for blocks read from disk, in bytes. The memory is allocated as needed.
#[cfg(feature = "embedded")]
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// The interval is long enough, because test data need not survive a power loss.
#[cfg(feature = "embedded")]
const SYNC_INTERVAL: Duration = Duration::from_millis(100);
const SHUTDOWN_TIME: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) enum Storage {
    Memory,
    #[cfg(feature = "embedded")]
    Folder(PathBuf),
    #[cfg(feature = "embedded")]
    TemporaryFolder,
}

#[derive(Debug)]
pub(crate) struct Options {
    /// The first account is the development account.
    pub(crate) accounts: Vec<(String, String)>,
    pub(crate) storage: Storage,
    pub(crate) clock: TestClock,
    pub(crate) query_time: Duration,
    pub(crate) extensions: bool,
    /// `None` if there is no change feed.
    pub(crate) keep_changes: Option<KeepChanges>,
    pub(crate) targets: Option<Targets>,
    pub(crate) rehearsal: Option<String>,
    pub(crate) faults: FaultQueue,
}

#[derive(Debug)]
pub(crate) struct ServerThread {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<anyhow::Result<()>>,
}

#[derive(Debug)]
pub(crate) struct StartReport {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    /// `None` if the data is on disk.
    pub(crate) data: Option<TestData>,
}

/// An engine, and its log if it keeps one.
type OpenEngine = (Arc<dyn Engine>, Option<Arc<dyn ChangeLog>>);

impl ServerThread {
    /// Reports once the server accepts requests. If the server cannot start, its thread exits without a report.
    pub(crate) fn start(options: Options, report: impl FnOnce(StartReport) + Send + 'static) -> anyhow::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("rowhouse-testing".to_owned());
        let thread = thread.spawn(move || run(options, report, stopped)).context("starting a thread")?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) -> anyhow::Result<()> {
        // If the server has already stopped, the receiver has been dropped, and the result contains the reason.
        let _is_running = self.stop.send(());
        self.thread.join().map_err(|_| anyhow!("the server thread panicked"))?
    }
}

fn run(options: Options, report: impl FnOnce(StartReport), stopped: oneshot::Receiver<()>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    runtime.block_on(async {
        let Options { accounts, storage, clock, query_time, extensions, keep_changes, targets, rehearsal, faults } =
            options;
        let rehearsal = rehearsal
            .as_deref()
            .map(RehearsalSettings::parse)
            .transpose()
            .context("parsing the rehearsal conditions")?;
        let rehearsed_targets = rehearsal.filter(RehearsalSettings::rehearses_targets).map(|_| Targets::SERVICE);
        let settings = Settings {
            query_time,
            extensions,
            // A client with a path-style URL sends this request to the primary endpoint.
            stats_on_primary: true,
            targets: targets.or(rehearsed_targets),
            rehearsal,
            shutdown_time: SHUTDOWN_TIME,
            ..Settings::default()
        };
        let hooks = TestHooks { clock: clock.clone(), faults: Some(faults.into_script()), controls: None };
        let parts = (settings, access(&accounts)?, hooks);
        match storage {
            Storage::Memory => {
                let engine = Memory::for_tests(clock.clone());
                let engine = match keep_changes {
                    Some(keep) => engine.keep_changes(keep),
                    None => engine,
                };
                let (states, changes) = ((clock, engine.checkpoints()), engine.change_log());
                serve(parts, (Arc::new(engine), changes), Some(states), report, stopped).await
            }
            #[cfg(feature = "embedded")]
            Storage::Folder(path) => serve(parts, open(&path, clock, keep_changes)?, None, report, stopped).await,
            #[cfg(feature = "embedded")]
            Storage::TemporaryFolder => {
                let folder = tempfile::tempdir().context("creating a temporary folder")?;
                serve(parts, open(folder.path(), clock, keep_changes)?, None, report, stopped).await
            }
        }
    })
}

#[cfg(feature = "embedded")]
fn open(path: &Path, clock: TestClock, keep_changes: Option<KeepChanges>) -> anyhow::Result<OpenEngine> {
    let options = EmbeddedOptions {
        durability: Durability::Interval(SYNC_INTERVAL),
        cache_bytes: CACHE_BYTES,
        // A test that fills the disk gets the disk's own error.
        min_free_bytes: 0,
        kept_log: keep_changes.map_or(KeptLog::Nothing, KeptLog::Within),
        ..EmbeddedOptions::default()
    };
    let engine = Embedded::open(path, &options, clock)?;
    let changes = engine.change_log();
    Ok((Arc::new(engine), changes))
}

async fn serve(
    (settings, access, hooks): (Settings, Access, TestHooks),
    (engine, changes): OpenEngine,
    states: Option<(TestClock, MemoryCheckpoints)>,
    report: impl FnOnce(StartReport),
    stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listening on a free port")?;
    let address = listener.local_addr().context("reading the bound address")?;
    let (observers, metrics) = Observers::counting();
    let server = Server::start(settings, access, Some(hooks), observers, engine, changes).await?;
    let data = states.map(|(clock, engine)| server.test_data(clock, engine));
    report(StartReport { address, metrics, data });
    // The server also stops when the sender is dropped.
    server.run(listener, async { drop(stopped.await) }).await
}

fn access(accounts: &[(String, String)]) -> anyhow::Result<Access> {
    let accounts: Vec<_> = accounts.iter().map(|(name, key)| format!("{name}:{key}")).collect();
    Ok(Access {
        accounts: Accounts::from_environment_text(&accounts.join(";"))?,
        account_file: None,
        check_accounts: Box::new(|_| Ok(())),
        tokens: None,
        tls: None,
    })
}
