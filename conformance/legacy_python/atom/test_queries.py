"""Queries: filters on every type, projection, `$top`, and continuation over pages of entities."""

from datetime import datetime

import pytest

from address import unique_name
from clients import EntityProperty, Failure, connect, properties, quoted

# More than one page of 1,000 entities in one partition, and a few entities in two others.
MANY = 1105
GUID = "0b0c0d0e-1111-4222-8333-444455556666"


def insert_all(service, table, entities):
    """Inserts entities of one partition in batches of a hundred."""
    for start in range(0, len(entities), 100):
        service.begin_batch()
        for entity in entities[start:start + 100]:
            service.insert_entity(table, entity)
        service.commit_batch()


@pytest.fixture(scope="module")
def filled(address):
    service, name = connect(address), unique_name()
    service.create_table(name)
    insert_all(service, name, [{"PartitionKey": "many", "RowKey": f"{n:05}", "Number": n, "Half": n / 2, "Odd": n % 2 == 1,
                                "Name": f"n{n % 10}"} for n in range(MANY)])
    for partition in ("before", "next"):
        insert_all(service, name, [{"PartitionKey": partition, "RowKey": f"{n}"} for n in range(7)])
    yield name
    service.delete_table(name)


def pages(service, table, **options):
    """Yields all pages of a query, using the continuation that the client returns."""
    marker = {}
    while True:
        page = service.query_entities(table, **options, **marker)
        yield page
        headers = getattr(page, "x_ms_continuation", {})
        if "nextpartitionkey" not in headers:
            return
        marker = {"next_partition_key": headers["nextpartitionkey"], "next_row_key": headers.get("nextrowkey")}


def test_continuation_without_top(service, filled):
    found = list(pages(service, filled))
    assert [len(page) for page in found] == [1000, MANY + 14 - 1000]
    keys = [(one.PartitionKey, one.RowKey) for page in found for one in page]
    assert keys == sorted(keys) and len(set(keys)) == MANY + 14


@pytest.mark.parametrize("top", [1000, 450, 333])
def test_continuation_with_top(service, filled, top):
    found = list(pages(service, filled, filter="PartitionKey eq 'many'", top=top))
    assert all(len(page) <= top for page in found)
    assert [one.Number for page in found for one in page] == list(range(MANY))
    assert len(found) == -(-MANY // top)


def test_continuation_with_filter_and_projection(service, filled):
    found = list(pages(service, filled, filter="Odd eq true and Number ge 100", select="Number,RowKey", top=200))
    numbers = [one.Number for page in found for one in page]
    assert numbers == [n for n in range(100, MANY) if n % 2 == 1] and len(found) >= 3
    assert all(properties(one) == {"Number": one.Number} and not hasattr(one, "PartitionKey") for page in found for one in page)


def test_top_within_one_page(service, filled):
    page = service.query_entities(filled, "PartitionKey eq 'before'", top=3)
    assert [one.RowKey for one in page] == ["0", "1", "2"]


def test_a_page_that_ends_the_result_has_no_continuation(service, filled):
    page = service.query_entities(filled, "PartitionKey eq 'before'")
    assert len(page) == 7 and "nextpartitionkey" not in getattr(page, "x_ms_continuation", {})


def test_nothing_found(service, filled):
    assert len(service.query_entities(filled, "PartitionKey eq 'nobody'")) == 0


FILTERS = {
    "PartitionKey eq 'many' and RowKey eq '00007'": [7],
    "PartitionKey eq 'many' and RowKey ge '01100'": list(range(1100, MANY)),
    "Number lt 3": [0, 1, 2],
    "Number le 3 and Number gt 1": [2, 3],
    "Number ge 1103": [1103, 1104],
    "Half eq 1.5": [3],
    "Half lt 1.0 and Odd eq true": [1],
    "Name eq 'n3' and Number lt 30": [3, 13, 23],
    "Number lt 4 and not (Odd eq true)": [0, 2],
    "Number eq 1 or Number eq 3 or RowKey eq '00005'": [1, 3, 5],
    "(Number eq 1 or Number eq 2) and Name ne 'n2'": [1],
    "Nothing eq 1": [],
}


@pytest.mark.parametrize("text", FILTERS)
def test_filter(service, filled, text):
    assert [one.Number for page in pages(service, filled, filter=text) for one in page] == FILTERS[text]


TYPED = {
    "Time eq datetime'2012-02-29T12:00:00Z'": True,
    "Time gt datetime'2012-02-29T12:00:00Z'": False,
    f"Id eq guid'{GUID}'": True,
    "Bytes eq X'0001feff'": True,
    "Bytes eq binary'0001feff'": True,
    "Large eq 4294967296L": True,
    "Large gt 4294967296L": False,
    "Text eq 'O''Neil & Söhne + 100%'": True,
    "Text eq 'O''Neil'": False,
    "Yes eq true": True,
    "Blank eq ''": True,
}


@pytest.mark.parametrize("text", TYPED)
def test_filter_by_type(service, shared, key, text):
    service.insert_entity(shared, {
        "PartitionKey": key, "RowKey": "r", "Time": datetime(2012, 2, 29, 12), "Id": EntityProperty("Edm.Guid", GUID),
        "Bytes": EntityProperty("Edm.Binary", b"\x00\x01\xfe\xff"), "Large": 2**32, "Text": "O'Neil & Söhne + 100%",
        "Yes": True, "Blank": ""})
    assert len(service.query_entities(shared, f"PartitionKey eq '{key}' and {text}")) == (1 if TYPED[text] else 0)


@pytest.mark.parametrize("partition", ["O'Neil", "Söhne & Co", "a+b", "100%", "日本\U0001F600", "a b", ""])
def test_continuation_through_special_keys(service, table, partition):
    for n in range(5):
        service.insert_entity(table, {"PartitionKey": partition, "RowKey": f"é'{n}"})
    found = list(pages(service, table, filter=f"PartitionKey eq '{quoted(partition)}'", top=2))
    assert [[one.RowKey[-1] for one in page] for page in found] == [["0", "1"], ["2", "3"], ["4"]]


def test_projection_of_what_is_missing(service, filled):
    [found] = service.query_entities(filled, "Number eq 5", "Number,Absent")
    assert properties(found) == {"Number": 5}


@pytest.mark.parametrize("text", ["Number eq", "Number equals 1", "(Number eq 1", "Number eq 'x", "Time eq datetime'noon'"])
def test_refused_filter(service, filled, text):
    with pytest.raises(Failure) as caught:
        service.query_entities(filled, text)
    assert "InvalidInput" in str(caught.value)


@pytest.mark.parametrize("top", [1001, -1])
def test_refused_top(service, filled, top):
    with pytest.raises(Failure) as caught:
        service.query_entities(filled, top=top)
    assert "Bad Request" in str(caught.value)
