//! Content negotiation: the formats of the request body and of the response (specification 03 §1, 02 §8).
//!
//! This module must not depend on how a format is parsed or written.

use crate::error::{ErrorBodyFormat, ErrorCode};
use crate::version::Version;
use model::Dialect;

/// The amount of metadata in a JSON response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataLevel {
    /// `odata=nometadata`
    None,
    /// `odata=minimalmetadata`, and plain `application/json`
    Minimal,
    /// `odata=fullmetadata`
    Full,
}

impl MetadataLevel {
    /// Returns the `Content-Type` of a JSON response in a dialect (11 §3).
    pub const fn content_type_in(self, dialect: Dialect) -> &'static str {
        match (dialect, self) {
            (Dialect::Storage, level) => level.content_type(),
            (Dialect::Cosmos, Self::None) => "application/json;odata=nometadata",
            (Dialect::Cosmos, Self::Minimal) => "application/json;odata=minimalmetadata",
            (Dialect::Cosmos, Self::Full) => "application/json;odata=fullmetadata",
        }
    }

    /// Returns the `Content-Type` of a JSON response, exactly as the service writes it (03 §1.1).
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
            Self::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
            Self::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
        }
    }
}

/// The format of a response or of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON at a metadata level.
    Json(MetadataLevel),
    /// Atom.
    Atom,
}

/// The content of a response. Atom has a different media type for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// One entity or table.
    Entry,
    /// Any number of entities or tables.
    Set,
    /// An error.
    Error,
}

impl Format {
    /// Returns the `Content-Type` of a response, exactly as the service writes it (03 §1.1, §5.5).
    pub fn content_type(self, content: ContentKind, version: Version, dialect: Dialect) -> &'static str {
        match (self, content) {
            (Self::Json(level), _) => level.content_type_in(dialect),
            (Self::Atom, ContentKind::Error) if version.has_first_form() => "application/xml",
            (Self::Atom, _) if version.has_first_form() => "application/atom+xml;charset=utf-8",
            (Self::Atom, ContentKind::Entry) => "application/atom+xml;type=entry;charset=utf-8",
            (Self::Atom, ContentKind::Set) => "application/atom+xml;type=feed;charset=utf-8",
            (Self::Atom, ContentKind::Error) => "application/xml;charset=utf-8",
        }
    }

    /// Returns the format of an error body in a response of this format (03 §6).
    pub fn error_body(self, version: Version) -> ErrorBodyFormat {
        match self {
            Self::Json(_) => ErrorBodyFormat::Json,
            Self::Atom if version.has_first_form() => ErrorBodyFormat::FirstODataXml,
            Self::Atom => ErrorBodyFormat::ODataXml,
        }
    }
}

/// A data service version in tenths: 10, 20 or 30.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataServiceVersion(u8);

impl DataServiceVersion {
    /// 3.0: JSON, `Prefer` and `$format`.
    pub const V3: Self = Self(30);
    /// 2.0: projection.
    pub const V2: Self = Self(20);
    /// 1.0: supported by every version of the service.
    pub const V1: Self = Self(10);

    /// Returns the number as written in headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V3 => "3.0",
            Self::V2 => "2.0",
            _ => "1.0",
        }
    }

    /// Returns the effective version of a request. If both headers are present, `MaxDataServiceVersion` takes
    /// precedence. The maximum that the service version supports is both the default and the upper limit (02 §8).
    ///
    /// An empty header counts as absent: a Go client sends one in every part of a batch.
    ///
    /// UNVERIFIED (02 §8): the error code for a malformed header.
    pub fn effective(
        version: Version,
        data_service_version: Option<&str>,
        max_data_service_version: Option<&str>,
    ) -> Result<Self, ErrorCode> {
        let highest = match version {
            version if version >= Version::JSON => Self::V3,
            version if version >= Version::UPSERT => Self::V2,
            _ => Self::V1,
        };
        let mut headers = [max_data_service_version, data_service_version].into_iter().flatten();
        match headers.find(|text| !text.trim().is_empty()) {
            Some(text) => Self::parse(text).map(|named| named.min(highest)).ok_or(ErrorCode::InvalidHeaderValue),
            None => Ok(highest),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let number = text.split(';').next()?.trim();
        match number {
            "1.0" | "1" => Some(Self::V1),
            "2.0" | "2" => Some(Self::V2),
            "3.0" | "3" => Some(Self::V3),
            _ => None,
        }
    }
}

/// The parts of a request that determine its formats.
#[derive(Debug, Clone, Copy)]
pub struct FormatPreferences<'a> {
    /// The service version.
    pub version: Version,
    /// The effective data service version.
    pub data_service_version: DataServiceVersion,
    /// The `Accept` header.
    pub accept: Option<&'a str>,
    /// The `$format` option.
    pub format: Option<&'a str>,
}

impl FormatPreferences<'_> {
    /// Returns the format of the response, or the error if no format is possible (03 §1.2, §1.3).
    pub fn response_format(&self) -> Result<Format, ErrorCode> {
        let format = self.format.map(str::trim).filter(|format| !format.is_empty());
        if let Some(format) = format.filter(|_| self.data_service_version >= DataServiceVersion::V3) {
            return self.first_supported(format, ShortNames::Allowed);
        }
        match self.accept.map(str::trim).filter(|accept| !accept.is_empty()) {
            Some(accept) => self.first_supported(accept, ShortNames::Refused),
            None => self.supported(RequestedFormat::Atom),
        }
    }

    /// Returns the format for a response without a body, in which only errors are written. Differs from
    /// [`Self::response_format`] only for versions without Atom: if `Accept` is missing or `*/*`, and `$format` is
    /// missing, the request is accepted, and errors are XML as with Atom (03 §1.3).
    ///
    /// UNVERIFIED (03 §1.3): whether a missing `Accept` is rejected on operations with empty responses.
    pub fn empty_response_format(&self) -> Result<Format, ErrorCode> {
        let is_indifferent = self.accept.is_none_or(|accept| accept.trim() == "*/*") && self.format.is_none();
        if is_indifferent && self.version >= Version::NO_ATOM {
            return Ok(Format::Atom);
        }
        self.response_format()
    }

    /// Returns the format of the media range with the highest quality that the version supports. If several have the
    /// same quality, the first one counts. If no range is supported, returns the error for the range with the highest
    /// quality. UNVERIFIED (03 §1.2): the service respects quality values and skips unsupported formats.
    fn first_supported(&self, ranges: &str, short: ShortNames) -> Result<Format, ErrorCode> {
        let mut known: Vec<_> = ranges.split(',').filter_map(|range| media_range(range, short)).collect();
        known.retain(|(_, quality)| *quality > 0);
        // The sort is stable, so ranges of equal quality keep their order.
        known.sort_by_key(|(_, quality)| std::cmp::Reverse(*quality));
        let mut refused = None;
        for (requested, _) in known {
            match self.supported(requested) {
                Ok(format) => return Ok(format),
                Err(code) => refused = refused.or(Some(code)),
            }
        }
        Err(refused.unwrap_or(ErrorCode::MediaTypeNotSupported))
    }

    fn supported(&self, requested: RequestedFormat) -> Result<Format, ErrorCode> {
        match requested {
            RequestedFormat::Anything | RequestedFormat::Atom if self.version < Version::NO_ATOM => Ok(Format::Atom),
            RequestedFormat::Atom => Err(ErrorCode::AtomFormatNotSupported),
            RequestedFormat::JsonVerbose => Err(ErrorCode::JsonVerboseFormatNotSupported),
            RequestedFormat::Json(_) | RequestedFormat::Anything if !self.supports_json() => {
                Err(ErrorCode::JsonFormatNotSupported)
            }
            RequestedFormat::Anything => Ok(Format::Json(MetadataLevel::Minimal)),
            RequestedFormat::Json(level) => Ok(Format::Json(level)),
        }
    }

    /// Returns the format for parts of a batch that do not request one. The preferences of the batch itself never cause
    /// an error (03 §1.3).
    pub fn default_part_format(&self) -> Format {
        match self.response_format() {
            Ok(format) => format,
            Err(_) if self.version >= Version::NO_ATOM => Format::Json(MetadataLevel::Minimal),
            Err(_) => Format::Atom,
        }
    }

    /// Returns the format of a request body, which `Content-Type` names and the version must support (03 §1.3).
    pub fn body_format(&self, content_type: &str) -> Result<Format, ErrorCode> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let is = |name: &str| media_type.eq_ignore_ascii_case(name);
        if is("application/json") {
            self.supported_body(Format::Json(MetadataLevel::Minimal))
        } else if is("application/atom+xml") || is("application/xml") {
            self.supported_body(Format::Atom)
        } else {
            Err(ErrorCode::MediaTypeNotSupported)
        }
    }

    fn supported_body(&self, format: Format) -> Result<Format, ErrorCode> {
        match format {
            Format::Json(_) if !self.supports_json() => Err(ErrorCode::JsonFormatNotSupported),
            Format::Atom if self.version >= Version::NO_ATOM => Err(ErrorCode::AtomFormatNotSupported),
            format => Ok(format),
        }
    }

    fn supports_json(&self) -> bool {
        self.version >= Version::JSON && self.data_service_version >= DataServiceVersion::V3
    }
}

/// Checks that a body can be read in UTF-8. UNVERIFIED (03 §1.4): a body in another `charset` is rejected, unless it is
/// in ASCII, which the charset shares. Reading it as UTF-8 could store wrong text.
pub fn check_charset(content_type: Option<&str>, body: &[u8]) -> Result<(), ErrorCode> {
    let is_read = |charset: &str| {
        let begins = |start: &str| charset.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start));
        let is_own = ["utf-8", "utf8", "us-ascii"].iter().any(|own| charset.eq_ignore_ascii_case(own));
        is_own || (!begins("utf-") && !begins("iso-2022-") && body.is_ascii())
    };
    let parameters = content_type.unwrap_or_default().split(';').skip(1).filter_map(|text| text.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    if charsets.all(|(_, value)| is_read(value.trim().trim_matches('"'))) {
        Ok(())
    } else {
        Err(ErrorCode::MediaTypeNotSupported)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedFormat {
    Json(MetadataLevel),
    JsonVerbose,
    Atom,
    Anything,
}

/// Whether short format names are accepted, as in `$format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShortNames {
    Allowed,
    Refused,
}

/// Parses a media range and its quality in thousandths. Returns `None` if the service does not support the media type.
fn media_range(range: &str, short: ShortNames) -> Option<(RequestedFormat, u32)> {
    let mut parts = range.split(';');
    let media_type = parts.next()?.trim();
    let (mut level, mut quality) = (None, 1000);
    for parameter in parts {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim().trim_matches('"');
        if name.trim().eq_ignore_ascii_case("odata") {
            level = Some(value);
        } else if name.trim().eq_ignore_ascii_case("q") {
            quality = thousandths(value)?;
        }
    }
    let is = |names: &[&str]| names.iter().any(|name| media_type.eq_ignore_ascii_case(name));
    let requested = if is(&["json", "atom"]) && short == ShortNames::Refused {
        return None;
    } else if is(&["application/json", "json"]) {
        json_level(level)?
    } else if is(&["application/atom+xml", "application/xml", "atom"]) {
        RequestedFormat::Atom
    } else if is(&["*/*", "application/*"]) {
        RequestedFormat::Anything
    } else {
        return None;
    };
    Some((requested, quality))
}

fn json_level(level: Option<&str>) -> Option<RequestedFormat> {
    const LEVELS: [(&str, RequestedFormat); 4] = [
        ("minimalmetadata", RequestedFormat::Json(MetadataLevel::Minimal)),
        ("nometadata", RequestedFormat::Json(MetadataLevel::None)),
        ("fullmetadata", RequestedFormat::Json(MetadataLevel::Full)),
        ("verbose", RequestedFormat::JsonVerbose),
    ];
    let level = level.unwrap_or("minimalmetadata");
    LEVELS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(level)).map(|(_, requested)| requested)
}

/// Parses a quality value such as `0.8` as thousandths.
fn thousandths(text: &str) -> Option<u32> {
    let quality: f32 = text.parse().ok()?;
    if !(0.0..=1.0).contains(&quality) {
        return None;
    }
    (0..=1000_u16).rev().find(|step| f32::from(*step) <= quality * 1000.0 + 0.5).map(u32::from)
}

/// The preference in the `Prefer` header of a write (02 §4.3, §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// `return-no-content`: 204 and no body.
    NoContent,
    /// `return-content`: the stored entity, with 201 for an insert and 200 otherwise.
    Content,
}

impl Preference {
    /// Parses the header. Data service versions before 3.0 ignore the header. Unknown values are always ignored.
    pub fn parse(version: DataServiceVersion, header: Option<&str>) -> Option<Self> {
        if version < DataServiceVersion::V3 {
            return None;
        }
        header?.split([',', ';']).find_map(|preference| match preference.trim().to_ascii_lowercase().as_str() {
            "return-no-content" => Some(Self::NoContent),
            "return-content" => Some(Self::Content),
            _ => None,
        })
    }

    /// Returns the value of `Preference-Applied`.
    pub fn applied(self) -> &'static str {
        match self {
            Self::NoContent => "return-no-content",
            Self::Content => "return-content",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(
        version: &str,
        dsv: Option<&str>,
        accept: Option<&str>,
        format: Option<&str>,
    ) -> Result<Format, ErrorCode> {
        let version = Version::parse(version).unwrap();
        let data_service_version = DataServiceVersion::effective(version, dsv, None)?;
        FormatPreferences { version, data_service_version, accept, format }.response_format()
    }

    #[test]
    fn responses_are_negotiated() {
        use ErrorCode::{
            AtomFormatNotSupported, JsonFormatNotSupported, JsonVerboseFormatNotSupported, MediaTypeNotSupported,
        };
        let json = |level| Ok(Format::Json(level));
        let (none, minimal, full) =
            (json(MetadataLevel::None), json(MetadataLevel::Minimal), json(MetadataLevel::Full));
        for (version, dsv, accept, format, expected) in [
            ("2019-02-02", Some("3.0"), Some("application/json;odata=nometadata"), None, none),
            ("2019-02-02", Some("3.0;NetFx"), Some("application/json"), None, minimal),
            ("2019-02-02", None, Some("Application/JSON ; charset=utf-8 ; ODATA=FullMetadata"), None, full),
            ("2019-02-02", None, Some("text/html, application/json;odata=nometadata, */*"), None, none),
            (
                "2019-02-02",
                None,
                Some("application/json;odata=nometadata;q=0.1, application/json;q=0.9"),
                None,
                minimal,
            ),
            ("2019-02-02", None, Some("application/atom+xml,application/json"), None, minimal),
            ("2019-02-02", None, Some("text/html,application/xml;q=0.9,*/*;q=0.8"), None, minimal),
            ("2019-02-02", None, Some("application/json;odata=verbose,application/json"), None, minimal),
            ("2019-02-02", None, Some("application/atom+xml,application/xml"), None, Err(AtomFormatNotSupported)),
            ("2019-02-02", None, Some("json"), None, Err(MediaTypeNotSupported)),
            ("2019-02-02", None, Some("application/json"), Some(""), minimal),
            ("2019-02-02", Some("2.0"), Some("*/*"), None, Err(JsonFormatNotSupported)),
            ("2012-02-12", Some("3.0"), Some("application/atom+xml"), Some("json"), Ok(Format::Atom)),
            ("2012-02-12", Some("3.0"), Some("application/json"), Some("atom"), Err(JsonFormatNotSupported)),
            ("2012-02-12", None, Some("application/json,application/atom+xml"), None, Ok(Format::Atom)),
            ("2019-02-02", None, Some("*/*"), None, minimal),
            ("2019-02-02", None, None, None, Err(AtomFormatNotSupported)),
            ("2019-02-02", None, Some(""), None, Err(AtomFormatNotSupported)),
            ("2019-02-02", None, Some("text/plain"), None, Err(MediaTypeNotSupported)),
            ("2019-02-02", None, Some("application/json;odata=verbose"), None, Err(JsonVerboseFormatNotSupported)),
            ("2019-02-02", None, Some("text/plain"), Some("json"), minimal),
            ("2019-02-02", None, None, Some("application/json;odata=fullmetadata"), full),
            ("2019-02-02", None, Some("application/json"), Some("atom"), Err(AtomFormatNotSupported)),
            ("2019-02-02", Some("2.0"), Some("application/json"), Some("json"), Err(JsonFormatNotSupported)),
            ("2014-02-14", Some("2.0"), Some("*/*"), None, Ok(Format::Atom)),
            ("2014-02-14", None, None, None, Ok(Format::Atom)),
            ("2014-02-14", None, Some("application/json"), None, minimal),
            ("2012-02-12", None, Some("application/json"), None, Err(JsonFormatNotSupported)),
        ] {
            assert_eq!(negotiated(version, dsv, accept, format), expected, "{version} {dsv:?} {accept:?} {format:?}");
        }
        assert_eq!(negotiated("2019-02-02", Some("x"), None, None), Err(ErrorCode::InvalidHeaderValue));
    }

    #[test]
    fn errors_without_a_chosen_format_are_xml() {
        for (version, accept, format, expected) in [
            ("2019-02-02", None, None, Ok(Format::Atom)),
            ("2019-02-02", Some("*/*"), None, Ok(Format::Atom)),
            ("2014-02-14", Some("*/*"), None, Ok(Format::Atom)),
            ("2019-02-02", Some("application/json"), None, Ok(Format::Json(MetadataLevel::Minimal))),
            ("2019-02-02", None, Some("json"), Ok(Format::Json(MetadataLevel::Minimal))),
            ("2019-02-02", Some("application/atom+xml"), None, Err(ErrorCode::AtomFormatNotSupported)),
        ] {
            let version = Version::parse(version).unwrap();
            let preferences =
                FormatPreferences { version, data_service_version: DataServiceVersion::V3, accept, format };
            assert_eq!(preferences.empty_response_format(), expected, "{version:?} {accept:?} {format:?}");
        }
    }

    #[test]
    fn bodies_are_checked() {
        use ErrorCode::{AtomFormatNotSupported, JsonFormatNotSupported, MediaTypeNotSupported};
        let check = |version: &str, content_type| {
            let version = Version::parse(version).unwrap();
            let data_service_version = DataServiceVersion::effective(version, None, None).unwrap();
            FormatPreferences { version, data_service_version, accept: None, format: None }.body_format(content_type)
        };
        let json = Ok(Format::Json(MetadataLevel::Minimal));
        for (version, content_type, expected) in [
            ("2019-02-02", "application/json;odata=verbose", json),
            ("2019-02-02", " Application/JSON ; charset=utf-8", json),
            ("2019-02-02", "application/atom+xml", Err(AtomFormatNotSupported)),
            ("2019-02-02", "text/plain", Err(MediaTypeNotSupported)),
            ("2019-02-02", ";charset=utf-8", Err(MediaTypeNotSupported)),
            ("2012-02-12", "application/json", Err(JsonFormatNotSupported)),
            ("2012-02-12", "application/xml", Ok(Format::Atom)),
            ("2014-02-14", "application/atom+xml;type=entry", Ok(Format::Atom)),
        ] {
            assert_eq!(check(version, content_type), expected, "{version} {content_type}");
        }
    }

    #[test]
    fn a_body_in_another_charset_is_refused() {
        let refused = Err(ErrorCode::MediaTypeNotSupported);
        for (content_type, body, expected) in [
            (None, b"{\"a\":\"\xC3\xA9\"}".as_slice(), Ok(())),
            (Some("application/json; Charset=\"UTF-8\""), "{\"a\":\"é\"}".as_bytes(), Ok(())),
            (Some("application/json;charset=utf8"), "{\"a\":\"é\"}".as_bytes(), Ok(())),
            (Some("application/json;charset=ISO-8859-1"), b"{\"a\":\"e\"}", Ok(())),
            (Some("application/json; CHARSET = \"iso-8859-1\""), b"{\"a\":\"\xE9\"}", refused),
            (Some("application/json;charset=utf-16"), b"\xFF\xFE{\0}\0", refused),
            (Some("application/json;charset=UTF-16LE"), b"{\0}\0", refused),
            (Some("application/json;charset=utf-7"), b"{\"a\":\"+AOk-\"}", refused),
            // Valid UTF-8, but a different text in the declared charset
            (Some("application/atom+xml;type=entry;charset=windows-1252"), "<a>é</a>".as_bytes(), refused),
        ] {
            assert_eq!(check_charset(content_type, body), expected, "{content_type:?}");
        }
    }

    #[test]
    fn preferences() {
        let version = DataServiceVersion::V3;
        assert_eq!(Preference::parse(version, Some("return-no-content")), Some(Preference::NoContent));
        assert_eq!(Preference::parse(version, Some("Return-Content")), Some(Preference::Content));
        assert_eq!(Preference::parse(version, Some("other")), None);
        assert_eq!(Preference::parse(DataServiceVersion::V2, Some("return-content")), None);
    }
}
