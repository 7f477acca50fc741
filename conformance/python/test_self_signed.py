"""The certificate that the server makes (--tls-self-signed), as the official client sees it, with a server that the suite starts."""

import os
import subprocess

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.data.tables import TableServiceClient

BINARY = os.environ.get("ROWHOUSE_BINARY")
pytestmark = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")

CERTIFICATE = "rowhouse-cert.pem"


def run(folder, service, use):
    """Starts a server and calls a function with its connection string. Returns the certificate."""
    arguments = ["serve", "--listen", "127.0.0.1:0", "--data", folder, "--service", service, "--tls-self-signed"]
    process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("listening on https://")
        use(process.stdout.readline().removeprefix("connection string: ").strip())
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
    return (folder / CERTIFICATE).read_bytes()


@pytest.mark.parametrize("service", ["storage", "cosmos"])
def test_a_client_that_trusts_the_certificate_connects_also_after_a_restart(tmp_path, service):
    def create(connection_string):
        with TableServiceClient.from_connection_string(connection_string, connection_verify=str(tmp_path / CERTIFICATE)) as client:
            client.create_table("orders").create_entity({"PartitionKey": "p", "RowKey": "r"})

    def read(connection_string):
        by_name = connection_string.replace("127.0.0.1", "localhost")
        for address in (connection_string, by_name):
            with TableServiceClient.from_connection_string(address, connection_verify=str(tmp_path / CERTIFICATE)) as client:
                assert [table.name for table in client.list_tables()] == ["orders"]

    assert run(tmp_path, service, create) == run(tmp_path, service, read)


def test_a_client_that_does_not_trust_the_certificate_refuses_it(tmp_path):
    def refuse(connection_string):
        with TableServiceClient.from_connection_string(connection_string, retry_total=0) as client:
            with pytest.raises(ServiceRequestError, match="(?i)certificate verify failed"):
                list(client.list_tables())

    run(tmp_path, "storage", refuse)
