//! Begins the change log.
//!
//! A log has a name, which is also the name of its publication, and of its replication slot on each node. The name is
//! stored before the slots are created, so that they are found again whatever happens. A log of which a slot is missing
//! or has lost data is replaced by a new one.
//!
//! On Citus, the tables of the log are on one worker, and the publication is on all nodes.

use crate::StoreError;
use crate::changes::nodes::LogNode;
use crate::changes::order::Orders;
use crate::connections::replication::{Replication, ReplicationError};
use crate::connections::settings::Settings;
use crate::schema::opening::Session;
use crate::state::unique_number;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// The first version of PostgreSQL whose output plugin sends binary values and messages of sessions.
const VERSION_MIN: i32 = 140_000;
/// The maximum time to wait for the transactions that were running when a log began.
const SLOT_TIME_MAX: Duration = Duration::from_mins(1);

/// Acquires a lock whose number must not be used for anything else.
pub(crate) const TAKE_TURNS: &str = "SELECT pg_advisory_lock(hashtextextended('rowhouse change log', 0))";
const REQUIREMENTS: &str = "SELECT current_setting('wal_level'), current_setting('server_version_num')::integer, \
     current_setting('max_slot_wal_keep_size'), current_setting('citus.enable_change_data_capture', true)";
/// Returns the name of the log and whether it is complete.
const LOG: &str = "SELECT name, is_ready FROM rowhouse_change_log";
const EXISTS: &str = "SELECT to_regclass('rowhouse_change_log') IS NOT NULL";
/// Returns whether the tables of the log are on a worker.
const IS_DISTRIBUTED: &str =
    "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('rowhouse_change_log'))";

/// Creates the tables of the log. They are not part of the schema of servers that keep no log.
const TABLES: &str = "CREATE TABLE rowhouse_changes (position bigint PRIMARY KEY, time bigint NOT NULL, \
       account text NOT NULL, name text, changes bytea NOT NULL); \
     CREATE INDEX rowhouse_changes_deletions ON rowhouse_changes (account, lower(name COLLATE \"C\"), position) \
       WHERE substr(changes, 1, 1) = '\\x05'; \
     CREATE TABLE rowhouse_change_tables (id bigint PRIMARY KEY, account text NOT NULL, name text NOT NULL); \
     CREATE TABLE rowhouse_change_nodes (node integer PRIMARY KEY, decoded bigint NOT NULL); \
     CREATE TABLE rowhouse_change_log (id smallint PRIMARY KEY, name text NOT NULL, is_ready boolean NOT NULL, \
       first bigint NOT NULL, next bigint NOT NULL, time bigint NOT NULL, bytes bigint NOT NULL, \
       last_table bigint NOT NULL, placements text NOT NULL);";
/// Puts the tables of the log on one worker, so that they are changed together.
const DISTRIBUTE: &str = "SELECT create_distributed_table('rowhouse_changes', NULL, colocate_with => 'none'); \
     SELECT create_distributed_table('rowhouse_change_tables', NULL, colocate_with => 'rowhouse_changes'); \
     SELECT create_distributed_table('rowhouse_change_nodes', NULL, colocate_with => 'rowhouse_changes'); \
     SELECT create_distributed_table('rowhouse_change_log', NULL, colocate_with => 'rowhouse_changes');";
pub(crate) const DROP_TABLES: &str =
    "DROP TABLE rowhouse_changes, rowhouse_change_tables, rowhouse_change_nodes, rowhouse_change_log";
const LEASE: &str =
    "INSERT INTO rowhouse_leases (number, reserved, renewed) VALUES (66, 0, now()) ON CONFLICT DO NOTHING";

const ANNOUNCE: &str = "INSERT INTO rowhouse_change_log \
       (id, name, is_ready, first, next, time, bytes, last_table, placements) \
     VALUES (0, $1, false, 0, 0, 0, 0, 0, $2) \
     ON CONFLICT (id) DO UPDATE SET name = excluded.name, is_ready = false, placements = excluded.placements";
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT";
const CATALOG: &str = "SELECT id, convert_from(account, 'UTF8'), name FROM rowhouse_tables WHERE NOT is_deleted";
const LAST_TABLE: &str = "SELECT value FROM rowhouse_meta WHERE name = 'last-table-id'";
/// Begins the log `$1` with the last table `$2`, the tables `$3` to `$5`, and the positions `$7` of the nodes `$6`.
const BEGIN_LOG: &str = "WITH tables AS (INSERT INTO rowhouse_change_tables (id, account, name) \
       SELECT n.id, n.account, n.name FROM unnest($3::bigint[], $4::text[], $5::text[]) AS n (id, account, name)), \
     nodes AS (INSERT INTO rowhouse_change_nodes (node, decoded) \
       SELECT n.node, n.decoded FROM unnest($6::integer[], $7::bigint[]) AS n (node, decoded)) \
     UPDATE rowhouse_change_log SET is_ready = true, last_table = $2, bytes = 0, time = 0, \
       first = GREATEST(next + 1, (extract(epoch FROM now()) * 1000000)::bigint), \
       next = GREATEST(next + 1, (extract(epoch FROM now()) * 1000000)::bigint) WHERE name = $1 RETURNING first";
/// Notes where the log begins. If this does not happen, readers treat changes before its first position as dropped.
const NOTE_BEGINNING: &str = "INSERT INTO rowhouse_meta (name, value) VALUES ('change-log-beginning', $1) \
     ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// Makes sure that there is a log whose slots have lost nothing. Servers take turns.
pub(crate) async fn prepare(settings: &Settings, orders: &dyn Orders, is_distributed: bool) -> Result<(), StoreError> {
    let error = |error| StoreError::from_postgres(&settings.place, &error);
    let session = Session::open(settings).await?;
    let nodes = orders.nodes(&session.client, settings).await.map_err(error)?;
    let is_usable = is_usable(&session.client, &nodes, is_distributed).await.map_err(error)?;
    session.close().await;
    for node in &nodes {
        match check_requirements(node, is_distributed).await {
            // The log can be decoded when the node responds again.
            Err(error) if is_usable && error.is_transient => {
                tracing::warn!(node = node.settings.place, %error, "the change log of a node cannot be checked");
            }
            checked => checked?,
        }
    }
    if is_usable {
        return Ok(());
    }
    let home = LogNode::home(&nodes, settings)?;
    let session = home.session().await?;
    session.client.batch_execute(TAKE_TURNS).await.map_err(error)?;
    // Another server may have done it.
    if !self::is_usable(&session.client, &nodes, is_distributed).await.map_err(error)? {
        let client = &session.client;
        Beginning { client, settings, orders, home, nodes: &nodes, is_distributed }.run().await?;
    }
    session.close().await;
    Ok(())
}

/// Returns whether there is a log that can be decoded. A node that does not respond is assumed to have its slot.
async fn is_usable(client: &Client, nodes: &[LogNode], is_distributed: bool) -> Result<bool, tokio_postgres::Error> {
    if !exists(client).await? || is_distributed != is_on_worker(client, is_distributed).await? {
        return Ok(false);
    }
    let Some(log) = client.query_opt(LOG, &[]).await? else { return Ok(false) };
    let (name, is_ready): (String, bool) = (log.try_get(0)?, log.try_get(1)?);
    if !is_ready {
        return Ok(false);
    }
    let decoded = client.query("SELECT node FROM rowhouse_change_nodes", &[]).await?;
    let decoded: Vec<i32> = decoded.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    for node in nodes.iter().filter(|node| decoded.contains(&node.group)) {
        if !node.has_slot(&name, false).await.unwrap_or(true) {
            tracing::warn!(
                slot = name,
                node = node.settings.place,
                "the database has lost changes that were not decoded yet (max_slot_wal_keep_size), or the replication \
                 slot was removed; a new change log begins, and all earlier positions are dropped"
            );
            return Ok(false);
        }
    }
    Ok(true)
}

async fn exists(client: &Client) -> Result<bool, tokio_postgres::Error> {
    client.query_one(EXISTS, &[]).await?.try_get(0)
}

async fn is_on_worker(client: &Client, is_distributed: bool) -> Result<bool, tokio_postgres::Error> {
    if !is_distributed {
        return Ok(false);
    }
    client.query_one(IS_DISTRIBUTED, &[]).await?.try_get(0)
}

/// Checks what a node needs so that its log can be decoded.
async fn check_requirements(node: &LogNode, is_distributed: bool) -> Result<(), StoreError> {
    let place = &node.settings.place;
    let error = |error| StoreError::from_postgres(place, &error);
    let session = node.session().await?;
    let row = session.client.query_one(REQUIREMENTS, &[]).await.map_err(error)?;
    session.close().await;
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
    let capture: Option<&str> = row.try_get(3).map_err(error)?;
    if is_distributed && capture != Some("on") {
        return Err(StoreError::new(format!(
            "on Citus 12 or later, --keep-log needs citus.enable_change_data_capture = on on every node, but the \
             database {place} does not have it; add it to postgresql.conf and reload the configuration, or omit \
             --keep-log"
        )));
    }
    if row.try_get::<_, &str>(2).map_err(error)? == "-1" {
        tracing::warn!(
            node = place,
            "max_slot_wal_keep_size is not limited in the database: while no server decodes its log, the log grows \
             until the disk is full"
        );
    }
    Ok(())
}

/// The beginning of a new log.
struct Beginning<'a> {
    client: &'a Client,
    settings: &'a Settings,
    orders: &'a dyn Orders,
    /// The node that sends the changes of the catalog.
    home: &'a LogNode,
    nodes: &'a [LogNode],
    is_distributed: bool,
}

impl Beginning<'_> {
    async fn run(&self) -> Result<(), StoreError> {
        // Connect first, so that a missing permission is reported before anything is changed.
        let mut streams = Vec::new();
        for node in self.nodes {
            streams.push((node, node.replication().await?));
        }
        let order = self.orders.begin(self.client, self.settings).await?;
        let before = self.create_tables().await.map_err(|error| self.failed(&error))?;
        for node in self.nodes {
            if let Some(name) = &before {
                node.drop_slot(name).await?;
            }
        }
        let name = format!("rowhouse_{:016x}", unique_number());
        let announced = self.announce(&name, before.as_deref(), &order).await;
        announced.map_err(|error| self.failed(&error))?;
        // The catalog is read as of the last slot, so that no table is missing whose changes are in the log.
        streams.sort_by_key(|(node, _)| node.group == self.home.group);
        let (mut groups, mut positions, mut snapshot) = (Vec::new(), Vec::new(), String::new());
        for (node, stream) in &mut streams {
            let slot = create_slot(node, stream, &name).await?;
            groups.push(node.group);
            positions.push(slot.0.cast_signed());
            snapshot = slot.1;
        }
        let stored = self.store(&name, &snapshot, &groups, &positions).await;
        stored.map_err(|error| self.failed(&error))?;
        tracing::info!(slot = name, nodes = self.nodes.len(), "the change log begins");
        Ok(())
    }

    /// Returns the name of the previous log.
    async fn create_tables(&self) -> Result<Option<String>, tokio_postgres::Error> {
        let mut before = None;
        if exists(self.client).await? {
            if let Some(log) = self.client.query_opt(LOG, &[]).await? {
                before = Some(log.try_get(0)?);
            }
            if self.is_distributed == is_on_worker(self.client, self.is_distributed).await? {
                return Ok(before);
            }
            self.client.batch_execute(DROP_TABLES).await?;
        }
        let (begin, distribute) = if self.is_distributed {
            ("BEGIN; SET LOCAL citus.multi_shard_modify_mode = sequential;", DISTRIBUTE)
        } else {
            ("BEGIN;", "")
        };
        self.client.batch_execute(LEASE).await?;
        self.client.batch_execute(&format!("{begin} {TABLES} {distribute} COMMIT")).await?;
        Ok(before)
    }

    async fn announce(&self, name: &str, before: Option<&str>, order: &str) -> Result<(), tokio_postgres::Error> {
        self.client.execute(ANNOUNCE, &[&name, &order]).await?;
        // A table that is replicated as a whole row gets a lock that waits for all its readers, so this is done once.
        let whole = "SELECT relreplident = 'f' FROM pg_class WHERE oid = 'rowhouse_tables'::regclass";
        let is_whole: bool = self.client.query_one(whole, &[]).await?.try_get(0)?;
        let mut statements = vec!["BEGIN".to_owned(), "SET LOCAL lock_timeout = '10s'".to_owned()];
        statements.extend(before.map(|name| format!("DROP PUBLICATION IF EXISTS \"{name}\"")));
        if !is_whole {
            statements.push("ALTER TABLE rowhouse_tables REPLICA IDENTITY FULL".to_owned());
        }
        statements.push(format!(
            "CREATE PUBLICATION \"{name}\" FOR TABLE rowhouse_entities, rowhouse_tables, rowhouse_service_properties \
             WITH (publish = 'insert, update, delete')"
        ));
        statements.push("COMMIT".to_owned());
        // Citus forwards the text in which a statement is contained, so each is sent separately.
        for statement in statements {
            self.client.batch_execute(&statement).await?;
        }
        Ok(())
    }

    async fn store(
        &self,
        name: &str,
        snapshot: &str,
        groups: &[i32],
        positions: &[i64],
    ) -> Result<(), tokio_postgres::Error> {
        // The tables and the slot show the same instant.
        self.client.batch_execute(&format!("{BEGIN_SNAPSHOT} '{snapshot}'")).await?;
        let (mut ids, mut accounts, mut names) = (Vec::<i64>::new(), Vec::<String>::new(), Vec::<String>::new());
        for row in self.client.query(CATALOG, &[]).await? {
            ids.push(row.try_get(0)?);
            accounts.push(row.try_get(1)?);
            names.push(row.try_get(2)?);
        }
        let last: i64 = self.client.query_one(LAST_TABLE, &[]).await?.try_get(0)?;
        self.client
            .batch_execute("COMMIT; DELETE FROM rowhouse_change_tables; DELETE FROM rowhouse_change_nodes")
            .await?;
        let begun = self.client.query(BEGIN_LOG, &[&name, &last, &ids, &accounts, &names, &groups, &positions]).await?;
        if let Some(row) = begun.first() {
            self.client.execute(NOTE_BEGINNING, &[&row.try_get::<_, i64>(0)?]).await?;
        }
        Ok(())
    }

    fn failed(&self, error: &tokio_postgres::Error) -> StoreError {
        match error.code() {
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => StoreError::new(format!(
                "the user may not keep a change log in the database {}: {}; the user needs REPLICATION (ALTER ROLE … \
                 REPLICATION) and CREATE on the database (GRANT CREATE ON DATABASE … TO …), and must own the tables",
                self.settings.place,
                crate::connections::attempt::describe(error)
            )),
            _ => StoreError::from_postgres(&self.settings.place, error),
        }
    }
}

/// Creates the slot of a node that was added. Returns the position at which it begins.
pub async fn add_slot(node: &LogNode, name: &str) -> Result<u64, StoreError> {
    node.drop_slot(name).await?;
    check_requirements(node, true).await?;
    let mut stream = node.replication().await?;
    Ok(create_slot(node, &mut stream, name).await?.0)
}

/// Creates a slot. Returns the position at which it begins, and the snapshot of that instant.
async fn create_slot(node: &LogNode, stream: &mut Replication, name: &str) -> Result<(u64, String), StoreError> {
    let place = &node.settings.place;
    let created = timeout(SLOT_TIME_MAX, stream.create_slot(name)).await.map_err(|_| {
        StoreError::new(format!(
            "the change log of the database {place} cannot begin while a transaction is running that began before it; \
             see pg_stat_activity"
        ))
    })?;
    let slot = created.map_err(|refusal: ReplicationError| node.refused(&refusal))?;
    Ok((slot.begin, slot.snapshot))
}
