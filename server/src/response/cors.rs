//! CORS for the service: the response to a preflight request, and the headers of every other response (specification
//! 10 §4, §5).
//!
//! [`model::cors`] decides which rule applies; this module writes the headers. It must not depend on credentials: a
//! browser sends none with a preflight request, and needs the headers even in a response that rejects the credential of
//! a request.

use super::OperationResponse;
use crate::failure::{Failure, Layer};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, DATE, ORIGIN, TRANSFER_ENCODING, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use model::{CorsRule, CorsRules};
use wire::header_names::spelled;
use wire::reason::ReasonKind;
use wire::{ErrorCode, ServiceError};

const ANY_ORIGIN: HeaderValue = HeaderValue::from_static("*");
const VARY_ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
const TRUE: HeaderValue = HeaderValue::from_static("true");

pub(crate) fn preflight(rules: &CorsRules, request: &HeaderMap) -> Result<OperationResponse, Failure> {
    let (Some(origin), Some(method)) = (request.get(ORIGIN), request.get(ACCESS_CONTROL_REQUEST_METHOD)) else {
        let message = "A required CORS header is not present.";
        let error = ServiceError::new(ErrorCode::InvalidHeaderValue, message);
        return Err(Failure::at(Layer::FrontEnd, error.because(ReasonKind::CorsHeaderMissing.because(""))));
    };
    let wanted = request.get(ACCESS_CONTROL_REQUEST_HEADERS);
    let rule = find(rules, origin, method, wanted)
        .ok_or_else(|| Failure::at(Layer::FrontEnd, ErrorCode::CorsPreflightFailure))?;
    let mut headers = HeaderMap::with_capacity(5);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed_origin(rule, origin));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    if let Some(wanted) = wanted {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(rule.max_age_seconds()));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, preflight_credentials());
    Ok(OperationResponse::preflight(headers))
}

/// UNVERIFIED (10 §4): that credentials are allowed by every rule; a sample in the documentation lacks this header.
fn preflight_credentials() -> HeaderValue {
    TRUE
}

fn find<'r>(
    rules: &'r CorsRules,
    origin: &HeaderValue,
    method: &HeaderValue,
    wanted: Option<&HeaderValue>,
) -> Option<&'r CorsRule> {
    let wanted = wanted.map_or(Ok(""), HeaderValue::to_str).ok()?;
    let wanted = wanted.split(',').map(str::trim).filter(|name| !name.is_empty());
    rules.preflight(origin.to_str().ok()?, method.to_str().ok()?, wanted)
}

/// Adds the CORS headers to the response to a request other than a preflight request.
///
/// The response to a request without a valid credential gets them only if the request names an origin that a rule
/// allows. To all other clients, an account with rules looks like one that does not exist.
pub(crate) fn add_headers(
    rules: &CorsRules,
    method: &Method,
    origin: Option<&HeaderValue>,
    is_authenticated: bool,
    headers: &mut HeaderMap,
) {
    // Without an origin, the rules apply only to reads (recorded).
    if rules.is_empty() || origin.is_none() && ![Method::GET, Method::HEAD].contains(method) {
        return;
    }
    // An origin that is not text matches only the rules for any origin.
    let text = origin.map(|origin| origin.to_str().unwrap_or_default());
    let rule = rules.select(text, method.as_str());
    if !is_authenticated && (origin.is_none() || rule.is_none()) {
        return;
    }
    let exposed = rule.map(|rule| exposed_headers(rule, headers)).filter(|names| !names.is_empty());
    if rules.varies(method.as_str(), rule) {
        headers.insert(VARY, VARY_ORIGIN);
    }
    let Some(rule) = rule else { return };
    match origin {
        Some(origin) => headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed_origin(rule, origin)),
        None => headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY_ORIGIN),
    };
    if let Some(names) = exposed.and_then(|names| HeaderValue::try_from(names).ok()) {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, names);
    }
    if !rule.has_any_origin() {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
    }
}

fn allowed_origin(rule: &CorsRule, origin: &HeaderValue) -> HeaderValue {
    if rule.has_any_origin() { ANY_ORIGIN } else { origin.clone() }
}

/// Returns the headers that a script may read: the headers of the response that the rule names or covers by a prefix,
/// and all headers that the rule names in full, whether or not the response has them. A rule for all headers covers
/// three more that the response may lack (recorded).
fn exposed_headers(rule: &CorsRule, headers: &HeaderMap) -> String {
    let patterns = rule.exposed_headers();
    let of_http = [CONTENT_LENGTH, DATE, TRANSFER_ENCODING];
    let present = headers.keys().filter(|name| !of_http.contains(name)).chain(&of_http);
    let present = present.map(HeaderName::as_str).filter(|name| patterns.matches(name));
    let mut names: Vec<&str> = present.map(|name| spelled(name.as_bytes()).unwrap_or(name)).collect();
    for literal in patterns.literals() {
        if !names.iter().any(|name| name.eq_ignore_ascii_case(literal)) {
            names.push(literal);
        }
    }
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(list: &[(&str, &str, &str, &str)]) -> CorsRules {
        let rule = |(origins, methods, allowed, exposed): &(&str, &str, &str, &str)| {
            CorsRule::new(origins, methods, allowed, exposed, 60).unwrap()
        };
        CorsRules::new(list.iter().map(rule).collect()).unwrap()
    }

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        list.iter().map(pair).collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut shown: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        shown.sort();
        shown
    }

    fn added(rules: &CorsRules, method: &Method, origin: Option<&str>) -> Vec<String> {
        added_for(true, rules, method, origin)
    }

    fn added_for(is_authenticated: bool, rules: &CorsRules, method: &Method, origin: Option<&str>) -> Vec<String> {
        let before = headers(&[("date", "z"), ("etag", "x"), ("x-ms-request-id", "y"), ("content-length", "0")]);
        let mut response = before.clone();
        let origin = origin.map(|origin| HeaderValue::from_str(origin).unwrap());
        add_headers(rules, method, origin.as_ref(), is_authenticated, &mut response);
        for name in before.keys() {
            response.remove(name);
        }
        shown(&response)
    }

    #[test]
    fn rules_show_to_nobody_but_the_origins_that_they_allow() {
        let exact = rules(&[("https://a.example", "GET", "", "etag")]);
        let any = rules(&[("*", "GET", "", "etag")]);
        let (allowed, other) = (Some("https://a.example"), Some("https://b.example"));
        for origin in [None, allowed, other] {
            let shown = added_for(false, &exact, &Method::GET, origin);
            assert_eq!(shown.is_empty(), origin != allowed, "{shown:?}");
            assert_eq!(added_for(false, &any, &Method::GET, origin).is_empty(), origin.is_none());
            assert!(added_for(false, &exact, &Method::PUT, origin).is_empty());
        }
        let whole = added(&exact, &Method::GET, allowed);
        assert_eq!(added_for(false, &exact, &Method::GET, allowed), whole);
    }

    #[test]
    fn exposed_headers_are_spelled_out() {
        let exposed = |patterns| {
            let added = added(&rules(&[("*", "GET", "", patterns)]), &Method::GET, None);
            added.iter().find_map(|line| line.strip_prefix("access-control-expose-headers: ").map(str::to_owned))
        };
        assert_eq!(exposed(""), None);
        assert_eq!(exposed("y*"), None);
        assert_eq!(exposed("X-MS-*,location").as_deref(), Some("x-ms-request-id,location"));
        assert_eq!(exposed("*").as_deref(), Some("ETag,x-ms-request-id,Content-Length,Date,Transfer-Encoding"));
    }
}
