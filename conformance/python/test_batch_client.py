"""The transactions of frameworks, through the official Python client."""

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import RequestTooLargeError, TableTransactionError, UpdateMode

from expect import ETAG

P = "partition"


def entity(row_key, **properties):
    return {"PartitionKey": P, "RowKey": row_key, **properties}


def conditioned(operation, item, etag, mode=UpdateMode.REPLACE):
    options = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    if operation == "update":
        options["mode"] = mode
    return (operation, item, options)


def row_keys(client):
    return [e["RowKey"] for e in client.query_entities(f"PartitionKey eq '{P}'", select=["RowKey"])]


def test_hundred_inserts(client):
    answers = client.submit_transaction([("create", entity(f"{n:03}", N=n)) for n in range(100)])
    assert len(answers) == 100
    assert all(ETAG.fullmatch(answer["etag"]) for answer in answers)
    assert row_keys(client) == [f"{n:03}" for n in range(100)]


def test_hundred_and_one_inserts(client):
    with pytest.raises(TableTransactionError) as raised:
        client.submit_transaction([("create", entity(f"{n:03}")) for n in range(101)])
    assert raised.value.index == 99
    assert row_keys(client) == []


def test_every_operation_in_one_transaction(client):
    for row_key in ("merged", "replaced", "deleted", "upsert-merged"):
        client.create_entity(entity(row_key, Old=1))
    answers = client.submit_transaction([
        ("create", entity("created", A=1)),
        ("update", entity("merged", A=1), {"mode": UpdateMode.MERGE}),
        ("update", entity("replaced", A=1), {"mode": UpdateMode.REPLACE}),
        ("upsert", entity("upsert-merged", A=1), {"mode": UpdateMode.MERGE}),
        ("upsert", entity("upsert-replaced", A=1), {"mode": UpdateMode.REPLACE}),
        ("delete", entity("deleted")),
    ])
    assert len(answers) == 6 and answers[5].get("etag") is None
    found = {e["RowKey"]: e for e in client.list_entities()}
    assert sorted(found) == ["created", "merged", "replaced", "upsert-merged", "upsert-replaced"]
    assert ["Old" in found[row_key] for row_key in sorted(found)] == [False, True, False, True, False]
    for answer, row_key in zip(answers, ("created", "merged", "replaced", "upsert-merged", "upsert-replaced")):
        assert found[row_key].metadata["etag"] == answer["etag"]


def membership(client):
    """Inserts a membership table: the version entity and one member."""
    client.create_entity(entity("version", N=1))
    client.create_entity(entity("member", Status="Joining"))
    return client.get_entity(P, "version"), client.get_entity(P, "member")


def test_cluster_membership_update(client):
    """One transaction replaces two entities, each on condition of its ETag."""
    version, member = membership(client)
    version_etag, member_etag = version.metadata["etag"], member.metadata["etag"]
    client.submit_transaction([conditioned("update", entity("member", Status="Active"), member_etag),
                               conditioned("update", entity("version", N=2), version_etag)])
    assert client.get_entity(P, "version")["N"] == 2
    with pytest.raises(TableTransactionError) as raised:
        client.submit_transaction([conditioned("update", entity("member", Status="Dead"), member_etag),
                                   conditioned("update", entity("version", N=3), client.get_entity(P, "version").metadata["etag"])])
    assert (raised.value.status_code, raised.value.error_code, raised.value.index) == (412, "UpdateConditionNotSatisfied", 0)
    assert client.get_entity(P, "member")["Status"] == "Active" and client.get_entity(P, "version")["N"] == 2


def test_cluster_membership_insert_loses_against_a_new_version(client):
    version, _ = membership(client)
    client.update_entity(entity("version", N=2), mode=UpdateMode.REPLACE)
    with pytest.raises(TableTransactionError) as raised:
        client.submit_transaction([("create", entity("second", Status="Joining")),
                                   conditioned("update", entity("version", N=2), version.metadata["etag"])])
    assert (raised.value.status_code, raised.value.index) == (412, 1)
    assert row_keys(client) == ["member", "version"]


def history(client, sentinel_etag, start):
    """Returns 99 upserts of a history, and a replacement of the sentinel on condition of its ETag."""
    operations = [("upsert", entity(f"{n:016}", Event=n), {"mode": UpdateMode.REPLACE}) for n in range(start, start + 99)]
    operations.append(conditioned("update", entity("sentinel", Completed=False, Count=start + 99), sentinel_etag))
    return client.submit_transaction(operations)


def test_history_with_a_sentinel(client):
    """A failed condition on the sentinel shows that another writer took over. No part of the history is stored."""
    client.create_entity(entity("sentinel"))
    first = client.get_entity(P, "sentinel").metadata["etag"]
    answers = history(client, first, 0)
    assert len(answers) == 100 and all(answer["etag"] for answer in answers)
    second = answers[-1]["etag"]
    history(client, second, 99)
    with pytest.raises(TableTransactionError) as raised:
        history(client, second, 500)
    assert (raised.value.status_code, raised.value.index) == (412, 99)
    assert raised.value.error_code == "UpdateConditionNotSatisfied"
    assert len(row_keys(client)) == 2 * 99 + 1
    assert client.get_entity(P, "sentinel")["Count"] == 198


def test_delete_hundred_with_any(client):
    items = [entity(f"{n:03}") for n in range(100)]
    client.submit_transaction([("create", item) for item in items])
    answers = client.submit_transaction([("delete", item) for item in items])
    assert len(answers) == 100
    assert row_keys(client) == []


def test_delete_missing_rolls_back(client):
    client.create_entity(entity("a"))
    with pytest.raises(TableTransactionError) as raised:
        client.submit_transaction([("delete", entity("a")), ("delete", entity("b"))])
    assert (raised.value.status_code, raised.value.error_code, raised.value.index) == (404, "ResourceNotFound", 1)
    assert row_keys(client) == ["a"]


def test_duplicate_insert_is_reported_with_its_index(client):
    client.create_entity(entity("b"))
    with pytest.raises(TableTransactionError) as raised:
        client.submit_transaction([("create", entity("a")), ("create", entity("b"))])
    assert (raised.value.status_code, raised.value.error_code, raised.value.index) == (409, "EntityAlreadyExists", 1)
    assert row_keys(client) == ["b"]


def test_missing_table(service, new_name):
    client = service.get_table_client(new_name())
    with pytest.raises(TableTransactionError) as raised:
        client.submit_transaction([("create", entity("a"))])
    assert (raised.value.status_code, raised.value.error_code, raised.value.index) == (404, "TableNotFound", 0)


def test_over_four_mib(client):
    text = "x" * 32_000
    items = [entity(f"{n:02}", P0=text, P1=text, P2=text, P3=text) for n in range(40)]
    with pytest.raises(RequestTooLargeError):
        client.submit_transaction([("create", item) for item in items])
    assert row_keys(client) == []


def test_wide_entities(client):
    """One transaction stores an object with more than 252 properties as several entities in one partition."""
    values = {f"Property{n:04}": n for n in range(1000)}
    names = sorted(values)
    slices = [names[start:start + 250] for start in range(0, len(names), 250)]
    client.submit_transaction([("upsert", entity(f"wide_{i}", **{n: values[n] for n in part}), {"mode": UpdateMode.REPLACE})
                               for i, part in enumerate(slices)])
    found = {}
    for item in client.query_entities(f"PartitionKey eq '{P}' and RowKey ge 'wide_' and RowKey lt 'wide`'"):
        found.update({name: value for name, value in item.items() if name.startswith("Property")})
    assert found == values


def test_keys_with_special_characters(client):
    odd = ["O'Neil", "Söhne & Co", "100%", "a+b", "日本", "a`b", "\U0001F600", ""]
    client.submit_transaction([("create", entity(row_key, A=1)) for row_key in odd])
    client.submit_transaction([("update", entity(row_key, A=2), {"mode": UpdateMode.MERGE}) for row_key in odd])
    assert {e["RowKey"]: e["A"] for e in client.list_entities()} == dict.fromkeys(odd, 2)
    client.submit_transaction([("delete", entity(row_key)) for row_key in odd])
    assert row_keys(client) == []


def test_reads_see_all_or_nothing(client):
    client.submit_transaction([("create", entity(f"{n}", Round=0)) for n in range(10)])
    for number in range(1, 6):
        client.submit_transaction([("update", entity(f"{n}", Round=number), {"mode": UpdateMode.REPLACE}) for n in range(10)])
        assert {e["Round"] for e in client.list_entities()} == {number}
    with pytest.raises(ResourceNotFoundError):
        client.get_entity(P, "10")
