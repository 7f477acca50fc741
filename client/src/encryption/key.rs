//! Key-encryption keys: the trait for keys in memory and in vaults.

use crate::encryption::error::{EncryptionError, KeyWrapError};
use crate::future::BoxFuture;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

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

/// Finds key-encryption keys by ID, for reading entities that were written with several keys.
///
/// ```
/// use rowhouse_client::BoxFuture;
/// use rowhouse_client::encryption::{AesKey, KeyEncryptionKey, KeyResolver, KeyWrapError};
/// use std::sync::Arc;
///
/// /// Reads keys from files in a folder.
/// struct Folder(std::path::PathBuf);
///
/// impl KeyResolver for Folder {
///     fn resolve<'a>(&'a self, key_id: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn KeyEncryptionKey>>, KeyWrapError>> {
///         Box::pin(async move {
/// // The ID comes from the service, so it must not escape the folder.
///             if !key_id.chars().all(char::is_alphanumeric) {
///                 return Ok(None);
///             }
///             let secret = std::fs::read(self.0.join(key_id)).map_err(KeyWrapError::other)?;
///             let key: Arc<dyn KeyEncryptionKey> = Arc::new(AesKey::new(key_id, &secret)?);
///             Ok(Some(key))
///         })
///     }
/// }
/// ```
pub trait KeyResolver: Send + Sync {
    /// Returns the key with the given ID, or `None` if there is no such key. The ID comes from the service, so it can
    /// be any string of up to 2 KiB.
    fn resolve<'a>(&'a self, key_id: &'a str)
    -> BoxFuture<'a, Result<Option<Arc<dyn KeyEncryptionKey>>, KeyWrapError>>;
}

impl<R: KeyResolver + ?Sized> KeyResolver for Arc<R> {
    fn resolve<'a>(
        &'a self,
        key_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn KeyEncryptionKey>>, KeyWrapError>> {
        (**self).resolve(key_id)
    }
}

/// Several in-memory keys by ID. Use it, for example, to keep entities readable that were encrypted with the keys of
/// earlier years.
///
/// ```
/// use rowhouse_client::encryption::{AesKey, KeyRing};
///
/// # fn main() -> Result<(), rowhouse_client::encryption::KeyWrapError> {
/// let keys = KeyRing::new().with(AesKey::new("key-2024", &[1; 32])?).with(AesKey::new("key-2025", &[2; 32])?);
/// assert_eq!(format!("{keys:?}"), "KeyRing{\"key-2024\", \"key-2025\"}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct KeyRing {
    keys: BTreeMap<String, Arc<dyn KeyEncryptionKey>>,
}

impl KeyRing {
    /// Creates an empty key ring.
    ///
    /// ```
    /// assert_eq!(format!("{:?}", rowhouse_client::encryption::KeyRing::new()), "KeyRing{}");
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key. Replaces an existing key with the same ID.
    ///
    /// ```
    /// use rowhouse_client::encryption::{AesKey, KeyRing};
    ///
    /// # fn main() -> Result<(), rowhouse_client::encryption::KeyWrapError> {
    /// let keys = KeyRing::new().with(AesKey::new("key-2025", &[2; 32])?);
    /// # let _ = keys;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with(mut self, key: impl KeyEncryptionKey + 'static) -> Self {
        self.keys.insert(key.id().to_owned(), Arc::new(key));
        self
    }
}

impl KeyResolver for KeyRing {
    fn resolve<'a>(
        &'a self,
        key_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn KeyEncryptionKey>>, KeyWrapError>> {
        Box::pin(std::future::ready(Ok(self.keys.get(key_id).cloned())))
    }
}

/// Omits the keys themselves.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyRing")?;
        f.debug_set().entries(self.keys.keys()).finish()
    }
}

/// The length of a content key, in bytes. The format of the retired libraries supports only AES-256.
const CONTENT_KEY_BYTES: usize = 32;

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
