//! Which kind of credential a request carries, for logs, metrics and analytics.

/// The kind of a credential, whether it is valid or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// No credential, or none that was read: preflight requests have none.
    #[default]
    Anonymous,
    /// Shared Key or Shared Key Lite, or an `Authorization` header of a scheme that is not in use.
    SharedKey,
    /// A shared access signature in the address.
    SharedAccessSignature,
    /// A bearer token.
    Bearer,
}

impl CredentialKind {
    /// Every kind, in the order of its number.
    pub(crate) const ALL: [Self; 4] = [Self::Anonymous, Self::SharedKey, Self::SharedAccessSignature, Self::Bearer];

    /// The name in logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::SharedKey => "shared_key",
            Self::SharedAccessSignature => "shared_access_signature",
            Self::Bearer => "bearer",
        }
    }
}
