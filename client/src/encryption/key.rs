//! Key-encryption keys: the trait for keys in memory and in vaults.

use crate::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// A key-encryption key: it wraps the content keys of entities, in memory or in a vault.
///
/// A content key has 32 bytes. It is created for each write of an entity, and unwrapped for each read. If a vault is
/// slow or limits requests, put a cache of unwrapped keys in front of it.
///
/// ```
/// use rowhouse_client::BoxFuture;
/// use rowhouse_client::encryption::{KeyEncryptionKey, KeyWrapError, WrappedKey};
///
/// /// A key that never leaves its vault.
/// struct VaultKey {
///     id: String,
/// }
///
/// async fn call_the_vault(operation: &str, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
///     # let _ = operation;
///     # Ok(bytes.to_vec())
/// }
///
/// impl KeyEncryptionKey for VaultKey {
///     fn id(&self) -> &str {
///         &self.id
///     }
///
///     fn wrap<'a>(&'a self, content_key: &'a [u8]) -> BoxFuture<'a, Result<WrappedKey, KeyWrapError>> {
///         Box::pin(async move {
///             let bytes = call_the_vault("wrapkey", content_key).await.map_err(KeyWrapError::other)?;
///             Ok(WrappedKey { algorithm: "RSA-OAEP".to_owned(), bytes })
///         })
///     }
///
///     fn unwrap<'a>(&'a self, algorithm: &'a str, wrapped: &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, KeyWrapError>> {
///         Box::pin(async move {
///             match algorithm {
///                 "RSA-OAEP" => call_the_vault("unwrapkey", wrapped).await.map_err(KeyWrapError::other),
///                 other => Err(KeyWrapError::UnknownAlgorithm(other.to_owned())),
///             }
///         })
///     }
/// }
/// ```
pub trait KeyEncryptionKey: Send + Sync {
    /// Returns the ID of the key, which is stored unencrypted in the entities. It has at most 2 KiB.
    fn id(&self) -> &str;

    /// Wraps a content key.
    fn wrap<'a>(&'a self, content_key: &'a [u8]) -> BoxFuture<'a, Result<WrappedKey, KeyWrapError>>;

    /// Unwraps a content key that was wrapped with this algorithm and this key. The algorithm and the bytes come from
    /// the service, so they can have any value.
    fn unwrap<'a>(&'a self, algorithm: &'a str, wrapped: &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, KeyWrapError>>;
}

impl<K: KeyEncryptionKey + ?Sized> KeyEncryptionKey for Arc<K> {
    fn id(&self) -> &str {
        (**self).id()
    }

    fn wrap<'a>(&'a self, content_key: &'a [u8]) -> BoxFuture<'a, Result<WrappedKey, KeyWrapError>> {
        (**self).wrap(content_key)
    }

    fn unwrap<'a>(&'a self, algorithm: &'a str, wrapped: &'a [u8]) -> BoxFuture<'a, Result<Vec<u8>, KeyWrapError>> {
        (**self).unwrap(algorithm, wrapped)
    }
}

/// A content key wrapped by a key-encryption key.
///
/// ```
/// use rowhouse_client::encryption::WrappedKey;
///
/// let wrapped = WrappedKey { algorithm: "A256KW".to_owned(), bytes: vec![0; 40] };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// The name of the algorithm, as spelled by vaults: `A256KW`, `RSA-OAEP`.
    pub algorithm: String,
    /// The wrapped key; at most 2 KiB.
    pub bytes: Vec<u8>,
}

/// The reason why a key is invalid, or could not wrap or unwrap a content key.
///
/// ```
/// use rowhouse_client::encryption::{AesKey, KeyWrapError};
///
/// assert!(matches!(AesKey::new("key", b"too short"), Err(KeyWrapError::InvalidKey(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyWrapError {
    /// The bytes or the string are not a key of this kind, for the given reason.
    InvalidKey(&'static str),
    /// The key does not support the algorithm with which the content key was wrapped.
    UnknownAlgorithm(String),
    /// The wrapped key was changed, or wrapped with a different key that has the same ID.
    Refused,
    /// The key is the public half of a key pair, which cannot unwrap.
    PublicOnly,
    /// Another reason, such as an unreachable vault.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl KeyWrapError {
    /// Creates an error from the error of a vault.
    ///
    /// ```
    /// use rowhouse_client::encryption::KeyWrapError;
    ///
    /// assert_eq!(KeyWrapError::other("the vault is closed").to_string(), "the vault is closed");
    /// ```
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}

impl fmt::Display for KeyWrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidKey(why) => write!(f, "invalid key: {why}"),
            Self::UnknownAlgorithm(name) => write!(f, "it does not support the algorithm {name:?}"),
            Self::Refused => f.write_str("the content key was changed, or wrapped with a different key of the same ID"),
            Self::PublicOnly => f.write_str("the public half of a key pair cannot unwrap"),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KeyWrapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Other(error) => Some(&**error),
            _ => None,
        }
    }
}
