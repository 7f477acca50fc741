//! An in-memory AES key that wraps keys with AES key wrap (RFC 3394).

use super::{KeyEncryptionKey, KeyWrapError, WrappedKey};
use crate::future::BoxFuture;
use aes_kw::{KeyInit, KwAes128, KwAes192, KwAes256};
use std::fmt;
use zeroize::Zeroizing;

/// The number of bytes that AES key wrap adds to a key.
const OVERHEAD_BYTES: usize = 8;

/// An in-memory key-encryption key of 128, 192 or 256 bits: `A128KW`, `A192KW` or `A256KW`.
///
/// The key is wiped from memory when it is dropped.
///
/// ```
/// use rowhouse_client::encryption::AesKey;
///
/// # fn main() -> Result<(), rowhouse_client::encryption::KeyWrapError> {
/// # let secret = [7; 32];
/// let key = AesKey::new("key-2026", &secret)?;
/// assert_eq!(format!("{key:?}"), "AesKey(\"key-2026\", A256KW)");
/// # Ok(())
/// # }
/// ```
pub struct AesKey {
    id: Box<str>,
    cipher: Cipher,
}

enum Cipher {
    Aes128(Box<KwAes128>),
    Aes192(Box<KwAes192>),
    Aes256(Box<KwAes256>),
}

impl AesKey {
    /// Creates a key from its 16, 24 or 32 bytes, which must be random and secret.
    ///
    /// ```
    /// use rowhouse_client::encryption::AesKey;
    ///
    /// assert!(AesKey::new("key-2026", &[7; 32]).is_ok());
    /// assert!(AesKey::new("key-2026", &[7; 31]).is_err());
    /// ```
    pub fn new(id: impl Into<Box<str>>, secret: &[u8]) -> Result<Self, KeyWrapError> {
        let cipher = match secret.len() {
            16 => KwAes128::new_from_slice(secret).map(|cipher| Cipher::Aes128(Box::new(cipher))),
            24 => KwAes192::new_from_slice(secret).map(|cipher| Cipher::Aes192(Box::new(cipher))),
            32 => KwAes256::new_from_slice(secret).map(|cipher| Cipher::Aes256(Box::new(cipher))),
            _ => return Err(KeyWrapError::InvalidKey("an AES key must have 16, 24 or 32 bytes")),
        };
        Ok(Self { id: id.into(), cipher: cipher.expect("the length fits the cipher") })
    }

    fn algorithm(&self) -> &'static str {
        match self.cipher {
            Cipher::Aes128(_) => "A128KW",
            Cipher::Aes192(_) => "A192KW",
            Cipher::Aes256(_) => "A256KW",
        }
    }

    fn wrap_now(&self, content_key: &[u8]) -> Result<WrappedKey, KeyWrapError> {
        let mut bytes = vec![0; content_key.len() + OVERHEAD_BYTES];
        let wrapped = match &self.cipher {
            Cipher::Aes128(cipher) => cipher.wrap_key(content_key, &mut bytes).map(|_| ()),
            Cipher::Aes192(cipher) => cipher.wrap_key(content_key, &mut bytes).map(|_| ()),
            Cipher::Aes256(cipher) => cipher.wrap_key(content_key, &mut bytes).map(|_| ()),
        };
        wrapped.map_err(|_| KeyWrapError::InvalidKey("the length of a content key must be a multiple of 8 bytes"))?;
        Ok(WrappedKey { algorithm: self.algorithm().to_owned(), bytes })
    }

    fn unwrap_now(&self, algorithm: &str, wrapped: &[u8]) -> Result<Vec<u8>, KeyWrapError> {
        if algorithm != self.algorithm() {
            return Err(KeyWrapError::UnknownAlgorithm(algorithm.to_owned()));
        }
        let length = wrapped.len().checked_sub(OVERHEAD_BYTES).ok_or(KeyWrapError::Refused)?;
        let mut bytes = Zeroizing::new(vec![0; length]);
        let unwrapped = match &self.cipher {
            Cipher::Aes128(cipher) => cipher.unwrap_key(wrapped, &mut bytes).map(|_| ()),
            Cipher::Aes192(cipher) => cipher.unwrap_key(wrapped, &mut bytes).map(|_| ()),
            Cipher::Aes256(cipher) => cipher.unwrap_key(wrapped, &mut bytes).map(|_| ()),
        };
        unwrapped.map_err(|_| KeyWrapError::Refused)?;
        Ok(std::mem::take(&mut *bytes))
    }
}

impl KeyEncryptionKey for AesKey {
    fn id(&self) -> &str {
        &self.id
    }

    fn wrap<'a>(&'a self, content_key: &'a [u8]) -> BoxFuture<'a, Result<WrappedKey, KeyWrapError>> {
        Box::pin(std::future::ready(self.wrap_now(content_key)))
    }

    fn unwrap<'a>(&'a self, algorithm: &'a str, wrapped: &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, KeyWrapError>> {
        Box::pin(std::future::ready(self.unwrap_now(algorithm, wrapped)))
    }
}

/// Writes the ID and the algorithm, but not the key.
impl fmt::Debug for AesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AesKey({:?}, {})", self.id, self.algorithm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// RFC 3394, sections 4.1, 4.5 and 4.6.
    #[test]
    fn the_vectors_of_the_rfc() {
        let secret = bytes("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F");
        let data = bytes("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F");
        for (secret_bytes, data_bytes, algorithm, wrapped) in [
            (16, 16, "A128KW", "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5"),
            (24, 24, "A192KW", "031D33264E15D33268F24EC260743EDCE1C6C7DDEE725A936BA814915C6762D2"),
            (32, 32, "A256KW", "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21"),
        ] {
            let key = AesKey::new("k", &secret[..secret_bytes]).unwrap();
            let expected = WrappedKey { algorithm: algorithm.to_owned(), bytes: bytes(wrapped) };
            assert_eq!(key.wrap_now(&data[..data_bytes]).unwrap(), expected);
            assert_eq!(key.unwrap_now(algorithm, &expected.bytes).unwrap(), data[..data_bytes]);
        }
    }

    #[test]
    fn a_changed_or_foreign_key_is_refused() {
        let key = AesKey::new("k", &[1; 32]).unwrap();
        let wrapped = key.wrap_now(&[9; 32]).unwrap();
        for at in 0..wrapped.bytes.len() * 8 {
            let mut changed = wrapped.bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            assert!(matches!(key.unwrap_now("A256KW", &changed), Err(KeyWrapError::Refused)));
        }
        for length in 0..wrapped.bytes.len() {
            assert!(matches!(key.unwrap_now("A256KW", &wrapped.bytes[..length]), Err(KeyWrapError::Refused)));
        }
        let other = AesKey::new("k", &[2; 32]).unwrap();
        assert!(matches!(other.unwrap_now("A256KW", &wrapped.bytes), Err(KeyWrapError::Refused)));
        for algorithm in ["A128KW", "RSA-OAEP", ""] {
            let refused = key.unwrap_now(algorithm, &wrapped.bytes);
            assert!(matches!(refused, Err(KeyWrapError::UnknownAlgorithm(name)) if name == algorithm));
        }
    }

    #[test]
    fn a_key_of_another_length_is_none() {
        for length in (0..64).filter(|length| ![16, 24, 32].contains(length)) {
            assert!(matches!(AesKey::new("k", &vec![0; length]), Err(KeyWrapError::InvalidKey(_))), "{length}");
        }
    }
}
