//! The one path of every request: address, credential, version, operation, format, body, execution, answer.
//!
//! The order of the steps decides which error a client sees first (specification 06 §6).

use crate::access_log;
use crate::accounts::Accounts;
use crate::admission::{self, Admission, PAGE_BYTES, Share};
use crate::analytics::Analytics;
use crate::answer::Answer;
use crate::arrived::{Arrived, accepts_json, is_of_front_end};
use crate::authentication::{Evidence, authenticate};
use crate::authorization::authorize;
use crate::body::{self, BodyFailure};
use crate::call::{Call, Headers, joined_accept, resolved};
use crate::cli::SecondaryArg;
use crate::completed::{Completed, Learned, Outcome};
use crate::connection::ConnectionInfo;
use crate::cors;
use crate::failure::{Failure, Layer};
use crate::metrics::{InFlight, Metrics};
use crate::oauth::OAuth;
use crate::operation_kind::OperationKind;
use crate::operations::batch::Surroundings;
use crate::operations::update_entity::Update;
use crate::operations::{self, update_entity};
use crate::quota::{Held, Quotas};
use crate::reload::Live;
use crate::request_id::RequestId;
use crate::response::{self, Envelope, echoed_request_id};
use crate::route::{Operation, effective_method, route, route_service};
use crate::second_thread::SecondThread;
use crate::segments::Segments;
use crate::throttle::Throttle;
use crate::traces::{self, Trace, Tracer};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response};
use hyper::body::{Body, Incoming};
use model::limits::{REQUEST_BODY_BYTES_MAX, REQUEST_TIMEOUT_SECONDS_MAX, XML_BODY_BYTES_MAX};
use model::{AccountName, CorsRules, DateTime, Grant, ServiceProperties};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use store::Engine;
use tracing::{debug, error, info};
use wire::negotiation::{FormatPreferences, Preference};
use wire::target::{Resource, Target};
use wire::{ErrorCode, Format, MetadataLevel, ServiceError, Version};

/// The Table service on an engine.
#[derive(Debug)]
pub(crate) struct Service<E> {
    pub(crate) engine: E,
    pub(crate) accounts: Arc<Live<Accounts>>,
    /// Who may use bearer tokens; `None` if nobody may.
    pub(crate) oauth: Option<OAuth>,
    pub(crate) domains: Vec<String>,
    pub(crate) query_time: Duration,
    /// How much is taken on at one time.
    pub(crate) admission: Admission,
    /// What large requests are shared with while there are few.
    pub(crate) second_thread: SecondThread,
    /// What counts entities against targets; `None` if nothing is throttled.
    pub(crate) throttle: Option<Throttle>,
    /// What accounts may keep.
    pub(crate) quotas: Quotas,
    /// What keeps figures about requests; `None` if nothing is measured.
    pub(crate) analytics: Option<Analytics>,
    /// What the secondary endpoint serves.
    pub(crate) secondary: SecondaryArg,
    /// Whether the primary endpoint answers statistics in path style.
    pub(crate) stats_on_primary: bool,
    /// What counts requests; `None` if nobody can look.
    pub(crate) metrics: Option<Arc<Metrics>>,
    /// What makes traces of requests; `None` if there is no collector.
    pub(crate) tracer: Option<Arc<Tracer>>,
}

/// The client went away or was too slow; there is nobody to answer.
#[derive(Debug)]
pub(crate) struct Abort;

impl std::fmt::Display for Abort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the client did not send its request")
    }
}

impl std::error::Error for Abort {}

/// What a request asks for, once its address and its head have been understood.
struct Ask<'r> {
    operation: Operation<'r>,
    headers: Headers<'r>,
    version: Version,
    format_preferences: FormatPreferences<'r>,
    /// The format of the answer.
    format: Format,
    /// How long the client gives the request.
    timeout: Duration,
}

/// Who sends a request.
struct Caller<'r> {
    /// What that allows.
    grant: Grant,
    /// What the account may keep; `None` if it may keep whatever it wants.
    quota: Option<Held<'r>>,
}

impl<E: Engine> Service<E> {
    /// Answers one request.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: http::Request<Incoming>,
        connection: ConnectionInfo,
    ) -> Result<Response<Segments>, Abort> {
        let in_flight = self.metrics.as_deref().map(Metrics::begin);
        let (parts, body) = request.into_parts();
        let arrived = Arrived::new(&parts, connection, &self.domains);
        let accounts = self.accounts.current();
        let mut envelope = envelope(&arrived);
        let mut learned = Learned::default();
        let trace = self.tracer.as_ref().and_then(|tracer| tracer.begin(&parts.headers, arrived.started));
        let result = {
            let work = pin!(self.process(&arrived, body, &accounts, &mut envelope, &mut learned));
            Trace::follow(trace.as_ref(), work).await
        };
        let is_last = matches!(result, Err(BodyFailure::LastAnswer(_)));
        let (response, outcome) = match result {
            Ok((answer, share)) => {
                let outcome = Outcome::Answered { status: answer.status, code: answer.failed_by };
                (Some(response::of_answer(answer, share, &envelope)), outcome)
            }
            Err(BodyFailure::Answer(failure) | BodyFailure::LastAnswer(failure)) => {
                envelope.accepts_json = accepts_json(&arrived.head);
                log_failure(&failure, &envelope);
                let code = failure.error.code;
                let now = DateTime::from_system_time(SystemTime::now());
                let outcome = Outcome::Answered { status: code.status(), code: Some(code) };
                (Some(response::of_failure(&failure, &envelope, now)), outcome)
            }
            Err(BodyFailure::Abort) => (None, Outcome::Aborted),
        };
        let response = response.map(|mut response| {
            if is_last {
                response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
            }
            if let Some(properties) = &envelope.cors {
                let origin = parts.headers.get(http::header::ORIGIN);
                cors::add_headers(&properties.cors, &parts.method, origin, response.headers_mut());
            }
            response
        });
        if trace.is_some() || self.is_watched() {
            let account = arrived.target.account.as_ref().filter(|account| accounts.keys(account).is_some());
            // To `HEAD` only the head is sent, whatever it says about the body.
            let sent = response.as_ref().filter(|_| parts.method != Method::HEAD);
            let completed = Completed {
                began_at: arrived.now,
                duration: arrived.started.elapsed(),
                receiving: learned.receiving,
                operation: learned.operation,
                account,
                is_secondary: arrived.target.secondary,
                table: learned.table(),
                credential: learned.credential,
                is_authenticated: learned.is_authenticated,
                has_own_timeout: learned.has_own_timeout,
                outcome,
                request_bytes: learned.request_bytes as u64,
                response_bytes: sent.map_or(0, |response| response.body().len()),
                method: parts.method.as_str(),
                path: parts.uri.path(),
                request_id: envelope.request_id.as_str(),
                client_request_id: envelope.client_request_id.as_ref(),
                user_agent: parts.headers.get(http::header::USER_AGENT),
                peer: connection.peer,
                is_tls: connection.is_tls,
            };
            self.completed(&completed, in_flight, trace.as_deref());
        }
        response.ok_or(Abort)
    }

    /// Whether anybody wants to know about every request. Who traces wants to know about those that are traced.
    fn is_watched(&self) -> bool {
        self.metrics.is_some() || self.analytics.is_some() || access_log::is_on()
    }

    /// Everybody who wants to know about requests is told here.
    fn completed(&self, completed: &Completed<'_>, in_flight: Option<InFlight<'_>>, trace: Option<&Trace>) {
        access_log::write(completed);
        if let Some(in_flight) = in_flight {
            in_flight.complete(completed);
        }
        if let (Some(tracer), Some(trace)) = (&self.tracer, trace) {
            tracer.end(trace, completed);
        }
        if let (Some(analytics), Some(account)) = (&self.analytics, completed.account) {
            // An engine that is closing has none; the request failed for the same reason.
            if let Ok(properties) = self.engine.service_properties(account) {
                analytics.note(completed, &properties);
            }
        }
    }

    /// The way of a request up to its answer.
    async fn process<'r>(
        &self,
        arrived: &Arrived<'r>,
        body: Incoming,
        accounts: &Accounts,
        envelope: &mut Envelope,
        learned: &mut Learned<'r>,
    ) -> Result<(Answer, Share), BodyFailure> {
        arrived.check_host()?;
        let account = arrived.target.account.as_ref();
        envelope.cors = account.and_then(|account| self.properties_with_rules(accounts, account));
        if arrived.parts.method == Method::OPTIONS {
            learned.operation = OperationKind::PreflightRequest;
            return Ok((preflight(arrived, envelope)?, Share::default()));
        }
        let version = arrived.version();
        let named = version.as_ref().ok().copied().flatten();
        let grant = self.identify(arrived, named, accounts, envelope, learned).await?;
        let version = version?;
        envelope.version = version.filter(|version| *version >= Version::VERSION_HEADER);
        arrived.check_client_request_id(envelope.client_request_id.as_ref())?;
        let quota = self.quotas.hold(accounts, &grant.account);
        let accept = joined_accept(&arrived.parts.headers, &arrived.head);
        let accept = accept.map_err(|e| Failure::at(Layer::FrontEnd, e))?;
        let version = version.unwrap_or(Version::OLDEST);
        let ask = self.understand(arrived, version, accept.as_deref(), &grant, envelope, learned)?;
        self.execute(arrived, ask, Caller { grant, quota }, body, envelope, learned).await
    }

    /// Finds out who sends a request, and what that allows.
    async fn identify(
        &self,
        arrived: &Arrived<'_>,
        version: Option<Version>,
        accounts: &Accounts,
        envelope: &mut Envelope,
        learned: &mut Learned<'_>,
    ) -> Result<Grant, Failure> {
        let evidence = Evidence {
            method: arrived.parts.method.as_str(),
            target: &arrived.target,
            raw_query: arrived.raw_query,
            options: &arrived.options,
            head: &arrived.head,
            version,
            now: arrived.now,
            connection: arrived.connection,
        };
        let oauth = self.oauth.as_ref();
        envelope.challenge = oauth.and_then(OAuth::challenge).cloned();
        let grant = authenticate(&self.engine, accounts, oauth, &evidence, &mut learned.credential).await?;
        learned.is_authenticated = true;
        Ok(grant)
    }

    /// Finds out what a request asks for, whether that is allowed, and how the answer is to look.
    fn understand<'a, 'r: 'a>(
        &self,
        arrived: &'a Arrived<'r>,
        version: Version,
        accept: Option<&'a str>,
        grant: &Grant,
        envelope: &mut Envelope,
        learned: &mut Learned<'r>,
    ) -> Result<Ask<'a>, Failure> {
        let Arrived { parts, head, options, target, .. } = arrived;
        let front_end = |error| Failure::at(Layer::FrontEnd, error);
        let headers = Headers::of(head, accept).map_err(front_end)?;
        let format_preferences =
            Call::format_preferences(version, &headers, options).map_err(|e| Failure::at(Layer::FrontEnd, e))?;
        // Errors about the address come before those about the format, and are already written in it.
        let has_answer = matches!(parts.method, Method::GET | Method::POST);
        let wished =
            if has_answer { format_preferences.response_format() } else { format_preferences.empty_response_format() };
        envelope.format = wished.ok();
        options.check().map_err(Failure::query)?;
        let resource = target.resource().map_err(Failure::query)?;
        let overrides = head.method.into_iter().flat_map(|_| parts.headers.get_all(X_HTTP_METHOD));
        let method = effective_method(&parts.method, overrides.map(HeaderValue::as_bytes)).map_err(Failure::query)?;
        let (restype, comp) = (options.restype.as_deref(), options.comp.as_deref());
        envelope.is_front_end = is_of_front_end(&resource, restype, comp);
        let operation = match resource {
            Resource::Service => route_service(&method, restype, comp),
            resource => route(&method, resource, comp),
        };
        let operation: Operation<'r> = operation.map_err(Failure::query)?;
        let kind = operation.kind();
        learned.operation = if headers.if_match.is_some() { kind } else { kind.without_condition() };
        learned.table = operation.table().cloned();
        if operation.has_preference() {
            envelope.preference = Preference::parse(format_preferences.data_service_version, headers.prefer);
        }
        authorize(grant, &operation, &headers)?;
        self.check_endpoint(&operation, target).map_err(front_end)?;
        let format = match operation {
            // Each part of a batch has a format of its own.
            Operation::Batch => format_preferences.default_part_format(),
            // What these answer is XML, and nobody asks for it.
            _ if operation.is_xml() => Format::Json(MetadataLevel::Minimal),
            _ if operation.answers_with_body() == has_answer => resolved(wished)?,
            // The method on the wire is not the one that counts.
            _ if operation.answers_with_body() => resolved(format_preferences.response_format())?,
            _ => resolved(format_preferences.empty_response_format())?,
        };
        let timeout = options.timeout().map_err(Failure::query)?;
        learned.has_own_timeout = timeout < Duration::from_secs(REQUEST_TIMEOUT_SECONDS_MAX);
        Ok(Ask { operation, headers, version, format_preferences, format, timeout })
    }

    /// Reads the body, and does what a request asks for.
    async fn execute(
        &self,
        arrived: &Arrived<'_>,
        ask: Ask<'_>,
        caller: Caller<'_>,
        body: Incoming,
        envelope: &Envelope,
        learned: &mut Learned<'_>,
    ) -> Result<(Answer, Share), BodyFailure> {
        let Ask { operation, headers, version, format_preferences, format, timeout } = ask;
        let Caller { grant, quota } = caller;
        let base = arrived.base();
        let share = self.admission.memory(expected_bytes(&operation, &body)).await?;
        let body = self.read_body(&operation, arrived, body, headers.content_type, &format_preferences, learned);
        let (body, body_format) = body.await?;
        // Taken when the body is there, so that nobody keeps it by sending slowly.
        let _place = self.admission.place().await?;
        let call = Call {
            grant,
            version,
            data_service_version: format_preferences.data_service_version,
            now: DateTime::from_system_time(arrived.now),
            base: &base,
            headers,
            options: &arrived.options,
            format,
            body_format,
            preference: envelope.preference,
            query_deadline: arrived.started + timeout.min(self.query_time),
            throttle: self.throttle.as_ref(),
            quota,
            analytics: self.analytics.as_ref(),
            named: &learned.named,
        };
        let surroundings = Surroundings {
            domains: &self.domains,
            is_secondary: arrived.target.secondary,
            request_id: envelope.request_id.as_str(),
            second_thread: self.admission.has_processor_left().then_some(&self.second_thread),
        };
        let run = pin!(self.run(&call, &operation, &surroundings, &body));
        match tokio::time::timeout_at((arrived.started + timeout + QUERY_GRACE).into(), run).await {
            Ok(Ok(answer)) => {
                let bytes = answer.content.as_ref().map_or(0, |(_, segments)| admission::size(segments));
                let share = if operation.may_write() && !answer.is_of_query {
                    self.admission.settle_written(share, bytes)
                } else {
                    self.admission.settle(share, bytes).await?
                };
                Ok((answer, share))
            }
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(Failure::service(ErrorCode::OperationTimedOut).into()),
        }
    }

    /// Reads and checks the body of an operation that has one, and says in which format it is.
    async fn read_body(
        &self,
        operation: &Operation<'_>,
        arrived: &Arrived<'_>,
        body: Incoming,
        content_type: Option<&str>,
        format_preferences: &FormatPreferences<'_>,
        learned: &mut Learned<'_>,
    ) -> Result<(Bytes, Format), BodyFailure> {
        let unread = Format::Json(MetadataLevel::Minimal);
        if !operation.has_body() {
            return Ok((Bytes::new(), unread));
        }
        let headers = &arrived.parts.headers;
        let is_framed = headers.contains_key(http::header::CONTENT_LENGTH) || !body.is_end_stream();
        if !is_framed && !headers.contains_key(http::header::TRANSFER_ENCODING) {
            return Err(Failure::query(ErrorCode::MissingContentLengthHeader).into());
        }
        // Each part of a batch has a format of its own, and any `Content-Type` goes with an XML document (recorded).
        let has_format = !(operation.is_xml() || *operation == Operation::Batch);
        if has_format {
            format_preferences.check_content_type(content_type).map_err(|code| Failure::at(Layer::Format, code))?;
        }
        let waiting = self.is_watched().then(Instant::now);
        let body = traces::step("receive body", pin!(body::read(body, arrived.started))).await;
        learned.receiving = waiting.map(|waiting| waiting.elapsed()).unwrap_or_default();
        let body = body?;
        learned.request_bytes = body.len();
        if operation.is_xml() && body.len() > XML_BODY_BYTES_MAX {
            return Err(Failure::at(Layer::FrontEnd, ErrorCode::RequestBodyTooLarge).into());
        }
        let format = if has_format { resolved(format_preferences.body_format(content_type, &body))? } else { unread };
        let md5 = arrived.head.content_md5.and_then(|value| value.to_str().ok());
        body::check_md5(md5, &body).map_err(Failure::service)?;
        Ok((body, format))
    }

    async fn run(
        &self,
        call: &Call<'_>,
        operation: &Operation<'_>,
        surroundings: &Surroundings<'_>,
        body: &Bytes,
    ) -> Result<Answer, Failure> {
        let engine = &self.engine;
        if !operation.is_of_entities() {
            call.admit_request()?;
        }
        match operation {
            Operation::QueryTables => operations::query_tables::run(engine, call).await,
            Operation::CreateTable => operations::create_table::run(engine, call, body).await,
            Operation::GetTable(name) => operations::get_table::run(engine, call, name).await,
            Operation::DeleteTable(name) => operations::delete_table::run(engine, call, name).await,
            Operation::QueryEntities(table) => operations::query_entities::run(engine, call, table).await,
            Operation::InsertEntity(table) => operations::insert_entity::run(engine, call, table, body).await,
            Operation::GetEntity(address) => operations::get_entity::run(engine, call, address).await,
            Operation::UpdateEntity(address) => update_entity::run(engine, call, Update::Replace, address, body).await,
            Operation::MergeEntity(address) => update_entity::run(engine, call, Update::Merge, address, body).await,
            Operation::DeleteEntity(address) => operations::delete_entity::run(engine, call, address).await,
            Operation::GetTableAcl(table) => operations::get_table_acl::run(engine, call, table).await,
            Operation::SetTableAcl(table) => operations::set_table_acl::run(engine, call, table, body).await,
            // The one that needs the most room does not have it in every request.
            Operation::Batch => Box::pin(operations::batch::run(engine, call, surroundings, body)).await,
            Operation::GetServiceProperties => operations::get_service_properties::run(engine, call),
            Operation::SetServiceProperties => operations::set_service_properties::run(engine, call, body).await,
            Operation::GetServiceStats => Ok(operations::get_service_stats::run(SystemTime::now())),
        }
    }

    /// The properties of an account of this server, if it has CORS rules.
    fn properties_with_rules(&self, accounts: &Accounts, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        // An engine that is closing has no say in CORS; the operation says what is wrong.
        let properties = self.engine.service_properties(account).ok()?;
        (!properties.cors.is_empty() && accounts.keys(account).is_some()).then_some(properties)
    }

    /// Refuses what the endpoint does not serve: writes, and perhaps reads, on the secondary one (07 §7), and
    /// statistics on the primary one (10 §6).
    fn check_endpoint(&self, operation: &Operation<'_>, target: &Target<'_>) -> Result<(), ServiceError> {
        let is_stats = *operation == Operation::GetServiceStats;
        if target.secondary && operation.is_write() {
            return Err(ErrorCode::InsufficientAccountPermissions.into());
        }
        let is_path_style = !target.base_path.is_empty();
        if is_stats && !target.secondary && !(self.stats_on_primary && is_path_style) {
            return Err(ErrorCode::InvalidQueryParameterValue.into());
        }
        if (target.secondary || is_stats) && self.secondary == SecondaryArg::Off {
            let message = "Read operations are currently disabled.";
            return Err(ServiceError::new(ErrorCode::InsufficientAccountPermissions, message));
        }
        Ok(())
    }
}

/// Answers what a browser asks before it sends a request to another origin.
fn preflight(arrived: &Arrived<'_>, envelope: &mut Envelope) -> Result<Answer, Failure> {
    envelope.is_front_end = true;
    // Taken, so that nothing is added to the answer.
    let properties = envelope.cors.take();
    let no_rules = CorsRules::default();
    let rules = properties.as_ref().map_or(&no_rules, |properties| &properties.cors);
    cors::preflight(rules, &arrived.parts.headers)
}

/// How long a query that ends at its deadline may take to answer with its page.
const QUERY_GRACE: Duration = Duration::from_secs(1);
const X_HTTP_METHOD: HeaderName = HeaderName::from_static("x-http-method");

fn envelope(arrived: &Arrived<'_>) -> Envelope {
    Envelope {
        request_id: RequestId::new(),
        client_request_id: echoed_request_id(arrived.head.client_request_id),
        version: None,
        challenge: None,
        format: None,
        preference: None,
        is_front_end: false,
        cors: None,
        accepts_json: false,
    }
}

/// The memory that a request needs before it is known what becomes of it: a body and the record or records that it
/// becomes, or a page.
fn expected_bytes(operation: &Operation<'_>, body: &Incoming) -> usize {
    if matches!(operation, Operation::QueryEntities(_)) {
        return PAGE_BYTES;
    }
    if !operation.has_body() {
        return 0;
    }
    let announced = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    2 * announced.map_or(REQUEST_BODY_BYTES_MAX, |bytes| bytes.min(REQUEST_BODY_BYTES_MAX))
}

/// Says in the log what the client is not told.
fn log_failure(failure: &Failure, envelope: &Envelope) {
    let (code, id) = (failure.error.code.as_str(), envelope.request_id.as_str());
    match &failure.source {
        Some(source) if failure.error.code.status() >= 500 => error!(code, request_id = id, "{source}"),
        Some(source) => info!(code, request_id = id, "{source}"),
        None => debug!(code, request_id = id, "{}", failure.error.message),
    }
}
