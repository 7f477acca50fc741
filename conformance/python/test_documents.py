"""Runs the Python snippets from the documentation; packages/python/tests runs the snippets about tests."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from azure.data.tables import TableClient

from issuer import write_certificate

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "docs/getting-started.md", "docs/change-feed.md"]
LOCAL = "http://127.0.0.1:10002/devstoreaccount1"
# Some snippets start their own server.
BINARY = os.environ.get("ROWHOUSE_BINARY")
needs_binary = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")


def snippets(kind, language="python"):
    """Returns the fenced blocks whose opening line has the given text after the language, each with the name of its
    page."""
    return list(find(kind, language))


def find(kind, language):
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        for note, body in re.findall(rf"^```{language} ?([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if note.split("=")[0] == kind:
                yield pytest.param(note, body, id=f"{document}-{note or 'script'}")


def run(arguments, folder, **environment):
    """Runs Python, which must succeed, and returns its output."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kind_of_snippet_is_there():
    kinds = [snippets(kind) for kind in ("", "tls", "webhook", "feed")]
    assert [len(found) for found in kinds] == [2, 1, 1, 1]
    assert len(snippets("events", "sh")) == 1


@pytest.mark.parametrize(("note", "body"), snippets(""))
def test_script(wire, new_name, tmp_path, note, body):
    assert LOCAL in body and '"cars"' in body
    table = new_name()
    body = body.replace(LOCAL, wire.base.rstrip("/")).replace('"cars"', f'"{table}"')
    body = body.replace("devstoreaccount1", wire.account) if wire.account not in body else body
    body = re.sub(r"(AccountKey=)[^;]*", lambda found: found[1] + wire.key, body)
    (tmp_path / "snippet.py").write_text(body, encoding="utf-8")
    assert "0007" in run(["snippet.py"], tmp_path)


@needs_binary
@pytest.mark.parametrize(("note", "body"), snippets("tls"))
def test_script_over_tls(tmp_path, note, body):
    certificate, key = write_certificate(tmp_path)
    os.rename(certificate, tmp_path / "ca.pem")
    command = [BINARY, "serve", "--in-memory", "--listen", "127.0.0.1:0", "--tls-cert", tmp_path / "ca.pem", "--tls-key", key]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().removeprefix("listening on ").strip()
            assert "https://127.0.0.1:10002" in body
            (tmp_path / "snippet.py").write_text(body.replace("https://127.0.0.1:10002", address), encoding="utf-8")
            assert run(["snippet.py"], tmp_path) == "[]\n"
        finally:
            server.kill()


@pytest.fixture
def orders():
    """Starts a server with a change feed, and returns its URL and a client of its table `orders`."""
    command = [BINARY, "serve", "--in-memory", "--keep-log", "1h", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().removeprefix("listening on ").strip()
            connection = server.stdout.readline().removeprefix("connection string: ").strip()
            with TableClient.from_connection_string(connection, "orders") as table:
                table.create_table()
                table.create_entity({"PartitionKey": "p", "RowKey": "1"})
                yield address, connection, table
        finally:
            server.kill()


@contextmanager
def lines(arguments, folder, **environment):
    """Starts a program that does not end, and yields an iterator over the lines that it prints."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
    with subprocess.Popen(arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        watchdog = threading.Timer(60, os.killpg, (program.pid, signal.SIGKILL))
        watchdog.start()
        try:
            yield (line.strip() for line in program.stdout)
        finally:
            watchdog.cancel()
            os.killpg(program.pid, signal.SIGKILL)


@contextmanager
def reserved_port():
    """Yields a port that no other test gets: all of them reserve ports as test-support/src/port.rs does."""
    for port in range(12000, 20000):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reservation:
            try:
                reservation.bind(("127.0.0.1", port))
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            yield port
            return
    raise AssertionError("all ports for tests are in use")


def wait_for_listener(port):
    """Waits until a program accepts connections. `follow` fails at once if its receiver has not been started."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            return
        time.sleep(0.02)
    raise TimeoutError(f"no program accepts connections on port {port}")


@needs_binary
@pytest.mark.parametrize(("note", "body"), snippets("feed"))
def test_reader_of_the_change_feed(orders, tmp_path, note, body):
    _, connection, table = orders
    local = "UseDevelopmentStorage=true"
    assert local in body
    assert TableClient.from_connection_string(local, "orders").url == LOCAL
    (tmp_path / "snippet.py").write_text(body.replace(local, connection), encoding="utf-8")
    with lines([sys.executable, "snippet.py"], tmp_path) as printed:
        assert [next(printed), next(printed)] == ["CreateTable None", "Put 1"]
        table.create_entity({"PartitionKey": "p", "RowKey": "2"})
        table.delete_entity("p", "1")
        assert [next(printed), next(printed)] == ["Put 2", "Delete 1"]


@needs_binary
@pytest.mark.parametrize(("note", "body"), snippets("webhook"))
def test_receiver_of_changes(orders, tmp_path, note, body):
    address, _, _ = orders
    assert "7071" in body
    with reserved_port() as port:
        (tmp_path / "snippet.py").write_text(body.replace("7071", str(port)), encoding="utf-8")
        with lines([sys.executable, "snippet.py"], tmp_path) as printed:
            wait_for_listener(port)
            follow = [BINARY, "follow", "--table", "orders", "--from", "start", "--until-end", "--webhook", f"http://127.0.0.1:{port}/"]
            environment = {**os.environ, "ROWHOUSE_ENDPOINT": f"{address}/devstoreaccount1"}
            subprocess.run(follow, cwd=tmp_path, env=environment, check=True, timeout=300)
            assert [next(printed), next(printed)] == ["CreateTable orders None", "Put orders 1"]


@needs_binary
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize(("note", "body"), snippets("events", "sh"))
def test_events(orders, tmp_path, note, body):
    address, _, table = orders
    assert "http://127.0.0.1:10002" in body
    (tmp_path / "rowhouse").symlink_to(Path(BINARY).absolute())
    body = "set -e\n" + body.replace("http://127.0.0.1:10002", address)
    path = f"{tmp_path}:{os.environ['PATH']}"
    with lines(["bash", "-c", body], tmp_path, PATH=path, ROWHOUSE_ENDPOINT=f"{address}/devstoreaccount1") as printed:
        assert [next(printed), next(printed)[:4]] == ["retry: 1000", "id: "]
        table.create_entity({"PartitionKey": "p", "RowKey": "2"})
        data = next(line for line in printed if line.startswith("data: "))
        assert '"Operation":"Put"' in data and '"Entity_RowKey":"2"' in data
