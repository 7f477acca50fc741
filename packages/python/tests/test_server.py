"""Tests of `rowhouse_tables.Server`, without fixtures."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from azure.core.exceptions import ClientAuthenticationError

from rowhouse_tables import RowhouseError, Server

NEW_YEAR = datetime(2030, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_left(server):
    yield
    server.reset()


def test_accounts_are_isolated(server, tables, create):
    first, second = server.new_account(), server.new_account()
    create(first, "orders")
    assert (tables(first), tables(second), tables(server)) == (["orders"], [], [])
    assert first.account in first.endpoint and first.key in first.connection_string
    first.delete()
    first.delete()
    with pytest.raises(ClientAuthenticationError):
        tables(first)


def test_the_clock(server, create):
    server.clock.stop()
    server.clock.set(NEW_YEAR)
    assert server.clock.now() == NEW_YEAR
    server.clock.advance(timedelta(days=1, microseconds=500))
    server.clock.advance(1.5)
    tomorrow = NEW_YEAR + timedelta(days=1, seconds=1.5, microseconds=500)
    assert server.clock.now() == tomorrow
    # The client signs with the system clock.
    assert create(server, "orders") == tomorrow
    server.clock.resume()
    before = server.clock.now()
    while server.clock.now() == before:
        pass
    server.clock.reset()
    assert abs(server.clock.now() - datetime.now(timezone.utc)) < timedelta(minutes=1)
    with pytest.raises(ValueError, match="time zone"):
        server.clock.set(datetime(2030, 1, 1))


def test_a_snapshot_is_returned_to(server, tables, create):
    create(server, "orders")
    snapshot = server.snapshot()
    for _ in range(2):
        create(server, "customers")
        snapshot.restore()
        assert tables(server) == ["orders"]
    snapshot.delete()
    snapshot.delete()
    with pytest.raises(RowhouseError, match="there is no snapshot"):
        snapshot.restore()


def test_a_block_returns_to_its_snapshot_also_after_an_error(server, tables, create):
    with pytest.raises(LookupError), server.snapshot():
        create(server, "orders")
        raise LookupError
    assert tables(server) == []


def test_reset_and_seed(server, tables, create, tmp_path):
    (tmp_path / "prices.jsonl").write_text('{"PartitionKey":"north","RowKey":"apple","Price":1.25}\n', encoding="utf-8")
    account = server.new_account()
    account.seed(tmp_path)
    server.seed(tmp_path)
    assert tables(account) == tables(server) == ["prices"]
    server.reset()
    assert tables(server) == []
    account.delete()
    with pytest.raises(RowhouseError, match="missing.* was not imported: .*No such file"):
        server.seed(tmp_path / "missing")
    with pytest.raises(RowhouseError, match="first account"):
        server.delete()


def test_options_and_their_folder(tables, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "prices.jsonl").write_text('{"PartitionKey":"p","RowKey":"r"}\n', encoding="utf-8")
    with Server(["--seed", "data"], tmp_path) as server:
        assert tables(server) == ["prices"]


def test_the_environment_does_not_reach_the_server(tables, monkeypatch):
    monkeypatch.setenv("ROWHOUSE_ACCOUNT_KEYS", "other:a2V5")
    monkeypatch.setenv("ROWHOUSE_DATA", "/nonexistent/folder")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Server() as server:
        assert server.account == "devstoreaccount1"
        server.reset()


def test_errors_say_what_to_do(monkeypatch, tmp_path):
    with pytest.raises(RowhouseError, match="did not start: it exited with code 2\n.*--nonsense"):
        Server(["--nonsense"])
    folder = tmp_path / "program"
    folder.write_text("not a program", encoding="utf-8")
    monkeypatch.setenv("ROWHOUSE_BINARY", str(folder))
    with pytest.raises(RowhouseError, match="program cannot be run"):
        Server()
    monkeypatch.setenv("ROWHOUSE_BINARY", str(tmp_path / "missing"))
    with pytest.raises(RowhouseError, match="ROWHOUSE_BINARY names a file that does not exist"):
        Server()


def test_a_file_of_accounts_is_refused_since_it_hides_the_keys(monkeypatch, tmp_path):
    started = []

    class Process(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    (tmp_path / "accounts.toml").write_text('[[account]]\nname = "orchard"\nkey1 = "c2l4dGVlbiBieXRlcyBvZiBrZXk="\n', encoding="utf-8")
    monkeypatch.setattr(subprocess, "Popen", Process)
    with pytest.raises(RowhouseError, match=r"--accounts hides the keys.*new_account\(\)"):
        Server(["--accounts", "accounts.toml"], tmp_path)
    assert [process.returncode for process in started] == [0]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork")
def test_a_forked_child_does_not_delay_the_end():
    server = Server()
    context = multiprocessing.get_context("fork")
    done = context.Event()
    child = context.Process(target=done.wait)
    child.start()
    try:
        before = time.monotonic()
        server.stop()
        assert time.monotonic() - before < 15 and server._process.returncode == 0
        assert child.is_alive()
    finally:
        done.set()
        child.join()


def test_a_server_that_has_ended_says_so():
    server = Server()
    server.stop()
    server.stop()
    assert "stopped" in server.log()
    with pytest.raises(RowhouseError, match="(?s)no longer running: it exited with code 0\n.*stopped"):
        server.reset()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_the_server_ends_with_a_process_that_is_killed():
    program = "from rowhouse_tables import Server; print(Server()._process.pid, flush=True); input()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
        assert runs(pid)
        owner.send_signal(signal.SIGKILL)
    wait_for_end(pid)


def runs(pid):
    """Returns true if a process is running. A process that has exited but was not waited for yet does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pid):
    end = time.monotonic() + 60
    while runs(pid):
        assert time.monotonic() < end, "the server outlived its owner"
        time.sleep(0.01)
