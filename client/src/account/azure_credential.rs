//! Credentials of the `azure_core` crate.

use super::credential::{AccessToken, Credential, TokenCredential, TokenError};
use crate::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A credential of the `azure_core` crate, such as one from `azure_identity`, as a token source.
///
/// ```
/// use azure_core::credentials::TokenCredential;
/// use rowhouse_client::{AzureCredential, Endpoint, TableService};
/// use std::sync::Arc;
///
/// fn service(identity: Arc<dyn TokenCredential>) -> Result<TableService, rowhouse_client::Error> {
///     let endpoint = Endpoint::parse("https://orchard.table.core.windows.net", None)?;
///     TableService::new(endpoint, AzureCredential::new(identity).into())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct AzureCredential(Arc<dyn azure_core::credentials::TokenCredential>);

impl AzureCredential {
    /// Wraps a credential.
    ///
    /// ```
    /// # use azure_core::credentials::TokenCredential;
    /// # use rowhouse_client::AzureCredential;
    /// # use std::sync::Arc;
    /// fn credential(identity: Arc<dyn TokenCredential>) -> AzureCredential {
    ///     AzureCredential::new(identity)
    /// }
    /// ```
    pub fn new(credential: Arc<dyn azure_core::credentials::TokenCredential>) -> Self {
        Self(credential)
    }
}

impl From<AzureCredential> for Credential {
    fn from(credential: AzureCredential) -> Self {
        Self::Token(Arc::new(credential))
    }
}

impl TokenCredential for AzureCredential {
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<AccessToken, TokenError>> {
        Box::pin(async move {
            let token = self.0.get_token(&[scope], None).await?;
            let seconds = u64::try_from(token.expires_on.unix_timestamp()).unwrap_or_default();
            let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            Ok(AccessToken::new(token.token.secret(), Some(expires)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use azure_core::credentials::TokenRequestOptions;
    use azure_core::time::OffsetDateTime;

    #[derive(Debug)]
    struct Fixed;

    #[async_trait::async_trait]
    impl azure_core::credentials::TokenCredential for Fixed {
        async fn get_token(
            &self,
            scopes: &[&str],
            _: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<azure_core::credentials::AccessToken> {
            let expires_on = OffsetDateTime::from_unix_timestamp(1_900_000_000).unwrap();
            Ok(azure_core::credentials::AccessToken::new(scopes.join(" "), expires_on))
        }
    }

    #[tokio::test]
    async fn a_token_is_passed_on() {
        let token = AzureCredential::new(Arc::new(Fixed)).token("https://storage.azure.com/.default").await.unwrap();
        assert_eq!(&*token.secret, "https://storage.azure.com/.default");
        assert_eq!(token.expires, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000)));
    }
}
