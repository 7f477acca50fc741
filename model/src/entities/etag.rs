//! ETags and the conditions that compare them (01 §8).
//!
//! Invariant: an `ETag` is derived only from the Timestamp, so it is never stored.
//!
//! This module must not depend on which operations are conditional.

use crate::{DateTime, Dialect};
use std::borrow::Cow;
use std::fmt;

/// The version of an entity: the text form of its Timestamp, `W/"datetime'…'"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ETag(DateTime);

impl ETag {
    /// Returns the ETag of an entity with the given Timestamp.
    pub fn from_timestamp(timestamp: DateTime) -> Self {
        Self(timestamp)
    }

    /// Appends the ETag, for example `W/"datetime'2021-03-04T05%3A06%3A07.0801Z'"`.
    pub fn write_to(self, out: &mut Vec<u8>) {
        self.write_in(Dialect::Storage, out);
    }

    /// Appends the ETag as a dialect writes it.
    pub fn write_in(self, dialect: Dialect, out: &mut Vec<u8>) {
        out.extend_from_slice(b"W/\"datetime'");
        dialect.text(self.0).write_etag_to(out);
        out.extend_from_slice(b"'\"");
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(48);
        self.write_to(&mut out);
        f.write_str(std::str::from_utf8(&out).expect("only ASCII was written"))
    }
}

/// The condition of an `If-Match` header on the existing entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `*`: the entity must exist.
    Any,
    /// A weak ETag, without its `W/` prefix: the entity must exist and have this version.
    Matches(Box<str>),
}

/// The reason why an `If-Match` value is not a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionError {
    /// The value is neither `*` nor a single weak ETag.
    Malformed,
    /// The value is a weak ETag in a form that this service never generates, so no entity can match it.
    Foreign,
}

impl Condition {
    /// Returns the condition that an entity still has the version of the given Timestamp.
    pub fn from_timestamp(timestamp: DateTime) -> Self {
        let etag = ETag::from_timestamp(timestamp).to_string();
        Self::parse(&etag).expect("an ETag is a condition")
    }

    /// Parses an `If-Match` value of a dialect. An ETag with trailing zeros in its fraction (11 §3) is the one without
    /// them.
    pub fn parse_in(dialect: Dialect, header: &str) -> Result<Self, ConditionError> {
        let fraction = || Some(header.strip_suffix("Z'\"")?.rsplit_once('.')?.1);
        let zeros = match fraction().filter(|_| dialect == Dialect::Cosmos) {
            Some(digits) if digits.bytes().all(|b| b == b'0') => digits.len() + ".".len(),
            Some(digits) => digits.len() - digits.trim_end_matches('0').len(),
            None => 0,
        };
        let header = if zeros == 0 {
            Cow::Borrowed(header)
        } else {
            let end = header.len() - zeros - "Z'\"".len();
            Cow::Owned([header.get(..end).unwrap_or(header), "Z'\""].concat())
        };
        Self::parse(&header)
    }

    /// Parses an `If-Match` value (01 §8).
    pub fn parse(header: &str) -> Result<Self, ConditionError> {
        if header == "*" {
            return Ok(Self::Any);
        }
        let quoted = header.strip_prefix("W/").or_else(|| header.strip_prefix("w/"));
        let inner = quoted.and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'));
        let (Some(quoted), Some(inner)) = (quoted, inner.filter(|inner| !inner.contains('"'))) else {
            return Err(ConditionError::Malformed);
        };
        let instant = inner.strip_prefix("datetime'").and_then(|rest| rest.strip_suffix('\''));
        if instant.is_none_or(|instant| instant.contains('\'')) {
            return Err(ConditionError::Foreign);
        }
        Ok(Self::Matches(Box::from(quoted)))
    }

    /// Returns the only Timestamp that satisfies the condition, or `None` if the condition is `*` or no Timestamp
    /// satisfies it.
    pub fn timestamp(&self) -> Option<DateTime> {
        let Self::Matches(quoted) = self else { return None };
        let text = quoted.strip_prefix("\"datetime'")?.strip_suffix("'\"")?;
        let timestamp = DateTime::parse(&text.replace("%3A", ":")).ok()?;
        self.holds_for(timestamp).then_some(timestamp)
    }

    /// Returns whether an entity with the given Timestamp satisfies the condition. ETags are compared as strings, as
    /// the service does; dates are not parsed.
    pub fn holds_for(&self, timestamp: DateTime) -> bool {
        match self {
            Self::Any => true,
            Self::Matches(quoted) => {
                let mut current = Vec::with_capacity(48);
                ETag::from_timestamp(timestamp).write_to(&mut current);
                current.get(2..) == Some(quoted.as_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_of_cosmos_may_end_with_zeros() {
        for (fraction, ticks) in [(".1000000", 1_000_000), (".0000000", 0), (".1234567", 1_234_567), (".1", 1_000_000)]
        {
            let etag = format!("W/\"datetime'2021-03-04T05%3A06%3A07{fraction}Z'\"");
            let timestamp = DateTime::parse("2021-03-04T05:06:07Z").unwrap();
            let timestamp = DateTime::from_ticks(timestamp.ticks() + ticks).unwrap();
            let holds = |dialect| Condition::parse_in(dialect, &etag).unwrap().holds_for(timestamp);
            assert!(holds(Dialect::Cosmos), "{etag}");
            assert_eq!(holds(Dialect::Storage), !etag.contains("0Z"), "{etag}");
            let mut written = Vec::new();
            ETag::from_timestamp(timestamp).write_in(Dialect::Cosmos, &mut written);
            assert_eq!(written.len(), "W/\"datetime'2021-03-04T05%3A06%3A07.0000000Z'\"".len());
        }
        assert_eq!(Condition::parse_in(Dialect::Cosmos, "*"), Ok(Condition::Any));
        assert_eq!(Condition::parse_in(Dialect::Cosmos, ".0Z'\""), Err(ConditionError::Malformed));
    }

    #[test]
    fn the_text_is_the_trimmed_timestamp_with_escaped_colons() {
        let timestamp = DateTime::parse("2021-03-04T05:06:07.0801000Z").unwrap();
        assert_eq!(ETag::from_timestamp(timestamp).to_string(), "W/\"datetime'2021-03-04T05%3A06%3A07.0801Z'\"");
    }

    #[test]
    fn conditions() {
        let timestamp = DateTime::parse("2021-03-04T05:06:07.0801Z").unwrap();
        let current = ETag::from_timestamp(timestamp).to_string();
        assert!(Condition::parse("*").unwrap().holds_for(timestamp));
        assert!(Condition::parse(&current).unwrap().holds_for(timestamp));
        assert!(Condition::parse(&current.replace("W/", "w/")).unwrap().holds_for(timestamp));
        assert!(!Condition::parse(&current).unwrap().holds_for(timestamp.next()));
        assert_eq!(Condition::parse(&current).unwrap().timestamp(), Some(timestamp));
        assert_eq!(Condition::parse(&current), Ok(Condition::from_timestamp(timestamp)));
        for never in [
            "*",
            "W/\"datetime'2021-03-04T05:06:07.0801Z'\"",
            "W/\"datetime'2021-03-04T05%3A06%3A07.08010Z'\"",
            "W/\"datetime''\"",
        ] {
            assert_eq!(Condition::parse(never).unwrap().timestamp(), None, "{never}");
        }
        for foreign in ["W/\"other\"", "W/\"datetime''2021-03-04T05%3A06%3A07.0801Z''\"", "W/\"\""] {
            assert_eq!(Condition::parse(foreign), Err(ConditionError::Foreign), "{foreign}");
        }
        for malformed in ["", "\"strong\"", "plain", "W/", "W/\"", "W/\"a\", W/\"b\"", "**", "W/\"a\"b\""] {
            assert_eq!(Condition::parse(malformed), Err(ConditionError::Malformed), "{malformed}");
        }
    }
}
