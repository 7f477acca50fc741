"""Rowhouse, a server that speaks the Azure Table Storage protocol, from Python.

`Server` starts one for tests. Tests that run with pytest need no import: the fixtures `rowhouse` and `rowhouse_server` are there as
soon as the package is installed.
"""

from .server import Account, Clock, RowhouseError, Server, Snapshot

__all__ = ["Account", "Clock", "RowhouseError", "Server", "Snapshot"]
