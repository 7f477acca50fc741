//! The properties to encrypt, the key to use, and the entities that may be read.
//!
//! This module must not depend on tables, requests or connections.

use crate::encryption::cbc::Cbc;
use crate::encryption::gcm::Gcm;
use crate::encryption::key::{ContentKey, fill_with_random_bytes};
use crate::encryption::metadata::{EncryptionMode, Iv, KEY_DETAILS, Metadata, PROPERTY_DETAILS};
use crate::encryption::properties::{own_values, value};
use crate::encryption::{EncryptionError, KeyEncryptionKey, KeyResolver};
use crate::entity::PropertyBag;
use model::limits::CUSTOM_PROPERTIES_MAX;
use model::{EdmValue, EntityKey, RecordBuilder};
use std::fmt;
use std::sync::Arc;

/// Selects properties by partition key, row key and name.
type Choice = Arc<dyn Fn(&str, &str, &str) -> bool + Send + Sync>;

/// The properties to encrypt, the key to use, and the entities that may be read.
///
/// A policy encrypts the properties that the entity type marks and those that [`encrypt_where`](Self::encrypt_where)
/// selects. It adds the properties `_ClientEncryptionMetadata1` and `_ClientEncryptionMetadata2` to every entity that
/// is written, which leaves 250 other custom properties. Keys and Timestamp are never encrypted.
///
/// ```
/// use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy, KeyRing};
///
/// # fn main() -> Result<(), rowhouse_client::encryption::KeyWrapError> {
/// # let (secret, secret_of_last_year) = ([1; 32], [2; 32]);
/// let policy = EncryptionPolicy::new(EncryptionMode::AesGcm)
///     .key(AesKey::new("key-2026", &secret)?)
///     .resolver(KeyRing::new().with(AesKey::new("key-2025", &secret_of_last_year)?))
///     .encrypt_where(|_partition, _row, name| name == "Salary")
///     .required(true);
/// # let _ = policy;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EncryptionPolicy {
    mode: EncryptionMode,
    key: Option<Arc<dyn KeyEncryptionKey>>,
    resolver: Option<Arc<dyn KeyResolver>>,
    choice: Option<Choice>,
    is_required: bool,
    accepts_unauthenticated: bool,
}

impl EncryptionPolicy {
    /// Creates a policy without keys, which encrypts the properties that entity types mark.
    ///
    /// ```
    /// use rowhouse_client::encryption::{EncryptionMode, EncryptionPolicy};
    ///
    /// let policy = EncryptionPolicy::new(EncryptionMode::AesGcm);
    /// # let _ = policy;
    /// ```
    pub fn new(mode: EncryptionMode) -> Self {
        Self {
            mode,
            key: None,
            resolver: None,
            choice: None,
            is_required: false,
            accepts_unauthenticated: mode == EncryptionMode::AesCbc,
        }
    }

    /// Sets the key that wraps the content keys of written entities. It is also used to read entities that contain its
    /// ID.
    ///
    /// ```
    /// use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy};
    ///
    /// # fn main() -> Result<(), rowhouse_client::encryption::KeyWrapError> {
    /// let policy = EncryptionPolicy::new(EncryptionMode::AesGcm).key(AesKey::new("key-2026", &[7; 32])?);
    /// # let _ = policy;
    /// # Ok(())
    /// # }
    /// ```
    pub fn key(mut self, key: impl KeyEncryptionKey + 'static) -> Self {
        self.key = Some(Arc::new(key));
        self
    }

    /// Sets the resolver that finds the keys of entities whose key ID differs from the ID of [`key`](Self::key).
    ///
    /// ```
    /// use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy, KeyRing};
    ///
    /// # fn main() -> Result<(), rowhouse_client::encryption::KeyWrapError> {
    /// let old = KeyRing::new().with(AesKey::new("key-2025", &[7; 32])?);
    /// let reads_only = EncryptionPolicy::new(EncryptionMode::AesGcm).resolver(old);
    /// # let _ = reads_only;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resolver(mut self, resolver: impl KeyResolver + 'static) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Also encrypts the properties for which a closure returns true. The arguments of the closure are the partition
    /// key, the row key and the name of the property.
    ///
    /// ```
    /// use rowhouse_client::encryption::{EncryptionMode, EncryptionPolicy};
    ///
    /// let policy = EncryptionPolicy::new(EncryptionMode::AesGcm)
    ///     .encrypt_where(|partition, _row, name| partition == "staff" && name == "Salary");
    /// # let _ = policy;
    /// ```
    pub fn encrypt_where(mut self, choice: impl Fn(&str, &str, &str) -> bool + Send + Sync + 'static) -> Self {
        self.choice = Some(Arc::new(choice));
        self
    }

    /// Sets whether a read fails if the entity, or a property that this policy would encrypt, is not encrypted. The
    /// default is `false`.
    ///
    /// ```
    /// use rowhouse_client::encryption::{EncryptionMode, EncryptionPolicy};
    ///
    /// let policy = EncryptionPolicy::new(EncryptionMode::AesGcm).required(true);
    /// # let _ = policy;
    /// ```
    pub fn required(mut self, is_required: bool) -> Self {
        self.is_required = is_required;
        self
    }

    /// Sets whether unauthenticated entities, in the format of the retired libraries, may be read. The default is
    /// `true` for [`EncryptionMode::AesCbc`] and `false` for [`EncryptionMode::AesGcm`]: otherwise, anyone who can
    /// change stored bytes could replace one format with the other.
    ///
    /// ```
    /// use rowhouse_client::encryption::{EncryptionMode, EncryptionPolicy};
    ///
    /// // Accept both formats while a table is being rewritten in the authenticated format.
    /// let policy = EncryptionPolicy::new(EncryptionMode::AesGcm).accept_unauthenticated(true);
    /// # let _ = policy;
    /// ```
    pub fn accept_unauthenticated(mut self, accepts: bool) -> Self {
        self.accepts_unauthenticated = accepts;
        self
    }
}

/// The names of the two properties that encryption adds to an entity. A projection must select them.
pub(crate) const METADATA_NAMES: &[&str] = &[KEY_DETAILS, PROPERTY_DETAILS];

impl EncryptionPolicy {
    /// `marked` contains the names of the properties that the entity type marks.
    pub(super) async fn encrypt(
        &self,
        key: &EntityKey,
        properties: &RecordBuilder,
        marked: &[&str],
    ) -> Result<RecordBuilder, EncryptionError> {
        let wrapping = self.key.as_deref().ok_or(EncryptionError::NoKey)?;
        if let Some(property) = METADATA_NAMES.iter().copied().find(|name| value(properties, name).is_some()) {
            return Err(EncryptionError::ReservedProperty { property });
        }
        if properties.len() + METADATA_NAMES.len() > CUSTOM_PROPERTIES_MAX {
            return Err(EncryptionError::TooManyProperties);
        }
        let content_key = ContentKey::random()?;
        let mut iv = Iv::default();
        fill_with_random_bytes(&mut iv)?;
        let key_id = wrapping.id().to_owned();
        let wrapped = wrapping.wrap(content_key.as_array()).await;
        let wrapped = wrapped.map_err(|source| EncryptionError::Key { key_id: key_id.clone(), source })?;
        let metadata = Metadata { mode: self.mode, key_id, wrapped, iv, by_java: false };
        self.encrypt_under(key, properties, marked, &content_key, &metadata)
    }

    /// Decrypts properties and removes the metadata.
    ///
    /// `marked` contains the names of the properties that the entity type marks. `selected` contains the names that the
    /// request selected, or `None` for all properties.
    pub(super) async fn decrypt(
        &self,
        key: &EntityKey,
        properties: RecordBuilder,
        marked: &[&str],
        selected: Option<&[&str]>,
    ) -> Result<RecordBuilder, EncryptionError> {
        let metadata = match [KEY_DETAILS, PROPERTY_DETAILS].map(|name| value(&properties, name)) {
            [None, None] if self.is_required => return Err(EncryptionError::NotEncrypted { property: None }),
            [None, None] => return Ok(properties),
            [Some(EdmValue::String(text)), Some(EdmValue::Binary(_))] => Metadata::parse(text)?,
            _ => {
                let why = "one of the two properties is missing or has a different type";
                return Err(EncryptionError::MalformedMetadata { why });
            }
        };
        if metadata.mode == EncryptionMode::AesCbc && !self.accepts_unauthenticated {
            return Err(EncryptionError::NotAuthenticated);
        }
        let content_key = self.unwrap(&metadata).await?;
        let (decrypted, encrypted_names) = match metadata.mode {
            EncryptionMode::AesCbc => {
                Cbc { key, content_key: &content_key, iv: &metadata.iv, by_java: metadata.by_java }
                    .decrypt(&properties)?
            }
            EncryptionMode::AesGcm => {
                let is_selected = |name: &str| selected.is_none_or(|selected| selected.contains(&name));
                Gcm::new(key, &content_key, &metadata.iv).decrypt(&properties, is_selected)?
            }
        };
        if self.is_required {
            let mut in_the_clear = own_values(&properties).map(|(name, _)| name);
            let is_exposed =
                |name: &&str| self.is_marked(key, marked, name) && !encrypted_names.iter().any(|n| n == name);
            if let Some(name) = in_the_clear.find(is_exposed) {
                return Err(EncryptionError::NotEncrypted { property: Some(name.to_owned()) });
            }
        }
        Ok(decrypted)
    }

    pub(super) fn encrypt_under(
        &self,
        key: &EntityKey,
        properties: &RecordBuilder,
        marked: &[&str],
        content_key: &ContentKey,
        metadata: &Metadata,
    ) -> Result<RecordBuilder, EncryptionError> {
        let is_marked = |name: &str| self.is_marked(key, marked, name);
        let mut encrypted = match metadata.mode {
            EncryptionMode::AesCbc => {
                Cbc { key, content_key, iv: &metadata.iv, by_java: metadata.by_java }.encrypt(properties, is_marked)?
            }
            EncryptionMode::AesGcm => Gcm::new(key, content_key, &metadata.iv).encrypt(properties, is_marked)?,
        };
        encrypted.push(KEY_DETAILS, EdmValue::String(&metadata.print()?));
        Ok(encrypted)
    }

    fn is_marked(&self, key: &EntityKey, marked: &[&str], name: &str) -> bool {
        let chosen = |choice: &Choice| choice(key.partition.as_str(), key.row.as_str(), name);
        marked.contains(&name) || self.choice.as_ref().is_some_and(chosen)
    }

    async fn unwrap(&self, metadata: &Metadata) -> Result<ContentKey, EncryptionError> {
        let key_id = || metadata.key_id.clone();
        let failed = |source| EncryptionError::Key { key_id: key_id(), source };
        let key = match (&self.key, &self.resolver) {
            (Some(key), _) if key.id() == metadata.key_id => Some(key.clone()),
            (_, Some(resolver)) => resolver.resolve(&metadata.key_id).await.map_err(failed)?,
            _ => None,
        };
        let key = key.ok_or_else(|| EncryptionError::UnknownKey { key_id: key_id() })?;
        let unwrapped = key.unwrap(&metadata.wrapped.algorithm, &metadata.wrapped.bytes).await;
        ContentKey::from_unwrapped(unwrapped.map_err(failed)?)
    }
}

/// Omits the keys.
impl fmt::Debug for EncryptionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptionPolicy")
            .field("mode", &self.mode)
            .field("key", &self.key.as_deref().map(KeyEncryptionKey::id))
            .field("has_resolver", &self.resolver.is_some())
            .field("is_required", &self.is_required)
            .field("accepts_unauthenticated", &self.accepts_unauthenticated)
            .finish_non_exhaustive()
    }
}

impl EncryptionPolicy {
    pub(crate) async fn encrypt_bag(
        &self,
        merges: bool,
        mut bag: PropertyBag,
        marked: &[&str],
    ) -> Result<PropertyBag, EncryptionError> {
        if merges {
            return Err(EncryptionError::MergeRefused);
        }
        bag.properties = self.encrypt(&bag.key, bag.properties.as_record_builder(), marked).await?.into();
        Ok(bag)
    }

    /// `selected` contains the property names that the request selected, or is empty to select all properties.
    pub(crate) async fn decrypt_bag(
        &self,
        mut bag: PropertyBag,
        marked: &[&str],
        selected: &[&str],
    ) -> Result<PropertyBag, EncryptionError> {
        let selected = (!selected.is_empty()).then_some(selected);
        let properties = std::mem::take(&mut bag.properties).into_record_builder();
        bag.properties = self.decrypt(&bag.key, properties, marked, selected).await?.into();
        Ok(bag)
    }
}
