//! Records operations while they run.
//!
//! Each client appends to its own log, so that recording takes no shared lock. An operation whose future is dropped
//! before its answer is recorded as unknown.

use crate::operation::{Action, Answer, Mutation, Operation, Time};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// A history that is being recorded. All clones record the same history. Clients of several servers share one, so that
/// their times are read from one clock.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    next_operation: AtomicU64,
    next_token: AtomicU64,
    next_client: AtomicU32,
    logs: Mutex<Vec<Arc<Mutex<Vec<Operation>>>>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Starts a history.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            start: Instant::now(),
            next_operation: AtomicU64::new(1),
            next_token: AtomicU64::new(1),
            next_client: AtomicU32::new(0),
            logs: Mutex::default(),
        }))
    }

    /// Adds a client.
    pub fn client(&self) -> ClientLog {
        let log = Arc::new(Mutex::default());
        self.0.logs.lock().push(Arc::clone(&log));
        ClientLog { shared: Arc::clone(&self.0), number: self.0.next_client.fetch_add(1, Ordering::Relaxed), log }
    }

    /// Notes that no operation of unknown outcome can take effect any more, because the servers that executed them are
    /// down. No operation may be in flight.
    pub fn close_unknown(&self) {
        let now = self.0.now();
        for log in &*self.0.logs.lock() {
            let mut log = log.lock();
            for operation in log.iter_mut().filter(|operation| operation.is_unknown()) {
                operation.returned.get_or_insert(now);
            }
        }
    }

    /// Returns the operations so far, without those in flight.
    pub fn history(&self) -> Vec<Operation> {
        let logs = self.0.logs.lock();
        let operations = |log: &Arc<Mutex<Vec<Operation>>>| log.lock().clone();
        logs.iter().flat_map(operations).collect()
    }
}

impl Shared {
    fn now(&self) -> Time {
        Time::try_from(self.start.elapsed().as_nanos()).unwrap_or(Time::MAX)
    }
}

/// The log of a client.
#[derive(Debug)]
pub struct ClientLog {
    shared: Arc<Shared>,
    number: u32,
    log: Arc<Mutex<Vec<Operation>>>,
}

impl ClientLog {
    /// Returns a token for the values of one mutation.
    pub fn token(&self) -> u64 {
        self.shared.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the call of a read.
    pub fn read(&self) -> PendingRead<'_> {
        PendingRead { log: self, call: self.shared.now() }
    }

    /// Notes the call of a write. Without an answer, its outcome is unknown.
    pub fn write(&self, partition: &str, mutations: Vec<Mutation>) -> PendingWrite<'_> {
        let (call, partition) = (self.shared.now(), partition.to_owned());
        PendingWrite { log: self, call, partition, mutations, answer: None, is_executed: true }
    }

    fn push(&self, partition: String, call: Time, returned: Option<Time>, action: Action) {
        let id = self.shared.next_operation.fetch_add(1, Ordering::Relaxed);
        let operation = Operation { id, client: self.number, call, returned, partition, action };
        self.log.lock().push(operation);
    }
}

/// A read in flight. A read without an answer is not recorded.
#[derive(Debug)]
#[must_use]
pub struct PendingRead<'l> {
    log: &'l ClientLog,
    call: Time,
}

impl PendingRead<'_> {
    /// Records the answer.
    pub fn answered(self, partition: &str, action: Action) {
        self.log.push(partition.to_owned(), self.call, Some(self.log.shared.now()), action);
    }
}

/// A write in flight.
#[derive(Debug)]
#[must_use]
pub struct PendingWrite<'l> {
    log: &'l ClientLog,
    call: Time,
    partition: String,
    mutations: Vec<Mutation>,
    answer: Option<(Time, Answer)>,
    is_executed: bool,
}

impl PendingWrite<'_> {
    /// Records the answer.
    pub fn answered(mut self, answer: Answer) {
        if answer != Answer::Unknown {
            self.answer = Some((self.log.shared.now(), answer));
        }
    }

    /// Omits the write from the history, because the service promises that it had no effect. If it did have one, no
    /// write of the history explains it, which is a violation.
    pub fn discard(mut self) {
        self.is_executed = false;
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        if !self.is_executed {
            return;
        }
        let (returned, answer) = match self.answer.take() {
            Some((now, answer)) => (Some(now), answer),
            None => (None, Answer::Unknown),
        };
        let mutations = std::mem::take(&mut self.mutations);
        let action = Action::Write { mutations, answer };
        self.log.push(std::mem::take(&mut self.partition), self.call, returned, action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Kind, Value};

    fn deletion() -> Vec<Mutation> {
        vec![Mutation { row: "r".to_owned(), kind: Kind::Delete, if_match: None, value: Value::default() }]
    }

    #[test]
    fn a_write_without_an_answer_is_unknown_until_the_server_is_down_unless_it_was_not_executed() {
        let recorder = Recorder::new();
        let (one, other) = (recorder.client(), recorder.client());
        drop(one.write("p", deletion()));
        other.write("p", deletion()).answered(Answer::Done(vec![None]));
        other.read().answered("p", Action::Get { row: "r".to_owned(), found: None });
        drop(other.read());
        other.write("p", deletion()).discard();
        let is_open = |operation: &Operation| (operation.client, operation.is_unknown(), operation.returned.is_none());
        let history = recorder.history();
        assert_eq!(
            history.iter().map(is_open).collect::<Vec<_>>(),
            [(0, true, true), (1, false, false), (1, false, false)]
        );
        recorder.close_unknown();
        assert!(recorder.history().iter().all(|operation| operation.returned >= Some(operation.call)));
        assert_ne!(one.token(), other.token());
    }
}
