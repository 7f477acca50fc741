"""Service properties as each client supports them, a wrong key, and the whole life cycle of a table in one case."""

import pytest

from clients import VERSION, Failure, Missing, TableService, properties


@pytest.fixture
def restored(service):
    """Restores the properties of the account after the test."""
    before = service.get_table_service_properties()
    yield
    service.set_table_service_properties(before)


def test_service_properties(service, restored):
    """The 2012 client supports one kind of metrics; the 2014 client supports two."""
    wanted = service.get_table_service_properties()
    assert str(wanted.logging.version) == "1.0"
    metrics = [wanted.metrics] if VERSION < "2013" else [wanted.hour_metrics, wanted.minute_metrics]
    assert [str(one.version) for one in metrics] == ["1.0"] * len(metrics)
    wanted.logging.read = True
    wanted.logging.retention_policy.enabled = True
    wanted.logging.retention_policy.days = 5
    service.set_table_service_properties(wanted)
    found = service.get_table_service_properties().logging
    assert (found.read, found.write, found.delete) == (True, False, False)
    assert (found.retention_policy.enabled, int(found.retention_policy.days)) == (True, 5)


def test_refused_service_properties(service):
    wanted = service.get_table_service_properties()
    wanted.logging.retention_policy.enabled = True
    wanted.logging.retention_policy.days = 366
    with pytest.raises(Failure) as caught:
        service.set_table_service_properties(wanted)
    assert "InvalidXmlDocument" in str(caught.value)


def test_wrong_key(address, shared):
    stranger = TableService(address.account, "AAAA" + address.key[4:], address.protocol, address.suffix)
    with pytest.raises(Failure) as caught:
        stranger.query_entities(shared)
    assert "AuthenticationFailed" in str(caught.value)


def test_unknown_account(address, shared):
    stranger = TableService("nobody", address.key, address.protocol, address.suffix)
    with pytest.raises(Failure) as caught:
        stranger.query_entities(shared)
    assert "AuthenticationFailed" in str(caught.value)


def test_life_of_a_table(service, new_name):
    """Executes every kind of operation, from creating the table to deleting it."""
    name = new_name()
    service.create_table(name, fail_on_exist=True)
    for n in range(25):
        service.insert_entity(name, {"PartitionKey": "life", "RowKey": f"{n:02}", "N": n, "Text": f"Nr. {n} ü"})
    seen, marker = [], {}
    while True:
        page = service.query_entities(name, "N ge 3 and N lt 23", top=8, **marker)
        seen += [one.N for one in page]
        headers = getattr(page, "x_ms_continuation", {})
        if "nextpartitionkey" not in headers:
            break
        marker = {"next_partition_key": headers["nextpartitionkey"], "next_row_key": headers["nextrowkey"]}
    assert seen == list(range(3, 23))
    etag = service.update_entity(name, "life", "00", {"N": 100}, if_match=service.get_entity(name, "life", "00").etag)["etag"]
    etag = service.merge_entity(name, "life", "00", {"More": True}, if_match=etag)["etag"]
    assert properties(service.get_entity(name, "life", "00")) == {"N": 100, "More": True}
    service.insert_or_replace_entity(name, "life", "25", {"N": 25})
    service.insert_or_merge_entity(name, "life", "25", {"More": False})
    service.begin_batch()
    service.delete_entity(name, "life", "00", if_match=etag)
    for n in range(1, 26):
        service.delete_entity(name, "life", f"{n:02}")
    service.insert_entity(name, {"PartitionKey": "life", "RowKey": "last"})
    service.commit_batch()
    assert [one.RowKey for one in service.query_entities(name)] == ["last"]
    service.delete_entity(name, "life", "last")
    service.delete_table(name, fail_not_exist=True)
    with pytest.raises(Missing):
        service.query_entities(name)
