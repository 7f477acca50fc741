//! Tests of the release archive, and of the script that creates it.

use crate::PROGRAM;
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the target of the test build, into which the C library is not linked.
fn target() -> String {
    format!("{ARCH}-unknown-linux-gnu")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Returns the program of this build without debug information, which is most of its size and takes long to pack.
fn program(folder: &Path) -> PathBuf {
    let stripped = folder.join("rowhouse");
    let done = Command::new("strip").arg("-o").arg(&stripped).arg(PROGRAM.path()).status();
    if done.is_ok_and(|status| status.success()) { stripped } else { PROGRAM.path().into() }
}

fn try_to_pack(program: &Path, target: &str, folder: &Path, umask: &str) -> Output {
    let line = format!("umask {umask}; exec scripts/package.sh \"$@\"");
    Command::new("bash")
        .args(["-c", &line, "-", program.to_str().unwrap(), target, folder.to_str().unwrap()])
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .current_dir(root())
        .output()
        .unwrap()
}

fn pack(program: &Path, folder: &Path, umask: &str) -> PathBuf {
    let output = try_to_pack(program, &target(), folder, umask);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn run(program: &str, args: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_archive_holds_everything_and_is_the_same_each_time() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let program = program(elsewhere.path());
    let archive = pack(&program, first.path(), "077");
    let name = format!("rowhouse-{}-{}", env!("CARGO_PKG_VERSION"), target());
    assert_eq!(archive, first.path().join(format!("{name}.tar.gz")));
    assert!(
        fs::read(&archive).unwrap() == fs::read(pack(&program, second.path(), "002")).unwrap(),
        "the archives differ"
    );
    run(root().join("scripts/checksums.sh").to_str().unwrap(), &["."], first.path());
    run("sha256sum", &["--check", "--strict", "SHA256SUMS"], first.path());

    run("tar", &["--extract", "--file", archive.to_str().unwrap()], first.path());
    let content = first.path().join(&name);
    for file in [
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "completions/rowhouse.bash",
        "completions/_rowhouse",
        "completions/rowhouse.fish",
        "man/man1/rowhouse.1.gz",
        "man/man1/rowhouse-sas-table.1.gz",
        "systemd/rowhouse.service",
        "kubernetes/base/kustomization.yaml",
        "helm/Chart.yaml",
        "failover/failover.sh",
        "monitoring/rowhouse-rules.yml",
        "docs/configuration.md",
    ] {
        assert!(fs::metadata(content.join(file)).unwrap().len() > 0, "{file}");
    }
    let said = run(content.join("bin/rowhouse").to_str().unwrap(), &["--version"], &content);
    assert_eq!(said.trim(), concat!("rowhouse ", env!("CARGO_PKG_VERSION")));
    let listed =
        run("tar", &["--list", "--verbose", "--numeric-owner", "--file", archive.to_str().unwrap()], first.path());
    assert!(listed.lines().all(|line| line.contains(" 0/0 ") && line.contains("2023-11-1")), "{listed}");
}

/// Formerly, such a program became an archive for every Linux system, and did not start on most of them.
#[test]
fn a_program_that_needs_a_c_library_is_not_packed_as_a_static_one() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("dist");
    let output = try_to_pack(Path::new(PROGRAM.path()), &format!("{ARCH}-unknown-linux-musl"), &none, "022");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("package: ") && message.contains("is not statically linked"), "{message}");
    assert!(message.contains(&format!("pass {} instead", target())), "{message}");
    assert!(!none.exists());
}

/// A former bug: `scripts/build-static.sh` used the address of its first server for its second server, which was not
/// listening yet.
#[test]
fn a_script_reads_the_address_of_the_server_that_it_started_last() {
    let script = r#"
        set -euo pipefail
        root=$PWD
        source scripts/packaging.bash
        server() { echo "listening on http://127.0.0.1:$1"; echo "connection string: of $1"; exec sleep 600; }
        for number in $(seq 100); do
            start_server "$1/log" server "$number"
            # A shell that is about to become another program can lose any other signal.
            kill -s KILL "$pid"
            { wait "$pid" || true; } 2>/dev/null
            echo "$address, $connection"
        done
        fails() { echo "no disk" >&2; exit 1; }
        if start_server "$1/log" fails; then echo "it cannot have started"; fi
    "#;
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-c", script, "-", folder.path().to_str().unwrap()])
        .current_dir(root())
        .output()
        .unwrap();
    let expected: Vec<_> = (1..=100).map(|number| format!("127.0.0.1:{number}, of {number}")).collect();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    assert_eq!(String::from_utf8_lossy(&output.stderr).trim(), "the server does not start: no disk");
    let script = fs::read_to_string(root().join("scripts/build-static.sh")).unwrap();
    assert_eq!(script.matches("start_server ").count(), 2, "both servers are started in this way");
}
