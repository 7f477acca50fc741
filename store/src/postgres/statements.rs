//! The statements. They name entities by parameters at the beginning of the primary key, so that a database that
//! distributes partitions knows the node from the parameters alone.

/// The table of a name: id, name as spelled, policies.
pub(super) const TABLE_BY_NAME: &str =
    "SELECT id, name, policies FROM rowhouse_tables WHERE account = $1 AND folded = $2 AND NOT is_deleted";
/// Whether a table still exists.
pub(super) const TABLE_LIVES: &str = "SELECT id FROM rowhouse_tables WHERE id = $1 AND NOT is_deleted";
/// When a table was created, and the bounds of its stamps, if it still exists. The lock keeps the table from being purged before
/// the end of the transaction, because the purge deletes the row. It does not keep it from being deleted, which changes no key.
pub(super) const TABLE_LIVES_LOCKED: &str = "SELECT created, stamp_floor, stamp_ceiling FROM rowhouse_tables \
     WHERE id = $1 AND NOT is_deleted FOR KEY SHARE";
/// Raises the upper bound of the stamps of a table to `$2`. Fails if the table was deleted meanwhile, because the bound must not
/// be null.
pub(super) const RAISE_UPPER_BOUND: &str = "UPDATE rowhouse_tables SET stamp_ceiling = \
     CASE WHEN is_deleted THEN NULL ELSE GREATEST(stamp_ceiling, $2::bigint) END WHERE id = $1";
pub(super) const LIST_TABLES: &str = "SELECT name FROM rowhouse_tables WHERE account = $1 AND folded >= $2 \
     AND NOT is_deleted ORDER BY folded LIMIT $3";
pub(super) const ACCOUNTS: &str = "SELECT DISTINCT account FROM rowhouse_tables WHERE NOT is_deleted";
pub(super) const NEXT_TABLE_ID: &str =
    "UPDATE rowhouse_meta SET value = value + 1 WHERE name = 'last-table-id' RETURNING value";
pub(super) const CREATE_TABLE: &str = "INSERT INTO rowhouse_tables (id, account, folded, name, policies, created, \
     is_deleted) VALUES ($1, $2, $3, $4, $5, $6, false) ON CONFLICT DO NOTHING";
/// Lets the stamps of a new table begin after those of earlier tables of its name.
pub(super) const INHERIT_LOWER_BOUND: &str = "UPDATE rowhouse_tables AS t SET stamp_floor = f.stamp, stamp_ceiling = f.stamp \
     FROM rowhouse_floors AS f WHERE t.id = $1 AND f.account = $2 AND f.folded = $3";
/// Deletes a table, and keeps the upper bound of its stamps for the next one of its name.
pub(super) const DELETE_TABLE: &str = "WITH gone AS (UPDATE rowhouse_tables SET is_deleted = true \
     WHERE account = $1 AND folded = $2 AND NOT is_deleted RETURNING account, folded, stamp_ceiling) \
     INSERT INTO rowhouse_floors (account, folded, stamp) SELECT account, folded, stamp_ceiling FROM gone \
     ON CONFLICT (account, folded) DO UPDATE SET stamp = GREATEST(rowhouse_floors.stamp, excluded.stamp)";
pub(super) const SET_POLICIES: &str =
    "UPDATE rowhouse_tables SET policies = $3 WHERE account = $1 AND folded = $2 AND NOT is_deleted";

pub(super) const RECORD: &str = "SELECT record FROM rowhouse_entities WHERE partition = $1 AND row = $2";

/// The entities of a transaction, locked in the order of their keys.
pub(super) const LOCK_RECORDS: &str =
    "SELECT row, record FROM rowhouse_entities WHERE partition = $1 AND row = ANY($2) ORDER BY row FOR UPDATE";
/// The same with only the first `$3` bytes of each record, which contain the Timestamp.
pub(super) const LOCK_HEADERS: &str = "SELECT row, substring(record FROM 1 FOR $3) FROM rowhouse_entities \
     WHERE partition = $1 AND row = ANY($2) ORDER BY row FOR UPDATE";
/// Stores entities that exist and are locked.
pub(super) const REPLACE: &str = "INSERT INTO rowhouse_entities (partition, row, record) \
     SELECT $1::bytea, n.row, n.record FROM unnest($2::bytea[], $3::bytea[]) AS n (row, record) \
     ON CONFLICT (partition, row) DO UPDATE SET record = excluded.record";
/// Stores entities that did not exist; fails if one exists by now.
pub(super) const INSERT: &str = "INSERT INTO rowhouse_entities (partition, row, record) \
     SELECT $1::bytea, n.row, n.record FROM unnest($2::bytea[], $3::bytea[]) AS n (row, record)";
pub(super) const DELETE: &str = "DELETE FROM rowhouse_entities WHERE partition = $1 AND row = ANY($2)";

/// The latest Timestamp of the entities that were deleted from these buckets.
pub(super) const TOMBSTONES: &str = "SELECT max(stamp) FROM rowhouse_graves WHERE partition = $1 AND bucket = ANY($2)";
/// Fails, by a division by zero, if an entity was deleted from these buckets whose Timestamp is not before `$3`.
pub(super) const GUARD: &str = "SELECT 1 / CASE WHEN max(stamp) >= $3 THEN 0 ELSE 1 END FROM rowhouse_graves \
     WHERE partition = $1 AND bucket = ANY($2)";
/// Keeps the Timestamps of entities that are deleted.
pub(super) const KEEP_TOMBSTONES: &str = "INSERT INTO rowhouse_graves (partition, bucket, stamp) \
     SELECT $1::bytea, n.bucket, n.stamp FROM unnest($2::smallint[], $3::bigint[]) AS n (bucket, stamp) \
     ON CONFLICT (partition, bucket) DO UPDATE SET stamp = GREATEST(rowhouse_graves.stamp, excluded.stamp)";
/// Claims the garbage collection for now, unless it was claimed after `$2`.
pub(super) const CLAIM_GARBAGE_COLLECTION: &str =
    "UPDATE rowhouse_meta SET value = $1 WHERE name = 'last-sweep' AND value < $2";
pub(super) const TOMBSTONES_AFTER: &str = "SELECT partition, bucket, stamp FROM rowhouse_graves \
     WHERE (partition, bucket) > ($1, $2) ORDER BY partition, bucket LIMIT $3";
pub(super) const DELETE_OLD_TOMBSTONES: &str =
    "DELETE FROM rowhouse_graves WHERE partition = $1 AND bucket = ANY($2) AND stamp < $3";
pub(super) const DELETE_OLD_LOWER_BOUNDS: &str = "DELETE FROM rowhouse_floors WHERE (account, folded) IN \
     (SELECT account, folded FROM rowhouse_floors WHERE stamp < $1 LIMIT $2) AND stamp < $1";

// Chunks of a page.
pub(super) const ROWS_FROM: &str = "SELECT partition, row, record FROM rowhouse_entities \
     WHERE partition = $1 AND row >= $2 ORDER BY partition, row LIMIT $3";
pub(super) const ROWS_BETWEEN: &str = "SELECT partition, row, record FROM rowhouse_entities \
     WHERE partition = $1 AND row >= $2 AND row < $3 ORDER BY partition, row LIMIT $4";
pub(super) const PAIRS_BETWEEN: &str = "SELECT partition, row, record FROM rowhouse_entities \
     WHERE (partition, row) >= ($1, $2) AND (partition, row) < ($3, $4) ORDER BY partition, row LIMIT $5";

pub(super) const ALL_PROPERTIES: &str = "SELECT account, value FROM rowhouse_service_properties";
pub(super) const FRESH_PROPERTIES: &str =
    "INSERT INTO rowhouse_service_properties (account, value) VALUES ($1, $2) ON CONFLICT (account) DO NOTHING";
pub(super) const LOCK_PROPERTIES: &str = "SELECT value FROM rowhouse_service_properties WHERE account = $1 FOR UPDATE";
pub(super) const SET_PROPERTIES: &str = "UPDATE rowhouse_service_properties SET value = $2 WHERE account = $1";

/// A deleted table that no server is purging and no commit is writing to.
pub(super) const TAKE_PURGE: &str =
    "SELECT id FROM rowhouse_tables WHERE is_deleted ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
pub(super) const COUNT_PURGES: &str = "SELECT count(*) FROM rowhouse_tables WHERE is_deleted";
pub(super) const SOME_ENTITIES: &str = "SELECT partition, row FROM rowhouse_entities \
     WHERE (partition, row) >= ($1, $2) AND (partition, row) < ($3, $4) ORDER BY partition, row LIMIT $5";
pub(super) const SOME_TOMBSTONES: &str = "SELECT partition, bucket FROM rowhouse_graves \
     WHERE partition >= $1 AND partition < $2 ORDER BY partition, bucket LIMIT $3";
pub(super) const DELETE_TOMBSTONES: &str = "DELETE FROM rowhouse_graves WHERE partition = $1 AND bucket = ANY($2)";
pub(super) const END_PURGE: &str = "DELETE FROM rowhouse_tables WHERE id = $1";
