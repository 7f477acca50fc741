#!/usr/bin/env bash
# Runs every test that uses a seed, with many seeds. A failure prints the variable that reproduces it.
#
# usage: scripts/seeds.sh [COUNT]        default: 100; about four minutes per seed on two cores
set -euo pipefail
cd "$(dirname "$0")/.."

for _ in $(seq "${1:-100}"); do
    # Each test chooses a new seed if none is set.
    cargo test --quiet --locked --package rowhouse-engine-embedded --lib -- compaction
    cargo test --quiet --locked --package rowhouse-engine-embedded --test it -- model_test:: flipped_bits:: check::
    cargo test --quiet --locked --package rowhouse-engine-embedded-schedules
    cargo test --quiet --locked --package rowhouse-engine-postgres --test it -- model_test::
    cargo test --quiet --locked --package rowhouse-tables --test it -- \
        files:: copy:: backup:: consistency:: database:: failover:: crash::
done
