# Shortcuts for `just` (https://just.systems). Each stands for a plain command, so `just` itself is optional.

# Show the recipes.
default:
    @just --list --unsorted

# Check the format, the lints and the unit tests; for use while you work.
quick:
    scripts/quick.sh

# Run every test, the suites with the real client libraries included.
test:
    scripts/test.sh

# Do what CI does: install what is missing, then run every test.
ci:
    .ci/run

# Format the code.
format:
    cargo fmt --all
    cargo fmt --manifest-path fuzz/Cargo.toml
    cargo fmt --manifest-path conformance/rust/Cargo.toml
    gofmt -w conformance/go conformance/legacy_go

# Run a server on port 10002 with its data in ./rowhouse-data; further options follow.
serve *options:
    cargo run --release -- serve {{ options }}

# Compare the server with its references (docs/benchmarks.md); options such as --quick follow.
bench *options:
    cargo build --release -p rowhouse-tables
    cargo run --release -p rowhouse-bench -- compare {{ options }}

# Run every test that takes a seed, with many seeds.
seeds count="100":
    scripts/seeds.sh {{ count }}

# Soak a release build with load, kills, full disks, new keys and hostile clients, for an hour unless seconds are given.
soak seconds="3600":
    scripts/soak.sh {{ seconds }}

# Run every fuzz target for some seconds.
fuzz seconds="10":
    scripts/fuzz.sh {{ seconds }}
