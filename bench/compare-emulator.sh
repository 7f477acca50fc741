#!/usr/bin/env bash
# Measures Rowhouse and the emulator (Azurite, from npm) alternately on this machine, and writes the tables and charts
# of docs/comparison.md.
#
# usage: bench/compare-emulator.sh [--quick | --draw | --check] [--out DIR] [--sizes LIST] [--seconds N] [--folder DIR]
#                                  [--rowhouse PROGRAM] [--bench PROGRAM] [--emulator PROGRAM]
#
# --quick     use a table of 100 entities and a third of a second per line, to check that everything works rather than to measure.
#             Fails if a line has no result. Writes to target/comparison unless --out is given
# --draw      regenerate the tables and charts from the results of the last run, without measuring
# --check     fail if the tables and charts do not match these results
# --out       folder for comparison.md, lab/comparison.json and images/comparison-*.svg [default: docs]
# --sizes     numbers of entities in the table [default: 1000,100000,300000]
# --seconds   duration of each line in each of three rounds, after an uncounted quarter of that time [default: 2]
# --folder    folder for the data of the programs, on the disk to measure [default: below target/]
# --rowhouse, --bench   programs to use instead of building them with --release
# --emulator  installed azurite-table to use instead of installing one below target/
#
# A run with the defaults takes a quarter of an hour. It first waits until the machine is quiet, and refuses to measure
# if the machine is still busy after ten minutes. Requires Python 3, and Node.js with npm.
set -euo pipefail
emulator_version=3.37.0

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }

mode=full out='' sizes='' seconds='' folder='' rowhouse='' bench='' emulator=''
while [ $# -gt 0 ]; do
    case $1 in
        --quick | --draw | --check) mode=${1#--} ;;
        --out | --sizes | --seconds | --folder | --rowhouse | --bench | --emulator)
            if [ $# -lt 2 ]; then usage; exit 2; fi
            name=${1#--}
            # Paths are relative to the caller's working directory.
            case $name in
                sizes | seconds) value=$2 ;;
                *) value=$(realpath -ms -- "$2") ;;
            esac
            printf -v "$name" %s "$value"
            shift
            ;;
        --help) usage; exit 0 ;;
        *) usage; exit 2 ;;
    esac
    shift
done
cd "$(dirname "$0")/.."
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
for name in $(compgen -e ROWHOUSE_ || true) $(compgen -e AZURITE_ || true); do unset "$name"; done
export PYTHONDONTWRITEBYTECODE=1

quick=() complete=()
if [ "$mode" = quick ]; then
    : "${out:=$target/comparison}"
    quick=(--quick)
    complete=(--complete)
fi
: "${out:=$root/docs}" "${folder:=$target}"

page() {
    python3 bench/comparison/page.py --results "$out/lab/comparison.json" --document "$out/comparison.md" --images "$out/images" "$@"
}

case $mode in
    draw) page; exit ;;
    check) page --check; exit ;;
esac

if [ -z "$rowhouse" ] || [ -z "$bench" ]; then
    cargo build --quiet --release --locked -p rowhouse-tables -p rowhouse-bench
    : "${rowhouse:=$target/release/rowhouse}" "${bench:=$target/release/rowhouse-bench}"
fi
if [ -z "$emulator" ]; then
    home=$target/azurite-$emulator_version
    emulator=$home/node_modules/.bin/azurite-table
    if [ ! -x "$emulator" ]; then
        npm install --prefix "$home" --no-audit --no-fund --no-save --loglevel=error "azurite@$emulator_version"
    fi
fi
if [ "$out" != "$root/docs" ]; then
    mkdir -p "$out"
    cp docs/comparison.md "$out/comparison.md"
fi
python3 bench/comparison/measure.py --rowhouse "$rowhouse" --bench "$bench" --emulator "$emulator" \
    --results "$out/lab/comparison.json" ${sizes:+--sizes "$sizes"} ${seconds:+--seconds "$seconds"} --folder "$folder" \
    ${quick[@]+"${quick[@]}"}
page ${complete[@]+"${complete[@]}"}
echo "written: $out/comparison.md, its charts, and $out/lab/comparison.json"
