//! A request as the operations see it: headers and options read once, nothing of HTTP left.

use crate::analytics::Analytics;
use crate::failure::{Failure, Layer};
use crate::head::Head;
use crate::quota::Held;
use crate::throttle::Throttle;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use model::key::KeyError;
use model::name::TableNameError;
use model::{Condition, DateTime, EntityKey, Grant, KeyText, TableName};
use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Instant;
use store::TableKey;
use wire::negotiation::{ContentKind, DataServiceVersion, FormatPreferences, Preference};
use wire::payload::{EntityContext, ResponseContext};
use wire::{ErrorCode, Format, QueryOptions, Select, ServiceError, Version};

/// The headers that operations look at, those of a request or of a part of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Headers<'a> {
    pub(crate) accept: Option<&'a str>,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) if_match: Option<&'a str>,
    pub(crate) if_none_match: Option<&'a str>,
    pub(crate) prefer: Option<&'a str>,
    pub(crate) data_service_version: Option<&'a str>,
    pub(crate) max_data_service_version: Option<&'a str>,
}

impl<'a> Headers<'a> {
    /// Picks the headers; one that is not visible text counts as malformed. `accept` is that of [`joined_accept`].
    pub(crate) fn of(head: &Head<'a>, accept: Option<&'a str>) -> Result<Self, ServiceError> {
        let text = |header: Option<&'a HeaderValue>| {
            header.map(HeaderValue::to_str).transpose().map_err(|_| ErrorCode::InvalidHeaderValue)
        };
        Ok(Self {
            accept,
            content_type: text(head.content_type)?,
            if_match: text(head.if_match)?,
            if_none_match: text(head.if_none_match)?,
            prefer: text(head.prefer)?,
            data_service_version: text(head.data_service_version)?,
            max_data_service_version: text(head.max_data_service_version)?,
        })
    }
}

/// The `Accept` header, which may come in several lines.
pub(crate) fn joined_accept<'r>(headers: &'r HeaderMap, head: &Head<'r>) -> Result<Option<Cow<'r, str>>, ServiceError> {
    let text = |line: &'r HeaderValue| line.to_str().map_err(|_| ErrorCode::InvalidHeaderValue);
    let Some(first) = head.accept else { return Ok(None) };
    let mut joined = Cow::Borrowed(text(first)?);
    if head.is_accept_repeated {
        for line in headers.get_all(ACCEPT).into_iter().skip(1) {
            joined = Cow::Owned(format!("{joined},{}", text(line)?));
        }
    }
    Ok(Some(joined))
}

/// One call of an operation.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// What the caller may do, and on which account.
    pub(crate) grant: Grant,
    /// The service version.
    pub(crate) version: Version,
    /// The effective data service version.
    pub(crate) data_service_version: DataServiceVersion,
    /// The time of the request.
    pub(crate) now: DateTime,
    /// Scheme, host and, in path style, account: what addresses in answers start with.
    pub(crate) base: &'a str,
    pub(crate) headers: Headers<'a>,
    pub(crate) options: &'a QueryOptions<'a>,
    /// The format of the answer.
    pub(crate) format: Format,
    /// The format of the body; without meaning where there is none, or one of another kind.
    pub(crate) body_format: Format,
    /// What the `Prefer` header asks for.
    pub(crate) preference: Option<Preference>,
    /// A query answers by then, with a continuation token if it is not done.
    pub(crate) query_deadline: Instant,
    /// What counts entities against targets; `None` if nothing is throttled.
    pub(crate) throttle: Option<&'a Throttle>,
    /// What the account may keep; `None` if it may keep whatever it wants.
    pub(crate) quota: Option<Held<'a>>,
    /// What keeps figures about requests, in tables of its own; `None` if nothing is measured.
    pub(crate) analytics: Option<&'a Analytics>,
    /// The table that the body names, as soon as it is known, for whoever watches.
    pub(crate) named: &'a OnceLock<TableName>,
}

impl Call<'_> {
    /// What the client says about formats.
    pub(crate) fn format_preferences<'w>(
        version: Version,
        headers: &Headers<'w>,
        options: &'w QueryOptions<'_>,
    ) -> Result<FormatPreferences<'w>, ErrorCode> {
        let data_service_version =
            DataServiceVersion::effective(version, headers.data_service_version, headers.max_data_service_version)?;
        Ok(FormatPreferences {
            version,
            data_service_version,
            accept: headers.accept,
            format: options.format.as_deref(),
        })
    }

    /// How the answer is written.
    pub(crate) fn form(&self) -> ResponseContext<'_> {
        ResponseContext {
            base: self.base,
            account: &self.grant.account,
            format: self.format,
            version: self.version,
            now: self.now,
        }
    }

    /// How entities of a table are written.
    pub(crate) fn entity_form<'f>(&'f self, table: &'f str, select: Option<&'f Select>) -> EntityContext<'f> {
        EntityContext { response: self.form(), table, select }
    }

    /// The media type of the answer.
    pub(crate) fn content_type(&self, content: ContentKind) -> &'static str {
        self.format.content_type(content)
    }

    /// Which properties the client wants; `None` for all, without a word about it.
    ///
    /// UNVERIFIED (02 §7, §8): the code for a projection where the version or the data service version has none.
    pub(crate) fn select(&self) -> Result<Option<Select>, ServiceError> {
        let Some(list) = self.options.select.as_deref() else { return Ok(None) };
        if self.version < Version::UPSERT || self.data_service_version < DataServiceVersion::V2 {
            return Err(ErrorCode::InvalidInput.into());
        }
        Select::parse(list).map(Some)
    }

    /// The table of an entity operation. A name that no table can have names a table that does not exist.
    ///
    /// UNVERIFIED (01 §2): the code for a malformed name in an entity operation.
    pub(crate) fn table(&self, name: &str) -> Result<TableKey, Failure> {
        match TableName::new(name) {
            Ok(name) => Ok(TableKey { account: self.grant.account.clone(), name }),
            Err(TableNameError::Length | TableNameError::Characters | TableNameError::Reserved) => {
                Err(Failure::query(ErrorCode::TableNotFound))
            }
        }
    }

    /// Remembers the table of a batch. A name that no table can have does not count.
    pub(crate) fn note_table(&self, name: &str) {
        if let Some(name) = self.metrics_table(name).or_else(|| TableName::new(name).ok()) {
            let _is_first = self.named.set(name);
        }
    }

    /// The condition of an update, merge or delete; `None` if there is no `If-Match` (01 §8).
    pub(crate) fn condition(&self, method: &str) -> Result<Option<Condition>, ServiceError> {
        match (self.headers.if_match, self.headers.if_none_match) {
            (Some(_), Some(_)) => Err(ServiceError::invalid_input(
                "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.",
            )),
            (None, Some(_)) => Err(ServiceError::invalid_input(format!(
                "The `If-None-Match` HTTP header cannot be specified for {method} operations."
            ))),
            (None, None) => Ok(None),
            (Some(value), None) => Condition::parse(value).map(Some).ok_or_else(|| {
                ServiceError::invalid_input(format!(
                    "The etag value '{value}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid."
                ))
            }),
        }
    }
}

/// A format, or the answer to a request for one that the version does not have.
pub(crate) fn resolved(format: Result<Format, ErrorCode>) -> Result<Format, Failure> {
    format.map_err(|code| Failure::at(Layer::Format, code))
}

/// The key that an address names (01 §3).
///
/// `too_long` is the answer to a key above 512 characters, which differs by operation.
pub(crate) fn address_key(partition: &str, row: &str, too_long: ErrorCode) -> Result<EntityKey, Failure> {
    let text = |text: &str| {
        KeyText::new(text).map_err(|error| match error {
            KeyError::Slash => Failure::query(ServiceError::malformed_address()),
            KeyError::ForbiddenCharacter => Failure::query(ErrorCode::OutOfRangeInput),
            // As if the storage had been asked, which the answer shows by `Cache-Control` (02 §3).
            KeyError::TooLong => Failure::service(too_long),
        })
    };
    Ok(EntityKey { partition: text(partition)?, row: text(row)? })
}
