//! The tables in the database, and how they are created: in numbered steps, each done once, by the server that is first.
//!
//! Servers that start at the same time take turns by locking one row, which every database of this protocol can. Every
//! step can be repeated, because not every database rolls a change of tables back with its transaction.

use super::StoreError;
use super::attempt::jittered;
use super::dialect::Dialect;
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// The version that this code creates and reads.
pub(super) const SCHEMA_VERSION: i64 = 2;
/// How often the creation of the tables is tried again when other servers do the same.
const ATTEMPTS_MAX: u32 = 40;
/// The wait between two attempts.
const ATTEMPT_WAIT: Duration = Duration::from_millis(200);

const META: &str = "CREATE TABLE IF NOT EXISTS rowhouse_meta (name text PRIMARY KEY, value bigint NOT NULL)";
const READ_VERSION: &str = "SELECT value FROM rowhouse_meta WHERE name = 'schema-version'";

/// The first version. `rowhouse_tables` keeps a deleted table until the last of its entities is gone; names are unique
/// among the tables that are not deleted.
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

/// The second version: every stamp of a table is at least its `stamp_floor` and below its `stamp_ceiling`. The upper bound of a
/// deleted table is kept in `rowhouse_floors` for the next one of its name. Stamps from the time before a table had an upper
/// bound are not below it until the table is written to again.
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

/// Creates or upgrades the tables, unless they are up to date.
pub(super) async fn migrate(client: &Client, dialect: Dialect, place: &str) -> Result<(), StoreError> {
    let mut attempt = 0;
    loop {
        match try_migrate(client, dialect, place).await {
            Ok(result) => return result,
            Err(error) => {
                // Another server is creating the same tables, or has just created them.
                let _no_transaction = client.batch_execute("ROLLBACK").await;
                attempt += 1;
                if attempt == ATTEMPTS_MAX || !is_a_race(&error) {
                    return Err(StoreError::of(place, &error));
                }
                tokio::time::sleep(jittered(ATTEMPT_WAIT)).await;
            }
        }
    }
}

async fn try_migrate(
    client: &Client,
    dialect: Dialect,
    place: &str,
) -> Result<Result<(), StoreError>, tokio_postgres::Error> {
    let newer = |found| StoreError::NewerSchema { place: place.to_owned(), found, known: SCHEMA_VERSION };
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
    client.batch_execute("BEGIN").await?;
    let found: i64 = client.query_one(&format!("{READ_VERSION} FOR UPDATE"), &[]).await?.try_get(0)?;
    if found > SCHEMA_VERSION {
        client.batch_execute("ROLLBACK").await?;
        return Ok(Err(newer(found)));
    }
    let steps: [fn(Dialect) -> Vec<String>; 2] = [first, second];
    for step in steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
        for statement in step(dialect) {
            client.batch_execute(&statement).await?;
        }
    }
    let done = "UPDATE rowhouse_meta SET value = $1 WHERE name = 'schema-version'";
    client.execute(done, &[&SCHEMA_VERSION]).await?;
    client.batch_execute("COMMIT").await?;
    tracing::info!(version = SCHEMA_VERSION, "the schema was created or upgraded");
    Ok(Ok(()))
}

/// Whether a statement failed because another server did the same at the same time.
fn is_a_race(error: &tokio_postgres::Error) -> bool {
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

/// Distributes the entities over the workers of Citus by their partition. Small tables stay on the coordinator, through which
/// every statement passes, and where rows are locked as in PostgreSQL: in a table that is copied to all workers, the lock of a
/// row would be one of the whole table. Tables that are already distributed stay as they are.
pub(super) async fn distribute(client: &Client, place: &str) -> Result<(), StoreError> {
    let error = |error| StoreError::of(place, &error);
    client.batch_execute("BEGIN").await.map_err(error)?;
    client.query_one(&format!("{READ_VERSION} FOR UPDATE"), &[]).await.map_err(error)?;
    let steps = [
        ("rowhouse_entities", "SELECT create_distributed_table('rowhouse_entities', 'partition')"),
        (
            "rowhouse_graves",
            "SELECT create_distributed_table('rowhouse_graves', 'partition', colocate_with => 'rowhouse_entities')",
        ),
    ];
    for (table, step) in steps {
        let known = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = $1::text::regclass";
        if client.query_opt(known, &[&table]).await.map_err(error)?.is_none() {
            client.batch_execute(step).await.map_err(error)?;
            tracing::info!(table, "the table was distributed over the workers of Citus");
        }
    }
    client.batch_execute("COMMIT").await.map_err(error)
}
