"""Content negotiation: Accept, $format, Content-Type, and the 415 responses (03 §1, 02 §8)."""

import pytest

from expect import PROCESSING, check_problem, check_refused, check_status
from wire import FULL, MINIMAL, NONE

ACCEPTS = {
    "plain": ("application/json", MINIMAL),
    "minimal": (MINIMAL, MINIMAL),
    "none": (NONE, NONE),
    "full": (FULL, FULL),
    "blank": ("application/json; odata=nometadata", NONE),
    "blanks": ("application/json ; odata=fullmetadata", FULL),
    "upper-case": ("APPLICATION/JSON;ODATA=NOMETADATA", NONE),
    "charset": ("application/json;odata=nometadata;charset=utf-8", NONE),
    "charset-first": ("application/json;charset=utf-8;odata=fullmetadata", FULL),
    "streaming": ("application/json;streaming=true;odata=nometadata", NONE),
    "unknown-first": ("text/plain,application/json;odata=nometadata", NONE),
    "two-levels": ("application/json;odata=fullmetadata, application/json;odata=nometadata", FULL),
}


@pytest.mark.parametrize("name", ACCEPTS)
def test_accept(shared, name):
    accept, level = ACCEPTS[name]
    answer = check_status(shared.query(accept=accept), 200)
    assert answer.header("Content-Type") == f"{level};streaming=true;charset=utf-8"
    assert ("odata.metadata" in answer.json()) == (level != NONE)


FORMATS = {
    "json": ("json", NONE, MINIMAL),
    "none": (NONE, FULL, NONE),
    "minimal": (MINIMAL, NONE, MINIMAL),
    "full": (FULL, NONE, FULL),
    "plain": ("application/json", NONE, MINIMAL),
    "without-accept": (NONE, None, NONE),
    "over-atom": ("json", "application/atom+xml", MINIMAL),
}


@pytest.mark.parametrize("name", FORMATS)
def test_format_option_replaces_accept(shared, key, name):
    value, accept, level = FORMATS[name]
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r"}), 201)
    wanted = f"{level};streaming=true;charset=utf-8"
    answer = check_status(shared.query({"$format": value}, headers={"Accept": accept}), 200)
    assert answer.header("Content-Type") == wanted
    answer = check_status(shared.point(key, "r", {"$format": value}, headers={"Accept": accept}), 200)
    assert answer.header("Content-Type") == wanted


@pytest.mark.parametrize("accept", [None, "application/atom+xml", "application/atom+xml,application/xml"],
                         ids=["missing", "atom", "atom-or-xml"])
@pytest.mark.parametrize("version", ["2015-12-11", "2019-02-02", "2030-01-01"])
def test_atom_is_gone(shared, accept, version):
    answer = shared.query(headers={"Accept": accept}, version=version)
    check_problem(answer, 415, "AtomFormatNotSupported", form="odata")
    assert answer.header("Content-Type").replace(" ", "") == "application/xml;charset=utf-8"
    assert answer.header("Cache-Control") is None


def test_atom_format_option_is_gone(shared):
    check_problem(shared.query({"$format": "atom"}), 415, "AtomFormatNotSupported")


@pytest.mark.parametrize("content_type", ["application/atom+xml", "application/atom+xml;type=entry;charset=utf-8"])
def test_atom_body_is_gone(shared, content_type):
    check_problem(shared.insert(b"<entry/>", headers={"Content-Type": content_type}), 415, "AtomFormatNotSupported")


@pytest.mark.parametrize("accept", ["text/plain", "text/html,image/*", "application/xml"])
def test_unknown_accept(shared, accept):
    if accept == "application/xml":
        check_status(shared.query(accept=accept), 415)
    else:
        check_problem(shared.query(accept=accept), 415, "MediaTypeNotSupported")


def test_verbose_json(shared):
    check_status(shared.query(accept="application/json;odata=verbose"), 415)


def test_anything_accepted(shared):
    check_status(shared.query(accept="*/*"), 200, 415)


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
def test_delete_table_without_data_service_version(wire, new_name, accept):
    name = new_name()
    check_status(wire.send("POST", "/Tables", {"TableName": name}), 201)
    answer = wire.send("DELETE", f"/Tables('{name}')", accept=accept, headers={"DataServiceVersion": None}, version="2019-07-07")
    check_status(answer, 204)


CONTENT_TYPES = ["application/json", "application/json;odata=nometadata", "application/json;odata=fullmetadata",
                 "application/json; charset=utf-8", "application/json;charset=utf-8;odata=minimalmetadata", "Application/JSON"]


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
def test_content_type(shared, key, content_type):
    answer = shared.insert({"PartitionKey": key, "RowKey": "é"}, headers={"Content-Type": content_type})
    assert check_status(answer, 201).json()["RowKey"] == "é"


def test_unknown_content_type(shared, key):
    answer = shared.insert({"PartitionKey": key, "RowKey": "r"}, headers={"Content-Type": "text/plain"})
    check_refused(answer)


def test_missing_content_type(wire, shared, key):
    entity = {"PartitionKey": key, "RowKey": "r"}
    without = {"Content-Type": None}
    for answer in [shared.insert(entity, headers=without), shared.write("PUT", key, "r", {}, headers=without),
                   shared.write("MERGE", key, "r", {}, headers={**without, "If-Match": "*"}),
                   wire.send("POST", "/Tables", {"TableName": shared.name}, headers=without)]:
        check_problem(answer, 400, "InvalidInput", "Content-Type header value missing.")
        assert answer.header("Cache-Control") is None
    check_status(shared.point(key, "r"), 404)


def test_byte_order_mark_is_accepted(shared, key):
    body = b"\xef\xbb\xbf" + b'{"PartitionKey":"%s","RowKey":"r","A":"\xc3\xa9"}' % key.encode()
    check_status(shared.insert(body), 201)
    assert shared.stored(key, "r") == {"A": "é"}


@pytest.mark.parametrize("version", ["2009-09-19", "2011-08-18", "2012-02-12"])
def test_json_before_2013_08_15(shared, version):
    answer = shared.query(version=version, headers={"DataServiceVersion": None})
    check_problem(answer, 415, "JsonFormatNotSupported")


def test_json_without_version(shared):
    answer = shared.query(headers={"x-ms-version": None, "DataServiceVersion": None})
    check_problem(answer, 415, "JsonFormatNotSupported")


DATA_SERVICE_VERSIONS = {
    "one": ({"DataServiceVersion": "1.0"}, 415),
    "two": ({"DataServiceVersion": "2.0"}, 415),
    "two-suffix": ({"DataServiceVersion": "2.0;NetFx"}, 415),
    "three": ({"DataServiceVersion": "3.0"}, 200),
    "three-suffix": ({"DataServiceVersion": "3.0;NetFx"}, 200),
    "three-semicolon": ({"DataServiceVersion": "3.0;"}, 200),
    "max-decides-up": ({"DataServiceVersion": "1.0;", "MaxDataServiceVersion": "3.0;NetFx"}, 200),
    "max-decides-down": ({"DataServiceVersion": "3.0", "MaxDataServiceVersion": "2.0"}, 415),
    "max-alone": ({"DataServiceVersion": None, "MaxDataServiceVersion": "3.0"}, 200),
    "neither": ({"DataServiceVersion": None}, 200),
}


@pytest.mark.parametrize("name", DATA_SERVICE_VERSIONS)
def test_data_service_version(shared, name):
    headers, status = DATA_SERVICE_VERSIONS[name]
    answer = shared.query(headers=headers)
    if status == 415:
        check_problem(answer, 415, "JsonFormatNotSupported")
    else:
        check_status(answer, 200)


def test_unparsable_data_service_version(shared):
    check_refused(shared.query(headers={"DataServiceVersion": "three"}))


def test_xml_error_for_atom_client(shared):
    headers = {"DataServiceVersion": "2.0;NetFx", "MaxDataServiceVersion": "2.0;NetFx"}
    answer = shared.point("no such", "entity", accept="application/atom+xml", version="2014-02-14", headers=headers)
    check_problem(answer, 404, "ResourceNotFound", form="odata")
    assert answer.header("Content-Type") == "application/xml;charset=utf-8"


def test_xml_error_for_atom_body(shared):
    headers = {"Content-Type": "application/atom+xml", "DataServiceVersion": "2.0"}
    answer = shared.insert(b"<entry", accept="*/*", version="2014-02-14", headers=headers)
    check_problem(answer, 400, "InvalidInput", PROCESSING, form="odata")
