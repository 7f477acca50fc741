"""Fixtures: the endpoint under test as raw wire and as client, and tables with unique names that are deleted afterwards."""

import os
import uuid

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient

from expected_differences import EXPECTED
from wire import TableWire, Wire


def pytest_collection_modifyitems(items):
    """Marks the cases that this endpoint is known to fail."""
    expected = EXPECTED.get(os.environ.get("TABLES_SERVER"), {})
    for item in items:
        reason = expected.get(item.nodeid.rpartition("/")[2])
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def unique_name():
    """A table name that no other run uses."""
    return "t" + uuid.uuid4().hex


def delete_table(wire, name):
    wire.send("DELETE", f"/Tables('{name}')")


def create_table(wire, name):
    answer = wire.send("POST", "/Tables", {"TableName": name})
    assert answer.status == 201, (answer.status, answer.body)
    return TableWire(wire, name)


@pytest.fixture(scope="session")
def wire():
    """The raw, signing HTTP connection to the endpoint."""
    return Wire.from_environment()


@pytest.fixture(scope="session")
def service(wire):
    """The service client of the official library; it does not retry, so that every error is seen."""
    credential = AzureNamedKeyCredential(wire.account, wire.key)
    with TableServiceClient(endpoint=wire.base, credential=credential, retry_total=0, read_timeout=20) as client:
        yield client


@pytest.fixture
def new_name(wire):
    """A function that makes unique table names; tables with these names are deleted at the end."""
    names = []

    def make(prefix=""):
        names.append(prefix + unique_name()[len(prefix):])
        return names[-1]

    yield make
    for name in names:
        delete_table(wire, name)


@pytest.fixture
def table(wire):
    """A fresh, empty table."""
    fresh = create_table(wire, unique_name())
    yield fresh
    delete_table(wire, fresh.name)


@pytest.fixture
def client(service, table):
    """The official library's client of the fresh table."""
    with service.get_table_client(table.name) as table_client:
        yield table_client


@pytest.fixture(scope="module")
def shared(wire):
    """One table for the cases of a module, which use different keys."""
    fresh = create_table(wire, unique_name())
    yield fresh
    delete_table(wire, fresh.name)


@pytest.fixture
def key():
    """A key that no other case uses."""
    return uuid.uuid4().hex
