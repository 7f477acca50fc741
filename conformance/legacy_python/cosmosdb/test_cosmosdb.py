"""The whole life cycle of a table through `azure-cosmosdb-table` 1.0, the predecessor of the current Python client.

The client sends version 2018-03-28 and uses JSON. Its requests contain no metadata.
"""

from datetime import datetime, timedelta, timezone

import pytest
from azure.common import AzureConflictHttpError, AzureException, AzureHttpError, AzureMissingResourceHttpError
from azure.cosmosdb.table import EdmType, EntityProperty, TableBatch, TablePermissions, TableService
from azure.cosmosdb.table.common.models import AccessPolicy, Logging, RetentionPolicy
from azure.cosmosdb.table.common.retry import no_retry

from address import unique_name

STALE = "W/\"datetime'2012-01-01T00%3A00%3A00Z'\""
GUID = "0b0c0d0e-1111-4222-8333-444455556666"


def connect(address, **credential):
    """Returns a client that does not retry. Retries would hide errors, such as a failed batch answered with 202."""
    credential = credential or {"account_key": address.key}
    client = TableService(account_name=address.account, protocol=address.protocol, endpoint_suffix=address.suffix.removeprefix(".table."),
                          **credential)
    client.retry = no_retry
    return client


@pytest.fixture(scope="module")
def service(address):
    return connect(address)


@pytest.fixture(scope="module")
def table(service):
    name = unique_name()
    assert service.create_table(name)
    yield name
    service.delete_table(name)


def values(entity):
    def plain(value):
        if isinstance(value, EntityProperty):
            return value.type, value.value
        return value.astimezone(timezone.utc).replace(tzinfo=None) if isinstance(value, datetime) else value
    return {name: plain(value) for name, value in entity.items() if name not in ("PartitionKey", "RowKey", "Timestamp", "etag")}


VALUES = {
    "text": ("Söhne <&> \U0001F600", None), "empty": ("", None), "blanks": ("  a ", None), "boolean": (True, None), "int64": (2**53 + 1, None),
    "int32": (EntityProperty(EdmType.INT32, -7), (EdmType.INT32, -7)), "double": (1.5, None), "double-integral": (3.0, None),
    "infinity": (float("inf"), None), "time": (datetime(2012, 2, 29, 23, 59, 58), None),
    "guid": (EntityProperty(EdmType.GUID, GUID), (EdmType.GUID, GUID)),
    "binary": (EntityProperty(EdmType.BINARY, b"\x00\xff"), (EdmType.BINARY, b"\x00\xff")),
}


@pytest.mark.parametrize("name", VALUES)
def test_value(service, table, key, name):
    given, wanted = VALUES[name]
    etag = service.insert_entity(table, {"PartitionKey": key, "RowKey": "r", "Value": given, "Nothing": None})
    entity = service.get_entity(table, key, "r")
    assert values(entity) == {"Value": given if wanted is None else wanted} and entity["etag"] == etag


@pytest.mark.parametrize("row_key", ["O'Neil", "a b", "é日本", "a+b", "100%", "a&b=c", "\U0001F600", ""])
def test_key(service, table, key, row_key):
    service.insert_or_replace_entity(table, {"PartitionKey": key, "RowKey": row_key, "A": "1"})
    service.merge_entity(table, {"PartitionKey": key, "RowKey": row_key, "B": "2"})
    assert values(service.get_entity(table, key, row_key)) == {"A": "1", "B": "2"}
    service.delete_entity(table, key, row_key)
    with pytest.raises(AzureMissingResourceHttpError):
        service.get_entity(table, key, row_key)


@pytest.mark.parametrize("method", ["update_entity", "merge_entity"])
def test_write_under_condition(service, table, key, method):
    entity = {"PartitionKey": key, "RowKey": "r", "A": "1"}
    first = service.insert_entity(table, {**entity, "Z": "0"})
    second = getattr(service, method)(table, {**entity, "A": "2"}, if_match=first)
    assert second != first
    with pytest.raises(AzureHttpError) as caught:
        getattr(service, method)(table, {**entity, "A": "3"}, if_match=first)
    assert (caught.value.status_code, caught.value.error_code) == (412, "UpdateConditionNotSatisfied")
    assert values(service.get_entity(table, key, "r")) == ({"A": "2", "Z": "0"} if method == "merge_entity" else {"A": "2"})


def test_errors(service, table, key):
    entity = {"PartitionKey": key, "RowKey": "r"}
    service.insert_entity(table, entity)
    with pytest.raises(AzureConflictHttpError) as caught:
        service.insert_entity(table, entity)
    assert caught.value.error_code == "EntityAlreadyExists"
    with pytest.raises(AzureMissingResourceHttpError) as caught:
        service.insert_entity(unique_name(), entity)
    assert caught.value.error_code == "TableNotFound"
    with pytest.raises(AzureHttpError) as caught:
        service.delete_entity(table, key, "r", if_match=STALE)
    assert caught.value.error_code == "UpdateConditionNotSatisfied"


def test_query_over_several_pages(service, table, key):
    for start in range(0, 1105, 100):
        with service.batch(table) as batch:
            for n in range(start, min(start + 100, 1105)):
                batch.insert_entity({"PartitionKey": key, "RowKey": f"{n:05}", "N": EntityProperty(EdmType.INT32, n)})
    text = f"PartitionKey eq '{key}'"
    assert [one["RowKey"] for one in service.query_entities(table, text)] == [f"{n:05}" for n in range(1105)]
    seen, marker = [], None
    while True:
        page = service.query_entities(table, f"{text} and N ge 100", select="N", num_results=300, marker=marker)
        seen.append([one["N"].value for one in page.items])
        marker = page.next_marker
        if not marker:
            break
    assert sum(seen, []) == list(range(100, 1105)) and [len(one) for one in seen] == [300, 300, 300, 105]


def test_transactions(service, table, key):
    service.insert_entity(table, {"PartitionKey": key, "RowKey": "old", "A": "1"})
    batch = TableBatch()
    batch.insert_entity({"PartitionKey": key, "RowKey": "new", "A": "2"})
    batch.merge_entity({"PartitionKey": key, "RowKey": "old", "B": "3"})
    batch.insert_or_replace_entity({"PartitionKey": key, "RowKey": "upserted", "A": "4"})
    etags = service.commit_batch(table, batch)
    assert [service.get_entity(table, key, row)["etag"] for row in ("new", "old", "upserted")] == etags
    failing = TableBatch()
    failing.delete_entity(key, "new")
    failing.insert_entity({"PartitionKey": key, "RowKey": "old"})
    with pytest.raises(AzureException) as caught:
        service.commit_batch(table, failing)
    assert (caught.value.status_code, caught.value.code) == (409, "EntityAlreadyExists") and str(caught.value).startswith("1:")
    assert [values(one) for one in service.query_entities(table, f"PartitionKey eq '{key}'")] == [
        {"A": "2"}, {"A": "1", "B": "3"}, {"A": "4"}]


def test_tables(service):
    names = sorted(unique_name("page") for _ in range(3))
    for name in names:
        assert service.create_table(name) and not service.create_table(name) and service.exists(name)
    assert [one.name for one in service.list_tables() if one.name in names] == names
    first = service.list_tables(num_results=1)
    rest = service.list_tables(num_results=1, marker=first.next_marker)
    assert len(list(first)) == len(list(rest)) == 1
    for name in names:
        assert service.delete_table(name) and not service.delete_table(name) and not service.exists(name)


def test_stored_policies_and_signatures(service, address, table, key):
    expiry = datetime.now(timezone.utc).replace(tzinfo=None, microsecond=0) + timedelta(minutes=30)
    service.insert_entity(table, {"PartitionKey": key, "RowKey": "r"})
    service.set_table_acl(table, {"readers": AccessPolicy(permission=TablePermissions.QUERY, expiry=expiry)})
    found = service.get_table_acl(table)
    assert list(found) == ["readers"] and found["readers"].permission == "r"
    signed = connect(address, sas_token=service.generate_table_shared_access_signature(table, id="readers"))
    assert signed.get_entity(table, key, "r")["RowKey"] == "r"
    with pytest.raises(AzureHttpError) as caught:
        signed.insert_entity(table, {"PartitionKey": key, "RowKey": "s"})
    assert caught.value.status_code == 403
    service.set_table_acl(table)
    assert not service.get_table_acl(table)


def test_service_properties(service):
    before = service.get_table_service_properties()
    service.set_table_service_properties(logging=Logging(read=True, retention_policy=RetentionPolicy(True, 5)))
    found = service.get_table_service_properties()
    assert found.logging.read is True and found.logging.retention_policy.days == 5
    service.set_table_service_properties(logging=Logging(before.logging.delete, before.logging.read, before.logging.write))
