//! The open connections of a listener: how many there may be, how much memory the heads of their requests may take, and which
//! connection is closed when either is short.
//!
//! Of the connections without a request in progress, the first to be closed is one that lingers after a refusal, then one that never
//! sent a valid credential, then one that did; among equals, the one that has waited longest. So clients that only hold
//! connections cannot keep others out, those without a credential take no connection from those with one, and a request is never
//! cut off for another connection. Every connection has a quarter of a second for its first request before it is closed for the
//! place of another one, so clients that connect again as fast as they can do not drive out one that has only just come.
//!
//! This module must not know HTTP.

use crate::clock;
use model::limits::{HEAD_BYTES_UNCOUNTED, HEADS_BYTES_MAX};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::debug;

/// How long to wait for a place before a connection is closed for it.
const PLACE_INTERVAL: Duration = Duration::from_millis(100);
/// How long a connection that has had no request keeps its place, whoever else waits for one.
const FIRST_REQUEST_TIME: Duration = Duration::from_millis(250);
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
    /// Whether a request had a valid credential.
    is_authenticated: AtomicBool,
    /// Whether the connection ends after its current response, while the client may still be sending.
    is_lingering: AtomicBool,
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
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                break permit;
            }
            // Again after each interval: requests that were in progress may have ended, and their connections wait now.
            self.close_longest_waiting(FIRST_REQUEST_TIME, |_| true);
            if let Ok(permit) = timeout(PLACE_INTERVAL, Arc::clone(&self.permits).acquire_owned()).await {
                break permit.expect("the semaphore is never closed");
            }
        };
        self.counters.accept();
        let state = Arc::new(ConnectionState {
            registry: Arc::clone(self),
            requests: AtomicU32::new(0),
            since: AtomicU64::new(self.milliseconds(clock::instant())),
            is_used: AtomicBool::new(false),
            is_authenticated: AtomicBool::new(false),
            is_lingering: AtomicBool::new(false),
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

    /// Closes the connection that has waited longest without a request in progress, among those that are meant; none, if that
    /// one has had less than this time for its first request.
    fn close_longest_waiting(&self, first_request_time: Duration, is_meant: impl Fn(&ConnectionState) -> bool) -> bool {
        loop {
            let now = clock::instant();
            let new_since = now.checked_sub(first_request_time).map_or(0, |instant| self.milliseconds(instant));
            let waiting = {
                let open = self.lock();
                let waiting = open.states.values().filter(|state| state.is_waiting() && is_meant(state));
                waiting.min_by_key(|state| state.rank(new_since)).cloned()
            };
            let Some(state) = waiting.filter(|state| !state.is_new(new_since)) else { return false };
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
            if !self.close_longest_waiting(Duration::ZERO, is_other) {
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

    /// Whether the connection was opened after this instant and has had no request.
    fn is_new(&self, since: u64) -> bool {
        let has_had_its_chance = self.is_used.load(Ordering::Relaxed) || self.is_lingering.load(Ordering::Relaxed);
        self.since.load(Ordering::Relaxed) > since && !has_had_its_chance
    }

    /// The least is closed first.
    fn rank(&self, new_since: u64) -> (bool, bool, bool, u64) {
        let is_serving = !self.is_lingering.load(Ordering::Relaxed);
        let is_authenticated = self.is_authenticated.load(Ordering::Relaxed);
        (is_serving, is_authenticated, self.is_new(new_since), self.since.load(Ordering::Relaxed))
    }

    /// Returns true if the connection must not be closed before its client had time to send the rest of what was refused: a
    /// body, or a head that is malformed or too long.
    pub(crate) fn lingers(&self) -> bool {
        if self.is_waiting() && self.head_bytes.load(Ordering::Relaxed) > 0 {
            self.is_lingering.store(true, Ordering::Relaxed);
        }
        self.is_lingering.load(Ordering::Relaxed)
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

impl RequestInProgress {
    /// Notes that the request has a valid credential, whatever becomes of it.
    pub(crate) fn authenticate(&self) {
        if !self.0.is_authenticated.load(Ordering::Relaxed) {
            self.0.is_authenticated.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the connection ends after the response, and that the client may still be sending.
    pub(crate) fn linger(&self) {
        self.0.is_lingering.store(true, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    fn registry(connections_max: usize, per_address_max: Option<usize>) -> Arc<ConnectionRegistry> {
        ConnectionRegistry::new(connections_max, per_address_max, Arc::default())
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    /// A connection whose task ends only when it is closed for another one.
    async fn open(registry: &Arc<ConnectionRegistry>) -> Arc<ConnectionState> {
        let place = registry.admit(address(1)).await.unwrap();
        let state = place.state();
        let task = tokio::spawn(async move {
            let _place = place;
            pending::<()>().await;
        });
        state.set_task(task.abort_handle());
        state
    }

    fn is_closed(state: &ConnectionState) -> bool {
        state.requests.load(Ordering::Relaxed) & CLOSING != 0
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_waited_longest_gives_its_place() {
        let registry = registry(2, None);
        let (first, second) = (open(&registry).await, open(&registry).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(first.begin_request(clock::instant()).unwrap());
        let third = open(&registry).await;
        assert_eq!((is_closed(&first), is_closed(&second)), (false, true), "the first one had a request since");
        assert!(second.begin_request(clock::instant()).is_none(), "no request begins on what is being closed");
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(third.begin_request(clock::instant()).unwrap());
        let _fourth = open(&registry).await;
        assert_eq!((is_closed(&first), is_closed(&third)), (true, false));
        assert_eq!(registry.counters.displaced.load(Ordering::Relaxed), 2);
        assert_eq!(registry.counters.open.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lingering_connection_gives_its_place_before_all_others() {
        let registry = registry(3, None);
        let anonymous = open(&registry).await;
        let lingering = open(&registry).await;
        let malformed = open(&registry).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let request = lingering.begin_request(clock::instant()).unwrap();
        request.authenticate();
        request.linger();
        assert!(!anonymous.lingers() && lingering.lingers());
        drop(request);
        let _fourth = open(&registry).await;
        assert_eq!((is_closed(&anonymous), is_closed(&lingering), is_closed(&malformed)), (false, true, false));
        assert!(malformed.receive(1) && malformed.lingers(), "its head was refused");
        let _fifth = open(&registry).await;
        assert_eq!((is_closed(&anonymous), is_closed(&malformed)), (false, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_time_for_its_first_request_before_it_gives_its_place() {
        let registry = registry(2, None);
        let known = open(&registry).await;
        known.begin_request(clock::instant()).unwrap().authenticate();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let new = open(&registry).await;
        let (_third, ()) = tokio::join!(open(&registry), async {
            tokio::time::sleep(FIRST_REQUEST_TIME.saturating_sub(PLACE_INTERVAL / 2)).await;
            assert_eq!((is_closed(&known), is_closed(&new)), (false, false), "the third one waits");
            tokio::time::sleep(2 * PLACE_INTERVAL).await;
        });
        assert_eq!((is_closed(&known), is_closed(&new)), (false, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_progress_is_not_cut_off_for_a_place() {
        let registry = registry(1, None);
        let busy = open(&registry).await;
        let request = busy.begin_request(clock::instant()).unwrap();
        let (_next, ()) = tokio::join!(open(&registry), async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(!is_closed(&busy));
            drop(request);
        });
        assert!(is_closed(&busy), "its place was given away once the request had ended");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_a_number_of_places() {
        let registry = registry(10, Some(2));
        let (first, _second) = (registry.admit(address(1)).await.unwrap(), registry.admit(address(1)).await.unwrap());
        assert!(registry.admit(address(1)).await.is_none());
        assert!(registry.admit(address(2)).await.is_some());
        drop(first);
        assert!(registry.admit(address(1)).await.is_some());
        let of_network = |host: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, host));
        let _in_network = [registry.admit(of_network(1)).await.unwrap(), registry.admit(of_network(2)).await.unwrap()];
        assert!(registry.admit(of_network(3)).await.is_none(), "they are of one network");
    }

    #[tokio::test(start_paused = true)]
    async fn of_unfinished_heads_the_oldest_give_their_memory() {
        let registry = registry(10_000, None);
        let head_bytes = 120 * 1024;
        let count = usize::try_from(HEADS_BYTES_MAX).unwrap() / head_bytes;
        let mut heads = Vec::new();
        for _ in 0..count {
            let state = open(&registry).await;
            assert!(state.receive(head_bytes / 2) && state.receive(head_bytes / 2));
            heads.push(state);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let in_progress = heads[0].begin_request(clock::instant()).unwrap();
        let small = open(&registry).await;
        assert!(small.receive(HEAD_BYTES_UNCOUNTED));
        assert!(heads.iter().all(|state| !is_closed(state)));
        let one_more = open(&registry).await;
        assert!(one_more.receive(head_bytes));
        let closed: Vec<usize> = (0..count).filter(|index| is_closed(&heads[*index])).collect();
        assert_eq!(closed, [1], "the oldest one whose request is not in progress");
        assert!(!is_closed(&small) && !is_closed(&one_more));
        drop(in_progress);
        tokio::task::yield_now().await;
        drop(one_more.begin_request(clock::instant()).unwrap());
        assert!(registry.head_bytes.load(Ordering::Relaxed) < HEADS_BYTES_MAX);
    }
}
