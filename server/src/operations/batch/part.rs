//! The parts of a batch. Each becomes an operation, as a request outside a batch does.

use super::response::FailureForm;
use crate::authorization::{authorize, permitted_preference};
use crate::failure::Failure;
use crate::request::{
    Offered, OperationContext, OperationKind, body_format, check_body_charset, check_key_count, effective_method,
    resolved, route, table_of,
};
use crate::tables::AccountTables;
use http::Method;
use wire::batch::{AccountMismatch, PartRequest, PartTarget};
use wire::negotiation::{FormatPreferences, Preference};
use wire::payload::ResponseContext;
use wire::reason::ReasonKind;
use wire::target::Resource;
use wire::{ErrorCode, Format, Headers, QueryOptions, ServiceError};

fn refused(code: ErrorCode, detail: &'static str) -> Failure {
    Failure::query(ServiceError::from(code).because(ReasonKind::BatchOperation.because(detail)))
}

/// A part of a batch, with its headers and the parts of its target.
pub(super) struct Part<'a> {
    pub(super) request: &'a PartRequest<'a>,
    target: Result<PartTarget<'a>, AccountMismatch>,
    options: QueryOptions<'a>,
    /// If the part has no data service version, the batch's version is used.
    headers: Headers<'a>,
}

impl<'a> Part<'a> {
    pub(super) fn new(batch: &OperationContext<'a>, request: &'a PartRequest<'a>) -> Self {
        let target = PartTarget::parse(request.target, batch.account(), batch.domains);
        let options = QueryOptions::parse(target.as_ref().map_or("", |target| target.query));
        let mut headers = request.headers;
        if headers.data_service_version.is_none() && headers.max_data_service_version.is_none() {
            headers.data_service_version = batch.headers.data_service_version;
            headers.max_data_service_version = batch.headers.max_data_service_version;
        }
        Self { request, target, options, headers }
    }

    /// Records the part's table as the table of the batch, for log, metrics and analytics.
    pub(super) fn note_table(&self, tables: &AccountTables<'_>, batch: &OperationContext<'_>) {
        if let Ok((_, resource)) = self.operation()
            && let Some(name) = table_of(&resource).and_then(|name| tables.name_for_metrics(name))
        {
            batch.note_table_in_body(name);
        }
    }

    /// Returns the operation. The checks have the same order as for a single request (06 §6).
    ///
    /// The caller, the version, the time and the deadline come from the batch.
    pub(super) fn open<'p>(&'p self, batch: &OperationContext<'p>) -> Result<OperationContext<'p>, Failure> {
        let (kind, resource) = self.operation()?;
        let virtual_table = authorize(batch.grant, kind, &resource, batch.offered)?;
        check_key_count(batch.account(), kind, &resource)?;
        let preferences = self.preferences(batch)?;
        let format = self.format(batch, preferences)?;
        let content_type = self.headers.content_type;
        let has_body = kind.info().has_body();
        let body_format = if has_body { body_format(&preferences, content_type)? } else { format };
        check_body_charset(content_type, self.request.body)?;
        let preference = self.preference(batch, preferences, kind, &resource);
        Ok(OperationContext {
            kind,
            resource,
            body: self.request.body,
            response: ResponseContext { format, ..batch.response },
            data_service_version: preferences.data_service_version,
            headers: self.headers,
            preference,
            body_format,
            options: &self.options,
            virtual_table,
            ..*batch
        })
    }

    /// Returns the form of errors that the part requests.
    pub(super) fn failure_form(&self, batch: &OperationContext<'_>) -> FailureForm<'a> {
        let preferences = self.preferences(batch).ok();
        FailureForm {
            content_id: self.request.content_id,
            format: preferences.and_then(|preferences| self.format(batch, preferences).ok()),
            preference: preferences
                .zip(self.operation().ok())
                .and_then(|(preferences, (kind, resource))| self.preference(batch, preferences, kind, &resource)),
            was_executed: false,
        }
    }

    /// Returns the operation, which must be an operation on entities.
    ///
    /// UNVERIFIED (05 §5.2): the error code for operations on tables and on other resources of an account, except for a
    /// POST to the root of the service (recorded).
    fn operation(&self) -> Result<(OperationKind, Resource<'a>), Failure> {
        let (request, options) = (self.request, &self.options);
        let Ok(target) = &self.target else {
            let reason = ReasonKind::BatchPartUrl.because("");
            return Err(Failure::query(ServiceError::malformed_address().because(reason)));
        };
        options.check().map_err(Failure::query)?;
        let resource = Resource::parse(target.path).map_err(Failure::query)?;
        if resource == Resource::Service && options.comp.is_none() && options.restype.is_none() {
            return Err(refused(ErrorCode::MethodNotAllowed, "The URL of the operation has no table."));
        }
        let is_of_entities = matches!(
            resource,
            Resource::Entities(_) | Resource::Partition { .. } | Resource::Entity { .. } | Resource::WrongKeyCount(_)
        );
        if !is_of_entities || options.comp.is_some() {
            return Err(refused(ErrorCode::InvalidInput, "The operation is not one on the entities of a table."));
        }
        let method =
            Method::from_bytes(request.method.as_bytes()).map_err(|_| Failure::query(ErrorCode::InvalidHttpVerb))?;
        // A Java client sends `X-HTTP-Method: MERGE` in addition to the method MERGE itself.
        let overrides = request.method_overrides.iter().filter(|value| **value != request.method);
        let overrides = overrides.map(|value| value.as_bytes());
        let method = effective_method(&method, overrides).map_err(Failure::query)?;
        let has_condition = request.headers.if_match.is_some();
        let kind =
            route(&method, &resource, (None, None), has_condition, Offered::default()).map_err(Failure::query)?;
        Ok((kind, resource))
    }

    /// Returns the format of the response. The part determines the format; if it specifies none, the batch does (05
    /// §2).
    ///
    /// UNVERIFIED (03 §1.3): in versions without Atom, JSON at the minimal level is used if neither the part nor the
    /// batch names a format.
    fn format(&self, batch: &OperationContext<'_>, preferences: FormatPreferences<'_>) -> Result<Format, Failure> {
        let is_silent = self.headers.accept.is_none_or(|accept| accept.trim().is_empty());
        if is_silent && self.options.format.is_none() {
            let (accept, format) = (batch.headers.accept, batch.options.format.as_deref());
            return Ok(FormatPreferences { accept, format, ..preferences }.default_part_format());
        }
        resolved(preferences.response_format())
    }

    fn preferences(&self, batch: &OperationContext<'_>) -> Result<FormatPreferences<'_>, Failure> {
        self.headers.preferences(batch.response.version, self.options.format.as_deref()).map_err(Failure::query)
    }

    fn preference(
        &self,
        batch: &OperationContext<'_>,
        preferences: FormatPreferences<'_>,
        kind: OperationKind,
        resource: &Resource<'_>,
    ) -> Option<Preference> {
        let preference = kind.info().preference(preferences.data_service_version, self.headers.prefer);
        permitted_preference(batch.grant, kind, resource, preference)
    }
}
