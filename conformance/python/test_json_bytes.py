"""The exact bytes of JSON responses at the three metadata levels (03 §3)."""

import pytest

from expect import check_etag, check_status
from wire import FULL, MINIMAL, NONE

LEVELS = [pytest.param(NONE, id="none"), pytest.param(MINIMAL, id="minimal"), pytest.param(FULL, id="full")]
PROPERTIES = ('"Model":"Kestrel","Doors":4,"Weight":981.5,"Ready":true,"Serial@odata.type":"Edm.Int64",'
              '"Serial":"9007199254740993","Built@odata.type":"Edm.DateTime","Built":"2023-11-05T06:30:00Z",'
              '"Tag@odata.type":"Edm.Guid","Tag":"0b0c0d0e-1111-4222-8333-444455556666",'
              '"Blob@odata.type":"Edm.Binary","Blob":"AQIDBA=="')
BARE_PROPERTIES = ('"Model":"Kestrel","Doors":4,"Weight":981.5,"Ready":true,"Serial":"9007199254740993",'
                   '"Built":"2023-11-05T06:30:00Z","Tag":"0b0c0d0e-1111-4222-8333-444455556666","Blob":"AQIDBA=="')


def entity_members(table, etag, level, row_key, address_key=None, properties=None):
    """Returns the members of an entity in partition 'cars' as they appear in an entity set."""
    wire = table.wire
    timestamp = etag.removeprefix("W/\"datetime'").removesuffix("'\"").replace("%3A", ":")
    quoted_etag = etag.replace('"', '\\"')
    address = f"{table.name}(PartitionKey='cars',RowKey='{address_key or row_key}')"
    if properties is None:
        properties = BARE_PROPERTIES if level == NONE else PROPERTIES
    keys = f'"PartitionKey":"cars","RowKey":"{row_key}",'
    stamp = f'"Timestamp":"{timestamp}"' + ("," + properties if properties else "")
    if level == NONE:
        return keys + stamp
    if level == MINIMAL:
        return f'"odata.etag":"{quoted_etag}",' + keys + stamp
    return (f'"odata.type":"{wire.account}.{table.name}","odata.id":"{wire.base}/{address}",'
            f'"odata.etag":"{quoted_etag}","odata.editLink":"{address}",' + keys
            + '"Timestamp@odata.type":"Edm.DateTime",' + stamp)


def metadata(table, level, suffix):
    return "" if level == NONE else f'"odata.metadata":"{table.wire.base}/$metadata#{suffix}",'


def insert(table, row_key, level=MINIMAL, properties=PROPERTIES):
    body = f'{{"PartitionKey":"cars","RowKey":"{row_key}"' + ("," + properties if properties else "") + "}"
    return check_status(table.insert(body, accept=level), 201)


@pytest.mark.parametrize("level", LEVELS)
def test_single_entity(table, level):
    created = insert(table, "0007", level)
    etag = check_etag(created)
    wanted = "{" + metadata(table, level, f"{table.name}/@Element") + entity_members(table, etag, level, "0007") + "}"
    assert created.text == wanted
    assert table.point("cars", "0007", accept=level).text == wanted


@pytest.mark.parametrize("level", LEVELS)
def test_entity_without_properties(table, level):
    etag = check_etag(insert(table, "0007", properties=""))
    members = entity_members(table, etag, level, "0007", properties="")
    wanted = "{" + metadata(table, level, f"{table.name}/@Element") + members + "}"
    assert table.point("cars", "0007", accept=level).text == wanted


@pytest.mark.parametrize("level", LEVELS)
def test_entity_set(table, level):
    etags = [check_etag(insert(table, row_key)) for row_key in ("0007", "0008")]
    members = [entity_members(table, e, level, k) for e, k in zip(etags, ("0007", "0008"))]
    value = ",".join("{" + m + "}" for m in members)
    assert table.query(accept=level).text == "{" + metadata(table, level, table.name) + f'"value":[{value}]}}'


@pytest.mark.parametrize("level", LEVELS)
def test_empty_entity_set(table, level):
    assert table.query(accept=level).text == "{" + metadata(table, level, table.name) + '"value":[]}'


def test_address_members_are_percent_encoded(table):
    created = insert(table, "a b'c+é", FULL, properties="")
    etag = check_etag(created)
    texts = []
    for shown in ("a b'c+é", "a b'c+\\u00e9"):
        members = entity_members(table, etag, FULL, shown, "a%20b''c%2B%C3%A9", properties="")
        texts.append("{" + metadata(table, FULL, f"{table.name}/@Element") + members + "}")
    assert created.text in texts


def table_entry(wire, name, level, single):
    link = f"Tables('{name}')"
    full = f'"odata.type":"{wire.account}.Tables","odata.id":"{wire.base}/{link}","odata.editLink":"{link}",'
    metadata_member = "" if level == NONE or not single else f'"odata.metadata":"{wire.base}/$metadata#Tables/@Element",'
    return "{" + metadata_member + (full if level == FULL else "") + f'"TableName":"{name}"' + "}"


@pytest.mark.parametrize("level", LEVELS)
def test_table_entry(wire, new_name, level):
    name = new_name("Cars")
    created = check_status(wire.send("POST", "/Tables", {"TableName": name}, accept=level), 201)
    assert created.text == table_entry(wire, name, level, single=True)
    assert wire.send("GET", f"/Tables('{name}')", accept=level).text == created.text


@pytest.mark.parametrize("level", LEVELS)
def test_table_set(wire, new_name, level):
    prefix = new_name()[:25]
    names = [new_name(prefix + letter) for letter in "ab"]
    for name in names:
        check_status(wire.send("POST", "/Tables", {"TableName": name}), 201)
    target = f"/Tables?$filter=TableName%20ge%20'{prefix}a'%20and%20TableName%20lt%20'{prefix}c'"
    entries = ",".join(table_entry(wire, name, level, single=False) for name in names)
    first = "" if level == NONE else f'"odata.metadata":"{wire.base}/$metadata#Tables",'
    assert wire.send("GET", target, accept=level).text == "{" + first + f'"value":[{entries}]}}'


@pytest.mark.parametrize("level", LEVELS)
def test_empty_table_set(wire, level):
    first = "" if level == NONE else f'"odata.metadata":"{wire.base}/$metadata#Tables",'
    answer = wire.send("GET", "/Tables?$filter=TableName%20eq%20'nosuchtable0'", accept=level)
    assert answer.text == "{" + first + '"value":[]}'


# $select: the suffix of odata.metadata and the members that follow odata.etag (03 §3.5, 04 §4).
SELECTS = {
    "two": ("Model,Doors", "Model,Doors", '"Doors":4,"Model":"Kestrel"'),
    "order-of-the-names": ("Doors,Model", "Doors,Model", '"Doors":4,"Model":"Kestrel"'),
    "blank-after-comma": ("Model, Doors", "Model,%20Doors", '"Doors":4,"Model":"Kestrel"'),
    "keys": ("PartitionKey,RowKey,Doors", "PartitionKey,RowKey,Doors", '"PartitionKey":"cars","RowKey":"0007","Doors":4'),
    "typed": ("Serial", "Serial", '"Serial@odata.type":"Edm.Int64","Serial":"9007199254740993"'),
    "missing-last": ("Doors,Missing", "Doors,Missing", '"Doors":4,"Missing":null'),
    "only-missing": ("Missing", "Missing", '"Missing":null'),
}


@pytest.mark.parametrize("name", SELECTS)
def test_select_minimal(table, name):
    select, suffix, members = SELECTS[name]
    etag = check_etag(insert(table, "0007")).replace('"', '\\"')
    body = f'"odata.etag":"{etag}",{members}'
    first = metadata(table, MINIMAL, f"{table.name}&$select={suffix}")
    assert table.query({"$select": select}).text == "{" + first + f'"value":[{{{body}}}]}}'
    first = metadata(table, MINIMAL, f"{table.name}/@Element&$select={suffix}")
    assert table.point("cars", "0007", {"$select": select}).text == "{" + first + body + "}"


@pytest.mark.parametrize("name", SELECTS)
def test_select_none(table, name):
    select, _, members = SELECTS[name]
    insert(table, "0007")
    bare = members.replace('"Serial@odata.type":"Edm.Int64",', "")
    assert table.query({"$select": select}, accept=NONE).text == f'{{"value":[{{{bare}}}]}}'
    assert table.point("cars", "0007", {"$select": select}, accept=NONE).text == "{" + bare + "}"


def test_empty_select_on_a_set(table):
    etag = check_etag(insert(table, "0007"))
    first = metadata(table, MINIMAL, f"{table.name}&$select=")
    wanted = "{" + first + '"value":[{' + entity_members(table, etag, MINIMAL, "0007") + "}]}"
    assert table.query({"$select": ""}).text == wanted


def test_empty_select_on_a_point_read_is_ignored(table):
    insert(table, "0007")
    answer = table.point("cars", "0007", {"$select": ""})
    assert answer.text == table.point("cars", "0007").text


@pytest.mark.parametrize("level", LEVELS)
def test_error_is_compact(shared, level):
    answer = shared.point("no such", "entity", accept=level)
    request_id = answer.header("x-ms-request-id")
    start = ('{"odata.error":{"code":"ResourceNotFound","message":{"lang":"en-US","value":'
             f'"The specified resource does not exist.\\nRequestId:{request_id}\\nTime:')
    assert answer.text.startswith(start) and answer.text.endswith('Z"}}}')
