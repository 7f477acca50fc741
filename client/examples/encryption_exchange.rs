//! Writes and reads encrypted entities. `conformance/encryption/run.py` runs this program and the retired libraries,
//! and compares their results.
//!
//! Usage: `encryption_exchange FOLDER (write TABLE WRITER | read TABLE WRITER | refuse TABLE WRITER)`. The folder is
//! `client/src/encryption/vectors`. When writing, the writer is `rust` or `rust-gcm`. `TABLES_CONNECTION_STRING`
//! contains the connection string of the service.

#![allow(clippy::print_stdout, reason = "it is a program")]

use rowhouse_client::encryption::{
    AesKey, EncryptionError, EncryptionMode, EncryptionPolicy, KeyRing, KeyWrapError, RsaKey,
};
use rowhouse_client::{Error, PropertyBag, Table, TableService};
use std::path::{Path, PathBuf};

type Failure = Box<dyn std::error::Error>;

const KINDS: [&str; 2] = ["aes", "rsa"];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, action, table, writer] = &arguments[..] else { return Err("expected four arguments".into()) };
    let service = TableService::from_connection_string(&std::env::var("TABLES_CONNECTION_STRING")?)?;
    let exchange = Exchange { folder: PathBuf::from(folder), writer: writer.clone(), service };
    match action.as_str() {
        "write" => exchange.write(table).await,
        "read" => exchange.read(table).await,
        "refuse" => exchange.refuse(table).await,
        _ => Err("unknown action".into()),
    }
}

struct Case {
    bag: PropertyBag,
    encrypted: Vec<String>,
}

struct Exchange {
    folder: PathBuf,
    writer: String,
    service: TableService,
}

impl Exchange {
    fn mode(&self) -> EncryptionMode {
        if self.writer.ends_with("gcm") { EncryptionMode::AesGcm } else { EncryptionMode::AesCbc }
    }

    fn policy(&self, kind: &str) -> Result<EncryptionPolicy, Failure> {
        let policy = EncryptionPolicy::new(self.mode()).required(true);
        Ok(match kind {
            "aes" => policy.key(aes("key-aes", 0)?),
            _ => policy.key(rsa(&self.folder)?),
        })
    }

    fn cases(&self, kind: &str) -> Result<Vec<Case>, Failure> {
        let mut cases: Vec<Case> = Vec::new();
        for line in
            std::fs::read_to_string(self.folder.join("cases.txt"))?.lines().filter(|line| !line.starts_with('#'))
        {
            let fields: Vec<&str> = line.split('\t').collect();
            match (&fields[..], cases.last_mut()) {
                (["entity", partition, row], _) => {
                    let bag = PropertyBag::new(partition, &format!("{}-{kind}-{row}", self.writer))?;
                    cases.push(Case { bag, encrypted: Vec::new() });
                }
                (["int32", name, value], Some(case)) => case.bag.set(name, value.parse::<i32>()?)?,
                (["open", name, value], Some(case)) => case.bag.set(name, text(value))?,
                (["encrypted", name, value], Some(case)) => {
                    case.bag.set(name, text(value))?;
                    case.encrypted.push((*name).to_owned());
                }
                _ => return Err(format!("invalid line in cases.txt: {line}").into()),
            }
        }
        Ok(cases)
    }

    async fn write(&self, table: &str) -> Result<(), Failure> {
        for kind in KINDS {
            for Case { bag, encrypted } in self.cases(kind)? {
                let chosen = move |_: &str, _: &str, name: &str| encrypted.iter().any(|encrypted| encrypted == name);
                let table = self.service.table(table).with_encryption(self.policy(kind)?.encrypt_where(chosen));
                table.insert(&bag).await?;
                println!("ok wrote {kind} {}", bag.key.partition.as_str());
            }
        }
        Ok(())
    }

    async fn read(&self, table: &str) -> Result<(), Failure> {
        let both = EncryptionPolicy::new(self.mode())
            .resolver(KeyRing::new().with(aes("key-aes", 0)?).with(rsa(&self.folder)?));
        for kind in KINDS {
            for policy in [self.policy(kind)?, both.clone()] {
                let table = self.service.table(table).with_encryption(policy);
                for Case { bag, .. } in self.cases(kind)? {
                    let found = table.get_by_key::<PropertyBag>(&bag.key).await?;
                    let what = format!("{} {kind} {}", self.writer, bag.key.partition.as_str());
                    if sorted(&found) != sorted(&bag) {
                        return Err(format!("{what} has {:?}", found.entity).into());
                    }
                    println!("ok read {what}");
                }
                self.select(&table, kind).await?;
            }
        }
        Ok(())
    }

    /// Checks that a query of one property also selects the metadata, but does not return it.
    async fn select(&self, table: &Table, kind: &str) -> Result<(), Failure> {
        let rows = format!("{}-{kind}-", self.writer);
        let query = table.query::<PropertyBag>().partition("plain").row_prefix(&rows);
        let found: Vec<(usize, String)> =
            query.resolve(&["Secret"], |bag| Ok((bag.properties.len(), bag.get("Secret")?))).collect().await?;
        if found != [(1, "attack at dawn".to_owned())] {
            return Err(format!("selected {found:?}").into());
        }
        println!("ok selected {rows}");
        Ok(())
    }

    async fn refuse(&self, table: &str) -> Result<(), Failure> {
        let policy = |key: AesKey| EncryptionPolicy::new(self.mode()).key(key);
        let right = policy(aes("key-aes", 0)?);
        for (table, policy, expected) in [
            (format!("{table}Value"), right.clone(), "a damaged property"),
            (format!("{table}Wrapped"), right, "a changed key"),
            (table.to_owned(), policy(aes("key-aes", 1)?), "a changed key"),
            (table.to_owned(), policy(aes("key-other", 0)?), "an unknown key"),
        ] {
            let row = format!("{}-aes-row", self.writer);
            let found = self.service.table(&table).with_encryption(policy).get::<PropertyBag>("long", &row).await;
            let refused = match &found {
                Err(Error::Encryption(EncryptionError::Damaged { property })) if property == "Third" => {
                    "a damaged property"
                }
                Err(Error::Encryption(EncryptionError::Key { source: KeyWrapError::Refused, .. })) => "a changed key",
                Err(Error::Encryption(EncryptionError::UnknownKey { .. })) => "an unknown key",
                _ => "something else",
            };
            if refused != expected {
                return Err(format!("{table} {row}: expected {expected}, found {found:?}").into());
            }
            println!("ok refused {expected} of {}", self.writer);
        }
        Ok(())
    }
}

fn aes(id: &str, first: u8) -> Result<AesKey, KeyWrapError> {
    let secret: Vec<u8> = (first..first + 32).collect();
    AesKey::new(id, &secret)
}

fn rsa(folder: &Path) -> Result<RsaKey, Failure> {
    Ok(RsaKey::from_pem("local:key-rsa", &std::fs::read_to_string(folder.join("rsa-for-tests.pem"))?)?)
}

/// Expands "3*x" to "xxx".
fn text(value: &str) -> String {
    let repeated = value.split_once('*').and_then(|(count, piece)| Some(piece.repeat(count.parse().ok()?)));
    repeated.unwrap_or_else(|| value.to_owned())
}

fn sorted(bag: &PropertyBag) -> Vec<String> {
    let mut all: Vec<String> = bag.properties.iter().map(|property| format!("{property:?}")).collect();
    all.sort();
    all
}
