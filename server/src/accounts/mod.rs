//! Accounts: their keys and quotas, read from a file or from the environment, and the development account.
//!
//! Keys never come from the command line, where other users of the machine could read them. No error contains a key.
//! Code in this folder must not depend on requests or engines.

pub mod edit;
mod quota;

pub(crate) use quota::ContentLimit;
pub use quota::{Quota, QuotaSection};

use crate::reload::Files;
use crate::toml_file::parse_toml;
use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{AccountName, Dialect};
use ring::rand::{SecureRandom, SystemRandom};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;
use wire::signing::{AccountKey, DEVELOPMENT_ACCOUNT};

/// This key is public, so it protects nothing.
const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The account of the vendor's emulator of Azure Cosmos DB, whose URLs contain no account (11 §2).
const COSMOS_ACCOUNT: &str = "localhost";
/// This key is public, too.
const COSMOS_KEY: &str = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The length of a new key, in bytes. The cloud uses the same length.
const KEY_BYTES: usize = 64;

/// The accounts of this server.
#[derive(Debug, Clone)]
pub struct Accounts {
    keys: HashMap<AccountName, Vec<AccountKey>>,
    quotas: HashMap<AccountName, Quota>,
    /// The accounts with a well-known key, with which anyone can sign. Usually empty.
    well_known: Vec<AccountName>,
    /// The service for whose programs these are the well-known accounts; `None` for configured accounts.
    development: Option<Dialect>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountFile {
    #[serde(default)]
    account: Vec<AccountEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountEntry {
    name: String,
    key1: String,
    key2: Option<String>,
    quota: Option<QuotaSection>,
}

impl Accounts {
    /// Returns only the well-known development account.
    pub fn development() -> Self {
        Self::development_of(Dialect::Storage)
    }

    /// Returns the well-known accounts with which programs of a service are developed: the development account, and for
    /// Azure Cosmos DB the account of its emulator.
    pub fn development_of(dialect: Dialect) -> Self {
        let account = |name, key| {
            let name = AccountName::new(name).expect("the name is valid");
            (name, vec![public_key(key)])
        };
        let mut keys = HashMap::from([account(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY)]);
        keys.extend((dialect == Dialect::Cosmos).then(|| account(COSMOS_ACCOUNT, COSMOS_KEY)));
        Self { well_known: well_known(&keys), keys, quotas: HashMap::new(), development: Some(dialect) }
    }

    /// Reads a file of `[[account]]` sections with `name`, `key1` and, optionally, `key2` and a `quota` section.
    pub fn from_file(files: &Files<1>) -> anyhow::Result<Self> {
        let ([path], [content]) = (&files.paths, &files.contents);
        let text = std::str::from_utf8(content).map_err(|_| anyhow!("{} is not UTF-8", path.display()))?;
        Self::from_text(text).with_context(|| format!("reading accounts from {}", path.display()))
    }

    fn from_text(text: &str) -> anyhow::Result<Self> {
        let file: AccountFile = parse_toml(text, &[]).map_err(|error| {
            anyhow!(
                "this is not a valid account file: {error}; write sections such as\n[[account]]\nname = \"orchard\"\nkey1 = \"<Base64>\"\nkey2 = \"<Base64>\"\n\
                 or create one with 'rowhouse accounts new NAME'"
            )
        })?;
        let quota = |entry: &AccountEntry| Some((AccountName::new(&entry.name)?, entry.quota?.quota()));
        let quotas = file.account.iter().filter_map(quota).collect();
        let entries = file
            .account
            .into_iter()
            .map(|entry| (entry.name, Some(entry.key1).into_iter().chain(entry.key2).collect()));
        Ok(Self { quotas, ..Self::from_entries(entries)? })
    }

    /// Reads `name:key1[:key2]` entries separated by semicolons.
    pub fn from_environment_text(text: &str) -> anyhow::Result<Self> {
        let entries = text.split(';').map(str::trim).filter(|entry| !entry.is_empty()).map(|entry| {
            let mut parts = entry.split(':').map(|part| part.trim().to_owned());
            (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>())
        });
        Self::from_entries(entries)
    }

    fn from_entries(entries: impl Iterator<Item = (String, Vec<String>)>) -> anyhow::Result<Self> {
        let mut accounts = HashMap::new();
        for ((name, texts), number) in entries.zip(1..) {
            let Some(account) = AccountName::new(&name) else {
                // The invalid name may be a key that was written in place of the name, so it is not shown.
                bail!("the name of account {number} is invalid: give it 3 to 24 lowercase letters and digits");
            };
            ensure!((1..=2).contains(&texts.len()), "account '{name}' has {} keys; give it one or two", texts.len());
            let keys: Option<Vec<AccountKey>> = texts.iter().map(|text| AccountKey::parse(text)).collect();
            let Some(keys) = keys else {
                bail!("a key of account '{name}' is invalid: give at least 16 bytes in Base64");
            };
            ensure!(accounts.insert(account, keys).is_none(), "account '{name}' is given twice: remove one of them");
        }
        ensure!(!accounts.is_empty(), "no account is defined: define at least one");
        Ok(Self { well_known: well_known(&accounts), keys: accounts, quotas: HashMap::new(), development: None })
    }

    pub(crate) fn keys(&self, account: &AccountName) -> Option<&[AccountKey]> {
        self.keys.get(account).map(Vec::as_slice)
    }

    /// `key` is in Base64.
    pub(crate) fn with(&self, account: AccountName, key: &str) -> Self {
        let mut accounts = self.clone();
        accounts.keys.insert(account, AccountKey::parse(key).into_iter().collect());
        accounts
    }

    /// Returns a copy without the given account, which must have neither its own quota nor the well-known key.
    pub(crate) fn without(&self, account: &AccountName) -> Self {
        let mut accounts = self.clone();
        accounts.keys.remove(account);
        accounts
    }

    pub(crate) fn quota(&self, account: &AccountName) -> Quota {
        self.quotas.get(account).copied().unwrap_or_default()
    }

    /// Returns the account whose connection string the server displays: the one of the emulator of Azure Cosmos DB, or
    /// the first one in name order.
    pub fn shown(&self) -> Option<&AccountName> {
        self.addressed_without_name().or_else(|| self.keys.keys().min())
    }

    /// Returns the account of the emulator of Azure Cosmos DB, whose URLs contain no account.
    pub fn addressed_without_name(&self) -> Option<&AccountName> {
        let is_emulator = self.development == Some(Dialect::Cosmos);
        self.keys.keys().find(|name| is_emulator && name.as_str() == COSMOS_ACCOUNT)
    }

    /// Returns every account with its keys.
    pub fn all(&self) -> impl Iterator<Item = (&AccountName, &[AccountKey])> {
        self.keys.iter().map(|(account, keys)| (account, keys.as_slice()))
    }

    /// Returns true if some account has a well-known key, with which anyone can sign.
    pub fn have_well_known_key(&self) -> bool {
        !self.well_known.is_empty()
    }

    pub(crate) fn have_development_account(&self) -> bool {
        self.well_known.iter().any(|account| account.as_str() == DEVELOPMENT_ACCOUNT)
    }

    pub(crate) fn has_well_known_key(&self, account: &AccountName) -> bool {
        self.well_known.contains(account)
    }

    /// Returns the connection string for client libraries. The string contains a key only if that is the well-known key
    /// of the development account.
    pub fn connection_string(&self, endpoint: &str) -> String {
        let name = self.shown().map_or("", AccountName::as_str);
        match self.development {
            Some(Dialect::Cosmos) => connection_string(name, COSMOS_KEY, &format!("{endpoint}/")),
            Some(Dialect::Storage) => connection_string(name, DEVELOPMENT_KEY, &format!("{endpoint}/{name}")),
            None => connection_string(name, "<key>", &format!("{endpoint}/{name}")),
        }
    }
}

/// Returns a new key of the usual length, in Base64, or `None` if the system's random number generator fails.
pub fn random_key() -> Option<String> {
    let mut bytes = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(STANDARD.encode(bytes))
}

/// Returns the connection string of an account for client libraries. `endpoint` is the account's endpoint.
pub fn connection_string(name: &str, key: &str, endpoint: &str) -> String {
    let (protocol, _) = endpoint.split_once(':').unwrap_or(("http", ""));
    format!("DefaultEndpointsProtocol={protocol};AccountName={name};AccountKey={key};TableEndpoint={endpoint};")
}

/// Returns one of the keys that are constants of this file.
fn public_key(text: &str) -> AccountKey {
    AccountKey::parse(text).expect("the key is Base64")
}

fn well_known(accounts: &HashMap<AccountName, Vec<AccountKey>>) -> Vec<AccountName> {
    let well_known = [DEVELOPMENT_KEY, COSMOS_KEY].map(|key| public_key(key).sign(""));
    let has_it = |keys: &[AccountKey]| keys.iter().any(|key| well_known.contains(&key.sign("")));
    accounts.iter().filter(|(_, keys)| has_it(keys)).map(|(account, _)| account.clone()).collect()
}

/// Returns the keys that replace the two keys of an unknown account. Signatures made with them are rejected, too.
pub(crate) fn placeholder_keys() -> &'static [AccountKey; 2] {
    static KEYS: LazyLock<[AccountKey; 2]> = LazyLock::new(|| {
        let key = AccountKey::parse("AAAAAAAAAAAAAAAAAAAAAA==").expect("sixteen zero bytes in Base64");
        [key.clone(), key]
    });
    &KEYS
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODw==";

    #[test]
    fn accounts_from_the_environment() {
        let accounts = Accounts::from_environment_text(&format!("one:{KEY}:{KEY}; two:{KEY};")).unwrap();
        assert_eq!(accounts.keys(&AccountName::new("one").unwrap()).unwrap().len(), 2);
        assert_eq!(accounts.keys(&AccountName::new("two").unwrap()).unwrap().len(), 1);
        assert!(accounts.keys(&AccountName::new("three").unwrap()).is_none());
        assert!(!accounts.have_well_known_key());
        assert!(Accounts::development().have_well_known_key());
        assert!(Accounts::from_environment_text(&format!("one:{COSMOS_KEY}")).unwrap().have_well_known_key());
        for bad in
            ["", "One:AA==", "one", "one:short", &format!("one:{KEY};one:{KEY}"), &format!("one:{KEY}:{KEY}:{KEY}")]
        {
            assert!(Accounts::from_environment_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn accounts_from_a_file_and_errors_that_show_no_key() {
        let accounts = |text: String| {
            Accounts::from_file(&Files { paths: ["f".into()], contents: [text.into_bytes()], is_secret: true })
        };
        let good = accounts(format!("[[account]]\nname = \"one\"\nkey1 = \"{KEY}\"\n")).unwrap();
        assert!(good.keys(&AccountName::new("one").unwrap()).is_some());
        let held = accounts(format!(
            "[[account]]\nname = \"one\"\nkey1 = \"{KEY}\"\n[account.quota]\nmax-tables = 3\n\
             [[account]]\nname = \"two\"\nkey1 = \"{KEY}\"\n"
        ));
        let held = held.unwrap();
        assert!(!held.quota(&AccountName::new("one").unwrap()).is_unlimited());
        assert!(held.quota(&AccountName::new("two").unwrap()).is_unlimited());
        for bad in [
            format!("[[account]]\nname = \"one\"\nkey1 = \"{KEY}\"\nquota.max-oranges = 3\n"),
            format!("[[account]]\nname = \"one\"\nkey1 = {KEY}\n"),
            format!("[[account]]\nname = \"one\"\nkey1 = \"{KEY}!\"\n"),
            format!("[[account]]\nname = \"{KEY}\"\nkey1 = \"one\"\n"),
            format!("[[account]]\nname = \"one\"\nkey = \"{KEY}\"\n"),
            String::new(),
        ] {
            let message = format!("{:#}", accounts(bad).unwrap_err());
            assert!(!message.contains(KEY), "{message}");
        }
    }

    #[test]
    fn the_connection_string_shows_the_public_key_only() {
        let development = Accounts::development().connection_string("http://127.0.0.1:10002");
        assert_eq!(
            development,
            format!(
                "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={DEVELOPMENT_KEY};TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;"
            )
        );
        let emulator = Accounts::development_of(Dialect::Cosmos).connection_string("http://127.0.0.1:8902");
        assert_eq!(
            emulator,
            format!(
                "DefaultEndpointsProtocol=http;AccountName=localhost;AccountKey={COSMOS_KEY};TableEndpoint=http://127.0.0.1:8902/;"
            )
        );
        let own = Accounts::from_environment_text(&format!("one:{KEY}")).unwrap().connection_string("http://h:1");
        assert!(own.contains("AccountName=one;AccountKey=<key>;"), "{own}");
    }
}
