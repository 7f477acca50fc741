"""Golden exchanges: for each operation, format and version class, one request and its response, stored in `../golden`.

`../golden/README.md` describes the files. Names in braces replace values that differ between runs, including the
signature and the date of the request. The headers of a response are sorted, in any letter case; their names are compared
as they are spelled. The headers that frame a body are omitted, because the framing belongs to the transport, and so is
the reason of a refusal, which the service does not send.

GOLDEN=write writes the endpoint's responses into the files. Check every changed line against the specification.
"""

import collections
import http.client
import io
import os
import pathlib
import re

import pytest

from conftest import create_table, delete_table, unique_name
from service_document import LOGGING, NO_METRICS, cors, restored, rule, set_sections
from wire import now_text

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden"
ANSWER = b"\n=== answer ===\n"
OMITTED = {"content-length", "transfer-encoding", "connection", "keep-alive", "x-ms-rowhouse-reason"}

# An entity with a property of every type, and one with few.
ENTITIES = [
    '{"PartitionKey":"cars","RowKey":"0007","Model":"Kestrel <é> & \\"co\\"","Doors":4,"Weight":981.5,"Ready":true,'
    '"Serial@odata.type":"Edm.Int64","Serial":"9007199254740993",'
    '"Built@odata.type":"Edm.DateTime","Built":"2023-11-05T06:30:00Z",'
    '"Tag@odata.type":"Edm.Guid","Tag":"0b0c0d0e-1111-4222-8333-444455556666",'
    '"Blob@odata.type":"Edm.Binary","Blob":"AQIDBA==","Blank":" x ","Empty":""}',
    '{"PartitionKey":"cars","RowKey":"it\'s 8","Model":"Merlin"}',
]

POLICIES = (
    '<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers><SignedIdentifier><Id>pol1</Id><AccessPolicy>'
    "<Start>2024-01-01T00:00:00Z</Start><Expiry>2024-02-01T00:00:00Z</Expiry><Permission>ra</Permission>"
    "</AccessPolicy></SignedIdentifier></SignedIdentifiers>"
)

# Patterns for values that differ between runs, and the names that replace them.
VARIABLE = [
    (rb"datetime'[0-9T.%AZ-]+'", b"datetime'{etag}'"),
    (rb'("Timestamp":")[0-9T:.Z-]+"', rb'\1{timestamp}"'),
    (rb'(<d:Timestamp m:type="Edm.DateTime">)[0-9T:.Z-]+<', rb"\1{timestamp}<"),
    (rb"<updated>[0-9T:Z-]+<", b"<updated>{updated}<"),
    (rb"RequestId:[0-9a-f-]{36}", b"RequestId:{guid}"),
    (rb"Time:[0-9-]{10}T[0-9:]{8}\.[0-9]{7}Z", b"Time:{time}"),
    (rb"(batchresponse|changesetresponse)_[0-9a-f-]{36}", rb"\1_{guid}"),
    (rb"<LastSyncTime>[^<]+<", b"<LastSyncTime>{date}<"),
]


def version_line(version):
    return b"x-ms-version: " + version.encode("ascii") + b"\r\n"


def stored_exchanges():
    """Returns the exchanges, each as its operation, its name with `*` for the version, and the version, by case."""
    exchanges = {}
    for path in sorted(FOLDER.glob("*.http")):
        parts = re.split(rb"(?m)^=== (\S+): (.+) ===\n", path.read_bytes())[1:]
        for name, versions, text in zip(parts[::3], parts[1::3], parts[2::3]):
            name = name.decode("ascii")
            for version in versions.decode("ascii").split(" "):
                case = f"{path.stem}/{name.replace('*', version)}"
                assert case not in exchanges, f"{case} is there twice"
                exchanges[case] = path.stem, name, version, text[:-1].replace(version_line("{version}"), version_line(version))
    return exchanges


EXCHANGES = stored_exchanges()


@pytest.fixture(scope="module", autouse=True)
def written():
    """With GOLDEN=write, writes all exchanges at the end. Versions with the same exchange share an entry of a file."""
    yield
    if os.environ.get("GOLDEN") != "write":
        return
    entries = collections.defaultdict(list)
    for operation, name, version, text in EXCHANGES.values():
        entries[operation, name, text.replace(version_line(version), version_line("{version}"))].append(version)
    files = collections.defaultdict(list)
    for (operation, name, text), versions in entries.items():
        files[operation].append((name, " ".join(sorted(versions)), text))
    for operation, parts in files.items():
        texts = [f"=== {name}: {versions} ===\n".encode("ascii") + text + b"\n" for name, versions, text in sorted(parts)]
        (FOLDER / f"{operation}.http").write_bytes(b"".join(texts))


@pytest.fixture
def places(wire):
    """Returns values for the names in braces in a request, such as a table with two entities and an unused name."""
    table, free = create_table(wire, unique_name()), unique_name()
    for entity in ENTITIES:
        answer = table.insert(entity.encode("utf-8"))
        assert answer.status == 201, answer
    etag = table.point("cars", "0007").header("ETag")
    yield {"prefix": wire.prefix, "host": wire.netloc, "base": wire.base, "account": wire.account,
           "table": table.name, "new": free, "etag": etag, "date": now_text()}
    for name in (table.name, free):
        delete_table(wire, name)


@pytest.fixture
def account_state(wire, case):
    """Sets the service properties that an exchange shows or needs, and restores them afterwards."""
    if "service_properties" not in case and "preflight" not in case:
        yield
        return
    with restored(wire):
        metrics = [f"<{name}>{NO_METRICS}</{name}>" for name in ("HourMetrics", "MinuteMetrics")]
        set_sections(wire, LOGGING, *metrics, cors(rule("https://here.example", "GET,PUT", "x-ms-*", "etag", 77)))
        yield


def signed(wire, request):
    """Returns the request with its signature, which covers the date, the media type and the target as sent."""
    if b"{signature}" not in request:
        return request
    head = request.partition(b"\r\n\r\n")[0].decode("utf-8")
    line, *headers = head.split("\r\n")
    method, target, _ = line.split(" ")
    merged = dict(header.split(": ", 1) for header in headers)
    value = wire.authorization(method, target, {**merged, "Authorization": ""})
    return request.replace(b"SharedKey {signature}", value.encode("ascii"))


class Received:
    """A substitute for a socket that returns given bytes, for the parser of the standard library."""

    def __init__(self, data):
        self.data = data

    def makefile(self, _):
        return io.BytesIO(self.data)


def check_one_stamp(etag, body):
    """Checks that the ETags in the header and in the body are equal, because an entity has one Timestamp."""
    stamps = {stamp.replace(b"%3A", b":") for stamp in re.findall(rb"datetime'([0-9T.%AZ-]+)'", body)}
    stamps |= set(re.findall(rb'"Timestamp":"([^"]+)"', body))
    stamps |= set(re.findall(rb'<d:Timestamp m:type="Edm.DateTime">([^<]+)<', body))
    if etag and stamps:
        assert stamps == {etag.split("'")[1].replace("%3A", ":").encode("ascii")}


def answered(wire, places, data, method):
    """Replaces values that differ between runs with names in braces."""
    response = http.client.HTTPResponse(Received(data), method=method)
    response.begin()
    lines = [f"HTTP/1.1 {response.status} {response.reason}"]
    for name, value in sorted(response.getheaders(), key=lambda header: (header[0].lower(), header[1])):
        if name.lower() in OMITTED:
            continue
        shown = {"Date": "{date}", "Server": "{server}", "x-ms-request-id": "{guid}"}.get(name, value)
        lines.append(f"{name}: {shown}")
    body = response.read()
    check_one_stamp(response.getheader("ETag"), body)
    text = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    for value, name in [(wire.base, "base"), (wire.netloc, "host"), (places["table"], "table"), (places["new"], "new"),
                        (wire.account, "account")]:
        text = text.replace(value.encode("ascii"), b"{" + name.encode("ascii") + b"}")
    for pattern, replacement in VARIABLE:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize("case", EXCHANGES)
def test_exchange(wire, places, account_state, case):
    *place, text = EXCHANGES[case]
    stored, separator, expected = text.partition(ANSWER)
    assert separator or os.environ.get("GOLDEN") == "write", f"{case} has no answer"
    if case.startswith("get_table_acl/") and not case.endswith(".none"):
        answer = wire.send("PUT", f"/{places['table']}?comp=acl", POLICIES)
        assert answer.status == 204, answer
    request = stored
    for name, value in places.items():
        request = request.replace(b"{" + name.encode("ascii") + b"}", value.encode("ascii"))
    body = request.partition(b"\r\n\r\n")[2]
    request = request.replace(b"{length}", str(len(body)).encode("ascii"))
    method = request.split(b" ", 1)[0].decode("ascii")
    got = answered(wire, places, wire.talk(signed(wire, request)), method)
    if os.environ.get("GOLDEN") == "write":
        EXCHANGES[case] = (*place, stored + ANSWER + got)
        return
    if b"\r\nx-ms-error-code:" not in got:
        # The service sends this header only with some errors.
        expected = re.sub(rb"\r\nx-ms-error-code: \w+", b"", expected, count=1)
    assert got.decode("utf-8") == expected.decode("utf-8")


# Variants of an operation that returns entities or tables, and of one that returns no body.
ATOM_VERSIONS = ["none", "2009-04-14", "2011-08-18", "2014-02-14", "2015-07-08"]
JSON_VERSIONS = ["2014-02-14", "2015-07-08", "2019-02-02"]
FORMATS = [f"atom.{version}" for version in ATOM_VERSIONS] + [
    f"json-{level}-metadata.{version}" for level in ("no", "minimal", "full") for version in JSON_VERSIONS]
ENTITY_OPERATIONS = ["create_table", "delete_entity", "delete_table", "get_entity", "get_table", "insert_entity",
                     "insert_or_merge_entity", "insert_or_replace_entity", "merge_entity", "query_entities", "query_tables",
                     "update_entity"]
XML_OPERATIONS = ["get_service_properties", "get_table_acl", "set_service_properties", "set_table_acl"]
# Requests without a version do not support upserts, so `2009-04-14` covers the refusal for both.
MISSING = {"insert_or_merge_entity/atom.none", "insert_or_replace_entity/atom.none"}


def test_there_is_an_exchange_of_every_operation_format_and_class():
    wanted = {f"{operation}/{name}" for operation in ENTITY_OPERATIONS for name in FORMATS} - MISSING
    wanted |= {f"batch/{name}.transaction" for name in FORMATS}
    wanted |= {f"{operation}/xml.{version}" for operation in XML_OPERATIONS for version in ("2012-02-12", "2014-02-14", "2019-02-02")}
    wanted |= {"get_service_stats/xml.2019-02-02", "preflight/2019-02-02.allowed"}
    assert wanted - set(EXCHANGES) == set()
