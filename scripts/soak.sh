#!/usr/bin/env bash
# Runs a soak test of a release build of the server: a mixed load with kills, full disks, new keys and hostile clients.
# Compares the whole content of the server with the data that the clients wrote. If the test fails, prints the variable
# that reproduces its random choices.
#
# usage: scripts/soak.sh [SECONDS]       default: 3600
set -euo pipefail
cd "$(dirname "$0")/.."

export ROWHOUSE_SOAK_SECONDS=${1:-3600}
cargo test --quiet --release --locked --package rowhouse-tables --test it -- --nocapture soak::
