//! Query Entities (specification 04), and Count Entities, an extension.
//!
//! The scan passes each entity to a [`PageWriter`] as a borrow of the engine's memory, and the writer encodes it into
//! the segments of the response body. A page is therefore in memory only once, as the bytes that will be sent. The
//! memory for these bytes is acquired before the page is written; a page whose first entity needs more is read again
//! with more memory. If the client disconnects, the future of the request is dropped, and the scan with it.

use crate::clock;
use crate::failure::Failure;
use crate::request::selection::{self, Selection, Token};
use crate::request::{OperationContext, Sequence};
use crate::response::{OperationResponse, QueryCost, scan_advice};
use crate::tables::AccountTables;
use bytes::Bytes;
use engine::{EntitySink, Order, Scan, SinkDecision, TableKey};
use http::HeaderMap;
use model::limits::PAGE_BODY_BYTES_MAX;
use model::record::DamagedRecord;
use model::{AccountName, DateTime, Dialect, EntityView, IndexedProperty};
use tracing::debug;
use wire::negotiation::ContentKind;
use wire::payload::{
    EncoderCache, EntityContext, ResponseContext, end_entity_set, write_entity_in_set, write_start_of_entity_set,
};
use wire::reason::ReasonKind;
use wire::size::{EntityBounds, UnwrittenEntity, end_bytes_max};
use wire::{ErrorCode, Format, Select, Version};

pub(super) async fn run(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    let mut attempt = Attempt { first_bytes_max: PAGE_BODY_BYTES_MAX, acquired: 0, count: None };
    loop {
        match page(tables, context, &mut attempt).await? {
            Ok(response) => return Ok(response),
            Err(bytes) => attempt.first_bytes_max = bytes,
        }
    }
}

/// What is kept when a page is read again, because its first entity needs more memory.
struct Attempt {
    first_bytes_max: usize,
    /// The memory that was acquired for the page so far, in bytes.
    acquired: usize,
    /// The number of entities in all pages, once they are counted.
    count: Option<u64>,
}

/// Returns a page, or the size that it needs, in bytes, if its first entity needs more than `first_bytes_max`.
async fn page(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
    attempt: &mut Attempt,
) -> Result<Result<OperationResponse, usize>, Failure> {
    let options = &context.options;
    // `$top` is checked before the filter (04 §7).
    let limit = options.top().map_err(Failure::service)?;
    let checked = if context.offered.extensions { options.check_extended() } else { options.check_supported() };
    checked.map_err(Failure::service)?;
    let selection = Selection::new(context)?;
    let Sequence { views, are_keys_descending, mut skip, needs_index } = Sequence::new(context, &selection.ranges)?;
    let wants_count = context.offered.extensions && options.wants_count().map_err(Failure::service)?;
    let select = context.select()?;
    let mut token = Token::new(context)?;
    if let Some(token) = &mut token
        && context.offered.extensions
    {
        // The first page skipped the entities, or its token has the rest.
        skip = token.take_skip()?;
    }
    let (kind, range_count, cause) = (selection.plan, selection.ranges.len(), selection.scan_cause());
    let cost = context.headers.explain.then(|| QueryCost::new(&selection.ranges, selection.scan_cause()));
    let deadline = context.query_deadline;
    // With a projection, it is not known how much of an entity will be written.
    let bytes_expected = if select.as_ref().is_none_or(Select::is_all) { PAGE_BODY_BYTES_MAX } else { usize::MAX };
    let Selection { ranges, is_confined, filter, .. } = selection;
    let (table, order) = tables.queried(context.table(), &views).await?;
    let order = match are_keys_descending {
        Some(is_descending) => Order::Key { is_descending },
        None => selection::query_order(context.response.dialect, order),
    };
    let list = selection::list(&table, &order);
    let from = token.map(|token| token.position(list.as_deref())).transpose()?;
    // The entities of a view have the addresses of the entities in its table.
    let name = if order.is_of_keys() { context.table() } else { table.name.as_str() };
    // The entities of a view in a key range are put in order before the page is written.
    let is_collected = is_confined && !order.is_of_keys();
    let bytes = if is_collected { PAGE_BODY_BYTES_MAX + attempt.first_bytes_max } else { attempt.first_bytes_max };
    let bytes_expected = if skip == 0 { bytes_expected } else { usize::MAX };
    let scan_limit = if limit == 0 { 0 } else { limit + skip };
    let scan =
        Scan { ranges, is_confined, order, from, filter, limit: scan_limit, bytes_expected, ..Scan::all(deadline) };
    let because_of_order = |failure: Failure| match needs_index.clone() {
        Some(reason) if failure.error.code == ErrorCode::ResourceNotFound => failure.because(reason),
        _ => failure,
    };
    if wants_count && scan.from.is_none() && attempt.count.is_none() {
        attempt.count = Some(count_all(tables, &table, &scan).await.map_err(because_of_order)?);
    }
    context.memory.acquire(bytes.saturating_sub(attempt.acquired)).await?;
    attempt.acquired = bytes;
    let page = PageWriter::new(PageForm::new(context.response, name, select), attempt.first_bytes_max);
    let sink = SkippingSink { skip, page: PageWriter { count: attempt.count, ..page } };
    let scanned = tables.scan(&table, scan, sink).await;
    let (SkippingSink { skip, page: writer }, end) = scanned.map_err(because_of_order)?;
    if let Some(bytes) = writer.bytes_needed {
        return Ok(Err(bytes));
    }
    debug!(
        target: "rowhouse::query",
        table = context.table(), plan = %kind, ranges = range_count, index = end.index.as_ref().map(IndexedProperty::as_str), examined = end.examined, answered = writer.entities, complete = end.next.is_none(),
        advice = scan_advice(cause, end.examined, writer.entities, end.index.is_some()),
    );
    let (examined, returned) = (end.examined, writer.entities);
    let segments = writer.finish()?;
    let cost = cost.map(|cost| cost.header(examined, returned, end.index.as_ref()));
    // `$top=0` ends the query (04 §5, UNVERIFIED).
    let next = end.next.filter(|_| limit > 0);
    let list = selection::list_to_skip(list, skip);
    Ok(Ok(OperationResponse {
        continuation: selection::tokens(context.response.dialect, list.as_deref(), next.as_ref()),
        headers: HeaderMap::from_iter(cost),
        ..OperationResponse::ok(context.content_type(ContentKind::Set), segments)
    }))
}

/// Counts the entities in all pages of a query. Fails if they cannot be counted before its deadline.
async fn count_all(tables: &AccountTables<'_>, table: &TableKey, scan: &Scan) -> Result<u64, Failure> {
    let mut scan = Scan { limit: usize::MAX, bytes_expected: usize::MAX, ..scan.clone() };
    let mut count = 0;
    loop {
        let end = tables.count(table, scan.clone()).await?;
        count += end.accepted;
        // A rehearsal makes pages end before the deadline.
        match end.next {
            None => return Ok(count),
            Some(_) if clock::instant() >= scan.deadline => {
                let reason = ReasonKind::CountInvalid.because("The entities cannot be counted in the time of a query.");
                return Err(Failure::service(ErrorCode::OperationTimedOut).because(reason));
            }
            next => scan.from = next,
        }
    }
}

/// Count Entities, an extension: the number of entities that match a filter.
///
/// Like a query, a count ends at its deadline with a continuation token. The client adds the counts of all responses.
pub(super) async fn count(
    tables: &AccountTables<'_>,
    context: &OperationContext<'_>,
) -> Result<OperationResponse, Failure> {
    context.options.check_supported().map_err(Failure::service)?;
    let selection = Selection::new(context)?;
    let cost = context.headers.explain.then(|| QueryCost::new(&selection.ranges, selection.scan_cause()));
    let Selection { ranges, is_confined, filter, .. } = selection;
    let token = Token::new(context)?;
    let (table, order) = tables.queried(context.table(), context.virtual_table.views()).await?;
    let list = selection::list(&table, &order).map(|view| {
        // Such a count has positions in the order of keys.
        if is_confined { format!("{view}/$count") } else { view }
    });
    let from = token.map(|token| token.position(list.as_deref())).transpose()?;
    let scan = Scan { ranges, is_confined, order, from, filter, ..Scan::all(context.query_deadline) };
    let end = tables.count(&table, scan).await?;
    Ok(OperationResponse {
        headers: HeaderMap::from_iter(cost.map(|cost| cost.header(end.examined, end.accepted, end.index.as_ref()))),
        ..OperationResponse::number(
            end.accepted,
            selection::tokens(context.response.dialect, list.as_deref(), end.next.as_ref()),
        )
    })
}

/// The size at which a segment of a page is closed, in bytes.
const SEGMENT_BYTES: usize = 64 * 1024;

/// The data is owned, because the scan may outlive the request.
pub(super) struct PageForm {
    base: String,
    account: AccountName,
    dialect: Dialect,
    table: String,
    format: Format,
    version: Version,
    now: DateTime,
    select: Option<Select>,
}

impl PageForm {
    pub(super) fn new(response: ResponseContext<'_>, table: &str, select: Option<Select>) -> Self {
        let ResponseContext { base, account, dialect, format, version, now } = response;
        let (base, account, table) = (base.to_owned(), account.clone(), table.to_owned());
        Self { base, account, dialect, table, format, version, now, select }
    }

    pub(super) fn entity_context(&self) -> EntityContext<'_> {
        let response = ResponseContext {
            base: &self.base,
            account: &self.account,
            dialect: self.dialect,
            format: self.format,
            version: self.version,
            now: self.now,
        };
        EntityContext { response, table: &self.table, select: self.select.as_ref() }
    }
}

/// Encodes entities into segments. The page ends before it becomes too long; only a page of one entity may be longer.
pub(super) struct PageWriter {
    form: PageForm,
    bounds: EntityBounds,
    cache: EncoderCache,
    full: Vec<Bytes>,
    full_bytes: usize,
    /// The maximum length of a page with one entity.
    first_bytes_max: usize,
    /// The length of a page with one entity if it exceeds the maximum. The entity was then refused.
    bytes_needed: Option<usize>,
    /// The maximum length of the closing of the page.
    end_bytes: usize,
    open: Vec<u8>,
    entities: u64,
    /// The number of entities in all pages, if the page contains it.
    count: Option<u64>,
    damage: Option<DamagedRecord>,
}

impl PageWriter {
    pub(super) fn new(form: PageForm, first_bytes_max: usize) -> Self {
        Self {
            bounds: EntityBounds::new(&form.entity_context()),
            end_bytes: end_bytes_max(&form.entity_context()),
            form,
            cache: EncoderCache::default(),
            full: Vec::new(),
            full_bytes: 0,
            first_bytes_max,
            bytes_needed: None,
            open: Vec::with_capacity(4096),
            entities: 0,
            count: None,
            damage: None,
        }
    }

    pub(super) fn finish(mut self) -> Result<Vec<Bytes>, Failure> {
        if let Some(damage) = self.damage {
            return Err(damage.into());
        }
        if self.entities == 0 {
            write_start_of_entity_set(&mut self.open, &self.form.entity_context(), true, self.count);
        }
        end_entity_set(&mut self.open, &self.form.entity_context());
        self.full.push(Bytes::from(self.open));
        Ok(self.full)
    }

    fn has_room(&mut self, entity: &EntityView<'_>) -> bool {
        let bytes_max = if self.entities == 0 { self.first_bytes_max } else { PAGE_BODY_BYTES_MAX };
        let room = bytes_max.saturating_sub(self.full_bytes + self.open.len() + self.end_bytes);
        let entity = UnwrittenEntity::stored(entity);
        if self.bounds.upper_bound(&entity) <= room {
            return true;
        }
        let bytes = self.bounds.measured_bound(&entity, self.form.select.as_ref());
        if bytes > room && self.entities == 0 {
            self.bytes_needed = Some(bytes + self.end_bytes);
        }
        bytes <= room
    }

    fn close_segment(&mut self) {
        if self.open.len() < SEGMENT_BYTES {
            return;
        }
        let mut full = std::mem::replace(&mut self.open, Vec::with_capacity(SEGMENT_BYTES + SEGMENT_BYTES / 8));
        if full.capacity() - full.len() > SEGMENT_BYTES {
            // A long entity makes the buffer grow to twice the necessary size.
            full.shrink_to_fit();
        }
        self.full_bytes += full.len();
        self.full.push(Bytes::from(full));
    }
}

/// Skips entities before a page begins.
struct SkippingSink {
    /// The number of entities that remain to be skipped.
    skip: usize,
    page: PageWriter,
}

impl EntitySink for SkippingSink {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        if self.skip == 0 {
            return self.page.entity(entity);
        }
        self.skip -= 1;
        SinkDecision::Accepted
    }
}

impl EntitySink for PageWriter {
    fn entity(&mut self, entity: &EntityView<'_>) -> SinkDecision {
        if !self.has_room(entity) {
            return SinkDecision::Refused;
        }
        self.close_segment();
        let form = self.form.entity_context();
        let is_first = self.entities == 0;
        if is_first {
            write_start_of_entity_set(&mut self.open, &form, false, self.count);
        }
        self.entities += 1;
        match write_entity_in_set(&mut self.open, &form, entity, &mut self.cache, is_first) {
            Ok(()) => SinkDecision::Accepted,
            Err(damage) => {
                self.damage = Some(damage);
                SinkDecision::AcceptedLast
            }
        }
    }
}
