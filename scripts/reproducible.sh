#!/usr/bin/env bash
# Builds a commit twice, in different folders and with different cargo home folders, and fails unless both programs are
# identical, byte for byte.
#
# usage: scripts/reproducible.sh [COMMIT]
#
# COMMIT is the commit to build (default: HEAD). PROFILE is the cargo profile (default: dist), and TARGET the target
# (default: the target for static programs on this machine). PROGRAM is a program that scripts/build-release.sh built
# from the same commit, to be compared with both builds. PROFILE_DATA is the profile with which it was built, if any. The
# builds do not reuse the output of earlier builds. Prints the checksum.
set -euo pipefail
# A build that fails inside $(…) must also stop the script.
shopt -s inherit_errexit
root=$(cd "$(dirname "$0")/.." && pwd)

target=${TARGET:-$(uname -m)-unknown-linux-musl}
commit=$(git -c safe.directory="$root" -C "$root" rev-parse --verify "${1:-HEAD}^{commit}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Make the existing downloads available under a different path. The programs cargo and rustc still come from the
# toolchain.
ln -s "${CARGO_HOME:-$HOME/.cargo}" "$scratch/cargo"

# Prints the checksum, and removes the sources and the build.
build() {
    local sources=$1 built=$2 program
    mkdir -p "$sources" "$built"
    if [ -n "${PROFILE_DATA:-}" ]; then
        cp "$PROFILE_DATA" "$built/profile"
        local -x PROFILE_DATA=$built/profile
    fi
    git -c safe.directory="$root" -C "$root" archive "$commit" | tar --extract --directory "$sources"
    program=$(CARGO_TARGET_DIR=$built "$sources/scripts/build-release.sh" "$target")
    sha256sum "$program" | cut -d ' ' -f 1
    rm -rf "$built" "$sources"
}

echo "reproducible: builds the program twice, which takes several minutes each time" >&2
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
