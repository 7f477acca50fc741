//! `rowhouse health`: checks whether a running server is ready, for containers without a shell or another HTTP client.
//!
//! It finds the server by the options that the server itself was started with, in the same environment or file. It must not
//! need anything of the server except its address.

use anyhow::{Context, bail, ensure};
use clap::Args;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use serde::Deserialize;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rowhouse health
      the server that runs with the same environment, or with the defaults
  rowhouse health --admin 127.0.0.1:10003
      whether that admin listener reports the server as ready
  rowhouse health --listen 127.0.0.1:10002
      whether a server responds there; for a server without an admin listener

The exit code is 0 if the server is ready, else 1.";

/// Most bytes of the response that are read: enough for the reason why a server is not ready.
const RESPONSE_BYTES_MAX: u64 = 4096;

/// The options of health.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// Address of the admin listener, as the server was given it; the request is for /readyz
    #[arg(long, env = "ROWHOUSE_ADMIN", value_name = "ADDR:PORT")]
    admin: Option<String>,

    /// Address of the server [default: 127.0.0.1:10002]; it is used only if there is no admin listener
    #[arg(long, env = "ROWHOUSE_LISTEN", value_name = "ADDR:PORT")]
    listen: Option<String>,

    /// The server's certificate; if it is given, the request uses HTTPS
    #[arg(long, env = "ROWHOUSE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The TOML file of the server's options, for those that are not given here
    #[arg(long, env = "ROWHOUSE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// How long to wait for a response, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
}

/// The options of the server's file that are used here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct ServerFile {
    admin: Option<String>,
    listen: Option<String>,
    tls_cert: Option<PathBuf>,
}

/// Sends one request; an error if the server is not ready.
pub(crate) fn run(args: HealthArgs) -> anyhow::Result<String> {
    let timeout = Duration::from_secs(args.timeout);
    let file = match &args.config {
        None => ServerFile::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?
        }
    };
    if let Some(admin) = args.admin.or(file.admin) {
        let stream = connect(&admin, timeout)?;
        // The host is the address, because the admin listener refuses names.
        let host = stream.peer_addr().with_context(|| format!("asking {admin}"))?.to_string();
        let response = get(stream, &host, "/readyz")?;
        ensure!(response.status == 200, "not ready: {} {}", response.status, response.body.trim());
        return Ok(format!("ready: {admin} says so\n"));
    }
    let listen = args.listen.or(file.listen).unwrap_or_else(|| "127.0.0.1:10002".to_owned());
    let stream = connect(&listen, timeout)?;
    let response = match args.tls_cert.or(file.tls_cert) {
        None => get(stream, &listen, "/"),
        Some(_) => get(encrypted(stream)?, &listen, "/"),
    }?;
    // The request has no credential, so a server that works refuses it.
    ensure!(response.status < 500, "not ready: {} {}", response.status, response.body.trim());
    Ok(format!("ready: {listen} answers\n"))
}

/// Connects to a server; for one that listens on all addresses, to the loopback address.
fn connect(address: &str, timeout: Duration) -> anyhow::Result<TcpStream> {
    let plain = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    let found = plain.to_socket_addrs().with_context(|| format!("'{address}' is not an address and port"))?;
    let mut last = None;
    for address in found.map(reachable) {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout)).context("setting the time limit")?;
                stream.set_write_timeout(Some(timeout)).context("setting the time limit")?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => Err(error).with_context(|| format!("nothing listens on {address}")),
        None => bail!("'{address}' stands for no address"),
    }
}

fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[derive(Debug)]
struct HealthResponse {
    status: u16,
    body: String,
}

fn get(mut stream: impl Read + Write, host: &str, path: &str) -> anyhow::Result<HealthResponse> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).with_context(|| format!("asking {host}"))?;
    let mut bytes = Vec::new();
    let read = stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    // A status line counts as a response even if the connection failed after it.
    let Some(status) = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()) else {
        read.with_context(|| format!("waiting for an answer from {host}"))?;
        bail!(
            "{host} does not answer as an HTTP server: check the address, and give --tls-cert if the server speaks HTTPS"
        );
    };
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    Ok(HealthResponse { status, body })
}

fn encrypted(stream: TcpStream) -> anyhow::Result<impl Read + Write> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("choosing the TLS versions")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let name = ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let connection = ClientConnection::new(Arc::new(config), name).context("beginning TLS")?;
    Ok(StreamOwned::new(connection, stream))
}

/// Accepts any certificate: nothing secret is sent, only the status of the response is used, and the certificate of a server
/// does not name the loopback address.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_on_all_addresses_is_reached_by_loopback() {
        for (given, asked) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:2", "[::1]:2"),
            ("127.0.0.3:3", "127.0.0.3:3"),
            ("[fd00::1]:4", "[fd00::1]:4"),
        ] {
            assert_eq!(reachable(given.parse().unwrap()).to_string(), asked);
        }
    }
}
