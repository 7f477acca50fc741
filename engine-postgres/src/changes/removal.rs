//! Removes a change log that no server uses any more. Its replication slots would otherwise keep the logs of the
//! database's nodes until a disk is full. Servers without a change log do this.

use crate::StoreError;
use crate::changes::nodes::LogNode;
use crate::changes::order::Orders;
use crate::changes::setup::{DROP_TABLES, TAKE_TURNS};
use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::settings::Settings;
use crate::schema::opening::Session;
use crate::slot::CHANGES_LEASE;
use crate::state::PostgresState;
use engine::Fault;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

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
