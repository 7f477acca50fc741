//! Tests of `rowhouse export` and `rowhouse import` as users run them: round trips in both formats, interruptions, bad
//! lines, signatures with few permissions, and the memory that a large table needs.

mod bad_lines;
mod interrupted;
mod options;
mod random;

use crate::PROGRAM;
use random::{SEED, lines};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use test_support::cluster::Cluster;
use test_support::command::{CommandResult, Folder};
use test_support::content::{fill, fill_with_everything, snapshot};
use test_support::proxy::Proxy;
use test_support::{Random, Server};

fn done(folder: &Folder, subcommand: &str, arguments: &[&str]) -> CommandResult {
    let ran = folder.run(subcommand, arguments, &[]);
    assert_eq!(ran.code, Some(0), "{subcommand} {arguments:?}: {ran:?}");
    ran
}

fn refused(folder: &Folder, subcommand: &str, arguments: &[&str]) -> String {
    let ran = folder.run(subcommand, arguments, &[]);
    assert_eq!(ran.code, Some(1), "{subcommand} {arguments:?}: {ran:?}");
    ran.stderr
}

/// Leaves out the manifest, because it contains a time.
fn files(folder: &Folder, name: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for file in std::fs::read_dir(folder.path(name)).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name != "export.json" {
            files.insert(name, std::fs::read(file.path()).unwrap());
        }
    }
    files
}

fn assert_same_files(folder: &Folder, one: &str, other: &str) {
    let (one, other) = (files(folder, one), files(folder, other));
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, content) in &one {
        assert!(*content == other[name], "{name} differs");
    }
}

/// Returns the manifest of an export without the parts that differ between exports of the same data.
fn manifest(folder: &Folder, name: &str) -> serde_json::Value {
    let text = std::fs::read(folder.path(name) + "/export.json").unwrap();
    let mut manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
    for other in ["finished", "from"] {
        assert!(manifest.as_object_mut().unwrap().remove(other).is_some());
    }
    manifest
}

fn repeated(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

fn endpoint(server: &Server) -> String {
    test_support::command::endpoint(&server.address)
}

#[test]
fn lost_responses_cause_neither_gaps_nor_conflicts() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill_with_everything(&from);
    fill(&from, "scattered", 600, 3);
    fill(&from, "deep", 2, 2000);
    done(&folder, "export", &["--from", &endpoint(&from), "--to", "whole"]);
    let (source, target) = (Proxy::start(&from.address, 8), Proxy::start(&to.address, 4));
    done(&folder, "export", &["--from", &test_support::command::endpoint(&source.address), "--to", "disturbed"]);
    assert_same_files(&folder, "disturbed", "whole");
    // An insert whose response was lost finds its own entity.
    done(
        &folder,
        "import",
        &["--from", "disturbed", "--to", &test_support::command::endpoint(&target.address), "--mode", "insert"],
    );
    done(&folder, "export", &["--from", &endpoint(&to), "--to", "again"]);
    assert_same_files(&folder, "again", "whole");
    assert_eq!(manifest(&folder, "again"), manifest(&folder, "whole"));
    for counts in [&source.counts, &target.counts] {
        for counter in [&counts.busy, &counts.dropped_requests, &counts.dropped_answers] {
            assert!(counter.load(Ordering::Relaxed) > 0, "{counts:?}");
        }
    }
}

fn signature(folder: &Folder, arguments: &[&str]) -> String {
    let ran = done(folder, "sas", &[arguments, &["--expiry", "1h"]].concat());
    // The credential may be the token, or a URL with it.
    let url = ran.stdout.split_whitespace().find(|word| word.starts_with("http") && word.contains("sig="));
    url.unwrap().to_owned()
}

#[test]
fn a_signature_of_a_part_of_a_table_is_enough_for_that_part() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--in-memory"]);
    fill(&from, "cars", 5, 300);
    fill(&from, "vans", 1, 3);
    let service = endpoint(&from);
    let range = ["--from-partition", "p00001", "--to-partition", "p00002"];
    let token = signature(&folder, &[&["table", "cars", "--permissions", "r"][..], &range].concat());
    let secret = [("ROWHOUSE_FROM_KEY", token.as_str())];
    // The development account would need no key.
    let export = ["--from", &service, "--to", "out", "--table", "cars"];
    let ran = folder.run("export", &export, &secret);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("--skip-policies") && !ran.stderr.contains("sig="), "{ran:?}");
    let ran = folder.run("export", &[&export[..], &["--skip-policies"]].concat(), &secret);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.starts_with("exported to out: 1 table, 0 entities in ")
            && ran.stdout.ends_with("; 600 including earlier runs\n"),
        "{ran:?}"
    );
    assert!(!std::fs::read_to_string(folder.path("out/export.json")).unwrap().contains("sig="));
    let ran = folder.run("export", &["--from", &service, "--to", "all", "--skip-policies"], &secret);
    assert!(ran.code == Some(1) && ran.stderr.contains("403"), "{ran:?}");

    let to = PROGRAM.start(&["--in-memory"]);
    let target = endpoint(&to);
    let token = signature(&folder, &[&["table", "cars", "--permissions", "rau"][..], &range].concat());
    let secret = [("ROWHOUSE_TO_KEY", token.as_str())];
    let import = ["--from", "out", "--to", &target];
    let ran = folder.run("import", &import, &secret);
    assert!(ran.code == Some(1) && ran.stderr.contains("404"), "it cannot create the table: {ran:?}");
    test_support::content::create_table(&mut to.client(), "cars");
    let ran = folder.run("import", &import, &secret);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("600"), "{ran:?}");
    // Outside its range, and in other tables, the signature grants no permissions.
    test_support::content::create_table(&mut to.client(), "vans");
    for (file, partition) in [("cars.jsonl", "p00003"), ("vans.jsonl", "p00001")] {
        let line = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"new\"}}\n");
        std::fs::write(folder.path(file), line).unwrap();
        let ran = folder.run("import", &["--from", file, "--to", &target], &secret);
        assert!(ran.code == Some(1) && ran.stderr.contains("403"), "{file}: {ran:?}");
    }
    assert_eq!(snapshot(&to).entities(), 600);
}

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

fn random_data(folder: &Folder, random: &mut Random) {
    std::fs::write(folder.path("first.jsonl"), lines(random, 400)).unwrap();
    done(folder, "import", &["--from", "first.jsonl", "--to", "data", "--table", "Random"]);
}

#[test]
fn random_entities_of_all_types_survive_a_round_trip_through_folders() {
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    random_data(&folder, &mut random);
    for format in ["jsonl", "csv"] {
        let (one, two, copy) = (format!("one-{format}"), format!("two-{format}"), format!("data-{format}"));
        done(&folder, "export", &["--from", "data", "--to", &one, "--format", format]);
        done(&folder, "import", &["--from", &one, "--to", &copy]);
        done(&folder, "export", &["--from", &copy, "--to", &two, "--format", format]);
        assert_same_files(&folder, &two, &one);
        assert_eq!(manifest(&folder, &two), manifest(&folder, &one));
        let names: Vec<String> = files(&folder, &one).into_keys().collect();
        assert_eq!(names, [format!("Random.{format}")], "only the file remains");
    }
    // CSV preserves everything except the order of properties; JSON preserves that, too.
    done(&folder, "export", &["--from", "data-csv", "--to", "by-way-of-csv"]);
    let ordered = |name: &str| {
        let text = String::from_utf8(files(&folder, name).remove("Random.jsonl").unwrap()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    assert_eq!(ordered("by-way-of-csv"), ordered("one-jsonl"));
    let text = String::from_utf8(files(&folder, "one-jsonl").remove("Random.jsonl").unwrap()).unwrap();
    assert!(text.contains(":-0.0") && text.contains("\"NaN\""), "zero keeps its sign");
}

#[test]
fn random_entities_survive_a_round_trip_through_services() {
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    random_data(&folder, &mut random);
    done(&folder, "export", &["--from", "data", "--to", "exact"]);
    // No service preserves the sign of zero.
    let exact = String::from_utf8(files(&folder, "exact").remove("Random.jsonl").unwrap()).unwrap();
    let expected = exact.replace(":-0.0,", ":0.0,").replace(":-0.0}", ":0.0}");
    for format in ["jsonl", "csv"] {
        let (first, second) =
            (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--data", &folder.path(&format!("served-{format}"))]));
        let (one, two) = (format!("one-{format}"), format!("two-{format}"));
        done(&folder, "import", &["--from", "exact", "--to", &endpoint(&first)]);
        done(&folder, "export", &["--from", &endpoint(&first), "--to", &one, "--format", format]);
        done(&folder, "import", &["--from", &one, "--to", &endpoint(&second)]);
        done(&folder, "export", &["--from", &endpoint(&second), "--to", &two, "--format", format]);
        assert_same_files(&folder, &two, &one);
        if format == "jsonl" {
            assert_eq!(String::from_utf8(files(&folder, &one).remove("Random.jsonl").unwrap()).unwrap(), expected);
        }
    }
}

#[test]
fn everything_except_the_service_properties_is_imported_in_every_mode() {
    let folder = PROGRAM.folder();
    let from = PROGRAM.start(&["--in-memory"]);
    fill_with_everything(&from);
    fill(&from, "many", 40, 60);
    let ran = done(&folder, "export", &["--from", &endpoint(&from), "--to", "out"]);
    assert!(ran.stdout.starts_with("exported to out: 5 tables, 2,484 entities in "), "{ran:?}");
    for mode in ["insert", "replace", "merge"] {
        let to = PROGRAM.start(&["--in-memory"]);
        let arguments = ["--from", "out", "--to", &endpoint(&to), "--mode", mode];
        let ran = done(&folder, "import", &arguments);
        assert!(ran.stdout.starts_with("imported 5 tables, 2,484 entities in "), "{ran:?}");
        // In every mode, an equal existing entity is not an error.
        done(&folder, "import", &arguments);
        test_support::content::set_properties(&mut to.client(), "https://orchard.example");
        assert_eq!(snapshot(&to), snapshot(&from), "{mode}");
        assert!(folder.states("import").is_empty());
    }
}

#[test]
fn entities_survive_a_round_trip_through_a_database() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let mut random = Random::from_environment(SEED);
    let folder = PROGRAM.folder();
    random_data(&folder, &mut random);
    done(&folder, "export", &["--from", "data", "--to", "one"]);
    done(&folder, "import", &["--from", "one", "--to", &database]);
    done(&folder, "export", &["--from", &database, "--to", "two"]);
    assert_same_files(&folder, "two", "one");
}
