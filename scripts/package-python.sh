#!/usr/bin/env bash
# Packs a program as a Python wheel. Installing the wheel puts the program into the environment's program folder.
#
# usage: scripts/package-python.sh PROGRAM TARGET [FOLDER]
#
#   scripts/package-python.sh "$(scripts/build-static.sh)" x86_64-unknown-linux-musl dist
#
# TARGET is a target triple of the Rust compiler; a program for another target is refused. The wheel is only for systems
# with the version of glibc that the program needs, and for all systems with Linux if the program is statically linked.
# PYTHON is an interpreter that has the pinned build backend (packages/python/requirements-build.txt; default: python3).
# The version is taken from Cargo.toml. The same program yields the same wheel, byte for byte. Prints the path of the
# wheel.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_usage "$@"
program=$1 target=$2 folder=${3:-dist}
packaging_inspect "$program" "$target"
# A statically linked program runs on systems with either C library (glibc or musl). pip has separate platform tags for
# them.
case $target in
    *-linux-*)
        cpu=${target%%-*}
        # The oldest version of glibc for which pip knows both processors.
        oldest=$(printf '%s\n' 2.17 "$glibc" | sort --version-sort | tail -n 1)
        platforms=manylinux_${oldest/./_}_$cpu
        if [ -z "$glibc" ]; then platforms=$platforms.manylinux2014_$cpu.musllinux_1_1_$cpu; fi
        ;;
    x86_64-apple-darwin) platforms=macosx_10_12_x86_64 ;;
    aarch64-apple-darwin) platforms=macosx_11_0_arm64 ;;
    x86_64-pc-windows-*) platforms=win_amd64 ;;
    *)
        echo "package-python: there is no wheel for $target" >&2
        exit 2
        ;;
esac
file=rowhouse
case $target in *-windows-*) file=rowhouse.exe ;; esac
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

umask 022
mkdir -p "$scratch/packages" "$scratch/bin"
cp -r "$root/packages/python" "$scratch/packages/python"
cp "$root/Cargo.toml" "$scratch/"
# In the sources, LICENSE is a symbolic link; replace it with the file.
rm -f "$scratch/packages/python/LICENSE"
cp "$root/LICENSE" "$scratch/packages/python/"
install -m 755 "$program" "$scratch/bin/$file"
find "$scratch" -name __pycache__ -prune -exec rm -r {} +
cd "$scratch/packages/python"
WHEEL_PROGRAM=$scratch/bin/$file WHEEL_TAG=py3-none-$platforms SOURCE_DATE_EPOCH=$(packaging_epoch) \
    "${PYTHON:-python3}" -m hatchling build --target wheel --directory "$folder" >&2
# Python normalizes the version in the file name, so match any.
echo "$folder"/rowhouse_tables-*-"py3-none-$platforms.whl"
