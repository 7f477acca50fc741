//! The open connections of a listener. This registry limits their number and the memory for the heads of their
//! requests, and chooses which connection to close when a limit is reached.
//!
//! Only connections without a request in progress are closed, in this order: first those that linger after a refusal,
//! then those that never sent a valid credential, then those that did. Within each group, the connection that has
//! waited longest is closed first. Clients that only hold connections therefore cannot block others, and clients
//! without a credential cannot displace those with one. A request is never interrupted in favor of another connection.
//! Every connection has a quarter of a second for its first request before it can be closed to make room, so new
//! connections are not displaced by clients that reconnect as fast as they can.
//!
//! This module must not depend on HTTP.

use crate::clock;
use model::limits::{HEAD_BYTES_UNCOUNTED, HEADS_BYTES_MAX};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::debug;

/// The time to wait for a slot before another connection is closed to make room.
const PLACE_INTERVAL: Duration = Duration::from_millis(100);
/// The time for which a connection that has had no request keeps its slot, even if others are waiting.
const FIRST_REQUEST_TIME: Duration = Duration::from_millis(250);
/// A flag in the number of requests in progress: the connection is being closed.
const CLOSING: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct ConnectionRegistry {
    permits: Arc<Semaphore>,
    per_address_max: Option<usize>,
    began: Instant,
    /// Bytes of unfinished and current heads, counted only for connections with more than the uncounted bytes.
    ///
    /// May be negative for a moment, while a connection counts bytes and is being closed.
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

#[derive(Debug)]
pub(crate) struct ConnectionState {
    registry: Arc<ConnectionRegistry>,
    requests: AtomicU32,
    /// When the last request began, or if there was none, when the connection was opened; in milliseconds since the
    /// registry was created.
    since: AtomicU64,
    is_used: AtomicBool,
    is_authenticated: AtomicBool,
    /// Whether the connection closes after its current response, while the client may still be sending.
    is_lingering: AtomicBool,
    head_bytes: AtomicUsize,
    task: Mutex<Option<AbortHandle>>,
}

/// The slot of an open connection; freed when dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    state: Arc<ConnectionState>,
    number: u64,
    address: IpAddr,
    _permit: OwnedSemaphorePermit,
}

/// A request in progress. Its connection cannot be displaced until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestInProgress(Arc<ConnectionState>);

impl ConnectionRegistry {
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

    /// Returns a slot for a connection from the given address, if necessary by closing another connection. Returns
    /// `None` if the address already has the maximum number of connections.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr) -> Option<OpenConnection> {
        let address = counted_address(address);
        let of_address = self.open.lock().by_address.get(&address).copied().unwrap_or_default();
        if self.per_address_max.is_some_and(|most| of_address >= most) {
            self.counters.refuse();
            return None;
        }
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                break permit;
            }
            // Retried after each interval, because requests may have finished in the meantime, which makes their
            // connections idle.
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
        let mut open = self.open.lock();
        open.next += 1;
        let number = open.next;
        open.states.insert(number, Arc::clone(&state));
        *open.by_address.entry(address).or_default() += 1;
        drop(open);
        Some(OpenConnection { state, number, address, _permit: permit })
    }

    /// Closes the matching connection that has waited longest without a request in progress. Closes none if that
    /// connection has had less than `first_request_time` for its first request.
    fn close_longest_waiting(&self, first_request_time: Duration, is_meant: impl Fn(&ConnectionState) -> bool) -> bool {
        loop {
            let now = clock::instant();
            let new_since = now.checked_sub(first_request_time).map_or(0, |instant| self.milliseconds(instant));
            let waiting = {
                let open = self.open.lock();
                let waiting = open.states.values().filter(|state| state.is_waiting() && is_meant(state));
                waiting.min_by_key(|state| state.rank(new_since)).cloned()
            };
            let Some(state) = waiting.filter(|state| !state.is_new(new_since)) else { return false };
            // If this fails, a request has just begun on the connection.
            if state.requests.compare_exchange(0, CLOSING, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                if let Some(task) = &*state.task.lock() {
                    task.abort();
                }
                self.release_head(&state);
                self.counters.displace();
                debug!("closed an idle connection to free its slot or its memory for another connection");
                return true;
            }
        }
    }

    /// Returns false if there is no memory for the bytes.
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

    fn uncount_head(&self, own: &ConnectionState, bytes: usize) {
        let before = own.head_bytes.update(Ordering::Relaxed, Ordering::Relaxed, |before| before.saturating_sub(bytes));
        let fewer = counted(before) - counted(before.saturating_sub(bytes));
        if fewer > 0 {
            self.head_bytes.fetch_sub(fewer, Ordering::Relaxed);
        }
    }

    fn release_head(&self, state: &ConnectionState) {
        let bytes = counted(state.head_bytes.swap(0, Ordering::Relaxed));
        if bytes > 0 {
            self.head_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    #[cfg(test)]
    pub(crate) fn counted_heads_bytes(&self) -> usize {
        usize::try_from(self.head_bytes.load(Ordering::Relaxed)).unwrap()
    }

    fn milliseconds(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

impl ConnectionState {
    /// Returns true if no request is in progress.
    pub(crate) fn is_waiting(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    fn is_new(&self, since: u64) -> bool {
        let has_had_its_chance = self.is_used.load(Ordering::Relaxed) || self.is_lingering.load(Ordering::Relaxed);
        self.since.load(Ordering::Relaxed) > since && !has_had_its_chance
    }

    /// The connection with the lowest rank is closed first.
    fn rank(&self, new_since: u64) -> (bool, bool, bool, u64) {
        let is_serving = !self.is_lingering.load(Ordering::Relaxed);
        let is_authenticated = self.is_authenticated.load(Ordering::Relaxed);
        (is_serving, is_authenticated, self.is_new(new_since), self.since.load(Ordering::Relaxed))
    }

    /// Returns true if the connection must stay open until its client has had time to send the rest of a rejected body,
    /// or of a head that is malformed or too long.
    pub(crate) fn is_lingering(&self) -> bool {
        if self.is_waiting() && self.has_begun_head() {
            self.is_lingering.store(true, Ordering::Relaxed);
        }
        self.is_lingering.load(Ordering::Relaxed)
    }

    /// Returns the time since which the connection has been waiting for the head of its first request or for the rest
    /// of a head.
    pub(crate) fn head_pending_since(&self) -> Option<u64> {
        let has_begun = self.has_begun_head() || !self.is_used.load(Ordering::Relaxed);
        (self.is_waiting() && has_begun).then(|| self.since.load(Ordering::Relaxed))
    }

    /// Returns true if a part of the next head has been received.
    pub(crate) fn has_begun_head(&self) -> bool {
        self.head_bytes.load(Ordering::Relaxed) > 0
    }

    /// Counts received bytes. Returns false if the connection must be closed because there is no memory for the head.
    pub(crate) fn receive(&self, bytes: usize) -> bool {
        !self.is_waiting() || self.registry.count_head(self, bytes)
    }

    /// Counts bytes of the head no longer.
    pub(crate) fn release(&self, bytes: usize) {
        if bytes > 0 {
            self.registry.uncount_head(self, bytes);
        }
    }

    /// Begins a request whose head was received at the given instant. Returns `None` if the connection is being closed.
    pub(crate) fn begin_request(self: &Arc<Self>, at: Instant) -> Option<RequestInProgress> {
        if self.requests.fetch_add(1, Ordering::AcqRel) & CLOSING != 0 {
            return None;
        }
        self.since.store(self.registry.milliseconds(at), Ordering::Relaxed);
        self.is_used.store(true, Ordering::Relaxed);
        Some(RequestInProgress(Arc::clone(self)))
    }

    /// Closing the connection aborts the task.
    pub(crate) fn set_task(&self, task: AbortHandle) {
        let mut current = self.task.lock();
        if self.requests.load(Ordering::Acquire) & CLOSING != 0 {
            task.abort();
        }
        *current = Some(task);
    }
}

impl RequestInProgress {
    /// Records that the request has a valid credential, whatever the result of the request.
    pub(crate) fn authenticate(&self) {
        if !self.0.is_authenticated.load(Ordering::Relaxed) {
            self.0.is_authenticated.store(true, Ordering::Relaxed);
        }
    }

    /// Records that the connection closes after the response, while the client may still be sending.
    pub(crate) fn linger(&self) {
        self.0.is_lingering.store(true, Ordering::Relaxed);
    }
}

impl OpenConnection {
    pub(crate) fn state(&self) -> Arc<ConnectionState> {
        Arc::clone(&self.state)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let registry = &self.state.registry;
        registry.release_head(&self.state);
        registry.counters.close();
        let mut open = registry.open.lock();
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
    pub(crate) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn displace(&self) {
        self.displaced.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn handshake_failed(&self) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_slow_reader(&self) {
        self.slow_readers.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the number of bytes that count for a head: none while it fits into the buffer that every connection has.
fn counted(head_bytes: usize) -> isize {
    if head_bytes > HEAD_BYTES_UNCOUNTED { isize::try_from(head_bytes).unwrap_or(isize::MAX) } else { 0 }
}

/// For IPv6, connections are counted for the 64-bit network, because a host usually gets a whole network.
fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
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

    /// Opens a connection whose task stops only when the connection is displaced.
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
        assert_eq!((is_closed(&first), is_closed(&second)), (false, true), "the first one had a request more recently");
        assert!(
            second.begin_request(clock::instant()).is_none(),
            "no request begins on a connection that is being closed"
        );
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
        assert!(!anonymous.is_lingering() && lingering.is_lingering());
        drop(request);
        let _fourth = open(&registry).await;
        assert_eq!((is_closed(&anonymous), is_closed(&lingering), is_closed(&malformed)), (false, true, false));
        assert!(malformed.receive(1) && malformed.is_lingering(), "its head was refused");
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
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert!(!is_closed(&busy));
            drop(request);
        });
        assert!(is_closed(&busy), "its slot was given away after the request had finished");
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
        assert!(registry.admit(of_network(3)).await.is_none(), "they are in the same network");
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
        assert_eq!(closed, [1], "the oldest one without a request in progress");
        assert!(!is_closed(&small) && !is_closed(&one_more));
        drop(in_progress);
        tokio::task::yield_now().await;
        drop(one_more.begin_request(clock::instant()).unwrap());
        assert!(registry.head_bytes.load(Ordering::Relaxed) < HEADS_BYTES_MAX);
    }

    #[tokio::test]
    async fn released_bytes_no_longer_count() {
        let registry = registry(2, None);
        let state = open(&registry).await;
        assert!(state.receive(3 * HEAD_BYTES_UNCOUNTED));
        state.release(HEAD_BYTES_UNCOUNTED);
        assert_eq!(registry.counted_heads_bytes(), 2 * HEAD_BYTES_UNCOUNTED);
        state.release(HEAD_BYTES_UNCOUNTED);
        assert_eq!(registry.counted_heads_bytes(), 0, "the head fits into the buffer that every connection has");
        state.release(2 * HEAD_BYTES_UNCOUNTED);
        assert_eq!(registry.counted_heads_bytes(), 0, "more was released than counted");
        assert!(state.receive(2 * HEAD_BYTES_UNCOUNTED));
        assert_eq!(registry.counted_heads_bytes(), 2 * HEAD_BYTES_UNCOUNTED);
    }
}
