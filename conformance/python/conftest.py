"""Fixtures: raw and client connections to the endpoint, and tables with unique names that are deleted afterwards."""

import os
import uuid

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient

from expected_differences import EXPECTED
from features import case_of_node, longest_fit, owning_name
from wire import TableWire, Wire


def pytest_collection_modifyitems(items):
    """Checks that every case belongs to a feature. Marks the cases that are expected to fail on this endpoint."""
    expected = EXPECTED.get(os.environ.get("TABLES_SERVER"), {})
    for item in items:
        case = case_of_node(item.nodeid)
        owning_name(case)
        reason = expected.get(longest_fit(expected, case))
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def unique_name():
    """Returns a table name that no other run uses."""
    return "t" + uuid.uuid4().hex


def delete_table(wire, name):
    wire.send("DELETE", f"/Tables('{name}')")


def create_table(wire, name):
    answer = wire.send("POST", "/Tables", {"TableName": name})
    assert answer.status == 201, (answer.status, answer.body)
    return TableWire(wire, name)


@pytest.fixture(scope="session")
def wire():
    """Returns the raw, signing HTTP connection to the endpoint."""
    return Wire.from_environment()


@pytest.fixture(scope="session")
def service(wire):
    """Returns the service client of the official library. The client does not retry, so that no error is hidden."""
    credential = AzureNamedKeyCredential(wire.account, wire.key)
    with TableServiceClient(endpoint=wire.base, credential=credential, retry_total=0, read_timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def secondary(wire):
    """Returns the secondary endpoint, whose URLs add a suffix to the account name."""
    if wire.path_style:
        base = f"{wire.base}-secondary"
    else:
        base = wire.base.replace(f"//{wire.account}.", f"//{wire.account}-secondary.", 1)
    return Wire(base, wire.account, wire.key)


@pytest.fixture
def new_name(wire):
    """Returns a function that generates unique table names. Tables with these names are deleted after the test."""
    names = []

    def make(prefix=""):
        names.append(prefix + unique_name()[len(prefix):])
        return names[-1]

    yield make
    for name in names:
        delete_table(wire, name)


@pytest.fixture
def table(wire):
    """Returns a new, empty table."""
    fresh = create_table(wire, unique_name())
    yield fresh
    delete_table(wire, fresh.name)


@pytest.fixture
def client(service, table):
    """Returns the official library's client for the new table."""
    with service.get_table_client(table.name) as table_client:
        yield table_client


@pytest.fixture(scope="module")
def shared(wire):
    """Returns a table for all cases of a module, which use different keys."""
    fresh = create_table(wire, unique_name())
    yield fresh
    delete_table(wire, fresh.name)


@pytest.fixture
def key():
    """Returns a key that no other case uses."""
    return uuid.uuid4().hex
