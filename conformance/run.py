#!/usr/bin/env python3
"""Runs the cases of conformance/python against an endpoint, and compares it with the service, by feature."""

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
Runs the cases of conformance/python against any endpoint that implements the Table service protocol, and prints a table of
features that shows whether the endpoint behaves like the service. Needs Python 3.10 or later. Missing packages are installed into
the virtual environment .venv of the repository.

  as the service   every case passes
  different        some cases fail (the table shows how many pass), or a case asserts a known difference
  not there        the basic case of the feature fails
  not tested       every case was skipped
"""

EPILOG = """\
examples:
  conformance/run.py --endpoint http://127.0.0.1:10002/devstoreaccount1
  TABLES_KEY=... conformance/run.py --endpoint https://myaccount.table.core.windows.net --account myaccount
  conformance/run.py --rowhouse target/release/rowhouse
  conformance/run.py --rowhouse target/release/rowhouse --document docs/compatibility.md --column Rowhouse

Tables have unique names and are deleted afterwards. The service properties are changed and restored, so use an account whose
properties no other client needs during the run, and do not run the command twice at the same time. A run takes about 20 seconds
on one machine; over a network, it takes as long as some 14,000 requests.

exit code: 0 if every feature behaves like the service or differs only as expected; 1 if anything else differs; 2 if the endpoint
cannot be reached or refuses the key, or if another error prevents the run.
"""


def read_arguments():
    parser = argparse.ArgumentParser(description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--endpoint", metavar="URL", help="URL of the account, path style or host style, http or https")
    target.add_argument("--rowhouse", metavar="PROGRAM", help="start this Rowhouse program in memory and run against it, including the "
                                                              "cases that start their own servers (bearer tokens, throttling, metrics)")
    target.add_argument("--results", metavar="FILE", nargs="+", help="do not run the cases; read the results that `pytest --junitxml FILE` wrote")
    parser.add_argument("--account", default=os.environ.get("TABLES_ACCOUNT", DEVELOPMENT_ACCOUNT),
                        metavar="NAME", help="name of the account (default: TABLES_ACCOUNT, or devstoreaccount1)")
    parser.add_argument("--key", default=os.environ.get("TABLES_KEY", DEVELOPMENT_KEY), metavar="BASE64",
                        help="key of the account; prefer the variable TABLES_KEY, which other users of the machine cannot see "
                             "(default: the well-known development key)")
    parser.add_argument("--server", choices=sorted(EXPECTED), help="kind of server, which selects the list of expected differences")
    parser.add_argument("--timeout", type=int, default=120, metavar="SECONDS", help="maximum duration of one case (default: 120)")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the outcome of every case, with the reasons for failures")
    parser.add_argument("--document", type=pathlib.Path, metavar="FILE", help="write the results into the table on this page")
    parser.add_argument("--column", default="result", metavar="TITLE", help="title of the column in Markdown and in --document")
    parser.add_argument("--check", action="store_true", help="with --document: do not write, but fail if its column is out of date")
    arguments = parser.parse_args()
    if arguments.check and not arguments.document:
        parser.error("--check needs --document")
    return arguments


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(2)


def python_with_packages():
    """Returns the interpreter of the virtual environment. Creates it if packages of requirements.txt are missing."""
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
        fail(f"The packages could not be installed ({error}). On Debian, install the package python3-venv.")
    installed.write_bytes(requirements.read_bytes())
    return python


def check_endpoint(endpoint, account, key):
    """Exits with an explanation unless the endpoint responds and accepts the key."""
    try:
        wire = Wire(endpoint, account, key)
        if wire.scheme not in ("http", "https") or not wire.host:
            raise ValueError("it does not begin with http:// or https://")
        answer = wire.send("GET", "/Tables?$top=1")
    except binascii.Error:
        fail("The key is not Base64: copy it from the connection string, where it follows AccountKey=.")
    except ValueError as error:
        fail(f"{endpoint} is not a valid URL: {error}.")
    except (OSError, http.client.HTTPException) as error:
        fail(f"{endpoint} cannot be reached ({error or type(error).__name__}). Check that a server listens there and that the URL is complete, "
             f"such as http://127.0.0.1:10002/{account}.")
    if answer.status in (401, 403):
        fail(f"{endpoint} refuses the key of the account {account} ({answer.status} {answer.reason}). Check --account and TABLES_KEY.")
    if answer.status != 200:
        fail(f"{endpoint} responds with {answer.status} {answer.reason} to a request for the list of tables. Check that it is the URL of an account in the "
             f"Table service, such as http://127.0.0.1:10002/{account}.")


def start_rowhouse(program):
    """Starts Rowhouse in memory on a free port. Returns the process and the URL of its account."""
    command = [program, "serve", "--listen", "127.0.0.1:0", "--in-memory"]
    # The server must run with its defaults, whatever the caller's environment contains.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWHOUSE_")}
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    except OSError as error:
        fail(f"{program} cannot be started ({error.strerror}). Build it with `cargo build --release --package rowhouse-tables`.")
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        process.kill()
        fail(f"{program} did not start. To see the reason, run `{' '.join(command)}`.")
    return process, f"{line.split()[-1]}/{DEVELOPMENT_ACCOUNT}"


def run_cases(python, endpoint, arguments, results):
    """Runs the cases one at a time, because the service properties belong to the whole account."""
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
        fail(f"The cases could not be run: pytest exited with {code}; see its output above.")
    print(f"{endpoint}: {time.monotonic() - started:.0f} s", file=sys.stderr)


def read_results(path):
    """Returns the outcome of every case from pytest's results file. A case that failed in any phase counts as
    failed."""
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
    """Prints the results, and writes the files that the arguments name."""
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
    """Returns true if the column on the page matches the given results."""
    stale = feature_table.stale_lines(arguments.document.read_text(encoding="utf-8"), table, arguments.column)
    if stale:
        print(f"{source}: the column {arguments.column} of {arguments.document} is out of date:", *stale, sep="\n")
        print("Update it with: conformance/run.py --rowhouse target/release/rowhouse --document docs/compatibility.md "
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
        print(f"the column {arguments.column} of {arguments.document} matches the results (runs: {len(measured)})")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    try:
        main()
    except LookupError as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
