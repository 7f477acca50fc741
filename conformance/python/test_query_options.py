"""$select, $top and the continuation of entity queries (04 §4–§6)."""

import base64
import re
from urllib.parse import quote

import pytest

from batch_body import fill
from conftest import create_table, delete_table, unique_name
from expect import INPUT_NOT_VALID, check_problem, check_status
from wire import FULL, MINIMAL, NONE

NEXT_PARTITION_KEY = "x-ms-continuation-NextPartitionKey"
NEXT_ROW_KEY = "x-ms-continuation-NextRowKey"
PAGE = 1000


def token_of(answer):
    """Returns the continuation token of a page as query options, or None on the last page."""
    partition_key, row_key = answer.header(NEXT_PARTITION_KEY), answer.header(NEXT_ROW_KEY)
    if partition_key is None:
        assert row_key is None
        return None
    return {"NextPartitionKey": partition_key, **({"NextRowKey": row_key} if row_key else {})}


def pages(table, options, limit=10_000):
    """Returns the keys on every page of a query. A page may be empty although a token follows."""
    token, result = {}, []
    while token is not None:
        answer = check_status(table.query({**options, **token}, accept=NONE), 200)
        result.append([(e["PartitionKey"], e["RowKey"]) for e in answer.json()["value"]])
        token = token_of(answer)
        assert len(result) < limit
    return result


def flat(list_of_pages):
    return [key for page in list_of_pages for key in page]


@pytest.fixture(scope="module")
def many(wire):
    """Inserts 2,500 entities: partitions a (1,200), b (300), c (1,000), each with row keys 0000… and a number N."""
    table = create_table(wire, unique_name())
    fill(table, [{"PartitionKey": p, "RowKey": f"{n:04}", "N": n} for p, count in (("a", 1200), ("b", 300), ("c", 1000))
                 for n in range(count)])
    yield table
    delete_table(wire, table.name)


ALL = [(p, f"{n:04}") for p, count in (("a", 1200), ("b", 300), ("c", 1000)) for n in range(count)]


def test_default_page(many):
    answer = check_status(many.query(accept=NONE), 200)
    assert len(answer.json()["value"]) <= PAGE
    assert token_of(answer)


@pytest.mark.parametrize("top", [None, 1000, 999, 400, 101])
def test_pages_make_up_the_whole(many, top):
    found = pages(many, {"$top": top} if top else {})
    assert flat(found) == ALL
    assert max(map(len, found)) <= (top or PAGE)


@pytest.mark.parametrize("top", [1, 2, 7])
def test_small_pages(many, top):
    found = pages(many, {"$top": top, "$filter": "PartitionKey eq 'b' and RowKey lt '0020'"})
    assert flat(found) == [("b", f"{n:04}") for n in range(20)]
    assert max(map(len, found)) <= top


FILTERED = {
    "partition": ("PartitionKey eq 'b'", [k for k in ALL if k[0] == "b"]),
    "partition-larger-than-a-page": ("PartitionKey eq 'a'", [k for k in ALL if k[0] == "a"]),
    "range": ("PartitionKey eq 'a' and RowKey ge '0100' and RowKey lt '0110'", [("a", f"{n:04}") for n in range(100, 110)]),
    "partition-range": ("PartitionKey gt 'a' and PartitionKey lt 'c'", [k for k in ALL if k[0] == "b"]),
    "table-scan": ("N ge 1190", [k for k in ALL if int(k[1]) >= 1190]),
    "two-ends": ("RowKey eq '0000'", [("a", "0000"), ("b", "0000"), ("c", "0000")]),
    "or-of-partitions": ("PartitionKey eq 'c' and N lt 2 or PartitionKey eq 'a' and N lt 2",
                         [("a", "0000"), ("a", "0001"), ("c", "0000"), ("c", "0001")]),
    "nothing": ("N lt 0", []),
}


@pytest.mark.parametrize("top", [None, 3])
@pytest.mark.parametrize("name", FILTERED)
def test_filter_over_pages(many, name, top):
    text, wanted = FILTERED[name]
    if top and len(wanted) > 300:
        top = 300
    options = {"$filter": text, **({"$top": top} if top else {})}
    assert flat(pages(many, options)) == wanted


def test_full_last_page_has_no_token(many):
    answer = check_status(many.query({"$filter": "PartitionKey eq 'c'"}, accept=NONE), 200)
    if len(answer.json()["value"]) == PAGE:
        assert token_of(answer) is None
    answer = check_status(many.query({"$filter": "PartitionKey eq 'b' and RowKey lt '0010'", "$top": "10"}, accept=NONE), 200)
    assert len(answer.json()["value"]) == 10
    assert token_of(answer) is None


def test_full_last_page_of_the_table_has_no_token(table):
    fill(table, [{"PartitionKey": "p", "RowKey": str(n)} for n in range(5)])
    answer = check_status(table.query({"$top": "5"}, accept=NONE), 200)
    assert len(answer.json()["value"]) == 5
    assert token_of(answer) is None


def test_top_of_zero(many):
    answer = check_status(many.query({"$top": "0"}, accept=NONE), 200)
    assert answer.json()["value"] == []


@pytest.mark.parametrize("top", [1, 1000])
def test_top_bounds(many, top):
    assert len(check_status(many.query({"$top": top}, accept=NONE), 200).json()["value"]) <= top


def test_token_names_the_next_entity(many):
    """Checks the recorded form: 1!length!Base64 of the UTF-8 key with * _ - for + / =."""
    answer = many.query({"$top": "5"}, accept=NONE)
    for header, key in ((NEXT_PARTITION_KEY, "a"), (NEXT_ROW_KEY, "0005")):
        token = answer.header(header)
        text = base64.b64encode(key.encode("utf-8")).decode("ascii").translate(str.maketrans("+/=", "*_-"))
        assert token == f"1!{len(text)}!{text}"


@pytest.mark.parametrize("key", ["Smith", "", "日本語", "a+b|c=d", "\U0001F600", "ÿÿÿ", "'"])
def test_token_is_safe_in_headers_and_addresses(table, key):
    fill(table, [{"PartitionKey": " first", "RowKey": "r"} if key else {"PartitionKey": "", "RowKey": " first"},
                 {"PartitionKey": key or "z", "RowKey": key}])
    answer = check_status(table.query({"$top": "1"}, accept=NONE), 200)
    token = token_of(answer)
    assert token and all(re.fullmatch(r"[A-Za-z0-9!*_.~-]*", value) for value in token.values())
    rest = check_status(table.query({"$top": "1", **token}, accept=NONE), 200)
    assert [e["RowKey"] for e in rest.json()["value"]] == [key]
    raw = "&".join(f"{name}={value}" for name, value in token.items())
    again = check_status(table.wire.send("GET", f"/{table.name}()?$top=1&{raw}", accept=NONE), 200)
    assert again.json() == rest.json()


def test_partition_token_alone_starts_at_the_partition(many):
    options = {"NextPartitionKey": "1!4!Yg--", "$top": "2"}
    answer = check_status(many.query(options, accept=NONE), 200)
    assert [(e["PartitionKey"], e["RowKey"]) for e in answer.json()["value"]] == [("b", "0000"), ("b", "0001")]


def test_token_does_not_depend_on_the_filter(many):
    token = token_of(many.query({"$top": "10"}, accept=NONE))
    answer = check_status(many.query({**token, "$filter": "PartitionKey eq 'b'", "$top": "1"}, accept=NONE), 200)
    found = [(e["PartitionKey"], e["RowKey"]) for e in answer.json()["value"]]
    assert found in ([("b", "0000")], [])


def test_writes_between_pages(table):
    fill(table, [{"PartitionKey": "p", "RowKey": f"{n:02}"} for n in range(0, 20, 2)])
    answer = table.query({"$top": "4"}, accept=NONE)
    assert [e["RowKey"] for e in answer.json()["value"]] == ["00", "02", "04", "06"]
    for row_key in ("01", "05", "09", "15"):
        check_status(table.insert({"PartitionKey": "p", "RowKey": row_key}), 201)
    for row_key in ("08", "12"):
        check_status(table.delete("p", row_key), 204)
    rest = flat(pages(table, token_of(answer)))
    assert [row_key for _, row_key in rest] == ["09", "10", "14", "15", "16", "18"]


def test_everything_deleted_between_pages(table):
    fill(table, [{"PartitionKey": "p", "RowKey": str(n)} for n in range(6)])
    token = token_of(table.query({"$top": "3"}, accept=NONE))
    for number in range(6):
        table.delete("p", str(number))
    assert flat(pages(table, token)) == []


def test_large_entities_give_short_pages(table):
    """A page ends at about 4 MB of data, so 32 entities of 256 KB each need several pages. No entity may be lost."""
    text = "x" * 32_000
    for number in range(32):
        entity = {"PartitionKey": "p", "RowKey": f"{number:02}", **{f"P{i}": text for i in range(4)}}
        check_status(table.insert(entity, headers={"Prefer": "return-no-content"}), 204)
    assert [row_key for _, row_key in flat(pages(table, {}))] == [f"{n:02}" for n in range(32)]


def test_client_pages(many, service):
    client = service.get_table_client(many.name)
    by_page = client.query_entities("PartitionKey eq 'b'", results_per_page=70).by_page()
    sizes = [len(list(page)) for page in by_page]
    assert sum(sizes) == 300 and max(sizes) <= 70
    first = client.list_entities(results_per_page=10).by_page()
    next(first)
    resumed = client.list_entities(results_per_page=10).by_page(continuation_token=first.continuation_token)
    assert [e["RowKey"] for e in next(resumed)] == [f"{n:04}" for n in range(10, 20)]


SELECTS = {
    "one": ("N", {"N"}),
    "key": ("PartitionKey", {"PartitionKey"}),
    "timestamp": ("Timestamp", {"Timestamp"}),
    "unknown": ("Nothing", {"Nothing"}),
    "mixed": ("RowKey,Nothing,N", {"RowKey", "Nothing", "N"}),
    "star": ("*", {"PartitionKey", "RowKey", "Timestamp", "N"}),
    "wrong-case": ("n", {"n"}),
}


@pytest.mark.parametrize("level", [NONE, MINIMAL, FULL])
@pytest.mark.parametrize("name", SELECTS)
def test_select_names(many, name, level):
    select, names = SELECTS[name]
    options = {"$select": select, "$filter": "PartitionKey eq 'a' and RowKey eq '0007'"}
    [entity] = check_status(many.query(options, accept=level), 200).json()["value"]
    assert {n for n in entity if "odata." not in n} == names
    assert entity.get("N", 7) == 7
    assert all(entity[n] is None for n in names & {"Nothing", "n"})
    assert ("odata.etag" in entity) == (level != NONE)


TERM = "Term '{}' is not valid in a $select or $expand expression."
REFUSED_SELECTS = {
    "blanks": ("PartitionKey Row Active", TERM),
    "two-lines": ("N,RowKey N", TERM),
    "path": ("N/x", TERM),
    "etag": ("odata.etag", TERM),
    "minus": ("Row-1", TERM),
    "string": ("'N'", "An identifier was expected at position 0."),
    "empty-term": ("N,,RowKey", "An identifier was expected at position 2."),
    "character": ("N^", None),
    "open-string": ("'N", None),
}


@pytest.mark.parametrize("name", REFUSED_SELECTS)
def test_select_is_parsed(wire, many, name):
    select, message = REFUSED_SELECTS[name]
    tables = wire.send("GET", f"/Tables?$select={quote(select)}")
    for answer in [many.query({"$select": select}), many.point("a", "0007", {"$select": select}), tables]:
        problem = check_problem(answer, 400, "InvalidInput", message and message.format(select))
        assert select in problem.message or "identifier" in problem.message


@pytest.mark.parametrize("select", ["N,", " N , N", "N/"])
def test_spelling_of_select(many, select):
    answer = check_status(many.point("a", "0007", {"$select": select}, accept=NONE), 200)
    assert list(answer.json()) == ["N"]


@pytest.mark.parametrize("change", [str.lower, str.upper], ids=["lower", "upper"])
def test_letter_case_of_options(many, change):
    rows, token = [], {}
    while token is not None:
        answer = many.query({change("$top"): 90, change("$filter"): "PartitionKey eq 'b'", **token}, accept=NONE)
        rows += [entity["RowKey"] for entity in check_status(answer, 200).json()["value"]]
        token = token_of(answer)
        token = token and {change(name): value for name, value in token.items()}
    assert rows == sorted(set(rows)) and len(rows) == 300
    both = {"NextPartitionKey": "1!4!Yg--", "nextpartitionkey": "1!4!Yg--"}
    check_problem(many.query(both), 400, "InvalidInput")


def test_select_does_not_limit_the_filter(many):
    options = {"$select": "RowKey", "$filter": "N eq 42"}
    found = check_status(many.query(options, accept=NONE), 200).json()["value"]
    assert found == [{"RowKey": "0042"}] * 3


def test_select_works_over_pages(many):
    token, total = {}, 0
    while token is not None:
        answer = check_status(many.query({"$select": "PartitionKey", **token}, accept=NONE), 200)
        assert all(list(e) == ["PartitionKey"] for e in answer.json()["value"])
        total += len(answer.json()["value"])
        token = token_of(answer)
    assert total == len(ALL)


def test_select_on_a_point_read_keeps_the_etag_header(many):
    answer = check_status(many.point("a", "0007", {"$select": "N"}), 200)
    assert answer.header("ETag") == answer.json()["odata.etag"]
    assert {n for n in answer.json() if "odata." not in n} == {"N"}


def test_filter_on_a_point_read_is_no_error(many):
    check_status(many.point("a", "0007", {"$filter": "N eq 7"}), 200)


def test_a_token_in_plain_text_is_the_key_itself(many, wire):
    found = check_status(many.query({"NextPartitionKey": "b", "NextRowKey": "0290"}, accept=NONE), 200).json()["value"]
    assert [(e["PartitionKey"], e["RowKey"]) for e in found] == ALL[ALL.index(("b", "0290")):][:len(found)]
    found = check_status(many.query({"NextPartitionKey": "bX", "NextRowKey": "0290X"}, accept=NONE), 200).json()["value"]
    assert (found[0]["PartitionKey"], found[0]["RowKey"]) == ("c", "0000")
    listed = check_status(wire.send("GET", f"/Tables?NextTableName={many.name}&$top=1", accept=NONE), 200).json()["value"]
    assert listed == [{"TableName": many.name}]


@pytest.mark.parametrize("token", [{"NextPartitionKey": "1!4!Yg--", "NextRowKey": ""}, {"NextRowKey": "1!4!Yg--"},
                                   {"NextPartitionKey": "1!5!Yg--"}], ids=["empty-row", "row-alone", "wrong-length"])
def test_tokens_that_are_refused(many, token):
    check_problem(many.query(token), 400, "InvalidInput", INPUT_NOT_VALID)


def test_a_page_ends_by_what_is_written_and_not_by_what_is_stored(table):
    """Thirty entities of 300 KB each need more than two pages, but only one page with `$select` (04 §6)."""
    large = {f"P{n}": "é" * 30_000 for n in range(5)}
    for n in range(30):
        check_status(table.insert({"PartitionKey": "p", "RowKey": f"{n:02}", "N": n, **large}), 201)
    keys = [("p", f"{n:02}") for n in range(30)]
    for options in [{"$select": "PartitionKey,RowKey"}, {"$select": "PartitionKey,RowKey,N", "$filter": "N ge 0"}]:
        assert pages(table, options) == [keys]
    whole = pages(table, {})
    assert flat(whole) == keys and len(whole) > 1
