//! Turns a certificate and its key into the TLS settings of the listener.
//!
//! Supports TLS 1.2 and 1.3 with the cipher suites that rustls considers safe, and only HTTP/1.1. Supports neither
//! early data nor client certificates. Errors name the files and never show any part of the key.

use crate::reload::Files;
use anyhow::{Context, anyhow, bail};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, ServerConfig};
use std::path::Path;
use std::sync::Arc;

const ENCRYPTED_KEY: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
/// The header that marks an encrypted key in the older format.
const ENCRYPTED_KEY_HEADER: &[u8] = b"Proc-Type: 4,ENCRYPTED";

/// Returns the TLS settings for two PEM files: one with the certificates, of which the first is the server's own, and
/// one with the key.
pub fn server_config(files: &Files<2>) -> anyhow::Result<ServerConfig> {
    let ([certificate_path, key_path], [certificates, key]) = (&files.paths, &files.contents);
    let chain = chain(certificate_path, certificates)?;
    let key = private_key(key_path, key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("choosing the TLS versions")?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&error, certificate_path, key_path))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn chain(path: &Path, content: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let chain: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(content).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => bail!(
            "{} holds no readable certificate: give a PEM file that begins with -----BEGIN CERTIFICATE-----, with the \
             server's own certificate first, followed by the intermediate certificates",
            path.display()
        ),
    }
}

fn private_key(path: &Path, content: &[u8]) -> anyhow::Result<PrivateKeyDer<'static>> {
    let has = |mark: &[u8]| content.windows(mark.len()).any(|window| window == mark);
    let path = path.display();
    if has(ENCRYPTED_KEY) || has(ENCRYPTED_KEY_HEADER) {
        bail!(
            "the key in {path} is encrypted, and the server cannot ask for its password: decrypt it \
             (openssl pkey -in {path} -out NEW) and protect the new file by its permissions (chmod 600 NEW)"
        );
    }
    // The parser's error would quote the wrong line and, with it, a part of the key.
    PrivateKeyDer::from_pem_slice(content).map_err(|_| {
        anyhow!(
            "{path} holds no readable private key: give a PEM file with a section PRIVATE KEY, EC PRIVATE KEY or RSA \
             PRIVATE KEY"
        )
    })
}

fn unusable(error: &Error, certificate_path: &Path, key_path: &Path) -> anyhow::Error {
    let (certificate, key) = (certificate_path.display(), key_path.display());
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => anyhow!(
            "the key in {key} does not match the first certificate in {certificate}: give a certificate and its \
             own key, and put the server's own certificate first"
        ),
        Error::InvalidCertificate(_) => anyhow!("the first certificate in {certificate} cannot be read: {error}"),
        error => anyhow!(
            "the key in {key} cannot be used ({error}): give an RSA key of at least 2048 bits, an ECDSA key on P-256 or \
             P-384, or an Ed25519 key"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Pair {
        certificate: String,
        key: String,
    }

    fn pair() -> Pair {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Pair { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn config(certificate: &str, key: &str) -> Result<ServerConfig, String> {
        let paths = [PathBuf::from("cert.pem"), PathBuf::from("key.pem")];
        let contents = [certificate.as_bytes().to_vec(), key.as_bytes().to_vec()];
        server_config(&Files { paths, contents, is_secret: true }).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_certificate_and_its_key_are_taken_also_from_one_file() {
        let Pair { certificate, key } = pair();
        assert_eq!(config(&certificate, &key).unwrap().alpn_protocols, [b"http/1.1"]);
        let both = format!("{key}\n{certificate}");
        assert!(config(&both, &both).is_ok());
        let windows = certificate.replace('\n', "\r\n");
        assert!(config(&windows, &key).is_ok());
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_file_and_what_to_do_and_without_the_key() {
        let Pair { certificate, key } = pair();
        let other = pair();
        let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let secret = key.lines().nth(1).unwrap().to_owned();
        let cut_key: String = key.lines().take(2).collect::<Vec<_>>().join("\n");
        let nonsense_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let nonsense_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (certificate, key, part) in [
            ("", key.as_str(), "cert.pem holds no readable certificate"),
            (&key, &key, "cert.pem holds no readable certificate"),
            (&certificate[..200], &key, "cert.pem holds no readable certificate"),
            (nonsense_certificate, &key, "certificate in cert.pem cannot be read"),
            (&certificate, "", "key.pem holds no readable private key"),
            (&certificate, &certificate, "key.pem holds no readable private key"),
            (&certificate, &cut_key, "key.pem holds no readable private key"),
            (&certificate, &key.replace("MIG", "M*G"), "key.pem holds no readable private key"),
            (&certificate, &encrypted, "openssl pkey -in key.pem"),
            (&certificate, nonsense_key, "key.pem cannot be used"),
            (&certificate, &other.key, "does not match the first certificate in cert.pem"),
        ] {
            let message = config(certificate, key).unwrap_err();
            assert!(message.contains(part), "{part}: {message}");
            assert!(!message.contains(&secret), "{message}");
        }
    }
}
