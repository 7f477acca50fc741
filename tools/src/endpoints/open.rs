//! From the text of an option to a place that is open.

use super::location::{End, Location};
use super::place::{EnginePlace, Place};
use anyhow::{Context, anyhow, bail, ensure};
use client::TableService;
use model::AccountName;
use model::clock::SystemClock;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use store::{Embedded, EmbeddedOptions, OpenError, Postgres, PostgresOptions};

/// Memory for blocks of each data folder, in bytes: a scan reads each once.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes of a file with a key.
const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Connections to a database beside those of transactions.
const READING_CONNECTIONS: usize = 8;

/// Reads the name of an account.
pub(crate) fn account(name: &str) -> anyhow::Result<AccountName> {
    AccountName::new(name)
        .with_context(|| format!("'{name}' is not an account name: that has 3 to 24 lower-case letters and digits"))
}

/// The account of a place that one is wanted of, and the one that was asked for, if any.
pub(crate) async fn one_account(
    end: End,
    place: &dyn Place,
    wanted: Option<&AccountName>,
) -> anyhow::Result<AccountName> {
    let accounts = place.accounts().await?;
    let listed = || match accounts.iter().map(AccountName::as_str).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none".to_owned(),
        some => some,
    };
    match (wanted, &accounts[..]) {
        (Some(wanted), _) => {
            ensure!(accounts.contains(wanted), "{end} has no account '{wanted}'; it has {}", listed());
            Ok(wanted.clone())
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => bail!("{end} has no account and no table"),
        (None, _) => bail!("{end} has several accounts ({}): choose one with --account", listed()),
    }
}

/// Reads a location, with the secret that its variable or its file holds.
pub(crate) fn location(end: End, text: &str, key_file: Option<&Path>) -> anyhow::Result<Location> {
    let variable = std::env::var(end.key_variable()).ok();
    let secret = match (variable, key_file) {
        (Some(_), Some(_)) => {
            bail!("the key of {end} is given twice, by {} and by {}", end.key_variable(), end.key_file_option())
        }
        (None, Some(path)) => {
            let content = read_key_file(path).with_context(|| format!("reading {}", end.key_file_option()))?;
            Some(String::from_utf8(content).map_err(|_| anyhow!("the file of {} is not text", end.key_file_option()))?)
        }
        (variable, None) => variable,
    };
    Location::parse(end, text, secret.as_deref())
}

fn read_key_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
    file.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    ensure!(content.len() as u64 <= KEY_FILE_BYTES_MAX, "{} is larger than {KEY_FILE_BYTES_MAX} bytes", path.display());
    Ok(content)
}

/// Opens a place. This is where another engine joins: an arm that wraps it in an [`EnginePlace`].
pub(crate) async fn open(
    end: End,
    location: Location,
    must_exist: bool,
    parallel: u16,
) -> anyhow::Result<Arc<dyn Place>> {
    Ok(match location {
        Location::Database { url, password } => {
            // One connection for each transaction on its way, and some for those who read.
            let connections_max = usize::from(parallel) + READING_CONNECTIONS;
            let options = PostgresOptions { url, password, connections_max, distribute: false };
            Arc::new(EnginePlace(
                Postgres::open(&options, SystemClock).await.with_context(|| format!("opening {end}"))?,
            ))
        }
        Location::Folder(path) => Arc::new(EnginePlace(open_folder(end, &path, must_exist)?)),
        Location::Service { endpoint, credential } => {
            Arc::new(TableService::new(endpoint, credential).context("preparing TLS")?)
        }
    })
}

fn open_folder(end: End, path: &Path, must_exist: bool) -> anyhow::Result<Embedded> {
    // An engine would make a new folder, which helps nobody who misspelled the name of an old one.
    let is_there = std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    ensure!(!must_exist || is_there, "{end}: there is no data folder at {}", path.display());
    let options = EmbeddedOptions { cache_bytes: CACHE_BYTES, ..EmbeddedOptions::default() };
    Embedded::open(path, &options, SystemClock).map_err(|error| match error {
        OpenError::Locked { folder } => anyhow!(
            "{end}: a server works on the data folder {}; give the address of that server instead, such as \
             {end} http://127.0.0.1:10002/ACCOUNT",
            folder.display()
        ),
        other => anyhow::Error::from(other).context(format!("opening {end}")),
    })
}
