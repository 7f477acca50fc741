//! The readiness of the server, check by check.

use super::{Admin, STORAGE_TIME_MAX, ServerStage};
use engine::Figures;
use engine::figures::{Refusal, ReplicationFigures};
use serde_json::{Value, json};
use std::fmt::Write;
use tokio::time::timeout;

#[derive(Debug)]
pub(super) struct ReadinessCheck {
    name: &'static str,
    problem: Option<String>,
    affects_readiness: bool,
    /// What is worth knowing although it is no problem.
    note: Option<String>,
}

impl ReadinessCheck {
    fn new(name: &'static str, problem: Option<String>) -> Self {
        Self { name, problem, affects_readiness: true, note: None }
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Checks the part that the server has in a replication. `must_be_primary` excludes standbys.
    fn replication(figures: &Figures, replication: &ReplicationFigures, must_be_primary: bool) -> Self {
        let check = |problem: Option<String>, affects_readiness| Self {
            affects_readiness,
            ..Self::new("replication", problem)
        };
        match figures.refusal {
            Some(Refusal::Fenced) => {
                return check(Some("a standby was promoted, so this server is out of date".to_owned()), true);
            }
            // Reads still work. The standby must still reach this server, perhaps through a load balancer.
            Some(Refusal::Unconfirmed) => {
                let problem = "the standby is away: no write is accepted until it is back (--acknowledge standby)";
                return check(Some(problem.to_owned()), false);
            }
            _ => {}
        }
        if replication.standbys.is_some() {
            let note = match replication.lag_transactions {
                None => "no standby is connected".to_owned(),
                Some(_) if replication.is_awaited => "the standby has every acknowledged write".to_owned(),
                Some(lag) => format!("a standby is connected, and lacks {lag} transactions"),
            };
            return Self { note: Some(note), ..check(None, true) };
        }
        // What it serves becomes older and older.
        if replication.is_cut_off {
            let problem = "this standby can never follow its primary again: the primary no longer has the log that it \
                           needs, or has different writes; begin again with an empty folder";
            return check(Some(problem.to_owned()), true);
        }
        let age = replication.lag_milliseconds.map(|lag| format!("{}.{} s", lag / 1000, lag % 1000 / 100));
        let state = match (replication.lag_transactions, age) {
            (Some(lag), Some(age)) => format!("it lacks {lag} transactions, and had everything {age} ago"),
            (Some(lag), None) => format!("it lacks {lag} transactions"),
            (None, Some(age)) => format!("it is not connected to its primary, and had everything {age} ago"),
            (None, None) => "it is not connected to its primary".to_owned(),
        };
        let state = format!("this server is a standby: {state}");
        match replication.lag_transactions {
            Some(_) if !must_be_primary => Self { note: Some(state), ..check(None, true) },
            _ => check(Some(state), must_be_primary),
        }
    }
}

#[derive(Debug)]
pub(super) struct ReadinessReport(Vec<ReadinessCheck>);

impl ReadinessReport {
    /// Completes within a few seconds. With `must_be_primary`, a standby is not ready.
    pub(super) async fn collect(admin: &Admin, must_be_primary: bool) -> Self {
        let stage = admin.stage();
        let stage_problem = (stage != ServerStage::Serving).then(|| format!("the server is {}", stage.name()));
        let mut checks = vec![ReadinessCheck::new("stage", stage_problem)];
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
                Some(Refusal::DiskFull | Refusal::Unconfirmed | Refusal::Fenced) | None => {
                    probe_problem.or_else(|| figures.is_none().then(no_response))
                }
            };
            let is_full = refusal == Some(Refusal::DiskFull);
            let replication = figures.as_ref().and_then(|(figures, _)| figures.replication);
            let consequence = match replication {
                Some(ReplicationFigures { standbys: None, .. }) => "this standby does not follow its primary",
                _ => "only deletions are accepted",
            };
            let disk_problem = is_full.then(|| format!("too little free space: {consequence}"));
            checks.push(ReadinessCheck::new("storage", storage_problem));
            // Reads still work, and only deletions can make room, so the server must stay reachable.
            checks.push(ReadinessCheck { affects_readiness: false, ..ReadinessCheck::new("disk", disk_problem) });
            if let Some((figures, _)) = &figures
                && let Some(replication) = &figures.replication
            {
                checks.push(ReadinessCheck::replication(figures, replication, must_be_primary));
            }
        }
        Self(checks)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.0.iter().all(|check| check.problem.is_none() || !check.affects_readiness)
    }

    /// Returns one line: `ok` with notes, or the first failure. Failures that affect readiness come first.
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
            (None, None) => match self.0.iter().find_map(|check| check.note.as_ref()) {
                Some(note) => format!("ok: {note}\n"),
                None => "ok\n".to_owned(),
            },
        }
    }

    pub(super) fn verbose(&self) -> String {
        let mut text = String::new();
        for ReadinessCheck { name, problem, note, .. } in &self.0 {
            let written = match (problem, note) {
                (None, None) => writeln!(text, "[+] {name}: ok"),
                (None, Some(note)) => writeln!(text, "[+] {name}: {note}"),
                (Some(problem), _) => writeln!(text, "[-] {name}: {problem}"),
            };
            written.expect("writing to a string does not fail");
        }
        text + if self.is_ready() { "ready\n" } else { "not ready\n" }
    }

    pub(super) fn json(&self) -> Value {
        let check = |check: &ReadinessCheck| {
            let mut value = json!({"name": check.name, "ok": check.problem.is_none(), "trouble": check.problem});
            if let (Some(note), Some(members)) = (&check.note, value.as_object_mut()) {
                members.insert("note".to_owned(), note.as_str().into());
            }
            value
        };
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
    use parking_lot::Mutex;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, SystemTime};

    /// A service that reads from memory, and whose disk hangs while the other end of the channel exists.
    struct HangingService {
        disk: Mutex<mpsc::Receiver<()>>,
        asked: AtomicUsize,
    }

    impl ObservedService for HangingService {
        fn figures(&self) -> (Figures, LimitFigures) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let _works_again = self.disk.lock().recv();
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
            let (one, other, ()) = tokio::join!(biased; ReadinessReport::collect(&admin, false), ReadinessReport::collect(&admin, false), later);
            for checks in [one, other] {
                assert!(!checks.is_ready());
                assert_eq!(checks.brief(), "not ready: the storage did not respond within 2 s\n");
            }
        }
        assert!(hanging.asked.load(Ordering::Relaxed) <= 1);
        drop(works_again);
        assert_eq!(ReadinessReport::collect(&admin, false).await.brief(), "ok\n");
    }

    #[test]
    fn a_standby_is_ready_unless_a_primary_is_needed() {
        let primary = ReplicationFigures { epoch: 1, standbys: Some(0), ..ReplicationFigures::default() };
        let away = ReplicationFigures { epoch: 1, ..ReplicationFigures::default() };
        let connected = ReplicationFigures { lag_transactions: Some(3), ..away };
        let follows = ReplicationFigures { lag_milliseconds: Some(1250), ..connected };
        let old = ReplicationFigures { lag_milliseconds: Some(61_000), ..away };
        let cut_off = ReplicationFigures { is_cut_off: true, ..old };
        let (unconfirmed, fenced) = (Some(Refusal::Unconfirmed), Some(Refusal::Fenced));
        let has_standby = ReplicationFigures { standbys: Some(1), lag_transactions: Some(2), ..primary };
        let waits = ReplicationFigures { is_awaited: true, ..has_standby };
        let cases = [
            (None, primary, true, true, "ok: no standby is connected\n"),
            (None, has_standby, true, true, "ok: a standby is connected, and lacks 2 transactions\n"),
            (None, waits, true, true, "ok: the standby has every acknowledged write\n"),
            (None, connected, true, false, "ok: this server is a standby: it lacks 3 transactions\n"),
            (
                None,
                follows,
                true,
                false,
                "ok: this server is a standby: it lacks 3 transactions, and had everything 1.2 s ago\n",
            ),
            (None, away, true, false, "ready, but: this server is a standby: it is not connected to its primary\n"),
            (
                None,
                old,
                true,
                false,
                "ready, but: this server is a standby: it is not connected to its primary, and had everything 61.0 s \
                 ago\n",
            ),
            (
                None,
                cut_off,
                false,
                false,
                "not ready: this standby can never follow its primary again: the primary no longer has the log that it \
                 needs, or has different writes; begin again with an empty folder\n",
            ),
            (
                unconfirmed,
                primary,
                true,
                true,
                "ready, but: the standby is away: no write is accepted until it is back (--acknowledge standby)\n",
            ),
            (fenced, primary, false, false, "not ready: a standby was promoted, so this server is out of date\n"),
        ];
        for (refusal, replication, is_ready, is_ready_primary, brief) in cases {
            let figures = Figures { refusal, ..Figures::default() };
            let report = |must_be_primary| {
                ReadinessReport(vec![ReadinessCheck::replication(&figures, &replication, must_be_primary)])
            };
            assert_eq!(report(false).brief(), brief);
            assert_eq!((report(false).is_ready(), report(true).is_ready()), (is_ready, is_ready_primary), "{brief}");
        }
    }
}
