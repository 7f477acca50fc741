//! Connections that are open during a measurement: idle ones, slow readers, and scans without matches.
//!
//! These connections have a separate thread and runtime, so they do not wait for the measured connections.

use crate::dataset::EMPTY_FILTER;
use crate::generator::connection::Connection;
use crate::generator::request::{Request, Signer, continuation, filter_query};
use anyhow::{Context, ensure};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use fastrand::Rng;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The interval between requests of an idle connection. Servers close connections that send no requests.
const IDLE_TIME: Duration = Duration::from_millis(IDLE_MILLISECONDS);
const IDLE_MILLISECONDS: u64 = 30_000;
/// Maximum number of connections opened concurrently, so that the accept queue of the server's socket does not
/// overflow.
const OPENED_AT_A_TIME: usize = 64;
const CONNECT_TIME_MAX: Duration = Duration::from_mins(1);
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// With the pause that follows, a slow reader reads 80 KiB per second.
const SLOW_READ_BYTES: usize = 4 * 1024;
const SLOW_READ_PAUSE: Duration = Duration::from_millis(50);
/// The operating system may double the size of the receive buffer.
const SLOW_BUFFER_BYTES: u32 = 16 * 1024;
/// The number of open files that the process needs in addition to its connections.
const OTHER_FILES: u64 = 256;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub(crate) struct BackgroundLoad {
    /// Number of additional connections that send a request twice a minute
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = count())]
    pub(crate) idle: usize,

    /// Number of additional connections that read pages at 80 KiB per second
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = count())]
    pub(crate) slow_readers: usize,

    /// Number of additional connections that repeatedly query the table with a filter that matches nothing
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = count())]
    pub(crate) scans: usize,
}

fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(0..=1_000_000)
}

impl BackgroundLoad {
    pub(crate) fn connections(self) -> usize {
        self.idle + self.slow_readers + self.scans
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct BackgroundReport {
    pub(crate) idle: usize,
    pub(crate) idle_lost: u64,
    pub(crate) slow_readers: usize,
    pub(crate) slow_bytes: u64,
    pub(crate) slow_refused: u64,
    #[serde(default)]
    pub(crate) scans: usize,
    #[serde(default)]
    pub(crate) scanned_pages: u64,
    #[serde(default)]
    pub(crate) scans_refused: u64,
    #[serde(default)]
    pub(crate) scan_ms_max: u64,
    pub(crate) resident_mib_before: Option<f64>,
    pub(crate) resident_mib_with: Option<f64>,
}

impl fmt::Display for BackgroundReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { idle, idle_lost, slow_readers, slow_bytes, slow_refused, .. } = self;
        let Self { scans, scanned_pages, scans_refused, scan_ms_max, .. } = self;
        writeln!(f, "  idle        {idle} connections, {idle_lost} lost")?;
        writeln!(f, "  slow        {slow_readers} readers, {slow_bytes} bytes read, {slow_refused} rejections")?;
        writeln!(
            f,
            "  scans       {scans} scans, {scanned_pages} pages, {scan_ms_max} ms at most, {scans_refused} rejections"
        )?;
        if let (Some(before), Some(with)) = (self.resident_mib_before, self.resident_mib_with) {
            writeln!(f, "  resident    {before:.1} MiB without background connections, {with:.1} MiB with them")?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Counts {
    connected: AtomicU64,
    /// Only one thread changes it, so the lock is almost always free.
    report: Mutex<BackgroundReport>,
}

impl Counts {
    fn report(&self) -> MutexGuard<'_, BackgroundReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropping this value closes the connections.
#[derive(Debug)]
pub(crate) struct BackgroundConnections {
    background: BackgroundLoad,
    counts: Arc<Counts>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundConnections {
    /// Returns when all connections are open. Slow readers and scans read the given table.
    pub(crate) fn open(background: BackgroundLoad, table: &str, signer: &Signer) -> anyhow::Result<Self> {
        let (counts, is_stopping) = (Arc::<Counts>::default(), Arc::<AtomicBool>::default());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a thread")?;
        let work = run(background, table.to_owned(), signer.clone(), Arc::clone(&counts), Arc::clone(&is_stopping));
        let thread = Some(std::thread::spawn(move || runtime.block_on(work)));
        let connections_in_background = Self { background, counts, is_stopping, thread };
        let (began, all) = (Instant::now(), background.connections() as u64);
        while connections_in_background.counts.connected.load(Ordering::Relaxed) < all {
            let connected = connections_in_background.counts.connected.load(Ordering::Relaxed);
            ensure!(
                began.elapsed() < CONNECT_TIME_MAX,
                "only {connected} of {all} connections could be opened; check the limits of the server: connections \
                 (--max-connections) and open files (ulimit -n)"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(connections_in_background)
    }

    /// The caller must add the memory figures.
    pub(crate) fn report(&self) -> BackgroundReport {
        let BackgroundLoad { idle, slow_readers, scans } = self.background;
        BackgroundReport { idle, slow_readers, scans, ..self.counts.report().clone() }
    }
}

impl Drop for BackgroundConnections {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the message has already been printed, and the thread's result is not needed.
            drop(thread.join());
        }
    }
}

/// Raises the limit of open files of this process if needed.
pub(crate) fn allow_connections(count: usize) -> anyhow::Result<()> {
    let needed = count as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    ensure!(
        limit.maximum.is_none_or(|maximum| maximum >= needed),
        "this process may not open {count} connections; raise the hard limit of open files (ulimit -Hn)"
    );
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("raising the limit of open files")
}

async fn run(
    background: BackgroundLoad,
    table: String,
    signer: Signer,
    counts: Arc<Counts>,
    is_stopping: Arc<AtomicBool>,
) {
    let mut tasks = JoinSet::new();
    let opening = Arc::new(Semaphore::new(OPENED_AT_A_TIME));
    for seed in 1..=background.idle as u64 {
        tasks.spawn(keep_idle(signer.clone(), Arc::clone(&opening), Arc::clone(&counts), seed));
    }
    for _ in 0..background.slow_readers {
        tasks.spawn(read_slowly(signer.clone(), table.clone(), Arc::clone(&counts)));
    }
    for _ in 0..background.scans {
        tasks.spawn(scan_repeatedly(signer.clone(), table.clone(), Arc::clone(&counts)));
    }
    while !is_stopping.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tasks.shutdown().await;
}

/// A lost connection is not reopened, so that the report shows it.
async fn keep_idle(mut signer: Signer, opening: Arc<Semaphore>, counts: Arc<Counts>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut request = Vec::new();
    let permit = opening.acquire().await;
    let mut connection = loop {
        match Connection::open(signer.endpoint.address).await {
            Ok(connection) => break connection,
            Err(_) => tokio::time::sleep(RECONNECT_PAUSE).await,
        }
    };
    let mut is_open = ping(&mut signer, &mut connection, &mut request).await;
    counts.connected.fetch_add(1, Ordering::Relaxed);
    drop(permit);
    // The connections were opened together, but they must send their requests at different times.
    let mut pause = Duration::from_millis(random.u64(..IDLE_MILLISECONDS));
    while is_open {
        tokio::time::sleep(std::mem::replace(&mut pause, IDLE_TIME)).await;
        is_open = ping(&mut signer, &mut connection, &mut request).await;
    }
    counts.report().idle_lost += 1;
}

/// Returns true if the connection is still usable.
async fn ping(signer: &mut Signer, connection: &mut Connection, request: &mut Vec<u8>) -> bool {
    signer.write(request, &Request::get(b"/Tables", "?$top=1"));
    let is_usable =
        matches!(connection.exchange(request, b"").await, Ok(answer) if answer.status == 200 && !answer.closes);
    connection.release_memory();
    is_usable
}

async fn read_slowly(mut signer: Signer, table: String, counts: Arc<Counts>) {
    let mut is_known = false;
    loop {
        let result = read_pages(&mut signer, &table, &counts, &mut is_known).await;
        if result.is_err() {
            counts.report().slow_refused += 1;
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn scan_repeatedly(mut signer: Signer, table: String, counts: Arc<Counts>) {
    let path = format!("/{table}()");
    let filter = filter_query(EMPTY_FILTER);
    let (mut open, mut is_known, mut request) = (None, false, Vec::new());
    let mut query = filter.clone();
    loop {
        if open.is_none() {
            open = Connection::open(signer.endpoint.address).await.ok();
        }
        if open.is_some() && !std::mem::replace(&mut is_known, true) {
            counts.connected.fetch_add(1, Ordering::Relaxed);
        }
        signer.write(&mut request, &Request::get(path.as_bytes(), &query));
        let began = Instant::now();
        if let Some(next) = scan_page(&mut open, &request).await {
            let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut report = counts.report();
            report.scanned_pages += 1;
            report.scan_ms_max = report.scan_ms_max.max(milliseconds);
            query = next.map_or_else(|| filter.clone(), |next| format!("{filter}&{}", continuation(&next)));
        } else {
            counts.report().scans_refused += 1;
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }
}

/// Returns the continuation of the scan, if any. If the page was rejected, closes the connection and returns `None`.
async fn scan_page(open: &mut Option<Connection>, request: &[u8]) -> Option<Option<(String, Option<String>)>> {
    let mut connection = open.take()?;
    let answer = connection.exchange(request, b"").await.ok()?;
    let (is_page, next) = (answer.status == 200 && !answer.closes, answer.next);
    is_page.then(|| {
        *open = Some(connection);
        next
    })
}

/// The response ends when the connection is closed.
async fn read_pages(signer: &mut Signer, table: &str, counts: &Counts, is_known: &mut bool) -> std::io::Result<()> {
    let socket = if signer.endpoint.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_recv_buffer_size(SLOW_BUFFER_BYTES)?;
    let mut stream: TcpStream = socket.connect(signer.endpoint.address).await?;
    if !std::mem::replace(is_known, true) {
        counts.connected.fetch_add(1, Ordering::Relaxed);
    }
    let mut request = Vec::new();
    let path = format!("/{table}()");
    let close = Request { headers: "Connection: close\r\n", ..Request::get(path.as_bytes(), "") };
    signer.write(&mut request, &close);
    stream.write_all(&request).await?;
    let mut piece = vec![0; SLOW_READ_BYTES];
    let mut is_first = true;
    loop {
        let length = stream.read(&mut piece).await?;
        let read = piece.get(..length).unwrap_or_default();
        if std::mem::take(&mut is_first) && !read.starts_with(b"HTTP/1.1 200") {
            return Err(Error::new(ErrorKind::InvalidData, "the page was rejected"));
        }
        if length == 0 {
            return Ok(());
        }
        counts.report().slow_bytes += length as u64;
        tokio::time::sleep(SLOW_READ_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::endpoint::Endpoint;
    use crate::generator::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use wire::signing::AccountKey;

    fn server(head: &'static str, body_bytes: usize) -> Signer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|length| length > 0) {
                        // The client may disconnect at any time.
                        drop(write!(stream, "{head}\r\nContent-Length: {body_bytes}\r\n\r\n"));
                        drop(stream.write_all(&vec![b'x'; body_bytes]));
                        if head.contains("close") {
                            return;
                        }
                    }
                });
            }
        });
        let endpoint = Endpoint::parse(&url, DEVELOPMENT_ACCOUNT, false).unwrap();
        Signer::new(endpoint, DEVELOPMENT_ACCOUNT, AccountKey::parse(DEVELOPMENT_KEY).unwrap())
    }

    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < CONNECT_TIME_MAX, "timed out waiting for {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn idle_connections_stay_open_and_closed_ones_are_counted() {
        let background = BackgroundLoad { idle: 100, ..BackgroundLoad::default() };
        let connections_in_background =
            BackgroundConnections::open(background, "Bench", &server("HTTP/1.1 200 OK", 10)).unwrap();
        let report = connections_in_background.report();
        assert_eq!((report.idle, report.idle_lost), (100, 0));
        drop(connections_in_background);
        let closing = server("HTTP/1.1 200 OK\r\nConnection: close", 10);
        let connections_in_background = BackgroundConnections::open(background, "Bench", &closing).unwrap();
        eventually("the loss of all connections", || connections_in_background.report().idle_lost >= 100);
    }

    #[test]
    fn slow_readers_read_slowly_and_refusals_are_counted() {
        let background = BackgroundLoad { slow_readers: 2, ..BackgroundLoad::default() };
        let began = Instant::now();
        let connections_in_background =
            BackgroundConnections::open(background, "Bench", &server("HTTP/1.1 200 OK", 4_000_000)).unwrap();
        eventually("six reads", || connections_in_background.report().slow_bytes >= 6 * SLOW_READ_BYTES as u64);
        assert!(began.elapsed() >= 2 * SLOW_READ_PAUSE, "six reads by two readers include two pauses");
        drop(connections_in_background);
        let busy = server("HTTP/1.1 503 Busy\r\nConnection: close", 10);
        let connections_in_background = BackgroundConnections::open(background, "Bench", &busy).unwrap();
        eventually("a rejection of each reader", || connections_in_background.report().slow_refused >= 2);
        assert_eq!(connections_in_background.report().slow_bytes, 0);
    }

    #[test]
    fn scans_go_on_and_refusals_are_counted() {
        let background = BackgroundLoad { scans: 2, ..BackgroundLoad::default() };
        let connections = BackgroundConnections::open(background, "Bench", &server("HTTP/1.1 200 OK", 10)).unwrap();
        eventually("a second page", || connections.report().scanned_pages >= 4);
        assert_eq!(connections.report().scans_refused, 0);
        drop(connections);
        let connections = BackgroundConnections::open(background, "Bench", &server("HTTP/1.1 503 Busy", 10)).unwrap();
        eventually("a rejection of each scan", || connections.report().scans_refused >= 2);
        assert_eq!(connections.report().scanned_pages, 0);
    }

    #[test]
    fn the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
        let limit = getrlimit(Resource::Nofile);
        let maximum = limit.maximum.unwrap_or(1 << 20);
        allow_connections(usize::try_from(maximum - OTHER_FILES).unwrap()).unwrap();
        assert!(getrlimit(Resource::Nofile).current.is_none_or(|current| current >= maximum));
        if let Some(maximum) = limit.maximum {
            assert!(allow_connections(usize::try_from(maximum).unwrap()).is_err());
        }
    }
}
