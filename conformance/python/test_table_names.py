"""Table names: case, lengths, spelling, and order of a listing (01 §2, 02 §4)."""

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

from expect import check_status
from wire import NONE


def create(wire, name):
    return check_status(wire.send("POST", "/Tables", {"TableName": name}), 201)


def listed(wire, low, high):
    """Returns the table names between two lower-case bounds, over all pages."""
    target = f"/Tables?$filter=TableName%20ge%20'{low}'%20and%20TableName%20lt%20'{high}'"
    answer = check_status(wire.send("GET", target, accept=NONE), 200)
    names = [entry["TableName"] for entry in answer.json()["value"]]
    while token := answer.header("x-ms-continuation-NextTableName"):
        answer = check_status(wire.send("GET", f"{target}&NextTableName={token}", accept=NONE), 200)
        names += [entry["TableName"] for entry in answer.json()["value"]]
    return names


@pytest.mark.parametrize("spelling", [str.upper, str.lower, str.title, str.swapcase],
                         ids=["upper", "lower", "title", "swapped"])
def test_lookup_ignores_case(wire, table, spelling):
    table.insert({"PartitionKey": "p", "RowKey": "r"})
    name = spelling(table.name)
    assert wire.send("GET", f"/{name}(PartitionKey='p',RowKey='r')").status == 200
    assert wire.send("GET", f"/{name}()").json()["value"]
    assert wire.send("GET", f"/Tables('{name}')").status == 200


def test_delete_ignores_case(wire, new_name):
    name = new_name()
    create(wire, name)
    assert wire.send("DELETE", f"/Tables('{name.upper()}')").status == 204
    assert wire.send("GET", f"/Tables('{name}')").status == 404


def test_listing_keeps_the_spelling(wire, new_name):
    name = new_name("MiXed")
    create(wire, name)
    assert listed(wire, name.lower(), name.lower() + "{") == [name]


def test_listing_is_ordered_without_case(wire, new_name):
    prefix = new_name().lower()[:24]
    names = [new_name(prefix + letter) for letter in ("B", "a", "C", "c0", "b9", "A1")]
    for name in names:
        create(wire, name)
    assert listed(wire, prefix, prefix + "{") == sorted(names, key=str.lower)


@pytest.mark.parametrize("length", [3, 63])
def test_shortest_and_longest(wire, new_name, length):
    name = (new_name() + "x" * 63)[:length]
    if wire.send("GET", f"/Tables('{name}')").status == 200:
        pytest.skip("the account already has a table with this short name")
    create(wire, name)
    try:
        assert wire.send("GET", f"/Tables('{name}')").json()["TableName"] == name
    finally:
        assert wire.send("DELETE", f"/Tables('{name}')").status == 204


@pytest.mark.parametrize("initial", ["a", "z", "A", "Z"])
def test_any_letter_may_begin(wire, new_name, initial):
    create(wire, new_name(initial))


def test_duplicate_in_other_case(service, new_name):
    name = new_name()
    service.create_table(name)
    with pytest.raises(ResourceExistsError) as raised:
        service.create_table(name.upper())
    assert raised.value.error_code == "TableAlreadyExists"
    assert service.create_table_if_not_exists(name.upper()).table_name == name.upper()


def test_name_is_free_after_deletion_or_says_being_deleted(wire, table):
    table.insert({"PartitionKey": "p", "RowKey": "r"})
    assert wire.send("DELETE", f"/Tables('{table.name}')").status == 204
    answer = wire.send("POST", "/Tables", {"TableName": table.name})
    if answer.status == 409:
        assert answer.json()["odata.error"]["code"] == "TableBeingDeleted"
        pytest.skip("the endpoint releases the name later")
    check_status(answer, 201)
    assert table.query().json()["value"] == []


def test_tables_do_not_share_entities(service, new_name):
    first, second = service.create_table(new_name()), service.create_table(new_name())
    first.create_entity({"PartitionKey": "p", "RowKey": "r", "A": 1})
    with pytest.raises(ResourceNotFoundError):
        second.get_entity("p", "r")
    second.create_entity({"PartitionKey": "p", "RowKey": "r", "A": 2})
    assert first.get_entity("p", "r")["A"] == 1


def test_extra_members_of_create_are_ignored(wire, new_name):
    name = new_name()
    body = {"odata.metadata": "x", "odata.type": "y", "TableName": name, "TableName@odata.type": "Edm.String"}
    check_status(wire.send("POST", "/Tables", body), 201)


@pytest.mark.parametrize("target", ["/Tables", "/Tables()"])
def test_both_spellings_of_the_set(wire, new_name, target):
    check_status(wire.send("POST", target, {"TableName": new_name()}), 201)
    check_status(wire.send("GET", target + "?$top=1"), 200)


@pytest.mark.parametrize("suffix", ["", "()"])
def test_both_spellings_of_the_entity_set(wire, table, suffix):
    check_status(wire.send("POST", f"/{table.name}{suffix}", {"PartitionKey": "p", "RowKey": "r"}), 201)
    check_status(wire.send("GET", f"/{table.name}{suffix}"), 200)
