//! Translates the emulator's options into options of the server, and into command lines of the emulator's programs.
//!
//! This module does no I/O: values from the environment are passed in.

use super::{Remark, data_folder};
use crate::cli::{AzuriteArgs, ServeArgs};
use anyhow::{bail, ensure};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) struct Translation {
    pub(super) serve: ServeArgs,
    pub(super) blob: Vec<OsString>,
    pub(super) queue: Vec<OsString>,
    /// The data folder for all services, which must exist. `None` means the current folder, or no data on disk.
    pub(super) location: Option<PathBuf>,
    pub(super) log_file: Option<PathBuf>,
    pub(super) accepts_unverified_tokens: bool,
    pub(super) remarks: Vec<Remark>,
}

impl Translation {
    /// Translates the options. `environment` contains the server's options that are set in the environment; the
    /// emulator's options override them.
    pub(super) fn new(mut args: AzuriteArgs, environment: ServeArgs) -> anyhow::Result<Self> {
        check(&args)?;
        // Blobs and queues also get the certificate from the environment, so that all three services have the same
        // scheme.
        ensure!(
            environment.tls_self_signed.is_none(),
            "ROWHOUSE_TLS_SELF_SIGNED applies only to tables: run `rowhouse certificate`, and pass its files as --cert and --key"
        );
        if args.cert.is_none() {
            (args.cert, args.key) = (environment.tls_cert.clone(), environment.tls_key.clone());
        }
        let host = args.table_host.as_deref().unwrap_or("127.0.0.1");
        let is_on_network = !is_loopback(host);
        let allowed = is_on_network.then_some(true);
        let in_memory = args.in_memory_persistence;
        let has_database = environment.store.is_some();
        let log = if args.debug.is_some() {
            "debug"
        } else if args.silent {
            "info"
        } else {
            "info,rowhouse::access=debug"
        };
        let serve = ServeArgs {
            listen: Some(address(host, args.table_port.unwrap_or(10002))),
            data: (!in_memory && !has_database).then(|| data_folder(args.location.as_deref().unwrap_or(".".as_ref()))),
            in_memory: Some(in_memory),
            tls_cert: args.cert.clone(),
            tls_key: args.key.clone(),
            allow_development_key_on_network: environment.allow_development_key_on_network.or(allowed),
            allow_plain_http_on_network: environment.allow_plain_http_on_network.or(allowed),
            log: environment.log.or_else(|| Some(log.to_owned())),
            ..environment
        };
        Ok(Self {
            serve,
            blob: blob(&args),
            queue: queue(&args),
            log_file: args.debug.clone(),
            accepts_unverified_tokens: args.oauth.is_some(),
            remarks: without_effect(&args).into_iter().collect(),
            location: args.location,
        })
    }
}

/// Refuses options that the emulator refuses, and options that the emulator accepts but Rowhouse does not support.
fn check(args: &AzuriteArgs) -> anyhow::Result<()> {
    ensure!(
        !(args.in_memory_persistence && args.location.is_some()),
        "--inMemoryPersistence stores nothing and cannot be combined with --location: remove one of them"
    );
    ensure!(
        args.in_memory_persistence || args.extent_memory_limit.is_none(),
        "--extentMemoryLimit applies only with --inMemoryPersistence: add that option, or remove --extentMemoryLimit"
    );
    ensure!(
        args.extent_memory_limit.is_none_or(|limit| limit >= 0.0),
        "--extentMemoryLimit is negative: pass a positive number of MB"
    );
    match (&args.cert, &args.key, &args.pwd) {
        (Some(cert), None, Some(_)) => bail!(
            "{cert} has a password and is therefore a PFX file, but Rowhouse reads PEM files. Convert it:\n\
             openssl pkcs12 -in {cert} -nodes -nokeys -out cert.pem && openssl pkcs12 -in {cert} -nodes -nocerts -out key.pem\n\
             and pass --cert cert.pem --key key.pem",
            cert = cert.display()
        ),
        (Some(_), None, None) => bail!("--cert requires the certificate's private key: add --key FILE"),
        (None, Some(_), _) => bail!("--key requires the certificate that it belongs to: add --cert FILE"),
        (None, None, Some(_)) => {
            bail!(
                "--pwd is the password of a PFX file, but Rowhouse reads PEM files: pass them with --cert FILE and --key FILE"
            )
        }
        _ => Ok(()),
    }
}

fn without_effect(args: &AzuriteArgs) -> Option<Remark> {
    let given = [
        ("--loose", args.loose),
        ("--skipApiVersionCheck", args.skip_api_version_check),
        ("--disableProductStyleUrl", args.disable_product_style_url),
        ("--tableKeepAliveTimeout", args.table_keep_alive_timeout.is_some()),
        ("--queueKeepAliveTimeout", args.queue_keep_alive_timeout.is_some()),
        ("--pwd", args.pwd.is_some()),
    ];
    let names: Vec<_> = given.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect();
    (!names.is_empty()).then(|| Remark::Information(format!("no effect on tables: {}", names.join(", "))))
}

fn blob(args: &AzuriteArgs) -> Vec<OsString> {
    let mut command_line = CommandLine::default();
    command_line.value("--blobHost", args.blob_host.as_ref());
    command_line.value("--blobPort", args.blob_port.map(|port| port.to_string()));
    command_line.value("--blobKeepAliveTimeout", args.blob_keep_alive_timeout.map(|seconds| seconds.to_string()));
    command_line.add_common_options(args);
    command_line.0
}

fn queue(args: &AzuriteArgs) -> Vec<OsString> {
    let mut command_line = CommandLine::default();
    command_line.value("--queueHost", args.queue_host.as_ref());
    command_line.value("--queuePort", args.queue_port.map(|port| port.to_string()));
    command_line.add_common_options(args);
    command_line.0
}

#[derive(Default)]
struct CommandLine(Vec<OsString>);

impl CommandLine {
    fn value(&mut self, name: &str, value: Option<impl Into<OsString>>) {
        if let Some(value) = value {
            self.0.extend([name.into(), value.into()]);
        }
    }

    fn add_common_options(&mut self, args: &AzuriteArgs) {
        self.value("--location", args.location.as_ref());
        self.value("--debug", args.debug.as_ref());
        self.value("--oauth", args.oauth.map(|_| "basic"));
        self.value("--cert", args.cert.as_ref());
        self.value("--key", args.key.as_ref());
        self.value("--extentMemoryLimit", args.extent_memory_limit.map(|limit| limit.to_string()));
        for (name, is_given) in [
            ("--silent", args.silent),
            ("--loose", args.loose),
            ("--skipApiVersionCheck", args.skip_api_version_check),
            ("--disableProductStyleUrl", args.disable_product_style_url),
            ("--inMemoryPersistence", args.in_memory_persistence),
            ("--disableTelemetry", args.disable_telemetry),
        ] {
            self.0.extend(is_given.then(|| name.into()));
        }
    }
}

/// The host may be an IPv6 address with or without brackets.
fn address(host: &str, port: u16) -> String {
    match host.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

/// Returns true if a host is reachable only from this machine. A name counts as reachable from other machines.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse().map(|address: IpAddr| address.is_loopback());
    address.unwrap_or(host.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> AzuriteArgs {
        let command_line = ["rowhouse", "azurite"].into_iter().chain(line.split_whitespace());
        let Command::Azurite(args) = Cli::try_parse_from(command_line).unwrap().command else {
            panic!("expected the azurite command")
        };
        *args
    }

    fn translated(line: &str) -> Translation {
        Translation::new(args(line), ServeArgs::default()).unwrap()
    }

    fn joined(command_line: &[OsString]) -> String {
        command_line.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn without_options_everything_is_as_the_emulator_has_it() {
        let Translation { serve, blob, queue, remarks, .. } = translated("");
        assert_eq!(serve.listen.as_deref(), Some("127.0.0.1:10002"));
        assert_eq!(serve.data, Some("./rowhouse-data".into()));
        assert_eq!((serve.in_memory, serve.allow_development_key_on_network), (Some(false), None));
        assert!(blob.is_empty() && queue.is_empty() && remarks.is_empty());
    }

    #[test]
    fn command_lines_of_tools() {
        let aspire =
            translated("-l /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0 --skipApiVersionCheck");
        assert_eq!(aspire.serve.listen.as_deref(), Some("0.0.0.0:10002"));
        assert_eq!(aspire.serve.data, Some("/data/rowhouse-data".into()));
        assert_eq!(aspire.serve.allow_plain_http_on_network, Some(true));
        assert_eq!(joined(&aspire.blob), "--blobHost 0.0.0.0 --location /data --skipApiVersionCheck");
        assert_eq!(joined(&aspire.queue), "--queueHost 0.0.0.0 --location /data --skipApiVersionCheck");
        // A repeated option replaces the previous value.
        let container =
            translated("--tableHost 0.0.0.0 --inMemoryPersistence --extentMemoryLimit 64.5 --tableHost 127.0.0.1");
        assert_eq!((container.serve.in_memory, container.serve.data), (Some(true), None));
        assert_eq!(container.serve.listen.as_deref(), Some("127.0.0.1:10002"));
        assert_eq!(joined(&container.queue), "--extentMemoryLimit 64.5 --inMemoryPersistence");
        let secure =
            translated("--cert c.pem --key k.pem --oauth BASIC -d log -s -L --blobPort 0 --blobKeepAliveTimeout=3");
        assert_eq!((secure.serve.tls_cert, secure.serve.tls_key), (Some("c.pem".into()), Some("k.pem".into())));
        assert_eq!(
            joined(&secure.blob),
            "--blobPort 0 --blobKeepAliveTimeout 3 --debug log --oauth basic --cert c.pem --key k.pem --silent --loose"
        );
        assert!(secure.accepts_unverified_tokens && secure.log_file.is_some());
        assert_eq!(secure.remarks, [Remark::Information("no effect on tables: --loose".into())]);
    }

    #[test]
    fn hosts() {
        for (host, listen, is_open) in [
            ("localhost", "localhost:10002", false),
            ("::1", "[::1]:10002", false),
            ("[::1]", "[::1]:10002", false),
            ("::", "[::]:10002", true),
            ("storage", "storage:10002", true),
        ] {
            let serve = translated(&format!("--tableHost {host}")).serve;
            assert_eq!(serve.listen.as_deref(), Some(listen));
            assert_eq!(serve.allow_development_key_on_network, is_open.then_some(true), "{host}");
        }
    }

    #[test]
    fn requests_are_logged_unless_it_shall_be_silent() {
        let log = |line, own: Option<&str>| {
            let environment = ServeArgs { log: own.map(str::to_owned), ..ServeArgs::default() };
            Translation::new(args(line), environment).unwrap().serve.log.unwrap()
        };
        assert_eq!(log("", None), "info,rowhouse::access=debug");
        assert_eq!(log("--silent", None), "info");
        assert_eq!(log("--silent --debug file", None), "debug");
        assert_eq!(log("", Some("warn")), "warn");
    }

    #[test]
    fn contradictions_are_refused_with_what_to_do() {
        for (line, part) in [
            ("--inMemoryPersistence -l x", "cannot be combined with --location"),
            ("--extentMemoryLimit 5", "--inMemoryPersistence"),
            ("--inMemoryPersistence --extentMemoryLimit=-5", "negative"),
            ("--cert c.pfx --pwd p", "openssl pkcs12 -in c.pfx"),
            ("--cert c.pem", "--key FILE"),
            ("--key k.pem", "--cert FILE"),
            ("--pwd p", "PFX"),
        ] {
            let error = Translation::new(args(line), ServeArgs::default()).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains(" p "), "{line}: {error}");
        }
        for line in ["--nonsense", "--oauth full", "--tablePort 70000", "extra"] {
            let command_line = ["rowhouse", "azurite"].into_iter().chain(line.split_whitespace());
            assert!(Cli::try_parse_from(command_line).is_err(), "{line}");
        }
    }
}
