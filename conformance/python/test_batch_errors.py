"""Failing entity group transactions: codes, messages and the index prefix. Nothing may be stored (05 §5)."""

import json

import pytest

from batch_body import (BATCH, CHANGESET, Operation, changeset_body, entity_operation, fill, insert_operation, post_batch,
                        post_changeset, query_body, read_parts)
from expect import (MESSAGE, PROCESSING, QUERY_SYNTAX, TOO_MANY_CHANGES, check_problem, check_status, out_of_range, read_problem)
from wire import FULL, MINIMAL, NONE, TableWire

BATCH_BYTES_MAX = 4 * 1024 * 1024
STALE = "W/\"datetime'2001-01-01T00%3A00%3A00.1234567Z'\""
ERROR_HEADERS = ["X-Content-Type-Options", "Cache-Control", "DataServiceVersion", "Content-Type"]


def entity(key, row_key, **properties):
    return {"PartitionKey": key, "RowKey": row_key, **properties}


def present(table, key):
    return table.row_keys(f"PartitionKey eq '{key}'")


def check_part(parts, status, code, message, prefix):
    """Checks that the only part is an error. Its message must begin with the prefix, unless that is None."""
    [part] = parts
    assert part.status == status, part
    problem = read_problem(part.text)
    assert (problem.form, problem.code) == ("json", code), part
    wanted = message if message is not None else MESSAGE[code]
    assert problem.message == ("" if prefix is None else f"{prefix}:") + wanted
    assert part.header("DataServiceVersion") == "3.0;"
    assert part.header("X-Content-Type-Options") == "nosniff"
    return part


def good(table, key, row_key):
    return insert_operation(table, entity(key, row_key), Prefer="return-no-content")


# name: (the failing operation, status, code, message, whether a single operation gets the prefix 0:)
FAILURES = {
    "entity-exists": (lambda t, k: insert_operation(t, entity(k, "old")), 409, "EntityAlreadyExists", None, False),
    "update-missing": (lambda t, k: entity_operation(t, "PUT", k, "no", {"A": 1}, If_Match="*"), 404, "ResourceNotFound", None, False),
    "merge-missing": (lambda t, k: entity_operation(t, "MERGE", k, "no", {"A": 1}, If_Match="*"), 404, "ResourceNotFound", None, False),
    "merge-missing-etag": (lambda t, k: entity_operation(t, "MERGE", k, "no", {"A": 1}, If_Match=STALE), 404, "ResourceNotFound",
                           None, False),
    "delete-missing": (lambda t, k: entity_operation(t, "DELETE", k, "no", If_Match="*"), 404, "ResourceNotFound", None, False),
    "update-stale": (lambda t, k: entity_operation(t, "PUT", k, "old", {"A": 1}, If_Match=STALE), 412, "UpdateConditionNotSatisfied",
                     None, False),
    "merge-stale": (lambda t, k: entity_operation(t, "PATCH", k, "old", {"A": 1}, If_Match=STALE), 412,
                    "UpdateConditionNotSatisfied", None, False),
    "delete-stale": (lambda t, k: entity_operation(t, "DELETE", k, "old", If_Match=STALE), 412, "UpdateConditionNotSatisfied",
                     None, False),
    "value-too-large": (lambda t, k: insert_operation(t, entity(k, "big", P="x" * 32_769)), 400, "PropertyValueTooLarge", None, False),
    "entity-too-large": (lambda t, k: insert_operation(t, entity(k, "big", **{f"P{i}": "x" * 32_768 for i in range(16)})), 400,
                         "EntityTooLarge", None, False),
    "too-many-properties": (lambda t, k: insert_operation(t, entity(k, "big", **{f"P{i}": i for i in range(253)})), 400,
                            "TooManyProperties", None, False),
    "no-row-key": (lambda t, k: insert_operation(t, {"PartitionKey": k}), 400, "PropertiesNeedValue", None, True),
    "forbidden-character": (lambda t, k: insert_operation(t, entity(k, "a/b")), 400, "OutOfRangeInput",
                            out_of_range("RowKey", "a/b"), True),
    "malformed-json": (lambda t, k: insert_operation(t, b'{"PartitionKey":'), 400, "InvalidInput", PROCESSING, True),
    "bad-address": (lambda t, k: Operation("DELETE", f"{t.wire.base}/{t.name}(PartitionKey='{k}',RowKey='a%2Fb')", None,
                                           {"If-Match": "*"}), 400, "InvalidInput", QUERY_SYNTAX, True),
}


@pytest.mark.parametrize("name", FAILURES)
def test_lone_operation(wire, shared, key, name):
    operation, status, code, message, prefixed = FAILURES[name]
    check_status(shared.insert(entity(key, "old", Old=1)), 201)
    parts = post_changeset(wire, [operation(shared, key)])
    check_part(parts, status, code, message, 0 if prefixed else None)
    assert shared.stored(key, "old") == {"Old": 1}


@pytest.mark.parametrize("position", [0, 1, 4])
@pytest.mark.parametrize("name", FAILURES)
def test_one_of_several_operations(wire, shared, key, name, position):
    operation, status, code, message, _ = FAILURES[name]
    check_status(shared.insert(entity(key, "old", Old=1)), 201)
    operations = [good(shared, key, f"n{n}") for n in range(4)]
    operations.insert(position, operation(shared, key))
    check_part(post_changeset(wire, operations), status, code, message, position)
    assert present(shared, key) == ["old"]
    assert shared.stored(key, "old") == {"Old": 1}


def test_first_failure_is_reported(wire, shared, key):
    check_status(shared.insert(entity(key, "old")), 201)
    operations = [good(shared, key, "n"), entity_operation(shared, "DELETE", key, "no", If_Match="*"),
                  insert_operation(shared, entity(key, "old"))]
    check_part(post_changeset(wire, operations), 404, "ResourceNotFound", None, 1)


def test_error_part_headers(wire, shared, key):
    operations = [good(shared, key, "1"), entity_operation(shared, "PUT", key, "no", {"A": 1}, If_Match="*", Content_ID="2")]
    part = check_part(post_changeset(wire, operations), 404, "ResourceNotFound", None, 1)
    assert part.reason == "Not Found"
    assert part.names == ["Content-ID", *ERROR_HEADERS]
    assert part.header("Content-ID") == "2"
    assert part.header("Content-Type") == f"{MINIMAL};streaming=true;charset=utf-8"


def test_content_id_of_a_refusal_by_storage_is_that_of_the_last_operation(wire, shared, key):
    """Recorded: the index in the message is the index of the failing operation."""
    operations = [entity_operation(shared, "PUT", key, "no", {"A": 1}, If_Match="*", Content_ID="1"),
                  insert_operation(shared, entity(key, "1"), Content_ID="2")]
    part = check_part(post_changeset(wire, operations), 404, "ResourceNotFound", None, 0)
    assert part.header("Content-ID") == "2"
    duplicates = [insert_operation(shared, entity(key, "1"), Content_ID=str(n)) for n in range(3)]
    part = check_part(post_changeset(wire, duplicates), 400, "InvalidDuplicateRow", None, 1)
    assert part.header("Content-ID") == "1"


def test_a_change_set_that_cannot_be_read(wire, shared, key):
    """Recorded with an invalid header line from the C++ client: the error is inside the response to the changeset."""
    body = changeset_body([insert_operation(shared, entity(key, "1"))]).replace(b"Accept:", b"Content-Length: 69Accept:")
    answer = check_status(post_batch(wire, body), 202)
    assert b"Content-Type: multipart/mixed; boundary=changesetresponse_" in answer.body
    [part] = read_parts(answer)
    assert (part.status, part.names) == (400, ["DataServiceVersion", "Content-Type"])
    assert present(shared, key) == []


@pytest.mark.parametrize("level", [NONE, MINIMAL, FULL])
def test_error_in_the_level_of_the_failing_part(wire, shared, key, level):
    operation = entity_operation(shared, "PUT", key, "no", {"A": 1}, If_Match="*", Accept=level)
    [part] = post_changeset(wire, [operation])
    assert part.names == ERROR_HEADERS
    assert part.header("Content-Type") == f"{level};streaming=true;charset=utf-8"


def test_error_of_an_insert_with_preference(wire, shared, key):
    check_status(shared.insert(entity(key, "old")), 201)
    operations = [good(shared, key, "1"), insert_operation(shared, entity(key, "old"), Prefer="return-no-content")]
    part = check_part(post_changeset(wire, operations), 409, "EntityAlreadyExists", None, 1)
    assert part.names == ["X-Content-Type-Options", "Cache-Control", "Preference-Applied", "DataServiceVersion", "Content-Type"]


def test_tail_of_an_inner_message(wire, shared, key):
    answer = post_batch(wire, changeset_body([entity_operation(shared, "DELETE", key, "no", If_Match="*")]))
    [part] = read_parts(answer)
    assert read_problem(part.text).request_id == answer.header("x-ms-request-id")
    value = json.loads(part.text)["odata.error"]["message"]["value"]
    assert value.startswith("The specified resource does not exist.\nRequestId:")


@pytest.mark.parametrize("count", [1, 3])
def test_table_missing(wire, shared, new_name, count):
    missing = TableWire(wire, new_name())
    parts = post_changeset(wire, [good(missing, "p", str(n)) for n in range(count)])
    part = check_part(parts, 404, "TableNotFound", None, 0)
    assert part.header("Cache-Control") is None


@pytest.mark.parametrize("position", [1, 2])
def test_other_partition(wire, shared, key, position):
    operations = [good(shared, key, f"n{n}") for n in range(3)]
    operations[position] = good(shared, key + "x", "other")
    check_part(post_changeset(wire, operations), 400, "CommandsInBatchActOnDifferentPartitions", None, position)
    assert present(shared, key) == [] and present(shared, key + "x") == []


def test_other_partition_by_address(wire, shared, key):
    operations = [good(shared, key, "1"), entity_operation(shared, "MERGE", key + "x", "2", {"A": 1})]
    check_part(post_changeset(wire, operations), 400, "CommandsInBatchActOnDifferentPartitions", None, 1)


DUPLICATES = {
    "insert-insert": lambda t, k: [good(t, k, "1"), good(t, k, "1")],
    "insert-merge": lambda t, k: [good(t, k, "1"), entity_operation(t, "MERGE", k, "1", {"A": 1})],
    "merge-delete": lambda t, k: [entity_operation(t, "MERGE", k, "old", {"A": 1}, If_Match="*"),
                                  entity_operation(t, "DELETE", k, "old", If_Match="*")],
}


@pytest.mark.parametrize("name", DUPLICATES)
def test_entity_twice(wire, shared, key, name):
    check_status(shared.insert(entity(key, "old", Old=1)), 201)
    part = check_part(post_changeset(wire, DUPLICATES[name](shared, key)), 400, "InvalidDuplicateRow", None, 1)
    assert part.header("Cache-Control") == "no-cache"
    assert present(shared, key) == ["old"] and shared.stored(key, "old") == {"Old": 1}


def test_entity_twice_later(wire, shared, key):
    operations = [good(shared, key, row_key) for row_key in ("1", "2", "3", "2", "4")]
    check_part(post_changeset(wire, operations), 400, "InvalidDuplicateRow", None, 3)


def test_entity_twice_wins_over_a_storage_error(wire, shared, key):
    operations = [entity_operation(shared, "DELETE", key, "no", If_Match="*"), good(shared, key, "1"), good(shared, key, "1")]
    check_part(post_changeset(wire, operations), 400, "InvalidDuplicateRow", None, 2)


def test_row_keys_differing_by_case_are_two_entities(wire, shared, key):
    parts = post_changeset(wire, [good(shared, key, "a"), good(shared, key, "A")])
    assert [part.status for part in parts] == [204, 204]


def test_hundred_operations(wire, shared, key):
    operations = [insert_operation(shared, entity(key, f"{n:03}"), Prefer="return-no-content", Content_ID=str(n)) for n in range(100)]
    parts = post_changeset(wire, operations)
    assert [part.status for part in parts] == [204] * 100
    assert [part.header("Content-ID") for part in parts] == [str(n) for n in range(100)]
    assert len(present(shared, key)) == 100


def test_hundred_and_one_operations(wire, shared, key):
    part = check_part(post_changeset(wire, [good(shared, key, f"{n:03}") for n in range(101)]), 400, "InvalidInput",
                      TOO_MANY_CHANGES, 99)
    assert part.header("Cache-Control") == "no-cache"
    assert part.names.index("Preference-Applied") == part.names.index("Cache-Control") + 1
    assert present(shared, key) == []


def sized_batch(table, key, size):
    """Returns a changeset of exactly `size` bytes, with large binary values, and spaces after the closing delimiter."""
    text = "x" * 32_000
    operations = [insert_operation(table, entity(key, f"{n:02}", P0=text, P1=text), Prefer="return-no-content") for n in range(60)]
    body = changeset_body(operations)
    assert len(body) < size
    return body + b" " * (size - len(body))


def test_batch_of_exactly_four_mib(wire, shared, key):
    answer = check_status(post_batch(wire, sized_batch(shared, key, BATCH_BYTES_MAX)), 202)
    assert answer.body.count(b"HTTP/1.1 204") == 60


def test_batch_over_four_mib(wire, shared, key):
    answer = post_batch(wire, sized_batch(shared, key, BATCH_BYTES_MAX + 1))
    check_problem(answer, 413, "RequestBodyTooLarge")
    assert answer.reason == "The request body is too large and exceeds the maximum permissible limit."
    assert present(shared, key) == []


def test_point_query_miss(wire, shared, key):
    [part] = read_parts(check_status(post_batch(wire, query_body(entity_operation(shared, "GET", key, "no"))), 202))
    check_part([part], 404, "ResourceNotFound", None, 0)
    assert part.names == ["X-Content-Type-Options", "Cache-Control", "DataServiceVersion", "Content-Type"]


def check_not_executed(wire, shared, key, body, boundary=BATCH, **kwargs):
    """Checks that the batch or an operation has an error, and that nothing is stored."""
    answer = post_batch(wire, body, boundary, **kwargs)
    assert answer.status in (202, 400, 415), (answer.status, answer.body[:600])
    if answer.status == 202:
        assert b"HTTP/1.1 4" in answer.body and b"HTTP/1.1 2" not in answer.body, answer.body[:800]
    assert present(shared, key) == []


MALFORMED = {
    "empty": lambda body: b"",
    "text": lambda body: b"hello",
    "wrong-boundary": lambda body: body.replace(BATCH.encode(), b"batch_other"),
    "no-request-line": lambda body: body.replace(b" HTTP/1.1\r\n", b"\r\n").replace(b"POST ", b""),
    "bad-request-line": lambda body: body.replace(b"POST http", b"POST"),
    "unknown-method": lambda body: body.replace(b"POST ", b"FROB "),
    "changeset-without-boundary": lambda body: body.replace(f"; boundary={CHANGESET}".encode(), b""),
    "other-changeset-boundary": lambda body: body.replace(f"boundary={CHANGESET}".encode(), b"boundary=other"),
    "long-inner-length": lambda body: body.replace(b"Accept:", b"Content-Length: 100000\r\nAccept:"),
    "inner-length-not-a-number": lambda body: body.replace(b"Accept:", b"Content-Length: abc\r\nAccept:"),
    "nul-bytes": lambda body: b"\x00" * 100,
    "binary": lambda body: bytes(range(256)) * 10,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_batch(wire, shared, key, name):
    body = changeset_body([insert_operation(shared, entity(key, "1"))])
    check_not_executed(wire, shared, key, MALFORMED[name](body))


@pytest.mark.parametrize("content_type", ["application/json", "multipart/mixed", "multipart/mixed; boundary=", "text/plain", "x"])
def test_outer_content_type_unusable(wire, shared, key, content_type):
    body = changeset_body([insert_operation(shared, entity(key, "1"))])
    answer = post_batch(wire, body, content_type=content_type)
    assert 400 <= answer.status < 500 or (answer.status == 202 and b"HTTP/1.1 400" in answer.body), answer.body
    assert present(shared, key) == []


def test_get_inside_a_changeset(wire, shared, key):
    body = changeset_body([good(shared, key, "1"), entity_operation(shared, "GET", key, "1")])
    check_not_executed(wire, shared, key, body)


def query_part(table, key):
    return b"--" + BATCH.encode() + b"\r\n" + entity_operation(table, "GET", key, "old").to_bytes(b"\r\n") + b"\r\n"


MIXTURES = {
    "query-then-changeset": lambda t, k: query_part(t, k) + changeset_body([good(t, k, "1")]),
    "two-queries": lambda t, k: query_part(t, k) + query_body(entity_operation(t, "GET", k, "old")),
    "two-changesets": lambda t, k: changeset_body([good(t, k, "1")], final=False) + changeset_body([good(t, k, "2")]),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_more_than_one_thing_in_a_batch(wire, shared, key, name):
    """A batch contains one changeset or one GET. Any other batch is an error, but the exact response is unknown.
    """
    answer = post_batch(wire, MIXTURES[name](shared, key))
    assert answer.status == 400 or (answer.status == 202 and b"HTTP/1.1 4" in answer.body), answer.body[:800]
    assert "2" not in present(shared, key)


def test_table_operation_inside(wire, shared, key, new_name):
    name = new_name()
    body = changeset_body([good(shared, key, "1"), Operation("POST", f"{wire.base}/Tables", {"TableName": name})])
    check_not_executed(wire, shared, key, body)
    assert wire.send("GET", f"/Tables('{name}')").status == 404


def test_two_tables(wire, shared, table, key):
    body = changeset_body([good(shared, key, "1"), good(table, key, "2")])
    check_not_executed(wire, shared, key, body)
    assert present(table, key) == []


def test_other_account_inside(wire, shared, key):
    if not wire.path_style:
        pytest.skip("needs a path-style address, which has the account in inner targets")
    target = wire.base.removesuffix(wire.account) + "otheraccount/" + shared.name
    check_not_executed(wire, shared, key, changeset_body([Operation("POST", target, entity(key, "1"))]))


def test_wrong_signature(wire, shared, key):
    headers = {"Authorization": f"SharedKey {wire.account}:{'A' * 43}="}
    body = changeset_body([good(shared, key, "1")])
    for accept, form in (("application/json", "json"), (None, "front")):
        answer = post_batch(wire, body, headers={**headers, "Accept": accept})
        check_problem(answer, 403, "AuthenticationFailed", form=form)
        assert answer.header("x-ms-version") is None
    assert present(shared, key) == []


def test_malformed_etag_inside(wire, shared, key):
    check_status(shared.insert(entity(key, "old")), 201)
    [part] = post_changeset(wire, [entity_operation(shared, "DELETE", key, "old", If_Match="garbage")])
    assert part.status == 400 and read_problem(part.text).code == "InvalidInput"
    assert present(shared, key) == ["old"]


def test_failed_batch_leaves_etags_alone(wire, shared, key):
    fill(shared, [entity(key, f"{n}") for n in range(5)])
    before = [e["odata.etag"] for e in shared.query({"$filter": f"PartitionKey eq '{key}'"}).json()["value"]]
    operations = [entity_operation(shared, "MERGE", key, f"{n}", {"A": 1}, If_Match="*" if n < 4 else STALE) for n in range(5)]
    check_part(post_changeset(wire, operations), 412, "UpdateConditionNotSatisfied", None, 4)
    after = [e["odata.etag"] for e in shared.query({"$filter": f"PartitionKey eq '{key}'"}).json()["value"]]
    assert after == before


@pytest.mark.parametrize("end", ["", "/"], ids=["bare", "slash"])
@pytest.mark.parametrize("before", [0, 1], ids=["alone", "after-an-insert"])
def test_post_to_the_root_in_a_changeset(wire, shared, key, end, before):
    """Recorded: 405 with the index of the operation, before any operation is executed (05 §5.2)."""
    inserts = [insert_operation(shared, entity(key, "1"))] * before
    parts = post_changeset(wire, [*inserts, Operation("POST", wire.base + end, entity(key, "2"))])
    check_part(parts, 405, "MethodNotAllowed", "The requested method is not allowed on the specified resource.", before)
    assert parts[0].header("Cache-Control") is None
    assert present(shared, key) == []
