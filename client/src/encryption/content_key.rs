//! The content key of one entity: random, made for one write, wiped when it is dropped.

use super::EncryptionError;
use super::limits::CONTENT_KEY_BYTES;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// A content key. It has no `Debug`.
pub(super) struct ContentKey(Zeroizing<[u8; CONTENT_KEY_BYTES]>);

impl ContentKey {
    /// A new key.
    pub(super) fn random() -> Result<Self, EncryptionError> {
        let mut bytes = Zeroizing::new([0; CONTENT_KEY_BYTES]);
        fill_with_random_bytes(bytes.as_mut_slice())?;
        Ok(Self(bytes))
    }

    /// A key that was unwrapped.
    pub(super) fn from_unwrapped(bytes: Vec<u8>) -> Result<Self, EncryptionError> {
        let bytes = Zeroizing::new(bytes);
        let mut key = Zeroizing::new([0; CONTENT_KEY_BYTES]);
        if bytes.len() != CONTENT_KEY_BYTES {
            return Err(EncryptionError::MalformedMetadata { why: "the content key has not 32 bytes" });
        }
        key.copy_from_slice(&bytes);
        Ok(Self(key))
    }

    /// The bytes of the key.
    pub(super) fn as_array(&self) -> &[u8; CONTENT_KEY_BYTES] {
        &self.0
    }
}

/// Fills a buffer with random bytes of the operating system.
pub(super) fn fill_with_random_bytes(buffer: &mut [u8]) -> Result<(), EncryptionError> {
    SystemRandom::new().fill(buffer).map_err(|_| EncryptionError::NoRandomness)
}
