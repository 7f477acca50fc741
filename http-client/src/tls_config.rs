//! The TLS configuration of a client.

use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// Returns the certificate authorities that the system trusts, or those in `SSL_CERT_FILE`.
///
/// ```
/// # use rowhouse_http_client::system_roots;
/// let trusts_any = !system_roots().is_empty();
/// # let _ = trusts_any;
/// ```
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Returns a TLS configuration that trusts these certificate authorities and has no client certificate.
///
/// ```
/// # use rowhouse_http_client::{HttpClient, HttpOptions, tls_config};
/// use rustls::RootCertStore;
///
/// let mut own = RootCertStore::empty();
/// # let certificates: Vec<rustls::pki_types::CertificateDer<'_>> = Vec::new();
/// own.add_parsable_certificates(certificates);
/// let client = HttpClient::new(HttpOptions::default(), tls_config(own)?);
/// # let _ = client;
/// # Ok::<(), rustls::Error>(())
/// ```
pub fn tls_config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
