//! `rowhouse follow`: delivers the changes of tables to a program, at least once and in order.
//!
//! Invariants:
//!
//! 1. A position is recorded only when all changes up to it were acknowledged or are in the file of dead letters.
//! 2. The changes of a table are delivered in order, one delivery after the other.
//! 3. After a stop signal, no delivery begins.
//!
//! This module must not know how changes are read; that is the task of the client library.

mod args;
mod delivery;
mod state;
mod target;

pub use args::{FOLLOW_EXAMPLES, FollowArgs};

use crate::commands::{exit_code, from_service};
use crate::option_values::parse_table;
use crate::runtime::{block_on, next_result, stop_signal};
use crate::state_file::Save;
use crate::terminal::{is_broken_pipe, report_error};
use args::FromArg;
use client::{ChangePosition, ChangeStream, Changes, Error, ErrorKind, JsonChange, PropertyBag, TableService};
use delivery::{DeadLetters, Delivered, Delivery};
use state::FollowState;
use std::collections::BTreeSet;
use std::future::ready;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use target::Target;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The interval at which the position of a feed without changes is recorded.
const QUIET_SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// The number of changes that are printed at once.
const PRINTED_AT_ONCE: usize = 1000;
/// A delivery with more than this number of bytes takes no further changes.
const DELIVERY_BYTES_MAX: usize = 1024 * 1024;
/// The name of the feed of all tables in the state file.
const ALL_TABLES: &str = "*";

/// Runs `rowhouse follow`.
pub fn run(args: &FollowArgs) -> anyhow::Result<ExitCode> {
    match block_on(follow(args)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // A reader that stops early, such as `head`, is not an error.
        Err(error) if is_broken_pipe(&error) && args.exec.is_none() && args.webhook.is_none() => Ok(ExitCode::SUCCESS),
        Err(error) => {
            report_error(&error);
            Ok(ExitCode::from(exit_code(&error)))
        }
    }
}

async fn follow(args: &FollowArgs) -> anyhow::Result<()> {
    let service = args.connection.service()?;
    let tables = args.tables.iter().map(|name| parse_table(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let target = Target::new(args)?;
    let batch = match (&target, args.batch) {
        (Target::Output, _) => PRINTED_AT_ONCE,
        (_, batch) => usize::from(batch.unwrap_or(1)),
    };
    let dead_letters = args.dead_letters.as_deref().map(DeadLetters::open).transpose()?;
    let state = Arc::new(FollowState::open(args.state.clone(), &service.endpoint().to_string())?);
    let stop = stop_signal()?;
    let (stopping, stopped) = watch::channel(false);
    let delivery = Delivery { target, attempts_max: args.attempts, dead_letters, stopped: stopped.clone() };
    let delivery = Arc::new(delivery);

    let mut followers = JoinSet::new();
    let tables: BTreeSet<String> = tables.iter().map(|table| table.as_str().to_ascii_lowercase()).collect();
    let feeds = if tables.is_empty() { vec![None] } else { tables.into_iter().map(Some).collect() };
    for table in feeds {
        let feed = Feed {
            service: service.clone(),
            table,
            from: args.from,
            filter: args.filter.clone(),
            until_end: args.until_end,
        };
        let (state, delivery) = (Arc::clone(&state), Arc::clone(&delivery));
        let follower = Follower { feed, state, delivery, batch, stopped: stopped.clone() };
        followers.spawn(follower.run());
    }
    let mut stop = std::pin::pin!(stop);
    let mut result = Ok(());
    loop {
        let ended = tokio::select! {
            () = &mut stop, if !*stopping.borrow() => {
                stopping.send_replace(true);
                continue;
            }
            ended = next_result(&mut followers) => ended,
        };
        match ended {
            Ok(Some(())) => {}
            Ok(None) => break,
            // The other followers finish their deliveries.
            Err(error) => {
                stopping.send_replace(true);
                result = result.and(Err(error));
            }
        }
    }
    state.flush()?;
    result
}

/// The changes of one table or of all tables.
struct Feed {
    service: TableService,
    /// In lower case; `None` for all tables.
    table: Option<String>,
    from: FromArg,
    filter: Option<String>,
    until_end: bool,
}

impl Feed {
    fn changes(&self) -> Changes<PropertyBag> {
        let changes = match &self.table {
            Some(table) => self.service.table(table).changes(),
            None => self.service.changes(),
        };
        self.filter.iter().fold(changes, |changes, filter| changes.filter_text(filter))
    }

    fn stream(&self, after: Option<ChangePosition>) -> ChangeStream<JsonChange> {
        let changes = match after {
            Some(position) => self.changes().from(position),
            None => self.changes().from_start(),
        };
        if self.until_end { changes.until_end() } else { changes }.json_stream()
    }
}

struct Follower {
    feed: Feed,
    state: Arc<FollowState>,
    delivery: Arc<Delivery>,
    /// The maximum number of changes in a delivery.
    batch: usize,
    stopped: watch::Receiver<bool>,
}

impl Follower {
    async fn run(self) -> anyhow::Result<()> {
        let mut stopped = self.stopped.clone();
        let key = self.feed.table.clone().unwrap_or_else(|| ALL_TABLES.to_owned());
        let after = match (self.state.position(&key)?, self.feed.from) {
            (Some(known), _) => Some(known),
            (None, FromArg::After(position)) => Some(position),
            (None, FromArg::Start) => None,
            (None, FromArg::Now) => {
                let end = self.feed.changes().end().await.map_err(from_service(&self.feed.service))?;
                // From here on, no change is lost, even if the command is killed before the first one.
                self.state.advance(&key, end, Save::Now)?;
                Some(end)
            }
        };
        let mut stream = self.feed.stream(after);
        let save = if self.delivery.target.is_output() { Save::WhenDue } else { Save::Now };
        loop {
            let first = tokio::select! {
                biased;
                _ = stopped.wait_for(|is_stopped| *is_stopped) => return Ok(()),
                change = stream.next() => change,
                () = sleep(QUIET_SAVE_INTERVAL) => {
                    self.record(&key, &stream, Save::WhenDue)?;
                    continue;
                }
            };
            let first = match first {
                Some(Ok(change)) => change,
                Some(Err(error)) => {
                    self.check(error, &stream)?;
                    continue;
                }
                None => return self.record(&key, &stream, Save::Now),
            };
            let (changes, error) = self.collect(first, &mut stream).await;
            let record = |position| self.state.advance(&key, position, save);
            match self.delivery.deliver(&changes, record).await? {
                Delivered::Stopped => return Ok(()),
                Delivered::All => {}
            }
            if let Some(error) = error {
                self.check(error, &stream)?;
            }
        }
    }

    /// Returns the error if waiting will not help. Before the feed is first read, the options may be wrong. The client
    /// reports the wait.
    fn check(&self, error: Error, stream: &ChangeStream<JsonChange>) -> anyhow::Result<()> {
        let is_transient = matches!(error.kind(), ErrorKind::Throttled | ErrorKind::Unreachable | ErrorKind::Service);
        if is_transient && stream.has_read() { Ok(()) } else { Err(from_service(&self.feed.service)(error)) }
    }

    /// Adds the changes that can be read without waiting, up to the limits of a delivery.
    async fn collect(
        &self,
        first: JsonChange,
        stream: &mut ChangeStream<JsonChange>,
    ) -> (Vec<JsonChange>, Option<Error>) {
        let mut bytes = first.json.len();
        let mut changes = vec![first];
        while changes.len() < self.batch && bytes < DELIVERY_BYTES_MAX {
            let next = tokio::select! {
                biased;
                change = stream.next() => change,
                () = ready(()) => None,
            };
            match next {
                Some(Ok(change)) => {
                    bytes += change.json.len();
                    changes.push(change);
                }
                Some(Err(error)) => return (changes, Some(error)),
                None => break,
            }
        }
        (changes, None)
    }

    /// Records the position of the stream, whose changes were all delivered.
    fn record(&self, key: &str, stream: &ChangeStream<JsonChange>, save: Save) -> anyhow::Result<()> {
        match stream.position() {
            Some(position) => self.state.advance(key, position, save),
            None => Ok(()),
        }
    }
}
