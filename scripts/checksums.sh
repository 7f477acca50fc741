#!/usr/bin/env bash
# Writes SHA256SUMS, with a checksum for every other file in a folder, into that folder.
#
# usage: scripts/checksums.sh FOLDER
#
# To verify the checksums: sha256sum --check --ignore-missing SHA256SUMS
set -euo pipefail

cd "${1:?usage: scripts/checksums.sh FOLDER}"
find . -maxdepth 1 -type f ! -name SHA256SUMS | sed 's|^\./||' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS
