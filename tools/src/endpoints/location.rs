//! Invariant: no secret becomes part of an error or of a location's name.

use anyhow::{Context, anyhow, bail, ensure};
use client::{ConnectionString, Credential, DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, DEVELOPMENT_KEY};
use engine_postgres::Password;
use model::AccountName;
use std::fmt;
use std::path::{Path, PathBuf};

/// The beginnings of secrets. A path that contains one of them is not accepted as a data folder, because the name of a
/// data folder is shown.
const SECRET_OPTIONS: [&str; 4] = ["password=", "accountkey=", "sharedaccesssignature=", "sig="];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndpointOption {
    From,
    To,
    /// The service for `rowhouse table` and `rowhouse entity`. The string is the option or variable that selected the
    /// service.
    Endpoint(&'static str),
    Into,
}

impl EndpointOption {
    /// The option itself never contains the secret; a variable or a file does.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::From => "ROWHOUSE_FROM_KEY",
            Self::To => "ROWHOUSE_TO_KEY",
            Self::Endpoint(_) => "ROWHOUSE_KEY",
            Self::Into => "ROWHOUSE_INTO_KEY",
        }
    }

    /// Returns the option that selects a different location.
    pub(crate) fn address_option(self) -> &'static str {
        match self {
            Self::From => "--from",
            Self::To => "--to",
            Self::Endpoint(_) => "--endpoint",
            Self::Into => "--into",
        }
    }

    pub(crate) fn key_file_option(self) -> &'static str {
        match self {
            Self::From => "--from-key-file",
            Self::To => "--to-key-file",
            Self::Endpoint(_) => "--key-file",
            Self::Into => "--into-key-file",
        }
    }
}

impl fmt::Display for EndpointOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Endpoint(origin) => origin,
            side => side.address_option(),
        })
    }
}

pub(crate) enum Location {
    /// An absolute path.
    Folder(PathBuf),
    /// A database that speaks the PostgreSQL protocol.
    Database { url: String, password: Option<Password> },
    /// An account of a service.
    Service { endpoint: client::Endpoint, credential: Box<Credential> },
}

impl Location {
    /// Returns the number of concurrent transactions that suits the location. In a data folder, a transaction needs no
    /// connection, and many of them share a sync.
    pub(crate) fn transactions_default(&self) -> u16 {
        match self {
            Self::Folder(_) => 256,
            Self::Database { .. } | Self::Service { .. } => 16,
        }
    }

    pub(crate) fn parse(option: EndpointOption, text: &str, secret: Option<&str>) -> anyhow::Result<Self> {
        if let Some(parts) = ConnectionString::parse(text) {
            return Self::of_connection_string(option, text, &parts, secret);
        }
        match text.split_once("://") {
            Some(("http" | "https", _)) => {
                let query = text.split_once('?').map_or("", |(_, query)| query);
                let in_url = Credential::parse(query).filter(Credential::is_sas);
                ensure!(
                    in_url.is_some() || secret.is_some() || query.is_empty(),
                    "the part of {option} after '?' is not a shared access signature, which ends with sig=...: copy the \
                     whole URL, and put it in quotes, because '&' ends a command in a shell"
                );
                Self::service(option, &without_table(text), None, secret, in_url)
            }
            Some(("postgres" | "postgresql", _)) => {
                engine_postgres::check_address(text).with_context(|| format!("reading {option}"))?;
                let password = secret.map(|secret| secret.trim_end_matches(['\r', '\n']).to_owned().into());
                Ok(Self::Database { url: text.to_owned(), password })
            }
            Some((scheme, _)) => bail!(
                "{option} begins with '{scheme}://', which is not supported: pass a data folder, the http or https \
                 URL of a service, or the postgres URL of a database"
            ),
            None => {
                let compact = text.replace(' ', "").to_ascii_lowercase();
                ensure!(
                    !SECRET_OPTIONS.iter().any(|option| compact.contains(option)),
                    "{option} contains a password or a key in an unknown format: pass a data folder, the http or https \
                     URL of a service, its connection string, or the postgres:// URL of a database"
                );
                ensure!(
                    secret.is_none(),
                    "{option} is a data folder, which needs no key: do not set {} or {}",
                    option.key_variable(),
                    option.key_file_option()
                );
                let path = Path::new(text);
                if !path.exists() {
                    refuse_address_without_scheme(option, text)?;
                }
                Ok(Self::Folder(absolute(path).with_context(|| format!("reading {option}"))?))
            }
        }
    }

    fn of_connection_string(
        option: EndpointOption,
        text: &str,
        parts: &ConnectionString,
        secret: Option<&str>,
    ) -> anyhow::Result<Self> {
        let url = parts.endpoint().with_context(|| {
            format!("the connection string of {option} names no account: add AccountName or TableEndpoint")
        })?;
        if let Some(account) = &parts.account {
            ensure!(
                AccountName::new(account.strip_suffix("-secondary").unwrap_or(account)).is_some(),
                "the AccountName in the connection string of {option} is not valid: use 3 to 24 lowercase letters and digits"
            );
        }
        let credential = parts.credential();
        let has = |name| text.to_ascii_lowercase().contains(name);
        let has_credential = credential.is_some() || secret.is_some();
        ensure!(
            has_credential || !has("accountkey="),
            "the AccountKey in the connection string of {option} is not an account key, which is Base64: copy the whole key"
        );
        // Without this check, the development account's key, which allows everything, would replace the signature.
        ensure!(
            has_credential || !has("sharedaccesssignature="),
            "the SharedAccessSignature in the connection string of {option} has no sig=...: copy the whole signature"
        );
        Self::service(option, &url, parts.account.as_deref(), secret, credential)
    }

    /// Returns the only account that the location can have, or `None` if it can have several.
    pub(crate) fn only_account(&self) -> Option<&AccountName> {
        match self {
            Self::Service { endpoint, .. } => Some(endpoint.account()),
            Self::Folder(_) | Self::Database { .. } => None,
        }
    }

    fn service(
        option: EndpointOption,
        url: &str,
        account: Option<&str>,
        secret: Option<&str>,
        in_address: Option<Credential>,
    ) -> anyhow::Result<Self> {
        let endpoint = client::Endpoint::parse(url, account)
            .map_err(|error| anyhow!("{option} is not a valid service URL: {error}"))?;
        let (variable, file) = (option.key_variable(), option.key_file_option());
        let credential = match (secret, in_address) {
            (Some(secret), _) => Credential::parse(secret).with_context(|| {
                format!(
                    "the value of {variable} or {file} is neither an account key (Base64) nor a shared access \
                     signature (sv=...&sig=...)"
                )
            })?,
            (None, Some(credential)) => credential,
            (None, None) if endpoint.account().as_str() == DEVELOPMENT_ACCOUNT => {
                Credential::parse(DEVELOPMENT_KEY).context("the development key is a key")?
            }
            (None, None) => bail!(
                "the account '{}' of {option} needs a key: put the account key or a shared access signature into the \
                 variable {variable}, or into a file and pass it with {file}",
                endpoint.account()
            ),
        };
        Ok(Self::Service { endpoint, credential: Box::new(credential) })
    }
}

/// Refuses text that names no folder, but a host, such as `127.0.0.1:10002/orchard`. As a folder, it would be created.
fn refuse_address_without_scheme(option: EndpointOption, text: &str) -> anyhow::Result<()> {
    let host = text.split('/').next().unwrap_or_default();
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    // One letter before a colon is a drive.
    let has_port = host.rsplit_once(':').is_some_and(|(name, port)| name.len() > 1 && is_port(port));
    let is_address = has_port || host.contains(".table.");
    match option {
        EndpointOption::Endpoint(_) if is_address => {
            bail!("{option} '{text}' is not a URL: begin it with http:// or https://, as in http://{text}")
        }
        _ if is_address => bail!(
            "{option} '{text}' is not a URL: begin it with http://, https:// or postgres://, as in http://{text}; for a data \
             folder with this name, write ./{text}"
        ),
        // Certainly a data folder.
        EndpointOption::Endpoint("--endpoint" | "ROWHOUSE_ENDPOINT") if text.starts_with(['.', '/']) => Ok(()),
        EndpointOption::Endpoint("--endpoint" | "ROWHOUSE_ENDPOINT") => {
            bail!("{option} is not the URL of a service: write it like {DEVELOPMENT_ENDPOINT}")
        }
        EndpointOption::Endpoint(_) => bail!(
            "{option} contains neither a connection string, such as AccountName=...;AccountKey=...;TableEndpoint=..., nor \
             the http or https URL of a service"
        ),
        EndpointOption::From | EndpointOption::To | EndpointOption::Into => Ok(()),
    }
}

/// Shows only the name, because the rest contains secrets.
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shows the location without secrets. State files use this form.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Database { url, .. } => f.write_str(&without_password(url)),
            Self::Service { endpoint, .. } => endpoint.fmt(f),
        }
    }
}

/// The URL of a signature for one table ends with the table's name.
fn without_table(url: &str) -> String {
    let Some((address, query)) = url.split_once('?') else { return url.to_owned() };
    let table = query.split('&').find_map(|option| option.strip_prefix("tn=")).unwrap_or_default();
    match address.trim_end_matches('/').rsplit_once('/') {
        Some((account, last)) if !table.is_empty() && last.eq_ignore_ascii_case(table) => account.to_owned(),
        _ => url.to_owned(),
    }
}

/// Removes the password, and also the options, which may contain another password.
///
/// The URL has been checked, so the only `@` is the separator after the user and password.
fn without_password(url: &str) -> String {
    let until = |text: &str, end: char| text.split(end).next().unwrap_or_default().to_owned();
    let url = until(url, '?');
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (user, host))) => format!("{scheme}://{}@{host}", until(user, ':')),
        None => url,
    }
}

/// Resolves links. The result is the same before and after the folder is created.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    if let Ok(existing) = std::fs::canonicalize(path) {
        return Ok(existing);
    }
    let path = std::path::absolute(path)?;
    let existing = path.ancestors().skip(1).find_map(|parent| Some((std::fs::canonicalize(parent).ok()?, parent)));
    Ok(match existing {
        Some((real, parent)) => real.join(path.strip_prefix(parent).unwrap_or(&path)),
        None => path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODw==";

    fn parse(text: &str, secret: Option<&str>) -> anyhow::Result<Location> {
        Location::parse(EndpointOption::From, text, secret)
    }

    #[test]
    fn folders_and_services() {
        for (text, secret, name) in [
            ("/nowhere/data", None, "/nowhere/data"),
            ("postgres://me:c2VjcmV0@db:5432/tables?password=c2VjcmV0", None, "postgres://me@db:5432/tables"),
            ("postgresql:///tables?host=/run", Some("c2VjcmV0"), "postgresql:///tables"),
            ("postgres://me:c2Vj%40cmV0@db/tables", None, "postgres://me@db/tables"),
            ("http://127.0.0.1:1", None, "http://127.0.0.1:1/devstoreaccount1"),
            ("UseDevelopmentStorage=true", None, "http://127.0.0.1:10002/devstoreaccount1"),
            ("http://h:1/orchard", Some(KEY), "http://h:1/orchard"),
            ("http://h:1/orchard?sv=1&sig=2", None, "http://h:1/orchard"),
            ("http://h:1/orchard/Cars?sv=1&tn=cars&sig=2", None, "http://h:1/orchard"),
            (
                "https://orchard.table.core.windows.net/cars?tn=cars&sig=2",
                None,
                "https://orchard.table.core.windows.net",
            ),
            ("http://h:1/orchard?tn=cars&sig=2", None, "http://h:1/orchard"),
            ("http://h:1/orchard", Some("http://h:1/orchard?sv=1&sig=2"), "http://h:1/orchard"),
            ("https://orchard.table.core.windows.net/", Some(KEY), "https://orchard.table.core.windows.net"),
        ] {
            let location = parse(text, secret).unwrap();
            assert_eq!([location.to_string(), format!("{location:?}")], [name; 2], "{text}");
        }
        let string = format!("AccountName=orchard;AccountKey={KEY};TableEndpoint=http://h:1/orchard");
        assert_eq!(parse(&string, None).unwrap().to_string(), "http://h:1/orchard");
        let Location::Folder(path) = parse("some/folder", None).unwrap() else { panic!("expected a folder") };
        assert!(path.is_absolute() && path.ends_with("some/folder"));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_has_one_name_before_and_after_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("real")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("real"), folder.path().join("link")).unwrap();
        let path = folder.path().join("link/deep/data");
        let before = absolute(&path).unwrap();
        std::fs::create_dir_all(&path).unwrap();
        assert_eq!(before, absolute(&path).unwrap());
        assert!(before.ends_with("real/deep/data"), "{}", before.display());
    }

    #[test]
    fn refusals_say_what_to_do_and_show_no_secret() {
        for (text, secret, expected) in [
            ("https://orchard.table.core.windows.net", None, "ROWHOUSE_FROM_KEY"),
            ("AccountName=orchard;EndpointSuffix=x.net", None, "--from-key-file"),
            ("http://h:1/orchard", Some("c2VjcmV0!"), "neither an account key"),
            ("http://h:1/Not_an_account", Some(KEY), "no valid account name"),
            ("ftp://h/orchard", None, "'ftp://'"),
            ("host=db user=me Password = c2VjcmV0", None, "in an unknown format"),
            ("//h/orchard?sv=1&sig=c2VjcmV0", None, "in an unknown format"),
            ("postgres://me:c2Vj?cmV0@db/tables", None, "reading --from"),
            ("postgres://me:c2Vj@cmV0@db/tables", None, "write @ as %40"),
            ("SharedAccessSignature=sig=c2VjcmV0", None, "names no account: add"),
            ("./folder", Some("c2VjcmV0"), "needs no key"),
            ("AccountName=No;AccountKey=AAECAwQFBgcICQoLDA0ODw==", None, "the AccountName in the connection string"),
            ("AccountName=orchard;AccountKey=c2VjcmV0!", None, "the AccountKey in the connection string"),
            (
                "TableEndpoint=http://h:1/devstoreaccount1;SharedAccessSignature=sv=1&tn=c2VjcmV0",
                None,
                "the SharedAccessSignature in the connection string of --from has no sig=",
            ),
            ("http://127.0.0.1:1/devstoreaccount1?sv=c2VjcmV0", None, "after '?' is not a shared access signature"),
        ] {
            let error = format!("{:#}", parse(text, secret).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("c2Vj") && !error.contains("cmV0"), "{text}: {error}");
        }
    }

    #[test]
    fn a_host_without_http_is_no_folder() {
        use EndpointOption::{Endpoint, From, To};
        for (option, text, expected) in [
            (
                Endpoint("--endpoint"),
                "127.0.0.1:10002",
                "begin it with http:// or https://, as in http://127.0.0.1:10002",
            ),
            (Endpoint("--endpoint"), "orchard", "write it like http://127.0.0.1:10002/devstoreaccount1"),
            (Endpoint("AZURE_STORAGE_CONNECTION_STRING"), "orchard", "contains neither a connection string"),
            (From, "localhost:10002/orchard", "as in http://localhost:10002/orchard; for a data folder with this name"),
            (To, "[::1]:10002", "begin it with http://"),
            (To, "orchard.table.core.windows.net", "begin it with http://"),
        ] {
            let error = Location::parse(option, text, None).unwrap_err().to_string();
            assert!(error.starts_with(&option.to_string()) && error.contains(expected), "{text}: {error}");
        }
        for folder in ["./127.0.0.1:10002", "data:old", "backup-10:30:00.d", "a/b:1", "c:1"] {
            assert!(matches!(parse(folder, None), Ok(Location::Folder(_))), "{folder}");
        }
    }
}
