"""Writes the tables and charts of docs/comparison.md from the results of measure.py.

usage: page.py [--check] [--complete] --results FILE --document FILE --images DIR

--check     writes nothing, and fails if a table or a chart does not match the results
--complete  fails if a phase was cut off or failed, and accepts results from a busy machine

Without --complete, rejects results from a machine that other programs kept busy. Always fails if Rowhouse lost an
acknowledged write or did not restart.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from charts import draw
from machine import LOAD_PER_PROCESSOR_MAX, is_quiet

PROGRAMS = ("rowhouse", "emulator")
# For each phase: the title, the number of connections, and whether the rate counts operations or entities.
PHASES = {
    "get at 1": ("get", 1, "operations"),
    "get at 16": ("get", 16, "operations"),
    "insert at 1": ("insert", 1, "operations"),
    "insert at 16": ("insert", 16, "operations"),
    "upsert at 1": ("upsert", 1, "operations"),
    "upsert at 16": ("upsert", 16, "operations"),
    "batch100 at 4": ("batch of 100 inserts", 4, "operations"),
    "query-page at 1": ("page of 1,000", 1, "operations"),
    "query-filter at 1": ("filter that selects 1 %, whole table", 1, "operations"),
}
CHARTED = ("get at 1", "insert at 1", "upsert at 1", "batch100 at 4", "query-page at 1", "query-filter at 1")


def number(value):
    """Formats a value with three digits, although the figures are less precise."""
    if value >= 100:
        digits = len(str(int(value))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def milliseconds(value):
    return f"{number(value / 1000)} ms" if value < 1e6 else f"{number(value / 1e6)} s"


def mebibytes(value):
    return f"{number(value)} MiB"


class Results:
    def __init__(self, data):
        self.data, self.conditions = data, data["conditions"]
        self.titles = {"rowhouse": f"Rowhouse {self.conditions['rowhouse']}", "emulator": f"Azurite {self.conditions['emulator']}"}

    def run(self, program, entities, storage="disk"):
        for run in self.data["runs"]:
            if (run["program"], run["entities"], run["storage"]) == (program, entities, storage):
                return run
        raise KeyError((program, entities, storage))

    def sizes(self, storage="disk"):
        return sorted({run["entities"] for run in self.data["runs"] if run["storage"] == storage})

    def phase(self, program, entities, name, storage="disk"):
        """Returns the figures of a phase, or the reason why there are none."""
        run = self.run(program, entities, storage)
        phase = run["phases"].get(name)
        if phase is None:
            return "not loaded" if "outcome" in run["load"] else "had ended"
        return phase.get("outcome", phase)

    def largest(self):
        """Returns the size of the largest table that both programs could load."""
        return max(size for size in self.sizes() if all("outcome" not in self.run(program, size)["load"] for program in PROGRAMS))

    def failures(self):
        for run in self.data["runs"]:
            for name, phase in [("load", run["load"]), *run["phases"].items()]:
                if "outcome" in phase or "errors" in phase:
                    yield f"{run['program']} at {run['entities']}: {name}: {phase.get('outcome', phase)}"
            if len(run["phases"]) < len(PHASES):
                yield f"{run['program']} at {run['entities']}: phases are missing"
            if "start_outcome" in run:
                yield f"{run['program']} at {run['entities']}: restart: {run['start_outcome']}"

    def losses_of_rowhouse(self):
        for kill in self.data["kills"]["rowhouse"]:
            if "outcome" in kill or kill["missing"] or kill["missing_table"] or not kill["acknowledged"]:
                yield f"Rowhouse after kill -9: {kill}"


def table(head, rows, right_from=1):
    rule = "".join("---:|" if index >= right_from else "---|" for index in range(len(head)))
    lines = ["| " + " | ".join(line) + " |" for line in [head, *rows]]
    return "\n".join([lines[0], "|" + rule, *lines[1:]]) + "\n"


def figure(value, name, show):
    return value if isinstance(value, str) else show(value[name])


def rate_of(value, name):
    """Formats the rate, with the number of failed operations."""
    errors = "" if isinstance(value, str) else sum(value.get("errors", {}).values())
    return figure(value, name, number) + (f" ({errors:,} failed)" if errors else "")


def spread(value, name):
    """Formats the rates of the slowest and the fastest round."""
    return figure(value, f"{name}_rounds", lambda rates: f"{number(min(rates))}–{number(max(rates))}")


def ratio(one, other, name):
    """Formats the ratio of the first value to the second."""
    if isinstance(one, str) or isinstance(other, str):
        return ""
    return number(one[name] / other[name])


def phase_rows(results, storage):
    for key, (title, connections, counted) in PHASES.items():
        for entities in results.sizes(storage):
            phases = [results.phase(program, entities, key, storage) for program in PROGRAMS]
            rate = f"{counted}_per_second"
            row = [title, str(connections), f"{entities:,}"]
            for phase in phases:
                row += [rate_of(phase, rate), spread(phase, rate) if not isinstance(phase, str) else ""]
            row.append(ratio(*phases, rate))
            for column in ("p50_us", "p99_us", "cpu_us_per_operation"):
                row += [figure(phase, column, milliseconds) if not isinstance(phase, str) else "" for phase in phases]
            yield row


def phases_table(results, storage):
    head = ["operation", "connections", "entities", "a second: R", "rounds", "A", "rounds", "R / A", "p50: R", "A", "p99: R", "A", "CPU each: R", "A"]
    return table(head, list(phase_rows(results, storage)))


def size_rows(results):
    empty = results.data["empty"]
    for program in PROGRAMS:
        start, memory = milliseconds(empty[program]["start_ms"] * 1000), mebibytes(empty[program]["resident_mib"])
        yield [results.titles[program], "0", "", start, memory, "", ""]
        for entities in results.sizes():
            run = results.run(program, entities)
            load = run["load"].get("outcome") or f"{number(run['load']['entities_per_second'])} a second"
            if "errors" in run["load"]:
                load += f" ({sum(run['load']['errors'].values()):,} failed)"
            start = milliseconds(run["start_ms"] * 1000) if "start_ms" in run else run.get("start_outcome", "")
            shown = [mebibytes(run[name]) if name in run else "" for name in ("resident_mib", "peak_mib", "disk_mib")]
            yield [results.titles[program], f"{entities:,}", load, start, *shown]


def sizes_table(results):
    head = ["program", "entities", "loaded in batches of 100", "start", "resident at rest", "peak", "on disk"]
    return table(head, list(size_rows(results)))


def kills_table(results):
    rows = []
    for program in PROGRAMS:
        for kill in results.data["kills"][program]:
            if "outcome" in kill:
                rows.append([results.titles[program], "", "", kill["outcome"], ""])
                continue
            age = f"{kill['oldest_missing_seconds']:g} s" if kill["missing"] else ""
            missing = f"{kill['missing']:,}" + (" and the table" if kill["missing_table"] else "")
            rows.append([results.titles[program], f"{kill['seconds']:g} s", f"{kill['acknowledged']:,}", missing, age])
    head = ["program", "killed after", "acknowledged inserts", "missing after the restart", "oldest of them, before the kill"]
    return table(head, rows)


def conditions(results):
    of = results.conditions
    sizes = ", ".join(f"{size:,}" for size in of["sizes"])
    return (
        f"Measured on {of['date']}, in {of['minutes']:g} minutes: Rowhouse {of['rowhouse']} and Azurite {of['emulator']} on Node.js "
        f"{of['node']}, {of['system']}, {of['processors']} processors, which the load generator shared. "
        f"Tables of {sizes} entities; {of['rounds']} rounds of {of['seconds']:g} seconds for each line, and at most "
        f"{of['load_seconds']} seconds for a load. The load average before the run was {of['load_average']:g}; above "
        f"{LOAD_PER_PROCESSOR_MAX * of['processors']:g} the script refuses to measure.\n"
    )


def summary(results):
    """Returns a table of the most important figures."""
    largest = results.largest()
    rows = []
    for key in ("get at 16", "insert at 16", "upsert at 16", "batch100 at 4", "query-page at 1", "query-filter at 1"):
        title, connections, counted = PHASES[key]
        own, other = (results.phase(program, largest, key) for program in PROGRAMS)
        rate = f"{counted}_per_second"
        rows.append([f"{title}: operations a second", rate_of(own, rate), rate_of(other, rate)])
    own, other = (results.run(program, largest) for program in PROGRAMS)
    for title, name, show in (("start", "start_ms", lambda ms: milliseconds(ms * 1000)), ("memory, peak", "peak_mib", mebibytes)):
        rows.append([title, *(show(run[name]) if name in run else "–" for run in (own, other))])
    lost = ["/".join(str(kill.get("missing", "–")) for kill in results.data["kills"][program]) for program in PROGRAMS]
    rows.append(["acknowledged inserts missing after `kill -9`, each round", *lost])
    return table([f"with {largest:,} entities", *(results.titles[program] for program in PROGRAMS)], rows)


def charts(results):
    names = [results.titles[program] for program in PROGRAMS]

    def rows(value, sizes):
        return [(f"{size:,}" if size else "empty", [value(program, size) for program in PROGRAMS]) for size in sizes]

    def median_latency(key):
        def value(program, size):
            phase = results.phase(program, size, key)
            return phase if isinstance(phase, str) else phase["p50_us"]

        return value

    def of_run(name):
        def value(program, size):
            found = results.run(program, size) if size else results.data["empty"][program]
            return found.get(name, "not loaded")

        return value

    def titled(key):
        title, connections, _ = PHASES[key]
        return title if connections == 1 else f"{title}, {connections} connections"

    sizes = results.sizes()
    latency = [(titled(key), rows(median_latency(key), sizes)) for key in CHARTED]
    memory = [("at rest", rows(of_run("resident_mib"), [0, *sizes])), ("peak", rows(of_run("peak_mib"), sizes))]
    start = [("until the first answer", rows(of_run("start_ms"), [0, *sizes]))]
    return {
        "latency": draw("Median time of an operation, by entities in the table", names, latency, milliseconds, True),
        "memory": draw("Resident memory, by entities in the table", names, memory, mebibytes, False),
        "start": draw("Time to start, by entities in the table", names, start, lambda value: milliseconds(value * 1000), True),
    }


def with_tables(document, tables):
    """Returns the page, with each table inserted between its markers."""
    for name, content in tables.items():
        mark = re.compile(rf"(<!-- {name}:[^\n]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        document, count = mark.subn(lambda match: f"{match[1]}\n{content}\n{match[2]}", document)
        if count != 1:
            sys.exit(f"the page has {count} places for the table {name} instead of one")
    return document


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--complete", action="store_true")
    for name in ("results", "document", "images"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args()
    results = Results(json.loads(args.results.read_text()))
    of = results.conditions
    if not args.complete and not is_quiet(of["load_average"], of["processors"]):
        sys.exit(
            f"the load average before the run was {of['load_average']:g} with {of['processors']} processors, more than the allowed "
            f"{LOAD_PER_PROCESSOR_MAX} per processor: other programs kept the machine busy. No page was written."
        )
    document = args.document.read_text()
    tables = {
        "conditions": conditions(results),
        "summary": summary(results),
        "phases": phases_table(results, "disk"),
        "memory phases": phases_table(results, "memory"),
        "sizes": sizes_table(results),
        "kills": kills_table(results),
    }
    files = {args.document: with_tables(document, tables)}
    files |= {args.images / f"comparison-{name}.svg": drawing for name, drawing in charts(results).items()}
    faults = list(results.losses_of_rowhouse())
    if args.complete:
        faults += results.failures()
    if args.check:
        outdated = [file for file, text in files.items() if not is_there(file, text)]
        faults += [f"{file} does not match the results; run bench/compare-emulator.sh --draw" for file in outdated]
    else:
        args.images.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            file.write_text(text)
    if faults:
        sys.exit("\n".join(faults))


def is_there(file, text):
    return file.exists() and file.read_text() == text


if __name__ == "__main__":
    main()
