"""A plugin of pytest for the vendor's suites: cases that fail or are not run, and no waiting."""

import time

import pytest

from expected import SKIPPED, SUITES


def pytest_collection_modifyitems(items):
    cases = {f"{item.path.stem}::{item.name}": item for item in items}
    marks = {name: pytest.mark.xfail(strict=True, reason=reason) for name, reason in SUITES.items()}
    marks |= {name: pytest.mark.skip(reason=reason) for name, reason in SKIPPED.items()}
    if unknown := sorted(marks.keys() - cases.keys()):
        raise pytest.UsageError(f"conformance/cosmos/expected.py names cases that do not exist: {', '.join(unknown)}")
    for name, mark in marks.items():
        cases[name].add_marker(mark)


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    """Some cases wait until the service has replicated their data, and some let the client wait before a retry."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


def pytest_terminal_summary(terminalreporter):
    """Counts the cases with the expected result, as the other suites do."""
    passed, failed, skipped = (
        sum(len(terminalreporter.stats.get(kind, [])) for kind in kinds)
        for kinds in (("passed", "xfailed"), ("failed", "error"), ("skipped",))
    )
    terminalreporter.write_line(f"{passed} passed, {failed} failed, {skipped} skipped")
