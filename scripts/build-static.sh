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
cd "$(dirname "$0")/.."

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
server=
close() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$scratch"
}
trap close EXIT

# Waits until the server answers, and sets `address`.
await() {
    address=
    for _ in $(seq 100); do
        address=$(sed -n 's|^listening on http://||p' "$scratch/out")
        if [ -n "$address" ]; then return; fi
        sleep 0.1
    done
    fail "it does not start: $(cat "$scratch/log")"
}

stop() {
    kill "$server"
    wait "$server" || fail "it stops with a failure: $(cat "$scratch/log")"
    server=
}

# It starts, stores data and answers, with a host name to resolve and an empty environment.
clean=(env -i "PATH=$PATH")
"${clean[@]}" "$program" serve --listen localhost:0 --data "$scratch/data" >"$scratch/out" 2>"$scratch/log" &
server=$!
await
"${clean[@]}" "$program" health --listen "localhost:${address##*:}" >&2 || fail "it does not answer"
stop

# It needs no file of the system: it works in a root folder that has only the devices of every container.
in_empty_root() {
    exec "${clean[@]}" unshare --user --map-root-user --mount bash -c '
        for device in random urandom; do mount --bind "/dev/$device" "$1/dev/$device"; done
        exec unshare --root="$1" --wd=/data "${@:2}"' - "$@"
}
if unshare --user --map-root-user --mount true 2>/dev/null; then
    root=$scratch/root
    mkdir -p "$root/data" "$root/dev"
    touch "$root/dev/random" "$root/dev/urandom"
    cp "$program" "$root/rowhouse"
    in_empty_root "$root" /rowhouse serve --listen 127.0.0.1:0 >"$scratch/out" 2>"$scratch/log" &
    server=$!
    await
    (in_empty_root "$root" /rowhouse health --listen "$address") >&2 || fail "it does not answer: $(cat "$scratch/log")"
    [ -d "$root/data/rowhouse-data" ] || fail "the data folder is missing"
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
