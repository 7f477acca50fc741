//! Latencies in buckets whose width grows with the value, so that memory is fixed and quantiles are within 1 %.

use std::time::Duration;

/// Each power of two is divided into this many buckets, as a power of two.
const BUCKETS_PER_OCTAVE_BITS: u32 = 7;
const BUCKETS_PER_OCTAVE: usize = 1 << BUCKETS_PER_OCTAVE_BITS;
/// Longer latencies, in nanoseconds, count as this one: about 18 minutes.
const NANOSECONDS_MAX: u64 = (1 << 40) - 1;
const BUCKETS: usize = (40 - BUCKETS_PER_OCTAVE_BITS as usize + 1) * BUCKETS_PER_OCTAVE;

/// How often each latency was seen.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: Duration::ZERO }
    }
}

impl Histogram {
    /// Counts one latency.
    pub(crate) fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).min(NANOSECONDS_MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(nanoseconds)) {
            *bucket += 1;
        }
        self.count += 1;
        self.max = self.max.max(latency);
    }

    /// Adds what another histogram counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The latency that this many of a thousand do not exceed; zero if nothing was counted.
    pub(crate) fn per_mille(&self, share: u64) -> Duration {
        let rank = (self.count * share).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(highest_of(index)).min(self.max);
            }
        }
        self.max
    }

    /// The longest latency.
    pub(crate) fn max(&self) -> Duration {
        self.max
    }
}

/// The first two octaves' worth of values have a bucket each; behind them a bucket spans more and more values.
fn bucket_of(nanoseconds: u64) -> usize {
    let bits = u64::BITS - nanoseconds.leading_zeros();
    let shift = bits.saturating_sub(BUCKETS_PER_OCTAVE_BITS + 1);
    let within = usize::try_from(nanoseconds >> shift).unwrap_or(usize::MAX);
    (shift as usize) * BUCKETS_PER_OCTAVE + within
}

/// The highest value that falls into a bucket.
fn highest_of(bucket: usize) -> u64 {
    let shift = (bucket / BUCKETS_PER_OCTAVE).saturating_sub(1);
    let within = (bucket - shift * BUCKETS_PER_OCTAVE) as u64;
    ((within + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_within_one_percent() {
        let mut value = 1_u64;
        while value < NANOSECONDS_MAX {
            for near in [value - 1, value, value + 1] {
                let highest = highest_of(bucket_of(near));
                assert!(highest >= near && highest - near <= near / 100, "{near} is in the bucket up to {highest}");
                assert_eq!(bucket_of(highest), bucket_of(near));
                assert_eq!(bucket_of(highest + 1), bucket_of(near) + 1, "no bucket is skipped behind {near}");
            }
            value = value * 3 / 2 + 1;
        }
        assert!(bucket_of(NANOSECONDS_MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_of_a_thousand_latencies() {
        let mut histogram = Histogram::default();
        let mut other = Histogram::default();
        for microseconds in 1..=1000 {
            let into = if microseconds % 2 == 0 { &mut histogram } else { &mut other };
            into.record(Duration::from_micros(microseconds));
        }
        histogram.merge(&other);
        for (share, expected) in [(500, 500), (950, 950), (990, 990), (1000, 1000), (1, 1)] {
            let got = histogram.per_mille(share).as_nanos();
            let expected = Duration::from_micros(expected).as_nanos();
            assert!(got >= expected && got <= expected + expected / 100, "{share}: {got}");
        }
        assert_eq!(histogram.max(), Duration::from_millis(1));
        assert_eq!(histogram.count, 1000);
    }

    #[test]
    fn an_empty_histogram_and_endless_latencies() {
        assert_eq!(Histogram::default().per_mille(990), Duration::ZERO);
        let mut histogram = Histogram::default();
        histogram.record(Duration::MAX);
        assert_eq!(histogram.max(), Duration::MAX);
    }
}
