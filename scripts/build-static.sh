#!/usr/bin/env bash
# Builds a program without dependencies on the host system, and verifies that it has none.
#
# usage: scripts/build-static.sh [x86_64 | aarch64]
#
# With the musl target, the program runs on any Linux system. (The target needs `rustup target add
# x86_64-unknown-linux-musl`, and a C compiler: musl-tools on Debian.) Without the target, the C library of this machine
# is linked statically. The program then also runs on any Linux system, but it resolves host names only through
# /etc/hosts and DNS, because other modules of the name service switch would have to be loaded at run time.
# PROFILE=release builds faster, and PROFILE=dev faster still. The last line of the output is the path of the program.
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
    *) fail "the program needs shared libraries: $libraries" ;;
esac
# ldd cannot inspect a program for another architecture.
if command -v readelf >/dev/null && readelf -lW "$program" | grep -q INTERP; then
    fail "the program needs a dynamic loader"
fi
if [ "$architecture" != "$(uname -m)" ]; then
    say "the program cannot run on this machine, so the remaining checks are skipped"
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
    wait "$pid" || fail "the server failed to stop cleanly: $(cat "$scratch/log")"
    pid=
}

# The program starts, stores data and responds, even if it must resolve a host name in an empty environment.
clean=(env -i "PATH=$PATH")
start_server "$scratch/log" "${clean[@]}" "$program" serve --listen localhost:0 --data "$scratch/data"
"${clean[@]}" "$program" health --listen "localhost:${address##*:}" >&2 || fail "the server does not respond"
stop

# The program needs no system files: it works in a root folder that contains only the devices that every container has.
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
    (in_empty_root "$empty" /rowhouse health --listen "$address") >&2 || fail "the server does not respond: $(cat "$scratch/log")"
    [ -d "$empty/data/rowhouse-data" ] || fail "the data folder is missing"
    stop
    say "the program works in an empty root folder"
else
    say "user namespaces are not available, so the test in an empty root folder is skipped"
fi

# The program resolves the host name of a database: "connection refused" differs from "unknown name".
refusal() { "${clean[@]}" "$program" serve --listen 127.0.0.1:0 --store "postgres://a@$1:1/b?connect_timeout=2" 2>&1 || true; }
known=$(refusal localhost) unknown=$(refusal no-such-name.invalid)
case $known in
    *refused*) say "localhost: resolved" ;;
    *) fail "localhost is not resolved: $known" ;;
esac
case $unknown in
    *refused* | "") fail "a name that does not exist was resolved: $unknown" ;;
    *) say "no-such-name.invalid: not resolved, as expected" ;;
esac
echo "$program"
