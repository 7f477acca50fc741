use super::EncryptionError;
use super::metadata::{KEY_DETAILS, PROPERTY_DETAILS};
use model::limits::BINARY_BYTES_MAX;
use model::{EdmValue, RecordBuilder};

pub(super) fn values(properties: &RecordBuilder) -> impl Iterator<Item = (&str, EdmValue<'_>)> {
    properties.properties().map(|property| {
        let property = property.expect("a builder contains only valid properties");
        let name = property.name().expect("a builder contains only valid names");
        (name, property.value().expect("a builder contains only valid values"))
    })
}

pub(super) fn own_values(properties: &RecordBuilder) -> impl Iterator<Item = (&str, EdmValue<'_>)> {
    values(properties).filter(|(name, _)| ![KEY_DETAILS, PROPERTY_DETAILS].contains(name))
}

/// Fails if the value is too large for a Binary.
pub(super) fn push_encrypted(out: &mut RecordBuilder, name: &str, bytes: &[u8]) -> Result<(), EncryptionError> {
    if bytes.len() > BINARY_BYTES_MAX {
        return Err(EncryptionError::TooLarge { property: name.to_owned(), bytes: bytes.len() });
    }
    out.push(name, EdmValue::Binary(bytes));
    Ok(())
}

pub(super) fn value<'a>(properties: &'a RecordBuilder, name: &str) -> Option<EdmValue<'a>> {
    values(properties).find_map(|(other, value)| (other == name).then_some(value))
}

pub(super) fn binary<'a>(properties: &'a RecordBuilder, name: &str) -> Option<&'a [u8]> {
    match value(properties, name) {
        Some(EdmValue::Binary(bytes)) => Some(bytes),
        _ => None,
    }
}
