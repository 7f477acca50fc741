//! Query Entities for a table of the change feed as server-sent events: a response that continues until the client
//! closes the connection, the server stops, or the credential expires.
//!
//! The connection asks for the next piece only when it has sent the previous ones, so a slow client slows down its own
//! stream, and a stream holds no more than a batch of the log and a piece of the response.

use super::query_entities::PageForm;
use crate::changes::{ChangeBounds, ChangeFeed, ChangeRows, ChangeScope};
use crate::clock;
use crate::failure::Failure;
use crate::limits::memory::MemoryPermit;
use crate::limits::streams::StreamSlot;
use crate::request::OperationContext;
use crate::request::selection::{self, Selection};
use crate::response::OperationResponse;
use crate::tables::AccountTables;
use bytes::Bytes;
use engine::ChangedTransaction;
use futures_util::stream;
use http::HeaderName;
use model::limits::CHANGE_STREAM_SECONDS_MAX;
use model::record::DamagedRecord;
use model::{ChangePosition, ChangesTable, DateTime, Filter, KeyRange, Matcher, StoredEntity};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep_until;
use tracing::warn;
use wire::error::{ErrorOrigin, write_error_body};
use wire::payload::{EncoderCache, write_entity_in_set};
use wire::reason::ReasonKind;
use wire::{ErrorBodyFormat, ErrorCode, ServiceError};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// The time after which a client connects again, in milliseconds.
const RETRY: &str = "retry: 1000";
/// The size at which a piece of the response is sent, in bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// The size of the part of the log that is read at a time, in bytes. Less than for a page, because a stream holds the
/// memory as long as it is open.
const READ_BYTES: usize = 256 * 1024;
/// The memory that a stream usually needs, in bytes.
const STREAM_BYTES: usize = READ_BYTES + 4 * PIECE_BYTES;

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    table: &ChangesTable,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let select = context.select()?;
    let Selection { ranges, filter, .. } = Selection::of_changes(context)?;
    let bounds = bounds(context, filter.as_ref())?;
    let scope = selection::change_scope(context, table);
    let feed = tables.change_feed()?;
    tables.admit_request()?;
    let missing = match tables.check_changes_exist(&scope).await {
        Ok(()) => None,
        // The log may contain changes of a table that was deleted.
        Err(failure) if bounds.has_lower && failure.error.code == ErrorCode::TableNotFound => Some(failure),
        Err(failure) => return Err(failure),
    };
    let credential = context.request.incoming.credential(context.grant);
    let slot = feed.streams.open(context.account(), credential)?;
    context.memory.acquire(STREAM_BYTES).await?;
    let watch = feed.watch();
    let from = feed.stream_start(&bounds).await?;
    let mut reader = RowReader {
        scope,
        ranges,
        filter: filter.map(Matcher::new),
        last: feed.stream_last(&bounds).await?,
        form: PageForm::new(context.response, context.table(), select),
        rows: ChangeRows::default(),
        cache: EncoderCache::default(),
        from,
        batch: Vec::new(),
        next_in_batch: 0,
        next_batch: from.transaction,
    };
    if reader.is_finished() {
        // The status with which a server tells browsers not to connect again.
        return Ok(OperationResponse::no_content());
    }
    if let Some(missing) = missing {
        reader.find_first(feed, context.query_deadline, missing).await?;
    }
    slot.advance(reader.from.transaction);
    let now = clock::instant();
    let stream = ChangeStream {
        feed: Arc::clone(feed),
        watch,
        stopped: slot.stopped(),
        slot,
        _memory: context.memory.take(),
        ends_at: now + context.request.time_left().min(Duration::from_secs(CHANGE_STREAM_SECONDS_MAX)),
        heartbeat_at: now,
        next_piece: NextPiece::Beginning,
        reader,
        request_id: context.request.id.as_str().to_owned(),
        began: (now, context.response.now),
    };
    let pieces = stream::unfold(stream, |mut stream| async move { Some((stream.piece().await?, stream)) });
    Ok(OperationResponse::stream("text/event-stream", Box::pin(pieces)))
}

/// Returns where the stream begins and ends. A client that connects again names the last event that it has received.
fn bounds(context: &OperationContext<'_>, filter: Option<&Filter>) -> Result<ChangeBounds, Failure> {
    let bounds = selection::change_bounds(context, filter)?;
    let Some(last) = context.request.incoming.parts.headers.get(LAST_EVENT_ID) else { return Ok(bounds) };
    let last = last.to_str().ok().and_then(|text| ChangePosition::parse(text.trim()));
    let last = last.ok_or_else(|| {
        Failure::query(ServiceError::from(ErrorCode::InvalidHeaderValue).because(ReasonKind::LastEventId.because("")))
    })?;
    Ok(ChangeBounds { position: Some(last.next()), minute: None, has_lower: true, ..bounds })
}

struct ChangeStream {
    feed: Arc<ChangeFeed>,
    watch: watch::Receiver<u64>,
    stopped: watch::Receiver<bool>,
    slot: StreamSlot,
    _memory: MemoryPermit,
    ends_at: Instant,
    heartbeat_at: Instant,
    next_piece: NextPiece,
    reader: RowReader,
    request_id: String,
    /// When the stream began, and the same moment as a time of day.
    began: (Instant, DateTime),
}

enum NextPiece {
    Beginning,
    Events,
    /// The stream has ended.
    None,
}

/// Reads the log and writes its rows as events.
struct RowReader {
    scope: ChangeScope,
    ranges: Vec<KeyRange>,
    filter: Option<Matcher>,
    /// The last position that can match, if it is known.
    last: Option<ChangePosition>,
    form: PageForm,
    rows: ChangeRows,
    cache: EncoderCache,
    /// The next change to write.
    from: ChangePosition,
    batch: Vec<ChangedTransaction>,
    next_in_batch: usize,
    /// The position after the batch.
    next_batch: u64,
}

impl ChangeStream {
    /// Returns the next piece, or `None` at the end of the stream.
    async fn piece(&mut self) -> Option<Bytes> {
        match self.next_piece {
            NextPiece::Beginning => {
                self.next_piece = NextPiece::Events;
                return Some(self.sent(beginning(self.reader.from)));
            }
            NextPiece::Events => {}
            NextPiece::None => return None,
        }
        match self.events().await {
            Ok(events) => events.map(|events| self.sent(events)),
            Err(failure) => {
                self.next_piece = NextPiece::None;
                if let Some(source) = &failure.source {
                    warn!("a stream of changes failed: {source}");
                }
                Some(Bytes::from(self.failure_event(&failure.error)))
            }
        }
    }

    fn sent(&mut self, piece: Vec<u8>) -> Bytes {
        self.heartbeat_at = clock::instant() + HEARTBEAT_INTERVAL;
        self.slot.advance(self.reader.from.transaction);
        Bytes::from(piece)
    }

    /// Waits for changes, and returns them as events.
    async fn events(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let now = clock::instant();
            if *self.stopped.borrow() || now >= self.ends_at {
                return Ok(None);
            }
            let events = self.reader.write_events()?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if self.reader.is_finished() {
                // A client that connects again from this position gets 204.
                self.next_piece = NextPiece::None;
                return Ok(Some(heartbeat(self.reader.from)));
            }
            if now >= self.heartbeat_at {
                return Ok(Some(heartbeat(self.reader.from)));
            }
            let end = *self.watch.borrow_and_update();
            if self.reader.from.transaction < end {
                self.reader.read(&self.feed).await?;
                self.slot.advance(self.reader.from.transaction);
                // Other requests run on the same threads.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                changed = self.watch.changed() => if changed.is_err() {
                    // The engine is closed.
                    return Ok(None);
                },
                _ = self.stopped.changed() => {}
                () = sleep_until(self.heartbeat_at.min(self.ends_at).into()) => {}
            }
        }
    }

    /// Returns the event for an error, with the position of the stream. Its name is not "error", because clients report
    /// lost connections under that name.
    fn failure_event(&self, error: &ServiceError) -> Vec<u8> {
        let (began, time) = self.began;
        let now = DateTime::from_system_time(time.to_system_time() + clock::elapsed_since(began));
        let mut event = format!("id: {}\nevent: failure\ndata: ", self.reader.from.previous()).into_bytes();
        let origin = ErrorOrigin { request_id: &self.request_id, client_request_id: None, now };
        event.extend_from_slice(&write_error_body(ErrorBodyFormat::Json, error, &origin));
        event.extend_from_slice(b"\n\n");
        event
    }
}

/// Returns the first block. Its position, which is no event, is for a client that loses the connection before it has
/// received one.
fn beginning(from: ChangePosition) -> Vec<u8> {
    format!("{RETRY}\nid: {}\n\n", from.previous()).into_bytes()
}

/// Returns a comment, with the position of the stream, so that a client that connects again after a long time without
/// events does not name a position that is no longer kept. It is no event, because it has no data.
fn heartbeat(from: ChangePosition) -> Vec<u8> {
    format!(": heartbeat\nid: {}\n\n", from.previous()).into_bytes()
}

impl RowReader {
    /// Returns whether no later change can match.
    fn is_finished(&self) -> bool {
        self.ranges.is_empty() || self.last.is_some_and(|last| self.from > last)
    }

    /// Reads up to the first batch with changes, but not beyond a deadline. Fails if the log contains none.
    async fn find_first(&mut self, feed: &ChangeFeed, deadline: Instant, missing: Failure) -> Result<(), Failure> {
        let end = feed.next();
        while self.batch.is_empty() && clock::instant() < deadline {
            if self.from.transaction >= end {
                return Err(Failure { position: Some(self.from.previous()), ..missing });
            }
            self.read(feed).await?;
            // Other requests run on the same threads.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn read(&mut self, feed: &ChangeFeed) -> Result<(), Failure> {
        let page = feed.read(self.from.transaction, &self.scope.selection, READ_BYTES).await?;
        (self.batch, self.next_in_batch) = (page.transactions, 0);
        self.next_batch = page.next.max(self.from.transaction + 1);
        if self.batch.is_empty() {
            self.from = ChangePosition::start_of(self.next_batch);
        }
        Ok(())
    }

    /// Writes events up to the size of a piece. Returns nothing at the end of the batch.
    fn write_events(&mut self) -> Result<Vec<u8>, DamagedRecord> {
        let mut out = Vec::new();
        while let Some(transaction) = self.batch.get(self.next_in_batch) {
            for change in &transaction.changes {
                let position = ChangePosition { transaction: transaction.position, index: change.index };
                if position < self.from {
                    continue;
                }
                self.from = position;
                if out.len() >= PIECE_BYTES || self.is_finished() {
                    return Ok(out);
                }
                self.from = position.next();
                let Some((key, row)) = self.rows.row(transaction, change, &self.scope)? else { continue };
                if self.ranges.last().is_none_or(|range| range.end.as_deref().is_some_and(|end| key >= end)) {
                    self.last = Some(position);
                    return Ok(out);
                }
                if !KeyRange::any_contains(&self.ranges, key) {
                    continue;
                }
                if let Some(filter) = &self.filter
                    && !filter.matches(&mut StoredEntity::from(row.clone()))?
                {
                    continue;
                }
                out.extend_from_slice(b"id: ");
                out.extend_from_slice(row.key.row.as_bytes());
                out.extend_from_slice(b"\nevent: change\ndata: ");
                write_entity_in_set(&mut out, &self.form.entity_context(), &row, &mut self.cache, true)?;
                out.extend_from_slice(b"\n\n");
            }
            self.next_in_batch += 1;
            let next = self.batch.get(self.next_in_batch).map_or(self.next_batch, |next| next.position);
            self.from = ChangePosition::start_of(next);
        }
        self.batch = Vec::new();
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::streams::StreamRegistry;
    use engine::{Engine, KeepChanges, Memory, TableKey};
    use model::clock::SystemClock;
    use model::{AccountName, Dialect, TableName};
    use wire::payload::ResponseContext;
    use wire::{Format, MetadataLevel, Version};

    const DURATION: Duration = Duration::from_secs(40);

    fn stream(engine: &Memory, registry: &Arc<StreamRegistry>) -> ChangeStream {
        let account = AccountName::new("orchard").unwrap();
        let format = Format::Json(MetadataLevel::Minimal);
        let response = ResponseContext {
            base: "",
            account: &account,
            dialect: Dialect::Storage,
            format,
            version: Version::JSON,
            now: DateTime::MIN,
        };
        let feed = Arc::new(ChangeFeed::new(engine.change_log().unwrap(), 1));
        let now = clock::instant();
        let slot = registry.open(&account, None).unwrap();
        let from = ChangePosition::start_of(feed.next());
        let reader = RowReader {
            scope: ChangeScope::new(&account, &ChangesTable::All, vec![KeyRange::all()], false),
            ranges: vec![KeyRange::all()],
            filter: None,
            last: None,
            form: PageForm::new(response, "$Changes", None),
            rows: ChangeRows::default(),
            cache: EncoderCache::default(),
            from,
            batch: Vec::new(),
            next_in_batch: 0,
            next_batch: from.transaction,
        };
        ChangeStream {
            watch: feed.watch(),
            feed,
            stopped: slot.stopped(),
            slot,
            _memory: MemoryPermit::default(),
            ends_at: now + DURATION,
            heartbeat_at: now,
            next_piece: NextPiece::Beginning,
            reader,
            request_id: String::new(),
            began: (now, DateTime::MIN),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_changes_has_heartbeats_and_an_end() {
        let engine = Memory::new(SystemClock).keep_changes(KeepChanges { age: DURATION, bytes: 1 << 20 });
        let registry = StreamRegistry::new(1);
        let mut stream = stream(&engine, &registry);
        let began = tokio::time::Instant::now();
        let table = TableKey { account: AccountName::new("orchard").unwrap(), name: TableName::new("trees").unwrap() };
        let mut pieces = Vec::new();
        while let Some(piece) = stream.piece().await {
            let text = String::from_utf8_lossy(&piece).into_owned();
            pieces.push((began.elapsed().as_secs(), text.lines().next().unwrap().to_owned(), text.ends_with("\n\n")));
            if pieces.len() == 2 {
                engine.create_table(&table).await.unwrap();
            }
        }
        let piece = |seconds, first: &str| (seconds, first.to_owned(), true);
        assert_eq!(
            pieces,
            [
                piece(0, "retry: 1000"),
                piece(15, ": heartbeat"),
                piece(15, "id: 00000000000000000001-000"),
                piece(30, ": heartbeat"),
            ]
        );
        assert_eq!(began.elapsed(), DURATION);
        assert!(stream.piece().await.is_none());
        assert_eq!(heartbeat(stream.reader.from), b": heartbeat\nid: 00000000000000000001-999\n\n");
        assert_eq!(registry.figures().positions, [(0, 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_the_server_stops() {
        let engine = Memory::new(SystemClock).keep_changes(KeepChanges { age: DURATION, bytes: 1 << 20 });
        let registry = StreamRegistry::new(1);
        let mut stream = stream(&engine, &registry);
        stream.piece().await.unwrap();
        let began = tokio::time::Instant::now();
        let (end, ()) = tokio::join!(stream.piece(), async { registry.stop() });
        assert!(end.is_none() && began.elapsed() == Duration::ZERO);
    }
}
