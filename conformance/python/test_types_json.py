"""EDM types at their limits through raw JSON, at every metadata level. Compares the text of the response member by
member.

Source of the rules: 01 §6 (types), 03 §3.4 (annotations by level), 03 §3.6 (representation).
"""

import base64
import json
import math
from decimal import Decimal

import pytest

from expect import PROCESSING, check_problem, check_refused, check_status, out_of_range
from wire import FULL, MINIMAL, NONE

LEVELS = [pytest.param(NONE, id="none"), pytest.param(MINIMAL, id="minimal"), pytest.param(FULL, id="full")]
LARGEST_STRING = 32_768
LARGEST_BINARY = 65_536


def entity_text(key, members):
    keys = f'"PartitionKey":{json.dumps(key)},"RowKey":"r"'
    return "{" + keys + ("," + members if members else "") + "}"


def custom_members(answer):
    """Returns the text of the custom properties: everything after the Timestamp member."""
    before, separator, rest = answer.text.partition('"Timestamp":"')
    assert separator, answer.text
    return rest.partition('"')[2].removesuffix("}").removeprefix(",")


def annotated(edm_type, value):
    return f'"P@odata.type":"{edm_type}","P":{value}'


# The members as sent, and as returned with minimal and with full metadata. Without metadata, the annotation is missing.
EXACT = {
    "int32-min": ('"P":-2147483648', '"P":-2147483648'),
    "int32-max": ('"P":2147483647', '"P":2147483647'),
    "int32-zero": ('"P":0', '"P":0'),
    "int32-annotated": (annotated("Edm.Int32", "7"), '"P":7'),
    "int64-min": (annotated("Edm.Int64", '"-9223372036854775808"'), annotated("Edm.Int64", '"-9223372036854775808"')),
    "int64-max": (annotated("Edm.Int64", '"9223372036854775807"'), annotated("Edm.Int64", '"9223372036854775807"')),
    "int64-small": (annotated("Edm.Int64", '"-5"'), annotated("Edm.Int64", '"-5"')),
    "boolean-true": ('"P":true', '"P":true'),
    "boolean-false": ('"P":false', '"P":false'),
    "double-fraction": ('"P":981.5', '"P":981.5'),
    "double-integral": ('"P":5.0', '"P":5.0'),
    "double-negative-integral": ('"P":-3.0', '"P":-3.0'),
    "double-annotated-integer": (annotated("Edm.Double", "5"), '"P":5.0'),
    "double-negative-zero": ('"P":-0.0', '"P":0.0'),
    "double-nan": (annotated("Edm.Double", '"NaN"'), annotated("Edm.Double", '"NaN"')),
    "double-infinity": (annotated("Edm.Double", '"Infinity"'), annotated("Edm.Double", '"Infinity"')),
    "double-negative-infinity": (annotated("Edm.Double", '"-Infinity"'), annotated("Edm.Double", '"-Infinity"')),
    "guid": (annotated("Edm.Guid", '"0b0c0d0e-1111-4222-8333-444455556666"'),
             annotated("Edm.Guid", '"0b0c0d0e-1111-4222-8333-444455556666"')),
    "guid-upper-case": (annotated("Edm.Guid", '"0B0C0D0E-ABCD-4222-8333-444455556666"'),
                        annotated("Edm.Guid", '"0b0c0d0e-abcd-4222-8333-444455556666"')),
    "binary-empty": (annotated("Edm.Binary", '""'), annotated("Edm.Binary", '""')),
    "binary-padding": (annotated("Edm.Binary", '"AQIDBA=="'), annotated("Edm.Binary", '"AQIDBA=="')),
    "string-annotated": (annotated("Edm.String", '"x"'), '"P":"x"'),
    "string-empty": ('"P":""', '"P":""'),
    "string-like-date": ('"P":"2024-05-06T07:08:09Z"', '"P":"2024-05-06T07:08:09Z"'),
    "string-like-guid": ('"P":"0b0c0d0e-1111-4222-8333-444455556666"', '"P":"0b0c0d0e-1111-4222-8333-444455556666"'),
    "string-quotes": (r'"P":"a\"b\\c/d\u0027<>&"', '"P":"a\\"b\\\\c/d\'<>&"'),
    "string-unescaped-solidus": (r'"P":"a\/b"', '"P":"a/b"'),
    "null-dropped": ('"P":null', ""),
    "null-annotated-dropped": (annotated("Edm.Int64", "null"), ""),
    "annotation-after-value": ('"P":"12","P@odata.type":"Edm.Int64"', annotated("Edm.Int64", '"12"')),
    "annotation-without-value": ('"Q@odata.type":"Edm.Int64","P":1', '"P":1'),
    "foreign-annotations": ('"odata.type":"x","odata.id":"y","odata.editLink":"z","odata.etag":"w","odata.metadata":"v",'
                            '"P@odata.type@odata.type":"Edm.String","P":"1"', '"P":"1"'),
    "timestamp-ignored": ('"Timestamp":"2001-01-01T00:00:00Z","P":1', '"P":1'),
    "timestamp-ignored-annotated": ('"Timestamp@odata.type":"Edm.DateTime","Timestamp":"2001-01-01T00:00:00Z","P":1', '"P":1'),
    "key-annotated": ('"PartitionKey@odata.type":"Edm.String","P":1', '"P":1'),
    "lower-case-key-names": ('"partitionkey":"a","rowkey":"b","timestamp":"c"', '"partitionkey":"a","rowkey":"b","timestamp":"c"'),
    "names-differ-by-case": ('"p":1,"P":2', '"p":1,"P":2'),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_text(shared, key, name, level):
    sent, returned = EXACT[name]
    created = check_status(shared.insert(entity_text(key, sent), accept=level), 201)
    wanted = returned
    if level == NONE and returned.startswith('"P@odata.type"'):
        wanted = returned.partition(",")[2]
    assert custom_members(created) == wanted
    assert custom_members(shared.point(key, "r", accept=level)) == wanted


# The value sent and the value returned (01 §6.1).
DATES = {
    "first": ("1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"),
    "first-tick": ("1601-01-01T00:00:00.0000001Z", "1601-01-01T00:00:00.0000001Z"),
    "last": ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
    "seven-digits": ("2024-05-06T07:08:09.1234567Z", "2024-05-06T07:08:09.1234567Z"),
    # Recorded: fractions of a tick are lost. Java clients write nine digits.
    "nine-digits": ("2023-05-06T07:08:40.331047814Z", "2023-05-06T07:08:40.3310478Z"),
    "nine-digits-with-zeros": ("2023-05-06T07:08:40.123456700Z", "2023-05-06T07:08:40.1234567Z"),
    "trimmed-one": ("2024-05-06T07:08:09.8613240Z", "2024-05-06T07:08:09.861324Z"),
    "trimmed-all": ("2024-05-06T07:08:12.000000Z", "2024-05-06T07:08:12Z"),
    "one-digit": ("2024-05-06T07:08:09.1Z", "2024-05-06T07:08:09.1Z"),
    "leading-zeros": ("2024-05-06T07:08:09.0000010Z", "2024-05-06T07:08:09.000001Z"),
    "offset-east": ("2024-05-06T00:30:00+02:00", "2024-05-05T22:30:00Z"),
    "offset-west": ("2023-12-31T20:00:00.5-05:30", "2024-01-01T01:30:00.5Z"),
    "offset-zero": ("2024-05-06T07:08:09+00:00", "2024-05-06T07:08:09Z"),
    "no-suffix": ("2024-05-06T07:08:09", "2024-05-06T07:08:09Z"),
    "no-seconds": ("2024-05-06T07:08Z", "2024-05-06T07:08:00Z"),
    "leap-day": ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
}


@pytest.mark.parametrize("name", DATES)
def test_datetime_text(shared, key, name):
    sent, returned = DATES[name]
    check_status(shared.insert(entity_text(key, annotated("Edm.DateTime", f'"{sent}"'))), 201)
    assert custom_members(shared.point(key, "r")) == annotated("Edm.DateTime", f'"{returned}"')
    assert custom_members(shared.point(key, "r", accept=NONE)) == f'"P":"{returned}"'


# The round-trip format of the .NET Framework (recorded): fifteen digits if these parse back to the same double, and
# otherwise seventeen.
DOUBLES = {
    "5e-324": "4.94065645841247E-324", "2.2250738585072014e-308": "2.2250738585072014E-308",
    "1.797693134862315e308": "1.7976931348623149E+308", "-1.797693134862315e308": "-1.7976931348623149E+308", "0.1": "0.1",
    "1e300": "1E+300", "1e15": "1E+15", "123456789012345680.0": "1.2345678901234568E+17", "1E+22": "1E+22",
    "3.141592653589793": "3.1415926535897931", "-2.5e-7": "-2.5E-07", "0.00001": "1E-05", "0.0001": "0.0001",
    "0.30000000000000004": "0.30000000000000004", "9007199254740993.0": "9007199254740992.0",
    "9223372036854775808000.0": "9.2233720368547758E+21",
    # An untyped integer that does not fit in Int32 is a Double (recorded only for values that do not fit in Int64).
    "9223372036854775808000": "9.2233720368547758E+21", "2147483648": "2147483648.0", "-2147483649": "-2147483649.0",
}


@pytest.mark.parametrize("text", DOUBLES)
def test_digits_of_a_double(shared, key, text):
    check_status(shared.insert(entity_text(key, f'"P":{text}')), 201)
    for level in (NONE, MINIMAL, FULL):
        returned = custom_members(shared.point(key, "r", accept=level)).removeprefix('"P":')
        assert float(returned) == float(text)
        assert returned == DOUBLES[text]


STRINGS = {
    "longest": "x" * LARGEST_STRING,
    "longest-non-ascii": "é" * LARGEST_STRING,
    "longest-astral": "\U0001F600" * (LARGEST_STRING // 2),
    "non-ascii": "grüße 日本語 ñ",
    "astral": "\U0001D11E clef",
    "blanks": "   ",
    "leading-and-trailing": "  a b \t",
    "control": "".join(map(chr, range(1, 32))) + "\x7f\x85",
    "line-breaks": "a\r\nb\nc\rd",
    "noncharacter": "\uffff\ufffe",
    "decomposed": "e\u0301",
}


@pytest.mark.parametrize("name", STRINGS)
def test_string_value(shared, key, name):
    value = STRINGS[name]
    created = check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "P": value}), 201)
    assert created.json()["P"] == value
    assert shared.stored(key, "r") == {"P": value}


@pytest.mark.parametrize("size", [1, 2, 3, LARGEST_BINARY - 1, LARGEST_BINARY])
def test_binary_value(shared, key, size):
    value = base64.b64encode(bytes(i * 7 % 256 for i in range(size))).decode("ascii")
    check_status(shared.insert(entity_text(key, annotated("Edm.Binary", f'"{value}"'))), 201)
    assert custom_members(shared.point(key, "r")) == annotated("Edm.Binary", f'"{value}"')


def test_every_type_in_one_entity_keeps_the_order_of_the_request(shared, key):
    sent = ('"Z":"s","Y@odata.type":"Edm.Int64","Y":"1","X":2.5,"W":true,"V@odata.type":"Edm.Guid",'
            '"V":"0b0c0d0e-1111-4222-8333-444455556666","U":3,"T@odata.type":"Edm.Binary","T":"AA==",'
            '"S@odata.type":"Edm.DateTime","S":"2023-11-05T06:30:00Z"')
    created = check_status(shared.insert(entity_text(key, sent)), 201)
    assert custom_members(created) == sent
    assert custom_members(shared.point(key, "r")) == sent


# A value that does not match its declared or inferred type: 400 InvalidInput (01 §6).
WRONG_TEXT = {
    "int64-word": annotated("Edm.Int64", '"abc"'),
    "int64-empty": annotated("Edm.Int64", '""'),
    "int64-above": annotated("Edm.Int64", '"9223372036854775808"'),
    "int64-below": annotated("Edm.Int64", '"-9223372036854775809"'),
    "int64-fraction": annotated("Edm.Int64", '"1.5"'),
    "int64-boolean": annotated("Edm.Int64", "true"),
    "double-word": annotated("Edm.Double", '"abc"'),
    "double-boolean": annotated("Edm.Double", "false"),
    "double-overflow": '"P":1.797693134862316e308',
    "double-overflow-annotated": annotated("Edm.Double", "1e400"),
    "boolean-word": annotated("Edm.Boolean", '"yes"'),
    "datetime-word": annotated("Edm.DateTime", '"yesterday"'),
    "datetime-empty": annotated("Edm.DateTime", '""'),
    "datetime-month-13": annotated("Edm.DateTime", '"2024-13-01T00:00:00Z"'),
    "datetime-february-30": annotated("Edm.DateTime", '"2024-02-30T00:00:00Z"'),
    "datetime-hour-25": annotated("Edm.DateTime", '"2024-02-03T25:00:00Z"'),
    "datetime-year-10000": annotated("Edm.DateTime", '"10000-01-01T00:00:00Z"'),
    "datetime-number": annotated("Edm.DateTime", "5"),
    "guid-word": annotated("Edm.Guid", '"abc"'),
    "guid-short": annotated("Edm.Guid", '"0b0c0d0e-1111-4222-8333-44445555666"'),
    "guid-not-hex": annotated("Edm.Guid", '"gggggggg-1111-4222-8333-444455556666"'),
    "binary-alphabet": annotated("Edm.Binary", '"A*=="'),
    "binary-number": annotated("Edm.Binary", "5"),
    "string-number": annotated("Edm.String", "5"),
    "array": '"P":[1]',
    "object": '"P":{"a":1}',
}


@pytest.mark.parametrize("name", WRONG_TEXT)
def test_value_not_of_its_type(shared, key, name):
    answer = shared.insert(entity_text(key, WRONG_TEXT[name]))
    check_problem(answer, 400, "InvalidInput", PROCESSING, form="json")
    assert shared.point(key, "r").status == 404


LOOSE = {
    "int32-fraction-annotated": annotated("Edm.Int32", "1.5"),
    "unknown-type": annotated("Edm.Decimal", '"1.5"'),
    "byte-type": annotated("Edm.Byte", "1"),
    "type-not-text": '"P@odata.type":5,"P":1',
}


@pytest.mark.parametrize("name", LOOSE)
def test_value_refused_with_any_text(shared, key, name):
    check_refused(shared.insert(entity_text(key, LOOSE[name])))


@pytest.mark.parametrize("value", ["5", "true", "[]"])
def test_key_that_is_no_string(shared, value):
    check_refused(shared.insert(f'{{"PartitionKey":{value},"RowKey":"r"}}'))


# Before 1601, the message contains the property name and the value as MM/dd/yyyy HH:mm:ss (01 §6.1).
EARLY = {
    "1600": ("1600-01-01T00:00:00Z", "01/01/1600 00:00:00"),
    "last-tick-of-1600": ("1600-12-31T23:59:59.9999999Z", "12/31/1600 23:59:59"),
    "least-value": ("0001-01-01T00:00:00Z", "01/01/0001 00:00:00"),
}


@pytest.mark.parametrize("name", EARLY)
def test_datetime_below_1601(shared, key, name):
    sent, shown = EARLY[name]
    answer = shared.insert(entity_text(key, f'"Prop@odata.type":"Edm.DateTime","Prop":"{sent}"'))
    check_problem(answer, 400, "OutOfRangeInput", out_of_range("Prop", shown), form="json")


def test_negative_zero_has_no_sign_at_any_level(shared, key):
    check_status(shared.insert(entity_text(key, annotated("Edm.Double", "-0.0"))), 201)
    for level in (NONE, MINIMAL, FULL):
        value = json.loads(shared.point(key, "r", accept=level).text)["P"]
        assert isinstance(value, float) and math.copysign(1, value) == 1
