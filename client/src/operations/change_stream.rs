//! Reads the change feed, page by page, and waits for further changes at its end.
//!
//! Invariants:
//!
//! 1. Every change after the start is returned once, in order, whatever errors occur in between.
//! 2. A place is advanced only past changes that were received.
//!
//! This module must not know what a change contains.

use super::continuation::{Continuation, next};
use super::query::is_closed;
use super::table::Table;
use crate::entity::EntityError;
use crate::error::Error;
use crate::future::BoxFuture;
use crate::limits::{CHANGES_PAUSE_MIN, PAGE_ENTITIES_MAX};
use crate::pipeline::{BodyFormat, Operation, Response, unreadable};
use futures_core::Stream;
use model::ChangePosition;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::sleep;
use wire::json::{ChangeRow, read_change_set};
use wire::uri::encode_component;

/// Selects only changes after all existing ones.
const AFTER_ALL: &str = "PartitionKey ge '99991231T2359'";

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    Now,
    Oldest,
    After(ChangePosition),
}

/// Converts a row of the feed.
pub(super) trait Convert<T>:
    Fn(ChangeRow<'_>) -> BoxFuture<'static, Result<T, Error>> + Send + Sync + 'static
{
}

impl<T, F> Convert<T> for F where F: Fn(ChangeRow<'_>) -> BoxFuture<'static, Result<T, Error>> + Send + Sync + 'static {}

pub(super) struct Reader<T> {
    pub(super) feed: Table,
    pub(super) texts: Vec<String>,
    pub(super) pause_max: Duration,
    pub(super) is_endless: bool,
    pub(super) convert: Box<dyn Convert<T>>,
}

/// Where a stream continues.
#[derive(Debug, Clone)]
struct Place {
    start: Start,
    /// Set only if the last page had no changes but was not the last one.
    continuation: Option<Continuation>,
    /// The pause before the next request. Zero if there may be further changes already.
    pause: Duration,
    /// Whether the feed was read successfully. From then on, a table that does not exist has no changes.
    was_read: bool,
    is_at_end: bool,
}

type Items<T> = Vec<(ChangePosition, Result<T, Error>)>;
type PageRead<T> = (Place, Result<Items<T>, Error>);

impl<T> Reader<T> {
    /// Reads the next page, which may be empty. After an error, the place is the place to continue from.
    async fn read(&self, mut place: Place) -> PageRead<T> {
        sleep(place.pause).await;
        let result = self.read_page(&mut place).await;
        if result.is_err() {
            // A program that ignores errors must not send requests without a pause.
            place.pause = self.next_pause(place.pause);
        }
        (place, result)
    }

    async fn read_page(&self, place: &mut Place) -> Result<Items<T>, Error> {
        if place.start == Start::Now {
            place.start = Start::After(end(&self.feed).await?);
        }
        let page = request(&self.feed, &self.filter(place.start)?, place.continuation.as_ref()).await;
        let (read_up_to, rows, continuation) = match &page {
            Ok(page) => (page.response.change_position(), page.rows()?, page.continuation.clone()),
            Err(Error::Refused(refusal)) if place.was_read && refusal.code == "TableNotFound" => {
                (refusal.position, Vec::new(), None)
            }
            Err(_) => return page.map(|_| Vec::new()),
        };
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            items.push((row.position, (self.convert)(row).await));
        }
        place.was_read = true;
        place.is_at_end = continuation.is_none();
        let read_up_to = read_up_to.filter(|_| place.is_at_end);
        let last = items.last().map(|(position, _)| *position);
        if let Some(position) = last.max(read_up_to).max(place.position()) {
            place.start = Start::After(position);
        }
        place.continuation = continuation.filter(|_| items.is_empty());
        let has_more = !items.is_empty() || !place.is_at_end;
        place.pause = if has_more { Duration::ZERO } else { self.next_pause(place.pause) };
        Ok(items)
    }

    fn next_pause(&self, pause: Duration) -> Duration {
        (pause * 2).clamp(CHANGES_PAUSE_MIN, self.pause_max.max(CHANGES_PAUSE_MIN))
    }

    fn filter(&self, start: Start) -> Result<String, Error> {
        if let Some(text) = self.texts.iter().find(|text| !is_closed(text)) {
            return Err(EntityError::FilterText { text: Box::from(text.as_str()) }.into());
        }
        let position = match start {
            Start::After(position) => Some(format!("RowKey gt '{position}'")),
            Start::Oldest | Start::Now => None,
        };
        let conditions = position.into_iter().chain(self.texts.iter().map(|text| format!("({text})")));
        Ok(conditions.collect::<Vec<_>>().join(" and "))
    }
}

struct Page {
    operation: Operation,
    response: Response,
    continuation: Option<Continuation>,
}

impl Page {
    fn rows(&self) -> Result<Vec<ChangeRow<'_>>, Error> {
        let malformed = |error| unreadable(&self.operation, &format!("a change is malformed: {error:?}"));
        read_change_set(&self.response.body).map_err(malformed)
    }
}

/// If the page exceeds the maximum size of a response, requests it again with half as many changes.
async fn request(feed: &Table, filter: &str, from: Option<&Continuation>) -> Result<Page, Error> {
    let filter = if filter.is_empty() { String::new() } else { format!("&$filter={}", encode_component(filter)) };
    let position = from.map(Continuation::options).unwrap_or_default();
    let mut top = PAGE_ENTITIES_MAX;
    loop {
        let query = format!("$top={top}{filter}{position}");
        let operation = Operation::get(feed.what("reading the change feed"), feed.path("()"), query, BodyFormat::Json);
        match feed.pipeline.execute(&operation).await {
            Err(Error::ResponseTooLarge { .. }) if top > 1 => top = top.div_ceil(2),
            Err(Error::Refused(refusal)) if refusal.code == "PositionExpired" => {
                return Err(Error::PositionExpired { oldest: refusal.position.map(ChangePosition::next), refusal });
            }
            result => {
                let response = result?;
                let continuation = next(&operation, from, &response)?;
                return Ok(Page { operation, response, continuation });
            }
        }
    }
}

/// Returns the position of the end of the log.
pub(super) async fn end(feed: &Table) -> Result<ChangePosition, Error> {
    let page = match request(feed, AFTER_ALL, None).await {
        // All changes were dropped because of their age, so the oldest position is the next one.
        Err(Error::PositionExpired { oldest: Some(oldest), .. }) => return Ok(oldest.previous()),
        page => page?,
    };
    let missing = || unreadable(&page.operation, "it has no position, so the service has no change feed");
    page.response.change_position().ok_or_else(missing)
}

impl Place {
    fn position(&self) -> Option<ChangePosition> {
        match self.start {
            Start::After(position) => Some(position),
            Start::Now | Start::Oldest => None,
        }
    }
}

/// The changes of a table or of all tables, one by one. Also implements [`Stream`].
///
/// At the end of the log, the stream waits for further changes. An error does not end it: the next call continues at
/// the same position, so no change is lost or repeated. The library has then already retried the request, as its
/// [`RetryPolicy`](crate::RetryPolicy) says.
///
/// ```
/// # use rowhouse_client::{Error, PropertyBag, Table};
/// # async fn example(orders: Table) -> Result<(), Error> {
/// let mut changes = orders.changes::<PropertyBag>().from_start().stream();
/// while let Some(change) = changes.next().await {
///     match change {
///         Ok(change) => println!("{} {:?}", change.position, change.operation),
///         // The changes after the position were dropped: read the whole table after a call of `end`.
///         Err(error @ Error::PositionExpired { .. }) => return Err(error),
///         Err(error) => eprintln!("{error}; trying again"),
///     }
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is read until a change is requested"]
pub struct ChangeStream<T> {
    reader: Arc<Reader<T>>,
    /// The place after the changes that were received.
    place: Place,
    pending: Option<BoxFuture<'static, PageRead<T>>>,
    received: VecDeque<(ChangePosition, Result<T, Error>)>,
    /// The position of the change that was returned last, unless the place is the position.
    returned: Option<ChangePosition>,
}

impl<T: Send + 'static> ChangeStream<T> {
    /// Returns the next change. Waits for it, unless the stream ends at the end of the log. If the future is dropped,
    /// no change is lost.
    ///
    /// ```
    /// # async fn example(orders: rowhouse_client::Table) -> Result<(), rowhouse_client::Error> {
    /// let first = orders.changes::<rowhouse_client::PropertyBag>().stream().next().await.transpose()?;
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T> ChangeStream<T> {
    pub(super) fn new(reader: Reader<T>, start: Start) -> Self {
        let place = Place { start, continuation: None, pause: Duration::ZERO, was_read: false, is_at_end: false };
        Self { reader: Arc::new(reader), place, pending: None, received: VecDeque::new(), returned: None }
    }

    /// Whether the feed was read successfully since the stream began, even if it contained no changes.
    ///
    /// ```
    /// # fn example(orders: rowhouse_client::Table) {
    /// let changes = orders.changes::<rowhouse_client::PropertyBag>().stream();
    /// assert!(!changes.has_read());
    /// # }
    /// ```
    pub fn has_read(&self) -> bool {
        self.place.was_read
    }

    /// Returns the position of the change that was returned last, or a later position up to which there were no other
    /// changes. Before anything was read, it is the position where the stream begins, or `None` if that is not known.
    ///
    /// Store this position from time to time if a table seldom changes: the position of its last change may be so old
    /// that the server no longer keeps the log from there on.
    ///
    /// ```
    /// # fn example(orders: rowhouse_client::Table) {
    /// let changes = orders.changes::<rowhouse_client::PropertyBag>().stream();
    /// assert_eq!(changes.position(), None);
    /// # }
    /// ```
    pub fn position(&self) -> Option<ChangePosition> {
        if self.received.is_empty() { self.place.position() } else { self.returned }
    }
}

/// Changes are never pinned.
impl<T> Unpin for ChangeStream<T> {}

impl<T: Send + 'static> Stream for ChangeStream<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        loop {
            if let Some((position, item)) = self.received.pop_front() {
                self.returned = Some(position);
                return Poll::Ready(Some(item));
            }
            if self.pending.is_none() {
                if self.place.is_at_end && !self.reader.is_endless {
                    return Poll::Ready(None);
                }
                let (reader, place) = (Arc::clone(&self.reader), self.place.clone());
                self.pending = Some(Box::pin(async move { reader.read(place).await }));
            }
            let Some(pending) = &mut self.pending else { return Poll::Ready(None) };
            let (place, result) = ready!(pending.as_mut().poll(context));
            self.pending = None;
            self.returned = self.place.position();
            self.place = place;
            match result {
                Ok(items) => self.received = items.into(),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl<T> fmt::Debug for ChangeStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream").field("place", &self.place).finish_non_exhaustive()
    }
}
