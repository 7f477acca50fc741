//! What the code of the derive macro calls, and the operations by key. It is no part of the interface of the crate.

use super::error::KeyName;
use super::properties::decode;
use super::{DateTime, ETag, EntityError, EntityKey, Properties, PropertyBag, PropertyField};
use model::name::TIMESTAMP;
use model::{EdmValue, KeyText};

pub use super::template::{KeyReader, KeyWriter};

/// Reads the instant of the last write.
pub fn read_timestamp<T: PropertyField>(bag: &PropertyBag) -> Result<T, EntityError> {
    decode(TIMESTAMP, bag.timestamp.map(EdmValue::DateTime))
}

/// Encodes the instant of the last write.
pub fn write_timestamp<T: PropertyField>(value: &T) -> Result<Option<DateTime>, EntityError> {
    let encoded = value.encode().map_err(|error| EntityError::of_value(TIMESTAMP, error))?;
    match encoded.as_ref().map(|value| value.as_edm()) {
        None => Ok(None),
        Some(value) => decode(TIMESTAMP, Some(value)),
    }
}

/// The version of an entity.
pub fn etag(etag: &Option<ETag>) -> Option<ETag> {
    etag.clone()
}

/// The key of two texts.
pub fn key(partition: &str, row: &str) -> Result<EntityKey, EntityError> {
    let text =
        |key, text: &str| KeyText::new(text).map_err(|error| EntityError::Key { key, text: Box::from(text), error });
    Ok(EntityKey { partition: text(KeyName::Partition, partition)?, row: text(KeyName::Row, row)? })
}

/// Adds a property that is not there yet.
pub fn write<T: PropertyField>(bag: &mut PropertyBag, name: &str, value: &T) -> Result<(), EntityError> {
    match value.encode().map_err(|error| EntityError::of_value(name, error))? {
        Some(value) => bag.properties.append(name, value.as_edm()),
        None => Ok(()),
    }
}

/// Adds the properties that the type does not know. None of them may have the name of one that it knows.
pub fn write_rest(bag: &mut PropertyBag, rest: &Properties, known: &[&str]) -> Result<(), EntityError> {
    for (name, value) in rest.iter() {
        if known.contains(&name) {
            return Err(EntityError::Duplicate { property: Box::from(name) });
        }
        bag.properties.append(name, value)?;
    }
    Ok(())
}

/// Keeps a property that the type does not know.
pub fn keep(rest: &mut Properties, name: &str, value: EdmValue<'_>) -> Result<(), EntityError> {
    rest.append(name, value)
}

/// Decodes a property.
pub fn read<T: PropertyField>(name: &str, value: Option<EdmValue<'_>>) -> Result<T, EntityError> {
    decode(name, value)
}

/// Decodes a property; if it is missing, the field has its default.
pub fn read_or<T: PropertyField>(
    name: &str,
    value: Option<EdmValue<'_>>,
    default: impl FnOnce() -> T,
) -> Result<T, EntityError> {
    value.map_or_else(|| Ok(default()), |value| decode(name, Some(value)))
}

/// Decodes a property; if it is missing or does not fit, the field has its default.
pub fn read_lenient<T: PropertyField>(
    _name: &str,
    value: Option<EdmValue<'_>>,
    default: impl FnOnce() -> T,
) -> Result<T, EntityError> {
    Ok(value.and_then(|value| T::decode(value).ok()).unwrap_or_else(default))
}

/// Adds the property that names the kind of an entity.
pub fn with_kind(mut bag: PropertyBag, tag: &str, kind: &str) -> Result<PropertyBag, EntityError> {
    if bag.properties.get(tag).is_some() {
        return Err(EntityError::Duplicate { property: Box::from(tag) });
    }
    bag.properties.append(tag, EdmValue::String(kind))?;
    Ok(bag)
}

/// The kind of an entity.
pub fn kind(bag: &PropertyBag, tag: &str) -> Option<String> {
    match bag.properties.get(tag) {
        Some(EdmValue::String(kind)) => Some(kind.to_owned()),
        _ => None,
    }
}

/// The error of a kind that no variant is of.
pub fn unknown_kind(tag: &str, kind: Option<String>) -> EntityError {
    EntityError::UnknownKind { tag: Box::from(tag), kind: kind.map(String::into_boxed_str) }
}

/// The lists one after the other. `N` is the sum of their lengths.
pub const fn concat<const N: usize>(lists: &[&[&'static str]]) -> [&'static str; N] {
    let mut all = [""; N];
    let (mut at, mut left) = (0, lists);
    while let Some((list, more)) = left.split_first() {
        let mut names = *list;
        while let Some((name, rest)) = names.split_first() {
            if let Some((_, tail)) = all.split_at_mut_checked(at)
                && let Some(slot) = tail.first_mut()
            {
                *slot = name;
            }
            at += 1;
            names = rest;
        }
        left = more;
    }
    all
}

#[cfg(feature = "json")]
mod json {
    //! Fields of any type as one string of JSON. A field that is `null` in JSON is not written.

    use super::{EdmValue, EntityError, PropertyBag};
    use model::EdmType;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    const NULL: &str = "null";

    /// Adds a property that is not there yet.
    pub fn write_json<T: Serialize>(bag: &mut PropertyBag, name: &str, value: &T) -> Result<(), EntityError> {
        let text = serde_json::to_string(value).map_err(|error| invalid(name, &error))?;
        if text == NULL { Ok(()) } else { bag.properties.append(name, EdmValue::String(&text)) }
    }

    /// Decodes a property.
    pub fn read_json<T: DeserializeOwned>(name: &str, value: Option<EdmValue<'_>>) -> Result<T, EntityError> {
        match value {
            Some(EdmValue::String(text)) => serde_json::from_str(text).map_err(|error| invalid(name, &error)),
            Some(value) => {
                Err(EntityError::Type { property: Box::from(name), expected: EdmType::String, found: value.edm_type() })
            }
            None => serde_json::from_str(NULL)
                .map_err(|_| EntityError::Missing { property: Box::from(name), expected: EdmType::String }),
        }
    }

    /// Decodes a property; if it is missing, the field has its default.
    pub fn read_or_json<T: DeserializeOwned>(
        name: &str,
        value: Option<EdmValue<'_>>,
        default: impl FnOnce() -> T,
    ) -> Result<T, EntityError> {
        if value.is_none() { Ok(default()) } else { read_json(name, value) }
    }

    /// Decodes a property; if it is missing or does not fit, the field has its default.
    pub fn read_lenient_json<T: DeserializeOwned>(
        name: &str,
        value: Option<EdmValue<'_>>,
        default: impl FnOnce() -> T,
    ) -> Result<T, EntityError> {
        if value.is_none() { Ok(default()) } else { Ok(read_json(name, value).unwrap_or_else(|_| default())) }
    }

    fn invalid(name: &str, error: &serde_json::Error) -> EntityError {
        EntityError::Value { property: Box::from(name), reason: format!("not the JSON of the field: {error}").into() }
    }
}

#[cfg(feature = "json")]
pub use json::{read_json, read_lenient_json, read_or_json, write_json};
