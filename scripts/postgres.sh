#!/usr/bin/env bash
# Runs a PostgreSQL server for tests, in a temporary folder, until standard input ends.
#
# usage: scripts/postgres.sh [--durable | --standby]
#
# When it is ready, it prints one line: the address of its database, the folder of the programs, and the ID of the
# server process. If the server dies, it is restarted on the same data, as a service manager would do. If PostgreSQL is
# not installed, the script reports what is missing and exits with 77.
#
# --durable  enables fsync, as for production data; for measurements
# --standby  enables fsync and starts a second server, which has every commit on its disk before the commit is
#            acknowledged (synchronous_standby_names, synchronous_commit = on). Its address is the fourth word of the
#            line. Neither server is restarted if it dies: the caller decides.
set -euo pipefail

mode=${1:-}
case $mode in
    '' | --durable | --standby) ;;
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
new_data data "$durable" ''
# The user `guarded` needs a password.
sed -i '1i host all guarded all scram-sha-256' data/pg_hba.conf

# Starts a second server that replicates the first, and makes commits wait for it. Sets `standby` to its address.
start_standby() {
    run pg_basebackup -h 127.0.0.1 -p "$primary" -U rowhouse --pgdata=standby --write-recovery-conf \
        --wal-method=stream --checkpoint=fast >&2
    # The last entry wins.
    echo "primary_conninfo = 'host=127.0.0.1 port=$primary user=rowhouse application_name=standby'" \
        >>standby/postgresql.auto.conf
    start_on_free_port standby
    standby="postgres://rowhouse@127.0.0.1:$port/postgres"
    ask "$primary" "ALTER SYSTEM SET synchronous_standby_names = 'standby'"
    ask "$primary" 'SELECT pg_reload_conf()' >/dev/null
    for _ in $(seq 300); do
        if [ "$(ask "$primary" 'SELECT sync_state FROM pg_stat_replication')" = sync ]; then return; fi
        sleep 0.1
    done
    fail "the standby does not replicate"
}

start_on_free_port data
primary=$port standby=
if [ "$mode" = --standby ]; then start_standby; fi
echo "postgres://rowhouse@127.0.0.1:$primary/postgres $programs $(head -n 1 data/postmaster.pid) $standby"

# Waits until standard input ends, and restarts a single server if it dies.
while true; do
    status=0
    IFS= read -r -t 0.2 _ || status=$?
    if [ "$status" -ge 1 ] && [ "$status" -le 128 ]; then exit 0; fi
    if [ "$mode" != --standby ] && ! kill -0 "$child" 2>/dev/null; then
        forget "$child"
        start data "$primary"
    fi
done
