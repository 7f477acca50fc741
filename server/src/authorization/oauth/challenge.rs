//! The challenge of a 401 response, which tells clients where to get tokens (specification 09 §3).
//!
//! Client libraries parse it naively, so the format is fixed: unquoted values, one space between parameters, no comma,
//! and no other `=`.

use anyhow::{Context, ensure};
use http::HeaderValue;

const STORAGE_RESOURCE: &str = "https://storage.azure.com";

/// Returns the value of `WWW-Authenticate`, or an error for a value that the parser of some client library cannot read.
pub(crate) fn challenge(authorization_uri: &str, resource_id: Option<&str>) -> anyhow::Result<HeaderValue> {
    let resource_id = resource_id.unwrap_or(STORAGE_RESOURCE);
    for (name, value) in [("authorization-uri", authorization_uri), ("resource-id", resource_id)] {
        let is_plain = value.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b',' | b'=' | b'\\'));
        ensure!(
            is_plain && !value.is_empty(),
            "[oauth] {name} = \"{value}\" cannot be parsed by clients: remove spaces, commas, quotes, backslashes and '='"
        );
    }
    let uri: http::Uri = authorization_uri.parse().context("[oauth] authorization-uri is not a valid URL")?;
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    // Otherwise the JavaScript library returns the 401 to the application.
    ensure!(
        uri.host().is_some() && uuid::Uuid::try_parse(first).is_ok() && first.len() == 36,
        "[oauth] authorization-uri = \"{authorization_uri}\" has no UUID in the first segment of the path, \
         where clients look for one: give an address such as https://login.example.net/66666666-7777-8888-9999-000000000000/oauth2/authorize; \
         if your issuer has no UUID, use any"
    );
    let text = format!("Bearer authorization_uri={authorization_uri} resource_id={resource_id}");
    HeaderValue::try_from(text).context("[oauth] authorization-uri or resource-id is not a valid header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "https://login.microsoftonline.com/66666666-7777-8888-9999-000000000000/oauth2/authorize";

    #[test]
    fn the_exact_form() {
        assert_eq!(
            challenge(URI, None).unwrap(),
            format!("Bearer authorization_uri={URI} resource_id=https://storage.azure.com")
        );
    }

    /// Reads the challenge with the parsers of the three client libraries, transcribed from their sources.
    #[test]
    fn it_survives_the_parsers_of_client_libraries() {
        let value = challenge(URI, Some("api://tables")).unwrap();
        let text = value.to_str().unwrap().strip_prefix("Bearer ").unwrap();
        // JavaScript: splits at spaces, then takes the text between the first and the second equals sign.
        let javascript: Vec<_> = text.split(' ').map(|pair| pair.split('=').nth(1).unwrap()).collect();
        assert_eq!(javascript, [URI, "api://tables"]);
        // Python: splits at commas if there are any, else at spaces; strips quotes.
        let separator = if text.contains(',') { ',' } else { ' ' };
        let python: Vec<_> = text.split(separator).filter_map(|pair| pair.split_once('=')).collect();
        assert_eq!(python, [("authorization_uri", URI), ("resource_id", "api://tables")]);
        // .NET: finds the parameter by name, then takes the first segment of its path.
        let net = text.split(' ').find_map(|pair| pair.strip_prefix("authorization_uri=")).unwrap();
        assert_eq!(net.split('/').nth(3), Some("66666666-7777-8888-9999-000000000000"));
    }

    #[test]
    fn what_clients_cannot_read_is_refused() {
        for bad in [
            "",
            "nowhere",
            "https://login.example/",
            "https://login.example/common/oauth2/authorize",
            "https://login.example/66666666777788889999000000000000/oauth2/authorize",
            "https://login.example/66666666-7777-8888-9999-000000000000/authorize?a=b",
            "https://login.example/66666666-7777-8888-9999-000000000000/a, b",
        ] {
            assert!(challenge(bad, None).is_err(), "{bad}");
        }
        assert!(challenge(URI, Some("a b")).is_err());
    }
}
