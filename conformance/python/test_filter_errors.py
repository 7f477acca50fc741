"""Errors of query options, with their exact messages (04 §5 and §7)."""

import pytest

from expect import INPUT_NOT_VALID, PROCESSING, check_problem, check_status
from wire import encode_options, status_of


def syntax_error(position, text):
    return f"Syntax error at position {position} in '{text}'."


def wide_integer(number, position, text):
    return f"Unrecognized 'Edm.Int32' literal '{number}' at '{position}' in '{text}'."


def null_order(operator):
    return f"The operator '{operator}' is not supported for the 'null' literal; only equality checks are supported."


def incompatible(left, right, operator):
    return ("A binary operator with incompatible types was detected. "
            f"Found operand types 'Edm.{left}' and 'Edm.{right}' for operator kind '{operator}'.")


TEXTS = {
    "PartitionKey eq 12345": incompatible("String", "Int32", "Equal"),
    "A eq 1 and 5L ne RowKey": incompatible("Int64", "String", "NotEqual"),
    "Timestamp gt '2011-01-01T00:00:00Z'": incompatible("DateTime", "String", "GreaterThan"),
    "aaa bbb ccc": syntax_error(7, "aaa bbb ccc"),
    "property1 eq 1'invalid'": syntax_error(23, "property1 eq 1'invalid'"),
    "x eq 5454161346626": wide_integer("5454161346626", 5, "x eq 5454161346626"),
    "PartitionKey and (RowKey ge 'x')": incompatible("String", "Boolean", "And"),
    "x eq null": INPUT_NOT_VALID,
    "x ne null": INPUT_NOT_VALID,
    "x lt null": null_order("LessThan"),
    "x le null": null_order("LessThanOrEqual"),
    "x gt null": null_order("GreaterThan"),
    "x ge null": null_order("GreaterThanOrEqual"),
    "PartitionKey eq 'a' and x eq 5454161346626": wide_integer("5454161346626", 29, "PartitionKey eq 'a' and x eq 5454161346626"),
    "PartitionKey eq 'a' and x eq null": INPUT_NOT_VALID,
    "PartitionKey eq 'a' and x lt null": null_order("LessThan"),
    "A eq 'open": "There is an unterminated string literal at position 10 in 'A eq 'open'.",
    'A eq "x"': "Syntax error: character '\"' is not valid at position 5 in 'A eq \"x\"'.",
}


@pytest.mark.parametrize("text", TEXTS)
def test_invalid_input_text(shared, text):
    answer = shared.query({"$filter": text})
    check_problem(answer, 400, "InvalidInput", TEXTS[text], form="json")
    assert answer.header("X-Content-Type-Options") == "nosniff"


NOT_IMPLEMENTED = ["p eq q", "1 eq 2", "'a' eq 'b'", "x eq not y", "startswith(Name,'a')", "endswith(Name,'a')", "length(Name) eq 3",
                   "substringof('a',Name)", "tolower(Name) eq 'a'", "concat(A,B) eq 'x'", "year(When) eq 2024",
                   "PartitionKey eq 'a' and startswith(Name,'a')"]


@pytest.mark.parametrize("text", NOT_IMPLEMENTED)
def test_not_implemented(shared, text):
    answer = shared.query({"$filter": text})
    check_problem(answer, 501, "NotImplemented", form="json")
    assert answer.header("Cache-Control") == "no-cache"


SYNTAX = ["A eq", "eq 3", "A eq 3 and", "and A eq 3", "A eq 3 A eq 4", "(A eq 3", "A eq 3)", "()", "A eq 3 &", "A == 3",
          "A eq 3 or or A eq 4", "A eq 3L L", "A eq X'0'", "A eq X'zz'", "A eq guid'x'", "A eq datetime'x'", "A eq datetime'2024-13-01T00:00:00Z'",
          "'", "A eq 9223372036854775808L", "3A eq 1", "A eq 1.2.3"]


@pytest.mark.parametrize("text", SYNTAX)
def test_syntax_error(shared, text):
    check_problem(shared.query({"$filter": text}), 400, "InvalidInput", form="json")


@pytest.mark.parametrize("text", ["A EQ 3", "A eq 3 AND B eq 4", "A eq 3 Or B eq 4", "NOT (A eq 3)"])
def test_keywords_in_other_case(shared, text):
    """Such keywords are refused and not parsed as operators. (A user reported code that worked elsewhere but failed in
    production.)"""
    check_status(shared.query({"$filter": text}), 400, 501)


@pytest.mark.parametrize("text", ["A add 1 eq 2", "A mod 2 eq 0", "-A eq 1", "A eq 1M", "A eq 1.5f", "A in (1,2)", "A has 'x'", "A-B eq 1"])
def test_other_operators(shared, text):
    check_status(shared.query({"$filter": text}), 400, 501)


TOPS = ["-1", "1001", "5000", "2147483648", "99999999999999999999"]


@pytest.mark.parametrize("top", TOPS)
@pytest.mark.parametrize("target", ["entities", "tables"])
def test_top_out_of_range(wire, shared, target, top):
    path = f"/{shared.name}()" if target == "entities" else "/Tables"
    check_problem(wire.send("GET", f"{path}?$top={top}"), 400, "InvalidInput", INPUT_NOT_VALID, form="json")


@pytest.mark.parametrize("top", ["abc", "", "1.5", "0x10", "1e2", "+-1"])
@pytest.mark.parametrize("target", ["entities", "tables"])
def test_top_not_a_number(wire, shared, target, top):
    path = f"/{shared.name}()" if target == "entities" else "/Tables"
    answer = wire.send("GET", f"{path}?$top={top}")
    assert answer.status == 400 or (top == "" and answer.status == 200), answer.body


@pytest.mark.parametrize("option", ["$orderby=A", "$skip=1", "$expand=A", "$inlinecount=allpages", "$skiptoken=x"])
def test_unsupported_option(wire, shared, option):
    check_status(wire.send("GET", f"/{shared.name}()?{option}"), 400, 501)


@pytest.mark.parametrize("option", ["$orderbyABC=A", "$count=true", "$search=x"])
def test_unknown_option_is_ignored(wire, shared, option):
    check_status(wire.send("GET", f"/{shared.name}()?{option}"), 200)


@pytest.mark.parametrize("name", ["foo", "Filter", "filter", "top"])
def test_unknown_option_without_dollar_is_ignored(wire, shared, name):
    check_status(wire.send("GET", f"/{shared.name}()?{name}=x"), 200)


@pytest.mark.parametrize("token", ["%00", "1!8!***", "1!999!U21pdGg-", "%ff", "1!4!////", "2!8!U21pdGg-"])
def test_malformed_continuation_token(wire, shared, token):
    answer = wire.send("GET", f"/{shared.name}()?NextPartitionKey={token}&NextRowKey={token}")
    assert answer.status in (200, 400)


def test_too_many_selected_names(shared):
    answer = shared.query({"$select": ",".join(f"P{i}" for i in range(300))})
    assert answer.status == 200 or answer.status == 400


def test_filter_longer_than_any_limit(wire, shared):
    text = " or ".join(f"A eq {number}" for number in range(20_000))
    target = f"/{shared.name}()?" + encode_options({"$filter": text})
    status = status_of(wire.talk(wire.compose("GET", target)))
    assert status is None or 400 <= status < 500


def test_processing_text_is_for_bodies_only(shared):
    problem = check_problem(shared.query({"$filter": "a b"}), 400, "InvalidInput", form="json")
    assert problem.message != PROCESSING


TABLES_NOT_IMPLEMENTED = ["startswith(TableName,'a')", "'a' eq 'b'", "TableName eq TableName"]


@pytest.mark.parametrize("text", TABLES_NOT_IMPLEMENTED)
def test_tables_not_implemented(wire, text):
    answer = wire.send("GET", "/Tables?" + encode_options({"$filter": text}))
    check_problem(answer, 501, "NotImplemented", form="json")


def test_tables_unknown_property(wire):
    """The real service answers 500 InternalError. The case also accepts 400, which is more appropriate (04 §7)."""
    answer = wire.send("GET", "/Tables?$filter=Nonsense%20eq%20'x'")
    code = answer.json()["odata.error"]["code"]
    assert (answer.status, code) in ((500, "InternalError"), (400, "InvalidInput"))


def test_tables_syntax_error(wire):
    answer = wire.send("GET", "/Tables?$filter=aaa%20bbb%20ccc")
    check_problem(answer, 400, "InvalidInput", syntax_error(7, "aaa bbb ccc"), form="json")
