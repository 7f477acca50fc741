#!/usr/bin/env bash
# Runs a PostgreSQL of its own for tests, in a temporary folder, until standard input ends.
#
# usage: scripts/postgres.sh
#
# When it is ready it prints one line: the address of its database, the folder of the programs, and the id of the server
# process. If the server dies it is started again on the same data, as an operating system would. Without PostgreSQL it
# says what is missing and exits with 77.
set -euo pipefail

# The folder with the programs: in PATH, where pg_config says, or where Debian has them.
find_programs() {
    local folder
    for folder in $(tr ':' ' ' <<<"$PATH") "$(pg_config --bindir 2>/dev/null || true)" \
        $(find /usr/lib/postgresql /opt/homebrew/opt /usr/local/pgsql -maxdepth 2 -name bin 2>/dev/null | sort --version-sort --reverse); do
        if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && [ -x "$folder/psql" ]; then
            echo "$folder"
            return
        fi
    done
    echo "there is no PostgreSQL here: no initdb, postgres and psql in PATH (on Debian the package postgresql)" >&2
    exit 77
}

programs=$(find_programs)
folder=$(mktemp -d)
user=$(id -un)
as_user=()
if [ "$(id -u)" -eq 0 ]; then
    # It refuses to run as root.
    user=postgres
    if ! id "$user" >/dev/null 2>&1; then
        user=nobody
    fi
    chown "$user" "$folder"
    as_user=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
fi
cd "$folder"
"${as_user[@]}" env -i PATH="$PATH" LC_ALL=C "$programs/initdb" --pgdata=data --username=rowhouse --auth=trust \
    --encoding=UTF8 --locale=C --no-sync >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
cat >>data/postgresql.conf <<'EOF'
# What is written survives a crash of the server, which is what tests do to it; it need not survive a loss of power.
fsync = off
full_page_writes = off
shared_buffers = 64MB
max_connections = 300
max_wal_size = 4GB
log_line_prefix = '%m [%p] '
EOF
# Whoever is named so needs a password.
sed -i '1i host all guarded all scram-sha-256' data/pg_hba.conf

child=
stop() {
    trap - EXIT INT TERM
    touch "$folder/stopping"
    if [ -n "$child" ]; then
        kill -QUIT "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    cd /
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() {
    "${as_user[@]}" env -i PATH="$PATH" LC_ALL=C "$programs/postgres" -D "$folder/data" -p "$port" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= </dev/null >>server.log 2>&1 &
    child=$!
}

is_ready() { "$programs/psql" -h 127.0.0.1 -p "$port" -U rowhouse -d postgres -qAtc 'SELECT 1' >/dev/null 2>&1; }

ready=
for _ in 1 2 3 4 5 6 7 8; do
    port=$((20000 + RANDOM % 12000))
    start
    for _ in $(seq 100); do
        if ! kill -0 "$child" 2>/dev/null; then break; fi
        if is_ready; then
            ready=yes
            break 2
        fi
        sleep 0.1
    done
    # Somebody else has the port.
    kill -QUIT "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
done
if [ -z "$ready" ]; then
    tail -n 20 server.log >&2
    exit 1
fi
echo "postgres://rowhouse@127.0.0.1:$port/postgres $programs $(head -n 1 data/postmaster.pid)"

# Until standard input ends, and with the server always up.
while true; do
    status=0
    IFS= read -r -t 0.2 _ || status=$?
    if [ "$status" -ge 1 ] && [ "$status" -le 128 ]; then exit 0; fi
    if ! kill -0 "$child" 2>/dev/null; then
        wait "$child" 2>/dev/null || true
        start
    fi
done
