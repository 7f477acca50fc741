//! Conflicting clients of the built program, whose complete history is checked: every partition is strictly
//! serializable, although the server is killed in between.

use crate::PROGRAM;
use history::{Answer, Choices, Client, ClientLog, Kind, Mix, Mutation, NoAnswer, Page, Property, Query, Recorder};
use history::{Refusal, Rules, StampOrder, Value, Version, check, run_client, write_history};
use model::{Condition, DateTime, ETag};
use serde_json::{Map, Value as Json};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use test_support::{Random, Response, transact};
use wire::continuation;

const SEED: &str = "ROWHOUSE_HISTORY_SEED";
const CLIENTS: usize = 16;
const MIX: Mix = Mix { partitions: 3, rows: 5, has_filters: true };
/// The time until the server is killed, and until the second server is stopped.
const WORK: Duration = Duration::from_millis(1500);
const FULL: (&str, &str) = ("Accept", "application/json;odata=fullmetadata");

/// A client over HTTP.
struct HttpClient(test_support::Client);

fn gone(_: io::Error) -> NoAnswer {
    NoAnswer::Gone
}

fn stamp(etag: &str) -> u64 {
    let timestamp = Condition::parse(etag).unwrap().timestamp().unwrap();
    timestamp.ticks().try_into().unwrap()
}

fn etag(stamp: u64) -> String {
    ETag::from_timestamp(DateTime::from_ticks(stamp.try_into().unwrap()).unwrap()).to_string()
}

fn address(partition: &str, row: &str) -> String {
    format!("/history(PartitionKey='{partition}',RowKey='{row}')")
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
fn request(partition: &str, mutation: &Mutation) -> (&'static str, String, Option<String>) {
    let condition = mutation.if_match.map_or_else(|| "*".to_owned(), etag);
    let address = address(partition, &mutation.row);
    match mutation.kind {
        Kind::Insert => ("POST", "/history".to_owned(), None),
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

/// Returns the answer to a single mutation. Other failures than refusals are faults of the server.
fn answer(response: &Response) -> Result<Answer, NoAnswer> {
    match response.status {
        204 => Ok(Answer::Done(vec![response.header("etag").map(stamp)])),
        500 | 503 => Err(NoAnswer::Failed),
        status => {
            let reason = refusal(status).unwrap_or_else(|| panic!("{response:?}"));
            Ok(Answer::Refused { index: 0, reason })
        }
    }
}

/// Returns the answer to a changeset: a part for each mutation, or one part whose message begins with the index of the
/// refused one.
fn batch_answer(response: &Response) -> Result<Answer, NoAnswer> {
    if matches!(response.status, 500 | 503) {
        return Err(NoAnswer::Failed);
    }
    assert_eq!(response.status, 202, "{response:?}");
    let text = std::str::from_utf8(&response.body).unwrap();
    let parts: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
    let status = |part: &str| part[..3].parse::<u16>().unwrap();
    if let [part] = parts[..]
        && let Some(reason) = refusal(status(part))
    {
        let (_, message) = part.split_once("\"value\":\"").unwrap();
        let index = message.split_once(':').unwrap().0.parse().unwrap();
        return Ok(Answer::Refused { index, reason });
    }
    if parts.iter().any(|part| matches!(status(part), 500 | 503)) {
        return Err(NoAnswer::Failed);
    }
    let etag = |part: &&str| {
        assert_eq!(status(part), 204, "{text}");
        part.lines().find_map(|line| line.strip_prefix("ETag: ")).map(stamp)
    };
    Ok(Answer::Done(parts.iter().map(etag).collect()))
}

impl Client for HttpClient {
    async fn get(&mut self, partition: &str, row: &str) -> Result<Option<Version>, NoAnswer> {
        let response = self.0.try_request("GET", &address(partition, row), &[FULL], b"").map_err(gone)?;
        match response.status {
            200 => Ok(Some(version(&response.json()))),
            404 => Ok(None),
            500 | 503 => Err(NoAnswer::Failed),
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
        let path = format!("/history()?$filter={filter}&$top={}{token}", query.limit);
        let response = self.0.try_request("GET", &path, &[FULL], b"").map_err(gone)?;
        if matches!(response.status, 500 | 503) {
            return Err(NoAnswer::Failed);
        }
        assert_eq!(response.status, 200, "{path}: {response:?}");
        let next = response.header("x-ms-continuation-nextrowkey").map(|row| continuation::decode(row).unwrap());
        let entity = |entity: &Json| (entity["RowKey"].as_str().unwrap().to_owned(), version(entity));
        let entities = response.json()["value"].as_array().unwrap().iter().map(entity).collect();
        let until = next.or_else(|| query.until.clone());
        Ok(Page { from: query.from.clone(), until, filter: query.filter, entities })
    }

    async fn write(&mut self, partition: &str, mutations: &[Mutation]) -> Result<Answer, NoAnswer> {
        if let [mutation] = mutations {
            let (method, path, condition) = request(partition, mutation);
            let mut headers = vec![("Prefer", "return-no-content")];
            headers.extend(condition.as_deref().map(|condition| ("If-Match", condition)));
            let body =
                if mutation.value.is_empty() { Vec::new() } else { body(partition, mutation).to_string().into() };
            return answer(&self.0.try_request(method, &path, &headers, &body).map_err(gone)?);
        }
        let operation = |mutation: &Mutation| {
            let (method, path, condition) = request(partition, mutation);
            let condition = condition.map_or_else(String::new, |condition| format!("If-Match: {condition}\r\n"));
            let body = match &mutation.value {
                value if *value == Value::default() => "\r\n".to_owned(),
                _ => format!("Content-Type: application/json\r\n\r\n{}", body(partition, mutation)),
            };
            format!("{method} {path} HTTP/1.1\r\nPrefer: return-no-content\r\n{condition}{body}")
        };
        batch_answer(&transact(&mut self.0, &mutations.iter().map(operation).collect::<Vec<_>>()).map_err(gone)?)
    }
}

/// Runs the clients until `end` returns. Returns the number of answers.
fn work(address: &str, clients: &mut [(ClientLog, Choices)], end: impl FnOnce()) -> u64 {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = clients.iter_mut().map(|(log, choices)| {
            let is_over = &is_over;
            let mut client = HttpClient(test_support::Client::connect(address).unwrap());
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(run_client(&mut client, log, choices, u64::MAX, is_over))
            })
        });
        let running: Vec<_> = running.collect();
        thread::sleep(WORK);
        end();
        is_over.store(true, Ordering::Relaxed);
        running.into_iter().map(|client| client.join().unwrap()).sum()
    })
}

#[test]
fn a_killed_server_is_strictly_serializable() {
    let mut random = Random::from_environment(SEED);
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--data", folder.path().to_str().unwrap()];
    let recorder = Recorder::new();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| (recorder.client(), Choices::new(random.number(), MIX))).collect();
    let server = PROGRAM.start(&arguments);
    assert_eq!(server.client().request("POST", "/Tables", &[], br#"{"TableName":"history"}"#).status, 201);
    let address = server.address.clone();
    let before = work(&address, &mut clients, || drop(server.kill9()));
    recorder.close_unknown();
    let server = PROGRAM.start(&arguments);
    let after = work(&server.address.clone(), &mut clients, || ());
    assert!(before > 0 && after > 0, "the clients made no progress");
    let history = recorder.history();
    let report = check(&history, Rules::new(StampOrder::Partition));
    if !report.is_valid() {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("history.jsonl");
        write_history(&kept, &history).unwrap();
        panic!("{report}\nThe history is in {}", kept.display());
    }
    println!("{} operations, {} of unknown outcome", report.operations, report.unknown);
}
