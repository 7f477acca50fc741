"""Exchanges encrypted entities between the libraries through any endpoint: each reads or refuses what the others wrote.

usage: run.py --rust PROGRAM [--java CLASSPATH]

PROGRAM is the example `encryption_exchange` of the client library, and CLASSPATH contains the libraries of
java/pom.xml. The environment variables TABLES_ENDPOINT, TABLES_ACCOUNT and TABLES_KEY specify the account, as for every
suite here.
"""

import argparse
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import exchange
from address import unique_name

HERE = Path(__file__).parent
RETIRED = ["python", "java"]


def connection_string():
    endpoint = os.environ.get("TABLES_ENDPOINT", "http://127.0.0.1:10002/devstoreaccount1")
    account = os.environ.get("TABLES_ACCOUNT", exchange.DEVELOPMENT_ACCOUNT)
    key = os.environ.get("TABLES_KEY", exchange.DEVELOPMENT_KEY)
    return f"AccountName={account};AccountKey={key};TableEndpoint={endpoint};"


class Suite:
    def __init__(self, programs):
        self.programs, self.passed, self.failed, self.table = programs, 0, [], unique_name("encrypted")

    def run(self, library, action, *arguments):
        """Runs one action of a library. Each line of its output that begins with "ok" is a passed case."""
        environment = {**os.environ, "TABLES_CONNECTION_STRING": connection_string()}
        command = [*self.programs[library], action, self.table, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=300)
        passed = [line for line in done.stdout.splitlines() if line.startswith("ok ")]
        self.passed += len(passed)
        name = " ".join([library, action, *arguments])
        print(f"{name}: {len(passed)} passed")
        if done.returncode or not passed:
            self.failed.append(name)
            print(done.stdout, done.stderr, f"exit code {done.returncode}", sep="\n")

    def run_all(self):
        libraries = [library for library in RETIRED if library in self.programs]
        for library in libraries:
            self.run(library, "write")
        for writer in ["rust", "rust-gcm"]:
            self.run("rust", "write", writer)
        for writer in [*libraries, "rust", "rust-gcm"]:
            self.run("python", "tamper", writer)
            for reader in [*libraries, "rust"]:
                if not (writer == "rust-gcm" and reader in RETIRED):
                    self.run(reader, "read", writer)
                self.run(reader, "refuse", writer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rust", required=True, metavar="PROGRAM")
    parser.add_argument("--java", metavar="CLASSPATH")
    options = parser.parse_args()
    vectors = str(exchange.VECTORS)
    programs = {"python": [sys.executable, str(HERE / "exchange.py")], "rust": [options.rust, vectors]}
    if options.java:
        programs["java"] = ["java", "-cp", options.java, str(HERE / "java/Exchange.java"), vectors]
    suite = Suite(programs)
    service = exchange.connect()
    service.create_table(suite.table)
    try:
        suite.run_all()
    finally:
        for end in ["", "Value", "Wrapped"]:
            with contextlib.suppress(Exception):
                service.delete_table(suite.table + end)
    print(f"{suite.passed} passed, {len(suite.failed)} failed")
    for name in suite.failed:
        print(f"FAILED: {name}")
    sys.exit(1 if suite.failed else 0)


if __name__ == "__main__":
    main()
