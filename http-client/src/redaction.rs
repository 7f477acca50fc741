//! Removes credentials from text that another service wrote. A service may repeat the URL or the headers of a request
//! in its error messages, and messages end up in logs and tickets.
//!
//! This module must not know which service wrote the text.

/// What replaces a credential.
const HIDDEN: char = '…';
/// The ends of the names of parameters and headers that contain credentials, in lowercase. `sig` is such a name, too.
const NAMES: [&str; 9] = [
    "signature",
    "credential",
    "security-token",
    "_token",
    "_secret",
    "password",
    "accountkey",
    "accesskeyid",
    "authorization",
];
/// The maximum length of a name with its separators, in characters.
const NAME_CHARS_MAX: usize = 80;
/// What precedes the credential in a header.
const SCHEMES: [&str; 4] = ["Bearer ", "SharedKey ", "SharedKeyLite ", "Basic "];
const QUOTES: [char; 3] = ['"', '\'', '\\'];
/// A JSON web token begins with the encoding of `{"`.
const WEB_TOKEN_START: &str = "eyJ";

/// Returns the text with `…` in place of each credential: the values of such parameters and headers, also in JSON and
/// percent-encoded, the user and password of a URL, and JSON web tokens.
pub fn without_credentials(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        // A name is short.
        let start = shown.char_indices().rev().take(NAME_CHARS_MAX).last().map_or(0, |(at, _)| at);
        let length = hidden_length(shown.get(start..).unwrap_or_default(), rest);
        if length > 0 {
            shown.push(HIDDEN);
        } else {
            shown.push(next);
        }
        rest = rest.get(length.max(next.len_utf8())..).unwrap_or_default();
    }
    shown
}

/// Returns the length of the credential with which the rest of the text begins, or zero.
fn hidden_length(before: &str, rest: &str) -> usize {
    if is_after_name(before) {
        // In a header, the name of the scheme precedes the credential.
        let scheme = SCHEMES.iter().find(|scheme| rest.starts_with(*scheme)).map_or(0, |scheme| scheme.len());
        let value = rest.get(scheme..).unwrap_or_default();
        let value = value.find(is_end_of_value).and_then(|end| value.get(..end)).unwrap_or(value);
        // The separator before the next parameter may be percent-encoded.
        let mut codes = value.match_indices('%').map(|(at, _)| at);
        let next = codes.find(|at| value.get(at + 1..).is_some_and(|code| unnested(code).starts_with("26")));
        return scheme + next.unwrap_or(value.len());
    }
    let is_word_start = !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_word_start && rest.starts_with(WEB_TOKEN_START) {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(rest.len());
        return if rest.get(..end).is_some_and(|word| word.matches('.').count() >= 2) { end } else { 0 };
    }
    if before.ends_with("://") {
        let authority = rest.find(|c: char| is_end_of_value(c) || "/?#".contains(c)).unwrap_or(rest.len());
        return rest.get(..authority).and_then(|authority| authority.rfind('@')).unwrap_or(0);
    }
    0
}

fn is_end_of_value(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "&\"'<>,;)]}\\".contains(c)
}

/// Returns true if the text ends with the name of a parameter that contains a credential, and a separator.
fn is_after_name(before: &str) -> bool {
    let unquoted = before.trim_end_matches(QUOTES);
    let is_quoted = unquoted.len() < before.len();
    let unspaced = unquoted.trim_end_matches(' ');
    let name = if let Some(name) = unspaced.strip_suffix('=') {
        name
    } else if let Some(name) = unspaced.strip_suffix(':') {
        // In prose, a colon follows many words.
        let is_of_json = is_quoted && name.ends_with(QUOTES);
        let word = last_word(name);
        if !is_of_json && !word.contains('-') && !word.eq_ignore_ascii_case("authorization") {
            return false;
        }
        name
    } else {
        let Some((name, code)) = unquoted.rsplit_once('%') else { return false };
        if !unnested(code).eq_ignore_ascii_case("3d") {
            return false;
        }
        name
    };
    let word = last_word(name.trim_end_matches(QUOTES)).to_ascii_lowercase();
    word == "sig" || NAMES.iter().any(|end| word.ends_with(end))
}

/// Returns the name at the end of the text, without an encoded separator before it.
fn last_word(text: &str) -> &str {
    let before = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let word = text.strip_prefix(before).unwrap_or(text);
    if before.ends_with('%') { unnested(word).get(2..).unwrap_or_default() } else { word }
}

/// Returns the hexadecimal code of a percent-encoded character and what follows it. The percent sign itself may have
/// been encoded several times.
fn unnested(code: &str) -> &str {
    code.trim_start_matches("25")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_wherever_a_service_repeats_them() {
        for (text, shown) in [
            ("GET https://a.net/c/n?sv=1&sig=S3CR%2BET%3D&se=2 failed", "GET https://a.net/c/n?sv=1&sig=…&se=2 failed"),
            ("?sig=S3C/R+ET==", "?sig=…"),
            ("sv=1&amp;sig=S3CRET&amp;se=2", "sv=1&amp;sig=…&amp;se=2"),
            (
                "u=https%3A%2F%2Fa%3Fsv%3D1%26sig%3DS3CR%252BET%26se%3D2",
                "u=https%3A%2F%2Fa%3Fsv%3D1%26sig%3D…%26se%3D2",
            ),
            ("%2526sig%253DS3CRET%2526se%253D2", "%2526sig%253D…%2526se%253D2"),
            ("?X-Amz-Credential=S3CRET/2026/eu/s3&X-Amz-Date=1", "?X-Amz-Credential=…&X-Amz-Date=1"),
            ("x-amz-signature=S3CRET <b>", "x-amz-signature=… <b>"),
            ("X-Amz-Security-Token=S3CRET\nnext", "X-Amz-Security-Token=…\nnext"),
            ("x-amz-security-token: S3CRET", "x-amz-security-token: …"),
            ("Authorization: Bearer S3CRET; x", "Authorization: …; x"),
            (r#"{"sig":"S3CRET","a":1}"#, r#"{"sig":"…","a":1}"#),
            (r#"{"client_secret": "S3CRET"}"#, r#"{"client_secret": "…"}"#),
            (r#"{\"sig\":\"S3CRET\"}"#, r#"{\"sig\":\"…\"}"#),
            ("AccountName=a;AccountKey=S3CRET==;X=1", "AccountName=a;AccountKey=…;X=1"),
            ("SharedAccessSignature=sv=1&sig=S3CRET", "SharedAccessSignature=…&sig=…"),
            ("AWSAccessKeyId=S3CRET&Signature=S3CRET", "AWSAccessKeyId=…&Signature=…"),
            ("https://me:S3CRET@a.net/x@y", "https://…@a.net/x@y"),
            ("token eyJS3CRET.S3CRET.S3-CRET_ is old", "token … is old"),
        ] {
            assert_eq!(without_credentials(text), shown);
            assert_eq!(without_credentials(shown), shown, "hiding twice changes nothing");
        }
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "",
            "Signature did not match. String to sign used was r",
            "design=1&PartitionKey='p'&NextRowKey=r ü …",
            "the signature: it has expired",
            "eyJ alone, eyJ.a",
            "https://a.net/x@y, me@example.net",
            "100% sure = yes",
        ] {
            assert_eq!(without_credentials(text), text);
        }
    }
}
