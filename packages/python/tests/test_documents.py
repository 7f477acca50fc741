"""Runs the Python snippets in docs/testing-with-rowhouse.md that have a file name, in a separate folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "testing-with-rowhouse.md"
FENCE = re.compile(r"^```(?:python|json|ini) file=(\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("document")
    for name, body in FENCE.findall(DOCUMENT.read_text(encoding="utf-8")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body, encoding="utf-8")
    return folder


def run(folder, *arguments):
    """Runs Python, which must succeed, and returns its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(("name", "count"), [("test_orders.py", 1), ("test_more.py", 4)])
def test_tests_for_pytest(folder, name, count):
    printed = run(folder, "-m", "pytest", "--quiet", "--color=no", "-p", "no:cacheprovider", name)
    assert re.search(rf"^{count} passed", printed, re.MULTILINE), printed


def test_tests_in_parallel(folder):
    printed = run(folder, "-m", "pytest", "--quiet", "--color=no", "-p", "no:cacheprovider", "-n2")
    assert re.search(r"^5 passed", printed, re.MULTILINE), printed


def test_tests_for_unittest(folder):
    assert "Ran 1 test" in run(folder, "-m", "unittest", "unittest_orders.py")


def test_types(folder):
    """Both the package and the snippets that use it pass a strict type check."""
    environment = ["-m", "mypy", "--strict", "--no-incremental", "--cache-dir=" + os.devnull]
    (folder / "typed.py").write_text(
        "from datetime import timedelta\n"
        "from rowhouse_tables import Account, Server\n"
        "def one(rowhouse: Account, rowhouse_server: Server) -> str:\n"
        "    rowhouse.clock.advance(timedelta(days=1))\n"
        "    with rowhouse_server.snapshot() as snapshot:\n"
        "        snapshot.restore()\n"
        "    return rowhouse.connection_string\n",
        encoding="utf-8",
    )
    assert "Success" in run(folder, *environment, "typed.py")
    assert "Success" in run(folder, *environment, "--package", "rowhouse_tables")
