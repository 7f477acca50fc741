#!/usr/bin/env bash
# Runs a PostgreSQL for tests, in a temporary folder, until standard input ends.
#
# usage: scripts/postgres.sh [--durable | --standby]
#
# When it is ready it prints one line: the address of its database, the folder of the programs, and the id of the server
# process. If the server dies it is started again on the same data, as a service manager would do. Without PostgreSQL it
# prints what is missing and exits with 77.
#
# --durable  with fsync, as for real data; for measurements
# --standby  with fsync and a second server, which has every commit on its disk before the commit is acknowledged
#            (synchronous_standby_names, synchronous_commit = on). Its address is the fourth word of the line. Neither server
#            is started again when it dies: the caller decides.
set -euo pipefail

mode=${1:-}
case $mode in
    '' | --durable | --standby) ;;
    *)
        sed -n 4p "$0" >&2
        exit 2
        ;;
esac

# The folder with the programs: in PATH, as pg_config reports, or where Debian installs them.
find_programs() {
    local folder
    for folder in $(tr ':' ' ' <<<"$PATH") "$(pg_config --bindir 2>/dev/null || true)" \
        $(find /usr/lib/postgresql /opt/homebrew/opt /usr/local/pgsql -maxdepth 2 -name bin 2>/dev/null | sort --version-sort --reverse); do
        if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && [ -x "$folder/psql" ]; then
            echo "$folder"
            return
        fi
    done
    echo "PostgreSQL is not installed: no initdb, postgres and psql in PATH (on Debian the package postgresql)" >&2
    exit 77
}

programs=$(find_programs)
folder=$(mktemp -d)
user=$(id -un)
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    # PostgreSQL refuses to run as root.
    user=postgres
    if ! id "$user" >/dev/null 2>&1; then
        user=nobody
    fi
    chown "$user" "$folder"
    as_user=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
fi
cd "$folder"

# Runs one of the programs as that user.
run() { "${as_user[@]}" env -i PATH="$PATH" LC_ALL=C "$programs/$1" "${@:2}"; }

run initdb --pgdata=data --username=rowhouse --auth=trust --encoding=UTF8 --locale=C --no-sync \
    >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
if [ -z "$mode" ]; then
    cat >>data/postgresql.conf <<'EOF'
# Tests kill the server, and the data survive that; they need not survive a loss of power.
fsync = off
full_page_writes = off
EOF
fi
cat >>data/postgresql.conf <<'EOF'
shared_buffers = 64MB
max_connections = 300
max_wal_size = 4GB
log_line_prefix = '%m [%p] '
EOF
# The user `guarded` needs a password.
sed -i '1i host all guarded all scram-sha-256' data/pg_hba.conf

children=()
stop() {
    trap - EXIT INT TERM
    touch "$folder/stopping"
    for child in "${children[@]}"; do
        kill -QUIT "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    done
    cd /
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts a server on a data folder and a port, and sets `child` to its process.
start() {
    "${as_user[@]}" env -i PATH="$PATH" LC_ALL=C "$programs/postgres" -D "$folder/$1" -p "$2" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= </dev/null >>server.log 2>&1 &
    child=$!
    children+=("$child")
}

# Runs a statement on the server at a port, and prints its result.
ask() { "$programs/psql" -h 127.0.0.1 -p "$1" -U rowhouse -d postgres -qAtc "$2" 2>/dev/null; }

fail() {
    echo "$1" >&2
    tail -n 20 server.log >&2
    exit 1
}

# Starts a server on a data folder and a free port, and waits until it answers. Sets `child` and `port`.
start_on_free_port() {
    for _ in 1 2 3 4 5 6 7 8; do
        port=$((20000 + RANDOM % 12000))
        start "$1" "$port"
        for _ in $(seq 100); do
            if ! kill -0 "$child" 2>/dev/null; then break; fi
            # Another server that already has the port might answer.
            if [ "$(ask "$port" 'SHOW data_directory')" = "$folder/$1" ]; then return; fi
            sleep 0.1
        done
        # The port is taken.
        kill -QUIT "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
        unset 'children[-1]'
    done
    fail "the server does not start"
}

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

# Waits until standard input ends, and keeps a single server running.
while true; do
    status=0
    IFS= read -r -t 0.2 _ || status=$?
    if [ "$status" -ge 1 ] && [ "$status" -le 128 ]; then exit 0; fi
    if [ "$mode" != --standby ] && ! kill -0 "$child" 2>/dev/null; then
        wait "$child" 2>/dev/null || true
        children=()
        start data "$primary"
    fi
done
