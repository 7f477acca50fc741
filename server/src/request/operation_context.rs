//! The input of one operation, which is a whole request or a part of a batch.

use super::{Offered, OperationKind, RequestContext, VirtualTable};
use crate::failure::{Failure, Layer};
use crate::limits::memory::RequestMemory;
use crate::replication::Replicated;
use engine::LoadMonitor;
use model::etag::ConditionError;
use model::key::KeyError;
use model::name::{PARTITION_KEY, ROW_KEY};
use model::{AccountName, Action, Condition, Dialect, EntityKey, EntityLimits, Filter, Grant, KeyText, TableName};
use std::borrow::Cow;
use std::time::Instant;
use wire::defect::{body_defect, key_defect};
use wire::entity_body::{EntityBody, KeyLocation};
use wire::filter::{FilterError, Grammar};
use wire::negotiation::{ContentKind, DataServiceVersion, FormatPreferences, Preference, check_charset};
use wire::payload::{self, EntityContext, ResponseContext};
use wire::reason::ReasonKind;
use wire::target::Resource;
use wire::{ErrorCode, Format, Headers, QueryOptions, Select, ServiceError, Version, filter};

#[derive(Debug, Clone)]
pub(crate) struct OperationContext<'a> {
    pub(crate) request: &'a RequestContext<'a>,
    pub(crate) grant: &'a Grant,
    pub(crate) kind: OperationKind,
    pub(crate) resource: Resource<'a>,
    pub(crate) body: &'a [u8],
    pub(crate) response: ResponseContext<'a>,
    pub(crate) data_service_version: DataServiceVersion,
    pub(crate) domains: &'a [String],
    /// What the name in the URL means, if it is not the name of a table.
    pub(crate) virtual_table: VirtualTable,
    pub(crate) headers: Headers<'a>,
    pub(crate) replication: Option<&'a dyn Replicated>,
    /// The load of the cluster, if there is one.
    pub(crate) load: Option<&'a LoadMonitor>,
    pub(crate) options: &'a QueryOptions<'a>,
    /// The format of the body; meaningless unless the body contains entities or tables.
    pub(crate) body_format: Format,
    pub(crate) preference: Option<Preference>,
    /// The limits on the entity in the body.
    pub(crate) limits: &'static EntityLimits,
    pub(crate) memory: &'a RequestMemory<'a>,
    pub(crate) offered: Offered,
    /// Whether the client accepts a stream of events, and the table can be streamed.
    pub(crate) wants_events: bool,
    /// The time at which a query must respond, with a continuation token if it is not finished.
    pub(crate) query_deadline: Instant,
    /// The time at which the operation is abandoned.
    pub(crate) deadline: Instant,
}

impl<'a> OperationContext<'a> {
    pub(crate) fn account(&self) -> &'a AccountName {
        self.response.account
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

    /// Does work of the operation, or abandons it at the deadline. A write may then have been executed.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let done = tokio::time::timeout_at(self.deadline.into(), work).await;
        done.unwrap_or_else(|_| Err(Failure::service(ErrorCode::OperationTimedOut)))
    }

    pub(crate) fn allow(&self, action: Action<'_>) -> Result<(), Failure> {
        self.grant.check(action).map_err(|denial| Failure::denied(self.grant, action, denial))
    }

    /// Records the first table that the body names, for log, metrics and analytics.
    pub(crate) fn note_table_in_body(&self, name: TableName) {
        let _is_first = self.request.table_in_body.set(name);
    }

    /// Returns the context for writing entities of the table.
    pub(crate) fn entity_context<'f>(&'f self, select: Option<&'f Select>) -> EntityContext<'f> {
        EntityContext { response: self.response, table: self.table(), select }
    }

    pub(crate) fn content_type(&self, content: ContentKind) -> &'static str {
        self.response.content_type(content)
    }

    /// Returns the properties that the client requests, or `None`, which means all, if it specifies none.
    ///
    /// UNVERIFIED (02 §7, §8): the error code for a projection in versions or data service versions that do not support
    /// it.
    pub(crate) fn select(&self) -> Result<Option<Select>, Failure> {
        let Some(list) = self.options.select.as_deref() else { return Ok(None) };
        if self.response.version < Version::UPSERT || self.data_service_version < DataServiceVersion::V2 {
            let detail = "$select needs x-ms-version 2011-08-18 and DataServiceVersion 2.0, or later versions.";
            let reason = ReasonKind::SelectInvalid.because(detail);
            return Err(Failure::service(ErrorCode::InvalidInput).because(reason));
        }
        Select::parse(list).map(Some).map_err(Failure::query)
    }

    /// Parses the entity in the body.
    pub(crate) fn read_entity(&self, keys: KeyLocation) -> Result<EntityBody, Failure> {
        match self.response.dialect {
            Dialect::Storage => self.parse_entity(keys),
            Dialect::Cosmos => self.read_cosmos_entity(keys),
        }
    }

    /// Parses the entity in the body by the rules of Azure Cosmos DB for Table (11 §6): keys are not empty, keys in the
    /// body are those in the URL, and a property named `Etag` is not stored.
    ///
    /// UNVERIFIED (11 §6): empty keys in the URL.
    fn read_cosmos_entity(&self, keys: KeyLocation) -> Result<EntityBody, Failure> {
        let entity = self.parse_entity(if keys == KeyLocation::Address { KeyLocation::Both } else { keys })?;
        let in_body = [entity.partition.as_ref(), entity.row.as_ref()].map(|key| key.map(KeyText::as_str));
        let in_url = match &self.resource {
            Resource::Entity { partition, row, .. } => [Some(&**partition), Some(&**row)],
            _ => in_body,
        };
        if in_url.contains(&Some("")) {
            let reason = ReasonKind::KeyMissing.because("A key is empty, which --service cosmos does not allow.");
            return Err(Failure::service(ErrorCode::PropertiesNeedValue).because(reason));
        }
        let differs = |(body, url): (Option<&str>, Option<&str>)| body.is_some() && body != url;
        if in_body.into_iter().zip(in_url).any(differs) {
            return Err(Failure::query(ErrorCode::InvalidInput).because(ReasonKind::KeysDiffer.because("")));
        }
        Ok(EntityBody { properties: entity.properties.without("Etag"), ..entity })
    }

    fn parse_entity(&self, keys: KeyLocation) -> Result<EntityBody, Failure> {
        let version = self.response.version;
        payload::read_entity(self.body_format, self.body, keys, version, self.limits).map_err(|error| {
            let reason = body_defect(self.body_format, self.body, keys, version, self.limits, &error);
            Failure::from(error).because(reason)
        })
    }

    /// Returns the filter, or `None` if every entity or table matches.
    pub(crate) fn filter(&self) -> Result<Option<Filter>, FilterError> {
        let grammar = if self.offered.extensions { Grammar::Extended } else { Grammar::Service };
        filter::parse_optional(self.options.filter.as_deref().unwrap_or_default(), grammar)
    }

    /// Returns the condition of an update, merge or deletion, or `None` if there is no `If-Match` (01 §8).
    pub(crate) fn condition(&self, method: &str) -> Result<Option<Condition>, ServiceError> {
        match (self.headers.if_match, self.headers.if_none_match) {
            (Some(_), Some(_)) => Err(ServiceError::invalid_input(
                "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.",
            )
            .because(ReasonKind::IfNoneMatch.because("The request has both If-Match and If-None-Match."))),
            (None, Some(_)) => Err(ServiceError::invalid_input(format!(
                "The `If-None-Match` HTTP header cannot be specified for {method} operations."
            ))
            .because(ReasonKind::IfNoneMatch.because(""))),
            (None, None) => Ok(None),
            (Some(value), None) => Condition::parse_in(self.response.dialect, value).map(Some).map_err(|error| match error {
                ConditionError::Malformed => ServiceError::invalid_input(format!(
                    "The etag value '{value}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid."
                ))
                .because(ReasonKind::EtagMalformed.because(etag_mistake(value)).quoting(value)),
                ConditionError::Foreign => {
                    let reason = ReasonKind::EtagForeign.because("").quoting(value);
                    ServiceError::from(ErrorCode::ConditionNotMet).because(reason)
                }
            }),
        }
    }
}

/// Returns what is wrong with the value of `If-Match`; empty if it is nothing that happens often.
fn etag_mistake(value: &str) -> &'static str {
    match value.trim() {
        "" => "If-Match is empty.",
        value if value.contains(',') => "If-Match contains several ETags, and the service accepts one.",
        value if value.starts_with('"') => "The ETag in If-Match has no W/ in front of its quotes.",
        value if value.starts_with("W/") && !value.contains('"') => "The ETag in If-Match has no quotes after W/.",
        _ => "",
    }
}

pub(crate) fn table_of<'r, 'a>(resource: &'r Resource<'a>) -> Option<&'r Cow<'a, str>> {
    match resource {
        Resource::Table(table)
        | Resource::Entities(table)
        | Resource::EntityCount(table)
        | Resource::Entity { table, .. }
        | Resource::Partition { table, .. }
        | Resource::Nested(table)
        | Resource::NestedEntity(table)
        | Resource::WrongKeyCount(table) => Some(table),
        Resource::Service | Resource::Tables | Resource::Batch | Resource::Metadata => None,
    }
}

/// Rejects a URL whose keys address no entity (02 §1). Only a query can address a whole partition.
///
/// UNVERIFIED (02 §1): the message for a table of which the URL names one key or more than two. It is recorded for a
/// table in front of `Tables('x')`.
pub(crate) fn check_key_count(
    account: &AccountName,
    kind: OperationKind,
    resource: &Resource<'_>,
) -> Result<(), Failure> {
    let table = match resource {
        Resource::WrongKeyCount(table) => table,
        Resource::Partition { table, .. } if kind != OperationKind::QueryEntities => table,
        _ => return Ok(()),
    };
    let error = ServiceError::invalid_input(format!(
        "The number of keys specified in the URI does not match number of key properties for the resource '{account}.{table}'."
    ));
    let detail = match resource {
        Resource::Partition { .. } => "The URL has PartitionKey, but RowKey is missing.",
        _ => "",
    };
    Err(Failure::query(error.because(ReasonKind::UrlKeys.because(detail))))
}

pub(crate) fn resolved<T>(format: Result<T, ErrorCode>) -> Result<T, Failure> {
    format.map_err(|code| {
        let detail = match code {
            ErrorCode::AtomFormatNotSupported => {
                "Atom, which is also the default without Accept, is not supported since version 2015-12-11."
            }
            ErrorCode::JsonFormatNotSupported => {
                "JSON needs x-ms-version 2013-08-15 or later and DataServiceVersion 3.0, if there is one."
            }
            ErrorCode::JsonVerboseFormatNotSupported => "The service does not support odata=verbose.",
            _ => "No media type of the request is one of the service.",
        };
        Failure::at(Layer::Format, code).because(ReasonKind::FormatUnsupported.because(detail))
    })
}

/// Returns the `Content-Type` of a request, which the service requires for bodies other than XML (03 §1.3).
///
/// UNVERIFIED (03 §1.3): that operations other than Create Table require it, too, and that they do so for an empty
/// body.
pub(crate) fn required_content_type(content_type: Option<&str>) -> Result<&str, Failure> {
    let content_type = content_type.filter(|value| !value.trim().is_empty());
    content_type.ok_or_else(|| {
        Failure::query(ServiceError::content_type_missing()).because(ReasonKind::ContentTypeMissing.because(""))
    })
}

/// Returns the format of a request body that contains entities or tables.
pub(crate) fn body_format(preferences: &FormatPreferences<'_>, content_type: Option<&str>) -> Result<Format, Failure> {
    resolved(preferences.body_format(required_content_type(content_type)?))
}

/// Returns the key in a URL (01 §3).
///
/// `too_long` is the error for a key of more than 512 characters; this error depends on the operation.
pub(crate) fn address_key((partition, row): (&str, &str), too_long: ErrorCode) -> Result<EntityKey, Failure> {
    let text = |name: &str, text: &str| {
        KeyText::new(text).map_err(|error| {
            let failure = match error {
                KeyError::Slash => Failure::query(ServiceError::malformed_address()),
                KeyError::ForbiddenCharacter => Failure::query(ErrorCode::OutOfRangeInput),
                // The service finds this error in the storage, as `Cache-Control` in the response shows (02 §3).
                KeyError::TooLong => Failure::service(too_long),
            };
            match key_defect(name, text) {
                Some(reason) if reason.kind.codes().contains(&failure.error.code) => failure.because(reason),
                _ => {
                    let detail = format!("The {name} in the URL is longer than 512 characters, so no entity has it.");
                    failure.because(ReasonKind::EntityMissing.because(detail))
                }
            }
        })
    };
    Ok(EntityKey { partition: text(PARTITION_KEY, partition)?, row: text(ROW_KEY, row)? })
}

/// Checks that the server can read the charset of a body.
pub(crate) fn check_body_charset(content_type: Option<&str>, body: &[u8]) -> Result<(), Failure> {
    let checked = check_charset(content_type, body);
    checked.map_err(|code| Failure::at(Layer::Format, code).because(ReasonKind::CharsetUnsupported.because("")))
}
