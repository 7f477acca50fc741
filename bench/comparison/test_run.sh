#!/usr/bin/env bash
# Compares Rowhouse with the emulator at 100 entities, and checks that all tables and charts are written.
#
# usage: bench/comparison/test_run.sh FOLDER ROWHOUSE BENCH EMULATOR
#
# FOLDER  a new folder for the results
# The others are installed programs: the server, the load generator, and azurite-table.
set -euo pipefail
if [ $# -ne 4 ]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
    exit 2
fi
results=$1
cd "$(dirname "$0")/../.."

bench/compare-emulator.sh --quick --out "$results" --rowhouse "$2" --bench "$3" --emulator "$4" >"$results.log" 2>&1 || {
    tail -n 100 "$results.log"
    exit 1
}
# The results of this run must replace those on the page, and every chart must exist.
if cmp -s docs/comparison.md "$results/comparison.md"; then
    echo "the tables were not written"
    exit 1
fi
for chart in docs/images/comparison-*.svg; do test -s "$results/images/${chart##*/}"; done
echo "tables and charts exist"
