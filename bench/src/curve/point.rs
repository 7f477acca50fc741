//! The figures at each size of the table, and their lines in the two tables of the output.

use crate::generator::reach::Reach;
use crate::generator::workload::Workload;
use crate::report::Report;

pub(crate) const OPERATIONS_HEADING: &str = "\
| operation | read | entities | entities/s | CPU µs | database CPU µs | busiest node µs | generator CPU µs | p50 ms | p99.9 ms | longest ms | resident MiB |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// Returns the figures of an operation. Rates and processor times are per entity.
pub(crate) fn operation_line(workload: Workload, reach: Reach, report: &Report) -> String {
    let share =
        if report.entities_per_second > 0.0 { report.operations_per_second / report.entities_per_second } else { 0.0 };
    let micros = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.2}"));
    let per_entity = |us: Option<f64>| micros(us.map(|us| us * share));
    let millis = |us: f64| format!("{:.1}", us / 1000.0);
    format!(
        "| {} | {} | {} | {:.0} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        workload.name(),
        reach.cell(workload),
        report.table_entities,
        report.entities_per_second,
        micros(report.cpu.as_ref().map(|cpu| cpu.us_per_entity)),
        per_entity(report.database_cpu_us_per_operation),
        per_entity(report.busiest_node.as_ref().map(|node| node.us_per_operation)),
        per_entity(report.generator_cpu_us_per_operation),
        millis(report.latency_us.p50),
        millis(report.latency_us.p999),
        millis(report.latency_us.max),
        report.resident_mib.map_or_else(String::new, |mib| format!("{mib:.0}")),
    )
}

/// The figures of the server and its folder at one size, each with its heading.
#[derive(Debug, Default)]
pub(crate) struct State(Vec<(&'static str, String)>);

impl State {
    pub(crate) fn add(&mut self, heading: &'static str, figure: f64, digits: usize) {
        self.0.push((heading, format!("{figure:.digits$}")));
    }

    pub(crate) fn heading(&self) -> String {
        let headings: Vec<_> = self.0.iter().map(|(heading, _)| *heading).collect();
        format!("| {} |\n|{}\n", headings.join(" | "), "---:|".repeat(headings.len()))
    }

    pub(crate) fn line(&self) -> String {
        let figures: Vec<_> = self.0.iter().map(|(_, figure)| figure.as_str()).collect();
        format!("| {} |\n", figures.join(" | "))
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
        let line = operation_line(Workload::QueryPage, Reach::All, &report);
        assert!(line.starts_with("| query-page | all | 5000 | 4000 |  | 3.00 |"), "{line}");
        let cells = |line: &str| line.lines().next().unwrap().split('|').count();
        assert_eq!(cells(&line), cells(OPERATIONS_HEADING));
    }
}
