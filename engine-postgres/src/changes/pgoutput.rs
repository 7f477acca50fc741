//! The messages of logical decoding, in the format of PostgreSQL's output plugin `pgoutput` (protocol version 1 with
//! binary values; "Logical Replication Message Formats" in PostgreSQL's documentation).
//!
//! Invariant: any bytes can be parsed. A malformed message has no value; it never causes a panic.
//!
//! This module must not depend on the tables of the engine.

/// A message within the stream of committed transactions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'m> {
    /// A transaction begins. The position of its commit record, and the time of the commit in microseconds since 2000.
    Begin {
        commit: u64,
        time: i64,
    },
    /// The transaction ends. The position after its commit record.
    Commit {
        end: u64,
    },
    /// The columns of a table. Precedes the first change of the table.
    Relation {
        id: u32,
        schema: &'m str,
        name: &'m str,
        columns: Vec<&'m str>,
    },
    Insert {
        relation: u32,
        new: Row<'m>,
    },
    /// The previous row is present if the replica identity of the table requires it.
    Update {
        relation: u32,
        old: Option<Row<'m>>,
        new: Row<'m>,
    },
    /// The previous row contains at least the key.
    Delete {
        relation: u32,
        old: Row<'m>,
    },
    /// A message that a session emitted within its transaction.
    Emitted {
        prefix: &'m str,
    },
    /// A message that does not matter here.
    Other,
}

/// The values of a row, in the order of the columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Row<'m>(pub(crate) Vec<Value<'m>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'m> {
    Null,
    /// A large value that the update did not change, and that is therefore not in the message.
    Unchanged,
    Bytes(&'m [u8]),
}

impl<'m> Row<'m> {
    pub(crate) fn get(&self, column: usize) -> Option<Value<'m>> {
        self.0.get(column).copied()
    }

    pub(crate) fn bytes(&self, column: usize) -> Option<&'m [u8]> {
        match self.get(column)? {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Unchanged => None,
        }
    }
}

impl<'m> Message<'m> {
    /// Returns `None` if the message is malformed.
    pub(crate) fn parse(bytes: &'m [u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let message = match rest.byte()? {
            b'B' => {
                let (commit, time, _transaction) = (rest.u64()?, rest.i64()?, rest.u32()?);
                Self::Begin { commit, time }
            }
            b'C' => {
                let (_flags, _commit, end, _time) = (rest.byte()?, rest.u64()?, rest.u64()?, rest.u64()?);
                Self::Commit { end }
            }
            b'R' => {
                let (id, schema, name) = (rest.u32()?, rest.text()?, rest.text()?);
                let (_identity, count) = (rest.byte()?, rest.u16()?);
                let mut columns = Vec::new();
                for _ in 0..count {
                    let _flags = rest.byte()?;
                    columns.push(rest.text()?);
                    let (_type, _modifier) = (rest.u32()?, rest.u32()?);
                }
                Self::Relation { id, schema, name, columns }
            }
            b'I' => {
                let relation = rest.u32()?;
                (rest.byte()? == b'N').then_some(())?;
                Self::Insert { relation, new: rest.row()? }
            }
            b'U' => {
                let relation = rest.u32()?;
                let (mut kind, mut old) = (rest.byte()?, None);
                if matches!(kind, b'K' | b'O') {
                    old = Some(rest.row()?);
                    kind = rest.byte()?;
                }
                (kind == b'N').then_some(())?;
                Self::Update { relation, old, new: rest.row()? }
            }
            b'D' => {
                let relation = rest.u32()?;
                matches!(rest.byte()?, b'K' | b'O').then_some(())?;
                Self::Delete { relation, old: rest.row()? }
            }
            b'M' => {
                let (flags, _position, prefix) = (rest.byte()?, rest.u64()?, rest.text()?);
                let length = rest.length()?;
                rest.take(length)?;
                if flags & 1 == 1 { Self::Emitted { prefix } } else { Self::Other }
            }
            // Origins, types and truncations.
            b'O' | b'Y' | b'T' => return Some(Self::Other),
            _ => return None,
        };
        rest.0.is_empty().then_some(message)
    }
}

/// Reads numbers in network byte order.
pub(crate) struct Reader<'m>(pub(crate) &'m [u8]);

impl<'m> Reader<'m> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    /// Reads a string that ends with a zero.
    fn text(&mut self) -> Option<&'m str> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.take(length)?;
        self.byte()?;
        std::str::from_utf8(text).ok()
    }

    fn row(&mut self) -> Option<Row<'m>> {
        let mut values = Vec::new();
        for _ in 0..self.u16()? {
            values.push(match self.byte()? {
                b'n' => Value::Null,
                b'u' => Value::Unchanged,
                b'b' => {
                    let length = self.length()?;
                    Value::Bytes(self.take(length)?)
                }
                // Values in text format were not requested.
                _ => return None,
            });
        }
        Some(Row(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages as PostgreSQL 15 sends them.
    fn messages() -> Vec<(Vec<u8>, Message<'static>)> {
        let bytes = |parts: &[&[u8]]| parts.concat();
        vec![
            (
                bytes(&[b"B", &[0, 0, 0, 0, 1, 2, 3, 4], &[0, 2, 0xE1, 0xB6, 0, 0, 0, 9], &[0, 0, 2, 0xDF]]),
                Message::Begin { commit: 0x0102_0304, time: 0x0002_E1B6_0000_0009 },
            ),
            (
                bytes(&[b"C\0", &[0, 0, 0, 0, 1, 2, 3, 4], &[0, 0, 0, 0, 1, 2, 3, 0x38], &[0; 8]]),
                Message::Commit { end: 0x0102_0338 },
            ),
            (
                bytes(&[
                    b"R\0\0\x40\x0Cpublic\0rowhouse_entities\0d\0\x02",
                    b"\x01partition\0\0\0\0\x11\xFF\xFF\xFF\xFF",
                    b"\0record\0\0\0\0\x11\xFF\xFF\xFF\xFF",
                ]),
                Message::Relation {
                    id: 0x400C,
                    schema: "public",
                    name: "rowhouse_entities",
                    columns: vec!["partition", "record"],
                },
            ),
            (
                b"I\0\0\x40\x0CN\0\x02b\0\0\0\x03\0\x01\xFFn".to_vec(),
                Message::Insert { relation: 0x400C, new: Row(vec![Value::Bytes(b"\0\x01\xFF"), Value::Null]) },
            ),
            (
                b"U\0\0\x40\x0CN\0\x02b\0\0\0\0u".to_vec(),
                Message::Update { relation: 0x400C, old: None, new: Row(vec![Value::Bytes(b""), Value::Unchanged]) },
            ),
            (
                b"U\0\0\x40\x0CK\0\x02b\0\0\0\x01anN\0\x02ub\0\0\0\x01c".to_vec(),
                Message::Update {
                    relation: 0x400C,
                    old: Some(Row(vec![Value::Bytes(b"a"), Value::Null])),
                    new: Row(vec![Value::Unchanged, Value::Bytes(b"c")]),
                },
            ),
            (
                b"D\0\0\x40\x0CK\0\x02b\0\0\0\x01an".to_vec(),
                Message::Delete { relation: 0x400C, old: Row(vec![Value::Bytes(b"a"), Value::Null]) },
            ),
            (
                bytes(&[b"M\x01", &[0, 0, 0, 0, 1, 2, 3, 4], b"rowhouse\0\0\0\0\x07expired"]),
                Message::Emitted { prefix: "rowhouse" },
            ),
            (bytes(&[b"M\0", &[0, 0, 0, 0, 1, 2, 3, 4], b"rowhouse\0\0\0\0\0"]), Message::Other),
        ]
    }

    #[test]
    fn messages_are_parsed() {
        for (bytes, message) in messages() {
            assert_eq!(Message::parse(&bytes), Some(message));
        }
        assert_eq!(Message::parse(b"Y\0\0\0\0"), Some(Message::Other));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (bytes, message) in messages() {
            for length in 0..bytes.len() {
                assert_eq!(Message::parse(&bytes[..length]), None, "{message:?} cut to {length} bytes");
            }
            assert_eq!(Message::parse(&[bytes.as_slice(), b"\0"].concat()), None, "{message:?} with a byte appended");
            // Whatever a damaged message is parsed as, nothing panics and nothing large is allocated.
            for at in 0..bytes.len() {
                for damaged in [0, 1, 0x7F, 0x80, 0xFF, bytes[at] ^ 0x20] {
                    let mut bytes = bytes.clone();
                    bytes[at] = damaged;
                    let _any = Message::parse(&bytes);
                }
            }
        }
    }
}
