#!/usr/bin/env bash
# Publishes the packages of a release on npm: those of the platforms first, then the main package, which then has each of them as an
# optional dependency, so that package managers install the one that fits.
#
# usage: scripts/publish-npm.sh FOLDER [OPTION...]
#
#   scripts/publish-npm.sh dist --access public
#
# FOLDER has what scripts/package-npm.sh made for every platform; a missing one is an error. The options are those of `npm publish`.
# What is published already is left as it is, so this can be repeated.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

if [ $# -eq 0 ]; then packaging_usage; fi
folder=$1
shift
version=$(packaging_version)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Unpacks a package of the folder, and prints where it is.
unpack() {
    mkdir "$scratch/$1"
    tar --extract --gzip --directory "$scratch/$1" --file "$folder/$1-$version.tgz"
    echo "$scratch/$1/package"
}

publish() {
    local name=$1 content=$2
    shift 2
    # What is not there is an error, or no output.
    if [ -n "$(npm view "$name@$version" version 2>/dev/null)" ]; then
        echo "$name@$version is published already"
    else
        npm publish --ignore-scripts "$@" "$content"
    fi
}

main=$(unpack rowhouse-tables)
# Writes the dependencies into the main package, and prints their names.
platforms=$(node - "$main" <<'END'
const fs = require("node:fs");
const file = `${process.argv[2]}/package.json`;
const { PLATFORMS, packageFor } = require(`${process.argv[2]}/program.js`);
const content = JSON.parse(fs.readFileSync(file, "utf8"));
content.optionalDependencies = Object.fromEntries(PLATFORMS.map((platform) => [packageFor(platform), content.version]));
fs.writeFileSync(file, `${JSON.stringify(content, null, 2)}\n`);
for (const name of Object.keys(content.optionalDependencies)) console.log(name);
END
)
# Nothing is published before all of them are found.
for name in $platforms; do unpack "$name" >/dev/null; done
for name in $platforms; do publish "$name" "$scratch/$name/package" "$@"; done
publish rowhouse-tables "$main" "$@"
