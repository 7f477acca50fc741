//! The path of an operation to the service and back: authorization, attempts, and the error of the last attempt.
//!
//! Invariants:
//!
//! 1. An operation that may have been executed is retried only if executing it twice does no harm.
//! 2. No attempt begins after the time budget of the retry policy is used up.
//!
//! This module must not know what an operation means.

mod request;
mod retry;

use crate::account::{AccessToken, Credential, Endpoint, SharedKey, TokenCredential, TokenError};
use crate::error::{Error, Refusal, in_one_line};
use crate::http::HttpError;
use crate::limits::{ERROR_CODE_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX};
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_client::is_permanent;
use model::{ChangePosition, Clock};
use request::Authorization;
pub use request::Transport;
pub(crate) use request::{BodyFormat, Operation, VERSION, What};
use retry::is_transient;
pub use retry::{Failure, RetryPolicy};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument, Span};
use wire::batch::{PartResponse, read_responses};
use wire::error_response::ErrorResponse;
use wire::signing::Scheme;

/// The scope for which bearer tokens are requested.
const TOKEN_SCOPE: &str = "https://storage.azure.com/.default";
/// The minimum remaining validity of a cached token. A token that expires sooner is replaced.
const TOKEN_TIME_MIN: Duration = Duration::from_mins(5);

/// The endpoint of a replicated account from which entities are read. Writes always go to the primary.
///
/// The secondary lags behind the primary, so an entity there may be missing or out of date.
///
/// ```
/// use rowhouse_client::{ReadFrom, TableService};
///
/// let text = "AccountName=orchard;AccountKey=AAECAwQFBgcICQoLDA0ODw==";
/// let service = TableService::builder_from_connection_string(text)?.read_from(ReadFrom::PrimaryThenSecondary).build()?;
/// # Ok::<(), rowhouse_client::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReadFrom {
    /// The primary only.
    #[default]
    Primary,
    /// The primary first. Each failed attempt switches to the other endpoint.
    PrimaryThenSecondary,
    /// The secondary only.
    Secondary,
    /// The secondary first. Each failed attempt switches to the other endpoint. An entity missing at the secondary is
    /// read from the primary.
    SecondaryThenPrimary,
}

#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    pub(crate) shared: Arc<Shared>,
    pub(crate) retry: RetryPolicy,
    pub(crate) attempt_time_max: Duration,
    pub(crate) read_from: ReadFrom,
    /// `None` generates an ID for each operation.
    pub(crate) client_request_id: Option<Arc<str>>,
}

pub(crate) struct Shared {
    pub(crate) primary: Endpoint,
    pub(crate) secondary: Endpoint,
    pub(crate) credential: Credential,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) token: Mutex<Option<AccessToken>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("primary", &self.primary)
            .field("secondary", &self.secondary)
            .field("credential", &self.credential)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Response {
    /// Returns the value of a header; `None` if it is missing or not ASCII text.
    /// Returns the position up to which there are no other changes, or after which a reader of the change feed can
    /// continue.
    pub(crate) fn change_position(&self) -> Option<ChangePosition> {
        self.header("x-ms-rowhouse-position").and_then(ChangePosition::parse)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns a part of a continuation token. Fails if the part is unreadable, because the page would otherwise look
    /// like the last one.
    pub(crate) fn continuation(&self, operation: &Operation, name: &str) -> Result<Option<String>, Error> {
        match (self.headers.contains_key(name), self.header(name)) {
            (true, None) => Err(unreadable(operation, "its continuation is not ASCII text")),
            (_, text) => Ok(text.map(str::to_owned)),
        }
    }

    pub(crate) fn parts(&self, operation: &Operation) -> Result<Vec<PartResponse<'_>>, Error> {
        read_responses(self.header("content-type").unwrap_or_default(), &self.body)
            .map_err(|_| unreadable(operation, "it is not the response to a transaction"))
    }
}

struct FailedAttempt {
    error: Error,
    /// True if the operation was certainly not executed.
    had_no_effect: bool,
    is_transient: bool,
    /// True if the secondary did not find the entity, but the primary may have it.
    is_missing_at_secondary: bool,
    retry_after: Option<Duration>,
}

impl Pipeline {
    pub(crate) async fn execute(&self, operation: &Operation) -> Result<Response, Error> {
        let id = self.client_request_id.clone().unwrap_or_else(random_id);
        let span = tracing::debug_span!(
            "table_operation",
            what = %operation.what,
            account = %self.shared.primary.account(),
            client_request_id = &*id,
            attempts = tracing::field::Empty,
            status = tracing::field::Empty,
            code = tracing::field::Empty,
            request_id = tracing::field::Empty,
        );
        self.execute_in_span(operation, &id, &span).instrument(span.clone()).await
    }

    async fn execute_in_span(&self, operation: &Operation, id: &str, span: &Span) -> Result<Response, Error> {
        let began = Instant::now();
        let mut attempts = 0;
        // The failure of the primary. It is reported if a later attempt finds only that the secondary does not have the
        // entity.
        let mut of_primary = None;
        loop {
            attempts += 1;
            let time_max = self.attempt_time_max.min(self.retry.time_max().saturating_sub(began.elapsed()));
            let failed = match self.attempt(operation, id, attempts, time_max).await {
                Ok(response) => {
                    record(span, attempts, response.status, "", response.header(REQUEST_ID));
                    return Ok(response);
                }
                Err(failed) => failed,
            };
            let failure = Failure {
                status: failed.error.status(),
                code: failed.error.code().unwrap_or_default(),
                attempts,
                is_transient: failed.is_transient,
            };
            let may_repeat = operation.is_idempotent || failed.had_no_effect;
            // If the secondary does not find an entity, the primary is tried once, whatever the policy says.
            let has_time = began.elapsed() < self.retry.time_max();
            let is_first_of_two = failed.is_missing_at_secondary && of_primary.is_none() && has_time;
            let pause = if may_repeat {
                let by_policy = self.retry.pause_after(&failure, failed.retry_after, began.elapsed());
                by_policy.or(is_first_of_two.then_some(Duration::ZERO))
            } else {
                None
            };
            let Some(pause) = pause else {
                let error = of_primary.filter(|_| failed.is_missing_at_secondary).unwrap_or(failed.error);
                record(
                    span,
                    attempts,
                    error.status().unwrap_or_default(),
                    error.code().unwrap_or_default(),
                    error.request_id(),
                );
                return Err(error);
            };
            tracing::debug!(attempts, ?pause, error = %failed.error, "another attempt follows");
            if !self.reads_secondary(operation, attempts) {
                of_primary = Some(failed.error);
            }
            sleep(pause).await;
        }
    }

    async fn attempt(
        &self,
        operation: &Operation,
        id: &str,
        attempts: u32,
        time_max: Duration,
    ) -> Result<Response, FailedAttempt> {
        let began = Instant::now();
        let is_secondary = self.reads_secondary(operation, attempts);
        let endpoint = if is_secondary { &self.shared.secondary } else { &self.shared.primary };
        let now = self.shared.clock.now().to_system_time();
        let token = match &self.shared.credential {
            Credential::Token(source) => {
                let token = timeout(time_max, self.token(source.as_ref(), endpoint, now)).await;
                let late = |_| Error::Token(TokenError::from("the token source did not return one in time"));
                Some(token.map_err(late).flatten().map_err(final_error)?)
            }
            _ => None,
        };
        let request = operation.request(endpoint, self.authorization(token.as_ref()), now, id);
        let request = request.map_err(|error| final_error(Error::Invalid(format!("{}: {error}", operation.what))))?;
        let response = self.shared.transport.send(request, time_max.saturating_sub(began.elapsed())).await;
        let response = response.map_err(|error| without_response(operation, error, id, attempts))?;
        let (head, body) = response.into_parts();
        let response = Response { status: head.status.as_u16(), headers: head.headers, body };
        let Some(refusal) = refusal(operation, &response, id, attempts).map_err(final_error)? else {
            return Ok(response);
        };
        // A token may be revoked before it expires. With the service version used here, the response is 403 (09 §3).
        let is_unknown = refusal.status == 401 || refusal.code == "AuthenticationFailed";
        let is_stale = is_unknown && self.forget(token.as_ref()).await && attempts == 1;
        let is_missing_at_secondary = refusal.status == 404 && is_secondary && self.read_from != ReadFrom::Secondary;
        Err(refused(refusal, &response, is_stale, is_missing_at_secondary))
    }

    /// Returns false if there was no token to forget.
    async fn forget(&self, refused: Option<&AccessToken>) -> bool {
        let Some(refused) = refused else { return false };
        let mut kept = self.shared.token.lock().await;
        if kept.as_ref().is_some_and(|kept| kept.secret == refused.secret) {
            *kept = None;
        }
        true
    }

    fn reads_secondary(&self, operation: &Operation, attempts: u32) -> bool {
        let is_first_choice = attempts % 2 == 1;
        operation.method == Method::GET
            && match self.read_from {
                ReadFrom::Primary => false,
                ReadFrom::Secondary => true,
                ReadFrom::PrimaryThenSecondary => !is_first_choice,
                ReadFrom::SecondaryThenPrimary => is_first_choice,
            }
    }

    fn authorization<'a>(&'a self, token: Option<&'a AccessToken>) -> Authorization<'a> {
        match &self.shared.credential {
            Credential::Key(SharedKey(key)) => Authorization::Key(key, Scheme::SharedKey),
            Credential::KeyLite(SharedKey(key)) => Authorization::Key(key, Scheme::SharedKeyLite),
            Credential::Sas(token) => Authorization::Sas(token),
            Credential::Token(_) => Authorization::Bearer(token.map_or("", |token| &token.secret)),
        }
    }

    /// Returns a token that remains valid for at least `TOKEN_TIME_MIN`. Over plain HTTP, tokens are sent only to this
    /// machine.
    async fn token(
        &self,
        source: &dyn TokenCredential,
        endpoint: &Endpoint,
        now: SystemTime,
    ) -> Result<AccessToken, Error> {
        if !endpoint.may_carry_token() {
            return Err(Error::Token(TokenError::from("plain HTTP to another machine is not allowed")));
        }
        let mut kept = self.shared.token.lock().await;
        let is_valid = |token: &&AccessToken| token.expires.is_some_and(|expires| expires > now + TOKEN_TIME_MIN);
        if let Some(token) = kept.as_ref().filter(is_valid) {
            return Ok(token.clone());
        }
        let token = source.token(TOKEN_SCOPE).await.map_err(Error::Token)?;
        *kept = Some(token.clone());
        Ok(token)
    }
}

const REQUEST_ID: &str = "x-ms-request-id";
const REASON: &str = "x-ms-rowhouse-reason";

/// Returns a random ID for an operation: 32 hexadecimal digits.
fn random_id() -> Arc<str> {
    // Every `RandomState` has its own random keys.
    let [high, low] = [0_u8; 2].map(|input| RandomState::new().hash_one(input));
    Arc::from(format!("{high:016x}{low:016x}"))
}

fn record(span: &Span, attempts: u32, status: u16, code: &str, request_id: Option<&str>) {
    span.record("attempts", attempts).record("status", status);
    if !code.is_empty() {
        span.record("code", in_one_line(code));
    }
    if let Some(request_id) = request_id {
        span.record("request_id", request_id);
    }
}

fn final_error(error: Error) -> FailedAttempt {
    FailedAttempt {
        error,
        had_no_effect: false,
        is_transient: false,
        is_missing_at_secondary: false,
        retry_after: None,
    }
}

fn refused(refusal: Refusal, response: &Response, is_stale: bool, is_missing_at_secondary: bool) -> FailedAttempt {
    // In the cloud, the name of a deleted table stays in use for a while.
    let is_being_deleted = refusal.code == "TableBeingDeleted";
    let seconds: Option<u64> = response.header("retry-after").and_then(|text| text.parse().ok());
    // A proxy that loses a forwarded request also responds with 503, but with neither `ServerBusy` nor
    // `Retry-After`.
    let is_busy = refusal.status == 429 || refusal.status == 503 && (refusal.code == "ServerBusy" || seconds.is_some());
    let at_once = is_missing_at_secondary || is_stale;
    FailedAttempt {
        had_no_effect: is_busy || is_being_deleted || is_stale,
        is_transient: is_transient(refusal.status) || is_being_deleted || at_once,
        is_missing_at_secondary,
        retry_after: if at_once { Some(Duration::ZERO) } else { seconds.map(Duration::from_secs) },
        error: Error::Refused(Box::new(refusal)),
    }
}

fn without_response(operation: &Operation, source: HttpError, id: &str, attempts: u32) -> FailedAttempt {
    let what = operation.what.to_string();
    if matches!(source, HttpError::BodyTooLarge(_)) {
        return final_error(Error::ResponseTooLarge { what });
    }
    let had_no_effect = matches!(source, HttpError::Connect(_) | HttpError::ProxyAuthorization | HttpError::Tls(_));
    let is_transient = !is_permanent(&source);
    let error = Error::Unreachable { what, source, client_request_id: id.to_owned(), attempts };
    FailedAttempt { error, had_no_effect, is_transient, is_missing_at_secondary: false, retry_after: None }
}

/// Returns the refusal that a response reports, or `None` if it reports success. A refused transaction is reported in
/// the body of a successful response.
fn refusal(operation: &Operation, response: &Response, id: &str, attempts: u32) -> Result<Option<Refusal>, Error> {
    let request_id = response.header(REQUEST_ID).map(str::to_owned);
    let refusal = |status, error: Option<ErrorResponse>| {
        let (code, message) = error.map_or_else(Default::default, |error| (error.code, error.message));
        let message = http_client::without_credentials(&message);
        let (code, message) = (beginning(code, ERROR_CODE_BYTES_MAX), beginning(message, ERROR_MESSAGE_BYTES_MAX));
        let what = operation.what.to_string();
        let client_request_id = id.to_owned();
        let position = response.change_position();
        let reason = response.header(REASON).map(|reason| beginning(reason.to_owned(), ERROR_MESSAGE_BYTES_MAX));
        Refusal {
            what,
            status,
            code,
            message,
            reason,
            request_id,
            client_request_id,
            operation: None,
            attempts,
            position,
        }
    };
    if !(200..300).contains(&response.status) {
        let mut error = ErrorResponse::read(&response.body);
        if let (None, Some(code)) = (&error, response.header("x-ms-error-code")) {
            error = Some(ErrorResponse { code: code.to_owned(), message: String::new() });
        }
        return Ok(Some(refusal(response.status, error)));
    }
    let BodyFormat::Changeset(operations) = operation.format else { return Ok(None) };
    let parts = response.parts(operation)?;
    match parts.iter().find(|part| !(200..300).contains(&part.status)) {
        Some(failed) => {
            let mut refusal = refusal(failed.status, ErrorResponse::read(failed.body));
            // The message begins with the number of the operation (05 §4).
            if let Some((number, message)) = refusal.message.split_once(':')
                && let Some(number) = number.parse().ok().filter(|number| *number < operations)
            {
                refusal.operation = Some(number);
                refusal.message = message.to_owned();
            }
            Ok(Some(refusal))
        }
        None if parts.len() != operations => {
            Err(unreadable(operation, &format!("it has results of {} operations instead of {operations}", parts.len())))
        }
        None => Ok(None),
    }
}

fn beginning(mut text: String, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text
}

pub(crate) fn unreadable(operation: &Operation, why: &str) -> Error {
    Error::Unreadable { what: operation.what.to_string(), why: why.to_owned() }
}
