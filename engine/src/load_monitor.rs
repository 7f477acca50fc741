//! The latest report on the load of a cluster, which its readers share.

use crate::load::LoadReport;
use crate::parts::monotonic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A report that has not been replaced for this long says nothing about the present.
const AGE_MAX: Duration = Duration::from_secs(30);

/// The latest report. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LoadMonitor(Arc<Mutex<Option<Dated>>>);

type Dated = (Instant, Arc<LoadReport>);

impl LoadMonitor {
    /// Replaces the report.
    pub fn publish(&self, report: LoadReport) {
        *self.0.lock() = Some((monotonic::now(), Arc::new(report)));
    }

    /// Returns the report, or `None` if it is too old. Never waits for the database.
    pub fn latest(&self) -> Option<Arc<LoadReport>> {
        let latest = self.0.lock();
        let (since, report) = latest.as_ref()?;
        (since.elapsed() <= AGE_MAX).then(|| Arc::clone(report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Action;

    #[test]
    fn an_old_report_is_not_shown() {
        let report = LoadReport {
            servers: 1,
            nodes: Vec::new(),
            shards: Vec::new(),
            partitions: Vec::new(),
            steps: Vec::new(),
            action: Action::OneNode,
            advice: String::new(),
            step: None,
        };
        let monitor = LoadMonitor::default();
        assert_eq!(monitor.latest(), None);
        monitor.clone().publish(report.clone());
        assert_eq!(monitor.latest().as_deref(), Some(&report));
        if let Some((since, _)) = &mut *monitor.0.lock() {
            *since = since.checked_sub(AGE_MAX + Duration::from_secs(1)).unwrap();
        }
        assert_eq!(monitor.latest(), None);
    }
}
