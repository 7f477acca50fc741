//! The kind of credential that a request carries, for logs, metrics and analytics.

/// The kind of a credential, whether it is valid or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// No credential, or none that was read. Preflight requests have none.
    #[default]
    Anonymous,
    /// Shared Key or Shared Key Lite, or an `Authorization` header with an unsupported scheme.
    SharedKey,
    SharedAccessSignature,
    Bearer,
}

impl CredentialKind {
    /// All kinds, in the order of their discriminants.
    pub(crate) const ALL: [Self; 4] = [Self::Anonymous, Self::SharedKey, Self::SharedAccessSignature, Self::Bearer];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::SharedKey => "shared_key",
            Self::SharedAccessSignature => "shared_access_signature",
            Self::Bearer => "bearer",
        }
    }
}
