//! The log: the committed transactions of an engine, in the order of their commits, as far as they are kept.
//!
//! Invariants:
//!
//! 1. Positions increase with each commit. A position identifies the same transaction for all time. There are positions
//!    without changes, for work that an engine does for itself.
//! 2. The time of a transaction is at least the time of every transaction with a smaller position.
//! 3. Only durable transactions can be read. What was read once is never lost or changed.
//! 4. No transaction is skipped. If a transaction is no longer kept, reading from its position fails.
//! 5. Transactions of one partition have the order in which they took effect.

use crate::contract::{BoxFuture, Fault, TableKey};
use model::datetime::TICKS_PER_SECOND;
use model::{AccountName, DateTime, Record, ServiceProperties, StoredAccessPolicies, TableSettings};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The estimated size of a change apart from its key and its record, in bytes.
pub(crate) const CHANGE_BYTES: usize = 128;

/// How much of the log an engine keeps. Whichever bound is reached first applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepChanges {
    /// The age until which transactions are kept.
    pub age: Duration,
    /// The maximum size of the log that is kept only for readers, in bytes.
    pub bytes: u64,
}

/// Returns the position with which a log begins that continues no other one.
///
/// It is later than each position of an earlier log that was read at the same address, so a reader of that log gets an
/// error: a data folder may be restored or replaced. This holds if the clock does not go back, and if a log does not
/// average more transactions per second than [`POSITIONS_PER_SECOND`].
pub fn first_position(now: DateTime) -> u64 {
    let ticks = u64::try_from(now.ticks().saturating_sub(POSITIONS_BEGIN_TICKS)).unwrap_or_default();
    (1 + ticks / (TICKS_PER_SECOND.unsigned_abs() / POSITIONS_PER_SECOND)).min(FIRST_POSITION_MAX)
}

/// More than one committer can write. The embedded engine cannot count further than 2^47.
const POSITIONS_PER_SECOND: u64 = 100_000;
/// The first instant of 2026.
const POSITIONS_BEGIN_TICKS: i64 = 134_116_992_000_000_000;
/// Reached in 2070. Leaves ten trillion transactions.
const FIRST_POSITION_MAX: u64 = (1 << 47) - 10_000_000_000_000;

/// The future that the methods of a log return.
pub type ChangesFuture<'a, T> = BoxFuture<'a, Result<T, ChangesError>>;

/// A log that can be read while the engine is open.
pub trait ChangeLog: Send + Sync {
    /// Returns which transactions can be read now.
    fn kept(&self) -> KeptChanges;

    /// Like [`Self::kept`], but includes what other servers of the same database may have read already.
    fn latest(&self) -> ChangesFuture<'_, KeptChanges>;

    /// Returns the position with which the log began: if it is the first that is kept, nothing was dropped. Returns 0
    /// if it is not known, because an earlier version began the log.
    fn beginning(&self) -> ChangesFuture<'_, u64>;

    /// Returns transactions from a position on, in order, as far as they can be read now and do not exceed a size in
    /// bytes. A single transaction may exceed it.
    ///
    /// Reads a bounded part of the log, so a page without transactions may be followed by others.
    fn read<'a>(&'a self, from: u64, selection: &'a ChangeSelection, bytes: usize) -> ChangesFuture<'a, ChangePage>;

    /// Returns the position of the first kept transaction whose time is at or after the given one, or the position
    /// after the last transaction. Afterwards, [`kept`](Self::kept) shows everything that was dropped before and during
    /// the search.
    fn find(&self, time: DateTime) -> ChangesFuture<'_, u64>;

    /// Returns a receiver of the position after the last transaction that can be read.
    fn watch(&self) -> watch::Receiver<u64>;
}

/// A log of which it is known until when it is complete.
pub trait DatedChangeLog: ChangeLog {
    /// Returns the end of the log. Transactions before it may not be readable yet.
    fn end(&self) -> ChangesFuture<'_, ChangesEnd>;
}

/// An end of a log, after which transactions may have followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangesEnd {
    /// The position after the last transaction. Every transaction that was acknowledged before lies before it.
    pub next: u64,
    /// Every transaction from `next` on has a later time.
    pub time: DateTime,
}

/// The part of a log that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptChanges {
    /// The position of the oldest transaction that is kept, or `next` if there is none.
    pub first: u64,
    /// The position after the last transaction.
    pub next: u64,
}

/// The transactions that a reader wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeSelection {
    /// Only changes in this account.
    pub account: Option<AccountName>,
    /// Only changes of this table and its entities.
    pub table: Option<TableKey>,
    /// With `table`: leaves out entities of earlier tables with the same name, but not the changes of these tables. If
    /// the table does not exist now, all tables are earlier ones.
    pub existing_only: bool,
}

impl ChangeSelection {
    /// Returns whether changes of a table are selected.
    pub fn contains(&self, table: &TableKey) -> bool {
        self.account.as_ref().is_none_or(|account| *account == table.account)
            && self.table.as_ref().is_none_or(|selected| selected == table)
    }

    /// Returns whether a change is selected. Service properties belong to no table.
    pub fn selects(&self, effect: &ChangeEffect) -> bool {
        match effect {
            ChangeEffect::Put { table, .. }
            | ChangeEffect::Delete { table, .. }
            | ChangeEffect::CreateTable { table, .. }
            | ChangeEffect::DeleteTable { table }
            | ChangeEffect::SetTable { table, .. } => self.contains(table),
            ChangeEffect::SetProperties { account, .. } => {
                self.table.is_none() && self.account.as_ref().is_none_or(|selected| selected == account)
            }
        }
    }
}

/// Successive transactions of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePage {
    /// The selected transactions, in order. Changes that are not selected are left out of them.
    pub transactions: Vec<ChangedTransaction>,
    /// The position to continue from.
    pub next: u64,
}

/// A committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedTransaction {
    /// The position in the log.
    pub position: u64,
    /// The Timestamp that the transaction gave to its entities. For other transactions, the time of the commit.
    pub time: DateTime,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// A change within a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The index of the change within the transaction, counted before a selection.
    pub index: u32,
    /// What changed.
    pub effect: ChangeEffect,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeEffect {
    /// An entity was inserted, replaced or merged.
    Put {
        /// The table.
        table: Arc<TableKey>,
        /// The encoded key of the entity in the table (see [`model::key`]).
        key: Vec<u8>,
        /// The entity after the change.
        record: Record,
    },
    /// An entity was deleted.
    Delete {
        /// The table.
        table: Arc<TableKey>,
        /// The encoded key of the entity in the table.
        key: Vec<u8>,
        /// Whether the service deleted it, because it had expired.
        is_expired: bool,
    },
    /// A table was created, without policies and with the default settings.
    CreateTable {
        /// The table.
        table: Arc<TableKey>,
        /// The time at which it was created.
        created: DateTime,
    },
    /// A table was deleted with all its entities.
    DeleteTable {
        /// The table.
        table: Arc<TableKey>,
    },
    /// The policies or settings of a table changed. Contains all of them.
    SetTable {
        /// The table.
        table: Arc<TableKey>,
        /// The stored access policies.
        policies: StoredAccessPolicies,
        /// The settings.
        settings: TableSettings,
    },
    /// The service properties of an account changed. Contains all of them.
    SetProperties {
        /// The account.
        account: AccountName,
        /// The service properties.
        properties: Box<ServiceProperties>,
    },
}

impl ChangeEffect {
    /// Returns whether an entity changed.
    pub fn is_of_entity(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Delete { .. })
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        CHANGE_BYTES
            + match self {
                Self::Put { key, record, .. } => key.len() + record.as_bytes().len(),
                Self::Delete { key, .. } => key.len(),
                Self::CreateTable { .. }
                | Self::DeleteTable { .. }
                | Self::SetTable { .. }
                | Self::SetProperties { .. } => 0,
            }
    }
}

/// The reason why the log could not be read.
#[derive(Debug)]
pub enum ChangesError {
    /// The requested position is no longer kept. Contains the position of the oldest transaction that is.
    Dropped(u64),
    /// The engine failed.
    Fault(Fault),
}

impl fmt::Display for ChangesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped(first) => write!(f, "the log no longer contains this position; it begins at {first}"),
            Self::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for ChangesError {}
