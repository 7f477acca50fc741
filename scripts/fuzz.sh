#!/usr/bin/env bash
# Runs every fuzz target for a few seconds. Starts from the seeds in fuzz/seeds.json, which are unpacked to fuzz/seeds, and
# from inputs that earlier runs found. These inputs are in fuzz/corpus, which is initially unpacked from
# fuzz/corpus.tar.gz (scripts/pack_corpus.py).
#
# usage: scripts/fuzz.sh [SECONDS [TARGET...]]
#        scripts/fuzz.sh --build
#
# --build  only build the targets
#
# Needs a C++ compiler, Python, and stable Rust, whose coverage pass feeds libFuzzer. If a target crashes, hangs or fails
# an assertion, the script fails and leaves the input in fuzz/artifacts. To reproduce the failure, set FUZZ_TARGET to the
# target's name, and pass that file to rowhouse-fuzz. The table in fuzz/src/main.rs names the targets.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-5}
targets=("${@:2}")
if [ "${#targets[@]}" -eq 0 ]; then
    mapfile -t targets < <(sed -nE 's/^    \("([a-z_]+)", .*/\1/p' fuzz/src/main.rs)
fi

# With an explicit --target, these flags do not apply to build scripts and procedural macros.
host=$(rustc -vV | sed -n 's/^host: //p')
flags=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    --cfg fuzzing
)
unset CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR
folder=${FUZZ_TARGET_DIR:-fuzz/target}
echo "fuzz: the first build of the targets takes several minutes" >&2
RUSTFLAGS="${flags[*]}" cargo build --quiet --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$folder"
if [ "$seconds" = --build ]; then exit; fi

[ -d fuzz/corpus ] || tar -xzf fuzz/corpus.tar.gz -C fuzz
rm -rf fuzz/seeds
python3 - <<'EOF'
import json, pathlib
for target, seeds in json.loads(pathlib.Path("fuzz/seeds.json").read_text()).items():
    folder = pathlib.Path("fuzz/seeds", target)
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed in seeds.items():
        data = seed.encode() if isinstance(seed, str) else bytes.fromhex(seed["hex"])
        folder.joinpath(name).write_bytes(data)
EOF
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    # Limits: seconds per input, MiB of memory, bytes per input.
    if ! FUZZ_TARGET="$target" "$folder/$host/release/rowhouse-fuzz" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=4096 \
        -artifact_prefix="fuzz/artifacts/$target/" "fuzz/corpus/$target" "fuzz/seeds/$target" >"$log" 2>&1; then
        cat "$log"
        echo "fuzz target $target failed"
        exit 1
    fi
    # The number of edges that the known inputs reach, and the number of edges after this run.
    known=$(sed -nE 's/.*INITED cov: ([0-9]+).*/\1/p' "$log")
    final=$(sed -nE 's/^#([0-9]+).*DONE +cov: ([0-9]+).*/\2 edges after \1 inputs/p' "$log")
    echo "fuzz target $target: $known edges from known inputs, $final"
done
echo "${#targets[@]} passed, 0 failed"
