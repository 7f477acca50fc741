//! The manifest of a backup: its tables and their chunks, as JSON. `docs/backup-format.md` describes the format.

use super::chunk::{CHUNK_FILE_BYTES_MAX, CONTENT_BYTES_MAX, ChunkContent, ENTITY_OVERHEAD_BYTES};
use super::names::{is_chunk, is_log};
use crate::digest::sha256;
use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::{SnapshotTable, TableKey, snapshot};
use model::{AccountName, DateTime, ServiceProperties, TableName};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

const FORMAT: u32 = 1;
/// The maximum size of a manifest. A manifest contains 150 to 1000 bytes per chunk, so this limit is enough for half a
/// tebibyte of data or more.
pub(super) const MANIFEST_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// The number of characters of a manifest's SHA-256 that are part of its name.
const HASH_CHARS: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct BackupManifest {
    pub(in crate::backup) format: u32,
    pub(in crate::backup) time: String,
    pub(in crate::backup) version: String,
    /// An upper bound of all Timestamps in the backup, in ticks of 100 ns since 1601. It is a string, because the
    /// number is too large for a JSON number.
    pub(in crate::backup) last_stamp: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::backup) log: Option<LogPosition>,
    pub(in crate::backup) accounts: Vec<AccountEntry>,
    pub(in crate::backup) tables: Vec<TableContent>,
}

/// The place in a change log at which the log continues the backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct LogPosition {
    /// Identifies the log.
    pub(in crate::backup) id: String,
    /// The position after the last transaction in the backup.
    pub(in crate::backup) position: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct AccountEntry {
    account: String,
    /// In Base64.
    properties: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct TableEntry {
    account: String,
    name: String,
    /// The time of creation in ticks, as a string.
    created: String,
    /// In Base64.
    policies: String,
    /// In Base64. Default settings are empty.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    settings: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct TableContent {
    #[serde(flatten)]
    pub(in crate::backup) table: TableEntry,
    pub(in crate::backup) entities: u64,
    /// The size before compression.
    pub(in crate::backup) bytes: u64,
    /// The files from which chunks without a separate file are merged, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(in crate::backup) layers: Vec<ChunkFile>,
    pub(in crate::backup) chunks: Vec<ChunkEntry>,
}

/// A file that contains entities or changes of entities.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct ChunkFile {
    /// The SHA-256 of its content in hexadecimal.
    pub(in crate::backup) sha256: String,
    pub(in crate::backup) bytes: u64,
    pub(in crate::backup) stored: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backup) struct ChunkEntry {
    /// Where its entities are, and the hash of its content.
    #[serde(flatten)]
    pub(in crate::backup) file: ChunkFile,
    pub(in crate::backup) entities: u64,
    /// The first key, in Base64.
    first: String,
    /// The layers from which the chunk is merged, in ascending order. Empty if it has a separate file.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(in crate::backup) from: Vec<usize>,
}

impl BackupManifest {
    pub(in crate::backup) fn new(time: String, version: String, last_stamp: DateTime) -> Self {
        let last_stamp = last_stamp.ticks().to_string();
        Self { format: FORMAT, time, version, last_stamp, log: None, accounts: Vec::new(), tables: Vec::new() }
    }

    /// Adds a table that has no chunks yet.
    pub(in crate::backup) fn add_table(&mut self, table: TableEntry) {
        self.tables.push(TableContent { table, entities: 0, bytes: 0, layers: Vec::new(), chunks: Vec::new() });
    }

    pub(in crate::backup) fn set_chunks(&mut self, table: usize, layers: Vec<ChunkFile>, chunks: Vec<ChunkEntry>) {
        if let Some(table) = self.tables.get_mut(table) {
            (table.layers, table.chunks) = (layers, chunks);
        }
    }

    /// Also returns the name of the backup, which contains the hash of the manifest.
    pub(in crate::backup) fn encode(&self) -> anyhow::Result<(String, Vec<u8>)> {
        let mut bytes = serde_json::to_vec(self).context("writing the manifest")?;
        bytes.push(b'\n');
        ensure!(
            bytes.len() as u64 <= MANIFEST_BYTES_MAX,
            "the manifest of the backup is {} bytes long, but the maximum is {MANIFEST_BYTES_MAX}: the data is too large for a \
             backup in one repository",
            bytes.len()
        );
        let id = self.id(&bytes)?;
        Ok((id, bytes))
    }

    /// Checks the manifest against the hash in its name.
    pub(in crate::backup) fn decode(id: &str, bytes: &[u8]) -> anyhow::Result<Self> {
        let hash = sha256(bytes);
        let is_intact = id.rsplit_once('-').is_some_and(|(_, named)| hash.get(..HASH_CHARS) == Some(named));
        ensure!(is_intact, "the manifest of backup {id} is damaged: its hash is {hash}");
        let manifest: Self = serde_json::from_slice(bytes)
            .with_context(|| format!("this version of Rowhouse cannot read the manifest of backup {id}"))?;
        ensure!(
            manifest.format == FORMAT,
            "backup {id} has format {}, but this version of Rowhouse reads formats up to {FORMAT}",
            manifest.format
        );
        manifest.check(bytes, id).with_context(|| {
            format!("the manifest of backup {id} was not written by Rowhouse; use a different backup")
        })?;
        Ok(manifest)
    }

    /// Checks everything that later code trusts. The hash in its name shows that a manifest is intact, but not who
    /// wrote it.
    fn check(&self, bytes: &[u8], id: &str) -> anyhow::Result<()> {
        ensure!(self.id(bytes)? == id, "its time differs from its name");
        if let Some(LogPosition { id, .. }) = &self.log {
            ensure!(is_log(id), "'{id}' is not the name of a log");
        }
        let mut names = HashSet::new();
        for table in &self.tables {
            let is_new = names.insert((&table.table.account, table.table.name.to_ascii_lowercase()));
            ensure!(is_new, "it contains table {} twice", table.table);
            table.layers.iter().try_for_each(ChunkFile::check)?;
            for chunk in &table.chunks {
                chunk.file.check()?;
                let is_possible = chunk.entities <= chunk.file.bytes / ENTITY_OVERHEAD_BYTES as u64;
                ensure!(is_possible, "it specifies an impossible size for chunk {}", chunk.file.sha256);
                let is_ascending = chunk.from.is_sorted_by(|layer, next| layer < next);
                let exist = chunk.from.last().is_none_or(|last| *last < table.layers.len());
                ensure!(is_ascending && exist, "it specifies impossible layers for chunk {}", chunk.file.sha256);
            }
            // The sums cannot overflow: a manifest is too short to contain that many chunks.
            let sum = |of: fn(&ChunkEntry) -> u64| table.chunks.iter().map(of).sum::<u64>();
            let (entities, bytes) = (sum(|chunk| chunk.entities), sum(|chunk| chunk.file.bytes));
            ensure!(
                (entities, bytes) == (table.entities, table.bytes),
                "the chunks of table {} have {entities} entities and {bytes} bytes instead of {} and {}",
                table.table,
                table.entities,
                table.bytes
            );
        }
        Ok(())
    }

    fn id(&self, bytes: &[u8]) -> anyhow::Result<String> {
        let time = DateTime::parse(&self.time).ok().context("the time of the snapshot is invalid")?;
        let mut id = name_of_time(time);
        let hash = sha256(bytes);
        id.push('-');
        id.push_str(hash.get(..HASH_CHARS).unwrap_or_default());
        Ok(id)
    }

    pub(in crate::backup) fn last_stamp(&self) -> anyhow::Result<DateTime> {
        ticks(&self.last_stamp)
    }

    pub(in crate::backup) fn instant(&self) -> anyhow::Result<DateTime> {
        DateTime::parse(&self.time).ok().context("the time of the backup is invalid")
    }

    /// Returns an instant that no transaction in the backup is later than.
    pub(in crate::backup) fn latest(&self) -> anyhow::Result<DateTime> {
        Ok(self.instant()?.max(self.last_stamp()?))
    }

    pub(in crate::backup) fn entities(&self) -> u64 {
        self.tables.iter().map(|table| table.entities).sum()
    }

    pub(in crate::backup) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }

    /// Returns the files that the backup needs. The same file may occur several times.
    pub(in crate::backup) fn files(&self) -> impl Iterator<Item = &ChunkFile> {
        self.tables.iter().flat_map(|table| {
            let whole = table.chunks.iter().filter(|chunk| chunk.from.is_empty());
            table.layers.iter().chain(whole.map(|chunk| &chunk.file))
        })
    }
}

impl TableContent {
    /// Returns a name for the chunk and its files. It differs if the same chunk is merged from other layers.
    pub(in crate::backup) fn identity(&self, chunk: &ChunkEntry) -> String {
        if chunk.from.is_empty() {
            return chunk.file.sha256.clone();
        }
        let layers = chunk.from.iter().filter_map(|layer| self.layers.get(*layer)).map(|layer| layer.sha256.as_str());
        sha256(layers.chain([chunk.file.sha256.as_str()]).collect::<String>().as_bytes())
    }
}

impl ChunkFile {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(is_chunk(&self.sha256), "'{}' is not a chunk name", self.sha256);
        let is_possible = self.bytes <= CONTENT_BYTES_MAX as u64 && self.stored <= CHUNK_FILE_BYTES_MAX;
        ensure!(is_possible, "it specifies an impossible size for chunk {}", self.sha256);
        Ok(())
    }
}

impl ChunkEntry {
    pub(in crate::backup) fn new(file: ChunkFile, content: &ChunkContent, from: Vec<usize>) -> anyhow::Result<Self> {
        let (first, _) = content.first_and_last()?;
        Ok(Self { file, entities: content.entities, first: BASE64_STANDARD.encode(first), from })
    }

    /// Returns the key of the first entity. Whether it is correct shows when the chunk is read.
    pub(in crate::backup) fn first(&self) -> Vec<u8> {
        BASE64_STANDARD.decode(&self.first).unwrap_or_default()
    }
}

impl AccountEntry {
    pub(in crate::backup) fn new(account: &AccountName, properties: &ServiceProperties) -> Self {
        let properties = BASE64_STANDARD.encode(snapshot::encode_properties(properties));
        Self { account: account.as_str().to_owned(), properties }
    }

    pub(in crate::backup) fn decode(&self) -> anyhow::Result<(AccountName, ServiceProperties)> {
        let properties = BASE64_STANDARD.decode(&self.properties).ok();
        let properties = properties.and_then(|bytes| snapshot::decode_properties(&bytes));
        let decoded = AccountName::new(&self.account).zip(properties);
        decoded.with_context(|| format!("the service properties of account '{}' are malformed", self.account))
    }
}

impl TableEntry {
    pub(in crate::backup) fn new(table: &SnapshotTable) -> Self {
        Self {
            account: table.table.account.as_str().to_owned(),
            name: table.table.name.as_str().to_owned(),
            created: table.created.ticks().to_string(),
            policies: BASE64_STANDARD.encode(snapshot::encode_policies(&table.policies)),
            settings: BASE64_STANDARD.encode(snapshot::encode_settings(&table.settings)),
        }
    }

    pub(in crate::backup) fn decode(&self) -> anyhow::Result<SnapshotTable> {
        let what = || format!("the entry of table {self} is malformed");
        let account = AccountName::new(&self.account).with_context(what)?;
        let name = TableName::stored(&self.name).ok().with_context(what)?;
        let policies = BASE64_STANDARD.decode(&self.policies).ok();
        let policies = policies.and_then(|bytes| snapshot::decode_policies(&bytes)).with_context(what)?;
        let settings = BASE64_STANDARD.decode(&self.settings).ok();
        let settings = settings.and_then(|bytes| snapshot::decode_settings(&bytes)).with_context(what)?;
        let created = ticks(&self.created).with_context(what)?;
        Ok(SnapshotTable { table: TableKey { account, name }, created, policies, settings })
    }
}

impl std::fmt::Display for TableEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.account, self.name)
    }
}

/// Returns the beginning of the name of a backup. It has no punctuation, so it is a valid file name on every system. It
/// has a fixed number of digits, so names sort by time.
pub(in crate::backup) fn name_of_time(instant: DateTime) -> String {
    seven_digits(instant).chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The inverse of [`name_of_time`].
pub(super) fn time_of_name(name: &str) -> Option<DateTime> {
    let field = |from: usize, to: usize| name.get(from..to);
    let (year, month, day) = (field(0, 4)?, field(4, 6)?, field(6, 8)?);
    let (hour, minute, second, fraction) = (field(9, 11)?, field(11, 13)?, field(13, 15)?, field(15, 22)?);
    let time = DateTime::parse(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{fraction}Z")).ok()?;
    (name_of_time(time) == name).then_some(time)
}

pub(in crate::backup) fn seven_digits(instant: DateTime) -> String {
    let mut text = Vec::new();
    instant.write_seven_digits_to(&mut text);
    String::from_utf8(text).unwrap_or_default()
}

fn ticks(text: &str) -> anyhow::Result<DateTime> {
    text.parse().ok().and_then(DateTime::from_ticks).with_context(|| format!("'{text}' is not a valid time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Retention, StoredAccessPolicies, TableSettings};

    fn manifest() -> BackupManifest {
        manifest_with(None)
    }

    fn manifest_with(retention: Option<Retention>) -> BackupManifest {
        let time = "2026-03-04T05:06:07.1234567Z".to_owned();
        let mut manifest = BackupManifest::new(time, "0.1.0".to_owned(), DateTime::from_ticks(7).unwrap());
        let table = TableKey { account: AccountName::new("acct").unwrap(), name: TableName::new("Cars").unwrap() };
        let (policies, settings) =
            (StoredAccessPolicies::default(), TableSettings { retention, ..TableSettings::default() });
        let table = SnapshotTable { table, created: DateTime::MIN, policies, settings };
        let file = ChunkFile { sha256: "ab".repeat(32), bytes: 9, stored: 31 };
        let content = ChunkContent { bytes: b"\0\x03p\0r\0\0\0\0".to_vec(), entities: 1 };
        let chunks = vec![ChunkEntry::new(file, &content, Vec::new()).unwrap()];
        manifest.accounts.push(AccountEntry::new(&table.table.account, &ServiceProperties::default()));
        manifest.add_table(TableEntry::new(&table));
        manifest.tables[0] = TableContent { entities: 1, bytes: 9, chunks, ..manifest.tables[0].clone() };
        manifest
    }

    fn layered_manifest() -> BackupManifest {
        let mut manifest = manifest();
        let mut chunks = std::mem::take(&mut manifest.tables[0].chunks);
        let layer = ChunkFile { sha256: "cd".repeat(32), bytes: 10, stored: 38 };
        chunks[0].file.stored = 0;
        chunks[0].from = vec![0, 1];
        manifest.set_chunks(0, vec![layer.clone(), layer], chunks);
        manifest
    }

    #[test]
    fn a_manifest_is_read_back_and_checked_against_its_name() {
        let manifest = manifest();
        let (id, bytes) = manifest.encode().unwrap();
        assert!(id.starts_with("20260304T0506071234567Z-") && id.len() == 24 + HASH_CHARS, "{id}");
        assert_eq!(BackupManifest::decode(&id, &bytes).unwrap(), manifest);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(BackupManifest::decode(&id, &damaged).is_err(), "byte {at}");
        }
        let decoded = manifest.tables[0].table.decode().unwrap();
        assert_eq!((decoded.table.name.as_str(), manifest.tables[0].table.to_string().as_str()), ("Cars", "acct/Cars"));
        let metrics =
            TableEntry { name: "$MetricsHourPrimaryTransactionsTable".to_owned(), ..manifest.tables[0].table.clone() };
        assert!(metrics.decode().is_ok());
        assert_eq!(manifest.accounts[0].decode().unwrap().1, ServiceProperties::default());
    }

    #[test]
    fn what_a_hostile_manifest_says_is_not_trusted() {
        type Change = fn(&mut BackupManifest);
        let changes: [(&str, Change); 13] = [
            ("is not a chunk name", |m| m.tables[0].chunks[0].file.sha256 = "/dev/zero".to_owned()),
            ("is not a chunk name", |m| m.tables[0].chunks[0].file.sha256 = "../".repeat(22)[..64].to_owned()),
            ("impossible size", |m| m.tables[0].chunks[0].file.bytes = u64::MAX),
            ("impossible size", |m| m.tables[0].chunks[0].file.stored = u64::MAX),
            ("impossible size", |m| m.tables[0].chunks[0].entities = u64::MAX),
            ("is not a chunk name", |m| m.tables[0].layers[0].sha256 = "..".to_owned()),
            ("impossible size", |m| m.tables[0].layers[0].stored = u64::MAX),
            ("impossible layers", |m| m.tables[0].chunks[0].from = vec![1, 2]),
            ("impossible layers", |m| m.tables[0].chunks[0].from = vec![0, 0]),
            ("instead of", |m| m.tables[0].entities = u64::MAX),
            ("instead of", |m| m.tables[0].bytes = u64::MAX),
            ("twice", |m| m.tables.push(m.tables[0].clone())),
            ("twice", |m| {
                m.tables.push(m.tables[0].clone());
                m.tables[1].table.name = "CARS".to_owned();
            }),
        ];
        for (expected, change) in changes {
            let mut manifest = layered_manifest();
            change(&mut manifest);
            let (id, bytes) = manifest.encode().unwrap();
            let error = format!("{:#}", BackupManifest::decode(&id, &bytes).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        let (id, bytes) = manifest().encode().unwrap();
        assert!(BackupManifest::decode(&id.replace("2026", "2027"), &bytes).is_err());
    }

    #[test]
    fn a_later_format_is_told_from_damage() {
        let (id, bytes) = BackupManifest { format: 2, ..manifest() }.encode().unwrap();
        let error = BackupManifest::decode(&id, &bytes).unwrap_err().to_string();
        assert!(error.contains("format 2"), "{error}");
    }

    #[test]
    fn the_settings_of_a_table_are_read_back() {
        let retention = Retention::by_property("Ends", 7);
        let (id, bytes) = manifest_with(retention.clone()).encode().unwrap();
        let decoded = BackupManifest::decode(&id, &bytes).unwrap();
        assert_eq!(decoded.tables[0].table.settings, "AQAIAAAAB0VuZHM=");
        assert_eq!(decoded.tables[0].table.decode().unwrap().settings.retention, retention);
    }

    #[test]
    fn the_manifest_format_is_pinned() {
        let (_, bytes) = manifest().encode().unwrap();
        let head = r#"{"format":1,"time":"2026-03-04T05:06:07.1234567Z","version":"0.1.0","last_stamp":"7","accounts":[{"account":"acct","properties":"AQEAAAAAAAAAAAAA"}],"tables":[{"account":"acct","name":"Cars","created":"0","policies":"AA==","entities":1,"bytes":9,"#;
        let (chunk, layer) = ("ab".repeat(32), "cd".repeat(32));
        let tail =
            format!(r#""chunks":[{{"sha256":"{chunk}","bytes":9,"stored":31,"entities":1,"first":"cABy"}}]}}]}}"#);
        assert_eq!(String::from_utf8(bytes).unwrap(), format!("{head}{tail}\n"));
        let (_, bytes) = layered_manifest().encode().unwrap();
        let layer = format!(r#"{{"sha256":"{layer}","bytes":10,"stored":38}}"#);
        let tail = tail.replace("31", "0").replace(r#""cABy""#, r#""cABy","from":[0,1]"#);
        let expected = format!("{head}\"layers\":[{layer},{layer}],{tail}\n");
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
