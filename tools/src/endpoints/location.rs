//! Where data are read from and written to: what `--from`, `--to`, `--endpoint` and the secrets beside them mean.
//!
//! Invariant: no secret becomes part of an error or of a location's name.

use anyhow::{Context, anyhow, bail, ensure};
use client::{ConnectionString, Credential, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Endpoint};
use std::fmt;
use std::path::{Path, PathBuf};

/// Which option names a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    From,
    To,
    /// The only one of a command.
    Endpoint,
    /// The target of a restore.
    Into,
}

impl End {
    /// The variable that holds the secret of this end; it has no twin on the command line.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::From => "ROWHOUSE_FROM_KEY",
            Self::To => "ROWHOUSE_TO_KEY",
            Self::Endpoint => "ROWHOUSE_KEY",
            Self::Into => "ROWHOUSE_INTO_KEY",
        }
    }

    /// The option that names a file with the secret of this end.
    pub(crate) fn key_file_option(self) -> &'static str {
        match self {
            Self::From => "--from-key-file",
            Self::To => "--to-key-file",
            Self::Endpoint => "--key-file",
            Self::Into => "--into-key-file",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::From => "--from",
            Self::To => "--to",
            Self::Endpoint => "--endpoint",
            Self::Into => "--into",
        })
    }
}

/// A place that can be read and written, not yet opened.
#[derive(Debug)]
pub(crate) enum Location {
    /// A data folder, as an absolute path.
    Folder(PathBuf),
    /// A database of the PostgreSQL protocol.
    Database { url: String, password: Option<String> },
    /// An account of a service.
    Service { endpoint: Endpoint, credential: Credential },
}

impl Location {
    /// Reads a location and the secret that was given beside it.
    pub(crate) fn parse(end: End, text: &str, secret: Option<&str>) -> anyhow::Result<Self> {
        if let Some(parts) = ConnectionString::parse(text) {
            let url = parts.endpoint().with_context(|| {
                format!("the connection string of {end} names no place: it needs AccountName or TableEndpoint")
            })?;
            return Self::service(end, &url, parts.account.as_deref(), secret, parts.credential());
        }
        match text.split_once("://") {
            Some(("http" | "https", _)) => {
                let in_url = text.split_once('?').and_then(|(_, query)| Credential::parse(query));
                Self::service(end, &without_table(text), None, secret, in_url.filter(Credential::is_sas))
            }
            Some(("postgres" | "postgresql", _)) => {
                let password = secret.map(|secret| secret.trim_end_matches(['\r', '\n']).to_owned());
                Ok(Self::Database { url: text.to_owned(), password })
            }
            Some((scheme, _)) => bail!(
                "{end} begins with '{scheme}://', which is no place for tables: a data folder, the http or \
                 https address of a service, or the postgres address of a database"
            ),
            None => {
                ensure!(
                    secret.is_none(),
                    "{end} is a data folder, which needs no key: leave {} away",
                    end.key_variable()
                );
                Ok(Self::Folder(absolute(Path::new(text)).with_context(|| format!("reading {end}"))?))
            }
        }
    }

    fn service(
        end: End,
        url: &str,
        account: Option<&str>,
        secret: Option<&str>,
        beside: Option<Credential>,
    ) -> anyhow::Result<Self> {
        let endpoint =
            Endpoint::parse(url, account).map_err(|error| anyhow!("{end} is no address of a service: {error}"))?;
        let (variable, option) = (end.key_variable(), end.key_file_option());
        let credential = match (secret, beside) {
            (Some(secret), _) => Credential::parse(secret).with_context(|| {
                format!(
                    "what {variable} or {option} holds is neither an account key (Base64) nor a shared access \
                     signature (sv=...&sig=...)"
                )
            })?,
            (None, Some(beside)) => beside,
            (None, None) if endpoint.account().as_str() == DEVELOPMENT_ACCOUNT => {
                Credential::parse(DEVELOPMENT_KEY).context("the development key is a key")?
            }
            (None, None) => bail!(
                "there is no key for the account '{}' of {end}: put the account key, or a shared access signature, \
                 into the variable {variable}, or into a file that {option} names",
                endpoint.account()
            ),
        };
        Ok(Self::Service { endpoint, credential })
    }
}

/// The name of the location, without any secret: what the state file knows it by.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Database { url, .. } => f.write_str(&without_password(url)),
            Self::Service { endpoint, .. } => endpoint.fmt(f),
        }
    }
}

/// The address of an account in the URL of a signature for one table, which ends with that table.
fn without_table(url: &str) -> String {
    let Some((address, query)) = url.split_once('?') else { return url.to_owned() };
    let table = query.split('&').find_map(|option| option.strip_prefix("tn=")).unwrap_or_default();
    match address.trim_end_matches('/').rsplit_once('/') {
        Some((account, last)) if !table.is_empty() && last.eq_ignore_ascii_case(table) => account.to_owned(),
        _ => url.to_owned(),
    }
}

/// The address of a database without its password, and without options, in which there may be another.
///
/// As whoever connects reads it: everything up to the first `@` is a user and a password, whatever stands in it.
fn without_password(url: &str) -> String {
    let until = |text: &str, ends: &[char]| text.split(ends).next().unwrap_or_default().to_owned();
    let Some((scheme, rest)) = url.split_once("://") else { return until(url, &['?']) };
    match rest.split_once('@') {
        Some((user, place)) => {
            let place = until(place, &['?']);
            // A second one can only be a part of a password that was not encoded.
            let place = place.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{}@{place}", until(user, &[':', '?']))
        }
        None => until(url, &['?']),
    }
}

/// The path from the root on and through links, the same before and after the folder is made.
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
        Location::parse(End::From, text, secret)
    }

    #[test]
    fn folders_and_services() {
        for (text, secret, name) in [
            ("/nowhere/data", None, "/nowhere/data"),
            ("postgres://me:c2VjcmV0@db:5432/tables?password=c2VjcmV0", None, "postgres://me@db:5432/tables"),
            ("postgresql:///tables?host=/run", Some("c2VjcmV0"), "postgresql:///tables"),
            ("postgres://me:c2Vj?cmV0@db/tables", None, "postgres://me@db/tables"),
            ("postgres://me:c2Vj@cmV0@db/tables", None, "postgres://me@db/tables"),
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
            assert_eq!(parse(text, secret).unwrap().to_string(), name, "{text}");
        }
        let string = format!("AccountName=orchard;AccountKey={KEY};TableEndpoint=http://h:1/orchard");
        assert_eq!(parse(&string, None).unwrap().to_string(), "http://h:1/orchard");
        let Location::Folder(path) = parse("some/folder", None).unwrap() else { panic!("a path is a folder") };
        assert!(path.is_absolute() && path.ends_with("some/folder"));
    }

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
        for (text, secret, told) in [
            ("https://orchard.table.core.windows.net", None, "ROWHOUSE_FROM_KEY"),
            ("AccountName=orchard;EndpointSuffix=x.net", None, "--from-key-file"),
            ("http://h:1/orchard", Some("c2VjcmV0!"), "neither an account key"),
            ("http://h:1/Not_an_account", Some(KEY), "names no account"),
            ("ftp://h/orchard", None, "'ftp://'"),
            ("SharedAccessSignature=sig=c2VjcmV0", None, "names no place"),
            ("./folder", Some("c2VjcmV0"), "needs no key"),
        ] {
            let error = format!("{:#}", parse(text, secret).unwrap_err());
            assert!(error.contains(told), "{text}: {error}");
            assert!(!error.contains("c2VjcmV0"), "{text}: {error}");
        }
    }
}
