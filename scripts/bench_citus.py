#!/usr/bin/env python3
"""Measures the processor time of operations on a single PostgreSQL server and on Citus clusters, and prints tables.

Builds the release binaries, unless --programs names a folder with them. Then starts a PostgreSQL server and clusters
(scripts/postgres.sh and scripts/citus.sh) with fsync, one after the other, together with Rowhouse servers that address
the workers. Stops everything afterwards.
The last table compares Rowhouse with the bare statements: on the same nodes, pgbench inserts, overwrites and reads rows
with keys and contents of the same size. Its statements are prepared, and it uses the same number of connections. It
runs once as fast as possible, and once at the rate that Rowhouse reached. A statement costs more at a lower rate,
because waiting processes must be woken.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = "get insert upsert merge batch100 query-page scan".split()
# The costs of these workloads are shown per entity, not per page or scan.
OF_ENTITIES = ("query-page", "scan")
# For each workload: the statement with which it is compared, and the maximum ratio of its database time to the
# statement's time.
STATEMENTS = {
    "get": ("SELECT record FROM bare WHERE partition = :partition AND row = :row;", 1.2),
    "insert": ("INSERT INTO bare VALUES (:partition, :new, :record) "
               "ON CONFLICT (partition, row) DO UPDATE SET record = excluded.record;", 1.5),
    "upsert": ("INSERT INTO bare VALUES (:partition, :row, :record) "
               "ON CONFLICT (partition, row) DO UPDATE SET record = excluded.record;", 1.5),
}
# Numbers whose decimal form is as long as the keys of the workloads.
FIRST_PARTITION, FIRST_ROW = 100_000_000_000_000, 1_000_000_000
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Node:
    """A server of a database."""

    name: str
    host: str
    process: int


@dataclasses.dataclass
class Database:
    """A running database: its URL for Rowhouse, its nodes, and the script that runs them."""

    name: str
    store: str
    options: list
    nodes: list
    programs: pathlib.Path
    database: str
    script: subprocess.Popen

    def entrances(self):
        """Returns the nodes to which clients connect."""
        return self.nodes[1:] or self.nodes

    def sql(self, statements, node=0):
        """Runs statements on a node, and returns their output."""
        command = [self.programs / "psql", "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statements,
                   f"postgres://rowhouse@{self.nodes[node].host}/{self.database}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def first_line(process, what):
    """Returns the words of the first line that a process prints."""
    words = process.stdout.readline().split()
    if not words:
        sys.exit(f"{what} did not start")
    return words


@contextlib.contextmanager
def running(command, **options):
    """Yields a process with a pipe as its standard input. Afterwards, closes the pipe and stops the process."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process
        finally:
            process.stdin.close()
            process.terminate()


@contextlib.contextmanager
def postgres(folder):
    """Yields a single PostgreSQL server."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    with running([ROOT / "scripts/postgres.sh", "--durable"], env=environment) as process:
        url, programs, number = first_line(process, "PostgreSQL")
        host = url.split("@")[1].split("/")[0]
        yield Database("PostgreSQL", url, [], [Node("PostgreSQL", host, int(number))], pathlib.Path(programs), "postgres", process)


@contextlib.contextmanager
def citus(folder, workers):
    """Yields a Citus cluster."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    with running([ROOT / "scripts/citus.sh", "--durable", str(workers)], env=environment) as process:
        _, programs, *words = first_line(process, "Citus")
        process.stdin.write("database bench\n")
        process.stdin.flush()
        first_line(process, "the database")
        nodes = []
        for number, word in enumerate(words):
            host, process_id = word.split("=")
            nodes.append(Node(f"worker {number}" if number else "coordinator", host, int(process_id)))
        hosts = ",".join(node.host for node in nodes[1:])
        store = f"postgres://rowhouse@{hosts}/bench?load_balance_hosts=random"
        name = f"Citus, {workers} worker{'s' if workers > 1 else ''}"
        yield Database(name, store, ["--distribute"], nodes, pathlib.Path(programs), "bench", process)


def start_server(stack, arguments):
    """Starts a Rowhouse server, and returns its URL and process ID."""
    log = open(arguments.folder / "servers.log", "a", encoding="utf-8")
    stack.enter_context(log)
    command = [arguments.programs / "rowhouse", "serve", "--listen", "127.0.0.1:0", *arguments.database.options]
    command += ["--store", arguments.database.store]
    process = stack.enter_context(running(command, stderr=log))
    words = process.stdout.readline().split()
    if not words:
        sys.exit((arguments.folder / "servers.log").read_text(encoding="utf-8"))
    # The remaining output fits into the pipe.
    return words[-1], process.pid


def measure(arguments, workload, servers):
    """Runs a workload against servers, and returns its report."""
    command = [arguments.programs / "rowhouse-bench", "run"]
    for endpoint, process in servers:
        command += ["--endpoint", endpoint + "/devstoreaccount1", "--pid", str(process)]
    for node in arguments.database.nodes:
        command += ["--database-pid", f"{node.name}={node.process}"]
    command += ["--workload", "query-filter" if workload == "scan" else workload]
    command += ["--connections", str(arguments.connections), "--entities", str(arguments.entities)]
    command += ["--per-partition", str(arguments.per_partition), "--seconds", str(arguments.seconds)]
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    if output.returncode != 0:
        sys.exit(f"{workload}: {output.stdout}{output.stderr}")
    report = json.loads(output.stdout)
    unit = report["operations"] / report["entities"] if workload in OF_ENTITIES else 1
    nodes = {node["name"]: node["us_per_operation"] * unit for node in report["nodes"]}
    return report["operations_per_second"] / unit, report["cpu"]["us_per_operation"] * unit, nodes


def processor_seconds(nodes):
    """Returns the processor time used so far by all processes of each node."""
    spent = {node.process: 0 for node in nodes}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            process = int(entry.name)
            fields = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            for root in {process, int(fields[1])} & spent.keys():
                spent[root] += sum(map(int, fields[11:15]))
    return [spent[node.process] / TICKS_PER_SECOND for node in nodes]


def prepare_statements(database, entities, per_partition):
    """Creates the table for the statements, with the size and the number of rows of Rowhouse's table. Returns a
    record."""
    size = int(database.sql("SELECT round(avg(length(record))) FROM rowhouse_entities"))
    database.sql("CREATE TABLE bare (partition bytea, row bytea, record bytea NOT NULL, PRIMARY KEY (partition, row))")
    if database.options:
        database.sql("SELECT create_distributed_table('bare', 'partition', colocate_with => 'none')")
    database.sql(f"INSERT INTO bare SELECT ({FIRST_PARTITION} + n / {per_partition})::text::bytea, ({FIRST_ROW} + n)::text::bytea, "
                 f"repeat('x', {size})::bytea FROM generate_series(0, {entities - 1}) AS n")
    return "y" * size


def run_statement(arguments, statement, record, rate=None):
    """Runs a statement at the given rate, or as often as possible, on all nodes to which clients connect. Returns the
    processor time of one statement in microseconds, on all nodes together and on the busiest node. Counts only the time
    between two progress lines, to exclude the opening of connections."""
    database, script = arguments.database, arguments.folder / "statement.sql"
    script.write_text(
        f"\\set number random(0, {arguments.entities - 1})\n\\set partition {FIRST_PARTITION} + :number / {arguments.per_partition}\n"
        f"\\set row {FIRST_ROW} + :number\n\\set new random({2 * FIRST_ROW}, {9 * FIRST_ROW})\n{statement}\n", encoding="utf-8")
    entrances, done, samples = database.entrances(), [], {}
    commands = [[database.programs / "pgbench", "-n", "-M", "prepared", "-P", "1", "-T", str(arguments.seconds + 2),
                 "-c", str(max(1, arguments.connections // len(entrances))), "-D", f"record={record}", "-f", script,
                 *(["-R", str(rate / len(entrances))] if rate else []),
                 f"postgres://rowhouse@{node.host}/{database.database}"] for node in entrances]

    def follow(index, process):
        last = 0.0
        for line in process.stderr:
            if not line.startswith("progress:"):
                continue
            now, rate = float(line.split()[1]), float(line.split()[3])
            tick = round(now)
            if 2 <= tick <= arguments.seconds + 1:
                done.append(rate * (now - last))
            if index == 0:
                samples[tick] = processor_seconds(database.nodes)
            last = now

    with contextlib.ExitStack() as stack:
        threads = []
        for index, command in enumerate(commands):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            stack.enter_context(process)
            threads.append(threading.Thread(target=follow, args=(index, process)))
            threads[-1].start()
        for thread in threads:
            thread.join()
    costs = [(after - before) * 1e6 / sum(done) for before, after in zip(samples[1], samples[arguments.seconds + 1])]
    return sum(costs), max(costs)


def line(*cells):
    """Prints a row of a table."""
    print("| " + " | ".join(f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |", flush=True)


def head(*cells):
    """Prints the header of a table whose first two columns are text."""
    line(*cells)
    print("|---|---|" + "---:|" * (len(cells) - 2), flush=True)


def measure_database(arguments, comparisons):
    """Measures all workloads and the statements on a database."""
    database, ones = arguments.database, {}
    workers = max([0, *arguments.workers])
    with contextlib.ExitStack() as stack:
        servers = []
        for count in arguments.servers:
            while len(servers) < count:
                servers.append(start_server(stack, arguments))
            for workload in arguments.workloads:
                rate, server, nodes = measure(arguments, workload, servers[:count])
                ones.setdefault(workload, (rate, sum(nodes.values()), max(nodes.values())))
                costs = [nodes.get(name, "") for name in ["coordinator"] + [f"worker {n + 1}" for n in range(workers)]]
                line(workload, database.name, count, f"{rate:.0f}", server, *costs, sum(nodes.values()), max(nodes.values()))
    compared = [workload for workload in STATEMENTS if workload in ones]
    record = prepare_statements(database, arguments.entities, arguments.per_partition) if compared else ""
    for workload in compared:
        statement, budget = STATEMENTS[workload]
        rate, own, busiest = ones[workload]
        fast, slow = (run_statement(arguments, statement, record, rate) for rate in (None, rate))
        ratios = (f"{own / cost:.2f}" for cost, _ in (fast, slow))
        comparisons.append((workload, database.name, *fast, *slow, own, busiest, *ratios, budget))


def release_programs():
    """Builds the release binaries, and returns their folder."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "rowhouse-tables", "-p", "rowhouse-bench"],
                   cwd=ROOT, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


@contextlib.contextmanager
def prepared(parser):
    """Parses the command line. Provides the programs, and a folder for all data, which is removed at the end."""
    parser.add_argument("--programs", type=pathlib.Path, help="folder with rowhouse and rowhouse-bench [default: build them]")
    parser.add_argument("--folder", type=pathlib.Path, help="folder for all data, not on a memory-backed file system [default: a temporary folder]")
    parser.add_argument("--connections", type=int, default=16, help="[default: 16]")
    arguments = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("ROWHOUSE_")]:
        del os.environ[name]
    arguments.programs = arguments.programs or release_programs()
    arguments.folder = pathlib.Path(tempfile.mkdtemp(dir=arguments.folder))
    # PostgreSQL runs as another user, which must be able to read the folder.
    arguments.folder.chmod(0o755)
    try:
        yield arguments
    finally:
        shutil.rmtree(arguments.folder, ignore_errors=True)


def measure_curve(arguments):
    """Loads a table through one server and measures it at increasing sizes. Prints the disk space of each node."""
    database = arguments.database
    with contextlib.ExitStack() as stack:
        endpoint, process = start_server(stack, arguments)
        command = [arguments.programs / "rowhouse-bench", "curve", "--endpoint", endpoint, "--pid", str(process)]
        for node in database.nodes:
            command += ["--database-pid", f"{node.name}={node.process}"]
        command += ["--sizes", ",".join(map(str, arguments.curve)), "--seconds", str(arguments.seconds)]
        print(f"{database.name}:\n", flush=True)
        subprocess.run([*command, "--connections", str(arguments.connections)], check=True)
    sizes = (f"{node.name} {int(database.sql('SELECT pg_database_size(current_database())', number)) >> 20} MiB"
             for number, node in enumerate(database.nodes))
    print(f"\nDisk: {', '.join(sizes)}\n", flush=True)


def numbers(text):
    """Parses a comma-separated list of numbers."""
    return [int(word) for word in text.split(",") if word]


def measure_databases(arguments, makers):
    """Measures the workloads on each database, and prints the tables."""
    comparisons = []
    print("Processor time per operation, or per entity for query-page and scan, in microseconds.\n")
    names = [f"worker {number + 1}" for number in range(max([0, *arguments.workers]))]
    head("workload", "database", "servers", "a second", "Rowhouse", "coordinator", *names, "sum of nodes", "busiest node")
    for maker in makers:
        with maker as arguments.database:
            measure_database(arguments, comparisons)
    print("\nThe database time of the bare statement, and of Rowhouse with the first number of servers.\n")
    head("workload", "database", "at full speed: sum", "busiest", "at Rowhouse's rate: sum", "busiest", "Rowhouse: sum", "busiest",
         "ratio to the first", "to the second", "budget")
    for comparison in comparisons:
        line(*comparison)


def main():
    """Runs the measurements that the command line specifies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=4, help="duration of a measurement [default: 4]")
    parser.add_argument("--entities", type=int, default=20_000, help="number of entities in each table [default: 20000]")
    parser.add_argument("--per-partition", type=int, default=100,
                        help="number of entities in each partition, small so that every worker has many partitions [default: 100]")
    parser.add_argument("--workers", type=numbers, default=[1, 2, 3], metavar="N,...",
                        help="numbers of workers; 0 for a single PostgreSQL server [default: 1,2,3]")
    parser.add_argument("--servers", type=numbers, default=[1, 2, 3], metavar="N,...", help="Rowhouse servers [default: 1,2,3]")
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=WORKLOADS, metavar="NAME,...",
                        help=f"[default: {','.join(WORKLOADS)}]; scan is a query-filter over the whole table")
    parser.add_argument("--curve", type=numbers, metavar="COUNT,...",
                        help="instead, measure one server at these sizes of a table with entities of 100 bytes")
    with prepared(parser) as arguments:
        makers = [citus(arguments.folder, workers) for workers in arguments.workers if workers]
        if not arguments.curve or 0 in arguments.workers:
            makers.insert(0, postgres(arguments.folder))
        if arguments.curve:
            for maker in makers:
                with maker as arguments.database:
                    measure_curve(arguments)
        else:
            measure_databases(arguments, makers)


if __name__ == "__main__":
    main()
