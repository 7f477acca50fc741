//! A test that a large table needs no more memory than a small table.

use super::endpoint;
use crate::PROGRAM;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use test_support::command::Folder;

const ENTITIES: u64 = 100_000;
/// The memory that concurrent pages, windows and transactions need, with a margin. The file is about 160 MiB long, and
/// each entity takes more space in memory than in the file.
const PEAK_KIB_MAX: u64 = 256 * 1024;

/// Runs a command until it exits. Returns its peak memory in KiB and its rate in entities per second.
fn measured(folder: &Folder, arguments: &[&str]) -> (u64, f64) {
    let began = Instant::now();
    let mut command = Command::new(PROGRAM.path());
    command.env_clear().current_dir(folder.path("")).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    // Each thread keeps some memory for itself, and by default there would be one per core.
    command.env("TOKIO_WORKER_THREADS", "4");
    let mut child = command.spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        // This file disappears with the process.
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success(), "{arguments:?}");
    #[allow(clippy::cast_precision_loss, reason = "it is for people")]
    let rate = ENTITIES as f64 / began.elapsed().as_secs_f64();
    (peak, rate)
}

#[test]
fn memory_is_bounded() {
    let folder = PROGRAM.folder();
    let mut lines = String::new();
    let text = "x".repeat(1500);
    for number in 0..ENTITIES {
        let (partition, row) = (number / 250, number % 250);
        let _ = writeln!(
            lines,
            "{{\"PartitionKey\":\"p{partition:05}\",\"RowKey\":\"{row:04}\",\"Number\":{number},\"Text\":\"{text}\"}}"
        );
    }
    std::fs::write(folder.path("large.jsonl"), &lines).unwrap();
    let server = PROGRAM.start(&["--in-memory"]);
    let service = endpoint(&server);
    for (what, arguments) in [
        ("import of JSON Lines", &["import", "--from", "large.jsonl", "--to", &service][..]),
        ("export as JSON Lines", &["export", "--from", &service, "--to", "out.jsonl"]),
        ("export as CSV", &["export", "--from", &service, "--to", "out.csv"]),
        ("import of CSV", &["import", "--from", "out.csv", "--to", &service, "--table", "again"]),
    ] {
        let (peak, rate) = measured(&folder, arguments);
        println!("{what}: {rate:.0} entities/s, at most {} MiB", peak / 1024);
        assert!(peak > 0 && peak < PEAK_KIB_MAX, "{what}: {peak} KiB");
    }
    assert!(std::fs::read_to_string(folder.path("out.jsonl")).unwrap() == lines, "the lines must be unchanged");
}
