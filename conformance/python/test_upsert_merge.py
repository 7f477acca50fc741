"""Replace, merge and the upserts: which properties remain, and their order in responses (01 §6, 02 §5)."""

import pytest
from azure.data.tables import UpdateMode

from expect import check_etag, check_status

MERGING = {
    "merge": ("MERGE", "*", None),
    "patch": ("PATCH", "*", None),
    "tunnelled-merge": ("POST", "*", "MERGE"),
    "insert-or-merge": ("MERGE", None, None),
    "insert-or-merge-patch": ("PATCH", None, None),
    "insert-or-merge-tunnelled": ("POST", None, "MERGE"),
}
REPLACING = {
    "update": ("PUT", "*", None),
    "insert-or-replace": ("PUT", None, None),
    "tunnelled-update": ("POST", "*", "PUT"),
}
UPSERTS = {name: case for name, case in {**MERGING, **REPLACING}.items() if case[1] is None}


@pytest.fixture
def stored(shared, key):
    """Inserts an entity with two properties under `key`, and returns the key."""
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "B": "b", "A": 1}), 201)
    return key


def act(table, case, key, properties):
    verb, if_match, method = case
    headers = {"X-HTTP-Method": method} if method else None
    answer = table.write(verb, key, "r", properties, if_match=if_match, headers=headers)
    check_status(answer, 204)
    check_etag(answer)
    assert answer.header("Location") is None and answer.body == b""


@pytest.mark.parametrize("name", MERGING)
def test_merge_keeps_the_others(shared, stored, name):
    act(shared, MERGING[name], stored, {"A": 2, "C": True})
    assert list(shared.stored(stored, "r").items()) == [("A", 2), ("B", "b"), ("C", True)]


@pytest.mark.parametrize("name", MERGING)
def test_merge_changes_a_type(shared, stored, name):
    act(shared, MERGING[name], stored, {"A": "5", "A@odata.type": "Edm.Int64"})
    entity = shared.point(stored, "r").json()
    assert (entity["A"], entity["A@odata.type"], entity["B"]) == ("5", "Edm.Int64", "b")


@pytest.mark.parametrize("name", MERGING)
def test_merge_with_null_leaves_the_value(shared, stored, name):
    act(shared, MERGING[name], stored, {"A": None, "Absent": None})
    assert shared.stored(stored, "r") == {"B": "b", "A": 1}


@pytest.mark.parametrize("name", MERGING)
def test_merge_of_nothing_still_writes(shared, stored, name):
    before = shared.point(stored, "r").json()
    act(shared, MERGING[name], stored, {})
    after = shared.point(stored, "r").json()
    assert after["Timestamp"] != before["Timestamp"]
    assert (after["B"], after["A"]) == ("b", 1)


@pytest.mark.parametrize("name", REPLACING)
def test_replace_drops_the_others(shared, stored, name):
    act(shared, REPLACING[name], stored, {"C": 3, "B": None})
    assert shared.stored(stored, "r") == {"C": 3}


@pytest.mark.parametrize("name", REPLACING)
def test_replace_by_nothing(shared, stored, name):
    act(shared, REPLACING[name], stored, {})
    assert shared.stored(stored, "r") == {}


@pytest.mark.parametrize("name", UPSERTS)
def test_upsert_of_a_missing_entity(shared, key, name):
    act(shared, UPSERTS[name], key, {"Z": 1, "Y": "y", "N": None})
    assert list(shared.stored(key, "r").items()) == [("Y", "y"), ("Z", 1)]


@pytest.mark.parametrize("name", {**MERGING, **REPLACING})
def test_keys_may_stand_in_the_body(shared, stored, name):
    case = {**MERGING, **REPLACING}[name]
    act(shared, case, stored, {"PartitionKey": stored, "RowKey": "r", "A": 9, "Timestamp": "2001-01-01T00:00:00Z"})
    assert shared.stored(stored, "r")["A"] == 9
    assert not shared.point(stored, "r").json()["Timestamp"].startswith("2001")


@pytest.mark.parametrize("name", {**MERGING, **REPLACING})
def test_the_address_wins_over_keys_in_the_body(shared, stored, name):
    """Recorded for PATCH, with and without `If-Match`: the status is 204, and the keys in the body have no effect (01
    §3)."""
    case = {**MERGING, **REPLACING}[name]
    act(shared, case, stored, {"PartitionKey": stored + "x", "RowKey": "other", "A": 9})
    assert shared.stored(stored, "r")["A"] == 9
    check_status(shared.point(stored + "x", "other"), 404)
    check_status(shared.point(stored, "other"), 404)


@pytest.mark.parametrize("name", UPSERTS)
def test_an_upsert_returns_its_entity_if_the_client_prefers_it(shared, key, name):
    """Reported (02 §4.3): 200 with the entity, whether or not it is new."""
    verb, _, method = UPSERTS[name]
    headers = {"Prefer": "return-content", **({"X-HTTP-Method": method} if method else {})}
    for value in (1, 2):
        answer = check_status(shared.write(verb, key, "r", {"A": value}, headers=headers), 200)
        assert answer.body == shared.point(key, "r").body
        assert answer.json()["A"] == value


def test_order_of_properties_over_several_writes(shared, key):
    """Recorded: an insert keeps the order of the request; every other write sorts the properties by name."""
    check_status(shared.insert({"RowKey": "r", "z": 1, "PartitionKey": key, "m": 2, "a": 3}), 201)
    assert list(shared.point(key, "r").json())[2:] == ["PartitionKey", "RowKey", "Timestamp", "z", "m", "a"]
    check_status(shared.write("MERGE", key, "r", {"n": 4, "a": 5, "b": 6}, if_match="*"), 204)
    assert list(shared.stored(key, "r")) == ["a", "b", "m", "n", "z"]
    check_status(shared.write("PUT", key, "r", {"z": 1, "b": 2}, if_match="*"), 204)
    assert list(shared.stored(key, "r")) == ["b", "z"]


@pytest.mark.parametrize("mode", [UpdateMode.MERGE, UpdateMode.REPLACE], ids=["merge", "replace"])
def test_client_upsert(client, mode):
    client.upsert_entity({"PartitionKey": "p", "RowKey": "r", "A": 1, "B": 2}, mode=mode)
    written = client.upsert_entity({"PartitionKey": "p", "RowKey": "r", "A": 3, "C": None}, mode=mode)
    entity = client.get_entity("p", "r")
    kept = {"B": 2} if mode is UpdateMode.MERGE else {}
    assert dict(entity) == {"PartitionKey": "p", "RowKey": "r", "A": 3, **kept}
    assert entity.metadata["etag"] == written["etag"]
