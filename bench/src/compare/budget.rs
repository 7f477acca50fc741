//! The lines of the comparison, with their budgets.

use crate::report::Report;
use crate::workload::Workload;
use serde::Serialize;
use std::fmt;

/// The reference of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The floor server, which verifies signatures.
    Floor,
    /// The floor server, with a sync of what is written.
    DurableFloor,
    /// The engine alone, writing transactions of 100 with as many tasks as there are connections.
    RawBatch,
    /// Rowhouse itself, with single inserts on one connection.
    SingleInserts,
    /// The floor server plus the engine alone, reading: the minimum of a get.
    FloorAndRawGet,
    /// The floor server without a sync plus the engine alone, writing: the minimum of a durable write.
    FloorAndRawWrite,
    /// The same plus a read of the existing entity, which a merge needs.
    FloorAndRawMerge,
    /// The engine alone, iterating.
    RawIterate,
    /// The engine alone, reading pages with all their values.
    RawScan,
}

/// One figure of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    CpuPerOperation,
    CpuPerEntity,
    OperationsPerSecond,
    EntitiesPerSecond,
    MedianLatency,
}

/// How large the ratio of server to reference may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) enum Budget {
    AtMost(f64),
    AtLeast(f64),
    /// The ratio is only shown.
    None,
}

/// A workload that is measured on the server and on a reference, and the figures that are compared.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) workload: Workload,
    pub(crate) connections: usize,
    pub(crate) reference: Reference,
    pub(crate) checks: Vec<(Figure, Budget)>,
}

impl Line {
    /// The name that `--only` selects.
    pub(crate) fn name(&self) -> String {
        format!("{} at {}", self.workload.name(), self.connections)
    }
}

/// Every line of the comparison.
pub(crate) fn lines() -> Vec<Line> {
    use Budget::{AtLeast, AtMost};
    use Figure::{CpuPerEntity, CpuPerOperation, EntitiesPerSecond, MedianLatency, OperationsPerSecond};
    let mut lines = Vec::new();
    let mut add = |workload, connections, reference, checks: &[(Figure, Budget)]| {
        lines.push(Line { workload, connections, reference, checks: checks.to_vec() });
    };
    // A page contains every value, so its reference is an engine that reads every value.
    add(Workload::QueryPage, 1, Reference::RawScan, &[(CpuPerEntity, AtMost(2.5)), (EntitiesPerSecond, Budget::None)]);
    add(Workload::QueryPage, 1, Reference::RawIterate, &[(CpuPerEntity, Budget::None)]);
    add(
        Workload::QueryFilter,
        1,
        Reference::RawIterate,
        &[(CpuPerEntity, AtMost(1.5)), (EntitiesPerSecond, Budget::None)],
    );
    add(
        Workload::QueryPage,
        1,
        Reference::Floor,
        &[(CpuPerOperation, Budget::None), (OperationsPerSecond, Budget::None)],
    );
    // ADR 5 says why the budgets of small requests count the engine.
    for connections in [1, 16, 64] {
        let shown = [(CpuPerOperation, Budget::None), (OperationsPerSecond, Budget::None)];
        add(Workload::Get, connections, Reference::Floor, &shown);
        let throughput = if connections == 1 { Budget::None } else { AtLeast(0.5) };
        let checks = [(CpuPerOperation, AtMost(2.0)), (OperationsPerSecond, throughput)];
        add(Workload::Get, connections, Reference::FloorAndRawGet, &checks);
    }
    for workload in [Workload::Insert, Workload::Upsert, Workload::Merge] {
        // One sync plus little: the design has no number for that, so it is half as much again.
        let alone =
            [(MedianLatency, AtMost(1.5)), (CpuPerOperation, Budget::None), (OperationsPerSecond, Budget::None)];
        add(workload, 1, Reference::DurableFloor, &alone);
        let shown = [(CpuPerOperation, Budget::None), (OperationsPerSecond, Budget::None)];
        add(workload, 64, Reference::DurableFloor, &shown);
        let together = [(CpuPerOperation, AtMost(2.0)), (OperationsPerSecond, AtLeast(0.5))];
        let is_merge = workload == Workload::Merge;
        let reference = if is_merge { Reference::FloorAndRawMerge } else { Reference::FloorAndRawWrite };
        add(workload, 64, reference, &together);
    }
    for connections in [1, 4, 16] {
        let checks = [(EntitiesPerSecond, AtLeast(0.5)), (CpuPerEntity, Budget::None)];
        add(Workload::Batch100, connections, Reference::RawBatch, &checks);
    }
    // The gain of transactions, for information: it depends on how long the disk takes to sync.
    for connections in [1, 16] {
        add(Workload::Batch100, connections, Reference::SingleInserts, &[(EntitiesPerSecond, Budget::None)]);
    }
    lines
}

impl Figure {
    /// The figure in a report; `None` if it was not measured.
    pub(crate) fn of(self, report: &Report) -> Option<f64> {
        match self {
            Self::CpuPerOperation => report.cpu.as_ref().map(|cpu| cpu.us_per_operation),
            Self::CpuPerEntity => report.cpu.as_ref().map(|cpu| cpu.us_per_entity),
            Self::OperationsPerSecond => Some(report.operations_per_second),
            Self::EntitiesPerSecond => Some(report.entities_per_second),
            Self::MedianLatency => Some(report.latency_us.p50),
        }
    }

    /// The name of the figure, with its unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CpuPerOperation => "CPU µs an operation",
            Self::CpuPerEntity => "CPU µs an entity",
            Self::OperationsPerSecond => "operations/s",
            Self::EntitiesPerSecond => "entities/s",
            Self::MedianLatency => "median latency µs",
        }
    }
}

impl Budget {
    /// Whether a ratio is within the budget; `None` if there is no budget.
    pub(crate) fn is_kept(self, ratio: f64) -> Option<bool> {
        match self {
            Self::AtMost(bound) => Some(ratio <= bound),
            Self::AtLeast(bound) => Some(ratio >= bound),
            Self::None => None,
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::None => Ok(()),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floor => "floor",
            Self::DurableFloor => "durable floor",
            Self::FloorAndRawGet => "floor + raw get",
            Self::FloorAndRawWrite => "floor + raw group64",
            Self::FloorAndRawMerge => "floor + raw get + raw group64",
            Self::RawBatch => "raw batch100",
            Self::SingleInserts => "insert at 1",
            Self::RawIterate => "raw iterate",
            Self::RawScan => "raw scan",
        })
    }
}

/// The median; `None` without figures.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let above = figures.get(figures.len() / 2)?;
    let below = figures.get(figures.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*above, *below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        for (figures, expected) in
            [(&[][..], None), (&[3.0], Some(3.0)), (&[9.0, 1.0, 2.0], Some(2.0)), (&[4.0, 1.0, 2.0, 9.0], Some(3.0))]
        {
            assert_eq!(median(figures.iter().copied()), expected, "{figures:?}");
        }
    }

    #[test]
    fn budgets() {
        for (budget, ratio, kept) in [
            (Budget::AtMost(2.0), 2.0, Some(true)),
            (Budget::AtMost(2.0), 2.1, Some(false)),
            (Budget::AtLeast(0.5), 0.5, Some(true)),
            (Budget::AtLeast(0.5), 0.4, Some(false)),
            (Budget::None, 9.0, None),
        ] {
            assert_eq!(budget.is_kept(ratio), kept, "{budget} {ratio}");
        }
    }

    #[test]
    fn every_kind_of_budget_of_the_design_has_a_line() {
        let lines = lines();
        let has = |workload, connections| {
            lines.iter().any(|line| line.workload == workload && line.connections == connections)
        };
        for connections in [1, 16, 64] {
            assert!(has(Workload::Get, connections));
        }
        for workload in [Workload::Insert, Workload::Upsert, Workload::Merge] {
            assert!(has(workload, 1) && has(workload, 64));
        }
        assert!(has(Workload::QueryPage, 1) && has(Workload::QueryFilter, 1) && has(Workload::Batch100, 1));
    }
}
