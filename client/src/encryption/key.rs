//! What wraps content keys: the trait for keys in memory and in vaults.

use crate::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// A key-encryption key: it wraps the content keys of entities, in memory or in a vault.
///
/// A content key has 32 bytes, is made for one write of one entity, and is unwrapped for each read of it. A vault that is
/// slow or counts requests is therefore better used behind a cache of what it unwrapped.
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
    /// The id of the key, which the entities name; at most 2 KiB. It is stored in the clear.
    fn id(&self) -> &str;

    /// Wraps a content key.
    fn wrap<'a>(&'a self, content_key: &'a [u8]) -> BoxFuture<'a, Result<WrappedKey, KeyWrapError>>;

    /// Unwraps a content key that was wrapped by this algorithm under this key. The algorithm and the bytes come from the
    /// service, so they can be anything.
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

/// A content key under a key-encryption key.
///
/// ```
/// use rowhouse_client::encryption::WrappedKey;
///
/// let wrapped = WrappedKey { algorithm: "A256KW".to_owned(), bytes: vec![0; 40] };
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// The name of the algorithm, as vaults spell it: `A256KW`, `RSA-OAEP`.
    pub algorithm: String,
    /// The wrapped key; at most 2 KiB.
    pub bytes: Vec<u8>,
}

/// Why a key does not exist, or did not wrap or unwrap a content key.
///
/// ```
/// use rowhouse_client::encryption::{AesKey, KeyWrapError};
///
/// assert!(matches!(AesKey::new("key", b"too short"), Err(KeyWrapError::InvalidKey(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyWrapError {
    /// The bytes or the text are not a key of this kind, for the reason that is given.
    InvalidKey(&'static str),
    /// The key does not know the algorithm by which the content key was wrapped.
    UnknownAlgorithm(String),
    /// The wrapped key was changed, or wrapped under another key of the same id.
    Refused,
    /// It is the public half of a key pair, which cannot unwrap.
    PublicOnly,
    /// Another reason: a vault that was not reached, for instance.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl KeyWrapError {
    /// An error of a vault.
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
            Self::InvalidKey(why) => write!(f, "this is not a key: {why}"),
            Self::UnknownAlgorithm(name) => write!(f, "it does not know the algorithm {name:?}"),
            Self::Refused => f.write_str("the content key was changed, or wrapped under another key of the same id"),
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
