//! The streams of the nodes' logs, one for each node.

use crate::changes::decode_error::DecodeError;
use crate::changes::merging::Merger;
use crate::changes::nodes::LogNode;
use crate::changes::pgoutput::Message;
use crate::changes::transactions::Assembler;
use crate::connections::replication::{Replication, ReplicationError, SILENCE_MAX, StreamMessage};
use engine::parts::monotonic;
use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The interval at which the database is told what has been stored.
const CONFIRMATION: Duration = Duration::from_secs(1);
/// The time without a message after which the database is asked to respond.
const SILENCE: Duration = Duration::from_secs(10);
/// The pause between attempts to read a slot whose former reader is ending, and their number.
const SLOT_WAIT: Duration = Duration::from_millis(100);
const SLOT_WAITS_MAX: usize = 20;
/// The pause while no node may send more.
const ROOM_WAIT: Duration = Duration::from_millis(20);

struct NodeStream {
    node: LogNode,
    stream: Replication,
    assembler: Assembler,
    /// The position that the node was told.
    confirmed: u64,
    confirmed_at: Instant,
    heard_at: Instant,
    asked_at: Option<Instant>,
    is_response_due: bool,
}

/// The streams that are being read.
pub struct Streams(Vec<NodeStream>);

impl Streams {
    /// Starts to read the slots from positions on.
    pub(crate) async fn open(
        nodes: &[LogNode],
        name: &str,
        positions: &BTreeMap<i32, u64>,
        hash: fn(&[u8]) -> i32,
    ) -> Result<Self, DecodeError> {
        let opened = join_all(nodes.iter().map(|node| async {
            let from = positions.get(&node.group).copied().unwrap_or(0);
            NodeStream::open(node, name, from, hash).await
        }));
        Ok(Self(opened.await.into_iter().collect::<Result<_, _>>()?))
    }

    /// Returns the nodes that send them.
    pub fn nodes(&self) -> impl Iterator<Item = &LogNode> {
        self.0.iter().map(|stream| &stream.node)
    }

    /// Passes on all messages that were received completely. Returns whether some are left because others have to be
    /// merged first.
    pub(crate) fn receive(&mut self, merger: &mut Merger) -> Result<bool, DecodeError> {
        let mut is_behind = false;
        for stream in &mut self.0 {
            is_behind |= stream.receive(merger)? && merger.has_room(stream.node.group);
        }
        Ok(is_behind)
    }

    /// Tells the nodes what has been stored.
    pub(crate) async fn confirm(&mut self, merger: &Merger) -> Result<(), DecodeError> {
        for stream in &mut self.0 {
            stream.confirm(merger.position(stream.node.group)).await?;
        }
        Ok(())
    }

    /// Waits until a node has sent something, for a limited time.
    pub(crate) async fn wait(&mut self, merger: &Merger, limit: Duration) -> Result<(), DecodeError> {
        let mut fills = FuturesUnordered::new();
        for stream in &mut self.0 {
            if merger.has_room(stream.node.group) {
                if stream.heard_at.elapsed() >= SILENCE_MAX {
                    return Err(DecodeError::Database("the database stopped sending its log".to_owned()));
                }
                fills.push(async {
                    stream.stream.fill().await?;
                    stream.heard_at = monotonic::now();
                    Ok::<_, ReplicationError>(())
                });
            } else {
                stream.heard_at = monotonic::now();
            }
        }
        if fills.is_empty() {
            sleep(ROOM_WAIT).await;
        }
        let mut filled = timeout(limit.min(CONFIRMATION), fills.next()).await.unwrap_or_default();
        // A node that always has something to send must not keep the others waiting.
        while let Some(result) = filled {
            result?;
            filled = fills.next().now_or_never().flatten();
        }
        Ok(())
    }
}

impl NodeStream {
    async fn open(node: &LogNode, name: &str, from: u64, hash: fn(&[u8]) -> i32) -> Result<Self, DecodeError> {
        let mut waits = 0;
        let stream = loop {
            let mut stream = node.replication().await?;
            match stream.start(name, from).await {
                // The former reader is ending.
                Err(ReplicationError::Refused { code, .. }) if code == "55006" && waits < SLOT_WAITS_MAX => {
                    waits += 1;
                    sleep(SLOT_WAIT).await;
                }
                started => {
                    started?;
                    break stream;
                }
            }
        };
        let now = monotonic::now();
        Ok(Self {
            node: node.clone(),
            stream,
            assembler: Assembler::new(from, hash),
            confirmed: 0,
            confirmed_at: now,
            heard_at: now,
            asked_at: None,
            is_response_due: false,
        })
    }

    /// Returns whether there may be more messages.
    fn receive(&mut self, merger: &mut Merger) -> Result<bool, DecodeError> {
        while merger.has_room(self.node.group) {
            let Some(message) = self.stream.next()? else { return Ok(false) };
            match message {
                StreamMessage::Data(payload) => {
                    let message = Message::parse(&payload);
                    let received = message.as_ref().and_then(|message| self.assembler.apply(message).ok());
                    let received = received.ok_or_else(|| {
                        DecodeError::Database("a message of the database's log cannot be read".to_owned())
                    })?;
                    if let Some(received) = received {
                        merger.receive(self.node.group, received);
                    }
                }
                StreamMessage::KeepAlive { end, is_response_expected } => {
                    self.is_response_due |= is_response_expected;
                    // Everything before this position has been received.
                    if !self.assembler.is_within_transaction() {
                        merger.note_end(self.node.group, end);
                    }
                }
            }
        }
        Ok(true)
    }

    async fn confirm(&mut self, decoded: u64) -> Result<(), DecodeError> {
        let is_silent = self.heard_at.elapsed() >= SILENCE && self.asked_at.is_none_or(|at| at.elapsed() >= SILENCE);
        // A node whose messages are not read at the moment must not take this server for dead.
        let interval = if decoded > self.confirmed { CONFIRMATION } else { SILENCE };
        if self.is_response_due || is_silent || self.confirmed_at.elapsed() >= interval {
            self.stream.confirm(decoded, is_silent).await?;
            (self.confirmed, self.confirmed_at, self.is_response_due) = (decoded, monotonic::now(), false);
            self.asked_at = is_silent.then(monotonic::now).or(self.asked_at);
        }
        Ok(())
    }
}
