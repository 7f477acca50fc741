"""The fixtures for pytest, which the entry point `pytest11` makes known: `rowhouse` and `rowhouse_server`."""

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
        help="options of the server that the fixtures start (rowhouse serve --help); paths are relative to the root folder, and have / on every "
        "system",
    )
    parser.getgroup("rowhouse").addoption(
        "--rowhouse-options",
        default="",
        metavar="OPTIONS",
        help="further options of that server, as one argument: --rowhouse-options='--seed tests/data'",
    )


@pytest.fixture(scope="session")
def rowhouse_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A Rowhouse server that starts with the first test that needs it and ends after the last; one for each worker of xdist."""
    options = [*pytestconfig.getini("rowhouse_options"), *_split(pytestconfig.getoption("--rowhouse-options"))]
    server = _start(options, pytestconfig.rootpath)
    if isinstance(server, RowhouseError):
        pytest.fail(str(server), pytrace=False)
    with server:
        yield server


def _split(text: str, system: str = os.name) -> list[str]:
    """The arguments in a text, as a shell finds them. In those of Windows, a backslash is part of a path."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if system == "nt":
        lexer.escape = ""
    return list(lexer)


def _start(options: list[str], folder: Path) -> Server | RowhouseError:
    """A server, or why there is none: outside of a handler, pytest shows that alone."""
    try:
        return Server(options, folder)
    except RowhouseError as error:
        return error


@pytest.fixture
def rowhouse(rowhouse_server: Server) -> Iterator[Account]:
    """A fresh account on the server: connection_string, endpoint, account, key, clock, snapshot(), seed().

    It is deleted after the test, and a clock that the test changed is that of the system again.
    """
    changes = rowhouse_server.clock._changes
    account = rowhouse_server.new_account()
    yield account
    if rowhouse_server.clock._changes != changes:
        rowhouse_server.clock.reset()
    account.delete()
