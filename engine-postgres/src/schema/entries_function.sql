CREATE OR REPLACE FUNCTION {schema}.rowhouse_add_entries(
    _partition bytea, _table bigint, _generation bigint, _rows bytea[], _stamps bytea[],
    _entry_rows bytea[], _entry_indexes bigint[], _entry_values bytea[]
) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    _present bytea[];
    _present_stamps bytea[];
    _old_rows bytea[];
    _old_indexes bigint[];
    _old_values bytea[];
BEGIN
    {stay}
    SELECT array_agg(l.row), array_agg(l.stamp) INTO _present, _present_stamps FROM
        (SELECT row, substring(record FROM 2 FOR 8) AS stamp FROM {entities}
         WHERE partition = _partition AND row = ANY(_rows) ORDER BY row FOR UPDATE) AS l;
    SELECT array_agg(e.row), array_agg(e.index_id), array_agg(e.value) INTO _old_rows, _old_indexes, _old_values
    FROM {entries} AS e WHERE e.partition = _partition AND e.row = ANY(_present);
    SELECT array_agg(n.row), array_agg(n.index_id), array_agg(n.value)
    INTO _entry_rows, _entry_indexes, _entry_values
    FROM unnest(_entry_rows, _entry_indexes, _entry_values) AS n (row, index_id, value)
    JOIN unnest(_rows, _stamps) AS k (row, stamp) ON k.row = n.row
    JOIN unnest(_present, _present_stamps) AS p (row, stamp) ON p.row = k.row AND p.stamp = k.stamp;
    {insert_entries}
    {check_catalog}
END
$body$
