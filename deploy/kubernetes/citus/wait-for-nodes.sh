#!/bin/sh
# Waits until one of WORKERS knows all of them. A server must not start before: a node that no coordinator knows takes itself for a Citus of
# its own, and would get tables of its own.
set -eu
PGPASSWORD=$(cat "$PASSWORD_FILE")
export PGPASSWORD
known() {
    echo "SELECT count(*) FROM pg_dist_node WHERE nodename = ANY (string_to_array(:'workers', ' '))" |
        PGCONNECT_TIMEOUT=3 psql --no-psqlrc --quiet --tuples-only --no-align --host "$1" --set workers="$WORKERS"
}
all=$(echo "$WORKERS" | wc -w)
while true; do
    for host in $WORKERS; do
        if [ "$(known "$host")" = "$all" ]; then
            exit 0
        fi
    done
    echo "waiting until the nodes are registered"
    sleep 1
done
