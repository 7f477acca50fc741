//! Builds the requests of one connection, one after another, and checks the responses.
//!
//! An operation is a single request, except that a filtered query with all its pages is one operation. A response with
//! unexpected content counts as an error, so that a wrong result never looks fast.

use crate::dataset::{Dataset, ONE_PERCENT_FILTER, Usage, entity_key};
use crate::generator::connection::Connection;
use crate::generator::request::{Request, Signer, continuation, filter_query};
use clap::ValueEnum;
use fastrand::Rng;
use memchr::memmem;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wire::batch::ChangesetWriter;
use wire::uri::write_entity_address;

/// The maximum number of operations in a transaction that the service accepts.
pub(crate) const BATCH_ENTITIES: u64 = 100;
const RANGE_ENTITIES: u64 = 100;
/// The share of the operations that hot partitions get.
const HOT_PERCENT: u64 = 80;
/// Tables are filled with upserts, which are retried after a broken connection, as in client libraries.
const FILL_ATTEMPTS: u32 = 3;
/// The timeout after which a request counts as an error and its connection is closed.
const REQUEST_TIME_MAX: Duration = Duration::from_mins(2);
const SHOWN_BYTES_MAX: usize = 400;
/// The beginning of the only part of the response to a transaction for which the server is too busy.
const BUSY_PART: &[u8] = b"HTTP/1.1 503";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Insert new entities, one per request
    Insert,
    /// Replace existing entities (Insert Or Replace), one per request
    Upsert,
    /// Change two properties of existing entities (Merge, If-Match: *), one per request
    Merge,
    /// Read existing entities by their keys
    Get,
    /// Read existing entities by a filter on both keys
    QueryKeys,
    /// Read the first entity from a row key on in a partition ($top=1)
    QueryTop,
    /// Read the whole table in pages of 1,000 entities
    QueryPage,
    /// Read the 1% of the table that a filter on a property matches; all examined entities are counted
    QueryFilter,
    /// Insert new entities in transactions of 100
    Batch100,
    /// Write the entities of the table in transactions of 100, until all are written or the time is over
    Load,
    /// 80% get, 15% upsert, 5% ranges of 100 entities
    Mixed,
}

impl Workload {
    pub(crate) fn usage(self) -> Usage {
        match self {
            Self::Get | Self::QueryKeys | Self::QueryTop | Self::QueryPage | Self::QueryFilter => Usage::Read,
            Self::Upsert | Self::Merge | Self::Mixed => Usage::Overwritten,
            Self::Insert | Self::Batch100 | Self::Load => Usage::Growing,
        }
    }

    /// Returns the name used on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) dataset: Dataset,
    pub(crate) table: String,
    /// Distinguishes the entities that this run inserts from entities of other runs.
    pub(crate) run: u64,
    pub(crate) sequence: AtomicU64,
    /// The number of entities that are read. `None` means all.
    pub(crate) working_set: Option<u64>,
    /// The numbers of the partitions that get most of the operations. If it is empty, all partitions get the same.
    pub(crate) hot: Vec<u64>,
}

impl Plan {
    /// Selects the entity of an operation.
    fn random_entity(&self, random: &mut Rng) -> u64 {
        let Dataset { entities, per_partition, .. } = self.dataset;
        match random.choice(&self.hot) {
            Some(partition) if random.u64(..100) < HOT_PERCENT => {
                partition * per_partition + random.u64(..per_partition)
            }
            _ => random.u64(..entities),
        }
    }

    /// The working set is spread over the whole table, so each of its entities is in a different block if there are
    /// enough blocks.
    fn within_working_set(&self, number: u64) -> u64 {
        match self.working_set {
            Some(size) if size < self.dataset.entities => number % size * (self.dataset.entities / size),
            _ => number,
        }
    }
}

/// The reason for a failed operation, by which the report classifies it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The status and the body of the response.
    Status(u16, String),
    /// The response is 503 with `Retry-After`, or its only part is 503.
    Busy,
    /// The status of the response is as expected, but the content is not.
    Content(String),
    Connection(std::io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status, body) => write!(f, "status {status}: {body}"),
            Self::Busy => f.write_str("the server is busy (503)"),
            Self::Content(what) => f.write_str(what),
            Self::Connection(error) => write!(f, "{error}"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Connection(error)
    }
}

struct Outcome {
    entities: u64,
    next: Option<(String, Option<String>)>,
}

#[derive(Debug)]
pub(crate) struct Client {
    plan: Arc<Plan>,
    signer: Signer,
    random: Rng,
    connection: Option<Connection>,
    page: String,
    paged: u64,
    request: Vec<u8>,
    path: Vec<u8>,
    body: Vec<u8>,
    batches: VecDeque<BatchBody>,
}

impl Client {
    /// The client connects on its first operation.
    pub(crate) fn new(plan: Arc<Plan>, signer: Signer, seed: u64) -> Self {
        let (connection, page, paged, request, path, body, batches) = Default::default();
        let random = Rng::with_seed(seed);
        Self { plan, signer, random, connection, page, paged, request, path, body, batches }
    }

    /// Returns the number of entities read or written, or `None` if no work is left.
    pub(crate) async fn operation(&mut self, workload: Workload) -> Result<Option<u64>, Failure> {
        let workload = match workload {
            Workload::Load => return self.fill().await,
            Workload::Mixed => match self.random.u8(..100) {
                0..80 => Workload::Get,
                80..95 => Workload::Upsert,
                _ => return self.range().await.map(Some),
            },
            workload => workload,
        };
        let number = self.plan.random_entity(&mut self.random);
        let entities = match workload {
            Workload::Get => {
                let number = self.plan.within_working_set(number);
                self.address(number);
                let path = std::mem::take(&mut self.path);
                let outcome = self.exchange(&Request::get(&path, ""), 200, b"\"RowKey\":").await;
                self.path = path;
                one(outcome?.entities)?
            }
            Workload::Insert => self.insert(number).await?,
            Workload::Upsert => self.upsert(number).await?,
            Workload::Merge => self.merge(number).await?,
            Workload::QueryKeys => self.small_query(number, "eq", "").await?,
            Workload::QueryTop => self.small_query(number, "ge", "&$top=1").await?,
            Workload::QueryPage => self.page().await?,
            Workload::QueryFilter => self.filtered_scan().await?,
            Workload::Batch100 => self.insert_batch(number).await?,
            Workload::Mixed | Workload::Load => 0,
        };
        Ok(Some(entities))
    }

    pub(crate) async fn create_table(&mut self) -> Result<(), Failure> {
        let body = format!("{{\"TableName\":\"{}\"}}", self.plan.table).into_bytes();
        let request = Request::with_json("POST", b"/Tables", "Prefer: return-no-content\r\n", &body);
        match self.exchange(&request, 204, b"").await {
            Ok(_) | Err(Failure::Status(409, _)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    pub(crate) async fn has(&mut self, number: u64) -> Result<bool, Failure> {
        self.address(number);
        let path = self.path.clone();
        match self.exchange(&Request::get(&path, "?$select=RowKey"), 200, b"").await {
            Ok(_) => Ok(true),
            Err(Failure::Status(404, _)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    async fn fill(&mut self) -> Result<Option<u64>, Failure> {
        let plan = Arc::clone(&self.plan);
        let first = plan.sequence.fetch_add(BATCH_ENTITIES, Ordering::Relaxed);
        let numbers = first..(first + BATCH_ENTITIES).min(plan.dataset.entities);
        if numbers.is_empty() {
            return Ok(None);
        }
        let partition = plan.dataset.partition(first);
        let count = numbers.end - numbers.start;
        let parts = numbers.map(|number| ("PUT", Dataset::row(number), number));
        let body = self.batch_body(&partition, parts);
        for _ in 1..FILL_ATTEMPTS {
            match self.send_batch(&body, count).await {
                Err(Failure::Connection(_)) => {}
                other => return other.map(Some),
            }
        }
        self.send_batch(&body, count).await.map(Some)
    }

    async fn insert(&mut self, number: u64) -> Result<u64, Failure> {
        let plan = Arc::clone(&self.plan);
        let sequence = plan.sequence.fetch_add(1, Ordering::Relaxed);
        let row = format!("{}-{:x}-{sequence:x}", Dataset::row(number), plan.run);
        let mut body = std::mem::take(&mut self.body);
        let key = entity_key(&plan.dataset.partition(number), &row);
        plan.dataset.write_json(&mut body, &key, number, sequence);
        let path = format!("/{}", plan.table);
        let request = Request::with_json("POST", path.as_bytes(), "Prefer: return-no-content\r\n", &body);
        let outcome = self.exchange(&request, 204, b"").await;
        self.body = body;
        outcome.map(|_| 1)
    }

    async fn upsert(&mut self, number: u64) -> Result<u64, Failure> {
        let salt = self.random.u64(..);
        let dataset = &self.plan.dataset;
        dataset.write_json(&mut self.body, &dataset.key(number), number, salt);
        self.write_addressed("PUT", "", number).await
    }

    async fn merge(&mut self, number: u64) -> Result<u64, Failure> {
        let total = self.random.u64(..1 << 50);
        self.body.clear();
        write!(self.body, "{{\"Total@odata.type\":\"Edm.Int64\",\"Total\":\"{total}\",\"Active\":true}}")?;
        self.write_addressed("MERGE", "If-Match: *\r\n", number).await
    }

    async fn write_addressed(&mut self, method: &str, headers: &str, number: u64) -> Result<u64, Failure> {
        self.address(number);
        let (path, body) = (std::mem::take(&mut self.path), std::mem::take(&mut self.body));
        let outcome = self.exchange(&Request::with_json(method, &path, headers, &body), 204, b"").await;
        (self.path, self.body) = (path, body);
        outcome.map(|_| 1)
    }

    async fn page(&mut self) -> Result<u64, Failure> {
        let query = if self.page.is_empty() { String::new() } else { format!("?{}", self.page) };
        let outcome = self.query(&query).await?;
        self.page = outcome.next.map_or_else(String::new, |next| continuation(&next));
        self.paged += outcome.entities;
        if self.page.is_empty() || self.plan.working_set.is_some_and(|size| self.paged >= size) {
            (self.page, self.paged) = (String::new(), 0);
        }
        if outcome.entities == 0 { Err(Failure::Content("an empty page".to_owned())) } else { Ok(outcome.entities) }
    }

    /// Returns the number of entities that the server had to examine.
    async fn filtered_scan(&mut self) -> Result<u64, Failure> {
        let first = filter_query(ONE_PERCENT_FILTER);
        let (mut query, mut selected) = (first.clone(), 0);
        loop {
            let outcome = self.query(&query).await?;
            selected += outcome.entities;
            match outcome.next {
                Some(next) => query = format!("{first}&{}", continuation(&next)),
                None => break,
            }
        }
        let expected = self.plan.dataset.one_percent();
        if selected != expected {
            return Err(Failure::Content(format!("the filter matched {selected} entities instead of {expected}")));
        }
        Ok(self.plan.dataset.entities)
    }

    /// Reads one entity. `operator` compares the row key.
    async fn small_query(&mut self, number: u64, operator: &str, options: &str) -> Result<u64, Failure> {
        let number = self.plan.within_working_set(number);
        let (partition, row) = (self.plan.dataset.partition(number), Dataset::row(number));
        let filter = filter_query(&format!("PartitionKey eq '{partition}' and RowKey {operator} '{row}'"));
        one(self.query(&format!("{filter}{options}")).await?.entities)
    }

    async fn range(&mut self) -> Result<u64, Failure> {
        let plan = Arc::clone(&self.plan);
        let first = plan.random_entity(&mut self.random) / RANGE_ENTITIES * RANGE_ENTITIES;
        let (partition, from, to) =
            (plan.dataset.partition(first), Dataset::row(first), Dataset::row(first + RANGE_ENTITIES));
        let filter = format!("PartitionKey eq '{partition}' and RowKey ge '{from}' and RowKey lt '{to}'");
        Ok(self.query(&filter_query(&filter)).await?.entities)
    }

    async fn query(&mut self, query: &str) -> Result<Outcome, Failure> {
        let path = format!("/{}()", self.plan.table);
        self.exchange(&Request::get(path.as_bytes(), query), 200, b"\"RowKey\":").await
    }

    async fn insert_batch(&mut self, number: u64) -> Result<u64, Failure> {
        let plan = Arc::clone(&self.plan);
        let sequence = plan.sequence.fetch_add(1, Ordering::Relaxed);
        let keys = BatchKeys::new(&plan.dataset, number, plan.run, sequence);
        let used = if self.batches.len() < BODIES { None } else { self.batches.pop_front() };
        let body = if let Some(body) = used.and_then(|body| body.with_keys(&keys)) {
            body
        } else {
            let salt = sequence * BATCH_ENTITIES;
            let parts = (0..BATCH_ENTITIES).map(|index| ("POST", format!("{}-{index:02}", keys.prefix), salt + index));
            BatchBody::new(self.batch_body(&keys.partition, parts), &keys)
        };
        let outcome = self.send_batch(&body.bytes, BATCH_ENTITIES).await;
        self.batches.push_back(body);
        outcome
    }

    /// Each part has a method (POST for an insert, PUT for an upsert), a row key and an entity number.
    fn batch_body(&self, partition: &str, parts: impl Iterator<Item = (&'static str, String, u64)>) -> Vec<u8> {
        let plan = &self.plan;
        let (host, base_path) = (&self.signer.endpoint.host, &self.signer.endpoint.base_path);
        let endpoint = format!("http://{host}{base_path}/");
        let mut changeset = ChangesetWriter::new(Vec::new());
        for (method, row, number) in parts {
            let write_address = |out: &mut Vec<u8>| {
                out.extend_from_slice(endpoint.as_bytes());
                if method == "POST" {
                    out.extend_from_slice(plan.table.as_bytes());
                } else {
                    write_entity_address(out, &plan.table, partition, &row);
                }
            };
            let write_json = |out: &mut Vec<u8>| plan.dataset.append_json(out, &entity_key(partition, &row), number, 0);
            changeset.operation(method, None, write_address, write_json);
        }
        changeset.finish()
    }

    /// Fails unless the transaction succeeds.
    async fn send_batch(&mut self, body: &[u8], count: u64) -> Result<u64, Failure> {
        let request =
            Request { content_type: ChangesetWriter::CONTENT_TYPE, ..Request::with_json("POST", b"/$batch", "", body) };
        match self.exchange(&request, 202, b"HTTP/1.1 204").await?.entities {
            stored if stored == count => Ok(stored),
            stored => Err(Failure::Content(format!("{stored} of {count} operations of a batch succeeded"))),
        }
    }

    fn address(&mut self, number: u64) {
        self.path.clear();
        self.path.push(b'/');
        let dataset = &self.plan.dataset;
        write_entity_address(&mut self.path, &self.plan.table, &dataset.partition(number), &Dataset::row(number));
    }

    /// Counts the entities in the body by a mark that each of them contains.
    async fn exchange(&mut self, request: &Request<'_>, status: u16, mark: &[u8]) -> Result<Outcome, Failure> {
        self.signer.write_head(&mut self.request, request);
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => in_time(Connection::open(self.signer.endpoint.address)).await?,
        };
        // The connection is kept only if the response is complete. After a failure, a new connection is opened.
        let answer = in_time(connection.exchange(&self.request, request.body)).await?;
        let closes = answer.closes;
        let result = if answer.status == status {
            let entities = if mark.is_empty() { 0 } else { memmem::find_iter(answer.body, mark).count() as u64 };
            let is_busy = status == 202 && entities == 0 && memmem::find(answer.body, BUSY_PART).is_some();
            if is_busy { Err(Failure::Busy) } else { Ok(Outcome { entities, next: answer.next }) }
        } else if answer.status == 503 && answer.has_retry_after {
            Err(Failure::Busy)
        } else {
            let shown = answer.body.get(..SHOWN_BYTES_MAX).unwrap_or(answer.body);
            Err(Failure::Status(answer.status, String::from_utf8_lossy(shown).into_owned()))
        };
        if !closes {
            self.connection = Some(connection);
        }
        result
    }
}

async fn in_time<T>(step: impl Future<Output = std::io::Result<T>>) -> std::io::Result<T> {
    tokio::time::timeout(REQUEST_TIME_MAX, step).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

fn one(entities: u64) -> Result<u64, Failure> {
    if entities == 1 {
        Ok(1)
    } else {
        Err(Failure::Content("the response does not contain exactly one entity".to_owned()))
    }
}

// Batches of inserts that are built once and reused with different keys.
//
// To build 100 entities, the generator needs a seventh of the time that the server needs to store them. During that
// time, the server would wait or share its processor. Every connection therefore builds several bodies once, mostly in
// the unmeasured phase, and then changes only their keys. Repetitions of an entity are much further apart than the
// size of a storage library's block, so they do not improve compression.

pub(crate) const BODIES: usize = 16;

/// The partition key, and the prefix of the row keys.
pub(crate) struct BatchKeys {
    pub(crate) partition: String,
    pub(crate) prefix: String,
}

impl BatchKeys {
    /// Creates keys that are unique to this batch, even across runs. Most keys have the same length.
    pub(crate) fn new(dataset: &Dataset, number: u64, run: u64, sequence: u64) -> Self {
        let prefix = format!("{}-{run:08x}-{sequence:08x}", Dataset::row(number));
        Self { partition: dataset.partition(number), prefix }
    }

    fn text(&self) -> String {
        format!("\"PartitionKey\":\"{}\",\"RowKey\":\"{}", self.partition, self.prefix)
    }
}

#[derive(Debug)]
pub(crate) struct BatchBody {
    pub(crate) bytes: Vec<u8>,
    positions: Vec<usize>,
    keys_bytes: usize,
}

impl BatchBody {
    /// The bytes must contain the given keys.
    pub(crate) fn new(bytes: Vec<u8>, keys: &BatchKeys) -> Self {
        let text = keys.text();
        let positions = memchr::memmem::find_iter(&bytes, &text).collect();
        Self { bytes, positions, keys_bytes: text.len() }
    }

    /// Returns `None` if the new keys have a different length.
    pub(crate) fn with_keys(mut self, keys: &BatchKeys) -> Option<Self> {
        let text = keys.text();
        if text.len() != self.keys_bytes {
            return None;
        }
        for position in &self.positions {
            self.bytes.get_mut(*position..position + text.len())?.copy_from_slice(text.as_bytes());
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_set_is_spread_over_the_table() {
        let plan = |working_set| {
            let dataset = Dataset::new(1000, 100);
            let (table, run, sequence, hot) = Default::default();
            Plan { dataset, table, run, sequence, working_set, hot }
        };
        let reached = |working_set| {
            let plan = plan(working_set);
            let numbers: std::collections::BTreeSet<_> =
                (0..1000).map(|number| plan.within_working_set(number)).collect();
            (numbers.len(), numbers.last().copied())
        };
        assert_eq!(reached(None), (1000, Some(999)));
        assert_eq!(reached(Some(4096)), (1000, Some(999)));
        assert_eq!(reached(Some(10)), (10, Some(900)));
        assert_eq!(reached(Some(300)), (300, Some(897)));
    }

    #[test]
    fn hot_partitions_get_four_fifths_of_the_operations() {
        let (table, run, sequence, working_set) = Default::default();
        let mut plan = Plan { dataset: Dataset::new(10_000, 100), table, run, sequence, working_set, hot: vec![7, 99] };
        let mut random = Rng::with_seed(1);
        let mut share = |plan: &Plan| {
            let picked = (0..10_000).map(|_| plan.random_entity(&mut random) / 100);
            picked.filter(|partition| [7, 99].contains(partition)).count()
        };
        // Two of a hundred partitions also get 2% of the rest.
        assert!((7_900..=8_200).contains(&share(&plan)));
        plan.hot.clear();
        assert!((100..=300).contains(&share(&plan)));
    }

    #[test]
    fn a_body_is_used_again_under_other_keys() {
        let dataset = Dataset::new(10_000, 1000);
        let keys = |number| BatchKeys::new(&dataset, number, 7, number);
        let bytes = |keys: &BatchKeys| format!("[{{{}-00\"}},{{{}-01\"}}]", keys.text(), keys.text()).into_bytes();
        let body = BatchBody::new(bytes(&keys(1234)), &keys(1234)).with_keys(&keys(5678)).unwrap();
        assert_eq!(body.bytes, bytes(&keys(5678)));
        let longer = BatchKeys { prefix: "longer than any".repeat(5), ..keys(1) };
        assert!(body.with_keys(&longer).is_none());
    }
}
