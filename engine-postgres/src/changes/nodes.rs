//! The nodes of the database whose logs are decoded: on Citus, all nodes; otherwise, the one that accepts writes.

use crate::StoreError;
use crate::changes::merging::COORDINATOR;
use crate::changes::placements::{Placement, Placements};
use crate::connections::replication::{Replication, ReplicationError};
use crate::connections::settings::Settings;
use crate::schema::opening::Session;
use tokio_postgres::{Client, Error, Row};

/// Returns the nodes of a Citus cluster.
pub(crate) const NODES: &str = "SELECT groupid, nodename, nodeport, isactive FROM pg_dist_node \
     WHERE noderole = 'primary' ORDER BY groupid";
/// Returns the placements of the entities, each with the highest number of any placement and the number of placements
/// whose number is higher than `$1`.
pub(crate) const PLACEMENTS: &str = "SELECT s.shardminvalue, s.shardmaxvalue, p.groupid, p.placementid, \
       (SELECT max(placementid) FROM pg_dist_placement), \
       (SELECT count(*) FROM pg_dist_placement WHERE placementid > $1) \
     FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid) \
     WHERE s.logicalrelid = 'rowhouse_entities'::regclass AND p.shardstate = 1";
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
pub(crate) struct LogNode {
    /// The node's Citus group.
    pub(crate) group: i32,
    pub(crate) is_active: bool,
    pub(crate) settings: Settings,
}

impl LogNode {
    /// Returns the only node of a database that is not distributed.
    pub(crate) fn only(settings: &Settings) -> Self {
        Self { group: COORDINATOR, is_active: true, settings: settings.clone() }
    }

    /// Reads a row of [`NODES`].
    pub(crate) fn from_row(row: &Row, settings: &Settings) -> Result<Self, Error> {
        let (host, port): (&str, i32) = (row.try_get(1)?, row.try_get(2)?);
        let settings = settings.of_node(host, u16::try_from(port).unwrap_or_default());
        Ok(Self { group: row.try_get(0)?, is_active: row.try_get(3)?, settings })
    }

    /// Returns all nodes of the database.
    pub(crate) async fn query(client: &Client, settings: &Settings, is_distributed: bool) -> Result<Vec<Self>, Error> {
        if !is_distributed {
            return Ok(vec![Self::only(settings)]);
        }
        client.query(NODES, &[]).await?.iter().map(|row| Self::from_row(row, settings)).collect()
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

    pub(crate) async fn session(&self) -> Result<Session, StoreError> {
        Session::open(&self.settings, &self.settings.login).await
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
    pub(crate) async fn drop_slot(&self, name: &str) -> Result<(), StoreError> {
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
    pub(crate) async fn mark(&self) -> Result<u64, StoreError> {
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

/// Reads the rows of [`PLACEMENTS`]. Returns the placements and the number of new ones, or `None` if the entities are
/// not distributed by hash with one copy of each shard.
pub(crate) fn placements_from_rows(rows: &[Row]) -> Result<Option<(Placements, i64)>, Error> {
    let (mut all, mut last, mut added) = (Vec::new(), 0, 0);
    for row in rows {
        let bound = |index| Ok(row.try_get::<_, Option<&str>>(index)?.and_then(|text| text.parse().ok()));
        let (Some(first), Some(end)) = (bound(0)?, bound(1)?) else { return Ok(None) };
        all.push(Placement { first, last: end, group: row.try_get(2)?, number: row.try_get(3)? });
        (last, added) = (row.try_get(4)?, row.try_get(5)?);
    }
    Ok(Placements::new(all, last).map(|placements| (placements, added)))
}
