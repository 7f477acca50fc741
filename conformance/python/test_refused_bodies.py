"""Refusals of long bodies over TLS. The synchronous client sends the whole body before it reads, and must still receive
the service's error.

The suite starts a TLS server for these cases.
"""

import datetime
import os

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient, generate_table_sas

pytest.importorskip("cryptography", reason="the package cryptography generates the server's certificate")
from issuer import Server  # noqa: E402

BINARY = os.environ.get("ROWHOUSE_BINARY")
pytestmark = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
TABLE = "refusals"
RIGHT_KEY = AzureNamedKeyCredential(ACCOUNT, KEY)
WRONG_KEY = AzureNamedKeyCredential(ACCOUNT, KEY[::-1].strip("=") + "==")
ATTEMPTS = 3
SIZES = [100_000, 1_000_000, 4_000_000, 13_000_000]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(BINARY, tmp_path_factory.mktemp("server"), "") as server:
        with service(server, RIGHT_KEY) as client:
            client.create_table(TABLE)
        yield server


def service(server, credential):
    """Returns a client that does not retry, so that no error is hidden."""
    endpoint = f"{server.endpoint}/{ACCOUNT}"
    return TableServiceClient(endpoint, credential=credential, connection_verify=str(server.certificate), retry_total=0)


def reading_signature():
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    return AzureSasCredential(generate_table_sas(RIGHT_KEY, TABLE, permission="r", expiry=expiry))


def entity(row, size):
    text = "x" * 30_000
    return {"PartitionKey": "p", "RowKey": str(row), **{f"P{number}": text for number in range(size // len(text) + 1)}}


def check_refused(server, credential, write, status, code):
    with service(server, credential) as client:
        table = client.get_table_client(TABLE)
        for _ in range(ATTEMPTS):
            with pytest.raises(HttpResponseError) as raised:
                write(table)
            refused = raised.value.response
            assert (refused.status_code, refused.headers["x-ms-error-code"]) == (status, code)


@pytest.mark.parametrize("size", SIZES)
def test_wrong_key(server, size):
    def write(table):
        table.create_entity(entity(0, size))

    check_refused(server, WRONG_KEY, write, 403, "AuthenticationFailed")


@pytest.mark.parametrize("size", SIZES)
def test_transaction_with_wrong_key(server, size):
    operations = [("upsert", entity(row, size // 10)) for row in range(10)]
    check_refused(server, WRONG_KEY, lambda table: table.submit_transaction(operations), 403, "AuthenticationFailed")


@pytest.mark.parametrize("size", SIZES)
def test_signature_for_reading(server, size):
    def write(table):
        table.create_entity(entity(0, size))

    check_refused(server, reading_signature(), write, 403, "AuthorizationPermissionMismatch")


def test_too_large(server):
    check_refused(server, RIGHT_KEY, lambda table: table.create_entity(entity(0, SIZES[-1])), 413, "RequestBodyTooLarge")
