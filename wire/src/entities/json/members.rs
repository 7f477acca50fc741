//! The members of an object: keys, properties, and the type annotations of other members.
//!
//! Invariants:
//!
//! 1. A value is kept as its JSON text and parsed only where its type is known.
//! 2. At most [`JSON_MEMBERS_MAX`] members are kept, and parsing takes at most `n log n` time, where `n` is the size of
//!    the body.
//!
//! This module must not depend on the types of values.

use crate::entity_body::{BodyError, check_name};
use crate::reason::{Reason, ReasonKind};
use crate::version::Version;
use model::EntityLimits;
use model::limits::JSON_MEMBERS_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

const ETAG_ANNOTATION: &str = "odata.etag";
const TYPE_ANNOTATION: &str = "@odata.type";
const PARTITION_KEY_TYPE: &str = "PartitionKey@odata.type";
const ROW_KEY_TYPE: &str = "RowKey@odata.type";
const USUAL_MEMBERS: usize = 16;
/// In a record, a property takes up to this many bytes more than its name and its JSON text: for its type, its lengths,
/// and a number of few digits.
const RECORD_BYTES_EXTRA: usize = 16;

/// The members of an object. Values are JSON texts without surrounding white space.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    /// The members that will become properties, in the order of the body.
    pub(super) properties: Vec<Member<'a>>,
    pub(super) partition: Key<'a>,
    pub(super) row: Key<'a>,
    pub(super) timestamp: Option<&'a str>,
    pub(super) etag: Option<&'a str>,
    /// The type annotations that are not yet linked to their properties.
    types: Vec<TypeAnnotation<'a>>,
    /// The number of members so far, including those whose values are not kept.
    count: usize,
    has_key_twice: bool,
    has_too_many: bool,
}

#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) value: &'a str,
    /// The raw value of the type annotation.
    pub(super) declared_type: Option<&'a str>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) value: Option<&'a str>,
    pub(super) declared_type: Option<&'a str>,
}

#[derive(Debug)]
struct TypeAnnotation<'a> {
    name: Cow<'a, str>,
    value: &'a str,
    /// The index of the property that follows, which is usually the annotated one.
    next: usize,
}

/// A string, borrowed from the body unless it contains escapes.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl<'a> Members<'a> {
    /// Parses an object. If the object has too many members, it is still parsed to its end to check that it is
    /// well-formed, but the members are dropped, because each of them takes many times its size in the body.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, BodyError> {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let members = Self::deserialize(&mut deserializer).map_err(|_| BodyError::Malformed)?;
        deserializer.end().map_err(|_| BodyError::Malformed)?;
        members.checked()
    }

    /// Assigns the types to the properties, and checks what can only be checked once all members are known.
    pub(super) fn checked(mut self) -> Result<Self, BodyError> {
        self.link()?;
        if self.has_too_many { Err(BodyError::TooManyProperties) } else { Ok(self) }
    }

    /// Estimates the size of the record of the properties. No record is larger.
    pub(super) fn record_bytes(&self) -> usize {
        self.properties.iter().map(|property| property.name.len() + property.value.len() + RECORD_BYTES_EXTRA).sum()
    }

    /// Returns why [`Self::read`] failed, unless there were too many members.
    pub(super) fn defect(body: &'a [u8]) -> Reason {
        let kind = ReasonKind::BodyMalformed;
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        let text = match std::str::from_utf8(body) {
            Ok(text) => text,
            Err(error) => {
                return kind.because(format!("The body is not UTF-8 from byte {} on.", error.valid_up_to()));
            }
        };
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = Self::deserialize(&mut deserializer);
        match read.and_then(|members| deserializer.end().map(|()| members)) {
            Ok(members) => {
                let mut sorted: Vec<&str> = members.properties.iter().map(|property| &*property.name).collect();
                sorted.sort_unstable();
                let repeated = sorted.windows(2).find_map(|pair| pair.first().filter(|name| pair.last() == Some(name)));
                let name = repeated.map_or("PartitionKey or RowKey", |name| name);
                kind.because(format!("The property {name} is given more than once."))
            }
            // The message contains a value.
            Err(error) if error.is_data() => kind.because("The body is not a JSON object."),
            Err(error) => {
                let message = error.to_string();
                let problem = message.split(" at line ").next().unwrap_or_default();
                let (line, column) = (error.line(), error.column());
                kind.because(format!("The body is not valid JSON at line {line}, column {column}: {problem}."))
            }
        }
    }

    fn add(&mut self, name: Cow<'a, str>, value: &'a str) {
        if self.count == JSON_MEMBERS_MAX {
            self.has_too_many = true;
            return;
        }
        self.count += 1;
        match &*name {
            PARTITION_KEY => self.has_key_twice |= self.partition.value.replace(value).is_some(),
            ROW_KEY => self.has_key_twice |= self.row.value.replace(value).is_some(),
            PARTITION_KEY_TYPE => self.partition.declared_type = Some(value),
            ROW_KEY_TYPE => self.row.declared_type = Some(value),
            TIMESTAMP => self.timestamp = Some(value),
            ETAG_ANNOTATION => self.etag = Some(value),
            _ if name.ends_with(TYPE_ANNOTATION) => {
                self.types.push(TypeAnnotation { name, value, next: self.properties.len() });
            }
            // Other annotations are accepted and never stored (01 §4).
            _ if name.starts_with("odata.") || name.contains('@') && name.contains("@odata.") => {}
            _ => self.properties.push(Member { name, value, declared_type: None }),
        }
    }

    /// If a property has several annotations, the last one counts. A duplicate name makes the body malformed (03 §2.1).
    /// UNVERIFIED (01 §4): the documentation lists a separate error code for this case, which was never observed.
    fn link(&mut self) -> Result<(), BodyError> {
        let mut sorted: Vec<usize> = (0..self.properties.len()).collect();
        sorted.sort_unstable_by_key(|index| self.sort_key(*index));
        let has_equal_names = !sorted.is_sorted_by(|one, next| self.sort_key(*one) != self.sort_key(*next));
        if self.has_key_twice || has_equal_names {
            return Err(BodyError::Malformed);
        }
        for annotation in std::mem::take(&mut self.types) {
            let name = annotation.name.strip_suffix(TYPE_ANNOTATION).unwrap_or_default();
            let sought = Some((name.len(), name));
            let index = if self.sort_key(annotation.next) == sought {
                Some(annotation.next)
            } else {
                let found = sorted.binary_search_by_key(&sought, |index| self.sort_key(*index));
                found.ok().and_then(|found| sorted.get(found).copied())
            };
            if let Some(property) = index.and_then(|index| self.properties.get_mut(index)) {
                property.declared_type = Some(annotation.value);
            }
        }
        Ok(())
    }

    /// Returns the name of a property, preceded by its length. Most names differ in length, and lengths are faster to
    /// compare.
    fn sort_key(&self, index: usize) -> Option<(usize, &str)> {
        self.properties.get(index).map(|property| (property.name.len(), &*property.name))
    }

    pub(super) fn check_names(&self, limits: &EntityLimits) -> Result<(), BodyError> {
        self.properties.iter().try_for_each(|property| check_name(&property.name, Version::JSON, limits))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    /// The members are not checked yet.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::default();
        members.properties.reserve(USUAL_MEMBERS);
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let raw: &RawValue = map.next_value()?;
            members.add(name.0, raw.get());
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_members_are_kept_than_there_may_be() {
        let numbered: Vec<String> = (0..JSON_MEMBERS_MAX - 3).map(|number| format!("\"n{number}\":1,")).collect();
        let keys = r#""PartitionKey":"p","RowKey":"r""#;
        for one in [r#""a":1,"#, r#""\u0061":1,"#] {
            let most = one.to_owned() + &numbered.concat();
            for (body, expected) in [
                (format!("{{{most}{keys}}}"), Ok(JSON_MEMBERS_MAX)),
                (format!("{{{most}{keys},\"x\":1}}"), Err(BodyError::TooManyProperties)),
                // The position of the keys does not matter.
                (format!("{{{most}\"x\":1,\"y\":1,\"z\":1,{keys}}}"), Err(BodyError::TooManyProperties)),
                (format!("{{{most}{keys},\"x\":1,\"x\":tru}}"), Err(BodyError::Malformed)),
                (format!("{{{most}{keys},\"x\":1,\"x\":1"), Err(BodyError::Malformed)),
                (format!("{{{most}{keys},\"x\":1}}x"), Err(BodyError::Malformed)),
                (format!("{{{most}\"n7\":1,{keys},\"x\":1}}"), Err(BodyError::Malformed)),
            ] {
                let read = Members::read(body.as_bytes());
                assert_eq!(read.map(|members| members.count), expected, "{}", &body[body.len() - 60..]);
            }
        }
        let body = format!("{{{}}}", vec!["\"\":0"; 100_000].join(","));
        let members: Members<'_> = serde_json::from_str(&body).unwrap();
        assert_eq!((members.properties.len(), members.has_too_many), (JSON_MEMBERS_MAX, true));
    }
}
