//! Whether the server is ready for requests, check by check.

use super::{Admin, PATIENCE, Stage};
use serde_json::{Value, json};
use std::fmt::Write;
use store::figures::Refusal;
use tokio::time::timeout;

/// One thing that was looked at.
#[derive(Debug)]
pub(super) struct Check {
    name: &'static str,
    /// What is wrong; `None` if nothing is.
    trouble: Option<String>,
    /// Whether the server is not ready while this is wrong.
    decides: bool,
}

impl Check {
    fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

/// Everything that was looked at.
#[derive(Debug)]
pub(super) struct Checks(Vec<Check>);

impl Checks {
    /// Looks at everything; takes a few seconds at most.
    pub(super) async fn of(admin: &Admin) -> Self {
        let stage = admin.stage();
        let stage_trouble = (stage != Stage::Serving).then(|| format!("the server is {}", stage.name()));
        let mut checks = vec![Check { name: "stage", trouble: stage_trouble, decides: true }];
        if let Some(service) = admin.service.get() {
            let (reached, figures) = tokio::join!(timeout(PATIENCE, service.reach()), admin.figures());
            let is_silent = || format!("the storage does not answer within {} s", PATIENCE.as_secs());
            let reach_trouble = reached.map_or_else(|_| Some(is_silent()), Result::err);
            let refusal = figures.as_ref().and_then(|(figures, _)| figures.refusal);
            let storage_trouble = match refusal {
                Some(Refusal::Outage) => {
                    Some("a write failed, and none is taken until the disk works again".to_owned())
                }
                Some(Refusal::Closed) => Some("the storage is closed".to_owned()),
                // Whoever cannot read is told why; a disk on which every write hangs has no figures.
                Some(Refusal::DiskFull) | None => reach_trouble.or_else(|| figures.is_none().then(is_silent)),
            };
            let is_full = refusal == Some(Refusal::DiskFull);
            let disk_trouble = is_full.then(|| "too little free space: only deletions are taken".to_owned());
            checks.push(Check { name: "storage", trouble: storage_trouble, decides: true });
            // Reads still work, and only deletions can make room: they must get through.
            checks.push(Check { name: "disk", trouble: disk_trouble, decides: false });
        }
        Self(checks)
    }

    /// Whether the server is ready: nothing is wrong that would decide.
    pub(super) fn are_good(&self) -> bool {
        self.0.iter().all(|check| check.trouble.is_none() || !check.decides)
    }

    /// One line: that all is well, or what is wrong first, and first what decides.
    pub(super) fn brief(&self) -> String {
        let first = |decides| self.0.iter().filter(move |check| check.decides == decides).find_map(Check::trouble);
        match (first(true), first(false)) {
            (Some(trouble), _) => format!("not ready: {trouble}\n"),
            (None, Some(trouble)) => format!("ready, but: {trouble}\n"),
            (None, None) => "ok\n".to_owned(),
        }
    }

    /// One line for each check.
    pub(super) fn verbose(&self) -> String {
        let mut text = String::new();
        for Check { name, trouble, .. } in &self.0 {
            let written = match trouble {
                None => writeln!(text, "[+] {name}: ok"),
                Some(trouble) => writeln!(text, "[-] {name}: {trouble}"),
            };
            written.expect("a text takes every line");
        }
        text + if self.are_good() { "ready\n" } else { "not ready\n" }
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let check =
            |check: &Check| json!({"name": check.name, "ok": check.trouble.is_none(), "trouble": check.trouble});
        json!({"ready": self.are_good(), "checks": self.0.iter().map(check).collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::super::Watched;
    use super::*;
    use crate::limits::admission::AdmissionFigures;
    use crate::telemetry::log::LogControl;
    use crate::telemetry::metrics::Metrics;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;
    use store::Figures;

    /// A service that reads from memory, and whose disk hangs as long as the other end of the channel is there.
    struct Hanging {
        disk: Mutex<mpsc::Receiver<()>>,
        asked: AtomicUsize,
    }

    impl Watched for Hanging {
        fn figures(&self) -> (Figures, AdmissionFigures) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let _works_again = self.disk.lock().unwrap().recv();
            Default::default()
        }

        fn reach(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_told_and_keeps_one_thread() {
        let (works_again, disk) = mpsc::channel();
        let hanging = Arc::new(Hanging { disk: Mutex::new(disk), asked: AtomicUsize::new(0) });
        let admin = Admin::new(LogControl::of_nothing(), Arc::new(Metrics::new(false)), Arc::default(), None);
        admin.serve(Arc::clone(&hanging) as Arc<dyn Watched>);
        for _ in 0..3 {
            let later = tokio::time::advance(PATIENCE + Duration::from_millis(1));
            let (one, other, ()) = tokio::join!(biased; Checks::of(&admin), Checks::of(&admin), later);
            for checks in [one, other] {
                assert!(!checks.are_good());
                assert_eq!(checks.brief(), "not ready: the storage does not answer within 2 s\n");
            }
        }
        assert!(hanging.asked.load(Ordering::Relaxed) <= 1);
        drop(works_again);
        assert_eq!(Checks::of(&admin).await.brief(), "ok\n");
    }
}
