//! Begins the change log.
//!
//! A log has a name, which is also the name of its replication slot and of its publication. The name is stored before
//! the slot is created, so that a slot is found again whatever happens. A log whose slot is missing or has lost data is
//! replaced by a new one.

use crate::StoreError;
use crate::connections::dialect::Dialect;
use crate::connections::replication::{Replication, ReplicationError};
use crate::connections::settings::Settings;
use crate::schema::opening::Session;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// The first version of PostgreSQL whose output plugin sends binary values and messages of sessions.
const VERSION_MIN: i32 = 140_000;
/// The maximum time to wait for the transactions that were running when a log began.
const SLOT_TIME_MAX: Duration = Duration::from_secs(60);

/// Acquires a lock whose number must not be used for anything else.
pub(crate) const TAKE_TURNS: &str = "SELECT pg_advisory_lock(hashtextextended('rowhouse change log', 0))";
const REQUIREMENTS: &str = "SELECT current_setting('wal_level'), current_setting('server_version_num')::integer, \
     current_setting('max_slot_wal_keep_size')";
/// Returns the name of the log, whether it is complete, and whether its slot has lost nothing.
const LOG: &str = "SELECT l.name, l.is_ready, s.slot_name IS NOT NULL, coalesce(s.wal_status <> 'lost', false) \
     FROM rowhouse_change_log AS l \
     LEFT JOIN pg_replication_slots AS s ON s.slot_name = l.name AND s.database = current_database()";
const EXISTS: &str = "SELECT to_regclass('rowhouse_change_log') IS NOT NULL";

/// Creates the tables of the log. They are not part of the schema of servers that keep no log.
const TABLES: &str = "CREATE TABLE rowhouse_changes (position bigint PRIMARY KEY, time bigint NOT NULL, \
       account text NOT NULL, name text, changes bytea NOT NULL); \
     CREATE INDEX rowhouse_changes_deletions ON rowhouse_changes (account, lower(name COLLATE \"C\"), position) \
       WHERE substr(changes, 1, 1) = '\\x05'; \
     CREATE TABLE rowhouse_change_tables (id bigint PRIMARY KEY, account text NOT NULL, name text NOT NULL); \
     CREATE TABLE rowhouse_change_log (id smallint PRIMARY KEY, name text NOT NULL, is_ready boolean NOT NULL, \
       first bigint NOT NULL, next bigint NOT NULL, time bigint NOT NULL, decoded bigint NOT NULL, \
       bytes bigint NOT NULL); \
     INSERT INTO rowhouse_leases (number, reserved, renewed) VALUES (66, 0, now()) ON CONFLICT DO NOTHING";

/// Makes sure that there is a log whose slot has lost nothing. Servers take turns.
pub(crate) async fn prepare(settings: &Settings, dialect: Dialect) -> Result<(), StoreError> {
    let error = |error| StoreError::from_postgres(&settings.place, &error);
    if dialect != Dialect::PostgreSql {
        return Err(StoreError::new(format!(
            "--keep-log is not supported on {} yet; omit it",
            if dialect == Dialect::Citus { "Citus" } else { "YugabyteDB" }
        )));
    }
    let session = Session::open(settings, &settings.config).await?;
    let client = &session.client;
    check_requirements(client, settings).await?;
    client.batch_execute(TAKE_TURNS).await.map_err(error)?;
    if !client.query_one(EXISTS, &[]).await.and_then(|row| row.try_get(0)).map_err(error)? {
        // The statements are one transaction.
        client.batch_execute(TABLES).await.map_err(error)?;
    }
    let log = client.query_opt(LOG, &[]).await.map_err(error)?;
    let mut before = None;
    if let Some(log) = &log {
        let (is_ready, has_slot): (bool, bool) = (log.try_get(1).map_err(error)?, log.try_get(2).map_err(error)?);
        let is_complete: bool = log.try_get(3).map_err(error)?;
        if is_ready && is_complete {
            session.close().await;
            return Ok(());
        }
        let name: String = log.try_get(0).map_err(error)?;
        if is_ready {
            tracing::warn!(
                slot = name,
                "the database has lost changes that were not decoded yet (max_slot_wal_keep_size), or the replication \
                 slot was removed; a new change log begins, and all earlier positions are dropped"
            );
        }
        if has_slot {
            client.execute("SELECT pg_drop_replication_slot($1)", &[&name]).await.map_err(error)?;
        }
        before = Some(name);
    }
    begin(client, settings, before.as_deref()).await?;
    session.close().await;
    Ok(())
}

async fn check_requirements(client: &Client, settings: &Settings) -> Result<(), StoreError> {
    let place = &settings.place;
    let error = |error| StoreError::from_postgres(place, &error);
    let row = client.query_one(REQUIREMENTS, &[]).await.map_err(error)?;
    let version: i32 = row.try_get(1).map_err(error)?;
    if version < VERSION_MIN {
        return Err(StoreError::new(format!(
            "--keep-log needs PostgreSQL 14 or later, but the database {place} has version {}",
            version / 10_000
        )));
    }
    let level: &str = row.try_get(0).map_err(error)?;
    if level != "logical" {
        return Err(StoreError::new(format!(
            "--keep-log needs wal_level = logical, but the database {place} has wal_level = {level}; run ALTER SYSTEM \
             SET wal_level = logical and restart the database, or omit --keep-log"
        )));
    }
    if row.try_get::<_, &str>(2).map_err(error)? == "-1" {
        tracing::warn!(
            "max_slot_wal_keep_size is not limited in the database: while no server decodes its log, the log grows \
             until the disk is full"
        );
    }
    Ok(())
}

/// Begins a new log that replaces the one with the given name.
async fn begin(client: &Client, settings: &Settings, before: Option<&str>) -> Result<(), StoreError> {
    let error = |error: tokio_postgres::Error| match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => StoreError::new(format!(
            "the user may not keep a change log in the database {}: {}; the user needs REPLICATION (ALTER ROLE … \
             REPLICATION) and CREATE on the database (GRANT CREATE ON DATABASE … TO …), and must own the tables",
            settings.place,
            crate::connections::attempt::describe(&error)
        )),
        _ => StoreError::from_postgres(&settings.place, &error),
    };
    let refused = |refusal: ReplicationError| {
        StoreError::new(format!(
            "the change log of the database {} cannot be decoded: {refusal}; the user needs REPLICATION (ALTER ROLE … \
             REPLICATION), and max_wal_senders and max_replication_slots must not be used up",
            settings.place
        ))
    };
    // Connect first, so that a missing permission is reported before anything is changed.
    let mut stream = Replication::open(settings).await.map_err(refused)?;
    let name = format!("rowhouse_{:016x}", RandomState::new().build_hasher().finish());
    let forget = before.map(|name| format!("DROP PUBLICATION IF EXISTS \"{name}\";")).unwrap_or_default();
    // A table that is replicated as a whole row gets a lock that waits for all its readers, so this is done once.
    let is_whole: bool = client
        .query_one("SELECT relreplident = 'f' FROM pg_class WHERE oid = 'rowhouse_tables'::regclass", &[])
        .await
        .and_then(|row| row.try_get(0))
        .map_err(error)?;
    let identity = if is_whole { "" } else { "ALTER TABLE rowhouse_tables REPLICA IDENTITY FULL;" };
    let announced = client
        .batch_execute(&format!(
            "BEGIN; SET LOCAL lock_timeout = '10s'; {forget} {identity} \
             INSERT INTO rowhouse_change_log (id, name, is_ready, first, next, time, decoded, bytes) \
             VALUES (0, '{name}', false, 0, 0, 0, 0, 0) \
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, is_ready = false; \
             CREATE PUBLICATION \"{name}\" FOR TABLE rowhouse_entities, rowhouse_tables, rowhouse_service_properties \
             WITH (publish = 'insert, update, delete'); COMMIT"
        ))
        .await;
    announced.map_err(error)?;
    let created = timeout(SLOT_TIME_MAX, stream.create_slot(&name)).await.map_err(|_| {
        StoreError::new(format!(
            "the change log of the database {} cannot begin while a transaction is running that began before it; see \
             pg_stat_activity",
            settings.place
        ))
    })?;
    let slot = created.map_err(refused)?;
    // The tables and the slot show the same instant.
    let stored = client
        .batch_execute(&format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{}'; \
             DELETE FROM rowhouse_change_tables; \
             INSERT INTO rowhouse_change_tables (id, account, name) \
             SELECT id, convert_from(account, 'UTF8'), name FROM rowhouse_tables WHERE NOT is_deleted; \
             UPDATE rowhouse_change_log AS l SET is_ready = true, decoded = {}, first = n.next, next = n.next FROM \
             (SELECT GREATEST(next + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS next \
              FROM rowhouse_change_log) AS n; COMMIT",
            slot.snapshot,
            slot.begin.cast_signed()
        ))
        .await;
    stored.map_err(error)?;
    tracing::info!(slot = name, "the change log begins");
    Ok(())
}
