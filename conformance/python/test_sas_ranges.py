"""Key ranges of shared access signatures: no entity outside a range may be read, written, counted or named in a token
(08 §6).
"""

import base64

import pytest

from batch_body import Operation, post_batch, post_changeset, query_body, read_parts
from expect import check_problem, check_status, read_problem
from sas import CANNOT, with_table_token
from wire import NONE, encode_key

PARTITIONS = ["a", "b", "c", "d"]
ROWS = ["1", "5", "7", "9"]


@pytest.fixture(scope="module")
def grid(shared):
    """Inserts a table with four partitions of four entities."""
    for partition in PARTITIONS:
        for row in ROWS:
            check_status(shared.insert({"PartitionKey": partition, "RowKey": row, "A": 1}), 201)
    return shared


def is_inside(pair, start_pk=None, start_rk=None, end_pk=None, end_rk=None):
    """Implements the rule of the specification literally."""
    partition, row = pair
    above = start_pk is None or partition > start_pk or (partition == start_pk and (start_rk is None or row >= start_rk))
    below = end_pk is None or partition < end_pk or (partition == end_pk and (end_rk is None or row <= end_rk))
    return above and below


RANGES = [
    {"start_pk": "b", "end_pk": "c"},
    {"start_pk": "b"},
    {"end_pk": "b"},
    {"start_pk": "b", "start_rk": "5", "end_pk": "b", "end_rk": "7"},
    {"start_pk": "a", "start_rk": "5", "end_pk": "c", "end_rk": "7"},
    {"start_pk": "a", "start_rk": "6", "end_pk": "c", "end_rk": "6"},
    {"start_pk": "b", "start_rk": "9"},
    {"end_pk": "c", "end_rk": "1"},
    {"start_pk": "c", "end_pk": "b"},
    {"start_pk": "aa", "end_pk": "bb"},
    {"start_pk": "B", "end_pk": "Z"},
]
EVERYTHING = [(partition, row) for partition in PARTITIONS for row in ROWS]


def pairs(answer):
    check_status(answer, 200)
    return [(entity["PartitionKey"], entity["RowKey"]) for entity in answer.json()["value"]]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_reading(grid, bounds):
    token = with_table_token(grid, "r", **bounds)
    inside = [pair for pair in EVERYTHING if is_inside(pair, **bounds)]
    assert pairs(token.query(accept=NONE)) == inside
    assert pairs(token.query({"$filter": "A eq 1"}, accept=NONE)) == inside
    assert pairs(token.query({"$filter": "PartitionKey ge 'b' and RowKey ne '5'"}, accept=NONE)) == [
        pair for pair in inside if pair[0] >= "b" and pair[1] != "5"]
    assert pairs(token.query({"$filter": "PartitionKey eq 'a' or RowKey eq '9'"}, accept=NONE)) == [
        pair for pair in inside if pair[0] == "a" or pair[1] == "9"]
    for partition, row in EVERYTHING:
        answer = token.point(partition, row)
        if (partition, row) in inside:
            check_status(answer, 200)
        else:
            check_problem(answer, 404, "ResourceNotFound", form="json")


@pytest.mark.parametrize("top", [1, 2, 3])
@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_pages_hold_and_name_only_what_is_inside(grid, bounds, top):
    token = with_table_token(grid, "r", **bounds)
    inside = [pair for pair in EVERYTHING if is_inside(pair, **bounds)]
    found, options = [], {"$top": top}
    for _ in range(len(EVERYTHING) + 2):
        answer = token.query(options, accept=NONE)
        page = pairs(answer)
        assert len(page) <= top
        found += page
        next_position = position(answer)
        if next_position is None:
            break
        assert is_inside(next_position, **bounds), next_position
        options = {"$top": top, **continuation(answer)}
    assert found == inside


def continuation(answer):
    return {"NextPartitionKey": answer.header("x-ms-continuation-NextPartitionKey"),
            "NextRowKey": answer.header("x-ms-continuation-NextRowKey")}


def position(answer):
    """Returns the continuation token of the response, or None."""
    tokens = continuation(answer)
    if tokens["NextPartitionKey"] is None:
        return None
    return tuple(decode(tokens[name] or "1!0!") for name in ("NextPartitionKey", "NextRowKey"))


def decode(token):
    text = token.split("!")[2].replace("*", "+").replace("_", "/").replace("-", "=")
    return base64.b64decode(text).decode("utf-8")


def encode(text):
    encoded = base64.b64encode(text.encode("utf-8")).decode("ascii")
    encoded = encoded.replace("+", "*").replace("/", "_").replace("=", "-")
    return f"1!{len(encoded)}!{encoded}"


@pytest.mark.parametrize("start", [("", ""), ("a", "1"), ("b", "5"), ("b", "6"), ("c", "9"), ("d", "1"), ("zz", "")])
@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_a_token_of_an_unrestricted_query_widens_nothing(grid, bounds, start):
    token = with_table_token(grid, "r", **bounds)
    options = {"NextPartitionKey": encode(start[0]), "NextRowKey": encode(start[1])}
    expected = [pair for pair in EVERYTHING if is_inside(pair, **bounds) and pair >= start]
    assert pairs(token.query(options, accept=NONE)) == expected
    answer = grid.query({"$top": 3}, accept=NONE)
    expected = [pair for pair in EVERYTHING if is_inside(pair, **bounds) and pair >= position(answer)]
    assert pairs(token.query(continuation(answer), accept=NONE)) == expected


INSIDE = {"start_pk": "in", "start_rk": "3", "end_pk": "in", "end_rk": "6"}
# Keys outside the range in each direction: partition keys and row keys before and after the range, and other row keys
# in its partitions.
OUTSIDE = [("im", "4"), ("io", "4"), ("in", "2"), ("in", "7"), ("in", "")]
WRITES = {
    "insert": lambda table, pk, rk: table.insert({"PartitionKey": pk, "RowKey": rk, "A": 2}),
    "replace": lambda table, pk, rk: table.write("PUT", pk, rk, {"A": 2}, if_match="*"),
    "merge": lambda table, pk, rk: table.write("MERGE", pk, rk, {"A": 2}, if_match="*"),
    "insert-or-replace": lambda table, pk, rk: table.write("PUT", pk, rk, {"A": 2}),
    "insert-or-merge": lambda table, pk, rk: table.write("PATCH", pk, rk, {"A": 2}),
    "delete": lambda table, pk, rk: table.delete(pk, rk),
    "delete-stale": lambda table, pk, rk: table.delete(pk, rk, if_match="W/\"datetime'2001-01-01T00%3A00%3A00Z'\""),
}


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("pair", OUTSIDE, ids=str)
@pytest.mark.parametrize("write", WRITES)
def test_writing_outside(table, write, pair, exists):
    if exists:
        check_status(table.insert({"PartitionKey": pair[0], "RowKey": pair[1], "A": 1}), 201)
    token = with_table_token(table, "raud", **INSIDE)
    # The response reveals neither whether the entity exists nor whether the condition is met.
    check_problem(WRITES[write](token, *pair), 403, "AuthorizationFailure", CANNOT + ".", form="json")
    if exists:
        assert table.stored(*pair) == {"A": 1}
    else:
        check_status(table.point(*pair), 404)


def test_writing_inside(table):
    token = with_table_token(table, "raud", **INSIDE)
    for row in ("3", "4", "6"):
        check_status(WRITES["insert"](token, "in", row), 201)
        for write in ("replace", "merge", "insert-or-replace", "insert-or-merge", "delete"):
            check_status(WRITES[write](token, "in", row), 204)


def operations(wire, table, pairs):
    for method, if_match in (("PUT", None), ("MERGE", "*"), ("DELETE", "*"), ("POST", None)):
        def operation(pair):
            if method == "POST":
                body = {"PartitionKey": pair[0], "RowKey": pair[1], "A": 2}
                return Operation("POST", f"{wire.base}/{table.name}", body)
            body = None if method == "DELETE" else {"A": 2}
            return Operation(method, wire.base + table.address(*pair), body, {"If-Match": if_match})
        yield method, [operation(pair) for pair in pairs]


def test_a_batch_with_an_operation_outside_does_nothing(wire, table):
    token = with_table_token(table, "raud", **INSIDE).wire
    for method, parts in operations(wire, table, [("in", "7"), ("in", "5")]):
        for order, index in ((parts, 0), (parts[::-1], 1)):
            for row in ("5", "7"):
                table.delete("in", row)
                if method in ("MERGE", "DELETE"):
                    check_status(table.insert({"PartitionKey": "in", "RowKey": row, "A": 1}), 201)
            answers = post_changeset(token, order)
            assert [answer.status for answer in answers] == [403], (method, answers)
            problem = read_problem(answers[0].text)
            assert (problem.code, problem.message) == ("AuthorizationFailure", f"{index}:{CANNOT}."), (method, problem)
            for row in ("5", "7"):
                if method in ("MERGE", "DELETE"):
                    assert table.stored("in", row) == {"A": 1}
                else:
                    check_status(table.point("in", row), 404)


def test_a_batch_inside(wire, table):
    token = with_table_token(table, "raud", **INSIDE).wire
    for method, parts in operations(wire, table, [("in", "3"), ("in", "6")]):
        for row in ("3", "6"):
            table.delete("in", row)
            if method != "POST":
                check_status(table.insert({"PartitionKey": "in", "RowKey": row, "A": 1}), 201)
        wanted = 201 if method == "POST" else 204
        assert [answer.status for answer in post_changeset(token, parts)] == [wanted, wanted], method


def test_a_query_in_a_batch(wire, grid):
    token = with_table_token(grid, "r", start_pk="b", start_rk="5", end_pk="b", end_rk="7")
    for target, status in ((grid.address("b", "5"), 200), (grid.address("b", "1"), 404)):
        answer = post_batch(token.wire, query_body(Operation("GET", wire.base + target)))
        assert [part.status for part in read_parts(answer)] == [status]
    answer = post_batch(token.wire, query_body(Operation("GET", f"{wire.base}/{grid.name}()", headers={"Accept": NONE})))
    text = read_parts(answer)[0].text
    assert [row for row in ROWS if f'"RowKey":"{row}"' in text] == ["5", "7"]
    assert '"PartitionKey":"a"' not in text


def test_bounds_with_special_characters(table):
    keys = ["O'Neil & Söhne", "p+q", "p q", "é", "😀", "\ue000"]
    for partition in keys:
        check_status(table.insert({"PartitionKey": partition, "RowKey": "r"}), 201)
    for partition in keys:
        token = with_table_token(table, "r", start_pk=partition, end_pk=partition)
        assert pairs(token.query(accept=NONE)) == [(partition, "r")], encode_key(partition)
    # Keys are ordered by UTF-16 code units, in which the private use area follows the surrogates.
    token = with_table_token(table, "r", start_pk="é", end_pk="😀")
    assert pairs(token.query(accept=NONE)) == [("é", "r"), ("😀", "r")]
