"""The patterns of the table design guide, as applications implement them, through the official Python client."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import EdmType, EntityProperty, UpdateMode

DEPARTMENTS = {"Sales": ["Jones", "Baker", "Novak"], "Service": ["Abel", "Jensen"], "Marketing": ["Jonas", "Young"]}


@pytest.fixture
def staff(client):
    """Inserts employees of three departments: partition key = department, row key = number."""
    number = 0
    for department, family_names in DEPARTMENTS.items():
        for family_name in family_names:
            number += 1
            client.create_entity({"PartitionKey": department, "RowKey": f"{number:05}", "FamilyName": family_name, "Age": 20 + number})
    return client


def family_names(entities):
    return [entity["FamilyName"] for entity in entities]


def test_point_query(staff):
    assert staff.get_entity("Sales", "00002")["FamilyName"] == "Baker"
    with pytest.raises(ResourceNotFoundError):
        staff.get_entity("Sales", "00004")


def test_range_query(staff):
    found = staff.query_entities("PartitionKey eq 'Sales' and RowKey ge '00002' and RowKey lt '00004'")
    assert family_names(found) == ["Baker", "Novak"]


def test_partition_scan(staff):
    assert family_names(staff.query_entities("PartitionKey eq 'Sales' and FamilyName eq 'Novak'")) == ["Novak"]
    assert family_names(staff.query_entities("PartitionKey eq 'Sales'")) == DEPARTMENTS["Sales"]


def test_table_scan(staff):
    assert family_names(staff.query_entities("Age gt 22 and Age le 24")) == ["Novak", "Abel"]


def test_prefix_search(staff):
    parameters = {"low": "Jo", "high": "Jp"}
    found = staff.query_entities("FamilyName ge @low and FamilyName lt @high", parameters=parameters)
    assert sorted(family_names(found)) == ["Jonas", "Jones"]
    keys = staff.query_entities("PartitionKey ge 'S' and PartitionKey lt 'T'")
    assert {entity["PartitionKey"] for entity in keys} == {"Sales", "Service"}


def test_intra_partition_secondary_index(client):
    """One transaction keeps two copies of an employee consistent, which are in one partition under two row keys."""
    employee = {"PartitionKey": "Sales", "Name": "Jones", "Mail": "jones@example.test"}
    copies = [{**employee, "RowKey": "number_000223"}, {**employee, "RowKey": "mail_jones@example.test"}]
    client.submit_transaction([("create", copy) for copy in copies])
    assert client.get_entity("Sales", "mail_jones@example.test")["Name"] == "Jones"
    found = client.query_entities("PartitionKey eq 'Sales' and RowKey ge 'mail_' and RowKey lt 'mail`'")
    assert [entity["RowKey"] for entity in found] == ["mail_jones@example.test"]
    client.submit_transaction([("upsert", {**copy, "Name": "Smith"}) for copy in copies])
    assert {e["Name"] for e in client.query_entities("PartitionKey eq 'Sales'")} == {"Smith"}


def test_inter_partition_secondary_index(client):
    """The index copy is in a different partition and is eventually consistent; writing it twice does no harm."""
    client.create_entity({"PartitionKey": "number_Sales", "RowKey": "000223", "Mail": "jones@example.test"})
    copy = {"PartitionKey": "mail_Sales", "RowKey": "jones@example.test", "Number": "000223"}
    for _ in range(2):
        client.upsert_entity(copy, mode=UpdateMode.REPLACE)
    number = client.get_entity("mail_Sales", "jones@example.test")["Number"]
    assert client.get_entity("number_Sales", number)["Mail"] == "jones@example.test"


def test_compound_key_with_projection(client):
    """The row key of a review consists of the employee's number and the year. One range query returns two properties of
    each review."""
    for number in ("000222", "000223"):
        for year in range(2018, 2024):
            client.create_entity({"PartitionKey": "Sales", "RowKey": f"{number}_{year}", "Rating": year % 5, "Text": "x" * 100})
    found = client.query_entities("PartitionKey eq 'Sales' and RowKey ge '000223_2020' and RowKey lt '000223_2023'",
                                  select=["RowKey", "Rating"])
    assert [dict(entity) for entity in found] == [{"RowKey": f"000223_{year}", "Rating": year % 5} for year in (2020, 2021, 2022)]


def test_log_tail_with_inverted_ticks(client):
    """Newest entries first: a row key is the largest tick count minus the ticks of the instant."""
    start = datetime(2024, 5, 6, tzinfo=timezone.utc)
    for hour in range(30):
        instant = start + timedelta(hours=hour)
        client.create_entity({"PartitionKey": "log", "RowKey": inverted_ticks(instant), "Hour": hour})
    page = next(client.query_entities("PartitionKey eq 'log'", results_per_page=10).by_page())
    assert [entity["Hour"] for entity in page] == list(range(29, 19, -1))


def inverted_ticks(instant):
    epoch = datetime(1, 1, 1, tzinfo=timezone.utc)
    ticks = (instant - epoch) // timedelta(microseconds=1) * 10
    return f"{3155378975999999999 - ticks:019}"


def test_heterogeneous_entity_types(client):
    """A department and its employees in one partition, distinguished by a property."""
    client.submit_transaction([
        ("create", {"PartitionKey": "Sales", "RowKey": "department", "EntityType": "Department", "Count": 2}),
        ("create", {"PartitionKey": "Sales", "RowKey": "employee_1", "EntityType": "Employee", "Name": "Jones", "Age": 34}),
        ("create", {"PartitionKey": "Sales", "RowKey": "employee_2", "EntityType": "Employee", "Name": "Baker", "Salary": 1.5}),
    ])
    employees = list(client.query_entities("PartitionKey eq 'Sales' and EntityType eq 'Employee'"))
    assert [entity["Name"] for entity in employees] == ["Jones", "Baker"]
    assert [sorted(set(entity) & {"Age", "Salary"}) for entity in employees] == [["Age"], ["Salary"]]
    assert [e["RowKey"] for e in client.query_entities("Age gt 30")] == ["employee_1"]


def test_one_property_name_with_two_types(client):
    client.create_entity({"PartitionKey": "p", "RowKey": "number", "Value": 5})
    client.create_entity({"PartitionKey": "p", "RowKey": "text", "Value": "5"})
    client.create_entity({"PartitionKey": "p", "RowKey": "wide", "Value": EntityProperty(5, EdmType.INT64)})
    assert [e["RowKey"] for e in client.query_entities("Value eq '5'")] == ["text"]
    assert [e["RowKey"] for e in client.query_entities("Value eq 5")] == ["number", "wide"]
    assert client.get_entity("p", "wide")["Value"] == EntityProperty(5, EdmType.INT64)


def test_data_series_by_merge(client):
    """Each day is an entity with one property for each hour. A merge writes one hour and contains no other
    properties."""
    for hour in range(24):
        client.upsert_entity({"PartitionKey": "sensor", "RowKey": "2024-05-06", f"H{hour:02}": 100 + hour}, mode=UpdateMode.MERGE)
    entity = client.get_entity("sensor", "2024-05-06")
    assert [entity[f"H{hour:02}"] for hour in range(24)] == list(range(100, 124))


def test_count_by_projecting_the_partition_key(staff):
    found = list(staff.list_entities(select=["PartitionKey"]))
    assert len(found) == sum(map(len, DEPARTMENTS.values()))
    assert all(set(entity) == {"PartitionKey"} for entity in found)


def test_selected_property_that_is_missing_is_none(client):
    client.create_entity({"PartitionKey": "p", "RowKey": "r", "A": 1})
    [entity] = client.list_entities(select=["A", "Missing"])
    assert dict(entity) == {"A": 1, "Missing": None}


def test_large_objects_in_several_properties(client):
    """A value larger than 64 KiB is split into several binary properties of one entity."""
    data = bytes(range(256)) * 1000
    parts = {f"Part{i}": data[start:start + 65_536] for i, start in enumerate(range(0, len(data), 65_536))}
    client.create_entity({"PartitionKey": "p", "RowKey": "r", **parts})
    entity = client.get_entity("p", "r")
    assert b"".join(entity[name] for name in parts) == data


def test_optimistic_counter(client):
    """Reads, changes, and writes on condition of the ETag. The loser of a race starts again with the read."""
    client.create_entity({"PartitionKey": "p", "RowKey": "counter", "N": 0})
    stale = client.get_entity("p", "counter")
    for _ in range(5):
        fresh = client.get_entity("p", "counter")
        fresh["N"] += 1
        client.update_entity(fresh, etag=fresh.metadata["etag"], match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceModifiedError):
        client.update_entity(stale, etag=stale.metadata["etag"], match_condition=MatchConditions.IfNotModified)
    assert client.get_entity("p", "counter")["N"] == 5
