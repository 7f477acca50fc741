//! Everything that answers a standby: the token, the request, the decision whether the standby is served, and what is
//! sent.

use crate::decisions::{LogState, Refusal, StandbyHello, StandbyPosition, admission, counts, fencing};
use crate::frames::{CHUNK_BYTES, push_entry};
use crate::protocol::{Answer, Ask, BATCH_BYTES, Content, HELD, Token, Waits, check_format, identity, key};
use crate::waiting::blocking;
use bytes::Bytes;
use engine::Fault;
use engine::figures::ReplicationFigures;
use engine_embedded::{
    Awaited, BaseCopy, Embedded, Epoch, Identity, KeptForStandby, Lineage, OpenError, PrimaryLog, ReadRecordsError,
    RecordBatch, Role, StandbyLog,
};
use http::HeaderMap;
use parking_lot::Mutex;
use server::{Replicated, StandbyState};
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
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

/// What a primary offers to its standbys.
pub struct PrimaryService {
    replication: Arc<Replication>,
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

/// The log of a primary, and its lineage. The methods block while they wait for the disk.
pub(crate) struct Replication {
    pub(crate) log: PrimaryLog,
    lineage: Mutex<Lineage>,
}

impl Replication {
    pub(crate) fn new(engine: &Embedded) -> Result<Self, OpenError> {
        let (log, lineage) = engine.primary_log()?;
        Ok(Self { log, lineage: Mutex::new(lineage) })
    }

    /// Returns the log's identity and epochs, and the role of the folder.
    pub(crate) fn lineage(&self) -> Lineage {
        self.lineage.lock().clone()
    }

    /// Decides whether a standby is served. A standby with a higher epoch proves that this server was replaced, and
    /// fences it.
    pub(crate) fn admit(&self, hello: &StandbyHello) -> anyhow::Result<Lineage> {
        let mut lineage = self.lineage.lock();
        if let Some(has) = hello.has.filter(|has| has.log == lineage.log)
            && let Some(fenced) = fencing(&lineage, &has.epoch, false)
        {
            self.fence_locked(&mut lineage, fenced, has.epoch.number)?;
        }
        // Nothing is confirmed while the lineage is locked, so nothing is acknowledged in the meantime.
        let acknowledged = self.log.acknowledged();
        let log = LogState { first: self.log.first(), synced: self.log.synced(), acknowledged };
        if let Some(changed) = admission(&lineage, hello, log)? {
            info!(standby = %hello.standby, "writes wait for this standby from now on");
            self.log.set_lineage(&changed)?;
            *lineage = changed;
        }
        Ok(lineage.clone())
    }

    /// Returns whether writes wait for a standby that has everything up to `last`.
    pub(crate) fn awaited(&self, standby: Identity, last: u64) -> Awaited {
        let lineage = self.lineage.lock();
        let Some(acknowledged) = self.log.acknowledged() else { return Awaited::None };
        // A primary that did not wait for a while may have acknowledged what the standby does not have yet.
        if counts(&lineage, standby) && last >= acknowledged { Awaited::This } else { Awaited::Other }
    }

    /// Records what a standby has on disk. It counts if writes wait for this standby.
    pub(crate) fn confirm(&self, standby: Identity, through: u64) {
        let lineage = self.lineage.lock();
        if counts(&lineage, standby) {
            self.log.confirm(through);
        }
    }

    /// Returns the transactions from `from` on, as [`PrimaryLog::read`] does.
    pub(crate) fn read(&self, from: u64, bytes: usize) -> anyhow::Result<Option<RecordBatch>> {
        self.log.read(from, bytes).map_err(|error| match error {
            ReadRecordsError::Dropped => Refusal::Dropped.into(),
            ReadRecordsError::Fault(fault) => fault.into(),
        })
    }

    /// Refuses writes forever, because a standby of this log was promoted in an epoch. Does nothing if this log is in
    /// that epoch or in a later one. Returns whether the folder is fenced.
    pub(crate) fn fence(&self, log: Identity, epoch: &Epoch) -> anyhow::Result<bool> {
        let mut lineage = self.lineage.lock();
        if log != lineage.log {
            return Err(Refusal::OtherLog.into());
        }
        if let Some(fenced) = fencing(&lineage, epoch, true) {
            self.fence_locked(&mut lineage, fenced, epoch.number)?;
        }
        Ok(matches!(lineage.role, Role::Fenced { .. }))
    }

    fn fence_locked(&self, lineage: &mut Lineage, fenced: Lineage, epoch: u64) -> Result<(), OpenError> {
        self.log.fence(&fenced, epoch)?;
        *lineage = fenced;
        Ok(())
    }
}

/// Returns the chunk of a base copy that follows a key, or the first one without a key; `None` at the end. A chunk can
/// be requested again.
pub(crate) fn chunk_after(copy: &BaseCopy, after: Option<&[u8]>) -> Result<Option<Vec<u8>>, Fault> {
    let mut chunk = Vec::new();
    copy.read(after, |key, value| {
        push_entry(&mut chunk, key, value);
        if chunk.len() < CHUNK_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok((!chunk.is_empty()).then_some(chunk))
}

/// Responds as a standby to a request that only a primary serves.
pub(crate) fn respond_as_standby(log: &StandbyLog) -> (u16, Bytes) {
    let content = Content::Refused { reason: Refusal::NotPrimary.to_string(), waits: None };
    (409, Answer::new(&log.lineage(), (0, 0), content).encode(&[]))
}

impl PrimaryService {
    /// Standbys prove with the token that they may have all data.
    pub fn new(engine: &Embedded, token: Token) -> Result<Self, OpenError> {
        let replication = Arc::new(Replication::new(engine)?);
        Ok(Self { replication, token, copies: Arc::default(), standbys: Mutex::default() })
    }

    /// Runs a method of the replication on a thread that may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Replication) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let replication = Arc::clone(&self.replication);
        blocking(move || work(&replication)).await
    }

    fn answer(&self, content: Content, body: &[u8]) -> Bytes {
        // The time first: everything that was written before it is counted.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let last = self.replication.log.synced();
        Answer::new(&self.replication.lineage(), (time, last), content).encode(body)
    }

    async fn serve(&self, ask: Ask) -> anyhow::Result<(Content, Bytes)> {
        match ask {
            Ask::Begin { standby, replaces, format } => {
                check_format(format)?;
                let standby = identity(&standby)?;
                let hello = StandbyHello { standby, has: None, replaces };
                self.begin(hello).await
            }
            Ask::Chunk { standby, sequence, after } => {
                let after = after.as_deref().map(key).transpose()?;
                self.chunk(identity(&standby)?, sequence, after).await
            }
            Ask::Records { standby, replaces, log, epoch, last, format } => {
                check_format(format)?;
                let has = StandbyPosition { log: identity(&log)?, epoch: epoch.epoch()?, last };
                let hello = StandbyHello { standby: identity(&standby)?, has: Some(has), replaces };
                self.records(hello, last).await
            }
            Ask::Fence { log, epoch } => {
                let (log, epoch) = (identity(&log)?, epoch.epoch()?);
                let is_fenced = self.blocking(move |replication| replication.fence(log, &epoch)).await?;
                Ok((Content::Fenced { is_fenced }, Bytes::new()))
            }
        }
    }

    /// Begins a base copy. If the standby did not receive the response and asks again, it gets another copy.
    async fn begin(&self, hello: StandbyHello) -> anyhow::Result<(Content, Bytes)> {
        let standby = hello.standby;
        let copy = self.blocking(move |replication| {
            replication.admit(&hello)?;
            Ok(replication.log.base_copy()?)
        });
        let copy = copy.await?;
        let sequence = copy.sequence();
        let log = self.replication.log.keep_after(sequence);
        {
            let mut copies = self.copies.lock();
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
        if self.replication.log.first() > sequence.saturating_add(1) {
            self.copies.lock().remove(&standby);
            warn!(%standby, "a base copy is given up, because what was written since it began is not kept any more");
            return no_copy(
                "the primary does not keep what was written since the copy began any more; give the primary a larger \
                 --keep-log-mib, or more space",
            );
        }
        let chunk = blocking(move || Ok(chunk_after(&copy, after.as_deref())?)).await?;
        Ok(match chunk {
            Some(chunk) => (Content::Chunk, chunk.into()),
            // The copy is kept until the standby follows, because this response may be lost.
            None => (Content::CopyEnd, Bytes::new()),
        })
    }

    fn copy(&self, standby: Identity, sequence: u64) -> Option<Arc<BaseCopy>> {
        let mut copies = self.copies.lock();
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
        let has_all = last >= self.replication.log.synced();
        let mut copies = self.copies.lock();
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
        if let Err(error) = self.blocking(move |replication| replication.admit(&hello)).await {
            self.standbys.lock().remove(&standby);
            return Err(error);
        }
        self.keep_log(standby, last);
        self.replication.confirm(standby, last);
        let is_new = {
            let mut standbys = self.standbys.lock();
            standbys.retain(|_, seen| seen.at.elapsed() < CONNECTED);
            standbys.insert(standby, Seen { last, at: Instant::now() }).is_none()
        };
        if is_new {
            info!(%standby, last, "a standby is connected");
        }
        let mut synced = self.replication.log.watch();
        // A heartbeat follows if there is nothing in time.
        drop(timeout(HELD, synced.wait_for(|synced| *synced > last)).await);
        let read = self.blocking(move |replication| replication.read(last.saturating_add(1), BATCH_BYTES)).await?;
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
    let mut copies = copies.lock();
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
                    let waits = match error.downcast_ref::<Refusal>() {
                        Some(Refusal::OtherStandby) => Some(Waits::ForAnother),
                        Some(Refusal::Dropped | Refusal::Diverged) => Some(Waits::CutOff),
                        _ => None,
                    };
                    (409, self.answer(Content::Refused { reason, waits }, &[]))
                }
            }
        })
    }

    fn figures(&self) -> ReplicationFigures {
        let synced = self.replication.log.synced();
        let standbys = self.standbys.lock();
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
    use engine_embedded::{EmbeddedOptions, FOLDER_FORMAT, KeptLog};
    use std::path::Path;

    fn service(folder: &Path) -> (Embedded, PrimaryService) {
        let kept_log = KeptLog::Within(KeepChanges { age: Duration::from_hours(1), bytes: 1 << 30 });
        let options = EmbeddedOptions { kept_log, min_free_bytes: 0, ..EmbeddedOptions::default() };
        let engine = Embedded::open(&folder.join("data"), &options, model::clock::SystemClock).unwrap();
        std::fs::write(folder.join("token"), "0123456789abcdef").unwrap();
        let token = Token::read(&folder.join("token")).unwrap();
        let service = PrimaryService::new(&engine, token).unwrap();
        (engine, service)
    }

    async fn begin(service: &PrimaryService, standby: Identity) -> Option<u64> {
        match service.serve(Ask::begin(standby, false)).await.unwrap().0 {
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

    #[tokio::test]
    async fn servers_with_data_of_different_formats_do_not_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let (_engine, service) = service(folder.path());
        let (standby, lineage) = (Identity::random(), service.replication.lineage());
        let last = service.replication.log.synced();
        let asks = [Ask::begin(standby, false), Ask::records(standby, &lineage, last, false)];
        for ask in asks.map(|ask| serde_json::to_value(ask).unwrap()) {
            // Versions from before the first release name no format.
            for (format, is_served) in [(Some(FOLDER_FORMAT), true), (Some(FOLDER_FORMAT + 1), false), (None, false)] {
                let mut ask = ask.clone();
                ask["format"] = format.into();
                if format.is_none() {
                    ask.as_object_mut().unwrap().remove("format");
                }
                let served = service.serve(serde_json::from_value(ask.clone()).unwrap()).await;
                assert_eq!(served.is_ok(), is_served, "{ask}: {served:?}");
                let refusal = served.err().map(|error| error.to_string());
                assert!(refusal.is_none_or(|refusal| refusal.contains("have different formats")), "{ask}");
            }
        }
        let answer = service.answer(Content::Copy { sequence: last, waits: Waits::No }, &[]);
        let (answer, _) = Answer::decode(&answer).unwrap();
        assert_eq!(answer.lineage().unwrap(), lineage);
        for format in [Some(FOLDER_FORMAT + 1), None] {
            let error = Answer { format, ..answer.clone() }.lineage().unwrap_err().to_string();
            assert!(error.contains("have different formats"), "{error}");
        }
    }
}
