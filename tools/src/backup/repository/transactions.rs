//! Transactions of a change log as consecutive bytes: in the parts of the log in a repository, and as a server sends
//! them. `docs/backup-format.md` describes the format.
//!
//! Numbers are big-endian. The bytes come from a disk or a socket and may be damaged, so reading can fail but never
//! panics.

use super::chunk::{ENTITY_BYTES_MAX, check_entity, describe, push_entity, split_entity};
use anyhow::{Context, ensure};
use engine::{Change, ChangeEffect, ChangedTransaction, TableKey, snapshot};
use model::{AccountName, DateTime, Record, TableName};
use std::sync::Arc;

/// The maximum size of a transaction. Each of up to 100 entities may have the maximum size.
pub(in crate::backup) const TRANSACTION_BYTES_MAX: usize = 512 * 1024 * 1024;
const _: () = assert!(100 * (ENTITY_BYTES_MAX + 1024) < TRANSACTION_BYTES_MAX, "a full transaction fits");

const PUT: u8 = 1;
const DELETE: u8 = 2;
const EXPIRE: u8 = 3;
const CREATE_TABLE: u8 = 4;
const DELETE_TABLE: u8 = 5;
const SET_TABLE: u8 = 6;
const SET_PROPERTIES: u8 = 7;

/// Appends a transaction. Returns `None` if it is larger than the maximum; the end of the bytes is then undefined.
pub(in crate::backup) fn push_transaction(out: &mut Vec<u8>, transaction: &ChangedTransaction) -> Option<()> {
    let before = out.len();
    out.extend_from_slice(&transaction.position.to_be_bytes());
    out.extend_from_slice(&transaction.time.ticks().to_be_bytes());
    out.extend_from_slice(&u32::try_from(transaction.changes.len()).ok()?.to_be_bytes());
    for Change { index, effect } in &transaction.changes {
        out.extend_from_slice(&index.to_be_bytes());
        match effect {
            ChangeEffect::Put { table, key, record } => {
                push_table(out, PUT, table)?;
                push_entity(out, key, record.as_bytes())?;
            }
            ChangeEffect::Delete { table, key, is_expired } => {
                push_table(out, if *is_expired { EXPIRE } else { DELETE }, table)?;
                out.extend_from_slice(&u16::try_from(key.len()).ok()?.to_be_bytes());
                out.extend_from_slice(key);
            }
            ChangeEffect::CreateTable { table, created } => {
                push_table(out, CREATE_TABLE, table)?;
                out.extend_from_slice(&created.ticks().to_be_bytes());
            }
            ChangeEffect::DeleteTable { table } => push_table(out, DELETE_TABLE, table)?,
            ChangeEffect::SetTable { table, policies, settings } => {
                push_table(out, SET_TABLE, table)?;
                push_value(out, &snapshot::encode_policies(policies))?;
                push_value(out, &snapshot::encode_settings(settings))?;
            }
            ChangeEffect::SetProperties { account, properties } => {
                out.push(SET_PROPERTIES);
                push_name(out, account.as_str())?;
                push_value(out, &snapshot::encode_properties(properties))?;
            }
        }
    }
    (out.len() - before <= TRANSACTION_BYTES_MAX).then_some(())
}

fn push_table(out: &mut Vec<u8>, kind: u8, table: &TableKey) -> Option<()> {
    out.push(kind);
    push_name(out, table.account.as_str())?;
    push_name(out, table.name.as_str())
}

fn push_name(out: &mut Vec<u8>, name: &str) -> Option<()> {
    out.push(u8::try_from(name.len()).ok()?);
    out.extend_from_slice(name.as_bytes());
    Some(())
}

fn push_value(out: &mut Vec<u8>, value: &[u8]) -> Option<()> {
    out.extend_from_slice(&u32::try_from(value.len()).ok()?.to_be_bytes());
    out.extend_from_slice(value);
    Some(())
}

/// Passes the transactions to the sink. Checks that their positions and their times are in order, and each entity.
pub(in crate::backup) fn each_transaction(
    bytes: &[u8],
    mut sink: impl FnMut(ChangedTransaction) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut rest = bytes;
    let mut last: Option<(u64, DateTime)> = None;
    while !rest.is_empty() {
        let transaction = split_transaction(&mut rest).context("the transactions are malformed")?;
        let (position, time) = (transaction.position, transaction.time);
        let is_in_order = last.is_none_or(|(before, earlier)| before < position && earlier <= time);
        ensure!(is_in_order, "transaction {position} is out of order");
        for change in &transaction.changes {
            if let ChangeEffect::Put { key, record, .. } = &change.effect {
                let entity = (key.as_slice(), record.as_bytes());
                let stamp = check_entity(entity).with_context(|| describe(entity))?;
                ensure!(stamp <= time, "{} has a later Timestamp than its transaction", describe(entity));
            }
        }
        last = Some((position, time));
        sink(transaction)?;
    }
    Ok(())
}

/// Passes the transactions before a position to the sink, and returns the bytes of the others.
pub(in crate::backup) fn skip_before(
    mut bytes: &[u8],
    position: u64,
    mut sink: impl FnMut(ChangedTransaction),
) -> anyhow::Result<&[u8]> {
    while !bytes.is_empty() {
        let mut rest = bytes;
        let transaction = split_transaction(&mut rest).context("the transactions are malformed")?;
        if transaction.position >= position {
            break;
        }
        sink(transaction);
        bytes = rest;
    }
    Ok(bytes)
}

/// Returns `None` if the bytes do not begin with a transaction.
fn split_transaction(rest: &mut &[u8]) -> Option<ChangedTransaction> {
    let position = u64::from_be_bytes(take(rest)?);
    let time = take_time(rest)?;
    let count = u32::from_be_bytes(take(rest)?);
    let mut changes = Vec::new();
    for _ in 0..count {
        let index = u32::from_be_bytes(take(rest)?);
        let [kind] = take(rest)?;
        let effect = if kind == SET_PROPERTIES {
            let account = AccountName::new(take_name(rest)?)?;
            let properties = Box::new(snapshot::decode_properties(take_value(rest)?)?);
            ChangeEffect::SetProperties { account, properties }
        } else {
            table_effect(kind, rest)?
        };
        changes.push(Change { index, effect });
    }
    Some(ChangedTransaction { position, time, changes })
}

fn table_effect(kind: u8, rest: &mut &[u8]) -> Option<ChangeEffect> {
    let account = AccountName::new(take_name(rest)?)?;
    let table = Arc::new(TableKey { account, name: TableName::stored(take_name(rest)?).ok()? });
    Some(match kind {
        PUT => {
            let (key, record) = split_entity(rest)?;
            ChangeEffect::Put { table, key: key.to_vec(), record: Record::from_bytes(record.to_vec()) }
        }
        DELETE | EXPIRE => {
            let length = u16::from_be_bytes(take(rest)?);
            let key = take_bytes(rest, usize::from(length))?.to_vec();
            ChangeEffect::Delete { table, key, is_expired: kind == EXPIRE }
        }
        CREATE_TABLE => ChangeEffect::CreateTable { table, created: take_time(rest)? },
        DELETE_TABLE => ChangeEffect::DeleteTable { table },
        SET_TABLE => {
            let policies = snapshot::decode_policies(take_value(rest)?)?;
            let settings = snapshot::decode_settings(take_value(rest)?)?;
            ChangeEffect::SetTable { table, policies, settings }
        }
        _ => return None,
    })
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, following) = rest.split_first_chunk()?;
    *rest = following;
    Some(*bytes)
}

pub(super) fn take_time(rest: &mut &[u8]) -> Option<DateTime> {
    DateTime::from_ticks(i64::from_be_bytes(take(rest)?))
}

fn take_bytes<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, following) = rest.split_at_checked(length)?;
    *rest = following;
    Some(bytes)
}

fn take_name<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let [length] = take(rest)?;
    std::str::from_utf8(take_bytes(rest, usize::from(length))?).ok()
}

fn take_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(take(rest)?);
    take_bytes(rest, usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EdmValue, EntityKey, RecordBuilder, ServiceProperties, StoredAccessPolicies, TableSettings};

    fn transactions() -> Vec<ChangedTransaction> {
        let (account, name) = (AccountName::new("acct").unwrap(), TableName::new("Cars").unwrap());
        let table = Arc::new(TableKey { account: account.clone(), name });
        let (key, time) = (EntityKey::new("p", "r").unwrap().encode(), DateTime::from_ticks(7).unwrap());
        let mut record = RecordBuilder::default();
        record.push("A", EdmValue::Int32(5));
        let record = record.finish(time);
        let effects = [
            vec![ChangeEffect::CreateTable { table: Arc::clone(&table), created: time }],
            vec![
                ChangeEffect::Put { table: Arc::clone(&table), key: key.clone(), record },
                ChangeEffect::Delete { table: Arc::clone(&table), key: key.clone(), is_expired: false },
            ],
            vec![ChangeEffect::Delete { table: Arc::clone(&table), key, is_expired: true }],
            vec![ChangeEffect::SetTable {
                table: Arc::clone(&table),
                policies: StoredAccessPolicies::default(),
                settings: TableSettings::default(),
            }],
            vec![ChangeEffect::SetProperties { account, properties: Box::new(ServiceProperties::default()) }],
            vec![ChangeEffect::DeleteTable { table }],
        ];
        let transaction = |(position, effects): (u64, Vec<ChangeEffect>)| {
            let changes = (0..).zip(effects).map(|(index, effect)| Change { index, effect }).collect();
            ChangedTransaction { position, time, changes }
        };
        (4711..).zip(effects).map(transaction).collect()
    }

    fn read(bytes: &[u8]) -> anyhow::Result<Vec<ChangedTransaction>> {
        let mut found = Vec::new();
        each_transaction(bytes, |transaction| {
            found.push(transaction);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn the_format_of_transactions_is_pinned() {
        let mut bytes = Vec::new();
        for transaction in transactions() {
            push_transaction(&mut bytes, &transaction).unwrap();
        }
        assert_eq!(read(&bytes).unwrap(), transactions());
        let (head, cars) = (b"\0\0\0\0\0\0\0\x07\0\0\0".as_slice(), b"\x04acct\x04Cars".as_slice());
        let expected: Vec<&[u8]> = vec![
            b"\0\0\0\0\0\0\x12g",
            head,
            b"\x01\0\0\0\0\x04",
            cars,
            b"\0\0\0\0\0\0\0\x07",
            b"\0\0\0\0\0\0\x12h",
            head,
            b"\x02\0\0\0\0\x01",
            cars,
            b"\0\x03p\0r\0\0\0\x11\x01\0\0\0\0\0\0\0\x07\x01\x01A\x07\0\0\0\x05",
            b"\0\0\0\x01\x02",
            cars,
            b"\0\x03p\0r",
            b"\0\0\0\0\0\0\x12i",
            head,
            b"\x01\0\0\0\0\x03",
            cars,
            b"\0\x03p\0r",
            b"\0\0\0\0\0\0\x12j",
            head,
            b"\x01\0\0\0\0\x06",
            cars,
            b"\0\0\0\x01\0\0\0\0\0",
            b"\0\0\0\0\0\0\x12k",
            head,
            b"\x01\0\0\0\0\x07",
            b"\x04acct",
            b"\0\0\0\x0c\x01\x01\0\0\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\x12l",
            head,
            b"\x01\0\0\0\0\x05",
            cars,
        ];
        assert_eq!(bytes.escape_ascii().to_string(), expected.concat().escape_ascii().to_string());
    }

    #[test]
    fn damaged_transactions_are_refused_without_a_panic() {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for transaction in transactions() {
            push_transaction(&mut bytes, &transaction).unwrap();
            ends.push(bytes.len());
        }
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]).is_ok(), ends.contains(&length), "cut to {length}");
            for value in [0, 1, 0x7F, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[length] = value;
                let _ = read(&damaged);
            }
        }
        let mut reversed = Vec::new();
        for transaction in transactions().iter().rev() {
            push_transaction(&mut reversed, transaction).unwrap();
        }
        assert!(read(&reversed).unwrap_err().to_string().contains("out of order"));
        let mut transaction = transactions().remove(1);
        transaction.time = DateTime::MIN;
        let mut early = Vec::new();
        push_transaction(&mut early, &transaction).unwrap();
        assert!(read(&early).unwrap_err().to_string().contains("later Timestamp"));
    }
}
