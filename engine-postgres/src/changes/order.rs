//! The order in which the transactions of the nodes enter the change log. The crate above this one knows it for several
//! nodes; a single node sends its transactions in order.

use crate::StoreError;
use crate::changes::decode_error::{DecodeError, Unorderable};
use crate::changes::merging::Merger;
use crate::changes::nodes::LogNode;
use crate::changes::streams::Streams;
use crate::changes::transactions::ReceivedChange;
use crate::connections::settings::Settings;
use crate::state::PostgresState;
use async_trait::async_trait;
use engine::KeptChanges;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, Error};

/// The interval at which an order checks whether the nodes have changed.
pub const POLL: Duration = Duration::from_secs(1);

/// A change log that is about to be decoded.
pub struct LogToOrder<'a> {
    /// The state of the engine.
    pub shared: &'a Arc<PostgresState>,
    /// The connection to the database.
    pub settings: &'a Settings,
    /// The name of the log and of its slots.
    pub name: &'a str,
    /// What the order stored last.
    pub state: &'a str,
    /// The nodes whose logs are decoded.
    pub nodes: &'a [LogNode],
    /// How far the log of each node has been decoded, including nodes that were removed.
    pub positions: &'a BTreeMap<i32, u64>,
}

/// The nodes whose logs are decoded, and the order of their transactions.
#[async_trait]
pub trait Orders: Send + Sync {
    /// Returns the nodes.
    async fn nodes(&self, client: &Client, settings: &Settings) -> Result<Vec<LogNode>, Error>;

    /// Returns the state of the order at the beginning of a new log.
    async fn begin(&self, client: &Client, settings: &Settings) -> Result<String, StoreError>;

    /// Returns the order of a log, or `None` if it has none, so that a new log must begin.
    async fn order(&self, log: LogToOrder<'_>) -> Result<Option<Box<dyn Order>>, DecodeError>;

    /// Returns the function that computes the hash of a partition.
    fn hash(&self) -> fn(&[u8]) -> i32;
}

/// The order of the transactions that the nodes have sent since a server began to decode.
#[async_trait]
pub trait Order: Send {
    /// Returns the node whose first transaction is next, or `None` if none can be appended yet.
    fn next(&mut self, merger: &Merger) -> Result<Option<i32>, Unorderable>;

    /// Returns whether a change belongs to the log if this node sends it.
    fn is_of_log(&self, _group: i32, _change: &ReceivedChange) -> bool {
        true
    }

    /// Notes that everything that was appended is stored. If that was not nothing, the log contains these positions.
    async fn note_stored(&mut self, _stored: Option<KeptChanges>) -> Result<(), DecodeError> {
        Ok(())
    }

    /// Does what is needed before more can be appended.
    async fn advance(&mut self, _merger: &Merger, _streams: &Streams) -> Result<Progress, DecodeError> {
        Ok(Progress::Wait(POLL))
    }

    /// Describes for what transactions wait, for the log of the server.
    fn describe(&self, _merger: &Merger) -> String {
        String::new()
    }
}

/// How decoding continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Something may be appended now.
    Again,
    /// The nodes may send something, for which to wait no longer than this.
    Wait(Duration),
    /// The set of nodes has changed, so that decoding starts again.
    NodesChanged,
}

/// Appends the transactions that are next, up to the maximum of a step. Returns whether the step is full.
pub(crate) fn merge(merger: &mut Merger, order: &mut dyn Order) -> Result<bool, Unorderable> {
    while !merger.is_full() {
        let Some(group) = order.next(merger)? else { return Ok(false) };
        merger.append_first_of(group, |change| order.is_of_log(group, change));
    }
    Ok(true)
}

/// A database that is not distributed.
pub(crate) struct OneNode;

#[async_trait]
impl Orders for OneNode {
    async fn nodes(&self, _: &Client, settings: &Settings) -> Result<Vec<LogNode>, Error> {
        Ok(vec![LogNode::only(settings)])
    }

    async fn begin(&self, _: &Client, _: &Settings) -> Result<String, StoreError> {
        Ok(String::new())
    }

    async fn order(&self, log: LogToOrder<'_>) -> Result<Option<Box<dyn Order>>, DecodeError> {
        Ok(log.state.is_empty().then(|| Box::new(Self) as Box<dyn Order>))
    }

    fn hash(&self) -> fn(&[u8]) -> i32 {
        |_| 0
    }
}

impl Order for OneNode {
    fn next(&mut self, merger: &Merger) -> Result<Option<i32>, Unorderable> {
        Ok(merger.groups().find(|group| merger.first(*group).is_some()))
    }
}
