"""Single entities: every type that the client supports, keys, conditions, the properties that each write keeps, and
errors.
"""

from datetime import datetime

import pytest

from clients import Conflict, EntityProperty, Failure, Missing, properties, quoted

STALE = "W/\"datetime'2012-01-01T00%3A00%3A00Z'\""

# The value passed to the client, and the returned value if it differs.
VALUES = {
    "text": ("blue", None),
    "empty": ("", None),
    "one-blank": (" ", None),
    "blanks": ("   ", None),
    "blanks-outside": ("  a b ", None),
    "line-ends": ("a\nb\tc", None),
    "markup": ("<a href=\"x\">&amp; ' ]]></a>", None),
    "latin": ("Grüße, señor", None),
    "cjk": ("日本語", None),
    "astral": ("\U0001F600\U00020000", None),
    "long": ("x" * 32768, None),
    "true": (True, None),
    "false": (False, None),
    "zero": (0, None),
    "int32-least": (-2**31, None),
    "int32-greatest": (2**31 - 1, None),
    "int64": (2**31, None),
    "int64-least": (-2**63, None),
    "int64-greatest": (2**63 - 1, None),
    "int64-small": (EntityProperty("Edm.Int64", 7), 7),
    "int32-typed": (EntityProperty("Edm.Int32", 7), 7),
    "double": (1.5, None),
    "double-integral": (3.0, None),
    "double-small": (-1.7976931348623157e308, None),
    "double-tiny": (5e-324, None),
    "double-infinity": (EntityProperty("Edm.Double", "INF"), float("inf")),
    "time": (datetime(2012, 2, 29, 23, 59, 58), None),
    "time-typed": (EntityProperty("Edm.DateTime", "1999-12-31T23:59:59.123456Z"), datetime(1999, 12, 31, 23, 59, 59, 123456)),
    "guid": (EntityProperty("Edm.Guid", "0b0c0d0e-1111-4222-8333-444455556666"), ("Edm.Guid", "0b0c0d0e-1111-4222-8333-444455556666")),
    "binary": (EntityProperty("Edm.Binary", b"\x00\x01\xfe\xff"), ("Edm.Binary", b"\x00\x01\xfe\xff")),
    "binary-empty": (EntityProperty("Edm.Binary", b""), ("Edm.Binary", b"")),
    "string-typed": (EntityProperty("Edm.String", "as told"), "as told"),
}

KEYS = ["plain", "O'Neil", "''", "a b", " ", "é", "日本", "\U0001F600", "a+b", "100%", "%41", "a&b=c", "<x>", "a,b;c", "{(-_.~!*@$:)}",
        "a\"b", "a|b^`", "x" * 512, ""]


@pytest.mark.parametrize("name", VALUES)
def test_value(service, shared, key, name):
    given, wanted = VALUES[name]
    wanted = given if wanted is None else wanted
    answered = service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "Value": given})
    read = service.get_entity(shared, key, "r")
    [found] = service.query_entities(shared, f"PartitionKey eq '{key}'")
    for entity in (answered, read, found):
        assert (entity.PartitionKey, entity.RowKey) == (key, "r")
        assert properties(entity) == {"Value": wanted}
        assert type(properties(entity)["Value"]) is type(wanted)
        assert entity.etag == answered.etag


def test_null_is_not_stored(service, shared, key):
    entity = service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "Nothing": None, "A": 1})
    assert properties(entity) == {"A": 1}
    assert properties(service.get_entity(shared, key, "r")) == {"A": 1}


def test_all_values_in_one_entity(service, shared, key):
    given = {f"P{n}": value for n, (value, _) in enumerate(VALUES.values())}
    wanted = {f"P{n}": value if other is None else other for n, (value, other) in enumerate(VALUES.values())}
    service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", **given})
    assert properties(service.get_entity(shared, key, "r")) == wanted


def test_names_that_are_not_ascii(service, shared, key):
    service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "Größe": 1, "_x1": 2, "色": "青"})
    assert properties(service.get_entity(shared, key, "r")) == {"Größe": 1, "_x1": 2, "色": "青"}
    assert properties(service.query_entities(shared, "Größe eq 1", "Größe")[0]) == {"Größe": 1}


@pytest.mark.parametrize("row_key", KEYS)
def test_key(service, shared, key, row_key):
    service.insert_entity(shared, {"PartitionKey": key, "RowKey": row_key, "A": 1})
    address = (shared, key, quoted(row_key))
    entity = service.get_entity(*address)
    assert (entity.RowKey, properties(entity)) == (row_key, {"A": 1})
    service.update_entity(*address, {"A": 2})
    service.merge_entity(*address, {"B": 3})
    assert properties(service.get_entity(*address)) == {"A": 2, "B": 3}
    found = service.query_entities(shared, f"PartitionKey eq '{key}' and RowKey eq '{quoted(row_key)}'")
    assert [one.RowKey for one in found] == [row_key]
    service.delete_entity(*address)
    with pytest.raises(Missing):
        service.get_entity(*address)


def test_insert_twice(service, shared, key):
    service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "A": 1})
    with pytest.raises(Conflict):
        service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "A": 2})
    assert properties(service.get_entity(shared, key, "r")) == {"A": 1}


def test_projection(service, shared, key):
    service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "A": 1, "B": "b", "C": True})
    entity = service.get_entity(shared, key, "r", "B,A")
    assert properties(entity) == {"A": 1, "B": "b"}
    assert not hasattr(entity, "PartitionKey") and not hasattr(entity, "Timestamp")
    assert service.get_entity(shared, key, "r", "RowKey").RowKey == "r"


def test_etag_changes_with_every_write(service, shared, key):
    etags = [service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r"}).etag]
    for write in (service.update_entity, service.merge_entity, service.insert_or_replace_entity, service.insert_or_merge_entity):
        etags.append(write(shared, key, "r", {"A": 1})["etag"])
        assert service.get_entity(shared, key, "r").etag == etags[-1]
    assert len(set(etags)) == 5


WRITES = {"update": "update_entity", "merge": "merge_entity"}


@pytest.mark.parametrize("name", WRITES)
def test_write_under_condition(service, shared, key, name):
    write = getattr(service, WRITES[name])
    first = service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "A": 1, "Z": 0}).etag
    second = write(shared, key, "r", {"A": 2}, if_match=first)["etag"]
    kept = {"A": 2, "Z": 0} if name == "merge" else {"A": 2}
    assert second != first and properties(service.get_entity(shared, key, "r")) == kept
    for stale in (first, STALE):
        with pytest.raises(Failure) as caught:
            write(shared, key, "r", {"A": 3}, if_match=stale)
        assert "UpdateConditionNotSatisfied" in str(caught.value) and "Precondition Failed" in str(caught.value)
        assert getattr(caught.value, "status_code", 412) == 412
    assert properties(service.get_entity(shared, key, "r")) == kept
    write(shared, key, "r", {"A": 4}, if_match="*")
    assert properties(service.get_entity(shared, key, "r"))["A"] == 4


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("condition", ["*", STALE])
def test_write_without_entity(service, shared, key, name, condition):
    with pytest.raises(Missing):
        getattr(service, WRITES[name])(shared, key, "r", {"A": 1}, if_match=condition)


def test_merge_changes_a_type_and_leaves_what_is_null(service, shared, key):
    service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "A": 1, "B": 2, "C": "c"})
    service.merge_entity(shared, key, "r", {"PartitionKey": key, "RowKey": "r", "A": "text", "B": None, "D": 4.5})
    assert properties(service.get_entity(shared, key, "r")) == {"A": "text", "B": 2, "C": "c", "D": 4.5}


@pytest.mark.parametrize("exists", [False, True])
def test_insert_or_replace(service, shared, key, exists):
    if exists:
        service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "Old": 1})
    etag = service.insert_or_replace_entity(shared, key, "r", {"PartitionKey": key, "RowKey": "r", "New": 2})["etag"]
    entity = service.get_entity(shared, key, "r")
    assert (entity.etag, properties(entity)) == (etag, {"New": 2})


@pytest.mark.parametrize("exists", [False, True])
def test_insert_or_merge(service, shared, key, exists):
    if exists:
        service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r", "Old": 1})
    etag = service.insert_or_merge_entity(shared, key, "r", {"PartitionKey": key, "RowKey": "r", "New": 2})["etag"]
    entity = service.get_entity(shared, key, "r")
    assert (entity.etag, properties(entity)) == (etag, {"Old": 1, "New": 2} if exists else {"New": 2})


def test_delete_under_condition(service, shared, key):
    etag = service.insert_entity(shared, {"PartitionKey": key, "RowKey": "r"}).etag
    with pytest.raises(Failure) as caught:
        service.delete_entity(shared, key, "r", if_match=STALE)
    assert "UpdateConditionNotSatisfied" in str(caught.value)
    service.delete_entity(shared, key, "r", if_match=etag)
    with pytest.raises(Missing):
        service.delete_entity(shared, key, "r", if_match=etag)
    with pytest.raises(Missing):
        service.delete_entity(shared, key, "r")


OPERATIONS = {
    "insert": lambda s, t: s.insert_entity(t, {"PartitionKey": "p", "RowKey": "r"}),
    "get": lambda s, t: s.get_entity(t, "p", "r"),
    "query": lambda s, t: s.query_entities(t),
    "update": lambda s, t: s.update_entity(t, "p", "r", {"A": 1}),
    "merge": lambda s, t: s.merge_entity(t, "p", "r", {"A": 1}),
    "insert-or-replace": lambda s, t: s.insert_or_replace_entity(t, "p", "r", {"A": 1}),
    "insert-or-merge": lambda s, t: s.insert_or_merge_entity(t, "p", "r", {"A": 1}),
    "delete": lambda s, t: s.delete_entity(t, "p", "r"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_missing_table(service, new_name, name):
    with pytest.raises(Missing):
        OPERATIONS[name](service, new_name())


BAD = {
    "key-with-slash": {"PartitionKey": "a/b", "RowKey": "r"},
    "key-too-long": {"PartitionKey": "p" * 513, "RowKey": "r"},
    "no-row-key": {"PartitionKey": "p"},
    "string-too-long": {"PartitionKey": "p", "RowKey": "r", "A": "x" * 32769},
    "unknown-type": {"PartitionKey": "p", "RowKey": "r", "A": EntityProperty("Edm.Decimal", "1")},
    "not-a-number": {"PartitionKey": "p", "RowKey": "r", "A": EntityProperty("Edm.Int32", "many")},
    "number-too-large": {"PartitionKey": "p", "RowKey": "r", "A": EntityProperty("Edm.Int32", 2**31)},
    "not-a-guid": {"PartitionKey": "p", "RowKey": "r", "A": EntityProperty("Edm.Guid", "none")},
    "not-a-time": {"PartitionKey": "p", "RowKey": "r", "A": EntityProperty("Edm.DateTime", "noon")},
    "bad-name": {"PartitionKey": "p", "RowKey": "r", "A-B": 1},
    "too-many": {"PartitionKey": "p", "RowKey": "r", **{f"A{n}": n for n in range(253)}},
}


@pytest.mark.parametrize("name", BAD)
def test_refused_entity(service, shared, name):
    with pytest.raises(Failure) as caught:
        service.insert_entity(shared, BAD[name])
    assert "Bad Request" in str(caught.value)


def test_entity_of_a_megabyte(service, shared, key):
    entity = {"PartitionKey": key, "RowKey": "r", **{f"A{n}": "x" * 32768 for n in range(15)}}
    service.insert_entity(shared, entity)
    assert len(properties(service.get_entity(shared, key, "r"))) == 15
    entity.update(RowKey="s", **{f"B{n}": "x" * 32768 for n in range(2)})
    with pytest.raises(Failure):
        service.insert_entity(shared, entity)
