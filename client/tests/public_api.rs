//! Compares the public interface of the library with `client/public-api.txt`, so that every change is visible in the
//! commit that makes it. `UPDATE_DOCS=1 cargo test -p rowhouse-client --test public_api` updates the file.
//!
//! The interface comes from rustdoc's JSON, whose format changes with the compiler. If the compiler writes a different
//! format, the test prints a message and is skipped.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
#![allow(clippy::print_stderr, reason = "skipped parts are printed")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of rustdoc's JSON format that the crate `public-api` reads.
const FORMAT: u64 = 57;

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/public-api.txt");

const UPDATE: &str = "update it with UPDATE_DOCS=1 cargo test -p rowhouse-client --test public_api";

const BEGINNING: &str = "\
# The public interface of the crate rowhouse-client with all its features, and of what it exports of the crates below it.
# Written by a test: UPDATE_DOCS=1 cargo test -p rowhouse-client --test public_api
";

/// The lower-level crates whose types the library re-exports.
const EXPORTED: [&str; 3] = ["rowhouse_http_client", "rowhouse_model", "rowhouse_wire"];

fn document() -> PathBuf {
    let folder = tempfile::tempdir().unwrap();
    let rustdoc = folder.path().join("rustdoc");
    // JSON output is unstable, and an environment variable enables it. Only rustdoc gets this variable. If cargo saw
    // it, cargo would rebuild every dependency, both now and in the next ordinary build.
    std::fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    std::fs::set_permissions(&rustdoc, std::fs::Permissions::from_mode(0o755)).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = Command::new(env!("CARGO"))
        .args(["doc", "--quiet", "--locked", "--lib", "--no-deps", "--all-features"])
        .args(["-p", "rowhouse-client", "-p", "rowhouse-http-client", "-p", "rowhouse-model", "-p", "rowhouse-wire"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // The runner of the gate sets it for the tests themselves.
        .env_remove("RUSTC_BOOTSTRAP")
        .env("RUSTDOC", &rustdoc)
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("doc")
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.json"))).unwrap()).unwrap()
}

fn items(folder: &Path, name: &str) -> Vec<String> {
    let interface = public_api::Builder::from_rustdoc_json(folder.join(format!("{name}.json")))
        .omit_blanket_impls(true)
        .build()
        .unwrap();
    let lines = interface.items().map(ToString::to_string);
    lines.filter(|line| !is_of_the_compiler(line)).collect()
}

/// Returns true for automatic implementations of compiler traits, which depend on the compiler version. `Send` and
/// `Sync` do not count, because programs rely on them.
fn is_of_the_compiler(line: &str) -> bool {
    ["Freeze", "StructuralPartialEq", "Unpin", "UnsafeUnpin"]
        .iter()
        .any(|name| line.contains(&format!("core::marker::{name} for ")))
        || line.contains("core::panic::unwind_safe::")
}

/// Returns the paths of the items that the client exports of a crate. The compiler includes private modules in a path,
/// so each path is also returned without its first modules.
fn exported(client: &Value, krate: &str) -> BTreeSet<String> {
    let uses = client["index"].as_object().unwrap().values().filter_map(|item| item["inner"]["use"]["id"].as_u64());
    let paths = uses.filter_map(|id| client["paths"][id.to_string()]["path"].as_array());
    let paths = paths.map(|path| path.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    let paths = paths.filter(|path| path.first() == Some(&krate));
    let shorter = |path: Vec<&str>| (1..path.len()).map(|at| format!("{krate}::{}", path[at..].join("::"))).collect();
    paths.flat_map::<Vec<String>, _>(shorter).collect()
}

fn is_of(line: &str, path: &str) -> bool {
    let at = if line.starts_with("impl") { line.rfind(path) } else { line.find("rowhouse_") };
    let rest = at.and_then(|at| line.get(at..)).and_then(|rest| rest.strip_prefix(path));
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

fn render(folder: &Path) -> String {
    let client = json(folder, "rowhouse_client");
    let mut text = BEGINNING.to_owned();
    for line in items(folder, "rowhouse_client") {
        writeln!(text, "{line}").unwrap();
    }
    for krate in EXPORTED {
        let paths = exported(&client, krate);
        assert!(!paths.is_empty(), "the library no longer exports anything from {krate}");
        writeln!(text, "\n# exported of {krate}").unwrap();
        for line in items(folder, krate).iter().filter(|line| paths.iter().any(|path| is_of(line, path))) {
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

#[test]
fn the_public_interface_is_the_recorded_one() {
    let folder = document();
    let found = json(&folder, "rowhouse_client")["format_version"].as_u64().unwrap();
    if found != FORMAT {
        eprintln!(
            "SKIPPED, because rustdoc writes format {found} here, and the crate public-api reads format {FORMAT}"
        );
        return;
    }
    let (current, recorded) = (render(&folder), std::fs::read_to_string(RECORD).unwrap_or_default());
    if current != recorded && std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(RECORD, &current).unwrap();
        return;
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (now, before) = (lines(&current), lines(&recorded));
    let removed: String = before.difference(&now).map(|line| ["- ", line, "\n"].concat()).collect();
    let added: String = now.difference(&before).map(|line| ["+ ", line, "\n"].concat()).collect();
    assert!(current == recorded, "the public interface differs from client/public-api.txt; {UPDATE}\n{removed}{added}");
}
