//! Removes a change log that no server uses any more. Its replication slot would otherwise keep the database's own log
//! until the disk is full. Servers without a change log do this.

use crate::StoreError;
use crate::changes::setup::TAKE_TURNS;
use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::settings::Settings;
use crate::schema::opening::Session;
use crate::slot::CHANGES_LEASE;
use crate::state::PostgresState;
use engine::Fault;
use model::Clock;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Returns a row if there is a change log.
const LOG_TABLE: &str = "SELECT 1 FROM pg_class WHERE oid = to_regclass('rowhouse_change_log')";

/// Returns the name of a log that no server has used for ten minutes, and whether its slot exists.
const UNUSED_LOG: &str = "SELECT l.name, s.slot_name IS NOT NULL FROM rowhouse_change_log AS l \
     JOIN rowhouse_leases AS e ON e.number = 66 \
     LEFT JOIN pg_replication_slots AS s ON s.slot_name = l.name AND s.database = current_database() \
     WHERE e.renewed < now() - interval '10 minutes' AND NOT coalesce(s.active, false)";

/// Removes a change log that no server uses any more, on a server without one, until the engine is closed.
pub(crate) async fn remove_unused_log<C: Clock>(shared: Arc<PostgresState<C>>, settings: Settings) {
    loop {
        let is_unused = async {
            let has_log = !shared.pool.read(LOG_TABLE, &[]).await?.is_empty();
            Ok::<_, AttemptError>(has_log && !shared.pool.read(UNUSED_LOG, &[]).await?.is_empty())
        };
        match is_unused.await {
            Ok(true) => {
                if let Err(error) = remove_if_unused(&settings).await {
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

/// Removes the log, its replication slot and its tables, if no server has used them for ten minutes. The slot would
/// otherwise keep the database's own log forever.
async fn remove_if_unused(settings: &Settings) -> Result<(), StoreError> {
    let error = |error| StoreError::from_postgres(&settings.place, &error);
    let session = Session::open(settings, &settings.config).await?;
    let client = &session.client;
    client.batch_execute(TAKE_TURNS).await.map_err(error)?;
    let unused = client.query_opt(UNUSED_LOG, &[]).await.map_err(error)?;
    if let Some(log) = &unused {
        let (name, has_slot): (String, bool) = (log.try_get(0).map_err(error)?, log.try_get(1).map_err(error)?);
        if has_slot {
            client.execute("SELECT pg_drop_replication_slot($1)", &[&name]).await.map_err(error)?;
        }
        let removal = format!(
            "BEGIN; SET LOCAL lock_timeout = '10s'; DROP PUBLICATION IF EXISTS \"{name}\"; \
             DROP TABLE rowhouse_changes, rowhouse_change_tables, rowhouse_change_log; \
             DELETE FROM rowhouse_leases WHERE number = {CHANGES_LEASE}; COMMIT"
        );
        client.batch_execute(&removal).await.map_err(error)?;
        tracing::info!(slot = name, "the change log was removed, because no server uses it any more");
    }
    session.close().await;
    Ok(())
}
