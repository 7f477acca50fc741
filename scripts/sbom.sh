#!/usr/bin/env bash
# Writes the program's SBOM in CycloneDX JSON: each library that is used on any platform, with its version, licence and
# checksum.
#
# usage: scripts/sbom.sh FILE
#
# Uses cargo-cyclonedx, and installs the pinned version if it is missing. The same commit yields the same bytes: the
# file has no serial number, its time is SOURCE_DATE_EPOCH or the time of the commit, and it contains no folder names of
# this machine.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
source "$root/scripts/packaging.bash"

# Pinned, because the same commit must yield the same file.
cargo_cyclonedx_version=0.5.9

file=$(realpath -m "${1:?usage: scripts/sbom.sh FILE}")
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin" CARGO_TERM_COLOR=never
if [ "$(cargo cyclonedx --version 2>/dev/null)" != "cargo-cyclonedx-cyclonedx $cargo_cyclonedx_version" ]; then
    echo "sbom: installing cargo-cyclonedx $cargo_cyclonedx_version, which takes a few minutes" >&2
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --force --debug --version "=$cargo_cyclonedx_version" cargo-cyclonedx >&2
fi
SOURCE_DATE_EPOCH=$(packaging_epoch)
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# cargo-cyclonedx writes into the folder of each crate, so it gets a copy of the files that it reads, which are the
# manifests and the sources that they name.
git -c safe.directory="$root" -C "$root" archive HEAD | tar --extract --directory "$scratch"
(cd "$scratch" && cargo cyclonedx --quiet --format json --spec-version 1.5 --manifest-path rowhouse/Cargo.toml \
    --target all --no-build-deps --override-filename sbom)
# cargo-cyclonedx lists the dependencies of every crate in the workspace, including those for other features and for
# tests. `cargo tree` lists only the crates that are linked into the program.
(cd "$scratch" && cargo tree --quiet --locked --package rowhouse-tables --edges normal --target all --prefix none --format '{p}') >"$scratch/tree"
python3 - "$scratch/rowhouse/sbom.json" "$scratch" "$file" <<'END'
import json
import sys

source, folder, target = sys.argv[1:]
text = open(source, encoding="utf-8").read().replace(f"file://{folder}", "file:///source")
bom = json.loads(text)
bom.pop("serialNumber", None)
# Lines such as `ring v0.17.14` or `serde_derive v1.0.229 (proc-macro)`.
used = {tuple(line.split()[:2]) for line in open(f"{folder}/tree", encoding="utf-8")}
bom["components"] = [one for one in bom["components"] if (one["name"], f"v{one['version']}") in used]
kept = {one["bom-ref"] for one in [bom["metadata"]["component"], *bom["components"]]}
bom["dependencies"] = [one for one in bom["dependencies"] if one["ref"] in kept]
for one in bom["dependencies"]:
    if "dependsOn" in one:
        one["dependsOn"] = [other for other in one["dependsOn"] if other in kept]

bare = [one["name"] for one in bom["components"] if not one.get("licenses")]
# The program itself is not among the components.
if bare or len(bom["components"]) != len(used) - 1:
    sys.exit(f"sbom: {len(bom['components'])} components instead of {len(used) - 1}; without a licence: {bare}")
if folder in json.dumps(bom):
    sys.exit("sbom: the SBOM names a folder of this machine")
with open(target, "w", encoding="utf-8") as out:
    json.dump(bom, out, indent=2, ensure_ascii=False)
    out.write("\n")
END
echo "$file"
