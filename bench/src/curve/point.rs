//! The figures at each size of the table, and their lines in the two tables of the output.

use crate::generator::reach::Reach;
use crate::generator::workload::Workload;
use crate::report::{NodeCpu, Report};
use serde::Serialize;
use std::collections::BTreeMap;

/// Rates and processor times are per entity.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Operation {
    workload: Workload,
    reach: Reach,
    entities: u64,
    entities_per_second: f64,
    cpu_us: Option<f64>,
    database_cpu_us: Option<f64>,
    busiest_node: Option<NodeCpu>,
    generator_cpu_us: Option<f64>,
    p50_us: f64,
    p999_us: f64,
    max_us: f64,
    resident_mib: Option<f64>,
    pub(crate) errors: BTreeMap<String, u64>,
}

pub(crate) const OPERATIONS_HEADING: &str = "\
| operation | read | entities | entities/s | CPU µs | database CPU µs | busiest node µs | generator CPU µs | p50 ms | p99.9 ms | longest ms | resident MiB |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

impl Operation {
    pub(crate) fn new(workload: Workload, reach: Reach, report: &Report) -> Self {
        let share = if report.entities_per_second > 0.0 {
            report.operations_per_second / report.entities_per_second
        } else {
            0.0
        };
        let busiest = report.busiest_node.clone();
        Self {
            workload,
            reach,
            entities: report.table_entities,
            entities_per_second: report.entities_per_second,
            cpu_us: report.cpu.as_ref().map(|cpu| cpu.us_per_entity),
            database_cpu_us: report.database_cpu_us_per_operation.map(|us| us * share),
            busiest_node: busiest.map(|node| NodeCpu { us_per_operation: node.us_per_operation * share, ..node }),
            generator_cpu_us: report.generator_cpu_us_per_operation.map(|us| us * share),
            p50_us: report.latency_us.p50,
            p999_us: report.latency_us.p999,
            max_us: report.latency_us.max,
            resident_mib: report.resident_mib,
            errors: report.errors.clone(),
        }
    }

    pub(crate) fn line(&self) -> String {
        let read = self.reach.cell(self.workload);
        let micros = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.2}"));
        let millis = |us: f64| format!("{:.1}", us / 1000.0);
        format!(
            "| {} | {read} | {} | {:.0} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            self.workload.name(),
            self.entities,
            self.entities_per_second,
            micros(self.cpu_us),
            micros(self.database_cpu_us),
            micros(self.busiest_node.as_ref().map(|node| node.us_per_operation)),
            micros(self.generator_cpu_us),
            millis(self.p50_us),
            millis(self.p999_us),
            millis(self.max_us),
            self.resident_mib.map_or_else(String::new, |mib| format!("{mib:.0}")),
        )
    }
}

/// The server and its folder at one size.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct State {
    pub(crate) entities: u64,
    pub(crate) disk_mib_after_load: f64,
    /// When background work had finished after the load.
    pub(crate) disk_mib: f64,
    pub(crate) disk_bytes_per_entity: f64,
    /// The bytes written to the disk during the load and by background work, divided by the size of keys and records.
    pub(crate) written_of_stored: f64,
    /// The background work after the load, including three seconds without a change.
    pub(crate) merging_seconds: f64,
    pub(crate) merging_cpu_seconds: f64,
    pub(crate) load_peak_resident_mib: f64,
    /// After all operations.
    pub(crate) resident_mib: f64,
    pub(crate) peak_resident_mib: f64,
    /// After `kill -9`, until the server listened.
    pub(crate) start_seconds: f64,
    pub(crate) start_cpu_seconds: f64,
    pub(crate) started_resident_mib: f64,
    pub(crate) backup_seconds: f64,
    /// Includes the server.
    pub(crate) backup_cpu_seconds: f64,
    pub(crate) backup_mib: f64,
}

pub(crate) const STATES_HEADING: &str = "\
| entities | disk MiB after the load | disk MiB | bytes per entity | written of stored | merging s | merging CPU s | resident MiB: peak of the load | after the operations | peak | start after kill s | CPU s | resident MiB | backup s | CPU s | backup MiB |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

impl State {
    pub(crate) fn line(&self) -> String {
        format!(
            "| {} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} | {:.1} | {:.1} | {:.0} |\n",
            self.entities,
            self.disk_mib_after_load,
            self.disk_mib,
            self.disk_bytes_per_entity,
            self.written_of_stored,
            self.merging_seconds,
            self.merging_cpu_seconds,
            self.load_peak_resident_mib,
            self.resident_mib,
            self.peak_resident_mib,
            self.start_seconds,
            self.start_cpu_seconds,
            self.started_resident_mib,
            self.backup_seconds,
            self.backup_cpu_seconds,
            self.backup_mib,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::load::Tally;
    use crate::report::Gauge;
    use std::time::Duration;

    #[test]
    fn lines_fit_their_headings() {
        let mut tally = Tally::default();
        tally.count_success(1000, Duration::from_micros(2500));
        tally.count_success(1000, Duration::from_micros(2500));
        let gauge = Gauge::start(&[], None).unwrap();
        let report = gauge.report("query-page".to_owned(), 5000, 4, tally, Duration::from_millis(500)).unwrap();
        let report = Report { database_cpu_us_per_operation: Some(3000.0), ..report };
        let operation = Operation::new(Workload::QueryPage, Reach::All, &report);
        assert!(operation.line().starts_with("| query-page | all | 5000 | 4000 |  | 3.00 |"), "{}", operation.line());
        let cells = |line: &str| line.lines().next().unwrap().split('|').count();
        assert_eq!(cells(&operation.line()), cells(OPERATIONS_HEADING));
        assert_eq!(cells(&State::default().line()), cells(STATES_HEADING));
    }
}
