"""Transactions: every operation in one batch, and batches that fail and must change nothing."""

import pytest

from clients import BatchFailure, Missing, properties

STALE = "W/\"datetime'2012-01-01T00%3A00%3A00Z'\""


def rows(service, table, key):
    return {one.RowKey: properties(one) for one in service.query_entities(table, f"PartitionKey eq '{key}'")}


def insert(service, table, key, row_key, **given):
    return service.insert_entity(table, {"PartitionKey": key, "RowKey": row_key, **given})


def commit_fails(service):
    with pytest.raises(BatchFailure) as caught:
        service.commit_batch()
    return caught.value


def test_every_operation_in_one_batch(service, shared, key):
    for row_key in ("replaced", "merged", "upserted", "joined", "gone"):
        insert(service, shared, key, row_key, Old=1)
    service.begin_batch()
    insert(service, shared, key, "new", Text="Söhne <&> \U0001F600", Blank="  ", Empty="", Nothing=None)
    service.update_entity(shared, key, "replaced", {"PartitionKey": key, "RowKey": "replaced", "New": 2})
    service.merge_entity(shared, key, "merged", {"PartitionKey": key, "RowKey": "merged", "New": 2})
    service.insert_or_replace_entity(shared, key, "upserted", {"PartitionKey": key, "RowKey": "upserted", "New": 2})
    service.insert_or_merge_entity(shared, key, "joined", {"PartitionKey": key, "RowKey": "joined", "New": 2})
    service.insert_or_replace_entity(shared, key, "first", {"PartitionKey": key, "RowKey": "first", "New": 2})
    service.insert_or_merge_entity(shared, key, "second", {"PartitionKey": key, "RowKey": "second", "New": 2})
    service.delete_entity(shared, key, "gone")
    assert "new" not in rows(service_of(service), shared, key)
    service.commit_batch()
    assert rows(service, shared, key) == {
        "new": {"Text": "Söhne <&> \U0001F600", "Blank": "  ", "Empty": ""}, "replaced": {"New": 2}, "merged": {"Old": 1, "New": 2},
        "upserted": {"New": 2}, "joined": {"Old": 1, "New": 2}, "first": {"New": 2}, "second": {"New": 2}}


def service_of(service):
    """Returns a second client of the same account, for reading while the first has an open batch."""
    return type(service)(service.account_name, service.account_key, service.protocol, service.host_base)


def test_hundred_operations(service, shared, key):
    service.begin_batch()
    for n in range(100):
        insert(service, shared, key, f"{n:03}", N=n)
    service.commit_batch()
    assert rows(service, shared, key) == {f"{n:03}": {"N": n} for n in range(100)}


def test_more_than_a_hundred_operations(service, shared, key):
    service.begin_batch()
    for n in range(101):
        insert(service, shared, key, f"{n:03}", N=n)
    failure = commit_fails(service)
    assert failure.code == "InvalidInput" and str(failure).startswith("99:")
    assert rows(service, shared, key) == {}


def test_conditions_that_hold(service, shared, key):
    etags = [insert(service, shared, key, row_key, A=1).etag for row_key in "123"]
    service.begin_batch()
    service.update_entity(shared, key, "1", {"A": 2}, if_match=etags[0])
    service.merge_entity(shared, key, "2", {"B": 2}, if_match=etags[1])
    service.delete_entity(shared, key, "3", if_match=etags[2])
    service.commit_batch()
    assert rows(service, shared, key) == {"1": {"A": 2}, "2": {"A": 1, "B": 2}}


# The failing operation, on the existing entity `old` or the missing entity `none`, and the error code.
FAILURES = {
    "insert-existing": (lambda s, t, k: insert(s, t, k, "old"), "EntityAlreadyExists"),
    "update-stale": (lambda s, t, k: s.update_entity(t, k, "old", {"A": 9}, if_match=STALE), "UpdateConditionNotSatisfied"),
    "merge-stale": (lambda s, t, k: s.merge_entity(t, k, "old", {"A": 9}, if_match=STALE), "UpdateConditionNotSatisfied"),
    "delete-stale": (lambda s, t, k: s.delete_entity(t, k, "old", if_match=STALE), "UpdateConditionNotSatisfied"),
    "update-missing": (lambda s, t, k: s.update_entity(t, k, "none", {"A": 9}), "ResourceNotFound"),
    "merge-missing": (lambda s, t, k: s.merge_entity(t, k, "none", {"A": 9}), "ResourceNotFound"),
    "delete-missing": (lambda s, t, k: s.delete_entity(t, k, "none"), "ResourceNotFound"),
    "value-too-large": (lambda s, t, k: insert(s, t, k, "none", A="x" * 32769), "PropertyValueTooLarge"),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("position", [0, 2])
def test_failure_changes_nothing(service, shared, key, name, position):
    operation, code = FAILURES[name]
    insert(service, shared, key, "old", A=1)
    insert(service, shared, key, "other", A=1)
    service.begin_batch()
    others = [lambda: insert(service, shared, key, "new1"), lambda: service.delete_entity(shared, key, "other"),
              lambda: insert(service, shared, key, "new2")]
    others.insert(position, lambda: operation(service, shared, key))
    for other in others:
        other()
    failure = commit_fails(service)
    assert failure.code == code and str(failure).startswith(f"{position}:")
    assert rows(service, shared, key) == {"old": {"A": 1}, "other": {"A": 1}}


def test_failure_of_a_single_operation(service, shared, key):
    insert(service, shared, key, "old")
    service.begin_batch()
    insert(service, shared, key, "old")
    failure = commit_fails(service)
    assert failure.code == "EntityAlreadyExists" and str(failure).startswith("The specified entity already exists.")


def test_missing_table(service, new_name, key):
    service.begin_batch()
    insert(service, new_name(), key, "r")
    failure = commit_fails(service)
    assert failure.code == "TableNotFound" and str(failure).startswith("0:")


def test_cancelled_batch(service, shared, key):
    service.begin_batch()
    insert(service, shared, key, "r")
    service.cancel_batch()
    with pytest.raises(Missing):
        service.get_entity(shared, key, "r")


def test_empty_batch(service):
    service.begin_batch()
    service.commit_batch()


@pytest.mark.parametrize("row_key", ["a b", "é日本", "a&b", "<x>"])
def test_keys(service, shared, key, row_key):
    service.begin_batch()
    insert(service, shared, key, row_key, A=1)
    service.insert_or_merge_entity(shared, key, row_key + "2", {"PartitionKey": key, "RowKey": row_key + "2", "A": 2})
    service.commit_batch()
    assert rows(service, shared, key) == {row_key: {"A": 1}, row_key + "2": {"A": 2}}
