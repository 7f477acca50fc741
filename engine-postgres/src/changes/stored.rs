//! The changes of a transaction, as stored in a row of `rowhouse_changes`.
//!
//! Each change is a byte for its kind, followed by its values, each with its length (4 bytes, big-endian). The account
//! and the table are columns of the row, because no transaction concerns several tables.

use crate::changes::pgoutput::Reader;
use engine::parts::{policies_value, properties_value, settings_value};
use engine::{ChangeEffect, TableKey};
use model::{AccountName, DateTime, Record};
use std::sync::Arc;

/// A change of an entity, a table, or service properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredChange {
    /// An entity was stored.
    Put {
        /// The encoded key.
        key: Vec<u8>,
        /// The entity.
        record: Vec<u8>,
    },
    /// An entity was deleted.
    Delete {
        /// The encoded key.
        key: Vec<u8>,
        /// Whether it was deleted because it had expired.
        is_expired: bool,
    },
    /// A table was created.
    CreateTable,
    /// A table was deleted.
    DeleteTable,
    /// The values are encoded as in the catalog.
    SetTable {
        /// The policies.
        policies: Vec<u8>,
        /// The settings.
        settings: Vec<u8>,
    },
    /// The value is encoded as in the table of service properties.
    SetProperties {
        /// The service properties.
        value: Vec<u8>,
    },
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const EXPIRE: u8 = 3;
const CREATE_TABLE: u8 = 4;
const DELETE_TABLE: u8 = 5;
const SET_TABLE: u8 = 6;
const SET_PROPERTIES: u8 = 7;

impl StoredChange {
    pub(crate) fn encode_to(&self, out: &mut Vec<u8>) {
        let (kind, values): (u8, [Option<&[u8]>; 2]) = match self {
            Self::Put { key, record } => (PUT, [Some(key), Some(record)]),
            Self::Delete { key, is_expired: false } => (DELETE, [Some(key), None]),
            Self::Delete { key, is_expired: true } => (EXPIRE, [Some(key), None]),
            Self::CreateTable => (CREATE_TABLE, [None; 2]),
            Self::DeleteTable => (DELETE_TABLE, [None; 2]),
            Self::SetTable { policies, settings } => (SET_TABLE, [Some(policies), Some(settings)]),
            Self::SetProperties { value } => (SET_PROPERTIES, [Some(value), None]),
        };
        out.push(kind);
        for value in values.into_iter().flatten() {
            // The database cannot store a value of 4 GiB.
            out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(value);
        }
    }
}

/// What a row is about.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Table(Arc<TableKey>),
    Account(AccountName),
}

/// Returns the changes of a row, or `None` if they cannot be read. `time` is the time of the transaction.
pub(crate) fn decode(bytes: &[u8], subject: &Subject, time: DateTime) -> Option<Vec<ChangeEffect>> {
    let (mut rest, mut effects) = (Reader(bytes), Vec::new());
    while !rest.0.is_empty() {
        let kind = rest.byte()?;
        let mut value = || {
            let length = rest.length()?;
            rest.take(length)
        };
        let effect = match subject {
            Subject::Table(table) => {
                let table = Arc::clone(table);
                match kind {
                    PUT => {
                        let key = value()?.to_vec();
                        ChangeEffect::Put { table, key, record: Record::from_bytes(value()?.to_vec()) }
                    }
                    DELETE | EXPIRE => {
                        ChangeEffect::Delete { table, key: value()?.to_vec(), is_expired: kind == EXPIRE }
                    }
                    CREATE_TABLE => ChangeEffect::CreateTable { table, created: time },
                    DELETE_TABLE => ChangeEffect::DeleteTable { table },
                    SET_TABLE => {
                        let policies = policies_value::decode_from(&mut value()?)?;
                        ChangeEffect::SetTable { table, policies, settings: settings_value::decode(value()?)? }
                    }
                    _ => return None,
                }
            }
            Subject::Account(account) if kind == SET_PROPERTIES => ChangeEffect::SetProperties {
                account: account.clone(),
                properties: Box::new(properties_value::decode(value()?)?),
            },
            Subject::Account(_) => return None,
        };
        effects.push(effect);
    }
    Some(effects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ServiceProperties, StoredAccessPolicies, TableName, TableSettings};

    #[test]
    fn changes_are_read_as_they_were_stored_and_damage_is_found() {
        let account = AccountName::new("account1").unwrap();
        let table = TableKey { account: account.clone(), name: TableName::new("Stored").unwrap() };
        let (of_table, of_account) = (Subject::Table(Arc::new(table.clone())), Subject::Account(account.clone()));
        let table = Arc::new(table);
        let time = DateTime::from_ticks(7).unwrap();
        let mut policies = Vec::new();
        policies_value::encode_to(&StoredAccessPolicies::default(), &mut policies);
        let properties = ServiceProperties::default();
        let stored = [
            StoredChange::Put { key: b"p\0r".to_vec(), record: vec![1, 2] },
            StoredChange::Delete { key: b"p\0s".to_vec(), is_expired: false },
            StoredChange::Delete { key: Vec::new(), is_expired: true },
            StoredChange::CreateTable,
            StoredChange::DeleteTable,
            StoredChange::SetTable { policies, settings: settings_value::encode(&TableSettings::default()) },
        ];
        let mut bytes = Vec::new();
        for change in &stored {
            change.encode_to(&mut bytes);
        }
        let of = || Arc::clone(&table);
        let expected = vec![
            ChangeEffect::Put { table: of(), key: b"p\0r".to_vec(), record: Record::from_bytes(vec![1, 2]) },
            ChangeEffect::Delete { table: of(), key: b"p\0s".to_vec(), is_expired: false },
            ChangeEffect::Delete { table: of(), key: Vec::new(), is_expired: true },
            ChangeEffect::CreateTable { table: of(), created: time },
            ChangeEffect::DeleteTable { table: of() },
            ChangeEffect::SetTable {
                table: of(),
                policies: StoredAccessPolicies::default(),
                settings: TableSettings::default(),
            },
        ];
        assert_eq!(bytes[..15], *b"\x01\0\0\0\x03p\0r\0\0\0\x02\x01\x02\x02");
        assert_eq!(decode(&bytes, &of_table, time), Some(expected.clone()));
        assert_eq!(decode(&bytes, &of_account, time), None);
        for length in 1..bytes.len() {
            let cut = decode(&bytes[..length], &of_table, time);
            assert!(cut.is_none_or(|effects| effects.len() < expected.len() && expected.starts_with(&effects)));
        }
        let mut bytes = Vec::new();
        StoredChange::SetProperties { value: properties_value::encode(&properties) }.encode_to(&mut bytes);
        let properties = Box::new(properties);
        let expected = vec![ChangeEffect::SetProperties { account, properties }];
        assert_eq!(decode(&bytes, &of_account, time), Some(expected));
        assert_eq!(decode(b"\x09", &of_table, time), None);
    }
}
