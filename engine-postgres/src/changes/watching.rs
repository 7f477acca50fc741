//! Keeps this server's knowledge of the change log up to date: the server that decodes notifies all others of the
//! positions, over connections that only wait for this. While such a connection is missing, the log is read at short
//! intervals.
//!
//! A notification reaches only sessions on the same node. On Citus, that is the coordinator.

use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::rows::column;
use crate::connections::settings::Settings;
use crate::log_state::LogState;
use crate::schema::opening::COORDINATOR;
use crate::state::PostgresState;
use engine::{Fault, KeptChanges};
use futures_util::future::poll_fn;
use model::DateTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

/// The interval at which the log is read nevertheless, for its size.
const REFRESH: Duration = Duration::from_secs(2);
/// The interval at which the log is read while this server cannot be notified.
const REFRESH_WITHOUT_NOTIFICATIONS: Duration = Duration::from_millis(100);
const RECONNECT: Duration = Duration::from_secs(1);
/// The interval at which the address of the node is checked on which servers are notified.
const LOCATION_CHECK: Duration = Duration::from_secs(5);

/// Returns the positions and the size of the log, and the time of the oldest transaction.
const LOG: &str = "SELECT first, next, bytes, (SELECT time FROM rowhouse_changes WHERE position = first) \
     FROM rowhouse_change_log WHERE is_ready";

/// Reads the state of the log whenever it may have changed, until the engine is closed.
pub(crate) async fn watch_changes(shared: Arc<PostgresState>, settings: Settings, log: Arc<LogState>) {
    let (changed, is_listening) = (Notify::new(), AtomicBool::new(false));
    let refresh = async {
        loop {
            if matches!(shared.refresh_log(&log).await, Err(AttemptError::Fault(Fault::Closed))) {
                return;
            }
            let is_listening = is_listening.load(Ordering::Relaxed);
            let interval = if is_listening { REFRESH } else { REFRESH_WITHOUT_NOTIFICATIONS };
            let _changed_or_due = timeout(interval, changed.notified()).await;
        }
    };
    let listen = async {
        loop {
            match shared.node_of_notifications(&settings).await {
                Ok(node) => {
                    let ended = tokio::select! {
                        ended = listen(&node, &log, &changed, &is_listening) => ended,
                        () = shared.wait_until_node_moves(&settings, &node) => Ok(()),
                    };
                    is_listening.store(false, Ordering::Relaxed);
                    if let Err(error) = ended {
                        tracing::debug!(%error, "the connection for notifications broke");
                    }
                }
                Err(trouble) => tracing::debug!(?trouble, "the node of notifications could not be determined"),
            }
            sleep(jittered(RECONNECT)).await;
        }
    };
    tokio::select! {
        () = refresh => {}
        () = listen => {}
    }
}

async fn listen(
    settings: &Settings,
    log: &LogState,
    changed: &Notify,
    is_listening: &AtomicBool,
) -> Result<(), tokio_postgres::Error> {
    let connecting = timeout(settings.connect_time_max, settings.login.connect(settings.tls.clone()));
    let Ok(connected) = connecting.await else { return Ok(()) };
    let (client, mut connection) = connected?;
    let receive = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message? {
                let positions = notification.payload().split_once(' ');
                let positions = positions.and_then(|(first, next)| Some((first.parse().ok()?, next.parse().ok()?)));
                if let Some((first, next)) = positions {
                    log.note(KeptChanges { first, next });
                }
            }
        }
        Ok(())
    };
    let ask = async {
        client.batch_execute("LISTEN rowhouse_changes").await?;
        is_listening.store(true, Ordering::Relaxed);
        // What changed before is not announced.
        changed.notify_one();
        std::future::pending::<Result<(), tokio_postgres::Error>>().await
    };
    tokio::select! {
        ended = receive => ended,
        failed = ask => failed,
    }
}

impl PostgresState {
    /// Returns the node on which servers are notified.
    async fn node_of_notifications(&self, settings: &Settings) -> Result<Settings, AttemptError> {
        if !self.names.is_distributed {
            return Ok(settings.clone());
        }
        let rows = self.pool.read(COORDINATOR, &[]).await?;
        let row = rows.first().ok_or_else(|| AttemptError::Fault(Fault::Unavailable("there is no log".into())))?;
        let host = column::<&str>(row, 0).map_err(AttemptError::Fault)?;
        let port = column::<i32>(row, 1).map_err(AttemptError::Fault)?;
        Ok(settings.of_node(host, u16::try_from(port).unwrap_or_default()))
    }

    /// Returns when the node has another address.
    async fn wait_until_node_moves(&self, settings: &Settings, node: &Settings) {
        loop {
            sleep(jittered(LOCATION_CHECK)).await;
            if self.node_of_notifications(settings).await.is_ok_and(|found| found.place != node.place) {
                return;
            }
        }
    }

    pub(crate) async fn refresh_log(&self, log: &LogState) -> Result<(), AttemptError> {
        let rows = self.pool.read(LOG, &[]).await?;
        if let Some(row) = rows.first() {
            let number = |index| column::<i64>(row, index).map(|value| u64::try_from(value).unwrap_or(0));
            let read = || {
                let oldest = column::<Option<i64>>(row, 3)?.and_then(DateTime::from_ticks);
                Ok((KeptChanges { first: number(0)?, next: number(1)? }, number(2)?, oldest))
            };
            let (kept, bytes, oldest) = read().map_err(AttemptError::Fault)?;
            log.note(kept);
            log.note_size(bytes, oldest);
        }
        Ok(())
    }
}
