//! Query options (specification 04 §1).
//!
//! This module must not depend on which operations have which options.

use crate::error::{ErrorCode, ServiceError};
use crate::reason::ReasonKind;
use crate::uri::form_decode;
use model::limits::{PAGE_RESULTS_MAX, REQUEST_TIMEOUT_SECONDS_MAX, SKIPPED_ENTITIES_MAX};
use std::borrow::Cow;
use std::time::Duration;

/// The options of OData 3 that the Table service refuses. It ignores all other unknown options (04 §1).
const UNSUPPORTED: [&str; 2] = ["$expand", "$skiptoken"];

/// The options of OData 3 that the Table service refuses, and that a server with extensions supports in queries of
/// entities.
const EXTENDED: [&str; 3] = ["$orderby", "$skip", "$inlinecount"];

/// The query options of a request, decoded but not yet interpreted. All code, including authentication and routing,
/// reads options from here, so the executed options are the signed ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryOptions<'a> {
    /// The `$filter` option.
    pub filter: Option<Cow<'a, str>>,
    /// The `$select` option.
    pub select: Option<Cow<'a, str>>,
    /// The `$format` option.
    pub format: Option<Cow<'a, str>>,
    /// The `NextPartitionKey` option.
    pub next_partition_key: Option<Cow<'a, str>>,
    /// The `NextRowKey` option.
    pub next_row_key: Option<Cow<'a, str>>,
    /// The `NextTableName` option.
    pub next_table_name: Option<Cow<'a, str>>,
    /// The `comp` option.
    pub comp: Option<Cow<'a, str>>,
    /// The `restype` option.
    pub restype: Option<Cow<'a, str>>,
    /// `sig`: the signature of a shared access signature.
    pub signature: Option<Cow<'a, str>>,
    /// `sv`: the version of a shared access signature.
    pub signed_version: Option<Cow<'a, str>>,
    /// `sduoid`: the user to whom a shared access signature is bound.
    pub signed_user: Option<Cow<'a, str>>,
    /// `api-version`: the version of a request with a shared access signature.
    pub api_version: Option<Cow<'a, str>>,
    /// The `$orderby` option, an extension.
    pub order_by: Option<Cow<'a, str>>,
    skip: Option<Cow<'a, str>>,
    inline_count: Option<Cow<'a, str>>,
    /// The `$count` option of OData 4, an extension. It is unknown to the service, which ignores it.
    count: Option<Cow<'a, str>>,
    top: Option<Cow<'a, str>>,
    timeout: Option<Cow<'a, str>>,
    /// The first option that the service refuses.
    unsupported: Option<&'static str>,
    /// The first option that even a server with extensions refuses.
    unsupported_always: Option<&'static str>,
    unknown: bool,
    /// A repeated option. One that the service supports has precedence.
    repeated: Option<&'static str>,
    undecodable: bool,
}

impl<'a> QueryOptions<'a> {
    /// Splits and decodes a raw query string. Errors are reported later, because authentication comes first.
    pub fn parse(query: &'a str) -> Self {
        let mut options = Self::default();
        for (name, value) in pairs(query) {
            match (name, form_decode(value)) {
                (Some(name), Some(value)) => options.set(&name, value),
                _ => options.undecodable = true,
            }
        }
        options
    }

    /// Sets an option, whatever the letter case of its name. UNVERIFIED (04 §1): that the service ignores letter case,
    /// as the public source of its OData library does.
    fn set(&mut self, name: &str, value: Cow<'a, str>) {
        let (known, slot) = match name {
            _ if name.eq_ignore_ascii_case("$filter") => ("$filter", &mut self.filter),
            _ if name.eq_ignore_ascii_case("$select") => ("$select", &mut self.select),
            _ if name.eq_ignore_ascii_case("$format") => ("$format", &mut self.format),
            _ if name.eq_ignore_ascii_case("$top") => ("$top", &mut self.top),
            _ if name.eq_ignore_ascii_case("$orderby") => ("$orderby", &mut self.order_by),
            _ if name.eq_ignore_ascii_case("$inlinecount") => ("$inlinecount", &mut self.inline_count),
            _ if name.eq_ignore_ascii_case("$skip") => ("$skip", &mut self.skip),
            _ if name.eq_ignore_ascii_case("NextPartitionKey") => ("NextPartitionKey", &mut self.next_partition_key),
            _ if name.eq_ignore_ascii_case("NextRowKey") => ("NextRowKey", &mut self.next_row_key),
            _ if name.eq_ignore_ascii_case("NextTableName") => ("NextTableName", &mut self.next_table_name),
            _ if name.eq_ignore_ascii_case("sig") => return set_field(&mut self.signature, value),
            _ if name.eq_ignore_ascii_case("sv") => return set_field(&mut self.signed_version, value),
            _ if name.eq_ignore_ascii_case("sduoid") => return set_field(&mut self.signed_user, value),
            _ if name.eq_ignore_ascii_case("api-version") => ("api-version", &mut self.api_version),
            _ if name.eq_ignore_ascii_case("comp") => ("comp", &mut self.comp),
            _ if name.eq_ignore_ascii_case("restype") => ("restype", &mut self.restype),
            _ if name.eq_ignore_ascii_case("timeout") => ("timeout", &mut self.timeout),
            _ => {
                let unsupported = UNSUPPORTED.into_iter().find(|known| name.eq_ignore_ascii_case(known));
                self.unsupported = self.unsupported.or(unsupported);
                self.unsupported_always = self.unsupported_always.or(unsupported);
                self.unknown |= name.starts_with('$') && unsupported.is_none();
                if name.eq_ignore_ascii_case("$count") {
                    self.count.get_or_insert(value);
                }
                return;
            }
        };
        if EXTENDED.contains(&known) {
            self.unsupported = self.unsupported.or(Some(known));
        }
        // The first occurrence is signed (07 §6). [`Self::check`] rejects duplicates after the signature has been
        // verified.
        if slot.is_some() && self.repeated.is_none_or(|name| EXTENDED.contains(&name)) {
            self.repeated = Some(known);
        }
        slot.get_or_insert(value);
    }

    /// Rejects query strings that cannot be decoded and duplicate options. UNVERIFIED (04 §1): the error code for a
    /// duplicate option.
    pub fn check(&self) -> Result<(), ServiceError> {
        if self.undecodable {
            return Err(ServiceError::malformed_address().because(ReasonKind::OptionEncoding.because("")));
        }
        match self.repeated {
            Some(name) if !EXTENDED.contains(&name) => Err(repeated(name)),
            _ => Ok(()),
        }
    }

    /// Rejects the options of OData that the Table service does not support. UNVERIFIED (04 §1): the error code, and
    /// which options other than `$orderby` are rejected.
    pub fn check_supported(&self) -> Result<(), ServiceError> {
        self.unsupported.map_or(Ok(()), |name| Err(unsupported(name)))
    }

    /// Rejects the options of OData that a server with extensions does not support in queries of entities.
    pub fn check_extended(&self) -> Result<(), ServiceError> {
        match (self.unsupported_always, self.repeated) {
            (Some(name), _) => Err(unsupported(name)),
            (None, Some(name)) => Err(repeated(name)),
            (None, None) => Ok(()),
        }
    }

    /// Returns whether the first page contains the number of all entities that match, an extension.
    pub fn wants_count(&self) -> Result<bool, ServiceError> {
        let inline = match self.inline_count.as_deref() {
            None | Some("none") => false,
            Some("allpages") => true,
            Some(text) => return Err(count_invalid("$inlinecount is neither allpages nor none.", text)),
        };
        match self.count.as_deref() {
            None | Some("false") => Ok(inline),
            Some("true") => Ok(true),
            Some(text) => Err(count_invalid("$count is neither true nor false.", text)),
        }
    }

    /// Returns the number of entities to skip before the first page, an extension.
    pub fn skip(&self) -> Result<usize, ServiceError> {
        let Some(text) = &self.skip else { return Ok(0) };
        let skip = text.trim().parse().ok().filter(|skip| *skip <= SKIPPED_ENTITIES_MAX);
        skip.ok_or_else(|| {
            let detail = format!("$skip is not a whole number from 0 to {SKIPPED_ENTITIES_MAX}.");
            ServiceError::from(ErrorCode::InvalidInput).because(ReasonKind::SkipInvalid.because(detail).quoting(text))
        })
    }

    /// Returns true if an option begins with `$` that neither the service nor OData 3 has. The service ignores it.
    pub fn has_unknown(&self) -> bool {
        self.unknown
    }

    /// Returns the maximum number of results in the page: 0 to 1,000, by default 1,000 (04 §5).
    pub fn top(&self) -> Result<usize, ServiceError> {
        match &self.top {
            None => Ok(PAGE_RESULTS_MAX),
            Some(text) => match text.trim().parse::<usize>() {
                Ok(top) if top <= PAGE_RESULTS_MAX => Ok(top),
                Ok(_) => Err(top_invalid("$top is greater than 1000", text)),
                Err(_) => Err(top_invalid("$top is not a whole number from 0 to 1000", text)),
            },
        }
    }

    /// Returns true if the client limits the number of results.
    pub fn has_top(&self) -> bool {
        self.top.is_some()
    }

    /// Returns the timeout of the request, from the option `timeout` in seconds. 30 is both the maximum and the default
    /// (02 §9). UNVERIFIED (02 §9): the error code for a value that is not a number.
    pub fn timeout(&self) -> Result<Duration, ServiceError> {
        let seconds = match &self.timeout {
            None => REQUEST_TIMEOUT_SECONDS_MAX,
            Some(text) => {
                let seconds: u64 = text.trim().parse().map_err(|_| {
                    let reason = ReasonKind::TimeoutInvalid.because("").quoting(text);
                    ServiceError::from(ErrorCode::InvalidQueryParameterValue).because(reason)
                })?;
                if seconds == 0 { REQUEST_TIMEOUT_SECONDS_MAX } else { seconds.min(REQUEST_TIMEOUT_SECONDS_MAX) }
            }
        };
        Ok(Duration::from_secs(seconds))
    }
}

/// If a field occurs several times, the first non-empty value counts (08 §1).
fn set_field<'a>(field: &mut Option<Cow<'a, str>>, value: Cow<'a, str>) {
    if field.as_deref().is_none_or(str::is_empty) {
        *field = Some(value);
    }
}

/// Returns the names and values of a raw query string in their order. Names are decoded (`None` if they are not UTF-8).
/// Values are returned as sent.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (Option<Cow<'_, str>>, &str)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (form_decode(name), value)
    })
}

fn repeated(name: &str) -> ServiceError {
    let reason = ReasonKind::OptionRepeated.because(format!("The query option {name} is given more than once."));
    ServiceError::from(ErrorCode::InvalidInput).because(reason)
}

fn unsupported(name: &str) -> ServiceError {
    let extended =
        if EXTENDED.contains(&name) { " A server with --extensions supports it in queries of entities." } else { "" };
    let reason = ReasonKind::OptionUnsupported.because(format!("The service does not support {name}.{extended}"));
    ServiceError::from(ErrorCode::NotImplemented).because(reason)
}

fn count_invalid(problem: &'static str, text: &str) -> ServiceError {
    ServiceError::from(ErrorCode::InvalidInput).because(ReasonKind::CountInvalid.because(problem).quoting(text))
}

fn top_invalid(problem: &str, text: &str) -> ServiceError {
    ServiceError::from(ErrorCode::InvalidInput)
        .because(ReasonKind::TopInvalid.because(format!("{problem}.")).quoting(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_decoded() {
        let options = QueryOptions::parse(
            "%24filter=a+eq+'b%2B'&$select=x%2Cy&$top=5&NextPartitionKey=1%218&Comp=acl&x=1&timeout=7",
        );
        assert_eq!(options.filter.as_deref(), Some("a eq 'b+'"));
        assert_eq!(options.select.as_deref(), Some("x,y"));
        assert_eq!(options.next_partition_key.as_deref(), Some("1!8"));
        assert_eq!(options.comp.as_deref(), Some("acl"));
        assert_eq!((options.top(), options.timeout()), (Ok(5), Ok(Duration::from_secs(7))));
        assert_eq!((options.check(), options.check_supported()), (Ok(()), Ok(())));
    }

    #[test]
    fn an_option_is_the_same_however_its_name_and_value_are_escaped() {
        for query in ["comp=acl", "COMP=acl", "%63omp=acl", "%63%6F%6d%70=%61cl", "x=1&Com%50=acl"] {
            assert_eq!(QueryOptions::parse(query).comp.as_deref(), Some("acl"), "{query}");
        }
        for query in ["", "com=acl", "comp%00=acl", "+comp=acl", "comp%FF=acl", "%2563omp=acl", "x=comp=acl"] {
            assert_eq!(QueryOptions::parse(query).comp, None, "{query}");
        }
        for query in ["sig=x", "si%67=x", "%53IG"] {
            assert!(QueryOptions::parse(query).signature.is_some(), "{query}");
        }
    }

    #[test]
    fn the_letter_case_of_names_is_ignored() {
        let names = [
            "$filter",
            "$select",
            "$format",
            "$top",
            "NextPartitionKey",
            "NextRowKey",
            "NextTableName",
            "comp",
            "restype",
            "sig",
            "sv",
            "sduoid",
            "api-version",
            "timeout",
            "$orderby",
            "$skip",
            "$expand",
            "$inlinecount",
            "$skiptoken",
        ];
        for name in names {
            let query = format!("{name}=5");
            let options = QueryOptions::parse(&query);
            assert_ne!(options, QueryOptions::default(), "{name}");
            for other in [name.to_ascii_lowercase(), name.to_ascii_uppercase()] {
                let query = format!("{other}=5");
                assert_eq!(QueryOptions::parse(&query), options, "{other}");
                // Two spellings are the same option twice.
                let both = format!("{name}=5&{other}=6");
                let both = QueryOptions::parse(&both);
                assert_eq!(QueryOptions { repeated: None, ..both.clone() }, options, "{other}");
                let is_refused = both.check().is_err() || both.check_supported().is_err();
                assert!(is_refused || ["sig", "sv", "sduoid"].contains(&name), "{other}");
            }
        }
    }

    #[test]
    fn the_first_of_two_counts() {
        for query in ["comp=acl&comp=stats", "%63omp=acl&comp=stats", "COMP=acl&comp=stats"] {
            let options = QueryOptions::parse(query);
            assert_eq!(options.comp.as_deref(), Some("acl"), "{query}");
            assert_eq!(options.check(), Err(ErrorCode::InvalidInput.into()), "{query}");
        }
        let options = QueryOptions::parse("sv=&s%76=2019-02-02&sv=2012-02-12");
        assert_eq!(options.signed_version.as_deref(), Some("2019-02-02"));
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn bounds() {
        for (query, top) in [("", 1000), ("$top=0", 0), ("$top=1000", 1000)] {
            assert_eq!(QueryOptions::parse(query).top(), Ok(top));
        }
        for query in ["$top=1001", "$top=-1", "$top=x", "$top="] {
            assert_eq!(QueryOptions::parse(query).top(), Err(ErrorCode::InvalidInput.into()), "{query}");
        }
        assert_eq!(QueryOptions::parse("timeout=99").timeout(), Ok(Duration::from_secs(30)));
        assert!(QueryOptions::parse("timeout=x").timeout().is_err());
        assert!(QueryOptions::parse("$top=1&$top=1").check().is_err());
        assert!(QueryOptions::parse("a=%FF").check().is_err());
    }

    #[test]
    fn options_of_a_server_with_extensions() {
        for (query, is_supported) in [
            ("$orderby=x&$skip=1", true),
            ("$skip=1&$expand=x", false),
            ("$skiptoken=x", false),
            ("$skip=1&$SKIP=1", false),
            ("$orderby=x&%24orderby=y", false),
        ] {
            let options = QueryOptions::parse(query);
            assert_eq!(options.check_extended().is_ok(), is_supported, "{query}");
            assert_eq!(options.check(), Ok(()), "{query}");
            assert_eq!(options.check_supported(), Err(ErrorCode::NotImplemented.into()), "{query}");
        }
        assert!(QueryOptions::parse("$skip=1&$skip=1&$top=1&$top=1").check().is_err());
        for (query, skip) in [("", 0), ("$skip=0", 0), ("$skip=1000000", 1_000_000)] {
            assert_eq!(QueryOptions::parse(query).skip(), Ok(skip));
        }
        for query in ["$skip=1000001", "$skip=-1", "$skip=x", "$skip="] {
            assert_eq!(QueryOptions::parse(query).skip(), Err(ErrorCode::InvalidInput.into()), "{query}");
        }
    }

    #[test]
    fn counts() {
        for (query, expected) in [
            ("", Some(false)),
            ("$inlinecount=none", Some(false)),
            ("$inlinecount=allpages", Some(true)),
            ("$count=true", Some(true)),
            ("$count=false", Some(false)),
            ("$count=false&$inlinecount=allpages", Some(true)),
            ("$count=1", None),
            ("$inlinecount=all", None),
        ] {
            assert_eq!(QueryOptions::parse(query).wants_count().ok(), expected, "{query}");
        }
    }

    #[test]
    fn a_reason_names_the_option() {
        let line = |error: ServiceError| error.reason().unwrap().line(true);
        for (query, expected) in [
            ("$Filter=a&%24filter=b", "option-repeated: The query option $filter is given more than once."),
            ("$filter=%FF", "option-encoding: "),
        ] {
            let reason = line(QueryOptions::parse(query).check().unwrap_err());
            assert!(reason.starts_with(expected), "{query}: {reason}");
        }
        let reason = line(QueryOptions::parse("$OrderBy=a").check_supported().unwrap_err());
        assert!(reason.starts_with("option-unsupported: The service does not support $orderby."), "{reason}");
        for (query, expected) in [
            ("$top=1001", "top-invalid: $top is greater than 1000. Given: '1001'."),
            ("$top=-1", "top-invalid: $top is not a whole number from 0 to 1000. Given: '-1'."),
        ] {
            let reason = line(QueryOptions::parse(query).top().unwrap_err());
            assert!(reason.starts_with(expected), "{query}: {reason}");
        }
        assert!(line(QueryOptions::parse("timeout=x").timeout().unwrap_err()).starts_with("timeout-invalid: "));
    }

    #[test]
    fn unknown_options_are_ignored_and_known_ones_are_not() {
        for query in ["$orderby=x", "$skip=1", "$expand=x", "$inlinecount=none", "%24SkipToken=x"] {
            assert_eq!(QueryOptions::parse(query).check_supported(), Err(ErrorCode::NotImplemented.into()), "{query}");
        }
        for (query, is_unknown) in [
            ("$orderbyABC=x", true),
            ("$search=x", true),
            ("$count=true", true),
            ("$", true),
            ("orderby=x", false),
            ("skip=1", false),
        ] {
            let options = QueryOptions::parse(query);
            assert_eq!(
                (options.check(), options.check_supported(), options.has_unknown()),
                (Ok(()), Ok(()), is_unknown)
            );
            assert_eq!(QueryOptions { unknown: false, count: None, ..options }, QueryOptions::default(), "{query}");
        }
    }
}
