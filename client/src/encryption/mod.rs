//! Client-side encryption of properties.
//!
//! Each marked property is encrypted with a content key. The content key is created for each write of an entity,
//! wrapped by a key-encryption key and stored with the entity.
//!
//! There are two formats. [`EncryptionMode::AesCbc`] is compatible in both directions with the retired libraries for
//! .NET, Java and Python. [`EncryptionMode::AesGcm`] is the authenticated format of this library.
//! `docs/client-encryption.md` specifies both formats byte by byte, and lists what they do not protect.
//!
//! Invariants:
//!
//! 1. No error and no `Debug` output contains a key or a decrypted value.
//! 2. A content key encrypts one write of one entity. It is wiped from memory after use.
//! 3. Nothing that the service returns causes a panic. Invalid data is an error, except that the format of the retired
//!    libraries cannot detect every change.
//!
//! This module must not depend on tables, requests or connections.

mod aes_key;
mod cbc;
mod error;
mod gcm;
mod key;
mod metadata;
mod policy;
mod properties;
mod rsa_key;
#[cfg(test)]
mod tests;

pub use aes_key::AesKey;
pub use error::{EncryptionError, KeyWrapError};
pub use key::{KeyEncryptionKey, KeyResolver, KeyRing, WrappedKey};
pub use metadata::EncryptionMode;
pub use policy::EncryptionPolicy;
pub(crate) use policy::METADATA_NAMES;
pub use rsa_key::RsaKey;
