#!/usr/bin/env bash
# Checks the crates as other programs get them. The last line of the output counts the checks.
#
# usage: scripts/test_crates.sh packages | features
#
# packages  pack the crates that are published, and build the client library from its packed files
# features  check the client library with each of its features alone, and without any, and the server and the test server
#           without their features
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0

echo "test_crates: compiles the crates with several sets of features, which takes several minutes" >&2
case "${1:-}" in
    packages)
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
        passed=2
        ;;
    features)
        # Each build is of one package alone, as external programs get it: other packages of the workspace would enable
        # features of shared dependencies.
        for feature in "" $(sed -nE '/^\[features\]/,/^\[dep/s/^([a-z0-9_]+) = .*/\1/p' client/Cargo.toml); do
            cargo clippy --quiet --locked --package rowhouse-client --no-default-features --features "$feature" -- -D warnings
            passed=$((passed + 1))
        done
        for package in rowhouse-server rowhouse-testing; do
            cargo clippy --quiet --locked --package "$package" --no-default-features -- -D warnings
            passed=$((passed + 1))
        done
        ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
        exit 2
        ;;
esac
echo "$passed passed, 0 failed"
