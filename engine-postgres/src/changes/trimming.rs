//! Removes the oldest transactions of the change log, in bounded steps, on the server that decodes.

use crate::changes::decoder::ROW_BYTES;
use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::{column, read};
use crate::log_state::LogState;
use crate::state::PostgresState;
use engine::Fault;
use engine::parts::monotonic;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const CHECK_INTERVAL: Duration = Duration::from_secs(5);
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
        sleep(jittered(CHECK_INTERVAL)).await;
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
