"""Keys: allowed characters, their form in URLs, and the order of a listing (01 §3, 02 §1, 07 §6)."""

import urllib.parse

import pytest

from expect import INPUT_NOT_VALID, check_problem, check_status
from wire import NONE, encode_key

KEYS = {
    "blank": "a b",
    "leading-and-trailing-blanks": " a ",
    "only-blank": " ",
    "quote": "O'Neil",
    "quotes": "''",
    "double-quote": 'say "x"',
    "percent": "100%",
    "percent-escape": "a%20b",
    "percent-quote": "%27",
    "plus": "a+b",
    "ampersand": "a&b=c",
    "parentheses": "f(x),g(y)",
    "backtick": "a`b",
    "punctuation": "!*$@:;,=~._-|^{}[]<>",
    "non-ascii": "Söhne",
    "cjk": "日本語",
    "decomposed": "e\u0301",
    "composed": "é",
    "astral": "\U0001F600",
    "private-use": "\ue000\uffff",
    "no-break-space": "\u00a0",
    "empty": "",
    "longest": "k" * 512,
    "longest-non-ascii": "é" * 512,
    "longest-astral": "\U0001F600" * 256,
    "keyword": "RowKey eq 'x'",
}


def javascript_form(text):
    """Returns a key as the JavaScript client percent-encodes it: it does not encode doubled quotes."""
    return urllib.parse.quote(text.replace("'", "''"), safe="!'()*")


def least_form(text):
    """Returns a key in which only the characters that a path must not contain are encoded."""
    return urllib.parse.quote(text.replace("'", "''"), safe="!'()*+,:;=@$&~._-")


def location_form(text):
    """Returns a key as the service writes it into a URL: doubled quotes are not encoded."""
    return urllib.parse.quote(text.replace("'", "''"), safe="'")


@pytest.mark.parametrize("name", KEYS)
def test_client_round_trip(client, name):
    value = KEYS[name]
    client.create_entity({"PartitionKey": value, "RowKey": value, "A": 1})
    client.upsert_entity({"PartitionKey": value, "RowKey": value, "A": 2})
    entity = client.get_entity(value, value)
    assert (entity["PartitionKey"], entity["RowKey"], entity["A"]) == (value, value, 2)
    parameters = {"key": value}
    [queried] = client.query_entities("PartitionKey eq @key and RowKey eq @key", parameters=parameters)
    assert queried["RowKey"] == value
    client.delete_entity(value, value)
    assert list(client.list_entities()) == []


@pytest.mark.parametrize("form", [encode_key, javascript_form, least_form], ids=["python", "javascript", "least"])
@pytest.mark.parametrize("name", KEYS)
def test_every_percent_encoding_reaches_the_same_entity(wire, shared, key, form, name):
    check_status(shared.insert({"PartitionKey": key, "RowKey": KEYS[name], "A": 1}), 201)
    address = f"/{shared.name}(PartitionKey='{form(key)}',RowKey='{form(KEYS[name])}')"
    for scheme in ("SharedKey", "SharedKeyLite"):
        answer = check_status(wire.send("GET", address, scheme=scheme), 200)
        assert answer.json()["RowKey"] == KEYS[name]


@pytest.mark.parametrize("name", [n for n in KEYS if n not in ("parentheses", "punctuation")])
def test_location_spelling(wire, shared, key, name):
    created = check_status(shared.insert({"PartitionKey": key, "RowKey": KEYS[name]}), 201)
    wanted = f"{wire.base}/{shared.name}(PartitionKey='{key}',RowKey='{location_form(KEYS[name])}')"
    assert created.header("Location") == wanted


def test_location_of_recorded_escapes(wire, shared, key):
    created = check_status(shared.insert({"PartitionKey": key, "RowKey": 'a b\'c"$&+,:=@é'}), 201)
    wanted = "a%20b''c%22%24%26%2B%2C%3A%3D%40%C3%A9"
    assert created.header("Location") == f"{wire.base}/{shared.name}(PartitionKey='{key}',RowKey='{wanted}')"


TOLERATED = {
    "blank-after-comma": "(PartitionKey='{p}',%20RowKey='r')",
    "blanks-around-equals": "(PartitionKey%20=%20'{p}',RowKey%20=%20'r')",
    "encoded-quotes": "(PartitionKey=%27{p}%27,RowKey=%27r%27)",
}


@pytest.mark.parametrize("name", TOLERATED)
def test_tolerated_address_spelling(wire, shared, key, name):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r"}), 201)
    check_status(wire.send("GET", f"/{shared.name}" + TOLERATED[name].format(p=key)), 200)


def test_hex_digits_in_either_case(wire, shared, key):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "é"}), 201)
    for spelling in ("%C3%A9", "%c3%a9"):
        check_status(wire.send("GET", f"/{shared.name}(PartitionKey='{key}',RowKey='{spelling}')"), 200)


@pytest.mark.parametrize("pair", [("a", "A"), ("é", "e\u0301"), ("a", "a "), ("a+b", "a b"), ("a%20b", "a b"), ("", " ")],
                         ids=["case", "normal-form", "trailing-blank", "plus", "escape", "empty"])
def test_keys_are_compared_exactly(shared, key, pair):
    for number, row_key in enumerate(pair):
        check_status(shared.insert({"PartitionKey": key, "RowKey": row_key, "N": number}), 201)
    for number, row_key in enumerate(pair):
        assert shared.stored(key, row_key) == {"N": number}


# In UTF-16 code units, the supplementary characters (D800…) sort before U+E000…U+FFFF; in UTF-8 bytes, they sort after
# them.
ORDERED = ["", " ", "!", '"', "'", "+", "0", "1", "10", "2", "A", "AB", "B", "Z", "_", "`", "a", "a ", "a b", "aa", "b",
           "~", "\u00a0", "ß", "é", "é", "日", "\ud7ff", "\U00010000", "\U0001F600", "\U0010FFFF", "\ue000", "\uffff"]


def utf16(text):
    return text.encode("utf-16-be")


def test_order_of_row_keys_is_ordinal_utf16(table):
    keys = sorted(set(ORDERED), key=utf16)
    for row_key in reversed(keys):
        check_status(table.insert({"PartitionKey": "p", "RowKey": row_key}), 201)
    assert table.row_keys("PartitionKey eq 'p'") == keys
    assert [e["RowKey"] for e in table.query(accept=NONE).json()["value"]] == keys


def test_order_of_partition_keys_is_ordinal_utf16(table):
    keys = sorted(set(ORDERED), key=utf16)
    for partition_key in reversed(keys):
        for row_key in ("b", "", "a"):
            check_status(table.insert({"PartitionKey": partition_key, "RowKey": row_key}), 201)
    listed = [(e["PartitionKey"], e["RowKey"]) for e in table.query(accept=NONE).json()["value"]]
    assert listed == [(partition_key, row_key) for partition_key in keys for row_key in ("", "a", "b")]


@pytest.mark.parametrize("bound", ["a", "é", "\U0001F600", "\ue000", ""])
def test_range_follows_the_same_order(table, bound):
    keys = sorted(set(ORDERED), key=utf16)
    for row_key in keys:
        check_status(table.insert({"PartitionKey": "p", "RowKey": row_key}), 201)
    literal = bound.replace("'", "''")
    below = [k for k in keys if utf16(k) < utf16(bound)]
    assert table.row_keys(f"PartitionKey eq 'p' and RowKey lt '{literal}'") == below
    assert table.row_keys(f"PartitionKey eq 'p' and RowKey ge '{literal}'") == keys[len(below):]


TYPED_KEYS = {
    "date": ("Edm.DateTime", "2003-09-27T09:52:43.000000Z"),
    "guid": ("Edm.Guid", "0B0C0D0E-1111-4222-8333-444455556666"),
    "binary": ("Edm.Binary", "YmluYXJ5ZGF0YQ=="),
    "number": ("Edm.Int64", "0123"),
    "string": ("Edm.String", "text"),
}


@pytest.mark.parametrize("name", TYPED_KEYS)
@pytest.mark.parametrize("verb, if_match", [("PUT", None), ("PUT", "*"), ("MERGE", None), ("PATCH", "*")])
def test_keys_that_the_body_declares_with_a_type(shared, key, verb, if_match, name):
    """The key is the literal string, as in the URL. The Python client declares types for such keys."""
    edm_type, text = TYPED_KEYS[name]
    check_status(shared.write("PUT", key, text, {"A": 0}), 204)
    body = {"PartitionKey": key, "RowKey": text, "RowKey@odata.type": edm_type, "A": 1}
    check_status(shared.write(verb, key, text, body, if_match=if_match), 204)
    entity = check_status(shared.point(key, text), 200).json()
    assert (entity["RowKey"], entity["A"]) == (text, 1)


@pytest.mark.parametrize("name", TYPED_KEYS)
def test_inserted_keys_are_strings(shared, key, name):
    edm_type, text = TYPED_KEYS[name]
    answer = shared.insert({"PartitionKey": key, "RowKey": text, "RowKey@odata.type": edm_type})
    if edm_type == "Edm.String":
        check_status(answer, 201)
    else:
        check_problem(answer, 400, "InvalidInput", INPUT_NOT_VALID, form="json")
        assert answer.header("Cache-Control") is None
