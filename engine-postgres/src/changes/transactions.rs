//! Composes the transactions of the change log from the messages of logical decoding.
//!
//! Invariants:
//!
//! 1. A transaction has changes of one table, or of the service properties of one account, because no server commits
//!    anything else. If another program does, its transaction becomes several, one for each table.
//! 2. Only entities of tables that exist have changes. The deletions with which the entities of a deleted table are
//!    removed are therefore left out, and so is a commit that found the table before it was deleted, but ended later:
//!    no client ever saw its effect.

use crate::changes::pgoutput::{Message, Row, Value};
use crate::changes::stored::StoredChange;
use crate::layout::key_bytes;
use model::{DateTime, RecordView};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The prefix of the message that marks the transactions that delete expired entities.
pub(crate) const EXPIRED: &str = "rowhouse-expired";
/// 2000-01-01, the epoch of PostgreSQL, in ticks of 100 ns.
const EPOCH_TICKS: i64 = 125_911_584_000_000_000;

/// The account and the table that a transaction changes. Without a table, it changes service properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) account: String,
    /// The name of the table, as spelled at its creation.
    pub(crate) table: Option<String>,
}

/// A committed transaction that has changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) scope: Arc<Scope>,
    /// The latest Timestamp of the stored entities, or the time of the commit.
    pub(crate) time: DateTime,
    pub(crate) changes: Vec<u8>,
}

/// A change of the set of tables.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TableChange {
    Created(Arc<Scope>),
    Deleted,
}

/// What the log has to store after a transaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) transactions: Vec<Committed>,
    pub(crate) tables: BTreeMap<i64, TableChange>,
    /// The size of the changes.
    pub(crate) bytes: usize,
    /// The position after the last transaction in the database's own log.
    pub(crate) end: u64,
}

/// An error: a message cannot be what a server's transaction caused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// The columns of a table that is published, by their index.
enum Relation {
    Entities { partition: usize, row: usize, record: usize },
    Tables { id: usize, account: usize, name: usize, policies: usize, is_deleted: usize, settings: usize },
    Properties { account: usize, value: usize },
    Other,
}

impl Relation {
    fn new(name: &str, columns: &[&str]) -> Result<Self, Damaged> {
        let at = |column: &str| columns.iter().position(|known| *known == column).ok_or(Damaged);
        Ok(match name {
            "rowhouse_entities" => {
                Self::Entities { partition: at("partition")?, row: at("row")?, record: at("record")? }
            }
            "rowhouse_tables" => Self::Tables {
                id: at("id")?,
                account: at("account")?,
                name: at("name")?,
                policies: at("policies")?,
                is_deleted: at("is_deleted")?,
                settings: at("settings")?,
            },
            "rowhouse_service_properties" => Self::Properties { account: at("account")?, value: at("value")? },
            _ => Self::Other,
        })
    }
}

struct OpenTransaction {
    time: DateTime,
    /// The latest Timestamp of the stored entities.
    stamp: Option<DateTime>,
    is_expiry: bool,
    changes: Vec<(Arc<Scope>, StoredChange)>,
    tables: Vec<(i64, TableChange)>,
}

/// The tables that exist, and the transaction that is being received.
pub(crate) struct Assembler {
    relations: HashMap<u32, Relation>,
    tables: HashMap<i64, Arc<Scope>>,
    /// Transactions that committed before this position are already in the log.
    applied: u64,
    open: Option<OpenTransaction>,
    decoded: Decoded,
}

impl Assembler {
    /// `tables` are the tables that existed after the transactions before the position `applied`.
    pub(crate) fn new(tables: HashMap<i64, Arc<Scope>>, applied: u64) -> Self {
        Self { relations: HashMap::new(), tables, applied, open: None, decoded: Decoded::default() }
    }

    /// Returns what was decoded since the last call.
    pub(crate) fn take(&mut self) -> Decoded {
        let decoded = std::mem::take(&mut self.decoded);
        self.decoded.end = decoded.end;
        decoded
    }

    pub(crate) fn decoded(&self) -> &Decoded {
        &self.decoded
    }

    pub(crate) fn is_within_transaction(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn apply(&mut self, message: &Message<'_>) -> Result<(), Damaged> {
        match message {
            Message::Begin { commit, time } => {
                let ticks = time.checked_mul(10).and_then(|ticks| ticks.checked_add(EPOCH_TICKS));
                let time = ticks.and_then(DateTime::from_ticks).ok_or(Damaged)?;
                self.open = (*commit >= self.applied).then(|| OpenTransaction {
                    time,
                    stamp: None,
                    is_expiry: false,
                    changes: Vec::new(),
                    tables: Vec::new(),
                });
            }
            Message::Commit { end } => {
                if let Some(open) = self.open.take() {
                    self.end(open);
                    self.decoded.end = *end;
                }
            }
            Message::Relation { id, name, columns, .. } => {
                self.relations.insert(*id, Relation::new(name, columns)?);
            }
            Message::Emitted { prefix } => {
                if let Some(open) = self.open.as_mut().filter(|_| *prefix == EXPIRED) {
                    open.is_expiry = true;
                }
            }
            Message::Insert { relation, new } => self.change(*relation, true, None, Some(new))?,
            Message::Update { relation, old, new } => self.change(*relation, false, old.as_ref(), Some(new))?,
            Message::Delete { relation, old } => self.change(*relation, false, Some(old), None)?,
            Message::Other => {}
        }
        Ok(())
    }

    fn change(
        &mut self,
        relation: u32,
        is_new: bool,
        old: Option<&Row<'_>>,
        new: Option<&Row<'_>>,
    ) -> Result<(), Damaged> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        // An update does not repeat large values that it did not change. The key is then in the previous row.
        let key = |column| {
            let value = new.and_then(|row| row.bytes(column)).or_else(|| old.and_then(|row| row.bytes(column)));
            value.ok_or(Damaged)
        };
        let is_true = |row: Option<&Row<'_>>, column| row.and_then(|row| row.bytes(column)) == Some(&[1]);
        match self.relations.get(&relation).ok_or(Damaged)? {
            Relation::Entities { partition, row, record } => {
                let (partition, row) = (key(*partition)?, key(*row)?);
                let id = partition.first_chunk().copied().map(i64::from_be_bytes).ok_or(Damaged)?;
                let Some(scope) = self.tables.get(&id).cloned() else { return Ok(()) };
                let mut key = Vec::new();
                key_bytes(partition, row, &mut key);
                let change = match new.map(|new| new.get(*record)) {
                    None => StoredChange::Delete { key, is_expired: false },
                    Some(Some(Value::Bytes(record))) => {
                        // The reader reports a damaged record.
                        open.stamp = open.stamp.max(RecordView::new(record).ok().map(|record| record.timestamp()));
                        StoredChange::Put { key, record: record.to_vec() }
                    }
                    Some(Some(Value::Unchanged)) => return Ok(()),
                    Some(Some(Value::Null) | None) => return Err(Damaged),
                };
                open.changes.push((scope, change));
            }
            Relation::Tables { id, account, name, policies, is_deleted, settings } => {
                let text = |column| std::str::from_utf8(key(column)?).map(str::to_owned).map_err(|_| Damaged);
                let number = i64::from_be_bytes(key(*id)?.try_into().map_err(|_| Damaged)?);
                // The row of a deleted table is removed after its last entity.
                if new.is_none() {
                    return Ok(());
                }
                let (was_deleted, is_deleted) = (is_true(old, *is_deleted), is_true(new, *is_deleted));
                let value = |row: &Row<'_>, column| row.bytes(column).map(<[u8]>::to_vec);
                let (scope, change) = if is_new {
                    let scope = Arc::new(Scope { account: text(*account)?, table: Some(text(*name)?) });
                    self.tables.insert(number, Arc::clone(&scope));
                    open.tables.push((number, TableChange::Created(Arc::clone(&scope))));
                    (scope, StoredChange::CreateTable)
                } else if is_deleted && !was_deleted {
                    let Some(scope) = self.tables.remove(&number) else { return Ok(()) };
                    open.tables.push((number, TableChange::Deleted));
                    (scope, StoredChange::DeleteTable)
                } else {
                    let changed = [*policies, *settings].into_iter().any(|column| {
                        let after = new.and_then(|row| row.get(column));
                        after != Some(Value::Unchanged) && after != old.and_then(|row| row.get(column))
                    });
                    let Some(scope) = self.tables.get(&number).cloned().filter(|_| changed) else { return Ok(()) };
                    // The replica identity of this table is the whole row.
                    let either = |column| {
                        new.and_then(|row| value(row, column))
                            .or_else(|| old.and_then(|row| value(row, column)))
                            .ok_or(Damaged)
                    };
                    (scope, StoredChange::SetTable { policies: either(*policies)?, settings: either(*settings)? })
                };
                open.changes.push((scope, change));
            }
            Relation::Properties { account, value } => {
                let account = std::str::from_utf8(key(*account)?).map_err(|_| Damaged)?;
                let Some(value) = new.and_then(|row| row.bytes(*value)) else { return Ok(()) };
                let scope = Scope { account: account.to_owned(), table: None };
                // The first update of an account inserts the default properties.
                open.changes.retain(|(other, _)| **other != scope);
                open.changes.push((Arc::new(scope), StoredChange::SetProperties { value: value.to_vec() }));
            }
            Relation::Other => {}
        }
        Ok(())
    }

    fn end(&mut self, open: OpenTransaction) {
        let time = open.stamp.unwrap_or(open.time);
        let began = self.decoded.transactions.len();
        self.decoded.tables.extend(open.tables);
        for (scope, mut change) in open.changes {
            if let StoredChange::Delete { is_expired, .. } = &mut change {
                *is_expired = open.is_expiry;
            }
            let mut encoded = Vec::new();
            change.encode_to(&mut encoded);
            self.decoded.bytes += encoded.len();
            let mut own = self.decoded.transactions.iter_mut().skip(began);
            match own.find(|transaction| transaction.scope == scope) {
                Some(transaction) => transaction.changes.append(&mut encoded),
                None => self.decoded.transactions.push(Committed { scope, time, changes: encoded }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::stored::{Subject, decode};
    use engine::{ChangeEffect, TableKey};
    use model::{AccountName, RecordBuilder, TableName};

    const ENTITIES: u32 = 1;
    const TABLES: u32 = 2;

    fn assembler(applied: u64) -> Assembler {
        let mut assembler = Assembler::new(HashMap::new(), applied);
        for (id, name, columns) in [
            (ENTITIES, "rowhouse_entities", vec!["partition", "row", "record"]),
            (TABLES, "rowhouse_tables", vec!["id", "account", "name", "policies", "is_deleted", "settings"]),
            (3, "other", vec!["x"]),
        ] {
            assembler.apply(&Message::Relation { id, schema: "public", name, columns }).unwrap();
        }
        assembler
    }

    fn row<'m>(values: &[&'m [u8]]) -> Row<'m> {
        Row(values.iter().map(|value| Value::Bytes(value)).collect())
    }

    fn table<'m>(policies: &'m [u8], is_deleted: &'m [u8]) -> Row<'m> {
        row(&[&[0, 0, 0, 0, 0, 0, 0, 7], b"account1", b"Tab", policies, is_deleted, b""])
    }

    /// A partition of the table 7.
    const PARTITION: &[u8] = b"\0\0\0\0\0\0\0\x07p";

    fn transaction(assembler: &mut Assembler, commit: u64, messages: Vec<Message<'_>>) {
        assembler.apply(&Message::Begin { commit, time: 5 }).unwrap();
        for message in messages {
            assembler.apply(&message).unwrap();
        }
        assembler.apply(&Message::Commit { end: commit + 8 }).unwrap();
    }

    fn effects(decoded: &Decoded) -> Vec<Vec<ChangeEffect>> {
        let of = TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Tab").unwrap() };
        let subject = Subject::Table(Arc::new(of));
        let decode = |one: &Committed| decode(&one.changes, &subject, one.time).unwrap();
        decoded.transactions.iter().map(decode).collect()
    }

    #[test]
    fn changes_of_a_table_last_until_it_is_deleted() {
        let mut assembler = assembler(0);
        let stamp = DateTime::parse("2026-01-02T03:04:05Z").unwrap();
        let record = RecordBuilder::default().finish(stamp);
        let put = || Message::Insert { relation: ENTITIES, new: row(&[PARTITION, b"r", record.as_bytes()]) };
        let delete = |identity| Message::Delete { relation: ENTITIES, old: row(identity) };
        let key: &[&[u8]] = &[PARTITION, b"r"];
        // The table is unknown.
        transaction(&mut assembler, 10, vec![put()]);
        transaction(&mut assembler, 20, vec![Message::Insert { relation: TABLES, new: table(b"", &[0]) }]);
        // A large key that did not change is in the previous row only.
        let new = Row(vec![Value::Unchanged, Value::Unchanged, Value::Bytes(record.as_bytes())]);
        transaction(&mut assembler, 30, vec![Message::Update { relation: ENTITIES, old: Some(row(key)), new }]);
        transaction(&mut assembler, 40, vec![delete(key), Message::Emitted { prefix: EXPIRED }]);
        transaction(&mut assembler, 50, vec![delete(key), Message::Emitted { prefix: "other" }]);
        let update = |old, new| Message::Update { relation: TABLES, old: Some(old), new };
        // Only the number of changes of the settings differs.
        transaction(&mut assembler, 60, vec![update(table(b"", &[0]), table(b"", &[0]))]);
        transaction(&mut assembler, 70, vec![update(table(b"", &[0]), table(b"", &[1]))]);
        transaction(&mut assembler, 80, vec![delete(key), put()]);
        transaction(&mut assembler, 90, vec![Message::Delete { relation: TABLES, old: table(b"", &[1]) }]);
        let decoded = assembler.take();
        assert_eq!((decoded.end, &decoded.tables), (98, &BTreeMap::from([(7, TableChange::Deleted)])));
        let effects = effects(&decoded);
        assert_eq!(effects.len(), 5);
        assert!(matches!(effects[0][..], [ChangeEffect::CreateTable { .. }]));
        assert!(matches!(&effects[1][..], [ChangeEffect::Put { record: put, key, .. }]
            if *put == record && key == b"p\0r"));
        assert!(matches!(effects[2][..], [ChangeEffect::Delete { is_expired: true, .. }]));
        assert!(matches!(effects[3][..], [ChangeEffect::Delete { is_expired: false, .. }]));
        assert!(matches!(effects[4][..], [ChangeEffect::DeleteTable { .. }]));
        let times: Vec<_> = decoded.transactions.iter().map(|transaction| transaction.time).collect();
        let commit = DateTime::from_ticks(EPOCH_TICKS + 50).unwrap();
        assert_eq!(DateTime::parse("2000-01-01T00:00:00.000005Z").unwrap(), commit);
        assert_eq!(times, [commit, stamp, commit, commit, commit]);
        assert_eq!(assembler.take(), Decoded { end: 98, ..Decoded::default() });
    }

    #[test]
    fn a_transaction_is_taken_when_it_is_complete() {
        let mut assembler = assembler(0);
        assembler.apply(&Message::Begin { commit: 10, time: 5 }).unwrap();
        assembler.apply(&Message::Insert { relation: TABLES, new: table(b"", &[0]) }).unwrap();
        assert_eq!((assembler.take(), assembler.is_within_transaction()), (Decoded::default(), true));
        assembler.apply(&Message::Commit { end: 18 }).unwrap();
        let decoded = assembler.take();
        assert_eq!((decoded.transactions.len(), decoded.tables.len(), decoded.end), (1, 1, 18));
    }

    #[test]
    fn what_is_in_the_log_is_not_repeated() {
        let mut assembler = assembler(20);
        let create = || Message::Insert { relation: TABLES, new: table(b"", &[0]) };
        transaction(&mut assembler, 10, vec![create()]);
        assert_eq!(assembler.take(), Decoded::default());
        transaction(&mut assembler, 20, vec![create()]);
        assert_eq!(effects(&assembler.take()).len(), 1);
    }

    #[test]
    fn unexpected_messages_are_refused() {
        let mut assembler = assembler(0);
        let columns = vec!["partition", "row"];
        let relation = Message::Relation { id: 9, schema: "public", name: "rowhouse_entities", columns };
        assert_eq!(assembler.apply(&relation), Err(Damaged));
        assembler.apply(&Message::Begin { commit: 1, time: 5 }).unwrap();
        for message in [
            Message::Insert { relation: 9, new: row(&[]) },
            Message::Insert { relation: ENTITIES, new: row(&[]) },
            Message::Insert { relation: ENTITIES, new: row(&[b"short", b"r", b""]) },
            Message::Insert { relation: TABLES, new: row(&[b"short"]) },
            Message::Insert { relation: TABLES, new: row(&[&[0; 8], b"account1", b"\xFF", b"", &[0], b""]) },
            Message::Begin { commit: 1, time: i64::MAX },
        ] {
            assert_eq!(assembler.apply(&message), Err(Damaged), "{message:?}");
        }
    }
}
