//! The members of an object, and what follows from their names: which are keys, which become properties, and which
//! annotate others.
//!
//! Invariant: what is read after another object is what it would be if it were read alone.

use super::plain::{self, Value};
use super::read::Text;
use crate::entity_body::{BodyError, check_name};
use model::limits::JSON_MEMBERS_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

const ETAG_ANNOTATION: &str = "odata.etag";
const TYPE_ANNOTATION: &str = "@odata.type";
/// Up to this many members are compared one with another, which is faster than anything that orders them.
const FEW_MEMBERS: usize = 32;
/// So many members have room from the beginning.
const USUAL_MEMBERS: usize = 20;

/// The members of an object, in their order.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    list: Vec<Member<'a>>,
    partition: Key,
    row: Key,
    timestamp: Option<usize>,
    etag: Option<usize>,
    has_key_twice: bool,
    /// Whether members were dropped because there are more than any entity has.
    has_too_many: bool,
    /// Whether all properties are known to have names that properties can have.
    has_good_names: bool,
    /// Whether the names stand in the body as they are here.
    is_plain: bool,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) value: Value<'a>,
    role: Role,
    /// Where the annotation stands that declares the type of this property.
    declared_at: Option<usize>,
}

/// What a member is to an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// What is to become a property.
    Property,
    /// The declaration of the type of what has the name in front of the suffix.
    Type,
    /// A key, or what is not stored.
    Other,
}

/// Where a key stands, and where its type is declared.
#[derive(Debug, Default)]
struct Key {
    at: Option<usize>,
    declared_at: Option<usize>,
}

impl Member<'_> {
    /// One of the bits of a word, which names share seldom.
    fn mark(&self) -> u64 {
        let name = self.name.as_bytes();
        let [first, last] = [name.first(), name.last()].map(|byte| byte.copied().map_or(0, usize::from));
        1 << ((5 * first + 3 * last + name.len()) % 64)
    }

    /// Whether this is a property of this name. Most names differ in length or at the beginning.
    fn is_named(&self, name: &str) -> bool {
        let (own, name) = (self.name.as_bytes(), name.as_bytes());
        self.role == Role::Property && own.len() == name.len() && own.first() == name.first() && own == name
    }

    /// The name of what this declares the type of.
    fn annotated(&self) -> Option<&str> {
        let name = if self.role == Role::Type { self.name.strip_suffix(TYPE_ANNOTATION)? } else { return None };
        // An annotation of an annotation is dropped with the annotation itself.
        (!name.contains('@') && !name.starts_with("odata.")).then_some(name)
    }
}

impl<'a> Members<'a> {
    /// Reads an object. One that has the members of the one before, as the neighbours in a batch mostly have, is read
    /// faster, since what follows from their names is known. One with too many members is read to its end, which tells
    /// whether it is an object at all, but they are not kept: each takes many times what it takes in the body.
    pub(super) fn read(&mut self, body: &'a [u8]) -> Result<(), BodyError> {
        let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
        let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
        if self.is_plain && self.read_again(text).is_some() {
            return Ok(());
        }
        // Nothing is left of what could not be read.
        *self = Self { list: std::mem::take(&mut self.list), ..Self::default() };
        self.list.clear();
        let read = self.read_anew(text);
        if read.is_err() {
            *self = Self::default();
        }
        read
    }

    /// Reads an object whose members have the same names in the same order; `None`, perhaps after some of them, if it has
    /// not, or is not plain.
    fn read_again(&mut self, text: &'a str) -> Option<()> {
        plain::values(text, self.list.iter_mut().map(|member| (&*member.name, &mut member.value)))
    }

    fn read_anew(&mut self, text: &'a str) -> Result<(), BodyError> {
        self.list.reserve(USUAL_MEMBERS);
        self.is_plain = plain::members(text, |name, value| self.add(Cow::Borrowed(name), value)).is_some();
        if !self.is_plain {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            *self = deserializer.deserialize_map(MembersVisitor).map_err(|_| BodyError::Malformed)?;
            deserializer.end().map_err(|_| BodyError::Malformed)?;
        }
        if !self.has_unique_names() {
            return Err(BodyError::Malformed);
        }
        if self.has_too_many {
            return Err(BodyError::TooManyProperties);
        }
        self.link();
        Ok(())
    }

    fn add(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        if self.list.len() == JSON_MEMBERS_MAX {
            self.has_too_many = true;
            return;
        }
        let place = Some(self.list.len());
        // Nearly all names are those of properties, which hold neither of the two marks of an annotation.
        let may_annotate = name.bytes().any(|b| matches!(b, b'@' | b'.'));
        let mut role = Role::Other;
        if may_annotate && name.ends_with(TYPE_ANNOTATION) {
            // What it declares is found once all names are known.
            role = Role::Type;
        } else if may_annotate && (name.starts_with("odata.") || name.contains("@odata.")) || name == TIMESTAMP {
            // Annotations and the Timestamp are accepted and never stored (01 §4).
            if name == TIMESTAMP {
                self.timestamp = place;
            } else if name == ETAG_ANNOTATION {
                self.etag = place;
            }
        } else if name == PARTITION_KEY {
            self.has_key_twice |= self.partition.at.is_some();
            self.partition.at = place;
        } else if name == ROW_KEY {
            self.has_key_twice |= self.row.at.is_some();
            self.row.at = place;
        } else {
            role = Role::Property;
        }
        self.list.push(Member { name, value, role, declared_at: None });
    }

    /// Whether no name is given twice, which makes the body malformed (03 §2.1).
    ///
    /// UNVERIFIED (01 §4): the documentation has a code of its own, which nobody has seen.
    fn has_unique_names(&self) -> bool {
        if self.list.len() > FEW_MEMBERS {
            let sorted = self.sorted_properties();
            return sorted.is_sorted_by(|one, next| self.name_at(*one) != self.name_at(*next)) && !self.has_key_twice;
        }
        // A name with a mark that no name before it has is none of these; the others are compared.
        let mut marks = 0;
        let is_repeated = |(place, property): (usize, &Member<'a>)| {
            let mark = property.mark();
            let is_suspect = marks & mark != 0;
            marks |= mark;
            is_suspect && self.list.iter().take(place).any(|before| before.is_named(&property.name))
        };
        let mut properties = self.list.iter().enumerate().filter(|(_, member)| member.role == Role::Property);
        !properties.any(is_repeated) && !self.has_key_twice
    }

    /// Finds what each annotation declares the type of; the last one of a name counts.
    fn link(&mut self) {
        let sorted = (self.list.len() > FEW_MEMBERS).then(|| self.sorted_properties());
        for at in 0..self.list.len() {
            let Some(name) = self.list.get(at).and_then(Member::annotated) else { continue };
            let found = match &sorted {
                Some(sorted) => {
                    let found = sorted.binary_search_by(|place| self.name_at(*place).cmp(name)).ok();
                    found.and_then(|found| sorted.get(found).copied())
                }
                // Nearly all annotations stand in front of what they annotate.
                None if self.is_property_at(at + 1, name) => Some(at + 1),
                None => (0..self.list.len()).find(|place| self.is_property_at(*place, name)),
            };
            let declared_at = match (found, name) {
                (Some(place), _) => self.list.get_mut(place).map(|property| &mut property.declared_at),
                (None, PARTITION_KEY) => Some(&mut self.partition.declared_at),
                (None, ROW_KEY) => Some(&mut self.row.declared_at),
                (None, _) => None,
            };
            if let Some(declared_at) = declared_at {
                *declared_at = Some(at);
            }
        }
    }

    /// Where the properties stand, in the order of their names.
    fn sorted_properties(&self) -> Vec<usize> {
        let properties = self.list.iter().enumerate().filter(|(_, member)| member.role == Role::Property);
        let mut sorted: Vec<usize> = properties.map(|(place, _)| place).collect();
        sorted.sort_unstable_by_key(|place| self.name_at(*place));
        sorted
    }

    fn name_at(&self, place: usize) -> &str {
        self.list.get(place).map_or("", |member| &member.name)
    }

    fn is_property_at(&self, place: usize, name: &str) -> bool {
        self.list.get(place).is_some_and(|member| member.is_named(name))
    }

    /// Looks for a property that cannot have its name.
    pub(super) fn check_names(&mut self) -> Result<(), BodyError> {
        if !self.has_good_names {
            self.properties().try_for_each(|property| check_name(&property.name))?;
            self.has_good_names = true;
        }
        Ok(())
    }

    /// What is to become properties.
    pub(super) fn properties(&self) -> impl Iterator<Item = &Member<'a>> + Clone {
        self.list.iter().filter(|member| member.role == Role::Property)
    }

    /// The value that declares the type of a property.
    pub(super) fn declared(&self, property: &Member<'a>) -> Option<Value<'a>> {
        self.value(property.declared_at)
    }

    /// The value of the partition key, and the one that declares its type.
    pub(super) fn partition(&self) -> (Option<Value<'a>>, Option<Value<'a>>) {
        (self.value(self.partition.at), self.value(self.partition.declared_at))
    }

    /// The value of the row key, and the one that declares its type.
    pub(super) fn row(&self) -> (Option<Value<'a>>, Option<Value<'a>>) {
        (self.value(self.row.at), self.value(self.row.declared_at))
    }

    /// The value of the Timestamp.
    pub(super) fn timestamp(&self) -> Option<Value<'a>> {
        self.value(self.timestamp)
    }

    /// The value of the `ETag`.
    pub(super) fn etag(&self) -> Option<Value<'a>> {
        self.value(self.etag)
    }

    fn value(&self, at: Option<usize>) -> Option<Value<'a>> {
        self.list.get(at?).map(|member| member.value)
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
        while let Some(name) = map.next_key::<Text<'de>>()? {
            let raw: &RawValue = map.next_value()?;
            members.add(name.0, Value::Raw(raw.get()));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity_body::Keys;
    use crate::json::{EntityReader, read_entity};

    #[test]
    fn a_body_is_read_the_same_whatever_was_read_before() {
        let many = |name: &str| {
            let members: Vec<String> = (0..40)
                .map(|number| format!(r#""n{number}@odata.type":"Edm.Int64","n{number}":"{number}""#))
                .chain([format!(r#""PartitionKey":"p","RowKey":"r","{name}":1"#)])
                .collect();
            format!("{{{}}}", members.join(","))
        };
        let (wide, wider, twice) = (many("a"), many("b"), many("n7"));
        let bodies = [
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","b@odata.type":"Edm.Int64","b":"1"}"#,
            r#"{"PartitionKey":"q","RowKey":"s","a":"of another length","b@odata.type":"Edm.Int64","b":"23"}"#,
            r#" { "PartitionKey" : "p" , "RowKey":"r","a":7,"b@odata.type":"Edm.Int32","b":1 } "#,
            r#"{"PartitionKey":"p","RowKey":"r","a":null,"b@odata.type":"Edm.Guid","b":null}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","b@odata.type":"Edm.Int64","b":"x"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","b@odata.type":5,"b":"1"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","b@odata.type":"Edm.Int64","b":"1",}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","b@odata.type":"Edm.Int64","b":"1"}x"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"\u0078","b@odata.type":"Edm.Int64","b":"1"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","\u0061":"x","b@odata.type":"Edm.Int64","b":"1"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a\":1,\"b":2}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":1,"b":2}"#,
            r#"{"PartitionKey":"p","RowKey":"r","b":"x","a@odata.type":"Edm.Int64","a":"1"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","b":"1","b@odata.type":"Edm.Int64","a":"x"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","b@odata.type":"Edm.Int64"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","b@odata.type":"Edm.Int64","b":"1","b@odata.type":"Edm.Int32"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a":"x","a":"x"}"#,
            r#"{"PartitionKey":"p","RowKey":"r","RowKey":"r"}"#,
            r#"{"PartitionKey":"p","RowKey@odata.type":"Edm.Int32","RowKey":"r"}"#,
            r#"{"PartitionKey":"p","RowKey@odata.type":"Edm.String","RowKey":"r"}"#,
            r#"{"PartitionKey":"p","RowKey@odata.type":"Edm.Int32"}"#,
            r#"{"PartitionKey":null,"RowKey":"r","a-b":1}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a-b":1}"#,
            r#"{"PartitionKey":"p","RowKey":"r","a-b":{}}"#,
            r#"{"odata.etag":"x","Timestamp@odata.type":"Edm.DateTime","Timestamp":"x","x@odata.y":1}"#,
            "{}",
            "{",
            "",
            &wide,
            &wider,
            &twice,
        ];
        for keys in [Keys::InBody, Keys::InTarget] {
            for first in bodies {
                for second in bodies {
                    let mut reader = EntityReader::default();
                    for body in [first, second, second, first] {
                        let alone = read_entity(body.as_bytes(), keys);
                        assert_eq!(reader.read(body.as_bytes(), keys), alone, "{first} and {second}: {body}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_more_members_are_kept_than_there_may_be() {
        let numbered: Vec<String> = (0..JSON_MEMBERS_MAX - 3).map(|number| format!("\"n{number}\":1,")).collect();
        let keys = r#""PartitionKey":"p","RowKey":"r""#;
        // The escape is for the general parser.
        for one in [r#""a":1,"#, r#""\u0061":1,"#] {
            let most = one.to_owned() + &numbered.concat();
            for (body, expected) in [
                (format!("{{{most}{keys}}}"), Ok(JSON_MEMBERS_MAX)),
                (format!("{{{most}{keys},\"x\":1}}"), Err(BodyError::TooManyProperties)),
                // Wherever the keys stand.
                (format!("{{{most}\"x\":1,\"y\":1,\"z\":1,{keys}}}"), Err(BodyError::TooManyProperties)),
                (format!("{{{most}{keys},\"x\":1,\"x\":tru}}"), Err(BodyError::Malformed)),
                (format!("{{{most}{keys},\"x\":1,\"x\":1"), Err(BodyError::Malformed)),
                (format!("{{{most}{keys},\"x\":1}}x"), Err(BodyError::Malformed)),
                (format!("{{{most}\"n7\":1,{keys},\"x\":1}}"), Err(BodyError::Malformed)),
            ] {
                let mut members = Members::default();
                let read = members.read(body.as_bytes());
                assert_eq!(read.map(|()| members.list.len()), expected, "{}", &body[body.len() - 60..]);
            }
        }
        let body = format!("{{{}}}", vec!["\"\":0"; 100_000].join(","));
        let mut members = Members::default();
        plain::members(&body, |name, value| members.add(Cow::Borrowed(name), value)).unwrap();
        assert_eq!((members.list.len(), members.has_too_many), (JSON_MEMBERS_MAX, true));
    }
}
