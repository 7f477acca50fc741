#!/usr/bin/env bash
# Fails if a release package exceeds the size limit.
#
# usage: scripts/check_size.sh FILE...
set -euo pipefail

# 12 MB to download. Unpacked, the program is about twice as large (docs/adr/0015).
PACKAGE_BYTES_MAX=12000000

if [ $# -eq 0 ]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
fi
too_large=0
for file in "$@"; do
    bytes=$(wc -c <"$file")
    echo "$file: $bytes bytes (limit: $PACKAGE_BYTES_MAX)"
    if [ "$bytes" -gt "$PACKAGE_BYTES_MAX" ]; then too_large=1; fi
done
exit "$too_large"
