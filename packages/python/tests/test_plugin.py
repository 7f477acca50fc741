"""Tests of the fixtures, in separate runs of pytest."""

import os
import signal
import subprocess
import sys

import pytest
from test_server import runs, wait_for_end

from rowhouse_tables import pytest_plugin


@pytest.fixture
def run(pytester, monkeypatch):
    """Returns a function that runs pytest on the content of a test file, with the given arguments."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run_tests(text, *arguments):
        pytester.makepyfile(text)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run_tests


USES_TABLES = """
    from azure.data.tables import TableServiceClient

    def tables(account):
        with TableServiceClient.from_connection_string(account.connection_string) as service:
            names = [table.name for table in service.list_tables()]
            service.create_table("orders")
            return names
"""


def test_each_test_has_an_account_of_its_own_on_one_server(run):
    result = run(USES_TABLES + """
    import pytest
    seen = []

    @pytest.mark.parametrize("number", range(3))
    def test_orders(rowhouse, number):
        assert tables(rowhouse) == []
        seen.append((rowhouse.account, rowhouse.endpoint.rpartition("/")[0]))

    def test_server(rowhouse_server):
        accounts, addresses = zip(*seen)
        assert len(set(accounts)) == 3 and len(set(addresses)) == 1
        assert rowhouse_server.endpoint.startswith(addresses[0])
        # Each account was deleted after its test.
        for account in accounts:
            with pytest.raises(Exception, match="there is no"):
                rowhouse_server._request("DELETE", "/test/accounts/" + account)
    """)
    result.assert_outcomes(passed=4)


def test_no_server_starts_if_no_test_needs_it(run, monkeypatch):
    monkeypatch.setenv("ROWHOUSE_BINARY", "/nonexistent/program")
    run("def test_nothing(): pass").assert_outcomes(passed=1)


def test_a_clock_is_put_back_after_the_test_that_changed_it_even_if_it_fails(run):
    result = run("""
    from datetime import datetime, timedelta, timezone

    def test_tomorrow(rowhouse):
        rowhouse.clock.stop()
        rowhouse.clock.advance(timedelta(days=1))
        assert rowhouse.clock.now() - datetime.now(timezone.utc) > timedelta(hours=23)
        assert False, "as intended"

    def test_today(rowhouse):
        before = rowhouse.clock.now()
        assert abs(before - datetime.now(timezone.utc)) < timedelta(minutes=1)
        while rowhouse.clock.now() == before:
            pass
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*as intended*"])


def test_a_clock_of_the_whole_run_stays(run):
    result = run("""
    from datetime import datetime, timezone
    import pytest
    day = datetime(2030, 1, 1, tzinfo=timezone.utc)

    @pytest.fixture(scope="session", autouse=True)
    def in_2030(rowhouse_server):
        rowhouse_server.clock.stop()
        rowhouse_server.clock.set(day)

    def test_one(rowhouse): assert rowhouse.clock.now() == day
    def test_two(rowhouse): assert rowhouse.clock.now() == day
    """)
    result.assert_outcomes(passed=2)


def test_an_account_that_the_test_deleted_is_no_error(run):
    result = run("""
    def test_reset(rowhouse, rowhouse_server): rowhouse_server.reset()
    def test_delete(rowhouse): rowhouse.delete()
    """)
    result.assert_outcomes(passed=2)


def test_options_of_the_file_and_of_the_command_line(run, pytester):
    (pytester.mkdir("data") / "prices.jsonl").write_text('{"PartitionKey":"p","RowKey":"r"}\n', encoding="utf-8")
    pytester.makeini("[pytest]\nrowhouse_options = --seed data\n")
    folder = pytester.mkdir("elsewhere")
    pytester.makepyfile(USES_TABLES + """
    import time

    def test_seed(rowhouse_server, rowhouse):
        assert (tables(rowhouse_server), tables(rowhouse)) == (["prices"], [])
        end = time.monotonic() + 60
        # The log line is written after the response.
        while "rowhouse::access" not in rowhouse_server.log():
            assert time.monotonic() < end
    """)
    os.chdir(folder)
    arguments = ["-p", "no:cacheprovider", "--rowhouse-options=--log 'info,rowhouse::access=debug'"]
    pytester.runpytest_subprocess("..", *arguments).assert_outcomes(passed=1)


@pytest.mark.parametrize(("system", "path"), [("nt", r"tests\my data"), ("posix", r"tests\\my data")])
def test_backslashes_in_options_are_those_of_the_system(system, path):
    assert pytest_plugin._split(f'--seed "{path}" --log=info#1', system) == ["--seed", "tests\\my data", "--log=info#1"]


@pytest.mark.parametrize(("binary", "options", "message"), [
    ("/nonexistent/program", "", "ROWHOUSE_BINARY names a file that does not exist: /nonexistent/program"),
    (None, "--nonsense", "*unexpected argument '--nonsense'*"),
])
def test_a_server_that_does_not_start_is_explained_without_a_traceback(run, monkeypatch, binary, options, message):
    if binary:
        monkeypatch.setenv("ROWHOUSE_BINARY", binary)
    result = run("def test_orders(rowhouse): pass", f"--rowhouse-options={options}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    for noise in ("*pytest_plugin.py*", "*During handling*"):
        result.stdout.no_fnmatch_line(noise)


def test_each_worker_of_xdist_has_its_own_server(run, pytester):
    result = run("""
    import os
    import pytest

    @pytest.mark.parametrize("number", range(20))
    def test_orders(rowhouse, rowhouse_server, number):
        with open(os.environ["PYTEST_XDIST_WORKER"], "a") as file:
            file.write(f"{rowhouse_server._process.pid}\\n")
    """, "-n2", "--dist=each")
    result.assert_outcomes(passed=40)
    servers = [{int(pid) for pid in file.read_text().split()} for file in pytester.path.glob("gw?")]
    assert [len(pids) for pids in servers] == [1, 1] and servers[0] != servers[1]
    for pid in set.union(*servers):
        assert not runs(pid)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("kind", ["SIGKILL", "SIGINT"])
def test_the_server_ends_with_a_run_that_is_interrupted(pytester, kind):
    pytester.makepyfile("""
    def test_waits(rowhouse, rowhouse_server, capfd):
        with capfd.disabled():
            print("server", rowhouse_server._process.pid, flush=True)
        input()
    """)
    # A background process may ignore SIGINT, and child processes inherit that, so restore the default.
    heed = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-c", heed, sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pytest_run:
        line = next(line for line in pytest_run.stdout if "server " in line)
        pid = int(line.rpartition("server ")[2])
        assert runs(pid)
        pytest_run.send_signal(getattr(signal, kind))
        rest = pytest_run.stdout.read()
    wait_for_end(pid)
    if kind == "SIGINT":
        # The fixtures were finalized as after any test, and the server was still running until then.
        assert "KeyboardInterrupt" in rest and "rror" not in rest.replace("KeyboardInterrupt", ""), rest
