//! The lines of the comparison, with their budgets.

use crate::generator::workload::Workload;
use crate::report::Report;
use crate::report::budget::Budget;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The floor server, which verifies signatures.
    Floor,
    /// The floor server, which also syncs the request bodies that it receives.
    DurableFloor,
    /// Only the engine, writing transactions of 100 entities with as many tasks as there are connections.
    RawBatch,
    /// Rowhouse itself, with single inserts on one connection.
    SingleInserts,
    /// The floor server, plus the engine reading an entity: the minimum cost of a get.
    FloorAndRawGet,
    /// The floor server without syncs, plus the engine writing an entity: the minimum cost of a durable write.
    FloorAndRawWrite,
    /// Like `FloorAndRawWrite`, plus a read of the existing entity, which a merge needs.
    FloorAndRawMerge,
    /// Only the engine, iterating over the table.
    RawIterate,
    /// Only the engine, reading pages with all their values.
    RawScan,
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
    // A page contains all values, so its reference is the engine reading all values.
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
    // ADR 5 explains why the budgets of small requests include the engine.
    for connections in [1, 16, 64] {
        let shown = [(CpuPerOperation, Budget::None), (OperationsPerSecond, Budget::None)];
        add(Workload::Get, connections, Reference::Floor, &shown);
        let throughput = if connections == 1 { Budget::None } else { AtLeast(0.5) };
        let checks = [(CpuPerOperation, AtMost(2.0)), (OperationsPerSecond, throughput)];
        add(Workload::Get, connections, Reference::FloorAndRawGet, &checks);
    }
    for workload in [Workload::Insert, Workload::Upsert, Workload::Merge] {
        // The design allows the duration of one sync plus a small overhead, but does not specify the overhead. This
        // budget allows 50%.
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
    // The benefit of transactions is shown for information only, because it depends on how long the disk takes to sync.
    for connections in [1, 16] {
        add(Workload::Batch100, connections, Reference::SingleInserts, &[(EntitiesPerSecond, Budget::None)]);
    }
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
        assert!(has(Workload::QueryPage, 1) && has(Workload::QueryFilter, 1) && has(Workload::Batch100, 1));
    }
}
