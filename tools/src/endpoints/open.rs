use crate::endpoints::endpoint::{Endpoint, Source};
use crate::endpoints::engine::EngineEndpoint;
use crate::endpoints::location::{EndpointOption, Location};
use crate::endpoints::service::ServiceEndpoint;
use crate::endpoints::service_error::ServiceError;
use crate::option_values::{parse_table, shows_password};
use anyhow::{Context, anyhow, bail, ensure};
use engine_citus::Balance;
use engine_embedded::{Embedded, EmbeddedOptions, OpenError};
use engine_postgres::{Password, PostgresOptions};
use model::clock::SystemClock;
use model::{AccountName, TableName};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The size of the cache for each data folder, in bytes. A small cache is enough, because a scan reads each block only
/// once.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The number is high, so that a failing operation does not end a long copy.
const COPY_ATTEMPTS_MAX: u32 = 10;

const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;

/// These connections are in addition to the connections for transactions.
const READING_CONNECTIONS: usize = 8;

pub(crate) async fn choose_account(
    option: EndpointOption,
    endpoint: &dyn Source,
    wanted: Option<&AccountName>,
) -> anyhow::Result<AccountName> {
    let accounts = endpoint.accounts().await?;
    match (wanted, &accounts[..]) {
        (Some(wanted), _) => {
            ensure!(
                accounts.contains(wanted),
                "{option} has no account '{wanted}'; its accounts are {}",
                list_accounts(&accounts)
            );
            Ok(wanted.clone())
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => bail!("{option} has no accounts and no tables"),
        (None, _) => bail!("{option} has several accounts ({}): choose one with --account", list_accounts(&accounts)),
    }
}

/// Formats the names for messages.
pub(crate) fn list_accounts(accounts: &[AccountName]) -> String {
    if accounts.is_empty() {
        return "none".to_owned();
    }
    accounts.iter().map(AccountName::as_str).collect::<Vec<_>>().join(", ")
}

/// Reads the secret from its variable or its file.
pub(crate) fn read_location(option: EndpointOption, text: &str, key_file: Option<&Path>) -> anyhow::Result<Location> {
    let variable = std::env::var(option.key_variable()).ok();
    let secret = match (variable, key_file) {
        (Some(_), Some(_)) => {
            bail!(
                "the key of {option} is given twice, in {} and in {}",
                option.key_variable(),
                option.key_file_option()
            )
        }
        (None, Some(path)) => {
            let content = read_key_file(path).with_context(|| format!("reading {}", option.key_file_option()))?;
            Some(
                String::from_utf8(content)
                    .map_err(|_| anyhow!("the {} file is not valid text", option.key_file_option()))?,
            )
        }
        (variable, None) => variable,
    };
    if shows_password(text) {
        tracing::warn!(
            "any user who lists the processes of this machine can read the password in {option}: put it into the variable \
             {}, or into a file and pass it with {}",
            option.key_variable(),
            option.key_file_option()
        );
    }
    let mut location = Location::parse(option, text, secret.as_deref())?;
    if let (Location::Database { password, .. }, Some(path)) = (&mut location, key_file) {
        *password = Some(Password::in_file(path)?);
    }
    Ok(location)
}

fn read_key_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    if let Some(warning) = platform::files::exposure_warning(path) {
        tracing::warn!("{warning}");
    }
    let mut content = Vec::new();
    let file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
    file.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    ensure!(content.len() as u64 <= KEY_FILE_BYTES_MAX, "{} is larger than {KEY_FILE_BYTES_MAX} bytes", path.display());
    Ok(content)
}

/// To add an engine, add an arm here that wraps it in an [`EngineEndpoint`].
pub(crate) async fn open_endpoint(
    option: EndpointOption,
    location: Location,
    must_exist: bool,
    parallel: u16,
) -> anyhow::Result<Arc<dyn Endpoint>> {
    Ok(match location {
        Location::Database { url, password } => {
            let connections_max = usize::from(parallel) + READING_CONNECTIONS;
            let options = PostgresOptions { password, ..PostgresOptions::new(url, connections_max) };
            let opened = engine_citus::open(&options, Balance::Off, SystemClock).await;
            let engine = opened.with_context(|| format!("opening {option}"))?;
            Arc::new(EngineEndpoint(Arc::new(engine)))
        }
        Location::Folder(path) => Arc::new(EngineEndpoint(Arc::new(open_folder(option, &path, must_exist)?))),
        Location::Service { endpoint, credential } => {
            Arc::new(ServiceEndpoint::new(option, endpoint, *credential, COPY_ATTEMPTS_MAX)?)
        }
    })
}

fn open_folder(option: EndpointOption, path: &Path, must_exist: bool) -> anyhow::Result<Embedded> {
    // The engine would create a missing folder, so a misspelled name would go unnoticed.
    let exists = std::fs::read_dir(path).is_ok_and(|mut files| files.next().is_some());
    ensure!(!must_exist || exists, "{option}: there is no data folder at {}", path.display());
    let options = EmbeddedOptions { cache_bytes: CACHE_BYTES, ..EmbeddedOptions::default() };
    Embedded::open(path, &options, SystemClock).map_err(|error| match error {
        OpenError::Locked { folder } => anyhow!(
            "{option}: a server is using the data folder {}; pass the URL of that server instead, such as \
             {option} http://127.0.0.1:10002/ACCOUNT",
            folder.display()
        ),
        other => anyhow::Error::from(other).context(format!("opening {option}")),
    })
}

/// If no table is given, all tables are selected.
#[derive(Debug, Default)]
pub(crate) struct TableSelection {
    names: Vec<TableName>,
    /// The prefixes, case-folded.
    prefixes: Vec<String>,
}

impl TableSelection {
    /// A prefix is followed by an asterisk.
    pub(crate) fn parse(texts: &[String]) -> anyhow::Result<Self> {
        let mut selection = Self::default();
        for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
            match text.strip_suffix('*') {
                Some(prefix) if prefix.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                    selection.prefixes.push(prefix.to_ascii_lowercase());
                }
                _ => selection.names.push(parse_table(text)?),
            }
        }
        Ok(selection)
    }

    fn has_names_only(&self) -> bool {
        !self.names.is_empty() && self.prefixes.is_empty()
    }

    pub(crate) fn names(&self) -> &[TableName] {
        &self.names
    }

    /// The result may include tables that do not exist.
    pub(crate) async fn find(&self, endpoint: &dyn Source, account: &AccountName) -> anyhow::Result<Vec<TableName>> {
        let names = match endpoint.tables(account).await {
            // A signature for one table cannot list tables. If all tables are named, the list is not needed.
            Err(error) if self.has_names_only() && is_forbidden(&error) => self.names.clone(),
            names => names?,
        };
        Ok(names.into_iter().filter(|name| self.includes(name)).collect())
    }

    pub(crate) fn includes(&self, table: &TableName) -> bool {
        let is_all = self.names.is_empty() && self.prefixes.is_empty();
        is_all
            || self.names.contains(table)
            || self.prefixes.iter().any(|prefix| table.folded().starts_with(prefix.as_str()))
    }
}

pub(crate) fn is_forbidden(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ServiceError>().is_some_and(|error| error.status() == Some(403))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes() {
        let parse =
            |texts: &[&str]| TableSelection::parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let name = |text| TableName::new(text).unwrap();
        assert!(parse(&[]).unwrap().includes(&name("Cars")));
        let some = parse(&["cars", " LOG*", ""]).unwrap();
        assert!(some.includes(&name("CARS")) && some.includes(&name("logs1")) && !some.includes(&name("trucks")));
        assert!(!some.has_names_only() && parse(&["cars"]).unwrap().has_names_only());
        assert!(parse(&["a-b"]).is_err() && parse(&["a-*"]).is_err());
    }
}
