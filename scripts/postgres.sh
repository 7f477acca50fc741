#!/usr/bin/env bash
# Runs a PostgreSQL server for tests in a temporary folder, until standard input is closed.
#
# usage: scripts/postgres.sh [--durable | --standby | --once SETTINGS]
#
# When the server is ready, the script prints one line: the URL of its database, the folder of the PostgreSQL programs,
# and the ID of the server process. If the server dies, the script restarts it with the same data, as a service manager
# would. If PostgreSQL is not installed, the script reports what is missing and exits with 77.
#
# --durable  enables fsync, as for production data; for measurements
# --standby  enables fsync and starts a second server, which has every commit on its disk before the commit is
#            acknowledged (synchronous_standby_names, synchronous_commit = on). The URL of the second server is the
#            fourth word of the line. The script restarts neither server if it dies.
# --once     enables fsync, adds the settings to postgresql.conf, and does not restart the server if it dies. At the end,
#            the script also stops servers that the test started in other folders next to the server's `data`.
set -euo pipefail

mode=${1:-}
case $mode in
    '' | --durable | --standby | --once) ;;
    *)
        sed -n 4p "$0" >&2
        exit 2
        ;;
esac

# shellcheck source=scripts/databases.bash
source "$(dirname "$0")/databases.bash"

open_folder
durable=true
if [ -z "$mode" ]; then durable=false; fi
new_data data "$durable" "${2:-}"
if [ "$mode" != --durable ]; then
    # For change logs: each test has its own database and its own replication slot.
    printf '%s\n' 'wal_level = logical' 'max_replication_slots = 100' 'max_wal_senders = 100' >>data/postgresql.conf
fi
# The user `guarded` needs a password.
sed -i '1i host all guarded all scram-sha-256' data/pg_hba.conf

# Makes commits wait for the second server. Sets `standby` to its URL.
start_standby() {
    run pg_basebackup -h 127.0.0.1 -p "$primary" -U rowhouse --pgdata=standby --write-recovery-conf \
        --wal-method=stream --checkpoint=fast >&2
    # After a lost connection, connect again soon.
    echo "wal_retrieve_retry_interval = 200ms" >>standby/postgresql.auto.conf
    # The last entry wins.
    echo "primary_conninfo = 'host=127.0.0.1 port=$primary user=rowhouse application_name=standby'" \
        >>standby/postgresql.auto.conf
    start_on_free_port standby
    standby="postgres://rowhouse@127.0.0.1:$port/postgres"
    ask "$primary" "ALTER SYSTEM SET synchronous_standby_names = 'standby'"
    ask "$primary" 'SELECT pg_reload_conf()' >/dev/null
    for _ in $(seq 600); do
        if [ "$(ask "$primary" 'SELECT sync_state FROM pg_stat_replication')" = sync ]; then return; fi
        sleep 0.1
    done
    fail "the standby does not replicate"
}

# Stops servers that the test started.
stop_others() {
    local file
    for file in "$folder"/*/postmaster.pid; do
        if [ -e "$file" ]; then run pg_ctl --pgdata="${file%/*}" --mode=immediate stop >>server.log 2>&1 || true; fi
    done
}

start_on_free_port data
primary=$port standby=
if [ "$mode" = --standby ]; then start_standby; fi
if [ "$mode" = --once ]; then trap 'stop_others; stop' EXIT; fi
echo "postgres://rowhouse@127.0.0.1:$primary/postgres $programs $(head -n 1 data/postmaster.pid) $standby"

# Waits until standard input is closed. Unless the mode says otherwise, restarts the server if it dies.
while true; do
    status=0
    IFS= read -r -t 0.2 _ || status=$?
    if [ "$status" -ge 1 ] && [ "$status" -le 128 ]; then exit 0; fi
    if [ "$mode" != --standby ] && [ "$mode" != --once ] && ! kill -0 "$child" 2>/dev/null; then
        forget "$child"
        start data "$primary"
    fi
done
