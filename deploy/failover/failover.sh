#!/usr/bin/env bash
# Runs one of two servers, of which one is the primary and the other its standby. A row in PostgreSQL decides which.
#
# usage: failover.sh [--begin]
#
# --begin  creates the row: this machine, which has the data, is the first primary
#
# environment:
# FAILOVER_DATABASE    the database with the row, as a URL or as psql accepts it
# FAILOVER_SELF        the address at which the other machine reaches this server, such as https://a.example.org:10002
# FAILOVER_PEER        the address of the server on the other machine
# FAILOVER_TOKEN_FILE  the file with the token of the standbys
# FAILOVER_LEASE       the number of seconds after which a primary is lost if it does not renew its lease [default: 10]
# ROWHOUSE_DATA, ROWHOUSE_LISTEN, ROWHOUSE_ADMIN, ROWHOUSE_KEEP_LOG and further options of the server, except
#                      --acknowledge and --standby-token-file
#
# docs/standby.md explains why two servers never both acknowledge a write.
set -euo pipefail
if [ "${1:-}" != '' ] && [ "$1" != --begin ]; then sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 2; fi
self=${FAILOVER_SELF:?} peer=${FAILOVER_PEER:?} token=${FAILOVER_TOKEN_FILE:?} database=${FAILOVER_DATABASE:?}
data=${ROWHOUSE_DATA:?} lease=${FAILOVER_LEASE:-10}
: "${ROWHOUSE_LISTEN:?}" "${ROWHOUSE_ADMIN:?}" "${ROWHOUSE_KEEP_LOG:?}"
patience=$(((lease + 2) / 3))
server='' input=''

log() { echo "$(date -u +%FT%TZ) failover: $*" >&2; }
# Returns the time since the machine was started, in hundredths of a second. It includes the time for which it slept.
clock() { local up; read -r up _ </proc/uptime && echo $((10#${up/./})); }

# Runs a statement, and writes the rows.
sql() {
    PGCONNECT_TIMEOUT=$patience timeout "$patience" psql -XqAt -F ' ' -v ON_ERROR_STOP=1 -v self="$self" \
        -v peer="$peer" -v lease="$lease seconds" -d "$database" <<<"$1"
}
# Changes the row, if this machine holds the lease and the condition holds.
change() { [ "$(sql "UPDATE rowhouse_failover SET $1 WHERE holder = :'self' RETURNING 'changed'")" = changed ]; }

# The server stops when its standard input is closed, so that it does not outlive this script.
start() {
    exec {input}> >(exec rowhouse "$@" --stop-with-stdin)
    server=$!
}
runs() { [ -n "$server" ] && kill -0 "$server" 2>/dev/null; }
stop() {
    if runs; then
        kill -s "$1" "$server" 2>/dev/null || true
        for _ in {1..20}; do if runs; then sleep 0.1; fi; done
        kill -KILL "$server" 2>/dev/null || true
    fi
    if [ -n "$server" ]; then
        wait "$server" 2>/dev/null || true
        exec {input}>&-
    fi
    server=''
}
trap 'stop TERM' EXIT
trap exit INT TERM

# Reads the role of the data folder, and for a standby, whether its primary waited for it.
read_role() {
    role='' awaited=''
    if [ -e "$data/rowhouse.replication" ] && [ ! -e "$data/rowhouse.restoring" ]; then
        read -r role _ awaited < <(tail -n 1 "$data/rowhouse.replication")
    fi
}

# Renews the lease. If that is impossible, stops the server before the lease has run out.
renew() {
    local began row
    began=$(clock)
    if row=$(sql "UPDATE rowhouse_failover SET expires = clock_timestamp() + :'lease' WHERE holder = :'self' RETURNING 1"); then
        if [ "$row" = 1 ]; then deadline=$((began + lease * 100)); return 0; fi
        log 'another server has the lease'
    elif [ $(($(clock) + (patience + 2) * 100)) -lt "$deadline" ]; then
        return 0
    else
        log 'the lease cannot be renewed'
    fi
    stop KILL
    return 1
}

start_primary() {
    log "starting the primary with --acknowledge $1"
    acknowledge=$1 since=$(clock)
    local more=()
    if [ "$1" = standby ]; then more=(--acknowledge-seconds "$patience"); fi
    start serve --standby-token-file "$token" --acknowledge "$1" "${more[@]}"
}

# Promotes the folder if it is a standby, and serves it as long as this machine holds the lease.
be_primary() {
    local state may_fail_over=$1 deadline=0 acknowledge since
    read_role
    if [ "$role" = standby ]; then
        stop TERM
        log 'promoting the standby'
        if ! rowhouse promote --data "$data" >&2; then
            change "holder = :'peer', standby = true, expires = clock_timestamp()" || true
            return
        fi
        timeout 5 rowhouse promote --data "$data" --former "$peer" --token-file "$token" >&2 || true &
    fi
    renew || return 0
    if [ "$may_fail_over" = t ]; then start_primary standby; else start_primary primary; fi
    while renew; do
        if ! runs; then
            log 'the server ended'
            stop KILL
            # Let the standby take over.
            if [ "$may_fail_over" = t ]; then sleep $((lease + 3)); else sleep 1; fi
            return
        fi
        state=$(rowhouse health --timeout 1 2>&1) || state=''
        if [[ $state = ready:* ]]; then change 'serving = true' || true; fi
        if [ "$acknowledge" = primary ]; then
            # The standby has nearly everything: wait for it from now on.
            if [[ $state =~ 'is connected, and lacks '[0-9]{1,4}' transactions' ]]; then
                stop TERM
                start_primary standby
            fi
        elif [[ $state = *'every acknowledged write'* ]]; then
            since=$(clock)
            if [ "$may_fail_over" = f ] && change 'standby = true'; then
                log 'the standby has everything, and may take over'
                may_fail_over=t
            fi
        elif [[ $state = *'standby is '* && $(($(clock) - since)) -gt $((lease * 100)) ]] && change 'standby = false'; then
            log 'the standby is away: continuing without it, and it may not take over'
            may_fail_over=f
            stop TERM
            start_primary primary
        fi
        sleep 1
    done
}

if [ "${1:-}" = --begin ]; then
    sql "CREATE TABLE IF NOT EXISTS rowhouse_failover (one boolean PRIMARY KEY DEFAULT true CHECK (one), holder text NOT NULL,
            standby boolean NOT NULL, serving boolean NOT NULL, expires timestamptz NOT NULL);
        INSERT INTO rowhouse_failover VALUES (true, :'self', false, false, clock_timestamp())"
fi
log "running as $self"
while true; do
    if ! row=$(sql 'SELECT holder, standby, serving, expires < clock_timestamp() FROM rowhouse_failover'); then
        log 'the database does not answer'
        sleep 1
        continue
    fi
    read -r holder standby serving is_expired <<<"$row" || true
    read_role
    if [ "$holder" = "$self" ]; then
        be_primary "$standby"
    elif [ "$holder" != "$peer" ]; then
        log "the row names neither this server nor its peer, but '$holder'"
    elif [ "$is_expired $standby $role $awaited" = 't t standby awaited' ]; then
        taken=$(sql "UPDATE rowhouse_failover SET holder = :'self', standby = false, serving = false,
            expires = clock_timestamp() + :'lease' WHERE holder = :'peer' AND standby AND expires < clock_timestamp()
            RETURNING 'taken'") || true
        if [ "$taken" = taken ]; then log 'took the lease' && continue; fi
    elif [ "$role" = primary ] || [ "$role" = fenced ]; then
        # Nothing is deleted: the folder may contain writes that the new primary does not have.
        if [ "$serving $is_expired" = 't f' ]; then
            aside=$data.former-$(date -u +%Y%m%dT%H%M%SZ)
            log "moving the folder of the former primary to $aside"
            mv -T "$data" "$aside"
        fi
    elif ! runs; then
        stop KILL
        log "following $peer"
        start standby --of "$peer" --token-file "$token" --replace
    fi
    sleep 1
done
