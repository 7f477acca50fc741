//! The options of `rowhouse azurite`: those of the emulator, under the emulator's names.
//!
//! They have no twins in the environment, as the emulator's have none. Nothing is translated here.

use clap::{ArgAction, Args, ValueEnum};
use std::path::PathBuf;

/// The examples in the help of azurite.
pub(super) const EXAMPLES: &str = "\
Examples:
  rowhouse azurite
      blobs on 127.0.0.1:10000, queues on 10001, tables on 10002: what UseDevelopmentStorage=true means
  rowhouse azurite --silent --location ./azurite --skipApiVersionCheck
      as VS Code and the Functions tools have it in their scripts; tables are kept in ./azurite/rowhouse-data
  rowhouse azurite -l /data --blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0
      for other machines, as in a container; everybody knows the key of the development account
  AZURITE_ACCOUNTS='orchard:<key1>:<key2>;meadow:<key1>' rowhouse azurite --inMemoryPersistence
      accounts of your own, and nothing on disk

Tables are served by Rowhouse itself. Blobs and queues are served by the emulator's programs azurite-blob and azurite-queue, which are \
started beside it if they are in PATH, or in node_modules/.bin of this folder or one above it; `npm install --global azurite` installs \
them. Whatever else `rowhouse serve` reads from the environment is in force here, too, such as ROWHOUSE_ADMIN. A program that is called \
azurite (a link to rowhouse) behaves as this command. docs/azurite.md has recipes for tools that start the emulator.";

/// The options of azurite as they were given.
#[derive(Debug, Default, Args)]
pub struct AzuriteArgs {
    /// Address that blobs are served on [default: 127.0.0.1]
    #[arg(long = "blobHost", value_name = "HOST")]
    pub blob_host: Option<String>,

    /// Port that blobs are served on [default: 10000]; 0 takes a free one
    #[arg(long = "blobPort", value_name = "PORT")]
    pub blob_port: Option<u16>,

    /// How long an idle connection for blobs is kept, in seconds [default: 5]
    #[arg(long = "blobKeepAliveTimeout", value_name = "SECONDS")]
    pub blob_keep_alive_timeout: Option<u32>,

    /// Address that queues are served on [default: 127.0.0.1]
    #[arg(long = "queueHost", value_name = "HOST")]
    pub queue_host: Option<String>,

    /// Port that queues are served on [default: 10001]; 0 takes a free one
    #[arg(long = "queuePort", value_name = "PORT")]
    pub queue_port: Option<u16>,

    /// Accepted, and without effect: the emulator's program for queues has no such option when it runs alone
    #[arg(long = "queueKeepAliveTimeout", value_name = "SECONDS")]
    pub queue_keep_alive_timeout: Option<u32>,

    /// Address that tables are served on [default: 127.0.0.1]
    #[arg(long = "tableHost", value_name = "HOST")]
    pub table_host: Option<String>,

    /// Port that tables are served on [default: 10002]; 0 takes a free one
    #[arg(long = "tablePort", value_name = "PORT")]
    pub table_port: Option<u16>,

    /// Accepted, and without effect: an idle connection for tables is kept until its place is needed
    #[arg(long = "tableKeepAliveTimeout", value_name = "SECONDS")]
    pub table_keep_alive_timeout: Option<u32>,

    /// Folder of the data [default: the current one]; created if missing. Tables are in rowhouse-data below it
    #[arg(short, long, value_name = "DIR")]
    pub location: Option<PathBuf>,

    /// Do not log requests
    #[arg(short, long)]
    pub silent: bool,

    /// Write a log with every detail to this file. That of tables is then there in place of standard error
    #[arg(short, long, value_name = "FILE")]
    pub debug: Option<PathBuf>,

    /// Ignore what is not supported. Without effect on tables
    #[arg(short = 'L', long)]
    pub loose: bool,

    /// Take requests of every version of the protocol, as Rowhouse does for tables anyway
    #[arg(long = "skipApiVersionCheck")]
    pub skip_api_version_check: bool,

    /// Take the account from the path of an address, never from its host. Without effect on tables, where a host names an
    /// account only if it is ACCOUNT.table.ANYTHING
    #[arg(long = "disableProductStyleUrl")]
    pub disable_product_style_url: bool,

    /// Take bearer tokens, whoever signed them: their claims are checked and their signature is not. Needs HTTPS, so --cert
    #[arg(long, value_name = "LEVEL", ignore_case = true)]
    pub oauth: Option<OAuthLevel>,

    /// PEM file with the certificate; with it all services speak HTTPS only
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,

    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// Password of a PFX file given as --cert. Not supported for tables: the error says how to convert the file to PEM
    #[arg(long, value_name = "PASSWORD")]
    pub pwd: Option<String>,

    /// Keep everything in memory and lose it at the end
    #[arg(long = "inMemoryPersistence")]
    pub in_memory_persistence: bool,

    /// Memory for the content of blobs and queues, in MB [default: half of what the machine has]; with --inMemoryPersistence
    #[arg(long = "extentMemoryLimit", value_name = "MB")]
    pub extent_memory_limit: Option<f64>,

    /// Let the programs for blobs and queues send nothing to their makers. Rowhouse never sends anything
    #[arg(long = "disableTelemetry")]
    pub disable_telemetry: bool,

    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// How bearer tokens are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OAuthLevel {
    /// Claims, and no signatures
    Basic,
}
