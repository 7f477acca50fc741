"""Reads files of `rowhouse export` with the official client, and imports files written by the same code."""

import base64
import csv
import json
import os
import subprocess
import uuid
from datetime import datetime, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import EdmType, EntityProperty, TableServiceClient

BINARY = os.environ.get("ROWHOUSE_BINARY")
pytestmark = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ENTITIES = [
    {
        "PartitionKey": "types",
        "RowKey": "é \U0001f600 ' , \"",
        "Text": 'two\r\nlines, "quoted" é \U0001f600\x01',
        "Empty": "",
        "Yes": True,
        "Small": -(2**31),
        "Large": EntityProperty(2**63 - 1, EdmType.INT64),
        "Whole": 5.0,
        "Least": 5e-324,
        "Endless": float("-inf"),
        "When": EntityProperty("2031-04-01T06:30:00.1234567Z", EdmType.DATETIME),
        "Id": uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"),
        "Bytes": b"\x00\xff,\n",
        "Nothing": b"",
    },
    {"PartitionKey": "types", "RowKey": "", "Text": "", "Other": 7},
    {"PartitionKey": "types", "RowKey": "none"},
]

# Functions that convert a value in a file to the client's value, by type. Values of other types are JSON values.
FROM_TEXT = {
    "Edm.String": str,
    "Edm.Boolean": lambda text: text == "true",
    "Edm.Int32": int,
    "Edm.Int64": lambda text: EntityProperty(int(text), EdmType.INT64),
    "Edm.Double": float,
    "Edm.DateTime": lambda text: EntityProperty(text, EdmType.DATETIME),
    "Edm.Guid": uuid.UUID,
    "Edm.Binary": base64.b64decode,
}


def from_line(line):
    raw = json.loads(line)
    types = {name.removesuffix("@odata.type"): raw.pop(name) for name in list(raw) if name.endswith("@odata.type")}
    return {name: FROM_TEXT[types[name]](value) if name in types else value for name, value in raw.items()}


def from_record(record):
    entity = {name: record[name] for name in ("PartitionKey", "RowKey")}
    for name, edm_type in record.items():
        if name.endswith("@type") and edm_type:
            name = name.removesuffix("@type")
            entity[name] = FROM_TEXT[edm_type](record[name])
    return entity


def to_line(entity):
    """Returns a client's entity as a line of JSON. Includes the types that JSON does not imply."""
    line = {}
    for name, value in entity.items():
        edm_type = None
        if isinstance(value, EntityProperty):
            edm_type, value = "Edm.Int64", str(value.value)
        elif isinstance(value, datetime):
            edm_type, value = "Edm.DateTime", value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        elif isinstance(value, uuid.UUID):
            edm_type, value = "Edm.Guid", str(value)
        elif isinstance(value, bytes):
            edm_type, value = "Edm.Binary", base64.b64encode(value).decode()
        elif isinstance(value, float):
            edm_type, value = "Edm.Double", {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(value), value)
        if edm_type:
            line[f"{name}@odata.type"] = edm_type
        line[name] = value
    return json.dumps(line)


@pytest.fixture(scope="module")
def service():
    arguments = ["serve", "--in-memory", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("listening on http://"), line
    endpoint = f"{line.split()[-1]}/{ACCOUNT}"
    with TableServiceClient(endpoint=endpoint, credential=AzureNamedKeyCredential(ACCOUNT, KEY)) as client:
        yield client
    process.terminate()
    process.wait(20)
    process.stdout.close()


def rowhouse(*arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def new_table(service):
    return service.create_table("t" + uuid.uuid4().hex[:20])


def exact(table):
    """Returns the entities in order. Times are strings with all their digits, because Python's own times have fewer
    digits."""
    shown = []
    for entity in table.list_entities():
        values = {name: getattr(value, "tables_service_value", None) or value for name, value in entity.items()}
        shown.append(values)
    return shown


@pytest.fixture
def filled(service):
    table = new_table(service)
    for entity in ENTITIES:
        table.create_entity(entity)
    return table


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_what_is_exported_is_loaded_by_python(service, filled, tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    rowhouse("export", "--from", service.url, "--table", filled.table_name, "--to", str(path))
    with path.open(encoding="utf-8", newline="") as file:
        if ending == "jsonl":
            entities = [from_line(line) for line in file]
        else:
            entities = [from_record(record) for record in csv.DictReader(file)]
    loaded = new_table(service)
    for entity in entities:
        loaded.create_entity(entity)
    assert len(exact(loaded)) == len(ENTITIES)
    assert exact(loaded) == exact(filled)


def test_what_python_writes_is_imported(service, filled, tmp_path):
    path = tmp_path / "lines.jsonl"
    # Python's times have six fractional digits.
    filled.update_entity({"PartitionKey": "types", "RowKey": ENTITIES[0]["RowKey"], "When": datetime(2031, 4, 1, 6, 30, 0, 123456, timezone.utc)})
    path.write_text("\n".join(to_line(entity) for entity in filled.list_entities()), encoding="utf-8")
    imported = new_table(service)
    rowhouse("import", "--from", str(path), "--to", service.url, "--table", imported.table_name)
    assert exact(imported) == exact(filled)


def test_records_that_python_writes_are_imported(service, tmp_path):
    path = tmp_path / "people.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["PartitionKey", "RowKey", "Name", "Age"], ["a", "1", 'Ann, "the first"', 41], ["b", "1", "Bob\nB.", 7]])
    table = new_table(service)
    arguments = ["--from", str(path), "--to", service.url, "--table", table.table_name, "--types", "Age=Edm.Int32"]
    rowhouse("import", *arguments)
    assert exact(table) == [
        {"PartitionKey": "a", "RowKey": "1", "Name": 'Ann, "the first"', "Age": 41},
        {"PartitionKey": "b", "RowKey": "1", "Name": "Bob\nB.", "Age": 7},
    ]
