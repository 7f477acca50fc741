#!/usr/bin/env bash
# Builds a program without dependencies on the system that it runs on, and checks that it has none.
#
# usage: scripts/build-static.sh [x86_64 | aarch64]
#
# With the musl target (rustup target add x86_64-unknown-linux-musl, and a C compiler for it: musl-tools on Debian) the program
# runs on any Linux. Without it the C library of this machine is linked statically: that runs anywhere too, but resolves host
# names only with /etc/hosts and DNS, since other modules of the name service switch would have to be loaded.
# PROFILE=release builds faster, PROFILE=dev even more so. The last line of the output is the path of the program.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"
cd "$root"

architecture=${1:-$(uname -m)}
profile=${PROFILE:-dist}

say() { echo "$*" >&2; }

fail() {
    say "build-static: $*"
    exit 1
}

has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ]; }

case $architecture in
    x86_64 | aarch64) ;;
    *) fail "unknown architecture: $architecture" ;;
esac

if has_target "$architecture-unknown-linux-musl"; then
    target=$architecture-unknown-linux-musl
elif [ "$architecture" = "$(uname -m)" ]; then
    target=$architecture-unknown-linux-gnu
    say "the target $architecture-unknown-linux-musl is not installed, so the C library of this machine is linked statically"
else
    fail "the target $architecture-unknown-linux-musl is not installed: rustup target add $architecture-unknown-linux-musl"
fi
program=$(PROFILE=$profile scripts/build-release.sh "$target")

# ---- checks ----------------------------------------------------------------------------------------------------------

libraries=$(ldd "$program" 2>&1 || true)
case $libraries in
    *"statically linked"* | *"not a dynamic executable"*) say "ldd: $libraries" ;;
    *) fail "it needs shared libraries: $libraries" ;;
esac
# ldd cannot inspect a program for another architecture.
if command -v readelf >/dev/null && readelf -lW "$program" | grep -q INTERP; then
    fail "it needs a dynamic loader"
fi
if [ "$architecture" != "$(uname -m)" ]; then
    say "it cannot run on this machine, so nothing more is checked"
    echo "$program"
    exit
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

stop() {
    kill "$pid"
    wait "$pid" || fail "it stops with a failure: $(cat "$scratch/log")"
    pid=
}

# It starts, stores data and answers, with a host name to resolve and an empty environment.
clean=(env -i "PATH=$PATH")
start_server "$scratch/log" "${clean[@]}" "$program" serve --listen localhost:0 --data "$scratch/data"
"${clean[@]}" "$program" health --listen "localhost:${address##*:}" >&2 || fail "it does not answer"
stop

# It needs no file of the system: it works in a root folder that has only the devices of every container.
in_empty_root() {
    exec "${clean[@]}" unshare --user --map-root-user --mount bash -c '
        for device in random urandom; do mount --bind "/dev/$device" "$1/dev/$device"; done
        exec unshare --root="$1" --wd=/data "${@:2}"' - "$@"
}
if unshare --user --map-root-user --mount true 2>/dev/null; then
    empty=$scratch/empty
    mkdir -p "$empty/data" "$empty/dev"
    touch "$empty/dev/random" "$empty/dev/urandom"
    cp "$program" "$empty/rowhouse"
    start_server "$scratch/log" in_empty_root "$empty" /rowhouse serve --listen 127.0.0.1:0
    (in_empty_root "$empty" /rowhouse health --listen "$address") >&2 || fail "it does not answer: $(cat "$scratch/log")"
    [ -d "$empty/data/rowhouse-data" ] || fail "the data folder is missing"
    stop
    say "it works in an empty root folder"
else
    say "user namespaces are not available, so it was not tried in an empty root folder"
fi

# The host of a database is resolved: a refused connection is another error than an unknown name.
refusal() { "${clean[@]}" "$program" serve --listen 127.0.0.1:0 --store "postgres://a@$1:1/b?connect_timeout=2" 2>&1 || true; }
known=$(refusal localhost) unknown=$(refusal no-such-name.invalid)
case $known in
    *refused*) say "localhost: resolved" ;;
    *) fail "localhost is not resolved: $known" ;;
esac
case $unknown in
    *refused* | "") fail "a name that does not exist is resolved: $unknown" ;;
    *) say "no-such-name.invalid: not resolved, as it should be" ;;
esac
echo "$program"
