"""Errors of the entity operations: status, code and literal message.

Source of the rules: 01 §3–§6, 02 §5, 06 §2 and §4.
"""

import base64

import pytest

from expect import INPUT_OUT_OF_RANGE, QUERY_SYNTAX, check_problem, check_refused, check_status, out_of_range

STALE = "W/\"datetime'2001-01-01T00%3A00%3A00.1234567Z'\""
NO_SUCH = ("no such", "entity")
UNIT = "x" * 32_768  # The longest string: 64 KiB.


def binary(size):
    return base64.b64encode(bytes(size)).decode("ascii")


def binary_property(name, size):
    return {name: binary(size), f"{name}@odata.type": "Edm.Binary"}


def many(count, start=0):
    return {f"P{i:03}": i for i in range(start, start + count)}


TOO_LARGE = {f"P{i:02}": UNIT for i in range(16)}
FIFTEEN_STRINGS = {f"P{i:02}": UNIT for i in range(15)}

WRITES = {
    "insert": ("POST", None),
    "update": ("PUT", "*"),
    "merge": ("MERGE", "*"),
    "patch": ("PATCH", "*"),
    "insert-or-replace": ("PUT", None),
    "insert-or-merge": ("MERGE", None),
    "insert-or-merge-patch": ("PATCH", None),
}


def write(table, operation, key, properties):
    """Writes the given properties with the given operation. An update or merge first inserts an entity to change."""
    verb, if_match = WRITES[operation]
    if verb == "POST":
        return table.insert({"PartitionKey": key, "RowKey": "r", **properties})
    if if_match:
        check_status(table.insert({"PartitionKey": key, "RowKey": "r"}), 201)
    return table.write(verb, key, "r", properties, if_match=if_match)


TOO_MUCH = {
    "253-properties": (many(253), "TooManyProperties"),
    "300-properties": (many(300), "TooManyProperties"),
    "name-of-256": ({"n" * 256: 1}, "PropertyNameTooLong"),
    "string-32769": ({"P": "x" * 32_769}, "PropertyValueTooLarge"),
    "string-32769-non-ascii": ({"P": "é" * 32_769}, "PropertyValueTooLarge"),
    "string-astral-32770": ({"P": "\U0001F600" * 16_385}, "PropertyValueTooLarge"),
    "binary-65537": (binary_property("P", 65_537), "PropertyValueTooLarge"),
    "entity-of-strings": (TOO_LARGE, "EntityTooLarge"),
    "binary-of-one-mib": (binary_property("P", 1_048_576), "EntityTooLarge"),
}


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("name", TOO_MUCH)
def test_limit_exceeded(shared, key, operation, name):
    properties, code = TOO_MUCH[name]
    check_problem(write(shared, operation, key, properties), 400, code, form="json")


WITHIN = {
    "252-properties": many(252),
    "name-of-255": {"n" * 255: 1},
    "name-of-255-non-ascii": {"é" * 255: 1},
    "string-32768": {"P": UNIT},
    "fifteen-strings": FIFTEEN_STRINGS,
    "name-underscore": {"_": 1, "_a9": 2},
    "name-letters": {"Ωmega": 1, "名前": 2},
    "null-does-not-count": {**many(252), "N": None},
}


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("name", WITHIN)
def test_limit_reached(shared, key, operation, name):
    check_status(write(shared, operation, key, WITHIN[name]), 201, 204)
    assert shared.stored(key, "r") == {k: v for k, v in WITHIN[name].items() if v is not None}


@pytest.mark.parametrize("verb", ["MERGE", "PATCH"])
def test_merge_result_exceeds_252_properties(shared, key, verb):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", **many(252)}), 201)
    check_status(shared.write(verb, key, "r", {"P000": 7, "Null": None}, if_match="*"), 204)
    check_problem(shared.write(verb, key, "r", {"One": 1}, if_match="*"), 400, "TooManyProperties", form="json")
    check_problem(shared.write(verb, key, "r", {"One": 1}), 400, "TooManyProperties", form="json")
    assert len(shared.stored(key, "r")) == 252


@pytest.mark.parametrize("if_match", ["*", None], ids=["merge", "insert-or-merge"])
def test_merge_result_exceeds_one_mib(shared, key, if_match):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", **FIFTEEN_STRINGS}), 201)
    answer = shared.write("MERGE", key, "r", {"More": UNIT}, if_match=if_match)
    check_problem(answer, 400, "EntityTooLarge", form="json")
    assert "More" not in shared.stored(key, "r")


def test_insert_existing(shared, key):
    entity = {"PartitionKey": key, "RowKey": "r", "A": 1}
    check_status(shared.insert(entity), 201)
    check_problem(shared.insert({**entity, "A": 2}), 409, "EntityAlreadyExists", form="json")
    assert shared.stored(key, "r") == {"A": 1}


MISSING_KEYS = {
    "no-partition-key": {"RowKey": "r"},
    "no-row-key": {"PartitionKey": "p"},
    "neither": {"A": 1},
    "nothing": {},
    "lower-case": {"partitionkey": "p", "rowkey": "r"},
}


@pytest.mark.parametrize("name", MISSING_KEYS)
def test_insert_without_keys(shared, name):
    check_problem(shared.insert(MISSING_KEYS[name]), 400, "PropertiesNeedValue", form="json")


@pytest.mark.parametrize("body", [{"PartitionKey": None, "RowKey": "r"}, {"PartitionKey": "p", "RowKey": None}],
                         ids=["partition-key", "row-key"])
def test_insert_with_null_key(shared, body):
    check_refused(shared.insert(body))


FORBIDDEN = {"solidus": "/", "backslash": "\\", "number-sign": "#", "question-mark": "?", "tab": "\t", "line-feed": "\n",
             "null": "\x00", "unit-separator": "\x1f", "delete": "\x7f", "next-line": "\x85", "c1-last": "\x9f"}


@pytest.mark.parametrize("which", ["PartitionKey", "RowKey"])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_insert_with_forbidden_character(shared, which, name):
    value = f"a{FORBIDDEN[name]}b"
    answer = shared.insert({"PartitionKey": "p", "RowKey": "r", which: value})
    if value[1] < " ":  # Control characters that XML forbids: only code and status are known.
        assert check_problem(answer, 400, "OutOfRangeInput", out_of_range(which, value)).form == "json"
    else:
        check_problem(answer, 400, "OutOfRangeInput", out_of_range(which, value), form="json")


ADDRESSED = {
    "get": ("GET", None, None),
    "update": ("PUT", {"A": 1}, "*"),
    "merge": ("MERGE", {"A": 1}, "*"),
    "patch": ("PATCH", {"A": 1}, "*"),
    "insert-or-replace": ("PUT", {"A": 1}, None),
    "insert-or-merge": ("MERGE", {"A": 1}, None),
    "delete": ("DELETE", None, "*"),
}


@pytest.mark.parametrize("operation", ADDRESSED)
@pytest.mark.parametrize("encoded", ["%2F", "%5C"], ids=["solidus", "backslash"])
def test_address_with_separator_in_key(wire, shared, operation, encoded):
    verb, body, if_match = ADDRESSED[operation]
    answer = wire.send(verb, f"/{shared.name}(PartitionKey='a{encoded}b',RowKey='r')", body, headers={"If-Match": if_match})
    check_problem(answer, 400, "InvalidInput", QUERY_SYNTAX, form="json")


@pytest.mark.parametrize("operation", ADDRESSED)
@pytest.mark.parametrize("encoded", ["%23", "%3F", "%C2%80", "%C2%9F"],
                         ids=["number-sign", "question-mark", "u0080", "u009f"])
def test_address_with_forbidden_character(wire, shared, operation, encoded):
    verb, body, if_match = ADDRESSED[operation]
    answer = wire.send(verb, f"/{shared.name}(PartitionKey='p',RowKey='a{encoded}b')", body, headers={"If-Match": if_match})
    check_problem(answer, 400, "OutOfRangeInput", INPUT_OUT_OF_RANGE, form="json")


@pytest.mark.parametrize("operation", ADDRESSED)
@pytest.mark.parametrize("encoded", ["%00", "%09", "%0A", "%1F", "%7F"])
def test_address_with_control_character(wire, shared, operation, encoded):
    verb, body, if_match = ADDRESSED[operation]
    answer = wire.send(verb, f"/{shared.name}(PartitionKey='a{encoded}b',RowKey='r')", body, headers={"If-Match": if_match})
    assert answer.status == 400


CONDITIONED = {
    "get": ("GET", None, None),
    "update-any": ("PUT", {"A": 1}, "*"),
    "update-etag": ("PUT", {"A": 1}, STALE),
    "merge-any": ("MERGE", {"A": 1}, "*"),
    "merge-etag": ("MERGE", {"A": 1}, STALE),
    "patch-any": ("PATCH", {"A": 1}, "*"),
    "patch-etag": ("PATCH", {"A": 1}, STALE),
    "delete-any": ("DELETE", None, "*"),
    "delete-etag": ("DELETE", None, STALE),
}


@pytest.mark.parametrize("operation", CONDITIONED)
def test_missing_entity(shared, operation):
    verb, body, if_match = CONDITIONED[operation]
    check_problem(shared.write(verb, *NO_SUCH, body, if_match=if_match), 404, "ResourceNotFound", form="json")


@pytest.mark.parametrize("if_match", ["*", STALE], ids=["any", "etag"])
def test_missing_entity_tunnelled_merge(shared, if_match):
    answer = shared.write("POST", *NO_SUCH, {"A": 1}, if_match=if_match, headers={"X-HTTP-Method": "MERGE"})
    check_problem(answer, 404, "ResourceNotFound", form="json")


@pytest.mark.parametrize("operation", [name for name in CONDITIONED if name.endswith("etag")])
def test_stale_etag(shared, key, operation):
    verb, body, if_match = CONDITIONED[operation]
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "Old": 1}), 201)
    answer = shared.write(verb, key, "r", body, if_match=if_match)
    check_problem(answer, 412, "UpdateConditionNotSatisfied", form="json")
    assert shared.stored(key, "r") == {"Old": 1}


def test_stale_etag_tunnelled_merge(shared, key):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "Old": 1}), 201)
    answer = shared.write("POST", key, "r", {"A": 1}, if_match=STALE, headers={"X-HTTP-Method": "MERGE"})
    check_problem(answer, 412, "UpdateConditionNotSatisfied", form="json")


def test_insert_with_long_key(shared):
    answer = shared.insert({"PartitionKey": "k" * 2048, "RowKey": "r"})
    check_problem(answer, 400, "PropertyValueTooLarge", form="json")
    answer = shared.insert({"PartitionKey": "p", "RowKey": "k" * 2048})
    check_problem(answer, 400, "PropertyValueTooLarge", form="json")


@pytest.mark.parametrize("operation", CONDITIONED)
def test_long_key_in_address_is_not_found(shared, operation):
    verb, body, if_match = CONDITIONED[operation]
    answer = shared.write(verb, "k" * 2048, "r", body, if_match=if_match)
    check_problem(answer, 404, "ResourceNotFound", form="json")


@pytest.mark.parametrize("verb", ["PUT", "MERGE"])
def test_upsert_with_long_key(shared, verb):
    check_refused(shared.write(verb, "k" * 2048, "r", {"A": 1}))


BAD_ADDRESSES = ["(PartitionKey='p',RowKey='r)", "(PartitionKey='p';RowKey='r')", "(PartitionKey='p',RowKey=r)",
                 "(PartitionKey='p',RowKey='a'b')", "(RowKey='r')", "('p')", "('p','r')",
                 "(PartitionKey='p',RowKey='r'", "(PartitionKey='p',RowKey='r',X='y')"]


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_malformed_address(wire, shared, address):
    check_refused(wire.send("GET", f"/{shared.name}{address}"))


@pytest.mark.parametrize("keys", ["PartitionKey='p',RowKey='a'b'", "PartitionKey='p',RowKey='r"])
def test_broken_quotes_in_address(wire, shared, keys):
    message = f"There is an unterminated string literal at position {len(keys)} in '{keys}'."
    check_problem(wire.send("GET", f"/{shared.name}({keys})"), 400, "InvalidInput", message, form="json")


@pytest.mark.parametrize("name", ["a-b", "9a", "a b", "", "a.b", "a'b", "a/b"])
def test_property_name_invalid(shared, key, name):
    check_refused(shared.insert({"PartitionKey": key, "RowKey": "r", name: 1}))


def test_duplicate_property_is_refused(shared, key):
    check_refused(shared.insert(f'{{"PartitionKey":"{key}","RowKey":"r","A":1,"A":2}}'))
