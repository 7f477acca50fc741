//! The tables in the database, and their creation in numbered steps. Each step is performed once, by the first server.
//!
//! Servers that start at the same time take turns by locking a row, which every database with this protocol supports.
//! Every step can be repeated, because not every database rolls back schema changes with the transaction.

use crate::StoreError;
use crate::connections::attempt::jittered;
use crate::connections::dialect::Dialect;
use crate::schema::function;
use crate::schema::names::Names;
use crate::slot::INDEX_LEASE;
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// The maximum number of attempts to create the tables while other servers also create them.
const ATTEMPTS_MAX: u32 = 40;
const ATTEMPT_WAIT: Duration = Duration::from_millis(200);

const META: &str = "CREATE TABLE IF NOT EXISTS rowhouse_meta (name text PRIMARY KEY, value bigint NOT NULL)";
const READ_VERSION: &str = "SELECT value FROM rowhouse_meta WHERE name = 'version'";
/// Returns a row if a version before the first release created the tables, unless they have a version too. The first
/// release has another name for its versions, so that no schema is taken for another one.
const IS_UNRELEASED: &str = "SELECT 1 FROM rowhouse_meta WHERE name = 'schema-version'";
/// Adds the version of tables that do not exist yet. Versions before the first release look for the other name, and
/// would otherwise perform their steps on the tables; they refuse a number that they do not know.
const ADD_VERSION: &str = "INSERT INTO rowhouse_meta (name, value) VALUES ('version', 0), ('schema-version', 1000) \
     ON CONFLICT (name) DO NOTHING";

/// The steps to the current version. A step that was released is never changed; a change of the schema adds a step.
const STEPS: [Step; 1] = [first];

type Step = fn(Dialect) -> Vec<String>;

/// Returns the statements of the first version.
///
/// `rowhouse_tables` keeps a deleted table until its last entity has been removed. Names are unique among the tables
/// that are not deleted. The default settings have no bytes, and `generation` counts their changes. An index is kept
/// until its last entry has been removed.
fn first(dialect: Dialect) -> Vec<String> {
    let ascending = dialect.ascending();
    vec![
        "CREATE TABLE IF NOT EXISTS rowhouse_tables (id bigint PRIMARY KEY, account bytea NOT NULL, \
         folded bytea NOT NULL, name text NOT NULL, policies bytea NOT NULL, is_deleted boolean NOT NULL, \
         settings bytea NOT NULL DEFAULT '', generation bigint NOT NULL DEFAULT 0)"
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
        "INSERT INTO rowhouse_meta (name, value) VALUES ('last-table-id', 0) ON CONFLICT (name) DO NOTHING".to_owned(),
        "CREATE TABLE IF NOT EXISTS rowhouse_leases (number smallint PRIMARY KEY, holder bigint, \
         renewed timestamptz, reserved bigint NOT NULL)"
            .to_owned(),
        format!(
            "INSERT INTO rowhouse_leases (number, reserved) SELECT n, 0 FROM generate_series(0, {INDEX_LEASE}) AS n \
             ON CONFLICT DO NOTHING"
        ),
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
    ]
}

/// Returns whether the entities are distributed, and whether the entries of indexes and the current functions are. They
/// are distributed last.
const DISTRIBUTED: &str = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('rowhouse_entities')), \
     EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('rowhouse_index_entries')) \
     AND (SELECT count(*) = cardinality($1::text[]) FROM unnest($1::text[]) AS s JOIN pg_proc ON oid = to_regprocedure(s) \
          WHERE strpos(prosrc, $2::text) > 0)";

pub(crate) async fn migrate(client: &Client, dialect: Dialect, place: &str) -> Result<(), StoreError> {
    migrate_to(&STEPS, client, dialect, place).await
}

async fn migrate_to(steps: &[Step], client: &Client, dialect: Dialect, place: &str) -> Result<(), StoreError> {
    let mut attempt = 0;
    loop {
        match try_migrate(steps, client, dialect, place).await {
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

async fn try_migrate(
    steps: &[Step],
    client: &Client,
    dialect: Dialect,
    place: &str,
) -> Result<Result<(), StoreError>, Error> {
    let current = version_after(steps);
    let newer = |found: i64| {
        StoreError::new(format!(
            "the database {place} has schema {found}, but this version of Rowhouse supports schemas up to {current}; \
             nothing was changed; use the newer version of Rowhouse that upgraded the schema"
        ))
    };
    match client.query_opt(READ_VERSION, &[]).await {
        Ok(Some(row)) => match row.try_get(0)? {
            found if found == current => return Ok(Ok(())),
            found if found > current => return Ok(Err(newer(found))),
            _older => {}
        },
        Ok(None) if client.query_opt(IS_UNRELEASED, &[]).await?.is_some() => {
            return Ok(Err(StoreError::new(format!(
                "a development version of Rowhouse created the tables in the database {place}, which no released \
                 version can read; nothing was changed; start the development version on it again, and copy its tables \
                 into another database with rowhouse copy"
            ))));
        }
        Ok(None) => {}
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => client.batch_execute(META).await?,
        Err(error) => return Err(error),
    }
    client.batch_execute(ADD_VERSION).await?;
    client.batch_execute(begin(dialect)).await?;
    let found: i64 = client.query_one(&format!("{READ_VERSION} FOR UPDATE"), &[]).await?.try_get(0)?;
    if found > current {
        client.batch_execute("ROLLBACK").await?;
        return Ok(Err(newer(found)));
    }
    for step in steps.iter().skip(usize::try_from(found).unwrap_or(0)) {
        for statement in step(dialect) {
            client.batch_execute(&statement).await?;
        }
    }
    for definition in function::definitions(&Names::undistributed(client).await?) {
        client.batch_execute(&definition).await?;
    }
    client.execute("UPDATE rowhouse_meta SET value = $1 WHERE name = 'version'", &[&current]).await?;
    client.batch_execute("COMMIT").await?;
    tracing::info!(version = current, "the schema was created or upgraded");
    Ok(Ok(()))
}

fn version_after(steps: &[Step]) -> i64 {
    i64::try_from(steps.len()).unwrap_or(i64::MAX)
}

/// Begins a transaction that changes tables. By default, Citus would use several connections to a node, which do not
/// see each other's changes.
pub fn begin(dialect: Dialect) -> &'static str {
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
    Ok(version.map(|row| row.try_get(0)).transpose()? == Some(version_after(&STEPS)))
}

/// Returns whether the tables must be distributed but are not: either the option requests distribution, or the schema
/// of distributed tables was upgraded.
pub(crate) async fn is_to_be_distributed(client: &Client, is_asked_for: bool) -> Result<bool, Error> {
    let row = client.query_one(DISTRIBUTED, &[&function::SIGNATURES.as_slice(), &function::STAY_CONDITION]).await?;
    let (entities, entries): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    Ok((is_asked_for || entities) && !entries)
}

/// Distributes the entities and the entries of indexes over the Citus workers by their partition, and the leases by
/// their number, so that none of them depends on the coordinator. The small tables are replicated to every node. Tables
/// that are already distributed are not changed. Servers take turns.
pub(crate) async fn distribute(client: &Client, place: &str) -> Result<(), StoreError> {
    let error = |error| StoreError::from_postgres(place, &error);
    client.batch_execute(begin(Dialect::Citus)).await.map_err(error)?;
    let steps = [
        ("rowhouse_tables", "SELECT create_reference_table('rowhouse_tables')"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::settings::Settings;
    use crate::schema::opening::Session;
    use test_support::cluster::Cluster;

    /// A step that fails if it is performed twice.
    const NEXT: [Step; 2] = [first, |_| vec!["ALTER TABLE rowhouse_meta ADD COLUMN next text".to_owned()]];

    #[tokio::test(flavor = "multi_thread")]
    async fn each_step_is_performed_once_and_no_other_schema_is_taken_for_a_known_one() {
        let Some(cluster) = Cluster::shared() else { return };
        let url = cluster.database();
        let settings = Settings::new(&url, None).unwrap();
        let migrate = async |steps: &[Step]| {
            let session = Session::open(&settings).await.unwrap();
            let done = migrate_to(steps, &session.client, Dialect::PostgreSql, "here").await;
            session.close().await;
            done.map_err(|error| error.to_string())
        };
        for steps in [&STEPS[..], &NEXT[..]] {
            // Servers start at the same time.
            let (one, other) = tokio::join!(migrate(steps), migrate(steps));
            assert_eq!((one, other), (Ok(()), Ok(())));
            let version = cluster.sql(&url, "SELECT value FROM rowhouse_meta WHERE name = 'version'");
            assert_eq!(version.trim(), steps.len().to_string());
        }
        let newer = migrate(&STEPS).await.unwrap_err();
        assert!(newer.contains("schema 2") && newer.contains("use the newer version"), "{newer}");
        // The newest schema before the first release was 4.
        let guard = cluster.sql(&url, "SELECT value > 4 FROM rowhouse_meta WHERE name = 'schema-version'");
        assert_eq!(guard.trim(), "t", "a version before the first release would change the tables");
        cluster.sql(&url, "DELETE FROM rowhouse_meta WHERE name = 'version'");
        for version in 1..=4 {
            cluster.sql(&url, &format!("UPDATE rowhouse_meta SET value = {version} WHERE name = 'schema-version'"));
            let before = cluster.sql(&url, "SELECT * FROM rowhouse_meta ORDER BY name");
            let unreleased = migrate(&STEPS).await.unwrap_err();
            assert!(unreleased.contains("development version") && unreleased.contains("rowhouse copy"), "{unreleased}");
            assert_eq!(cluster.sql(&url, "SELECT * FROM rowhouse_meta ORDER BY name"), before);
        }
    }
}
