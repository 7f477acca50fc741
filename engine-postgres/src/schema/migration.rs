//! The tables in the database, and their creation in numbered steps. Each step is performed once, by the first server.
//!
//! Servers that start at the same time take turns by locking a row, which every database with this protocol supports.
//! Every step can be repeated, because not every database rolls back schema changes with the transaction.

use crate::StoreError;
use crate::connections::attempt::jittered;
use crate::connections::dialect::Dialect;
use crate::schema::function;
use crate::schema::names::Names;
use crate::schema::upgrade;
use crate::slot::{INDEX_LEASE, PURGE_LEASE};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

pub(crate) const SCHEMA_VERSION: i64 = 4;
/// The maximum number of attempts to create the tables while other servers also create them.
const ATTEMPTS_MAX: u32 = 40;
const ATTEMPT_WAIT: Duration = Duration::from_millis(200);

const META: &str = "CREATE TABLE IF NOT EXISTS rowhouse_meta (name text PRIMARY KEY, value bigint NOT NULL)";
const READ_VERSION: &str = "SELECT value FROM rowhouse_meta WHERE name = 'schema-version'";

/// Returns the statements of the first version. `rowhouse_tables` keeps a deleted table until its last entity has been
/// removed. Names are unique among the tables that are not deleted.
fn first(dialect: Dialect) -> Vec<String> {
    let ascending = dialect.ascending();
    vec![
        "CREATE TABLE IF NOT EXISTS rowhouse_tables (id bigint PRIMARY KEY, account bytea NOT NULL, \
         folded bytea NOT NULL, name text NOT NULL, policies bytea NOT NULL, created bigint NOT NULL, \
         is_deleted boolean NOT NULL)"
            .to_owned(),
        format!(
            "CREATE UNIQUE INDEX IF NOT EXISTS rowhouse_tables_by_name ON rowhouse_tables \
             (account{ascending}, folded{ascending}) WHERE NOT is_deleted"
        ),
        "CREATE INDEX IF NOT EXISTS rowhouse_tables_deleted ON rowhouse_tables (id) WHERE is_deleted".to_owned(),
        "CREATE TABLE IF NOT EXISTS rowhouse_service_properties (account bytea PRIMARY KEY, value bytea NOT NULL)"
            .to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS rowhouse_entities (partition bytea NOT NULL, row bytea NOT NULL, \
             record bytea NOT NULL, PRIMARY KEY (partition{ascending}, row{ascending}))"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS rowhouse_graves (partition bytea NOT NULL, bucket smallint NOT NULL, \
             stamp bigint NOT NULL, PRIMARY KEY (partition{ascending}, bucket{ascending}))"
        ),
        "INSERT INTO rowhouse_meta (name, value) VALUES ('last-table-id', 0), ('last-sweep', 0) ON CONFLICT (name) DO NOTHING".to_owned(),
    ]
}

/// Returns the statements of the second version: every stamp of a table is at least its `stamp_floor` and below its
/// `stamp_ceiling`. A deleted table's upper bound is kept in `rowhouse_floors` for the next table with the same name.
/// Stamps that a table issued before it had an upper bound may exceed that bound until the table is written to again.
fn second(dialect: Dialect) -> Vec<String> {
    let ascending = dialect.ascending();
    vec![
        "ALTER TABLE rowhouse_tables ADD COLUMN IF NOT EXISTS stamp_floor bigint NOT NULL DEFAULT 0".to_owned(),
        "ALTER TABLE rowhouse_tables ADD COLUMN IF NOT EXISTS stamp_ceiling bigint NOT NULL DEFAULT 0".to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS rowhouse_floors (account bytea NOT NULL, folded bytea NOT NULL, \
             stamp bigint NOT NULL, PRIMARY KEY (account{ascending}, folded{ascending}))"
        ),
    ]
}

/// Returns the statements of the third version: the leases of servers replace the mechanisms that previously kept
/// stamps unique. Every slot starts after all stamps of earlier versions.
fn third(dialect: Dialect) -> Vec<String> {
    // The lock waits for operations that a server of an older version has begun, and prevents such a server, if it is
    // still running, from writing again. YugabyteDB has no such lock.
    let lock = "LOCK TABLE rowhouse_tables, rowhouse_graves, rowhouse_floors IN ACCESS EXCLUSIVE MODE";
    vec![
        if dialect == Dialect::YugabyteDb { String::new() } else { lock.to_owned() },
        "CREATE TABLE IF NOT EXISTS rowhouse_leases (number smallint PRIMARY KEY, holder bigint, \
         renewed timestamptz, reserved bigint NOT NULL)"
            .to_owned(),
        format!(
            "INSERT INTO rowhouse_leases (number, reserved) SELECT n, GREATEST(0, \
             (SELECT max(stamp_ceiling) FROM rowhouse_tables), (SELECT max(stamp) FROM rowhouse_floors), \
             (SELECT max(stamp) + 1 FROM rowhouse_graves)) FROM generate_series(0, {PURGE_LEASE}) AS n \
             ON CONFLICT DO NOTHING"
        ),
        "DROP TABLE IF EXISTS rowhouse_graves, rowhouse_floors".to_owned(),
        "ALTER TABLE rowhouse_tables DROP COLUMN IF EXISTS created, DROP COLUMN IF EXISTS stamp_floor, \
         DROP COLUMN IF EXISTS stamp_ceiling"
            .to_owned(),
        "DELETE FROM rowhouse_meta WHERE name = 'last-sweep'".to_owned(),
    ]
}

/// Returns the statements of the fourth version: the settings of each table, which a commit has to take into account,
/// and indexes. The default settings have no bytes. `generation` counts their changes. An index is kept until its last
/// entry has been removed.
fn fourth(dialect: Dialect) -> Vec<String> {
    let ascending = dialect.ascending();
    vec![
        "ALTER TABLE rowhouse_tables ADD COLUMN IF NOT EXISTS settings bytea NOT NULL DEFAULT ''".to_owned(),
        "ALTER TABLE rowhouse_tables ADD COLUMN IF NOT EXISTS generation bigint NOT NULL DEFAULT 0".to_owned(),
        "CREATE TABLE IF NOT EXISTS rowhouse_indexes (id bigint PRIMARY KEY, table_id bigint NOT NULL, \
         property text NOT NULL, is_ready boolean NOT NULL, built_before bytea NOT NULL, removed timestamptz)"
            .to_owned(),
        "CREATE INDEX IF NOT EXISTS rowhouse_indexes_by_table ON rowhouse_indexes (table_id)".to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS rowhouse_index_entries (partition bytea NOT NULL, row bytea NOT NULL, \
             index_id bigint NOT NULL, value bytea NOT NULL, \
             PRIMARY KEY (partition{ascending}, row{ascending}, index_id{ascending}))"
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS rowhouse_index_entries_by_value ON rowhouse_index_entries \
             (index_id{ascending}, value{ascending}, partition{ascending}, row{ascending})"
        ),
        format!("INSERT INTO rowhouse_leases (number, reserved) VALUES ({INDEX_LEASE}, 0) ON CONFLICT DO NOTHING"),
        function::DROP_THIRD.to_owned(),
    ]
}

/// Returns whether the entities are distributed, and whether the entries of indexes and the current functions are. They
/// are distributed last.
const DISTRIBUTED: &str = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('rowhouse_entities')), \
     EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('rowhouse_index_entries')) \
     AND (SELECT count(*) = cardinality($1::text[]) FROM unnest($1::text[]) AS s JOIN pg_proc ON oid = to_regprocedure(s) \
          WHERE strpos(prosrc, $2::text) > 0)";

pub(crate) async fn migrate(client: &Client, dialect: Dialect, place: &str) -> Result<(), StoreError> {
    let mut attempt = 0;
    loop {
        match try_migrate(client, dialect, place).await {
            Ok(result) => return result,
            Err(error) => {
                // Another server is creating the same tables, or has just created them.
                let _no_transaction = client.batch_execute("ROLLBACK").await;
                attempt += 1;
                if attempt == ATTEMPTS_MAX || !is_a_race(&error) {
                    return Err(StoreError::from_postgres(place, &error));
                }
                tokio::time::sleep(jittered(ATTEMPT_WAIT)).await;
            }
        }
    }
}

async fn try_migrate(client: &Client, dialect: Dialect, place: &str) -> Result<Result<(), StoreError>, Error> {
    let newer = |found: i64| {
        StoreError::new(format!(
            "the database {place} has schema {found}, but this version of Rowhouse supports schemas up to \
             {SCHEMA_VERSION}; nothing was changed; use the newer version of Rowhouse that upgraded the schema"
        ))
    };
    match client.query_opt(READ_VERSION, &[]).await {
        Ok(Some(row)) => match row.try_get(0)? {
            SCHEMA_VERSION => return Ok(Ok(())),
            found if found > SCHEMA_VERSION => return Ok(Err(newer(found))),
            _older => {}
        },
        Ok(None) => {}
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => client.batch_execute(META).await?,
        Err(error) => return Err(error),
    }
    client
        .batch_execute(
            "INSERT INTO rowhouse_meta (name, value) VALUES ('schema-version', 0) ON CONFLICT (name) DO NOTHING",
        )
        .await?;
    let found: i64 = client.query_one(READ_VERSION, &[]).await?.try_get(0)?;
    if found == 1 {
        for statement in second(dialect) {
            client.batch_execute(&statement).await?;
        }
    }
    if found == 1 || found == 2 {
        upgrade::bound_stamps(client).await?;
    }
    client.batch_execute(begin(dialect)).await?;
    let found: i64 = client.query_one(&format!("{READ_VERSION} FOR UPDATE"), &[]).await?.try_get(0)?;
    if found > SCHEMA_VERSION {
        client.batch_execute("ROLLBACK").await?;
        return Ok(Err(newer(found)));
    }
    let steps: [fn(Dialect) -> Vec<String>; 4] = [first, second, third, fourth];
    for step in steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
        for statement in step(dialect) {
            client.batch_execute(&statement).await?;
        }
    }
    for definition in function::definitions(&Names::undistributed(client).await?) {
        client.batch_execute(&definition).await?;
    }
    let done = "UPDATE rowhouse_meta SET value = $1 WHERE name = 'schema-version'";
    client.execute(done, &[&SCHEMA_VERSION]).await?;
    client.batch_execute("COMMIT").await?;
    tracing::info!(version = SCHEMA_VERSION, "the schema was created or upgraded");
    Ok(Ok(()))
}

/// Begins a transaction that changes tables. By default, Citus would use several connections to a node, which do not
/// see each other's changes.
pub(crate) fn begin(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Citus => "BEGIN; SET LOCAL citus.multi_shard_modify_mode = sequential",
        Dialect::PostgreSql | Dialect::YugabyteDb => "BEGIN",
    }
}

/// Returns whether a statement failed because another server ran the same statement at the same time.
fn is_a_race(error: &Error) -> bool {
    const RACES: [SqlState; 7] = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::UNDEFINED_TABLE,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    error.code().is_some_and(|code| RACES.contains(code))
}

/// Returns whether the tables exist, whatever their version.
pub(crate) async fn exists(client: &Client) -> Result<bool, Error> {
    client.query_one("SELECT to_regclass('rowhouse_meta') IS NOT NULL", &[]).await?.try_get(0)
}

pub(crate) async fn is_current(client: &Client) -> Result<bool, Error> {
    if !exists(client).await? {
        return Ok(false);
    }
    let version = client.query_opt(READ_VERSION, &[]).await?;
    Ok(version.map(|row| row.try_get(0)).transpose()? == Some(SCHEMA_VERSION))
}

/// Returns whether the tables must be distributed but are not: either the option requests distribution, or an earlier
/// version distributed the tables.
pub(crate) async fn is_to_be_distributed(client: &Client, is_asked_for: bool) -> Result<bool, Error> {
    let row = client.query_one(DISTRIBUTED, &[&function::SIGNATURES.as_slice(), &function::STAY_CONDITION]).await?;
    let (entities, entries): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    Ok((is_asked_for || entities) && !entries)
}

/// Replicates the catalog to every node, after it was created again without the columns that were dropped. The shards
/// of a table have no dropped columns, and while Citus's decoder converts between the two forms, it miscounts its
/// memory until it never returns.
const REPLICATE_CATALOG: &str = "CREATE TABLE rowhouse_tables_rebuilt (LIKE rowhouse_tables INCLUDING ALL); \
     INSERT INTO rowhouse_tables_rebuilt SELECT * FROM rowhouse_tables; \
     DROP TABLE rowhouse_tables; \
     ALTER TABLE rowhouse_tables_rebuilt RENAME TO rowhouse_tables; \
     SELECT create_reference_table('rowhouse_tables')";

/// Distributes the entities and the entries of indexes over the Citus workers by their partition, and the leases by
/// their number, so that none of them depends on the coordinator. The small tables are replicated to every node. Tables
/// that are already distributed are not changed. Servers take turns.
pub(crate) async fn distribute(client: &Client, place: &str) -> Result<(), StoreError> {
    let error = |error| StoreError::from_postgres(place, &error);
    client.batch_execute(begin(Dialect::Citus)).await.map_err(error)?;
    let steps = [
        ("rowhouse_tables", REPLICATE_CATALOG),
        ("rowhouse_meta", "SELECT create_reference_table('rowhouse_meta')"),
        ("rowhouse_service_properties", "SELECT create_reference_table('rowhouse_service_properties')"),
        ("rowhouse_indexes", "SELECT create_reference_table('rowhouse_indexes')"),
        ("rowhouse_entities", "SELECT create_distributed_table('rowhouse_entities', 'partition')"),
        (
            "rowhouse_leases",
            "SELECT create_distributed_table('rowhouse_leases', 'number', colocate_with => 'none', shard_count => 16)",
        ),
        (
            "rowhouse_index_entries",
            "SELECT create_distributed_table('rowhouse_index_entries', 'partition', colocate_with => 'rowhouse_entities')",
        ),
    ];
    for (table, step) in steps {
        let known = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = $1::text::regclass";
        if client.query_opt(known, &[&table]).await.map_err(error)?.is_none() {
            client.batch_execute(step).await.map_err(error)?;
            tracing::info!(table, "the table was distributed over the Citus nodes");
        }
    }
    let names = Names::query(client, Dialect::Citus).await.map_err(error)?;
    for (definition, signature) in function::definitions(&names).iter().zip(function::SIGNATURES) {
        client.batch_execute(definition).await.map_err(error)?;
        let distributed = format!(
            "SELECT create_distributed_function('{}.{signature}', '_partition', colocate_with => 'rowhouse_entities')",
            names.schema
        );
        client.batch_execute(&distributed).await.map_err(error)?;
    }
    client.batch_execute("COMMIT").await.map_err(error)
}
