"""EDM types at their limits through the official Python client: each value must be read as it was written, with its
type."""

import math
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from azure.data.tables import EdmType, EntityProperty, UpdateMode

from expect import TIMESTAMP

UTC = timezone.utc
GUID = uuid.UUID("0b0c0d0e-1111-4222-8333-444455556666")

VALUES = {
    "string": "text",
    "string-empty": "",
    "string-blanks": "  \t ",
    "string-longest": "x" * 32_768,
    "string-longest-astral": "\U0001F600" * 16_384,
    "string-non-ascii": "grüße 日本語",
    "string-control": "a\x01b\nc\rd\te",
    "string-quotes": "O'Neil \"x\" \\ /",
    "int32-min": -(2**31),
    "int32-max": 2**31 - 1,
    "boolean-true": True,
    "boolean-false": False,
    "double": 981.5,
    "double-integral": 5.0,
    "double-smallest": 5e-324,
    "double-largest": 1.797693134862315e308,
    "double-infinity": math.inf,
    "double-negative-infinity": -math.inf,
    "guid": GUID,
    "binary-empty": b"",
    "binary-largest": bytes(range(256)) * 256,
    "int64-min": EntityProperty(-(2**63), EdmType.INT64),
    "int64-max": EntityProperty(2**63 - 1, EdmType.INT64),
    "int64-small": EntityProperty(7, EdmType.INT64),
}


@pytest.fixture(scope="module")
def shared_client(service, shared):
    with service.get_table_client(shared.name) as client:
        yield client


@pytest.mark.parametrize("name", VALUES)
def test_value_round_trips(shared_client, key, name):
    value = VALUES[name]
    shared_client.create_entity({"PartitionKey": key, "RowKey": "r", "P": value})
    read = shared_client.get_entity(key, "r")["P"]
    assert read == value
    assert type(read) is type(value)
    [queried] = shared_client.query_entities("PartitionKey eq @pk", parameters={"pk": key})
    assert queried["P"] == value


def test_nan_round_trips(shared_client, key):
    shared_client.create_entity({"PartitionKey": key, "RowKey": "r", "P": math.nan})
    assert math.isnan(shared_client.get_entity(key, "r")["P"])


DATES = {
    "first": datetime(1601, 1, 1, tzinfo=UTC),
    "last-microsecond": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "microseconds": datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC),
    "whole-second": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
    "offset": datetime(2024, 5, 6, 1, 8, 9, tzinfo=timezone(timedelta(hours=2))),
}


@pytest.mark.parametrize("name", DATES)
def test_datetime_round_trips(shared_client, key, name):
    shared_client.create_entity({"PartitionKey": key, "RowKey": "r", "P": DATES[name]})
    assert shared_client.get_entity(key, "r")["P"] == DATES[name]


def test_datetime_keeps_seven_digits_through_read_and_write(shared_client, shared, key):
    text = "9999-12-31T23:59:59.9999999Z"
    shared.insert({"PartitionKey": key, "RowKey": "r", "P": text, "P@odata.type": "Edm.DateTime"})
    entity = shared_client.get_entity(key, "r")
    assert entity["P"].tables_service_value == text
    shared_client.update_entity(entity, mode=UpdateMode.REPLACE)
    assert shared.stored(key, "r") == {"P": text}


def test_none_is_dropped(shared_client, key):
    shared_client.create_entity({"PartitionKey": key, "RowKey": "r", "P": None, "Q": 1})
    assert dict(shared_client.get_entity(key, "r")) == {"PartitionKey": key, "RowKey": "r", "Q": 1}


def test_metadata_of_a_read_entity(shared_client, key):
    written = shared_client.create_entity({"PartitionKey": key, "RowKey": "r"})
    metadata = shared_client.get_entity(key, "r").metadata
    assert metadata["etag"] == written["etag"]
    assert TIMESTAMP.fullmatch(metadata["timestamp"].tables_service_value)


def test_one_property_name_with_every_type(shared_client, key):
    values = {"a": "3", "b": 3, "c": 3.0, "d": EntityProperty(3, EdmType.INT64), "e": True, "f": GUID, "g": b"3"}
    for row_key, value in values.items():
        shared_client.create_entity({"PartitionKey": key, "RowKey": row_key, "P": value})
    read = {e["RowKey"]: e["P"] for e in shared_client.query_entities(f"PartitionKey eq '{key}'")}
    assert read == values
    assert {k: type(v) for k, v in read.items()} == {k: type(v) for k, v in values.items()}


def test_a_write_may_change_the_type_of_a_property(shared_client, key):
    shared_client.create_entity({"PartitionKey": key, "RowKey": "r", "P": "text", "Q": 1})
    shared_client.update_entity({"PartitionKey": key, "RowKey": "r", "P": 2.5}, mode=UpdateMode.MERGE)
    entity = shared_client.get_entity(key, "r")
    assert (entity["P"], entity["Q"]) == (2.5, 1)
