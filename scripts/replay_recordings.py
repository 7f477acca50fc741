#!/usr/bin/env python3
"""Replays exchanges recorded from the real service, and compares every response: status, code, body and headers.

usage: replay_recordings.py ENDPOINT [RECORDINGS]

RECORDINGS is the folder with replay.py and the recorded runs, by default ../shared/recordings, next to the repository.
Deletes every table of the account. conformance/recordings_expected.json lists the runs that cannot pass yet, with the
reasons. If a listed run passes, this is also a failure, so that the list stays correct. The last line of the output
contains the number of runs with the expected result.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ("atom-2014-02-14", "json-2019-02-02")


def replay(endpoint, recordings):
    """Returns the verdict of each run: its name, and its differences."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        folders = [recordings / name for name in RUNS]
        command = [sys.executable, recordings / "replay.py", "--endpoint", endpoint, "--json", report, *folders]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0 or not report.exists():
            sys.exit(f"replay.py failed:\n{done.stdout}")
        return json.loads(report.read_text(encoding="utf-8"))["cassettes"]


def differences(run):
    """Returns the differences in a run, one line each."""
    if run["verdict"] == "ERROR":
        return [run["why"]]
    lines = []
    for exchange in run["diffs"]:
        where = f"#{exchange['i']} {exchange['m']} {exchange['u']}"
        lines += [f"{where}: {line}" for kind in ("st", "body", "hdr") for line in exchange[kind]]
    return lines if lines or run["verdict"] == "PASS" else [run["verdict"]]


def judge(runs, expected):
    """Returns one complaint for each run that did not have the expected result."""
    complaints = []
    for name, run in sorted(runs.items()):
        found = differences(run)
        if name in expected and not found:
            complaints.append(f"{name} passes: take it off conformance/recordings_expected.json")
        if name not in expected and found:
            complaints.append("\n    ".join([f"{name} differs:"] + found))
    return complaints


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    recordings = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT.parent / "shared" / "recordings"
    expected = json.loads((ROOT / "conformance" / "recordings_expected.json").read_text(encoding="utf-8"))
    runs = replay(sys.argv[1], recordings)
    if not runs:
        sys.exit(f"there are no runs in {recordings}")
    unknown = sorted(expected.keys() - runs.keys())
    if unknown:
        sys.exit(f"conformance/recordings_expected.json names runs that do not exist: {', '.join(unknown)}")
    complaints = judge(runs, expected)
    for complaint in complaints:
        print(complaint)
    for reason in sorted(set(expected.values())):
        print(f"runs that wait for {reason}: {list(expected.values()).count(reason)}")
    print(f"{len(runs) - len(complaints)} passed, {len(complaints)} failed")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
