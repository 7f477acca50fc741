//! The checker's client over HTTP, for servers that fail, restart elsewhere and have wrong clocks.

use super::clock::ShiftedClock;
use history::{Answer, Client, Kind, Mutation, NoAnswer, Page, Property, Query, Refusal, Value, Version};
use model::{Condition, DateTime, ETag};
use serde_json::{Map, Value as Json};
use std::fmt::Write;
use std::io::ErrorKind;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use test_support::{Random, Response, outcome, transact};
use wire::continuation;

const FULL: (&str, &str) = ("Accept", "application/json;odata=fullmetadata");
/// The time after which a client gives up on an answer, so that a paused server does not hold up its clients.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(4);
/// The pause after a request that was not executed.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A server as its clients know it.
pub(super) struct Target {
    /// The address, which changes when the server is started again.
    pub(super) address: RwLock<String>,
    /// The clock, if it may be wrong.
    pub(super) clock: Option<ShiftedClock>,
}

impl Target {
    pub(super) fn new(clock: Option<ShiftedClock>) -> Self {
        Self { address: RwLock::default(), clock }
    }

    fn clock(&self) -> (u64, i64) {
        // The offset is read after its version, so that a change in between is noticed.
        self.clock.as_ref().map_or((0, 0), |clock| (clock.version(), clock.seconds()))
    }
}

/// A client over HTTP. After an error of its connection, it connects again, to the same server or another one.
pub(super) struct HttpClient<'t> {
    targets: &'t [Target],
    at: usize,
    table: &'t str,
    connection: Option<test_support::Client>,
    random: Random,
    answers: &'t AtomicU64,
}

impl<'t> HttpClient<'t> {
    /// Creates a client of the server at an index, which counts its answers.
    pub(super) fn new(targets: &'t [Target], at: usize, table: &'t str, seed: u64, answers: &'t AtomicU64) -> Self {
        Self { targets, at, table, connection: None, random: Random::new(seed), answers }
    }

    /// Sends a request and returns the answer, unless it is a failure.
    fn exchange(
        &mut self,
        send: impl FnOnce(&mut test_support::Client) -> std::io::Result<Response>,
    ) -> Result<Response, NoAnswer> {
        let target = &self.targets[self.at];
        if self.connection.is_none() {
            self.connection = test_support::Client::connect(&target.address.read().unwrap()).ok();
        }
        let Some(connection) = &mut self.connection else { return Err(self.not_executed()) };
        connection.set_read_timeout(ANSWER_TIME_MAX);
        let (version, offset) = target.clock();
        connection.set_clock_offset(offset);
        let response = match send(connection) {
            Ok(response) => response,
            Err(error) => {
                assert!(error.kind() != ErrorKind::InvalidData, "{error}");
                self.connection = None;
                self.change_server();
                return Err(NoAnswer::Failed);
            }
        };
        let (status, code) = outcome(&response);
        match (status, code) {
            (503, "ServerBusy") => return Err(self.not_executed()),
            (500, "OperationTimedOut") => return Err(NoAnswer::Failed),
            // The server refuses a date that is too far from its clock.
            (403, "AuthenticationFailed") if version % 2 == 1 || target.clock().0 != version => {
                return Err(self.not_executed());
            }
            (200..=299 | 404 | 409 | 412, _) => {}
            _ => panic!("{response:?}\n{}", String::from_utf8_lossy(&response.body)),
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(response)
    }

    fn not_executed(&mut self) -> NoAnswer {
        thread::sleep(BUSY_PAUSE);
        if self.connection.is_none() {
            self.change_server();
        }
        NoAnswer::NotExecuted
    }

    /// Usually stays with the same server, so that the clients remain spread over all of them.
    fn change_server(&mut self) {
        if self.random.below(4) == 0 {
            self.at = self.random.index(self.targets.len());
        }
    }
}

fn stamp(etag: &str) -> u64 {
    let timestamp = Condition::parse(etag).unwrap().timestamp().unwrap();
    timestamp.ticks().try_into().unwrap()
}

fn etag(stamp: u64) -> String {
    ETag::from_timestamp(DateTime::from_ticks(stamp.try_into().unwrap()).unwrap()).to_string()
}

fn address(table: &str, partition: &str, row: &str) -> String {
    format!("/{table}(PartitionKey='{partition}',RowKey='{row}')")
}

fn version(entity: &Json) -> Version {
    let properties = entity
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(name, token)| Some((Property::new(name)?, token.as_str().unwrap().parse().unwrap())));
    Version { etag: stamp(entity["odata.etag"].as_str().unwrap()), value: properties.collect() }
}

fn body(partition: &str, mutation: &Mutation) -> Json {
    let mut entity = Map::new();
    entity.insert("PartitionKey".to_owned(), partition.into());
    entity.insert("RowKey".to_owned(), mutation.row.clone().into());
    for (property, token) in mutation.value.properties() {
        entity.insert(format!("{}@odata.type", property.name()), "Edm.Int64".into());
        entity.insert(property.name().to_string(), token.to_string().into());
    }
    entity.into()
}

/// Returns the method, the address and the condition of a mutation.
fn request(table: &str, partition: &str, mutation: &Mutation) -> (&'static str, String, Option<String>) {
    let condition = mutation.if_match.map_or_else(|| "*".to_owned(), etag);
    let address = address(table, partition, &mutation.row);
    match mutation.kind {
        Kind::Insert => ("POST", format!("/{table}"), None),
        Kind::Replace => ("PUT", address, Some(condition)),
        Kind::Merge => ("MERGE", address, Some(condition)),
        Kind::InsertOrReplace => ("PUT", address, None),
        Kind::InsertOrMerge => ("MERGE", address, None),
        Kind::Delete => ("DELETE", address, Some(condition)),
    }
}

fn refusal(status: u16) -> Option<Refusal> {
    match status {
        404 => Some(Refusal::NotFound),
        409 => Some(Refusal::Exists),
        412 => Some(Refusal::ConditionNotMet),
        _ => None,
    }
}

/// Returns the answer to a single mutation.
fn answer(response: &Response) -> Answer {
    if response.status == 204 {
        return Answer::Done(vec![response.header("etag").map(stamp)]);
    }
    let reason = refusal(response.status).unwrap_or_else(|| panic!("{response:?}"));
    Answer::Refused { index: 0, reason }
}

/// Returns the answer to a changeset: a part for each mutation, or one part whose message begins with the index of the
/// refused one.
fn batch_answer(response: &Response) -> Answer {
    assert_eq!(response.status, 202, "{response:?}");
    let text = std::str::from_utf8(&response.body).unwrap();
    let parts: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
    let status = |part: &str| part[..3].parse::<u16>().unwrap();
    if let [part] = parts[..]
        && let Some(reason) = refusal(status(part))
    {
        let (_, message) = part.split_once("\"value\":\"").unwrap();
        let index = message.split_once(':').unwrap().0.parse().unwrap();
        return Answer::Refused { index, reason };
    }
    let etag = |part: &&str| {
        assert_eq!(status(part), 204, "{text}");
        part.lines().find_map(|line| line.strip_prefix("ETag: ")).map(stamp)
    };
    Answer::Done(parts.iter().map(etag).collect())
}

impl Client for HttpClient<'_> {
    async fn get(&mut self, partition: &str, row: &str) -> Result<Option<Version>, NoAnswer> {
        let path = address(self.table, partition, row);
        let response = self.exchange(|connection| connection.try_request("GET", &path, &[FULL], b""))?;
        match response.status {
            200 => Ok(Some(version(&response.json()))),
            404 => Ok(None),
            other => panic!("{other}: {response:?}"),
        }
    }

    async fn page(&mut self, partition: &str, query: &Query) -> Result<Page, NoAnswer> {
        let mut filter = format!("PartitionKey%20eq%20'{partition}'");
        let mut token = String::new();
        if query.is_continued {
            let [partition, row] = [partition, &query.from].map(continuation::encode);
            write!(token, "&NextPartitionKey={partition}&NextRowKey={row}").unwrap();
        } else {
            write!(filter, "%20and%20RowKey%20ge%20'{}'", query.from).unwrap();
        }
        if let Some(until) = &query.until {
            write!(filter, "%20and%20RowKey%20lt%20'{until}'").unwrap();
        }
        if let Some(history::Filter { property, at_least }) = query.filter {
            write!(filter, "%20and%20{}%20ge%20{at_least}L", property.name()).unwrap();
        }
        let path = format!("/{}()?$filter={filter}&$top={}{token}", self.table, query.limit);
        let response = self.exchange(|connection| connection.try_request("GET", &path, &[FULL], b""))?;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        let next = response.header("x-ms-continuation-nextrowkey").map(|row| continuation::decode(row).unwrap());
        let entity = |entity: &Json| (entity["RowKey"].as_str().unwrap().to_owned(), version(entity));
        let entities = response.json()["value"].as_array().unwrap().iter().map(entity).collect();
        let until = next.or_else(|| query.until.clone());
        Ok(Page { from: query.from.clone(), until, filter: query.filter, entities })
    }

    async fn write(&mut self, partition: &str, mutations: &[Mutation]) -> Result<Answer, NoAnswer> {
        if let [mutation] = mutations {
            let (method, path, condition) = request(self.table, partition, mutation);
            let mut headers = vec![("Prefer", "return-no-content")];
            headers.extend(condition.as_deref().map(|condition| ("If-Match", condition)));
            let body =
                if mutation.value.is_empty() { Vec::new() } else { body(partition, mutation).to_string().into() };
            return Ok(answer(&self.exchange(|connection| connection.try_request(method, &path, &headers, &body))?));
        }
        let operation = |mutation: &Mutation| {
            let (method, path, condition) = request(self.table, partition, mutation);
            let condition = condition.map_or_else(String::new, |condition| format!("If-Match: {condition}\r\n"));
            let body = match &mutation.value {
                value if *value == Value::default() => "\r\n".to_owned(),
                _ => format!("Content-Type: application/json\r\n\r\n{}", body(partition, mutation)),
            };
            format!("{method} {path} HTTP/1.1\r\nPrefer: return-no-content\r\n{condition}{body}")
        };
        let operations: Vec<_> = mutations.iter().map(operation).collect();
        Ok(batch_answer(&self.exchange(|connection| transact(connection, &operations))?))
    }
}
