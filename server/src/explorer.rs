//! The explorer: the files of a web page that shows tables in a browser, and the settings of this server that the page
//! needs.
//!
//! Invariants:
//!
//! - The files are public, and nothing in a response depends on a credential. The page requests data like any other
//!   client.
//! - No response reveals which accounts exist. The only exception is the publicly known development account, and only
//!   for a page that may use it.
//! - Every response has the same strict content security policy: no inline code, no content from other origins, and no
//!   frames.
//!
//! This module must not depend on operations or engines.

use crate::request::IncomingRequest;
use crate::response::OperationResponse;
use bytes::Bytes;
use explorer::File;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG,
    IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde::Serialize;
use std::borrow::Cow;

/// The path of the explorer without the trailing slash. No account and no table can have this name.
const ROOT: &str = "/_rowhouse";
const SETTINGS: &str = "settings.json";
const TEXT: &str = "text/plain; charset=utf-8";
/// Allows scripts and styles only from this origin and not inline, and requests only to this origin. Forbids frames.
/// No string can become markup or script.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageSettings {
    pub(crate) version: &'static str,
    /// Whether the page may sign in with the development account and its public key.
    pub(crate) development: bool,
    /// The account that the host names, in host style. In that case the service URL is the origin itself.
    pub(crate) host_account: Option<String>,
    /// Whether the server offers what goes beyond the service.
    pub(crate) extensions: bool,
    /// Whether the server has a change feed.
    pub(crate) changes: bool,
    /// Whether the server shows the load of a cluster.
    pub(crate) load: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address<'r> {
    /// The root of the server, if it is opened in a browser.
    Server,
    Root,
    /// The rest of the path after the slash, as it was sent. No file has a name that would have to be decoded.
    Below(&'r str),
}

impl<'r> Address<'r> {
    /// Returns the address that a request asks for, or `None` for a request to the Table service.
    pub(crate) fn parse(method: &Method, uri: &'r Uri, headers: &HeaderMap) -> Option<Self> {
        let path = uri.path();
        if let Some(rest) = path.strip_prefix(ROOT) {
            return if rest.is_empty() { Some(Self::Root) } else { rest.strip_prefix('/').map(Self::Below) };
        }
        // The service would refuse this request, which has no credential: a signature would be in the query. Clients of
        // the service do not ask for HTML.
        let is_opened = method == Method::GET
            && (path == "/" && uri.query().is_none())
            && !headers.contains_key(AUTHORIZATION)
            && lists(headers, ACCEPT, "text/html");
        is_opened.then_some(Self::Server)
    }
}

pub(crate) fn respond(
    incoming: &IncomingRequest<'_>,
    address: Address<'_>,
    settings: impl FnOnce() -> PageSettings,
) -> OperationResponse {
    let content = match address {
        // Not permanent, because a browser would remember it when the server runs without the explorer.
        Address::Server => Content::Redirect(307),
        Address::Root => Content::Redirect(308),
        Address::Below(SETTINGS) => Content::Settings,
        Address::Below(path) => match explorer::file(path) {
            Some(file) => Content::File(file),
            None => return text(404, "There is no such file in the explorer.\n"),
        },
    };
    if !matches!(incoming.parts.method, Method::GET | Method::HEAD) {
        let mut response = text(405, "The explorer is read-only: use GET or HEAD.\n");
        response.headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match content {
        Content::Redirect(status) => {
            let mut response = text(status, "");
            response.headers.insert(LOCATION, HeaderValue::from_static("/_rowhouse/"));
            response
        }
        Content::Settings => {
            let json = serde_json::to_vec(&settings()).expect("settings are strings and booleans");
            response(200, Some(("application/json", Bytes::from(json))))
        }
        Content::File(file) => {
            let request = &incoming.parts.headers;
            let is_gzip = lists(request, ACCEPT_ENCODING, "gzip");
            let form = if is_gzip { file.gzip } else { file.plain };
            let is_known = request.get_all(IF_NONE_MATCH).iter().any(|list| names(list, form.etag));
            let content = (file.media_type, Bytes::from_static(form.content));
            let mut response = if is_known { response(304, None) } else { response(200, Some(content)) };
            response.headers.insert(ETAG, HeaderValue::from_static(form.etag));
            response.headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
            if is_gzip && !is_known {
                response.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            response
        }
    }
}

enum Content {
    Redirect(u16),
    Settings,
    File(&'static File),
}

/// Returns true if a list of entity tags contains `tag`, by weak comparison (RFC 9110, section 13.1.2).
fn names(list: &HeaderValue, tag: &str) -> bool {
    let list = list.as_bytes().split(|b| *b == b',').map(<[u8]>::trim_ascii);
    list.map(|one| one.strip_prefix(b"W/").unwrap_or(one)).any(|one| one == b"*" || one == tag.as_bytes())
}

/// Returns true if a header with weighted values, such as `Accept`, lists `wanted` with a weight above zero (RFC 9110,
/// section 12.4.2). A wildcard does not count: clients that do not name gzip may be unable to decompress it.
fn lists(headers: &HeaderMap, header: HeaderName, wanted: &str) -> bool {
    let lists = headers.get_all(header).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|value| {
        let (name, parameters) = value.split_once(';').unwrap_or((value, ""));
        let weight = parameters.trim().strip_prefix("q=").map(|weight| weight.trim_start_matches(['0', '.']));
        name.trim().eq_ignore_ascii_case(wanted) && weight != Some("")
    })
}

fn text(status: u16, text: &'static str) -> OperationResponse {
    response(status, (!text.is_empty()).then_some((TEXT, Bytes::from_static(text.as_bytes()))))
}

/// Adds the headers that all explorer responses have. Headers of every response, such as `nosniff`, are added later.
fn response(status: u16, content: Option<(&'static str, Bytes)>) -> OperationResponse {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CROSS_ORIGIN_OPENER_POLICY, SAME_ORIGIN);
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, SAME_ORIGIN);
    let content = content.map(|(media_type, body)| (Cow::Borrowed(media_type), vec![body]));
    OperationResponse { status, content, headers, ..OperationResponse::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_explorer() {
        for (uri, expected) in [
            ("/_rowhouse", Some(Address::Root)),
            ("/_rowhouse?x", Some(Address::Root)),
            ("/_rowhouse/", Some(Address::Below(""))),
            ("/_rowhouse/styles/base.css", Some(Address::Below("styles/base.css"))),
            ("/_rowhouse/../etc", Some(Address::Below("../etc"))),
            ("/_rowhouse//", Some(Address::Below("/"))),
            ("http://localhost/_rowhouse", Some(Address::Root)),
            ("/_rowhouses", None),
            ("/_rowhouse-secondary/", None),
            ("/_Rowhouse/", None),
            ("/%5Frowhouse/", None),
            ("//_rowhouse/", None),
            ("/devstoreaccount1/_rowhouse/", None),
            ("/", None),
            ("*", None),
        ] {
            assert_eq!(Address::parse(&Method::GET, &Uri::from_static(uri), &HeaderMap::new()), expected, "{uri}");
        }
    }

    #[test]
    fn only_a_browser_that_opens_the_root_of_the_server_is_led_to_the_explorer() {
        let browser = [("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")];
        let parse = |method: Method, uri: &'static str, headers: &[(&'static str, &'static str)]| {
            let pairs =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            Address::parse(&method, &Uri::from_static(uri), &pairs.collect()).is_some()
        };
        assert!(parse(Method::GET, "/", &browser));
        assert!(parse(Method::GET, "http://localhost", &browser));
        for uri in ["/?", "/?comp=properties", "/?sv=2019-02-02&sig=x", "//", "/devstoreaccount1", "/Tables", "*"] {
            assert!(!parse(Method::GET, uri, &browser), "{uri}");
        }
        for method in [Method::HEAD, Method::POST, Method::OPTIONS, Method::PUT] {
            assert!(!parse(method.clone(), "/", &browser), "{method}");
        }
        assert!(!parse(Method::GET, "/", &[browser[0], ("authorization", "SharedKey devstoreaccount1:x")]));
        for accept in ["*/*", "text/*", "application/json, text/plain, */*", "application/xhtml+xml", "text/html;q=0"] {
            assert!(!parse(Method::GET, "/", &[("accept", accept)]), "{accept}");
        }
        assert!(!parse(Method::GET, "/", &[]));
    }

    #[test]
    fn no_account_can_have_the_name_of_the_explorer() {
        assert_eq!(model::AccountName::new(ROOT.trim_start_matches('/')), None);
        assert!(model::TableName::new(ROOT.trim_start_matches('/')).is_err());
    }

    #[test]
    fn entity_tags_in_lists() {
        let tag = "\"0123456789abcdef\"";
        for (list, expected) in [
            (tag, true),
            ("W/\"0123456789abcdef\"", true),
            ("\"other\", \"0123456789abcdef\"", true),
            ("*", true),
            ("", false),
            ("\"other\"", false),
            ("0123456789abcdef", false),
            ("\"0123456789ABCDEF\"", false),
        ] {
            assert_eq!(names(&HeaderValue::from_str(list).unwrap(), tag), expected, "{list}");
        }
        assert!(!names(&HeaderValue::from_bytes(b"\xFF").unwrap(), tag));
    }

    #[test]
    fn gzip_is_for_clients_that_accept_it() {
        for (value, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("gzip ; q=0.001", true),
            ("gzip;q=1", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("gzipped", false),
            ("br", false),
            ("*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(lists(&headers, ACCEPT_ENCODING, "gzip"), expected, "{value}");
        }
        assert!(!lists(&HeaderMap::new(), ACCEPT_ENCODING, "gzip"));
    }

    #[test]
    fn settings_as_the_page_reads_them() {
        let settings = PageSettings {
            version: "1.2.3",
            development: true,
            host_account: Some("orchard".to_owned()),
            extensions: false,
            changes: true,
            load: false,
        };
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(
            json,
            r#"{"version":"1.2.3","development":true,"hostAccount":"orchard","extensions":false,"changes":true,"load":false}"#
        );
        let json = serde_json::to_string(&PageSettings { host_account: None, ..settings }).unwrap();
        assert!(json.contains(r#""hostAccount":null"#), "{json}");
    }
}
