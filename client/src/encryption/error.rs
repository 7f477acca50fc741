//! Why an entity was not encrypted or not decrypted.
//!
//! Invariant: no error holds a key or a decrypted value. What came from the service is printed with its control characters
//! escaped.

use super::KeyWrapError;
use model::EdmType;
use std::fmt;

/// Why the properties of an entity could not be encrypted or decrypted.
///
/// ```
/// use rowhouse_client::encryption::EncryptionError;
///
/// let error = EncryptionError::UnknownKey { key_id: "key-2019".to_owned() };
/// assert_eq!(error.to_string(), "the entity is encrypted under the key \"key-2019\", which the policy does not have");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum EncryptionError {
    /// The policy has no key to encrypt with.
    NoKey,
    /// The policy has neither this key nor a resolver that knows it.
    UnknownKey {
        /// The id of the key, as the entity names it.
        key_id: String,
    },
    /// A key did not wrap or unwrap the content key, or the resolver failed.
    Key {
        /// The id of the key.
        key_id: String,
        /// Why.
        source: KeyWrapError,
    },
    /// The policy requires encryption, and the entity or one of its properties is not encrypted.
    NotEncrypted {
        /// The property that should be encrypted; `None` if the entity has no metadata of encryption.
        property: Option<String>,
    },
    /// The entity is in the format of the retired libraries, and the policy accepts authenticated encryption only.
    NotAuthenticated,
    /// The metadata of the encryption are incomplete or malformed.
    MalformedMetadata {
        /// What is wrong with them.
        why: &'static str,
    },
    /// The entity was encrypted by a protocol that is not known here.
    UnknownProtocol {
        /// The protocol that the entity names.
        protocol: String,
    },
    /// The entity was encrypted with an algorithm that is not known here.
    UnknownAlgorithm {
        /// The algorithm that the entity names.
        algorithm: String,
    },
    /// A property cannot be decrypted: it was changed, moved from another entity, or encrypted under another key.
    Damaged {
        /// The name of the property; `_ClientEncryptionMetadata2` is the list of the encrypted properties.
        property: String,
    },
    /// An encrypted property was removed from the entity.
    Missing {
        /// The name of the property.
        property: String,
    },
    /// The format of the retired libraries encrypts strings only.
    NotAString {
        /// The name of the property.
        property: String,
        /// Its type.
        edm_type: EdmType,
    },
    /// An encrypted value is larger than a Binary may be.
    TooLarge {
        /// The name of the property.
        property: String,
        /// Its size after encryption, in bytes.
        bytes: usize,
    },
    /// With the two properties of the encryption, the entity has more than 252 custom properties.
    TooManyProperties,
    /// The entity to encrypt already has a property of the name of the metadata.
    ReservedProperty {
        /// The name of the property.
        property: &'static str,
    },
    /// A merge cannot encrypt: the properties that it keeps are encrypted under another content key.
    MergeRefused,
    /// The operating system gave no random bytes.
    NoRandomness,
}

impl fmt::Display for EncryptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("the encryption policy has no key to encrypt with"),
            Self::UnknownKey { key_id } => {
                write!(f, "the entity is encrypted under the key {key_id:?}, which the policy does not have")
            }
            Self::Key { key_id, source } => write!(f, "the key {key_id:?} failed: {source}"),
            Self::NotEncrypted { property: None } => {
                f.write_str("the policy requires encryption, and the entity is not encrypted")
            }
            Self::NotEncrypted { property: Some(property) } => {
                write!(f, "the policy requires encryption, and the property {property:?} is not encrypted")
            }
            Self::NotAuthenticated => f.write_str(
                "the entity is encrypted without authentication (AES_CBC_256), which the policy does not accept",
            ),
            Self::MalformedMetadata { why } => write!(f, "the metadata of the encryption are malformed: {why}"),
            Self::UnknownProtocol { protocol } => write!(f, "the encryption protocol {protocol:?} is not known"),
            Self::UnknownAlgorithm { algorithm } => write!(f, "the encryption algorithm {algorithm:?} is not known"),
            Self::Damaged { property } => {
                write!(f, "the property {property:?} was changed, or encrypted under another key")
            }
            Self::Missing { property } => write!(f, "the encrypted property {property:?} was removed from the entity"),
            Self::NotAString { property, edm_type } => {
                let name = edm_type.name();
                write!(
                    f,
                    "the property {property:?} is {name}; the format of the retired libraries encrypts strings only"
                )
            }
            Self::TooLarge { property, bytes } => {
                let max = model::limits::BINARY_BYTES_MAX;
                write!(f, "the property {property:?} has {bytes} bytes after encryption, more than {max}")
            }
            Self::TooManyProperties => f.write_str("an encrypted entity has at most 250 properties of its own"),
            Self::ReservedProperty { property } => write!(f, "the property {property:?} belongs to the encryption"),
            Self::MergeRefused => f.write_str("a merge cannot encrypt properties; use replace or insert-or-replace"),
            Self::NoRandomness => f.write_str("the operating system gave no random bytes"),
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
