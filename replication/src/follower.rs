//! The standby follows its primary.

use crate::decisions::adoption;
use crate::primary::respond_as_standby;
use crate::protocol::{Ask, Content, Link, Token};
use crate::waiting::{Retry, blocking};
use anyhow::{bail, ensure};
use bytes::Bytes;
use engine::figures::ReplicationFigures;
use engine_embedded::{AppendError, Awaited, Lineage, RecordBatch, Role, StandbyLog};
use http::HeaderMap;
use parking_lot::Mutex;
use server::{Replicated, StandbyState};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::{error, info, warn};

/// The number of heartbeats whose transactions the standby does not have yet that are remembered.
const HEARTBEATS_MAX: usize = 1024;

/// How a standby reaches its primary.
#[derive(Debug, Clone)]
pub struct FollowerSettings {
    /// The address of the primary without an account.
    pub primary: String,
    /// The secret that both servers know.
    pub token: Token,
    /// Whether the standby takes over from the one that the primary waits for.
    pub replaces: bool,
}

/// The state of a standby, for clients and operators.
pub struct Follower {
    log: Arc<StandbyLog>,
    token: Token,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The last transaction of the primary, if it is connected.
    last: Option<u64>,
    /// Times at which the primary had a last transaction that the standby does not have yet.
    heartbeats: VecDeque<(SystemTime, u64)>,
    last_sync: Option<SystemTime>,
}

impl Progress {
    fn heard(&mut self, time: SystemTime, last: u64) {
        self.last = Some(last);
        if self.heartbeats.len() < HEARTBEATS_MAX {
            self.heartbeats.push_back((time, last));
        }
    }

    fn has(&mut self, synced: u64) {
        while let Some((time, _)) = self.heartbeats.front().copied().filter(|(_, last)| *last <= synced) {
            self.last_sync = self.last_sync.max(Some(time));
            self.heartbeats.pop_front();
        }
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}

impl Follower {
    /// Does not follow yet.
    pub fn new(log: StandbyLog, token: Token) -> Self {
        Self { log: Arc::new(log), token, progress: Mutex::default() }
    }

    /// Follows the primary until the returned future is dropped.
    pub async fn follow(&self, settings: FollowerSettings) -> anyhow::Result<()> {
        let link = Link::new(&settings.primary, settings.token.clone())?;
        let mut retry = Retry::new();
        let mut is_connected = false;
        loop {
            match self.step(&link, settings.replaces).await {
                Ok(()) => {
                    if !is_connected {
                        info!("following {}", settings.primary);
                    }
                    is_connected = true;
                    retry.succeeded();
                }
                Err(error) => {
                    is_connected = false;
                    self.progress.lock().last = None;
                    retry.failed(&format!("cannot follow {}", settings.primary), format!("{error:#}")).await;
                }
            }
        }
    }

    /// Asks for records and appends them. The request also confirms what was appended before.
    async fn step(&self, link: &Link, replaces: bool) -> anyhow::Result<()> {
        let lineage = self.log.lineage();
        let ask = Ask::records(self.log.id(), &lineage, self.log.synced(), replaces);
        let (answer, records) = link.ask(&ask).await?;
        let primary = answer.lineage()?;
        let log = Arc::clone(&self.log);
        let (first, count, waits) = match answer.content {
            Content::Records { first, count, waits } => (first, count, waits),
            Content::Refused { reason, waits } => {
                if let Some(waits) = waits.filter(|_| primary.log == lineage.log) {
                    blocking(move || Ok(set_awaited(&log, waits.into())?)).await?;
                }
                bail!("the primary refuses: {reason}")
            }
            _ => bail!("the primary sent no records"),
        };
        ensure!(primary.log == lineage.log, "the server has a different log");
        self.progress.lock().heard(UNIX_EPOCH + Duration::from_millis(answer.time), answer.last);
        let append = move || {
            set_awaited(&log, waits.into())?;
            adopt(&log, &primary)?;
            if count > 0 {
                log.append(&RecordBatch { first, count, records: records.into() })?;
            }
            Ok(log.synced())
        };
        let synced = blocking(append).await?;
        self.progress.lock().has(synced);
        Ok(())
    }
}

/// Records durably whether the primary waits for this standby. It must be called before the next confirmation.
pub(crate) fn set_awaited(log: &StandbyLog, awaited: Awaited) -> Result<(), AppendError> {
    let (lineage, role) = (log.lineage(), Role::Standby { id: log.id(), awaited });
    if lineage.role == role {
        return Ok(());
    }
    log.set_lineage(Lineage { role, ..lineage })?;
    match awaited {
        Awaited::None => info!("the primary waits for no standby"),
        Awaited::This => info!("the primary waits for this standby"),
        Awaited::Other => warn!("the primary does not wait for this standby, so do not promote it"),
        Awaited::CutOff => {
            error!("this standby can never follow its primary again; stop it, and begin again with an empty folder");
        }
    }
    Ok(())
}

/// Continues in the epochs of the primary. The primary has found that its log continues the standby's.
pub(crate) fn adopt(log: &StandbyLog, primary: &Lineage) -> Result<(), AppendError> {
    adoption(&log.lineage(), primary, log.synced())?.map_or(Ok(()), |adopted| log.set_lineage(adopted))
}

impl Replicated for Follower {
    fn accepts(&self, headers: &HeaderMap) -> bool {
        self.token.is_in(headers)
    }

    fn respond<'a>(&'a self, _: &'a HeaderMap) -> Pin<Box<dyn Future<Output = (u16, Bytes)> + Send + 'a>> {
        Box::pin(async { respond_as_standby(&self.log) })
    }

    fn figures(&self) -> ReplicationFigures {
        let (synced, lineage) = (self.log.synced(), self.log.lineage());
        let progress = self.progress.lock();
        let age = progress.last_sync.and_then(|time| SystemTime::now().duration_since(time).ok());
        ReplicationFigures {
            epoch: lineage.epoch(),
            is_awaited: matches!(lineage.role, Role::Standby { awaited: Awaited::This, .. }),
            is_cut_off: matches!(lineage.role, Role::Standby { awaited: Awaited::CutOff, .. }),
            standbys: None,
            lag_transactions: progress.last.map(|last| last.saturating_sub(synced)),
            lag_milliseconds: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    fn standby(&self) -> Option<StandbyState> {
        Some(StandbyState { last_sync: self.progress.lock().last_sync })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sync_is_the_last_time_at_which_everything_was_here() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let mut progress = Progress::default();
        progress.heard(at(10), 5);
        progress.has(4);
        assert_eq!(progress.last_sync, None);
        progress.heard(at(11), 7);
        progress.has(6);
        assert_eq!(progress.last_sync, Some(at(10)));
        progress.heard(at(12), 7);
        progress.has(7);
        assert_eq!(progress.last_sync, Some(at(12)));
    }
}
