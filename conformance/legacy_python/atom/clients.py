"""Common names for the two Atom clients, which have the same methods but different modules and error classes.

`azure` 0.8 sends version 2012-02-12, and `azure-storage` 0.20 sends 2014-02-14; both send `DataServiceVersion:
2.0;NetFx`. They cannot be installed together, so this module imports the installed one.
"""

from datetime import timezone

try:
    from azure.storage.table import EntityProperty, TableService
    from azure.common import AzureConflictHttpError as Conflict
    from azure.common import AzureException as Failure
    from azure.common import AzureMissingResourceHttpError as Missing
    from azure.storage._http.batchclient import AzureBatchOperationError as BatchFailure
    VERSION = "2014-02-14"
except ImportError:
    from azure import WindowsAzureBatchOperationError as BatchFailure
    from azure import WindowsAzureConflictError as Conflict
    from azure import WindowsAzureError as Failure
    from azure import WindowsAzureMissingResourceError as Missing
    from azure.storage import EntityProperty, TableService
    VERSION = "2012-02-12"

__all__ = ["BatchFailure", "Conflict", "EntityProperty", "Failure", "Missing", "TableService", "VERSION", "connect",
           "properties", "quoted"]


def connect(address):
    return TableService(address.account, address.key, address.protocol, address.suffix)


def quoted(key):
    """Returns a key for use in a URL. These clients expect the caller to double the quotes."""
    return key.replace("'", "''")


def plain(value):
    """Returns an entity's value in a comparable form: a time without its time zone, or a typed value as a pair."""
    if isinstance(value, EntityProperty):
        return value.type, value.value
    if getattr(value, "tzinfo", None):
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    return value


def properties(entity):
    """Returns the custom properties of an entity that a client read."""
    system = ("PartitionKey", "RowKey", "Timestamp", "etag")
    return {name: plain(value) for name, value in vars(entity).items() if name not in system}
