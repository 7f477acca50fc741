//! The limits of what is read of the metadata of an encrypted entity. The name of each ends with its unit.

/// Longest text of `_ClientEncryptionMetadata1`, in bytes: 16 KiB. With an RSA key of 4,096 bits it has about 1 KiB.
pub(super) const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Longest list of the encrypted properties, in bytes after decryption: a Binary has no more.
pub(super) const NAME_LIST_BYTES_MAX: usize = model::limits::BINARY_BYTES_MAX;
/// Longest wrapped content key, in bytes: 2 KiB, enough for an RSA key of 16,384 bits in a vault.
pub(super) const WRAPPED_KEY_BYTES_MAX: usize = 2 * 1024;
/// Longest id of a key, in bytes: 2 KiB. Vaults use addresses as ids.
pub(super) const KEY_ID_BYTES_MAX: usize = 2 * 1024;
/// Shortest modulus of an RSA key, in bits.
pub(super) const RSA_BITS_MIN: usize = 2048;
/// Longest modulus of an RSA key, in bits: what the library below accepts of public keys.
pub(super) const RSA_BITS_MAX: usize = 4096;
/// Size of a content key, in bytes: the format of the retired libraries knows AES with 256 bits only.
pub(super) const CONTENT_KEY_BYTES: usize = 32;

const _: () = assert!(METADATA_BYTES_MAX <= model::limits::STRING_UTF16_UNITS_MAX);
const _: () = assert!((WRAPPED_KEY_BYTES_MAX / 3 + 1) * 4 + KEY_ID_BYTES_MAX < METADATA_BYTES_MAX);
