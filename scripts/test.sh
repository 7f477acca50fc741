#!/usr/bin/env bash
# Runs every check and every test of the repository, from the format check to the real client libraries.
#
# usage: scripts/test.sh [--with-citus]
#
# Stops at the first step that fails. The last line of the output counts the tests. If the tool for a step is not
# installed (cargo-deny, Python, Node.js, Chromium, Go, Java with Maven, PostgreSQL, a C++ compiler, C compilers for
# other platforms), the step is reported as skipped; with CI=true, this is a failure. FUZZ_SECONDS is the time for each
# fuzz target (default: 3).
#
# --with-citus  also runs the cases on a Citus cluster, if PostgreSQL has the extension; without the extension, nothing
#               counts as skipped, because distributions do not package it
set -euo pipefail

with_citus=false
case "$*" in
    '') ;;
    --with-citus) with_citus=true ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
        if [ "$*" = --help ]; then exit 0; fi
        exit 2
        ;;
esac
cd "$(dirname "$0")/.."
root=$PWD
export CARGO_TERM_COLOR=never PYTHONDONTWRITEBYTECODE=1
# Servers and suites run with their defaults, whatever the caller's environment contains.
unset TABLES_ENDPOINT TABLES_ACCOUNT TABLES_KEY TABLES_SERVER TABLES_CONNECTION_STRING
for name in $(compgen -e ROWHOUSE_ || true); do unset "$name"; done
# The tests of the crates read this variable.
unset WITH_CITUS
if [ "$with_citus" = true ]; then export WITH_CITUS=1; fi

passed=0 failed=0 skipped=0
scratch=$(mktemp -d)
server_pid=
postgres_pid= database= postgres_programs=
citus_pid= citus_workers=
step= step_started=0

# ---- steps -----------------------------------------------------------------------------------------------------------

begin() {
    finish
    step=$1 step_started=$SECONDS
    printf '\n== %s\n' "$step"
}

finish() {
    if [ -n "$step" ]; then
        printf -- '-- %s: %d s\n' "$step" $((SECONDS - step_started))
        step=
    fi
}

# In CI, a missing tool is an error.
skip() {
    if [ "${CI:-}" = true ]; then
        echo "missing: $1"
        exit 1
    fi
    echo "SKIPPED, because this is missing: $1"
    skipped=$((skipped + 1))
}

has() { command -v "$1" >/dev/null 2>&1; }

# Runs on every exit: stops the servers and prints the count.
close() {
    local status=$?
    stop_server
    for script in $postgres_pid $citus_pid; do
        kill "$script" 2>/dev/null || true
        wait "$script" 2>/dev/null || true
    done
    rm -rf "$scratch"
    if [ "$status" -ne 0 ]; then
        printf '\nFAILED in: %s\n' "${step:-the beginning}"
        if [ "$failed" -eq 0 ]; then failed=1; fi
    fi
    finish
    echo
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    exit "$status"
}
trap close EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the sum of the numbers that the first group of a regular expression matches in the lines of a file.
count() { sed -nE "s/$2/\1/p" "$1" | awk '{ sum += $1 } END { print sum + 0 }'; }

# ---- a server --------------------------------------------------------------------------------------------------------

# Starts a server on a free port and sets `endpoint` once it is ready.
start_server() {
    local line=
    rm -f "$scratch/ready"
    mkfifo "$scratch/ready"
    "$server" serve --listen 127.0.0.1:0 "$@" >"$scratch/ready" 2>"$scratch/server.log" 3<&- 4>&- 5<&- 6>&- 7<&- &
    server_pid=$!
    # The descriptor stays open, so that the server can write more lines.
    exec 3<"$scratch/ready"
    IFS= read -r -t 60 line <&3 || true
    case $line in
        "listening on "*) endpoint="${line#listening on }/devstoreaccount1" ;;
        *)
            cat "$scratch/server.log"
            echo "the server did not start"
            exit 1
            ;;
    esac
}

# Ignores the server's exit code.
stop_server() {
    if [ -n "$server_pid" ]; then
        kill "$server_pid" 2>/dev/null || true
        wait "$server_pid" 2>/dev/null || true
        server_pid=
    fi
}

# At the end of a suite, the server must exit with 0 and must not have logged an error.
end_server() {
    local pid=$server_pid status=0
    server_pid=
    kill "$pid"
    wait "$pid" || status=$?
    exec 3<&-
    if [ "$status" -ne 0 ] || grep -qE 'panicked|ERROR' "$scratch/server.log"; then
        tail -n 50 "$scratch/server.log"
        echo "the server logged an error or failed (exit code $status)"
        exit 1
    fi
}

# ---- a database ------------------------------------------------------------------------------------------------------

# PostgreSQL stops when this script exits. Sets `database` to the URL. Fails if PostgreSQL is not installed.
start_postgres() {
    database=
    mkfifo "$scratch/postgres.in" "$scratch/postgres.out"
    scripts/postgres.sh <"$scratch/postgres.in" >"$scratch/postgres.out" 3<&- &
    postgres_pid=$!
    exec 4>"$scratch/postgres.in" 5<"$scratch/postgres.out"
    read -r -t 120 database postgres_programs _ <&5 || true
    [ -n "$database" ]
}

# Sets `store` to the URL of a new database with the given name, or to an empty string if PostgreSQL is not installed.
new_store() {
    store=
    if [ -z "$database" ]; then
        echo "PostgreSQL is not installed; see above"
        return
    fi
    store=${database%/*}/$1
    "$postgres_programs/psql" --no-psqlrc -q "$database" -c "CREATE DATABASE $1"
}

# The cluster stops when this script exits. Fails if the extension is not installed.
start_citus() {
    local line=
    mkfifo "$scratch/citus.in" "$scratch/citus.out"
    scripts/citus.sh 2 <"$scratch/citus.in" >"$scratch/citus.out" 3<&- 4>&- 5<&- &
    citus_pid=$!
    exec 6>"$scratch/citus.in" 7<"$scratch/citus.out"
    read -r -t 120 line <&7 || true
    [ -n "$line" ] || return 1
    # The third word describes the coordinator, and the rest the workers. Each is an address and a process ID.
    citus_workers=$(cut -d ' ' -f 4- <<<"$line" | sed 's/=[0-9]*//g; s/ /,/g')
}

# Sets `store` to the URL of a new database with the given name on the Citus workers, or to an empty string without
# Citus.
new_citus_store() {
    local line=
    store=
    if [ -z "$citus_workers" ]; then
        echo "Citus is not installed; see above"
        return
    fi
    echo "database $1" >&6
    read -r -t 120 line <&7
    store="postgres://rowhouse@$citus_workers/$1?load_balance_hosts=random"
}

# ---- Rust ------------------------------------------------------------------------------------------------------------

begin "format"
cargo fmt --all -- --check
cargo fmt --manifest-path fuzz/Cargo.toml -- --check
cargo fmt --manifest-path conformance/rust/Cargo.toml -- --check

begin "commit subjects"
scripts/commits.sh
mkdir -p "$scratch/history/scripts"
cp scripts/commits.sh "$scratch/history/scripts"
git init --quiet "$scratch/history"
for subject in "Added a rule" "A rule is there" "Add a rule." "Add a rule that no client can read in a list, since its subject is too long"; do
    git -C "$scratch/history" -c user.name=test -c user.email=test@example.com commit --quiet --allow-empty -m "$subject"
    if "$scratch/history/scripts/commits.sh" -1 >/dev/null; then echo "accepted as a subject: $subject"; exit 1; fi
done
passed=$((passed + 5))

begin "prose"
if has go; then
    scripts/prose.sh
    # The word is in two pieces, so that the rules do not find it here.
    echo "// The loop begins a""new." >"$scratch/phrases.rs"
    if scripts/prose.sh "$scratch/phrases.rs" >/dev/null; then echo "the rules found nothing in a bad sentence"; exit 1; fi
    passed=$((passed + 2))
else
    skip "Go, to build Vale, which checks the prose"
fi

begin "documentation as a site"
if has python3; then
    scripts/docs.sh
    passed=$((passed + 1))
else
    skip "python3"
fi

begin "lints"
cargo clippy --quiet --locked --workspace --all-targets -- -D warnings

begin "oldest supported version of Rust"
oldest=$(sed -nE 's/^rust-version = "(.*)"$/\1/p' Cargo.toml)
if has rustup && rustup run "$oldest" cargo --version >/dev/null 2>&1; then
    CARGO_TARGET_DIR=$root/target/oldest cargo "+$oldest" check --quiet --locked --workspace --all-features
    passed=$((passed + 1))
else
    echo "Rust $oldest is not installed (rustup toolchain install $oldest), so the build with it is skipped"
fi

begin "other platforms"
# Compiles the packages for a different platform. .ci/run installs the C compilers and, where possible, the targets.
check_platform() {
    local target=$1 compiler=$2 package=$3
    if ! has rustup || ! rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        echo "the target is not installed (rustup target add $target), so the check for $target is skipped"
    elif ! has "$compiler"; then
        skip "$compiler (on Debian the package $package), to compile for $target"
    else
        # Debug information is omitted to save space. Both targets share one folder, so that host crates are compiled
        # once.
        CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$root/target/platforms RUSTFLAGS="-D warnings" \
            cargo check --quiet --locked --target "$target" --package rowhouse-tables --package rowhouse-testing
        passed=$((passed + 1))
    fi
}
check_platform x86_64-pc-windows-gnu x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
check_platform aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu with libc6-dev-arm64-cross"

begin "licences, bans and sources of dependencies"
if has cargo-deny; then
    cargo deny --locked --color never check licenses bans sources
else
    skip "cargo-deny (cargo install cargo-deny --locked)"
fi

begin "tests of the crates"
for program in groff systemd-analyze strace kubectl zsh fish promtool; do
    has "$program" || echo "$program is not installed, so the tests skip the checks that need it"
done
status=0
cargo test --quiet --locked --workspace --no-fail-fast 2>&1 | tee "$scratch/rust.log" || status=$?
passed=$((passed + $(count "$scratch/rust.log" '^test result: .* ([0-9]+) passed; .*')))
failed=$((failed + $(count "$scratch/rust.log" '^test result: .* ([0-9]+) failed; .*')))
skipped=$((skipped + $(count "$scratch/rust.log" '^test result: .* ([0-9]+) ignored; .*')))
[ "$status" -eq 0 ]

begin "features of the client library, one at a time"
# Build each package separately, as external programs do. Otherwise, other workspace crates would enable features of
# shared dependencies.
for feature in "" $(sed -nE '/^\[features\]/,/^\[dep/s/^([a-z0-9_]+) = .*/\1/p' client/Cargo.toml); do
    cargo clippy --quiet --locked --package rowhouse-client --no-default-features --features "$feature" -- -D warnings
    passed=$((passed + 1))
done

begin "the server and the test server without their features"
for package in rowhouse-server rowhouse-testing; do
    cargo clippy --quiet --locked --package "$package" --no-default-features -- -D warnings
    passed=$((passed + 1))
done

begin "packages of the client library and of the test server"
# The packages are packed together, so that none of them needs to be in a registry. The client packages are then built
# from the packed files. Other steps build the server's crates from the same files.
client_packages=(rowhouse-client rowhouse-client-derive rowhouse-model rowhouse-wire)
cargo package --quiet --locked --allow-dirty "${client_packages[@]/#/--package=}"
server_packages=(rowhouse-testing rowhouse-server rowhouse-explorer rowhouse-engine rowhouse-engine-embedded rowhouse-platform)
cargo package --quiet --locked --allow-dirty --no-verify "${client_packages[@]/#/--package=}" "${server_packages[@]/#/--package=}"
passed=$((passed + 2))

begin "release build of the server"
cargo build --quiet --release --locked --package rowhouse-tables
server=$(realpath "${CARGO_TARGET_DIR:-$root/target}/release/rowhouse")

# ---- Python ----------------------------------------------------------------------------------------------------------

# Sets `python` to the interpreter of a virtual environment with the given requirements. Creates the environment if
# necessary. Clients of different ages need different versions of the same packages, so each client has its own
# environment.
python_environment() {
    local requirements=$1 home=$root/$2
    python=
    if ! has python3; then
        skip "python3, for the cases that need $requirements"
    elif cmp -s "$requirements" "$home/requirements.txt"; then
        python=$home/bin/python
    elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        skip "Python's venv module (on Debian the package python3-venv), for the cases that need $requirements"
    else
        python3 -m venv --clear "$home"
        "$home/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --requirement "$requirements"
        cp "$requirements" "$home/requirements.txt"
        python=$home/bin/python
    fi
}

# Starts a new server with the given options. Writes the results to a file named after the step. An expected failure
# counts as skipped.
python_cases() {
    local status=0 log=$scratch/python.log cases=$1
    shift
    start_server "$@"
    ROWHOUSE_BINARY=$server TABLES_SERVER=rowhouse TABLES_ENDPOINT=$endpoint "$python" -m pytest --quiet --color=no --maxfail=20 -p no:cacheprovider \
        --junitxml="$scratch/$step.xml" "$cases" >"$log" 2>&1 || status=$?
    tail -n 1 "$log" | tr ',' '\n' >"$scratch/python.count"
    passed=$((passed + $(count "$scratch/python.count" '^[= ]*([0-9]+) passed.*')))
    failed=$((failed + $(count "$scratch/python.count" '^[= ]*([0-9]+) (failed|error|xpassed).*')))
    skipped=$((skipped + $(count "$scratch/python.count" '^[= ]*([0-9]+) (skipped|xfailed).*')))
    if [ "$status" -eq 0 ]; then tail -n 1 "$log"; else cat "$log"; fi
    [ "$status" -eq 0 ]
    end_server
}

begin "Python environment"
python_environment conformance/python/requirements.txt .venv

if [ -n "$python" ]; then
    begin "Python client and raw HTTP, in memory"
    python_cases conformance/python --in-memory

    begin "Python client and raw HTTP, embedded engine"
    python_cases conformance/python --data "$scratch/data"

    begin "Python client and raw HTTP, PostgreSQL"
    if start_postgres; then
        python_cases conformance/python --store "$database"
    else
        skip "PostgreSQL (on Debian the package postgresql), for the cases on a database"
    fi

    if [ "$with_citus" = true ]; then
        begin "Python client and raw HTTP, Citus"
        if start_citus; then
            new_citus_store python
            python_cases conformance/python --store "$store" --distribute
        else
            echo "Citus is not installed, so the cases on Citus are skipped"
        fi
    fi

    begin "table of features in docs/compatibility.md"
    "$python" conformance/run.py --results "$scratch/Python client and raw HTTP, "*.xml --document docs/compatibility.md \
        --column Rowhouse --check
fi

# ---- recorded exchanges ----------------------------------------------------------------------------------------------

recordings=$root/../shared/recordings

replay() {
    local status=0 as_expected runs
    start_server "$@"
    "$python" scripts/replay_recordings.py "$endpoint" "$recordings" | tee "$scratch/replay.log" || status=$?
    as_expected=$(count "$scratch/replay.log" '^runs as expected: ([0-9]+) of .*')
    runs=$(count "$scratch/replay.log" '^runs as expected: .* of ([0-9]+)$')
    passed=$((passed + as_expected)) failed=$((failed + runs - as_expected))
    [ "$status" -eq 0 ]
    end_server
}

begin "recorded exchanges"
if [ ! -d "$recordings" ]; then
    echo "the folder ../shared/recordings does not exist, so the replay is skipped"
elif [ -n "$python" ]; then
    replay --in-memory
    begin "recorded exchanges, PostgreSQL"
    new_store recordings
    if [ -n "$store" ]; then replay --store "$store"; fi
    if [ "$with_citus" = true ]; then
        begin "recorded exchanges, Citus"
        new_citus_store recordings
        if [ -n "$store" ]; then replay --store "$store" --distribute; fi
    fi
fi

# ---- legacy Python ---------------------------------------------------------------------------------------------------

legacy=conformance/legacy_python
for client in "atom 2012" "atom 2014" "cosmosdb 2018"; do
    read -r cases year <<<"$client"
    begin "legacy Python client of $year, embedded engine"
    python_environment "$legacy/$cases/requirements-$year.txt" ".venv-legacy-$year"
    if [ -n "$python" ]; then python_cases "$legacy/$cases" --data "$scratch/data-legacy-$year"; fi
done

# ---- JavaScript ------------------------------------------------------------------------------------------------------

# Sets `installed` if the packages are installed afterwards.
javascript_packages() {
    local folder=$1
    installed=
    if ! has node || ! has npm; then
        skip "node and npm, for the cases of $folder"
        return
    fi
    if ! cmp -s "$folder/package-lock.json" "$folder/node_modules/installed-lock.json"; then
        (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error)
        cp "$folder/package-lock.json" "$folder/node_modules/installed-lock.json"
    fi
    installed=true
}

# The options are for the test runner. The packages must be installed.
run_javascript() {
    local status=0 log=$scratch/javascript.log folder=$1
    shift
    (cd "$folder" && ROWHOUSE_BINARY=$server TABLES_ENDPOINT=${endpoint:-} node --test --test-reporter=tap "$@") >"$log" 2>&1 || status=$?
    passed=$((passed + $(count "$log" '^# pass ([0-9]+)$')))
    failed=$((failed + $(count "$log" '^# fail ([0-9]+)$') + $(count "$log" '^# cancelled ([0-9]+)$')))
    skipped=$((skipped + $(count "$log" '^# skipped ([0-9]+)$') + $(count "$log" '^# todo ([0-9]+)$')))
    if [ "$status" -ne 0 ]; then sed -n '/^not ok/,/^  \.\.\.$/p' "$log" | head -n 200; fi
    echo "$(count "$log" '^# pass ([0-9]+)$') cases passed"
    [ "$status" -eq 0 ]
}

javascript_cases() {
    local folder=$1
    shift
    javascript_packages "$folder"
    if [ -n "$installed" ]; then
        start_server "$@"
        run_javascript "$folder"
        end_server
    fi
}

begin "JavaScript client, embedded engine"
# With path-style URLs, the client requests statistics from the primary endpoint.
javascript_cases conformance/javascript --data "$scratch/data-javascript" --stats-on-primary

begin "JavaScript client, PostgreSQL"
new_store javascript
if [ -n "$store" ]; then javascript_cases conformance/javascript --store "$store" --stats-on-primary; fi

begin "legacy JavaScript clients, embedded engine"
javascript_cases conformance/legacy_javascript --data "$scratch/data-legacy-javascript"

# Sets `chromium` if a browser is installed; otherwise skips the current step.
find_chromium() {
    chromium=
    if has chromium || has chromium-browser || has google-chrome; then
        chromium=true
    else
        skip "Chromium (on Debian the package chromium), for the cases in a browser"
    fi
}

begin "drop-in replacement for the emulator: command lines of tools, and JavaScript clients of all three services"
javascript_packages conformance/emulator
# Each case starts its own server.
if [ -n "$installed" ]; then run_javascript conformance/emulator --test-concurrency=2; fi

begin "JavaScript client on a page in Chromium, embedded engine"
find_chromium
if [ -n "$chromium" ]; then javascript_cases conformance/browser --data "$scratch/data-browser"; fi

begin "explorer: types, unit tests, and cases in Chromium"
find_chromium
if [ -n "$chromium" ]; then
    javascript_packages explorer/tests
    # Each case starts its own server. Only two files run at a time, because each starts a browser.
    explorer_python=$root/.venv/bin/python
    if [ ! -x "$explorer_python" ]; then explorer_python=python3; fi
    if [ -n "$installed" ]; then EXPLORER_PYTHON=$explorer_python run_javascript explorer/tests --test-concurrency=2; fi
fi

begin "programs that keep their state in tables, embedded engine"
javascript_cases conformance/programs --data "$scratch/data-programs"

begin "programs that keep their state in tables, PostgreSQL"
new_store programs
if [ -n "$store" ]; then javascript_cases conformance/programs --store "$store"; fi

# ---- packages --------------------------------------------------------------------------------------------------------

# Runs a test script on the program, and adds the counts from the last line of its output.
test_program() {
    local status=0 log=$scratch/packages.log
    "$1" "$server" 2>&1 | tee "$log" || status=$?
    passed=$((passed + $(count "$log" '^([0-9]+) passed, [0-9]+ failed.*')))
    failed=$((failed + $(count "$log" '^[0-9]+ passed, ([0-9]+) failed.*')))
    skipped=$((skipped + $(count "$log" '^[0-9]+ passed, [0-9]+ failed, ([0-9]+) skipped$')))
    [ "$status" -eq 0 ]
}

begin "packages for npm, pip, Debian and cargo"
test_program scripts/test_packages.sh

begin "test fixtures for Python and JavaScript"
test_program scripts/test_fixtures.sh

# ---- Go --------------------------------------------------------------------------------------------------------------

# The oldest version of Go that can build the clients. Since Go 1.21, the go command downloads the version that it
# needs.
go_oldest=1.23

run_go() {
    local status=0 log=$scratch/go.log folder=$1 version=
    if has go; then version=$(cd "$folder" && go env GOVERSION 2>/dev/null || cd / && go env GOVERSION); fi
    if [ "$(printf '%s\n' "go$go_oldest" "$version" | sort -V | head -n 1)" != "go$go_oldest" ]; then
        skip "Go $go_oldest or later (on Debian the package golang-go; Go 1.21 downloads a later one), for the cases of $folder; found: ${version:-none}"
        return
    fi
    # -count=1: Go would otherwise reuse the cached result of an earlier run with the same files and environment.
    (
        cd "$folder"
        unformatted=$(gofmt -l .)
        if [ -n "$unformatted" ]; then
            echo "not formatted with gofmt: $unformatted"
            exit 1
        fi
        go vet ./...
        ROWHOUSE_BINARY=$server TABLES_ENDPOINT=${endpoint:-} go test -count=1 -v ./...
    ) >"$log" 2>&1 || status=$?
    passed=$((passed + $(grep -c '^--- PASS: ' "$log" || true)))
    failed=$((failed + $(grep -c '^--- FAIL: ' "$log" || true)))
    skipped=$((skipped + $(grep -c '^--- SKIP: ' "$log" || true)))
    if [ "$status" -ne 0 ]; then grep -v '^=== RUN\|^--- PASS: ' "$log" | head -n 200; fi
    echo "$(grep -c '^--- PASS: ' "$log" || true) cases passed"
    [ "$status" -eq 0 ]
}

go_cases() {
    local folder=$1
    shift
    start_server "$@"
    run_go "$folder"
    end_server
}

begin "test servers in Go"
run_go packages/go

begin "Go client, embedded engine"
go_cases conformance/go --data "$scratch/data-go"

begin "legacy Go clients, embedded engine"
go_cases conformance/legacy_go --data "$scratch/data-legacy-go"

# ---- Rust client -----------------------------------------------------------------------------------------------------

begin "Rust client, embedded engine"
status=0
# Build first, so that the server does not wait for the compiler.
cargo build --quiet --locked --tests --manifest-path conformance/rust/Cargo.toml --target-dir conformance/rust/target
start_server --data "$scratch/data-rust"
TABLES_ENDPOINT=$endpoint cargo test --quiet --locked --manifest-path conformance/rust/Cargo.toml \
    --target-dir conformance/rust/target 2>&1 | tee "$scratch/rust-client.log" || status=$?
passed=$((passed + $(count "$scratch/rust-client.log" '^test result: .* ([0-9]+) passed; .*')))
failed=$((failed + $(count "$scratch/rust-client.log" '^test result: .* ([0-9]+) failed; .*')))
skipped=$((skipped + $(count "$scratch/rust-client.log" '^test result: .* ([0-9]+) ignored; .*')))
[ "$status" -eq 0 ]
end_server

# ---- the client library ----------------------------------------------------------------------------------------------

# The suite also runs in memory, as part of the tests of the crates.
client_suite() {
    local status=0
    TABLES_CONNECTION_STRING="DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=$development_key;TableEndpoint=$1" \
        cargo test --quiet --locked --package rowhouse-client --test suite 2>&1 | tee "$scratch/client.log" || status=$?
    passed=$((passed + $(count "$scratch/client.log" '^test result: .* ([0-9]+) passed; .*')))
    failed=$((failed + $(count "$scratch/client.log" '^test result: .* ([0-9]+) failed; .*')))
    [ "$status" -eq 0 ]
}
# The publicly known key of the development account.
development_key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==

begin "client library, embedded engine"
start_server --data "$scratch/data-client"
client_suite "$endpoint"
end_server

begin "client library, PostgreSQL"
new_store client
if [ -n "$store" ]; then
    start_server --store "$store"
    client_suite "$endpoint"
    end_server
fi

if [ "$with_citus" = true ]; then
    begin "client library, Citus"
    new_citus_store client
    if [ -n "$store" ]; then
        start_server --store "$store" --distribute
        client_suite "$endpoint"
        end_server
    fi
fi

begin "client library, emulator"
if has azurite-table; then
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    (cd "$scratch" && exec azurite-table --tableHost 127.0.0.1 --tablePort "$port" --inMemoryPersistence --silent \
        --skipApiVersionCheck --disableTelemetry) >"$scratch/emulator.log" 2>&1 &
    server_pid=$!
    for _ in $(seq 100); do
        if grep -q 'successfully started' "$scratch/emulator.log"; then break; fi
        sleep 0.1
    done
    TABLES_SERVER=azurite client_suite "http://127.0.0.1:$port/devstoreaccount1"
    stop_server
else
    echo "the emulator is not installed (npm install --global azurite), so the suite on the emulator is skipped"
fi

# ---- comparison with the emulator ------------------------------------------------------------------------------------

begin "comparison with the emulator: the page matches its results"
if ! has python3; then
    skip "Python 3, for bench/compare-emulator.sh"
else
    bench/compare-emulator.sh --check
    passed=$((passed + 1))
    # Results from a busy machine must not be written to a page.
    mkdir -p "$scratch/busy/lab"
    python3 -c 'import json, sys
results = json.load(sys.stdin)
results["conditions"]["load_average"] = 0.26 * results["conditions"]["processors"]
json.dump(results, sys.stdout)' <docs/lab/comparison.json >"$scratch/busy/lab/comparison.json"
    if bench/compare-emulator.sh --draw --out "$scratch/busy" 2>"$scratch/busy.log"; then
        echo "a page was generated from the results of a busy machine"
        exit 1
    fi
    grep -q "other programs kept the machine busy" "$scratch/busy.log"
    test ! -e "$scratch/busy/images"
    passed=$((passed + 1))
fi

begin "comparison with the emulator: both programs at 100 entities"
if ! has node || ! has npm || ! has python3; then
    skip "Python 3, node and npm, for bench/compare-emulator.sh"
else
    cargo build --quiet --locked --package rowhouse-bench
    comparison=$scratch/comparison status=0 installed_emulator=()
    # Reuse an emulator that another step installed.
    if [ -x conformance/emulator/node_modules/.bin/azurite-table ]; then
        installed_emulator=(--emulator conformance/emulator/node_modules/.bin/azurite-table)
    fi
    bench/compare-emulator.sh --quick --out "$comparison" --rowhouse "$server" ${installed_emulator[@]+"${installed_emulator[@]}"} \
        --bench "${CARGO_TARGET_DIR:-$root/target}/debug/rowhouse-bench" >"$scratch/comparison.log" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then tail -n 100 "$scratch/comparison.log"; fi
    [ "$status" -eq 0 ]
    # The results of that run must replace those on the page, and every chart must exist.
    if cmp -s docs/comparison.md "$comparison/comparison.md"; then
        echo "the tables were not written"
        exit 1
    fi
    for chart in docs/images/comparison-*.svg; do test -s "$comparison/images/${chart##*/}"; done
    passed=$((passed + 1))
    echo "tables and charts exist"
fi

# ---- Java ------------------------------------------------------------------------------------------------------------

run_java() {
    local status=0 log=$scratch/java.log folder=$1 reports=$1/target/surefire-reports run faults omitted
    rm -rf "$reports"
    (cd "$folder" && ROWHOUSE_BINARY=$server TABLES_ENDPOINT=${endpoint:-} mvn --quiet --batch-mode -Dstyle.color=never test) >"$log" 2>&1 || status=$?
    # Read Surefire's summary line for each class from the reports, because `mvn --quiet` does not print these lines.
    read -r run faults omitted < <(cat "$reports"/*.txt 2>/dev/null | awk -F '[:,]' \
        '/^Tests run:/ { run += $2; faults += $4 + $6; omitted += $8 } END { print run + 0, faults + 0, omitted + 0 }')
    passed=$((passed + run - faults - omitted)) failed=$((failed + faults)) skipped=$((skipped + omitted))
    if [ "$status" -ne 0 ]; then grep -v '^[[:space:]]*at ' "$log" | head -n 200; fi
    echo "$((run - faults - omitted)) cases passed"
    [ "$status" -eq 0 ]
    [ "$run" -gt 0 ]
}

begin "test servers in Java, and Java clients, embedded engine"
if ! has javac || ! has mvn; then
    skip "a JDK and Maven, for the cases of packages/java and conformance/java"
else
    run_java packages/java
    # Run the command from the page without changes. The cases use the package that it installs.
    $(grep '^mvn ' docs/testing-with-rowhouse.md) --quiet --batch-mode
    start_server --data "$scratch/data-java"
    run_java conformance/java
    end_server
fi

# ---- encrypted entities ----------------------------------------------------------------------------------------------

# Exchanges encrypted entities between the client library and the retired libraries. The options are for the server.
encryption_cases() {
    local status=0 log=$scratch/encryption.log home=conformance/encryption
    if ! has java || ! has mvn; then
        skip "a JDK and Maven, for the cases of $home"
        return
    fi
    cargo build --quiet --locked --package rowhouse-client --features encryption --example encryption_exchange
    (cd "$home/java" && mvn --quiet --batch-mode -Dstyle.color=never dependency:build-classpath -Dmdep.outputFile=target/classpath)
    "$python" "$home/check_gcm.py"
    start_server "$@"
    TABLES_ENDPOINT=$endpoint "$python" "$home/run.py" --rust "${CARGO_TARGET_DIR:-$root/target}/debug/examples/encryption_exchange" \
        --java "$(cat "$home/java/target/classpath")" >"$log" 2>&1 || status=$?
    passed=$((passed + $(count "$log" '^([0-9]+) passed, [0-9]+ failed$')))
    failed=$((failed + $(count "$log" '^[0-9]+ passed, ([0-9]+) failed$')))
    if [ "$status" -eq 0 ]; then tail -n 1 "$log"; else cat "$log"; fi
    [ "$status" -eq 0 ]
    end_server
}

begin "encrypted entities between the libraries, embedded engine"
python_environment conformance/legacy_python/cosmosdb/requirements-2018.txt .venv-legacy-2018
if [ -n "$python" ]; then encryption_cases --data "$scratch/data-encryption"; fi

# ---- fuzz targets ----------------------------------------------------------------------------------------------------

begin "fuzz targets"
if ! has c++; then
    skip "a C++ compiler, for the fuzz targets"
else
    status=0
    scripts/fuzz.sh "${FUZZ_SECONDS:-3}" 2>&1 | tee "$scratch/fuzz.log" || status=$?
    passed=$((passed + $(grep -c ' edges after ' "$scratch/fuzz.log" || true)))
    [ "$status" -eq 0 ]
fi
