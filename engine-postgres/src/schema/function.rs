//! The database function that makes the changes of a transaction in one call. On Citus, the call runs on the single
//! node that stores the partition.
//!
//! The function does not depend on the semantics of mutations. For each entity, the caller passes a required state, the
//! *expectation*, and the new state. The function makes all changes if every expectation holds, and none otherwise.
//!
//! Invariants:
//!
//! 1. **No decision is based on data that may change.** A single change is decided in the statement that makes it.
//!    Several changes lock the existing entities in key order before examining them. A missing entity is stored by an
//!    `INSERT`. If the key has been inserted since, the `INSERT` fails, and so does the whole call.
//! 2. **The Timestamp of an existing entity increases.** A record never replaces a record whose Timestamp is the same
//!    or later.
//! 3. **The changes fit the settings of the table.** The caller passes the generation of the settings that it took into
//!    account, and the function makes no changes if the table has another one.
//! 4. **The catalog is read last and not locked.** By then, a call that changes anything has a transaction ID. If a
//!    call still finds a table that is being deleted, the call is therefore among the transactions for which the purge
//!    waits (`purge`).

use crate::schema::names::Names;

/// The required state of an entity, as the function receives it: null for no requirement, and bytes otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    Anything,
    Absent,
    Exists,
    /// It must exist and have the given Timestamp, in the encoding of its record.
    Has([u8; 8]),
}

impl Expectation {
    pub(crate) fn parameter(&self) -> Option<&[u8]> {
        match self {
            Self::Anything => None,
            Self::Absent => Some(&[]),
            Self::Exists => Some(&[0]),
            Self::Has(stamp) => Some(stamp),
        }
    }
}

/// The `SQLSTATE` of a call whose table has been deleted or has another generation.
pub(crate) const TABLE_CHANGED: &str = "RH001";

/// The signature. The parameters are the partition, the table ID, the generation of the table's settings, the rows, the
/// expectations, and the records, which are null for deletions.
pub(crate) const SIGNATURE: &str = "rowhouse_commit(bytea, bigint, bigint, bytea[], bytea[], bytea[])";

/// The function of schema 3. Without it, a server of that version, if it is still running, cannot write.
pub(crate) const DROP_THIRD: &str = "DROP FUNCTION IF EXISTS rowhouse_commit(bytea, bigint, bytea[], bytea[], bytea[])";

/// Returns the statement that creates or replaces the function.
///
/// The function returns null if it made the changes. Otherwise, it returns four bytes with the index of the first
/// entity (in the order of the call) that is not as expected, followed by the entity's record if the entity exists. A
/// record whose Timestamp is not earlier than the new one is not as expected either.
pub(crate) fn definition(names: &Names) -> String {
    include_str!("commit_function.sql")
        .replace("{schema}", &names.schema)
        .replace("{entities}", &names.entities)
        .replace("{catalog}", &names.catalog)
        .replace("{table_changed}", TABLE_CHANGED)
}
