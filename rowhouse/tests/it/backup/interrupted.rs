//! Tests that killing a backup, a restore or the server leaves no partial backup and no partial data folder.

use super::repository::{Place, files};
use crate::PROGRAM;
use serde_json::{Value, json};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use test_support::content::{exact_snapshot, fill, put};
use test_support::{Random, Server};

const ROUNDS: u64 = 12;

/// Waits at most a little longer than a command usually takes.
fn wait(random: &mut Random, usual: Duration) {
    let most = u64::try_from(usual.as_micros()).unwrap() * 5 / 4 + 1;
    thread::sleep(Duration::from_micros(random.below(most)));
}

fn filled() -> (Place, Server, Random) {
    let place = Place::new();
    let server = place.serve();
    fill(&server, "Cars", 20, 1000);
    (place, server, super::random())
}

fn time_of(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

#[test]
fn a_killed_backup_leaves_no_partial_backup_and_its_chunks_are_reused() {
    let (place, server, mut random) = filled();
    let usual = time_of(|| drop(place.back_up(&[])));
    let mut complete = place.list().len();
    for round in 0..ROUNDS {
        for row in 0..40 {
            let partition = format!("p{:05}", random.below(20));
            put(&mut server.client(), "Cars", &partition, &format!("{row:05}"), &json!({ "Round": round }));
        }
        let keep = random.below(2) == 0;
        let arguments = ["--data", &place.data, "--to", &place.repository, "--quiet", "--keep", "3"];
        let arguments = if keep { &arguments[..] } else { &arguments[..5] };
        let mut child = place.folder.command("backup", arguments, &[]).spawn().unwrap();
        wait(&mut random, usual);
        child.kill().unwrap();
        child.wait().unwrap();
        let found = place.list().len();
        assert!((1..=complete + 1).contains(&found), "{found} backups after {complete}");
        complete = found;
        let verified = place.verify();
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    let last = place.back_up(&["--keep", "1"]);
    assert_eq!(last["entities"], 20_000);
    assert!(!place.repository_files().iter().any(|file| file.to_string_lossy().ends_with(".new")));
    let restored = place.restored("new", &[]);
    assert_eq!(exact_snapshot(&restored), exact_snapshot(&server));
}

#[test]
fn a_killed_server_damages_no_backup() {
    let (place, server, mut random) = filled();
    let other = place.folder.path("measured");
    let usual = time_of(|| drop(place.folder.run("backup", &["--data", &place.data, "--to", &other], &[])));
    drop(server);
    let mut refused = 0;
    let mut made = 0;
    for _ in 0..ROUNDS {
        let server = place.serve();
        let arguments = ["--data", &place.data, "--to", &place.repository, "--quiet"];
        let child = place.folder.command("backup", &arguments, &[]).spawn().unwrap();
        wait(&mut random, usual);
        server.kill9();
        let ran = test_support::command::wait_for_exit(child);
        // A backup that starts too late finds the folder unlocked, and opens it itself.
        match ran.code {
            Some(0) => made += 1,
            Some(1) => refused += 1,
            _ => panic!("{ran:?}"),
        }
        let listed = if made == 0 { 0 } else { place.list().len() };
        assert_eq!(listed, made, "{ran:?}");
    }
    println!("{made} backups completed, {refused} failed");
    assert_eq!(place.back_up(&[])["entities"], 20_000);
    assert_eq!(place.verify().code, Some(0));
}

#[test]
fn after_a_killed_restore_no_server_opens_the_folder_and_the_restore_can_be_repeated() {
    let (place, server, mut random) = filled();
    place.back_up(&[]);
    let usual = time_of(|| drop(place.try_restore("measured", &[])));
    let data = place.folder.path("new");
    for _ in 0..ROUNDS {
        let arguments = ["--from", &place.repository, "--data", &data, "--quiet"];
        let mut child = place.folder.command("restore", &arguments, &[]).spawn().unwrap();
        wait(&mut random, usual);
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let files = std::fs::read_dir(&data).map_or(0, Iterator::count);
        let is_restoring = Path::new(&data).join("rowhouse.restoring").exists();
        if status.success() || (files > 1 && !is_restoring) {
            // If the restore was faster than the kill, it is complete.
            assert_eq!(exact_snapshot(&PROGRAM.start(&["--data", &data])), exact_snapshot(&server));
            std::fs::remove_dir_all(&data).unwrap();
        } else if is_restoring {
            assert_refused(&data);
        }
    }
    assert_eq!(exact_snapshot(&place.restored("new", &[])), exact_snapshot(&server));
}

#[test]
fn after_a_failed_restore_no_server_opens_the_folder_and_the_restore_can_be_repeated() {
    let (place, server, _) = filled();
    place.back_up(&[]);
    let manifests = files(&Path::new(&place.repository).join("backups"));
    let manifest: Value = serde_json::from_slice(&std::fs::read(&manifests[0]).unwrap()).unwrap();
    let last = manifest["tables"][0]["chunks"].as_array().unwrap().last().unwrap()["sha256"].as_str().unwrap();
    let chunk = place.repository_files().into_iter().find(|file| file.file_stem().unwrap() == last).unwrap();
    let away = place.folder.path("away");
    std::fs::rename(&chunk, &away).unwrap();
    let data = place.folder.path("new");
    for _ in 0..2 {
        let ran = place.try_restore("new", &[]);
        assert!(ran.code == Some(1) && ran.stderr.contains(last), "{ran:?}");
        assert_refused(&data);
    }
    std::fs::rename(&away, &chunk).unwrap();
    assert_eq!(exact_snapshot(&place.restored("new", &[])), exact_snapshot(&server));
}

fn assert_refused(data: &str) {
    assert!(Path::new(data).join("rowhouse.restoring").exists());
    let refused = PROGRAM.serve(&["--data", data, "--listen", "127.0.0.1:0"]).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && told.contains("into the same folder"), "{told}");
}
