#!/usr/bin/env bash
# Builds the program for a target, so that two builds of one commit are the same bytes whichever folders they are made in.
#
# usage: scripts/build-release.sh TARGET
#
# TARGET is one of the compiler's names. PROFILE is the profile, `dist` if not set. Names of folders would get into the program by
# way of panics, of C code and of generated sources: each is replaced, those of the sources with /source, those of libraries
# with /crates, and those of the build with /build. The C library is linked statically on Linux and Windows. The last line of the
# output is the path of the program. The same bytes need the same compiler, C compiler and linker, too.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?usage: scripts/build-release.sh TARGET}
profile=${PROFILE:-dist}
target_folder=${CARGO_TARGET_DIR:-target}
mkdir -p "$target_folder"
# The packages of all libraries must be unpacked before it is known where.
cargo fetch --quiet --locked --target "$target"

# As the compiler writes a path, which in a shell on Windows is not as the shell does.
native() { if command -v cygpath >/dev/null; then cygpath --windows "$1"; else echo "$1"; fi; }

names=()
rename() { names+=("$(native "$1")=$2"); }
# The last one that fits is used. `pwd -P` is what cargo passes on.
rename "$(pwd -P)" /source
rename "$(cd "$target_folder" && pwd -P)" /build
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# Under the name that cargo passes on, and under that of the folder in which it runs the C compiler, if the first is a link.
for sources in "$cargo_home"/registry/src/*/; do
    rename "${sources%/}" /crates
    rename "$(cd "$sources" && pwd -P)" /crates
done
# With the component rust-src, the standard library is there, and otherwise where its own build was.
rename "$(rustc --print sysroot)/lib/rustlib/src/rust" "/rustc/$(rustc --version --verbose | sed -n 's/^commit-hash: //p')"

flags=()
c_flags=()
for name in "${names[@]}"; do
    flags+=("--remap-path-prefix=$name")
    c_flags+=("$(printf '%q' "-ffile-prefix-map=$name")")
done
case $target in
    *-linux-*) flags+=(-Ctarget-feature=+crt-static) ;;
    # /Brepro leaves the time out, and the other writes no path of the debug information.
    *-windows-msvc) flags+=(-Ctarget-feature=+crt-static -Clink-arg=/Brepro -Clink-arg=/PDBALTPATH:%_PDB%) c_flags=() ;;
esac
# Git's shell on Windows rewrites values that look like paths for the programs that it starts, which would break these flags.
export MSYS2_ENV_CONV_EXCL=CARGO_ENCODED_RUSTFLAGS
# Encoded, since folders may have spaces in their names. With --target, build scripts and procedural macros do not get the flags.
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
# mimalloc contains the time at which it was compiled. No time of a file is needed here, so that of a commit would only be one more
# thing to know.
export SOURCE_DATE_EPOCH=0
export CC_SHELL_ESCAPED_FLAGS=1 "CFLAGS_${target//-/_}=${c_flags[*]-}"

cargo build --locked --package rowhouse-tables --profile "$profile" --target "$target" >&2
program=$target_folder/$target/${profile/#dev/debug}/rowhouse
if [ -e "$program.exe" ]; then program=$program.exe; fi
echo "$program"
