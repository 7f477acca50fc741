//! The lines of the comparison, with their budgets.

use crate::generator::workload::Workload;
use crate::report::Report;
use crate::report::row::Budget;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The floor server, which verifies signatures.
    Floor,
    /// The floor server, which also syncs the request bodies that it receives.
    DurableFloor,
    /// Rowhouse itself, with single inserts on one connection.
    SingleInserts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    CpuPerOperation,
    CpuPerEntity,
    OperationsPerSecond,
    EntitiesPerSecond,
    MedianLatency,
}

/// A workload measured on the server and on a reference, and the figures to compare.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) workload: Workload,
    pub(crate) connections: usize,
    pub(crate) reference: Reference,
    pub(crate) checks: Vec<(Figure, Budget)>,
}

impl Line {
    /// `--only` selects lines by this name.
    pub(crate) fn name(&self) -> String {
        format!("{} at {}", self.workload.name(), self.connections)
    }
}

pub(crate) fn lines() -> Vec<Line> {
    use Budget::{AtLeast, AtMost};
    use Figure::{CpuPerEntity, CpuPerOperation, EntitiesPerSecond, MedianLatency, OperationsPerSecond};
    let mut lines = Vec::new();
    let mut add = |workload, connections, reference, checks: &[(Figure, Budget)]| {
        lines.push(Line { workload, connections, reference, checks: checks.to_vec() });
    };
    add(Workload::QueryPage, 1, Reference::Floor, &[(CpuPerEntity, Budget::None), (EntitiesPerSecond, Budget::None)]);
    for (connections, throughput) in [(1, Budget::None), (16, AtLeast(0.6)), (64, AtLeast(0.6))] {
        let checks = [(CpuPerOperation, AtMost(1.6)), (OperationsPerSecond, throughput)];
        add(Workload::Get, connections, Reference::Floor, &checks);
    }
    for workload in [Workload::Insert, Workload::Upsert, Workload::Merge] {
        // The design allows the duration of one sync plus a small overhead, but does not specify the overhead. This
        // budget allows 50%.
        let alone =
            [(MedianLatency, AtMost(1.5)), (CpuPerOperation, Budget::None), (OperationsPerSecond, Budget::None)];
        add(workload, 1, Reference::DurableFloor, &alone);
        let together = [(CpuPerOperation, AtMost(1.5)), (OperationsPerSecond, AtLeast(0.8))];
        add(workload, 64, Reference::DurableFloor, &together);
    }
    for (connections, throughput) in [(1, Budget::None), (4, AtLeast(0.65)), (16, Budget::None)] {
        let checks = [(EntitiesPerSecond, throughput), (CpuPerEntity, Budget::None)];
        add(Workload::Batch100, connections, Reference::DurableFloor, &checks);
    }
    // The benefit of transactions is shown for information only, because it depends on how long the disk takes to sync.
    add(Workload::Batch100, 1, Reference::SingleInserts, &[(EntitiesPerSecond, Budget::None)]);
    lines
}

impl Figure {
    /// Returns `None` if the figure was not measured.
    pub(crate) fn value_in(self, report: &Report) -> Option<f64> {
        match self {
            Self::CpuPerOperation => report.cpu.as_ref().map(|cpu| cpu.us_per_operation),
            Self::CpuPerEntity => report.cpu.as_ref().map(|cpu| cpu.us_per_entity),
            Self::OperationsPerSecond => Some(report.operations_per_second),
            Self::EntitiesPerSecond => Some(report.entities_per_second),
            Self::MedianLatency => Some(report.latency_us.p50),
        }
    }

    /// Returns the name of the figure, with its unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CpuPerOperation => "CPU µs per operation",
            Self::CpuPerEntity => "CPU µs per entity",
            Self::OperationsPerSecond => "operations/s",
            Self::EntitiesPerSecond => "entities/s",
            Self::MedianLatency => "median latency µs",
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floor => "floor",
            Self::DurableFloor => "durable floor",
            Self::SingleInserts => "insert at 1",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(has(Workload::QueryPage, 1) && has(Workload::Batch100, 4));
    }
}
