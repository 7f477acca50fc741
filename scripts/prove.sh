#!/usr/bin/env bash
# Runs the tests of reliability for days instead of minutes: histories under faults on every engine, power losses,
# kills, failovers, schedules, other tests with new seeds, and fuzzing. docs/reliability.md describes them.
#
# usage: scripts/prove.sh [PERCENT [STEP...]]       default: 100, all steps
#
# PERCENT scales the amounts below. The steps are: histories, crashes, schedules, judge, seeds, fuzz. All steps run even
# if one fails. At the end, the script prints what ran, for how long and with which result; the output of each step,
# with its seeds, is in target/prove.
set -euo pipefail
cd "$(dirname "$0")/.."

percent=${1:-100}
steps=("${@:2}")
if ! [[ $percent =~ ^[1-9][0-9]*$ ]]; then
    sed -n 5p "$0" >&2
    exit 2
fi
if [ "${#steps[@]}" -eq 0 ]; then
    steps=(histories crashes schedules judge seeds fuzz)
fi

# Returns so many per cent of an amount, but at least one.
amount() { echo $((($1 * percent + 99) / 100)); }

program_tests() { cargo test --quiet --release --locked --workspace --test it -- --nocapture --test-threads 1 "$@"; }

histories() {
    ROWHOUSE_HISTORY_OPERATIONS=$(amount 10000000) WITH_CITUS=1 program_tests strictly_serializable --skip history::
    ROWHOUSE_HISTORY_ROUNDS=$(amount 2000) program_tests history::embedded
    ROWHOUSE_HISTORY_ROUNDS=$(amount 300) WITH_CITUS=1 program_tests history::database history::citus
}

crashes() {
    ROWHOUSE_CRASH_ROUNDS=$(amount 5000) cargo test --quiet --release --locked --package rowhouse-engine-embedded \
        --lib log::tests::crashes -- --nocapture
    ROWHOUSE_CRASH_ROUNDS=$(amount 2000) program_tests crash::rounds crash::acknowledged_writes_survive_losses_of_power
    ROWHOUSE_CRASH_ROUNDS=$(amount 200) program_tests crash::detection crash::acknowledged_writes_survive_kills \
        crash::takeovers::nothing
    ROWHOUSE_CRASH_ROUNDS=$(amount 1000) program_tests crash::takeovers::two
    ROWHOUSE_CRASH_ROUNDS=$(amount 100) WITH_CITUS=1 program_tests citus::steps
}

schedules() {
    ROWHOUSE_LARGE_MODEL=1 cargo test --quiet --release --locked --package rowhouse-replication \
        --lib tests::takeovers -- --nocapture
    ROWHOUSE_SCHEDULES=$(amount 100000) cargo test --quiet --release --locked --package rowhouse-engine-embedded-schedules
}

judge() {
    local folder=target/prove/histories
    rm -rf "$folder"
    mkdir -p "$folder"
    cargo run --quiet --release --locked --package rowhouse-history -- simulate "$folder" "$(amount 20000)"
    (cd history/porcupine && go run . "../../$folder")
}

# About four minutes for a seed on two cores. Each test chooses a new seed if none is set.
seeds() {
    for _ in $(seq "$(amount 100)"); do
        cargo test --quiet --locked --package rowhouse-engine-embedded --lib -- tree::
        cargo test --quiet --locked --package rowhouse-engine-embedded --test it -- contract:: check::
        cargo test --quiet --locked --package rowhouse-engine-embedded-schedules
        cargo test --quiet --locked --package rowhouse-engine-citus --test it -- model_test::
        cargo test --quiet --locked --package rowhouse-tables --test it -- \
            files:: copy:: backup:: database:: crash::
    done
}

fuzz() { scripts/fuzz.sh "$(amount 3600)"; }

echo "compiles with optimisation first, which takes several minutes"
mkdir -p target/prove
report=() failed=0
for step in "${steps[@]}"; do
    if ! [[ $(type -t "$step") = function && $step != amount && $step != program_tests ]]; then
        echo "there is no step $step" >&2
        exit 2
    fi
    echo "started: $step (target/prove/$step.log)"
    began=$SECONDS result=passed
    # In a condition, the step would continue after a failed command.
    set +e
    (set -e && "$step") >"target/prove/$step.log" 2>&1
    [ $? -eq 0 ] || result=FAILED failed=1
    set -e
    report+=("$(printf '%-9s %6s s  %s' "$step" $((SECONDS - began)) "$result")")
done
echo "with $percent per cent of the amounts:"
printf '%s\n' "${report[@]}"
grep -h SKIPPED target/prove/*.log | sort -u || true
exit "$failed"
