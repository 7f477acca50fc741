//! Encryption of properties before they leave the program.
//!
//! A property that is marked is encrypted under a content key, which is made for each write of an entity, wrapped by a
//! key-encryption key and stored with the entity. [`EncryptionMode::AesCbc`] is the format of the retired libraries for .NET,
//! Java and Python, which read what is written here, as it is read here what they wrote. [`EncryptionMode::AesGcm`] is the
//! authenticated format of this library. `docs/client-encryption.md` describes both byte by byte, and what they do not protect.
//!
//! Invariants:
//!
//! 1. A key or a decrypted value is in no error and in no `Debug` output.
//! 2. A content key encrypts one write of one entity. It is wiped from memory when it is no longer used.
//! 3. Nothing that the service returns causes a panic, and what is wrong with it is an error, except that the format of the
//!    retired libraries cannot notice every change.
//!
//! This module must not know tables, requests or connections.

mod aes_key;
mod bag;
mod cbc;
mod content_key;
mod error;
mod gcm;
mod key;
mod limits;
mod metadata;
mod policy;
mod properties;
mod resolver;
mod rsa_key;
#[cfg(test)]
mod tests;

pub use aes_key::AesKey;
pub use error::EncryptionError;
pub use key::{KeyEncryptionKey, KeyWrapError, WrappedKey};
pub(crate) use policy::METADATA_NAMES;
pub use policy::{EncryptionMode, EncryptionPolicy};
pub use resolver::{KeyResolver, KeyRing};
pub use rsa_key::RsaKey;
