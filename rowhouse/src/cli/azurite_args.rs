//! The options of `rowhouse azurite`: the emulator's options, under the emulator's names.
//!
//! As in the emulator, no environment variables correspond to these options. Nothing is translated here.

use clap::{ArgAction, Args, ValueEnum};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  rowhouse azurite
      blobs on 127.0.0.1:10000, queues on 10001, tables on 10002: what UseDevelopmentStorage=true means
  rowhouse azurite --silent --location ./azurite --skipApiVersionCheck
      as in the scripts of VS Code and the Functions tools; tables are kept in ./azurite/rowhouse-data
  rowhouse azurite -l /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0
      for other machines, as in a container; the key of the development account is public
  AZURITE_ACCOUNTS='orchard:<key1>:<key2>;meadow:<key1>' rowhouse azurite --inMemoryPersistence
      your own accounts, and nothing on disk

Rowhouse itself serves tables. The emulator's programs azurite-blob and azurite-queue serve blobs and queues. Rowhouse starts them if \
they are in PATH, or in node_modules/.bin of the current folder or one above it; `npm install --global azurite` installs them. The \
environment variables of `rowhouse serve`, such as ROWHOUSE_ADMIN, also apply here. A link to rowhouse that is called azurite behaves \
like this command. docs/azurite.md has recipes for tools that start the emulator.";

/// The options of `azurite`, as given.
#[derive(Debug, Default, Args)]
pub struct AzuriteArgs {
    /// Address to serve blobs on [default: 127.0.0.1]
    #[arg(long = "blobHost", value_name = "HOST")]
    pub blob_host: Option<String>,

    /// Port to serve blobs on [default: 10000]; 0 picks a free port
    #[arg(long = "blobPort", value_name = "PORT")]
    pub blob_port: Option<u16>,

    /// Idle timeout of connections for blobs, in seconds [default: 5]
    #[arg(long = "blobKeepAliveTimeout", value_name = "SECONDS")]
    pub blob_keep_alive_timeout: Option<u32>,

    /// Address to serve queues on [default: 127.0.0.1]
    #[arg(long = "queueHost", value_name = "HOST")]
    pub queue_host: Option<String>,

    /// Port to serve queues on [default: 10001]; 0 picks a free port
    #[arg(long = "queuePort", value_name = "PORT")]
    pub queue_port: Option<u16>,

    /// Accepted without effect: the emulator's queue program has no such option when it runs separately
    #[arg(long = "queueKeepAliveTimeout", value_name = "SECONDS")]
    pub queue_keep_alive_timeout: Option<u32>,

    /// Address to serve tables on [default: 127.0.0.1]
    #[arg(long = "tableHost", value_name = "HOST")]
    pub table_host: Option<String>,

    /// Port to serve tables on [default: 10002]; 0 picks a free port
    #[arg(long = "tablePort", value_name = "PORT")]
    pub table_port: Option<u16>,

    /// Accepted without effect: an idle connection for tables is kept until its slot is needed
    #[arg(long = "tableKeepAliveTimeout", value_name = "SECONDS")]
    pub table_keep_alive_timeout: Option<u32>,

    /// Data folder [default: the current folder]; created if missing. Tables are in its subfolder rowhouse-data
    #[arg(short, long, value_name = "DIR")]
    pub location: Option<PathBuf>,

    /// Do not log requests
    #[arg(short, long)]
    pub silent: bool,

    /// Write a detailed log to this file. The table server's log then goes there instead of to standard error
    #[arg(short, long, value_name = "FILE")]
    pub debug: Option<PathBuf>,

    /// Ignore unsupported features. Has no effect on tables
    #[arg(short = 'L', long)]
    pub loose: bool,

    /// Accept requests with any protocol version, as Rowhouse always does for tables
    #[arg(long = "skipApiVersionCheck")]
    pub skip_api_version_check: bool,

    /// Read the account from the path of a URL, never from its host name
    ///
    /// Has no effect on tables: there, a host name contains an account only if it is ACCOUNT.table.ANYTHING.
    #[arg(long = "disableProductStyleUrl")]
    pub disable_product_style_url: bool,

    /// Accept bearer tokens from any signer: claims are checked, signatures are not. Requires HTTPS and therefore
    /// --cert
    #[arg(long, value_name = "LEVEL", ignore_case = true)]
    pub oauth: Option<OAuthLevel>,

    /// PEM file with the certificate; with it, all services accept only HTTPS
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,

    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Password of a PFX file given as --cert. Not supported for tables: the error message explains how to convert the
    /// file to PEM
    #[arg(long, value_name = "PASSWORD")]
    pub pwd: Option<String>,

    /// Keep all data in memory and discard it on exit
    #[arg(long = "inMemoryPersistence")]
    pub in_memory_persistence: bool,

    /// Memory for the content of blobs and queues, in MB [default: half of the machine's memory]; requires
    /// --inMemoryPersistence
    #[arg(long = "extentMemoryLimit", value_name = "MB")]
    pub extent_memory_limit: Option<f64>,

    /// Stop the programs for blobs and queues from sending telemetry to their vendor. Rowhouse never sends any
    #[arg(long = "disableTelemetry")]
    pub disable_telemetry: bool,

    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// How bearer tokens are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OAuthLevel {
    /// Check claims, but not signatures
    Basic,
}
