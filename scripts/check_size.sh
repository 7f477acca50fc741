#!/usr/bin/env bash
# Fails if a program, without symbols, is larger than releases may be.
#
# usage: scripts/check_size.sh PROGRAM
set -euo pipefail

# 12 MB. What is downloaded is compressed, to about half of it.
PROGRAM_BYTES_MAX=12000000

program=${1:?usage: scripts/check_size.sh PROGRAM}
bytes=$(wc -c <"$program")
echo "$program: $bytes bytes, of at most $PROGRAM_BYTES_MAX"
[ "$bytes" -le "$PROGRAM_BYTES_MAX" ]
