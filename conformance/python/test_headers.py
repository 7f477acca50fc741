"""Status and headers of success and error responses, and the Prefer variants (02 §3–§5)."""

import email.utils
import re
import uuid

import pytest

from expect import GUID, check_etag, check_problem, check_refused, check_status
from wire import FULL, MINIMAL, NONE, VERSION

STREAMING = "{};streaming=true;charset=utf-8"


class Place:
    """Parameters of the operations in the table below: the wire, a table with the entity ('p', 'r'), and a new name."""

    def __init__(self, wire, table, name):
        self.wire, self.table, self.name = wire, table, name
        self.entity = f"/{table.name}(PartitionKey='p',RowKey='r')"
        self.other = f"/{table.name}(PartitionKey='p',RowKey='s')"


@pytest.fixture
def place(wire, table, new_name):
    check_status(table.insert({"PartitionKey": "p", "RowKey": "r", "A": 1}), 201)
    return Place(wire, table, new_name())


NEW_ENTITY = {"PartitionKey": "p", "RowKey": "s"}
NO_CONTENT = {"Prefer": "return-no-content"}
CONTENT = {"Prefer": "return-content"}
ANY = {"If-Match": "*"}

# name: (method, target, body, headers, status, which of ETag, Location and DataServiceId the response has)
OPERATIONS = {
    "create-table": lambda p: ("POST", "/Tables", {"TableName": p.name}, {}, 201, {"Location"}),
    "create-table-content": lambda p: ("POST", "/Tables", {"TableName": p.name}, CONTENT, 201, {"Location"}),
    "create-table-no-content": lambda p: (
        "POST", "/Tables", {"TableName": p.name}, NO_CONTENT, 204, {"Location", "DataServiceId"}),
    "delete-table": lambda p: ("DELETE", f"/Tables('{p.table.name}')", None, {}, 204, set()),
    "query-tables": lambda p: ("GET", "/Tables?$top=1", None, {}, 200, set()),
    "get-table": lambda p: ("GET", f"/Tables('{p.table.name}')", None, {}, 200, set()),
    "insert": lambda p: ("POST", f"/{p.table.name}", NEW_ENTITY, {}, 201, {"ETag", "Location"}),
    "insert-content": lambda p: ("POST", f"/{p.table.name}", NEW_ENTITY, CONTENT, 201, {"ETag", "Location"}),
    "insert-no-content": lambda p: (
        "POST", f"/{p.table.name}", NEW_ENTITY, NO_CONTENT, 204, {"ETag", "Location", "DataServiceId"}),
    "get": lambda p: ("GET", p.entity, None, {}, 200, {"ETag"}),
    "query": lambda p: ("GET", f"/{p.table.name}()", None, {}, 200, set()),
    "update": lambda p: ("PUT", p.entity, {"A": 2}, ANY, 204, {"ETag"}),
    "merge": lambda p: ("MERGE", p.entity, {"A": 2}, ANY, 204, {"ETag"}),
    "patch": lambda p: ("PATCH", p.entity, {"A": 2}, ANY, 204, {"ETag"}),
    "tunnelled-merge": lambda p: ("POST", p.entity, {"A": 2}, {**ANY, "X-HTTP-Method": "MERGE"}, 204, {"ETag"}),
    "insert-or-replace": lambda p: ("PUT", p.other, {"A": 2}, {}, 204, {"ETag"}),
    "insert-or-merge": lambda p: ("MERGE", p.other, {"A": 2}, {}, 204, {"ETag"}),
    "delete": lambda p: ("DELETE", p.entity, None, ANY, 204, set()),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_success(place, name):
    method, target, body, headers, status, present = OPERATIONS[name](place)
    answer = check_status(place.wire.send(method, target, body, headers=headers), status)
    check_common(answer)
    assert answer.header("Cache-Control") == "no-cache"
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert {h for h in ("ETag", "Location", "DataServiceId") if answer.header(h) is not None} == present
    assert answer.header("Preference-Applied") == headers.get("Prefer")
    if status == 204:
        assert answer.body == b"" and answer.header("Content-Type") is None
        # The service sends a length of 0, which HTTP forbids with this status. Both forms mean a response without a
        # body.
        assert answer.header("Content-Length") in (None, "0")
    else:
        assert answer.header("Content-Type") == STREAMING.format(MINIMAL)
    if "ETag" in present:
        check_etag(answer)


def check_common(answer):
    """Checks the headers that every response has, except the response to a failed authentication."""
    assert re.fullmatch(GUID, answer.header("x-ms-request-id"))
    assert answer.header("x-ms-version") == VERSION
    assert email.utils.parsedate_to_datetime(answer.header("Date"))
    assert re.match(r"[^/ ]+/\d", answer.header("Server"))


@pytest.mark.parametrize("level", [NONE, MINIMAL, FULL])
@pytest.mark.parametrize("name", ["create-table", "query-tables", "get-table", "insert", "get", "query"])
def test_content_type_repeats_the_level(place, name, level):
    method, target, body, headers, status, _ = OPERATIONS[name](place)
    answer = check_status(place.wire.send(method, target, body, headers=headers, accept=level), status)
    assert answer.header("Content-Type") == STREAMING.format(level)


def test_table_location(place):
    answer = place.wire.send("POST", "/Tables", {"TableName": place.name}, headers=NO_CONTENT)
    wanted = f"{place.wire.base}/Tables('{place.name}')"
    assert (answer.header("Location"), answer.header("DataServiceId")) == (wanted, wanted)


def test_entity_location(place):
    answer = place.table.insert({"PartitionKey": "", "RowKey": "a b'c"}, headers=NO_CONTENT)
    wanted = f"{place.wire.base}/{place.table.name}(PartitionKey='',RowKey='a%20b''c')"
    assert (answer.header("Location"), answer.header("DataServiceId")) == (wanted, wanted)


@pytest.mark.parametrize("level", [NONE, MINIMAL, FULL])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_error_repeats_the_negotiated_form(shared, method, level):
    body = {"A": 1} if method in ("PUT", "PATCH") else None
    answer = shared.write(method, "no such", "entity", body, if_match=None if method == "GET" else "*", accept=level)
    check_problem(answer, 404, "ResourceNotFound", form="json")
    check_common(answer)
    assert answer.header("Content-Type") == STREAMING.format(level)
    assert answer.header("Cache-Control") == "no-cache"
    assert answer.header("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_plain_json_error_is_minimal(shared, method):
    body = {"A": 1} if method in ("PUT", "PATCH") else None
    if_match = None if method == "GET" else "*"
    answer = shared.write(method, "no such", "entity", body, if_match=if_match, accept="application/json")
    assert answer.header("Content-Type") == STREAMING.format(MINIMAL)


FAILURES = {
    "table-exists": lambda p: ("POST", "/Tables", {"TableName": p.table.name}, 409, "TableAlreadyExists"),
    "resource-name": lambda p: ("POST", "/Tables", {"TableName": "a-b-c"}, 400, "InvalidResourceName"),
    "entity-exists": lambda p: ("POST", f"/{p.table.name}", {"PartitionKey": "p", "RowKey": "r"}, 409, "EntityAlreadyExists"),
}


@pytest.mark.parametrize("preference", ["return-content", "return-no-content", None])
@pytest.mark.parametrize("name", FAILURES)
def test_preference_applied_on_errors(place, name, preference):
    method, target, body, status, code = FAILURES[name](place)
    answer = place.wire.send(method, target, body, headers={"Prefer": preference})
    check_problem(answer, status, code, form="json")
    assert answer.header("Preference-Applied") == preference
    assert answer.header("Cache-Control") == "no-cache"


WITH_CACHE_CONTROL = {
    "keys": ({"A": 1}, "PropertiesNeedValue"),
    "name-too-long": ({"PartitionKey": "p", "RowKey": "x", "n" * 256: 1}, "PropertyNameTooLong"),
    "too-many": ({"PartitionKey": "p", "RowKey": "x", **{f"P{i}": i for i in range(253)}}, "TooManyProperties"),
}


@pytest.mark.parametrize("name", WITH_CACHE_CONTROL)
def test_body_errors_have_cache_control(shared, name):
    body, code = WITH_CACHE_CONTROL[name]
    answer = shared.insert(body)
    check_problem(answer, 400, code, form="json")
    assert answer.header("Cache-Control") == "no-cache"
    assert answer.header("X-Content-Type-Options") == "nosniff"


def test_filter_syntax_error_has_no_cache_control(shared):
    answer = shared.query({"$filter": "aaa bbb ccc"})
    check_problem(answer, 400, "InvalidInput", form="json")
    assert answer.header("Cache-Control") is None
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert answer.header("Content-Type") == STREAMING.format(MINIMAL)


def test_request_ids_are_new_each_time(wire):
    ids = {wire.send("GET", "/Tables?$top=1").header("x-ms-request-id") for _ in range(5)}
    assert len(ids) == 5


@pytest.mark.parametrize("status", [200, 404])
def test_client_request_id_is_echoed(wire, status):
    sent = str(uuid.uuid4())
    target = "/Tables?$top=1" if status == 200 else "/Tables('nosuchtable0')"
    answer = check_status(wire.send("GET", target, headers={"x-ms-client-request-id": sent}), status)
    assert answer.header("x-ms-client-request-id") == sent


def test_client_request_id_is_not_invented(wire):
    assert wire.send("GET", "/Tables?$top=1").header("x-ms-client-request-id") is None


def test_client_request_id_bounds(wire):
    longest = "i" * 1024
    answer = check_status(wire.send("GET", "/Tables?$top=1", headers={"x-ms-client-request-id": longest}), 200)
    assert answer.header("x-ms-client-request-id") == longest
    assert check_refused(wire.send("GET", "/Tables", headers={"x-ms-client-request-id": longest + "i"})).status == 400


@pytest.mark.parametrize("version", ["2014-02-14", "2015-12-11", "2018-03-28", "2019-02-02", "2020-12-06", "2024-08-04"])
def test_version_is_echoed(wire, version):
    answer = check_status(wire.send("GET", "/Tables?$top=1", version=version), 200)
    assert answer.header("x-ms-version") == version


def test_data_service_version_is_optional(wire):
    answer = wire.send("GET", "/Tables?$top=1", headers={"DataServiceVersion": None})
    assert check_status(answer, 200).header("Content-Type") == STREAMING.format(MINIMAL)


def test_unknown_preference_is_ignored(place):
    answer = place.table.insert(NEW_ENTITY, headers={"Prefer": "respond-async"})
    check_status(answer, 201)
    assert answer.header("Preference-Applied") is None


@pytest.mark.parametrize("preference", ["return-no-content", "return-content"])
def test_prefer_on_a_read_changes_nothing(place, preference):
    answer = check_status(place.wire.send("GET", place.entity, headers={"Prefer": preference}), 200)
    assert answer.json()["A"] == 1


METHODS = {
    "put-set": ("PUT", "set"), "merge-set": ("MERGE", "set"), "patch-set": ("PATCH", "set"), "delete-set": ("DELETE", "set"),
    "post-entity": ("POST", "entity"), "put-tables": ("PUT", "tables"), "delete-tables": ("DELETE", "tables"),
    "merge-tables": ("MERGE", "tables"),
}


@pytest.mark.parametrize("name", METHODS)
def test_method_not_allowed(place, name):
    method, kind = METHODS[name]
    target = {"set": f"/{place.table.name}", "entity": place.entity, "tables": "/Tables"}[kind]
    body = None if method == "DELETE" else {"A": 1}
    check_problem(place.wire.send(method, target, body, headers=ANY), 405, "MethodNotAllowed")


TUNNEL = {"on-put": ("PUT", "MERGE", "XMethodNotUsingPost"), "on-get": ("GET", "MERGE", "XMethodNotUsingPost"),
          "unknown": ("POST", "FROBNICATE", "XMethodIncorrectValue")}


@pytest.mark.parametrize("name", TUNNEL)
def test_method_override_errors(place, name):
    method, override, code = TUNNEL[name]
    body = None if method == "GET" else {"A": 1}
    check_problem(place.wire.send(method, place.entity, body, headers={"X-HTTP-Method": override}), 400, code)


def test_method_override_given_twice(place):
    answer = place.wire.send("POST", place.entity, {"A": 1}, headers={"X-HTTP-Method": ["MERGE", "MERGE"]})
    check_problem(answer, 400, "XMethodIncorrectCount")


def test_method_override_delete(place):
    check_status(place.wire.send("POST", place.entity, headers={"X-HTTP-Method": "DELETE", **ANY}), 204)
    assert place.wire.send("GET", place.entity).status == 404


@pytest.mark.parametrize("verb, if_match", [("PUT", "*"), ("PUT", None), ("MERGE", "*"), ("PATCH", None)])
@pytest.mark.parametrize("prefer, status", [("return-no-content", 204), ("return-content", 200), (None, 204)])
def test_preference_of_a_replacement_or_merge(shared, key, verb, if_match, prefer, status):
    """Recorded for `return-no-content`, reported for the status and the entity of `return-content` (02 §4.3)."""
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "B": 2}), 201)
    answer = shared.write(verb, key, "r", {"A": 1}, if_match=if_match, headers={"Prefer": prefer})
    check_status(answer, status)
    assert answer.header("Preference-Applied") == prefer
    assert answer.header("Location") is None
    stored = shared.point(key, "r")
    assert answer.header("ETag") == stored.header("ETag")
    assert answer.body == (stored.body if status == 200 else b"")
    assert stored.json().get("B") == (None if verb == "PUT" else 2), "a merge keeps, and returns, what it did not send"


def test_a_deletion_has_no_preference(shared, key):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r"}), 201)
    answer = check_status(shared.delete(key, "r", headers={"Prefer": "return-no-content"}), 204)
    assert answer.header("Preference-Applied") is None
