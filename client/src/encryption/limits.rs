//! The limits on the metadata of an encrypted entity. Names end with their unit.

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
/// The length of a content key, in bytes. The format of the retired libraries supports only AES-256.
pub(super) const CONTENT_KEY_BYTES: usize = 32;

const _: () = assert!(METADATA_BYTES_MAX <= model::limits::STRING_UTF16_UNITS_MAX);
const _: () = assert!((WRAPPED_KEY_BYTES_MAX / 3 + 1) * 4 + KEY_ID_BYTES_MAX < METADATA_BYTES_MAX);
