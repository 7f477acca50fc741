//! The well-known development account (07 §12).

/// The name of the development account.
///
/// ```
/// assert_eq!(rowhouse_client::DEVELOPMENT_ACCOUNT, "devstoreaccount1");
/// ```
pub const DEVELOPMENT_ACCOUNT: &str = wire::signing::DEVELOPMENT_ACCOUNT;
/// The key of the development account. It is public and protects nothing.
///
/// ```
/// assert!(rowhouse_client::Credential::shared_key(rowhouse_client::DEVELOPMENT_KEY).is_some());
/// ```
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// The default endpoint of the development account.
///
/// ```
/// let endpoint = rowhouse_client::Endpoint::parse(rowhouse_client::DEVELOPMENT_ENDPOINT, None)?;
/// assert_eq!(endpoint.account().as_str(), rowhouse_client::DEVELOPMENT_ACCOUNT);
/// # Ok::<(), rowhouse_client::EndpointError>(())
/// ```
pub const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";
