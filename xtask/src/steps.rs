//! The table of all steps, in the order in which they start.

use crate::step::{BUILD, Count, Database, Install, JUNIT, Server, Step, Tier, Tool};

const fn tool(name: &'static str, hint: &'static str, probe: &'static str) -> Tool {
    Tool { name, hint, probe, is_required: true }
}

/// A tool that CI does not install.
const fn optional(name: &'static str, hint: &'static str, probe: &'static str) -> Tool {
    Tool { name, hint, probe, is_required: false }
}

const CARGO_DENY: Tool = tool("cargo-deny", "cargo install cargo-deny --locked", "command -v cargo-deny");
const PYTHON: Tool = tool("Python 3", "on Debian the package python3", "command -v python3");
const VENV: Tool =
    tool("Python's venv module", "on Debian the package python3-venv", "python3 -c 'import ensurepip, venv'");
const NODE: Tool = tool("Node.js", "on Debian the package nodejs", "command -v node");
const NPM: Tool = tool("npm", "on Debian the package npm", "command -v npm");
const CHROMIUM: Tool = tool(
    "Chromium",
    "on Debian the package chromium-headless-shell",
    "command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome",
);
const GO: Tool = tool(
    "Go 1.23",
    "on Debian the package golang-go; Go 1.21 downloads a later version",
    "version=$(cd conformance/go && go env GOVERSION) && printf '%s\\n' go1.23 \"$version\" | sort --version-sort --check=quiet",
);
const JDK: Tool = tool("a JDK", "on Debian the package default-jdk-headless", "command -v javac");
const MAVEN: Tool = tool("Maven", "on Debian the package maven", "command -v mvn");
const MONO: Tool = tool(
    "Mono with ADO.NET Data Services",
    "on Debian the packages mono-mcs, mono-runtime and libmono-system-data-services-client4.0-cil",
    "command -v mcs && command -v mono && test -e /usr/lib/mono/gac/System.Data.Services.Client",
);
const CXX: Tool = tool("a C++ compiler", "on Debian the package g++", "command -v c++");
const POSTGRES: Tool =
    tool("PostgreSQL", "on Debian the package postgresql", "source scripts/databases.bash && find_programs");
const CITUS: Tool = optional(
    "Citus",
    "an extension of PostgreSQL; CONTRIBUTING.md says how to get it",
    "source scripts/databases.bash && test -e \"$(\"$(find_programs)/pg_config\" --sharedir)/extension/citus.control\"",
);
const TARGET_WINDOWS: Tool = optional(
    "Rust for Windows",
    "rustup target add x86_64-pc-windows-gnu",
    "rustup target list --installed | grep -qx x86_64-pc-windows-gnu",
);
const TARGET_ARM: Tool = optional(
    "Rust for Linux on ARM",
    "rustup target add aarch64-unknown-linux-gnu",
    "rustup target list --installed | grep -qx aarch64-unknown-linux-gnu",
);
const CC_WINDOWS: Tool =
    tool("a C compiler for Windows", "on Debian the package gcc-mingw-w64-x86-64", "command -v x86_64-w64-mingw32-gcc");
const CC_ARM: Tool = tool(
    "a C compiler for Linux on ARM",
    "on Debian the packages gcc-aarch64-linux-gnu and libc6-dev-arm64-cross",
    "command -v aarch64-linux-gnu-gcc",
);
const DOTNET: Tool =
    optional("the .NET SDK 10", "in PATH, or in the folder ../shared/dotnet", "scripts/dotnet.sh check");
const RECORDINGS: Tool = optional(
    "recordings of the service",
    "in the folder ../shared/recordings",
    "test -e ../shared/recordings/replay.py",
);

const EMULATOR: Tool = optional("the emulator", "npm install --global azurite", "command -v azurite-table");

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

/// What reads the source packages of the current Python client, and its recordings of Azure Cosmos DB for Table.
const COSMOS: Install = Install::Python { home: ".venv-cosmos", requirements: "conformance/cosmos/requirements.txt" };

/// A server that imitates S3, and clients of both storage services.
const OBJECT_STORAGE: Install =
    Install::Python { home: ".venv-object-storage", requirements: "conformance/object_storage/requirements.txt" };

/// A lock for the steps that use Cargo's target folder, which would otherwise wait for each other.
const CARGO: &str = "cargo";

/// A lock for the steps that use Maven's folder of downloads, which is not made for several processes.
const MAVEN_DOWNLOADS: &str = "maven";

/// The step that builds the tests in .NET.
const DOTNET_BUILD: &str = "dotnet-build";

/// The step that builds the programs which only tests outside the gate use.
const TEST_PROGRAMS: &str = "test-programs";

const IN_MEMORY: &str = "{program} serve --listen 127.0.0.1:0 --in-memory";
const EMBEDDED: &str = "{program} serve --listen 127.0.0.1:0 --data {data}";
const ON_POSTGRES: &str = "{program} serve --listen 127.0.0.1:0 --store {store}";
const ON_CITUS: &str = "{program} serve --listen 127.0.0.1:0 --store {store} --distribute";

/// Returns all steps. A step stands below those that it uses.
pub(crate) fn all() -> Vec<Step> {
    let groups = [
        checks(),
        rust(),
        // Long steps for one processor start early. Otherwise, they would run alone at the end.
        java(),
        dotnet(),
        javascript(),
        python(),
        go(),
        mono(),
        client(),
        lints(),
        packages(),
        builds(),
    ];
    groups.into_iter().flatten().collect()
}

/// Checks that compile nothing at length.
fn checks() -> Vec<Step> {
    let check = |name, title| Step::new(name, title).tier(Tier::Quick);
    vec![
        check("format", "Formatting of the Rust and Go code")
            .needs(&[GO])
            .run("cargo fmt --all -- --check")
            .run("cargo fmt --manifest-path fuzz/Cargo.toml -- --check")
            .run("cargo fmt --manifest-path conformance/rust/Cargo.toml -- --check")
            .shell_in(".", "unformatted=$(git ls-files '*.go' | xargs gofmt -l); test -z \"$unformatted\" || { echo \"not formatted with gofmt: $unformatted\"; exit 1; }"),
        check("commits", "The subjects of commits").run("scripts/commits.sh"),
        check("explorer-unit", "The explorer and the npm packages: types, lints and unit tests")
            .needs(&[NODE, NPM])
            .install(Install::Npm("explorer/tests"))
            .count(JUNIT)
            .variable("CONCURRENCY", "2")
            .variable("CASES", "unit/*.test.js")
            .shell_in("explorer/tests", NODE_TESTS),
        check("structure", "Links, citations, and dependencies between crates, folders and files")
            .lock(CARGO)
            .count(Count::Rust)
            .run("cargo test --quiet --locked --package xtask"),
        check("prose", "The English of comments, messages, pages and commit subjects")
            .needs(&[GO])
            .run("scripts/prose.sh"),
        check("prose-rules", "The rules for prose and commit subjects refuse bad examples")
            .needs(&[GO])
            .after(&["prose"])
            .count(Count::Closing)
            .run("scripts/test_rules.sh"),
        check("docs-comparison", "docs/comparison.md matches its results")
            .needs(&[PYTHON])
            .count(Count::Closing)
            .run("bench/comparison/test_page.sh"),
        check("licences", "Licences, bans and sources of dependencies")
            .needs(&[CARGO_DENY])
            .run("cargo deny --locked --color never check licenses bans sources"),
    ]
}

/// Runs test programs from the list that the step `build` wrote.
fn test_programs(name: &'static str, title: &'static str, line: &'static str) -> Step {
    Step::new(name, title).after(&[BUILD]).count(Count::Closing).run(line)
}

fn rust() -> Vec<Step> {
    vec![
        Step::new(BUILD, "The server, and all tests in Rust")
            .on_whole_machine()
            .lock(CARGO)
            .count(Count::Nothing)
            // With all packages, Cargo enables the same features as `cargo test --workspace`, and compiles each
            // dependency once. This program would be replaced while it runs; the step `structure` runs its tests.
            .shell_in(".", "cargo test --locked --workspace --exclude xtask --no-run --message-format=json-render-diagnostics >'{target}/test-programs'"),
        test_programs(
            "program",
            "The tests of the built program",
            "{xtask} run-tests {target}/test-programs {results}/{name}.times --only rowhouse/it",
        ),
        test_programs(
            "crates",
            "The tests of all crates",
            "{xtask} run-tests {target}/test-programs {results}/{name}.times --except rowhouse/it",
        ),
    ]
}

/// Steps that compile while other steps wait for their clients.
fn lints() -> Vec<Step> {
    vec![
        Step::new("lints", "Lints of the Rust code")
            .after(&[BUILD])
            .lock(CARGO)
            .count(Count::Nothing)
            .run("cargo clippy --quiet --locked --workspace --all-targets -- -D warnings"),
        Step::new("doc-tests", "The examples in the documentation of the code")
            .after(&[BUILD])
            .lock(CARGO)
            .count(Count::Rust)
            // With --doc, Cargo ignores that a crate has `doctest = false`: the client tests the examples of its macro.
            .run("cargo test --quiet --locked --workspace --exclude rowhouse-client-derive --doc"),
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
        .install(packages)
        .rowhouse(line)
        .variable("TABLES_SERVER", "rowhouse")
        .variable("CASES", cases)
        .count(JUNIT)
        .shell_in(
            ".",
            "{python} -m pytest --quiet --color=no --maxfail=20 -p no:cacheprovider --junitxml={results}/{name}.xml $CASES",
        )
}

fn python() -> Vec<Step> {
    const CASES: &str = "conformance/python";
    /// What reaches the engine; the rest of a request is the same with every engine.
    const ENGINE_CASES: &str = "conformance/python/test_design_patterns.py conformance/python/test_upsert_merge.py \
                                conformance/python/test_query_tables.py conformance/python/test_batch_client.py \
                                conformance/python/test_acl.py conformance/python/test_service_properties.py";
    const ATOM: &str = "conformance/legacy_python/atom";
    const COSMOSDB: &str = "conformance/legacy_python/cosmosdb";
    let all = |step: Step| step.tier(Tier::All);
    vec![
        python_suite("python-embedded", "The Python client and raw HTTP, embedded engine", CASES, MODERN, EMBEDDED),
        Step::new("compatibility-table", "The table of features in docs/compatibility.md")
            .needs(&[PYTHON, VENV])
            .after(&["python-embedded"])
            .install(MODERN)
            .count(Count::Nothing)
            .run("{python} conformance/run.py --results {results}/python-embedded.xml --document docs/compatibility.md --column Rowhouse --check"),
        python_suite("python-memory", "What reaches the engine, in memory", ENGINE_CASES, MODERN, IN_MEMORY),
        python_suite("python-postgres", "What reaches the engine, PostgreSQL", ENGINE_CASES, MODERN, ON_POSTGRES)
            .database(Database::Postgres, POSTGRES),
        all(python_suite("python-all-memory", "The Python client and raw HTTP, in memory", CASES, MODERN, IN_MEMORY)),
        all(python_suite("python-all-postgres", "The Python client and raw HTTP, PostgreSQL", CASES, MODERN, ON_POSTGRES))
            .database(Database::Postgres, POSTGRES),
        all(python_suite("python-all-citus", "The Python client and raw HTTP, Citus", CASES, MODERN, ON_CITUS))
            .database(Database::Citus, CITUS),
        all(python_suite("legacy-python-2012", "The Python client of 2012, embedded engine", ATOM, LEGACY_2012, EMBEDDED)),
        all(python_suite("legacy-python-2014", "The Python client of 2014, embedded engine", ATOM, LEGACY_2014, EMBEDDED)),
        all(python_suite("legacy-python-2018", "The Python client of 2018, embedded engine", COSMOSDB, LEGACY_2018, EMBEDDED)),
        Step::new("object-storage", "Backups in S3-compatible storage and in Azure Blob storage")
            .needs(&[PYTHON, VENV, NODE, NPM])
            .after(&[BUILD])
            .install(OBJECT_STORAGE)
            .install(Install::Npm("conformance/emulator"))
            .variable("ROWHOUSE_BINARY", "{program}")
            .variable("AZURITE_BLOB", "conformance/emulator/node_modules/.bin/azurite-blob")
            .count(JUNIT)
            .run("{python} -m pytest --quiet --color=no -p no:cacheprovider --junitxml={results}/{name}.xml conformance/object_storage"),
        replay("recordings-memory", "Recorded exchanges, in memory", IN_MEMORY),
        replay("recordings-postgres", "Recorded exchanges, PostgreSQL", ON_POSTGRES)
            .tier(Tier::All)
            .database(Database::Postgres, POSTGRES),
        replay("recordings-citus", "Recorded exchanges, Citus", ON_CITUS)
            .tier(Tier::All)
            .database(Database::Citus, CITUS),
        Step::new("recordings-cosmos", "Recorded exchanges of Azure Cosmos DB for Table, in memory")
            .needs(&[PYTHON, VENV])
            .install(COSMOS)
            .rowhouse("{program} serve --service cosmos --listen 127.0.0.1:0 --in-memory")
            .count(Count::Closing)
            .run("{python} conformance/cosmos/replay.py {endpoint} {target}/cosmos"),
        Step::new("suites-cosmos", "The Python client's suites for Azure Cosmos DB for Table, in memory")
            .needs(&[PYTHON, VENV])
            .install(COSMOS)
            .rowhouse("{program} serve --service cosmos --domain table.cosmos.azure.com --listen 127.0.0.1:0 --in-memory")
            .count(Count::Closing)
            .run("{python} conformance/cosmos/run_suites.py {target}/cosmos"),
    ]
}

fn replay(name: &'static str, title: &'static str, line: &'static str) -> Step {
    Step::new(name, title)
        .needs(&[RECORDINGS, PYTHON, VENV])
        .install(MODERN)
        .rowhouse(line)
        .count(Count::Closing)
        .run("{python} scripts/replay_recordings.py {endpoint} ../shared/recordings")
}

/// Runs Node.js's tests in the current folder. `CONCURRENCY` is the number of files that run at a time, and `CASES`
/// selects files.
const NODE_TESTS: &str = "node --test ${CONCURRENCY:+--test-concurrency=$CONCURRENCY} \
                          --test-reporter=spec --test-reporter-destination=stdout \
                          --test-reporter=junit --test-reporter-destination='{results}/{name}.xml' ${CASES:-}";

fn node_suite(name: &'static str, title: &'static str, folder: &'static str) -> Step {
    Step::new(name, title).needs(&[NODE, NPM]).install(Install::Npm(folder)).count(JUNIT)
}

/// A folder of JavaScript cases that run against one server.
fn javascript_suite(name: &'static str, title: &'static str, folder: &'static str, line: &'static str) -> Step {
    node_suite(name, title, folder).rowhouse(line).shell_in(folder, NODE_TESTS)
}

fn javascript() -> Vec<Step> {
    // With path-style URLs, the client requests statistics from the primary endpoint.
    const EMBEDDED_STATS: &str = "{program} serve --listen 127.0.0.1:0 --data {data} --stats-on-primary";
    const POSTGRES_STATS: &str = "{program} serve --listen 127.0.0.1:0 --store {store} --stats-on-primary";
    const CLIENT: &str = "conformance/javascript";
    const PROGRAMS: &str = "conformance/programs";
    vec![
        // Each case of the following two starts its own server.
        node_suite("explorer", "The explorer in Chromium", "explorer/tests")
            .needs(&[CHROMIUM, PYTHON, VENV])
            .after(&[BUILD])
            .install(MODERN)
            .variable("EXPLORER_PYTHON", "{python}")
            .variable("CONCURRENCY", "2")
            .variable("CASES", "cases/*.test.js")
            .shell_in("explorer/tests", NODE_TESTS),
        node_suite(
            "emulator-replacement",
            "The emulator's command lines, and JavaScript clients of all three services",
            "conformance/emulator",
        )
        .after(&[BUILD])
        .variable("CONCURRENCY", "2")
        .shell_in("conformance/emulator", NODE_TESTS),
        javascript_suite("javascript-embedded", "The JavaScript client, embedded engine", CLIENT, EMBEDDED_STATS),
        javascript_suite("javascript-postgres", "The JavaScript client, PostgreSQL", CLIENT, POSTGRES_STATS)
            .tier(Tier::All)
            .database(Database::Postgres, POSTGRES),
        javascript_suite(
            "legacy-javascript",
            "The legacy JavaScript clients, embedded engine",
            "conformance/legacy_javascript",
            EMBEDDED,
        )
        .tier(Tier::All),
        javascript_suite(
            "programs-embedded",
            "Programs that keep their state in tables, embedded engine",
            PROGRAMS,
            EMBEDDED,
        ),
        javascript_suite(
            "programs-postgres",
            "Programs that keep their state in tables, PostgreSQL",
            PROGRAMS,
            ON_POSTGRES,
        )
        .tier(Tier::All)
        .database(Database::Postgres, POSTGRES),
        javascript_suite(
            "browser",
            "The JavaScript client on a page in Chromium, embedded engine",
            "conformance/browser",
            EMBEDDED,
        )
        .needs(&[CHROMIUM]),
    ]
}

fn packages() -> Vec<Step> {
    vec![
        Step::new("fixtures", "The test fixtures for Python and JavaScript")
            .after(&[BUILD])
            .count(Count::Closing)
            .run("scripts/test_fixtures.sh {program}"),
        Step::new("packages", "The packages for npm, pip, Debian and Cargo, from a release build")
            .on_whole_machine()
            .tier(Tier::All)
            .count(Count::Closing)
            .run("cargo build --quiet --release --locked --package rowhouse-tables")
            .run("scripts/test_packages.sh {target}/release/rowhouse")
            .after(&[BUILD]),
        // The packages are packed together, so that none of them needs to be in a registry. The client's packages are
        // built from the packed files. The server's crates are built from the same files in other steps.
        Step::new("crate-packages", "The packages of the client library and of the test server")
            .on_whole_machine()
            .tier(Tier::All)
            .count(Count::Closing)
            .run("scripts/test_crates.sh packages"),
    ]
}

/// A folder of Go cases.
fn go_suite(name: &'static str, title: &'static str, folder: &'static str) -> Step {
    Step::new(name, title)
        .needs(&[GO])
        .after(&[BUILD])
        .count(Count::Go)
        .run_in(folder, "go vet ./...")
        // Without -count=1, Go reuses the result of an earlier run with the same files and environment.
        .run_in(folder, "go test -count=1 -v ./...")
}

fn go() -> Vec<Step> {
    vec![
        // Compiling Helm and kustomize takes two minutes of processor time.
        Step::new("helm", "The Helm chart, compared with what kustomize builds")
            .tier(Tier::All)
            .needs(&[GO])
            .count(Count::Go)
            .run_in("deploy/tests", "go vet ./...")
            .run_in("deploy/tests", "go test -count=1 -v ./..."),
        go_suite("go-fixture", "Test servers in Go", "packages/go"),
        go_suite("go-client", "The Go client, embedded engine", "conformance/go").rowhouse(EMBEDDED),
        go_suite("legacy-go", "The legacy Go clients, embedded engine", "conformance/legacy_go")
            .tier(Tier::All)
            .rowhouse(EMBEDDED),
    ]
}

fn mono() -> Vec<Step> {
    vec![
        Step::new("mono", "The programs of the papers of 2009 and 2011 in C#, embedded engine")
            .tier(Tier::All)
            .needs(&[MONO])
            .rowhouse(EMBEDDED)
            .count(Count::Closing)
            .shell_in(
                "conformance/mono",
                "mcs -langversion:latest -warnaserror -out:'{target}/papers.exe' -r:System.Data.Services.Client -r:System.Xml.Linq *.cs",
            )
            .run("mono {target}/papers.exe"),
    ]
}

/// The client library's suite against a service. It also runs in memory, in the step `crates`.
fn client_suite(name: &'static str, title: &'static str) -> Step {
    test_programs(
        name,
        title,
        "{xtask} run-tests {target}/test-programs {results}/{name}.times --only client/suite",
    )
    .variable(
        "TABLES_CONNECTION_STRING",
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;TableEndpoint={endpoint}",
    )
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
        client_suite("client-citus", "The client library, Citus")
            .tier(Tier::All)
            .database(Database::Citus, CITUS)
            .rowhouse(ON_CITUS),
        client_suite("client-emulator", "The client library, emulator")
            .tier(Tier::All)
            .needs(&[EMULATOR])
            .variable("TABLES_SERVER", "azurite")
            .server(AZURITE),
    ]
}

fn java() -> Vec<Step> {
    const TEST: &str = "mvn --quiet --batch-mode -Dstyle.color=never test";
    vec![
        Step::new("java-fixture", "Test servers in Java")
            .needs(&[JDK, MAVEN])
            .after(&[BUILD])
            .lock(MAVEN_DOWNLOADS)
            .count(Count::Junit("packages/java/target/surefire-reports"))
            .run_in("packages/java", TEST),
        // The command from the page, unchanged, installs the package that the cases use.
        Step::new("java-client", "The Java clients, embedded engine")
            .needs(&[JDK, MAVEN])
            .lock(MAVEN_DOWNLOADS)
            .rowhouse(EMBEDDED)
            .count(Count::Junit("conformance/java/target/surefire-reports"))
            .shell_in(".", "$(grep '^mvn ' docs/testing-with-rowhouse.md) --quiet --batch-mode")
            .run_in("conformance/java", TEST),
        Step::new("encryption", "Encrypted entities between the client libraries, embedded engine")
            .needs(&[JDK, MAVEN, PYTHON, VENV])
            .after(&[BUILD])
            .lock(MAVEN_DOWNLOADS)
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

/// The namespace `Conformance.GROUP` of `conformance/dotnet`, whose tests start their own servers.
fn dotnet_suite(name: &'static str, title: &'static str, group: &'static str) -> Step {
    Step::new(name, title)
        .needs(&[DOTNET])
        .after(&[BUILD, DOTNET_BUILD])
        .variable("GROUP", group)
        .count(JUNIT)
        // The runner of the tests changes the current folder.
        .shell_in(".", "AZURITE=$PWD/conformance/emulator/node_modules/.bin/azurite scripts/dotnet.sh exec conformance/dotnet/bin/Release/net10.0/Conformance.dll -noLogo -noColor -namespace \"Conformance.$GROUP\" -jUnit '{results}/{name}.xml'")
}

fn dotnet() -> Vec<Step> {
    vec![
        Step::new(DOTNET_BUILD, "The tests in .NET")
            .needs(&[DOTNET])
            .count(Count::Nothing)
            // The tests use the package as others do.
            .run("scripts/dotnet.sh pack packages/dotnet/Rowhouse.Testing target/nuget")
            .run("scripts/dotnet.sh build conformance/dotnet"),
        dotnet_suite("dotnet-durable-task", "Durable Task, with its history in tables", "DurableTask")
            .needs(&[NODE, NPM])
            .install(Install::Npm("conformance/emulator")),
        dotnet_suite("dotnet-orleans", "Orleans, with its members, state and reminders in tables", "Orleans"),
        dotnet_suite("dotnet-tables", "The .NET client", "Tables"),
        dotnet_suite("dotnet-storage", "The retired .NET client", "Storage"),
        dotnet_suite("dotnet-fixture", "Test servers in .NET", "Testing"),
        dotnet_suite("dotnet-documents", "The .NET snippets of the documentation", "Documents"),
    ]
}

/// Steps that compile the workspace in other ways, and what they are needed for.
fn builds() -> Vec<Step> {
    let build = |name, title| Step::new(name, title).tier(Tier::All).on_whole_machine();
    vec![
        // With --target, the flags do not apply to build scripts and macros, so these are not compiled again.
        build("platform-windows", "The build for Windows")
            .needs(&[TARGET_WINDOWS, CC_WINDOWS])
            .variable("RUSTFLAGS", "-D warnings")
            .run("cargo check --quiet --locked --target x86_64-pc-windows-gnu --package rowhouse-tables --package rowhouse-testing"),
        build("platform-arm", "The build for Linux on ARM")
            .needs(&[TARGET_ARM, CC_ARM])
            .variable("RUSTFLAGS", "-D warnings")
            .run("cargo check --quiet --locked --target aarch64-unknown-linux-gnu --package rowhouse-tables --package rowhouse-testing"),
        build("features", "The features of the client library, one at a time, and the server without its features")
            .count(Count::Closing)
            .run("scripts/test_crates.sh features"),
        build("docs-site", "The documentation as a site")
            .needs(&[PYTHON])
            .run("scripts/docs.sh"),
        // With the tests of all packages, Cargo enables the same features as for the step `build`.
        build(TEST_PROGRAMS, "The programs that only tests use")
            .count(Count::Nothing)
            .run("cargo build --quiet --locked --workspace --exclude xtask --tests --bin rowhouse-history --bin rowhouse-bench"),
        Step::new("history-judge", "Sample histories, judged by the checker and by an independent judge")
            .tier(Tier::All)
            .needs(&[GO])
            .after(&[BUILD, TEST_PROGRAMS])
            .run("{target}/debug/rowhouse-history simulate {data} 1000")
            .run_in("history/porcupine", "go vet ./...")
            .run_in("history/porcupine", "go run . {data}"),
        build("comparison", "Rowhouse and the emulator, measured with 100 entities")
            .needs(&[PYTHON, NODE, NPM])
            .after(&[BUILD, TEST_PROGRAMS])
            .install(Install::Npm("conformance/emulator"))
            .run("bench/comparison/test_run.sh {data} {program} {target}/debug/rowhouse-bench conformance/emulator/node_modules/.bin/azurite-table"),
        build("rust-client", "The Rust client of the service, embedded engine")
            .rowhouse(EMBEDDED)
            .count(Count::Rust)
            .run("cargo test --quiet --locked --manifest-path conformance/rust/Cargo.toml --target-dir conformance/rust/target"),
        build("fuzz", "Every fuzz target, for FUZZ_SECONDS (3 by default)")
            .needs(&[CXX, PYTHON])
            .count(Count::Closing)
            .shell_in(".", "scripts/fuzz.sh \"${FUZZ_SECONDS:-3}\""),
    ]
}
