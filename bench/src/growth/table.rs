//! The measurements at each size, and their growth relative to the smallest size.

use crate::generator::reach::Reach;
use crate::generator::workload::Workload;
use crate::report::Report;
use crate::report::budget::median;
use serde::Serialize;
use std::fmt;

/// The limit for the growth of a cost from the smallest size to any other size, while the working set is cached.
pub(crate) const RATIO_MAX: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Layout {
    /// A thousand entities in each partition.
    Many,
    /// All entities in one partition.
    One,
}

/// A line of the table at a given size. Times are in microseconds. The processor times of pages and scans are per
/// entity.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub(crate) layout: Layout,
    pub(crate) workload: Workload,
    pub(crate) reach: Reach,
    pub(crate) entities: u64,
    pub(crate) cpu_us: f64,
    /// The processor time of the reference, measured within the same minute.
    pub(crate) reference_cpu_us: f64,
    pub(crate) operations_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    pub(crate) errors: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Growth {
    pub(crate) ratio: f64,
    /// Each processor time is divided by its reference first. This ratio is therefore not affected if the machine was
    /// slower during one of the measurements.
    pub(crate) ratio_against_reference: f64,
    /// `None` if there is no budget.
    pub(crate) is_met: Option<bool>,
}

/// Returns the time per entity for pages and scans, and otherwise per operation.
fn cpu_us(workload: Workload, report: &Report) -> Option<f64> {
    let cpu = report.cpu.as_ref()?;
    let is_per_entity = matches!(workload, Workload::QueryPage | Workload::QueryFilter);
    Some(if is_per_entity { cpu.us_per_entity } else { cpu.us_per_operation })
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Many => "1,000 per partition",
            Self::One => "one partition",
        })
    }
}

impl Point {
    /// Returns `None` if a figure is missing.
    pub(crate) fn from_rounds(
        (layout, workload, reach): (Layout, Workload, Reach),
        entities: u64,
        rounds: &[(Report, Report)],
    ) -> Option<Self> {
        let of = |figure: &dyn Fn(&Report) -> Option<f64>| median(rounds.iter().filter_map(|(own, _)| figure(own)));
        Some(Self {
            layout,
            workload,
            reach,
            entities,
            cpu_us: of(&|report| cpu_us(workload, report))?,
            reference_cpu_us: median(rounds.iter().filter_map(|(_, reference)| cpu_us(workload, reference)))?,
            operations_per_second: of(&|report| Some(report.operations_per_second))?,
            p50_us: of(&|report| Some(report.latency_us.p50))?,
            p999_us: of(&|report| Some(report.latency_us.p999))?,
            max_us: rounds.iter().map(|(own, _)| own.latency_us.max).fold(0.0, f64::max),
            errors: rounds.iter().map(|(own, _)| own.errors.values().sum::<u64>()).sum(),
        })
    }

    fn is_of_line(&self, other: &Self) -> bool {
        (self.layout, self.workload, self.reach) == (other.layout, other.workload, other.reach)
    }

    pub(crate) fn growth(&self, points: &[Self]) -> Growth {
        let first = points.iter().filter(|point| point.is_of_line(self)).min_by_key(|point| point.entities);
        let first = first.unwrap_or(self);
        let against = |point: &Self| point.cpu_us / point.reference_cpu_us;
        let ratio_against_reference = against(self) / against(first);
        Growth {
            ratio: self.cpu_us / first.cpu_us,
            ratio_against_reference,
            is_met: (self.reach == Reach::Cached).then_some(ratio_against_reference <= RATIO_MAX),
        }
    }
}

pub(crate) const HEADING: &str = "\
| operation | layout | read | entities | CPU µs | reference CPU µs | operations/s | p50 µs | p99.9 µs | longest µs | ratio | against reference | at most 2 |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
";

/// `points` must include all earlier points.
pub(crate) fn line(point: &Point, points: &[Point]) -> String {
    let Growth { ratio, ratio_against_reference, is_met } = point.growth(points);
    let read = point.reach.cell(point.workload);
    let kept = match is_met {
        _ if point.errors > 0 => format!("{} errors", point.errors),
        Some(true) => "yes".to_owned(),
        Some(false) => "NO".to_owned(),
        None => String::new(),
    };
    format!(
        "| {} | {} | {read} | {} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {ratio:.2} | {ratio_against_reference:.2} | {kept} |\n",
        point.workload.name(),
        point.layout,
        point.entities,
        point.cpu_us,
        point.reference_cpu_us,
        point.operations_per_second,
        point.p50_us,
        point.p999_us,
        point.max_us,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(entities: u64, cpu_us: f64, reference_cpu_us: f64) -> Point {
        Point {
            layout: Layout::Many,
            workload: Workload::Get,
            reach: Reach::Cached,
            entities,
            cpu_us,
            reference_cpu_us,
            operations_per_second: 1000.0,
            p50_us: 10.0,
            p999_us: 20.0,
            max_us: 30.0,
            errors: 0,
        }
    }

    #[test]
    fn growth_is_measured_from_the_smallest_size_of_the_same_line() {
        let mut other = point(10, 1.0, 1.0);
        other.layout = Layout::One;
        // The machine was half as fast when the larger table was measured, as the reference shows.
        let points = [other.clone(), point(10_000, 10.0, 5.0), point(1_000_000, 30.0, 10.0)];
        let growth = points[2].growth(&points);
        assert_eq!(growth, Growth { ratio: 3.0, ratio_against_reference: 1.5, is_met: Some(true) });
        let growth = points[1].growth(&points);
        assert_eq!(growth, Growth { ratio: 1.0, ratio_against_reference: 1.0, is_met: Some(true) });
        assert!((other.growth(&points).ratio - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_budget_holds_for_what_is_cached() {
        let mut points = vec![point(10_000, 10.0, 5.0), point(1_000_000, 21.0, 5.0)];
        assert_eq!(points[1].growth(&points).is_met, Some(false));
        assert!(line(&points[1], &points).ends_with("| 2.10 | 2.10 | NO |\n"), "{}", line(&points[1], &points));
        for point in &mut points {
            point.reach = Reach::All;
        }
        assert_eq!(points[1].growth(&points).is_met, None);
        assert!(line(&points[1], &points).contains("| get | 1,000 per partition | all | 1000000 | 21.00 | 5.00 |"));
        points[0].errors = 3;
        assert!(line(&points[0], &points).ends_with("| 3 errors |\n"));
    }
}
