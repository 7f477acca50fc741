# shellcheck shell=bash disable=SC2034,SC2154
# What the scripts that make and try packages and programs share. Sourced, after `root` is set to the folder of the sources.

# The time of every file in a package, in seconds: SOURCE_DATE_EPOCH, or that of the last commit.
packaging_epoch() {
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
        echo "$SOURCE_DATE_EPOCH"
    else
        git -c safe.directory="$root" -C "$root" log -1 --format=%ct
    fi
}

# The version of the sources. Programs for other platforms cannot be asked.
packaging_version() { sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml"; }

# Fails with the comment at the top of the calling script, unless there are two or three arguments.
packaging_usage() {
    if [ $# -lt 2 ] || [ $# -gt 3 ]; then
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
        exit 2
    fi
}

# Writes the completions of a program into a folder, and its manual pages, compressed, into another.
packaging_texts() {
    local program=$1 completions=$2 pages=$3
    mkdir -p "$completions" "$pages"
    "$program" completions bash >"$completions/rowhouse.bash"
    "$program" completions zsh >"$completions/_rowhouse"
    "$program" completions fish >"$completions/rowhouse.fish"
    "$program" man --dir "$pages"
    find "$pages" -type f -exec gzip -n -9 {} +
    # The program lets nobody else read what it writes.
    chmod 644 "$pages"/*
}

# Begins a script that tries the packages of the program which its only argument names: sets `program` and the counters, and an
# environment that does not depend on the caller's.
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

# Starts a server by a command and waits until it is ready; its log goes to a file. Sets `pid`, `address` and `connection`. The
# lines come through a pipe that only this server writes to, so those of an earlier server cannot be mistaken for them.
start_server() {
    local log=$1 folder line status=0
    shift
    pid='' address='' connection=''
    folder=$(mktemp -d)
    mkfifo "$folder/lines"
    "$@" >"$folder/lines" 2>"$log" &
    pid=$!
    # Stays open, so that the server can write further lines.
    exec 3<"$folder/lines"
    rm -r "$folder"
    while [ -z "$connection" ]; do
        IFS= read -r -t 60 line <&3 || status=$?
        if [ "$status" -ne 0 ]; then
            echo "it does not start: $(cat "$log")" >&2
            return 1
        fi
        case $line in
            "listening on "*) address=${line#listening on http://} ;;
            "connection string: "*) connection=${line#connection string: } ;;
        esac
    done
}

has() { command -v "$1" >/dev/null 2>&1; }

# Counts what cannot be tried because something is missing; CI must have everything.
skip() {
    if [ "${CI:-}" = true ]; then
        echo "missing: $1"
        exit 1
    fi
    echo "SKIPPED, because this is missing: $1"
    skipped=$((skipped + 1))
}

# Ends such a script with the line that counts, and fails if something did.
packaging_count() {
    echo
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
}
