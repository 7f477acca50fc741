"""The filter language: the specification's examples, literals, precedence, mismatch, promotion (04 §2, §3, §8)."""

import pytest

from batch_body import fill
from conftest import create_table, delete_table, unique_name
from expect import check_refused, check_status
from wire import NONE

GUID_LOW = "0b0c0d0e-1111-4222-8333-444455556666"
GUID_HIGH = "fb0c0d0e-1111-4222-8333-444455556666"


@pytest.fixture(scope="module")
def examples(shared):
    """Inserts the entities of 04 §8: one property A of several types in partition 'examples'."""
    fill(shared, [
        {"PartitionKey": "examples", "RowKey": "1", "A": 3},
        {"PartitionKey": "examples", "RowKey": "2", "A": "3"},
        {"PartitionKey": "examples", "RowKey": "3"},
        {"PartitionKey": "examples", "RowKey": "4", "A": "3", "A@odata.type": "Edm.Int64"},
        {"PartitionKey": "examples", "RowKey": "5", "A": 2.5},
        {"PartitionKey": "examples", "RowKey": "6", "A": True},
    ])
    return lambda text: "".join(shared.row_keys(f"PartitionKey eq 'examples' and ({text})"))


EXAMPLES = {
    "A eq 3": "14",
    "A ne 3": "256",
    "A lt 3": "256",
    "A le 3L": "12456",
    "A gt 2": "145",
    "A gt 2.0": "5",
    "not (A eq 3)": "2356",
    "A": "6",
    "A eq '3'": "2",
    "A ge true": "6",
    "A ge false": "6",
    # More cases of the same rules.
    "A eq 3L": "4",
    "A ne 3L": "1256",
    "A eq 3.0": "",
    "A ne 3.0": "12456",
    "A eq true": "6",
    "A ne true": "1245",
    "A lt '3'": "1456",
    "A ge '3'": "2",
    "A eq 2.5": "5",
    "A ge 2.5": "5",
    "A le 2.5": "12456",
    "A eq datetime'2024-01-01T00:00:00Z'": "",
    "A ne datetime'2024-01-01T00:00:00Z'": "12456",
    f"A lt guid'{GUID_LOW}'": "12456",
    "A gt X'00'": "",
    "Missing eq 1": "",
    "Missing ne 1": "",
    "Missing lt 1": "",
    "Missing ge 1": "",
    "not (Missing eq 1)": "123456",
    "not (Missing ne 1)": "123456",
    "a eq 3": "",
    "not (a eq 3)": "123456",
    "A and RowKey eq '6'": "6",
    "A or RowKey eq '1'": "16",
    "Missing": "",
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_worked_example(examples, text):
    assert examples(text) == EXAMPLES[text]


SHAPES = {
    "A eq 3 or A eq '3' and RowKey eq '2'": "124",
    "(A eq 3 or A eq '3') and RowKey eq '2'": "2",
    "RowKey eq '1' or RowKey eq '2' or RowKey eq '3'": "123",
    "RowKey eq '1' and A eq 3 or RowKey eq '5' and A eq 2.5": "15",
    "(RowKey eq '1')or(RowKey eq '2')": "12",
    "(A eq 3)and(RowKey eq '1')": "1",
    "not(A eq 3)": "2356",
    "not  (A eq 3)": "2356",
    "not (A eq 3) and RowKey lt '4'": "23",
    "not (A eq 3 or A eq '3')": "356",
    "not (not (A eq 3))": "14",
    "not(not(A eq 3))and(RowKey eq '4')": "4",
    "A eq 3 and not (RowKey eq '1')": "4",
    "((((A eq 3))))": "14",
    "( A eq 3 )": "14",
    "  A   eq   3  ": "14",
    "3 eq A": "14",
    "3 lt A": "",
    "2 lt A": "145",
    "2 ge A": "26",
    "'3' eq A": "2",
    "true eq A": "6",
    "RowKey ge '2' and RowKey le '4'": "234",
    "RowKey gt '2' and RowKey lt '4'": "3",
    "RowKey ne '2' and RowKey ne '4'": "1356",
    "RowKey eq '1' and RowKey eq '2'": "",
    "RowKey lt '2' or RowKey gt '5'": "16",
}


@pytest.mark.parametrize("text", SHAPES)
def test_precedence_blanks_and_shapes(examples, text):
    assert examples(text) == SHAPES[text]


@pytest.mark.parametrize("text", ["not A eq 3"])
def test_not_before_a_bare_comparison(shared, text):
    """It is not known whether the real service treats this like `not (A eq 3)` or returns an error."""
    check_status(shared.query({"$filter": text}), 200, 400, 501)


def test_many_comparisons(examples):
    text = " or ".join(["RowKey eq 'none'"] * 60 + ["RowKey eq '3'"])
    assert examples(text) == "3"


def test_deep_parentheses(shared, examples):
    assert examples("(" * 20 + "A eq 3" + ")" * 20) == "14"
    answer = shared.query({"$filter": "(" * 3000 + "A eq 3" + ")" * 3000})
    assert answer.status < 500 or answer.status == 501


def entity(row_key, **properties):
    return {"PartitionKey": "types", "RowKey": row_key, **properties}


@pytest.fixture(scope="module")
def types(wire):
    """Inserts two or three values of each type, ascending, each in its own property."""
    table = create_table(wire, unique_name())
    values = {
        "Int32": ([-5, 0, 7], None),
        "Int64": (["-9007199254740993", "7", "9007199254740993"], "Edm.Int64"),
        "Double": ([-2.5, 7.0, 1e300], None),
        "String": (["", "B", "b", "bB", "é"], None),
        "Boolean": ([False, True], None),
        "DateTime": (["1601-01-01T00:00:00Z", "2024-01-02T03:04:05.1234567Z", "9999-12-31T23:59:59.9999999Z"], "Edm.DateTime"),
        "Guid": ([GUID_LOW, GUID_HIGH], "Edm.Guid"),
        "Binary": (["", "AA==", "AAE=", "/w=="], "Edm.Binary"),
    }
    entities = []
    for name, (items, edm_type) in values.items():
        for number, item in enumerate(items):
            annotation = {f"{name}@odata.type": edm_type} if edm_type else {}
            entities.append(entity(f"{name}{number}", **{name: item}, **annotation))
    entities += [entity("Nan", Special="NaN", **{"Special@odata.type": "Edm.Double"}),
                 entity("Quote", Text="O'Neil"), entity("Letters", Größe=1, _x9=2)]
    fill(table, entities)
    yield table
    delete_table(wire, table.name)


LITERALS = {
    "Int32 eq -5": "Int320",
    "Int32 eq 0": "Int321",
    "Int32 ge 0": "Int321 Int322",
    "Int32 lt 7": "Int320 Int321",
    "Int64 eq 7": "Int641",
    "Int64 eq 7L": "Int641",
    "Int64 gt 7": "Int642",
    "Int64 eq 9007199254740993L": "Int642",
    "Int64 eq 9007199254740992L": "",
    "Int64 lt -7L": "Int640",
    "Int64 eq -9007199254740993L": "Int640",
    "Double eq 7": "Double1",
    "Double eq 7.0": "Double1",
    "Double eq 7D": "Double1",
    "Double eq 7.0d": "Double1",
    "Double eq 0.7e1": "Double1",
    "Double eq -2.5": "Double0",
    "Double gt 7": "Double2",
    "Double eq 1e300": "Double2",
    "Double ge -25e-1": "Double0 Double1 Double2",
    "String eq ''": "String0",
    "String gt 'B'": "String2 String3 String4",
    "String ge 'b' and String lt 'c'": "String2 String3",
    "String eq 'é'": "String4",
    "Text eq 'O''Neil'": "Quote",
    "Boolean": "Boolean1",
    "Boolean eq false": "Boolean0",
    "Boolean lt true": "Boolean0",
    "Boolean ge false": "Boolean0 Boolean1",
    "DateTime eq datetime'2024-01-02T03:04:05.1234567Z'": "DateTime1",
    "DateTime eq datetime'2024-01-02T03:04:05.1234567'": "DateTime1",
    "DateTime eq datetime'2024-01-02T04:04:05.1234567+01:00'": "DateTime1",
    "DateTime gt datetime'2024-01-02T03:04:05.1234566Z'": "DateTime1 DateTime2",
    "DateTime le datetime'1601-01-01T00:00:00Z'": "DateTime0",
    "DateTime le datetime'1601-01-01T00:00'": "DateTime0",
    "DateTime eq datetime'9999-12-31T23:59:59.9999999Z'": "DateTime2",
    f"Guid eq guid'{GUID_LOW}'": "Guid0",
    f"Guid eq guid'{GUID_LOW.upper()}'": "Guid0",
    f"Guid ne guid'{GUID_LOW}'": "Guid1",
    f"Guid ge guid'{GUID_LOW}'": "Guid0 Guid1",
    f"Guid gt guid'{GUID_LOW}'": "Guid1",
    "Binary eq X'0001'": "Binary2",
    "Binary eq x'0001'": "Binary2",
    "Binary eq binary'0001'": "Binary2",
    "Binary eq X'fF'": "Binary3",
    "Binary eq X''": "Binary0",
    "Binary gt X'00'": "Binary2 Binary3",
    "Binary le X'0001'": "Binary0 Binary1 Binary2",
    "Größe eq 1": "Letters",
    "_x9 eq 2": "Letters",
    "Int32 eq 7L": "",
    "Int32 ne 7L": "Int320 Int321 Int322",
    "Int32 eq 7.0": "",
    "Int32 ge 7.0": "",
    "Int64 eq 7.0": "",
    "Int64 le 7.0": "Int640 Int641 Int642",
    "String eq 7": "",
    "String ne 7": "String0 String1 String2 String3 String4",
    "DateTime lt '2024'": "DateTime0 DateTime1 DateTime2",
    "DateTime ge '2024'": "",
    "Guid eq 'x'": "",
    "Binary ne true": "Binary0 Binary1 Binary2 Binary3",
}


@pytest.mark.parametrize("text", LITERALS)
def test_literal(types, text):
    assert types.row_keys(text) == LITERALS[text].split()


LITERAL_OF = {
    "Int32": "7", "Int64": "7L", "Double": "7.5", "String": "'B'", "Boolean": "true",
    "DateTime": "datetime'2024-01-02T03:04:05.1234567Z'", "Guid": f"guid'{GUID_LOW}'", "Binary": "X'00'",
}
PROMOTED = {("Int64", "Int32"), ("Double", "Int32"), ("Double", "Int64")}
MISMATCHES = [(p, lit) for p in LITERAL_OF for lit in LITERAL_OF if p != lit and (p, lit) not in PROMOTED]


@pytest.mark.parametrize("operator, selected", [("eq", 0), ("ne", 1), ("lt", 1), ("le", 1), ("gt", 0), ("ge", 0)])
@pytest.mark.parametrize("pair", MISMATCHES, ids=lambda pair: "-".join(pair))
def test_mismatch_counts_as_smaller(types, pair, operator, selected):
    name, literal_type = pair
    everything = [k for k in types.row_keys("PartitionKey eq 'types'") if k.startswith(name) and k[len(name):].isdigit()]
    wanted = everything if selected else []
    assert types.row_keys(f"{name} {operator} {LITERAL_OF[literal_type]}") == wanted


@pytest.mark.parametrize("word, value", [("true", True), ("True", True), ("TRUE", True), ("False", False), ("fALSE", False)])
def test_boolean_literals_in_any_case(shared, key, word, value):
    shared.insert({"PartitionKey": key, "RowKey": "1", "A": value})
    shared.insert({"PartitionKey": key, "RowKey": "2", "A": not value})
    found = shared.query({"$filter": f"PartitionKey eq '{key}' and A eq {word}"}).json()["value"]
    assert [entity["RowKey"] for entity in found] == ["1"]


def test_the_entities_of_a_partition_by_its_address(wire, shared, key):
    """The log tail pattern of the table design guide: `table(PartitionKey='…')?$top=…`."""
    for row_key in ("1", "2", "3"):
        shared.insert({"PartitionKey": f"{key}'s", "RowKey": row_key, "A": int(row_key)})
    shared.insert({"PartitionKey": f"{key}'s more", "RowKey": "4", "A": 4})
    address = f"/{shared.name}(PartitionKey='{key}''s')"
    rows = lambda answer: [entity["RowKey"] for entity in check_status(answer, 200).json()["value"]]
    assert rows(wire.send("GET", address)) == ["1", "2", "3"]
    assert rows(wire.send("GET", f"{address}?$filter=A%20gt%201&$select=RowKey")) == ["2", "3"]
    assert rows(wire.send("GET", f"{address}?$filter=PartitionKey%20eq%20'other'")) == []
    page = wire.send("GET", f"{address}?$top=2")
    assert rows(page) == ["1", "2"]
    tokens = "&".join(f"{name}={page.header(f'x-ms-continuation-{name}')}" for name in ("NextPartitionKey", "NextRowKey"))
    assert rows(wire.send("GET", f"{address}?$top=2&{tokens}")) == ["3"]
    for method in ("POST", "PUT", "DELETE"):
        check_refused(wire.send(method, address, {} if method != "DELETE" else None))


def test_nan_is_equal_to_nothing(types):
    for text in ("Special eq 1.0", "Special gt 1.0", "Special le 1.0"):
        assert types.row_keys(text) == []
    assert types.row_keys("Special ne 1.0") == ["Nan"]


def test_timestamp(types):
    everything = types.row_keys("PartitionKey eq 'types'")
    assert types.row_keys("Timestamp gt datetime'2001-01-01T00:00:00Z'") == everything
    assert types.row_keys("Timestamp lt datetime'2001-01-01T00:00:00Z'") == []
    stamp = types.point("types", "Nan").json()["Timestamp"]
    assert "Nan" in types.row_keys(f"Timestamp eq datetime'{stamp}'")
    assert "Nan" not in types.row_keys(f"Timestamp gt datetime'{stamp}' and RowKey eq 'Nan'")


ENCODINGS = {
    "percent-blanks": "?$filter=RowKey%20eq%20'Nan'",
    "plus-blanks": "?$filter=RowKey+eq+'Nan'",
    "encoded-option-name": "?%24filter=RowKey%20eq%20%27Nan%27",
    "with-unknown-option": "?foo=bar&$filter=RowKey%20eq%20'Nan'&x",
    "with-timeout": "?timeout=30&$filter=RowKey%20eq%20'Nan'",
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_query_string_encoding(wire, types, name):
    answer = check_status(wire.send("GET", f"/{types.name}()" + ENCODINGS[name], accept=NONE), 200)
    assert [e["RowKey"] for e in answer.json()["value"]] == ["Nan"]


def test_plus_in_a_literal_must_be_encoded(wire, shared, key):
    fill(shared, [{"PartitionKey": key, "RowKey": "a+b"}, {"PartitionKey": key, "RowKey": "a b"}])
    for spelling, wanted in (("a+b", "a b"), ("a%2Bb", "a+b"), ("a%20b", "a b")):
        target = f"/{shared.name}()?$filter=PartitionKey+eq+'{key}'+and+RowKey+eq+'{spelling}'"
        assert [e["RowKey"] for e in wire.send("GET", target, accept=NONE).json()["value"]] == [wanted]


def test_empty_filter_is_absent(wire, shared, examples):
    del examples
    plain = wire.send("GET", f"/{shared.name}()", accept=NONE).json()
    assert wire.send("GET", f"/{shared.name}()?$filter=", accept=NONE).json() == plain


@pytest.mark.parametrize("value", ["/a/b", "a\\b", "a#b?c", "100%", "a&b=c", "日本", "\U0001F600", "'", "''", "line\nfeed"])
def test_any_character_in_a_string_literal(shared, key, value):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "Text": value}), 201)
    literal = value.replace("'", "''")
    assert shared.row_keys(f"PartitionKey eq '{key}' and Text eq '{literal}'") == ["r"]
    assert shared.row_keys(f"PartitionKey eq '{key}' and Text ne '{literal}'") == []


def test_key_equality_gives_a_set(shared, key):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r"}), 201)
    for row_key, count in (("r", 1), ("absent", 0)):
        answer = shared.query({"$filter": f"PartitionKey eq '{key}' and RowKey eq '{row_key}'"})
        assert len(check_status(answer, 200).json()["value"]) == count
        assert answer.header("ETag") is None
