#!/usr/bin/env bash
# Builds the npm packages of a program: the package for its platform (rowhouse-tables-linux-x64 and so on), and the main
# package `rowhouse-tables`, which is the same on all platforms. Users install both packages from files. The main
# package declares no dependency on the platform package, because lock files must not name packages that are in no
# registry; scripts/publish-npm.sh adds the dependency.
#
# usage: scripts/package-npm.sh PROGRAM TARGET [FOLDER]
#
#   scripts/package-npm.sh "$(scripts/build-static.sh)" x86_64-unknown-linux-musl dist
#
# TARGET is a target triple of the Rust compiler; a program for another target is refused. If the program needs glibc,
# the package for the platform says so, and package managers do not install it on systems without glibc. The version is
# taken from Cargo.toml. The same program yields the same packages, byte for byte. If REPOSITORY_URL is set, it is
# written into the packages; npm compares it with the repository from which they are published. Prints the paths of both
# packages.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

packaging_usage "$@"
program=$1 target=$2 folder=${3:-dist}
case $target in
    x86_64-*-linux-*) os=linux cpu=x64 ;;
    aarch64-*-linux-*) os=linux cpu=arm64 ;;
    x86_64-apple-darwin) os=darwin cpu=x64 ;;
    aarch64-apple-darwin) os=darwin cpu=arm64 ;;
    x86_64-pc-windows-*) os=win32 cpu=x64 ;;
    *)
        echo "package-npm: there is no npm package for $target" >&2
        exit 2
        ;;
esac
packaging_inspect "$program" "$target"
file=rowhouse
if [ "$os" = win32 ]; then file=rowhouse.exe; fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Do not depend on the caller's umask.
umask 022
cp -r "$root/packages/npm/rowhouse" "$scratch/main"
rm -rf "$scratch/main/node_modules"
mkdir -p "$scratch/platform/bin"
install -m 755 "$program" "$scratch/platform/bin/$file"
cat >"$scratch/platform/README.md" <<END
# rowhouse-tables-$os-$cpu

The program for the package \`rowhouse-tables\` for $os on $cpu. Install it together with that package.
END
for package in main platform; do cp "$root/LICENSE" "$scratch/$package/"; done
chmod -R u=rwX,go=rX "$scratch"

# Completes both package.json files with the version and the platform.
node - "$scratch" "$(packaging_version)" "$os" "$cpu" "$glibc" "${REPOSITORY_URL:-}" <<'END'
const fs = require("node:fs");
const [scratch, version, os, cpu, glibc, url] = process.argv.slice(2);
const main = JSON.parse(fs.readFileSync(`${scratch}/main/package.json`, "utf8"));
main.version = version;
const { PLATFORMS, packageFor } = require(`${scratch}/main/program.js`);
if (!PLATFORMS.includes(`${os}-${cpu}`)) throw new Error(`program.js does not list the platform ${os}-${cpu}`);
const platform = {
  name: packageFor(`${os}-${cpu}`),
  version,
  description: `The program for rowhouse-tables for ${os} on ${cpu}.`,
  license: main.license,
  // Yarn would keep the package zipped, and the program could not be started from the archive.
  preferUnplugged: true,
  os: [os],
  cpu: [cpu],
  // A statically linked program runs with every C library.
  ...(glibc && { libc: ["glibc"], description: `The program for rowhouse-tables for ${os} on ${cpu} with glibc ${glibc} or later.` }),
};
for (const [folder, content] of Object.entries({ main, platform })) {
  if (url) content.repository = { type: "git", url: `git+${url}.git` };
  fs.writeFileSync(`${scratch}/${folder}/package.json`, `${JSON.stringify(content, null, 2)}\n`);
}
END
for package in platform main; do
    name=$(cd "$scratch/$package" && npm pack --ignore-scripts --loglevel=error --pack-destination "$folder")
    echo "$folder/$name"
done
