"""Measures Rowhouse and the emulator alternately, and writes the results as JSON.

usage: measure.py --rowhouse PROGRAM --emulator PROGRAM --bench PROGRAM --results FILE [--sizes LIST] [--seconds N]
                  [--rounds N] [--load-seconds N] [--wait-seconds N] [--quick] [--seed N] [--folder DIR]

Refuses to measure while other programs keep the machine busy. With --quick, always measures, but only enough to check
that everything works. The load generator for both programs is `rowhouse-bench`. A phase is measured in rounds, in which
the two programs alternate; its figures are medians. A phase that times out, or during which a program dies, also has a
result: an `outcome` instead of figures.
"""

import argparse
import datetime
import http.client
import json
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from machine import LOAD_PER_PROCESSOR_MAX, load_average, processors, wait_until_quiet
from programs import Connection, ProgramFailed, Server, emulator, folder_mib, rowhouse

# Reads precede writes, and the filter precedes inserts, because inserts change the number of entities that the filter
# selects.
READS = [("get", 1), ("get", 16), ("query-page", 1), ("query-filter", 1)]
WRITES = [("upsert", 1), ("upsert", 16), ("insert", 1), ("insert", 16), ("batch100", 4)]
LOAD_CONNECTIONS = 4
REST_SECONDS_MAX = 30
# The time that a dying program gets to log the reason.
DEATH_SECONDS = 10
# The maximum time by which a phase may exceed its duration, because its last operations must complete.
PHASE_SECONDS_EXTRA = 60
KILL_CONNECTIONS = 4


def note(text):
    print(text, file=sys.stderr, flush=True)


class Comparison:
    def __init__(self, args, folder, load):
        self.args, self.folder, self.load_before = args, folder, load
        self.programs = [rowhouse(args.rowhouse), emulator(args.emulator)]
        self.random = random.Random(args.seed)

    def place(self, program, name):
        return self.folder / f"{program.name}-{name}"

    def start(self, program, folder):
        return Server(program, folder, self.folder / f"{program.name}.log")

    def bench(self, server, entities, workload, connections, seconds):
        """Runs one phase. Returns its figures, or only an outcome."""
        command = [self.args.bench, "run", "--one-table", "--endpoint", server.endpoint]
        command += ["--pid", str(server.child.pid), "--workload", workload, "--entities", str(entities)]
        command += ["--connections", str(connections), "--seconds", str(seconds)]
        limit = seconds * 1.25 + PHASE_SECONDS_EXTRA
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"outcome": f"timed out after {limit:.0f} s"}
        if server.exit_status() is not None:
            return {"outcome": f"the program exited with {server.exit_status()}"}
        if not run.stdout:
            return {"outcome": run.stderr.strip()[:300]}
        report = json.loads(run.stdout)
        if not report["operations"]:
            return {"outcome": f"all operations failed: {report['first_error']}"[:300]}
        errors = {"errors": report["errors"]} if report["errors"] else {}
        return {
            **errors,
            "seconds": round(report["seconds"], 2),
            "entities": report["entities"],
            "operations_per_second": round(report["operations_per_second"], 1),
            "entities_per_second": round(report["entities_per_second"], 1),
            "cpu_us_per_operation": round(report["cpu"]["us_per_operation"], 1),
            "p50_us": round(report["latency_us"]["p50"]),
            "p99_us": round(report["latency_us"]["p99"]),
        }

    def ended(self, server, phase):
        """Adds the program's exit status, if it has exited, and its last error message to the outcome."""
        try:
            server.child.wait(DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            return
        lines = (self.folder / f"{server.program.name}.log").read_text(errors="replace").splitlines()
        words = next((line.strip() for line in reversed(lines) if "error" in line.lower()), "")
        phase["outcome"] += f", then it exited with {server.exit_status()}" + (f" ({words[:120]})" if words else "")

    def load(self, server, entities, run):
        """Fills the table. Returns True if all entities were written."""
        phase = self.bench(server, entities, "load", LOAD_CONNECTIONS, self.args.load_seconds)
        run["load"] = phase
        if phase.get("entities", entities) < entities:
            phase["outcome"] = f"only {phase['entities']:,} entities after {phase['seconds']:.0f} s"
            self.ended(server, phase)
        note(f"{run['program']}: load {entities}: {phase}")
        if "outcome" not in phase:
            server.rest(self.args.flush_seconds if run["storage"] == "disk" else 0, REST_SECONDS_MAX)
            run["resident_mib"] = server.memory_mib()[0]
        return "outcome" not in phase

    def phase(self, loaded, workload, connections):
        """Measures a phase of all programs, round by round."""
        rounds = {run["program"]: [] for run, _ in loaded}
        for _ in range(self.args.rounds):
            for run, server in loaded:
                measured = rounds[run["program"]]
                if server.exit_status() is None and not any("outcome" in one for one in measured):
                    measured.append(self.bench(server, run["entities"], workload, connections, self.args.seconds))
        for run, _ in loaded:
            if measured := rounds[run["program"]]:
                run["phases"][f"{workload} at {connections}"] = phase = combined(measured)
                note(f"{run['program']}: {run['entities']}: {workload} at {connections}: {phase}")

    def size(self, entities, storage):
        """Measures all phases at a size."""
        runs, servers = [], []
        try:
            for program in self.programs:
                run = {"program": program.name, "storage": storage, "entities": entities, "phases": {}}
                folder = self.place(program, str(entities)) if storage == "disk" else None
                server = self.start(program, folder)
                servers.append(server)
                runs.append((run, server, folder, self.load(server, entities, run)))
            loaded = [(run, server) for run, server, _, is_loaded in runs if is_loaded]
            for workload, connections in READS + WRITES:
                self.phase(loaded, workload, connections)
            for run, server, folder, is_loaded in runs:
                if is_loaded and server.exit_status() is None:
                    run["peak_mib"] = server.memory_mib()[1]
                    if folder is not None:
                        self.restart(run, server, folder)
        finally:
            for server in servers:
                server.kill()
            for run in runs:
                if run[2] is not None:
                    shutil.rmtree(run[2], ignore_errors=True)
        return [run[0] for run in runs]

    def restart(self, run, server, folder):
        server.stop()
        run["disk_mib"] = folder_mib(folder)
        try:
            with self.start(server.program, folder) as again:
                run["start_ms"] = round(again.start_seconds * 1000)
        except ProgramFailed as ended:
            run["start_outcome"] = str(ended)

    def empty(self, program):
        """Returns the medians of the start time on an empty folder and of the memory afterwards."""
        times, memory = [], []
        for index in range(self.args.starts):
            with self.start(program, self.place(program, f"empty-{index}")) as server:
                times.append(server.start_seconds * 1000)
                server.rest(0, REST_SECONDS_MAX)
                memory.append(server.memory_mib()[0])
        return {"start_ms": round(statistics.median(times)), "resident_mib": statistics.median(memory)}

    def kill(self, program, index):
        """Inserts until the program is killed, restarts it, and counts the acknowledged entities that are missing."""
        folder, seconds = self.place(program, f"kill-{index}"), self.random.uniform(*self.args.kill_seconds)
        acknowledged = [[] for _ in range(KILL_CONNECTIONS)]
        with self.start(program, folder) as server:
            status, _, body = Connection(server.port).request("POST", "/Tables", body={"TableName": "Kept"})
            if status != 204:
                raise ProgramFailed(f"creating a table returned {status}: {body[:300]}")
            threads = [
                threading.Thread(target=insert_until_killed, args=(server.port, f"p{number}", keys))
                for number, keys in enumerate(acknowledged)
            ]
            for thread in threads:
                thread.start()
            time.sleep(seconds)
            server.kill()
            killed = time.monotonic()
            for thread in threads:
                thread.join()
        times = {key: at for keys in acknowledged for key, at in keys}
        result = {"seconds": round(seconds, 1), "acknowledged": len(times)}
        with self.start(program, folder) as again:
            present = Connection(again.port).keys("Kept")
        missing = times.keys() - (present or set())
        result["missing"] = len(missing)
        result["missing_table"] = present is None
        result["oldest_missing_seconds"] = round(killed - min((times[key] for key in missing), default=killed), 1)
        shutil.rmtree(folder, ignore_errors=True)
        return result

    def kills(self, program):
        results = []
        for index in range(self.args.kills):
            try:
                results.append(self.kill(program, index))
            except ProgramFailed as ended:
                results.append({"outcome": str(ended)})
            note(f"{program.name}: kill -9: {results[-1]}")
        return results

    def all(self):
        began = time.monotonic()
        results = {"conditions": self.conditions()}
        results["empty"] = {program.name: self.empty(program) for program in self.programs}
        note(f"empty: {results['empty']}")
        results["runs"] = [run for size in self.args.sizes for run in self.size(size, "disk")]
        if self.args.memory_size:
            results["runs"] += self.size(self.args.memory_size, "memory")
        results["kills"] = {program.name: self.kills(program) for program in self.programs}
        results["conditions"]["minutes"] = round((time.monotonic() - began) / 60, 1)
        return results

    def conditions(self):
        node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
        return {
            "date": datetime.date.today().isoformat(),
            "rowhouse": self.programs[0].version,
            "emulator": self.programs[1].version,
            "node": node,
            "system": f"{platform.system()} {platform.machine()}",
            "processors": processors(),
            "load_average": self.load_before,
            "rounds": self.args.rounds,
            "seconds": self.args.seconds,
            "load_seconds": self.args.load_seconds,
            "sizes": self.args.sizes,
        }


def combined(rounds):
    """Returns the medians of several rounds, with the rate of each, or the outcome of a round without figures."""
    failed = next((one for one in rounds if "outcome" in one), None)
    if failed:
        return failed
    figures = [name for name in rounds[0] if name not in ("errors", "entities")]
    phase = {name: statistics.median(one[name] for one in rounds) for name in figures}
    for name in ("operations_per_second", "entities_per_second"):
        phase[f"{name}_rounds"] = [one[name] for one in rounds]
    phase["entities"] = sum(one["entities"] for one in rounds)
    errors = Counter()
    for one in rounds:
        errors.update(one.get("errors", {}))
    return {"errors": dict(errors), **phase} if errors else phase


def insert_until_killed(port, partition, acknowledged):
    """Inserts entities one by one. Records the key and the time of each acknowledged insert."""
    connection, number = Connection(port), 0
    while True:
        key = (partition, f"{number:08}")
        try:
            status, _, body = connection.request(
                "POST", "/Kept", body={"PartitionKey": key[0], "RowKey": key[1], "Text": "x" * 200}
            )
        except (OSError, http.client.HTTPException):
            return
        if status != 204:
            note(f"an insert returned {status}: {body[:300]}")
            return
        acknowledged.append((key, time.monotonic()))
        number += 1


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rowhouse", required=True)
    parser.add_argument("--emulator", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--results", required=True, type=Path)
    parser.add_argument("--sizes", default=[1000, 100_000, 300_000], type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--seconds", default=2, type=float)
    parser.add_argument("--load-seconds", default=600, type=int)
    parser.add_argument("--wait-seconds", default=600, type=int, help="maximum time to wait for the machine to become quiet")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", default=random.randrange(2**32), type=int)
    parser.add_argument("--folder", help="folder for the data of the programs, on a real disk")
    # If there are changes, the emulator writes its file every 5 s.
    parser.set_defaults(memory_size=10_000, starts=5, flush_seconds=6, kills=3, kill_seconds=(2, 8))
    if "--quick" in sys.argv:
        parser.set_defaults(sizes=[100], rounds=1, seconds=0.3, memory_size=100, starts=1, flush_seconds=0, kills=1, kill_seconds=(0.5, 1))
    return parser.parse_args()


def main():
    args = arguments()
    load = load_average() if args.quick else wait_until_quiet(args.wait_seconds)
    if load is None:
        sys.exit(
            f"the load average is {load_average()} with {processors()} processors: other programs keep the machine busy. Nothing was "
            f"measured. Stop them and try again once the load average is at most {LOAD_PER_PROCESSOR_MAX} per processor."
        )
    with tempfile.TemporaryDirectory(prefix="rowhouse-comparison-", dir=args.folder) as folder:
        results = Comparison(args, Path(folder), load).all()
    args.results.parent.mkdir(parents=True, exist_ok=True)
    args.results.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
