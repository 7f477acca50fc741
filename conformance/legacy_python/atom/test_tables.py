"""Tables: create, read, list in pages, delete, and how the client maps the errors."""

import pytest

from clients import Conflict, Failure, Missing


def test_create_tells_whether_it_did(service, new_name):
    name = new_name()
    assert service.create_table(name) is True
    assert service.create_table(name) is False


def test_create_fails_on_an_existing_table(service, table):
    with pytest.raises(Conflict):
        service.create_table(table, fail_on_exist=True)
    with pytest.raises(Conflict):
        service.create_table(table.upper(), fail_on_exist=True)


@pytest.mark.parametrize("name", ["ab", "1abc", "with-dash", "tables", "a" * 64, "tablé"])
def test_refused_name(service, name):
    with pytest.raises(Failure) as caught:
        service.create_table(name, fail_on_exist=True)
    assert "Bad Request" in str(caught.value)


def test_delete_tells_whether_it_did(service, new_name):
    name = new_name()
    service.create_table(name)
    assert service.delete_table(name) is True
    assert service.delete_table(name) is False


def test_delete_fails_on_a_missing_table(service, new_name):
    with pytest.raises(Missing):
        service.delete_table(new_name(), fail_not_exist=True)


def test_read_one_table(service, table):
    found = service.query_tables(table)
    assert [one.name for one in found] == [table]


def test_read_a_missing_table(service, new_name):
    with pytest.raises(Missing):
        service.query_tables(new_name())


def test_a_table_made_anew_is_empty(service, new_name):
    name = new_name()
    service.create_table(name)
    service.insert_entity(name, {"PartitionKey": "p", "RowKey": "r"})
    service.delete_table(name)
    with pytest.raises(Missing):
        service.get_entity(name, "p", "r")
    with pytest.raises(Missing):
        service.query_entities(name)
    service.create_table(name)
    assert len(service.query_entities(name)) == 0


def test_list_without_bound(service, new_name):
    names = {new_name() for _ in range(3)}
    for name in names:
        service.create_table(name)
    assert names <= {one.name for one in service.query_tables()}


@pytest.mark.parametrize("top", [1, 2, 3])
def test_list_in_pages(service, new_name, top):
    names = [new_name("page") for _ in range(5)]
    for name in names:
        service.create_table(name)
    seen, marker = [], None
    while True:
        page = service.query_tables(top=top, next_table_name=marker)
        assert len(page) <= top
        seen += [one.name for one in page]
        marker = getattr(page, "x_ms_continuation", {}).get("nexttablename")
        if marker is None:
            break
    assert seen == sorted(seen, key=str.lower) and len(seen) == len(set(seen))
    assert [name for name in seen if name in names] == sorted(names)
