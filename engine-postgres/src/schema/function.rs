//! The database functions that change entities and the entries of indexes in one call. On Citus, the call runs on the
//! single node that stores the partition.
//!
//! One function makes the changes of a transaction. It does not depend on the semantics of mutations. For each entity,
//! the caller passes a required state, the *expectation*, and the new state. The function makes all changes if every
//! expectation holds, and none otherwise. If the table has indexes, the caller also passes all entries that the changed
//! entities have from then on.
//!
//! The other function adds the entries of entities that are unchanged since they were read; see `indexing`.
//!
//! Invariants:
//!
//! 1. **No decision is based on data that may change.** A single change is decided in the statement that makes it.
//!    Several changes lock the existing entities in key order before examining them; on Citus, they first make sure
//!    that the shard is not moved in between. A missing entity is stored by an `INSERT`. If the key has been inserted
//!    since, the `INSERT` fails, and so does the whole call.
//! 2. **The Timestamp of an existing entity increases.** A record never replaces a record whose Timestamp is the same
//!    or later.
//! 3. **The changes fit the settings of the table.** The caller passes the generation of the settings that it took into
//!    account, and the function makes no changes if the table has another one. The settings include the indexes.
//! 4. **The catalog is read last and not locked.** By then, a call that changes anything has a transaction ID. If a
//!    call still finds a table that is being deleted, or the previous indexes of a table, the call is therefore among
//!    the transactions for which the purge, or the construction of the new index, waits (`settling`).
//! 5. **The entries of an entity change with the entity**, after the entity has been locked by the change. They replace
//!    the stored entries, even if the entity has expired.

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

/// The signatures. The parameters are the partition, the table ID, the generation of the table's settings, and the
/// rows. They are followed by the expectations, and the records, which are null for deletions; or by the stamps that
/// the entities had when they were read. The last three contain the row, the index and the value of each entry. They
/// are null if the table has no indexes.
pub(crate) const SIGNATURES: [&str; 2] = [
    "rowhouse_commit(bytea, bigint, bigint, bytea[], bytea[], bytea[], bytea[], bigint[], bytea[])",
    "rowhouse_add_entries(bytea, bigint, bigint, bytea[], bytea[], bytea[], bigint[], bytea[])",
];

/// Keeps the shard where it is until the end of the transaction, or waits until it has been moved. It changes nothing.
///
/// While Citus moves a shard, it blocks writes, but a `SELECT FOR UPDATE` still locks the old copy. The writes that
/// follow wait and then go to the new copy, which another transaction may have changed since.
const STAY: &str = "UPDATE {entities} SET record = record WHERE partition = _partition AND {never};";
/// A condition that no entity meets, and that does not look false to the planner. Functions on Citus that do not
/// contain it are outdated.
pub(crate) const STAY_CONDITION: &str = "row < ''::bytea";

/// Inserts those entries that do not exist.
const INSERT_ENTRIES: &str = "SELECT array_agg(n.row), array_agg(n.index_id), array_agg(n.value)
        INTO _entry_rows, _entry_indexes, _entry_values FROM
            (SELECT * FROM unnest(_entry_rows, _entry_indexes, _entry_values) AS k (row, index_id, value)
             EXCEPT SELECT * FROM unnest(_old_rows, _old_indexes, _old_values)) AS n;
        IF _entry_rows IS NOT NULL THEN
            -- See the INSERT of several entities.
            EXECUTE $sql$INSERT INTO {entries} (partition, row, index_id, value)
                    SELECT $1, n.row, n.index_id, n.value FROM unnest($2, $3, $4) AS n (row, index_id, value)$sql$
            USING _partition, _entry_rows, _entry_indexes, _entry_values;
        END IF;";

const CHECK_CATALOG: &str =
    "PERFORM 1 FROM {catalog} WHERE id = _table AND NOT is_deleted AND generation = _generation;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '{table_changed}', MESSAGE = 'the table is deleted or has changed';
    END IF;";

/// Returns the statements that create or replace the functions.
///
/// The function that commits returns null if it made the changes. Otherwise, it returns four bytes with the index of
/// the first entity (in the order of the call) that is not as expected, followed by the entity's record if the entity
/// exists. A record whose Timestamp is not earlier than the new one is not as expected either.
pub(crate) fn definitions(names: &Names) -> [String; 2] {
    [include_str!("commit_function.sql"), include_str!("entries_function.sql")].map(|function| {
        function
            .replace("{stay}", if names.is_distributed { STAY } else { "" })
            .replace("{never}", STAY_CONDITION)
            .replace("{insert_entries}", INSERT_ENTRIES)
            .replace("{check_catalog}", CHECK_CATALOG)
            .replace("{schema}", &names.schema)
            .replace("{entities}", &names.entities)
            .replace("{entries}", &names.entries)
            .replace("{catalog}", &names.catalog)
            .replace("{table_changed}", TABLE_CHANGED)
    })
}
