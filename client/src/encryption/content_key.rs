//! The random content key of one entity. It is created for one write and wiped from memory when dropped.

use super::EncryptionError;
use super::limits::CONTENT_KEY_BYTES;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// The key must not implement `Debug`.
pub(super) struct ContentKey(Zeroizing<[u8; CONTENT_KEY_BYTES]>);

impl ContentKey {
    pub(super) fn random() -> Result<Self, EncryptionError> {
        let mut bytes = Zeroizing::new([0; CONTENT_KEY_BYTES]);
        fill_with_random_bytes(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    pub(super) fn from_unwrapped(bytes: Vec<u8>) -> Result<Self, EncryptionError> {
        let bytes = Zeroizing::new(bytes);
        let mut key = Zeroizing::new([0; CONTENT_KEY_BYTES]);
        if bytes.len() != CONTENT_KEY_BYTES {
            return Err(EncryptionError::MalformedMetadata { why: "the content key does not have 32 bytes" });
        }
        key.copy_from_slice(&bytes);
        Ok(Self(key))
    }

    pub(super) fn as_array(&self) -> &[u8; CONTENT_KEY_BYTES] {
        &self.0
    }
}

pub(super) fn fill_with_random_bytes(buffer: &mut [u8]) -> Result<(), EncryptionError> {
    SystemRandom::new().fill(buffer).map_err(|_| EncryptionError::NoRandomness)
}
