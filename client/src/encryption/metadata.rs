//! `_ClientEncryptionMetadata1`: the wrapped content key of an entity and the algorithm with which it is used, as JSON.
//!
//! Invariant: all lengths are bounded and nothing in the string is trusted, because it comes from the service.
//!
//! This module must not know how properties are encrypted.

use crate::encryption::{EncryptionError, WrappedKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The string property with the metadata of this module.
pub(super) const KEY_DETAILS: &str = "_ClientEncryptionMetadata1";
/// The Binary property with the encrypted list of the encrypted properties.
pub(super) const PROPERTY_DETAILS: &str = "_ClientEncryptionMetadata2";

/// The initialization vector of an entity: random bytes for each write.
pub(super) type Iv = [u8; 16];

const PROTOCOL: &str = "1.0";
const AES_CBC_256: &str = "AES_CBC_256";
/// All three retired libraries refuse this unknown name. The protocol number is theirs, because the Python library
/// treats an entity with an unknown protocol as unencrypted.
const AES_GCM_256: &str = "AES_GCM_256_ROWHOUSE";
/// It must not contain `Java`: readers interpret that word as the Java library's order of keys.
const LIBRARY: &str = concat!("Rust rowhouse-client ", env!("CARGO_PKG_VERSION"));

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Json {
    wrapped_content_key: JsonKey,
    encryption_agent: JsonAgent,
    #[serde(rename = "ContentEncryptionIV")]
    content_encryption_iv: String,
    key_wrapping_metadata: Option<JsonLibrary>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JsonKey {
    key_id: String,
    encrypted_key: String,
    algorithm: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JsonAgent {
    protocol: String,
    encryption_algorithm: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JsonLibrary {
    encryption_library: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Metadata {
    pub(super) mode: EncryptionMode,
    pub(super) key_id: String,
    pub(super) wrapped: WrappedKey,
    pub(super) iv: Iv,
    /// True if the Java library wrote the entity. Its format differs from the other libraries in two ways.
    pub(super) by_java: bool,
}

impl Metadata {
    pub(super) fn print(&self) -> Result<String, EncryptionError> {
        let json = Json {
            wrapped_content_key: JsonKey {
                key_id: self.key_id.clone(),
                encrypted_key: STANDARD.encode(&self.wrapped.bytes),
                algorithm: self.wrapped.algorithm.clone(),
            },
            encryption_agent: JsonAgent {
                protocol: PROTOCOL.to_owned(),
                encryption_algorithm: match self.mode {
                    EncryptionMode::AesCbc => AES_CBC_256.to_owned(),
                    EncryptionMode::AesGcm => AES_GCM_256.to_owned(),
                },
            },
            content_encryption_iv: STANDARD.encode(self.iv),
            key_wrapping_metadata: Some(JsonLibrary { encryption_library: Some(LIBRARY.to_owned()) }),
        };
        let text = serde_json::to_string(&json).map_err(|_| malformed("it cannot be written as JSON"))?;
        self.check_lengths()?;
        if text.len() > METADATA_BYTES_MAX { Err(malformed("it is too long")) } else { Ok(text) }
    }

    pub(super) fn parse(text: &str) -> Result<Self, EncryptionError> {
        if text.len() > METADATA_BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        let json: Json = serde_json::from_str(text).map_err(|_| malformed("it is not the expected JSON"))?;
        if json.encryption_agent.protocol != PROTOCOL {
            return Err(EncryptionError::UnknownProtocol { protocol: json.encryption_agent.protocol });
        }
        let mode = match json.encryption_agent.encryption_algorithm.as_str() {
            AES_CBC_256 => EncryptionMode::AesCbc,
            AES_GCM_256 => EncryptionMode::AesGcm,
            other => return Err(EncryptionError::UnknownAlgorithm { algorithm: other.to_owned() }),
        };
        let iv = STANDARD.decode(&json.content_encryption_iv).ok().and_then(|bytes| bytes.try_into().ok());
        let bytes = STANDARD.decode(&json.wrapped_content_key.encrypted_key);
        let metadata = Self {
            mode,
            key_id: json.wrapped_content_key.key_id,
            wrapped: WrappedKey {
                algorithm: json.wrapped_content_key.algorithm,
                bytes: bytes.map_err(|_| malformed("the wrapped key is not Base64"))?,
            },
            iv: iv.ok_or(malformed("the initialization vector is not 16 bytes in Base64"))?,
            // The first versions of the Java library omitted this field.
            by_java: json
                .key_wrapping_metadata
                .is_none_or(|metadata| metadata.encryption_library.is_some_and(|library| library.contains("Java"))),
        };
        metadata.check_lengths()?;
        Ok(metadata)
    }

    fn check_lengths(&self) -> Result<(), EncryptionError> {
        if self.wrapped.bytes.len() > WRAPPED_KEY_BYTES_MAX {
            return Err(malformed("the wrapped key is too long"));
        }
        if self.key_id.len() > KEY_ID_BYTES_MAX {
            return Err(malformed("the key ID is too long"));
        }
        Ok(())
    }
}

fn malformed(why: &'static str) -> EncryptionError {
    EncryptionError::MalformedMetadata { why }
}

/// The format in which properties are encrypted when an entity is written.
///
/// ```
/// use rowhouse_client::encryption::EncryptionMode;
///
/// assert_ne!(EncryptionMode::AesCbc, EncryptionMode::AesGcm);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncryptionMode {
    /// AES-256-CBC, the format of the retired libraries for .NET, Java and Python. It supports only strings and has no
    /// authentication: changes of the stored bytes may go undetected.
    AesCbc,
    /// AES-256-GCM. It supports every type and detects every change of an encrypted property. The retired libraries
    /// refuse it.
    AesGcm,
}

/// The maximum length of `_ClientEncryptionMetadata1`, in bytes: 16 KiB. With a 4,096-bit RSA key, it has about 1 KiB.
pub(super) const METADATA_BYTES_MAX: usize = 16 * 1024;
/// The maximum length of the list of encrypted properties after decryption, in bytes: the maximum size of a Binary.
pub(super) const NAME_LIST_BYTES_MAX: usize = model::limits::BINARY_BYTES_MAX;
/// The maximum length of a wrapped content key, in bytes: 2 KiB, enough for a 16,384-bit RSA key in a vault.
pub(super) const WRAPPED_KEY_BYTES_MAX: usize = 2 * 1024;
/// The maximum length of a key ID, in bytes: 2 KiB. Vaults use URLs as IDs.
pub(super) const KEY_ID_BYTES_MAX: usize = 2 * 1024;
/// The minimum length of an RSA modulus, in bits.
pub(super) const RSA_BITS_MIN: usize = 2048;
/// The maximum length of an RSA modulus, in bits. The `rsa` crate does not accept longer public keys.
pub(super) const RSA_BITS_MAX: usize = 4096;

const _: () = assert!(METADATA_BYTES_MAX <= model::limits::STRING_UTF16_UNITS_MAX);
const _: () = assert!((WRAPPED_KEY_BYTES_MAX / 3 + 1) * 4 + KEY_ID_BYTES_MAX < METADATA_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(mode: EncryptionMode) -> Metadata {
        let wrapped = WrappedKey { algorithm: "A256KW".to_owned(), bytes: vec![1, 2, 3] };
        Metadata { mode, key_id: "key \"ü\"".to_owned(), wrapped, iv: [5; 16], by_java: false }
    }

    #[test]
    fn what_is_written_can_be_read() {
        for mode in [EncryptionMode::AesCbc, EncryptionMode::AesGcm] {
            let metadata = metadata(mode);
            assert_eq!(Metadata::parse(&metadata.print().unwrap()).unwrap(), metadata);
        }
        assert!(!LIBRARY.contains("Java"));
    }

    #[test]
    fn the_text_is_pinned() {
        let text = metadata(EncryptionMode::AesCbc).print().unwrap();
        let expected = concat!(
            r#"{"WrappedContentKey":{"KeyId":"key \"ü\"","EncryptedKey":"AQID","Algorithm":"A256KW"},"#,
            r#""EncryptionAgent":{"Protocol":"1.0","EncryptionAlgorithm":"AES_CBC_256"},"#,
            r#""ContentEncryptionIV":"BQUFBQUFBQUFBQUFBQUFBQ==","#,
            r#""KeyWrappingMetadata":{"EncryptionLibrary":"Rust rowhouse-client "#,
        );
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn java_is_recognized() {
        let text = metadata(EncryptionMode::AesCbc).print().unwrap();
        let by = |library: &str| {
            let (before, _) = text.split_once(r#""KeyWrappingMetadata""#).unwrap();
            Metadata::parse(&format!("{before}{library}}}"))
        };
        for (library, is_java) in [
            (r#""KeyWrappingMetadata":{"EncryptionLibrary":"Java 8.6.6"}"#, true),
            (r#""KeyWrappingMetadata":null"#, true),
            (r#""Unknown":[1]"#, true),
            (r#""KeyWrappingMetadata":{"EncryptionLibrary":"Python 1.0.6"}"#, false),
            (r#""KeyWrappingMetadata":{"Other":"x"}"#, false),
        ] {
            assert_eq!(by(library).unwrap().by_java, is_java, "{library}");
        }
        assert!(by(r#""KeyWrappingMetadata":{"EncryptionLibrary":8}"#).is_err());
    }

    #[test]
    fn malformed_metadata_are_refused() {
        let text = metadata(EncryptionMode::AesCbc).print().unwrap();
        for (from, to) in [
            ("AQID", "AQ!D"),
            ("BQUFBQUFBQUFBQUFBQUFBQ==", "BQUFBQUFBQUFBQUFBQUF"),
            ("BQUFBQUFBQUFBQUFBQUFBQ==", "BQUFBQUFBQUFBQUFBQUFBQ"),
            (r#""Protocol":"1.0","#, ""),
            ("{\"Wrapped", "{{\"Wrapped"),
            (r#""KeyId":"#, r#""KeyId":"","KeyId":"#),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            assert!(matches!(Metadata::parse(&changed), Err(EncryptionError::MalformedMetadata { .. })), "{changed}");
        }
        let long = |from: &str, to: String| Metadata::parse(&text.replace(from, &to));
        for refused in [
            long("AQID", "AAAA".repeat(WRAPPED_KEY_BYTES_MAX / 3 + 1)),
            long("A256KW", "A".repeat(METADATA_BYTES_MAX)),
            long("key ", "k".repeat(KEY_ID_BYTES_MAX)),
            Metadata::parse(""),
        ] {
            assert!(matches!(refused, Err(EncryptionError::MalformedMetadata { .. })));
        }
        let protocol = Metadata::parse(&text.replace("\"1.0\"", "\"2.0\""));
        assert!(matches!(protocol, Err(EncryptionError::UnknownProtocol { protocol }) if protocol == "2.0"));
        let algorithm = Metadata::parse(&text.replace("AES_CBC_256", "AES_X"));
        assert!(matches!(algorithm, Err(EncryptionError::UnknownAlgorithm { algorithm }) if algorithm == "AES_X"));
    }
}
