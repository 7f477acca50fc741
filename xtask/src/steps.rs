//! The table of all steps, in the order in which they start.

use crate::step::{Count, Database, Install, PROGRAM, Probe, Server, Step, Tool};

const fn tool(name: &'static str, hint: &'static str, probe: Probe) -> Tool {
    Tool { name, hint, probe, is_required: true }
}

/// A tool that CI does not install.
const fn optional(name: &'static str, hint: &'static str, probe: Probe) -> Tool {
    Tool { name, hint, probe, is_required: false }
}

const CARGO_DENY: Tool = tool("cargo-deny", "cargo install cargo-deny --locked", Probe::Program(&["cargo-deny"]));
const PYTHON: Tool = tool("Python 3", "on Debian the package python3", Probe::Program(&["python3"]));
const VENV: Tool = tool(
    "Python's venv module",
    "on Debian the package python3-venv",
    Probe::Shell("python3 -c 'import ensurepip, venv'"),
);
const NODE: Tool = tool("Node.js", "on Debian the package nodejs", Probe::Program(&["node"]));
const NPM: Tool = tool("npm", "on Debian the package npm", Probe::Program(&["npm"]));
const CHROMIUM: Tool = tool(
    "Chromium",
    "on Debian the package chromium-headless-shell",
    Probe::Program(&["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]),
);
const GO: Tool = tool(
    "Go 1.23",
    "on Debian the package golang-go; Go 1.21 downloads a later version",
    Probe::Shell(
        "version=$(cd conformance/go && go env GOVERSION) && printf '%s\\n' go1.23 \"$version\" | sort --version-sort --check=quiet",
    ),
);
const JDK: Tool = tool("a JDK", "on Debian the package default-jdk-headless", Probe::Program(&["javac"]));
const MAVEN: Tool = tool("Maven", "on Debian the package maven", Probe::Program(&["mvn"]));
const CXX: Tool = tool("a C++ compiler", "on Debian the package g++", Probe::Program(&["c++"]));
const POSTGRES: Tool = tool(
    "PostgreSQL",
    "on Debian the package postgresql",
    Probe::Shell("source scripts/databases.bash && find_programs"),
);
const CITUS: Tool = optional(
    "Citus",
    "an extension of PostgreSQL; CONTRIBUTING.md says how to get it",
    Probe::Shell(
        "source scripts/databases.bash && test -e \"$(\"$(find_programs)/pg_config\" --sharedir)/extension/citus.control\"",
    ),
);
const OLDEST_RUST: Tool = optional(
    "the oldest supported version of Rust",
    "rustup toolchain install",
    Probe::Shell("rustup run {rust} cargo --version"),
);
const TARGET_WINDOWS: Tool = optional(
    "Rust for Windows",
    "rustup target add x86_64-pc-windows-gnu",
    Probe::Shell("rustup target list --installed | grep -qx x86_64-pc-windows-gnu"),
);
const TARGET_ARM: Tool = optional(
    "Rust for Linux on ARM",
    "rustup target add aarch64-unknown-linux-gnu",
    Probe::Shell("rustup target list --installed | grep -qx aarch64-unknown-linux-gnu"),
);
const CC_WINDOWS: Tool = tool(
    "a C compiler for Windows",
    "on Debian the package gcc-mingw-w64-x86-64",
    Probe::Program(&["x86_64-w64-mingw32-gcc"]),
);
const CC_ARM: Tool = tool(
    "a C compiler for Linux on ARM",
    "on Debian the packages gcc-aarch64-linux-gnu and libc6-dev-arm64-cross",
    Probe::Program(&["aarch64-linux-gnu-gcc"]),
);
const RECORDINGS: Tool = optional(
    "recordings of the service",
    "in the folder ../shared/recordings",
    Probe::Path("../shared/recordings/replay.py"),
);

const EMULATOR: Tool = optional("the emulator", "npm install --global azurite", Probe::Program(&["azurite-table"]));

/// The packages of the current Python client.
const MODERN: Install = Install::Python { home: ".venv", requirements: "conformance/python/requirements.txt" };
/// The packages of the retired Python clients. The last one can encrypt.
const LEGACY_2012: Install =
    Install::Python { home: ".venv-legacy-2012", requirements: "conformance/legacy_python/atom/requirements-2012.txt" };
const LEGACY_2014: Install =
    Install::Python { home: ".venv-legacy-2014", requirements: "conformance/legacy_python/atom/requirements-2014.txt" };
const LEGACY_2018: Install = Install::Python {
    home: ".venv-legacy-2018",
    requirements: "conformance/legacy_python/cosmosdb/requirements-2018.txt",
};

/// A server that imitates S3, and clients of both storage services.
const OBJECT_STORAGE: Install =
    Install::Python { home: ".venv-object-storage", requirements: "conformance/object_storage/requirements.txt" };

/// The step that builds the programs which only tests use.
const TEST_PROGRAMS: &str = "test-programs";

const IN_MEMORY: &str = "{program} serve --listen 127.0.0.1:0 --in-memory";
const EMBEDDED: &str = "{program} serve --listen 127.0.0.1:0 --data {data}";
const ON_POSTGRES: &str = "{program} serve --listen 127.0.0.1:0 --store {store}";
const ON_CITUS: &str = "{program} serve --listen 127.0.0.1:0 --store {store} --distribute";

/// Returns all steps. A step stands below those that it uses.
pub(crate) fn all() -> Vec<Step> {
    // The suites in Java run one after the other, so they start early. Otherwise, they would run alone at the end.
    let groups = [
        checks(),
        rust(),
        builds(),
        java(),
        python(),
        vec![object_storage()],
        recordings(),
        javascript(),
        packages(),
        go_and_rust(),
        client(),
        vec![comparison(), fuzz()],
    ];
    groups.into_iter().flatten().collect()
}

fn checks() -> Vec<Step> {
    vec![
        Step::new("format", "Formatting of the Rust code")
            .on_one_processor()
            .count(Count::Nothing)
            .run("cargo fmt --all -- --check")
            .run("cargo fmt --manifest-path fuzz/Cargo.toml -- --check")
            .run("cargo fmt --manifest-path conformance/rust/Cargo.toml -- --check"),
        Step::new("prose", "The English of comments, messages, pages and commit subjects")
            .needs(&[GO])
            .on_one_processor()
            .run("scripts/commits.sh")
            .run("scripts/prose.sh"),
        Step::new("prose-rules", "The rules for prose and commit subjects refuse bad examples")
            .needs(&[GO])
            .after(&["prose"])
            .on_one_processor()
            .count(Count::Closing)
            .run("scripts/test_rules.sh"),
        Step::new("docs-site", "The documentation as a site")
            .needs(&[PYTHON])
            .on_one_processor()
            .run("scripts/docs.sh"),
        Step::new("docs-comparison", "docs/comparison.md matches its results")
            .needs(&[PYTHON])
            .on_one_processor()
            .count(Count::Closing)
            .run("bench/comparison/test_page.sh"),
        Step::new("licences", "Licences, bans and sources of dependencies")
            .needs(&[CARGO_DENY])
            .on_one_processor()
            .run("cargo deny --locked --color never check licenses bans sources"),
    ]
}

fn rust() -> Vec<Step> {
    vec![
        Step::new("lints", "Lints of the Rust code")
            .count(Count::Nothing)
            .run("cargo clippy --quiet --locked --workspace --all-targets -- -D warnings"),
        Step::new("oldest-rust", "The build with the oldest supported version of Rust")
            .needs(&[OLDEST_RUST])
            .run("cargo +{rust} check --quiet --locked --workspace --all-features"),
        // With --target, the flags do not apply to build scripts and macros, so these are not compiled again.
        Step::new("platform-windows", "The build for Windows")
            .needs(&[TARGET_WINDOWS, CC_WINDOWS])
            .variable("RUSTFLAGS", "-D warnings")
            .run("cargo check --quiet --locked --target x86_64-pc-windows-gnu --package rowhouse-tables --package rowhouse-testing"),
        Step::new("platform-arm", "The build for Linux on ARM")
            .needs(&[TARGET_ARM, CC_ARM])
            .variable("RUSTFLAGS", "-D warnings")
            .run("cargo check --quiet --locked --target aarch64-unknown-linux-gnu --package rowhouse-tables --package rowhouse-testing"),
        Step::new("crates", "The unit tests, and the tests of the built program")
            .count(Count::Rust)
            .run("cargo test --quiet --locked --workspace --no-fail-fast"),
        Step::new("features", "The features of the client library, one at a time, and the server without its features")
            .count(Count::Closing)
            .run("scripts/test_features.sh"),
        // The packages are packed together, so that none of them needs to be in a registry. The client's packages are
        // built from the packed files. The server's crates are built from the same files in other steps.
        Step::new("crate-packages", "The packages of the client library and of the test server")
            .count(Count::Closing)
            .run("scripts/test_crates.sh"),
    ]
}

/// The programs that other steps run. A compiler uses all processors, and steps that share the machine must not.
fn builds() -> Vec<Step> {
    vec![
        Step::new(PROGRAM, "The release build of the server")
            .count(Count::Nothing)
            .run("cargo build --quiet --release --locked --package rowhouse-tables"),
        // With all packages, Cargo enables the same features as for the step `crates`, and compiles nothing again.
        Step::new("client-build", "The suite of the client library")
            .count(Count::Nothing)
            .run("cargo test --quiet --locked --workspace --test suite --no-run"),
        // With the tests of all packages, Cargo enables the same features as for the step `crates`.
        Step::new(TEST_PROGRAMS, "The programs that only tests use")
            .count(Count::Nothing)
            .run("cargo build --quiet --locked --workspace --tests --bin rowhouse-history --bin rowhouse-bench --example encryption_exchange"),
        Step::new("rust-client-build", "The cases for the Rust client of the service")
            .count(Count::Nothing)
            .run("cargo build --quiet --locked --tests --manifest-path conformance/rust/Cargo.toml --target-dir conformance/rust/target"),
        Step::new("fuzz-build", "The fuzz targets")
            .needs(&[CXX])
            .count(Count::Nothing)
            .run("scripts/fuzz.sh --build"),
    ]
}

/// A folder of Python cases that run against one server.
fn python_suite(
    name: &'static str,
    title: &'static str,
    cases: &'static str,
    packages: Install,
    line: &'static str,
) -> Step {
    Step::new(name, title)
        .needs(&[PYTHON, VENV])
        .on_one_processor()
        .install(packages)
        .rowhouse(line)
        .variable("TABLES_SERVER", "rowhouse")
        .variable("CASES", cases)
        .count(Count::Pytest)
        .shell_in(
            ".",
            "{python} -m pytest --quiet --color=no --maxfail=20 -p no:cacheprovider --junitxml={results}/{name}.xml $CASES",
        )
}

fn python() -> Vec<Step> {
    const CASES: &str = "conformance/python";
    const ATOM: &str = "conformance/legacy_python/atom";
    const COSMOSDB: &str = "conformance/legacy_python/cosmosdb";
    vec![
        python_suite("python-memory", "The Python client and raw HTTP, in memory", CASES, MODERN, IN_MEMORY),
        python_suite("python-embedded", "The Python client and raw HTTP, embedded engine", CASES, MODERN, EMBEDDED),
        python_suite("python-postgres", "The Python client and raw HTTP, PostgreSQL", CASES, MODERN, ON_POSTGRES)
            .database(Database::Postgres, POSTGRES),
        python_suite("python-citus", "The Python client and raw HTTP, Citus", CASES, MODERN, ON_CITUS)
            .database(Database::Citus, CITUS),
        Step::new("compatibility-table", "The table of features in docs/compatibility.md")
            .needs(&[PYTHON, VENV])
            .after(&["python-memory", "python-embedded", "python-postgres"])
            .on_one_processor()
            .install(MODERN)
            .count(Count::Nothing)
            .shell_in(
                ".",
                "{python} conformance/run.py --results {results}/python-*.xml --document docs/compatibility.md --column Rowhouse --check",
            ),
        python_suite("legacy-python-2012", "The Python client of 2012, embedded engine", ATOM, LEGACY_2012, EMBEDDED),
        python_suite("legacy-python-2014", "The Python client of 2014, embedded engine", ATOM, LEGACY_2014, EMBEDDED),
        python_suite(
            "legacy-python-2018",
            "The Python client of 2018, embedded engine",
            COSMOSDB,
            LEGACY_2018,
            EMBEDDED,
        ),
    ]
}

fn object_storage() -> Step {
    Step::new("object-storage", "Backups in S3-compatible storage and in Azure Blob storage")
        .needs(&[PYTHON, VENV, NODE, NPM])
        .after(&[PROGRAM])
        .on_one_processor()
        .install(OBJECT_STORAGE)
        .install(Install::Npm("conformance/emulator"))
        .variable("ROWHOUSE_BINARY", "{program}")
        .variable("AZURITE_BLOB", "conformance/emulator/node_modules/.bin/azurite-blob")
        .count(Count::Pytest)
        .run("{python} -m pytest --quiet --color=no -p no:cacheprovider conformance/object_storage")
}

fn replay(name: &'static str, title: &'static str, line: &'static str) -> Step {
    Step::new(name, title)
        .needs(&[RECORDINGS, PYTHON, VENV])
        .on_one_processor()
        .install(MODERN)
        .rowhouse(line)
        .count(Count::Recordings)
        .run("{python} scripts/replay_recordings.py {endpoint} ../shared/recordings")
}

fn recordings() -> Vec<Step> {
    vec![
        replay("recordings-memory", "Recorded exchanges, in memory", IN_MEMORY),
        replay("recordings-postgres", "Recorded exchanges, PostgreSQL", ON_POSTGRES)
            .database(Database::Postgres, POSTGRES),
        replay("recordings-citus", "Recorded exchanges, Citus", ON_CITUS).database(Database::Citus, CITUS),
    ]
}

fn node_suite(name: &'static str, title: &'static str, folder: &'static str) -> Step {
    Step::new(name, title).needs(&[NODE, NPM]).install(Install::Npm(folder)).count(Count::Tap)
}

/// A folder of JavaScript cases that run against one server.
fn javascript_suite(name: &'static str, title: &'static str, folder: &'static str, line: &'static str) -> Step {
    node_suite(name, title, folder).on_one_processor().rowhouse(line).run_in(folder, "node --test --test-reporter=tap")
}

fn javascript() -> Vec<Step> {
    // With path-style URLs, the client requests statistics from the primary endpoint.
    const EMBEDDED_STATS: &str = "{program} serve --listen 127.0.0.1:0 --data {data} --stats-on-primary";
    const POSTGRES_STATS: &str = "{program} serve --listen 127.0.0.1:0 --store {store} --stats-on-primary";
    vec![
        javascript_suite(
            "javascript-embedded",
            "The JavaScript client, embedded engine",
            "conformance/javascript",
            EMBEDDED_STATS,
        ),
        javascript_suite(
            "javascript-postgres",
            "The JavaScript client, PostgreSQL",
            "conformance/javascript",
            POSTGRES_STATS,
        )
        .database(Database::Postgres, POSTGRES),
        javascript_suite(
            "legacy-javascript",
            "The legacy JavaScript clients, embedded engine",
            "conformance/legacy_javascript",
            EMBEDDED,
        ),
        javascript_suite(
            "programs-embedded",
            "Programs that keep their state in tables, embedded engine",
            "conformance/programs",
            EMBEDDED,
        ),
        javascript_suite(
            "programs-postgres",
            "Programs that keep their state in tables, PostgreSQL",
            "conformance/programs",
            ON_POSTGRES,
        )
        .database(Database::Postgres, POSTGRES),
        javascript_suite(
            "browser",
            "The JavaScript client on a page in Chromium, embedded engine",
            "conformance/browser",
            EMBEDDED,
        )
        .needs(&[CHROMIUM]),
        // Each case of the following two starts its own server, and two run at a time.
        node_suite(
            "emulator-replacement",
            "The emulator's command lines, and JavaScript clients of all three services",
            "conformance/emulator",
        )
        .after(&[PROGRAM])
        .run_in("conformance/emulator", "node --test --test-reporter=tap --test-concurrency=2"),
        node_suite("explorer", "The explorer: types, unit tests, and cases in Chromium", "explorer/tests")
            .needs(&[CHROMIUM, PYTHON, VENV])
            .after(&[PROGRAM])
            .install(MODERN)
            .variable("EXPLORER_PYTHON", "{python}")
            .run_in("explorer/tests", "node --test --test-reporter=tap --test-concurrency=2"),
    ]
}

fn packages() -> Vec<Step> {
    vec![
        Step::new("packages", "The packages for npm, pip, Debian and Cargo")
            .after(&[PROGRAM])
            .on_one_processor()
            .count(Count::Closing)
            .run("scripts/test_packages.sh {program}"),
        // Two tests of each language run at a time.
        Step::new("fixtures", "The test fixtures for Python and JavaScript")
            .after(&[PROGRAM])
            .count(Count::Closing)
            .run("scripts/test_fixtures.sh {program}"),
    ]
}

/// A folder of Go cases.
fn go_suite(name: &'static str, title: &'static str, folder: &'static str) -> Step {
    Step::new(name, title)
        .needs(&[GO])
        .after(&[PROGRAM])
        .on_one_processor()
        .count(Count::Go)
        .shell_in(folder, "unformatted=$(gofmt -l .); test -z \"$unformatted\" || { echo \"not formatted with gofmt: $unformatted\"; exit 1; }")
        .run_in(folder, "go vet ./...")
        // Without -count=1, Go reuses the result of an earlier run with the same files and environment.
        .run_in(folder, "go test -count=1 -v ./...")
}

fn go_and_rust() -> Vec<Step> {
    vec![
        go_suite("go-fixture", "Test servers in Go", "packages/go"),
        go_suite("go-client", "The Go client, embedded engine", "conformance/go").rowhouse(EMBEDDED),
        go_suite("legacy-go", "The legacy Go clients, embedded engine", "conformance/legacy_go").rowhouse(EMBEDDED),
        Step::new("history-judge", "Sample histories, judged by the checker and by an independent judge")
            .needs(&[GO])
            .after(&[TEST_PROGRAMS])
            .on_one_processor()
            .run("{target}/debug/rowhouse-history simulate {data} 1000")
            .shell_in("history/porcupine", "test -z \"$(gofmt -l .)\"")
            .run_in("history/porcupine", "go vet ./...")
            .run_in("history/porcupine", "go run . {data}"),
        Step::new("rust-client", "The Rust client of the service, embedded engine")
            .after(&["rust-client-build"])
            .on_one_processor()
            .rowhouse(EMBEDDED)
            .count(Count::Rust)
            .run("cargo test --quiet --locked --manifest-path conformance/rust/Cargo.toml --target-dir conformance/rust/target"),
    ]
}

/// The client library's suite against a service. It also runs in memory, in the step `crates`.
fn client_suite(name: &'static str, title: &'static str) -> Step {
    Step::new(name, title)
        .after(&["client-build"])
        .on_one_processor()
        .count(Count::Rust)
        .variable(
            "TABLES_CONNECTION_STRING",
            "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;TableEndpoint={endpoint}",
        )
        .run("cargo test --quiet --locked --workspace --test suite")
}

fn client() -> Vec<Step> {
    const AZURITE: Server = Server {
        line: "azurite-table --tableHost 127.0.0.1 --tablePort {port} --inMemoryPersistence --silent --skipApiVersionCheck --disableTelemetry",
        announcement: "successfully started on ",
        is_checked: false,
    };
    vec![
        client_suite("client-embedded", "The client library, embedded engine").rowhouse(EMBEDDED),
        client_suite("client-postgres", "The client library, PostgreSQL")
            .database(Database::Postgres, POSTGRES)
            .rowhouse(ON_POSTGRES),
        client_suite("client-citus", "The client library, Citus").database(Database::Citus, CITUS).rowhouse(ON_CITUS),
        client_suite("client-emulator", "The client library, emulator")
            .needs(&[EMULATOR])
            .variable("TABLES_SERVER", "azurite")
            .server(AZURITE),
    ]
}

fn comparison() -> Step {
    Step::new("comparison", "Rowhouse and the emulator, measured with 100 entities")
        .needs(&[PYTHON, NODE, NPM])
        .after(&[PROGRAM, TEST_PROGRAMS])
        .install(Install::Npm("conformance/emulator"))
        .run("bench/comparison/test_run.sh {data} {program} {target}/debug/rowhouse-bench conformance/emulator/node_modules/.bin/azurite-table")
}

fn java() -> Vec<Step> {
    const TEST: &str = "mvn --quiet --batch-mode -Dstyle.color=never test";
    vec![
        // Maven's folder of downloads is not made for several processes.
        Step::new("java-fixture", "Test servers in Java")
            .needs(&[JDK, MAVEN])
            .after(&[PROGRAM])
            .lock("maven")
            .on_one_processor()
            .count(Count::Surefire("packages/java"))
            .run_in("packages/java", TEST),
        // The command from the page, unchanged, installs the package that the cases use.
        Step::new("java-client", "The Java clients, embedded engine")
            .needs(&[JDK, MAVEN])
            .lock("maven")
            .on_one_processor()
            .rowhouse(EMBEDDED)
            .count(Count::Surefire("conformance/java"))
            .shell_in(".", "$(grep '^mvn ' docs/testing-with-rowhouse.md) --quiet --batch-mode")
            .run_in("conformance/java", TEST),
        Step::new("encryption", "Encrypted entities between the client libraries, embedded engine")
            .needs(&[JDK, MAVEN, PYTHON, VENV])
            .after(&[TEST_PROGRAMS])
            .lock("maven")
            .on_one_processor()
            .install(LEGACY_2018)
            .rowhouse(EMBEDDED)
            .count(Count::Closing)
            .run_in(
                "conformance/encryption/java",
                "mvn --quiet --batch-mode -Dstyle.color=never dependency:build-classpath -Dmdep.outputFile=target/classpath",
            )
            .run("{python} conformance/encryption/check_gcm.py")
            .shell_in(
                ".",
                "{python} conformance/encryption/run.py --rust {target}/debug/examples/encryption_exchange --java \"$(cat conformance/encryption/java/target/classpath)\"",
            ),
    ]
}

fn fuzz() -> Step {
    Step::new("fuzz", "Every fuzz target, for FUZZ_SECONDS (3 by default)")
        .needs(&[CXX])
        .after(&["fuzz-build"])
        .on_one_processor()
        .count(Count::Fuzz)
        .shell_in(".", "scripts/fuzz.sh \"${FUZZ_SECONDS:-3}\"")
}
