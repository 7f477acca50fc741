//! Request targets: the account and the resource that a path identifies (specification 02 §1, 07 §3).
//!
//! Invariant: the raw path is kept unchanged, because signatures cover it.
//!
//! This module must not depend on whether the resource exists.

use crate::error::ServiceError;
use crate::filter::lex::{Lexer, LiteralKind, Token, TokenKind, string};
use crate::reason::ReasonKind;
use crate::signing::DEVELOPMENT_ACCOUNT;
use crate::uri::percent_decode;
use model::AccountName;
use model::limits::FILTER_TEXT_BYTES_MAX;
use std::borrow::Cow;

/// The account and resource that a request path identifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// The account without `-secondary`, whether or not it exists. `None` if it is not a valid account name.
    pub account: Option<AccountName>,
    /// True if the secondary endpoint is addressed.
    pub secondary: bool,
    /// The path as sent, at least `/`. Signatures cover it.
    pub raw_path: &'a str,
    /// The part of the path that belongs to the endpoint: empty, or `/account` in path style.
    pub base_path: &'a str,
    /// The percent-encoded rest of the path, without the slash after the endpoint.
    resource: &'a str,
}

/// A resource of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The account itself.
    Service,
    /// The list of tables.
    Tables,
    /// One entry of the list of tables; the name may be any string.
    Table(Cow<'a, str>),
    /// All entities of a table; the name may be any string.
    Entities(Cow<'a, str>),
    /// The number of entities of a table, an extension; the name may be any string.
    EntityCount(Cow<'a, str>),
    /// The entities of one partition, in the URL format of the table design guide. All fields may be any string.
    Partition {
        /// The table.
        table: Cow<'a, str>,
        /// The partition key.
        partition: Cow<'a, str>,
    },
    /// A path below a table, as sent by clients whose endpoint ends with a table name. The name may be any string.
    Nested(Cow<'a, str>),
    /// An entity below a table, as in `t/other(PartitionKey='p',RowKey='r')`. The name may be any string.
    NestedEntity(Cow<'a, str>),
    /// A table with another number of keys than an entity has, as in `t('x')`; also a table in front of a key, as in
    /// `t/Tables('x')`. The name may be any string.
    WrongKeyCount(Cow<'a, str>),
    /// One entity; all fields may be any string.
    Entity {
        /// The table.
        table: Cow<'a, str>,
        /// The partition key.
        partition: Cow<'a, str>,
        /// The row key.
        row: Cow<'a, str>,
    },
    /// Entity group transactions.
    Batch,
    /// The metadata document of the service.
    Metadata,
}

const SECONDARY_SUFFIX: &str = "-secondary";

impl<'a> Target<'a> {
    /// Determines the account and resource of a request. The request is host-style if the host is
    /// `<account>.table.<anything>`, or `<account>.<domain>` for a configured domain. All other hosts are path-style.
    pub fn parse(host: &str, raw_path: &'a str, domains: &[String]) -> Self {
        let raw_path = if raw_path.is_empty() { "/" } else { raw_path };
        let path = raw_path.strip_prefix('/').unwrap_or(raw_path);
        if let Some(label) = account_label(host, domains) {
            let (account, secondary) = split_secondary(label);
            return Self { account, secondary, raw_path, base_path: "", resource: path };
        }
        let segment = path.split_once('/').map_or(path, |(segment, _)| segment);
        let base_path = raw_path.get(..raw_path.len() - path.len() + segment.len()).unwrap_or(raw_path);
        let mut resource = path.get(segment.len()..).unwrap_or_default().trim_start_matches('/');
        let (account, secondary) = split_secondary(segment);
        let mut base_path = base_path;
        // A client that derives the secondary URL from a path-style URL appends the primary segment, and signs the path
        // without the secondary segment (07 §7, form c).
        if let (true, Some(name)) = (secondary, &account)
            && let Some(rest) = resource.strip_prefix(name.as_str()).filter(|r| r.is_empty() || r.starts_with('/'))
        {
            base_path = raw_path.get(..raw_path.len() - rest.len()).unwrap_or(raw_path);
            resource = rest.strip_prefix('/').unwrap_or(rest);
        }
        Self { account, secondary, raw_path, base_path, resource }
    }

    /// Returns the same target in the given account, if neither the host nor the path names a known account.
    #[must_use]
    pub fn or_in(self, default: &AccountName, is_known: impl Fn(&AccountName) -> bool) -> Self {
        if self.base_path.is_empty() || self.account.as_ref().is_some_and(is_known) {
            return self;
        }
        let resource = self.raw_path.strip_prefix('/').unwrap_or(self.raw_path);
        Self { account: Some(default.clone()), secondary: false, base_path: "", resource, ..self }
    }

    /// Returns the resource that the path after the endpoint identifies.
    pub fn resource(&self) -> Result<Resource<'a>, ServiceError> {
        Resource::parse(self.resource).map_err(|error| match self.counted() {
            Some(_) => {
                let detail = "Counting the entities of a table is an extension.";
                ServiceError { reason: None, ..error }.because(ReasonKind::ExtensionsOff.because(detail))
            }
            None => error,
        })
    }

    /// Returns the resource that the path after the endpoint identifies, on a server with extensions.
    pub fn extended_resource(&self) -> Result<Resource<'a>, ServiceError> {
        self.counted().map_or_else(|| self.resource(), Ok)
    }

    /// Returns the number of entities of a table, if the path identifies it.
    fn counted(&self) -> Option<Resource<'a>> {
        let counted = self.resource.strip_suffix("/$count").or_else(|| self.resource.strip_suffix("/%24count"))?;
        match Resource::parse(counted) {
            Ok(Resource::Entities(table)) => Some(Resource::EntityCount(table)),
            _ => None,
        }
    }

    /// Returns the paths that a signature may cover, starting with the path as sent (07 §6, §7).
    pub fn signed_paths(&self) -> impl Iterator<Item = Cow<'a, str>> {
        let account = self.account.as_ref().filter(|_| !self.base_path.is_empty());
        let rest = self.raw_path.get(self.base_path.len()..).unwrap_or_default();
        let primary = account.filter(|_| self.secondary).map(|account| Cow::Owned(format!("/{account}{rest}")));
        // One client writes the account only once if it talks to the emulator, which it recognizes by the account name.
        let without_account = account.filter(|account| account.as_str() == DEVELOPMENT_ACCOUNT);
        std::iter::once(Cow::Borrowed(self.raw_path)).chain(primary).chain(without_account.map(|_| Cow::Borrowed(rest)))
    }
}

/// Returns the label of the host that contains the account, if the host is in host style.
pub(crate) fn account_label<'h>(host: &'h str, domains: &[String]) -> Option<&'h str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let (label, rest) = name.split_once('.')?;
    let generic = rest.strip_prefix("table.").is_some_and(|suffix| !suffix.is_empty());
    (generic || domains.iter().any(|domain| rest.eq_ignore_ascii_case(domain))).then_some(label)
}

fn split_secondary(label: &str) -> (Option<AccountName>, bool) {
    match label.strip_suffix(SECONDARY_SUFFIX) {
        Some(name) => (AccountName::new(name), true),
        None => (AccountName::new(label), false),
    }
}

/// The parts are borrowed from the decoded path.
enum ResourceParts<'a> {
    Name(&'a str),
    Set(&'a str),
    Keyed(Cow<'a, str>),
    Partition(&'a str, Cow<'a, str>),
    Entity(&'a str, Cow<'a, str>, Cow<'a, str>),
    Nested(&'a str),
    NestedEntity(&'a str),
    WrongKeyCount(&'a str),
}

impl<'a> Resource<'a> {
    /// Parses a percent-encoded path after the endpoint, without the separating slash.
    pub fn parse(path: &'a str) -> Result<Self, ServiceError> {
        let decoded = percent_decode(path).ok_or_else(|| malformed("The path is not percent-encoded UTF-8."))?;
        match decoded {
            Cow::Borrowed(text) => parse_path(text).map(Self::from_parts),
            Cow::Owned(text) => parse_path(&text).map(|r| Resource::from_parts(r).into_owned()),
        }
    }

    fn from_parts(parts: ResourceParts<'a>) -> Self {
        match parts {
            ResourceParts::Name("") => Self::Service,
            ResourceParts::Name("$batch") => Self::Batch,
            ResourceParts::Name("$metadata") => Self::Metadata,
            ResourceParts::Name("Tables") | ResourceParts::Set("Tables") => Self::Tables,
            ResourceParts::Name(table) | ResourceParts::Set(table) => Self::Entities(Cow::Borrowed(table)),
            ResourceParts::Keyed(name) => Self::Table(name),
            ResourceParts::Partition(table, partition) => Self::Partition { table: Cow::Borrowed(table), partition },
            ResourceParts::Nested(table) => Self::Nested(Cow::Borrowed(table)),
            ResourceParts::NestedEntity(table) => Self::NestedEntity(Cow::Borrowed(table)),
            ResourceParts::WrongKeyCount(table) => Self::WrongKeyCount(Cow::Borrowed(table)),
            ResourceParts::Entity(table, partition, row) => {
                Self::Entity { table: Cow::Borrowed(table), partition, row }
            }
        }
    }

    fn into_owned<'b>(self) -> Resource<'b> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Service => Resource::Service,
            Self::Tables => Resource::Tables,
            Self::Table(name) => Resource::Table(own(name)),
            Self::Entities(table) => Resource::Entities(own(table)),
            Self::EntityCount(table) => Resource::EntityCount(own(table)),
            Self::Partition { table, partition } => {
                Resource::Partition { table: own(table), partition: own(partition) }
            }
            Self::Nested(table) => Resource::Nested(own(table)),
            Self::NestedEntity(table) => Resource::NestedEntity(own(table)),
            Self::WrongKeyCount(table) => Resource::WrongKeyCount(own(table)),
            Self::Entity { table, partition, row } => {
                Resource::Entity { table: own(table), partition: own(partition), row: own(row) }
            }
            Self::Batch => Resource::Batch,
            Self::Metadata => Resource::Metadata,
        }
    }
}

/// Parses a decoded path: one segment, or a table and the rest of the path below it. Empty segments before and after
/// the name are ignored, so `/a//` and `/a//(…)` equal `a` and `a(…)`: the service decodes a path before splitting it
/// into segments (recorded), and clients put a slash after an endpoint that ends with one.
fn parse_path(path: &str) -> Result<ResourceParts<'_>, ServiceError> {
    let path = path.trim_start_matches('/');
    let names_end = path.find('(').unwrap_or(path.len());
    let (names, arguments) = path.split_at_checked(names_end).unwrap_or((path, ""));
    let Some((name, below)) = names.split_once('/') else { return parse_segment(names, arguments) };
    let below = below.trim_matches('/');
    if below.is_empty() {
        return parse_segment(name, arguments);
    }
    if matches!(name, "" | "Tables" | "$batch" | "$metadata") {
        return Err(malformed("The path continues after Tables, $batch or $metadata."));
    }
    match parse_segment(below, arguments)? {
        ResourceParts::Keyed(_) => Ok(ResourceParts::WrongKeyCount(name)),
        ResourceParts::Name(_) | ResourceParts::Set(_) if !below.contains('/') => Ok(ResourceParts::Nested(name)),
        ResourceParts::Entity(..) if !below.contains('/') => Ok(ResourceParts::NestedEntity(name)),
        _ => Err(malformed(
            "The path has too many segments: a table name or keys contain a slash, or the endpoint has more than the account.",
        )),
    }
}

fn malformed(detail: &'static str) -> ServiceError {
    ServiceError::malformed_address().because(ReasonKind::UrlMalformed.because(detail))
}

/// Parses `name`, `name()`, `Tables('x')`, `name(PartitionKey='p')` or `name(PartitionKey='p',RowKey='r')`. The caller
/// has split the segment before the parenthesis.
fn parse_segment<'a>(name: &'a str, arguments: &'a str) -> Result<ResourceParts<'a>, ServiceError> {
    let Some(arguments) = arguments.strip_prefix('(') else { return Ok(ResourceParts::Name(name)) };
    let keys = Keys::parse(
        arguments
            .strip_suffix(')')
            .ok_or_else(|| malformed("The path does not end with the closing parenthesis of its keys."))?,
    )?;
    let parts = match (name, keys.first, keys.second, keys.count) {
        (_, None, ..) => ResourceParts::Set(name),
        ("Tables", Some(Key { name: None | Some("TableName"), value }), None, _) => ResourceParts::Keyed(value?),
        ("Tables", ..) => return Err(malformed("A table in the list is written Tables('name').")),
        (_, Some(Key { name: Some("PartitionKey"), value: Ok(value) }), None, _) => {
            ResourceParts::Partition(name, value)
        }
        (_, Some(first), Some(second), 2) => match (first.name, second.name) {
            (Some("PartitionKey"), Some("RowKey")) => ResourceParts::Entity(name, first.value?, second.value?),
            (Some("RowKey"), Some("PartitionKey")) => ResourceParts::Entity(name, second.value?, first.value?),
            (None, None) => {
                let reason = ReasonKind::UrlKeys.because("The keys in the URL have no names.");
                return Err(ServiceError::invalid_input(KEYS_MUST_BE_NAMED).because(reason));
            }
            _ => {
                return Err(malformed(
                    "The keys in the URL are not PartitionKey and RowKey; names are case-sensitive.",
                ));
            }
        },
        _ => ResourceParts::WrongKeyCount(name),
    };
    Ok(parts)
}

/// The message for two keys without names (02 §1).
const KEYS_MUST_BE_NAMED: &str = "Segments with multiple key values must specify them in 'name=value' form.";

/// A key in the parentheses of a segment.
struct Key<'a> {
    name: Option<&'a str>,
    /// An error if the value is not a string.
    value: Result<Cow<'a, str>, ServiceError>,
}

/// The keys in the parentheses of a segment. Only as many are kept as an entity has.
#[derive(Default)]
struct Keys<'a> {
    first: Option<Key<'a>>,
    second: Option<Key<'a>>,
    count: usize,
}

impl<'a> Keys<'a> {
    /// Parses the text between the parentheses. Errors of the lexer have the messages of 04 §7. The service splits a
    /// path at slashes before it reads the keys, so with a slash, no key is complete.
    ///
    /// UNVERIFIED (02 §1): the comma between two keys is optional, as in the OData library of the service.
    fn parse(text: &'a str) -> Result<Self, ServiceError> {
        // No keys are that long, and messages contain the text.
        if text.len() > FILTER_TEXT_BYTES_MAX {
            return Err(malformed("The keys in the URL are too long."));
        }
        let mut lexer = Lexer::new(text);
        let mut next = || {
            lexer.next().map_err(|error| {
                if text.contains(['/', '\\']) {
                    return malformed("A key in the URL contains a slash, or its quotes are wrong.");
                }
                let detail = "The quotes of a key in the URL are missing or wrong; a single quote in a key is doubled.";
                ServiceError::invalid_input(error.message).because(ReasonKind::UrlMalformed.because(detail))
            })
        };
        let mut keys = Self::default();
        let mut token = next()?;
        while token.kind != TokenKind::End {
            let mut name = None;
            if token.kind == TokenKind::Identifier {
                name = Some(token.text);
                if keys.first.as_ref().is_some_and(|first| first.name.is_none()) || next()?.kind != TokenKind::Equal {
                    return Err(malformed("A key in the URL has no '=' and no quotes: PartitionKey='p',RowKey='r'."));
                }
                token = next()?;
            }
            keys.push(name, token)?;
            token = next()?;
            if token.kind == TokenKind::Comma {
                token = next()?;
                if token.kind == TokenKind::End {
                    return Err(malformed("A comma follows the last key in the URL."));
                }
            }
        }
        Ok(keys)
    }

    fn push(&mut self, name: Option<&'a str>, token: Token<'a>) -> Result<(), ServiceError> {
        let value = match token.kind {
            TokenKind::Literal(LiteralKind::String) => Ok(string(token.text)),
            TokenKind::Literal(kind) if kind != LiteralKind::Null => {
                Err(malformed("A key in the URL is not a string in single quotes."))
            }
            _ => return Err(malformed("A key in the URL has no single quotes.")),
        };
        let fits = |key: &Key<'_>| key.name.is_some() == name.is_some() && (name.is_none() || key.name != name);
        if !self.first.iter().chain(&self.second).all(fits) {
            return Err(malformed("Only one key in the URL has a name, or both have the same."));
        }
        let slot = if self.count == 0 { &mut self.first } else { &mut self.second };
        slot.get_or_insert(Key { name, value });
        self.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entity(table: &str, partition: &str, row: &str) -> Resource<'static> {
        let own = |text: &str| Cow::Owned(text.to_owned());
        Resource::Entity { table: own(table), partition: own(partition), row: own(row) }
    }

    #[test]
    fn both_styles_of_addresses() {
        let domains = ["tables.example.net".to_owned()];
        for (host, path, account, secondary, base, resource) in [
            ("127.0.0.1:10002", "/acct/Tables", Some("acct"), false, "/acct", Resource::Tables),
            ("127.0.0.1:10002", "/acct", Some("acct"), false, "/acct", Resource::Service),
            ("127.0.0.1:10002", "/acct/", Some("acct"), false, "/acct", Resource::Service),
            ("127.0.0.1:10002", "/acct//", Some("acct"), false, "/acct", Resource::Service),
            ("127.0.0.1:10002", "/acct//Tables", Some("acct"), false, "/acct", Resource::Tables),
            ("acct.table.core.example", "//Tables", Some("acct"), false, "", Resource::Tables),
            ("127.0.0.1", "/acct-secondary//acct//", Some("acct"), true, "/acct-secondary//acct", Resource::Service),
            ("127.0.0.1", "/acct-secondary//t", Some("acct"), true, "/acct-secondary", Resource::Entities("t".into())),
            ("localhost", "/acct/$batch", Some("acct"), false, "/acct", Resource::Batch),
            ("localhost", "/acct/%24batch", Some("acct"), false, "/acct", Resource::Batch),
            ("acct.table.core.example", "/Tables()", Some("acct"), false, "", Resource::Tables),
            ("acct.table.localhost:10002", "/$metadata", Some("acct"), false, "", Resource::Metadata),
            ("acct-secondary.table.core.example", "/", Some("acct"), true, "", Resource::Service),
            ("acct.tables.example.net", "/t()", Some("acct"), false, "", Resource::Entities("t".into())),
            ("acct.other.example.net", "/acct/t", Some("acct"), false, "/acct", Resource::Entities("t".into())),
            ("127.0.0.1", "/acct-secondary/t", Some("acct"), true, "/acct-secondary", Resource::Entities("t".into())),
            ("127.0.0.1", "/acct-secondary/acct/", Some("acct"), true, "/acct-secondary/acct", Resource::Service),
            ("127.0.0.1", "/NotAnAccount/t", None, false, "/NotAnAccount", Resource::Entities("t".into())),
        ] {
            let target = Target::parse(host, path, &domains);
            assert_eq!(target.account.as_ref().map(AccountName::as_str), account, "{host}{path}");
            assert_eq!((target.secondary, target.base_path), (secondary, base), "{host}{path}");
            assert_eq!(target.resource().unwrap(), resource, "{host}{path}");
        }
    }

    #[test]
    fn a_default_account_is_for_urls_without_a_known_account() {
        let default = AccountName::new("other").unwrap();
        for (host, path, account, base, resource) in [
            ("localhost:8902", "/Tables", "other", "", Resource::Tables),
            ("localhost:8902", "/", "other", "", Resource::Service),
            ("localhost:8902", "/t()", "other", "", Resource::Entities("t".into())),
            ("localhost:8902", "/acct/t", "acct", "/acct", Resource::Entities("t".into())),
            ("acct.table.core.example", "/t", "acct", "", Resource::Entities("t".into())),
        ] {
            let target = Target::parse(host, path, &[]).or_in(&default, |name| name.as_str() == "acct");
            assert_eq!(target.account.as_ref().map(AccountName::as_str), Some(account), "{host}{path}");
            assert_eq!(target.base_path, base, "{host}{path}");
            assert_eq!(target.resource().unwrap(), resource, "{host}{path}");
        }
    }

    #[test]
    fn entity_addresses_of_different_clients_name_the_same_entity() {
        for path in [
            "/a/t(PartitionKey='O%27%27Neil%20%26%20S%C3%B6hne',RowKey='a%20b%25d%2Be')",
            "/a/t(PartitionKey='O''Neil%20%26%20S%C3%B6hne',RowKey='a%20b%25d+e')",
            "/a/t(RowKey='a%20b%25d+e', PartitionKey = 'O''Neil%20%26%20S%C3%B6hne')",
            "/a/t%28PartitionKey=%27O''Neil%20%26%20S%C3%B6hne%27%2CRowKey='a%20b%25d+e'%29",
        ] {
            let target = Target::parse("127.0.0.1", path, &[]);
            assert_eq!(target.resource().unwrap(), entity("t", "O'Neil & Söhne", "a b%d+e"), "{path}");
        }
        let empty = Target::parse("127.0.0.1", "/a/t(PartitionKey='',RowKey='')", &[]);
        assert_eq!(empty.resource().unwrap(), entity("t", "", ""));
        let slash = Target::parse("127.0.0.1", "/a/t(PartitionKey='a%2Fb',RowKey='c(,)')", &[]);
        assert_eq!(slash.resource().unwrap(), entity("t", "a/b", "c(,)"));
    }

    #[test]
    fn what_lies_below_a_table_is_told_apart_from_slashes_in_names_and_keys() {
        let resource = |path: &'static str| Target::parse("127.0.0.1", path, &[]).resource().unwrap();
        for path in ["/a/t/Tables", "/a/t/Tables()", "/a/t/%24batch", "/a/t/u/", "/a//t//u"] {
            assert_eq!(resource(path), Resource::Nested("t".into()), "{path}");
        }
        for path in ["/a/t/Tables('x')", "/a/t/Tables%28'x/y'%29"] {
            assert_eq!(resource(path), Resource::WrongKeyCount("t".into()), "{path}");
        }
        for path in ["/a/t/t(PartitionKey='x',RowKey='z')", "/a/t/u/(RowKey='z',PartitionKey='x')"] {
            assert_eq!(resource(path), Resource::NestedEntity("t".into()), "{path}");
        }
        for path in ["/a/t/", "/a/t//", "/a/t", "/a/t%2F%2f", "/a//t", "/a/%2f/t//"] {
            assert_eq!(resource(path), Resource::Entities("t".into()), "{path}");
        }
        for path in ["/a/t%2F%2F(PartitionKey='a/b',RowKey='c/')", "/a//t(PartitionKey='a/b',RowKey='c/')"] {
            assert_eq!(resource(path), entity("t", "a/b", "c/"), "{path}");
        }
        let partition = Resource::Partition { table: "t".into(), partition: "O'Neil".into() };
        assert_eq!(resource("/a/t(PartitionKey='O%27%27Neil')"), partition);
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for path in [
            "/a/t(PartitionKey='x',RowKey='y'",
            "/a/t(PartitionKey='x',RowKey='y')z",
            "/a/t(PartitionKey=x,RowKey='y')",
            "/a/t(PartitionKey='x',PartitionKey='y')",
            "/a/t(partitionkey='x',rowkey='y')",
            "/a/t(PartitionKey='x',RowKey='y',)",
            "/a/t(PartitionKey='x','y')",
            "/a/t('x',RowKey='y')",
            "/a/t(PartitionKey='x',RowKey=5)",
            "/a/t(PartitionKey='x',RowKey=guid'y')",
            "/a/t(PartitionKey='x',RowKey=null)",
            "/a/t(PartitionKey='x';RowKey='y/')",
            "/a/t(PartitionKey='x\\y';RowKey='y')",
            // The first quote ends the key, and the next two enclose what follows (reported).
            "/a/t(PartitionKey='x'y',RowKey='z')",
            "/a/b/c/d",
            "/a/Tables/b",
            "/a/$batch/b",
            "/a/b()/c",
            "/a/b/c/Tables('x')/d",
            "/a/b/c(PartitionKey='x')",
            "/a/b/c/d(PartitionKey='x',RowKey='y')",
            "/a/b/Tables('x'",
            "/a/t%FF",
            "/a/Tables('x'",
            "/a/Tables(x)",
            "/a/t(",
        ] {
            let target = Target::parse("127.0.0.1", path, &[]);
            assert_eq!(target.resource(), Err(ServiceError::malformed_address()), "{path}");
        }
        let long = format!("t('{}')", "x".repeat(FILTER_TEXT_BYTES_MAX));
        assert_eq!(Resource::parse(&long), Err(ServiceError::malformed_address()));
    }

    #[test]
    fn errors_of_the_lexer_have_their_messages() {
        for (keys, message) in [
            // The first two are reported.
            ("PartitionKey='one',RowKey='two'three'", "There is an unterminated string literal at position 37 in '…'."),
            (
                "PartitionKey='\"A'aaa\"_bbbb3',RowKey='\"A'aaa\"_bbbb3'",
                "Syntax error: character '\"' is not valid at position 20 in '…'.",
            ),
            ("PartitionKey='a,RowKey='b'", "There is an unterminated string literal at position 26 in '…'."),
            ("PartitionKey='é😀',RowKey='b", "There is an unterminated string literal at position 28 in '…'."),
            ("PartitionKey='x';RowKey='y'", "Syntax error: character ';' is not valid at position 16 in '…'."),
            ("PartitionKey=1.,RowKey='y'", "A digit was expected at position 15 in '…'."),
            ("PartitionKey=guid'", "There is an unterminated literal at position 18 in '…'."),
            ("'x','y'", "Segments with multiple key values must specify them in 'name=value' form."),
        ] {
            let path = format!("t({keys})").replace('%', "%25");
            let expected = ServiceError::invalid_input(message.replace('…', keys));
            assert_eq!(Resource::parse(&path), Err(expected), "{keys}");
        }
    }

    #[test]
    fn a_table_with_a_wrong_number_of_keys_is_told_apart_from_a_malformed_address() {
        for path in ["t('x')", "t(RowKey='x')", "t(5)", "t(PartitionKey='x',RowKey='y',X='z')", "t('x''y' 'z' 'u')"] {
            assert_eq!(Resource::parse(path), Ok(Resource::WrongKeyCount("t".into())), "{path}");
        }
        assert_eq!(Resource::parse("t(PartitionKey='p'RowKey='r')"), Ok(entity("t", "p", "r")));
    }

    #[test]
    fn a_secondary_path_may_be_signed_with_or_without_its_suffix() {
        let paths = |path: &'static str| Target::parse("127.0.0.1", path, &[]).signed_paths().collect::<Vec<_>>();
        assert_eq!(paths("/acct/t"), ["/acct/t"]);
        assert_eq!(paths("/acct-secondary/t"), ["/acct-secondary/t", "/acct/t"]);
        assert_eq!(paths("/acct-secondary/acct/"), ["/acct-secondary/acct/", "/acct/"]);
        assert_eq!(paths("/acct//t"), ["/acct//t"]);
        assert_eq!(paths("/acct-secondary//t"), ["/acct-secondary//t", "/acct//t"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(partition in "[^/]{0,8}", row in "[^/]{0,8}") {
            let mut path = b"/acct/".to_vec();
            crate::uri::write_entity_address(&mut path, "tab", &partition, &row);
            let path = String::from_utf8(path).unwrap();
            let target = Target::parse("127.0.0.1", &path, &[]);
            prop_assert_eq!(target.resource().unwrap(), entity("tab", &partition, &row));
        }

        #[test]
        fn any_path_is_read_without_panic(host in "[a-z.:0-9-]{0,20}", path in "/[ -~é%()',=]{0,60}") {
            let _ = Target::parse(&host, &path, &["x.y".to_owned()]).resource();
        }
    }
}
