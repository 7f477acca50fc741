//! The open connections of a listener: how many there may be, how much memory the heads of their requests may take, and which
//! connection is closed when either is short.
//!
//! That is the connection that has waited longest without a request in progress. So clients that only hold connections cannot
//! keep others out, and a request is never cut off for another connection.
//!
//! This module must not know HTTP.

use crate::clock;
use model::limits::{HEAD_BYTES_UNCOUNTED, HEADS_BYTES_MAX};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tracing::debug;

/// The mark of a connection that is being closed, among the requests in progress.
const CLOSING: u32 = 1 << 31;

/// The connections of one listener.
#[derive(Debug)]
pub(crate) struct ConnectionRegistry {
    permits: Arc<Semaphore>,
    per_address_max: Option<usize>,
    began: Instant,
    /// Bytes of unfinished and current heads, of connections that have more than the uncounted ones.
    ///
    /// May be below zero for a moment, while a connection counts bytes and is being closed.
    head_bytes: AtomicIsize,
    open: Mutex<OpenConnections>,
    counters: Arc<ConnectionCounters>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    states: HashMap<u64, Arc<ConnectionState>>,
    by_address: HashMap<IpAddr, usize>,
}

/// What the registry knows of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    registry: Arc<ConnectionRegistry>,
    /// The number of requests in progress, and [`CLOSING`].
    requests: AtomicU32,
    /// When the last request began, or the connection, in milliseconds after the registry.
    since: AtomicU64,
    /// Whether the connection has had a request.
    is_used: AtomicBool,
    /// Bytes of the head that is being received, or whose request is in progress.
    head_bytes: AtomicUsize,
    task: Mutex<Option<AbortHandle>>,
}

/// A place among the open connections; free again when dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    state: Arc<ConnectionState>,
    number: u64,
    address: IpAddr,
    _permit: OwnedSemaphorePermit,
}

/// A request in progress; the connection is not closed for another one until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestInProgress(Arc<ConnectionState>);

impl ConnectionRegistry {
    /// A registry for at most this many connections, and at most so many of each address.
    pub(crate) fn new(
        connections_max: usize,
        per_address_max: Option<usize>,
        counters: Arc<ConnectionCounters>,
    ) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS))),
            per_address_max,
            began: clock::instant(),
            head_bytes: AtomicIsize::new(0),
            open: Mutex::default(),
            counters,
        })
    }

    /// A place for a connection of this address, which may cost another connection its place; `None` if the address has as
    /// many as it may have.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        let address = counted_address(address);
        let of_address = self.lock().by_address.get(&address).copied().unwrap_or_default();
        if self.per_address_max.is_some_and(|most| of_address >= most) {
            self.counters.refuse();
            return None;
        }
        if self.permits.available_permits() == 0 {
            self.close_longest_waiting(|_| true);
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        self.counters.accept();
        let state = Arc::new(ConnectionState {
            registry: Arc::clone(self),
            requests: AtomicU32::new(0),
            since: AtomicU64::new(self.milliseconds(clock::instant())),
            is_used: AtomicBool::new(false),
            head_bytes: AtomicUsize::new(0),
            task: Mutex::default(),
        });
        let mut open = self.lock();
        open.next += 1;
        let number = open.next;
        open.states.insert(number, Arc::clone(&state));
        *open.by_address.entry(address).or_default() += 1;
        drop(open);
        Some(OpenConnection { state, number, address, _permit: permit })
    }

    /// Closes the connection that has waited longest without a request in progress, among those that are meant.
    fn close_longest_waiting(&self, is_meant: impl Fn(&ConnectionState) -> bool) -> bool {
        loop {
            let waiting = {
                let open = self.lock();
                let waiting = open.states.values().filter(|state| state.is_waiting() && is_meant(state));
                waiting.min_by_key(|state| state.since.load(Ordering::Relaxed)).cloned()
            };
            let Some(state) = waiting else { return false };
            // Otherwise a request has just begun on it.
            if state.requests.compare_exchange(0, CLOSING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                if let Some(task) = &*lock(&state.task) {
                    task.abort();
                }
                self.release_head(&state);
                self.counters.displace();
                debug!("an idle connection is closed, because another one needs its place or its memory");
                return true;
            }
        }
    }

    /// Counts bytes of a head that were received; `false` if there is no memory for them.
    fn count_head(&self, own: &ConnectionState, bytes: usize) -> bool {
        let before = own.head_bytes.fetch_add(bytes, Ordering::Relaxed);
        let more = counted(before + bytes) - counted(before);
        if more == 0 {
            return true;
        }
        self.head_bytes.fetch_add(more, Ordering::Relaxed);
        while self.head_bytes.load(Ordering::Relaxed) > HEADS_BYTES_MAX {
            let is_other = |state: &ConnectionState| {
                !std::ptr::eq(state, own) && counted(state.head_bytes.load(Ordering::Relaxed)) > 0
            };
            if !self.close_longest_waiting(is_other) {
                return false;
            }
        }
        true
    }

    fn release_head(&self, state: &ConnectionState) {
        let bytes = counted(state.head_bytes.swap(0, Ordering::Relaxed));
        if bytes > 0 {
            self.head_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn milliseconds(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        lock(&self.open)
    }
}

impl ConnectionState {
    fn is_waiting(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    /// If the connection waits for the head of its first request, or for the rest of one: since when.
    pub(crate) fn waiting_for_head(&self) -> Option<u64> {
        let has_begun = self.head_bytes.load(Ordering::Relaxed) > 0 || !self.is_used.load(Ordering::Relaxed);
        (self.is_waiting() && has_begun).then(|| self.since.load(Ordering::Relaxed))
    }

    /// Counts bytes that were received; `false` if the connection must be closed, because there is no memory for the head
    /// that they belong to.
    pub(crate) fn receive(&self, bytes: usize) -> bool {
        !self.is_waiting() || self.registry.count_head(self, bytes)
    }

    /// A request begins, whose head was received at this instant; `None` if the connection is being closed.
    pub(crate) fn begin_request(self: &Arc<Self>, at: Instant) -> Option<RequestInProgress> {
        if self.requests.fetch_add(1, Ordering::AcqRel) & CLOSING != 0 {
            return None;
        }
        self.since.store(self.registry.milliseconds(at), Ordering::Relaxed);
        self.is_used.store(true, Ordering::Relaxed);
        Some(RequestInProgress(Arc::clone(self)))
    }

    /// Names the task that serves the connection from here on, which is stopped to close it.
    pub(crate) fn set_task(&self, task: AbortHandle) {
        let mut current = lock(&self.task);
        if self.requests.load(Ordering::Acquire) & CLOSING != 0 {
            task.abort();
        }
        *current = Some(task);
    }
}

impl OpenConnection {
    /// What is known of the connection.
    pub(crate) fn state(&self) -> Arc<ConnectionState> {
        Arc::clone(&self.state)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let registry = &self.state.registry;
        registry.release_head(&self.state);
        registry.counters.close();
        let mut open = registry.lock();
        open.states.remove(&self.number);
        if let Some(count) = open.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.registry.release_head(&self.0);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The counters of connections.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounters {
    pub(crate) open: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) failed_handshakes: AtomicU64,
    pub(crate) slow_readers: AtomicU64,
    pub(crate) displaced: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl ConnectionCounters {
    /// Counts a connection that was accepted.
    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a connection that was accepted.
    pub(crate) fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection that was refused, because its address has too many.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an idle connection that was closed because another one needed its place or its memory.
    pub(crate) fn displace(&self) {
        self.displaced.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a TLS handshake that failed or took too long.
    pub(crate) fn handshake_failed(&self) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that was closed because its client did not read its response.
    pub(crate) fn count_slow_reader(&self) {
        self.slow_readers.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a head counts: nothing while it is in the buffer that every connection has.
fn counted(head_bytes: usize) -> isize {
    if head_bytes > HEAD_BYTES_UNCOUNTED { isize::try_from(head_bytes).unwrap_or(isize::MAX) } else { 0 }
}

/// The address under which a connection is counted: a host is given a whole network of 64 bits in version 6.
fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
