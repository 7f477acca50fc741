//! The CORS rules of an account: their syntax and limits (10 §2), and the rule that applies to a request (10 §3, §5).
//!
//! Invariant: every rule is within the limits of 10 §2.
//!
//! This module must not depend on HTTP: headers are plain strings.

use crate::limits::{
    CORS_HEADER_LITERALS_MAX, CORS_HEADER_PREFIXES_MAX, CORS_ITEM_CHARS_MAX, CORS_MAX_AGE_SECONDS_MAX,
    CORS_ORIGINS_MAX, CORS_RULES_MAX, CORS_TEXT_BYTES_MAX,
};
use std::fmt;

/// The methods that a rule may allow. The reference omits PATCH in one of two places, but clients use it to merge.
const METHODS: &[&str] = &["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT"];

/// Matches any origin or any header. At the end of a header, it matches any suffix.
const WILDCARD: &str = "*";

/// The CORS rules of an account, in the order of evaluation; may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CorsRules(Box<[CorsRule]>);

/// One CORS rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsRule {
    origins: Box<[Box<str>]>,
    methods: Box<[&'static str]>,
    allowed_headers: HeaderPatterns,
    exposed_headers: HeaderPatterns,
    max_age_seconds: u32,
}

/// A list of header names and header-name prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderPatterns {
    literals: Box<[Box<str>]>,
    /// The prefixes without their asterisk. The empty prefix matches every header.
    prefixes: Box<[Box<str>]>,
}

/// The limit of 10 §2 that a rule violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorsError {
    /// More than 5 rules.
    TooManyRules,
    /// More than 2 KiB in all rules together.
    TooMuchText,
    /// No origin, or more than 64.
    Origins,
    /// No method, or a method that no rule can allow.
    Methods,
    /// More than 64 header names or 2 prefixes in a list.
    Headers,
    /// An origin or header with more than 256 characters or a control character.
    Item,
    /// An age that needs more than 31 bits.
    MaxAge,
}

impl fmt::Display for CorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyRules => "there are more than 5 CORS rules",
            Self::TooMuchText => "the CORS rules are larger than 2 KiB",
            Self::Origins => "a CORS rule has no origins, or more than 64",
            Self::Methods => "a CORS rule has no methods, or an unknown method",
            Self::Headers => "a header list of a CORS rule has more than 64 names or more than 2 prefixes",
            Self::Item => {
                "an origin or header of a CORS rule is longer than 256 characters or contains a control character"
            }
            Self::MaxAge => "the maximum age of a CORS rule needs more than 31 bits",
        })
    }
}

impl std::error::Error for CorsError {}

impl CorsRules {
    /// Checks the limits that apply to all rules together.
    pub fn new(rules: Vec<CorsRule>) -> Result<Self, CorsError> {
        if rules.len() > CORS_RULES_MAX {
            return Err(CorsError::TooManyRules);
        }
        if rules.iter().map(CorsRule::text_bytes).sum::<usize>() > CORS_TEXT_BYTES_MAX {
            return Err(CorsError::TooMuchText);
        }
        Ok(Self(rules.into()))
    }

    /// Returns the rules in order.
    pub fn as_slice(&self) -> &[CorsRule] {
        &self.0
    }

    /// Returns whether there are no rules, which disables CORS.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rule that applies to an actual request: the first that matches the origin and the method (10 §3). A
    /// request without an origin matches only rules for any origin (10 §5).
    pub fn select(&self, origin: Option<&str>, method: &str) -> Option<&CorsRule> {
        self.0.iter().find(|rule| rule.has_origin(origin) && rule.has_method(method))
    }

    /// Returns the rule that allows a preflight request. Only the first rule that matches the origin and the method
    /// applies. If it does not allow one of the headers, later rules are not considered (10 §3).
    pub fn preflight<'h>(
        &self,
        origin: &str,
        method: &str,
        mut headers: impl Iterator<Item = &'h str>,
    ) -> Option<&CorsRule> {
        self.select(Some(origin), method).filter(|rule| headers.all(|header| rule.allowed_headers.matches(header)))
    }

    /// Returns whether a response depends on the request's `Origin`, in which case a cache must not share it (table in
    /// 10 §5). `selected` is the rule that [`Self::select`] returned for the request.
    pub fn varies(&self, method: &str, selected: Option<&CorsRule>) -> bool {
        let is_cacheable = matches!(method, "GET" | "HEAD");
        is_cacheable && !self.is_empty() && selected.is_none_or(|rule| !rule.has_any_origin())
    }
}

impl CorsRule {
    /// Parses the comma-separated lists of a rule. UNVERIFIED (10 §2): empty items of a list are ignored.
    pub fn new(
        origins: &str,
        methods: &str,
        allowed_headers: &str,
        exposed_headers: &str,
        max_age_seconds: u32,
    ) -> Result<Self, CorsError> {
        let origins = items(origins)
            .map(|item| if fits(item) { Ok(Box::from(item)) } else { Err(CorsError::Item) })
            .collect::<Result<Box<[_]>, _>>()?;
        if origins.is_empty() || origins.len() > CORS_ORIGINS_MAX {
            return Err(CorsError::Origins);
        }
        let known = |item: &str| METHODS.iter().find(|known| known.eq_ignore_ascii_case(item)).copied();
        let methods: Option<Box<[_]>> = items(methods).map(known).collect();
        let methods = methods.filter(|methods| !methods.is_empty()).ok_or(CorsError::Methods)?;
        if max_age_seconds > CORS_MAX_AGE_SECONDS_MAX {
            return Err(CorsError::MaxAge);
        }
        Ok(Self {
            origins,
            methods,
            allowed_headers: HeaderPatterns::new(allowed_headers)?,
            exposed_headers: HeaderPatterns::new(exposed_headers)?,
            max_age_seconds,
        })
    }

    /// Returns the origins as a comma-separated list.
    pub fn origins(&self) -> String {
        self.origins.join(",")
    }

    /// Returns the methods as a comma-separated list.
    pub fn methods(&self) -> String {
        self.methods.join(",")
    }

    /// Returns the headers that a request may contain.
    pub fn allowed_headers(&self) -> &HeaderPatterns {
        &self.allowed_headers
    }

    /// Returns the response headers that scripts may read.
    pub fn exposed_headers(&self) -> &HeaderPatterns {
        &self.exposed_headers
    }

    /// Returns the time for which a browser may cache the response to a preflight request, in seconds.
    pub fn max_age_seconds(&self) -> u32 {
        self.max_age_seconds
    }

    /// Returns whether the rule allows any origin.
    pub fn has_any_origin(&self) -> bool {
        self.origins.iter().any(|origin| &**origin == WILDCARD)
    }

    fn has_origin(&self, origin: Option<&str>) -> bool {
        self.has_any_origin()
            || origin.is_some_and(|origin| self.origins.iter().any(|pattern| origin_matches(pattern, origin)))
    }

    fn has_method(&self, method: &str) -> bool {
        self.methods.iter().any(|known| known.eq_ignore_ascii_case(method))
    }

    /// Returns the size of the rule, in bytes, as counted for the limit on all rules. UNVERIFIED (10 §2): the stored
    /// strings determine the size, without white space around the items.
    fn text_bytes(&self) -> usize {
        let headers = self.allowed_headers.to_string().len() + self.exposed_headers.to_string().len();
        self.origins().len() + self.methods().len() + headers + self.max_age_seconds.to_string().len()
    }
}

impl HeaderPatterns {
    fn new(text: &str) -> Result<Self, CorsError> {
        let (mut literals, mut prefixes) = (Vec::new(), Vec::new());
        for item in items(text) {
            if !fits(item) {
                return Err(CorsError::Item);
            }
            match item.strip_suffix(WILDCARD) {
                Some(prefix) => prefixes.push(Box::from(prefix)),
                None => literals.push(Box::from(item)),
            }
        }
        if literals.len() > CORS_HEADER_LITERALS_MAX || prefixes.len() > CORS_HEADER_PREFIXES_MAX {
            return Err(CorsError::Headers);
        }
        Ok(Self { literals: literals.into(), prefixes: prefixes.into() })
    }

    /// Returns whether the list matches a header, in any letter case.
    pub fn matches(&self, header: &str) -> bool {
        let begins_with = |prefix: &str| header.get(..prefix.len()).is_some_and(|h| h.eq_ignore_ascii_case(prefix));
        self.literals.iter().any(|literal| literal.eq_ignore_ascii_case(header))
            || self.prefixes.iter().any(|prefix| begins_with(prefix))
    }

    /// Returns the literal header names in the list, without the prefixes.
    pub fn literals(&self) -> impl Iterator<Item = &str> {
        self.literals.iter().map(|literal| &**literal)
    }
}

/// Formats the list as the service does: comma-separated, literal names first and prefixes last (10 §1).
impl fmt::Display for HeaderPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let literals = self.literals.iter().map(|literal| (literal, ""));
        let prefixes = self.prefixes.iter().map(|prefix| (prefix, WILDCARD));
        for (index, (name, end)) in literals.chain(prefixes).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}{end}")?;
        }
        Ok(())
    }
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn fits(item: &str) -> bool {
    item.chars().count() <= CORS_ITEM_CHARS_MAX && !item.chars().any(char::is_control)
}

/// Returns whether an origin in a rule matches the origin of a request. UNVERIFIED (10 §2): origins are case-sensitive,
/// as the documentation states; browsers send hosts in lower case.
fn origin_matches(pattern: &str, origin: &str) -> bool {
    match pattern.split_once("*.") {
        None => pattern == origin,
        Some((scheme, rest)) => is_sub_domain(scheme, rest, origin),
    }
}

/// Returns whether an origin is one or more labels below `rest`, which is a domain with an optional port. UNVERIFIED
/// (10 §2): subdomains at any depth match, but not the domain itself.
fn is_sub_domain(scheme: &str, rest: &str, origin: &str) -> bool {
    let labels = origin
        .strip_prefix(scheme)
        .and_then(|host| host.strip_suffix(rest))
        .and_then(|labels| labels.strip_suffix('.'))
        .unwrap_or_default();
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    labels.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &str, methods: &str, headers: &str) -> CorsRule {
        CorsRule::new(origins, methods, headers, "", 60).unwrap()
    }

    fn error(origins: &str, methods: &str, allowed: &str, exposed: &str) -> Option<CorsError> {
        CorsRule::new(origins, methods, allowed, exposed, 0).err()
    }

    #[test]
    fn lists_are_split_trimmed_and_ordered() {
        let rule = CorsRule::new(
            " https://a.example , * ",
            "get, Put",
            "x-ms-meta-data*,x-ms-meta-target*,x-ms-meta-xyz, x-ms-meta-foo",
            "",
            7,
        )
        .unwrap();
        assert_eq!(rule.origins(), "https://a.example,*");
        assert_eq!(rule.methods(), "GET,PUT");
        // Recorded: the service does not preserve the order that the client sent.
        assert_eq!(rule.allowed_headers().to_string(), "x-ms-meta-xyz,x-ms-meta-foo,x-ms-meta-data*,x-ms-meta-target*");
        assert_eq!(rule.exposed_headers().to_string(), "");
        assert_eq!(rule.max_age_seconds(), 7);
    }

    #[test]
    fn limits_of_one_rule() {
        let many = |count: usize, item: &str| vec![item; count].join(",");
        let long = |chars: usize| "ä".repeat(chars);
        for (origins, methods, allowed, exposed, expected) in [
            ("*", "GET", "", "", None),
            ("", "GET", "", "", Some(CorsError::Origins)),
            (" , ", "GET", "", "", Some(CorsError::Origins)),
            (&many(64, "a"), "GET", "", "", None),
            (&many(65, "a"), "GET", "", "", Some(CorsError::Origins)),
            (&long(256), "GET", "", "", None),
            (&long(257), "GET", "", "", Some(CorsError::Item)),
            ("a\u{7}", "GET", "", "", Some(CorsError::Item)),
            ("*", "", "", "", Some(CorsError::Methods)),
            ("*", "GET,BREW", "", "", Some(CorsError::Methods)),
            ("*", "DELETE,GET,HEAD,MERGE,POST,OPTIONS,PUT,PATCH", "", "", None),
            ("*", "GET", &many(64, "h"), &many(64, "h"), None),
            ("*", "GET", &many(65, "h"), "", Some(CorsError::Headers)),
            ("*", "GET", "", &many(65, "h"), Some(CorsError::Headers)),
            ("*", "GET", "a*,b*", "*,c*", None),
            ("*", "GET", "a*,b*,c*", "", Some(CorsError::Headers)),
            ("*", "GET", &long(257), "", Some(CorsError::Item)),
        ] {
            assert_eq!(error(origins, methods, allowed, exposed), expected, "{origins} {methods} {allowed} {exposed}");
        }
        assert!(CorsRule::new("*", "GET", "", "", CORS_MAX_AGE_SECONDS_MAX).is_ok());
        assert_eq!(CorsRule::new("*", "GET", "", "", CORS_MAX_AGE_SECONDS_MAX + 1), Err(CorsError::MaxAge));
    }

    #[test]
    fn limits_of_all_rules() {
        assert!(CorsRules::new(vec![rule("*", "GET", ""); 5]).is_ok());
        assert_eq!(CorsRules::new(vec![rule("*", "GET", ""); 6]), Err(CorsError::TooManyRules));
        // The method and the age take five bytes in each rule.
        let of_bytes = |bytes: usize| rule(&vec!["o".repeat(102); 10].join(",")[..bytes - 5], "GET", "");
        assert!(CorsRules::new(vec![of_bytes(1024), of_bytes(1024)]).is_ok());
        assert_eq!(CorsRules::new(vec![of_bytes(1024), of_bytes(1025)]), Err(CorsError::TooMuchText));
    }

    #[test]
    fn origins() {
        for (pattern, origin, expected) in [
            ("*", "https://a.example", true),
            ("*", "null", true),
            ("https://a.example", "https://a.example", true),
            ("https://a.example", "https://A.example", false),
            ("https://a.example", "http://a.example", false),
            ("https://a.example", "https://a.example:8443", false),
            ("https://*.shop.example", "https://www.shop.example", true),
            ("https://*.shop.example", "https://a.b.shop.example", true),
            ("https://*.shop.example", "https://shop.example", false),
            ("https://*.shop.example", "https://.shop.example", false),
            ("https://*.shop.example", "https://a..shop.example", false),
            ("https://*.shop.example", "https://evilshop.example", false),
            ("https://*.shop.example", "https://evil.example/.shop.example", false),
            ("https://*.shop.example", "https://user@a.shop.example", false),
            ("https://*.shop.example", "http://www.shop.example", false),
            ("https://*.shop.example", "https://www.shop.example:8443", false),
            ("https://*.shop.example:8443", "https://www.shop.example:8443", true),
        ] {
            let rules = CorsRules::new(vec![rule(pattern, "GET", "")]).unwrap();
            assert_eq!(rules.select(Some(origin), "GET").is_some(), expected, "{pattern} {origin}");
        }
    }

    #[test]
    fn the_first_rule_with_origin_and_method_decides_alone() {
        let rules = CorsRules::new(vec![
            rule("https://a.example", "PUT", "*"),
            rule("https://a.example", "GET", "x-one,x-pre-*"),
            rule("*", "GET", "*"),
        ])
        .unwrap();
        let allowed = |origin, method, headers: &[&str]| rules.preflight(origin, method, headers.iter().copied());
        assert_eq!(allowed("https://a.example", "GET", &[]), rules.as_slice().get(1));
        assert!(allowed("https://a.example", "get", &["X-One", "x-PRE-a", "x-pre-"]).is_some());
        // The third rule would allow the header, but the second one applies.
        assert!(allowed("https://a.example", "GET", &["x-two"]).is_none());
        assert!(allowed("https://b.example", "GET", &["x-two"]).is_some());
        assert!(allowed("https://b.example", "PUT", &[]).is_none());
        assert!(allowed("https://a.example", "PUT", &["whatever"]).is_some());
    }

    #[test]
    fn when_answers_vary() {
        let none = CorsRules::default();
        let exact = CorsRules::new(vec![rule("https://a.example", "GET,PUT", "")]).unwrap();
        let any = CorsRules::new(vec![rule("*", "GET", "")]).unwrap();
        let (a, b) = (Some("https://a.example"), Some("https://b.example"));
        for (rules, origin, method, is_selected, varies) in [
            (&none, None, "GET", false, false),
            (&exact, None, "GET", false, true),
            (&any, None, "GET", true, false),
            (&none, a, "GET", false, false),
            (&exact, a, "GET", true, true),
            (&exact, b, "GET", false, true),
            (&any, a, "GET", true, false),
            (&exact, None, "HEAD", false, true),
            (&exact, a, "PUT", true, false),
            (&exact, b, "POST", false, false),
            (&any, a, "HEAD", false, true),
        ] {
            let selected = rules.select(origin, method);
            assert_eq!(selected.is_some(), is_selected, "{rules:?} {origin:?} {method}");
            assert_eq!(rules.varies(method, selected), varies, "{rules:?} {origin:?} {method}");
        }
    }
}
