# Shortcuts for `just` (https://just.systems). Each one runs a plain command, so `just` itself is optional.

# List the recipes.
default:
    @just --list --unsorted

# Run the checks that compile nothing at length, before every push.
quick:
    scripts/quick.sh

# Run the gate, including the suites with the real client libraries; accepts options such as --all, or --only NAME.
test *options:
    cargo xtask test {{ options }}

# Do the same as CI: install what is missing, then run the gate.
ci:
    .ci/run

# Format the code.
format:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/Cargo.toml
    cargo fmt --manifest-path conformance/rust/Cargo.toml
    gofmt -w conformance/go conformance/legacy_go

# Run a server on port 10002 with its data in ./rowhouse-data; accepts additional options.
serve *options:
    cargo run --release -- serve {{ options }}

# Compare the server with its references (docs/benchmarks.md); accepts options such as --quick.
bench *options:
    cargo build --release -p rowhouse-tables
    cargo run --release -p rowhouse-bench -- compare {{ options }}

# Run all tests that take a seed, with many seeds.
seeds count="100":
    scripts/prove.sh {{ count }} seeds

# Soak-test a release build with load, kills, full disks, new keys and hostile clients, by default for an hour.
soak seconds="3600":
    ROWHOUSE_SOAK_SECONDS={{ seconds }} cargo test --release --locked -p rowhouse-tables --test it -- --nocapture soak::

# Run the tests of reliability in large amounts (docs/reliability.md), or in a percentage of them.
prove percent="100":
    scripts/prove.sh {{ percent }}

# Run each fuzz target for a few seconds.
fuzz seconds="10":
    scripts/fuzz.sh {{ seconds }}
