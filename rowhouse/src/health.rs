//! `rowhouse health`: checks whether a running server is ready, for containers without a shell or another HTTP client.
//!
//! The command finds the server through the options that the server itself was started with, in the same environment
//! or file. It must not need anything from the server except its address.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use clap::Args;
use http::Request;
use http_client::{HttpClient, HttpError, HttpOptions, tls_config};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rowhouse health
      check the server that runs with the same environment, or with the defaults
  rowhouse health --admin 127.0.0.1:10003
      check whether that admin listener reports the server as ready
  rowhouse health --admin 127.0.0.1:10003 --primary
      the same, but fail on a standby, which cannot be written
  rowhouse health --listen 127.0.0.1:10002
      check whether a server responds at this address; for a server without an admin listener

The exit code is 0 if the server is ready, and 1 otherwise.";

/// Large enough for a response that explains why a server is not ready.
const BODY_BYTES_MAX: usize = 4096;

/// The options of `health`.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// Address of the admin listener, as passed to the server; the command requests /readyz there
    #[arg(long, env = "ROWHOUSE_ADMIN", value_name = "ADDR:PORT")]
    admin: Option<String>,

    /// Fail if the server is a standby; needs an admin listener
    #[arg(long)]
    primary: bool,

    /// Address of the server [default: 127.0.0.1:10002]; used only without an admin listener
    #[arg(long, env = "ROWHOUSE_LISTEN", value_name = "ADDR:PORT")]
    listen: Option<String>,

    /// The server's certificate; if given, the request uses HTTPS
    #[arg(long, env = "ROWHOUSE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// As passed to the server; if given, the request uses HTTPS
    #[arg(
        long,
        env = "ROWHOUSE_TLS_SELF_SIGNED",
        value_name = "DIR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "."
    )]
    tls_self_signed: Option<PathBuf>,

    /// The server's options file (TOML), for options that are not given here
    #[arg(long, env = "ROWHOUSE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Timeout for a response, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct ServerFile {
    admin: Option<String>,
    listen: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_self_signed: Option<PathBuf>,
}

/// Returns an error if the server is not ready.
pub(crate) fn run(args: HealthArgs) -> anyhow::Result<String> {
    let timeout = Duration::from_secs(args.timeout);
    let file = match &args.config {
        None => ServerFile::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            server::parse_toml(&text, &[]).with_context(|| format!("reading {}", path.display()))?
        }
    };
    if let Some(admin) = args.admin.or(file.admin) {
        let path = if args.primary { "/readyz?primary" } else { "/readyz" };
        let response = request(&admin, "http", path, timeout)?;
        let state = response.body.trim();
        ensure!(response.status == 200, "not ready: {} {state}", response.status);
        return Ok(match state {
            "ok" => format!("ready: reported by {admin}\n"),
            state => format!("ready: {admin} reports {state}\n"),
        });
    }
    ensure!(!args.primary, "--primary needs the address of the admin listener (--admin)");
    let listen = args.listen.or(file.listen).unwrap_or_else(|| "127.0.0.1:10002".to_owned());
    let is_tls = [args.tls_cert, args.tls_self_signed, file.tls_cert, file.tls_self_signed].iter().any(Option::is_some);
    let scheme = if is_tls { "https" } else { "http" };
    let response = request(&listen, scheme, "/", timeout)?;
    ensure!(
        !response.requires_https,
        "{listen} requires HTTPS: pass the same --tls-cert or --tls-self-signed as to the server"
    );
    // The request has no credential, so a working server refuses it.
    ensure!(response.status < 500, "not ready: {} {}", response.status, response.body.trim());
    Ok(format!("ready: {listen} responds\n"))
}

#[derive(Debug)]
struct HealthResponse {
    status: u16,
    requires_https: bool,
    body: String,
}

/// Uses an IP address as the host, because the admin listener refuses names.
fn request(listener: &str, scheme: &str, path: &str, timeout: Duration) -> anyhow::Result<HealthResponse> {
    let plain = listener.strip_prefix("http://").unwrap_or(listener).trim_end_matches('/');
    let addresses = plain.to_socket_addrs().with_context(|| format!("'{listener}' is not an address and port"))?;
    let options = HttpOptions {
        request_time_max: timeout,
        connect_time_max: None,
        body_bytes_max: BODY_BYTES_MAX,
        keeps_connections: false,
    };
    let tls = if scheme == "https" { tls_of_any_server() } else { tls_config(RootCertStore::empty()) };
    let http = HttpClient::new(options, tls.context("choosing the TLS versions")?);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the async runtime")?;
    let mut last = None;
    for address in addresses.map(reachable) {
        match runtime.block_on(get(&http, &format!("{scheme}://{address}{path}"))) {
            Ok(response) => return Ok(response),
            Err(error @ HttpError::Connect(_)) => last = Some(error),
            Err(error @ HttpError::TimedOut(_)) => {
                return Err(error).with_context(|| format!("waiting for a response from {address}"));
            }
            Err(_) => bail!(
                "{address} does not respond like an HTTP server: check the address, and pass --tls-cert if the server uses HTTPS"
            ),
        }
    }
    match last {
        Some(error) if error.is_refused() => Err(error).with_context(|| format!("nothing is listening on {listener}")),
        Some(error) => Err(error).with_context(|| format!("{listener} cannot be reached")),
        None => bail!("'{listener}' resolves to no address"),
    }
}

async fn get(http: &HttpClient, url: &str) -> Result<HealthResponse, HttpError> {
    let request = Request::get(url).body(Bytes::new()).map_err(|_| HttpError::Address)?;
    let mut response = http.send(request).await?;
    // The status counts, even if the body cannot be read.
    let body = response.read_body().await.unwrap_or_default();
    let requires_https = response.headers.get("x-ms-error-code").is_some_and(|code| code == "AccountRequiresHttps");
    Ok(HealthResponse {
        status: response.status.as_u16(),
        requires_https,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// Returns the address to connect to: loopback for a server that listens on all addresses.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn tls_of_any_server() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?.dangerous();
    Ok(config.with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))).with_no_client_auth())
}

/// Accepts any certificate, because a server's certificate usually does not name the loopback address. Nothing secret
/// is sent, and only the status of the response is used.
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
