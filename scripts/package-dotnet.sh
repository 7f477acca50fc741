#!/usr/bin/env bash
# Builds the NuGet packages of a program: the package for its platform (Rowhouse.Testing.linux-x64 and so on), and the
# package Rowhouse.Testing, which is the same on all platforms and also uses a program from elsewhere.
#
# usage: scripts/package-dotnet.sh PROGRAM TARGET [FOLDER]
#
#   scripts/package-dotnet.sh "$(scripts/build-static.sh)" x86_64-unknown-linux-musl dist
#
# TARGET is a target triple of the Rust compiler; a program for another target is refused. The version is taken from
# Cargo.toml. The same program yields the same packages, byte for byte, with the same version of the .NET SDK. If
# REPOSITORY_URL is set, it is written into the packages. Prints the paths of both packages.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_usage "$@"
program=$1 target=$2 folder=${3:-dist}
case $target in
    x86_64-*-linux-*) platform=linux-x64 ;;
    aarch64-*-linux-*) platform=linux-arm64 ;;
    x86_64-apple-darwin) platform=osx-x64 ;;
    aarch64-apple-darwin) platform=osx-arm64 ;;
    x86_64-pc-windows-*) platform=win-x64 ;;
    *)
        echo "package-dotnet: there is no NuGet package for $target" >&2
        exit 2
        ;;
esac
# The platforms linux-x64 and linux-arm64 are those with glibc. A statically linked program runs on the others, too.
packaging_inspect "$program" "$target"
file=rowhouse
if [ "$platform" = win-x64 ]; then file=rowhouse.exe; fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Do not depend on the caller's umask.
umask 022
mkdir -p "$scratch/packages/dotnet"
cp -r "$root"/packages/dotnet/* "$scratch/packages/dotnet/"
rm -rf "$scratch"/packages/dotnet/*/{bin,obj}
cp "$root/LICENSE" "$scratch/"
install -m 755 "$program" "$scratch/$file"
SOURCE_DATE_EPOCH=$(packaging_epoch)
export SOURCE_DATE_EPOCH
version=$(packaging_version)
pack() { "$root/scripts/dotnet.sh" pack "$scratch/packages/dotnet/$1" "$folder" "-p:Version=$version" "${@:2}" >&2; }
pack Rowhouse.Testing.Program "-p:Platform=$platform" "-p:ProgramFile=$scratch/$file"
pack Rowhouse.Testing
echo "$folder/Rowhouse.Testing.$platform.$version.nupkg"
echo "$folder/Rowhouse.Testing.$version.nupkg"
