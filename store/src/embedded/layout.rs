//! The keys and values of the keyspaces of the embedded engine; `docs/embedded-engine.md` has them byte by byte.
//!
//! Bytes come from disk and may be damaged, so every decoding can fail and none panics.
//! This module must not know the storage library.

use crate::engine::TableKey;
use model::{AccountName, DateTime, TableName};

/// The keyspace of what belongs to the whole engine.
pub(super) const META: &str = "meta";
/// The keyspace of the tables.
pub(super) const CATALOG: &str = "catalog";
/// The keyspace of the entities of all tables.
pub(super) const ENTITIES: &str = "entities";
/// The keyspace of the deleted tables whose entities are still to be removed.
pub(super) const PURGE: &str = "purge";

/// The key in `meta` of the id that the next table gets.
pub(super) const NEXT_TABLE_ID: &[u8] = b"next-table-id";
/// The key in `meta` of the highest Timestamp given out.
pub(super) const LAST_STAMP: &[u8] = b"last-stamp";

/// The beginning of the keys in `meta` of service properties; the name of the account follows.
pub(super) const SERVICE_PROPERTIES_PREFIX: &[u8] = b"service-properties/";

/// The version of the values in `catalog`, their first byte.
const CATALOG_VALUE_VERSION: u8 = 1;
/// The value of a marker in `purge`: its version, and nothing else.
pub(super) const PURGE_VALUE: &[u8] = &[1];

/// Separates the account from the table name; neither can hold it.
const CATALOG_KEY_SEPARATOR: u8 = 0;

/// Identifies a table for ever: ids are given out in ascending order and never again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TableId(u64);

impl TableId {
    /// The id of the first table.
    pub(super) const FIRST: Self = Self(1);

    /// The id after this one.
    pub(super) fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("nobody lives to create 2^64 tables"))
    }

    /// The bytes that stand for the id in keys and values.
    pub(super) fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The id that these bytes stand for.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// The key of an entity: table id, then its key bytes inside the table.
pub(super) fn entity_key(table: TableId, key: &[u8]) -> Vec<u8> {
    [table.to_bytes().as_slice(), key].concat()
}

/// The key bytes inside the table of the key of an entity.
pub(super) fn key_in_table(key: &[u8]) -> Option<&[u8]> {
    key.get(size_of::<TableId>()..)
}

/// The key of a table in `catalog`: account, separator, folded name.
pub(super) fn catalog_key(table: &TableKey) -> Vec<u8> {
    [table.account.as_str().as_bytes(), &[CATALOG_KEY_SEPARATOR], table.name.folded().as_bytes()].concat()
}

/// The value of a table in `catalog`.
pub(super) fn catalog_value(table: &TableKey, id: TableId, created: DateTime) -> Vec<u8> {
    let spelling = table.name.as_str().as_bytes();
    let spelling_bytes = u8::try_from(spelling.len()).expect("a table name has at most 63 bytes");
    [[CATALOG_VALUE_VERSION].as_slice(), &id.to_bytes(), &created.ticks().to_be_bytes(), &[spelling_bytes], spelling]
        .concat()
}

/// The table that an entry of `catalog` stands for; `None` if it is damaged or of a newer version.
pub(super) fn decode_catalog_entry(key: &[u8], value: &[u8]) -> Option<(TableKey, TableId)> {
    let (version, rest) = value.split_first()?;
    if *version != CATALOG_VALUE_VERSION {
        return None;
    }
    let (id, rest) = rest.split_at_checked(size_of::<TableId>())?;
    let (created, rest) = rest.split_first_chunk()?;
    DateTime::from_ticks(i64::from_be_bytes(*created))?;
    let (spelling_bytes, spelling) = rest.split_first()?;
    if usize::from(*spelling_bytes) != spelling.len() {
        return None;
    }
    let account = key.split(|b| *b == CATALOG_KEY_SEPARATOR).next()?;
    let account = AccountName::new(std::str::from_utf8(account).ok()?)?;
    let name = TableName::new(std::str::from_utf8(spelling).ok()?).ok()?;
    let table = TableKey { account, name };
    (catalog_key(&table) == key).then_some((table, TableId::from_bytes(id)?))
}

/// The value of [`LAST_STAMP`].
pub(super) fn stamp_value(stamp: DateTime) -> [u8; 8] {
    stamp.ticks().to_be_bytes()
}

/// The stamp that a value of [`LAST_STAMP`] stands for.
pub(super) fn decode_stamp(value: &[u8]) -> Option<DateTime> {
    DateTime::from_ticks(i64::from_be_bytes(value.try_into().ok()?))
}

/// The key in `meta` of the service properties of an account.
pub(super) fn service_properties_key(account: &AccountName) -> Vec<u8> {
    [SERVICE_PROPERTIES_PREFIX, account.as_str().as_bytes()].concat()
}

/// The account of a key of service properties.
pub(super) fn decode_service_properties_key(key: &[u8]) -> Option<AccountName> {
    AccountName::new(std::str::from_utf8(key.strip_prefix(SERVICE_PROPERTIES_PREFIX)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableKey {
        TableKey { account: AccountName::new("acc1").unwrap(), name: TableName::new("MyTable").unwrap() }
    }

    #[test]
    fn the_catalog_format_is_pinned() {
        let created = DateTime::from_ticks(0x0102_0304_0506_0708).unwrap();
        let (key, value) = (catalog_key(&table()), catalog_value(&table(), TableId(5), created));
        assert_eq!(key, b"acc1\0mytable");
        assert_eq!(value, b"\x01\0\0\0\0\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08\x07MyTable");
        let (decoded, id) = decode_catalog_entry(&key, &value).unwrap();
        assert_eq!((decoded.name.as_str(), id), ("MyTable", TableId(5)));
    }

    #[test]
    fn damaged_catalog_entries_are_told_from_good_ones() {
        let (key, value) = (catalog_key(&table()), catalog_value(&table(), TableId(5), DateTime::MIN));
        for length in 0..value.len() {
            assert!(decode_catalog_entry(&key, &value[..length]).is_none(), "cut to {length}");
        }
        let mut newer = value.clone();
        newer[0] = 2;
        assert!(decode_catalog_entry(&key, &newer).is_none());
        for bad_key in [&b""[..], b"acc1", b"acc1\0", b"acc1\0other", b"acc1\0MyTable"] {
            assert!(decode_catalog_entry(bad_key, &value).is_none(), "{}", bad_key.escape_ascii());
        }
    }

    #[test]
    fn the_key_of_service_properties_names_the_account() {
        let key = service_properties_key(&table().account);
        assert_eq!(key, b"service-properties/acc1");
        assert_eq!(decode_service_properties_key(&key), Some(table().account));
        for bad_key in [&b"service-properties/"[..], b"service-properties/A", b"service-properties/acc1/", b"acc1"] {
            assert!(decode_service_properties_key(bad_key).is_none(), "{}", bad_key.escape_ascii());
        }
    }

    #[test]
    fn the_entity_key_is_the_table_id_and_the_key_inside_the_table() {
        let key = entity_key(TableId(0x0102), b"p\0r");
        assert_eq!(key, b"\0\0\0\0\0\0\x01\x02p\0r");
        assert_eq!(key_in_table(&key), Some(&b"p\0r"[..]));
        assert_eq!(key_in_table(b"short"), None);
    }
}
