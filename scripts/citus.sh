#!/usr/bin/env bash
# Runs a Citus cluster (a coordinator and workers) for tests in a temporary folder, until standard input is closed.
#
# usage: scripts/citus.sh [--durable] WORKERS
#
# When the cluster is ready, the script prints one line: the URL of the coordinator's database `postgres`, the folder of
# the PostgreSQL programs, and for each node, starting with the coordinator, its address and the ID of its server
# process, as in 127.0.0.1:21000=4711. The script does not restart nodes that die. If PostgreSQL or its Citus extension
# is not installed, the script reports what is missing and exits with 77.
#
# Each line of standard input is a command; the response is one line. Nodes are numbered; the coordinator is 0.
#
#   database NAME  creates a database with the extension on the coordinator and the first WORKERS workers, and joins them
#                  into a cluster; the answer is the URL of the database on the coordinator
#   start N        restarts node N after it was killed; the answer is its address and process, as above
#   add            starts another worker, which belongs to no database yet; the answer is its address and process
#   join NAME N    adds worker N to a database, initially without shards; the answer is "joined"
#
# --durable  enables fsync, as for production data; for measurements
set -euo pipefail

durable=false
if [ "${1:-}" = --durable ]; then
    durable=true
    shift
fi
if ! [[ $# -eq 1 && $1 =~ ^[1-9][0-9]?$ ]]; then
    sed -n 4p "$0" >&2
    exit 2
fi
workers=$1
# shellcheck source=scripts/databases.bash
source "$(dirname "$0")/databases.bash"

open_folder
if ! [ -e "$("$programs/pg_config" --sharedir 2>/dev/null)/extension/citus.control" ]; then
    echo "Citus is not installed: PostgreSQL in $programs does not have the extension citus" >&2
    exit 77
fi

# Each database has a Citus process on each node, and shards move by logical replication. The change log of a database
# needs a replication slot on each node, and the setting that marks the copies of moved shards. If a node dies, the
# coordinating node soon resolves transactions that were prepared but not committed.
settings="
shared_preload_libraries = 'citus'
citus.node_conninfo = 'sslmode=prefer'
citus.recover_2pc_interval = 2s
max_prepared_transactions = 300
max_worker_processes = 100
wal_level = logical
citus.enable_change_data_capture = on
max_replication_slots = 60
max_wal_senders = 60
"
# Shards are split with a plugin for logical decoding, which some versions of PostgreSQL permit only if it is listed.
if run postgres --describe-config | grep ^output_plugin_libraries >/dev/null; then
    settings+="output_plugin_libraries = 'pgoutput, citus'"
fi
ports=() pids=()

new_node() {
    local data=node${#ports[@]}
    new_data "$data" "$durable" "$settings"
    start_on_free_port "$data"
    ports+=("$port")
    pids+=("$child")
}

node() { echo "127.0.0.1:${ports[$1]}=${pids[$1]}"; }

create_database() {
    ask "${ports[$1]}" "CREATE DATABASE $2" || fail "the database $2 cannot be created"
    ask "${ports[$1]}" 'CREATE EXTENSION citus' "$2" || fail "the Citus extension cannot be created in the database $2"
}

add_to() {
    ask "${ports[0]}" "SELECT citus_add_node('127.0.0.1', ${ports[$2]})" "$1" >/dev/null || fail "worker $2 cannot be added"
}

new_database() {
    local number
    for number in $(seq 0 "$workers"); do
        create_database "$number" "$1"
    done
    ask "${ports[0]}" "SELECT citus_set_coordinator_host('127.0.0.1', ${ports[0]})" "$1" >/dev/null || fail "the coordinator cannot be registered"
    for number in $(seq "$workers"); do
        add_to "$1" "$number"
    done
}

# The previous child processes of a node may need a moment to exit.
start_again() {
    forget "${pids[$1]}"
    for _ in $(seq 20); do
        if start_and_wait "node$1" "${ports[$1]}"; then
            pids[$1]=$child
            return
        fi
        sleep 0.2
    done
    fail "node $1 does not restart"
}

nodes=
for number in $(seq 0 "$workers"); do
    new_node
    nodes+=" $(node "$number")"
done
echo "postgres://rowhouse@127.0.0.1:${ports[0]}/postgres $programs$nodes"

while IFS=' ' read -r command first second; do
    case $command in
        database)
            new_database "$first"
            echo "postgres://rowhouse@127.0.0.1:${ports[0]}/$first"
            ;;
        start)
            start_again "$first"
            node "$first"
            ;;
        add)
            new_node
            node $((${#ports[@]} - 1))
            ;;
        join)
            create_database "$second" "$first"
            add_to "$first" "$second"
            echo joined
            ;;
        *) fail "unknown command '$command'" ;;
    esac
done
