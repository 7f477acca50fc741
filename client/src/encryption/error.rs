//! The errors of encryption and decryption.
//!
//! Invariant: no error contains a key or a decrypted value. Strings from the service are printed with their control
//! characters escaped.

use model::EdmType;
use std::fmt;

/// The reason why the properties of an entity could not be encrypted or decrypted.
///
/// ```
/// use rowhouse_client::encryption::EncryptionError;
///
/// let error = EncryptionError::UnknownKey { key_id: "key-2019".to_owned() };
/// assert_eq!(error.to_string(), "the entity is encrypted with the key \"key-2019\", which the policy does not have");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum EncryptionError {
    /// The policy has no key for encryption.
    NoKey,
    /// The policy does not have this key, and no resolver finds it.
    UnknownKey {
        /// The ID of the key, as given in the entity.
        key_id: String,
    },
    /// A key could not wrap or unwrap the content key, or the resolver failed.
    Key {
        /// The ID of the key.
        key_id: String,
        /// The reason.
        source: KeyWrapError,
    },
    /// The policy requires encryption, but the entity or one of its properties is not encrypted.
    NotEncrypted {
        /// The property that should be encrypted; `None` if the entity has no encryption metadata.
        property: Option<String>,
    },
    /// The entity is in the format of the retired libraries, but the policy accepts only authenticated encryption.
    NotAuthenticated,
    /// The encryption metadata is incomplete or malformed.
    MalformedMetadata {
        /// What is wrong with the metadata.
        why: &'static str,
    },
    /// The entity was encrypted with an unknown protocol.
    UnknownProtocol {
        /// The protocol given in the entity.
        protocol: String,
    },
    /// The entity was encrypted with an unknown algorithm.
    UnknownAlgorithm {
        /// The algorithm given in the entity.
        algorithm: String,
    },
    /// A property cannot be decrypted: it was changed, moved from another entity, or encrypted with a different key.
    Damaged {
        /// The name of the property; `_ClientEncryptionMetadata2` stands for the list of the encrypted properties.
        property: String,
    },
    /// An encrypted property was removed from the entity.
    Missing {
        /// The name of the property.
        property: String,
    },
    /// The format of the retired libraries encrypts only strings.
    NotAString {
        /// The name of the property.
        property: String,
        /// The type of the property.
        edm_type: EdmType,
    },
    /// An encrypted value exceeds the maximum size of a Binary.
    TooLarge {
        /// The name of the property.
        property: String,
        /// The size after encryption, in bytes.
        bytes: usize,
    },
    /// With the two properties that encryption adds, the entity has more than 252 custom properties.
    TooManyProperties,
    /// The entity to encrypt already has a property with the name of a metadata property.
    ReservedProperty {
        /// The name of the property.
        property: &'static str,
    },
    /// A merge cannot encrypt: the properties that it leaves unchanged are encrypted with a different content key.
    MergeRefused,
    /// The operating system provided no random bytes.
    NoRandomness,
}

impl fmt::Display for EncryptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("the encryption policy has no key to encrypt with"),
            Self::UnknownKey { key_id } => {
                write!(f, "the entity is encrypted with the key {key_id:?}, which the policy does not have")
            }
            Self::Key { key_id, source } => write!(f, "the key {key_id:?} failed: {source}"),
            Self::NotEncrypted { property: None } => {
                f.write_str("the policy requires encryption, but the entity is not encrypted")
            }
            Self::NotEncrypted { property: Some(property) } => {
                write!(f, "the policy requires encryption, but the property {property:?} is not encrypted")
            }
            Self::NotAuthenticated => f.write_str(
                "the entity is encrypted without authentication (AES_CBC_256), which the policy does not accept",
            ),
            Self::MalformedMetadata { why } => write!(f, "the encryption metadata is malformed: {why}"),
            Self::UnknownProtocol { protocol } => write!(f, "the encryption protocol {protocol:?} is unknown"),
            Self::UnknownAlgorithm { algorithm } => write!(f, "the encryption algorithm {algorithm:?} is unknown"),
            Self::Damaged { property } => {
                write!(f, "the property {property:?} was changed or encrypted with a different key")
            }
            Self::Missing { property } => write!(f, "the encrypted property {property:?} was removed from the entity"),
            Self::NotAString { property, edm_type } => {
                let name = edm_type.name();
                write!(
                    f,
                    "the property {property:?} is {name}; the format of the retired libraries encrypts only strings"
                )
            }
            Self::TooLarge { property, bytes } => {
                let max = model::limits::BINARY_BYTES_MAX;
                write!(f, "the property {property:?} has {bytes} bytes after encryption, more than {max}")
            }
            Self::TooManyProperties => f.write_str("an encrypted entity can have at most 250 other custom properties"),
            Self::ReservedProperty { property } => write!(f, "the property {property:?} is reserved for encryption"),
            Self::MergeRefused => f.write_str("a merge cannot encrypt properties; use replace or insert-or-replace"),
            Self::NoRandomness => f.write_str("the operating system provided no random bytes"),
        }
    }
}

// There is no source, because the message contains the cause.
impl std::error::Error for EncryptionError {}

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

// There is no source, because the message contains the cause.
impl std::error::Error for KeyWrapError {}
