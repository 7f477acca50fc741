"""Tests of the table of features: statuses follow from the outcomes, and no case is left out. Needs no server."""

import pytest

import feature_table
from features import (
    AS_THE_SERVICE, DIFFERENT, EXPECTED, FAILED, NOT_TESTED, NOT_THERE, PASSED, SKIPPED, Feature, Outcome, case_of_node,
    longest_fit, rows,
)

READ = Feature("Read", ("test_a", "test_b::test_read"), "test_a::test_plain")
ERRORS = Feature("Errors", ("test_b",))
CASES = ["test_a::test_plain", "test_a::test_any[x]", "test_b::test_read", "test_b::test_read_errors"]


def table_of(*kinds, asserted=()):
    """Returns the rows of two features whose cases have the given outcomes, in the order of CASES."""
    outcomes = {case: Outcome(kind, "why") for case, kind in zip(CASES, kinds, strict=True)}
    return rows(outcomes, [READ, ERRORS], dict(asserted))


@pytest.mark.parametrize("kinds, status, text", [
    ([PASSED, PASSED, PASSED], AS_THE_SERVICE, "as the service"),
    ([PASSED, SKIPPED, SKIPPED], AS_THE_SERVICE, "as the service"),
    ([SKIPPED, SKIPPED, SKIPPED], NOT_TESTED, "not tested"),
    ([PASSED, FAILED, PASSED], DIFFERENT, "different (2 of 3 cases)"),
    ([PASSED, FAILED, SKIPPED], DIFFERENT, "different (1 of 2 cases)"),
    ([PASSED, EXPECTED, PASSED], DIFFERENT, "different (2 of 3 cases): why"),
    ([PASSED, FAILED, FAILED], DIFFERENT, "different (1 of 3 cases)"),
    ([SKIPPED, FAILED, FAILED], DIFFERENT, "different (0 of 2 cases)"),
    ([FAILED, PASSED, PASSED], NOT_THERE, "not there"),
], ids=lambda value: "-".join(value) if isinstance(value, list) else "")
def test_status(kinds, status, text):
    read, errors = table_of(*kinds, PASSED)
    assert (read.feature, read.cases, read.status, read.text) == ("Read", 3, status, text)
    assert (errors.feature, errors.cases, errors.status) == ("Errors", 1, AS_THE_SERVICE)


def test_what_cannot_be_missing_only_differs():
    assert table_of(PASSED, PASSED, PASSED, FAILED)[1].text == "different (0 of 1 cases)"


def test_a_case_that_asserts_a_difference_counts_as_one():
    on_purpose = {"test_a::test_any": "on purpose"}
    assert table_of(PASSED, PASSED, PASSED, PASSED, asserted=on_purpose)[0].text == "different (2 of 3 cases): on purpose"
    assert table_of(PASSED, FAILED, PASSED, PASSED, asserted=on_purpose)[0].text == "as the service"


def test_a_case_without_a_feature_is_an_error():
    with pytest.raises(LookupError, match="test_c::test_new belongs to no feature"):
        rows({"test_c::test_new": Outcome(PASSED)}, [READ, ERRORS], {})


@pytest.mark.parametrize("features, message", [
    ([READ, ERRORS, Feature("None", ("test_d",))], "names without cases: test_d"),
    ([READ, Feature("Twice", ("test_a", "test_b"))], "test_a belongs to two features"),
    ([Feature("Read", ("test_a",), "test_b"), ERRORS], "Read: test_b is not one of its cases"),
])
def test_a_wrong_list_is_an_error(features, message):
    with pytest.raises(LookupError, match=message):
        rows({case: Outcome(PASSED) for case in CASES}, features, {})


def test_an_asserted_difference_without_a_case_is_an_error():
    with pytest.raises(LookupError, match="names without cases: test_a::test_gone"):
        table_of(PASSED, PASSED, PASSED, PASSED, asserted={"test_a::test_gone": "on purpose"})


def test_names_end_where_a_module_a_function_or_a_parameter_ends():
    assert longest_fit(["test_b", "test_b::test_read", "test_b::test_read_"], "test_b::test_read_errors") == "test_b"
    assert longest_fit(["test_g", "test_g::test_x[get"], "test_g::test_x[get/json.http]") == "test_g::test_x[get"
    assert longest_fit(["test_g::test_x[get"], "test_g::test_x[get_table/json.http]") is None


@pytest.mark.parametrize("node_id", ["test_g.py::test_x[a/b.py::c]", "conformance/python/test_g.py::test_x[a/b.py::c]"])
def test_case_of_node(node_id):
    assert case_of_node(node_id) == "test_g::test_x[a/b.py::c]"


DOCUMENT = """Before.

| feature | cases | Rowhouse | Other |
|---|---|---|---|
| Read | 2 | as the service | not there |
| Gone | 2 | as the service | not there |

After.
"""


def test_a_column_of_a_document_is_written_and_checked():
    table = table_of(PASSED, FAILED, PASSED, PASSED)
    written = feature_table.with_column(DOCUMENT, table, "Rowhouse")
    assert written == DOCUMENT.replace("| Read | 2 | as the service |", "| Read | 3 | different (2 of 3 cases) |").replace(
        "| Gone | 2 | as the service | not there |", "| Errors | 1 | as the service | – |")
    assert feature_table.stale_lines(DOCUMENT, table, "Rowhouse") == [
        "- | Read | 2 | as the service | not there |", "- | Gone | 2 | as the service | not there |",
        "+ | Read | 3 | different (2 of 3 cases) | not there |", "+ | Errors | 1 | as the service | – |"]
    assert feature_table.stale_lines(written, table, "Rowhouse") == []
    assert "| feature | cases | Rowhouse | Other | Third |\n|---|---|---|---|---|\n" in feature_table.with_column(
        written, table, "Third")


def test_a_document_without_the_table_is_an_error():
    with pytest.raises(LookupError, match="no table"):
        feature_table.with_column("Before.\n", table_of(PASSED, PASSED, PASSED, PASSED), "Rowhouse")
