//! The nodes of the database whose logs are decoded: on Citus, all nodes; otherwise, the one that accepts writes.

use crate::StoreError;
use crate::connections::replication::{Replication, ReplicationError};
use crate::connections::settings::Settings;
use crate::schema::opening::Session;
use tokio_postgres::Error;

/// The group of the only node, and of the coordinator of a Citus cluster.
pub const COORDINATOR: i32 = 0;

/// Returns whether a slot has lost nothing, and the process that reads it.
const SLOT: &str = "SELECT coalesce(wal_status <> 'lost', false), active_pid FROM pg_replication_slots \
     WHERE slot_name = $1 AND database = current_database()";
const END_READER: &str = "SELECT pg_terminate_backend($1::integer, 5000::bigint)";
const DROP_SLOT: &str = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots \
     WHERE slot_name = $1 AND database = current_database()";
/// Emits a message in a transaction, so that it is sent to the reader of the log. Returns its position.
const MARK: &str = "SELECT (pg_logical_emit_message(true, 'rowhouse-mark', ''::text) - '0/0'::pg_lsn)::bigint";

/// A node whose log is decoded.
#[derive(Clone)]
pub struct LogNode {
    /// The group of nodes to which it belongs.
    pub group: i32,
    /// Whether the node may store partitions.
    pub is_active: bool,
    /// The connection to the node.
    pub settings: Settings,
}

impl LogNode {
    /// Returns the only node of a database that is not distributed.
    pub(crate) fn only(settings: &Settings) -> Self {
        Self { group: COORDINATOR, is_active: true, settings: settings.clone() }
    }

    /// Returns the node on which tables are created and which sends the changes of the catalog.
    pub(crate) fn home<'n>(nodes: &'n [Self], settings: &Settings) -> Result<&'n Self, StoreError> {
        nodes.iter().find(|node| node.group == COORDINATOR).ok_or_else(|| {
            StoreError::new(format!(
                "the nodes of the database {} do not know the Citus coordinator, which the change log needs; on the \
                 coordinator, run SELECT citus_set_coordinator_host('HOST', PORT)",
                settings.place
            ))
        })
    }

    fn failed(&self) -> impl Fn(Error) -> StoreError {
        |error| StoreError::from_postgres(&self.settings.place, &error)
    }

    /// Connects to the node.
    pub async fn session(&self) -> Result<Session, StoreError> {
        Session::open(&self.settings).await
    }

    /// Returns whether the slot exists and has lost nothing. Ends the process that reads it if `is_mine`.
    pub(crate) async fn has_slot(&self, name: &str, is_mine: bool) -> Result<bool, StoreError> {
        let session = self.session().await?;
        let slot = session.client.query_opt(SLOT, &[&name]).await.map_err(self.failed())?;
        let mut is_complete = false;
        if let Some(slot) = slot {
            is_complete = slot.try_get(0).map_err(self.failed())?;
            if let (true, Some(reader)) = (is_mine, slot.try_get::<_, Option<i32>>(1).map_err(self.failed())?) {
                session.client.execute(END_READER, &[&reader]).await.map_err(self.failed())?;
            }
        }
        session.close().await;
        Ok(is_complete)
    }

    /// Removes a slot if it exists, and ends the process that reads it.
    pub async fn drop_slot(&self, name: &str) -> Result<(), StoreError> {
        self.has_slot(name, true).await?;
        self.drop_unread_slot(name).await
    }

    /// Removes a slot if it exists. Fails if the slot is being read.
    pub(crate) async fn drop_unread_slot(&self, name: &str) -> Result<(), StoreError> {
        let session = self.session().await?;
        session.client.execute(DROP_SLOT, &[&name]).await.map_err(self.failed())?;
        session.close().await;
        Ok(())
    }

    /// Marks the node's log. Returns a position after everything that was committed before.
    pub async fn mark(&self) -> Result<u64, StoreError> {
        let session = self.session().await?;
        let row = session.client.query_one(MARK, &[]).await.map_err(self.failed())?;
        let position: i64 = row.try_get(0).map_err(self.failed())?;
        session.close().await;
        Ok(position.cast_unsigned())
    }

    /// Opens a connection for the stream of the node's log.
    pub(crate) async fn replication(&self) -> Result<Replication, StoreError> {
        Replication::open(&self.settings).await.map_err(|refusal| self.refused(&refusal))
    }

    pub(crate) fn refused(&self, refusal: &ReplicationError) -> StoreError {
        StoreError::new(format!(
            "the change log of the database {} cannot be decoded: {refusal}; the user needs REPLICATION (ALTER ROLE … \
             REPLICATION), and max_wal_senders and max_replication_slots must not be used up",
            self.settings.place
        ))
    }
}
