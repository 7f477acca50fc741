"""Fixtures: the client that is installed, and tables with unique names that are deleted afterwards."""

import pytest

from clients import VERSION, connect
from address import unique_name

# Get and Set Table ACL and signatures are in the younger client only.
collect_ignore = [] if VERSION >= "2014" else ["test_access.py"]


@pytest.fixture
def service(address):
    """A client of its own for every case, because an open batch is a state of the client."""
    return connect(address)


@pytest.fixture
def table(service):
    name = unique_name()
    assert service.create_table(name)
    yield name
    service.delete_table(name)


@pytest.fixture(scope="module")
def shared(address):
    """One table for all cases of a module that keep apart by their keys."""
    name = unique_name()
    assert connect(address).create_table(name)
    yield name
    connect(address).delete_table(name)


@pytest.fixture
def new_name(service):
    """A maker of unique table names; the tables that carry them at the end are deleted."""
    names = []

    def make(prefix="t"):
        names.append(unique_name(prefix))
        return names[-1]

    yield make
    for name in names:
        service.delete_table(name)
