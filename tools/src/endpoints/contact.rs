//! Observes the responses of a service, so that a wrong address fails at once and a wait is explained.
//!
//! Invariants:
//!
//! 1. Until a connection to the service was opened, a failure to connect is final, because the address may be wrong.
//!    Afterwards, it is retried, because the service may be restarting.
//! 2. One line says what a command waits for. A second line says that the wait is over.
//!
//! This module must not know which command waits.

use crate::terminal::notice;
use bytes::Bytes;
use client::http::{Request, Response};
use client::{BoxFuture, Credential, Endpoint, Failure, HttpError, RetryPolicy, TableService, Transport};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The time from the first failed attempt to the line about it. Most failures are over by then.
const OUTAGE_NOTICE_AFTER: Duration = Duration::from_secs(1);
/// The time from the first request to the line about a service that does not respond. It is longer than the time after
/// a failure, because a busy service may need it for its response.
const SILENCE_NOTICE_AFTER: Duration = Duration::from_secs(5);

/// Returns a client that makes up to `attempts_max` attempts at each operation. Nothing is sent yet. `name` is the name
/// of the service in messages.
pub(crate) fn connect(
    name: String,
    endpoint: Endpoint,
    credential: Credential,
    attempts_max: u32,
) -> anyhow::Result<TableService> {
    let contact = Arc::new(Contact::new(name, |line| notice(line)));
    let observer = Arc::clone(&contact);
    let retry = RetryPolicy::exponential().attempts(attempts_max).retry_if(move |failure| contact.retries(failure));
    let observed = move |transport| ObservedTransport { transport, contact: observer };
    Ok(TableService::builder(endpoint, credential).retry(retry).wrap_transport(observed).build()?)
}

/// The state of the communication with a service.
struct Contact {
    name: String,
    say: Box<dyn Fn(&str) + Send + Sync>,
    state: Mutex<ContactState>,
}

#[derive(Debug, Default)]
struct ContactState {
    /// True if a connection was ever opened.
    is_made: bool,
    /// True if the service ever responded.
    has_responded: bool,
    /// The reason why the last attempt got no response.
    failure: String,
    wait: Option<Wait>,
    waits: u64,
}

#[derive(Debug)]
struct Wait {
    number: u64,
    /// `None` if no attempt has failed yet.
    reason: Option<String>,
    is_reported: bool,
    /// True if the service has responded since. If that operation is not retried, the wait ends with the next request.
    is_over: bool,
}

impl Contact {
    fn new(name: String, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { name, say: Box::new(say), state: Mutex::default() }
    }

    fn request_begins(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.wait.as_ref().is_some_and(|wait| wait.is_over) {
            let wait = state.wait.take();
            if wait.is_some_and(|wait| wait.is_reported) {
                (self.say)(&format!("{} responds", self.name));
            }
        }
        if !state.has_responded && state.wait.is_none() {
            self.begin_wait(&mut state, None, SILENCE_NOTICE_AFTER);
        }
    }

    fn request_ended(&self, result: &Result<Response<Bytes>, HttpError>) {
        let mut state = self.state.lock();
        state.is_made |= !matches!(result, Err(HttpError::Connect(_)));
        match result {
            Err(error) => state.failure = error.to_string(),
            Ok(response) => {
                state.has_responded = true;
                let status = response.status();
                let is_failing = status.is_server_error() || [408, 429].contains(&status.as_u16());
                if let Some(wait) = state.wait.as_mut().filter(|wait| !is_failing || wait.reason.is_none()) {
                    wait.is_over = true;
                }
            }
        }
    }

    /// Returns whether to make another attempt.
    fn retries(self: &Arc<Self>, failure: &Failure<'_>) -> bool {
        let mut state = self.state.lock();
        if !failure.is_transient {
            return false;
        }
        if !state.is_made {
            state.wait = None;
            return false;
        }
        let reason = match failure.status {
            Some(status) => format!("it responds with {status} {}", failure.code).trim_end().to_owned(),
            None => state.failure.clone(),
        };
        match &mut state.wait {
            // The response that seemed to end the wait was a failure, for example one in a part of a transaction.
            Some(wait) if wait.is_reported || wait.reason.is_some() => {
                wait.reason = Some(reason);
                wait.is_over = false;
            }
            _ => self.begin_wait(&mut state, Some(reason), OUTAGE_NOTICE_AFTER),
        }
        true
    }

    fn begin_wait(self: &Arc<Self>, state: &mut ContactState, reason: Option<String>, notice_after: Duration) {
        state.waits += 1;
        let number = state.waits;
        state.wait = Some(Wait { number, reason, is_reported: false, is_over: false });
        let contact = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep(notice_after).await;
            if let Some(contact) = contact.upgrade() {
                contact.report(number);
            }
        });
    }

    /// Reports a wait, unless it is over.
    fn report(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(wait) = state.wait.as_mut().filter(|wait| wait.number == number && !wait.is_over) else { return };
        wait.is_reported = true;
        let reason = wait.reason.as_deref().unwrap_or("there is no response yet");
        (self.say)(&format!("waiting for {}: {reason}", self.name));
    }
}

impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contact").field("name", &self.name).field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct ObservedTransport {
    transport: Arc<dyn Transport>,
    contact: Arc<Contact>,
}

impl Transport for ObservedTransport {
    fn send(&self, request: Request<Bytes>, time_max: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
        Box::pin(async move {
            self.contact.request_begins();
            let result = self.transport.send(request, time_max).await;
            self.contact.request_ended(&result);
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::DEVELOPMENT_KEY;
    use std::collections::VecDeque;
    use std::io::{Error, ErrorKind};

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Refuse,
        Break,
        Status(u16),
        /// Responds that the table is being deleted, which is retried although the service is well.
        Deleting,
        /// Responds with 200 after this number of seconds.
        Delay(u64),
    }

    #[derive(Debug)]
    struct Script(Mutex<VecDeque<Step>>);

    impl Transport for Script {
        fn send(&self, _: Request<Bytes>, _: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
            let step = self.0.lock().pop_front().expect("no further request");
            Box::pin(async move {
                let status = match step {
                    Step::Refuse => return Err(HttpError::Connect(Error::from(ErrorKind::ConnectionRefused).into())),
                    Step::Break => return Err(HttpError::Exchange(Error::from(ErrorKind::ConnectionReset).into())),
                    Step::Status(status) => status,
                    Step::Deleting => 409,
                    Step::Delay(seconds) => {
                        sleep(Duration::from_secs(seconds)).await;
                        200
                    }
                };
                let body = match status {
                    409 => r#"{"odata.error":{"code":"TableBeingDeleted","message":{"lang":"en-US","value":"Wait."}}}"#,
                    _ => r#"{"value":[]}"#,
                };
                Ok(Response::builder().status(status).body(Bytes::from_static(body.as_bytes())).unwrap())
            })
        }
    }

    /// Lists the tables until the script ends. Returns the results and the lines that were printed.
    async fn run(script: Vec<Step>, attempts_max: u32) -> (Vec<bool>, Vec<String>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&lines);
        let contact = Arc::new(Contact::new("S".to_owned(), move |line| said.lock().push(line.to_owned())));
        let script = Arc::new(Script(Mutex::new(script.into())));
        let transport = ObservedTransport { transport: Arc::clone(&script) as _, contact: Arc::clone(&contact) };
        // The pauses have fixed lengths, so the script determines the lines.
        let retry = RetryPolicy::linear(Duration::from_millis(300)).attempts(attempts_max);
        let service = TableService::builder(
            Endpoint::parse("http://h/acct", None).unwrap(),
            Credential::parse(DEVELOPMENT_KEY).unwrap(),
        );
        let retry = retry.retry_if(move |failure| contact.retries(failure));
        let service = service.retry(retry).transport(transport).build().unwrap();
        let mut results = Vec::new();
        while !script.0.lock().is_empty() {
            results.push(service.tables().all().await.is_ok());
        }
        // A line about a wait that is over would be printed in this time.
        sleep(SILENCE_NOTICE_AFTER * 2).await;
        let lines = lines.lock().clone();
        (results, lines)
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_connection_that_fails_is_final() {
        assert_eq!(run(vec![Step::Refuse], 10).await, (vec![false], vec![]));
        assert_eq!(run(vec![Step::Refuse, Step::Refuse, Step::Status(200)], 10).await.0, [false, false, true]);
        let later = [vec![Step::Status(200)], vec![Step::Refuse; 3], vec![Step::Status(200)]].concat();
        assert_eq!(run(later, 10).await, (vec![true, true], vec![]), "an outage of 0.9 s");
        assert_eq!(run(vec![Step::Break, Step::Refuse, Step::Status(200)], 10).await.0, [true], "a broken connection");
        assert_eq!(run(vec![Step::Status(503), Step::Refuse, Step::Status(200)], 10).await.0, [true]);
        assert_eq!(run(vec![Step::Status(403)], 10).await, (vec![false], vec![]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_one_line_and_its_end_another() {
        let outage = |step| [vec![Step::Status(404)], vec![step; 9], vec![Step::Status(200); 2]].concat();
        let told = |reason: &str| vec![format!("waiting for S: {reason}"), "S responds".to_owned()];
        let refused = "connecting failed: connection refused";
        assert_eq!(run(outage(Step::Refuse), 10).await, (vec![false, true, true], told(refused)));
        // The operations of `follow` fail several times during one outage.
        assert_eq!(run(outage(Step::Refuse), 3).await.1, told(refused));
        assert_eq!(run(outage(Step::Status(503)), 10).await.1, told("it responds with 503"));
        assert_eq!(run(outage(Step::Status(503)), 3).await.1, told("it responds with 503"));
        assert_eq!(run(outage(Step::Deleting), 10).await.1, told("it responds with 409 TableBeingDeleted"));
        let busy = [vec![Step::Status(503); 9], vec![Step::Status(200); 2]].concat();
        assert_eq!(run(busy, 10).await, (vec![true, true], told("it responds with 503")), "a service that starts");
        let gone = [vec![Step::Status(200)], vec![Step::Refuse; 5]].concat();
        assert_eq!(run(gone, 5).await, (vec![true, false], told(refused)[..1].to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_never_responded_is_named_sooner_than_a_slow_one() {
        let told = ["waiting for S: there is no response yet", "S responds"];
        assert_eq!(run(vec![Step::Delay(4)], 10).await.1, [""; 0]);
        assert_eq!(run(vec![Step::Delay(6), Step::Delay(50)], 10).await.1, told);
    }
}
