"""The tests use the installed package (scripts/test_fixtures.sh): pytest finds the plugin through its entry point."""

from azure.data.tables import TableServiceClient

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def tables():
    """Returns a function that lists the table names of an account."""

    def names(account):
        with TableServiceClient.from_connection_string(account.connection_string) as service:
            return [table.name for table in service.list_tables()]

    return names


@pytest.fixture
def create():
    """Returns a function that creates a table with one entity in an account, and returns the entity's Timestamp."""

    def create_table(account, name):
        with TableServiceClient.from_connection_string(account.connection_string) as service:
            table = service.create_table(name)
            table.create_entity({"PartitionKey": "north", "RowKey": "1"})
            return table.get_entity("north", "1").metadata["timestamp"]

    return create_table
