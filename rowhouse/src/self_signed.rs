//! The certificate that the server makes for itself (`--tls-self-signed`).
//!
//! It is kept in a folder across restarts, and replaced before it expires. Only this module writes the two files, so
//! their contents may be replaced. The listener reloads them like other certificates.

use crate::certificate::{self, LOCAL_NAMES};
use crate::file;
use anyhow::{Context, ensure};
use platform::files::private_folder;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{RootCertStore, ServerConfig};
use server::Files;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tracing::{info, warn};

const CERTIFICATE: &str = "rowhouse-cert.pem";
const KEY: &str = "rowhouse-key.pem";
const DAY: Duration = Duration::from_hours(24);
/// The validity of a new certificate. Some systems refuse certificates that are valid for more than 825 days.
const VALIDITY: Duration = Duration::from_hours(24 * 365);
/// The remaining validity below which a certificate is replaced.
const REMAINING_MIN: Duration = Duration::from_hours(24 * 30);

/// Where the certificate is kept, and the names in it.
#[derive(Debug, Clone)]
pub(crate) struct SelfSigned {
    certificate: PathBuf,
    key: PathBuf,
    names: Vec<String>,
}

impl SelfSigned {
    /// Returns an error if the names cannot be in a certificate, or if clients on other machines would need more names.
    pub(crate) fn new(folder: &Path, hosts: Vec<String>, listen: SocketAddr) -> anyhow::Result<Self> {
        ensure!(
            listen.ip().is_loopback() || !hosts.is_empty(),
            "refusing to make a certificate only for this machine while other machines can reach {listen}: add --tls-hosts \
             with the names under which clients reach the server, or listen on 127.0.0.1"
        );
        certificate::check_hosts(&hosts)?;
        let names = LOCAL_NAMES.into_iter().map(str::to_owned).chain(hosts).collect();
        Ok(Self { certificate: folder.join(CERTIFICATE), key: folder.join(KEY), names })
    }

    /// Returns the files and the settings of the listener. Makes a certificate if the existing one cannot be used.
    pub(crate) fn tls(&self) -> anyhow::Result<(Files<2>, ServerConfig)> {
        self.renew(SystemTime::now())?;
        let files = self.files()?;
        let config = server::server_config(&files)?;
        let certificate = self.certificate.display();
        info!(
            "clients must trust the certificate {certificate}, for {}: set REQUESTS_CA_BUNDLE (Python), NODE_EXTRA_CA_CERTS \
             (Node.js) or SSL_CERT_FILE (.NET on Linux, Go, Rust, rowhouse) to this file",
            self.names.join(", ")
        );
        Ok((files, config))
    }

    /// Replaces the certificate in time for as long as the server runs.
    pub(crate) async fn keep_valid(self) {
        loop {
            tokio::time::sleep(DAY).await;
            let made = self.clone();
            let renewed = tokio::task::spawn_blocking(move || made.renew(SystemTime::now())).await;
            match renewed.map_err(anyhow::Error::from).flatten() {
                Ok(true) => info!("clients must read {} again, which is a new certificate", self.certificate.display()),
                Ok(false) => {}
                Err(error) => warn!("the certificate could not be renewed: {error:#}"),
            }
        }
    }

    /// Makes a new certificate unless the existing one remains valid long enough. Returns true if it did.
    fn renew(&self, now: SystemTime) -> anyhow::Result<bool> {
        if self.is_usable(now + REMAINING_MIN) {
            return Ok(false);
        }
        if let Some(folder) = self.key.parent() {
            private_folder()
                .recursive(true)
                .create(folder)
                .with_context(|| format!("creating {}", folder.display()))?;
        }
        let made = certificate::make(&self.names, now, VALIDITY)?;
        file::replace(&self.key, &made.key, |_| Ok(()), || Ok(()))?;
        file::replace(&self.certificate, &made.certificate, certificate::open_to_all, || Ok(()))?;
        Ok(true)
    }

    fn files(&self) -> anyhow::Result<Files<2>> {
        Files::read([self.certificate.clone(), self.key.clone()])
    }

    /// Returns true if both files can be used, and if clients that trust the certificate will accept it at the given
    /// time under every name.
    fn is_usable(&self, time: SystemTime) -> bool {
        let Ok(files) = self.files() else { return false };
        let [content, _] = &files.contents;
        server::server_config(&files).is_ok()
            && CertificateDer::from_pem_slice(content).is_ok_and(|certificate| self.is_accepted(&certificate, time))
    }

    fn is_accepted(&self, certificate: &CertificateDer<'_>, time: SystemTime) -> bool {
        let mut roots = RootCertStore::empty();
        if roots.add(certificate.clone().into_owned()).is_err() {
            return false;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build() else {
            return false;
        };
        let time = UnixTime::since_unix_epoch(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        self.names.iter().all(|name| {
            // A wildcard stands for one label.
            let name = name.replacen('*', "any", 1);
            ServerName::try_from(name)
                .is_ok_and(|name| verifier.verify_server_cert(certificate, &[], &name, &[], time).is_ok())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn made_in(folder: &Path, hosts: &[&str]) -> SelfSigned {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        SelfSigned::new(folder, hosts, "127.0.0.1:0".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_certificate_is_kept_until_a_month_before_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let made = made_in(&folder.path().join("new"), &[]);
        let now = SystemTime::now();
        assert!(made.renew(now).unwrap());
        let first = made.files().unwrap();
        assert!(!made.renew(now + VALIDITY - REMAINING_MIN - DAY).unwrap());
        assert!(made.files().unwrap() == first);
        assert!(made.renew(now + VALIDITY - REMAINING_MIN + DAY).unwrap());
        assert!(made.files().unwrap() != first);
    }

    #[test]
    fn a_certificate_without_a_name_or_its_key_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        assert!(made_in(folder.path(), &["tables.example.net"]).renew(now).unwrap());
        let made = made_in(folder.path(), &["tables.example.net", "*.tables.example.net", "192.0.2.7"]);
        assert!(made.renew(now).unwrap());
        assert!(!made.renew(now).unwrap());
        for damage in [Some("nonsense"), None] {
            match damage {
                Some(text) => fs::write(&made.certificate, text).unwrap(),
                None => fs::remove_file(&made.key).unwrap(),
            }
            assert!(made.renew(now).unwrap());
            assert!(!made.renew(now).unwrap());
        }
    }

    #[test]
    fn names_are_required_where_other_machines_connect() {
        let new = |hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            SelfSigned::new(Path::new("."), hosts, "0.0.0.0:443".parse().unwrap())
        };
        assert!(new(&[]).unwrap_err().to_string().contains("--tls-hosts"));
        assert!(new(&["a b"]).is_err());
        assert!(new(&["tables.example.net"]).is_ok());
    }
}
