//! An in-memory RSA key that wraps keys with RSA-OAEP.

use super::metadata::{RSA_BITS_MAX, RSA_BITS_MIN};
use super::{KeyEncryptionKey, KeyWrapError, WrappedKey};
use crate::future::BoxFuture;
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey};
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey};
use rsa::rand_core::OsRng;

use rsa::traits::PublicKeyParts;
use rsa::{Oaep, RsaPrivateKey, RsaPublicKey};
use sha1::Sha1;
use std::fmt;

const ALGORITHM: &str = "RSA-OAEP";
/// The name of the same algorithm in the example of the retired Python library.
const ALGORITHM_OF_THE_PYTHON_EXAMPLE: &str = "RSA";

/// An in-memory RSA key of 2,048 to 4,096 bits. It wraps keys with RSA-OAEP with SHA-1 and MGF1 with SHA-1, like the
/// retired libraries.
///
/// The public half is enough to wrap keys, so a program with only this half can write entities that it cannot read.
/// Because anyone with the public half can write, encryption with an RSA key never proves who wrote an entity.
///
/// The time that unwrapping takes depends on the input (RUSTSEC-2023-0071). If others can send entities and measure how
/// long unwrapping takes, use an [`AesKey`](super::AesKey) or a vault instead. Unwrapping blocks the thread for a few
/// milliseconds.
///
/// ```
/// use rowhouse_client::encryption::RsaKey;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/encryption/vectors/rsa-for-tests.pem");
/// let key = RsaKey::from_pem("key-2026", &std::fs::read_to_string(path)?)?;
/// assert_eq!(format!("{key:?}"), "RsaKey(\"key-2026\", private)");
/// # Ok(())
/// # }
/// ```
pub struct RsaKey {
    id: Box<str>,
    public: RsaPublicKey,
    private: Option<RsaPrivateKey>,
}

impl RsaKey {
    /// Reads a key from PEM: a private key as `PRIVATE KEY` (PKCS#8) or `RSA PRIVATE KEY` (PKCS#1), or a public key as
    /// `PUBLIC KEY` or `RSA PUBLIC KEY`. Password-protected keys are refused.
    ///
    /// ```
    /// use rowhouse_client::encryption::RsaKey;
    ///
    /// assert!(RsaKey::from_pem("key-2026", "not PEM").is_err());
    /// ```
    pub fn from_pem(id: impl Into<Box<str>>, pem: &str) -> Result<Self, KeyWrapError> {
        let private = RsaPrivateKey::from_pkcs8_pem(pem).ok().or_else(|| RsaPrivateKey::from_pkcs1_pem(pem).ok());
        if private.is_some() {
            return Self::new(id.into(), private, None);
        }
        let public = RsaPublicKey::from_public_key_pem(pem).ok().or_else(|| RsaPublicKey::from_pkcs1_pem(pem).ok());
        Self::new(id.into(), None, public)
    }

    /// Reads a private key from DER: PKCS#8 or PKCS#1.
    ///
    /// ```
    /// use rowhouse_client::encryption::RsaKey;
    ///
    /// assert!(RsaKey::from_private_der("key-2026", b"not DER").is_err());
    /// ```
    pub fn from_private_der(id: impl Into<Box<str>>, der: &[u8]) -> Result<Self, KeyWrapError> {
        let private = RsaPrivateKey::from_pkcs8_der(der).ok().or_else(|| RsaPrivateKey::from_pkcs1_der(der).ok());
        Self::new(id.into(), private, None)
    }

    /// Reads a public key from DER: `SubjectPublicKeyInfo` or PKCS#1. The key can only wrap.
    ///
    /// ```
    /// use rowhouse_client::encryption::RsaKey;
    ///
    /// assert!(RsaKey::from_public_der("key-2026", b"not DER").is_err());
    /// ```
    pub fn from_public_der(id: impl Into<Box<str>>, der: &[u8]) -> Result<Self, KeyWrapError> {
        let public = RsaPublicKey::from_public_key_der(der).ok().or_else(|| RsaPublicKey::from_pkcs1_der(der).ok());
        Self::new(id.into(), None, public)
    }

    fn new(id: Box<str>, private: Option<RsaPrivateKey>, public: Option<RsaPublicKey>) -> Result<Self, KeyWrapError> {
        let public = public.or_else(|| private.as_ref().map(RsaPrivateKey::to_public_key));
        let public = public.ok_or(KeyWrapError::InvalidKey("it is not an unencrypted RSA key in PKCS#8 or PKCS#1"))?;
        if (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&public.n().bits()) {
            Ok(Self { id, public, private })
        } else {
            Err(KeyWrapError::InvalidKey("an RSA key must have 2,048 to 4,096 bits"))
        }
    }

    fn wrap_now(&self, content_key: &[u8]) -> Result<WrappedKey, KeyWrapError> {
        let bytes = self.public.encrypt(&mut OsRng, Oaep::new::<Sha1>(), content_key).map_err(KeyWrapError::other)?;
        Ok(WrappedKey { algorithm: ALGORITHM.to_owned(), bytes })
    }

    fn unwrap_now(&self, algorithm: &str, wrapped: &[u8]) -> Result<Vec<u8>, KeyWrapError> {
        if algorithm != ALGORITHM && algorithm != ALGORITHM_OF_THE_PYTHON_EXAMPLE {
            return Err(KeyWrapError::UnknownAlgorithm(algorithm.to_owned()));
        }
        let private = self.private.as_ref().ok_or(KeyWrapError::PublicOnly)?;
        private.decrypt_blinded(&mut OsRng, Oaep::new::<Sha1>(), wrapped).map_err(|_| KeyWrapError::Refused)
    }
}

impl KeyEncryptionKey for RsaKey {
    fn id(&self) -> &str {
        &self.id
    }

    fn wrap<'a>(&'a self, content_key: &'a [u8]) -> BoxFuture<'a, Result<WrappedKey, KeyWrapError>> {
        Box::pin(async move { self.wrap_now(content_key) })
    }

    fn unwrap<'a>(&'a self, algorithm: &'a str, wrapped: &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, KeyWrapError>> {
        Box::pin(async move { self.unwrap_now(algorithm, wrapped) })
    }
}

/// Omits the key itself.
impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RsaKey({:?}, {})", self.id, if self.private.is_some() { "private" } else { "public" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsa::pkcs1::{EncodeRsaPrivateKey, EncodeRsaPublicKey};
    use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};

    const PEM: &str = include_str!("vectors/rsa-for-tests.pem");

    #[test]
    fn a_key_is_read_in_every_form() {
        let private = RsaPrivateKey::from_pkcs8_pem(PEM).unwrap();
        let public = private.to_public_key();
        let ending = LineEnding::LF;
        for key in [
            RsaKey::from_pem("k", PEM),
            RsaKey::from_pem("k", &private.to_pkcs1_pem(ending).unwrap()),
            RsaKey::from_private_der("k", private.to_pkcs8_der().unwrap().as_bytes()),
            RsaKey::from_private_der("k", private.to_pkcs1_der().unwrap().as_bytes()),
        ] {
            let key = key.unwrap();
            let wrapped = key.wrap_now(&[9; 32]).unwrap();
            assert_eq!(key.unwrap_now("RSA-OAEP", &wrapped.bytes).unwrap(), [9; 32]);
            assert_eq!(key.unwrap_now("RSA", &wrapped.bytes).unwrap(), [9; 32]);
        }
        let whole = RsaKey::from_pem("k", PEM).unwrap();
        for key in [
            RsaKey::from_pem("k", &public.to_public_key_pem(ending).unwrap()),
            RsaKey::from_pem("k", &public.to_pkcs1_pem(ending).unwrap()),
            RsaKey::from_public_der("k", public.to_public_key_der().unwrap().as_bytes()),
            RsaKey::from_public_der("k", public.to_pkcs1_der().unwrap().as_bytes()),
        ] {
            let key = key.unwrap();
            let wrapped = key.wrap_now(&[9; 32]).unwrap();
            assert_eq!(whole.unwrap_now("RSA-OAEP", &wrapped.bytes).unwrap(), [9; 32]);
            assert!(matches!(key.unwrap_now("RSA-OAEP", &wrapped.bytes), Err(KeyWrapError::PublicOnly)));
            assert_eq!(format!("{key:?}"), "RsaKey(\"k\", public)");
        }
    }

    #[test]
    fn a_changed_key_is_refused_and_so_is_another_algorithm() {
        let key = RsaKey::from_pem("k", PEM).unwrap();
        let wrapped = key.wrap_now(&[9; 32]).unwrap();
        for at in [0, 100, 255] {
            let mut changed = wrapped.bytes.clone();
            changed[at] ^= 1;
            assert!(matches!(key.unwrap_now("RSA-OAEP", &changed), Err(KeyWrapError::Refused)));
        }
        for length in [0, 1, 255] {
            assert!(matches!(key.unwrap_now("RSA-OAEP", &wrapped.bytes[..length]), Err(KeyWrapError::Refused)));
        }
        for algorithm in ["RSA1_5", "RSA-OAEP-256", "A256KW"] {
            assert!(matches!(key.unwrap_now(algorithm, &wrapped.bytes), Err(KeyWrapError::UnknownAlgorithm(_))));
        }
    }

    #[test]
    fn a_short_key_is_refused() {
        let short = RsaPrivateKey::new(&mut OsRng, 1024).unwrap().to_pkcs8_der().unwrap();
        assert!(matches!(RsaKey::from_private_der("k", short.as_bytes()), Err(KeyWrapError::InvalidKey(_))));
    }
}
