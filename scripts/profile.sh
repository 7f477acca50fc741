#!/usr/bin/env bash
# Makes the profile with which scripts/build-release.sh optimises the program: what a server executes under the
# workloads of the benchmark, and while it serves HTTPS.
#
# usage: scripts/profile.sh TARGET FILE
#
# TARGET is a target triple of the Rust compiler whose programs run on this machine, and FILE the profile to write. The
# profile belongs to the commit and the target, because it names functions by hashes of both. It depends on time and
# threads, so two runs make different profiles: a release keeps the profile that it was built with. Needs llvm-profdata
# in the compiler's version of LLVM (`rustup component add llvm-tools`, or Debian's package llvm-VERSION), and openssl.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

if [ $# -ne 2 ]; then
    echo "usage: scripts/profile.sh TARGET FILE" >&2
    exit 2
fi
target=$1 file=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$root"

# A profile that another version of LLVM wrote may be unreadable.
version=$(rustc --version --verbose | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
profdata=
for candidate in "$(rustc --print sysroot)/lib/rustlib/$(rustc --print host-tuple)/bin/llvm-profdata" \
    "llvm-profdata-$version" "/usr/lib/llvm-$version/bin/llvm-profdata"; do
    if has "$candidate"; then
        profdata=$candidate
        break
    fi
done
if [ -z "$profdata" ]; then
    packaging_refuse "llvm-profdata of LLVM $version is missing: rustup component add llvm-tools"
fi

scratch=$(mktemp -d)
pid=
close() {
    if [ -n "$pid" ]; then
        kill "$pid" 2>/dev/null || true
        wait "$pid" || true
    fi
    rm -rf "$scratch"
}
trap close EXIT

# The program writes its profile when it ends.
stop() {
    kill "$pid"
    wait "$pid" || packaging_refuse "the server failed to stop cleanly: $(cat "$scratch/log")"
    pid=
}

target_folder=${CARGO_TARGET_DIR:-$root/target}
program=$(PROFILE_RAW=$scratch/raw CARGO_TARGET_DIR=$target_folder/profile scripts/build-release.sh "$target")
cargo build --quiet --locked --release --package rowhouse-bench
bench=$target_folder/release/rowhouse-bench

run() {
    "$bench" run --endpoint "http://$address" --workload "$1" --connections "$2" --seconds "${3:-3}" --entities 50000 >/dev/null ||
        packaging_refuse "the workload $1 failed: $(cat "$scratch/log")"
}

# Larger than its cache and its memtables, so that it also reads and writes sorted files.
start_server "$scratch/log" "$program" serve --listen 127.0.0.1:0 --data "$scratch/data" --cache-mib 32
# Filling the tables of the other workloads counts, too, so the writes are short.
for workload in get upsert merge insert mixed query-keys query-top query-page query-filter batch100; do
    echo "profile: $workload" >&2
    run "$workload" 16
done
run get 1 1
run upsert 1 1
stop

echo "profile: HTTPS" >&2
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=CA:FALSE \
    -keyout "$scratch/key.pem" -out "$scratch/cert.pem" 2>/dev/null
start_server "$scratch/log" "$program" serve --listen 127.0.0.1:0 --data "$scratch/data" \
    --tls-cert "$scratch/cert.pem" --tls-key "$scratch/key.pem"
over_https() { SSL_CERT_FILE=$scratch/cert.pem "$program" "$@" >/dev/null || packaging_refuse "$1 over HTTPS failed"; }
over_https export --from "$connection" --to "$scratch/exported"
over_https import --from "$scratch/exported" --to "$connection" --mode replace
stop

"$profdata" merge --sparse --output "$file" "$scratch"/raw/*.profraw
echo "$file"
