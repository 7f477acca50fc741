//! Decides what would even out the load of the nodes. This module does no I/O.
//!
//! The load of a node is the sum of the costs of its shards. If a node has clearly more or less than the average, there
//! are two remedies: move a shard to the coolest node, or, if the shards are too hot for that, split one of them.
//! The pieces of a split are distributed over the nodes at the same time. If one partition causes much of a shard's
//! load, it becomes a piece by itself. A partition cannot be divided, so one that is hotter than a node's share remains
//! the hottest place of the cluster.

use crate::balance::cluster::{ClusterLoad, NodeLoad, ShardLoad};
use crate::hash::hash;
use crate::heat::{bucket_of, last_of};
use engine::load::{Action, Step};
use std::collections::BTreeSet;
use std::fmt;

/// Below this load, in seconds of processor time per second and node, nothing is worth a move.
const COST_MIN: f64 = 0.02;
/// A node that has this much more than the average is too hot, and one that has this much less is too cool.
const EXCESS_MAX: f64 = 0.1;
/// The least gain of a step, as a share of the average load.
const GAIN_MIN: f64 = 0.02;
/// A partition with this share of a shard's load, or more, gets its own shard.
const PARTITION_SHARE: f64 = 0.5;

/// What to do, or why there is nothing to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Advice {
    /// All nodes together have too little load.
    Idle,
    /// There are fewer than two nodes that may have shards.
    OneNode,
    /// No node has much more than the average, and no move would help a node that has much less.
    Even,
    /// No step would gain enough. The hottest node has this excess over the average.
    Stuck {
        /// The load of the hottest node, divided by the average.
        excess: f64,
    },
    /// A step that makes the load more even.
    Do {
        /// The step.
        step: Step,
        /// The load of the hottest node of those concerned, divided by the average, now.
        before: f64,
        /// The same after the step.
        after: f64,
    },
}

impl Advice {
    pub(crate) fn action(&self) -> Action {
        match self {
            Self::Idle => Action::Idle,
            Self::OneNode => Action::OneNode,
            Self::Even => Action::Even,
            Self::Stuck { .. } => Action::Stuck,
            Self::Do { step: Step::Move { .. }, .. } => Action::Move,
            Self::Do { step: Step::Split { .. }, .. } => Action::Split,
        }
    }

    pub(crate) fn step(self) -> Option<Step> {
        match self {
            Self::Do { step, .. } => Some(step),
            Self::Idle | Self::OneNode | Self::Even | Self::Stuck { .. } => None,
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("nothing to do: there is little load"),
            Self::OneNode => f.write_str("nothing to do: fewer than two nodes may have shards"),
            Self::Even => f.write_str("nothing to do: no node has 10% more load than the average"),
            Self::Stuck { excess } => write!(
                f,
                "nothing can be done: the hottest node has {excess:.2} times the average load, but no move or split \
                 would change that; a partition cannot be divided"
            ),
            Self::Do { step, before, after } => write!(
                f,
                "{step}: the hottest node now has {before:.2} times the average load, and then {after:.2} times"
            ),
        }
    }
}

/// Returns the step that makes the load most even.
pub(crate) fn advise(cluster: &ClusterLoad) -> Advice {
    let mut nodes: Vec<&NodeLoad> = cluster.nodes.iter().filter(|node| node.may_have_shards).collect();
    nodes.sort_by(|a, b| cluster.cost_of(a).total_cmp(&cluster.cost_of(b)));
    let [coolest, .., hottest] = &nodes[..] else { return Advice::OneNode };
    #[allow(clippy::cast_precision_loss, reason = "there are few nodes")]
    let average = nodes.iter().map(|node| cluster.cost_of(node)).sum::<f64>() / nodes.len() as f64;
    let highest = cluster.cost_of(hottest);
    if average < COST_MIN {
        return Advice::Idle;
    }
    let high = average * (1.0 + EXCESS_MAX);
    let is_too_hot = highest > high;
    if !is_too_hot && cluster.cost_of(coolest) >= average * (1.0 - EXCESS_MAX) {
        return Advice::Even;
    }
    let best_move = |node: &NodeLoad| {
        let moves = cluster.shards_of(node).map(|shard| {
            let cost = shard.cost();
            let after = (cluster.cost_of(node) - cost).max(cluster.cost_of(coolest) + cost);
            (after, Step::Move { shard: shard.id, from: node.id, to: coolest.id })
        });
        moves.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    // A split copies a whole shard, so a move is preferred if it suffices for any of the hot nodes.
    for node in nodes.iter().rev().take_while(|node| cluster.cost_of(node) > high) {
        if let Some((after, step)) = best_move(node).filter(|(after, _)| *after <= high) {
            return Advice::Do { step, before: cluster.cost_of(node) / average, after: after / average };
        }
    }
    // A split cannot be undone, so a node that is merely too cool is no reason for one.
    let hottest_shard = cluster.shards_of(hottest).max_by(|a, b| a.cost().total_cmp(&b.cost()));
    let split = hottest_shard.filter(|_| is_too_hot).and_then(|shard| split(cluster, shard, hottest, &nodes, average));
    let best = match (best_move(hottest), split) {
        (Some(moved), Some(split)) => Some(if moved.0 <= split.0 + GAIN_MIN * average { moved } else { split }),
        (moved, split) => moved.or(split),
    };
    match best {
        Some((after, step)) if after + GAIN_MIN * average <= highest => {
            Advice::Do { step, before: highest / average, after: after / average }
        }
        _ if !is_too_hot => Advice::Even,
        _ => Advice::Stuck { excess: highest / average },
    }
}

/// A range of hashes in a shard, with the load that is measured for it.
struct Slice {
    last: i32,
    cost: f64,
}

/// Divides a shard, so that its node can keep an average load and the coolest nodes get the rest. Returns the load of
/// the hottest of these nodes after the split. `nodes` are in the order of their loads.
fn split(
    cluster: &ClusterLoad,
    shard: &ShardLoad,
    own: &NodeLoad,
    nodes: &[&NodeLoad],
    average: f64,
) -> Option<(f64, Step)> {
    let slices = slices(cluster, shard);
    let shard_cost: f64 = slices.iter().map(|slice| slice.cost).sum();
    // The node itself comes first: what remains there need not be moved again.
    let room = (average - (cluster.cost_of(own) - shard_cost)).max(0.0);
    let others = nodes.iter().filter(|node| node.id != own.id);
    let mut rooms: Vec<(i32, f64)> = vec![(own.id, room)];
    rooms.extend(others.map(|node| (node.id, average - cluster.cost_of(node))).filter(|(_, room)| *room > 0.0));
    // A slice belongs to the node in whose room its middle lies, so that errors do not add up.
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut filled, mut end, mut at) = (0.0, room, 0);
    for slice in &slices {
        while at + 1 < rooms.len() && filled + slice.cost / 2.0 >= end {
            at += 1;
            end += rooms.get(at).map_or(0.0, |(_, room)| *room);
        }
        filled += slice.cost;
        let node = rooms.get(at).map_or(own.id, |(node, _)| *node);
        match pieces.last_mut().filter(|piece| piece.node == node) {
            Some(piece) => (piece.last, piece.cost) = (slice.last, piece.cost + slice.cost),
            None => pieces.push(Piece { node, last: slice.last, cost: slice.cost }),
        }
    }
    let added = |node| pieces.iter().filter(|piece| piece.node == node).map(|piece| piece.cost).sum::<f64>();
    let high = rooms.iter().map(|(node, room)| average - room + added(*node)).fold(0.0, f64::max);
    let last_point = pieces.len().saturating_sub(1);
    let points: Vec<i32> = pieces.iter().map(|piece| piece.last).take(last_point).collect();
    let nodes = pieces.iter().map(|piece| piece.node).collect();
    (!points.is_empty()).then_some((high, Step::Split { shard: shard.id, points, nodes }))
}

/// A part of a shard that is about to be split.
struct Piece {
    node: i32,
    last: i32,
    cost: f64,
}

/// Divides a shard into the measured ranges, and separates a partition that causes much of its load.
fn slices(cluster: &ClusterLoad, shard: &ShardLoad) -> Vec<Slice> {
    let hot = cluster.partitions.iter().filter(|partition| partition.cost >= PARTITION_SHARE * shard.cost());
    let around = hot.map(|partition| hash(&partition.key)).flat_map(|hash| [hash.saturating_sub(1), hash]);
    let ranges = (bucket_of(shard.first)..=bucket_of(shard.last)).map(last_of);
    let within = ranges.chain(around).filter(|last| shard.contains(*last)).chain([shard.last]);
    let lasts: BTreeSet<i32> = within.collect();
    let mut first = shard.first;
    let slice = |last| {
        let cost = cluster.load_in(first, last).cost();
        first = last.saturating_add(1);
        Slice { last, cost }
    };
    lasts.into_iter().map(slice).collect()
}

/// Returns the cluster after a step.
pub(crate) fn perform(cluster: &ClusterLoad, step: &Step) -> ClusterLoad {
    let group_of = |id: i32| cluster.nodes.iter().find(|node| node.id == id).map(|node| node.group);
    let placed = |shard: &ShardLoad| match step {
        Step::Move { shard: moved, to, .. } if *moved == shard.id => {
            vec![(shard.id, shard.first, shard.last, group_of(*to).unwrap_or(shard.group))]
        }
        Step::Split { shard: split, points, nodes } if *split == shard.id => {
            let firsts = std::iter::once(shard.first).chain(points.iter().map(|point| point.saturating_add(1)));
            let ends = firsts.zip(points.iter().copied().chain([shard.last]));
            let group = |node: &i32| group_of(*node).unwrap_or(shard.group);
            ends.zip(nodes).map(|((first, last), node)| (shard.id, first, last, group(node))).collect()
        }
        Step::Move { .. } | Step::Split { .. } => vec![shard.place()],
    };
    let places = cluster.shards.iter().flat_map(placed);
    ClusterLoad::new(cluster.nodes.clone(), places, cluster.buckets.clone(), cluster.partitions.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::cluster::HotPartition;
    use crate::heat::BUCKETS;
    use crate::heat::Load;

    /// A cluster with equal shards, which lie on the nodes in turn, and the costs of some ranges of hashes.
    struct Given {
        nodes: i32,
        shards: i32,
        costs: Vec<f64>,
        partitions: Vec<HotPartition>,
    }

    impl Given {
        fn new(nodes: i32, shards: i32) -> Self {
            Self { nodes, shards, costs: vec![0.0; BUCKETS], partitions: Vec::new() }
        }

        /// Distributes a cost over a shard.
        fn shard(mut self, shard: usize, cost: f64) -> Self {
            let each = BUCKETS / usize::try_from(self.shards).unwrap();
            for bucket in &mut self.costs[shard * each..(shard + 1) * each] {
                *bucket += cost / f64::from(u32::try_from(each).unwrap());
            }
            self
        }

        fn partition(mut self, key: &[u8], cost: f64) -> Self {
            self.costs[bucket_of(hash(key))] += cost;
            self.partitions.push(HotPartition { key: key.to_vec(), cost });
            self
        }

        fn cluster(&self) -> ClusterLoad {
            let load =
                |cost: &f64| Load { reads: cost / Load { reads: 1.0, ..Load::default() }.cost(), ..Load::default() };
            let node =
                |group| NodeLoad { id: group + 10, group, name: format!("w{group}"), may_have_shards: group > 0 };
            let width = (1_i64 << 32) / i64::from(self.shards);
            let shard = |number: i32| {
                let first = i64::from(i32::MIN) + i64::from(number) * width;
                (i64::from(number) + 100, i32::try_from(first).unwrap(), i32::try_from(first + width - 1).unwrap())
            };
            let shards = (0..self.shards).map(shard);
            let placed = shards
                .enumerate()
                .map(|(at, (id, first, last))| (id, first, last, i32::try_from(at).unwrap() % self.nodes + 1));
            let buckets = self.costs.iter().map(load).collect();
            ClusterLoad::new((0..=self.nodes).map(node).collect(), placed, buckets, self.partitions.clone())
        }
    }

    /// Performs steps until there is nothing to do. Returns the number of steps and the load of each node.
    fn balanced(mut cluster: ClusterLoad) -> (usize, Vec<f64>, Advice) {
        for steps in 0..100 {
            match advise(&cluster) {
                Advice::Do { step, before, after } => {
                    assert!(after < before, "{step}");
                    cluster = perform(&cluster, &step);
                    for (shard, id) in cluster.shards.iter_mut().zip(100..) {
                        shard.id = id;
                    }
                }
                done => {
                    let workers = cluster.nodes.iter().filter(|node| node.may_have_shards);
                    return (steps, workers.map(|node| cluster.cost_of(node)).collect(), done);
                }
            }
        }
        panic!("there is no end");
    }

    fn spread(costs: &[f64]) -> f64 {
        let average = costs.iter().sum::<f64>() / f64::from(u32::try_from(costs.len()).unwrap());
        costs.iter().map(|cost| (cost / average - 1.0).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn an_even_or_idle_cluster_stays_as_it_is() {
        let even = (0..32).fold(Given::new(2, 32), |given, shard| given.shard(shard, 0.03));
        assert_eq!(advise(&even.cluster()), Advice::Even);
        assert_eq!(advise(&Given::new(2, 32).shard(3, 0.03).cluster()), Advice::Idle);
        assert_eq!(advise(&Given::new(1, 32).shard(3, 0.8).cluster()), Advice::OneNode);
        let slightly = (0..32)
            .fold(Given::new(2, 32), |given, shard| given.shard(shard, if shard % 2 == 0 { 0.0315 } else { 0.0285 }));
        assert_eq!(advise(&slightly.cluster()), Advice::Even);
    }

    #[test]
    fn a_node_that_is_too_cool_gets_a_shard_but_no_piece() {
        let cost = |shard| if shard % 3 == 2 { 0.84 / 10.0 } else { 1.08 / 11.0 };
        let given = (0..32).fold(Given::new(3, 32), |given, shard| given.shard(shard, cost(shard)));
        let (steps, costs, done) = balanced(given.cluster());
        assert!(steps == 1 && spread(&costs) < 0.1 && done == Advice::Even, "{steps} {costs:?} {done:?}");
        let large = Given::new(3, 4).shard(0, 0.54).shard(1, 0.54).shard(2, 0.4);
        assert_eq!(advise(&large.cluster()), Advice::Even);
    }

    #[test]
    fn hot_shards_are_moved_apart() {
        let given = (0..32).fold(Given::new(2, 32), |given, shard| given.shard(shard, 0.01));
        let given = given.shard(0, 0.4).shard(2, 0.4);
        let Advice::Do { step: Step::Move { shard: 100 | 102, from: 11, to: 12 }, .. } = advise(&given.cluster())
        else {
            panic!("{:?}", advise(&given.cluster()))
        };
        let (steps, costs, _) = balanced(given.cluster());
        assert!(steps == 1 && spread(&costs) < 0.05, "{steps} {costs:?}");
    }

    #[test]
    fn a_shard_that_is_too_hot_is_split_over_all_nodes() {
        for nodes in 2..=5 {
            // 80% of the load is on one shard.
            let given =
                (0..32).fold(Given::new(nodes, 32), |given, shard| given.shard(shard, 0.2 / 31.0)).shard(0, 0.8);
            let (steps, costs, done) = balanced(given.cluster());
            assert!(steps == 1 && spread(&costs) < 0.1 && done == Advice::Even, "{steps} {costs:?} {done:?}");
        }
    }

    #[test]
    fn a_hot_partition_gets_its_own_shard() {
        let given = (0..32).fold(Given::new(2, 32), |given, shard| given.shard(shard, 0.02));
        let hot = hash(b"hot");
        let cluster = given.partition(b"hot", 0.3).partition(b"warm", 0.2).cluster();
        let of = |cluster: &ClusterLoad| cluster.shards.iter().find(|shard| shard.contains(hot)).unwrap().clone();
        let before = of(&cluster);
        assert!(before.first < hot && hot < before.last);
        // It is the only thing to divide if all else is on the other node.
        let crowded = Given::new(2, 1).partition(b"hot", 0.5).shard(0, 0.4).cluster();
        let Advice::Do { step: Step::Split { points, .. }, .. } = advise(&crowded) else {
            panic!("{:?}", advise(&crowded))
        };
        assert!(points.contains(&hot) || points.contains(&(hot - 1)), "{points:?} {hot}");
        let (_, costs, _) = balanced(crowded);
        assert!(spread(&costs) < 0.15, "{costs:?}");
    }

    #[test]
    fn a_partition_that_is_too_hot_alone_does_not_move_back_and_forth() {
        for key in [&b"a"[..], b"b", b"c", b"d"] {
            let given = (0..32).fold(Given::new(3, 32), |given, shard| given.shard(shard, 0.005));
            let (steps, costs, done) = balanced(given.partition(key, 0.9).cluster());
            assert!(steps <= 4 && matches!(done, Advice::Stuck { .. }), "{steps} {costs:?} {done:?}");
        }
    }

    #[test]
    fn a_new_node_gets_its_share() {
        let mut cluster = (0..64).fold(Given::new(2, 64), |given, shard| given.shard(shard, 0.02)).cluster();
        cluster.nodes.push(NodeLoad { id: 20, group: 9, name: "new".to_owned(), may_have_shards: true });
        let (_, costs, done) = balanced(cluster);
        assert!(done == Advice::Even && costs.iter().all(|cost| *cost > 0.3), "{costs:?} {done:?}");
    }
}
