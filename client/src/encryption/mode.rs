//! The formats of encrypted properties.

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
