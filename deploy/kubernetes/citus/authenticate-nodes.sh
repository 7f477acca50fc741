#!/bin/sh
# Stores, on a new Citus node, the password with which nodes connect to each other (node 0 means all nodes). Because the
# script is in /docker-entrypoint-initdb.d, the image runs it once, after it has created the database and the extension.
set -e
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv user POSTGRES_USER
\getenv password POSTGRES_PASSWORD
INSERT INTO pg_dist_authinfo (nodeid, rolename, authinfo)
VALUES (0, :'user', 'password=''' || regexp_replace(:'password', '([''\\])', '\\\1', 'g') || '''');
SQL
