//! The results of a query, as pages or one by one.
//!
//! This module must not know how queries are built.

use super::continuation::{Continuation, next};
use super::entities::bag;
use super::table::Table;
use crate::entity::{EntityError, PropertyBag};
use crate::error::Error;
use crate::pipeline::{BodyFormat, Operation, unreadable};
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use wire::json::read_entity_set;
use wire::uri::encode_component;

pub(super) type Read<T> = Arc<dyn Fn(PropertyBag) -> Result<T, EntityError> + Send + Sync>;

/// A page of the results of a query, in key order.
///
/// ```
/// # use rowhouse_client::{PropertyBag, Table};
/// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
/// let mut pages = orders.query::<PropertyBag>().pages();
/// while let Some(page) = pages.next().await {
///     println!("{} entities", page?.items.len());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The results. A page may be empty although more pages follow.
    pub items: Vec<T>,
    /// The position of the next page; `None` for the last page.
    pub next: Option<Continuation>,
}

pub(super) struct PageRequest<T> {
    pub(super) table: Table,
    /// Each option is preceded by an ampersand.
    pub(super) options: String,
    pub(super) page_size: usize,
    /// The names of the properties to read (empty for all properties), and of the properties that the type marks for
    /// encryption.
    pub(super) select: Vec<String>,
    pub(super) marked: Vec<&'static str>,
    pub(super) read: Read<T>,
}

#[derive(Debug)]
pub(super) struct Position {
    pub(super) from: Option<Continuation>,
    pub(super) remaining: u64,
}

impl<T> PageRequest<T> {
    pub(super) fn with_filter(&self, filter: Option<&str>) -> Self {
        let filter = filter.map_or_else(String::new, |filter| format!("&$filter={}", encode_component(filter)));
        Self {
            table: self.table.clone(),
            options: format!("{filter}{}", self.options),
            page_size: self.page_size,
            select: self.select.clone(),
            marked: self.marked.clone(),
            read: Arc::clone(&self.read),
        }
    }

    /// If the page exceeds the maximum size of a response, requests it again with half as many entities.
    async fn page(&self, from: Option<&Continuation>, limit: usize) -> Result<Page<T>, Error> {
        let position = from.map(Continuation::options).unwrap_or_default();
        let mut top = limit;
        loop {
            let query = format!("$top={top}{}{position}", self.options);
            let what = self.table.what("querying the table");
            let operation = Operation::get(what, self.table.path("()"), query, BodyFormat::Json);
            match self.table.pipeline.execute(&operation).await {
                Err(Error::ResponseTooLarge { .. }) if top > 1 => top = top.div_ceil(2),
                result => {
                    let response = result?;
                    let entities = read_entity_set(&response.body);
                    let entities = entities
                        .map_err(|error| unreadable(&operation, &format!("an entity is malformed: {error:?}")))?;
                    if entities.len() > top {
                        return Err(unreadable(&operation, "it has more entities than requested"));
                    }
                    let select: Vec<&str> = self.select.iter().map(String::as_str).collect();
                    let mut items = Vec::with_capacity(entities.len());
                    for stored in entities {
                        let bag = self.table.decrypted(bag(&operation, stored)?, &self.marked, &select).await?;
                        items.push((self.read)(bag)?);
                    }
                    return Ok(Page { items, next: next(&operation, from, &response)? });
                }
            }
        }
    }
}

/// The pages of a query, read one at a time when requested. Also implements [`Stream`].
///
/// ```
/// # use rowhouse_client::{PropertyBag, Table};
/// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
/// let mut pages = orders.query::<PropertyBag>().pages();
/// while let Some(page) = pages.next().await {
///     println!("{} entities", page?.items.len());
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is read until a page is requested"]
pub struct Pages<T> {
    request: Arc<PageRequest<T>>,
    /// `None` after the last page, and while a page is being read.
    position: Option<Position>,
    pending: Option<Pin<Box<dyn Future<Output = PageRead<T>> + Send>>>,
    /// The reason why the query cannot be sent. The first page is this error.
    error: Option<Error>,
}

type PageRead<T> = Result<(Page<T>, Option<Position>), Error>;

impl<T: Send + 'static> Pages<T> {
    pub(super) fn new(request: PageRequest<T>, position: Option<Position>, error: Option<Error>) -> Self {
        Self { request: Arc::new(request), position, pending: None, error }
    }

    /// Returns the next page, or `None` after the last page or after an error.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// if let Some(page) = orders.query::<PropertyBag>().pages().next().await {
    ///     println!("{} entities", page?.items.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<Page<T>, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn start(&self, position: Position) -> Pin<Box<dyn Future<Output = PageRead<T>> + Send>> {
        let request = Arc::clone(&self.request);
        Box::pin(async move {
            let Position { from, remaining } = position;
            let limit = usize::try_from(remaining).unwrap_or(usize::MAX).min(request.page_size);
            let page = request.page(from.as_ref(), limit).await?;
            let remaining = remaining.saturating_sub(page.items.len() as u64);
            let next = page.next.clone().filter(|_| remaining > 0);
            Ok((page, next.map(|next| Position { from: Some(next), remaining })))
        })
    }
}

impl<T: Send + 'static> Stream for Pages<T> {
    type Item = Result<Page<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(error) = self.error.take() {
            self.position = None;
            return Poll::Ready(Some(Err(error)));
        }
        if self.pending.is_none() {
            let Some(position) = self.position.take() else { return Poll::Ready(None) };
            self.pending = Some(self.start(position));
        }
        let Some(pending) = &mut self.pending else { return Poll::Ready(None) };
        let result = ready!(pending.as_mut().poll(context));
        self.pending = None;
        Poll::Ready(Some(result.map(|(page, position)| {
            self.position = position;
            page
        })))
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("position", &self.position).finish_non_exhaustive()
    }
}

/// The results of a query, one by one. Also implements [`Stream`].
///
/// ```
/// # use rowhouse_client::{PropertyBag, Table};
/// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
/// let mut all = orders.query::<PropertyBag>().stream();
/// while let Some(order) = all.next().await {
///     println!("{}", order?.key.row.as_str());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is read until a result is requested"]
pub struct Results<T> {
    pages: Pages<T>,
    page: VecDeque<T>,
}

impl<T: Send + 'static> Results<T> {
    pub(super) fn new(pages: Pages<T>) -> Self {
        Self { pages, page: VecDeque::new() }
    }

    /// Returns the next result, or `None` after the last result or after an error.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let first = orders.query::<PropertyBag>().stream().next().await.transpose()?;
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

/// Results are never pinned.
impl<T> Unpin for Results<T> {}

impl<T: Send + 'static> Stream for Results<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.page.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            match ready!(Pin::new(&mut self.pages).poll_next(context)) {
                Some(Ok(page)) => self.page = page.items.into(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}
