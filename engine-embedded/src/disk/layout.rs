//! The keys and values of the embedded engine; `docs/embedded-engine.md` specifies them byte by byte.
//!
//! The bytes come from disk and may be damaged, so every decoding function can fail, but none panics. This module must
//! not depend on the storage library.

use engine::TableKey;
use engine::parts::policies_value::{self, push_text, take_text, take_time};
use engine::parts::{properties_value, settings_value};
use engine::snapshot::SnapshotTable;
use model::{AccountName, DateTime, EntityKey, IndexedProperty, KeyRange, ServiceProperties};
use model::{StoredAccessPolicies, TableName, TableSettings};
use std::ops::Range;
use std::sync::Arc;

/// The data folder format that this version writes and reads.
pub(crate) const FORMAT: u32 = 1;

// No table has the ID 0, so keys that begin with it belong to the engine itself. The byte after the ID is the kind of
// entry.

pub(crate) const NEXT_TABLE_ID: &[u8] = b"\0\0\0\0\0\0\0\0mnext-table-id";
pub(crate) const LAST_STAMP: &[u8] = b"\0\0\0\0\0\0\0\0mlast-stamp";
pub(crate) const CATALOG_PREFIX: &[u8] = b"\0\0\0\0\0\0\0\0c";
/// The prefix of the keys of deleted tables whose entities are still to be removed. The table ID follows.
pub(crate) const PURGE_PREFIX: &[u8] = b"\0\0\0\0\0\0\0\0p";
/// The end of the range of these keys.
pub(crate) const PURGE_END: &[u8] = b"\0\0\0\0\0\0\0\0q";
/// The prefix of the keys of the names of deleted tables, for readers of the change feed. The table ID follows.
pub(crate) const DELETED_PREFIX: &[u8] = b"\0\0\0\0\0\0\0\0d";
/// The end of the range of these keys.
pub(crate) const DELETED_END: &[u8] = b"\0\0\0\0\0\0\0\0e";
/// The prefix of the keys of service properties. The account name follows.
pub(crate) const SERVICE_PROPERTIES_PREFIX: &[u8] = b"\0\0\0\0\0\0\0\0s";

/// The version of a catalog value. It is the value's first byte.
const CATALOG_VALUE_VERSION: u8 = 1;
/// The states of an index in a catalog value.
const INDEX_BUILDING: u8 = 0;
const INDEX_READY: u8 = 1;
/// The version of the value with the name of a deleted table. It is the value's first byte.
const DELETED_VALUE_VERSION: u8 = 1;
/// The value of a deleted table, which consists only of its version.
pub(crate) const PURGE_VALUE: &[u8] = &[1];

/// Separates the account from the table name. Neither can contain this byte.
const CATALOG_KEY_SEPARATOR: u8 = 0;

/// Identifies a table or an index permanently. IDs are issued in ascending order and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(u64);

impl TableId {
    pub(crate) const FIRST: Self = Self(1);

    pub(crate) fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("2^64 tables are never created"))
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

pub(crate) fn entity_key(table: TableId, key: &[u8]) -> Vec<u8> {
    [table.to_bytes().as_slice(), key].concat()
}

/// Returns the range of the entities of a table in a range of keys, or of the entries of an index.
pub(crate) fn stored_range(id: TableId, range: &KeyRange) -> Range<Vec<u8>> {
    let end = range.end.as_ref().map_or_else(|| id.next().to_bytes().to_vec(), |end| entity_key(id, end));
    entity_key(id, &range.start)..end
}

pub(crate) fn key_of_entity(table: TableId, key: &EntityKey) -> Vec<u8> {
    let (partition, row) = (key.partition.as_str(), key.row.as_str());
    let mut full_key = Vec::with_capacity(size_of::<TableId>() + partition.len() + 1 + row.len());
    full_key.extend_from_slice(&table.to_bytes());
    key.encode_to(&mut full_key);
    full_key
}

pub(crate) fn key_in_table(key: &[u8]) -> Option<&[u8]> {
    key.get(size_of::<TableId>()..)
}

/// Returns the key of a table in the catalog: prefix, account, separator, folded name.
pub(crate) fn catalog_key(table: &TableKey) -> Vec<u8> {
    [CATALOG_PREFIX, table.account.as_str().as_bytes(), &[CATALOG_KEY_SEPARATOR], table.name.folded().as_bytes()]
        .concat()
}

pub(crate) fn purge_key(table: TableId) -> Vec<u8> {
    [PURGE_PREFIX, &table.to_bytes()].concat()
}

pub(crate) fn decode_purge_key(key: &[u8]) -> Option<TableId> {
    TableId::from_bytes(key.strip_prefix(PURGE_PREFIX)?)
}

/// A table that no longer exists. Its name is kept as long as the log mentions the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeletedTable {
    pub(crate) id: TableId,
    pub(crate) table: TableKey,
    pub(crate) deleted: DateTime,
}

impl DeletedTable {
    pub(crate) fn key(id: TableId) -> Vec<u8> {
        [DELETED_PREFIX, &id.to_bytes()].concat()
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        let mut out = vec![DELETED_VALUE_VERSION];
        out.extend_from_slice(&self.deleted.ticks().to_be_bytes());
        push_text(&mut out, self.table.account.as_str());
        push_text(&mut out, self.table.name.as_str());
        out
    }

    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let id = TableId::from_bytes(key.strip_prefix(DELETED_PREFIX)?)?;
        let (version, rest) = value.split_first()?;
        let (deleted, mut rest) = take_time(rest)?;
        let account = AccountName::new(take_text(&mut rest)?)?;
        let name = TableName::stored(take_text(&mut rest)?).ok()?;
        let is_good = *version == DELETED_VALUE_VERSION && rest.is_empty();
        is_good.then_some(Self { id, table: TableKey { account, name }, deleted: deleted? })
    }
}

/// An index of a table. Its entries are stored like the entities of a table: the ID of the index, and the entry (see
/// [`model::index`]). Their values are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableIndex {
    pub(crate) property: IndexedProperty,
    pub(crate) id: TableId,
    /// Whether all entities have an entry. Until then, every stored entry is correct, but some are missing.
    pub(crate) is_ready: bool,
}

/// What operations on entities need to know of a table.
#[derive(Debug, Clone)]
pub(crate) struct StoredTable {
    pub(crate) id: TableId,
    indexes: Option<Arc<[TableIndex]>>,
}

impl StoredTable {
    pub(crate) fn indexes(&self) -> &[TableIndex] {
        self.indexes.as_deref().unwrap_or_default()
    }

    /// Returns whether nothing has changed that matters for writes. Indexes that were removed and added again differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same_list = match (&self.indexes, &other.indexes) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        self.id == other.id && is_same_list
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CatalogEntry {
    pub(crate) table: TableKey,
    pub(crate) id: TableId,
    pub(crate) created: DateTime,
    pub(crate) policies: StoredAccessPolicies,
    pub(crate) settings: TableSettings,
    /// The indexes, in the order of the settings.
    pub(crate) indexes: Vec<TableIndex>,
}

impl CatalogEntry {
    /// Returns the entry of a table without policies and with the default settings.
    pub(crate) fn new(table: TableKey, id: TableId, created: DateTime) -> Self {
        let (policies, settings) = (StoredAccessPolicies::default(), TableSettings::default());
        Self { table, id, created, policies, settings, indexes: Vec::new() }
    }

    /// Returns the entry of a table whose indexes are still to be built. `next_id` is the next ID to issue.
    pub(crate) fn from_snapshot(table: &SnapshotTable, next_id: &mut TableId) -> Self {
        let SnapshotTable { table, created, policies, settings } = table.clone();
        let mut entry = Self { policies, ..Self::new(table, issue(next_id), created) };
        entry.set_settings(settings, next_id);
        entry
    }

    pub(crate) fn into_snapshot(self) -> SnapshotTable {
        let Self { table, id: _, created, policies, settings, indexes: _ } = self;
        SnapshotTable { table, created, policies, settings }
    }

    /// Replaces the settings, and returns the IDs of the indexes that are no longer in them. `next_id` is the next ID
    /// to issue.
    pub(crate) fn set_settings(&mut self, settings: TableSettings, next_id: &mut TableId) -> Vec<TableId> {
        let mut previous = std::mem::take(&mut self.indexes);
        for property in &settings.indexes {
            let known = previous.iter().position(|index| index.property == *property);
            self.indexes.push(match known {
                Some(at) => previous.swap_remove(at),
                None => TableIndex { property: property.clone(), id: issue(next_id), is_ready: false },
            });
        }
        self.settings = settings;
        previous.into_iter().map(|index| index.id).collect()
    }

    pub(crate) fn stored(&self) -> StoredTable {
        let indexes = (!self.indexes.is_empty()).then(|| Arc::from(self.indexes.as_slice()));
        StoredTable { id: self.id, indexes }
    }

    /// Returns the IDs of the table and of its indexes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = TableId> {
        std::iter::once(self.id).chain(self.indexes.iter().map(|index| index.id))
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        let mut out = vec![CATALOG_VALUE_VERSION];
        out.extend_from_slice(&self.id.to_bytes());
        out.extend_from_slice(&self.created.ticks().to_be_bytes());
        push_text(&mut out, self.table.name.as_str());
        policies_value::encode_to(&self.policies, &mut out);
        out.push(u8::try_from(self.indexes.len()).expect("a table has at most eight indexes"));
        for index in &self.indexes {
            out.extend_from_slice(&index.id.to_bytes());
            out.push(if index.is_ready { INDEX_READY } else { INDEX_BUILDING });
        }
        let settings = settings_value::encode(&self.settings);
        let settings_bytes = u16::try_from(settings.len()).expect("settings have at most a few kilobytes");
        out.extend_from_slice(&settings_bytes.to_be_bytes());
        out.extend_from_slice(&settings);
        out
    }
}

fn issue(next_id: &mut TableId) -> TableId {
    let id = *next_id;
    *next_id = id.next();
    id
}

/// Decodes the IDs and states of indexes, and advances past them.
fn take_indexes(rest: &mut &[u8]) -> Option<Vec<(TableId, bool)>> {
    let (count, indexes) = rest.split_first()?;
    let (indexes, after) = indexes.split_at_checked(usize::from(*count) * (size_of::<TableId>() + 1))?;
    *rest = after;
    let decoded = indexes.chunks_exact(size_of::<TableId>() + 1).map(|index| {
        let (state, id) = index.split_last()?;
        let is_ready = match *state {
            INDEX_READY => true,
            INDEX_BUILDING => false,
            _ => return None,
        };
        Some((TableId::from_bytes(id)?, is_ready))
    });
    decoded.collect()
}

/// Decodes a catalog entry. Returns `None` if the entry is damaged or was written by a newer version.
pub(crate) fn decode_catalog_entry(key: &[u8], value: &[u8]) -> Option<CatalogEntry> {
    let (version, rest) = value.split_first()?;
    let (id, rest) = rest.split_at_checked(size_of::<TableId>())?;
    let (created, mut rest) = take_time(rest)?;
    let name = TableName::stored(take_text(&mut rest)?).ok()?;
    let policies = policies_value::decode_from(&mut rest)?;
    let indexes = take_indexes(&mut rest)?;
    let (settings_bytes, settings) = rest.split_first_chunk()?;
    let has_length = settings.len() == usize::from(u16::from_be_bytes(*settings_bytes));
    let settings = settings_value::decode(settings)?;
    let account = key.strip_prefix(CATALOG_PREFIX)?.split(|b| *b == CATALOG_KEY_SEPARATOR).next()?;
    let account = AccountName::new(std::str::from_utf8(account).ok()?)?;
    let table = TableKey { account, name };
    let is_good = *version == CATALOG_VALUE_VERSION
        && has_length
        && catalog_key(&table) == key
        && indexes.len() == settings.indexes.len();
    let index =
        |(property, (id, is_ready)): (&IndexedProperty, _)| TableIndex { property: property.clone(), id, is_ready };
    let indexes = settings.indexes.iter().zip(indexes).map(index).collect();
    let id = TableId::from_bytes(id)?;
    is_good.then_some(CatalogEntry { table, id, created: created?, policies, settings, indexes })
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EngineEntry {
    NextTableId(TableId),
    LastStamp(DateTime),
    Table(CatalogEntry),
    Purge(TableId),
    Deleted(DeletedTable),
    ServiceProperties(AccountName, Box<ServiceProperties>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineEntryError {
    /// The entry is damaged or was written by a newer version. The string describes the entry.
    Damaged(&'static str),
    UnknownKind,
}

/// Decodes an entry of the engine itself, whose key begins with zeros.
pub(crate) fn decode_engine_entry(key: &[u8], value: &[u8]) -> Result<EngineEntry, EngineEntryError> {
    let (entry, what) = if key == NEXT_TABLE_ID {
        (TableId::from_bytes(value).map(EngineEntry::NextTableId), "the ID of the next table cannot be read")
    } else if key == LAST_STAMP {
        (decode_stamp(value).map(EngineEntry::LastStamp), "the last Timestamp issued cannot be read")
    } else if key.starts_with(CATALOG_PREFIX) {
        (decode_catalog_entry(key, value).map(EngineEntry::Table), "the entry of a table cannot be read")
    } else if key.starts_with(PURGE_PREFIX) {
        let id = decode_purge_key(key).filter(|_| value == PURGE_VALUE);
        (id.map(EngineEntry::Purge), "the marker of a deleted table cannot be read")
    } else if key.starts_with(DELETED_PREFIX) {
        (DeletedTable::decode(key, value).map(EngineEntry::Deleted), "the name of a deleted table cannot be read")
    } else if key.starts_with(SERVICE_PROPERTIES_PREFIX) {
        let properties = decode_service_properties_key(key).zip(properties_value::decode(value));
        let entry =
            properties.map(|(account, properties)| EngineEntry::ServiceProperties(account, Box::new(properties)));
        (entry, "the service properties of an account cannot be read")
    } else {
        return Err(EngineEntryError::UnknownKind);
    };
    entry.ok_or(EngineEntryError::Damaged(what))
}

pub(crate) fn stamp_value(stamp: DateTime) -> [u8; 8] {
    stamp.ticks().to_be_bytes()
}

fn decode_stamp(value: &[u8]) -> Option<DateTime> {
    DateTime::from_ticks(i64::from_be_bytes(value.try_into().ok()?))
}

pub(crate) fn service_properties_key(account: &AccountName) -> Vec<u8> {
    [SERVICE_PROPERTIES_PREFIX, account.as_str().as_bytes()].concat()
}

fn decode_service_properties_key(key: &[u8]) -> Option<AccountName> {
    AccountName::new(std::str::from_utf8(key.strip_prefix(SERVICE_PROPERTIES_PREFIX)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{KeyText, Permissions, Retention, StoredAccessPolicy};

    fn table() -> TableKey {
        TableKey { account: AccountName::new("acc1").unwrap(), name: TableName::new("MyTable").unwrap() }
    }

    fn policies() -> StoredAccessPolicies {
        let mut full = StoredAccessPolicy::new("é1").unwrap();
        full.start = DateTime::from_ticks(1);
        full.expiry = DateTime::from_ticks(2);
        full.permissions = Permissions::parse_table("ur");
        StoredAccessPolicies::new(vec![full, StoredAccessPolicy::new("x").unwrap()]).unwrap()
    }

    fn entry(policies: StoredAccessPolicies, retention: Option<Retention>) -> CatalogEntry {
        let created = DateTime::from_ticks(0x0102_0304_0506_0708).unwrap();
        let settings = TableSettings { retention, ..TableSettings::default() };
        CatalogEntry { policies, settings, ..CatalogEntry::new(table(), TableId(5), created) }
    }

    #[test]
    fn the_catalog_format_is_pinned() {
        for (entry, expected) in [
            (
                entry(StoredAccessPolicies::default(), None),
                &b"\x01\0\0\0\0\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08\x07MyTable\0\0\0\0"[..],
            ),
            (
                entry(policies(), Retention::by_property("Ends", 7)),
                b"\x01\0\0\0\0\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08\x07MyTable\x02\
                  \x03\xC3\xA91\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x02ru\
                  \x01x\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01-\
                  \0\0\x0b\x01\0\x08\0\0\0\x07Ends",
            ),
            (
                with_indexes(),
                b"\x01\0\0\0\0\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08\x07MyTable\0\
                  \x02\0\0\0\0\0\0\0\x06\x01\0\0\0\0\0\0\0\x07\0\0\x0a\x02\0\x07\0\x01A\0\x02\xC3\xA9",
            ),
        ] {
            let (key, value) = (catalog_key(&table()), entry.value());
            assert_eq!(key, b"\0\0\0\0\0\0\0\0cacc1\0mytable");
            assert_eq!(value.escape_ascii().to_string(), expected.escape_ascii().to_string());
            let decoded = decode_catalog_entry(&key, &value).unwrap();
            assert_eq!(decoded.table.name.as_str(), "MyTable");
            assert_eq!(decoded, entry);
        }
    }

    fn with_indexes() -> CatalogEntry {
        let indexes = ["A", "é"].iter().filter_map(|name| IndexedProperty::new(name)).collect();
        let mut entry = entry(StoredAccessPolicies::default(), None);
        entry.set_settings(TableSettings { indexes, ..TableSettings::default() }, &mut TableId(6));
        entry.indexes[0].is_ready = true;
        entry
    }

    #[test]
    fn indexes_keep_their_ids() {
        let (mut entry, mut next) = (with_indexes(), TableId(8));
        let set = |entry: &mut CatalogEntry, names: &[&str], next: &mut TableId| {
            let indexes = names.iter().filter_map(|name| IndexedProperty::new(name)).collect();
            entry.set_settings(TableSettings { indexes, ..TableSettings::default() }, next)
        };
        let ids = |entry: &CatalogEntry| entry.ids().map(|id| id.0).collect::<Vec<_>>();
        let before = entry.stored();
        assert_eq!(set(&mut entry, &["é", "B", "A"], &mut next), []);
        assert_eq!((ids(&entry), next), (vec![5, 7, 8, 6], TableId(9)));
        assert!(before.is_same(&before.clone()) && !before.is_same(&entry.stored()));
        assert_eq!(set(&mut entry, &["B"], &mut next).len(), 2);
        assert_eq!(set(&mut entry, &["A"], &mut next), [TableId(8)]);
        assert_eq!((ids(&entry), entry.indexes[0].is_ready), (vec![5, 9], false));
    }

    #[test]
    fn damaged_catalog_entries_are_told_from_good_ones() {
        let key = catalog_key(&table());
        let value = |policies, retention| entry(policies, retention).value();
        let none = StoredAccessPolicies::default;
        for whole in [value(none(), None), value(policies(), None), value(none(), Retention::by_age(60))] {
            for length in 0..whole.len() {
                assert!(decode_catalog_entry(&key, &whole[..length]).is_none(), "cut to {length}");
            }
        }
        let value = value(none(), None);
        let mut newer = value.clone();
        newer[0] = 2;
        assert!(decode_catalog_entry(&key, &newer).is_none());
        assert!(decode_catalog_entry(&key, &[value.as_slice(), b"x"].concat()).is_none());
        for bad_key in [&b""[..], b"acc1", b"acc1\0", b"acc1\0other", b"acc1\0MyTable"] {
            let bad_key = [CATALOG_PREFIX, bad_key].concat();
            assert!(decode_catalog_entry(&bad_key, &value).is_none(), "{}", bad_key.escape_ascii());
        }
    }

    #[test]
    fn the_names_of_deleted_tables_are_pinned() {
        let deleted = DeletedTable { id: TableId(5), table: table(), deleted: DateTime::from_ticks(0x0102).unwrap() };
        let (key, value) = (DeletedTable::key(TableId(5)), deleted.value());
        assert_eq!(key, b"\0\0\0\0\0\0\0\0d\0\0\0\0\0\0\0\x05");
        assert_eq!(value, b"\x01\0\0\0\0\0\0\x01\x02\x04acc1\x07MyTable");
        assert_eq!(DeletedTable::decode(&key, &value), Some(deleted));
        for length in 0..value.len() {
            assert_eq!(DeletedTable::decode(&key, &value[..length]), None, "cut to {length}");
        }
        assert_eq!(DeletedTable::decode(&key, &[value.as_slice(), b"x"].concat()), None);
        assert!(key.as_slice() >= DELETED_PREFIX && key.as_slice() < DELETED_END);
    }

    #[test]
    fn the_keys_of_the_engine_come_before_all_entities() {
        assert_eq!(purge_key(TableId(5)), b"\0\0\0\0\0\0\0\0p\0\0\0\0\0\0\0\x05");
        assert_eq!(decode_purge_key(&purge_key(TableId(5))), Some(TableId(5)));
        assert_eq!(decode_purge_key(PURGE_PREFIX), None);
        let first_entity = entity_key(TableId::FIRST, b"");
        for key in [NEXT_TABLE_ID, LAST_STAMP, &catalog_key(&table()), &purge_key(TableId(u64::MAX))] {
            assert!(key < first_entity.as_slice(), "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_key_of_service_properties_names_the_account() {
        let key = service_properties_key(&table().account);
        assert_eq!(key, b"\0\0\0\0\0\0\0\0sacc1");
        assert_eq!(decode_service_properties_key(&key), Some(table().account));
        for bad_key in [&b"\0\0\0\0\0\0\0\0s"[..], b"\0\0\0\0\0\0\0\0sA", b"\0\0\0\0\0\0\0\0sacc1/", b"acc1"] {
            assert!(decode_service_properties_key(bad_key).is_none(), "{}", bad_key.escape_ascii());
        }
    }

    #[test]
    fn the_entity_key_is_the_table_id_and_the_key_inside_the_table() {
        let key = entity_key(TableId(0x0102), b"p\0r");
        assert_eq!(key, b"\0\0\0\0\0\0\x01\x02p\0r");
        assert_eq!(key_in_table(&key), Some(&b"p\0r"[..]));
        assert_eq!(key_in_table(b"short"), None);
        let text = |text| KeyText::new(text).unwrap();
        assert_eq!(key_of_entity(TableId(0x0102), &EntityKey { partition: text("p"), row: text("r") }), key);
    }
}
