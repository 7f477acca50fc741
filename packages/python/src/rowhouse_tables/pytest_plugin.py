"""The pytest fixtures `rowhouse` and `rowhouse_server`, registered through the entry point `pytest11`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .server import Account, RowhouseError, Server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "rowhouse_options",
        type="args",
        default=[],
        help="options of the server that the fixtures start (see rowhouse serve --help); paths are relative to the root folder and use / on "
        "every system",
    )
    parser.getgroup("rowhouse").addoption(
        "--rowhouse-options",
        default="",
        metavar="OPTIONS",
        help="more options for that server, as one argument: --rowhouse-options='--seed tests/data'",
    )


@pytest.fixture(scope="session")
def rowhouse_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A Rowhouse server that runs from its first use to the end of the last test. Each xdist worker has its own."""
    options = [*pytestconfig.getini("rowhouse_options"), *_split(pytestconfig.getoption("--rowhouse-options"))]
    server = _start(options, pytestconfig.rootpath)
    if isinstance(server, RowhouseError):
        pytest.fail(str(server), pytrace=False)
    with server:
        yield server


def _split(text: str, system: str = os.name) -> list[str]:
    """Splits a string into arguments as a shell does. On Windows, a backslash is part of a path."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if system == "nt":
        lexer.escape = ""
    return list(lexer)


def _start(options: list[str], folder: Path) -> Server | RowhouseError:
    """Starts a server. Returns an error instead of raising it, so that pytest shows only that error."""
    try:
        return Server(options, folder)
    except RowhouseError as error:
        return error


@pytest.fixture
def rowhouse(rowhouse_server: Server) -> Iterator[Account]:
    """An empty account on the server: connection_string, endpoint, account, key, clock, snapshot(), seed().

    The account is deleted after the test. If the test changed the clock, the system clock is restored.
    """
    changes = rowhouse_server.clock._changes
    account = rowhouse_server.new_account()
    yield account
    if rowhouse_server.clock._changes != changes:
        rowhouse_server.clock.reset()
    account.delete()
