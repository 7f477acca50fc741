#!/usr/bin/env bash
# Checks the client library with each of its features alone, and without any, and the server and the test server without
# their features. The last line of the output counts the checks.
#
# usage: scripts/test_features.sh
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0

# Each build is of this package alone, as external programs get it: other packages of the workspace would enable features
# of shared dependencies.
for feature in "" $(sed -nE '/^\[features\]/,/^\[dep/s/^([a-z0-9_]+) = .*/\1/p' client/Cargo.toml); do
    cargo clippy --quiet --locked --package rowhouse-client --no-default-features --features "$feature" -- -D warnings
    passed=$((passed + 1))
done
for package in rowhouse-server rowhouse-testing; do
    cargo clippy --quiet --locked --package "$package" --no-default-features -- -D warnings
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
