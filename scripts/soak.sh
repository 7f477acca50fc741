#!/usr/bin/env bash
# Soaks a release build of the server: mixed load with kills, full disks, new keys and hostile clients, and a comparison of
# everything with what the clients know. A failure prints the variable that repeats its choices.
#
# usage: scripts/soak.sh [SECONDS]       an hour if not given
set -euo pipefail
cd "$(dirname "$0")/.."

export ROWHOUSE_SOAK_SECONDS=${1:-3600}
cargo test --quiet --release --locked --package rowhouse-tables --test it -- --nocapture soak::
