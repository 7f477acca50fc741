//! A workload for any service: clients that send random conflicting requests to few entities, and record the answers.
//!
//! This module must not depend on a transport; tests implement [`Client`].

use crate::operation::{Action, Answer, Filter, Kind, Mutation, Page, Property, Stamp, Value, Version};
use crate::recorder::ClientLog;
use fastrand::Rng;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

/// The reason why an operation has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The service failed, and may have executed the request; it may serve the next one.
    Failed,
    /// The service promises that it did not execute the request, or the request was not sent. The service may serve
    /// the next one.
    NotExecuted,
}

/// A connection to a service.
pub trait Client: Send {
    /// Reads an entity.
    fn get(&mut self, partition: &str, row: &str) -> impl Future<Output = Result<Option<Version>, NoAnswer>> + Send;

    /// Reads a page. The boundaries of the page must be those that the service states.
    fn page(&mut self, partition: &str, query: &Query) -> impl Future<Output = Result<Page, NoAnswer>> + Send;

    /// Executes the mutations as one transaction, or a single mutation as such.
    fn write(
        &mut self,
        partition: &str,
        mutations: &[Mutation],
    ) -> impl Future<Output = Result<Answer, NoAnswer>> + Send;
}

/// Sends requests until `count` were sent, the connection is lost, or `is_over` is set. Returns the number of answers.
pub async fn run_client<C: Client>(
    client: &mut C,
    log: &ClientLog,
    choices: &mut Choices,
    count: u64,
    is_over: &AtomicBool,
) -> u64 {
    let mut answers = 0;
    for _ in 0..count {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let (number, request) = choices.request(&mut || log.token());
        let partition = format!("p{number}");
        if let Ok(action) = send(client, log, &partition, &request).await {
            choices.learn(number, &request, &action);
            answers += 1;
        }
    }
    answers
}

async fn send<C: Client>(
    client: &mut C,
    log: &ClientLog,
    partition: &str,
    request: &Request,
) -> Result<Action, NoAnswer> {
    Ok(match request {
        Request::Get(row) => {
            let pending = log.read();
            let action = Action::Get { row: row.clone(), found: client.get(partition, row).await? };
            pending.answered(partition, action.clone());
            action
        }
        Request::Page(query) => {
            let pending = log.read();
            let action = Action::Page(client.page(partition, query).await?);
            pending.answered(partition, action.clone());
            action
        }
        Request::Write(mutations) => {
            let pending = log.write(partition, mutations.clone());
            let answer = match client.write(partition, mutations).await {
                Ok(answer) => answer,
                Err(reason) => {
                    if reason == NoAnswer::NotExecuted {
                        pending.discard();
                    }
                    return Err(reason);
                }
            };
            pending.answered(answer.clone());
            Action::Write { mutations: mutations.clone(), answer }
        }
    })
}

/// The keys and kinds of requests.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// The number of partitions.
    pub partitions: usize,
    /// The number of entities in each partition.
    pub rows: usize,
    /// Whether some pages have filters.
    pub has_filters: bool,
}

/// A page as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The first row key that the page may contain: the start of the query, or the position in a continuation token.
    pub from: String,
    /// The first row key after the query. `None` stands for the end of the partition.
    pub until: Option<String>,
    /// The filter.
    pub filter: Option<Filter>,
    /// The maximum number of entities in the page.
    pub limit: usize,
    /// Whether `from` is the position in a continuation token.
    pub is_continued: bool,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A read of one entity.
    Get(String),
    /// A read of a page.
    Page(Query),
    /// A single mutation, or a transaction.
    Write(Vec<Mutation>),
}

/// The random choices of a client.
#[derive(Debug, Clone)]
pub struct Choices {
    random: Rng,
    mix: Mix,
    known: HashMap<(usize, String), Stamp>,
    /// The next page of a query, and its partition.
    continued: Option<(usize, Query)>,
    last_token: u64,
}

impl Choices {
    /// Creates the choices of a client, which depend only on the seed and on what the client learns.
    pub fn new(seed: u64, mix: Mix) -> Self {
        Self { random: Rng::with_seed(seed), mix, known: HashMap::new(), continued: None, last_token: 0 }
    }

    /// Returns the next request and the number of its partition. `token` returns a token that was never used before.
    pub fn request(&mut self, token: &mut impl FnMut() -> u64) -> (usize, Request) {
        if let Some((partition, query)) = self.continued.take() {
            return (partition, Request::Page(query));
        }
        let partition = self.random.usize(0..self.mix.partitions);
        let request = match self.random.u32(0..100) {
            0..25 => Request::Get(self.row()),
            25..45 => Request::Page(self.query()),
            45..75 => {
                let row = self.row();
                Request::Write(vec![self.mutation(partition, row, token)])
            }
            _ => {
                let mut rows: Vec<usize> = (0..self.mix.rows).collect();
                self.random.shuffle(&mut rows);
                let count = self.random.usize(1..4);
                let rows = rows.into_iter().take(count);
                Request::Write(rows.map(|row| self.mutation(partition, name(row), token)).collect())
            }
        };
        (partition, request)
    }

    /// Learns `ETag`s and the next page from an answer.
    pub fn learn(&mut self, partition: usize, request: &Request, action: &Action) {
        let mut learn = |row: &String, etag: Stamp| _ = self.known.insert((partition, row.clone()), etag);
        match action {
            Action::Get { row, found: Some(found) } => learn(row, found.etag),
            Action::Page(page) => {
                page.entities.iter().for_each(|(row, version)| learn(row, version.etag));
                if let Request::Page(query) = request {
                    self.continued = next_page(query, page).map(|next| (partition, next));
                }
            }
            Action::Write { mutations, answer: Answer::Done(etags) } => {
                for (mutation, etag) in mutations.iter().zip(etags) {
                    if let Some(etag) = etag {
                        learn(&mutation.row, *etag);
                    }
                }
            }
            Action::Get { found: None, .. } | Action::Write { .. } => {}
        }
    }

    fn row(&mut self) -> String {
        name(self.random.usize(0..self.mix.rows))
    }

    fn property(&mut self) -> Property {
        let [first, ..] = Property::USUAL;
        self.random.choice(Property::USUAL).unwrap_or(first)
    }

    fn query(&mut self) -> Query {
        let mut ends = [self.row(), self.row()];
        ends.sort();
        let [from, until] = ends;
        let is_whole = self.random.bool();
        let filter = Filter { property: self.property(), at_least: self.random.u64(0..=self.last_token) };
        Query {
            from: if is_whole { String::new() } else { from },
            until: (!is_whole && self.random.bool()).then_some(until),
            filter: Some(filter).filter(|_| self.mix.has_filters && self.random.u32(0..3) == 0),
            limit: self.random.usize(1..=self.mix.rows),
            is_continued: false,
        }
    }

    fn mutation(&mut self, partition: usize, row: String, token: &mut impl FnMut() -> u64) -> Mutation {
        const KINDS: [Kind; 8] = [
            Kind::Insert,
            Kind::Insert,
            Kind::Replace,
            Kind::Merge,
            Kind::InsertOrReplace,
            Kind::InsertOrMerge,
            Kind::Delete,
            Kind::Delete,
        ];
        let kind = self.random.choice(KINDS).unwrap_or(Kind::Insert);
        let is_conditional = matches!(kind, Kind::Replace | Kind::Merge | Kind::Delete) && self.random.bool();
        let known = self.known.get(&(partition, row.clone())).copied();
        let mut value = Value::default();
        if kind != Kind::Delete {
            self.last_token = token();
            for _ in 0..self.random.u32(1..3) {
                value.set(self.property(), self.last_token);
            }
        }
        Mutation { row, kind, if_match: known.filter(|_| is_conditional), value }
    }
}

/// Returns the query for the next page, if the page states that there may be one.
fn next_page(query: &Query, page: &Page) -> Option<Query> {
    let until = page.until.clone().filter(|_| page.until != query.until)?;
    Some(Query { from: until, is_continued: true, ..query.clone() })
}

fn name(row: usize) -> String {
    format!("r{row:02}")
}
