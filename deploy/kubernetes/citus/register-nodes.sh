#!/bin/sh
# Joins nodes into one Citus cluster: registers the coordinator's own address and the WORKERS with the coordinator at
# PGHOST. Running the script again changes nothing. The script does not move data; use citus_rebalance_start to move
# shards to a worker that is added later (docs/scaling.md).
set -eu
PGPASSWORD=$(cat "$PASSWORD_FILE")
export PGPASSWORD
# Nodes start in any order, and their first startup takes a few seconds.
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
