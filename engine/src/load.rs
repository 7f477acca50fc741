//! What an operator sees of the load of a database cluster.
//!
//! This module must not depend on how the load is measured, or on who reads the report. The names of the fields are
//! those in the JSON of `rowhouse balance --show --json`.

use model::AccountName;
use serde::Serialize;
use std::fmt;

/// The load of a cluster as all servers measured it, and what should be done about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// The number of servers that measured the load.
    pub servers: usize,
    /// The nodes, including the coordinator.
    pub nodes: Vec<NodeReport>,
    /// The shards in the order of their hashes.
    pub shards: Vec<ShardReport>,
    /// The hottest partitions, the hottest one first.
    pub partitions: Vec<PartitionReport>,
    /// The steps of the last day, the oldest one first.
    pub steps: Vec<StepReport>,
    /// The kind of the advice.
    pub action: Action,
    /// What should be done, or why there is nothing to do.
    pub advice: String,
    /// The step that should be taken.
    pub step: Option<Step>,
}

/// An amount of work per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LoadRates {
    /// The estimated processor time of the node, in seconds.
    pub load: f64,
    /// Requests that read.
    pub reads_per_second: f64,
    /// Requests that write.
    pub writes_per_second: f64,
    /// Rows that were read or written.
    pub rows_per_second: f64,
    /// The time that requests waited for the node, in seconds.
    pub waiting: f64,
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeReport {
    /// The ID in the cluster.
    pub id: i32,
    /// The host and the port.
    pub name: String,
    /// Whether shards may be moved to the node.
    pub may_have_shards: bool,
    /// The number of its shards.
    pub shards: usize,
    /// Its load.
    pub load: LoadRates,
}

/// A shard of the entities.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShardReport {
    /// The ID of the shard.
    pub id: i64,
    /// The lowest hash.
    pub first: i32,
    /// The highest hash.
    pub last: i32,
    /// The ID of the node that has the shard, if the node is active.
    pub node: Option<i32>,
    /// Its load.
    pub load: LoadRates,
}

/// A partition with much load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionReport {
    /// The account.
    pub account: String,
    /// The table.
    pub table: String,
    /// The partition key.
    pub partition: String,
    /// The estimated processor time per second.
    pub load: f64,
}

/// A step that was begun in the last day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepReport {
    /// When it began, as Unix time in seconds.
    pub began: u64,
    /// What was done.
    pub step: String,
    /// When it ended; `None` if it is running, or if its server stopped before that.
    pub ended: Option<u64>,
    /// Why it failed.
    pub error: Option<String>,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult<'s> {
    /// It succeeded.
    Completed {
        /// Its duration.
        seconds: u64,
    },
    /// It failed, for the given reason.
    Failed(&'s str),
    /// It is running, or its server stopped before the end.
    Unfinished,
}

/// The kinds of advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing, because there is little load.
    Idle,
    /// Nothing, because fewer than two nodes may have shards.
    OneNode,
    /// Nothing, because no node has much more load than the average.
    Even,
    /// Nothing, because no step would gain enough.
    Stuck,
    /// Move a shard.
    Move,
    /// Split a shard.
    Split,
}

/// A change of the places of shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Step {
    /// Move a shard to another node.
    Move {
        /// The shard.
        #[serde(rename = "move")]
        shard: i64,
        /// The node that has the shard.
        from: i32,
        /// The node that gets it.
        to: i32,
    },
    /// Split a shard, and distribute the pieces over nodes, one of which may be its own.
    Split {
        /// The shard.
        #[serde(rename = "split")]
        shard: i64,
        /// The highest hash of each piece but the last one.
        points: Vec<i32>,
        /// The node of each piece.
        nodes: Vec<i32>,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Move { shard, from, to } => write!(f, "move shard {shard} from node {from} to node {to}"),
            Self::Split { shard, points, nodes } => {
                let list = |numbers: &[i32]| numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
                write!(f, "split shard {shard} after the hashes {} onto the nodes {}", list(points), list(nodes))
            }
        }
    }
}

impl StepReport {
    /// Returns the result.
    pub fn result(&self) -> StepResult<'_> {
        match (&self.error, self.ended) {
            (Some(error), _) => StepResult::Failed(error),
            (None, Some(ended)) => StepResult::Completed { seconds: ended.saturating_sub(self.began) },
            (None, None) => StepResult::Unfinished,
        }
    }
}

impl LoadReport {
    /// Returns what the owner of an account may see: of the partitions, only those in the account.
    pub fn visible_to(&self, account: &AccountName) -> Self {
        let mut report = self.clone();
        report.partitions.retain(|partition| partition.account == account.as_str());
        report
    }

    /// Returns the load of the hottest node, divided by the average of all nodes that may have shards. Returns `None`
    /// without load, and if there are fewer than two such nodes.
    pub fn imbalance(&self) -> Option<f64> {
        let loads: Vec<f64> =
            self.nodes.iter().filter(|node| node.may_have_shards).map(|node| node.load.load).collect();
        let total: f64 = loads.iter().sum();
        #[allow(clippy::cast_precision_loss, reason = "there are few nodes")]
        let count = loads.len() as f64;
        let hottest = loads.iter().copied().reduce(f64::max)?;
        (count > 1.0 && total > 0.0).then(|| hottest * count / total)
    }

    /// Returns the shares of the hottest partitions in the load of the cluster, the highest one first.
    pub fn partition_shares(&self) -> impl Iterator<Item = f64> {
        let total: f64 = self.nodes.iter().map(|node| node.load.load).sum();
        // Nodes and partitions are measured separately, so a share can be slightly too high.
        let share = move |partition: &PartitionReport| (partition.load / total).min(1.0);
        self.partitions.iter().filter(move |_| total > 0.0).map(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> LoadReport {
        let node = |id, load, may_have_shards| NodeReport {
            id,
            name: format!("worker{id}:5432"),
            may_have_shards,
            shards: 16,
            load: LoadRates { load, ..LoadRates::default() },
        };
        let partition = |account: &str, load| PartitionReport {
            account: account.to_owned(),
            table: "trees".to_owned(),
            partition: "p".to_owned(),
            load,
        };
        LoadReport {
            servers: 1,
            nodes: vec![node(1, 0.0, false), node(2, 0.3, true), node(3, 0.1, true)],
            shards: Vec::new(),
            partitions: vec![partition("orchard", 0.2), partition("vineyard", 0.1)],
            steps: Vec::new(),
            action: Action::Even,
            advice: String::new(),
            step: None,
        }
    }

    #[test]
    fn shares_and_imbalance() {
        let mut report = report();
        assert_eq!(report.imbalance().map(|imbalance| (imbalance * 10.0).round()), Some(15.0));
        let shares: Vec<_> = report.partition_shares().map(|share| (share * 100.0).round()).collect();
        assert_eq!(shares, [50.0, 25.0]);
        report.nodes.pop();
        assert_eq!(report.imbalance(), None);
        report.nodes.pop();
        assert_eq!((report.imbalance(), report.partition_shares().count()), (None, 0));
    }

    #[test]
    fn an_account_sees_only_its_partitions() {
        let visible = report().visible_to(&AccountName::new("vineyard").unwrap());
        assert_eq!(visible.partitions, report().partitions[1..]);
        assert_eq!(visible.nodes, report().nodes);
    }
}
