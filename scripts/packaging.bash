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
