//! The format of the retired libraries: each property is encrypted with AES-256-CBC, without authentication.
//!
//! `docs/client-encryption.md` specifies the format byte by byte.
//!
//! Invariant: every failure to decrypt a property results in the same error, so that errors reveal nothing about the
//! padding.

use super::EncryptionError;
use super::key::ContentKey;
use super::metadata::{Iv, NAME_LIST_BYTES_MAX, PROPERTY_DETAILS};
use super::properties::{binary, own_values, push_encrypted, values};
use aes::Aes256;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use model::{EdmValue, EntityKey, RecordBuilder};
use ring::digest::{Context, SHA256};

pub(super) struct Cbc<'a> {
    pub(super) key: &'a EntityKey,
    pub(super) content_key: &'a ContentKey,
    pub(super) iv: &'a Iv,
    /// True if the order of the keys and the form of the list match the Java library.
    pub(super) by_java: bool,
}

impl Cbc<'_> {
    /// Encrypts the marked properties, and adds the list of their names.
    pub(super) fn encrypt(
        &self,
        properties: &RecordBuilder,
        is_marked: impl Fn(&str) -> bool,
    ) -> Result<RecordBuilder, EncryptionError> {
        let mut names = Vec::new();
        let mut out = properties.emptied();
        for (name, value) in values(properties) {
            if !is_marked(name) {
                out.push(name, value);
                continue;
            }
            let EdmValue::String(text) = value else {
                let (property, edm_type) = (name.to_owned(), value.edm_type());
                return Err(EncryptionError::NotAString { property, edm_type });
            };
            push_encrypted(&mut out, name, &self.encrypt_value(name, text.as_bytes()))?;
            names.push(name);
        }
        let list = if self.by_java {
            format!("[{}]", names.join(", "))
        } else {
            serde_json::to_string(&names).map_err(|_| damaged(PROPERTY_DETAILS))?
        };
        push_encrypted(&mut out, PROPERTY_DETAILS, &self.encrypt_value(PROPERTY_DETAILS, list.as_bytes()))?;
        Ok(out)
    }

    /// Decrypts the listed properties and removes the metadata. Also returns the list.
    pub(super) fn decrypt(&self, properties: &RecordBuilder) -> Result<(RecordBuilder, Vec<String>), EncryptionError> {
        let names = self.names(binary(properties, PROPERTY_DETAILS).ok_or_else(|| damaged(PROPERTY_DETAILS))?)?;
        let mut out = properties.emptied();
        for (name, value) in own_values(properties) {
            if !names.iter().any(|encrypted| encrypted == name) {
                out.push(name, value);
                continue;
            }
            let EdmValue::Binary(bytes) = value else { return Err(damaged(name)) };
            out.push(name, EdmValue::String(&self.decrypt_text(name, bytes)?));
        }
        Ok((out, names))
    }

    fn names(&self, list: &[u8]) -> Result<Vec<String>, EncryptionError> {
        if list.len() > NAME_LIST_BYTES_MAX {
            return Err(damaged(PROPERTY_DETAILS));
        }
        let text = self.decrypt_text(PROPERTY_DETAILS, list)?;
        if !self.by_java {
            return serde_json::from_str(&text).map_err(|_| damaged(PROPERTY_DETAILS));
        }
        let names = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let names = names.ok_or_else(|| damaged(PROPERTY_DETAILS))?;
        Ok(names.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    fn encrypt_value(&self, name: &str, plain: &[u8]) -> Vec<u8> {
        let iv = self.property_iv(name).into();
        cbc::Encryptor::<Aes256>::new(self.content_key.as_array().into(), &iv).encrypt_padded_vec::<Pkcs7>(plain)
    }

    fn decrypt_text(&self, name: &str, bytes: &[u8]) -> Result<String, EncryptionError> {
        let iv = self.property_iv(name).into();
        let cipher = cbc::Decryptor::<Aes256>::new(self.content_key.as_array().into(), &iv);
        let plain = cipher.decrypt_padded_vec::<Pkcs7>(bytes).map_err(|_| damaged(name))?;
        String::from_utf8(plain).map_err(|_| damaged(name))
    }

    /// Returns the first half of a hash over the entity's initialization vector, its keys and the name, with no
    /// separators.
    fn property_iv(&self, name: &str) -> Iv {
        let (partition, row) = (self.key.partition.as_str(), self.key.row.as_str());
        let keys = if self.by_java { [partition, row] } else { [row, partition] };
        let mut hash = Context::new(&SHA256);
        hash.update(self.iv);
        for text in keys.into_iter().chain([name]) {
            hash.update(text.as_bytes());
        }
        let hash = hash.finish();
        *hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }
}

fn damaged(property: &str) -> EncryptionError {
    EncryptionError::Damaged { property: property.to_owned() }
}
