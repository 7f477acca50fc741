//! Resolvers, which find the key for an entity, so that keys can be rotated.

use super::{KeyEncryptionKey, KeyWrapError};
use crate::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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
