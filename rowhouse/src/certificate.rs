//! `rowhouse certificate`: creates a self-signed certificate and its private key.

use crate::file::write_new;
use anyhow::{Context, ensure};
use clap::Args;
use platform::files::make_readable;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::ServerName;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rowhouse certificate
      for clients on this machine: localhost, 127.0.0.1 and ::1
  rowhouse certificate tables.example.net 192.0.2.7 --days 90
      also for clients on other machines, under these names
  rowhouse serve --tls-cert cert.pem --tls-key key.pem
      start a server that uses the certificate
  SSL_CERT_FILE=cert.pem rowhouse table list --endpoint https://localhost:10002/devstoreaccount1
      run a client that trusts the certificate";

/// The names in every certificate.
pub(crate) const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// How long before its creation the certificate becomes valid, because clocks differ.
const CLOCK_DIFFERENCE: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The options of `certificate`.
#[derive(Debug, Args)]
pub struct CertificateArgs {
    /// Host names and IP addresses under which clients reach the server, in addition to localhost, 127.0.0.1 and ::1
    #[allow(clippy::doc_markdown, reason = "the comment is the help text, which must not contain backticks")]
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,

    /// File for the certificate, which must not exist
    #[arg(long, value_name = "FILE", default_value = "cert.pem")]
    cert: PathBuf,

    /// File for the private key, which must not exist. It is readable only by its owner
    #[arg(long, value_name = "FILE", default_value = "key.pem")]
    key: PathBuf,

    /// Validity of the certificate, in days. Some systems refuse certificates that are valid for more than 825 days
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

/// Writes both files, and returns the output to print.
pub(crate) fn run(args: CertificateArgs) -> anyhow::Result<String> {
    let CertificateArgs { hosts, cert, key, days } = args;
    for path in [&cert, &key] {
        ensure!(
            !path.exists(),
            "{} already exists: choose a different file with --cert or --key, or remove it",
            path.display()
        );
    }
    check_hosts(&hosts)?;
    let names: Vec<String> = LOCAL_NAMES.into_iter().map(str::to_owned).chain(hosts).collect();
    let made = make(&names, SystemTime::now(), DAY.saturating_mul(days))?;
    write_new(&key, &made.key, |_| Ok(())).with_context(|| format!("writing {}", key.display()))?;
    let written = write_new(&cert, &made.certificate, open_to_all).inspect_err(|_| {
        // The key is useless without the certificate.
        let _ = std::fs::remove_file(&key);
    });
    written.with_context(|| format!("writing {}", cert.display()))?;
    let (cert, key) = (cert.display(), key.display());
    Ok(format!(
        "certificate: {cert}, for {}, valid for {days} days\nprivate key: {key}\nserver: rowhouse serve --tls-cert {cert} \
         --tls-key {key}\nclients: trust {cert}, for example with SSL_CERT_FILE={cert}\n",
        names.join(", ")
    ))
}

/// Returns an error unless each is a host name, possibly with a wildcard, or an IP address.
pub(crate) fn check_hosts(hosts: &[String]) -> anyhow::Result<()> {
    for host in hosts {
        let name = host.strip_prefix("*.").unwrap_or(host);
        ensure!(ServerName::try_from(name).is_ok(), "'{host}' is neither a host name nor an IP address");
    }
    Ok(())
}

/// A certificate and its private key, in PEM.
pub(crate) struct GeneratedCertificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Makes a self-signed certificate that is valid for a time from now.
pub(crate) fn make(names: &[String], now: SystemTime, valid: Duration) -> anyhow::Result<GeneratedCertificate> {
    let mut params = CertificateParams::new(names).context("reading the host names")?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Rowhouse");
    params.not_before = (now - CLOCK_DIFFERENCE).into();
    params.not_after = (now + valid).into();
    // A server must not present the certificate of an authority, and strict clients require an explicit statement.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().context("generating a key")?;
    let certificate = params.self_signed(&key).context("signing the certificate")?;
    Ok(GeneratedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Lets all users of the machine read a new certificate, in which nothing is secret.
pub(crate) fn open_to_all(certificate: &File) -> anyhow::Result<()> {
    Ok(make_readable(certificate)?)
}
