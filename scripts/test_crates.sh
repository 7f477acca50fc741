#!/usr/bin/env bash
# Packs the crates that are published, and builds the client library from its packed files. The last line of the output
# counts the checks.
#
# usage: scripts/test_crates.sh
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t manifests < <(git ls-files '*Cargo.toml' | xargs grep -l '^publish = true$')
mapfile -t crates < <(sed -nE 's/^name = "(rowhouse-.*)"$/--package=\1/p' "${manifests[@]}")

# The crates are packed together, so that none of them needs to be in a registry.
cargo package --quiet --locked --allow-dirty --no-verify "${crates[@]}"
# Cargo unpacks a package of a local registry once for each version, and would build an earlier run's files.
rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/rowhouse-*
# The server's crates are built from the same files in other steps.
client=(--package=rowhouse-client --package=rowhouse-client-derive --package=rowhouse-http-client)
client+=(--package=rowhouse-model --package=rowhouse-wire)
cargo package --quiet --locked --allow-dirty "${client[@]}"
echo "2 passed, 0 failed"
