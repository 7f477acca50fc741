//! What a primary offers to its standbys.

use super::protocol::{Answer, Ask, BATCH_BYTES, Content, HELD, Token, Waits, identity, key};
use anyhow::Context;
use bytes::Bytes;
use engine::figures::ReplicationFigures;
use engine_embedded::{
    Awaited, BaseCopy, Identity, KeptForStandby, Refusal, Replication, ReplicationError, StandbyHello, StandbyPosition,
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
/// The time after which a base copy that is not continued is given up. Until then, the files and the log that it needs
/// are kept. A standby may be restarted in that time, with its machine.
const COPY_IDLE_MAX: Duration = Duration::from_mins(10);
/// The maximum number of base copies in progress. Abandoned ones count until they are given up.
const COPIES_MAX: usize = 8;

pub(crate) struct PrimaryService {
    replication: Replication,
    token: Token,
    copies: Arc<Mutex<Copies>>,
    /// The standbys that are connected, and some that were.
    standbys: Mutex<HashMap<Identity, Seen>>,
}

/// The base copies in progress, and those whose standbys lack what was written since.
type Copies = HashMap<Identity, CopyInProgress>;

struct CopyInProgress {
    /// `None` if the standby has it.
    copy: Option<Arc<BaseCopy>>,
    log: KeptForStandby,
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
        Self { replication, token, copies: Arc::default(), standbys: Mutex::default() }
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
                self.begin(hello).await
            }
            Ask::Chunk { standby, sequence, after } => {
                let after = after.as_deref().map(key).transpose()?;
                self.chunk(identity(&standby)?, sequence, after).await
            }
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

    /// Begins a base copy. If the standby did not receive the response and asks again, it gets another copy.
    async fn begin(&self, hello: StandbyHello) -> anyhow::Result<(Content, Bytes)> {
        let standby = hello.standby;
        let copy = self.blocking(move |replication| {
            replication.admit(&hello)?;
            replication.base_copy().map_err(ReplicationError::Fault)
        });
        let copy = copy.await??;
        let sequence = copy.sequence();
        let log = self.replication.keep_after(sequence);
        {
            let mut copies = lock(&self.copies);
            let others = copies.iter().filter(|(id, copy)| **id != standby && copy.copy.is_some()).count();
            if others >= COPIES_MAX {
                return Ok((Content::TooManyCopies, Bytes::new()));
            }
            copies.insert(standby, CopyInProgress { copy: Some(Arc::new(copy)), log, used: Instant::now() });
        }
        info!(%standby, sequence, "a standby receives a base copy");
        self.watch_copy(standby);
        let waits = self.replication.awaited(standby, 0).into();
        Ok((Content::Copy { sequence, waits }, Bytes::new()))
    }

    async fn chunk(
        &self,
        standby: Identity,
        sequence: u64,
        after: Option<Vec<u8>>,
    ) -> anyhow::Result<(Content, Bytes)> {
        let no_copy = |reason: &str| Ok((Content::NoCopy { reason: reason.to_owned() }, Bytes::new()));
        let Some(copy) = self.copy(standby, sequence) else {
            let minutes = COPY_IDLE_MAX.as_secs() / 60;
            return no_copy(&format!(
                "the primary was restarted, or the standby did not continue the copy for {minutes} minutes"
            ));
        };
        if !self.replication.is_kept_after(sequence) {
            lock(&self.copies).remove(&standby);
            warn!(%standby, "a base copy is given up, because what was written since it began is not kept any more");
            return no_copy(
                "the primary does not keep what was written since the copy began any more; give the primary a larger \
                 --keep-log-mib, or more space",
            );
        }
        let chunk = self.blocking(move |_| copy.chunk(after.as_deref())).await??;
        Ok(match chunk {
            Some(chunk) => (Content::Chunk, chunk.into()),
            // The copy is kept until the standby follows, because this response may be lost.
            None => (Content::CopyEnd, Bytes::new()),
        })
    }

    fn copy(&self, standby: Identity, sequence: u64) -> Option<Arc<BaseCopy>> {
        let mut copies = lock(&self.copies);
        let progress = copies.get_mut(&standby)?;
        progress.used = Instant::now();
        progress.copy.as_ref().filter(|copy| copy.sequence() == sequence).map(Arc::clone)
    }

    /// Gives up a base copy that its standby does not continue.
    fn watch_copy(&self, standby: Identity) {
        let copies = Arc::clone(&self.copies);
        tokio::spawn(async move {
            while let Some(left) = give_up_idle(&copies, standby, COPY_IDLE_MAX) {
                tokio::time::sleep(left).await;
            }
        });
    }

    /// Keeps the log for a standby that has received a base copy until the standby has everything.
    fn keep_log(&self, standby: Identity, last: u64) {
        let has_all = last >= self.replication.synced();
        let mut copies = lock(&self.copies);
        if has_all {
            copies.remove(&standby);
        } else if let Some(progress) = copies.get_mut(&standby) {
            progress.copy = None;
            progress.used = Instant::now();
            progress.log.advance(last);
        }
    }

    async fn records(&self, hello: StandbyHello, last: u64) -> anyhow::Result<(Content, Bytes)> {
        let standby = hello.standby;
        let admitted = self.blocking(move |replication| replication.admit(&hello)).await?;
        if let Err(error) = admitted {
            lock(&self.standbys).remove(&standby);
            return Err(error.into());
        }
        self.keep_log(standby, last);
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

/// Gives up a base copy that was not continued for a time. Returns the rest of that time, or `None` if there is no
/// copy.
fn give_up_idle(copies: &Mutex<Copies>, standby: Identity, idle_max: Duration) -> Option<Duration> {
    let mut copies = lock(copies);
    let left = idle_max.saturating_sub(copies.get(&standby)?.used.elapsed());
    if left.is_zero() {
        let seconds = idle_max.as_secs();
        warn!(%standby, seconds, "the standby has not continued its base copy, so the copy is given up, with the log that was kept for it");
        copies.remove(&standby);
        return None;
    }
    Some(left)
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
                Ok((content @ (Content::NoCopy { .. } | Content::TooManyCopies), _)) => {
                    (409, self.answer(content, &[]))
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use engine::KeepChanges;
    use engine_embedded::{Embedded, EmbeddedOptions, KeptLog};
    use std::path::Path;

    fn service(folder: &Path) -> (Embedded, PrimaryService) {
        let kept_log = KeptLog::Within(KeepChanges { age: Duration::from_hours(1), bytes: 1 << 30 });
        let options = EmbeddedOptions { kept_log, min_free_bytes: 0, ..EmbeddedOptions::default() };
        let engine = Embedded::open(&folder.join("data"), &options, model::clock::SystemClock).unwrap();
        std::fs::write(folder.join("token"), "0123456789abcdef").unwrap();
        let token = Token::read(&folder.join("token")).unwrap();
        let service = PrimaryService::new(engine.replication().unwrap(), token);
        (engine, service)
    }

    async fn begin(service: &PrimaryService, standby: Identity) -> Option<u64> {
        let ask = Ask::Begin { standby: standby.to_string(), replaces: false };
        match service.serve(ask).await.unwrap().0 {
            Content::Copy { sequence, .. } => Some(sequence),
            Content::TooManyCopies => None,
            other => panic!("{other:?}"),
        }
    }

    async fn chunk(service: &PrimaryService, standby: Identity, sequence: u64) -> Content {
        service.serve(Ask::chunk(standby, sequence, None)).await.unwrap().0
    }

    #[tokio::test]
    async fn several_standbys_receive_their_copies_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let (engine, service) = service(folder.path());
        let standbys: Vec<_> = (0..COPIES_MAX).map(|_| Identity::random()).collect();
        let mut sequences = Vec::new();
        for standby in &standbys {
            sequences.push(begin(&service, *standby).await.unwrap());
        }
        for (standby, sequence) in standbys.iter().zip(&sequences) {
            // The folder is empty, so the first chunk is the end. The response may be lost.
            for _ in 0..2 {
                assert_eq!(chunk(&service, *standby, *sequence).await, Content::CopyEnd);
            }
        }
        let late = Identity::random();
        assert_eq!(begin(&service, late).await, None, "there are too many");
        assert!(matches!(chunk(&service, late, 0).await, Content::NoCopy { .. }));
        // A standby that did not receive the response begins again.
        assert_eq!(begin(&service, standbys[0]).await, Some(sequences[0]));
        // Another process has a copy of an earlier state.
        assert!(matches!(chunk(&service, standbys[0], sequences[0] + 1).await, Content::NoCopy { .. }));

        // A standby that follows, and one that does not continue, make room.
        assert!(give_up_idle(&service.copies, standbys[1], COPY_IDLE_MAX).is_some());
        assert_eq!(give_up_idle(&service.copies, standbys[1], Duration::ZERO), None);
        assert!(matches!(chunk(&service, standbys[1], sequences[1]).await, Content::NoCopy { .. }));
        assert!(begin(&service, late).await.is_some());
        let later = Identity::random();
        assert_eq!(begin(&service, later).await, None);
        service.keep_log(standbys[2], sequences[2]);
        assert!(begin(&service, later).await.is_some());
        engine::Engine::close(&engine).await.unwrap();
        let refused = service.serve(Ask::chunk(late, sequences[0], None)).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}
