#!/bin/sh
# Waits until the catalog of one of the WORKERS contains all of them. A server must not start before that, because a
# node that is not registered with a coordinator behaves like a separate Citus cluster. The server would create separate
# tables there.
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
    echo "waiting for the nodes to be registered"
    sleep 1
done
