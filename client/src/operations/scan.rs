//! Scans: queries whose key ranges are read concurrently, and counts.
//!
//! This module must not know how a table is split into ranges.

use super::pages::{PageRequest, Pages, Position};
use super::query::Query;
use super::ranges::{EntityRange, KeyPage, KeyReader, split};
use super::stored::Stored;
use super::table::Table;
use crate::entity::{Entity, PropertyBag};
use crate::error::Error;
use crate::future::BoxFuture;
use crate::limits::{PAGE_ENTITIES_MAX, SCAN_CONCURRENCY};
use crate::operations::Continuation;
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::JoinSet;

/// A query that reads several key ranges concurrently; created by [`Table::scan`] and [`Query::scan`].
///
/// The client finds the ranges by sampling keys, with at most 129 small requests. The results of a range are in key
/// order, but the ranges are interleaved. The scan does not see a consistent state of a table that other programs
/// change at the same time. It holds at most one page in memory for each range that is being read.
///
/// ```
/// use rowhouse_client::PropertyBag;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = rowhouse_client::TableService::from_connection_string(&server.connection_string())?;
/// # let orders = service.table("orders");
/// # orders.create().await?;
/// # orders.insert(&PropertyBag::new("2031", "0001")?.with("Total", 7_i64)?).await?;
/// let mut totals = orders.query::<PropertyBag>().select(|p| p.property::<i64>("Total")).scan().parallel(16).stream();
/// let mut sum = 0;
/// while let Some(total) = totals.next().await {
///     sum += total?;
/// }
/// assert_eq!(sum, 7);
/// assert_eq!(orders.scan::<PropertyBag>().count().await?, 1);
/// # Ok(()) }
/// ```
#[must_use = "a scan does nothing before it is run"]
pub struct Scan<E, T = Stored<E>> {
    query: Query<E, T>,
    parallel: usize,
}

impl<E: Entity, T: Send + 'static> Scan<E, T> {
    /// Sets the maximum number of ranges that are read concurrently: 8 by default, at least 1. With 1, the results are
    /// in key order.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let scan = orders.scan::<PropertyBag>().parallel(32);
    /// # }
    /// ```
    pub fn parallel(self, ranges_max: usize) -> Self {
        Self { parallel: ranges_max.max(1), ..self }
    }

    /// Runs the scan and returns its results one by one. Dropping them abandons the requests in flight.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let mut all = orders.scan::<PropertyBag>().stream();
    /// while let Some(order) = all.next().await {
    ///     println!("{}", order?.key.row.as_str());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stream(self) -> ScanResults<T> {
        let pages = self.pages();
        ScanResults { pages, page: VecDeque::new() }
    }

    /// Runs the scan and counts its results, whatever the query selects.
    ///
    /// Like [`Query::count`], this counts on the server where possible. Otherwise, the keys of all results are read.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let paid = orders.query::<PropertyBag>().filter_text("State eq 'paid'").scan().count().await?;
    /// # Ok(()) }
    /// ```
    pub async fn count(self) -> Result<u64, Error> {
        self.count_with(|_| ()).await
    }

    /// Like [`count`](Self::count), and calls a function with the number of results counted so far, at least every few
    /// seconds.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let all = orders.scan::<PropertyBag>().count_with(|counted| println!("{counted} counted")).await?;
    /// # Ok(()) }
    /// ```
    pub async fn count_with(self, mut on_progress: impl FnMut(u64) + Send) -> Result<u64, Error> {
        let Self { query, parallel } = self;
        query.check_reads_all()?;
        if let Some(count) = query.count_on_server(&mut on_progress).await? {
            return Ok(count);
        }
        let mut pages = Scan { query: query.reading_keys(|_| Ok(())), parallel }.pages();
        let mut count = 0;
        while let Some(page) = poll_fn(|context| pages.poll_next(context)).await {
            count += page?.len() as u64;
            on_progress(count);
        }
        Ok(count)
    }

    fn pages(self) -> ScanPages<T> {
        let Self { query, parallel } = self;
        let starting: BoxFuture<'static, Result<Vec<Pages<T>>, Error>> = Box::pin(async move {
            let (filter, table) = (query.text().map_err(Error::Entity)?, query.table().clone());
            query.check_reads_all()?;
            let request = query.request();
            let ranges = split(&table, filter.as_deref(), parallel).await?;
            Ok(ranges.iter().rev().map(|range| pages_of(&request, range, filter.as_deref())).collect())
        });
        ScanPages { starting: Some(starting), pending: Vec::new(), running: JoinSet::new(), parallel }
    }
}

fn pages_of<T: Send + 'static>(request: &PageRequest<T>, range: &EntityRange, filter: Option<&str>) -> Pages<T> {
    let request = request.with_filter(range.filter(filter).as_deref());
    Pages::new(request, Some(Position { from: None, remaining: u64::MAX }), None)
}

struct ScanPages<T> {
    /// `None` after the table was split.
    starting: Option<BoxFuture<'static, Result<Vec<Pages<T>>, Error>>>,
    /// In reverse order: the last range is first.
    pending: Vec<Pages<T>>,
    running: JoinSet<PageRead<T>>,
    parallel: usize,
}

type PageRead<T> = (Pages<T>, Option<Result<Vec<T>, Error>>);

impl<T: Send + 'static> ScanPages<T> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<T>, Error>>> {
        if let Some(starting) = &mut self.starting {
            let result = ready!(starting.as_mut().poll(context));
            self.starting = None;
            match result {
                Ok(pages) => self.pending = pages,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        loop {
            while self.running.len() < self.parallel
                && let Some(pages) = self.pending.pop()
            {
                self.read(pages);
            }
            let Some(joined) = ready!(self.running.poll_join_next(context)) else { return Poll::Ready(None) };
            match joined.unwrap_or_else(|error| resume_unwind(error.into_panic())) {
                (_, None) => {}
                (pages, Some(Ok(items))) => {
                    self.read(pages);
                    return Poll::Ready(Some(Ok(items)));
                }
                (_, Some(Err(error))) => {
                    self.pending.clear();
                    self.running = JoinSet::new();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn read(&mut self, mut pages: Pages<T>) {
        self.running.spawn(async move {
            let page = pages.next().await;
            (pages, page.map(|page| page.map(|page| page.items)))
        });
    }
}

/// The results of a scan, one by one. Also implements [`Stream`].
///
/// ```
/// # use rowhouse_client::{PropertyBag, Table};
/// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
/// let mut all = orders.scan::<PropertyBag>().stream();
/// while let Some(order) = all.next().await {
///     println!("{}", order?.key.row.as_str());
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is read until a result is requested"]
pub struct ScanResults<T> {
    pages: ScanPages<T>,
    page: VecDeque<T>,
}

impl<T: Send + 'static> ScanResults<T> {
    /// Returns the next result, or `None` after the last result or after an error.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let any = orders.scan::<PropertyBag>().stream().next().await.transpose()?;
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

/// Results are never pinned.
impl<T> Unpin for ScanResults<T> {}

impl<T: Send + 'static> Stream for ScanResults<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.page.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            match ready!(self.pages.poll_next(context)) {
                Some(Ok(items)) => self.page = items.into(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T> fmt::Debug for ScanResults<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanResults").field("parallel", &self.pages.parallel).finish_non_exhaustive()
    }
}

impl<E: Entity, T> fmt::Debug for Scan<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("query", &self.query).field("parallel", &self.parallel).finish()
    }
}

impl<E: Entity, T> Query<E, T> {
    /// Returns a scan, which reads several key ranges of the query concurrently. Because a scan reads all results, a
    /// query with [`take`](Self::take) or [`resume`](Self::resume) is an error.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let old = orders.query::<PropertyBag>().partitions(.."2031").scan().parallel(16).count().await?;
    /// # Ok(()) }
    /// ```
    pub fn scan(self) -> Scan<E, T> {
        Scan { query: self, parallel: SCAN_CONCURRENCY }
    }
}

impl Table {
    /// Returns a scan of all entities in the table, which reads several key ranges concurrently.
    /// [`Query::scan`] does the same for entities that match conditions.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// println!("{} orders", orders.scan::<PropertyBag>().parallel(16).count().await?);
    /// # Ok(()) }
    /// ```
    pub fn scan<E: Entity>(&self) -> Scan<E> {
        self.query::<E>().scan()
    }
}

impl KeyReader for Table {
    type Error = Error;

    fn page(
        &self,
        filter: Option<String>,
        from: Option<Continuation>,
        limit: usize,
    ) -> BoxFuture<'static, Result<KeyPage, Error>> {
        let mut query = self.query::<PropertyBag>().page_size(limit.min(PAGE_ENTITIES_MAX));
        if let Some(filter) = filter {
            query = query.filter_text(&filter);
        }
        if let Some(from) = from {
            query = query.resume(from);
        }
        let mut pages = query.reading_keys(|bag| Ok(bag.key)).pages();
        Box::pin(async move {
            match pages.next().await {
                Some(page) => page.map(|page| KeyPage { first: page.items.into_iter().next(), next: page.next }),
                None => Ok(KeyPage::default()),
            }
        })
    }
}
