"""Fixtures: the client that is installed, and tables with unique names that are deleted afterwards."""

import pytest

from clients import VERSION, connect
from address import unique_name

# Only the newer client has Get and Set Table ACL and signatures.
collect_ignore = [] if VERSION >= "2014" else ["test_access.py"]


@pytest.fixture
def service(address):
    """A separate client for every case, because an open batch is a state of the client."""
    return connect(address)


@pytest.fixture
def table(service):
    name = unique_name()
    assert service.create_table(name)
    yield name
    service.delete_table(name)


@pytest.fixture(scope="module")
def shared(address):
    """One table for the cases of a module, which use different keys."""
    name = unique_name()
    assert connect(address).create_table(name)
    yield name
    connect(address).delete_table(name)


@pytest.fixture
def new_name(service):
    """A function that makes unique table names; tables with these names are deleted at the end."""
    names = []

    def make(prefix="t"):
        names.append(unique_name(prefix))
        return names[-1]

    yield make
    for name in names:
        service.delete_table(name)
