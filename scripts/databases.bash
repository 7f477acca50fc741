# Functions that run PostgreSQL servers in a temporary folder, for scripts/postgres.sh and scripts/citus.sh.
# shellcheck shell=bash
#
# Call `open_folder` first. It sets `programs` (the folder of PostgreSQL's programs) and `folder` (the temporary folder,
# which becomes the current folder). On any exit of the script, it stops the servers and removes the folder.

# Prints the folder with the programs: in PATH, from pg_config, or where Debian or Homebrew installs them.
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

open_folder() {
    programs=$(find_programs)
    folder=$(mktemp -d)
    as_user=()
    if [ "$(id -u)" -eq 0 ]; then
        # PostgreSQL refuses to run as root.
        local user=postgres
        if ! id "$user" >/dev/null 2>&1; then
            user=nobody
        fi
        chown "$user" "$folder"
        as_user=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
    fi
    cd "$folder"
    children=()
    trap stop EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

stop() {
    trap - EXIT INT TERM
    for child in "${children[@]}"; do
        # A stopped (SIGSTOP) server handles the signal when it continues.
        kill -QUIT "$child" 2>/dev/null && kill -CONT "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    done
    cd /
    rm -rf "$folder"
}

# Runs one of the programs as the user that owns the data.
run() { "${as_user[@]}" env -i PATH="$PATH" LC_ALL=C "$programs/$1" "${@:2}"; }

# Creates a data folder with the given settings in addition to the common ones. `durable`: whether to use fsync.
new_data() {
    local data=$1 durable=$2 settings=$3
    run initdb "--pgdata=$data" --username=rowhouse --auth=trust --encoding=UTF8 --locale=C --no-sync \
        >initdb.log 2>&1 || { cat initdb.log >&2; exit 1; }
    if [ "$durable" = false ]; then
        cat >>"$data/postgresql.conf" <<'SETTINGS'
# Tests kill the server, and the data survives that; it does not need to survive a power failure.
fsync = off
full_page_writes = off
SETTINGS
    fi
    cat >>"$data/postgresql.conf" <<SETTINGS
shared_buffers = 64MB
max_connections = 300
max_wal_size = 4GB
log_line_prefix = '%m [%p] '
$settings
SETTINGS
}

# Starts a server with a data folder and a port, and sets `child` to its process ID. If the folder $DATABASE_CLOCKS is
# set, its library shifts the server's clock by the offset in a file with the name of the data folder.
start() {
    local clock=()
    if [ -n "${DATABASE_CLOCKS:-}" ]; then
        clock=("LD_PRELOAD=$DATABASE_CLOCKS/clock.so" "CLOCK_FILE=$DATABASE_CLOCKS/$1")
    fi
    "${as_user[@]}" env -i PATH="$PATH" LC_ALL=C "${clock[@]}" "$programs/postgres" -D "$folder/$1" -p "$2" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= </dev/null >>server.log 2>&1 &
    child=$!
    children+=("$child")
}

# Waits for a server process that was signalled or killed to exit.
forget() {
    local index
    wait "$1" 2>/dev/null || true
    for index in "${!children[@]}"; do
        if [ "${children[$index]}" = "$1" ]; then unset "children[$index]"; fi
    done
}

# Runs a statement on the server at a port, in the database `postgres` or the given one, and prints its result.
ask() {
    "$programs/psql" --no-psqlrc -h 127.0.0.1 -p "$1" -U rowhouse -d "${3:-postgres}" -v ON_ERROR_STOP=1 -qAtc "$2" 2>>ask.log
}

fail() {
    echo "$1" >&2
    tail -n 5 ask.log >&2 || true
    tail -n 20 server.log >&2
    exit 1
}

# Starts a server with a data folder and a port, and waits until it answers. Sets `child`. Returns 1 on failure.
start_and_wait() {
    start "$1" "$2"
    # A server that cannot use the port exits. Otherwise, it may have much to recover.
    for _ in $(seq 600); do
        if ! kill -0 "$child" 2>/dev/null; then break; fi
        # Another server might already use the port and answer.
        if [ "$(ask "$2" 'SHOW data_directory')" = "$folder/$1" ]; then return; fi
        sleep 0.1
    done
    kill -QUIT "$child" 2>/dev/null || true
    forget "$child"
    return 1
}

# Starts a server with a data folder on a free port, and waits until it answers. Sets `child` and `port`.
start_on_free_port() {
    for _ in 1 2 3 4 5 6 7 8; do
        port=$((20000 + RANDOM % 12000))
        if start_and_wait "$1" "$port"; then return; fi
        # The port is in use.
    done
    fail "the server does not start"
}
