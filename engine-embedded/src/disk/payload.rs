//! The payload of a transaction in the log: what it does to the keys of the tree.
//!
//! A payload is a sequence of operations: the kind (1 byte), the length of the key (2), the length of the value (4),
//! the key, the value. Numbers are big-endian. The Timestamp of the records in it is not the final one: it is in the
//! header of the log's record, so that callers can encode and hash the payload before it is known.
//!
//! The bytes come from disk, so decoding can fail, but never panics.

use crate::log::group::EncodedTransaction;
use crate::tree::{Key, Value};
use byteview::ByteView;
use model::{DateTime, record};

/// The source of a transaction. A reader of the log can therefore skip what no client did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Client = 1,
    /// A change to a table or to service properties.
    Catalog = 2,
    /// The removal of a deleted table's entities, or of a removed index's entries.
    Purge = 3,
    /// The entries that a new index gets for existing entities.
    Index = 4,
    /// The deletion of expired entities.
    Expiry = 5,
}

impl TryFrom<u8> for Origin {
    type Error = ();

    fn try_from(code: u8) -> Result<Self, ()> {
        let origins = [Self::Client, Self::Catalog, Self::Purge, Self::Index, Self::Expiry];
        origins.into_iter().find(|origin| origin.code() == code).ok_or(())
    }
}

impl Origin {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

const DELETE: u8 = 0;
const PUT: u8 = 1;
/// Like `PUT`, but the value is a record, which gets the transaction's Timestamp.
const PUT_RECORD: u8 = 2;

const HEADER_BYTES: usize = 7;

/// Operations in the form in which the log gets them, and in the form in which the tree does.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    payload: Vec<u8>,
    items: Vec<(Key, Option<Value>)>,
}

/// A transaction with a place in the serial order, ready to be written and applied.
#[derive(Debug)]
pub(crate) struct LoggedTransaction {
    pub(crate) encoded: EncodedTransaction,
    pub(crate) origin: Origin,
    pub(crate) stamp: Option<DateTime>,
    pub(crate) items: Vec<(Key, Option<Value>)>,
}

impl Operations {
    pub(crate) fn put(&mut self, key: impl Into<Key>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        push(&mut self.payload, PUT, &key, &value);
        self.items.push((key, Some(value)));
    }

    pub(crate) fn delete(&mut self, key: impl Into<Key>) {
        let key = key.into();
        push(&mut self.payload, DELETE, &key, &[]);
        self.items.push((key, None));
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn into_transaction(self, origin: Origin) -> LoggedTransaction {
        let Self { payload, items } = self;
        LoggedTransaction { encoded: encoded(payload), origin, stamp: None, items }
    }
}

pub(crate) fn encoded(payload: Vec<u8>) -> EncodedTransaction {
    EncodedTransaction::new(payload).expect("what a transaction stores is bounded")
}

/// Encodes a change to an entity. The record's Timestamp may be earlier than the final one.
pub(crate) fn push_entity(payload: &mut Vec<u8>, key: &[u8], record: Option<&[u8]>) {
    match record {
        Some(record) => push(payload, PUT_RECORD, key, record),
        None => push(payload, DELETE, key, &[]),
    }
}

/// Encodes a change to an index: an entry is added or removed.
pub(crate) fn push_entry(payload: &mut Vec<u8>, key: &[u8], is_added: bool) {
    push(payload, if is_added { PUT } else { DELETE }, key, &[]);
}

/// Returns the length of an operation in a payload, in bytes.
pub(crate) fn operation_bytes(key: &[u8], value_bytes: usize) -> usize {
    HEADER_BYTES + key.len() + value_bytes
}

fn push(payload: &mut Vec<u8>, kind: u8, key: &[u8], value: &[u8]) {
    let key_bytes = u16::try_from(key.len()).expect("keys are limited to a few kilobytes");
    let value_bytes = u32::try_from(value.len()).expect("values are limited to a few megabytes");
    payload.reserve(HEADER_BYTES + key.len() + value.len());
    payload.push(kind);
    payload.extend_from_slice(&key_bytes.to_be_bytes());
    payload.extend_from_slice(&value_bytes.to_be_bytes());
    payload.extend_from_slice(key);
    payload.extend_from_slice(value);
}

/// An operation of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation<'p> {
    Delete { key: &'p [u8] },
    Put { key: &'p [u8], value: &'p [u8] },
    PutRecord { key: &'p [u8], record: &'p [u8] },
}

/// Reads the first operation, and advances past it. Returns `None` if it is damaged.
pub(crate) fn take_operation<'p>(payload: &mut &'p [u8]) -> Option<Operation<'p>> {
    let (kind, rest) = payload.split_first()?;
    let (key_bytes, rest) = rest.split_first_chunk()?;
    let (value_bytes, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*key_bytes).into())?;
    let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*value_bytes)).ok()?)?;
    *payload = rest;
    match *kind {
        DELETE if value.is_empty() => Some(Operation::Delete { key }),
        PUT => Some(Operation::Put { key, value }),
        PUT_RECORD => Some(Operation::PutRecord { key, record: value }),
        _ => None,
    }
}

/// Decodes a payload into the items of the tree, with the final Timestamp in each record. Returns `None` if the payload
/// is damaged.
pub(crate) fn items(mut payload: &[u8], stamp: Option<DateTime>) -> Option<Vec<(Key, Option<Value>)>> {
    let mut items = Vec::new();
    while !payload.is_empty() {
        items.push(match take_operation(&mut payload)? {
            Operation::Delete { key } => (Key::from(key), None),
            Operation::Put { key, value } => (Key::from(key), Some(Value::from(value))),
            Operation::PutRecord { key, record } => (Key::from(key), Some(stamped(record, stamp?)?)),
        });
    }
    Some(items)
}

fn stamped(record: &[u8], stamp: DateTime) -> Option<Value> {
    let mut value = ByteView::from(record);
    let mut bytes = value.get_mut()?;
    record::stamp(&mut bytes, stamp).ok()?;
    drop(bytes);
    Some(Value::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{EdmValue, RecordBuilder};

    fn record(ticks: i64) -> Vec<u8> {
        let mut builder = RecordBuilder::default();
        builder.push("v", EdmValue::Int32(1));
        builder.finish(DateTime::from_ticks(ticks).unwrap()).as_bytes().to_vec()
    }

    #[test]
    fn the_payload_is_pinned() {
        let mut operations = Operations::default();
        operations.put(b"k1".as_slice(), b"value".as_slice());
        operations.delete(b"k2".as_slice());
        assert_eq!(operations.payload, b"\x01\0\x02\0\0\0\x05k1value\0\0\x02\0\0\0\0k2");
        let mut payload = Vec::new();
        push_entity(&mut payload, b"e", Some(b"record"));
        push_entity(&mut payload, b"f", None);
        assert_eq!(payload, b"\x02\0\x01\0\0\0\x06erecord\0\0\x01\0\0\0\0f");
    }

    #[test]
    fn what_is_decoded_is_what_was_applied() {
        let mut operations = Operations::default();
        operations.put(b"k1".as_slice(), b"value".as_slice());
        operations.delete(b"k2".as_slice());
        assert_eq!(items(&operations.payload, None), Some(operations.items));
        let mut payload = Vec::new();
        push_entity(&mut payload, b"e", Some(&record(5)));
        let stamp = DateTime::from_ticks(70);
        assert_eq!(items(&payload, stamp), Some(vec![(Key::from(b"e"), Some(Value::from(record(70))))]));
        assert_eq!(items(&payload, None), None, "a record needs a Timestamp");
    }

    #[test]
    fn damaged_payloads_are_refused() {
        let mut payload = Vec::new();
        push_entity(&mut payload, b"key", Some(&record(5)));
        let stamp = DateTime::from_ticks(70);
        for length in 1..payload.len() {
            assert_eq!(items(&payload[..length], stamp), None, "cut to {length}");
        }
        for (index, byte) in [(0, 3), (0, 0), (1, 1), (3, 1)] {
            let mut damaged = payload.clone();
            damaged[index] = byte;
            assert_eq!(items(&damaged, stamp), None, "byte {index}");
        }
    }
}
