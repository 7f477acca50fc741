#!/usr/bin/env bash
# Runs the checks that compile nothing at length, before every push: formatting, prose, commit subjects, links,
# licences, the structure of the code, and the types and lints of the explorer. All of them run, even if one fails.
#
# usage: scripts/quick.sh
#
# Takes some ten seconds; the first run installs the checkers. `cargo xtask test` is the gate.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo xtask test --quick
