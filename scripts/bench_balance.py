#!/usr/bin/env python3
"""Measures how servers with --balance auto even out a skewed load on a Citus cluster, and prints tables.

Builds the release binaries, unless --programs names a folder with them. Starts a cluster (scripts/citus.sh) with fsync
and a Rowhouse server that addresses the workers. Of the load, 80% goes to some partitions of one shard. Every --period
seconds, other partitions of the same shard, or with --wander of another shard, become hot. At the same time, probes
write to hot partitions at short intervals, to measure the pauses of writes during each step.

The first table compares the estimated load of each worker with the processor time of all its processes. `unevenness`
is the greatest difference from the average of the workers. The second table shows the steps and the longest response
time of a probe that was waiting at any time during the step.
"""

import argparse
import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import subprocess
import sys
import threading
import time

from bench_citus import Node, citus, first_line, head, line, prepared, processor_seconds, start_server

KEY = base64.b64decode("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
PER_PARTITION = 100
PROBES = 4
PROBE_PAUSE = 0.1


class Probe(threading.Thread):
    """Overwrites entities of hot partitions, one after the other, and keeps the times of each request."""

    def __init__(self, url, table):
        super().__init__(daemon=True)
        self.host, self.table, self.hot, self.times, self.failures = url.split("//")[1], table, [], [], []
        self.running = True

    def run(self):
        number, connection = 0, None
        while self.running:
            time.sleep(PROBE_PAUSE)
            hot = self.hot
            if not hot:
                continue
            number += 1
            path = f"/devstoreaccount1/{self.table}(PartitionKey='p{hot[number % len(hot)]:06}',RowKey='probe')"
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
            signed = hmac.new(KEY, f"{date}\n/devstoreaccount1{path}".encode(), hashlib.sha256).digest()
            headers = {"x-ms-date": date, "Authorization": f"SharedKeyLite devstoreaccount1:{base64.b64encode(signed).decode()}",
                       "Content-Type": "application/json", "x-ms-version": "2019-02-02"}
            began = time.time()
            try:
                connection = connection or http.client.HTTPConnection(self.host, timeout=60)
                connection.request("PUT", path, '{"Value":"x"}', headers)
                response = connection.getresponse()
                body = response.read()
                if response.status != 204:
                    self.failures.append((began, f"{response.status} {body[:200]}"))
            except OSError as error:
                connection = None
                self.failures.append((began, str(error)))
            self.times.append((began, time.time()))


def longest(probes, since, until):
    """Returns the longest response time, in milliseconds, of the requests that were waiting in a period."""
    times = [end - began for probe in probes for began, end in list(probe.times) if end >= since and began <= until]
    return max(times, default=0) * 1000


def show(programs, store):
    """Returns what the servers measured."""
    output = subprocess.run([programs / "rowhouse", "balance", "--show", "--json", "--store", store], check=False, capture_output=True, text=True)
    return json.loads(output.stdout) if output.returncode == 0 else None


def partitions_of_shards(database, table, count):
    """Returns the numbers of the partitions of each shard."""
    rows = database.sql(
        "SELECT n, get_shard_id_for_distribution_column('rowhouse_entities', int8send(id) || convert_to('p' || lpad(n::text, 6, '0'), 'UTF8')) "
        f"FROM rowhouse_tables, generate_series(0, {count - 1}) n WHERE name = '{table}'")
    shards = {}
    for row in rows.split():
        number, shard = row.split("|")
        shards.setdefault(shard, []).append(int(number))
    return sorted(shards.values(), key=len, reverse=True)


def unevenness(loads):
    """Returns the greatest difference from the average, relative to the average."""
    average = sum(loads) / len(loads)
    return f"{max(abs(load / average - 1) for load in loads):.0%}" if average else ""


def main():
    """Runs the measurement that the command line specifies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="[default: 2]")
    parser.add_argument("--shards", type=int, default=32, help="[default: 32]")
    parser.add_argument("--partitions", type=int, default=2000, help="number of partitions, of 100 entities of 1 KiB [default: 2000]")
    parser.add_argument("--hot", type=int, default=20, help="number of hot partitions, all of one shard [default: 20]")
    parser.add_argument("--hot-sets", type=int, default=3, help="number of sets of hot partitions, one after the other [default: 3]")
    parser.add_argument("--period", type=int, default=60, help="duration of each of them in seconds [default: 60]")
    parser.add_argument("--wander", action="store_true", help="the hot partitions of each set belong to another shard")
    parser.add_argument("--add-worker", action="store_true", help="add a worker after half of the sets")
    parser.add_argument("--workload", default="mixed", help="[default: mixed]")
    parser.add_argument("--rate", type=int, default=1000, help="operations per second [default: 1000]")
    parser.add_argument("--balance", default="auto", help="[default: auto]")
    with prepared(parser) as arguments, citus(arguments.folder, arguments.workers) as arguments.database, contextlib.ExitStack() as stack:
        measure(arguments, stack)


def bench(arguments, url, hot, seconds):
    """Returns the command that runs the load. A quarter of its duration is added as warm-up, which counts here."""
    command = [arguments.programs / "rowhouse-bench", "run", "--endpoint", url + "/devstoreaccount1", "--workload", arguments.workload]
    command += ["--entities", str(arguments.partitions * PER_PARTITION), "--per-partition", str(PER_PARTITION), "--seconds", str(seconds * 0.8)]
    command += ["--rate", str(arguments.rate), "--connections", str(arguments.connections)]
    return command + (["--hot", ",".join(map(str, hot))] if hot else [])


def measure(arguments, stack):
    """Runs the load on a new cluster, and prints the tables."""
    database = arguments.database
    database.sql(f"ALTER DATABASE bench SET citus.shard_count = {arguments.shards}")
    database.options += ["--balance", arguments.balance, "--balance-steps", "60"]
    url, _ = start_server(stack, arguments)
    filled = subprocess.run(bench(arguments, url, [], 0.2), capture_output=True, text=True, check=False)
    # Operations that were due too early are errors in the report, but not here.
    if filled.stderr:
        sys.exit(f"filling the table: {filled.stderr}")
    table = database.sql("SELECT name FROM rowhouse_tables LIMIT 1")
    shards = partitions_of_shards(database, table, arguments.partitions)
    probes = [Probe(url, table) for _ in range(PROBES)]
    for probe in probes:
        probe.start()
    workers = database.nodes[1:]
    columns = [node.name for node in workers] + (["new worker"] if arguments.add_worker else [])
    print(f"The largest shards have {', '.join(str(len(shard)) for shard in shards[:3])} partitions.\n")
    head("seconds", "hot set", *(f"{name}: estimate" for name in columns), "unevenness", *(f"{name}: measured" for name in columns), "unevenness",
         "longest write, ms", "steps")
    began = time.time()
    for number in range(arguments.hot_sets):
        if arguments.add_worker and number == (arguments.hot_sets + 1) // 2:
            workers = workers + [add_worker(database)]
        shard = shards[number % len(shards)] if arguments.wander else shards[0]
        start = 0 if arguments.wander else number * arguments.hot
        hot = [shard[(start + index) % len(shard)] for index in range(arguments.hot)]
        for index, probe in enumerate(probes):
            probe.hot = hot[index::PROBES]
        load = subprocess.Popen(bench(arguments, url, hot, arguments.period), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while load.poll() is None:
            since, before = time.time(), processor_seconds(workers)
            with contextlib.suppress(subprocess.TimeoutExpired):
                load.wait(15)
            now = time.time()
            if now - since < 5:
                continue
            measured = [(after - before) / (now - since) for after, before in zip(processor_seconds(workers), before)]
            shown = show(arguments.programs, database.store)
            if not shown:
                continue
            loads = {node["name"]: node["load"]["load"] for node in shown["nodes"] if node["may_have_shards"]}
            estimates = [loads[node.host] for node in workers]
            padding = [""] * (len(columns) - len(workers))
            done = [step for step in shown["steps"] if step["ended"]]
            line(f"{now - began:.0f}", number + 1, *(f"{load:.3f}" for load in estimates), *padding, unevenness(estimates),
                 *(f"{load:.3f}" for load in measured), *padding, unevenness(measured), f"{longest(probes, since, now):.0f}",
                 f"{len(done)} of {len(shown['steps'])}")
        report = json.loads(load.stdout.read() or "{}")
        if report.get("errors"):
            print(f"errors: {report['errors']} {report['first_error']}", flush=True)
    for probe in probes:
        probe.running = False
    print()
    head("seconds", "step", "duration, s", "longest write, ms", "error")
    shown = show(arguments.programs, database.store)
    for step in shown["steps"]:
        ended = step["ended"] or time.time()
        line(f"{step['began'] - began:.0f}", step["step"], f"{ended - step['began']:.0f}", f"{longest(probes, step['began'], ended + 1):.0f}", step["error"] or "")
    times = sorted(end - began for probe in probes for began, end in probe.times)
    print(f"\n{len(times)} probes, of which {sum(len(probe.failures) for probe in probes)} failed "
          f"{[probe.failures[0] for probe in probes if probe.failures][:1]}; median {times[len(times) // 2] * 1000:.0f} ms, "
          f"99th percentile {times[len(times) * 99 // 100] * 1000:.0f} ms. At the end: {shown['advice']}.")


def add_worker(database):
    """Starts another worker, and adds it to the database."""
    script = database.script
    script.stdin.write("add\n")
    script.stdin.flush()
    host, process = first_line(script, "the worker")[0].split("=")
    script.stdin.write(f"join bench {len(database.nodes)}\n")
    script.stdin.flush()
    first_line(script, "the worker")
    database.nodes.append(Node("new worker", host, int(process)))
    return database.nodes[-1]


if __name__ == "__main__":
    main()
