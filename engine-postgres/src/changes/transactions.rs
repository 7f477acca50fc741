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
pub struct Scope {
    /// The name of the account.
    pub account: String,
    /// The name of the table, as spelled at its creation.
    pub table: Option<String>,
}

/// A transaction as a node of the database sent it.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The position after the transaction in the node's log.
    pub end: u64,
    /// The time of the commit.
    pub time: DateTime,
    /// Whether the transaction deletes expired entities.
    pub is_expiry: bool,
    /// The changes in their order.
    pub changes: Vec<ReceivedChange>,
    /// The approximate size in memory.
    pub bytes: usize,
}

/// A change in a [`Received`] transaction. Tables are numbered.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceivedChange {
    /// Of an entity.
    Entity {
        /// The table.
        table: i64,
        /// The hash of the partition, by which the database distributes partitions.
        hash: i32,
        /// What happened to the entity.
        change: StoredChange,
    },
    /// A new table.
    CreateTable {
        /// The table.
        id: i64,
        /// Its account and its name.
        scope: Arc<Scope>,
    },
    /// A deleted table.
    DeleteTable {
        /// The table.
        id: i64,
    },
    /// Policies or settings of a table.
    SetTable {
        /// The table.
        id: i64,
        /// The encoded policies.
        policies: Vec<u8>,
        /// The encoded settings.
        settings: Vec<u8>,
    },
    /// Service properties.
    SetProperties {
        /// The account.
        scope: Arc<Scope>,
        /// The encoded properties.
        value: Vec<u8>,
    },
}

/// A committed transaction that has changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    /// What it changes.
    pub scope: Arc<Scope>,
    /// The latest Timestamp of the stored entities, or the time of the commit.
    pub time: DateTime,
    /// The changes as they are stored.
    pub changes: Vec<u8>,
}

/// A change of the set of tables.
#[derive(Debug, PartialEq, Eq)]
pub enum TableChange {
    /// A table was created.
    Created(Arc<Scope>),
    /// A table was deleted.
    Deleted,
}

/// What the log has to store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// The transactions in the order of the log.
    pub transactions: Vec<Committed>,
    /// The tables that were created and deleted.
    pub tables: BTreeMap<i64, TableChange>,
    /// The size of the changes.
    pub bytes: usize,
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

/// Assembles the transactions of one node from its messages.
pub(crate) struct Assembler {
    relations: HashMap<u32, Relation>,
    /// Transactions that committed before this position are already in the log.
    applied: u64,
    hash: fn(&[u8]) -> i32,
    open: Option<Received>,
}

impl Assembler {
    pub(crate) fn new(applied: u64, hash: fn(&[u8]) -> i32) -> Self {
        Self { relations: HashMap::new(), applied, hash, open: None }
    }

    pub(crate) fn is_within_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Returns a transaction when its last message is applied.
    pub(crate) fn apply(&mut self, message: &Message<'_>) -> Result<Option<Received>, Damaged> {
        match message {
            Message::Begin { commit, time } => {
                let ticks = time.checked_mul(10).and_then(|ticks| ticks.checked_add(EPOCH_TICKS));
                let time = ticks.and_then(DateTime::from_ticks).ok_or(Damaged)?;
                let open = Received { end: 0, time, is_expiry: false, changes: Vec::new(), bytes: 0 };
                self.open = (*commit >= self.applied).then_some(open);
            }
            Message::Commit { end } => {
                return Ok(self.open.take().map(|open| Received { end: *end, ..open }));
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
        Ok(None)
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
        let change = match self.relations.get(&relation).ok_or(Damaged)? {
            Relation::Entities { partition, row, record } => {
                let (partition, row) = (key(*partition)?, key(*row)?);
                let table = partition.first_chunk().copied().map(i64::from_be_bytes).ok_or(Damaged)?;
                let mut key = Vec::new();
                key_bytes(partition, row, &mut key);
                let change = match new.map(|new| new.get(*record)) {
                    None => StoredChange::Delete { key, is_expired: false },
                    Some(Some(Value::Bytes(record))) => StoredChange::Put { key, record: record.to_vec() },
                    Some(Some(Value::Unchanged)) => return Ok(()),
                    Some(Some(Value::Null) | None) => return Err(Damaged),
                };
                ReceivedChange::Entity { table, hash: (self.hash)(partition), change }
            }
            Relation::Tables { id, account, name, policies, is_deleted, settings } => {
                let text = |column| std::str::from_utf8(key(column)?).map(str::to_owned).map_err(|_| Damaged);
                let id = i64::from_be_bytes(key(*id)?.try_into().map_err(|_| Damaged)?);
                // The row of a deleted table is removed after its last entity.
                if new.is_none() {
                    return Ok(());
                }
                let (was_deleted, is_deleted) = (is_true(old, *is_deleted), is_true(new, *is_deleted));
                if is_new {
                    let scope = Arc::new(Scope { account: text(*account)?, table: Some(text(*name)?) });
                    ReceivedChange::CreateTable { id, scope }
                } else if is_deleted && !was_deleted {
                    ReceivedChange::DeleteTable { id }
                } else {
                    let changed = [*policies, *settings].into_iter().any(|column| {
                        let after = new.and_then(|row| row.get(column));
                        after != Some(Value::Unchanged) && after != old.and_then(|row| row.get(column))
                    });
                    if !changed {
                        return Ok(());
                    }
                    // The replica identity of this table is the whole row.
                    let value = |column| key(column).map(<[u8]>::to_vec);
                    ReceivedChange::SetTable { id, policies: value(*policies)?, settings: value(*settings)? }
                }
            }
            Relation::Properties { account, value } => {
                let account = std::str::from_utf8(key(*account)?).map_err(|_| Damaged)?;
                let Some(value) = new.and_then(|row| row.bytes(*value)) else { return Ok(()) };
                let scope = Arc::new(Scope { account: account.to_owned(), table: None });
                // The first update of an account inserts the default properties.
                open.changes.retain(
                    |change| !matches!(change, ReceivedChange::SetProperties { scope: other, .. } if *other == scope),
                );
                ReceivedChange::SetProperties { scope, value: value.to_vec() }
            }
            Relation::Other => return Ok(()),
        };
        open.bytes += change.bytes();
        open.changes.push(change);
        Ok(())
    }
}

impl ReceivedChange {
    /// Returns whether the change is one of the catalog or of service properties.
    pub fn is_of_catalog(&self) -> bool {
        !matches!(self, Self::Entity { .. })
    }

    /// Returns the approximate size in memory.
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Entity { change: StoredChange::Put { key, record }, .. } => key.len() + record.len(),
                Self::Entity { change: StoredChange::Delete { key, .. }, .. } => key.len(),
                Self::SetTable { policies, settings, .. } => policies.len() + settings.len(),
                Self::SetProperties { value, .. } => value.len(),
                Self::Entity { .. } | Self::CreateTable { .. } | Self::DeleteTable { .. } => 0,
            }
    }
}

/// The tables that exist at a point of the log.
#[derive(Debug, Default)]
pub struct Tables {
    known: HashMap<i64, Arc<Scope>>,
    /// The highest number that was given to a table. Each table has a higher number than all that were created before.
    pub last: i64,
}

impl Tables {
    /// `known` contains the tables that exist.
    pub fn new(known: HashMap<i64, Arc<Scope>>, last: i64) -> Self {
        Self { known, last }
    }

    /// Returns whether a table exists.
    pub fn contains(&self, id: i64) -> bool {
        self.known.contains_key(&id)
    }

    /// Appends the changes of a transaction for which the condition holds.
    pub(crate) fn append(&mut self, from: Received, to: &mut Decoded, is_of_log: impl Fn(&ReceivedChange) -> bool) {
        let (mut stamp, mut changes) = (None, Vec::new());
        for change in from.changes.into_iter().filter(is_of_log) {
            let (scope, stored) = match change {
                ReceivedChange::Entity { table, change, .. } => (self.known.get(&table).cloned(), change),
                ReceivedChange::CreateTable { id, scope } => {
                    self.known.insert(id, Arc::clone(&scope));
                    self.last = self.last.max(id);
                    to.tables.insert(id, TableChange::Created(Arc::clone(&scope)));
                    (Some(scope), StoredChange::CreateTable)
                }
                ReceivedChange::DeleteTable { id } => {
                    let scope = self.known.remove(&id);
                    if scope.is_some() {
                        to.tables.insert(id, TableChange::Deleted);
                    }
                    (scope, StoredChange::DeleteTable)
                }
                ReceivedChange::SetTable { id, policies, settings } => {
                    (self.known.get(&id).cloned(), StoredChange::SetTable { policies, settings })
                }
                ReceivedChange::SetProperties { scope, value } => (Some(scope), StoredChange::SetProperties { value }),
            };
            let Some(scope) = scope else { continue };
            if let StoredChange::Put { record, .. } = &stored {
                // The reader reports a damaged record.
                stamp = stamp.max(RecordView::new(record).ok().map(|record| record.timestamp()));
            }
            changes.push((scope, stored));
        }
        let (time, began) = (stamp.unwrap_or(from.time), to.transactions.len());
        for (scope, mut change) in changes {
            if let StoredChange::Delete { is_expired, .. } = &mut change {
                *is_expired = from.is_expiry;
            }
            let mut encoded = Vec::new();
            change.encode_to(&mut encoded);
            to.bytes += encoded.len();
            match to.transactions.iter_mut().skip(began).find(|transaction| transaction.scope == scope) {
                Some(transaction) => transaction.changes.append(&mut encoded),
                None => to.transactions.push(Committed { scope, time, changes: encoded }),
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

    /// A node, the tables that it knows, and what was decoded.
    struct Log {
        assembler: Assembler,
        tables: Tables,
        decoded: Decoded,
    }

    impl Log {
        fn apply(&mut self, message: &Message<'_>) -> Result<(), Damaged> {
            if let Some(received) = self.assembler.apply(message)? {
                self.tables.append(received, &mut self.decoded, |_| true);
            }
            Ok(())
        }

        fn take(&mut self) -> Decoded {
            std::mem::take(&mut self.decoded)
        }
    }

    fn log(applied: u64) -> Log {
        let assembler = Assembler::new(applied, |_| 0);
        let mut log = Log { assembler, tables: Tables::default(), decoded: Decoded::default() };
        for (id, name, columns) in [
            (ENTITIES, "rowhouse_entities", vec!["partition", "row", "record"]),
            (TABLES, "rowhouse_tables", vec!["id", "account", "name", "policies", "is_deleted", "settings"]),
            (3, "other", vec!["x"]),
        ] {
            log.apply(&Message::Relation { id, schema: "public", name, columns }).unwrap();
        }
        log
    }

    fn row<'m>(values: &[&'m [u8]]) -> Row<'m> {
        Row(values.iter().map(|value| Value::Bytes(value)).collect())
    }

    fn table<'m>(policies: &'m [u8], is_deleted: &'m [u8]) -> Row<'m> {
        row(&[&[0, 0, 0, 0, 0, 0, 0, 7], b"account1", b"Tab", policies, is_deleted, b""])
    }

    /// A partition of the table 7.
    const PARTITION: &[u8] = b"\0\0\0\0\0\0\0\x07p";

    fn transaction(log: &mut Log, commit: u64, messages: Vec<Message<'_>>) {
        log.apply(&Message::Begin { commit, time: 5 }).unwrap();
        for message in messages {
            log.apply(&message).unwrap();
        }
        log.apply(&Message::Commit { end: commit + 8 }).unwrap();
    }

    fn effects(decoded: &Decoded) -> Vec<Vec<ChangeEffect>> {
        let of = TableKey { account: AccountName::new("account1").unwrap(), name: TableName::new("Tab").unwrap() };
        let subject = Subject::Table(Arc::new(of));
        let decode = |one: &Committed| decode(&one.changes, &subject, one.time).unwrap();
        decoded.transactions.iter().map(decode).collect()
    }

    #[test]
    fn changes_of_a_table_last_until_it_is_deleted() {
        let mut log = log(0);
        let stamp = DateTime::parse("2026-01-02T03:04:05Z").unwrap();
        let record = RecordBuilder::default().finish(stamp);
        let put = || Message::Insert { relation: ENTITIES, new: row(&[PARTITION, b"r", record.as_bytes()]) };
        let delete = |identity| Message::Delete { relation: ENTITIES, old: row(identity) };
        let key: &[&[u8]] = &[PARTITION, b"r"];
        // The table is unknown.
        transaction(&mut log, 10, vec![put()]);
        transaction(&mut log, 20, vec![Message::Insert { relation: TABLES, new: table(b"", &[0]) }]);
        // A large key that did not change is in the previous row only.
        let new = Row(vec![Value::Unchanged, Value::Unchanged, Value::Bytes(record.as_bytes())]);
        transaction(&mut log, 30, vec![Message::Update { relation: ENTITIES, old: Some(row(key)), new }]);
        transaction(&mut log, 40, vec![delete(key), Message::Emitted { prefix: EXPIRED }]);
        transaction(&mut log, 50, vec![delete(key), Message::Emitted { prefix: "other" }]);
        let update = |old, new| Message::Update { relation: TABLES, old: Some(old), new };
        // Only the number of changes of the settings differs.
        transaction(&mut log, 60, vec![update(table(b"", &[0]), table(b"", &[0]))]);
        transaction(&mut log, 70, vec![update(table(b"", &[0]), table(b"", &[1]))]);
        transaction(&mut log, 80, vec![delete(key), put()]);
        transaction(&mut log, 90, vec![Message::Delete { relation: TABLES, old: table(b"", &[1]) }]);
        let decoded = log.take();
        assert_eq!(decoded.tables, BTreeMap::from([(7, TableChange::Deleted)]));
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
        assert_eq!((log.take(), log.tables.last), (Decoded::default(), 7));
    }

    #[test]
    fn a_transaction_is_taken_when_it_is_complete() {
        let mut log = log(0);
        log.apply(&Message::Begin { commit: 10, time: 5 }).unwrap();
        log.apply(&Message::Insert { relation: TABLES, new: table(b"", &[0]) }).unwrap();
        assert_eq!((log.take(), log.assembler.is_within_transaction()), (Decoded::default(), true));
        let received = log.assembler.apply(&Message::Commit { end: 18 }).unwrap().unwrap();
        assert_eq!((received.end, received.changes.len()), (18, 1));
    }

    #[test]
    fn what_is_in_the_log_is_not_repeated() {
        let mut log = log(20);
        let create = || Message::Insert { relation: TABLES, new: table(b"", &[0]) };
        transaction(&mut log, 10, vec![create()]);
        assert_eq!(log.take(), Decoded::default());
        transaction(&mut log, 20, vec![create()]);
        assert_eq!(effects(&log.take()).len(), 1);
    }

    #[test]
    fn unexpected_messages_are_refused() {
        let mut log = log(0);
        let columns = vec!["partition", "row"];
        let relation = Message::Relation { id: 9, schema: "public", name: "rowhouse_entities", columns };
        assert_eq!(log.apply(&relation), Err(Damaged));
        log.apply(&Message::Begin { commit: 1, time: 5 }).unwrap();
        for message in [
            Message::Insert { relation: 9, new: row(&[]) },
            Message::Insert { relation: ENTITIES, new: row(&[]) },
            Message::Insert { relation: ENTITIES, new: row(&[b"short", b"r", b""]) },
            Message::Insert { relation: TABLES, new: row(&[b"short"]) },
            Message::Insert { relation: TABLES, new: row(&[&[0; 8], b"account1", b"\xFF", b"", &[0], b""]) },
            Message::Begin { commit: 1, time: i64::MAX },
        ] {
            assert_eq!(log.apply(&message), Err(Damaged), "{message:?}");
        }
    }
}
