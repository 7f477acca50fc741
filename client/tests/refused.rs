//! Programs that must not compile, each with the compiler's messages beside it. Messages change between versions of the
//! compiler, so only those of one version are compared. `UPDATE_DOCS=1 cargo test -p rowhouse-client --test refused`
//! records them again for review; then change the version here.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stderr, reason = "skipped parts are printed")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "rustc 1.95.";

/// Returns the build of the client library that this test was linked with: the latest one before the test. Later ones
/// may have other features.
fn library(test: &Path) -> PathBuf {
    let modified = |path: &Path| path.metadata().unwrap().modified().unwrap();
    let files = fs::read_dir(test.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("librowhouse_client-") && name.ends_with(".rlib") && modified(path) <= modified(test)
    };
    files.filter(is_library).max_by_key(|path| modified(path)).unwrap()
}

/// Compiles a program, and returns the messages. The library is used as it is, so nothing else is compiled.
fn messages(program: &Path, folder: &Path, library: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = tempfile::tempdir().unwrap();
    let compiled = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", "--diagnostic-width=200"])
        .arg("--extern")
        .arg(format!("rowhouse_client={}", library.display()))
        .arg(format!("-Ldependency={}", folder.display()))
        .arg("--out-dir")
        .arg(output.path())
        .arg(program.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(!compiled.status.success(), "{} compiles", program.display());
    let messages = String::from_utf8(compiled.stderr).unwrap().replace(&format!("{}/", root.display()), "");
    // The line of the library that a message refers to changes with the library.
    let without_line = |line: &str| match line.split_once(".rs:") {
        Some((file, _)) if file.contains("client/src/") => format!("{file}.rs\n"),
        _ => format!("{line}\n"),
    };
    messages.lines().map(without_line).collect()
}

#[test]
fn wrong_programs_do_not_build_and_the_messages_say_why() {
    let version = Command::new("rustc").arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    if !version.starts_with(VERSION) {
        eprintln!("the messages were recorded with {VERSION}*, but this is {version}: not compared");
        return;
    }
    let test = env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let library = library(&test);
    let mut count = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/refused")).unwrap() {
        let program = entry.unwrap().path();
        if program.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let messages = messages(&program, folder, &library);
        let recorded = program.with_extension("stderr");
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&recorded, &messages).unwrap();
        }
        assert_eq!(messages, fs::read_to_string(&recorded).unwrap(), "{}", program.display());
        count += 1;
    }
    assert!(count > 3, "only {count} programs were found");
}
