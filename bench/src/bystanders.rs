//! Connections that are there while others are measured: idle ones, and readers that take their pages slowly.
//!
//! They have a thread and a runtime of their own, so that they do not wait for the connections that are measured.

use crate::connection::Connection;
use crate::request::{Request, Signer};
use anyhow::{Context, ensure};
use fastrand::Rng;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// An idle connection asks for something this often: servers close those that never do.
const IDLE_TIME: Duration = Duration::from_millis(IDLE_MILLISECONDS);
const IDLE_MILLISECONDS: u64 = 30_000;
/// How many connections are being opened at a time, so that the queue of the server's socket does not overflow.
const OPENED_AT_A_TIME: usize = 64;
/// Everybody must be connected by then.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(60);
/// The pause after a connection could not be opened.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// What a slow reader reads at a time, in bytes, and how long it waits before it reads again: 80 KiB a second.
const SLOW_READ_BYTES: usize = 4 * 1024;
const SLOW_READ_PAUSE: Duration = Duration::from_millis(50);
/// What the operating system takes for a slow reader ahead of it, in bytes. It may double it.
const SLOW_BUFFER_BYTES: u32 = 16 * 1024;
/// Files that this process needs beside connections.
const OTHER_FILES: u64 = 256;

/// How many of them there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// Connections that are open and ask for something twice a minute.
    pub(crate) idle: usize,
    /// Connections that ask for pages and read them at 80 KiB a second.
    pub(crate) slow_readers: usize,
}

/// What became of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CrowdReport {
    pub(crate) idle: usize,
    /// Idle connections that were lost meanwhile.
    pub(crate) idle_lost: u64,
    pub(crate) slow_readers: usize,
    /// Bytes that the slow readers read.
    pub(crate) slow_bytes: u64,
    /// Requests of slow readers that were refused, and connections of theirs that were closed.
    pub(crate) slow_refused: u64,
    /// Resident memory of the server before they came, and once they were there.
    pub(crate) resident_mib_before: Option<f64>,
    pub(crate) resident_mib_with: Option<f64>,
}

impl fmt::Display for CrowdReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { idle, idle_lost, slow_readers, slow_bytes, slow_refused, .. } = self;
        writeln!(f, "  idle        {idle} connections, {idle_lost} lost")?;
        writeln!(f, "  slow        {slow_readers} readers, {slow_bytes} bytes read, {slow_refused} times refused")?;
        if let (Some(before), Some(with)) = (self.resident_mib_before, self.resident_mib_with) {
            writeln!(f, "  resident    {before:.1} MiB before they came, {with:.1} MiB with them")?;
        }
        Ok(())
    }
}

/// What they count.
#[derive(Debug, Default)]
struct Counts {
    connected: AtomicU64,
    idle_lost: AtomicU64,
    slow_bytes: AtomicU64,
    slow_refused: AtomicU64,
}

/// Connections that stay until this is finished or dropped.
#[derive(Debug)]
pub(crate) struct Bystanders {
    crowd: Crowd,
    counts: Arc<Counts>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bystanders {
    /// Opens all connections, and answers when they are open. Slow readers read this table.
    pub(crate) fn gather(crowd: Crowd, table: &str, signer: &Signer) -> anyhow::Result<Self> {
        let (counts, is_over) = (Arc::<Counts>::default(), Arc::<AtomicBool>::default());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a thread")?;
        let stand = stand(crowd, table.to_owned(), signer.clone(), Arc::clone(&counts), Arc::clone(&is_over));
        let thread = Some(std::thread::spawn(move || runtime.block_on(stand)));
        let bystanders = Self { crowd, counts, is_over, thread };
        let (began, all) = (Instant::now(), (crowd.idle + crowd.slow_readers) as u64);
        while bystanders.counts.connected.load(Ordering::Relaxed) < all {
            let connected = bystanders.counts.connected.load(Ordering::Relaxed);
            ensure!(
                began.elapsed() < CONNECT_TIME_MAX,
                "only {connected} of {all} connections could be opened; does the server take so many (--max-connections), \
                 and files (ulimit -n)?"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(bystanders)
    }

    /// What became of them until now. The memory is for the caller to add.
    pub(crate) fn report(&self) -> CrowdReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CrowdReport {
            idle: self.crowd.idle,
            idle_lost: count(&self.counts.idle_lost),
            slow_readers: self.crowd.slow_readers,
            slow_bytes: count(&self.counts.slow_bytes),
            slow_refused: count(&self.counts.slow_refused),
            resident_mib_before: None,
            resident_mib_with: None,
        }
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it has been printed, and nothing that it holds is needed any more.
            drop(thread.join());
        }
    }
}

/// Makes sure that this process may open so many connections, and asks for more if it may not.
pub(crate) fn allow_connections(count: usize) -> anyhow::Result<()> {
    let needed = count as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    ensure!(
        limit.maximum.is_none_or(|maximum| maximum >= needed),
        "{count} connections are more than this process may open; raise the hard limit of open files (ulimit -Hn)"
    );
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("raising the limit of open files")
}

async fn stand(crowd: Crowd, table: String, signer: Signer, counts: Arc<Counts>, is_over: Arc<AtomicBool>) {
    let mut standing = JoinSet::new();
    let doors = Arc::new(Semaphore::new(OPENED_AT_A_TIME));
    for seed in 1..=crowd.idle as u64 {
        standing.spawn(idle(signer.clone(), Arc::clone(&doors), Arc::clone(&counts), seed));
    }
    for _ in 0..crowd.slow_readers {
        standing.spawn(read_slowly(signer.clone(), table.clone(), Arc::clone(&counts)));
    }
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    standing.shutdown().await;
}

/// Keeps a connection open. One that is lost stays lost, so that the report tells of it.
async fn idle(mut signer: Signer, doors: Arc<Semaphore>, counts: Arc<Counts>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut request = Vec::new();
    let door = doors.acquire().await;
    let mut connection = loop {
        match Connection::open(signer.endpoint.address).await {
            Ok(connection) => break connection,
            Err(_) => tokio::time::sleep(RECONNECT_PAUSE).await,
        }
    };
    let mut is_open = ask(&mut signer, &mut connection, &mut request).await;
    counts.connected.fetch_add(1, Ordering::Relaxed);
    drop(door);
    // They came together, and are to ask at different times.
    let mut pause = Duration::from_millis(random.u64(..IDLE_MILLISECONDS));
    while is_open {
        tokio::time::sleep(std::mem::replace(&mut pause, IDLE_TIME)).await;
        is_open = ask(&mut signer, &mut connection, &mut request).await;
    }
    counts.idle_lost.fetch_add(1, Ordering::Relaxed);
}

/// Asks for something small that every account has; answers whether the connection is still good.
async fn ask(signer: &mut Signer, connection: &mut Connection, request: &mut Vec<u8>) -> bool {
    signer.write(request, &Request::get(b"/Tables", "?$top=1"));
    let is_good =
        matches!(connection.exchange(request, b"").await, Ok(answer) if answer.status == 200 && !answer.closes);
    connection.release_memory();
    is_good
}

/// Asks for the first page of a table again and again, and takes its time with it.
async fn read_slowly(mut signer: Signer, table: String, counts: Arc<Counts>) {
    let mut is_known = false;
    loop {
        let result = read_pages(&mut signer, &table, &counts, &mut is_known).await;
        if result.is_err() {
            counts.slow_refused.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

/// One page on a connection of its own: the end of the connection is the end of the answer.
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
            return Err(Error::new(ErrorKind::InvalidData, "the page was refused"));
        }
        if length == 0 {
            return Ok(());
        }
        counts.slow_bytes.fetch_add(length as u64, Ordering::Relaxed);
        tokio::time::sleep(SLOW_READ_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::request::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use wire::signing::AccountKey;

    /// A server that answers every request of every connection with a body, until a connection ends.
    fn server(head: &'static str, body_bytes: usize) -> Signer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|length| length > 0) {
                        // The client may go away at any time.
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

    /// Looks again until something is so.
    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < CONNECT_TIME_MAX, "{what} does not happen");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn idle_connections_stay_and_those_that_are_closed_are_counted() {
        let crowd = Crowd { idle: 100, slow_readers: 0 };
        let bystanders = Bystanders::gather(crowd, "Bench", &server("HTTP/1.1 200 OK", 10)).unwrap();
        let report = bystanders.report();
        assert_eq!((report.idle, report.idle_lost), (100, 0));
        drop(bystanders);
        let closing = server("HTTP/1.1 200 OK\r\nConnection: close", 10);
        let bystanders = Bystanders::gather(crowd, "Bench", &closing).unwrap();
        eventually("the loss of all", || bystanders.report().idle_lost >= 100);
    }

    #[test]
    fn slow_readers_read_slowly_and_what_is_refused_is_counted() {
        let crowd = Crowd { idle: 0, slow_readers: 2 };
        let began = Instant::now();
        let bystanders = Bystanders::gather(crowd, "Bench", &server("HTTP/1.1 200 OK", 4_000_000)).unwrap();
        eventually("reading", || bystanders.report().slow_bytes >= 6 * SLOW_READ_BYTES as u64);
        assert!(began.elapsed() >= 2 * SLOW_READ_PAUSE, "six reads of two readers have two pauses between them");
        drop(bystanders);
        let busy = server("HTTP/1.1 503 Busy\r\nConnection: close", 10);
        let bystanders = Bystanders::gather(crowd, "Bench", &busy).unwrap();
        eventually("a refusal of each", || bystanders.report().slow_refused >= 2);
        assert_eq!(bystanders.report().slow_bytes, 0);
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
