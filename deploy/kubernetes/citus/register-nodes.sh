#!/bin/sh
# Makes one Citus of its nodes: tells the coordinator, to which PGHOST leads, its own address and those of WORKERS. To run it again changes
# nothing, and it moves no data: a worker that is added later gets its share by citus_rebalance_start (docs/scaling.md).
set -eu
PGPASSWORD=$(cat "$PASSWORD_FILE")
export PGPASSWORD
# Nodes start in any order, and each takes some seconds the first time.
for host in "$PGHOST" $WORKERS; do
    until pg_isready --quiet --host "$host" --timeout 3; do
        echo "waiting for $host"
        sleep 1
    done
done
query() {
    psql --no-psqlrc --quiet --tuples-only --set ON_ERROR_STOP=1 --set host="$1" --set port="${PGPORT:-5432}"
}
echo "SELECT citus_set_coordinator_host(:'host', :port)" | query "$PGHOST"
for host in $WORKERS; do
    echo "SELECT citus_add_node(:'host', :port)" | query "$host"
done
