#!/bin/sh
# Prints the time of the newest backup in a repository, and the time up to which its log reaches, for the textfile
# collector of node_exporter. A kind that the repository does not contain is not printed.
#
# usage: backup-age.sh REPOSITORY
set -eu
backups=$(rowhouse backup --list "$1" --json)
echo '# TYPE rowhouse_backup_until_seconds gauge'
for name in time=backup restorable_to=log; do
    latest=$(printf '%s\n' "$backups" | sed -n "s/.*\"${name%=*}\":\"\([^\"]*\)\".*/\1/p" | sort | tail -n 1)
    if [ -n "$latest" ]; then
        echo "rowhouse_backup_until_seconds{kind=\"${name#*=}\",repository=\"$1\"} $(date --date="$latest" +%s)"
    fi
done
