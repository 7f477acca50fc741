"""Batches with Atom parts, batches that mix Atom and JSON parts, and a GET that is answered with Atom (05)."""

import re

import pytest

from atom_body import (ATOM, ENTRY, ERROR, FEED, TWO, VERSION, atom_delete, atom_insert, atom_write, custom, entry, read_entry,
                       read_feed)
from batch_body import Operation, changeset_body, entity_operation, insert_operation, post_batch, query_body, read_parts
from expect import check_status, read_problem
from wire import MINIMAL, NONE

STALE = "W/\"datetime'2012-01-01T00%3A00%3A00Z'\""
JSON_TYPE = f"{MINIMAL};streaming=true;charset=utf-8"
THREE = {"DataServiceVersion": "3.0", "MaxDataServiceVersion": "3.0"}


def post(wire, operations, headers=TWO, newline=b"\n", **kwargs):
    body = changeset_body(operations, newline=newline)
    answer = post_batch(wire, body, accept="application/atom+xml,application/xml", version=VERSION, headers=headers, **kwargs)
    return read_parts(check_status(answer, 202))


def present(table, key):
    return table.row_keys(f"PartitionKey eq '{key}'")


def test_exact_headers_of_an_insert(wire, shared, key):
    [part] = post(wire, [atom_insert(shared, {"PartitionKey": key, "RowKey": "1", "A": ("Edm.Int32", "1")}, Content_ID="7")])
    assert (part.status, part.reason) == (201, "Created")
    assert part.names == ["DataServiceVersion", "Content-Type", "Content-ID", "X-Content-Type-Options", "Cache-Control", "Location", "ETag"]
    assert (part.header("DataServiceVersion"), part.header("Content-Type")) == ("2.0;", ENTRY)
    assert part.header("Location") == f"{wire.base}/{shared.name}(PartitionKey='{key}',RowKey='1')"
    alone = wire.send("GET", shared.address(key, "1"), accept=ATOM, version=VERSION, headers=TWO)
    without_time = re.compile("<updated>.*?</updated>")
    assert without_time.sub("", part.text) == without_time.sub("", alone.text)


def test_every_operation(wire, shared, key):
    for row_key in ("put", "merge", "gone"):
        check_status(shared.insert({"PartitionKey": key, "RowKey": row_key, "Z": 0}), 201)
    parts = post(wire, [
        atom_insert(shared, {"PartitionKey": key, "RowKey": "new", "A": "ü <&>"}),
        atom_write(shared, "PUT", key, "put", {"A": "b"}, If_Match="*"),
        atom_write(shared, "MERGE", key, "merge", {"A": "c"}, If_Match="*"),
        atom_write(shared, "PUT", key, "upsert", {"A": "d"}),
        atom_write(shared, "MERGE", key, "join", {"A": "e"}),
        atom_delete(shared, key, "gone", If_Match="*"),
    ])
    assert [part.status for part in parts] == [201, 204, 204, 204, 204, 204]
    assert [part.header("DataServiceVersion") for part in parts] == ["2.0;"] + ["1.0;"] * 5
    assert {row: shared.stored(key, row) for row in present(shared, key)} == {
        "join": {"A": "e"}, "merge": {"Z": 0, "A": "c"}, "new": {"A": "ü <&>"}, "put": {"A": "b"}, "upsert": {"A": "d"}}


@pytest.mark.parametrize("method", ["PUT", "MERGE"])
@pytest.mark.parametrize("condition", ["*", None], ids=["existing", "upsert"])
def test_the_address_wins_over_keys_in_the_body(wire, shared, key, method, condition):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "A": "a"}), 201)
    headers = {"If_Match": condition} if condition else {}
    body = {"PartitionKey": key + "x", "RowKey": "other", "A": "b"}
    [part] = post(wire, [atom_write(shared, method, key, "r", body, **headers)])
    assert part.status == 204
    assert (present(shared, key), present(shared, key + "x")) == (["r"], [])
    assert shared.stored(key, "r") == {"A": "b"}


@pytest.mark.parametrize("content_type", ["application/atom+xml", "application/atom+xml;type=entry", 'application/atom+xml;charset="utf-8";type=entry'])
@pytest.mark.parametrize("accept", [None, ATOM, "application/atom+xml,application/xml"], ids=["none", "atom", "atom-or-xml"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_spelling_of_a_part(wire, shared, key, content_type, accept, newline):
    operation = atom_insert(shared, {"PartitionKey": key, "RowKey": "1"})
    operation.headers.update({"Content-Type": content_type, "Accept": accept})
    [part] = post(wire, [operation], newline=newline)
    assert (part.status, part.header("Content-Type")) == (201, ENTRY)
    assert read_entry(part.text)["PartitionKey"] == key


def test_atom_and_json_side_by_side(wire, shared, key):
    both = {"Accept": ATOM, "Content-Type": "application/json", **THREE}
    parts = post(wire, [
        atom_insert(shared, {"PartitionKey": key, "RowKey": "1", "A": ("Edm.Int64", "5")}),
        insert_operation(shared, {"PartitionKey": key, "RowKey": "2", "A@odata.type": "Edm.Int64", "A": "6"}, DataServiceVersion="3.0"),
        Operation("POST", f"/{shared.name}", {"PartitionKey": key, "RowKey": "3", "A": 7}, both),
        Operation("POST", f"/{shared.name}", entry({"PartitionKey": key, "RowKey": "4", "A": ("Edm.Int32", "8")}),
                  {"Accept": NONE, "Content-Type": ATOM, **THREE}),
    ], headers=THREE)
    assert [part.status for part in parts] == [201] * 4, parts
    assert [part.header("Content-Type") for part in parts] == [ENTRY, JSON_TYPE, ENTRY, f"{NONE};streaming=true;charset=utf-8"]
    assert custom(read_entry(parts[0].text)) == {"A": ("Edm.Int64", "5")}
    assert custom(read_entry(parts[2].text)) == {"A": ("Edm.Int32", "7")}
    assert [shared.stored(key, row) for row in "1234"] == [{"A": "5"}, {"A": "6"}, {"A": 7}, {"A": 8}]


def test_failure(wire, shared, key):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "old", "A": 1}), 201)
    [part] = post(wire, [
        atom_insert(shared, {"PartitionKey": key, "RowKey": "new"}, Content_ID="1"),
        atom_write(shared, "MERGE", key, "old", {"A": "x"}, If_Match=STALE, Content_ID="2"),
    ])
    assert (part.status, part.reason) == (412, "Precondition Failed")
    assert part.names == ["Content-ID", "X-Content-Type-Options", "Cache-Control", "DataServiceVersion", "Content-Type"]
    assert [value for _, value in part.headers] == ["2", "nosniff", "no-cache", "1.0;", ERROR]
    problem = read_problem(part.text)
    assert (problem.form, problem.code) == ("odata", "UpdateConditionNotSatisfied")
    assert problem.message == "1:The update condition specified in the request was not satisfied."
    assert present(shared, key) == ["old"] and shared.stored(key, "old") == {"A": 1}


FAILURES = {
    "delete-missing": (lambda t, k: atom_delete(t, k, "none", If_Match="*"), 404, "ResourceNotFound"),
    "insert-existing": (lambda t, k: atom_insert(t, {"PartitionKey": k, "RowKey": "old"}), 409, "EntityAlreadyExists"),
    "not-xml": (lambda t, k: spoiled(t, k, "<entry"), 400, "InvalidInput"),
    "json-called-atom": (lambda t, k: spoiled(t, k, "{}"), 400, "InvalidInput"),
    "bad-value": (lambda t, k: atom_insert(t, {"PartitionKey": k, "RowKey": "x", "A": ("Edm.Int32", "x")}), 400, "InvalidInput"),
    "other-partition": (lambda t, k: atom_insert(t, {"PartitionKey": k + "x", "RowKey": "x"}), 400, "CommandsInBatchActOnDifferentPartitions"),
    # Before version 2016-05-31, duplicates have the general code (recorded).
    "same-key": (lambda t, k: atom_insert(t, {"PartitionKey": k, "RowKey": "new"}), 400, "InvalidInput"),
}


def spoiled(table, key, body):
    operation = atom_insert(table, {"PartitionKey": key, "RowKey": "x"})
    operation.body = body
    return operation


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_xml_and_change_nothing(wire, shared, key, name):
    operation, status, code = FAILURES[name]
    check_status(shared.insert({"PartitionKey": key, "RowKey": "old"}), 201)
    [part] = post(wire, [atom_insert(shared, {"PartitionKey": key, "RowKey": "new"}), operation(shared, key)])
    assert (part.status, part.header("Content-Type"), part.header("DataServiceVersion")) == (status, ERROR, "1.0;")
    problem = read_problem(part.text)
    assert (problem.form, problem.code) == ("odata", code) and problem.message.startswith("1:")
    assert present(shared, key) == ["old"]


def test_the_failing_part_decides_the_format_of_the_error(wire, shared, key):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "old"}), 201)
    atom = atom_insert(shared, {"PartitionKey": key, "RowKey": "old"})
    json = insert_operation(shared, {"PartitionKey": key, "RowKey": "old"}, DataServiceVersion="3.0")
    for failing, form in ((atom, "odata"), (json, "json")):
        [part] = post(wire, [failing], headers=THREE)
        assert (part.status, read_problem(part.text).form) == (409, form)


@pytest.mark.parametrize("accept", [ATOM, None], ids=["atom", "none"])
def test_get_of_an_entity(wire, shared, key, accept):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "A": 1}), 201)

    def get(row_key):
        operation = entity_operation(shared, "GET", key, row_key)
        operation.headers["Accept"] = accept
        answer = post_batch(wire, query_body(operation), accept=ATOM, version=VERSION, headers=TWO)
        [part] = read_parts(check_status(answer, 202))
        return part

    part = get("r")
    assert (part.status, part.header("Content-Type")) == (200, ENTRY)
    assert part.header("ETag") == shared.point(key, "r").header("ETag")
    assert custom(read_entry(part.text)) == {"A": ("Edm.Int32", "1")}
    part = get("none")
    assert (part.status, part.header("Content-Type")) == (404, ERROR)
    assert read_problem(part.text).message == "0:The specified resource does not exist."


def test_get_of_a_query(wire, shared, key):
    for row_key in "123":
        check_status(shared.insert({"PartitionKey": key, "RowKey": row_key}), 201)
    target = f"{wire.base}/{shared.name}()?$filter=PartitionKey%20eq%20'{key}'"
    answer = post_batch(wire, query_body(Operation("GET", target, None, {"Accept": ATOM})), accept=ATOM, version=VERSION, headers=TWO)
    [part] = read_parts(check_status(answer, 202))
    assert (part.status, part.header("Content-Type")) == (200, FEED)
    assert [one["RowKey"] for one in read_feed(part.text)] == ["1", "2", "3"]
