"""Errors of Create Table, Delete Table, the table entry and operations on a missing table: status, code and message.

Source of the rules: 01 §2, 02 §4, 06 §2 and §6.
"""

import pytest

from expect import INPUT_NOT_VALID, NAME_LENGTH, PROCESSING, check_problem, check_refused

BAD_NAMES = {
    "two-letters": ("ab", "OutOfRangeInput", NAME_LENGTH),
    "64-letters": ("a" * 64, "OutOfRangeInput", NAME_LENGTH),
    "empty": ("", "OutOfRangeInput", NAME_LENGTH),
    "leading-digit": ("1abc", "InvalidResourceName", None),
    "underscore": ("ab_c", "InvalidResourceName", None),
    "hyphen": ("ab-c", "InvalidResourceName", None),
    "blank": ("ab c", "InvalidResourceName", None),
    "leading-dollar": ("$abc", "InvalidResourceName", None),
    "quote": ("ab'c", "InvalidResourceName", None),
    "non-ascii-letter": ("abcé", "InvalidResourceName", None),
    "non-ascii-digit": ("abc\u0663", "InvalidResourceName", None),
    "solidus": ("abc/d", "InvalidResourceName", None),
    "reserved": ("tables", "InvalidInput", INPUT_NOT_VALID),
    "reserved-capital": ("Tables", "InvalidInput", INPUT_NOT_VALID),
    "reserved-upper-case": ("TABLES", "InvalidInput", INPUT_NOT_VALID),
    "length-before-characters": ("1_", "OutOfRangeInput", NAME_LENGTH),
    "long-length-before-characters": ("_" * 64, "OutOfRangeInput", NAME_LENGTH),
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_create_with_bad_name(wire, name):
    table_name, code, message = BAD_NAMES[name]
    check_problem(wire.send("POST", "/Tables", {"TableName": table_name}), 400, code, message, form="json")


def test_create_existing(wire, table):
    check_problem(wire.send("POST", "/Tables", {"TableName": table.name}), 409, "TableAlreadyExists", form="json")


def test_create_existing_in_other_case(wire, table):
    check_problem(wire.send("POST", "/Tables", {"TableName": table.name.upper()}), 409, "TableAlreadyExists", form="json")


@pytest.mark.parametrize("body", [b"{", b"", b'{"TableName":}', b'["TableName"]', b'{"TableName":"abcd"', b"\xff\xfe"],
                         ids=["open", "empty", "no-value", "array", "unfinished", "not-utf8"])
def test_create_with_malformed_body(wire, body):
    answer = wire.send("POST", "/Tables", body)
    if body:
        check_problem(answer, 400, "InvalidInput", PROCESSING, form="json")
    else:
        check_refused(answer)


@pytest.mark.parametrize("body", [{}, {"TableName": None}, {"TableName": 5}, {"tablename": "abcd"}],
                         ids=["no-member", "null", "number", "wrong-case-member"])
def test_create_without_usable_name(wire, body):
    check_refused(wire.send("POST", "/Tables", body))


UNKNOWN_ENTRIES = ["ab", "a" * 64, "1abc", "ab_c", "tables", "Tables", "nosuchtable0", "ab%20c", "%C3%A9%C3%A9%C3%A9"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("name", UNKNOWN_ENTRIES)
def test_table_entry_unknown(wire, method, name):
    check_problem(wire.send(method, f"/Tables('{name}')"), 404, "ResourceNotFound", form="json")


def test_delete_twice(wire, new_name):
    name = new_name()
    assert wire.send("POST", "/Tables", {"TableName": name}).status == 201
    assert wire.send("DELETE", f"/Tables('{name}')").status == 204
    check_problem(wire.send("DELETE", f"/Tables('{name}')"), 404, "ResourceNotFound", form="json")


ENTITY_OPERATIONS = {
    "insert": ("POST", "", {"PartitionKey": "p", "RowKey": "r"}, None),
    "query": ("GET", "()", None, None),
    "query-filter": ("GET", "()?$filter=PartitionKey%20eq%20'p'", None, None),
    "get": ("GET", "(PartitionKey='p',RowKey='r')", None, None),
    "update": ("PUT", "(PartitionKey='p',RowKey='r')", {"A": 1}, "*"),
    "merge": ("MERGE", "(PartitionKey='p',RowKey='r')", {"A": 1}, "*"),
    "patch": ("PATCH", "(PartitionKey='p',RowKey='r')", {"A": 1}, "*"),
    "insert-or-replace": ("PUT", "(PartitionKey='p',RowKey='r')", {"A": 1}, None),
    "insert-or-merge": ("MERGE", "(PartitionKey='p',RowKey='r')", {"A": 1}, None),
    "insert-or-merge-patch": ("PATCH", "(PartitionKey='p',RowKey='r')", {"A": 1}, None),
    "delete": ("DELETE", "(PartitionKey='p',RowKey='r')", None, "*"),
    "delete-etag": ("DELETE", "(PartitionKey='p',RowKey='r')", None, "W/\"datetime'2024-01-01T00%3A00%3A00Z'\""),
}


@pytest.mark.parametrize("name", ENTITY_OPERATIONS)
def test_entity_operation_on_unknown_table(wire, new_name, name):
    method, tail, body, if_match = ENTITY_OPERATIONS[name]
    answer = wire.send(method, f"/{new_name()}{tail}", body, headers={"If-Match": if_match})
    check_problem(answer, 404, "TableNotFound", form="json")


@pytest.mark.parametrize("name", ENTITY_OPERATIONS)
def test_entity_operation_on_deleted_table(wire, table, name):
    table.insert({"PartitionKey": "p", "RowKey": "r"})
    assert wire.send("DELETE", f"/Tables('{table.name}')").status == 204
    method, tail, body, if_match = ENTITY_OPERATIONS[name]
    answer = wire.send(method, f"/{table.name}{tail}", body, headers={"If-Match": if_match})
    check_problem(answer, 404, "TableNotFound", form="json")


@pytest.mark.parametrize("name", ["ab", "a" * 64, "1abc", "ab_c"])
def test_entity_operation_on_malformed_table_name(wire, name):
    assert check_refused(wire.send("GET", f"/{name}()")).status in (400, 404)


def test_acl_of_unknown_table_at_2014_02_14(wire, new_name):
    answer = wire.send("GET", f"/{new_name()}?comp=acl", version="2014-02-14")
    check_problem(answer, 404, "TableNotFound", form="front")
    assert answer.header("Content-Type") == "application/xml"
