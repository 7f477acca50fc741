//! The one path of every request: address, credential, version, operation, format, body, execution, answer.
//!
//! The order of the steps decides which error a client sees first (specification 06 §6).

use crate::accounts::Accounts;
use crate::admission::{self, Admission, PAGE_BYTES, Share};
use crate::answer::Answer;
use crate::authentication::{Evidence, authenticate};
use crate::authorization::authorize;
use crate::body::{self, BodyFailure};
use crate::call::{Call, Headers, joined_accept, resolved};
use crate::cli::SecondaryArg;
use crate::connection::ConnectionInfo;
use crate::cors;
use crate::failure::{Failure, Layer};
use crate::oauth::OAuth;
use crate::operations;
use crate::operations::batch::Surroundings;
use crate::reload::Live;
use crate::request_id::RequestId;
use crate::response::{self, Envelope, Segments, X_MS_CLIENT_REQUEST_ID, echoed_request_id};
use crate::route::{Operation, effective_method, route, route_service};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Response};
use hyper::body::{Body, Incoming};
use model::limits::{REQUEST_BODY_BYTES_MAX, XML_BODY_BYTES_MAX};
use model::{AccountName, CorsRules, DateTime, ServiceProperties};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use store::Engine;
use tracing::{debug, error, info};
use wire::negotiation::{Preference, Wishes};
use wire::target::{Resource, Target};
use wire::{ErrorCode, Format, MetadataLevel, QueryOptions, ServiceError, Version};

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
    /// What the secondary endpoint serves.
    pub(crate) secondary: SecondaryArg,
    /// Whether the primary endpoint answers statistics in path style.
    pub(crate) stats_on_primary: bool,
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

impl<E: Engine> Service<E> {
    /// Answers one request.
    pub(crate) async fn handle(
        &self,
        request: http::Request<Incoming>,
        connection: ConnectionInfo,
    ) -> Result<Response<Segments>, Abort> {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let mut envelope = envelope(&parts.headers);
        let mut operation = "";
        let result = self.process(&parts, body, connection, started, &mut envelope, &mut operation).await;
        let mut response = match result {
            Ok((answer, share)) => response::of_answer(answer, share, &envelope),
            Err(BodyFailure::Answer(failure)) => {
                envelope.accepts_json = accepts_json(&parts.headers);
                log_failure(&failure, &envelope);
                response::of_failure(&failure, &envelope, DateTime::from_system_time(SystemTime::now()))
            }
            Err(BodyFailure::Abort) => return Err(Abort),
        };
        if let Some(properties) = &envelope.cors {
            let origin = parts.headers.get(http::header::ORIGIN);
            cors::add_headers(&properties.cors, &parts.method, origin, response.headers_mut());
        }
        debug!(
            target: "rowhouse::access",
            method = parts.method.as_str(), path = parts.uri.path(), operation, status = response.status().as_u16(),
            microseconds = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            request_id = envelope.request_id.as_str(),
        );
        Ok(response)
    }

    async fn process(
        &self,
        parts: &Parts,
        body: Incoming,
        connection: ConnectionInfo,
        started: Instant,
        envelope: &mut Envelope,
        operation_name: &mut &'static str,
    ) -> Result<(Answer, Share), BodyFailure> {
        let host = host(parts)?;
        let raw_query = parts.uri.query().unwrap_or_default();
        let options = QueryOptions::parse(raw_query);
        let target = Target::parse(host, parts.uri.path(), &self.domains);
        envelope.cors = target.account.as_ref().and_then(|account| self.properties_with_rules(account));
        if parts.method == Method::OPTIONS {
            *operation_name = "TablePreflightRequest";
            envelope.is_front_end = true;
            // Taken, so that nothing is added to the answer.
            let properties = envelope.cors.take();
            let no_rules = CorsRules::default();
            let rules = properties.as_ref().map_or(&no_rules, |properties| &properties.cors);
            return Ok((cors::preflight(rules, &parts.headers)?, Share::default()));
        }
        let now = SystemTime::now();
        let method = parts.method.as_str();
        let version = version(&parts.headers, &options);
        let evidence = Evidence {
            method,
            target: &target,
            raw_query,
            options: &options,
            headers: &parts.headers,
            version: version.as_ref().ok().copied().flatten(),
            now,
            connection,
        };
        let oauth = self.oauth.as_ref();
        envelope.challenge = oauth.and_then(OAuth::challenge).cloned();
        let grant = authenticate(&self.engine, &self.accounts.current(), oauth, &evidence).await?;
        let version = version?;
        envelope.version = version.filter(|version| *version >= Version::VERSION_HEADER);
        let version = version.unwrap_or(Version::OLDEST);
        check_client_request_id(&parts.headers)?;

        let accept = joined_accept(&parts.headers).map_err(|e| Failure::at(Layer::FrontEnd, e))?;
        let headers = Headers::of(&parts.headers, accept.as_deref()).map_err(|e| Failure::at(Layer::FrontEnd, e))?;
        let wishes = Call::wishes(version, &headers, &options).map_err(|e| Failure::at(Layer::FrontEnd, e))?;
        // Errors about the address come before those about the format, and are already written in it.
        let has_answer = matches!(parts.method, Method::GET | Method::POST);
        envelope.format = if has_answer { wishes.answer_format() } else { wishes.empty_answer_format() }.ok();
        options.check().map_err(Failure::query)?;
        let resource = target.resource().map_err(Failure::query)?;
        let overrides = parts.headers.get_all(X_HTTP_METHOD).into_iter().map(http::HeaderValue::as_bytes);
        let method = effective_method(&parts.method, overrides).map_err(Failure::query)?;
        let (restype, comp) = (options.restype.as_deref(), options.comp.as_deref());
        envelope.is_front_end = is_of_front_end(&resource, restype, comp);
        let operation = match resource {
            Resource::Service => route_service(&method, restype, comp),
            resource => route(&method, resource, comp),
        };
        let operation = operation.map_err(Failure::query)?;
        *operation_name = operation.name();
        if operation.has_preference() {
            envelope.preference = Preference::parse(wishes.data_service_version, headers.prefer);
        }
        authorize(&grant, &operation, &headers)?;
        self.check_endpoint(&operation, &target).map_err(|e| Failure::at(Layer::FrontEnd, e))?;

        let format = match operation {
            // Each part of a batch has a format of its own.
            Operation::Batch => wishes.default_part_format(),
            // What these answer is XML, and nobody asks for it.
            _ if operation.is_xml() => Format::Json(MetadataLevel::Minimal),
            _ if operation.answers_with_body() => resolved(wishes.answer_format())?,
            _ => resolved(wishes.empty_answer_format())?,
        };
        let timeout = options.timeout().map_err(Failure::query)?;
        let base = [connection.scheme(), "://", host, target.base_path].concat();
        let share = self.admission.memory(expected_bytes(&operation, &body)).await?;
        let body = self.read_body(&operation, parts, body, headers.content_type, &wishes, started);
        let (body, body_format) = body.await?;
        // Taken when the body is there, so that nobody keeps it by sending slowly.
        let _place = self.admission.place().await?;
        let call = Call {
            grant,
            version,
            data_service_version: wishes.data_service_version,
            now: DateTime::from_system_time(now),
            base: &base,
            headers,
            options: &options,
            format,
            body_format,
            preference: envelope.preference,
            query_deadline: started + timeout.min(self.query_time),
        };
        let surroundings = Surroundings {
            domains: &self.domains,
            is_secondary: target.secondary,
            request_id: envelope.request_id.as_str(),
            now: call.now,
        };
        let run = self.run(&call, operation, &surroundings, &body);
        match tokio::time::timeout_at((started + timeout + QUERY_GRACE).into(), run).await {
            Ok(Ok(answer)) => {
                let bytes = answer.content.as_ref().map_or(0, |(_, segments)| admission::size(segments));
                Ok((answer, self.admission.settle(share, bytes).await?))
            }
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(Failure::service(ErrorCode::OperationTimedOut).into()),
        }
    }

    /// Reads and checks the body of an operation that has one, and says in which format it is.
    async fn read_body(
        &self,
        operation: &Operation<'_>,
        parts: &Parts,
        body: Incoming,
        content_type: Option<&str>,
        wishes: &Wishes<'_>,
        began: Instant,
    ) -> Result<(Bytes, Format), BodyFailure> {
        let unread = Format::Json(MetadataLevel::Minimal);
        if !operation.has_body() {
            return Ok((Bytes::new(), unread));
        }
        let headers = &parts.headers;
        let is_framed = headers.contains_key(http::header::CONTENT_LENGTH) || !body.is_end_stream();
        if !is_framed && !headers.contains_key(http::header::TRANSFER_ENCODING) {
            return Err(Failure::query(ErrorCode::MissingContentLengthHeader).into());
        }
        // Each part of a batch has a format of its own, and any `Content-Type` goes with an XML document (recorded).
        let has_format = !(operation.is_xml() || *operation == Operation::Batch);
        if has_format {
            wishes.check_content_type(content_type).map_err(|code| Failure::at(Layer::Format, code))?;
        }
        let body = body::read(body, began).await?;
        if operation.is_xml() && body.len() > XML_BODY_BYTES_MAX {
            return Err(Failure::at(Layer::FrontEnd, ErrorCode::RequestBodyTooLarge).into());
        }
        let format = if has_format { resolved(wishes.body_format(content_type, &body))? } else { unread };
        let md5 = headers.get("content-md5").and_then(|value| value.to_str().ok());
        body::check_md5(md5, &body).map_err(Failure::service)?;
        Ok((body, format))
    }

    async fn run(
        &self,
        call: &Call<'_>,
        operation: Operation<'_>,
        surroundings: &Surroundings<'_>,
        body: &Bytes,
    ) -> Result<Answer, Failure> {
        let engine = &self.engine;
        match operation {
            Operation::QueryTables => operations::query_tables::run(engine, call).await,
            Operation::CreateTable => operations::create_table::run(engine, call, body).await,
            Operation::GetTable(name) => operations::get_table::run(engine, call, &name).await,
            Operation::DeleteTable(name) => operations::delete_table::run(engine, call, &name).await,
            Operation::QueryEntities(table) => operations::query_entities::run(engine, call, &table).await,
            Operation::InsertEntity(table) => operations::insert_entity::run(engine, call, &table, body).await,
            Operation::GetEntity(address) => operations::get_entity::run(engine, call, &address).await,
            Operation::UpdateEntity(address) => operations::update_entity::run(engine, call, &address, body).await,
            Operation::MergeEntity(address) => operations::merge_entity::run(engine, call, &address, body).await,
            Operation::DeleteEntity(address) => operations::delete_entity::run(engine, call, &address).await,
            Operation::GetTableAcl(table) => operations::get_table_acl::run(engine, call, &table).await,
            Operation::SetTableAcl(table) => operations::set_table_acl::run(engine, call, &table, body).await,
            Operation::Batch => operations::batch::run(engine, call, surroundings, body).await,
            Operation::GetServiceProperties => operations::get_service_properties::run(engine, call),
            Operation::SetServiceProperties => operations::set_service_properties::run(engine, call, body).await,
            Operation::GetServiceStats => Ok(operations::get_service_stats::run(SystemTime::now())),
        }
    }

    /// The properties of an account of this server, if it has CORS rules.
    fn properties_with_rules(&self, account: &AccountName) -> Option<Arc<ServiceProperties>> {
        // An engine that is closing has no say in CORS; the operation says what is wrong.
        let properties = self.engine.service_properties(account).ok()?;
        (!properties.cors.is_empty() && self.accounts.current().keys(account).is_some()).then_some(properties)
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

/// How long a query that ends at its deadline may take to answer with its page.
const QUERY_GRACE: Duration = Duration::from_secs(1);
const X_HTTP_METHOD: HeaderName = HeaderName::from_static("x-http-method");
const X_MS_VERSION: HeaderName = HeaderName::from_static("x-ms-version");

fn envelope(headers: &HeaderMap) -> Envelope {
    Envelope {
        request_id: RequestId::new(),
        client_request_id: echoed_request_id(headers),
        version: None,
        challenge: None,
        format: None,
        preference: None,
        is_front_end: false,
        cors: None,
        accepts_json: false,
    }
}

/// Whether the client reads JSON, as far as can be said before a format is negotiated.
fn accepts_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(http::header::ACCEPT).map(http::HeaderValue::as_bytes).unwrap_or_default();
    accept.windows(b"application/json".len()).any(|w| w.eq_ignore_ascii_case(b"application/json"))
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

/// The host that the client addressed: of the target if that is absolute, else of the `Host` header.
fn host(parts: &Parts) -> Result<&str, Failure> {
    let header = || parts.headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or_else(header).unwrap_or_default();
    if host.is_empty() { Err(Failure::at(Layer::FrontEnd, ErrorCode::HostInformationNotPresent)) } else { Ok(host) }
}

/// Whether the front end answers, in XML: operations on the account and on policies.
fn is_of_front_end(resource: &Resource<'_>, restype: Option<&str>, comp: Option<&str>) -> bool {
    match resource {
        Resource::Service => restype.is_some() || comp.is_some(),
        Resource::Entities(_) => comp == Some("acl"),
        _ => false,
    }
}

/// The version that the request names; `None` if it names none.
///
/// Where the credential stands in the address, so may the version, and the one of the signature is the last resort
/// (08 §10, which goes before 02 §7: no signature binds a request to its own version).
fn version(headers: &HeaderMap, options: &QueryOptions<'_>) -> Result<Option<Version>, Failure> {
    let is_signed = options.has_signature && !headers.contains_key(http::header::AUTHORIZATION);
    if let Some(text) = options.api_version.as_deref().filter(|_| is_signed) {
        let version = Version::parse(text).map(Some);
        return version.ok_or_else(|| Failure::at(Layer::FrontEnd, ErrorCode::InvalidQueryParameterValue));
    }
    if is_signed && !headers.contains_key(X_MS_VERSION) {
        return Ok(options.signed_version.as_deref().and_then(Version::parse));
    }
    let Some(value) = headers.get(X_MS_VERSION) else { return Ok(None) };
    let version = value.to_str().ok().and_then(|text| Version::parse(text.trim()));
    version.map(Some).ok_or_else(|| Failure::at(Layer::FrontEnd, ErrorCode::InvalidHeaderValue))
}

/// An id that cannot be echoed is refused (06 §5).
fn check_client_request_id(headers: &HeaderMap) -> Result<(), Failure> {
    if headers.contains_key(X_MS_CLIENT_REQUEST_ID) && echoed_request_id(headers).is_none() {
        return Err(Failure::at(Layer::FrontEnd, ErrorCode::InvalidHeaderValue));
    }
    Ok(())
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
