"""Query Tables: filters on TableName, $top with continuation, $select (02 §4.1, 04 §7)."""

import re

import pytest

from conftest import create_table, delete_table, unique_name
from expect import check_status
from wire import NONE, encode_options

NEXT_TABLE = "x-ms-continuation-NextTableName"
SUFFIXES = ["A", "b", "C", "d", "E0", "e1", "F"]


@pytest.fixture(scope="module")
def prefix(wire):
    """Creates exactly one table for each of SUFFIXES under a lower-case prefix, and returns the prefix."""
    start = unique_name()[:25]
    for suffix in SUFFIXES:
        create_table(wire, start + suffix)
    yield start
    for suffix in SUFFIXES:
        delete_table(wire, start + suffix)


def ask(wire, options):
    return check_status(wire.send("GET", "/Tables?" + encode_options(options), accept=NONE), 200)


def names(answer, prefix):
    return [entry["TableName"].removeprefix(prefix) for entry in answer.json()["value"]]


def within(prefix):
    return f"TableName ge '{prefix}' and TableName lt '{prefix}{{'"


FILTERS = {
    "equal": ("TableName eq '{p}b'", ["b"]),
    "equal-nothing": ("TableName eq '{p}nosuch'", []),
    "prefix": ("TableName ge '{p}' and TableName lt '{p}{{'", ["A", "b", "C", "d", "E0", "e1", "F"]),
    "narrower-prefix": ("TableName ge '{p}e' and TableName lt '{p}f'", ["E0", "e1"]),
    "half-open": ("TableName gt '{p}b' and TableName le '{p}d'", ["C", "d"]),
    "or": ("TableName eq '{p}b' or TableName eq '{p}d'", ["b", "d"]),
    "not-equal": ("TableName ge '{p}' and TableName lt '{p}{{' and TableName ne '{p}d'", ["A", "b", "C", "E0", "e1", "F"]),
    "not": ("not (TableName lt '{p}' or TableName ge '{p}c')", ["A", "b"]),
    "constant-false": ("false", []),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filter(wire, prefix, name):
    text, wanted = FILTERS[name]
    assert names(ask(wire, {"$filter": text.format(p=prefix)}), prefix) == wanted


def test_health_check_with_lite_signature(wire):
    """`$filter=false` signed with Shared Key Lite: a hosting framework's check that the service is available."""
    answer = wire.send("GET", "/Tables?$filter=false", accept=NONE, scheme="SharedKeyLite")
    assert check_status(answer, 200).json() == {"value": []}


@pytest.mark.parametrize("top", [1, 2, 3, 7, 8])
def test_top_with_continuation(wire, prefix, top):
    options, found, pages = {"$filter": within(prefix), "$top": top}, [], 0
    token = {}
    while token is not None:
        answer = ask(wire, {**options, **token})
        page = names(answer, prefix)
        assert len(page) <= top
        found, pages = found + page, pages + 1
        value = answer.header(NEXT_TABLE)
        assert value is None or re.fullmatch(r"[A-Za-z0-9!*_.~-]+", value)
        token = {"NextTableName": value} if value else None
        assert pages < 50
    assert found == SUFFIXES


def test_full_last_page_has_no_token(wire, prefix):
    answer = ask(wire, {"$filter": within(prefix), "$top": len(SUFFIXES)})
    assert len(names(answer, prefix)) == len(SUFFIXES)
    assert answer.header(NEXT_TABLE) is None


def test_top_of_zero(wire, prefix):
    assert names(ask(wire, {"$filter": within(prefix), "$top": "0"}), prefix) == []


def test_select(wire, prefix):
    answer = ask(wire, {"$filter": f"TableName eq '{prefix}b'", "$select": "TableName"})
    assert answer.json() == {"value": [{"TableName": prefix + "b"}]}


def test_empty_options_are_absent(wire, prefix):
    answer = ask(wire, {"$filter": within(prefix), "$select": ""})
    assert names(answer, prefix) == SUFFIXES
    check_status(wire.send("GET", "/Tables?$filter=&$top=1"), 200)


def test_no_system_table_is_listed(wire):
    token = {}
    while token is not None:
        answer = ask(wire, token) if token else check_status(wire.send("GET", "/Tables", accept=NONE), 200)
        assert not any(entry["TableName"].startswith("$") for entry in answer.json()["value"])
        value = answer.header(NEXT_TABLE)
        token = {"NextTableName": value} if value else None


def test_client_lists_and_pages(service, prefix):
    listed = [t.name for t in service.query_tables("TableName ge @low and TableName lt @high",
                                                   parameters={"low": prefix, "high": prefix + "{"}, results_per_page=2)]
    assert [name.removeprefix(prefix) for name in listed] == SUFFIXES
    assert prefix + "b" in {t.name for t in service.list_tables()}


def test_table_created_behind_the_token_is_seen(wire, new_name):
    start = new_name()[:24]
    for letter in "ac":
        create_table(wire, new_name(start + letter))
    options = {"$filter": within(start), "$top": "1"}
    first = ask(wire, options)
    create_table(wire, new_name(start + "d"))
    rest = ask(wire, {**options, "$top": "10", "NextTableName": first.header(NEXT_TABLE)})
    assert [name[len(start)] for name in [e["TableName"] for e in rest.json()["value"]]] == ["c", "d"]
