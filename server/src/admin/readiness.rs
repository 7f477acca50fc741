//! The readiness of the server, check by check.

use super::{Admin, STORAGE_TIME_MAX, ServerStage};
use engine::figures::Refusal;
use serde_json::{Value, json};
use std::fmt::Write;
use tokio::time::timeout;

#[derive(Debug)]
pub(super) struct ReadinessCheck {
    name: &'static str,
    problem: Option<String>,
    affects_readiness: bool,
}

impl ReadinessCheck {
    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

#[derive(Debug)]
pub(super) struct ReadinessReport(Vec<ReadinessCheck>);

impl ReadinessReport {
    /// Completes within a few seconds.
    pub(super) async fn collect(admin: &Admin) -> Self {
        let stage = admin.stage();
        let stage_problem = (stage != ServerStage::Serving).then(|| format!("the server is {}", stage.name()));
        let mut checks = vec![ReadinessCheck { name: "stage", problem: stage_problem, affects_readiness: true }];
        if let Some(service) = admin.service.get() {
            let (probed, figures) = tokio::join!(timeout(STORAGE_TIME_MAX, service.probe()), admin.figures());
            let no_response = || format!("the storage did not respond within {} s", STORAGE_TIME_MAX.as_secs());
            let probe_problem = probed.map_or_else(|_| Some(no_response()), Result::err);
            let refusal = figures.as_ref().and_then(|(figures, _)| figures.refusal);
            let storage_problem = match refusal {
                Some(Refusal::Outage) => {
                    Some("a write failed; no write is accepted until the disk works again".to_owned())
                }
                Some(Refusal::Closed) => Some("the storage is closed".to_owned()),
                // A failed read takes precedence. If the disk hangs, there are no statistics.
                Some(Refusal::DiskFull) | None => probe_problem.or_else(|| figures.is_none().then(no_response)),
            };
            let is_full = refusal == Some(Refusal::DiskFull);
            let disk_problem = is_full.then(|| "too little free space: only deletions are accepted".to_owned());
            checks.push(ReadinessCheck { name: "storage", problem: storage_problem, affects_readiness: true });
            // Reads still work, and only deletions can make room, so the server must stay reachable.
            checks.push(ReadinessCheck { name: "disk", problem: disk_problem, affects_readiness: false });
        }
        Self(checks)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.0.iter().all(|check| check.problem.is_none() || !check.affects_readiness)
    }

    /// Returns one line: `ok` or the first failure. Failures that affect readiness come first.
    pub(super) fn brief(&self) -> String {
        let first = |affects_readiness| {
            self.0
                .iter()
                .filter(move |check| check.affects_readiness == affects_readiness)
                .find_map(ReadinessCheck::problem)
        };
        match (first(true), first(false)) {
            (Some(problem), _) => format!("not ready: {problem}\n"),
            (None, Some(problem)) => format!("ready, but: {problem}\n"),
            (None, None) => "ok\n".to_owned(),
        }
    }

    pub(super) fn verbose(&self) -> String {
        let mut text = String::new();
        for ReadinessCheck { name, problem, .. } in &self.0 {
            let written = match problem {
                None => writeln!(text, "[+] {name}: ok"),
                Some(problem) => writeln!(text, "[-] {name}: {problem}"),
            };
            written.expect("writing to a string does not fail");
        }
        text + if self.is_ready() { "ready\n" } else { "not ready\n" }
    }

    pub(super) fn json(&self) -> Value {
        let check = |check: &ReadinessCheck| json!({"name": check.name, "ok": check.problem.is_none(), "trouble": check.problem});
        json!({"ready": self.is_ready(), "checks": self.0.iter().map(check).collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::super::ObservedService;
    use super::*;
    use crate::admin::log_control::LogControl;
    use crate::limits::LimitFigures;
    use crate::telemetry::metrics::Metrics;
    use engine::Figures;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::{Duration, SystemTime};

    /// A service that reads from memory, and whose disk hangs while the other end of the channel exists.
    struct HangingService {
        disk: Mutex<mpsc::Receiver<()>>,
        asked: AtomicUsize,
    }

    impl ObservedService for HangingService {
        fn figures(&self) -> (Figures, LimitFigures) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let _works_again = self.disk.lock().unwrap().recv();
            Default::default()
        }

        fn now(&self) -> SystemTime {
            SystemTime::now()
        }

        fn probe(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_reported_and_blocks_one_thread() {
        let (works_again, disk) = mpsc::channel();
        let hanging = Arc::new(HangingService { disk: Mutex::new(disk), asked: AtomicUsize::new(0) });
        let admin = Admin::new(LogControl::disabled(), Arc::new(Metrics::new(false)), Arc::default(), None);
        admin.set_serving(Arc::clone(&hanging) as Arc<dyn ObservedService>, None);
        for _ in 0..3 {
            let later = tokio::time::advance(STORAGE_TIME_MAX + Duration::from_millis(1));
            let (one, other, ()) =
                tokio::join!(biased; ReadinessReport::collect(&admin), ReadinessReport::collect(&admin), later);
            for checks in [one, other] {
                assert!(!checks.is_ready());
                assert_eq!(checks.brief(), "not ready: the storage did not respond within 2 s\n");
            }
        }
        assert!(hanging.asked.load(Ordering::Relaxed) <= 1);
        drop(works_again);
        assert_eq!(ReadinessReport::collect(&admin).await.brief(), "ok\n");
    }
}
