#!/usr/bin/env python3
"""Runs the cases of conformance/python against an endpoint, and prints feature by feature how it compares with the service."""

import argparse
import binascii
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "python"
ENVIRONMENT = HERE.parent / ".venv"
sys.path.insert(0, str(CASES))

import feature_table  # noqa: E402
from expected_differences import EXPECTED  # noqa: E402
from features import EXPECTED as ON_PURPOSE, FAILED, OTHER_CASES, PASSED, SKIPPED, Outcome, rows  # noqa: E402
from wire import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Wire  # noqa: E402

DESCRIPTION = """\
Runs the cases of conformance/python against any endpoint of the Table service's protocol, and prints a table: feature by
feature, whether the endpoint does as the service. It needs Python 3.10 or later; the packages are installed into the virtual
environment .venv of the repository, when they are not there yet.

  as the service   every case passes
  different        some cases fail, so many of so many pass; or a case asserts a known difference
  not there        the case that shows the feature at all fails
  not tested       every case was skipped
"""

EPILOG = """\
examples:
  conformance/run.py --endpoint http://127.0.0.1:10002/devstoreaccount1
  TABLES_KEY=... conformance/run.py --endpoint https://myaccount.table.core.windows.net --account myaccount
  conformance/run.py --rowhouse target/release/rowhouse
  conformance/run.py --rowhouse target/release/rowhouse --document docs/compatibility.md --column Rowhouse

Tables have unique names and are deleted afterwards. The properties of the service are changed and restored, so use an account
of which nobody else needs them meanwhile, and run the command once at a time. A run takes about 20 seconds on one machine;
over a network it takes the time of some 14,000 requests.

exit code: 0 if every feature is as the service, or differs only as expected; 1 if something else differs; 2 if the endpoint
cannot be reached, refuses the key, or there was another obstacle.
"""


def read_arguments():
    parser = argparse.ArgumentParser(description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--endpoint", metavar="URL", help="address of the account, path style or host style, http or https")
    target.add_argument("--rowhouse", metavar="PROGRAM", help="start this Rowhouse in memory, and run against it, with the cases that "
                                                              "start servers of their own (bearer tokens, throttling, metrics)")
    target.add_argument("--results", metavar="FILE", nargs="+", help="run nothing: read what `pytest --junitxml FILE` wrote")
    parser.add_argument("--account", default=os.environ.get("TABLES_ACCOUNT", DEVELOPMENT_ACCOUNT),
                        metavar="NAME", help="name of the account (TABLES_ACCOUNT, else devstoreaccount1)")
    parser.add_argument("--key", default=os.environ.get("TABLES_KEY", DEVELOPMENT_KEY), metavar="BASE64",
                        help="its key; better in the variable TABLES_KEY, which other users of the machine cannot see (else the "
                             "well-known development key)")
    parser.add_argument("--server", choices=sorted(EXPECTED), help="what the endpoint is, for the list of its expected differences")
    parser.add_argument("--timeout", type=int, default=120, metavar="SECONDS", help="for one case (120)")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the outcome of every case, and why it failed")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE", help="write the results into the table of this document")
    parser.add_argument("--column", default="result", metavar="TITLE", help="the title of the column in Markdown and in --document")
    parser.add_argument("--check", action="store_true", help="with --document: write nothing, and fail if its column is out of date")
    arguments = parser.parse_args()
    if arguments.check and not arguments.document:
        parser.error("--check needs --document")
    return arguments


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def python_with_packages():
    """The interpreter of the virtual environment, which is created if it lacks the packages of requirements.txt."""
    requirements, installed = CASES / "requirements.txt", ENVIRONMENT / "requirements.txt"
    python = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if installed.is_file() and installed.read_bytes() == requirements.read_bytes():
        return python
    print(f"installing the packages of {requirements} into {ENVIRONMENT}", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--requirement",
                        requirements], check=True)
    except subprocess.CalledProcessError as error:
        fail(f"The packages could not be installed ({error}). On Debian the package python3-venv is necessary.")
    installed.write_bytes(requirements.read_bytes())
    return python


def check_endpoint(endpoint, account, key):
    """Ends with a clear sentence unless the endpoint answers, and accepts the key."""
    try:
        wire = Wire(endpoint, account, key)
        if wire.scheme not in ("http", "https") or not wire.host:
            raise ValueError("it does not begin with http:// or https://")
        answer = wire.send("GET", "/Tables?$top=1")
    except binascii.Error:
        fail("The key is not Base64: take it as it stands in the connection string, after AccountKey=.")
    except ValueError as error:
        fail(f"{endpoint} is not an address: {error}.")
    except (OSError, http.client.HTTPException) as error:
        fail(f"{endpoint} cannot be reached ({error or type(error).__name__}). Does a server listen there, and is the address complete, "
             f"such as http://127.0.0.1:10002/{account}?")
    if answer.status in (401, 403):
        fail(f"{endpoint} refuses the key of the account {account} ({answer.status} {answer.reason}). Check --account and TABLES_KEY.")
    if answer.status != 200:
        fail(f"{endpoint} answers {answer.status} {answer.reason} to a list of its tables. Is this the address of an account of the "
             f"Table service, such as http://127.0.0.1:10002/{account}?")


def start_rowhouse(program):
    """A Rowhouse in memory on a free port, and the address of its account."""
    command = [program, "serve", "--listen", "127.0.0.1:0", "--in-memory"]
    # It runs with its defaults, whatever the caller's environment sets.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWHOUSE_")}
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    except OSError as error:
        fail(f"{program} cannot be started ({error.strerror}). Build it with `cargo build --release --package rowhouse-tables`.")
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        process.kill()
        fail(f"{program} did not start: `{' '.join(command)}` shows why.")
    return process, f"{line.split()[-1]}/{DEVELOPMENT_ACCOUNT}"


def run_cases(python, endpoint, arguments, results):
    """Runs all cases one after the other, because the properties of the service belong to the whole account."""
    environment = {name: value for name, value in os.environ.items() if name not in ("ROWHOUSE_BINARY", "TABLES_SERVER")}
    environment |= {"TABLES_ENDPOINT": endpoint, "TABLES_ACCOUNT": arguments.account, "TABLES_KEY": arguments.key,
                    "PYTHONDONTWRITEBYTECODE": "1"}
    if arguments.rowhouse:
        environment["ROWHOUSE_BINARY"] = str(pathlib.Path(arguments.rowhouse).resolve())
    if arguments.rowhouse or arguments.server:
        environment["TABLES_SERVER"] = arguments.server or "rowhouse"
    command = [python, "-m", "pytest", "--quiet", "--tb=no", "--no-summary", "--maxfail=0", "-p", "no:cacheprovider",
               f"--timeout={arguments.timeout}", f"--junitxml={results}", CASES]
    command += [f"--ignore={CASES / name}.py" for name in OTHER_CASES if "::" not in name]
    started = time.monotonic()
    # The progress is not part of the result.
    code = subprocess.run(command, env=environment, stdout=sys.stderr).returncode
    if code not in (0, 1) or not results.is_file():
        fail(f"The cases could not be run (pytest ended with {code}, see above).")
    print(f"{endpoint}: {time.monotonic() - started:.0f} s", file=sys.stderr)


def read_results(path):
    """The outcome of every case from a file of pytest; a case that failed in any phase has failed."""
    outcomes = {}
    for element in xml.etree.ElementTree.parse(path).iter("testcase"):
        case = element.get("classname").split("conformance.python.")[-1].replace(".", "::") + "::" + element.get("name")
        outcome = Outcome(PASSED)
        for child in element:
            reason = (child.get("message") or "").split("\n")[0]
            if child.tag in ("failure", "error"):
                outcome = Outcome(FAILED, reason)
            elif child.tag == "skipped" and outcome.kind == PASSED:
                outcome = Outcome(ON_PURPOSE if child.get("type") == "pytest.xfail" else SKIPPED, reason)
        if case not in outcomes or outcomes[case].kind != FAILED:
            outcomes[case] = outcome
    return outcomes


def report(source, outcomes, table, arguments):
    """Prints and writes what the arguments ask for."""
    print(feature_table.as_markdown(table, arguments.column) if arguments.markdown else feature_table.as_text(table))
    print()
    print(feature_table.summary(table))
    if arguments.json:
        document = {
            "source": str(source),
            "features": [{"feature": row.feature, "status": row.status, "cases": dict(row.counts)} for row in table],
            "cases": {case: {"outcome": outcome.kind, "reason": outcome.reason} for case, outcome in outcomes.items()},
        }
        arguments.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if arguments.document:
        text = arguments.document.read_text(encoding="utf-8")
        arguments.document.write_text(feature_table.with_column(text, table, arguments.column), encoding="utf-8")


def check_document(source, table, arguments):
    """Whether the column of the document says what these results say."""
    stale = feature_table.stale_lines(arguments.document.read_text(encoding="utf-8"), table, arguments.column)
    if stale:
        print(f"{source}: the column {arguments.column} of {arguments.document} is out of date:", *stale, sep="\n")
        print("Write it anew with: conformance/run.py --rowhouse target/release/rowhouse --document docs/compatibility.md "
              "--column Rowhouse")
    return not stale


def main():
    arguments = read_arguments()
    if arguments.results:
        measured = [(path, read_results(path)) for path in arguments.results]
    else:
        python, process, endpoint = python_with_packages(), None, arguments.endpoint
        if arguments.rowhouse:
            process, endpoint = start_rowhouse(arguments.rowhouse)
            arguments.account, arguments.key = DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY
        try:
            check_endpoint(endpoint, arguments.account, arguments.key)
            with tempfile.TemporaryDirectory() as folder:
                results = pathlib.Path(folder) / "results.xml"
                run_cases(python, endpoint, arguments, results)
                measured = [(endpoint, read_results(results))]
        finally:
            if process:
                process.terminate()
                process.wait()
    good = True
    for source, outcomes in measured:
        table = rows(outcomes)
        if arguments.check:
            good &= check_document(source, table, arguments)
        else:
            report(source, outcomes, table, arguments)
            good &= not any(row.counts[FAILED] for row in table)
    if arguments.check and good:
        print(f"the column {arguments.column} of {arguments.document} says what was measured, {len(measured)} times")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    try:
        main()
    except LookupError as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
