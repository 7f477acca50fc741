//! Versions and media types: the `Content-Type` of a response, sent back as `Accept`, requests the same format.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::negotiation::{ContentKind, DataServiceVersion, FormatPreferences, Preference};
use wire::{Format, Version};

// The lines are: version, the two data service versions, Accept, $format, Content-Type, Prefer. An empty line
// represents an absent header.
fuzz_target!(|text: &str| {
    let mut lines = text.split('\n').map(|line| Some(line).filter(|line| !line.is_empty()));
    let mut line = || lines.next().flatten();
    let Some(version) = line().map_or(Some(Version::OLDEST), Version::parse) else { return };
    assert_eq!(Version::parse(&version.to_string()), Some(version));
    let Ok(data_service_version) = DataServiceVersion::effective(version, line(), line()) else { return };
    let format_preferences = FormatPreferences { version, data_service_version, accept: line(), format: line() };
    let speaks_json = data_service_version >= DataServiceVersion::V3;
    if let (true, Ok(format @ Format::Json(_))) = (speaks_json, format_preferences.response_format()) {
        let repeated = FormatPreferences {
            accept: Some(format.content_type(ContentKind::Entry)),
            format: None,
            ..format_preferences
        };
        assert_eq!(repeated.response_format(), Ok(format));
        assert_eq!(format_preferences.empty_response_format(), Ok(format));
    }
    let _ = format_preferences.empty_response_format();
    let (content_type, prefer) = (line(), line());
    for body in [&b""[..], b"<", b"\xEF\xBB\xBF {"] {
        if format_preferences.body_format(content_type, body).is_ok() {
            assert_eq!(format_preferences.check_content_type(content_type), Ok(()));
        }
    }
    if let Some(preference) = Preference::parse(data_service_version, prefer) {
        assert_eq!(Preference::parse(data_service_version, Some(preference.applied())), Some(preference));
    }
});
