//! The names of response headers, as the service spells them (specification 02 §3).
//!
//! HTTP ignores the letter case of header names, but some clients do not: ADO.NET Data Services keeps the headers of a
//! response in a case-sensitive dictionary, in which programs look up `x-ms-continuation-NextPartitionKey`.

pub(crate) const CACHE_CONTROL: &str = "Cache-Control";
/// The name of the header with the length of a body.
pub const CONTENT_LENGTH: &str = "Content-Length";
pub(crate) const CONTENT_TYPE: &str = "Content-Type";
pub(crate) const DATA_SERVICE_ID: &str = "DataServiceId";
pub(crate) const DATA_SERVICE_VERSION: &str = "DataServiceVersion";
pub(crate) const ETAG: &str = "ETag";
pub(crate) const LOCATION: &str = "Location";
pub(crate) const PREFERENCE_APPLIED: &str = "Preference-Applied";
/// The name of the header of a body in chunks.
pub const TRANSFER_ENCODING: &str = "Transfer-Encoding";
pub(crate) const X_CONTENT_TYPE_OPTIONS: &str = "X-Content-Type-Options";

/// Returns the spelling of a response header's name, given in any letter case. Returns `None` for Rowhouse's own
/// headers, whose names are in lower case, and for headers that no response has.
pub fn spelled(name: &[u8]) -> Option<&'static str> {
    names(*name.first()?).iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name)).copied()
}

/// Like [`spelled`], for the name in front of the colon of a header's line.
///
/// A server calls this for every header of every response, so it does not search for the colon.
pub fn spelled_in_line(line: &[u8]) -> Option<&'static str> {
    let is_name = |known: &&&str| {
        // Compared without branches. A known name consists of letters and hyphens, and no other character of a header
        // name differs from one of these only in this bit.
        let differing = || known.bytes().zip(line).fold(0, |bits, (known, given)| bits | (known ^ given));
        line.get(known.len()) == Some(&b':') && differing() & !LETTER_CASE_BIT == 0
    };
    names(*line.first()?).iter().find(is_name).copied()
}

const LETTER_CASE_BIT: u8 = 0x20;

/// Returns the names that begin with a letter, most frequent ones first.
fn names(letter: u8) -> &'static [&'static str] {
    match letter.to_ascii_lowercase() {
        b'a' => &[
            "Access-Control-Allow-Origin",
            "Access-Control-Expose-Headers",
            "Access-Control-Allow-Credentials",
            "Access-Control-Allow-Headers",
            "Access-Control-Allow-Methods",
            "Access-Control-Max-Age",
            "Allow",
        ],
        b'c' => &[
            CACHE_CONTROL,
            CONTENT_TYPE,
            CONTENT_LENGTH,
            "Connection",
            "Content-Encoding",
            "Content-Security-Policy",
            "Cross-Origin-Opener-Policy",
            "Cross-Origin-Resource-Policy",
        ],
        b'd' => &["Date", DATA_SERVICE_ID, DATA_SERVICE_VERSION],
        b'e' => &[ETAG],
        b'l' => &[LOCATION],
        b'p' => &[PREFERENCE_APPLIED],
        b'r' => &["Retry-After", "Referrer-Policy"],
        b's' => &["Server"],
        b't' => &[TRANSFER_ENCODING],
        b'v' => &["Vary"],
        b'w' => &["WWW-Authenticate"],
        b'x' => &[
            "x-ms-request-id",
            "x-ms-version",
            X_CONTENT_TYPE_OPTIONS,
            "x-ms-client-request-id",
            "x-ms-error-code",
            "x-ms-continuation-NextPartitionKey",
            "x-ms-continuation-NextRowKey",
            "x-ms-continuation-NextTableName",
        ],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_letter_case() {
        let all: Vec<_> = (b'a'..=b'z').flat_map(names).collect();
        assert!(all.len() > 30);
        for name in all {
            assert!(name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'), "{name}");
            for given in [name.to_ascii_lowercase(), name.to_ascii_uppercase()] {
                assert_eq!(spelled(given.as_bytes()), Some(*name));
                assert_eq!(spelled_in_line(format!("{given}: etag").as_bytes()), Some(*name));
            }
        }
    }

    #[test]
    fn other_names_have_no_spelling() {
        for name in
            ["", "x-ms-rowhouse-position", "x-ms-versions", "etab", "eta", "x-ms-continuation-nextpartitionkeys"]
        {
            assert_eq!(spelled(name.as_bytes()), None, "{name}");
            assert_eq!(spelled_in_line(format!("{name}: etag").as_bytes()), None, "{name}");
            assert_eq!(spelled_in_line(name.as_bytes()), None, "{name}");
        }
    }
}
