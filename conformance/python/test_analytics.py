"""The Storage Analytics tables through the official client, with servers that the suite starts. A server writes its
figures when it stops, and the next server shows them."""

import os
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import (
    AccountSasPermissions, EdmType, ResourceTypes, TableMetrics, TableRetentionPolicy, TableServiceClient,
    generate_account_sas,
)

BINARY = os.environ.get("ROWHOUSE_BINARY")
pytestmark = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CREDENTIAL = AzureNamedKeyCredential(ACCOUNT, KEY)
HOUR = "$MetricsHourPrimaryTransactionsTable"
MINUTE = "$MetricsMinutePrimaryTransactionsTable"


class Server:
    """A server with metrics and a data folder. It stops at the end of its `with` block."""

    def __init__(self, folder):
        arguments = ["serve", "--data", folder, "--listen", "127.0.0.1:0", "--analytics"]
        self.process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.endpoint = f"{line.split()[-1]}/{ACCOUNT}"

    def service(self, credential=CREDENTIAL):
        return TableServiceClient(endpoint=self.endpoint, credential=credential, retry_total=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(30) == 0
        self.process.stdout.close()


def total(table, row_key, column):
    """Adds the figures of all intervals, because an hour may end between two requests."""
    found = list(table.query_entities("RowKey eq @row", parameters={"row": row_key}))
    assert all(entity[column].edm_type == EdmType.INT64 for entity in found)
    return sum(entity[column].value for entity in found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a data folder with the figures of a few requests."""
    folder = tmp_path_factory.mktemp("analytics")
    with Server(folder) as server, server.service() as service:
        keep = TableRetentionPolicy(enabled=True, days=2)
        service.set_service_properties(minute_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=keep))
        table = service.create_table("harvest")
        table.create_entity({"PartitionKey": "p", "RowKey": "1"})
        table.upsert_entity({"PartitionKey": "p", "RowKey": "2"})
        table.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": str(row)}) for row in range(5)])
        expiry = datetime.now(timezone.utc) + timedelta(hours=1)
        token = generate_account_sas(CREDENTIAL, ResourceTypes(object=True), AccountSasPermissions(read=True), expiry)
        with server.service(AzureSasCredential(token)) as reader:
            assert len(list(reader.get_table_client("harvest").list_entities())) == 5
            with pytest.raises(HttpResponseError):
                reader.get_table_client("harvest").create_entity({"PartitionKey": "p", "RowKey": "denied"})
    return folder


@pytest.fixture(scope="module")
def service(folder):
    """Returns a server that shows these figures without adding its own, because a minute might end during a case."""
    off = TableMetrics(enabled=False)
    with Server(folder) as server, server.service() as service:
        # The new settings already apply to the request that changes them.
        service.set_service_properties(hour_metrics=off, minute_metrics=off)
        yield service


@pytest.mark.parametrize("name", [HOUR, MINUTE])
def test_figures_by_operation_and_credential(service, name):
    table = service.get_table_client(name)
    for row_key, column, expected in [
        ("user;InsertEntity", "Success", 1),
        ("user;InsertEntity", "SASAuthorizationError", 1),
        ("user;InsertOrMergeEntity", "Success", 1),
        ("user;EntityGroupTransaction", "Success", 1),
        ("user;CreateTable", "TotalRequests", 1),
        ("user;QueryEntities", "SASSuccess", 1),
        ("user;All", "SASSuccess", 1),
        ("user;All", "SASAuthorizationError", 1),
        ("user;All", "Success", 5),
    ]:
        assert total(table, row_key, column) == expected, (row_key, column)


def test_a_row_has_every_column(service):
    rows = list(service.get_table_client(HOUR).query_entities("RowKey eq 'user;All'"))
    bases = ["Success", "ThrottlingError", "ClientTimeoutError", "ServerTimeoutError", "ClientOtherError",
             "ServerOtherError", "AuthorizationError", "NetworkError"]
    counts = ["TotalIngress", "TotalEgress", "TotalRequests", "TotalBillableRequests"]
    counts += [prefix + base for base in bases for prefix in ("", "Anonymous", "SAS")]
    rates = ["Availability", "AverageE2ELatency", "AverageServerLatency", "PercentSuccess", "PercentThrottlingError",
             "PercentTimeoutError", "PercentServerOtherError", "PercentClientOtherError", "PercentAuthorizationError",
             "PercentNetworkError"]
    for row in rows:
        assert set(row) == {"PartitionKey", "RowKey", *counts, *rates}
        assert all(isinstance(row[name], float) for name in rates)
        assert datetime.strptime(row["PartitionKey"], "%Y%m%dT%H%M").minute == 0
        assert sum(row[prefix + base].value for base in bases for prefix in ("", "Anonymous", "SAS")) == row["TotalRequests"].value


def test_a_monitoring_tool_asks_for_a_range_of_hours(service):
    table = service.get_table_client(HOUR)
    now = datetime.now(timezone.utc)
    begin, end = (now - timedelta(hours=3)).strftime("%Y%m%dT%H00"), (now + timedelta(hours=1)).strftime("%Y%m%dT%H00")
    query = f"PartitionKey ge '{begin}' and PartitionKey le '{end}' and RowKey ge 'user;' and RowKey lt 'user<'"
    rows = list(table.query_entities(query, select=["PartitionKey", "RowKey", "TotalRequests", "Availability"]))
    assert {"user;All", "user;InsertEntity"} <= {row["RowKey"] for row in rows}
    assert all(row["Availability"] == 100 for row in rows)


def test_the_tables_are_hidden_and_only_the_server_writes_them(service):
    assert [table.name for table in service.list_tables()] == ["harvest"]
    table = service.get_table_client(HOUR)
    for write in (table.create_entity, table.upsert_entity, table.update_entity):
        with pytest.raises(HttpResponseError) as raised:
            write({"PartitionKey": "20310314T0800", "RowKey": "user;All"})
        assert raised.value.status_code == 403
        assert raised.value.response.headers["x-ms-error-code"] == "AuthorizationFailure"
    with pytest.raises(HttpResponseError) as raised:
        table.submit_transaction([("upsert", {"PartitionKey": "20310314T0800", "RowKey": "user;All"})])
    assert raised.value.status_code == 403
    with pytest.raises(HttpResponseError) as raised:
        table.delete_table()
    assert raised.value.status_code == 403


def test_whoever_may_delete_clears_them(service):
    table = service.get_table_client(MINUTE)
    rows = list(table.list_entities())
    partition = rows[0]["PartitionKey"]
    table.submit_transaction([("delete", row) for row in rows if row["PartitionKey"] == partition])
    assert list(table.query_entities(f"PartitionKey eq '{partition}'")) == []
