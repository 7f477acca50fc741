//! The errors of encryption and decryption.
//!
//! Invariant: no error contains a key or a decrypted value. Strings from the service are printed with their control
//! characters escaped.

use super::KeyWrapError;
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

impl std::error::Error for EncryptionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Key { source, .. } => Some(source),
            _ => None,
        }
    }
}
