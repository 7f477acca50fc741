//! Checks which crate may depend on which: `model` on no other crate, `wire` and `engine` on `model`, each engine on
//! `engine`, `http-client` on no other crate, `client` on `wire`, `model` and `http-client`, `tools` on `client`,
//! `object-storage` and engines, `object-storage` on `http-client`, `server` on `http-client` but neither on `client`
//! nor on `tools`, the server also on the files of `explorer`, the program on all, and `testing` on the server and its
//! dependencies. `platform` depends on no other crate; crates that use the operating system depend on it.

use serde_json::Value;
use std::process::Command;

struct Rule {
    package: &'static str,
    may_use: &'static [&'static str],
    /// Libraries that would introduce something on which the crate must not depend.
    must_not_use: &'static [&'static str],
}

const MODEL: &str = "rowhouse-model";
const WIRE: &str = "rowhouse-wire";
const HTTP_CLIENT: &str = "rowhouse-http-client";
const CLIENT: &str = "rowhouse-client";
const DERIVE: &str = "rowhouse-client-derive";
/// The engine contract and the memory engine.
const ENGINE: &str = "rowhouse-engine";
const EMBEDDED: &str = "rowhouse-engine-embedded";
/// The threads of the embedded engine, compiled a second time for tests.
const SCHEDULES: &str = "rowhouse-engine-embedded-schedules";
const POSTGRES: &str = "rowhouse-engine-postgres";
/// The tests that every engine passes: the crates of the engines may use it, but only for their tests.
const ENGINE_CONTRACT: &str = "rowhouse-engine-contract";
/// The checker of histories: other packages may use it, but only for their tests.
const HISTORY: &str = "rowhouse-history";
const EXPLORER: &str = "rowhouse-explorer";
const OBJECT_STORAGE: &str = "rowhouse-object-storage";
const PLATFORM: &str = "rowhouse-platform";
const SERVER: &str = "rowhouse-server";
const TOOLS: &str = "rowhouse-tools";
const PROGRAM: &str = "rowhouse-tables";
/// The server in the same process as a test: other packages may use it for their tests.
const TESTING: &str = "rowhouse-testing";
/// Shared test code: every package may use it, but only for its tests.
const TEST_SUPPORT: &str = "rowhouse-test-support";

const RULES: [Rule; 19] = [
    Rule {
        package: MODEL,
        may_use: &[],
        // No I/O, no async, no HTTP, no JSON, no XML.
        must_not_use: &[
            "tokio",
            "mio",
            "socket2",
            "rustix",
            "futures",
            "futures-core",
            "futures-util",
            "async-trait",
            "hyper",
            "hyper-util",
            "http",
            "http-body",
            "http-body-util",
            "httpdate",
            "serde",
            "serde_json",
            "quick-xml",
            "lsm-tree",
            "clap",
            "tracing",
            "anyhow",
        ],
    },
    Rule {
        package: WIRE,
        may_use: &[MODEL],
        // No sockets, no HTTP library, no storage, no configuration.
        must_not_use: &[
            "tokio",
            "mio",
            "socket2",
            "rustix",
            "futures",
            "futures-core",
            "futures-util",
            "async-trait",
            "hyper",
            "hyper-util",
            "http",
            "http-body",
            "http-body-util",
            "lsm-tree",
            "clap",
            "toml",
            "tracing",
            "anyhow",
        ],
    },
    Rule {
        package: PLATFORM,
        may_use: &[],
        // Only the system, nothing specific to Rowhouse.
        must_not_use: &["hyper", "http", "serde", "lsm-tree", "clap", "tracing", "anyhow"],
    },
    // No HTTP, no JSON, no authorization; the contract also without a storage library.
    Rule {
        package: ENGINE,
        may_use: &[MODEL],
        must_not_use: &["hyper", "http", "serde_json", "ring", "clap", "anyhow", "lsm-tree", "tokio-postgres"],
    },
    Rule {
        package: EMBEDDED,
        may_use: &[MODEL, ENGINE, PLATFORM],
        must_not_use: &["hyper", "http", "serde_json", "ring", "clap", "anyhow", "tokio-postgres"],
    },
    Rule { package: SCHEDULES, may_use: &[ENGINE, MODEL], must_not_use: &["hyper", "lsm-tree"] },
    Rule {
        package: POSTGRES,
        may_use: &[MODEL, ENGINE],
        must_not_use: &["hyper", "http", "serde_json", "ring", "clap", "anyhow", "lsm-tree"],
    },
    Rule {
        package: ENGINE_CONTRACT,
        may_use: &[MODEL, ENGINE, HISTORY, TEST_SUPPORT],
        must_not_use: &["lsm-tree", "tokio-postgres"],
    },
    Rule {
        package: HISTORY,
        // It must not share code with what it judges.
        may_use: &[],
        must_not_use: &["lsm-tree", "tokio-postgres", "hyper", "http"],
    },
    Rule {
        package: DERIVE,
        may_use: &[MODEL],
        // Only what macros need.
        must_not_use: &["tokio", "hyper", "http", "tracing", "anyhow"],
    },
    Rule {
        package: HTTP_CLIENT,
        may_use: &[],
        // Nothing of the Table protocol, no configuration, no command line.
        must_not_use: &["serde_json", "quick-xml", "lsm-tree", "clap", "toml", "anyhow"],
    },
    Rule {
        package: CLIENT,
        may_use: &[MODEL, WIRE, HTTP_CLIENT, DERIVE],
        // No storage, no configuration, no command line, and HTTP only through its own client.
        must_not_use: &["hyper", "hyper-util", "lsm-tree", "clap", "toml", "anyhow", "tracing-subscriber"],
    },
    Rule {
        package: EXPLORER,
        may_use: &[],
        // No HTTP. Its build compresses the files.
        must_not_use: &["http", "hyper", "serde_json", "tokio"],
    },
    Rule {
        package: SERVER,
        may_use: &[MODEL, WIRE, HTTP_CLIENT, ENGINE, EXPLORER, PLATFORM],
        // No storage library, no command line.
        must_not_use: &["lsm-tree", "tokio-postgres", "clap"],
    },
    Rule {
        package: TOOLS,
        may_use: &[MODEL, WIRE, CLIENT, ENGINE, EMBEDDED, POSTGRES, OBJECT_STORAGE, PLATFORM],
        // Neither the server nor its libraries.
        must_not_use: &["lsm-tree", "tokio-postgres", "hyper", "hyper-util", "http", "object_store", "toml"],
    },
    Rule {
        package: OBJECT_STORAGE,
        may_use: &[HTTP_CLIENT],
        // HTTP only through the project's own client, no configuration, no command line.
        must_not_use: &["hyper", "hyper-util", "reqwest", "clap", "toml", "anyhow"],
    },
    Rule {
        package: PROGRAM,
        may_use: &[MODEL, WIRE, HTTP_CLIENT, ENGINE, EMBEDDED, POSTGRES, PLATFORM, SERVER, TOOLS],
        must_not_use: &["lsm-tree", "tokio-postgres", "hyper-util"],
    },
    Rule {
        package: TESTING,
        // The protocol and the client only for its own tests.
        may_use: &[MODEL, WIRE, CLIENT, ENGINE, EMBEDDED, SERVER],
        // No command line, and no client except the test's own.
        must_not_use: &[
            "lsm-tree",
            "lsm-tree",
            "tokio-postgres",
            "hyper",
            "hyper-util",
            "clap",
            "toml",
            "tracing-subscriber",
        ],
    },
    // It must not add a second copy of the code under test to a test.
    Rule { package: TEST_SUPPORT, may_use: &[MODEL, WIRE], must_not_use: &["lsm-tree", "tokio", "hyper"] },
];

/// A dependency of any kind, including dependencies for tests and builds.
struct Dependency {
    name: String,
    is_of_workspace: bool,
    is_for_tests: bool,
}

fn dependencies(metadata: &Value, package: &str) -> Vec<Dependency> {
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|known| known["name"] == package).unwrap();
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    let dependency = |it: &Value| Dependency {
        name: it["name"].as_str().unwrap().to_owned(),
        is_of_workspace: it["path"].is_string(),
        is_for_tests: it["kind"] == "dev",
    };
    dependencies.map(dependency).collect()
}

#[test]
fn dependencies_point_in_one_direction() {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        // The benchmarks and the test steps may use any crate.
        let has_rule = ["rowhouse-bench", "xtask"].contains(&name) || RULES.iter().any(|rule| rule.package == name);
        assert!(has_rule, "add a rule for {name}");
    }
    for Rule { package, may_use, must_not_use } in RULES {
        for Dependency { name, is_of_workspace, is_for_tests } in dependencies(&metadata, package) {
            // The client and the test server may use themselves, so that their tests have all features enabled.
            let is_allowed = !is_of_workspace
                || may_use.contains(&name.as_str())
                || is_for_tests && [TEST_SUPPORT, TESTING, ENGINE_CONTRACT, HISTORY, CLIENT].contains(&name.as_str());
            assert!(is_allowed, "{package} must not depend on {name}");
            assert!(!must_not_use.contains(&name.as_str()), "{package} must not depend on {name}");
        }
    }
}
