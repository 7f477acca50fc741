//! The single path of every request: URL, credential, version, operation, format, body, execution, response.
//!
//! The order of the steps determines which error a client sees first (specification 06 §6).

use crate::accounts::Accounts;
use crate::authorization::bearer::TokenVerifier;
use crate::authorization::{authenticate, authorize, permitted_preference, web_page};
use crate::changes::ChangeFeed;
use crate::clock;
use crate::connection::handler::{Handler, RequestAborted};
use crate::connection::refusal::{Refusal, RefusalKind};
use crate::explorer::{self, PageSettings};
use crate::failure::{Failure, Layer};
use crate::limits::admission::Admission;
use crate::limits::connections::RequestInProgress;
use crate::limits::memory::{BodyMemory, MemoryPermit, RequestMemory};
use crate::limits::quota::Quotas;
use crate::limits::throttle::Throttle;
use crate::operations;
use crate::reload::Live;
use crate::replication::{REPLICATION_PATH, X_MS_ROWHOUSE_AGE};
use crate::request::body::{self, BodyFailure};
use crate::request::selection::{accepts_events, has_changes};
use crate::request::{
    ConnectionInfo, CredentialKind, IncomingRequest, Offered, OperationContext, OperationKind, PayloadKind,
    RequestContext, ThrottleUnit, VirtualTable, body_format, check_body_charset, effective_method, is_of_front_end,
    joined_accept, operation_headers, required_content_type, resolved, route, table_of,
};
use crate::response::{self, OperationResponse, Segments, cors};
use crate::settings::{ReasonAudience, ReasonSettings, Secondary, Settings};
use crate::tables::AccountTables;
use crate::telemetry::access_log;
use crate::telemetry::analytics::Analytics;
use crate::telemetry::failure_log::FailureLog;
use crate::telemetry::metrics::{Metrics, RequestInFlight};
use crate::telemetry::summary::{Outcome, RequestSummary};
use crate::telemetry::traces::{self, Trace, Tracer};
use bytes::Bytes;
use engine::Engine;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, Uri};
use hyper::body::{Body, Incoming};
use model::limits::{REQUEST_TIMEOUT_SECONDS_MAX, XML_BODY_BYTES_MAX};
use model::{AccountName, Clock, CorsRules, DateTime, Dialect, Grant, ServiceProperties};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::negotiation::FormatPreferences;
use wire::payload::ResponseContext;
use wire::reason::ReasonKind;
use wire::signing::DEVELOPMENT_ACCOUNT;
use wire::target::{Resource, Target};
use wire::{ErrorCode, Format, Headers, MetadataLevel, ServiceError, Version};

/// The time that a query has after its deadline to respond with its page.
const QUERY_GRACE: Duration = Duration::from_secs(1);
/// The format of the data of an event, as in `Accept`.
const EVENT_FORMAT: &str = "application/json;odata=minimalmetadata";
const X_HTTP_METHOD: HeaderName = HeaderName::from_static("x-http-method");

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) is_test_clock: bool,
    pub(crate) settings: Settings,
    pub(crate) accounts: Arc<Live<Accounts>>,
    /// `None` if no bearer tokens are accepted.
    pub(crate) tokens: Option<TokenVerifier>,
    /// Limits the requests in flight.
    pub(crate) admission: Admission,
    pub(crate) memory: BodyMemory,
    /// `None` if nothing is throttled.
    pub(crate) throttle: Option<Throttle>,
    pub(crate) quotas: Arc<Quotas>,
    /// `None` if the server keeps no metrics for accounts.
    pub(crate) analytics: Option<Arc<Analytics>>,
    /// `None` if the engine keeps no log for readers.
    pub(crate) changes: Option<Arc<ChangeFeed>>,
    pub(crate) failure_log: Arc<FailureLog>,
    /// `None` if there is no admin listener.
    pub(crate) metrics: Option<Arc<Metrics>>,
    /// `None` if there is no trace collector.
    pub(crate) tracer: Option<Arc<Tracer>>,
}

struct RequestedOperation<'r> {
    kind: OperationKind,
    resource: Resource<'r>,
    virtual_table: VirtualTable,
    wants_events: bool,
    headers: Headers<'r>,
    version: Version,
    preferences: FormatPreferences<'r>,
    format: Format,
    timeout: Duration,
}

impl Handler for Service {
    async fn handle(
        &self,
        request: http::Request<Incoming>,
        connection: ConnectionInfo,
        started: Instant,
        in_progress: &RequestInProgress,
    ) -> Result<Response<Segments>, RequestAborted> {
        let in_flight = self.metrics.as_deref().map(Metrics::begin);
        let (parts, mut body) = request.into_parts();
        let connection = self.settings.proxies.describe(connection, &parts.headers);
        let now = self.clock.now().to_system_time();
        let accounts = self.accounts.current();
        let incoming = IncomingRequest::new(&parts, connection, (started, now), &self.settings.domains);
        let incoming = IncomingRequest {
            now_of_clients: self.is_test_clock.then(clock::client_time),
            target: self.in_account(incoming.target, &accounts),
            ..incoming
        };
        let mut context = RequestContext {
            dialect: self.settings.dialect,
            names_emulator_version: self.settings.names_emulator_version,
            ..RequestContext::new(&incoming)
        };
        let trace = self.tracer.as_ref().and_then(|tracer| tracer.begin(&parts.headers, incoming.started));
        let result = {
            let work = pin!(self.process(&mut context, &mut body, &accounts));
            Trace::follow(trace.as_ref(), work).await
        };
        if context.is_authenticated {
            in_progress.authenticate();
        }
        let is_last = match &result {
            Err(BodyFailure::FailedAndClose(_)) => true,
            Ok(_) if context.operation.has_account() || body.is_end_stream() => false,
            Ok(_) | Err(BodyFailure::Failed(_)) => {
                let waiting = clock::instant();
                // After a refusal, a client that sent `Expect: 100-continue` does not send its body.
                if !parts.headers.contains_key(http::header::EXPECT) {
                    // Boxed, like everything that few requests need, so that the future of every request does not
                    // reserve space for it.
                    Box::pin(body::discard(&mut body)).await;
                }
                context.body_wait += clock::elapsed_since(waiting);
                // The HTTP library closes the connection if a part of the body is left unread.
                !body.is_end_stream()
            }
            Err(BodyFailure::Aborted) => false,
        };
        if is_last {
            in_progress.linger();
        }
        let (response, outcome) = match result {
            Ok((mut response, memory)) => {
                let failure = response.failed_by.take();
                let code = failure.as_ref().map(|failure| failure.error.code);
                let outcome = Outcome::Responded { status: response.status, code };
                let mut response = response::success(response, memory, &context);
                if let Some(failure) = failure {
                    self.explain(&failure, &context, &accounts, &mut response);
                }
                (Some(response), outcome)
            }
            Err(BodyFailure::Failed(failure) | BodyFailure::FailedAndClose(failure)) => {
                let failure = failure.in_dialect(context.dialect);
                let code = failure.error.code;
                let now = self.clock.now();
                let outcome = Outcome::Responded { status: code.status(), code: Some(code) };
                let mut response = response::failure(&failure, &context, now);
                self.explain(&failure, &context, &accounts, &mut response);
                (Some(response), outcome)
            }
            Err(BodyFailure::Aborted) => (None, Outcome::Aborted),
        };
        let response = response.map(|mut response| {
            response.headers_mut().insert(http::header::DATE, response::date::header(self.clock.now()));
            if context.is_authenticated
                && context.operation.has_account()
                && let Some(state) = self.settings.replication.as_ref().and_then(|replication| replication.standby())
            {
                response.headers_mut().insert(X_MS_ROWHOUSE_AGE, state.age(self.clock.now().to_system_time()));
            }
            if is_last {
                response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
            }
            if let Some(properties) = &context.cors {
                let origin = parts.headers.get(http::header::ORIGIN);
                let is_authenticated = context.is_authenticated;
                cors::add_headers(&properties.cors, &parts.method, origin, is_authenticated, response.headers_mut());
            }
            response
        });
        if trace.is_some() || self.records_every_request() {
            let account = incoming.target.account.as_ref().filter(|_| context.operation.has_account());
            let account = account.filter(|account| accounts.keys(account).is_some());
            // A response to `HEAD` is sent without its body.
            let sent = response.as_ref().filter(|_| parts.method != Method::HEAD);
            let sent_bytes = sent.map_or(0, |response| response.body().len());
            let summary = RequestSummary::new(&context, account, outcome, sent_bytes);
            self.record(&summary, in_flight, trace.as_deref());
        }
        response.ok_or(RequestAborted)
    }

    fn refuse(&self, refusal: &Refusal<'_>, connection: ConnectionInfo, started: Instant) -> Response<Segments> {
        let in_flight = self.metrics.as_deref().map(Metrics::begin);
        let (parts, now) = (refusal.parts(), self.clock.now());
        let incoming =
            IncomingRequest::new(&parts, connection, (started, now.to_system_time()), &self.settings.domains);
        let context = RequestContext {
            dialect: self.settings.dialect,
            names_emulator_version: self.settings.names_emulator_version,
            ..RequestContext::new(&incoming)
        };
        let failure = unreadable(refusal).in_dialect(context.dialect);
        let mut response = response::failure(&failure, &context, now);
        self.explain(&failure, &context, &self.accounts.current(), &mut response);
        response.headers_mut().insert(http::header::DATE, response::date::header(now));
        if self.records_every_request() {
            let code = failure.error.code;
            let outcome = Outcome::Responded { status: code.status(), code: Some(code) };
            let summary = RequestSummary::new(&context, None, outcome, response.body().len());
            self.record(&summary, in_flight, None);
        }
        response
    }
}

/// Returns the failure of a request that the HTTP library refuses. In the service, the HTTP layer responds with a page
/// in HTML, which client libraries cannot read.
///
/// UNVERIFIED (06 §6): the codes; the service sends none.
fn unreadable(refusal: &Refusal<'_>) -> Failure {
    let code = match refusal.kind {
        RefusalKind::Method => ErrorCode::InvalidHttpVerb,
        RefusalKind::Target => ErrorCode::RequestUrlFailedToParse,
        RefusalKind::TargetTooLong => ErrorCode::RequestUrlTooLong,
        RefusalKind::HeadTooLarge => ErrorCode::RequestHeadTooLarge,
        RefusalKind::Header | RefusalKind::ContentLength | RefusalKind::TransferEncoding => {
            ErrorCode::InvalidHeaderValue
        }
        RefusalKind::Tls | RefusalKind::Http2 | RefusalKind::Version | RefusalKind::Other => ErrorCode::InvalidInput,
    };
    let reason = ReasonKind::RequestHead.because(format!("{refusal}."));
    Failure::at(Layer::FrontEnd, ServiceError::from(code).because(reason))
}

impl Service {
    /// Returns what a request asks of the explorer, or `None` for a request to the Table service.
    pub(crate) fn explorer_address<'u>(
        &self,
        method: &Method,
        uri: &'u Uri,
        headers: &HeaderMap,
    ) -> Option<explorer::Address<'u>> {
        self.settings.explorer.then(|| explorer::Address::parse(method, uri, headers)).flatten()
    }

    /// Tells why a request is refused, in the log and in a header of its response, as far as the settings allow.
    fn explain(
        &self,
        failure: &Failure,
        context: &RequestContext<'_>,
        accounts: &Accounts,
        response: &mut Response<Segments>,
    ) {
        let account = context.incoming.target.account.as_ref();
        // Without an account in the URL, the request may have been meant for the development account.
        let is_development = account.is_none_or(|account| accounts.has_well_known_key(account));
        let is_told = |audience, is_development| match audience {
            ReasonAudience::Everyone => true,
            ReasonAudience::Nobody => false,
            ReasonAudience::Development => accounts.have_development_account() && is_development,
        };
        let ReasonSettings { log, log_values, header } = self.settings.reasons;
        let reason = failure.error.reason();
        // Always logged: the operator must be able to see who is turned away, and the values are not parts of entities.
        let is_denial = !context.is_authenticated || failure.is_of_authentication();
        let logged =
            reason.as_ref().filter(|reason| is_denial || !reason.kind.is_routine() && is_told(log, is_development));
        let logged = logged.map(|reason| reason.line(log_values || is_denial));
        self.failure_log.write(failure, logged.as_deref(), context);
        // Everyone can sign with the well-known key, except web pages that only claim to be on this machine.
        let is_key_public = account.is_some_and(|account| accounts.has_well_known_key(account))
            && self.may_use_development_key(context.incoming);
        if let Some(reason) = reason
            // To a client without a valid credential, all accounts look alike, even those that do not exist.
            && is_told(header, is_development || !context.is_authenticated)
            && (context.is_authenticated || is_key_public || reason.kind.is_of_request_alone())
        {
            response::add_reason(response, &reason.line(true));
        }
    }

    /// Returns the target in the default account, if there is one and the URL names no account.
    fn in_account<'r>(&self, target: Target<'r>, accounts: &Accounts) -> Target<'r> {
        match &self.settings.default_account {
            Some(default) => target.or_in(default, |account| accounts.keys(account).is_some()),
            None => target,
        }
    }

    fn offered(&self) -> Offered {
        let Settings { extensions, load, .. } = &self.settings;
        Offered { extensions: *extensions, changes: self.changes.is_some(), load: *extensions && load.is_some() }
    }

    /// Returns true if every request is recorded. If only traces are on, only traced requests are recorded.
    fn records_every_request(&self) -> bool {
        self.metrics.is_some() || self.analytics.is_some() || access_log::is_on()
    }

    fn record(&self, summary: &RequestSummary<'_>, in_flight: Option<RequestInFlight<'_>>, trace: Option<&Trace>) {
        access_log::write(summary);
        if let Some(in_flight) = in_flight {
            in_flight.complete(summary);
        }
        if let (Some(tracer), Some(trace)) = (&self.tracer, trace) {
            tracer.end(trace, summary);
        }
        if let (Some(analytics), Some(account)) = (&self.analytics, summary.account) {
            // An engine that is closing returns an error here. The request failed for the same reason.
            if let Ok(properties) = self.engine.service_properties(account) {
                analytics.record(summary, &properties);
            }
        }
    }

    async fn process(
        &self,
        context: &mut RequestContext<'_>,
        body: &mut Incoming,
        accounts: &Accounts,
    ) -> Result<(OperationResponse, MemoryPermit), BodyFailure> {
        let incoming = context.incoming;
        incoming.check_head()?;
        let Parts { method, uri, headers, .. } = incoming.parts;
        if let Some(address) = self.explorer_address(method, uri, headers) {
            context.operation = OperationKind::Explorer;
            let response = explorer::respond(incoming, address, || self.page_settings(incoming, accounts));
            return Ok((response, MemoryPermit::default()));
        }
        if let Some(replication) = &self.settings.replication
            && incoming.parts.uri.path() == REPLICATION_PATH
        {
            context.operation = OperationKind::Replication;
            if incoming.head.authorization.is_some() {
                context.credential = CredentialKind::Bearer;
            }
            if !replication.accepts(&incoming.parts.headers) {
                let reason = format!(
                    "{} sent a request of a standby without the right token (--standby-token-file)",
                    incoming.connection.peer
                );
                let failure = Failure::at(Layer::Authentication, ErrorCode::TokenRefused);
                return Err(failure.with_cause(reason).into());
            }
            context.is_authenticated = true;
            let (status, body) = replication.respond(&incoming.parts.headers).await;
            let content = Some(("application/octet-stream".into(), vec![body]));
            let response = OperationResponse { status, content, ..OperationResponse::default() };
            return Ok((response, MemoryPermit::default()));
        }
        let account = incoming.target.account.as_ref();
        context.cors = account.and_then(|account| self.properties_with_rules(accounts, account));
        if incoming.parts.method == Method::OPTIONS {
            context.operation = OperationKind::PreflightRequest;
            return Ok((preflight(context)?, MemoryPermit::default()));
        }
        let version = incoming.version();
        let tokens = self.tokens.as_ref();
        context.challenge = tokens.and_then(TokenVerifier::challenge).cloned();
        let grant = authenticate(&*self.engine, accounts, tokens, context).await?;
        if accounts.has_well_known_key(&grant.account) {
            self.refuse_web_pages(context)?;
        }
        context.is_authenticated = true;
        let version = version?;
        context.version = version.filter(|version| *version >= Version::VERSION_HEADER);
        context.check_client_request_id()?;
        let accept = joined_accept(&incoming.parts.headers, &incoming.head);
        let accept = accept.map_err(|error| Failure::at(Layer::FrontEnd, error))?;
        let version = version.unwrap_or(Version::NONE);
        context.form_version = version;
        let requested = self.interpret(context, version, accept.as_deref(), &grant)?;
        let tables = AccountTables::new(
            &*self.engine,
            &grant.account,
            self.throttle.as_ref(),
            self.quotas.account_quota(accounts, &grant.account),
            self.analytics.as_ref().map(|analytics| analytics.has_secondary),
            self.changes.as_ref(),
        );
        let result = self.execute(context, requested, &grant, &tables, body).await;
        context.entities = tables.entities();
        result
    }

    fn interpret<'a, 'r: 'a>(
        &self,
        context: &mut RequestContext<'r>,
        version: Version,
        accept: Option<&'a str>,
        grant: &Grant,
    ) -> Result<RequestedOperation<'a>, Failure> {
        let IncomingRequest { parts, head, options, target, .. } = context.incoming;
        let front_end = |error| Failure::at(Layer::FrontEnd, error);
        let wants_events = self.changes.is_some() && accept.is_some_and(accepts_events) && has_changes(target);
        // Each event, and an error before the first one, is JSON.
        let accept = if wants_events { Some(EVENT_FORMAT) } else { accept };
        let headers = operation_headers(head, accept).map_err(front_end)?;
        let preferences = headers.preferences(version, options.format.as_deref());
        let preferences = preferences.map_err(front_end)?;
        // Errors about the URL take precedence over errors about the requested format, but are written in the requested
        // format if it is valid.
        let expects_body = matches!(parts.method, Method::GET | Method::POST);
        let expected = if expects_body { preferences.response_format() } else { preferences.empty_response_format() };
        context.format = expected.ok();
        options.check().map_err(Failure::query)?;
        let extensions = self.settings.extensions;
        let resource = if extensions { target.extended_resource() } else { target.resource() };
        let resource = resource.map_err(Failure::query)?;
        let overrides = head.method.into_iter().flat_map(|_| parts.headers.get_all(X_HTTP_METHOD));
        let method = effective_method(&parts.method, overrides.map(HeaderValue::as_bytes)).map_err(Failure::query)?;
        let (restype, comp) = (options.restype.as_deref(), options.comp.as_deref());
        context.is_front_end = is_of_front_end(&resource, restype, comp, extensions);
        let has_if_match = headers.if_match.is_some();
        let kind = route(&method, &resource, (restype, comp), has_if_match, self.offered());
        let kind = kind.map_err(Failure::query)?;
        context.operation = kind;
        context.table = table_of(&resource).cloned();
        let info = kind.info();
        let preference = info.preference(preferences.data_service_version, headers.prefer);
        context.preference = permitted_preference(grant, kind, &resource, preference);
        let has_body = info.responds_with_body(context.preference);
        let virtual_table = authorize(grant, kind, &resource, self.offered())?;
        check_dialect(context.dialect, kind, &resource, grant)?;
        self.check_endpoint(kind, target)?;
        let format = match info.response {
            PayloadKind::Parts => preferences.default_part_format(),
            // Only errors are written in this format.
            PayloadKind::Text | PayloadKind::Json => expected.unwrap_or(Format::Json(MetadataLevel::Minimal)),
            // The client does not choose the format of XML.
            _ if info.is_xml() => Format::Json(MetadataLevel::Minimal),
            _ if has_body == expects_body => resolved(expected)?,
            // In this case, the effective method differs from the method on the wire.
            _ if has_body => resolved(preferences.response_format())?,
            _ => resolved(preferences.empty_response_format())?,
        };
        let timeout = options.timeout().map_err(Failure::query)?;
        context.has_own_timeout = timeout < Duration::from_secs(REQUEST_TIMEOUT_SECONDS_MAX);
        Ok(RequestedOperation {
            kind,
            resource,
            virtual_table,
            wants_events,
            headers,
            version,
            preferences,
            format,
            timeout,
        })
    }

    async fn execute(
        &self,
        context: &mut RequestContext<'_>,
        requested: RequestedOperation<'_>,
        grant: &Grant,
        tables: &AccountTables<'_>,
        body: &mut Incoming,
    ) -> Result<(OperationResponse, MemoryPermit), BodyFailure> {
        let RequestedOperation { kind, version, preferences, timeout, .. } = requested;
        let info = kind.info();
        let incoming = context.incoming;
        let base = incoming.base();
        let memory = self.memory.for_request(&grant.account, incoming.credential(grant));
        let (body, body_format) =
            self.read_body(kind, context, (body, &memory), requested.headers.content_type, &preferences).await?;
        // Acquired after the body was read, so that a client that sends slowly does not hold a permit.
        let _permit = self.admission.request(kind.is_long_running().then_some(&grant.account)).await?;
        if info.throttle_unit == ThrottleUnit::Request {
            tables.admit_request()?;
        }
        let operation = OperationContext {
            request: context,
            grant,
            kind,
            resource: requested.resource,
            body: &body,
            response: ResponseContext {
                base: &base,
                account: &grant.account,
                dialect: context.dialect,
                format: requested.format,
                version,
                now: DateTime::from_system_time(incoming.now),
            },
            data_service_version: preferences.data_service_version,
            domains: &self.settings.domains,
            virtual_table: requested.virtual_table,
            wants_events: requested.wants_events,
            headers: requested.headers,
            options: &incoming.options,
            body_format,
            preference: context.preference,
            limits: self.settings.entity_limits(),
            memory: &memory,
            offered: self.offered(),
            replication: self.settings.replication.as_deref(),
            load: self.settings.load.as_ref(),
            query_deadline: incoming.started + timeout.min(self.settings.query_time),
            deadline: incoming.started + timeout + QUERY_GRACE,
        };
        let response = operations::run(tables, &operation).await?;
        let mut memory = memory.take();
        memory.shrink_to(response.content_bytes());
        Ok((response, memory))
    }

    /// Reads and checks the body, if the operation has one, and returns it with its format.
    async fn read_body(
        &self,
        kind: OperationKind,
        context: &mut RequestContext<'_>,
        (body, memory): (&mut Incoming, &RequestMemory<'_>),
        content_type: Option<&str>,
        preferences: &FormatPreferences<'_>,
    ) -> Result<(Bytes, Format), BodyFailure> {
        let unread = Format::Json(MetadataLevel::Minimal);
        let info = kind.info();
        if !info.has_body() {
            return Ok((Bytes::new(), unread));
        }
        let incoming = context.incoming;
        let headers = &incoming.parts.headers;
        let is_framed = headers.contains_key(http::header::CONTENT_LENGTH) || !body.is_end_stream();
        if !is_framed && !headers.contains_key(http::header::TRANSFER_ENCODING) {
            return Err(Failure::query(ErrorCode::MissingContentLengthHeader).into());
        }
        let format = match info.request {
            PayloadKind::Negotiated => body_format(preferences, content_type)?,
            // Each part of a batch has its own format.
            PayloadKind::Parts => required_content_type(content_type).map(|_| unread)?,
            // XML may have any `Content-Type` (recorded).
            _ => unread,
        };
        let waiting = self.records_every_request().then(clock::instant);
        let body = traces::step("receive body", pin!(body::read(body, memory))).await;
        context.body_wait = waiting.map(clock::elapsed_since).unwrap_or_default();
        let body = body?;
        context.request_bytes = body.len();
        if info.request == PayloadKind::Xml && body.len() > XML_BODY_BYTES_MAX {
            let detail = format!("The XML body has {} bytes; the limit is {XML_BODY_BYTES_MAX}.", body.len());
            let reason = ReasonKind::BodyTooLarge.because(detail);
            let error = ServiceError::from(ErrorCode::RequestBodyTooLarge).because(reason);
            return Err(Failure::at(Layer::FrontEnd, error).into());
        }
        if info.request == PayloadKind::Negotiated {
            check_body_charset(content_type, &body)?;
        }
        let md5 = incoming.head.content_md5.and_then(|value| value.to_str().ok());
        body::check_md5(md5, &body).map_err(Failure::service)?;
        Ok((body, format))
    }

    /// Returns the properties of an account of this server, if it has CORS rules.
    fn properties_with_rules(&self, accounts: &Accounts, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        // If the engine is closing, the operation itself fails and reports the reason.
        let properties = self.engine.service_properties(account).ok()?;
        (!properties.cors.is_empty() && accounts.keys(account).is_some()).then_some(properties)
    }

    fn refuse_web_pages(&self, context: &RequestContext<'_>) -> Result<(), Failure> {
        if !self.settings.development_key_for_any_host {
            web_page::check_host(context.incoming.host, &self.settings.domains)?;
        }
        web_page::check_origin(context.incoming, context.cors.as_ref().map(|properties| &properties.cors))
    }

    /// Returns true if the host that a request names is one under which the development account can be used.
    fn may_use_development_key(&self, incoming: &IncomingRequest<'_>) -> bool {
        self.settings.development_key_for_any_host
            || web_page::check_host(incoming.host, &self.settings.domains).is_ok()
    }

    /// Returns the settings that the explorer needs, for a page on the host that a request addresses.
    fn page_settings(&self, incoming: &IncomingRequest<'_>, accounts: &Accounts) -> PageSettings {
        let is_host_style = incoming.target.base_path.is_empty();
        let host_account = incoming.target.account.as_ref().filter(|_| is_host_style);
        PageSettings {
            version: env!("CARGO_PKG_VERSION"),
            development: self.may_use_development_key(incoming)
                && accounts.have_development_account()
                && host_account.is_none_or(|account| account.as_str() == DEVELOPMENT_ACCOUNT),
            host_account: host_account.map(ToString::to_string),
            extensions: self.settings.extensions,
            changes: self.changes.is_some(),
            load: self.offered().load,
        }
    }

    /// Rejects operations that the endpoint does not serve: on the secondary endpoint, writes and, depending on the
    /// settings, reads (07 §7); on the primary endpoint, statistics (10 §6).
    fn check_endpoint(&self, kind: OperationKind, target: &Target<'_>) -> Result<(), Failure> {
        let is_stats = kind == OperationKind::GetServiceStats;
        if target.secondary && kind.info().is_write {
            let reason = ReasonKind::SecondaryReadOnly.because("");
            return Err(Failure::service(
                ServiceError::from(ErrorCode::InsufficientAccountPermissions).because(reason),
            ));
        }
        let is_path_style = !target.base_path.is_empty();
        if is_stats && !target.secondary && !(self.settings.stats_on_primary && is_path_style) {
            let error = ServiceError::from(ErrorCode::InvalidQueryParameterValue);
            return Err(Failure::at(Layer::FrontEnd, error.because(ReasonKind::StatsOnPrimary.because(""))));
        }
        if (target.secondary || is_stats) && self.settings.secondary == Secondary::Off {
            let message = "Read operations are currently disabled.";
            let error = ServiceError::new(ErrorCode::InsufficientAccountPermissions, message);
            return Err(Failure::at(Layer::FrontEnd, error.because(ReasonKind::SecondaryOff.because(""))));
        }
        Ok(())
    }
}

/// Refuses what the service of the dialect does not have (11 §5).
fn check_dialect(dialect: Dialect, kind: OperationKind, resource: &Resource<'_>, grant: &Grant) -> Result<(), Failure> {
    if dialect == Dialect::Cosmos && matches!(resource, Resource::Nested(_) | Resource::NestedEntity(_)) {
        let reason = ReasonKind::PathBelowTable.because("");
        return Err(Failure::query(ErrorCode::NotImplemented).because(reason));
    }
    if !kind.exists_in(dialect) {
        let reason = ReasonKind::ServiceLacks.because("");
        return Err(Failure::service(ErrorCode::NotImplemented).because(reason));
    }
    if dialect == Dialect::Cosmos && grant.is_confined() {
        let message = "Shared access signature with PartitionKey or RowKey are not supported";
        let reason = ReasonKind::ServiceLacks.because("The signature has a range of keys.");
        return Err(Failure::service(ServiceError::new(ErrorCode::NotImplemented, message)).because(reason));
    }
    Ok(())
}

fn preflight(context: &mut RequestContext<'_>) -> Result<OperationResponse, Failure> {
    context.is_front_end = true;
    // Taken, so that no headers are added to the response later.
    let properties = context.cors.take();
    let no_rules = CorsRules::default();
    let rules = properties.as_ref().map_or(&no_rules, |properties| &properties.cors);
    cors::preflight(rules, &context.incoming.parts.headers)
}
