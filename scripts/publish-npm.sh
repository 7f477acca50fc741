#!/usr/bin/env bash
# Publishes the npm packages of a release: first the platform packages, then the main package. The published main
# package lists the platform packages as optional dependencies, so that package managers install the matching one.
#
# usage: scripts/publish-npm.sh FOLDER [OPTION...]
#
#   scripts/publish-npm.sh dist --access public
#
# FOLDER contains the packages that scripts/package-npm.sh built for every platform; a missing package is an error.
# OPTION is an option of `npm publish`. Packages that are already published are skipped, so you can run the script again
# after a failure.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

if [ $# -eq 0 ]; then packaging_usage; fi
folder=$1
shift
version=$(packaging_version)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints the path of the content.
unpack() {
    mkdir "$scratch/$1"
    tar --extract --gzip --directory "$scratch/$1" --file "$folder/$1-$version.tgz"
    echo "$scratch/$1/package"
}

publish() {
    local name=$1 content=$2
    shift 2
    # If the package is not published, npm either fails or prints nothing.
    if [ -n "$(npm view "$name@$version" version 2>/dev/null)" ]; then
        echo "$name@$version is already published"
    else
        npm publish --ignore-scripts "$@" "$content"
    fi
}

main=$(unpack rowhouse-tables)
# Prints the names of the dependencies.
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
# Find every package before publishing any.
for name in $platforms; do unpack "$name" >/dev/null; done
for name in $platforms; do publish "$name" "$scratch/$name/package" "$@"; done
publish rowhouse-tables "$main" "$@"
