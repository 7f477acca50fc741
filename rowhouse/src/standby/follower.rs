//! The standby follows its primary.

use super::protocol::{Answer, Ask, Content, Link, Token};
use super::retry::Retry;
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use engine::figures::ReplicationFigures;
use engine_embedded::{Awaited, RecordBatch, Role, StandbyHello, StandbyLog, StandbyPosition};
use http::HeaderMap;
use server::{Replicated, StandbyState};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::info;

/// The number of heartbeats whose transactions the standby does not have yet that are remembered.
const HEARTBEATS_MAX: usize = 1024;

/// How a standby reaches its primary.
#[derive(Debug, Clone)]
pub(crate) struct FollowerSettings {
    pub(crate) primary: String,
    pub(crate) token: Token,
    pub(crate) replaces: bool,
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work was interrupted")?
}

/// The state of a standby, for clients and operators.
pub(crate) struct Follower {
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
    pub(crate) fn new(log: StandbyLog, token: Token) -> Self {
        Self { log: Arc::new(log), token, progress: Mutex::default() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the primary until the returned future is dropped.
    pub(crate) async fn follow(&self, settings: FollowerSettings) -> anyhow::Result<()> {
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
                    self.progress().last = None;
                    retry.failed(&format!("cannot follow {}", settings.primary), format!("{error:#}")).await;
                }
            }
        }
    }

    /// Asks for records and appends them. The request also confirms what was appended before.
    async fn step(&self, link: &Link, replaces: bool) -> anyhow::Result<()> {
        let lineage = self.log.lineage();
        let has = StandbyPosition { log: lineage.log, epoch: lineage.newest(), last: self.log.synced() };
        let hello = StandbyHello { standby: self.log.id(), has: Some(has), replaces };
        let (answer, records) = link.ask(&Ask::records(&hello, has)).await?;
        let primary = answer.lineage()?;
        let log = Arc::clone(&self.log);
        let (first, count, waits) = match answer.content {
            Content::Records { first, count, waits } => (first, count, waits),
            Content::Refused { reason, waits } => {
                if let Some(waits) = waits.filter(|_| primary.log == lineage.log) {
                    blocking(move || Ok(log.set_awaited(waits.into())?)).await?;
                }
                bail!("the primary refuses: {reason}")
            }
            _ => bail!("the primary sent no records"),
        };
        ensure!(primary.log == lineage.log, "the server has a different log");
        self.progress().heard(UNIX_EPOCH + Duration::from_millis(answer.time), answer.last);
        let append = move || {
            log.set_awaited(waits.into())?;
            log.adopt(&primary)?;
            if count > 0 {
                log.append(&RecordBatch { first, count, records: records.into() })?;
            }
            Ok(log.synced())
        };
        let synced = blocking(append).await?;
        self.progress().has(synced);
        Ok(())
    }
}

impl Replicated for Follower {
    fn accepts(&self, headers: &HeaderMap) -> bool {
        self.token.is_in(headers)
    }

    fn respond<'a>(&'a self, _: &'a HeaderMap) -> Pin<Box<dyn Future<Output = (u16, Bytes)> + Send + 'a>> {
        let reason = "the server is a standby itself".to_owned();
        let answer = Answer::new(&self.log.lineage(), (0, 0), Content::Refused { reason, waits: None });
        Box::pin(async move { (409, answer.encode(&[])) })
    }

    fn figures(&self) -> ReplicationFigures {
        let (synced, lineage) = (self.log.synced(), self.log.lineage());
        let progress = self.progress();
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
        Some(StandbyState { last_sync: self.progress().last_sync })
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
