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


MALFORMED_NAMES = {
    "ab": ("OutOfRangeInput", NAME_LENGTH),
    "a" * 64: ("OutOfRangeInput", NAME_LENGTH),
    "1abc": ("InvalidResourceName", None),
    "ab_c": ("InvalidResourceName", None),
    # The service decodes a path before splitting it into segments, so this is `a` (recorded).
    "a%2F%2F": ("OutOfRangeInput", NAME_LENGTH),
}


@pytest.mark.parametrize("name", MALFORMED_NAMES)
@pytest.mark.parametrize("operation", ENTITY_OPERATIONS)
def test_entity_operation_on_malformed_table_name(wire, operation, name):
    """The Python client recognizes an invalid name by these codes and messages."""
    method, tail, body, if_match = ENTITY_OPERATIONS[operation]
    code, message = MALFORMED_NAMES[name]
    answer = wire.send(method, f"/{name}{tail}", body, headers={"If-Match": if_match})
    check_problem(answer, 400, code, message, form="json")
    assert answer.header("Cache-Control") is None


@pytest.mark.parametrize("name", MALFORMED_NAMES)
def test_policies_of_malformed_table_name(wire, name):
    code, message = MALFORMED_NAMES[name]
    check_problem(wire.send("GET", f"/{name}?comp=acl"), 400, code, message, form="front")


@pytest.mark.parametrize("name", ["1table", "aa", "a" * 64, "a//", "my_table"])
def test_client_blames_the_malformed_name(service, name):
    with service.get_table_client(name) as client:
        for use in (client.create_table, client.get_table_access_policy,
                    lambda: client.create_entity({"PartitionKey": "p", "RowKey": "r"}),
                    lambda: client.upsert_entity({"PartitionKey": "p", "RowKey": "r"}),
                    lambda: client.delete_entity("p", "r"),
                    lambda: client.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": "r"})])):
            with pytest.raises(ValueError, match="Storage table names must be alphanumeric"):
                use()


def below(table):
    """Returns the error for a URL with one key below a table, whose entities have two keys."""
    return ("The number of keys specified in the URI does not match number of key properties for the resource "
            f"'{table.wire.account}.{table.name}'.")


@pytest.mark.parametrize("method, child, code", [
    ("POST", "Tables", "TableNotFound"), ("GET", "Tables", "TableNotFound"), ("DELETE", "Tables('x')", "TableNotFound"),
])
def test_below_an_unknown_table(wire, new_name, method, child, code):
    body = {"TableName": "never"} if method == "POST" else None
    check_problem(wire.send(method, f"/{new_name()}/{child}", body), 404, code, form="json")


def test_below_a_table(wire, table):
    """The error that a client gets if its endpoint ends in a table name."""
    answer = wire.send("POST", f"/{table.name}/Tables", {"TableName": table.name})
    check_problem(answer, 400, "PropertiesNeedValue", form="json")
    assert answer.header("Cache-Control") == "no-cache"
    answer = wire.send("DELETE", f"/{table.name}/Tables('{table.name}')")
    check_problem(answer, 400, "InvalidInput", below(table), form="json")
    assert answer.header("Cache-Control") is None
    answer = wire.send("GET", f"/{table.name}/Tables?$filter=TableName%20eq%20'x'")
    check_problem(answer, 501, "NotImplemented", form="json")
    assert answer.header("Cache-Control") == "no-cache"
    assert wire.send("GET", f"/Tables('{table.name}')").status == 200


def test_batch_below_a_table(wire, table):
    body = b"--b\r\n--b--\r\n"
    answer = wire.send("POST", f"/{table.name}/$batch", body, headers={"Content-Type": "multipart/mixed; boundary=b"})
    check_problem(answer, 415, "MediaTypeNotSupported")


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_service_properties_below_a_table(wire, new_name, method):
    answer = wire.send(method, f"/{new_name()}/?restype=service&comp=properties", None if method == "GET" else b"<x/>")
    check_problem(answer, 400, "InvalidQueryParameterValue",
                  "Value for one of the query parameters specified in the request URI is invalid.")


def test_acl_of_unknown_table_at_2014_02_14(wire, new_name):
    answer = wire.send("GET", f"/{new_name()}?comp=acl", version="2014-02-14")
    check_problem(answer, 404, "TableNotFound", form="front")
    assert answer.header("Content-Type") == "application/xml"
