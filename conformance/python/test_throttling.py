"""Throttling as the official client sees it, with a server that the suite starts. The client retries automatically."""

import os
import subprocess

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient, TableTransactionError

BINARY = os.environ.get("ROWHOUSE_BINARY")
pytestmark = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
# A transaction of 100 operations in an idle partition keeps the partition busy for 1.5 s.
TARGET = 40
ROUNDS_MAX = 50


@pytest.fixture(scope="module")
def endpoint():
    arguments = ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--throttle"]
    arguments += ["--partition-entities-per-second", str(TARGET)]
    process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("listening on http://"), line
    yield f"{line.split()[-1]}/{ACCOUNT}"
    process.terminate()
    process.wait(20)
    process.stdout.close()


@pytest.fixture
def connect(endpoint):
    """Returns a function that creates clients. The clients are closed at the end of the test."""
    clients = []

    def make(**options):
        credential = AzureNamedKeyCredential(ACCOUNT, KEY)
        clients.append(TableServiceClient(endpoint=endpoint, credential=credential, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def hundred(partition):
    return [("upsert", {"PartitionKey": partition, "RowKey": f"{row:02}"}) for row in range(100)]


def test_a_client_with_its_usual_settings_waits_and_succeeds(connect):
    table = connect().create_table("patient")
    # The responses of all attempts.
    statuses = []

    def note(response):
        statuses.append(response.http_response.status_code)

    for number in range(ROUNDS_MAX):
        # If the machine pauses between the two requests, the partition becomes idle, so try again.
        table.submit_transaction(hundred(f"p{number}"))
        table.create_entity({"PartitionKey": f"p{number}", "RowKey": "new"}, raw_response_hook=note)
        assert table.get_entity("p0", "new")["RowKey"] == "new"
        if 503 in statuses:
            return
    raise AssertionError("no request was throttled")


def test_a_client_that_does_not_try_again_sees_the_error_of_the_service(connect):
    table = connect(retry_total=0).create_table("impatient")
    for number in range(ROUNDS_MAX):
        try:
            table.submit_transaction(hundred(f"p{number}"))
            table.create_entity({"PartitionKey": f"p{number}", "RowKey": "new"})
        except HttpResponseError as error:
            assert error.status_code == 503
            assert error.response.headers["x-ms-error-code"] == "ServerBusy"
            assert error.response.headers["Retry-After"] == "1"
            assert len(list(table.query_entities(f"PartitionKey eq 'p{number}x'"))) == 0, "other partitions must be served"
            return
    raise AssertionError("no request was throttled")


def test_a_busy_transaction_fails_in_a_part_and_is_not_repeated(connect):
    """The outer status is 202, so the client makes only one attempt (05 §5.1)."""
    table = connect().create_table("transactions")
    for number in range(ROUNDS_MAX):
        statuses = []
        table.submit_transaction(hundred(f"p{number}"))
        try:
            table.submit_transaction(
                hundred(f"p{number}"), raw_response_hook=lambda response: statuses.append(response.http_response.status_code))
        except TableTransactionError as error:
            assert (error.status_code, error.error_code) == (503, "ServerBusy")
            assert statuses == [202]
            return
    raise AssertionError("no transaction was throttled")
