#!/usr/bin/env bash
# Builds the program for a target reproducibly: two builds of a commit are identical, byte for byte, in any folder.
#
# usage: scripts/build-release.sh TARGET
#
# TARGET is a target triple of the Rust compiler. PROFILE is the cargo profile (default: dist). PROFILE_DATA is a file
# that scripts/profile.sh made from a run of the same commit for the same target: the compiler then optimises what this
# run executed most. It is an input of the build like the sources: whoever wants to build the same bytes needs the same
# file. With PROFILE_RAW, the program instead writes such a profile to this folder when it ends. Panic locations, C code
# and generated sources would put folder names into the program. These names are therefore replaced: the folder of the
# sources with /source, the folder of the libraries with /crates, and the folder of the build with /build. The C library
# is linked statically on Linux and Windows. The last line of the output is the path of the program. Identical builds
# also require the same Rust compiler, C compiler and linker.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?usage: scripts/build-release.sh TARGET}
profile=${PROFILE:-dist}
target_folder=${CARGO_TARGET_DIR:-target}
mkdir -p "$target_folder"
# In the steps below, every library must be unpacked.
cargo fetch --quiet --locked --target "$target"

# Prints a path in the compiler's form, which differs from the shell's form on Windows.
native() { if command -v cygpath >/dev/null; then cygpath --windows "$1"; else echo "$1"; fi; }

names=()
rename() { names+=("$(native "$1")=$2"); }
# The last match wins. Cargo passes the path that `pwd -P` prints to the compiler.
rename "$(pwd -P)" /source
rename "$(cd "$target_folder" && pwd -P)" /build
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# If the folder is a link, cargo passes the path of the link to the compiler, but runs the C compiler in the real
# folder. Replace both paths.
for sources in "$cargo_home"/registry/src/*/; do
    rename "${sources%/}" /crates
    rename "$(cd "$sources" && pwd -P)" /crates
done
# Replace the folder of the standard library, which is present if the component rust-src is installed. Otherwise, the
# path has already been replaced.
rename "$(rustc --print sysroot)/lib/rustlib/src/rust" "/rustc/$(rustc --version --verbose | sed -n 's/^commit-hash: //p')"

flags=()
c_flags=()
for name in "${names[@]}"; do
    flags+=("--remap-path-prefix=$name")
    c_flags+=("$(printf '%q' "-ffile-prefix-map=$name")")
done
case $target in
    *-linux-*) flags+=(-Ctarget-feature=+crt-static) ;;
    # /Brepro omits the time stamp; /PDBALTPATH omits the path of the debug information.
    *-windows-msvc) flags+=(-Ctarget-feature=+crt-static -Clink-arg=/Brepro -Clink-arg=/PDBALTPATH:%_PDB%) c_flags=() ;;
esac
if [ -n "${PROFILE_RAW:-}" ]; then flags+=("-Cprofile-generate=$(native "$PROFILE_RAW")"); fi
if [ -n "${PROFILE_DATA:-}" ]; then
    # The compiler does not run in this folder.
    data=$(cd "$(dirname "$PROFILE_DATA")" && pwd -P)/$(basename "$PROFILE_DATA")
    if [ ! -f "$data" ]; then
        echo "build-release: there is no file $PROFILE_DATA: make it with scripts/profile.sh, or unset PROFILE_DATA" >&2
        exit 1
    fi
    flags+=("-Cprofile-use=$(native "$data")")
fi
# Git's shell on Windows rewrites values that look like paths when it starts other programs, which would break these
# flags.
export MSYS2_ENV_CONV_EXCL=CARGO_ENCODED_RUSTFLAGS
# The flags are encoded, because folder names may contain spaces. With --target, they do not apply to build scripts and
# procedural macros.
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' "${flags[@]}")
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%?}
case $target in
    *-linux-musl)
        for compiler in "${target%%-*}-linux-musl-gcc" musl-gcc; do
            if command -v "$compiler" >/dev/null; then
                export "CC_${target//-/_}=$compiler"
                break
            fi
        done
        ;;
esac
# mimalloc embeds its compile time. No build step needs a real time stamp, so a constant is enough.
export SOURCE_DATE_EPOCH=0
export CC_SHELL_ESCAPED_FLAGS=1 "CFLAGS_${target//-/_}=${c_flags[*]-}"

if [ "$profile" != dev ]; then echo "build-release: compiling every crate with the profile $profile takes several minutes" >&2; fi
cargo build --locked --package rowhouse-tables --profile "$profile" --target "$target" >&2
program=$target_folder/$target/${profile/#dev/debug}/rowhouse
if [ -e "$program.exe" ]; then program=$program.exe; fi
echo "$program"
