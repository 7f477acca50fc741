//! The SQL statements. They identify entities by parameters for a prefix of the primary key, so that a database that
//! distributes partitions can determine the node from the parameters alone.

/// Returns the table with the given name: its ID, its name in the original letter case, its policies, its settings, and
/// their generation.
pub(crate) const TABLE_BY_NAME: &str = "SELECT id, name, policies, settings, generation FROM rowhouse_tables \
     WHERE account = $1 AND folded = $2 AND NOT is_deleted";
pub(crate) const LIST_TABLES: &str = "SELECT name FROM rowhouse_tables WHERE account = $1 AND folded >= $2 \
     AND NOT is_deleted ORDER BY folded LIMIT $3";
pub(crate) const COUNT_TABLES: &str =
    "SELECT count(*) FROM rowhouse_tables WHERE account = $1 AND folded >= $2 AND NOT is_deleted";
pub(crate) const ACCOUNTS: &str = "SELECT DISTINCT account FROM rowhouse_tables WHERE NOT is_deleted";
pub(crate) const NEXT_ID: &str =
    "UPDATE rowhouse_meta SET value = value + 1 WHERE name = 'last-table-id' RETURNING value";
pub(crate) const CREATE_TABLE: &str = "INSERT INTO rowhouse_tables (id, account, folded, name, policies, \
     is_deleted) VALUES ($1, $2, $3, $4, $5, false) ON CONFLICT DO NOTHING";
pub(crate) const DELETE_TABLE: &str =
    "UPDATE rowhouse_tables SET is_deleted = true WHERE account = $1 AND folded = $2 AND NOT is_deleted";
pub(crate) const SET_POLICIES: &str =
    "UPDATE rowhouse_tables SET policies = $3 WHERE account = $1 AND folded = $2 AND NOT is_deleted";
pub(crate) const TABLES_WITH_SETTINGS: &str =
    "SELECT account, name, settings FROM rowhouse_tables WHERE settings <> '' AND NOT is_deleted ORDER BY id";
/// Replaces the settings of a table that has the generation `$2`.
pub(crate) const SET_SETTINGS: &str = "UPDATE rowhouse_tables SET settings = $3, generation = generation + 1 \
     WHERE id = $1 AND generation = $2 AND NOT is_deleted";
pub(crate) const ADD_INDEX: &str = "INSERT INTO rowhouse_indexes (id, table_id, property, is_ready, built_before) \
     VALUES ($1, $2, $3, false, '')";
pub(crate) const REMOVE_INDEX: &str =
    "UPDATE rowhouse_indexes SET removed = now() WHERE table_id = $1 AND property = $2 AND removed IS NULL";
/// Returns the ID, the property and the state of each index of a table. A table without indexes has one row of nulls.
/// Returns no row if the table does not exist with the generation `$2`.
pub(crate) const INDEXES_OF_TABLE: &str = "SELECT x.id, x.property, x.is_ready FROM rowhouse_tables AS t \
     LEFT JOIN rowhouse_indexes AS x ON x.table_id = t.id AND x.removed IS NULL \
     WHERE t.id = $1 AND t.generation = $2 AND NOT t.is_deleted";

pub(crate) const RECORD: &str = "SELECT record FROM rowhouse_entities WHERE partition = $1 AND row = $2";
/// Returns the record of an entity, or null if the entity is missing, provided that its table still exists and has the
/// generation `$4`; otherwise, returns no row.
pub(crate) const RECORD_OF_TABLE: &str = "SELECT e.record FROM rowhouse_tables AS t \
     LEFT JOIN rowhouse_entities AS e ON e.partition = $1 AND e.row = $2 \
     WHERE t.id = $3 AND t.generation = $4 AND NOT t.is_deleted";
pub(crate) const RECORDS: &str = "SELECT row, record FROM rowhouse_entities WHERE partition = $1 AND row = ANY($2)";
/// Locks the entities in key order.
pub(crate) const LOCK_RECORDS: &str =
    "SELECT row, record FROM rowhouse_entities WHERE partition = $1 AND row = ANY($2) ORDER BY row FOR UPDATE";
/// Makes the changes of a transaction, or returns the obstacle; see `function`.
pub(crate) const COMMIT: &str = "SELECT rowhouse_commit($1, $2, $3, $4, $5, $6, $7, $8, $9)";
/// Deletes expired entities like [`COMMIT`], and marks the transaction in the log of the database (see
/// `changes::transactions`).
pub(crate) const COMMIT_EXPIRED: &str = "SELECT rowhouse_commit($1, $2, $3, $4, $5, $6, $7, $8, $9), \
     pg_logical_emit_message(true, 'rowhouse-expired', ''::text)";
/// Adds the entries of entities that are unchanged since they were read.
pub(crate) const ADD_ENTRIES: &str = "SELECT rowhouse_add_entries($1, $2, $3, $4, $5, $6, $7, $8)";

/// Takes the lease `$1` for `$2` if no other server holds it and no stamp beyond `$5` is reserved. Reserves `$3` ticks
/// from `$4` on, or from the end of the previous reservation. A holder that has not renewed a lease for half a minute
/// is presumed dead.
pub(crate) const TAKE_LEASE: &str = "UPDATE rowhouse_leases SET holder = $2, renewed = now(), \
     reserved = GREATEST(reserved, $4::bigint) + $3::bigint \
     WHERE number = $1 AND reserved <= $5 AND (holder IS NULL OR holder = $2 OR renewed < now() - interval '30 s') RETURNING reserved";
pub(crate) const RENEW_LEASE: &str = "UPDATE rowhouse_leases SET renewed = now(), reserved = GREATEST(reserved, $3::bigint) \
     WHERE number = $1 AND holder = $2 RETURNING reserved";
/// Renews or takes the lease of a task that renews it every second while it works, so that another server continues
/// soon after the holder has died.
pub(crate) const HOLD_SHORT_LEASE: &str = "UPDATE rowhouse_leases SET holder = $2, renewed = now() WHERE number = $1 \
     AND (holder IS NULL OR holder = $2 OR renewed < now() - interval '3 s') RETURNING reserved";
/// Returns a lease. No stamp from `$3` on has been issued under it.
pub(crate) const RETURN_LEASE: &str =
    "UPDATE rowhouse_leases SET holder = NULL, reserved = $3 WHERE number = $1 AND holder = $2 RETURNING reserved";

/// Returns whether a shard is being moved or split, and this Citus node has prepared the change of its catalog, but not
/// committed it. Another node may have committed it already and accept writes to the new place, while this one still
/// reads the old one. A read is therefore preceded by this statement. If it returns false, nothing has been written to
/// the new place yet, or the read finds it there.
pub(crate) const SHARDS_ARE_MOVING: &str = "SELECT EXISTS (SELECT FROM pg_prepared_xacts) AND EXISTS (SELECT FROM pg_locks \
     WHERE relation = 'pg_dist_placement'::regclass AND mode = 'RowExclusiveLock' AND pid IS NULL)";

/// Begins the transaction in which a page is read.
pub(crate) const BEGIN_PAGE: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// The table in the statements that read the chunks of a page, which shards can replace.
pub(crate) const ENTITIES: &str = "rowhouse_entities";

/// A statement that reads entities in the order of keys, in both directions.
pub(crate) struct KeyOrdered {
    ascending: &'static str,
    descending: &'static str,
}

impl KeyOrdered {
    pub(crate) fn text(&self, is_descending: bool) -> &'static str {
        if is_descending { self.descending } else { self.ascending }
    }
}

/// Builds both texts of a statement: its parts, with the order by the primary key between them.
macro_rules! key_ordered {
    ($before:literal, $after:literal) => {
        KeyOrdered {
            ascending: concat!($before, "ORDER BY partition, row", $after),
            descending: concat!($before, "ORDER BY partition DESC, row DESC", $after),
        }
    };
}

// The following statements read the chunks of a page.
pub(crate) const ROWS_FROM: KeyOrdered = key_ordered!(
    "SELECT partition, row, record FROM rowhouse_entities WHERE partition = $1 AND row >= $2 ",
    " LIMIT $3"
);
pub(crate) const ROWS_BETWEEN: KeyOrdered = key_ordered!(
    "SELECT partition, row, record FROM rowhouse_entities WHERE partition = $1 AND row >= $2 AND row < $3 ",
    " LIMIT $4"
);
pub(crate) const PAIRS_BETWEEN: KeyOrdered = key_ordered!(
    "SELECT partition, row, record FROM rowhouse_entities \
     WHERE (partition, row) >= ($1, $2) AND (partition, row) < ($3, $4) ",
    " LIMIT $5"
);
/// Reads ranges of rows of one partition, one after the other. No sort is needed: the list is in the order of its
/// numbers, and the rows of a range are in the order of the primary key. For descending order, the ranges are, too.
pub(crate) const ROWS_IN_RANGES: KeyOrdered = key_ordered!(
    "SELECT e.partition, e.row, e.record \
     FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS r (low, high, at) CROSS JOIN LATERAL \
     (SELECT partition, row, record FROM rowhouse_entities WHERE partition = $1 AND row >= r.low AND row < r.high ",
    " LIMIT $4) AS e ORDER BY r.at LIMIT $4"
);
/// Reads ranges of entities, one after the other, like [`ROWS_IN_RANGES`].
pub(crate) const PAIRS_IN_RANGES: KeyOrdered = key_ordered!(
    "SELECT e.partition, e.row, e.record \
     FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[]) WITH ORDINALITY AS r (p, low, q, high, at) \
     CROSS JOIN LATERAL (SELECT partition, row, record FROM rowhouse_entities \
     WHERE (partition, row) >= (r.p, r.low) AND (partition, row) < (r.q, r.high) ",
    " LIMIT $5) AS e ORDER BY r.at LIMIT $5"
);

// The following statements read the pages of an index. `$1` is the index.
pub(crate) const ENTRIES_BETWEEN: &str = "SELECT value, partition, row FROM rowhouse_index_entries \
     WHERE (index_id, value, partition, row) >= ($1, $2, $3, $4) AND (index_id, value, partition, row) < ($1, $5, $6, $7) \
     ORDER BY index_id, value, partition, row LIMIT $8";
pub(crate) const ENTRIES_BETWEEN_DESCENDING: &str = "SELECT value, partition, row FROM rowhouse_index_entries \
     WHERE (index_id, value, partition, row) >= ($1, $2, $3, $4) AND (index_id, value, partition, row) < ($1, $5, $6, $7) \
     ORDER BY index_id DESC, value DESC, partition DESC, row DESC LIMIT $8";
/// Returns the records of entities, each with its number in the order of the parameters.
pub(crate) const RECORDS_IN_ORDER: &str = "SELECT k.at, e.record \
     FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (partition, row, at) \
     JOIN rowhouse_entities AS e ON e.partition = k.partition AND e.row = k.row ORDER BY k.at";

pub(crate) const ALL_PROPERTIES: &str = "SELECT account, value FROM rowhouse_service_properties";
pub(crate) const FRESH_PROPERTIES: &str =
    "INSERT INTO rowhouse_service_properties (account, value) VALUES ($1, $2) ON CONFLICT (account) DO NOTHING";
pub(crate) const LOCK_PROPERTIES: &str = "SELECT value FROM rowhouse_service_properties WHERE account = $1 FOR UPDATE";
pub(crate) const SET_PROPERTIES: &str = "UPDATE rowhouse_service_properties SET value = $2 WHERE account = $1";

/// Returns the deleted tables, whether they may have had indexes, and their accounts.
pub(crate) const DELETED_TABLES: &str =
    "SELECT id, generation > 0, account FROM rowhouse_tables WHERE is_deleted ORDER BY id";
/// Returns the tables among `$1` whose deletion is not in the change log yet.
pub(crate) const LOGGED_TABLES: &str = "SELECT d.id FROM unnest($1::bigint[]) AS d (id), rowhouse_change_log AS l \
     WHERE l.is_ready AND (d.id > l.last_table OR d.id IN (SELECT t.id FROM rowhouse_change_tables AS t))";
/// Returns the entity before which a range contains `$5` entities.
pub(crate) const ENTITY_AT: &str = "SELECT partition, row FROM rowhouse_entities \
     WHERE (partition, row) >= ($1, $2) AND (partition, row) < ($3, $4) ORDER BY partition, row OFFSET $5 LIMIT 1";
pub(crate) const DELETE_BETWEEN: &str =
    "DELETE FROM rowhouse_entities WHERE (partition, row) >= ($1, $2) AND (partition, row) < ($3, $4)";
pub(crate) const DELETE_ENTRIES_BETWEEN: &str =
    "DELETE FROM rowhouse_index_entries WHERE (partition, row) >= ($1, $2) AND (partition, row) < ($3, $4)";
pub(crate) const DELETE_INDEXES: &str = "DELETE FROM rowhouse_indexes WHERE table_id = $1";
pub(crate) const END_PURGE: &str = "DELETE FROM rowhouse_tables WHERE id = $1";
/// Returns the first transaction that is still running, and the first that has not started.
pub(crate) const TRANSACTIONS: &str =
    "SELECT txid_snapshot_xmin(s) || ' ' || txid_snapshot_xmax(s) FROM txid_current_snapshot() s";

/// Returns the indexes that must be built, and those that were removed more than a minute ago, each with the generation
/// of its table. On Citus, a page that found an index may take a moment to reach the last node.
pub(crate) const UNFINISHED_INDEXES: &str = "SELECT x.id, x.table_id, t.generation, x.property, x.built_before, x.removed IS NOT NULL, \
     t.account FROM rowhouse_indexes AS x JOIN rowhouse_tables AS t ON t.id = x.table_id WHERE NOT t.is_deleted \
     AND (x.removed < now() - interval '1 minute' OR x.removed IS NULL AND NOT x.is_ready) ORDER BY x.table_id, x.id";
/// Records that all entities before `$2` have their entries.
pub(crate) const SET_BUILT: &str =
    "UPDATE rowhouse_indexes SET built_before = $2 WHERE id = ANY($1) AND built_before < $2";
pub(crate) const SET_READY: &str = "UPDATE rowhouse_indexes SET is_ready = true WHERE id = ANY($1)";
/// Returns the entry before which an index has `$2` entries.
pub(crate) const ENTRY_AT: &str = "SELECT value, partition, row FROM rowhouse_index_entries \
     WHERE index_id = $1 ORDER BY index_id, value, partition, row OFFSET $2 LIMIT 1";
pub(crate) const DELETE_ENTRIES_BEFORE: &str = "DELETE FROM rowhouse_index_entries \
     WHERE index_id = $1 AND (value, partition, row) < ($2, $3, $4)";
pub(crate) const END_REMOVAL: &str = "DELETE FROM rowhouse_indexes WHERE id = $1";
