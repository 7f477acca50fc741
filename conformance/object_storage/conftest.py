"""Fixtures: storage services, Rowhouse with a data folder, and its commands.

ROWHOUSE_BINARY is the program, and AZURITE_BLOB the emulator of Blob storage. Moto, which imitates S3, is a package of
Python.
"""

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from program import Server
from services import Blob, S3, free_port, wait_until_open


def start(command, folder, port, **variables):
    log = open(folder / "log", "wb")
    process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | variables)
    wait_until_open(port, process)
    return process


@pytest.fixture(scope="session", params=["s3", "blob"])
def service(request):
    """A running service, which checks credentials."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if request.param == "s3":
            process = start([sys.executable, "-m", "moto.server", "-p", str(port)], folder, port, INITIAL_NO_AUTH_ACTION_COUNT="1000")
        else:
            options = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
            process = start([os.environ["AZURITE_BLOB"], "--blobPort", str(port), *options], folder, port)
        service = (S3 if request.param == "s3" else Blob)(port)
        try:
            yield service
        finally:
            service.close()
            process.kill()
            process.wait()


numbers = itertools.count()


@pytest.fixture
def repository(service):
    """A place for a repository that no other case uses."""
    service.connect()
    return service.place(f"backups/{next(numbers)}")


@pytest.fixture
def server(tmp_path):
    """A server with a data folder and a table."""
    with Server(tmp_path / "data") as server:
        server.table.create_table()
        yield server
