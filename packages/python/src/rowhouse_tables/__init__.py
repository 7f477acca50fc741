"""Python interface to Rowhouse, a server for the Azure Table Storage protocol.

`Server` starts a server for tests. Tests that run with pytest need no import: the fixtures `rowhouse` and
`rowhouse_server` are available as soon as the package is installed.
"""

from .server import Account, Clock, RowhouseError, Server, Snapshot

__all__ = ["Account", "Clock", "RowhouseError", "Server", "Snapshot"]
