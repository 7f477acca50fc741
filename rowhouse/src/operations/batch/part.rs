//! The operations inside a batch: each becomes a call of its own, as if it had come alone.

use super::Surroundings;
use crate::authorization::authorize_part;
use crate::call::{Call, Headers, resolved};
use crate::failure::Failure;
use crate::route::{Operation, effective_method, route};
use http::Method;
use std::sync::Arc;
use wire::batch::{AccountMismatch, PartRequest, PartTarget};
use wire::negotiation::{DataServiceVersion, FormatPreferences, Preference};
use wire::{ErrorCode, Format, QueryOptions, Resource, ServiceError};

/// An operation of a batch, and what its headers say about the answer.
#[derive(Clone)]
pub(super) struct Part<'a> {
    pub(super) request: &'a PartRequest<'a>,
    /// What the `Prefer` header asks for.
    pub(super) preference: Option<Preference>,
    headers: Headers<'a>,
    /// The effective data service version.
    version: Result<DataServiceVersion, ErrorCode>,
    target: Result<PartTarget<'a>, AccountMismatch>,
    options: Arc<QueryOptions<'a>>,
    /// Whether [`Self::open`] would answer the same as for the part before.
    pub(super) is_repeat: bool,
}

impl<'a> Part<'a> {
    /// Reads the operations of a change set. Most of them say the same but for the body, which is worked out once.
    pub(super) fn all(batch: &Call<'a>, surroundings: &Surroundings<'_>, requests: &'a [PartRequest<'a>]) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::with_capacity(requests.len());
        for request in requests {
            let before = parts.last().filter(|before| is_repeated(before.request, request));
            let part = match before {
                Some(before) => Self { request, is_repeat: true, ..before.clone() },
                None => Self::new(batch, surroundings, request),
            };
            parts.push(part);
        }
        parts
    }

    /// Reads target, options and headers; what is wrong with them is said by [`Self::open`].
    pub(super) fn new(batch: &Call<'a>, surroundings: &Surroundings<'_>, request: &'a PartRequest<'a>) -> Self {
        let target = PartTarget::parse(request.target, &batch.grant.account, surroundings.domains);
        let headers = headers(batch, request);
        let (named, max) = (headers.data_service_version, headers.max_data_service_version);
        let version = DataServiceVersion::effective(batch.version, named, max);
        Self {
            request,
            preference: version.ok().and_then(|version| preference(version, request)),
            headers,
            version,
            options: Arc::new(QueryOptions::parse(target.map_or("", |target| target.query))),
            target,
            is_repeat: false,
        }
    }

    /// The format of the answer: the part decides, and the batch where the part is silent (05 §2).
    ///
    /// UNVERIFIED (03 §1.3): a part that names no format, in a batch that names none either, is answered in JSON at
    /// the minimal level in versions that have no Atom.
    pub(super) fn format(&self, batch: &Call<'_>) -> Result<Format, Failure> {
        let format_preferences = self.format_preferences(batch)?;
        let is_silent = self.headers.accept.is_none_or(|accept| accept.trim().is_empty());
        if is_silent && self.options.format.is_none() {
            let (accept, format) = (batch.headers.accept, batch.options.format.as_deref());
            return Ok(FormatPreferences { accept, format, ..format_preferences }.default_part_format());
        }
        resolved(format_preferences.response_format())
    }

    /// The data service version in which an answer that succeeds is.
    pub(super) fn data_service_version(&self) -> DataServiceVersion {
        self.version.unwrap_or(DataServiceVersion::V1)
    }

    /// What the part says about formats.
    fn format_preferences(&self, batch: &Call<'_>) -> Result<FormatPreferences<'_>, Failure> {
        let data_service_version = self.version.map_err(Failure::query)?;
        let (accept, format) = (self.headers.accept, self.options.format.as_deref());
        Ok(FormatPreferences { version: batch.version, data_service_version, accept, format })
    }

    /// Has the batch count for the table of the part, if it has one. That is asked of the first part only: which of the others
    /// is opened first is a matter of threads.
    pub(super) fn note_table(&self, batch: &Call<'_>) {
        let operation = self.target.ok().and_then(|target| self.operation(target.path).ok());
        if let Some(table) = operation.as_ref().and_then(Operation::table) {
            batch.note_table(table);
        }
    }

    /// What the part asks for, in the order of the checks of a request that comes alone (06 §6).
    pub(super) fn open<'p>(&'p self, batch: &'p Call<'_>) -> Result<(Call<'p>, Operation<'p>), Failure> {
        let target = self.target.map_err(|AccountMismatch| Failure::query(ServiceError::malformed_address()))?;
        let operation = self.operation(target.path).map_err(Failure::query)?;
        authorize_part(&batch.grant, &operation, &self.headers)?;
        let format = self.format(batch)?;
        let format_preferences = self.format_preferences(batch)?;
        let body_format = if operation.has_body() {
            resolved(format_preferences.body_format(self.headers.content_type, self.request.body))?
        } else {
            format
        };
        let call = Call {
            grant: batch.grant.clone(),
            version: batch.version,
            data_service_version: format_preferences.data_service_version,
            now: batch.now,
            base: batch.base,
            headers: self.headers,
            options: &self.options,
            format,
            body_format,
            preference: self.preference,
            query_deadline: batch.query_deadline,
            throttle: batch.throttle,
            quota: batch.quota,
            analytics: batch.analytics,
            named: batch.named,
        };
        Ok((call, operation))
    }

    /// The operation, which must be one on entities.
    ///
    /// UNVERIFIED (05 §5.2): the code for operations on tables and on what else an account has.
    fn operation(&self, path: &'a str) -> Result<Operation<'a>, ServiceError> {
        self.options.check()?;
        let resource = Resource::parse(path)?;
        if !matches!(resource, Resource::Entities(_) | Resource::Entity { .. }) || self.options.comp.is_some() {
            return Err(ErrorCode::InvalidInput.into());
        }
        let method = Method::from_bytes(self.request.method.as_bytes()).map_err(|_| ErrorCode::InvalidHttpVerb)?;
        let overrides = self.request.method_overrides.iter().map(|value| value.as_bytes());
        let method = effective_method(&method, overrides)?;
        route(&method, resource, None)
    }
}

/// Whether two operations differ at most in their bodies, and these are of the same format, if not by `Content-Type` then
/// by their first byte.
fn is_repeated(before: &PartRequest<'_>, request: &PartRequest<'_>) -> bool {
    let first = request.body.first();
    let is_telling = matches!(first, Some(b'{' | b'<'));
    is_telling && before.body.first() == first && before.is_like(request)
}

/// What the `Prefer` header of an insert asks for; other operations have no preference.
fn preference(version: DataServiceVersion, request: &PartRequest<'_>) -> Option<Preference> {
    let prefer = request.prefer.filter(|_| request.method == "POST" && request.method_overrides.is_empty());
    Preference::parse(version, prefer)
}

/// The headers that count: those of the part, and the data service version of the batch where the part has none.
fn headers<'a>(batch: &Call<'a>, request: &PartRequest<'a>) -> Headers<'a> {
    let has_version = request.data_service_version.is_some() || request.max_data_service_version.is_some();
    let (data_service_version, max_data_service_version) = if has_version {
        (request.data_service_version, request.max_data_service_version)
    } else {
        (batch.headers.data_service_version, batch.headers.max_data_service_version)
    };
    Headers {
        accept: request.accept,
        content_type: request.content_type,
        if_match: request.if_match,
        if_none_match: request.if_none_match,
        prefer: request.prefer,
        data_service_version,
        max_data_service_version,
    }
}
