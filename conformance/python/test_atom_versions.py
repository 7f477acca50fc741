"""Atom before version 2015-12-11: the life cycle of a table, what each version supports, and the response's format."""

import pytest

from atom_body import (ATOM, ENTRY, FEED, TWO, AtomTable, atom_insert, atom_send, atom_write, custom, entry, media_types, read_entry,
                       read_feed)
from batch_body import changeset_body, post_batch, read_parts
from expect import check_etag, check_problem, check_status
from wire import FULL, MINIMAL, NONE

VERSIONS = ["2009-04-14", "2009-07-17", "2009-09-19", "2011-08-18", "2012-02-12", "2013-08-15", "2014-02-14", "2015-02-21",
            "2015-04-05", "2015-07-08"]
ACCEPTS = {"atom": ATOM, "atom-or-xml": "application/atom+xml,application/xml", "anything": "*/*", "missing": None}
NEITHER = {"DataServiceVersion": None, "MaxDataServiceVersion": None}


@pytest.mark.parametrize("version", [None, *VERSIONS])
def test_life_of_a_table(wire, new_name, key, version):
    """Executes every kind of operation with the headers of a client of that time."""
    headers = {"DataServiceVersion": "1.0;NetFx", "MaxDataServiceVersion": "1.0;NetFx", "x-ms-version": version}
    name = new_name()
    entry_type, feed_type, error_type = media_types(version)

    def send(method, target, body=None, **more):
        return atom_send(wire, method, target, body, headers={**headers, **more})

    answer = check_status(send("POST", "/Tables", {"TableName": name}), 201)
    assert answer.header("Content-Type") == entry_type and read_entry(answer.text) == {"TableName": name}
    sent = version is not None and version >= "2009-09-19"
    assert answer.header("x-ms-version") == (version if sent else None)
    assert read_entry(check_status(send("GET", f"/Tables('{name}')"), 200).text) == {"TableName": name}
    address = f"/{name}(PartitionKey='{key}',RowKey='r')"
    answer = check_status(send("POST", f"/{name}", {"PartitionKey": key, "RowKey": "r", "A": ("Edm.Int32", "1"), "S": " ü "}), 201)
    first = check_etag(answer)
    assert custom(read_entry(answer.text)) == {"A": ("Edm.Int32", "1"), "S": " ü "}
    answer = check_status(send("PUT", address, {"A": ("Edm.Int64", "2")}, **{"If-Match": first}), 204)
    assert check_etag(answer) != first
    check_problem(send("PUT", address, {"A": "x"}, **{"If-Match": first}), 412, "UpdateConditionNotSatisfied", form="odata")
    check_status(send("MERGE", address, {"B": ("Edm.Boolean", "true")}, **{"If-Match": "*"}), 204)
    answer = check_status(send("GET", address), 200)
    assert custom(read_entry(answer.text)) == {"A": ("Edm.Int64", "2"), "B": ("Edm.Boolean", "true")}
    answer = check_status(send("GET", f"/{name}()?$filter=A%20eq%202L"), 200)
    assert answer.header("Content-Type") == feed_type and len(read_feed(answer.text)) == 1
    check_status(send("DELETE", address, **{"If-Match": "*"}), 204)
    answer = send("GET", address)
    check_problem(answer, 404, "ResourceNotFound", form="odata")
    assert answer.header("Content-Type") == error_type
    assert answer.header("X-Content-Type-Options") == (error_type and "nosniff")
    assert read_feed(check_status(send("GET", f"/{name}()"), 200).text) == []
    check_status(send("DELETE", f"/Tables('{name}')"), 204)


@pytest.mark.parametrize("accept", ACCEPTS)
@pytest.mark.parametrize("version", [None, *VERSIONS])
def test_what_is_answered_with_atom(wire, shared, key, accept, version):
    table, headers = AtomTable(shared), {"Accept": ACCEPTS[accept], "x-ms-version": version}
    entry_type, feed_type, error_type = media_types(version)
    inserted = check_status(table.insert({"PartitionKey": key, "RowKey": "r"}, headers=headers), 201)
    read = check_status(table.point(key, "r", headers=headers), 200)
    assert (inserted.header("Content-Type"), read.header("Content-Type")) == (entry_type, entry_type)
    queried = check_status(table.query({"$filter": f"PartitionKey eq '{key}'"}, headers=headers), 200)
    listed = check_status(table.send("GET", "/Tables?$top=1", headers=headers), 200)
    assert (queried.header("Content-Type"), listed.header("Content-Type")) == (feed_type, feed_type)
    assert len(read_feed(queried.text)) == len(read_feed(listed.text)) == 1
    refused = table.point(key, "none", headers=headers)
    check_problem(refused, 404, "ResourceNotFound", form="odata")
    assert refused.header("Content-Type") == error_type


SPELLED = ["application/atom+xml;type=feed", "application/atom+xml; charset=utf-8", "APPLICATION/ATOM+XML", "text/html,application/atom+xml",
           "application/atom+xml,application/atomsvc+xml,application/xml"]


@pytest.mark.parametrize("accept", SPELLED)
def test_spelling_of_accept(shared, accept):
    answer = AtomTable(shared).query({"$top": 1}, accept=accept)
    assert check_status(answer, 200).header("Content-Type") == FEED


@pytest.mark.parametrize("accept", ["text/html", "image/png, text/plain"])
def test_unknown_accept(shared, accept):
    check_problem(AtomTable(shared).query(accept=accept), 415, "MediaTypeNotSupported")


@pytest.mark.parametrize("accept", ACCEPTS)
def test_failed_authentication(shared, accept):
    """The error occurs before the format of the response is determined, so it has the form of the front end."""
    headers = {"Accept": ACCEPTS[accept], "Authorization": f"SharedKey {shared.wire.account}:AAAA"}
    answer = AtomTable(shared).query(headers=headers)
    check_problem(answer, 403, "AuthenticationFailed", form="front")
    assert answer.header("Content-Type") == "application/xml" and answer.header("x-ms-version") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_upsert_came_with_2011_08_18(shared, key, version):
    table = AtomTable(shared)
    for verb in ("PUT", "MERGE"):
        answer = table.write(verb, key, verb, {"A": "a"}, version=version)
        if version >= "2011-08-18":
            check_status(answer, 204)
            assert shared.stored(key, verb) == {"A": "a"}
        else:
            check_status(answer, 400)
            check_status(shared.point(key, verb), 404)


@pytest.mark.parametrize("version", [None, "2009-09-19", "2011-08-18", "2012-02-12"])
def test_prefer_is_not_known_before_2013_08_15(shared, key, version):
    answer = AtomTable(shared).insert({"PartitionKey": key, "RowKey": "r"},
                                      headers={"Prefer": "return-no-content", "x-ms-version": version})
    assert read_entry(check_status(answer, 201).text)["RowKey"] == "r"
    assert answer.header("Preference-Applied") is None


@pytest.mark.parametrize("version", ["2013-08-15", "2014-02-14", "2015-07-08"])
def test_prefer_with_atom(shared, key, version):
    headers = {"Prefer": "return-no-content", "DataServiceVersion": "3.0", "MaxDataServiceVersion": "3.0"}
    answer = check_status(AtomTable(shared).insert({"PartitionKey": key, "RowKey": "r"}, version=version, headers=headers), 204)
    assert answer.header("Preference-Applied") == "return-no-content" and check_etag(answer)


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_of_atom_parts(wire, shared, key, version):
    operations = [atom_insert(shared, {"PartitionKey": key, "RowKey": n}) for n in "12"]
    answer = post_batch(wire, changeset_body(operations), accept="application/atom+xml,application/xml", version=version, headers=TWO)
    parts = read_parts(check_status(answer, 202))
    assert [(part.status, part.header("Content-Type")) for part in parts] == [(201, media_types(version)[0])] * 2
    [part] = read_parts(post_batch(wire, changeset_body([atom_write(shared, "PUT", key, "3", {})]), accept=ATOM, version=version, headers=TWO))
    assert part.status == (204 if version >= "2011-08-18" else 400)


# Version, headers with the data service version, and whether JSON is available.
JSON_CASES = {
    "no-version": (None, {}, False),
    "2011": ("2011-08-18", {}, False),
    "2012": ("2012-02-12", {}, False),
    "2012-three": ("2012-02-12", {"DataServiceVersion": "3.0"}, False),
    "2013": ("2013-08-15", {}, True),
    "2013-one": ("2013-08-15", {"DataServiceVersion": "1.0"}, False),
    "2013-two": ("2013-08-15", {"DataServiceVersion": "2.0;NetFx"}, False),
    "2013-three": ("2013-08-15", {"DataServiceVersion": "3.0;NetFx"}, True),
    "2014-max-three": ("2014-02-14", {"DataServiceVersion": "1.0", "MaxDataServiceVersion": "3.0;NetFx"}, True),
    "2014-max-two": ("2014-02-14", {"DataServiceVersion": "3.0", "MaxDataServiceVersion": "2.0;NetFx"}, False),
    "2014-max-alone": ("2014-02-14", {"MaxDataServiceVersion": "1.0"}, False),
    "2015": ("2015-07-08", {"DataServiceVersion": "3.0"}, True),
}


@pytest.mark.parametrize("name", JSON_CASES)
def test_json_needs_2013_08_15_and_three(wire, shared, key, name):
    version, more, allowed = JSON_CASES[name]
    headers = {**NEITHER, **more, "x-ms-version": version}
    accepting = shared.query({"$filter": "PartitionKey eq 'nobody'"}, headers=headers)
    bringing = shared.insert({"PartitionKey": key, "RowKey": "r"}, headers={**headers, "Accept": ATOM})
    if allowed:
        assert check_status(accepting, 200).header("Content-Type").startswith(MINIMAL)
        assert check_status(bringing, 201).header("Content-Type") == ENTRY
    else:
        check_problem(accepting, 415, "JsonFormatNotSupported")
        check_problem(bringing, 415, "JsonFormatNotSupported")
        check_status(shared.point(key, "r"), 404)


@pytest.mark.parametrize("level", [NONE, MINIMAL, FULL])
def test_atom_in_and_json_out(shared, key, level):
    headers = {"DataServiceVersion": "3.0", "MaxDataServiceVersion": "3.0"}
    answer = AtomTable(shared).insert({"PartitionKey": key, "RowKey": "r", "A": ("Edm.Int32", "1")}, accept=level, headers=headers)
    assert check_status(answer, 201).header("Content-Type").startswith(level)
    assert answer.json()["A"] == 1


# $format, Accept, effective data service version, and the format of the response.
FORMATS = {
    "atom-over-json": ("atom", MINIMAL, "3.0", FEED),
    "atom-type-over-json": (ATOM, NONE, "3.0", FEED),
    "atom-without-accept": ("atom", None, "3.0", FEED),
    "json-over-atom": ("json", ATOM, "3.0", MINIMAL),
    "none-over-atom": (NONE, ATOM, "3.0", NONE),
    "json-without-accept": ("json", None, "3.0", MINIMAL),
    "json-ignored-at-two": ("json", ATOM, "2.0", FEED),
    "json-ignored-at-one": ("json", ATOM, "1.0", FEED),
    "json-ignored-without-accept": ("json", None, "2.0", FEED),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("version", ["2013-08-15", "2014-02-14", "2015-07-08"])
def test_format_option(shared, name, version):
    value, accept, data_service, wanted = FORMATS[name]
    headers = {"DataServiceVersion": data_service, "Accept": accept}
    answer = check_status(shared.query({"$format": value, "$top": 1}, version=version, headers=headers), 200)
    assert answer.header("Content-Type").startswith(wanted)


def test_format_option_is_not_known_before_2013_08_15(shared):
    answer = AtomTable(shared).query({"$format": "json", "$top": 1}, version="2012-02-12")
    assert check_status(answer, 200).header("Content-Type") == media_types("2012-02-12")[1]


@pytest.mark.parametrize("version", ["2015-12-11", "2016-05-31", "2019-02-02", "2026-06-06"])
class TestAtomIsGone:
    """From version 2015-12-11 on, every operation refuses Atom in bodies and in responses, even as the default."""

    @pytest.mark.parametrize("accept", [ATOM, None], ids=["atom", "missing"])
    def test_answers(self, wire, shared, key, version, accept):
        headers = {"Accept": accept}
        for answer in (shared.query(version=version, headers=headers), shared.point(key, "r", version=version, headers=headers),
                       shared.insert({"PartitionKey": key, "RowKey": "r"}, version=version, headers=headers),
                       wire.send("GET", "/Tables", version=version, headers=headers)):
            check_problem(answer, 415, "AtomFormatNotSupported", form="odata")
        check_status(shared.point(key, "r"), 404)

    def test_bodies(self, wire, shared, key, new_name, version):
        headers = {"Content-Type": ATOM}
        body = entry({"PartitionKey": key, "RowKey": "r"})
        check_problem(shared.insert(body, version=version, headers=headers), 415, "AtomFormatNotSupported")
        check_problem(shared.write("PUT", key, "r", body, version=version, headers=headers), 415, "AtomFormatNotSupported")
        check_problem(shared.write("MERGE", key, "r", body, version=version, headers=headers), 415, "AtomFormatNotSupported")
        create = entry({"TableName": new_name()})
        check_problem(wire.send("POST", "/Tables", create, version=version, headers=headers), 415, "AtomFormatNotSupported")
        check_status(shared.point(key, "r"), 404)

    def test_parts_of_a_batch(self, wire, shared, key, version):
        answer = post_batch(wire, changeset_body([atom_insert(shared, {"PartitionKey": key, "RowKey": "r"})]), version=version)
        if answer.status == 202:
            [part] = read_parts(answer)
            assert part.status == 415 and "AtomFormatNotSupported" in part.text
        else:
            check_problem(answer, 415, "AtomFormatNotSupported")
        check_status(shared.point(key, "r"), 404)

    def test_anything_is_json(self, shared, version):
        answer = shared.query({"$top": 1}, accept="*/*", version=version)
        assert check_status(answer, 200).header("Content-Type").startswith(MINIMAL)
