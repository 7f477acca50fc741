# shellcheck shell=bash disable=SC2154
# What the scripts that make packages share. Sourced, after `root` is set to the folder of the sources.

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
