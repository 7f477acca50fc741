//! Faults that a test injects into chosen requests.
//!
//! This module must not know how the server applies them.

use http::{Method, StatusCode};
use parking_lot::Mutex;
use server::{FaultScript, RequestFaults, ScriptedRefusal};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A fault, and the requests that it affects: the next request, unless other methods select others.
///
/// [`method`](Self::method) and [`path`](Self::path) select requests, [`nth`](Self::nth) skips the first of the
/// selected requests, and [`times`](Self::times) affects several of them. Several faults can affect a request: it waits
/// for the sum of their delays, and then gets the status of the fault that was injected first. Each attempt of a client
/// that retries counts as a separate request.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use client::{ErrorKind, PropertyBag, TableService};
/// use rowhouse_testing::{Fault, TestServer};
///
/// let server = TestServer::start().await?;
/// let orders = TableService::from_connection_string(&server.connection_string())?.table("orders");
/// orders.create().await?;
///
/// // The entity is written, but the program does not learn that.
/// server.inject(Fault::lost_answer().method("POST").path("/orders"));
/// let error = orders.insert(&PropertyBag::new("2031", "0001")?).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Unreachable);
/// assert!(orders.find::<PropertyBag>("2031", "0001").await?.is_some());
/// assert_eq!(server.pending_faults(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a fault does nothing until it is injected into a server"]
pub struct Fault {
    effect: Effect,
    method: Option<String>,
    path: Option<String>,
    skip: u64,
    times: u64,
}

#[derive(Debug, Clone)]
enum Effect {
    Refuse(ScriptedRefusal),
    LoseAnswer,
    Delay(Duration),
}

impl Fault {
    /// Responds with a status instead of executing the request. The response has no body, like the response of a proxy,
    /// unless [`code`](Self::code) sets an error code of the service. Such a request is not part of the
    /// [costs](crate::TestServer::costs).
    ///
    /// # Panics
    ///
    /// Panics if the status is not between 400 and 599.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    ///
    /// let three_times = Fault::status(503).times(3);
    /// # let _ = three_times;
    /// ```
    pub fn status(status: u16) -> Self {
        let is_error = |status: &StatusCode| status.is_client_error() || status.is_server_error();
        let status = StatusCode::from_u16(status).ok().filter(is_error);
        let status = status.expect("the status of a fault must be between 400 and 599");
        Self::new(Effect::Refuse(ScriptedRefusal { status, code: None }))
    }

    /// Executes the request and closes the connection instead of sending the response.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    ///
    /// let fault = Fault::lost_answer().path("/$batch");
    /// # let _ = fault;
    /// ```
    pub fn lost_answer() -> Self {
        Self::new(Effect::LoseAnswer)
    }

    /// Waits before the request is executed, in real time, regardless of the server's clock.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    /// use std::time::Duration;
    ///
    /// let fault = Fault::delay(Duration::from_millis(500));
    /// # let _ = fault;
    /// ```
    pub fn delay(delay: Duration) -> Self {
        Self::new(Effect::Delay(delay))
    }

    /// Sets the error code in the response of [`Fault::status`]. Other faults have no error code.
    ///
    /// A client may retry inserts after `ServerBusy`, which means that nothing was executed, but not after a status
    /// without a code.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    ///
    /// let fault = Fault::status(500).code("OperationTimedOut");
    /// # let _ = fault;
    /// ```
    pub fn code(mut self, code: &str) -> Self {
        if let Effect::Refuse(refusal) = &mut self.effect {
            refusal.code = Some(Box::from(code));
        }
        self
    }

    /// Affects the nth of the selected requests, counted from one. Zero also means the first one.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    ///
    /// let third_page = Fault::status(500).method("GET").path("/orders()").nth(3);
    /// # let _ = third_page;
    /// ```
    pub fn nth(mut self, number: u64) -> Self {
        self.skip = number.saturating_sub(1);
        self
    }

    /// Affects this many requests in a row, instead of one.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    ///
    /// let always = Fault::status(503).code("ServerBusy").times(u64::MAX);
    /// # let _ = always;
    /// ```
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Selects only requests with this HTTP method. Transactions and inserts are sent with POST.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    ///
    /// let fault = Fault::status(412).method("PUT");
    /// # let _ = fault;
    /// ```
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Selects only requests whose percent-encoded path contains this string. The path begins with the name of the
    /// account.
    ///
    /// ```
    /// use rowhouse_testing::Fault;
    ///
    /// let fault = Fault::status(500).path("/devstoreaccount1/orders");
    /// # let _ = fault;
    /// ```
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    fn new(effect: Effect) -> Self {
        Self { effect, method: None, path: None, skip: 0, times: 1 }
    }

    fn meet(&mut self, method: &Method, path: &str) -> Option<&Effect> {
        let is_selected = self.method.as_deref().is_none_or(|wanted| wanted == method.as_str())
            && self.path.as_deref().is_none_or(|part| path.contains(part));
        if !is_selected || self.times == 0 {
            return None;
        }
        if let Some(fewer) = self.skip.checked_sub(1) {
            self.skip = fewer;
            return None;
        }
        self.times -= 1;
        Some(&self.effect)
    }
}

#[derive(Clone, Default)]
pub(crate) struct FaultQueue(Arc<Mutex<Vec<Fault>>>);

impl FaultQueue {
    pub(crate) fn add(&self, fault: Fault) {
        self.0.lock().push(fault);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(crate) fn into_script(self) -> FaultScript {
        FaultScript::new(move |method, path| self.meet(method, path))
    }

    fn meet(&self, method: &Method, path: &str) -> Option<RequestFaults> {
        let mut faults = self.0.lock();
        let mut met = RequestFaults::default();
        for effect in faults.iter_mut().filter_map(|fault| fault.meet(method, path)) {
            match effect {
                Effect::Delay(delay) => met.delay = met.delay.saturating_add(*delay),
                Effect::LoseAnswer => met.loses_response = true,
                Effect::Refuse(refusal) => met.refusal = met.refusal.or_else(|| Some(refusal.clone())),
            }
        }
        faults.retain(|fault| fault.times > 0);
        (met != RequestFaults::default()).then_some(met)
    }
}

impl fmt::Debug for FaultQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultQueue").field(&*self.0.lock()).finish()
    }
}
