//! Removes the oldest transactions of the change log, in bounded steps, on the server that decodes; and a change log
//! that no server uses any more, on servers without one. Its replication slots would otherwise keep the logs of the
//! database's nodes until a disk is full.

use crate::StoreError;
use crate::changes::decoder::ROW_BYTES;
use crate::changes::nodes::LogNode;
use crate::changes::order::Orders;
use crate::changes::setup::{DROP_TABLES, TAKE_TURNS};
use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::{column, read};
use crate::connections::settings::Settings;
use crate::log_state::LogState;
use crate::schema::opening::Session;
use crate::slot::CHANGES_LEASE;
use crate::state::PostgresState;
use engine::Fault;
use engine::parts::monotonic;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const TRIM_INTERVAL: Duration = Duration::from_secs(5);
const STEP_TRANSACTIONS_MAX: i64 = 1000;
const STEP_BYTES_MAX: i64 = 32 << 20;

/// Removes transactions that are older than `$1`, all beyond the size `$2`, and all of an earlier log. Returns the
/// number of removed rows.
const TRIM: &str = "WITH oldest AS (SELECT position, time, octet_length(changes) + $5::bigint AS size \
       FROM rowhouse_changes ORDER BY position LIMIT $3), \
     summed AS (SELECT position, time, size, (sum(size) OVER (ORDER BY position))::bigint AS removed FROM oldest), \
     due AS (SELECT s.position, s.removed FROM summed AS s, rowhouse_change_log AS l \
       WHERE (s.position < l.first OR s.time < $1 OR l.bytes - (s.removed - s.size) > $2) \
       AND s.removed - s.size < $4), \
     last AS (SELECT max(position) AS position, max(removed) AS bytes FROM due HAVING count(*) > 0), \
     deleted AS (DELETE FROM rowhouse_changes WHERE position <= (SELECT position FROM last) RETURNING 1), \
     log AS (UPDATE rowhouse_change_log AS l SET first = GREATEST(l.first, last.position + 1), \
       bytes = l.bytes - last.bytes FROM last RETURNING 1) \
     SELECT count(*) FROM deleted";

/// Trims the log until the engine is closed.
pub(crate) async fn trim_changes(shared: Arc<PostgresState>, log: Arc<LogState>) {
    loop {
        sleep(jittered(TRIM_INTERVAL)).await;
        while log.is_decoding() {
            let began = monotonic::now();
            match shared.trim(&log).await {
                Ok(0) => break,
                // Leave half of the time to requests that wait for the disk.
                Ok(_removed) => sleep(began.elapsed()).await,
                Err(AttemptError::Fault(Fault::Closed)) => return,
                Err(trouble) => {
                    tracing::warn!(?trouble, "the change log could not be trimmed; this will be retried");
                    break;
                }
            }
        }
    }
}

impl PostgresState {
    /// Returns the number of removed transactions.
    async fn trim(&self, log: &LogState) -> Result<i64, AttemptError> {
        let age = i64::try_from(log.keep.age.as_nanos() / 100).unwrap_or(i64::MAX);
        let oldest = self.now().ticks().saturating_sub(age);
        let bytes = i64::try_from(log.keep.bytes).unwrap_or(i64::MAX);
        let lease = self.pool.take().await?;
        let rows = read(&lease, TRIM, &[&oldest, &bytes, &STEP_TRANSACTIONS_MAX, &STEP_BYTES_MAX, &ROW_BYTES]).await?;
        lease.return_to_pool();
        rows.first().map_or(Ok(0), |row| column(row, 0).map_err(AttemptError::Fault))
    }
}

const CHECK_INTERVAL: Duration = Duration::from_mins(5);

/// Returns a row if there is a change log.
const LOG_TABLE: &str = "SELECT 1 FROM pg_class WHERE oid = to_regclass('rowhouse_change_log')";
/// Returns a row if no server has used the log for ten minutes.
const IS_UNUSED: &str = "SELECT 1 FROM rowhouse_leases WHERE number = $1 AND renewed < now() - interval '10 minutes'";
const NAME: &str = "SELECT name FROM rowhouse_change_log";

/// Removes a change log that no server uses any more, on a server without one, until the engine is closed.
pub(crate) async fn remove_unused_log(shared: Arc<PostgresState>, settings: Settings, orders: Arc<dyn Orders>) {
    loop {
        let is_unused = async {
            let has_log = !shared.pool.read(LOG_TABLE, &[]).await?.is_empty();
            Ok::<_, AttemptError>(has_log && !shared.pool.read(IS_UNUSED, &[&CHANGES_LEASE]).await?.is_empty())
        };
        match is_unused.await {
            Ok(true) => {
                if let Err(error) = remove_if_unused(&settings, &*orders).await {
                    tracing::warn!(
                        %error,
                        "no server uses the change log in the database any more, but it could not be removed; its \
                         replication slot keeps the log of the database until then"
                    );
                }
            }
            Ok(false) => {}
            Err(AttemptError::Fault(Fault::Closed)) => return,
            Err(trouble) => tracing::debug!(?trouble, "it could not be checked whether a change log is unused"),
        }
        sleep(jittered(CHECK_INTERVAL)).await;
    }
}

/// Removes the log, its replication slots and its tables, if no server has used them for ten minutes. A slot would
/// otherwise keep a node's own log forever.
async fn remove_if_unused(settings: &Settings, orders: &dyn Orders) -> Result<(), StoreError> {
    let error = |error| StoreError::from_postgres(&settings.place, &error);
    let session = Session::open(settings).await?;
    let nodes = orders.nodes(&session.client, settings).await.map_err(error)?;
    session.close().await;
    let session = LogNode::home(&nodes, settings)?.session().await?;
    let client = &session.client;
    client.batch_execute(TAKE_TURNS).await.map_err(error)?;
    let is_unused = client.query_opt(IS_UNUSED, &[&CHANGES_LEASE]).await.map_err(error)?.is_some();
    if is_unused && client.query_opt(LOG_TABLE, &[]).await.map_err(error)?.is_some() {
        let mut publication = String::new();
        if let Some(log) = client.query_opt(NAME, &[]).await.map_err(error)? {
            let name: String = log.try_get(0).map_err(error)?;
            for node in &nodes {
                node.drop_unread_slot(&name).await?;
            }
            publication = format!("DROP PUBLICATION IF EXISTS \"{name}\";");
        }
        let removal = format!("BEGIN; SET LOCAL lock_timeout = '10s'; {publication} {DROP_TABLES}; COMMIT");
        client.batch_execute(&removal).await.map_err(error)?;
        client.execute("DELETE FROM rowhouse_leases WHERE number = $1", &[&CHANGES_LEASE]).await.map_err(error)?;
        tracing::info!("the change log was removed, because no server uses it any more");
    }
    session.close().await;
    Ok(())
}
