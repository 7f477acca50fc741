"""The error that takes precedence when a request has several faults (06 §6)."""

import base64

import pytest

from expect import (INPUT_NOT_VALID, NAME_LENGTH, PROCESSING, bad_etag, check_problem, check_status, out_of_range)

WRONG_SIGNATURE = base64.b64encode(bytes(32)).decode("ascii")


@pytest.fixture
def forged(wire):
    """Returns an Authorization header with a well-formed but wrong signature."""
    return {"Authorization": f"SharedKey {wire.account}:{WRONG_SIGNATURE}"}


AUTHENTICATION_FIRST = {
    "unknown-table": ("GET", "/nosuchtable0()", None, {}),
    "malformed-body": ("POST", "/Tables", b"{", {}),
    "unknown-version": ("GET", "/Tables", None, {"x-ms-version": "abc"}),
    "no-accept": ("GET", "/Tables", None, {"Accept": None}),
    "bad-filter": ("GET", "/nosuchtable0()?$filter=a%20b%20c", None, {}),
    "bad-address": ("GET", "/nosuchtable0(PartitionKey='a'b')", None, {}),
    "bad-method": ("PUT", "/Tables", b"{}", {}),
}


@pytest.mark.parametrize("name", AUTHENTICATION_FIRST)
def test_authentication_before_everything(wire, forged, name):
    method, target, body, headers = AUTHENTICATION_FIRST[name]
    check_problem(wire.send(method, target, body, headers={**forged, **headers}), 403, "AuthenticationFailed")


@pytest.mark.parametrize("target", ["/nosuchtable0()", "/Tables"])
def test_version_before_format(wire, target):
    answer = wire.send("GET", target, headers={"x-ms-version": "abc", "Accept": None})
    check_problem(answer, 400, "InvalidHeaderValue")


FORMAT_FIRST = {
    "unknown-table": ("GET", "/nosuchtable0()", None),
    "bad-filter": ("GET", "/nosuchtable0()?$filter=a%20b%20c", None),
    "bad-top": ("GET", "/Tables?$top=0.5", None),
    "malformed-body": ("POST", "/nosuchtable0", b"{"),
}


@pytest.mark.parametrize("name", FORMAT_FIRST)
def test_format_before_what_follows(wire, name):
    method, target, body = FORMAT_FIRST[name]
    check_problem(wire.send(method, target, body, headers={"Accept": None}), 415, "AtomFormatNotSupported")


@pytest.mark.parametrize("filter_text", ["a b c", "startswith(A,'x')", "A eq null"], ids=["syntax", "function", "null"])
def test_top_before_filter(wire, shared, filter_text):
    del wire
    answer = shared.query({"$filter": filter_text, "$top": "1001"})
    check_problem(answer, 400, "InvalidInput", INPUT_NOT_VALID, form="json")


def test_tables_top_before_filter(wire):
    answer = wire.send("GET", "/Tables?$top=1001&$filter=Unknown%20eq%201")
    check_problem(answer, 400, "InvalidInput", INPUT_NOT_VALID, form="json")


def test_body_parse_before_keys(shared):
    check_problem(shared.insert(b'{"A":1,}'), 400, "InvalidInput", PROCESSING, form="json")


def test_required_keys_before_names_and_characters(shared):
    check_problem(shared.insert({"PartitionKey": "a/b"}), 400, "PropertiesNeedValue", form="json")
    check_problem(shared.insert({"RowKey": "r", "n" * 256: 1}), 400, "PropertiesNeedValue", form="json")


def test_names_before_key_characters(shared):
    answer = shared.insert({"PartitionKey": "a/b", "RowKey": "r", "n" * 256: 1})
    check_problem(answer, 400, "PropertyNameTooLong", form="json")


def test_key_characters_before_existence_and_size(shared):
    answer = shared.insert({"PartitionKey": "a/b", "RowKey": "r", "P": "x" * 32_769})
    check_problem(answer, 400, "OutOfRangeInput", out_of_range("PartitionKey", "a/b"), form="json")


@pytest.mark.parametrize("verb", ["PUT", "MERGE", "DELETE"])
def test_etag_form_before_existence(shared, verb):
    body = None if verb == "DELETE" else {"A": 1}
    answer = shared.write(verb, "no such", "entity", body, if_match="garbage")
    check_problem(answer, 400, "InvalidInput", bad_etag("garbage"), form="json")


@pytest.mark.parametrize("verb", ["PUT", "MERGE", "DELETE"])
def test_missing_entity_before_condition(shared, verb):
    body = None if verb == "DELETE" else {"A": 1}
    answer = shared.write(verb, "no such", "entity", body, if_match="W/\"datetime'2001-01-01T00%3A00%3A00Z'\"")
    check_problem(answer, 404, "ResourceNotFound", form="json")


def test_value_size_before_condition(shared, key):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r"}), 201)
    answer = shared.write("PUT", key, "r", {"P": "x" * 32_769}, if_match="W/\"datetime'2001-01-01T00%3A00%3A00Z'\"")
    check_problem(answer, 400, "PropertyValueTooLarge", form="json")


def test_create_table_length_then_characters_then_existence(wire, table):
    check_problem(wire.send("POST", "/Tables", {"TableName": "_"}), 400, "OutOfRangeInput", NAME_LENGTH)
    check_problem(wire.send("POST", "/Tables", {"TableName": table.name + "_"}), 400, "InvalidResourceName")
