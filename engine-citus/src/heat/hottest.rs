//! Finds the hottest partitions in bounded memory.
//!
//! This is the space-saving algorithm (Metwally, Agrawal and El Abbadi, 2005) with weights. It keeps a fixed number of
//! counters. A partition without a counter takes over the smallest one and adds to its value. A counter is therefore
//! too high by at most the value that it was taken over with, and a partition whose weight exceeds the total divided by
//! the number of counters always has one.

/// With 128 counters, a partition with at least 1% of the load has a counter whose error is small.
const COUNTERS: usize = 128;

#[derive(Debug, Clone, PartialEq)]
struct Counter {
    hash: i32,
    partition: Vec<u8>,
    weight: f64,
    /// At most this much of the weight belongs to other partitions.
    error: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Hottest {
    counters: Vec<Counter>,
}

impl Hottest {
    pub(crate) fn add(&mut self, hash: i32, partition: &[u8], weight: f64) {
        let known = |counter: &&mut Counter| counter.hash == hash && counter.partition == partition;
        if let Some(counter) = self.counters.iter_mut().find(known) {
            counter.weight += weight;
        } else if self.counters.len() < COUNTERS {
            self.counters.push(Counter { hash, partition: partition.to_vec(), weight, error: 0.0 });
        } else if let Some(least) = self.counters.iter_mut().min_by(|a, b| a.weight.total_cmp(&b.weight)) {
            least.error = least.weight;
            least.weight += weight;
            least.hash = hash;
            least.partition.clear();
            least.partition.extend_from_slice(partition);
        }
    }

    /// Multiplies all weights, so that earlier requests count less than later ones.
    pub(crate) fn fade(&mut self, factor: f64) {
        for counter in &mut self.counters {
            counter.weight *= factor;
            counter.error *= factor;
        }
        self.counters.retain(|counter| counter.weight > f64::EPSILON);
    }

    /// Returns the partitions with their weights, without those that may owe most of it to others. The weights are not
    /// too high.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let sure = self.counters.iter().filter(|counter| counter.error < counter.weight / 2.0);
        sure.map(|counter| (counter.partition.as_slice(), counter.weight - counter.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_partitions_are_found_among_many() {
        let mut hottest = Hottest::default();
        for round in 0..100_000_u32 {
            // A fifth of all requests go to two partitions, and the others to ever new ones.
            let partition = match round % 10 {
                0 => 1,
                5 => 2,
                _ => 1000 + round,
            };
            hottest.add(partition.cast_signed(), &partition.to_be_bytes(), 1.0);
        }
        assert_eq!(hottest.counters.len(), COUNTERS);
        let mut found: Vec<_> = hottest.partitions().collect();
        found.sort_by(|a, b| a.0.cmp(b.0));
        let names: Vec<_> = found.iter().map(|(partition, _)| *partition).collect();
        assert_eq!(names, [&1_u32.to_be_bytes()[..], &2_u32.to_be_bytes()]);
        assert!(found.iter().all(|(_, weight)| (9_000.0..=10_000.0).contains(weight)), "{found:?}");
    }

    #[test]
    fn earlier_requests_count_less() {
        let mut hottest = Hottest::default();
        hottest.add(1, b"early", 8.0);
        hottest.fade(0.25);
        hottest.add(2, b"late", 4.0);
        assert_eq!(hottest.partitions().collect::<Vec<_>>(), [(&b"early"[..], 2.0), (&b"late"[..], 4.0)]);
        (0..200).for_each(|_| hottest.fade(0.25));
        assert_eq!(hottest.partitions().count(), 0);
    }
}
