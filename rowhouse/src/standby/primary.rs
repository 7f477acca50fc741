//! What a primary offers to its standbys.

use super::protocol::{Answer, Ask, BATCH_BYTES, Content, HELD, Token, Waits, identity};
use anyhow::Context;
use bytes::Bytes;
use engine::figures::ReplicationFigures;
use engine_embedded::{
    Awaited, BaseCopy, Identity, Refusal, Replication, ReplicationError, StandbyHello, StandbyPosition,
};
use http::HeaderMap;
use server::{Replicated, StandbyState};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;
use tracing::{info, warn};

/// The time after which a standby that asks for nothing counts as disconnected.
const CONNECTED: Duration = Duration::from_secs(10);
/// The time after which a base copy that is not continued is given up. Until then, the files that it needs are kept.
const COPY_IDLE_MAX: Duration = Duration::from_mins(2);

pub(crate) struct PrimaryService {
    replication: Replication,
    token: Token,
    /// Only one base copy is sent at a time.
    copy: Arc<Mutex<Option<CopyInProgress>>>,
    /// The standbys that are connected, and some that were.
    standbys: Mutex<HashMap<Identity, Seen>>,
}

struct CopyInProgress {
    standby: Identity,
    copy: BaseCopy,
    next: u64,
    used: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    last: u64,
    at: Instant,
}

impl fmt::Debug for PrimaryService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrimaryService")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PrimaryService {
    pub(crate) fn new(replication: Replication, token: Token) -> Self {
        Self { replication, token, copy: Arc::default(), standbys: Mutex::default() }
    }

    /// Runs a method of the replication on a thread that may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Replication) -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let replication = self.replication.clone();
        tokio::task::spawn_blocking(move || work(&replication)).await.context("the request was interrupted")
    }

    fn answer(&self, content: Content, body: &[u8]) -> Bytes {
        // The time first: everything that was written before it is counted.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let last = self.replication.synced();
        Answer::new(&self.replication.lineage(), (time, last), content).encode(body)
    }

    async fn serve(&self, ask: Ask) -> anyhow::Result<(Content, Bytes)> {
        match ask {
            Ask::Begin { standby, replaces } => {
                let standby = identity(&standby)?;
                let hello = StandbyHello { standby, has: None, replaces };
                let copy = self.blocking(move |replication| {
                    replication.admit(&hello)?;
                    replication.base_copy().map_err(ReplicationError::Fault)
                });
                let copy = copy.await??;
                let sequence = copy.sequence();
                info!(%standby, sequence, "a standby receives a base copy");
                *lock(&self.copy) = Some(CopyInProgress { standby, copy, next: 0, used: Instant::now() });
                self.watch_copy(standby);
                let waits = self.replication.awaited(standby, 0).into();
                Ok((Content::Copy { sequence, waits }, Bytes::new()))
            }
            Ask::Chunk { standby, number } => self.chunk(identity(&standby)?, number).await,
            Ask::Records { standby, replaces, log, epoch, last } => {
                let has = StandbyPosition { log: identity(&log)?, epoch: epoch.epoch()?, last };
                let hello = StandbyHello { standby: identity(&standby)?, has: Some(has), replaces };
                self.records(hello, last).await
            }
            Ask::Fence { log, epoch } => {
                let (log, epoch) = (identity(&log)?, epoch.epoch()?);
                let is_fenced = self.blocking(move |replication| replication.fence(log, &epoch)).await??;
                Ok((Content::Fenced { is_fenced }, Bytes::new()))
            }
        }
    }

    async fn chunk(&self, standby: Identity, number: u64) -> anyhow::Result<(Content, Bytes)> {
        let copies = Arc::clone(&self.copy);
        let work = move || {
            let mut copies = lock(&copies);
            let copy = copies.as_mut().filter(|copy| copy.standby == standby && copy.next == number);
            let copy = copy.context("there is no such base copy; begin again")?;
            copy.used = Instant::now();
            copy.next += 1;
            let chunk = copy.copy.next_chunk()?;
            if chunk.is_none() {
                *copies = None;
            }
            Ok(match chunk {
                Some(chunk) => (Content::Chunk, chunk.into()),
                None => (Content::CopyEnd, Bytes::new()),
            })
        };
        tokio::task::spawn_blocking(work).await.context("the request was interrupted")?
    }

    /// Gives up a base copy that its standby does not continue.
    fn watch_copy(&self, standby: Identity) {
        let copies = Arc::clone(&self.copy);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(COPY_IDLE_MAX).await;
                let mut copies = lock(&copies);
                match copies.as_ref().filter(|copy| copy.standby == standby) {
                    None => return,
                    Some(copy) if copy.used.elapsed() >= COPY_IDLE_MAX => {
                        warn!(%standby, "the standby does not continue its base copy");
                        *copies = None;
                        return;
                    }
                    Some(_) => {}
                }
            }
        });
    }

    async fn records(&self, hello: StandbyHello, last: u64) -> anyhow::Result<(Content, Bytes)> {
        let standby = hello.standby;
        let admitted = self.blocking(move |replication| replication.admit(&hello)).await?;
        if let Err(error) = admitted {
            lock(&self.standbys).remove(&standby);
            return Err(error.into());
        }
        self.replication.confirm(standby, last);
        let is_new = {
            let mut standbys = lock(&self.standbys);
            standbys.retain(|_, seen| seen.at.elapsed() < CONNECTED);
            standbys.insert(standby, Seen { last, at: Instant::now() }).is_none()
        };
        if is_new {
            info!(%standby, last, "a standby is connected");
        }
        let mut synced = self.replication.watch();
        // A heartbeat follows if there is nothing in time.
        drop(timeout(HELD, synced.wait_for(|synced| *synced > last)).await);
        let read = self.blocking(move |replication| replication.read(last.saturating_add(1), BATCH_BYTES)).await??;
        let waits = self.replication.awaited(standby, last).into();
        Ok(match read {
            None => (Content::Records { first: last.saturating_add(1), count: 0, waits }, Bytes::new()),
            Some(batch) => (Content::Records { first: batch.first, count: batch.count, waits }, batch.records.into()),
        })
    }
}

impl Replicated for PrimaryService {
    fn accepts(&self, headers: &HeaderMap) -> bool {
        self.token.is_in(headers)
    }

    fn respond<'a>(&'a self, headers: &'a HeaderMap) -> Pin<Box<dyn Future<Output = (u16, Bytes)> + Send + 'a>> {
        Box::pin(async move {
            let served = match Ask::read(headers) {
                Ok(ask) => self.serve(ask).await,
                Err(error) => Err(error),
            };
            match served {
                Ok((content, body)) => (200, self.answer(content, &body)),
                Err(error) => {
                    let reason = format!("{error:#}");
                    warn!(reason, "a request of a standby was refused");
                    let waits = match error.downcast_ref() {
                        Some(ReplicationError::Refused(Refusal::OtherStandby)) => Some(Waits::ForAnother),
                        Some(ReplicationError::Refused(Refusal::Dropped | Refusal::Diverged)) => Some(Waits::CutOff),
                        _ => None,
                    };
                    (409, self.answer(Content::Refused { reason, waits }, &[]))
                }
            }
        })
    }

    fn figures(&self) -> ReplicationFigures {
        let synced = self.replication.synced();
        let standbys = lock(&self.standbys);
        let connected = standbys.iter().filter(|(_, seen)| seen.at.elapsed() < CONNECTED);
        let lags: Vec<u64> = connected.clone().map(|(_, seen)| synced.saturating_sub(seen.last)).collect();
        let is_awaited = |(id, seen): (&Identity, &Seen)| self.replication.awaited(*id, seen.last) == Awaited::This;
        ReplicationFigures {
            epoch: self.replication.lineage().epoch(),
            is_awaited: connected.clone().any(is_awaited),
            standbys: Some(lags.len() as u64),
            lag_transactions: lags.into_iter().max(),
            lag_milliseconds: None,
            is_cut_off: false,
        }
    }

    fn standby(&self) -> Option<StandbyState> {
        None
    }
}
