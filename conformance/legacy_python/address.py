"""Endpoint URLs in the only form that the old clients accept: they build the host name from the account name.

For a path-style endpoint such as `http://127.0.0.1:10002/devstoreaccount1`, the clients get the host-style name
`<account>.table.localhost` with the port of the endpoint. Names under `localhost` refer to this machine (RFC 6761), but
not every resolver supports that, so `resolve_localhost` resolves them in this process. The released clients are
otherwise unmodified.
"""

import os
import socket
import urllib.parse
import uuid
from dataclasses import dataclass

DEVELOPMENT_ACCOUNT = "devstoreaccount1"
DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
LOCAL_SUFFIX = ".table.localhost"


@dataclass(frozen=True)
class Address:
    """An account. `suffix` is the part of the host name after the account name, including the port."""

    account: str
    key: str
    protocol: str
    suffix: str

    @classmethod
    def from_environment(cls):
        account = os.environ.get("TABLES_ACCOUNT", DEVELOPMENT_ACCOUNT)
        endpoint = os.environ.get("TABLES_ENDPOINT", f"http://127.0.0.1:10002/{account}")
        parts = urllib.parse.urlsplit(endpoint.rstrip("/"))
        if parts.path:
            resolve_localhost(parts.hostname)
            suffix = f"{LOCAL_SUFFIX}:{parts.port}" if parts.port else LOCAL_SUFFIX
        else:
            assert parts.netloc.startswith(account + "."), endpoint
            suffix = parts.netloc.removeprefix(account)
        return cls(account, os.environ.get("TABLES_KEY", DEVELOPMENT_KEY), parts.scheme, suffix)


def unique_name(prefix="t"):
    """Returns a table name that no other run uses."""
    return prefix + uuid.uuid4().hex[:31 - len(prefix)]


def resolve_localhost(machine):
    """Resolves names that end in `.table.localhost` to this machine for the rest of the process."""
    ordinary = socket.getaddrinfo

    def look_up(host, *args, **kwargs):
        local = isinstance(host, str) and host.endswith(LOCAL_SUFFIX)
        return ordinary(machine if local else host, *args, **kwargs)

    socket.getaddrinfo = look_up
