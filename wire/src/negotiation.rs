//! Which format a request body has and which one the answer gets (specification 03 §1, 02 §8).

use crate::error::ErrorCode;
use crate::version::Version;

/// How much metadata a JSON answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataLevel {
    /// `odata=nometadata`
    None,
    /// `odata=minimalmetadata`, also for plain `application/json`
    Minimal,
    /// `odata=fullmetadata`
    Full,
}

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON at a metadata level.
    Json(MetadataLevel),
    /// Atom.
    Atom,
}

/// What an answer holds, which Atom tells apart by media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// One entity or table.
    Entry,
    /// Any number of them.
    Set,
    /// An error.
    Error,
}

impl Format {
    /// The `Content-Type` of an answer, exactly as the service names it (03 §1.1).
    pub fn content_type(self, content: Content) -> &'static str {
        match (self, content) {
            (Self::Json(MetadataLevel::None), _) => "application/json;odata=nometadata;streaming=true;charset=utf-8",
            (Self::Json(MetadataLevel::Minimal), _) => {
                "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
            }
            (Self::Json(MetadataLevel::Full), _) => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
            (Self::Atom, Content::Entry) => "application/atom+xml;type=entry;charset=utf-8",
            (Self::Atom, Content::Set) => "application/atom+xml;type=feed;charset=utf-8",
            (Self::Atom, Content::Error) => "application/xml;charset=utf-8",
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
    /// 1.0: what every version of the service understands.
    pub const V1: Self = Self(10);

    /// The number as headers have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V3 => "3.0",
            Self::V2 => "2.0",
            _ => "1.0",
        }
    }

    /// The effective version of a request: `MaxDataServiceVersion` decides if both headers are present;
    /// without either it follows from the service version (02 §8).
    ///
    /// UNVERIFIED (02 §8): the code for a header that cannot be read.
    pub fn effective(
        version: Version,
        data_service_version: Option<&str>,
        max_data_service_version: Option<&str>,
    ) -> Result<Self, ErrorCode> {
        match max_data_service_version.or(data_service_version) {
            Some(text) => Self::parse(text).ok_or(ErrorCode::InvalidHeaderValue),
            None if version >= Version::JSON => Ok(Self::V3),
            None if version >= Version::UPSERT => Ok(Self::V2),
            None => Ok(Self::V1),
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

/// What a request says about formats.
#[derive(Debug, Clone, Copy)]
pub struct Wishes<'a> {
    /// The service version.
    pub version: Version,
    /// The effective data service version.
    pub data_service_version: DataServiceVersion,
    /// The `Accept` header.
    pub accept: Option<&'a str>,
    /// The `$format` option.
    pub format: Option<&'a str>,
}

impl Wishes<'_> {
    /// The format of the answer, or why there is none (03 §1.2, §1.3).
    pub fn answer_format(&self) -> Result<Format, ErrorCode> {
        let ranges = match self.format {
            Some(format) if self.data_service_version >= DataServiceVersion::V3 => Some(format),
            _ => self.accept.map(str::trim).filter(|accept| !accept.is_empty()),
        };
        let wanted = match ranges {
            None => Wanted::Atom,
            Some(ranges) => first_supported(ranges).ok_or(ErrorCode::MediaTypeNotSupported)?,
        };
        match wanted {
            Wanted::Anything if self.version >= Version::NO_ATOM => Ok(Format::Json(MetadataLevel::Minimal)),
            Wanted::Anything | Wanted::Atom if self.version < Version::NO_ATOM => Ok(Format::Atom),
            Wanted::Anything | Wanted::Atom => Err(ErrorCode::AtomFormatNotSupported),
            Wanted::JsonVerbose => Err(ErrorCode::JsonVerboseFormatNotSupported),
            Wanted::Json(_) if !self.speaks_json() => Err(ErrorCode::JsonFormatNotSupported),
            Wanted::Json(level) => Ok(Format::Json(level)),
        }
    }

    /// The format for an answer without a body: as [`Self::answer_format`], but no `Accept` is no error.
    ///
    /// UNVERIFIED (03 §1.3): whether a missing `Accept` is refused on operations with empty answers.
    pub fn empty_answer_format(&self) -> Result<Format, ErrorCode> {
        if self.accept.is_none() && self.format.is_none() && self.version >= Version::NO_ATOM {
            return Ok(Format::Json(MetadataLevel::Minimal));
        }
        self.answer_format()
    }

    /// The format for the parts of a batch that name none. Nothing is refused for what the batch itself names (03 §1.3).
    pub fn default_part_format(&self) -> Format {
        match self.answer_format() {
            Ok(format) => format,
            Err(_) if self.version >= Version::NO_ATOM => Format::Json(MetadataLevel::Minimal),
            Err(_) => Format::Atom,
        }
    }

    /// Checks that the body of a request is in a format that the version speaks (03 §1.3).
    ///
    /// A body without `Content-Type` is taken as JSON if it looks like JSON (UNVERIFIED).
    pub fn check_body_format(&self, content_type: Option<&str>, first_byte: Option<u8>) -> Result<Format, ErrorCode> {
        let media_type = content_type.map(|t| t.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
        let format = match media_type.as_deref() {
            Some("application/json") => Format::Json(MetadataLevel::Minimal),
            Some("application/atom+xml" | "application/xml") => Format::Atom,
            None | Some("") if first_byte == Some(b'<') => Format::Atom,
            None | Some("") => Format::Json(MetadataLevel::Minimal),
            Some(_) => return Err(ErrorCode::MediaTypeNotSupported),
        };
        match format {
            Format::Json(_) if !self.speaks_json() => Err(ErrorCode::JsonFormatNotSupported),
            Format::Atom if self.version >= Version::NO_ATOM => Err(ErrorCode::AtomFormatNotSupported),
            format => Ok(format),
        }
    }

    fn speaks_json(&self) -> bool {
        self.version >= Version::JSON && self.data_service_version >= DataServiceVersion::V3
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Json(MetadataLevel),
    JsonVerbose,
    Atom,
    Anything,
}

/// The supported media range with the highest quality, the first one among equals.
///
/// UNVERIFIED (03 §1.2): that the service respects quality values.
fn first_supported(ranges: &str) -> Option<Wanted> {
    let mut best: Option<(Wanted, u32)> = None;
    for range in ranges.split(',') {
        let Some((wanted, quality)) = media_range(range) else { continue };
        if quality > 0 && best.is_none_or(|(_, known)| quality > known) {
            best = Some((wanted, quality));
        }
    }
    best.map(|(wanted, _)| wanted)
}

/// A media range and its quality in thousandths; `None` if it is not one that the service knows.
fn media_range(range: &str) -> Option<(Wanted, u32)> {
    let mut parts = range.split(';');
    let media_type = parts.next()?.trim().to_ascii_lowercase();
    let (mut level, mut quality) = (None, 1000);
    for parameter in parts {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim().trim_matches('"').to_ascii_lowercase();
        match name.trim().to_ascii_lowercase().as_str() {
            "odata" => level = Some(value),
            "q" => quality = thousandths(&value)?,
            _ => {}
        }
    }
    let wanted = match media_type.as_str() {
        "application/json" | "json" => match level.as_deref() {
            None | Some("minimalmetadata") => Wanted::Json(MetadataLevel::Minimal),
            Some("nometadata") => Wanted::Json(MetadataLevel::None),
            Some("fullmetadata") => Wanted::Json(MetadataLevel::Full),
            Some("verbose") => Wanted::JsonVerbose,
            Some(_) => return None,
        },
        "application/atom+xml" | "application/xml" | "atom" => Wanted::Atom,
        "*/*" | "application/*" => Wanted::Anything,
        _ => return None,
    };
    Some((wanted, quality))
}

/// A quality value such as `0.8`, in thousandths.
fn thousandths(text: &str) -> Option<u32> {
    let quality: f32 = text.parse().ok()?;
    if !(0.0..=1.0).contains(&quality) {
        return None;
    }
    (0..=1000_u16).rev().find(|step| f32::from(*step) <= quality * 1000.0 + 0.5).map(u32::from)
}

/// What the `Prefer` header of an insert asks for (02 §4.3, §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// `return-no-content`: 204 and no body.
    NoContent,
    /// `return-content`: 201 and the stored entity.
    Content,
}

impl Preference {
    /// Reads the header; versions before 2013-08-15 ignore it, and so are other values.
    pub fn parse(version: Version, header: Option<&str>) -> Option<Self> {
        if version < Version::JSON {
            return None;
        }
        header?.split([',', ';']).find_map(|preference| match preference.trim().to_ascii_lowercase().as_str() {
            "return-no-content" => Some(Self::NoContent),
            "return-content" => Some(Self::Content),
            _ => None,
        })
    }

    /// The value of `Preference-Applied`.
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

    fn answer(
        version: &str,
        dsv: Option<&str>,
        accept: Option<&str>,
        format: Option<&str>,
    ) -> Result<Format, ErrorCode> {
        let version = Version::parse(version).unwrap();
        let data_service_version = DataServiceVersion::effective(version, dsv, None)?;
        Wishes { version, data_service_version, accept, format }.answer_format()
    }

    #[test]
    fn answers_are_negotiated() {
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
            ("2019-02-02", None, Some("application/atom+xml,application/json"), None, Err(AtomFormatNotSupported)),
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
            assert_eq!(answer(version, dsv, accept, format), expected, "{version} {dsv:?} {accept:?} {format:?}");
        }
        assert_eq!(answer("2019-02-02", Some("x"), None, None), Err(ErrorCode::InvalidHeaderValue));
    }

    #[test]
    fn bodies_are_checked() {
        let check = |version: &str, content_type, first| {
            let version = Version::parse(version).unwrap();
            let data_service_version = DataServiceVersion::effective(version, None, None).unwrap();
            Wishes { version, data_service_version, accept: None, format: None }.check_body_format(content_type, first)
        };
        assert!(check("2019-02-02", Some("application/json;odata=verbose"), None).is_ok());
        assert!(check("2019-02-02", None, Some(b'{')).is_ok());
        assert_eq!(check("2019-02-02", Some("application/atom+xml"), None), Err(ErrorCode::AtomFormatNotSupported));
        assert_eq!(check("2019-02-02", Some("text/plain"), None), Err(ErrorCode::MediaTypeNotSupported));
        assert_eq!(check("2012-02-12", Some("application/json"), None), Err(ErrorCode::JsonFormatNotSupported));
        assert_eq!(check("2014-02-14", Some("application/atom+xml;type=entry"), None), Ok(Format::Atom));
    }

    #[test]
    fn preferences() {
        let version = Version::parse("2019-02-02").unwrap();
        assert_eq!(Preference::parse(version, Some("return-no-content")), Some(Preference::NoContent));
        assert_eq!(Preference::parse(version, Some("Return-Content")), Some(Preference::Content));
        assert_eq!(Preference::parse(version, Some("other")), None);
        assert_eq!(Preference::parse(Version::UPSERT, Some("return-content")), None);
    }
}
