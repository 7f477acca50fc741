//! The input of one operation, which is a whole request or a part of a batch.

use super::memory::RequestMemory;
use super::{Failure, Headers, Layer, OperationKind, RequestContext};
use model::etag::ConditionError;
use model::key::KeyError;
use model::{AccountName, Action, Condition, DateTime, EntityKey, Grant, KeyText, TableName};
use std::borrow::Cow;
use std::time::Instant;
use wire::batch::PartRequest;
use wire::negotiation::{ContentKind, DataServiceVersion, FormatPreferences, Preference};
use wire::payload::{EntityContext, ResponseContext};
use wire::target::Resource;
use wire::{ErrorCode, Format, QueryOptions, Select, ServiceError, Version};

#[derive(Debug, Clone)]
pub(crate) struct OperationContext<'a> {
    pub(crate) request: &'a RequestContext<'a>,
    pub(crate) grant: &'a Grant,
    pub(crate) kind: OperationKind,
    pub(crate) resource: Resource<'a>,
    pub(crate) body: &'a [u8],
    pub(crate) version: Version,
    pub(crate) data_service_version: DataServiceVersion,
    /// Scheme, host and, in path style, account: the start of URLs in responses.
    pub(crate) base: &'a str,
    pub(crate) domains: &'a [String],
    pub(crate) headers: Headers<'a>,
    pub(crate) options: &'a QueryOptions<'a>,
    pub(crate) format: Format,
    /// The format of the body; meaningless unless the body contains entities or tables.
    pub(crate) body_format: Format,
    pub(crate) preference: Option<Preference>,
    pub(crate) memory: &'a RequestMemory<'a>,
    /// The time at which a query must respond, with a continuation token if it is not finished.
    pub(crate) query_deadline: Instant,
}

impl<'a> OperationContext<'a> {
    pub(crate) fn account(&self) -> &'a AccountName {
        &self.grant.account
    }

    /// Returns the table in the URL; empty if there is none.
    pub(crate) fn table(&self) -> &str {
        table_of(&self.resource).map_or("", |table| table.as_ref())
    }

    /// Returns the keys as they are written in the URL; empty if there are none.
    pub(crate) fn keys(&self) -> (&str, &str) {
        match &self.resource {
            Resource::Entity { partition, row, .. } => (partition, row),
            _ => ("", ""),
        }
    }

    pub(crate) fn allow(&self, action: Action<'_>) -> Result<(), Failure> {
        self.grant.check(action).map_err(Failure::denied)
    }

    /// Records the first table that the body names, for log, metrics and analytics.
    pub(crate) fn note_table_in_body(&self, name: TableName) {
        let _is_first = self.request.table_in_body.set(name);
    }

    pub(crate) fn now(&self) -> DateTime {
        DateTime::from_system_time(self.request.incoming.now)
    }

    pub(crate) fn response_context(&self) -> ResponseContext<'_> {
        ResponseContext {
            base: self.base,
            account: self.account(),
            format: self.format,
            version: self.version,
            now: self.now(),
        }
    }

    pub(crate) fn entity_context<'f>(&'f self, select: Option<&'f Select>) -> EntityContext<'f> {
        EntityContext { response: self.response_context(), table: self.table(), select }
    }

    pub(crate) fn content_type(&self, content: ContentKind) -> &'static str {
        self.format.content_type(content)
    }

    /// Returns the properties that the client requests, or `None`, which means all, if it specifies none.
    ///
    /// UNVERIFIED (02 §7, §8): the error code for a projection in versions or data service versions that do not support
    /// it.
    pub(crate) fn select(&self) -> Result<Option<Select>, ServiceError> {
        let Some(list) = self.options.select.as_deref() else { return Ok(None) };
        if self.version < Version::UPSERT || self.data_service_version < DataServiceVersion::V2 {
            return Err(ErrorCode::InvalidInput.into());
        }
        Select::parse(list).map(Some)
    }

    /// Returns the condition of an update, merge or deletion, or `None` if there is no `If-Match` (01 §8).
    pub(crate) fn condition(&self, method: &str) -> Result<Option<Condition>, ServiceError> {
        match (self.headers.if_match, self.headers.if_none_match) {
            (Some(_), Some(_)) => Err(ServiceError::invalid_input(
                "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.",
            )),
            (None, Some(_)) => Err(ServiceError::invalid_input(format!(
                "The `If-None-Match` HTTP header cannot be specified for {method} operations."
            ))),
            (None, None) => Ok(None),
            (Some(value), None) => Condition::parse(value).map(Some).map_err(|error| match error {
                ConditionError::Malformed => ServiceError::invalid_input(format!(
                    "The etag value '{value}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid."
                )),
                ConditionError::Foreign => ErrorCode::ConditionNotMet.into(),
            }),
        }
    }

    /// Returns the context of a part of this batch that requests the given operation on the given resource.
    ///
    /// Everything else comes from the batch: the caller, the version, the time and the deadline.
    pub(crate) fn for_part(
        &self,
        part: &'a PartRequest<'a>,
        (kind, resource): (OperationKind, Resource<'a>),
        options: &'a QueryOptions<'a>,
    ) -> Result<Self, Failure> {
        let format = self.part_format(part, options)?;
        let headers = self.part_headers(part);
        let preferences = self.part_preferences(&headers, options)?;
        let body_format = if kind.info().has_body() {
            resolved(preferences.body_format(headers.content_type, part.body))?
        } else {
            format
        };
        Ok(Self {
            kind,
            resource,
            body: part.body,
            data_service_version: preferences.data_service_version,
            headers,
            preference: self.part_preference(part),
            format,
            body_format,
            options,
            ..*self
        })
    }

    /// Returns the format of the response to a part. The part determines the format; if it specifies none, the batch
    /// does (05 §2).
    ///
    /// UNVERIFIED (03 §1.3): in versions without Atom, JSON at the minimal level is used if neither the part nor the
    /// batch names a format.
    pub(crate) fn part_format(&self, part: &PartRequest<'_>, options: &QueryOptions<'_>) -> Result<Format, Failure> {
        let headers = self.part_headers(part);
        let preferences = self.part_preferences(&headers, options)?;
        let is_silent = headers.accept.is_none_or(|accept| accept.trim().is_empty());
        if is_silent && options.format.is_none() {
            let (accept, format) = (self.headers.accept, self.options.format.as_deref());
            return Ok(FormatPreferences { accept, format, ..preferences }.default_part_format());
        }
        resolved(preferences.response_format())
    }

    pub(crate) fn part_preference(&self, part: &PartRequest<'_>) -> Option<Preference> {
        let info = match *part.method_overrides.first().unwrap_or(&part.method) {
            "POST" => OperationKind::InsertEntity.info(),
            "PUT" | "MERGE" | "PATCH" => OperationKind::InsertOrMergeEntity.info(),
            _ => return None,
        };
        let version = self.part_data_service_version(&self.part_headers(part)).ok()?;
        info.preference(version, part.prefer)
    }

    /// Returns the headers of a part. If it has no data service version, the batch's version is used.
    fn part_headers<'p>(&self, part: &PartRequest<'p>) -> Headers<'p>
    where
        'a: 'p,
    {
        let has_version = part.data_service_version.is_some() || part.max_data_service_version.is_some();
        let (data_service_version, max_data_service_version) = if has_version {
            (part.data_service_version, part.max_data_service_version)
        } else {
            (self.headers.data_service_version, self.headers.max_data_service_version)
        };
        Headers {
            accept: part.accept,
            content_type: part.content_type,
            if_match: part.if_match,
            if_none_match: part.if_none_match,
            prefer: part.prefer,
            data_service_version,
            max_data_service_version,
            explain: false,
        }
    }

    fn part_data_service_version(&self, headers: &Headers<'_>) -> Result<DataServiceVersion, ErrorCode> {
        DataServiceVersion::effective(self.version, headers.data_service_version, headers.max_data_service_version)
    }

    fn part_preferences<'p>(
        &self,
        headers: &Headers<'p>,
        options: &'p QueryOptions<'_>,
    ) -> Result<FormatPreferences<'p>, Failure> {
        let data_service_version = self.part_data_service_version(headers).map_err(Failure::query)?;
        let (accept, format) = (headers.accept, options.format.as_deref());
        Ok(FormatPreferences { version: self.version, data_service_version, accept, format })
    }
}

pub(crate) fn table_of<'r, 'a>(resource: &'r Resource<'a>) -> Option<&'r Cow<'a, str>> {
    match resource {
        Resource::Table(table)
        | Resource::Entities(table)
        | Resource::Entity { table, .. }
        | Resource::Partition { table, .. }
        | Resource::Nested { table, .. } => Some(table),
        Resource::Service | Resource::Tables | Resource::Batch | Resource::Metadata => None,
    }
}

pub(crate) fn resolved(format: Result<Format, ErrorCode>) -> Result<Format, Failure> {
    format.map_err(|code| Failure::at(Layer::Format, code))
}

/// Returns the key in a URL (01 §3).
///
/// `too_long` is the error for a key of more than 512 characters; this error depends on the operation.
pub(crate) fn address_key((partition, row): (&str, &str), too_long: ErrorCode) -> Result<EntityKey, Failure> {
    let text = |text: &str| {
        KeyText::new(text).map_err(|error| match error {
            KeyError::Slash => Failure::query(ServiceError::malformed_address()),
            KeyError::ForbiddenCharacter => Failure::query(ErrorCode::OutOfRangeInput),
            // The service finds this error in the storage, as `Cache-Control` in the response shows (02 §3).
            KeyError::TooLong => Failure::service(too_long),
        })
    };
    Ok(EntityKey { partition: text(partition)?, row: text(row)? })
}
