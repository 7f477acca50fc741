//! The latencies of a measurement, in constant memory.

use hdrhistogram::Histogram;
use std::time::Duration;

/// About 18 minutes. Longer latencies count as this one.
const NANOSECONDS_MAX: u64 = (1 << 40) - 1;
/// With two significant digits, every quantile is accurate to 1% and the histogram takes 35 KiB. With three digits, it
/// would take 240 KiB.
const SIGNIFICANT_DIGITS: u8 = 2;

/// A histogram of latencies, and the exact longest latency.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    nanoseconds: Histogram<u64>,
    max: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        let nanoseconds = Histogram::new_with_max(NANOSECONDS_MAX, SIGNIFICANT_DIGITS);
        Self { nanoseconds: nanoseconds.expect("the library accepts these constant bounds"), max: Duration::ZERO }
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.nanoseconds.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        self.max = self.max.max(latency);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.nanoseconds.add(&other.nanoseconds).expect("both have the same bounds");
        self.max = self.max.max(other.max);
    }

    /// Returns zero if there are no operations. `share` is from 0 to 1.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.nanoseconds.value_at_quantile(share)).min(self.max)
    }

    pub(crate) fn max(&self) -> Duration {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_thousand_latencies() {
        let mut latencies = Latencies::default();
        let mut other = Latencies::default();
        for microseconds in 1..=1000 {
            let into = if microseconds % 2 == 0 { &mut latencies } else { &mut other };
            into.record(Duration::from_micros(microseconds));
        }
        latencies.merge(&other);
        for (share, expected) in [(0.5, 500), (0.95, 950), (0.99, 990), (0.999, 999), (1.0, 1000), (0.001, 1)] {
            let got = latencies.quantile(share).as_nanos();
            let expected = Duration::from_micros(expected).as_nanos();
            assert!(got >= expected && got <= expected + expected / 100, "{share}: {got}");
        }
        assert_eq!(latencies.max(), Duration::from_millis(1));
        assert_eq!(latencies.nanoseconds.len(), 1000);
    }

    #[test]
    fn no_latencies_and_endless_ones() {
        assert_eq!(Latencies::default().quantile(0.99), Duration::ZERO);
        let mut latencies = Latencies::default();
        latencies.record(Duration::MAX);
        assert_eq!(latencies.max(), Duration::MAX);
        assert_eq!(latencies.quantile(0.5).as_secs(), Duration::from_nanos(NANOSECONDS_MAX).as_secs());
    }
}
