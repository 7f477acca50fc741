//! The headers on which an operation depends. They come from a request or from a part of a batch.

use crate::error::ServiceError;
use crate::negotiation::{DataServiceVersion, FormatPreferences};
use crate::reason::{Reason, ReasonKind};
use crate::version::Version;

/// The headers on which an operation depends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    /// `Accept`
    pub accept: Option<&'a str>,
    /// `Content-Type`
    pub content_type: Option<&'a str>,
    /// `If-Match`
    pub if_match: Option<&'a str>,
    /// `If-None-Match`
    pub if_none_match: Option<&'a str>,
    /// `Prefer`
    pub prefer: Option<&'a str>,
    /// `DataServiceVersion`
    pub data_service_version: Option<&'a str>,
    /// `MaxDataServiceVersion`
    pub max_data_service_version: Option<&'a str>,
    /// Whether the response to a query contains its cost; never for a part of a batch.
    pub explain: bool,
}

impl<'a> Headers<'a> {
    /// Returns what the headers and the `$format` option specify about formats.
    pub fn preferences(
        &self,
        version: Version,
        format: Option<&'a str>,
    ) -> Result<FormatPreferences<'a>, ServiceError> {
        let (named, max) = (self.data_service_version, self.max_data_service_version);
        let data_service_version = DataServiceVersion::effective(version, named, max).map_err(|code| {
            let reason = ReasonKind::DataServiceVersion.because("");
            ServiceError::from(code).because(max.or(named).into_iter().fold(reason, Reason::quoting))
        })?;
        Ok(FormatPreferences { version, data_service_version, accept: self.accept, format })
    }
}
