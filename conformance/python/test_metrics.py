"""The metrics page, parsed by Prometheus's strict parser, while the official client works."""

import os
import re
import subprocess
import urllib.request

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableServiceClient

parser = pytest.importorskip(
    "prometheus_client.openmetrics.parser", reason="the package prometheus-client parses the page"
)

BINARY = os.environ.get("ROWHOUSE_BINARY")
pytestmark = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")


class Server:
    """A server with an admin listener, started by the suite."""

    def __init__(self, folder):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ROWHOUSE_", "OTEL_"))}
        command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        lines = [self.process.stdout.readline().strip() for _ in range(3)]
        self.connection_string = lines[1].partition(": ")[2]
        self.admin = lines[2].partition("admin on ")[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(30) == 0

    def families(self):
        """Returns the page's metric families by name, and the samples of each by name and labels."""
        with urllib.request.urlopen(self.admin + "/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            page = answer.read().decode()
        return {family.name: family for family in parser.text_string_to_metric_families(page)}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("metrics") / "data") as server:
        yield server


def values(families, name):
    """Returns the samples of a counter or gauge by their labels."""
    family = families[name]
    end = "_total" if family.type == "counter" else ""
    return {tuple(sorted(s.labels.items())): s.value for s in family.samples if s.name == name + end}


def requests(families, operation, status, code=""):
    return values(families, "rowhouse_requests").get(
        (("code", code), ("operation", operation), ("status", str(status))), 0
    )


def test_the_page_is_valid_from_the_beginning(server):
    families = server.families()
    assert values(families, "rowhouse_ready") == {(): 1}
    for family in families.values():
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family.name
        assert family.name.startswith(("rowhouse_", "process_")), family.name
        assert re.fullmatch("[a-z_]+", family.name), family.name


def test_what_the_client_does_is_counted(server):
    with TableServiceClient.from_connection_string(server.connection_string, retry_total=0) as service:
        table = service.create_table("Cars")
        for row in range(7):
            table.create_entity({"PartitionKey": "p", "RowKey": str(row), "Value": row})
        with pytest.raises(ResourceExistsError):
            table.create_entity({"PartitionKey": "p", "RowKey": "0"})
        with pytest.raises(ResourceNotFoundError):
            table.get_entity("p", "none")
        table.submit_transaction([("upsert", {"PartitionKey": "q", "RowKey": str(row)}) for row in range(5)])
        assert len(list(table.query_entities("Value ge 3"))) == 4
    families = server.families()
    assert requests(families, "CreateTable", 201) == 1
    assert requests(families, "InsertEntity", 201) + requests(families, "InsertEntity", 204) == 7
    assert requests(families, "InsertEntity", 409, "EntityAlreadyExists") == 1
    assert requests(families, "QueryEntity", 404, "ResourceNotFound") == 1
    assert requests(families, "EntityGroupTransaction", 202) == 1
    assert requests(families, "QueryEntities", 200) == 1
    tables = values(families, "rowhouse_table_requests")
    assert tables[("account", "devstoreaccount1"), ("outcome", "success"), ("table", "cars")] == 10
    assert tables[("account", "devstoreaccount1"), ("outcome", "client_error"), ("table", "cars")] == 2
    assert values(families, "rowhouse_commit_transactions") == {(): 8}
    entities = {s.name: s.value for s in families["rowhouse_commit_group_entities"].samples if not s.labels}
    assert entities["rowhouse_commit_group_entities_sum"] == 12
