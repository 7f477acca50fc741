//! TLS handshake failures: which ones are permanent, and advice on each.
//!
//! This module must not know requests.

use rustls::{CertificateError, Error, OtherError};
use std::error::Error as StdError;
use std::{fmt, io};

/// Returns the TLS failure that caused a connection error; `None` if the connection itself failed.
pub(crate) fn find<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(failure) = error.downcast_ref::<Error>() {
            return Some(failure);
        }
        // `source` of an I/O error skips the wrapped error and returns the source of that error.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|wrapped| wrapped as &(dyn StdError + 'static)).or_else(|| error.source());
    }
    None
}

/// Returns true if the same handshake would fail again.
pub(crate) fn is_permanent(failure: &Error) -> bool {
    matches!(
        failure,
        Error::InvalidCertificate(_)
            | Error::InvalidMessage(_)
            | Error::PeerIncompatible(_)
            | Error::NoCertificatesPresented
            | Error::UnsupportedNameType
    )
}

/// Writes a failure in plain words, with advice.
pub(crate) fn explain(failure: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match failure {
        Error::InvalidCertificate(error) => explain_certificate(error, f),
        Error::InvalidMessage(_) => {
            f.write_str("the server does not speak TLS on this port; if it serves plain HTTP, use an http address")
        }
        other => write!(f, "{other}"),
    }
}

fn explain_certificate(error: &CertificateError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => f.write_str(
            "the server's certificate has expired; renew it, or correct the clock of this machine if that is wrong",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => f.write_str(
            "the server's certificate is not valid yet; check the clocks of this machine and of the one that issued it",
        ),
        // A trusted certificate with the issuer's name but another key also leads to a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => f.write_str(
            "this machine does not trust the issuer of the server's certificate; if the certificate is your own, pass \
             its PEM file in the environment variable SSL_CERT_FILE",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => f.write_str(
            "the server's certificate is for another host name; use an address with a name in the certificate, or make \
             a certificate for this name",
        ),
        CertificateError::Other(OtherError(other))
            if other.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity) =>
        {
            f.write_str(
                "the server's certificate is a CA certificate (CA:TRUE), which a server must not present; make one \
                 with 'rowhouse certificate', or add -addext basicConstraints=critical,CA:FALSE to 'openssl req -x509'",
            )
        }
        other => write!(f, "the server's certificate is not valid: {other}"),
    }
}
