//! The values of the page `/metrics`, and the metric families that are written to it.

use super::Metrics;
use crate::limits::LimitFigures;
use crate::limits::connections::ConnectionCounters;
use engine::Figures;
use engine::figures::Distributed;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const NANOS: f64 = 1e9;

#[derive(Debug, Clone)]
pub(crate) struct MetricsSnapshot {
    /// `None` until the engine is open.
    pub(crate) now: Option<SystemTime>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connections: Arc<ConnectionCounters>,
    /// `None` until the engine is open.
    pub(crate) service: Option<(Figures, LimitFigures)>,
    pub(crate) stage: &'static str,
    pub(crate) is_ready: bool,
    /// The numbers of exported and of dropped spans; `None` if there are no traces.
    pub(crate) spans: Option<(u64, u64)>,
}

/// A page that is being written.
pub(super) struct MetricsPage<'p, 'e> {
    pub(super) encoder: &'p mut DescriptorEncoder<'e>,
}

pub(super) type Labels<'l> = &'l [(&'static str, &'l str)];

pub(super) struct Family<'f> {
    encoder: MetricEncoder<'f>,
}

impl MetricsPage<'_, '_> {
    /// Writes a counter without labels.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, |family| family.count(&[], value))
    }

    /// Writes a gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.gauges(name, help, |family| family.value(&[], value))
    }

    /// Writes a family of counters. The name ends with the unit; the library appends `_total`.
    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        samples: impl FnOnce(&mut Family<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, samples)
    }

    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        samples: impl FnOnce(&mut Family<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, samples)
    }

    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        samples: impl FnOnce(&mut Family<'_>) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Histogram, samples)
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        samples: impl FnOnce(&mut Family<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let (bare, unit) = [("_bytes", Unit::Bytes), ("_seconds", Unit::Seconds)]
            .into_iter()
            .find_map(|(end, unit)| Some((name.strip_suffix(end)?, Some(unit))))
            .unwrap_or((name, None));
        let encoder = self.encoder.encode_descriptor(bare, help, unit.as_ref(), kind)?;
        samples(&mut Family { encoder })
    }
}

impl Family<'_> {
    pub(super) fn count(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        self.sample(labels, |encoder| encoder.encode_counter::<NoLabelSet, _, f64>(&value, None))
    }

    pub(super) fn count_seconds(&mut self, labels: Labels<'_>, time: Duration) -> fmt::Result {
        self.sample(labels, |encoder| encoder.encode_counter::<NoLabelSet, _, f64>(&time.as_secs_f64(), None))
    }

    pub(super) fn value(&mut self, labels: Labels<'_>, value: u64) -> fmt::Result {
        self.sample(labels, |encoder| encoder.encode_gauge(&value))
    }

    pub(super) fn gauge_f64(&mut self, labels: Labels<'_>, value: f64) -> fmt::Result {
        self.sample(labels, |encoder| encoder.encode_gauge(&value))
    }

    pub(super) fn histogram(&mut self, labels: Labels<'_>, spread: &Distributed) -> fmt::Result {
        self.scaled(labels, spread, 1.0)
    }

    /// Writes a histogram of times that were counted in nanoseconds.
    pub(super) fn histogram_seconds(&mut self, labels: Labels<'_>, spread: &Distributed) -> fmt::Result {
        self.scaled(labels, spread, NANOS)
    }

    #[allow(clippy::cast_precision_loss, reason = "the page has numbers of this precision")]
    fn scaled(&mut self, labels: Labels<'_>, spread: &Distributed, scale: f64) -> fmt::Result {
        let bounds = spread.bounds.iter().map(|bound| *bound as f64 / scale).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(spread.counts.iter().copied()).collect();
        let count = spread.counts.iter().sum();
        let sum = spread.sum as f64 / scale;
        self.sample(labels, |encoder| encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None))
    }

    fn sample(&mut self, labels: Labels<'_>, write: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result) -> fmt::Result {
        // Without labels the line must have no braces.
        if labels.is_empty() { write(&mut self.encoder) } else { write(&mut self.encoder.encode_family(&labels)?) }
    }
}
