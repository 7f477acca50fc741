#!/usr/bin/env python3
"""Runs the vendor's test suites for Azure Cosmos DB for Table against the endpoint that TABLES_ENDPOINT names.

usage: run_suites.py FOLDER [PYTEST-OPTION...]

The server must have been started with --service cosmos and --domain table.cosmos.azure.com, because the suites contain the
host names of the service. FOLDER keeps the source package with the suites, which is downloaded if it is missing.
expected.py lists the cases that fail, with the reasons.
"""

import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import sources

HERE = pathlib.Path(__file__).resolve().parent
VERSION = "12.7.0"


def unpack(archive, folder):
    """Unpacks the suites, without the settings of the vendor's recorder."""
    with tarfile.open(archive) as package:
        tests = [member for member in package.getmembers() if "/tests/" in member.name and not member.name.endswith("/conftest.py")]
        package.extractall(folder, tests, filter="data")
    return next(pathlib.Path(folder).glob("*/tests"))


def main():
    if len(sys.argv) < 2 or "TABLES_ENDPOINT" not in os.environ:
        sys.exit(__doc__)
    archive = sources.archives([VERSION], sys.argv[1])[VERSION]
    with tempfile.TemporaryDirectory() as folder:
        tests = unpack(archive, folder)
        modules = sorted(path.name for path in tests.glob("test_*cosmos*.py"))
        environment = os.environ | {"PYTHONPATH": f"{HERE}:{HERE / 'suites'}", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "--quiet", "--color=no", "-c", HERE / "suites" / "pytest.ini", "--rootdir", tests,
                   *sys.argv[2:], *modules]
        sys.exit(subprocess.run(command, cwd=tests, env=environment).returncode)


if __name__ == "__main__":
    main()
