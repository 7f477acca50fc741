//! Crashes of a primary that waits for its standby: the standby takes over, and has everything that was acknowledged.

use super::{Run, check_folder, rounds};
use crate::PROGRAM;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use test_support::Server;
use test_support::command::CommandResult;

/// The folders of primaries that wait for their standbys.
pub(super) struct Place(TempDir);

impl Place {
    pub(super) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.path("token"), "0123456789abcdef0123456789abcdef\n").unwrap();
        place
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(super) fn start_primary(&self, name: &str, more: &[&str]) -> Server {
        let (data, token) = (self.path(name), self.path("token"));
        let kept = ["--data", &data, "--extensions", "--keep-log", "1h"];
        let waiting = ["--standby-token-file", &token, "--acknowledge", "standby"];
        PROGRAM.start(&[&kept[..], &waiting[..], more].concat())
    }

    /// Starts a standby of the primary at an address.
    pub(super) fn start_standby(&self, name: &str, address: &str) -> Server {
        let (data, token, of) = (self.path(name), self.path("token"), format!("http://{address}"));
        let follow = ["--of", &of, "--token-file", &token, "--data", &data, "--extensions", "--keep-log", "1h"];
        PROGRAM.start_standby(&follow)
    }

    /// Promotes a folder, and tells the former primary at an address.
    pub(super) fn promote(&self, name: &str, former: Option<&str>) -> CommandResult {
        let (data, token) = (self.path(name), self.path("token"));
        let former = former.map(|address| format!("http://{address}"));
        let mut arguments = vec!["--data", data.as_str()];
        if let Some(former) = &former {
            arguments.extend(["--former", former, "--token-file", &token]);
        }
        PROGRAM.folder().run("promote", &arguments, &[])
    }
}

/// The durations of takeovers, until the promoted server acknowledges a write.
#[derive(Default)]
pub(super) struct Takeovers(Vec<Duration>);

impl Takeovers {
    pub(super) fn add(&mut self, began: Instant) {
        self.0.push(began.elapsed());
    }

    pub(super) fn report(mut self) {
        self.0.sort_unstable();
        let (Some(longest), Some(median)) = (self.0.last(), self.0.get(self.0.len() / 2)) else { return };
        println!("{} takeovers, {median:.1?} in the median, {longest:.1?} at most", self.0.len());
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_standbys_take_over() {
    let rounds = rounds(20);
    let (mut run, mut takeovers) = (Run::new(), Takeovers::default());
    let place = Place::new();
    let mut primary = place.start_primary("0", &[]);
    let mut killed = None;
    for round in 0..rounds {
        let (folder, next) = (place.path(&round.to_string()), (round + 1).to_string());
        let standby = place.start_standby(&next, &primary.address);
        // The log of the standby begins after its copy, so the reader of the changes must have read something later.
        let created = format!(r#"{{"TableName":"round{round}"}}"#);
        assert_eq!(primary.client().request("POST", "/Tables", &[], created.as_bytes()).status, 201);
        if let Some(killed) = killed.take() {
            takeovers.add(killed);
        }
        let deleted = format!("/Tables('round{round}')");
        assert_eq!(primary.client().request("DELETE", &deleted, &[], b"").status, 204);
        run.check(&primary, round);
        killed = Some(run.run_and_crash(primary, 400));
        // It is killed too, in half of the rounds.
        if round % 2 == 0 {
            drop(standby.kill9());
        } else {
            assert!(standby.stop().0.success());
        }
        let promoted = place.promote(&next, None);
        assert_eq!(promoted.code, Some(0), "{promoted:?}");
        if round % 4 == 0 {
            check_folder(place.path(&next).as_ref());
            // The check would count as a part of the takeover.
            killed = None;
        }
        std::fs::remove_dir_all(folder).unwrap();
        primary = place.start_primary(&next, &[]);
    }
    let standby = place.start_standby("last", &primary.address);
    run.check(&primary, rounds);
    drop(standby);
    run.report(rounds);
    takeovers.report();
}
