#!/usr/bin/env bash
# Builds a commit twice, in folders of different names and with different folders of cargo, and fails unless both programs are the
# same bytes.
#
# usage: scripts/reproducible.sh [COMMIT]
#
# COMMIT is HEAD if not given. PROFILE is the profile (dist if not set), TARGET the target, which is that of static programs for this
# machine if not set. PROGRAM is a program that was built before, by scripts/build-release.sh from the same commit: it is compared
# too. Nothing of an earlier build is used. Prints the checksum.
set -euo pipefail
# A build that fails inside $(…) ends the script, too.
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/.." && pwd)

target=${TARGET:-$(uname -m)-unknown-linux-musl}
commit=$(git -c safe.directory="$root" -C "$root" rev-parse --verify "${1:-HEAD}^{commit}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What is already downloaded, by another name. Its programs stay those of the toolchain.
ln -s "${CARGO_HOME:-$HOME/.cargo}" "$scratch/cargo"

# Builds in a folder of its own, prints the checksum, and removes what was built.
build() {
    local sources=$1 built=$2 program
    mkdir -p "$sources" "$built"
    git -c safe.directory="$root" -C "$root" archive "$commit" | tar --extract --directory "$sources"
    program=$(CARGO_TARGET_DIR=$built "$sources/scripts/build-release.sh" "$target")
    sha256sum "$program" | cut -d ' ' -f 1
    rm -rf "$built" "$sources"
}

first=$(build "$scratch/one" "$scratch/built")
echo "$first  first build"
second=$(CARGO_HOME=$scratch/cargo build "$scratch/another folder/of the sources" "$scratch/another folder/with/what is built")
echo "$second  second build"
third=$first
if [ -n "${PROGRAM:-}" ]; then
    third=$(sha256sum "$PROGRAM" | cut -d ' ' -f 1)
    echo "$third  $PROGRAM"
fi
if [ "$first" != "$second" ] || [ "$first" != "$third" ]; then
    echo "the programs differ" >&2
    exit 1
fi
