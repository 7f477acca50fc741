#!/usr/bin/env bash
# Measures servers on PostgreSQL and on the embedded engine in turn, and prints a table.
#
# usage: scripts/bench_database.sh [FOLDER]
#
# Builds the release binaries, starts PostgreSQL with fsync and the servers, all with their defaults, and stops them
# afterwards. All data is in FOLDER (default: a temporary folder), which must not be on a memory-backed file system.
# SECONDS_EACH is the duration of each measurement (default: 3), ENTITIES is the number of entities in each table
# (default: 50000), CONNECTIONS lists the numbers of connections (default: "1 16 64"), and WORKLOADS lists the workloads
# of the first table. The second table compares one server with two, and shows the medians of three rounds.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
: "${SECONDS_EACH:=3}" "${ENTITIES:=50000}" "${CONNECTIONS:=1 16 64}"
: "${WORKLOADS=get insert upsert batch100 query-page query-filter}"
for name in $(compgen -e ROWHOUSE_ || true); do unset "$name"; done

echo "bench_database: the first build with optimisation takes several minutes" >&2
cargo build --quiet --release --locked -p rowhouse-tables -p rowhouse-bench
release=${CARGO_TARGET_DIR:-$root/target}/release
scratch=$(mktemp -d ${1:+"--tmpdir=$1"})
# PostgreSQL runs as another user, which must be able to read the folder.
chmod 755 "$scratch"
processes=()
close() {
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap close EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits for the first line of a file and assigns it to `line`.
first_line() {
    for _ in $(seq 600); do
        IFS= read -r line <"$1" && return || sleep 0.1
    done
    echo "$1 is still empty after a minute" >&2
    exit 1
}

# Sets `endpoint` and `process`.
start_server() {
    local name=$1
    shift
    "$release/rowhouse" serve --listen 127.0.0.1:0 "$@" >"$scratch/$name.out" 2>"$scratch/$name.log" 4>&- &
    process=$!
    processes+=("$process")
    first_line "$scratch/$name.out"
    endpoint=${line#listening on }
}

# Runs a workload and prints its figures: operations per second, median latency, CPU time of the server, CPU time of the
# database.
run() {
    local endpoint=$1 process=$2 workload=$3 connections=$4
    shift 4
    "$release/rowhouse-bench" run --endpoint "$endpoint/devstoreaccount1" --pid "$process" --workload "$workload" \
        --connections "$connections" --entities "$ENTITIES" --seconds "$SECONDS_EACH" "$@" | figures
}

figures() {
    awk -F'[:,]' '
        /"operations_per_second"/ { rate = $2 }
        /"p50"/ { median = $2 }
        /"us_per_operation"/ { server = $2 }
        /"database_cpu_us_per_operation"/ { database = $2 + 0 }
        END { printf "%.0f %.0f %.0f %.0f\n", rate, median, server, database }'
}

pair() {
    local one two rest half=$(($2 / 2)) other
    read -r one _ < <(run "${first[@]}" "$1" "$2")
    run "${second[@]}" "$1" "$half" >"$scratch/half" &
    other=$!
    read -r two _ < <(run "${first[@]}" "$1" "$half")
    wait "$other"
    read -r rest _ <"$scratch/half"
    echo "$one $((two + rest))"
}

median() { awk -v field="$1" '{ print $field }' "$scratch/pairs" | sort -n | sed -n 2p; }

mkfifo "$scratch/postgres.in"
TMPDIR=$scratch scripts/postgres.sh --durable <"$scratch/postgres.in" >"$scratch/postgres.out" &
processes+=($!)
exec 4>"$scratch/postgres.in"
first_line "$scratch/postgres.out"
read -r database _ postgres _ <<<"$line"

start_server embedded --data "$scratch/data"
embedded=("$endpoint" "$process")
start_server first --store "$database"
first=("$endpoint" "$process")
start_server second --store "$database"
second=("$endpoint" "$process")

echo "| workload | connections | embedded: operations/s | median µs | CPU µs | PostgreSQL: operations/s | median µs | CPU µs Rowhouse | CPU µs PostgreSQL |"
echo "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
for workload in $WORKLOADS; do
    for connections in $CONNECTIONS; do
        read -r rate median cost _ < <(run "${embedded[@]}" "$workload" "$connections")
        read -r rate2 median2 cost2 database2 < <(run "${first[@]}" "$workload" "$connections" --database-pid "$postgres")
        echo "| $workload | $connections | $rate | $median | $cost | $rate2 | $median2 | $cost2 | $database2 |"
    done
done

echo
echo "| workload | connections | one server: operations/s | two servers: operations/s |"
echo "|---|---:|---:|---:|"
for workload in get upsert; do
    for connections in 2 32; do
        for _ in 1 2 3; do pair "$workload" "$connections"; done >"$scratch/pairs"
        echo "| $workload | $connections | $(median 1) | $(median 2) |"
    done
done
