//! Checks which crate may depend on which: `model` on no other crate, `wire` and `engine` on `model`, each engine on
//! `engine`, `engine-citus` on `engine-postgres`, `http-client` on no other crate, `client` on `wire`, `model` and
//! `http-client`, `tools` on `client`, `object-storage` and engines, `object-storage` on `http-client`, `server` on
//! `http-client` but neither on `client` nor on `tools`, the server also on the files of `explorer`, `replication` on
//! the embedded engine, `http-client` and the server's interface for it, the program on all, and `testing` on the
//! server and its dependencies. `platform` depends on no other crate; crates that use the operating system depend on
//! it.

use serde_json::Value;
use std::process::Command;

/// I/O and async.
const IO: &str = "tokio mio socket2 rustix futures futures-core futures-util async-trait";
/// HTTP.
const HTTP: &str = "hyper hyper-util http http-body http-body-util";
/// The command line, the log, and errors for people.
const PROGRAM: &str = "clap tracing anyhow";

/// Crates of which every crate may use one for its tests.
const FOR_TESTS: [&str; 5] = ["client", "engine-contract", "history", "test-support", "testing"];

/// For each crate, those that it may use, and the libraries that would introduce something on which it must not depend.
/// All names lack the prefix `rowhouse-`.
const RULES: [(&str, &str, &[&str]); 22] = [
    ("model", "", &[IO, HTTP, PROGRAM, "httpdate serde serde_json quick-xml lsm-tree"]),
    // No storage, no configuration.
    ("wire", "model", &[IO, HTTP, PROGRAM, "lsm-tree toml"]),
    // Only the system, nothing specific to Rowhouse.
    ("platform", "", &[PROGRAM, "hyper http serde lsm-tree"]),
    // No HTTP, no JSON, no authorization; the contract also without a storage library.
    ("engine", "model", &["hyper http serde_json ring clap anyhow lsm-tree tokio-postgres"]),
    ("engine-embedded", "model engine platform", &["hyper http serde_json ring clap anyhow tokio-postgres"]),
    ("engine-embedded-schedules", "engine model platform", &["hyper lsm-tree"]),
    ("engine-embedded-planted", "engine", &["hyper lsm-tree"]),
    ("engine-postgres", "model engine", &["hyper http serde_json ring clap anyhow lsm-tree"]),
    (
        "engine-citus",
        "model engine engine-postgres",
        &["hyper http serde_json ring clap anyhow lsm-tree deadpool-postgres"],
    ),
    ("engine-contract", "model engine history test-support", &["lsm-tree tokio-postgres"]),
    // It must not share code with what it judges.
    ("history", "", &["lsm-tree tokio-postgres hyper http"]),
    // Only what macros need.
    ("client-derive", "model", &["tokio hyper http tracing anyhow"]),
    // Nothing of the Table protocol, no configuration, no command line.
    ("http-client", "", &["serde_json quick-xml lsm-tree clap toml anyhow"]),
    // No storage, no configuration, no command line, and HTTP only through its own client.
    (
        "client",
        "model wire http-client client-derive",
        &["hyper hyper-util lsm-tree clap toml anyhow tracing-subscriber"],
    ),
    // No HTTP. Its build compresses the files.
    ("explorer", "", &["http hyper serde_json tokio"]),
    // No storage library, no command line.
    ("server", "model wire http-client engine explorer platform", &["lsm-tree tokio-postgres clap"]),
    // Neither the server nor its libraries.
    (
        "tools",
        "model wire client engine engine-embedded engine-postgres engine-citus object-storage platform",
        &["lsm-tree tokio-postgres hyper hyper-util http object_store toml"],
    ),
    // HTTP only through the project's own client, no configuration, no command line.
    ("object-storage", "http-client", &["hyper hyper-util reqwest clap toml anyhow"]),
    // HTTP only through the project's own client and the server, no storage library, no command line.
    ("replication", "model http-client engine engine-embedded server", &["hyper hyper-util lsm-tree clap toml"]),
    (
        "tables",
        "model wire http-client engine engine-embedded engine-postgres engine-citus platform replication server tools",
        &["lsm-tree tokio-postgres hyper-util"],
    ),
    // The protocol and the client only for its own tests. No command line, and no client except the test's own.
    (
        "testing",
        "model wire client engine engine-embedded server",
        &["lsm-tree tokio-postgres hyper hyper-util clap toml tracing-subscriber"],
    ),
    // It must not add a second copy of the code under test to a test.
    ("test-support", "model wire", &["lsm-tree tokio hyper"]),
];

fn short(name: &str) -> &str {
    name.strip_prefix("rowhouse-").unwrap_or(name)
}

#[test]
fn dependencies_point_in_one_direction() {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut checked = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let name = short(package["name"].as_str().unwrap());
        // The benchmarks and the test steps may use any crate.
        if ["bench", "xtask"].contains(&name) {
            continue;
        }
        let rule = RULES.iter().find(|(package, ..)| *package == name);
        let (_, may_use, must_not_use) = rule.unwrap_or_else(|| panic!("add a rule for {name}"));
        checked += 1;
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = short(dependency["name"].as_str().unwrap());
            let is_of_workspace = dependency["path"].is_string();
            // The client and the test server may use themselves, so that their tests have all features enabled.
            let is_allowed = !is_of_workspace
                || may_use.split(' ').any(|allowed| allowed == used)
                || dependency["kind"] == "dev" && FOR_TESTS.contains(&used);
            assert!(is_allowed, "{name} must not depend on {used}");
            let is_forbidden = must_not_use.iter().any(|names| names.split(' ').any(|forbidden| forbidden == used));
            assert!(!is_forbidden, "{name} must not depend on {used}");
        }
    }
    assert_eq!(checked, RULES.len(), "a rule names no crate");
}
