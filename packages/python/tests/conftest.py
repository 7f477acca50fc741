"""The tests run with the installed package, as scripts/test_fixtures.sh does it: the plugin is there by its entry point."""

from azure.data.tables import TableServiceClient

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def tables():
    """The names of the tables of an account."""

    def names(account):
        with TableServiceClient.from_connection_string(account.connection_string) as service:
            return [table.name for table in service.list_tables()]

    return names


@pytest.fixture
def create():
    """Creates a table in an account, with one entity, and returns the Timestamp of that."""

    def create_table(account, name):
        with TableServiceClient.from_connection_string(account.connection_string) as service:
            table = service.create_table(name)
            table.create_entity({"PartitionKey": "north", "RowKey": "1"})
            return table.get_entity("north", "1").metadata["timestamp"]

    return create_table
