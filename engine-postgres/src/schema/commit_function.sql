CREATE OR REPLACE FUNCTION {schema}.rowhouse_commit(
    _partition bytea, _table bigint, _generation bigint, _rows bytea[], _expected bytea[], _records bytea[],
    _entry_rows bytea[], _entry_indexes bigint[], _entry_values bytea[]
) RETURNS bytea LANGUAGE plpgsql AS $body$
DECLARE
    _row bytea := _rows[1];
    _record bytea := _records[1];
    _expect bytea := _expected[1];
    _is_done boolean;
    _present bytea[];
    _stamps bytea[];
    _at integer := 1;
    _found bytea;
    _changed bytea[] := _rows;
    _old_rows bytea[];
    _old_indexes bigint[];
    _old_values bytea[];
    _gone_rows bytea[];
    _gone_indexes bigint[];
BEGIN
    IF cardinality(_rows) = 1 THEN
        IF _expect IS NULL THEN
            INSERT INTO {entities} AS e (partition, row, record) VALUES (_partition, _row, _record)
            ON CONFLICT (partition, row) DO UPDATE SET record = excluded.record
            WHERE substring(e.record FROM 2 FOR 8) < substring(excluded.record FROM 2 FOR 8);
        ELSIF length(_expect) = 0 THEN
            INSERT INTO {entities} (partition, row, record) VALUES (_partition, _row, _record)
            ON CONFLICT (partition, row) DO NOTHING;
        ELSIF _record IS NULL THEN
            DELETE FROM {entities} WHERE partition = _partition AND row = _row
            AND (length(_expect) = 1 OR substring(record FROM 2 FOR 8) = _expect);
        ELSE
            UPDATE {entities} SET record = _record WHERE partition = _partition AND row = _row
            AND (length(_expect) = 1 OR substring(record FROM 2 FOR 8) = _expect)
            AND substring(record FROM 2 FOR 8) < substring(_record FROM 2 FOR 8);
        END IF;
        _is_done := FOUND;
    ELSE
        {stay}
        SELECT array_agg(l.row), array_agg(l.stamp) INTO _present, _stamps FROM
            (SELECT row, substring(record FROM 2 FOR 8) AS stamp FROM {entities}
             WHERE partition = _partition AND row = ANY(_rows) ORDER BY row FOR UPDATE) AS l;
        SELECT n.at INTO _at
        FROM unnest(_rows, _expected, _records) WITH ORDINALITY AS n (row, expect, record, at)
        LEFT JOIN unnest(_present, _stamps) AS p (row, stamp) ON p.row = n.row
        WHERE CASE WHEN p.row IS NULL THEN length(n.expect) > 0
                   WHEN length(n.expect) = 0 THEN true
                   ELSE length(n.expect) = 8 AND p.stamp <> n.expect OR p.stamp >= substring(n.record FROM 2 FOR 8) END
        ORDER BY n.at LIMIT 1;
        _is_done := NOT FOUND;
        IF _is_done THEN
            IF _present IS NOT NULL THEN
                DELETE FROM {entities} WHERE partition = _partition
                AND row = ANY(ARRAY(SELECT n.row FROM unnest(_rows, _records) AS n (row, record) WHERE n.record IS NULL));
                UPDATE {entities} AS e SET record = n.record FROM unnest(_rows, _records) AS n (row, record)
                WHERE e.partition = _partition AND e.row = n.row AND e.row = ANY(_present) AND n.record IS NOT NULL;
            END IF;
            SELECT array_agg(n.row ORDER BY n.row), array_agg(n.record ORDER BY n.row) INTO _rows, _records
            FROM unnest(_rows, _records) AS n (row, record)
            WHERE n.record IS NOT NULL AND (_present IS NULL OR n.row <> ALL(_present));
            IF _rows IS NOT NULL THEN
                -- Citus cannot plan the INSERT of several rows with the variables of a function.
                EXECUTE $sql$INSERT INTO {entities} (partition, row, record)
                        SELECT $1, n.row, n.record FROM unnest($2, $3) AS n (row, record)$sql$
                USING _partition, _rows, _records;
            END IF;
        ELSE
            _row := _rows[_at];
            _expect := _expected[_at];
        END IF;
    END IF;
    IF NOT _is_done THEN
        SELECT record INTO _found FROM {entities} WHERE partition = _partition AND row = _row;
        IF _found IS NULL AND coalesce(length(_expect), 0) = 0 THEN
            RAISE serialization_failure USING MESSAGE = 'the entity was deleted concurrently';
        END IF;
    END IF;
    IF _is_done AND _entry_rows IS NOT NULL THEN
        SELECT array_agg(e.row), array_agg(e.index_id), array_agg(e.value) INTO _old_rows, _old_indexes, _old_values
        FROM {entries} AS e WHERE e.partition = _partition AND e.row = ANY(_changed);
        IF _old_rows IS NOT NULL THEN
            SELECT array_agg(g.row), array_agg(g.index_id) INTO _gone_rows, _gone_indexes FROM
                (SELECT * FROM unnest(_old_rows, _old_indexes, _old_values) AS o (row, index_id, value)
                 EXCEPT SELECT * FROM unnest(_entry_rows, _entry_indexes, _entry_values)) AS g;
            DELETE FROM {entries} AS e USING unnest(_gone_rows, _gone_indexes) AS g (row, index_id)
            WHERE e.partition = _partition AND e.row = g.row AND e.index_id = g.index_id AND e.row = ANY(_gone_rows);
        END IF;
        {insert_entries}
    END IF;
    {check_catalog}
    RETURN CASE WHEN NOT _is_done THEN int4send(_at - 1) || coalesce(_found, '') END;
END
$body$
