"""The simplest use of some features, whose other cases check every byte. An endpoint that fails here lacks the
feature."""

import pytest
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import TableAccessPolicy, TableAnalyticsLogging, TableClient, TableCorsRule, TableRetentionPolicy

from sas import account_token, in_hours, table_token
from service_document import STATS, restored

ENTITY = {"PartitionKey": "p", "RowKey": "r", "A": 1}


def open_table(wire, name, token):
    """Returns the official client for a table, authorized by a signature."""
    return TableClient(wire.base, name, credential=AzureSasCredential(token), retry_total=0)


def check_reads_only(wire, client, token):
    """Checks that the signature permits reading but not writing."""
    client.create_entity(ENTITY)
    with open_table(wire, client.table_name, token) as holder:
        assert holder.get_entity("p", "r")["A"] == 1
        with pytest.raises(HttpResponseError):
            holder.upsert_entity({**ENTITY, "A": 2})
    assert client.get_entity("p", "r")["A"] == 1


def test_table_sas(wire, client):
    check_reads_only(wire, client, table_token(wire, client.table_name, "r"))


def test_account_sas(wire, client):
    check_reads_only(wire, client, account_token(wire, "o", "r"))


def test_key_range(wire, client):
    for partition in "abc":
        client.create_entity({"PartitionKey": partition, "RowKey": "r"})
    with open_table(wire, client.table_name, table_token(wire, client.table_name, "r", start_pk="b", end_pk="b")) as holder:
        assert [entity["PartitionKey"] for entity in holder.list_entities()] == ["b"]
        with pytest.raises(ResourceNotFoundError):
            holder.get_entity("a", "r")


def test_stored_access_policy(wire, client):
    client.set_table_access_policy({"readers": TableAccessPolicy(start=in_hours(-1), expiry=in_hours(1), permission="r")})
    assert list(client.get_table_access_policy()) == ["readers"]
    check_reads_only(wire, client, table_token(wire, client.table_name, policy_id="readers"))


def test_service_properties(wire, service):
    logging = TableAnalyticsLogging(version="1.0", delete=True, read=False, write=True, retention_policy=TableRetentionPolicy())
    with restored(wire):
        service.set_service_properties(analytics_logging=logging)
        found = service.get_service_properties()["analytics_logging"]
    assert (found.delete, found.read, found.write) == (True, False, True)


def test_cors(wire, service):
    origin = "https://here.example"
    rule = TableCorsRule([origin], ["GET"], allowed_headers=["x-ms-*"], exposed_headers=["x-ms-*"], max_age_in_seconds=60)
    with restored(wire):
        service.set_service_properties(cors=[rule])
        headers = {"Origin": origin, "Access-Control-Request-Method": "GET"}
        preflight = wire.send("OPTIONS", "/Tables", headers=headers, scheme=None)
        answer = wire.send("GET", "/Tables?$top=1", headers={"Origin": origin})
    assert (preflight.status, preflight.header("Access-Control-Allow-Origin")) == (200, origin)
    assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (200, origin)


def test_statistics(wire, secondary):
    """Accepts statistics from either endpoint, because some emulators have no secondary endpoint."""
    answers = [endpoint.send("GET", STATS, accept="application/xml") for endpoint in (secondary, wire)]
    assert any(answer.status == 200 and "<LastSyncTime>" in answer.text for answer in answers), answers
