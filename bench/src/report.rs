//! The results of a measurement, which are printed as JSON.

use crate::generator::load::Tally;
use crate::process::{Node, Process, ResidentMemory};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// Times are in microseconds unless the name says otherwise.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) workload: String,
    /// The number of entities before the measurement.
    pub(crate) table_entities: u64,
    /// The number of connections, or the number of tasks if there are no connections.
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    pub(crate) operations: u64,
    pub(crate) entities: u64,
    pub(crate) operations_per_second: f64,
    pub(crate) entities_per_second: f64,
    pub(crate) latency_us: Latency,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) first_error: Option<String>,
    /// `None` if no process IDs were given.
    pub(crate) cpu: Option<Cpu>,
    /// `None` if no process IDs of the database were given.
    pub(crate) database_cpu_us_per_operation: Option<f64>,
    /// The same for each named node.
    pub(crate) nodes: Vec<NodeCpu>,
    /// `None` unless there are several nodes.
    pub(crate) busiest_node: Option<NodeCpu>,
    pub(crate) generator_cpu_us_per_operation: f64,
    pub(crate) resident_mib: Option<f64>,
    pub(crate) peak_resident_mib: Option<f64>,
    /// The number of operations that were due per second. If a rate was set, latencies count from the time at which
    /// each operation was due.
    pub(crate) rate: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cpu {
    pub(crate) us_per_operation: f64,
    pub(crate) us_per_entity: f64,
    pub(crate) cores_busy: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NodeCpu {
    pub(crate) name: String,
    pub(crate) us_per_operation: f64,
}

/// Measures the processes from its creation to its report.
#[derive(Debug)]
pub(crate) struct Gauge {
    measured: Vec<(Process, Duration)>,
    /// The processor time of this process at the start.
    generator: Duration,
    database: Vec<(Node, Duration)>,
}

/// Returns `None` if there are no processes.
pub(crate) fn resident(processes: &[Process]) -> anyhow::Result<Option<ResidentMemory>> {
    let mut sum = None::<ResidentMemory>;
    for process in processes {
        let (one, before) = (process.resident()?, sum.unwrap_or(ResidentMemory { now: 0, peak: 0 }));
        sum = Some(ResidentMemory { now: before.now + one.now, peak: before.peak + one.peak });
    }
    Ok(sum)
}

impl Gauge {
    pub(crate) fn start(measured: &[Process]) -> anyhow::Result<Self> {
        let read = |process: Process| anyhow::Ok((process, process.cpu()?));
        let measured = measured.iter().copied().map(read).collect::<Result<_, _>>()?;
        Ok(Self { measured, generator: Process::current().cpu()?, database: Vec::new() })
    }

    /// Includes all processes of the database's nodes.
    pub(crate) fn with_database(self, nodes: &[Node]) -> anyhow::Result<Self> {
        let read = |node: &Node| anyhow::Ok((node.clone(), node.process.family_cpu()?));
        Ok(Self { database: nodes.iter().map(read).collect::<Result<_, _>>()?, ..self })
    }

    /// Returns the processor time per operation since the start.
    fn nodes(&self, operations: u64) -> anyhow::Result<Vec<(Option<String>, f64)>> {
        let spent = |(node, before): &(Node, Duration)| {
            let cpu = node.process.family_cpu()?.saturating_sub(*before);
            Ok((node.name.clone(), ratio(micros(cpu), as_f64(operations))))
        };
        self.database.iter().map(spent).collect()
    }

    pub(crate) fn report(
        self,
        workload: String,
        table_entities: u64,
        connections: usize,
        tally: Tally,
        wall: Duration,
    ) -> anyhow::Result<Report> {
        let costs = self.nodes(tally.operations)?;
        let resident = resident(&self.measured.iter().map(|(process, _)| *process).collect::<Vec<_>>())?;
        let spent = |(process, before): (Process, Duration)| anyhow::Ok(process.cpu()?.saturating_sub(before));
        let generator = spent((Process::current(), self.generator))?;
        let is_measured = !self.measured.is_empty();
        let measured = self.measured.into_iter().map(spent).sum::<Result<Duration, _>>()?;
        let database = (!costs.is_empty()).then(|| costs.iter().map(|(_, cost)| cost).sum());
        let nodes =
            costs.into_iter().filter_map(|(name, us_per_operation)| Some(NodeCpu { name: name?, us_per_operation }));
        let nodes = nodes.collect::<Vec<_>>();
        let quantile = |share| micros(tally.latencies.quantile(share));
        Ok(Report {
            workload,
            table_entities,
            connections,
            seconds: wall.as_secs_f64(),
            operations: tally.operations,
            entities: tally.entities,
            operations_per_second: ratio(as_f64(tally.operations), wall.as_secs_f64()),
            entities_per_second: ratio(as_f64(tally.entities), wall.as_secs_f64()),
            latency_us: Latency {
                p50: quantile(0.5),
                p95: quantile(0.95),
                p99: quantile(0.99),
                p999: quantile(0.999),
                max: micros(tally.latencies.max()),
            },
            cpu: is_measured.then(|| Cpu {
                us_per_operation: ratio(micros(measured), as_f64(tally.operations)),
                us_per_entity: ratio(micros(measured), as_f64(tally.entities)),
                cores_busy: ratio(measured.as_secs_f64(), wall.as_secs_f64()),
            }),
            database_cpu_us_per_operation: database,
            busiest_node: busiest(&nodes),
            nodes,
            generator_cpu_us_per_operation: ratio(micros(generator), as_f64(tally.operations)),
            errors: tally.errors,
            first_error: tally.first_error,
            resident_mib: resident.map(|resident| mebibytes(resident.now)),
            peak_resident_mib: resident.map(|resident| mebibytes(resident.peak)),
            rate: None,
        })
    }
}

/// Returns `None` unless there are several nodes.
fn busiest(nodes: &[NodeCpu]) -> Option<NodeCpu> {
    let busiest = nodes.iter().max_by(|one, other| one.us_per_operation.total_cmp(&other.us_per_operation));
    busiest.filter(|_| nodes.len() > 1).cloned()
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    as_f64(bytes) / (1024.0 * 1024.0)
}

#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) line: String,
    pub(crate) figure: &'static str,
    pub(crate) reference: String,
    pub(crate) reference_value: Option<f64>,
    pub(crate) value: Option<f64>,
    pub(crate) budget: Budget,
    pub(crate) other_value: Option<f64>,
    /// The reason why a value is missing or wrong.
    pub(crate) note: Option<String>,
}

impl Row {
    /// Prints the row when it is measured, because the whole table takes minutes.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let Row { line, figure, reference, reference_value, value, budget, other_value, note } = self;
        let ratio = value.zip(*reference_value).map(|(value, reference)| value / reference);
        let kept = match (note, ratio.and_then(|ratio| budget.is_met(ratio))) {
            (Some(note), _) => note.replace(['\n', '|'], " "),
            (None, Some(true)) => "yes".to_owned(),
            (None, Some(false)) => "NO".to_owned(),
            (None, None) => String::new(),
        };
        let values = [*reference_value, *value, ratio].map(number).join(" | ");
        let other = other_value.map_or_else(String::new, |value| number(Some(value)));
        let mut out = std::io::stdout().lock();
        writeln!(out, "| {line} | {figure} | {reference} | {values} | {budget} | {kept} | {other} |")?;
        Ok(())
    }
}

pub(crate) fn print_heading() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "| line | figure | reference | value | Rowhouse | ratio | budget | kept | other |")?;
    Ok(writeln!(out, "|---|---|---|---:|---:|---:|---|---|---:|")?)
}

pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(value)?)?)
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Budget {
    AtMost(f64),
    AtLeast(f64),
    /// The ratio is displayed but not checked.
    None,
}

impl Budget {
    /// Returns `None` if there is no budget.
    pub(crate) fn is_met(self, ratio: f64) -> Option<bool> {
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
    fn a_report_has_rates_and_latencies() {
        let mut tally = Tally::default();
        tally.count_success(1000, Duration::from_micros(250));
        tally.count_success(1000, Duration::from_micros(350));
        tally.errors.insert("503".to_owned(), 3);
        let gauge = Gauge::start(&[Process::current()]).unwrap();
        let report = gauge.report("query-page".to_owned(), 5000, 4, tally, Duration::from_millis(500)).unwrap();
        assert!((report.operations_per_second - 4.0).abs() < 1e-9);
        assert!((report.entities_per_second - 4000.0).abs() < 1e-9);
        assert!((report.latency_us.max - 350.0).abs() < 1e-9);
        assert_eq!((report.operations, &report.errors["503"]), (2, &3));
    }

    #[test]
    fn nodes_of_a_database_are_reported_one_by_one_and_together() {
        let gauge = |names: &[Option<&str>]| {
            let node = |name: Option<&str>| Node { name: name.map(str::to_owned), process: Process::current() };
            let nodes = names.iter().copied().map(node).collect::<Vec<_>>();
            let gauge = Gauge::start(&[]).unwrap().with_database(&nodes).unwrap();
            // Simulates nodes whose measurement began with this process, each a little later than the previous one.
            let starts = (0..).step_by(10).map(Duration::from_millis);
            Gauge { database: nodes.into_iter().zip(starts).collect(), ..gauge }
        };
        while Process::current().family_cpu().unwrap() < Duration::from_millis(50) {}
        let report = |names: &[Option<&str>]| {
            let mut tally = Tally::default();
            tally.count_success(1, Duration::from_micros(1));
            gauge(names).report("get".to_owned(), 1, 1, tally, Duration::from_secs(1)).unwrap()
        };
        let cluster = report(&[Some("coordinator"), Some("worker 1")]);
        assert_eq!(cluster.nodes.len(), 2);
        let sum = cluster.nodes.iter().map(|node| node.us_per_operation).sum::<f64>();
        assert!((cluster.database_cpu_us_per_operation.unwrap() - sum).abs() < 1e-6);
        let most = cluster.nodes.iter().map(|node| node.us_per_operation).fold(0.0, f64::max);
        assert!((cluster.busiest_node.as_ref().unwrap().us_per_operation - most).abs() < 1e-6);
        assert_eq!(cluster.nodes[1].name, "worker 1");
        let single = report(&[None]);
        assert!(single.nodes.is_empty() && single.busiest_node.is_none());
        assert!(single.database_cpu_us_per_operation.unwrap() > 0.0);
        assert_eq!(report(&[]).database_cpu_us_per_operation, None);
    }

    #[test]
    fn nothing_done_is_zero_and_not_a_division_by_zero() {
        let gauge = Gauge::start(&[Process::current()]).unwrap();
        let report = gauge.report("get".to_owned(), 1, 1, Tally::default(), Duration::ZERO).unwrap();
        assert!(report.cpu.unwrap().us_per_operation.abs() < f64::EPSILON);
        assert!(report.operations_per_second.abs() < f64::EPSILON);
    }

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
            assert_eq!(budget.is_met(ratio), kept, "{budget} {ratio}");
        }
    }
}
