# shellcheck shell=bash disable=SC2034,SC2154
# Functions shared by the scripts that build and test packages and programs. Source this file after setting `root` to
# the folder of the sources.

# Prints the time for every file in a package, in seconds: SOURCE_DATE_EPOCH, or else the time of the last commit.
packaging_epoch() {
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
        echo "$SOURCE_DATE_EPOCH"
    else
        git -c safe.directory="$root" -C "$root" log -1 --format=%ct
    fi
}

# Prints the version from the sources, because programs for other platforms cannot be run to ask them.
packaging_version() { sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml"; }

# Prints the header comment of the calling script and exits with 2 unless there are two or three arguments.
packaging_usage() {
    if [ $# -lt 2 ] || [ $# -gt 3 ]; then
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
        exit 2
    fi
}

# Prints a message with the name of the calling script, and exits with 1.
packaging_refuse() {
    echo "$(basename "$0" .sh): $*" >&2
    exit 1
}

# Fails unless a program is one for the given target. Sets `glibc` to the version of the GNU C library that the program
# needs; `glibc` is empty if the program is statically linked or not for Linux. Needs readelf for Linux.
packaging_inspect() {
    local program=$1 target=$2 machine libraries loader
    local -x LC_ALL=C
    glibc=
    case $target:$(head -c 4 "$program" | od -An -tx1 | tr -d ' \n') in
        *-linux-*:7f454c46) ;;
        *-apple-darwin:cffaedfe | *-windows-*:4d5a*) return ;;
        *) packaging_refuse "$program is not a program for $target" ;;
    esac
    has readelf || packaging_refuse "readelf, which shows what the program needs, is missing: on Debian, install binutils"
    machine=$(readelf --wide --file-header "$program" | sed -n 's/^ *Machine: *//p')
    case $target:$machine in
        x86_64-*:*X86-64 | aarch64-*:AArch64) ;;
        *) packaging_refuse "$program is not a program for $target, but for the processor $machine" ;;
    esac
    loader=$(readelf --wide --program-headers "$program" | sed -n 's/.*\[Requesting program interpreter: \(.*\)\]/\1/p')
    libraries=$(readelf --wide --dynamic "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | paste -s -d ' ')
    if [ -z "$loader$libraries" ]; then return; fi
    # The libraries that every system with the GNU C library has, and the one that comes with its C compiler.
    if grep -qvE '^((libc|libm)\.so\.6|(libdl|librt)\.so\.[12]|libpthread\.so\.0|libgcc_s\.so\.1|ld-linux-[a-z0-9-]+\.so\.[12])$' \
        <<<"${libraries// /$'\n'}"; then
        packaging_refuse "$program needs shared libraries that the package does not contain: $libraries"
    fi
    # GLIBC_ABI_DT_RELR stands for a feature of the loader since version 2.36.
    glibc=$(readelf --wide --version-info "$program" | sed 's/GLIBC_ABI_DT_RELR/GLIBC_2.36/g' | grep -o 'GLIBC_[0-9.]*[0-9]' |
        sort --unique --version-sort | tail -n 1) || packaging_refuse "$program has a loader, but does not say which version of glibc it needs"
    glibc=${glibc#GLIBC_}
    case $target in
        *-linux-gnu) echo "$(basename "$0" .sh): the program needs glibc $glibc or later" >&2 ;;
        *)
            packaging_refuse "$program is not statically linked, but needs glibc $glibc: pass ${target%-*}-gnu instead of $target," \
                "or a program from scripts/build-static.sh, which runs on every Linux system"
            ;;
    esac
}

# Prints the target for which this machine's program is packed. It is musl's if the program is statically linked,
# whatever C library it contains.
packaging_target() {
    if readelf --wide --program-headers "$1" | grep -q 'program interpreter'; then
        echo "$(uname -m)-unknown-linux-gnu"
    else
        echo "$(uname -m)-unknown-linux-musl"
    fi
}

# Writes a program's completions into a folder, and its manual pages, compressed, into another.
packaging_texts() {
    local program=$1 completions=$2 pages=$3
    mkdir -p "$completions" "$pages"
    "$program" completions bash >"$completions/rowhouse.bash"
    "$program" completions zsh >"$completions/_rowhouse"
    "$program" completions fish >"$completions/rowhouse.fish"
    "$program" man --dir "$pages"
    find "$pages" -type f -exec gzip -n -9 {} +
    # The program creates files that only their owner can read.
    chmod 644 "$pages"/*
}

# Starts a script that tests the packages of the program given as its only argument. Sets `program` and the counters,
# and makes the environment independent of the caller's.
packaging_test() {
    local name
    if [ $# -ne 1 ] || [ ! -x "$1" ]; then
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
        exit 2
    fi
    program=$(realpath "$1")
    passed=0 failed=0 skipped=0
    for name in $(compgen -e ROWHOUSE_ || true); do unset "$name"; done
    SOURCE_DATE_EPOCH=$(packaging_epoch)
    export SOURCE_DATE_EPOCH PYTHONDONTWRITEBYTECODE=1 npm_config_update_notifier=false
}

# Starts a server with a command and waits until it is ready; its log goes to a file. Sets `pid`, `address` and
# `connection`. Only this server writes to the pipe, so lines of an earlier server cannot be mistaken for its lines.
start_server() {
    local log=$1 folder line status=0
    shift
    pid='' address='' connection=''
    folder=$(mktemp -d)
    mkfifo "$folder/lines"
    "$@" >"$folder/lines" 2>"$log" &
    pid=$!
    # Stays open, so that the server can write more lines.
    exec 3<"$folder/lines"
    rm -r "$folder"
    while [ -z "$connection" ]; do
        IFS= read -r -t 60 line <&3 || status=$?
        if [ "$status" -ne 0 ]; then
            echo "the server does not start: $(cat "$log")" >&2
            return 1
        fi
        case $line in
            "listening on "*) address=${line#listening on http://} ;;
            "connection string: "*) connection=${line#connection string: } ;;
        esac
    done
}

has() { command -v "$1" >/dev/null 2>&1; }

# Counts a check as skipped because a tool is missing. In CI, a missing tool is an error.
skip() {
    if [ "${CI:-}" = true ]; then
        echo "missing: $1"
        exit 1
    fi
    echo "SKIPPED, because this is missing: $1"
    skipped=$((skipped + 1))
}

# Ends a script with the line that counts the checks, and fails if a check failed.
packaging_count() {
    echo
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
}
