//! The service properties of all accounts. They are kept in memory, because every request needs them, and reloaded at
//! intervals, because another server may have changed them.
//!
//! The PostgreSQL protocol includes change notifications, but not every database with this protocol supports them.
//! Reading a few rows every second costs almost nothing and works everywhere.

use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::counts::RetryReason;
use crate::connections::rows::{column, control, end, read};
use crate::state::PostgresState;
use crate::statements;
use engine::Fault;
use engine::parts::properties::AccountProperties;
use engine::parts::properties_value;
use model::{AccountName, ServiceProperties, ServicePropertiesUpdate};
use std::sync::Arc;
use std::time::Duration;

/// The interval at which the service properties are reloaded.
pub const PROPERTIES_REFRESH: Duration = Duration::from_secs(1);
/// The maximum time until a change by one server takes effect on all servers, while the database responds.
pub const PROPERTIES_VISIBLE_WITHIN: Duration = Duration::from_secs(3);

pub(crate) async fn refresh_at_intervals(shared: Arc<PostgresState>) {
    let mut is_stale = false;
    loop {
        tokio::time::sleep(jittered(PROPERTIES_REFRESH)).await;
        match shared.refresh_properties().await {
            Ok(()) if is_stale => {
                is_stale = false;
                tracing::info!("the service properties can be read again");
            }
            Ok(()) => {}
            Err(Fault::Closed) => return,
            Err(error) if !is_stale => {
                is_stale = true;
                tracing::warn!(%error, "the service properties could not be read; the last known ones stay in use");
            }
            Err(_) => {}
        }
    }
}

impl PostgresState {
    pub(crate) async fn refresh_properties(&self) -> Result<(), Fault> {
        let _one_at_a_time = self.refreshing.lock().await;
        let rows = self.persist(async || self.pool.read(statements::ALL_PROPERTIES, &[]).await).await?;
        let mut properties = AccountProperties::default();
        for row in &rows {
            let account = std::str::from_utf8(column(row, 0)?).ok().and_then(AccountName::new);
            let account = account.ok_or_else(damaged)?;
            properties.insert(&account, properties_value::decode(column(row, 1)?).ok_or_else(damaged)?);
        }
        self.properties_mut().replace_all(properties);
        Ok(())
    }

    pub(crate) async fn update_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> Result<(), Fault> {
        let updated = self.persist(async || self.try_update_properties(account, update.clone()).await).await?;
        // The update is committed, so a failure to read it again is no failure of the update.
        if self.refresh_properties().await.is_err() {
            self.properties_mut().insert(account, updated);
        }
        Ok(())
    }

    async fn try_update_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> Result<ServiceProperties, AttemptError> {
        let account = account.as_str().as_bytes();
        let lease = self.pool.take().await?;
        control(&lease, "BEGIN").await?;
        // Ensure that there is a row to lock, so that updates are serialized.
        let fresh = properties_value::encode(&self.properties().defaults());
        read(&lease, statements::FRESH_PROPERTIES, &[&account, &fresh]).await?;
        let rows = read(&lease, statements::LOCK_PROPERTIES, &[&account]).await?;
        let row = rows
            .first()
            .ok_or_else(|| AttemptError::retry(RetryReason::Conflict, "the service properties were removed"))?;
        let before = properties_value::decode(column(row, 0).map_err(AttemptError::Fault)?);
        let after = before.ok_or_else(|| AttemptError::Fault(damaged()))?.updated(update);
        read(&lease, statements::SET_PROPERTIES, &[&account, &properties_value::encode(&after)]).await?;
        end(&lease).await?;
        lease.return_to_pool();
        Ok(after)
    }
}

fn damaged() -> Fault {
    Fault::Damaged("the service properties of an account cannot be read".to_owned())
}
