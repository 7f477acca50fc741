//! The authenticated format: each property is encrypted with AES-256-GCM and bound to the keys of its entity, its name
//! and its type.
//!
//! `docs/client-encryption.md` specifies the format byte by byte, and the test `the_format_is_pinned` checks it.
//!
//! Invariant: a content key encrypts one write of one entity, and uses each nonce number once.

use super::EncryptionError;
use super::key::ContentKey;
use super::metadata::{Iv, NAME_LIST_BYTES_MAX, PROPERTY_DETAILS};
use super::properties::{binary, own_values, push_encrypted, value, values};
use model::{DateTime, EdmType, EdmValue, EntityKey, Guid, RecordBuilder};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf;

/// The purpose of the key derived for an entity. The content key itself is used only to derive keys.
const PURPOSE: &[u8] = b"rowhouse-client AES-256-GCM 1";
/// The nonce number of the list. The numbers of the properties follow in the order of the list.
const LIST_NUMBER: u32 = 0;

type Listed = (String, EdmType);

pub(super) struct Gcm<'a> {
    key: &'a EntityKey,
    cipher: LessSafeKey,
}

impl<'a> Gcm<'a> {
    pub(super) fn new(key: &'a EntityKey, content_key: &ContentKey, iv: &Iv) -> Self {
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, iv).extract(content_key.as_array());
        let derived = derived.expand(&[PURPOSE], &AES_256_GCM).map(UnboundKey::from);
        Self { key, cipher: LessSafeKey::new(derived.expect("HKDF-SHA256 makes 32 bytes")) }
    }

    /// Encrypts the marked properties, and adds the list of their names and types.
    pub(super) fn encrypt(
        &self,
        properties: &RecordBuilder,
        is_marked: impl Fn(&str) -> bool,
    ) -> Result<RecordBuilder, EncryptionError> {
        let mut list: Vec<(&str, &str)> = Vec::new();
        let mut out = properties.emptied();
        for (name, value) in values(properties) {
            if !is_marked(name) {
                out.push(name, value);
                continue;
            }
            list.push((name, value.edm_type().name()));
            let bytes = self.seal(number_of(list.len())?, name, value.edm_type(), plain_bytes(value))?;
            push_encrypted(&mut out, name, &bytes)?;
        }
        let text = serde_json::to_vec(&list).map_err(|_| damaged(PROPERTY_DETAILS))?;
        let bytes = self.seal(LIST_NUMBER, PROPERTY_DETAILS, EdmType::String, text)?;
        push_encrypted(&mut out, PROPERTY_DETAILS, &bytes)?;
        Ok(out)
    }

    /// Decrypts the listed properties and removes the metadata. Also returns the list. Fails if an encrypted property
    /// that was selected is missing.
    pub(super) fn decrypt(
        &self,
        properties: &RecordBuilder,
        is_selected: impl Fn(&str) -> bool,
    ) -> Result<(RecordBuilder, Vec<String>), EncryptionError> {
        let list = self.list(binary(properties, PROPERTY_DETAILS).ok_or_else(|| damaged(PROPERTY_DETAILS))?)?;
        if let Some((name, _)) = list.iter().find(|(name, _)| is_selected(name) && value(properties, name).is_none()) {
            return Err(EncryptionError::Missing { property: name.clone() });
        }
        let mut out = properties.emptied();
        for (name, value) in own_values(properties) {
            let Some(at) = list.iter().position(|(encrypted, _)| encrypted == name) else {
                out.push(name, value);
                continue;
            };
            let (EdmValue::Binary(bytes), Some((_, edm_type))) = (value, list.get(at)) else {
                return Err(damaged(name));
            };
            let plain = self.open(number_of(at + 1)?, name, *edm_type, bytes)?;
            out.push(name, value_of(*edm_type, &plain).ok_or_else(|| damaged(name))?);
        }
        Ok((out, list.into_iter().map(|(name, _)| name).collect()))
    }

    fn list(&self, bytes: &[u8]) -> Result<Vec<Listed>, EncryptionError> {
        if bytes.len() > NAME_LIST_BYTES_MAX {
            return Err(damaged(PROPERTY_DETAILS));
        }
        let text = self.open(LIST_NUMBER, PROPERTY_DETAILS, EdmType::String, bytes)?;
        let list: Vec<(String, String)> = serde_json::from_slice(&text).map_err(|_| damaged(PROPERTY_DETAILS))?;
        let typed = |(name, edm_type): (String, String)| EdmType::from_name(&edm_type).map(|edm_type| (name, edm_type));
        list.into_iter().map(typed).collect::<Option<_>>().ok_or_else(|| damaged(PROPERTY_DETAILS))
    }

    fn seal(&self, number: u32, name: &str, edm_type: EdmType, mut value: Vec<u8>) -> Result<Vec<u8>, EncryptionError> {
        let (nonce, context) = (nonce(number), Aad::from(self.context(name, edm_type)));
        self.cipher.seal_in_place_append_tag(nonce, context, &mut value).map_err(|_| damaged(name))?;
        Ok(value)
    }

    fn open(&self, number: u32, name: &str, edm_type: EdmType, bytes: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let (nonce, context) = (nonce(number), Aad::from(self.context(name, edm_type)));
        let mut plain = bytes.to_vec();
        let length = self.cipher.open_in_place(nonce, context, &mut plain).map_err(|_| damaged(name))?.len();
        plain.truncate(length);
        Ok(plain)
    }

    /// Returns the data to which a value is bound. Each string follows its length, so that no two contexts have the
    /// same bytes.
    fn context(&self, name: &str, edm_type: EdmType) -> Vec<u8> {
        let mut context = Vec::new();
        for text in [self.key.partition.as_str(), self.key.row.as_str(), name, edm_type.name()] {
            let length = u32::try_from(text.len()).expect("names and keys are shorter than 4 GiB");
            context.extend_from_slice(&length.to_be_bytes());
            context.extend_from_slice(text.as_bytes());
        }
        context
    }
}

fn number_of(position: usize) -> Result<u32, EncryptionError> {
    u32::try_from(position).map_err(|_| EncryptionError::TooManyProperties)
}

fn nonce(number: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    if let Some(end) = bytes.last_chunk_mut() {
        *end = number.to_be_bytes();
    }
    Nonce::assume_unique_for_key(bytes)
}

/// Returns the bytes of a value, as in the record format.
fn plain_bytes(value: EdmValue<'_>) -> Vec<u8> {
    match value {
        EdmValue::String(text) => text.as_bytes().to_vec(),
        EdmValue::Binary(bytes) => bytes.to_vec(),
        EdmValue::Boolean(value) => vec![u8::from(value)],
        EdmValue::DateTime(value) => value.ticks().to_be_bytes().to_vec(),
        EdmValue::Double(value) => value.to_be_bytes().to_vec(),
        EdmValue::Guid(value) => value.as_bytes().to_vec(),
        EdmValue::Int32(value) => value.to_be_bytes().to_vec(),
        EdmValue::Int64(value) => value.to_be_bytes().to_vec(),
    }
}

fn value_of(edm_type: EdmType, bytes: &[u8]) -> Option<EdmValue<'_>> {
    Some(match edm_type {
        EdmType::String => EdmValue::String(std::str::from_utf8(bytes).ok()?),
        EdmType::Binary => EdmValue::Binary(bytes),
        EdmType::Boolean => EdmValue::Boolean(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        EdmType::DateTime => EdmValue::DateTime(DateTime::from_ticks(i64::from_be_bytes(bytes.try_into().ok()?))?),
        EdmType::Double => EdmValue::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Guid => EdmValue::Guid(Guid::from_bytes(bytes.try_into().ok()?)),
        EdmType::Int32 => EdmValue::Int32(i32::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Int64 => EdmValue::Int64(i64::from_be_bytes(bytes.try_into().ok()?)),
    })
}

fn damaged(property: &str) -> EncryptionError {
    EncryptionError::Damaged { property: property.to_owned() }
}
