"""Fixtures: the installed client, and tables with unique names that are deleted afterwards."""

import pytest

from clients import VERSION, connect
from address import unique_name

# Only the newer client supports Get and Set Table ACL and shared access signatures.
collect_ignore = [] if VERSION >= "2014" else ["test_access.py"]


@pytest.fixture
def service(address):
    """Returns a separate client for every case, because an open batch is part of the client's state."""
    return connect(address)


@pytest.fixture
def table(service):
    name = unique_name()
    assert service.create_table(name)
    yield name
    service.delete_table(name)


@pytest.fixture(scope="module")
def shared(address):
    """Returns a table for all cases of a module, which use different keys."""
    name = unique_name()
    assert connect(address).create_table(name)
    yield name
    connect(address).delete_table(name)


@pytest.fixture
def new_name(service):
    """Returns a function that generates unique table names. Tables with these names are deleted after the test."""
    names = []

    def make(prefix="t"):
        names.append(unique_name(prefix))
        return names[-1]

    yield make
    for name in names:
        service.delete_table(name)
