//! Crashes of a primary that waits for its standby: the standby takes over, and has everything that was acknowledged.

use super::{Run, check_folder, rounds};
use crate::PROGRAM;
use test_support::Server;

fn start_primary(folder: &str, token: &str) -> Server {
    let kept = ["--extensions", "--keep-log", "1h"];
    let waiting = ["--standby-token-file", token, "--acknowledge", "standby"];
    PROGRAM.start(&[&["--data", folder], &kept[..], &waiting[..]].concat())
}

#[test]
fn nothing_acknowledged_is_lost_when_standbys_take_over() {
    let rounds = rounds(20);
    let mut run = Run::new();
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let token = path("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    let mut primary = start_primary(&path("0"), &token);
    for round in 0..rounds {
        let (folder, next) = (path(&round.to_string()), path(&(round + 1).to_string()));
        let address = format!("http://{}", primary.address);
        let follow = ["--of", &address, "--token-file", &token, "--data", &next, "--extensions", "--keep-log", "1h"];
        let standby = PROGRAM.start_standby(&follow);
        // The log of the standby begins after its copy, so the reader of the changes must have read something later.
        let created = format!(r#"{{"TableName":"round{round}"}}"#);
        assert_eq!(primary.client().request("POST", "/Tables", &[], created.as_bytes()).status, 201);
        let deleted = format!("/Tables('round{round}')");
        assert_eq!(primary.client().request("DELETE", &deleted, &[], b"").status, 204);
        run.check(&primary, round);
        run.run_and_crash(primary, 400);
        // It is killed too, in half of the rounds.
        if round % 2 == 0 {
            drop(standby.kill9());
        } else {
            assert!(standby.stop().0.success());
        }
        let promoted = PROGRAM.folder().run("promote", &["--data", &next], &[]);
        assert_eq!(promoted.code, Some(0), "{promoted:?}");
        if round % 4 == 0 {
            check_folder(next.as_ref());
        }
        std::fs::remove_dir_all(folder).unwrap();
        primary = start_primary(&next, &token);
    }
    let address = format!("http://{}", primary.address);
    let last = path("last");
    let standby = PROGRAM.start_standby(&["--of", &address, "--token-file", &token, "--data", &last]);
    run.check(&primary, rounds);
    drop(standby);
    run.report(rounds);
}
