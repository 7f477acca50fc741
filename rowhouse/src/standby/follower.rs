//! The standby: receives a base copy, then follows its primary.

use super::protocol::{Answer, Ask, Content, Link, Token};
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use engine::figures::ReplicationFigures;
use engine_embedded::{
    Awaited, Identity, OpenError, RecordBatch, Role, StandbyFolder, StandbyHello, StandbyLog, StandbyPosition,
    lineage_of,
};
use http::HeaderMap;
use server::{Replicated, StandbyState};
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::{info, warn};

/// The pause after a failed request.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// The number of heartbeats whose transactions the standby does not have yet that are remembered.
const HEARTBEATS_MAX: usize = 1024;

/// How a standby reaches its primary.
#[derive(Debug, Clone)]
pub(crate) struct FollowerSettings {
    pub(crate) primary: String,
    pub(crate) token: Token,
    pub(crate) replaces: bool,
}

/// Fills the folder from a base copy unless it is a standby already.
pub(crate) async fn prepare_folder(path: &Path, settings: &FollowerSettings) -> anyhow::Result<()> {
    match lineage_of(path)?.map(|lineage| lineage.role) {
        Some(Role::Standby { .. }) => return Ok(()),
        Some(Role::Primary { .. }) => return Err(OpenError::NotStandby { folder: path.to_owned() }.into()),
        Some(Role::Fenced { by, .. }) => return Err(OpenError::Fenced { folder: path.to_owned(), by }.into()),
        None => StandbyFolder::check(path)?,
    }
    let link = Link::new(&settings.primary, settings.token.clone())?;
    let standby = Identity::random();
    let begin = Ask::Begin { standby: standby.to_string(), replaces: settings.replaces };
    let (answer, _) = ask(&link, &begin).await.with_context(|| format!("asking {} for a copy", settings.primary))?;
    let Content::Copy { sequence, waits } = answer.content else { bail!("the primary sent no base copy") };
    info!(sequence, "receiving a base copy from {}", settings.primary);
    let (folder, lineage) = (path.to_owned(), answer.lineage()?);
    let mut copy = blocking(move || Ok(StandbyFolder::begin(&folder, standby, &lineage, sequence)?)).await?;
    let mut bytes = 0;
    for number in 0.. {
        let (answer, chunk) = ask(&link, &Ask::Chunk { standby: standby.to_string(), number }).await?;
        bytes += chunk.len();
        match answer.content {
            Content::Chunk => {
                copy = blocking(move || {
                    copy.add(&chunk)?;
                    Ok(copy)
                })
                .await?;
            }
            Content::CopyEnd => break,
            _ => bail!("the primary sent no base copy"),
        }
    }
    copy.set_awaited(waits.into());
    blocking(move || Ok(copy.finish()?)).await?;
    info!(bytes, "the base copy is complete");
    Ok(())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> anyhow::Result<T> + Send + 'static) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work was interrupted")?
}

/// Sends a request. A refusal is an error.
async fn ask(link: &Link, ask: &Ask) -> anyhow::Result<(Answer, Bytes)> {
    let (answer, body) = link.ask(ask).await?;
    match answer.content {
        Content::Refused { reason, .. } => bail!("the primary refuses: {reason}"),
        content => Ok((Answer { content, ..answer }, body)),
    }
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
        let (mut pause, mut last_error) = (PAUSE, String::new());
        let mut is_connected = false;
        loop {
            match self.step(&link, settings.replaces).await {
                Ok(()) => {
                    if !is_connected {
                        info!("following {}", settings.primary);
                    }
                    (pause, is_connected) = (PAUSE, true);
                    last_error.clear();
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if error != last_error {
                        warn!(error, "cannot follow {}; it will be retried", settings.primary);
                        last_error = error;
                    }
                    is_connected = false;
                    self.progress().last = None;
                    tokio::time::sleep(pause).await;
                    pause = PAUSE_MAX.min(2 * pause);
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
