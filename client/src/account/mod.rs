//! The URL of an account, and the credentials that authorize its requests.
//!
//! This folder must not depend on requests.

#[cfg(feature = "azure_core")]
mod azure_credential;
mod connection_string;
mod credential;
mod endpoint;

#[cfg(feature = "azure_core")]
pub use azure_credential::AzureCredential;
pub use connection_string::ConnectionString;
pub use credential::{AccessToken, Credential, SharedKey, TokenCredential, TokenError};
pub use endpoint::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY};
pub use endpoint::{Endpoint, EndpointError};
