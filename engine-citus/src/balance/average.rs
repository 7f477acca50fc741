//! The average load of the last minutes.
//!
//! A hot set of partitions that changes every minute makes one node hot after another. Each step would be too late, and
//! prepare the cluster for a load that has gone. A step must therefore not make the average load less even. A load that
//! stays changes the average soon enough.

use crate::balance::cluster::{ClusterLoad, ShardLoad};
use crate::balance::plan::perform;
use crate::heat::Load;
use engine::load::Step;
use std::time::Instant;

/// The time in which the effect of an observation falls to 1/e, in seconds.
const FADE_SECONDS: f64 = 300.0;
/// A step may make the hottest node this much hotter, because loads vary.
const TOLERANCE: f64 = 0.02;

#[derive(Debug, Default)]
pub(crate) struct Average {
    /// The last observation.
    at: Option<Instant>,
    buckets: Vec<Load>,
}

impl Average {
    pub(crate) fn add(&mut self, cluster: &ClusterLoad, now: Instant) {
        let time = self.at.replace(now).map(|at| now.saturating_duration_since(at));
        let factor = time.map_or(0.0, |time| (-time.as_secs_f64() / FADE_SECONDS).exp());
        self.buckets.resize(cluster.buckets.len(), Load::default());
        for (average, load) in self.buckets.iter_mut().zip(&cluster.buckets) {
            *average = average.times(factor);
            average.add(load.times(1.0 - factor));
        }
    }

    pub(crate) fn permits(&self, cluster: &ClusterLoad, step: &Step) -> bool {
        let places = cluster.shards.iter().map(ShardLoad::place);
        let average = ClusterLoad::new(cluster.nodes.clone(), places, self.buckets.clone(), cluster.partitions.clone());
        perform(&average, step).highest_cost() <= average.highest_cost() * (1.0 + TOLERANCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::cluster::NodeLoad;
    use crate::balance::plan::{Advice, advise};
    use crate::heat::BUCKETS;
    use std::time::Duration;

    /// Two nodes with eight shards each, and the cost of each shard.
    fn cluster(costs: &[f64; 16]) -> ClusterLoad {
        let node = |group| NodeLoad { id: group, group, name: String::new(), may_have_shards: true };
        let width = 1_i64 << 28;
        let placed = (0_i64..16).map(|at| {
            let first = i64::from(i32::MIN) + at * width;
            let end = |hash: i64| i32::try_from(hash).unwrap();
            (at, end(first), end(first + width - 1), i32::try_from(at / 8).unwrap() + 1)
        });
        let each = Load { reads: 1.0, ..Load::default() }.cost() * 64.0;
        let buckets = (0..BUCKETS).map(|at| Load { reads: costs[at / 64] / each, ..Load::default() }).collect();
        ClusterLoad::new((1..=2).map(node).collect(), placed, buckets, Vec::new())
    }

    /// Observes a load every ten seconds, and returns whether the step that it asks for is permitted at the end.
    fn observe(average: &mut Average, now: &mut Instant, cluster: &ClusterLoad, seconds: u64) -> bool {
        for _ in 0..seconds / 10 {
            *now += Duration::from_secs(10);
            average.add(cluster, *now);
        }
        let Advice::Do { step, .. } = advise(cluster) else { panic!("{:?}", advise(cluster)) };
        average.permits(cluster, &step)
    }

    #[test]
    fn a_load_that_moves_every_minute_causes_no_steps_but_one_that_stays_does() {
        let mut costs = [0.02; 16];
        costs[3..5].fill(0.12);
        let left = cluster(&costs);
        let (mut average, mut now) = (Average::default(), Instant::now());
        assert!(observe(&mut average, &mut now, &left, 30));
        costs = [0.02; 16];
        costs[11..13].fill(0.12);
        let right = cluster(&costs);
        for minute in 0..20 {
            let is_permitted = observe(&mut average, &mut now, if minute % 2 == 0 { &right } else { &left }, 60);
            assert!(minute < 6 || !is_permitted, "{minute}");
        }
        assert!(observe(&mut average, &mut now, &left, 240));
    }
}
