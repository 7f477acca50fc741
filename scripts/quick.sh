#!/usr/bin/env bash
# Runs the fast checks, for use while you work: format, lints, and the unit tests of every crate.
#
# usage: scripts/quick.sh
#
# `cargo xtask test` runs everything.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all -- --check
cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
cargo test --quiet --locked --workspace --lib --bins
