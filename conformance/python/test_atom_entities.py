"""Atom entries and feeds byte by byte, every type (written in one format and read in all four), and the accepted forms
of an entry (03 §5)."""

import re

import pytest

from atom_body import (ATOM, DATA_SPACE, DECLARATION, ERROR, METADATA_SPACE, AtomTable, atom_send, custom, element, entry,
                       read_entry, read_feed)
from expect import check_etag, check_problem, check_status
from wire import FULL, MINIMAL, NONE

SPACES = f'xmlns="http://www.w3.org/2005/Atom" xmlns:d="{DATA_SPACE}" xmlns:m="{METADATA_SPACE}"'
TIME = "2000-01-01T00:00:00Z"


@pytest.fixture
def atom(shared):
    return AtomTable(shared)


def inner_entry(wire, set_name, address, properties):
    """Returns an entry of a response from `<id>` on, with `updated` replaced by a fixed time."""
    return (f"<id>{wire.base}/{address}</id><category term=\"{wire.account}.{set_name}\" scheme=\"{DATA_SPACE}/scheme\" />"
            f"<link rel=\"edit\" title=\"{set_name}\" href=\"{address}\" /><title /><updated>{TIME}</updated><author><name /></author>"
            f"<content type=\"application/xml\"><m:properties>{properties}</m:properties></content></entry>")


def settled(text):
    """Replaces every `updated`, which must be a time in whole seconds."""
    assert re.search(r"<updated>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ</updated>", text), text
    return re.sub(r"<updated>.*?</updated>", f"<updated>{TIME}</updated>", text)


def base_of(text):
    """Returns the value of `xml:base`: the URL of the service, which may contain the account in path style."""
    return re.search(r'xml:base="([^"]*)"', text).group(1)


def in_attribute(etag):
    return etag.replace('"', "&quot;")


def test_exact_entry(wire, shared, atom, key):
    inserted = check_status(atom.insert({
        "PartitionKey": key, "RowKey": "a'b é", "Doors": ("Edm.Int32", "4"), "Model": "Söhne <&> \"'", "Blank": " x ", "Empty": "",
        "Nothing": None, "Weight": ("Edm.Double", "981.5"), "Blob": ("Edm.Binary", "AQID")}), 201)
    etag = check_etag(inserted)
    timestamp = etag[len("W/\"datetime'"):-2].replace("%3A", ":")
    name = f"{shared.name}(PartitionKey='{key}',RowKey='a''b%20%C3%A9')"
    assert inserted.header("Location") == f"{wire.base}/{name}"
    properties = (f"<d:PartitionKey>{key}</d:PartitionKey><d:RowKey>a'b é</d:RowKey>"
                  f'<d:Timestamp m:type="Edm.DateTime">{timestamp}</d:Timestamp><d:Doors m:type="Edm.Int32">4</d:Doors>'
                  "<d:Model>Söhne &lt;&amp;&gt; \"'</d:Model>"
                  '<d:Blank xml:space="preserve"> x </d:Blank><d:Empty></d:Empty><d:Weight m:type="Edm.Double">981.5</d:Weight>'
                  '<d:Blob m:type="Edm.Binary">AQID</d:Blob>')
    base = base_of(inserted.text)
    assert base in (f"{wire.base}/", f"{wire.scheme}://{wire.netloc}/")
    wanted = (f'{DECLARATION}<entry xml:base="{base}" {SPACES} m:etag="{in_attribute(etag)}">'
              + inner_entry(wire, shared.name, name, properties))
    assert settled(inserted.text) == wanted
    read = check_status(atom.point(key, "a'b é"), 200)
    assert settled(read.text) == wanted and read.header("ETag") == etag


def test_exact_feed(wire, shared, atom, key):
    entities = [check_status(atom.insert({"PartitionKey": key, "RowKey": row}), 201) for row in "12"]
    feed = check_status(atom.query({"$filter": f"PartitionKey eq '{key}'", "$select": "RowKey"}), 200)
    wanted = (f'{DECLARATION}<feed xml:base="{base_of(feed.text)}" {SPACES}><id>{wire.base}/{shared.name}</id>'
              f'<title type="text">{shared.name}</title><updated>{TIME}</updated>'
              f'<link rel="self" title="{shared.name}" href="{shared.name}" />')
    for row, inserted in zip("12", entities):
        name = f"{shared.name}(PartitionKey='{key}',RowKey='{row}')"
        wanted += f'<entry m:etag="{in_attribute(inserted.header("ETag"))}">'
        wanted += inner_entry(wire, shared.name, name, f"<d:RowKey>{row}</d:RowKey>")
    assert settled(feed.text) == wanted + "</feed>"
    assert len(set(re.findall(r"<updated>(.*?)</updated>", feed.text))) == 1


def test_empty_feed(wire, shared, atom):
    feed = check_status(atom.query({"$filter": "PartitionKey eq 'nobody'"}), 200)
    assert read_feed(feed.text) == []
    assert settled(feed.text).startswith(f'{DECLARATION}<feed xml:base="{base_of(feed.text)}" {SPACES}><id>{wire.base}/{shared.name}</id>')
    assert feed.header("x-ms-continuation-NextPartitionKey") is None


def test_exact_entry_and_feed_of_tables(wire, new_name):
    name = new_name()
    created = check_status(atom_send(wire, "POST", "/Tables", {"TableName": name}), 201)
    address = f"Tables('{name}')"
    assert created.header("Location") == f"{wire.base}/{address}" and created.header("ETag") is None
    inner = inner_entry(wire, "Tables", address, f"<d:TableName>{name}</d:TableName>")
    wanted = f'{DECLARATION}<entry xml:base="{base_of(created.text)}" {SPACES}>{inner}'
    assert settled(created.text) == wanted
    assert settled(check_status(atom_send(wire, "GET", f"/Tables('{name}')"), 200).text) == wanted
    feed = check_status(atom_send(wire, "GET", f"/Tables?$filter=TableName%20eq%20'{name}'"), 200)
    assert settled(feed.text) == (
        f'{DECLARATION}<feed xml:base="{base_of(feed.text)}" {SPACES}><id>{wire.base}/Tables</id><title type="text">Tables</title>'
        f'<updated>{TIME}</updated><link rel="self" title="Tables" href="Tables" /><entry>{inner}</feed>')


def test_pages_by_headers(wire, shared, atom, key):
    for row in "12345":
        check_status(atom.insert({"PartitionKey": key, "RowKey": row}), 201)
    seen, options = [], {"$filter": f"PartitionKey eq '{key}'", "$top": 2}
    while True:
        page = check_status(atom.query(options), 200)
        assert 'rel="next"' not in page.text
        seen.append([one["RowKey"] for one in read_feed(page.text)])
        partition, row = (page.header(f"x-ms-continuation-Next{part}Key") for part in ("Partition", "Row"))
        if partition is None:
            break
        options |= {"NextPartitionKey": partition, "NextRowKey": row}
    assert seen == [["1", "2"], ["3", "4"], ["5"]]


def test_projection(wire, atom, key):
    check_status(atom.insert({"PartitionKey": key, "RowKey": "r", "A": "a", "B": "b"}), 201)
    answer = check_status(atom.point(key, "r", {"$select": "B,Absent"}), 200)
    assert read_entry(answer.text) == {"B": "b", "Absent": None}
    assert '<d:Absent m:null="true" />' in answer.text and "m:etag=" in answer.text
    everything = read_entry(check_status(atom.point(key, "r", {"$select": ""}), 200).text)
    assert list(everything) == ["PartitionKey", "RowKey", "Timestamp", "A", "B"]


# The type, the value in Atom, and the value in JSON.
TYPES = {
    "string": (None, "Söhne <&> \U0001F600", "Söhne <&> \U0001F600"),
    "string-empty": (None, "", ""),
    "string-blank": (None, "  ", "  "),
    "string-line-ends": (None, "a\nb\tc", "a\nb\tc"),
    "string-markup": (None, "]]></d:A>&#65;&amp;", "]]></d:A>&#65;&amp;"),
    "int32": ("Edm.Int32", "-2147483648", -2147483648),
    "int64": ("Edm.Int64", "9223372036854775807", "9223372036854775807"),
    "double": ("Edm.Double", "1.5", 1.5),
    "double-tiny": ("Edm.Double", "4.94065645841247E-324", 5e-324),
    "boolean": ("Edm.Boolean", "true", True),
    "boolean-false": ("Edm.Boolean", "false", False),
    "time": ("Edm.DateTime", "2012-02-29T23:59:59.1234567Z", "2012-02-29T23:59:59.1234567Z"),
    "time-least": ("Edm.DateTime", "1601-01-01T00:00:00Z", "1601-01-01T00:00:00Z"),
    "guid": ("Edm.Guid", "0b0c0d0e-1111-4222-8333-444455556666", "0b0c0d0e-1111-4222-8333-444455556666"),
    "binary": ("Edm.Binary", "AAH+/w==", "AAH+/w=="),
    "binary-empty": ("Edm.Binary", "", ""),
}
ANNOTATED = ("Edm.Int64", "Edm.DateTime", "Edm.Guid", "Edm.Binary")


@pytest.mark.parametrize("written", ["atom", "json"])
@pytest.mark.parametrize("name", TYPES)
def test_written_in_one_format_and_read_in_all(shared, atom, key, name, written):
    kind, text, value = TYPES[name]
    in_atom = text if kind is None else (kind, text)
    in_json = {"A@odata.type": kind, "A": value} if kind in ANNOTATED else {"A": value}
    if written == "atom":
        check_status(atom.insert({"PartitionKey": key, "RowKey": "r", "A": in_atom}), 201)
    else:
        check_status(shared.insert({"PartitionKey": key, "RowKey": "r", **in_json}), 201)
    assert custom(read_entry(atom.point(key, "r").text)) == {"A": in_atom}
    [found] = read_feed(atom.query({"$filter": f"PartitionKey eq '{key}'"}).text)
    assert custom(found) == {"A": in_atom}
    for level in (NONE, MINIMAL, FULL):
        read = check_status(shared.point(key, "r", accept=level), 200).json()
        assert read["A"] == value and type(read["A"]) is type(value)
        assert read.get("A@odata.type") == (kind if kind in ANNOTATED and level != NONE else None)


@pytest.mark.parametrize("text", ["INF", "-INF", "NaN", "Infinity", "-Infinity"])
def test_doubles_that_are_no_numbers(shared, atom, key, text):
    answer = atom.insert({"PartitionKey": key, "RowKey": "r", "A": ("Edm.Double", text)})
    read = check_status(answer, 201) and shared.point(key, "r").json()
    assert read["A@odata.type"] == "Edm.Double"
    assert read["A"] == {"INF": "Infinity", "-INF": "-Infinity"}.get(text, text)


def test_all_types_survive_a_way_through_atom(shared, atom, key):
    """An entity that is read and then written in Atom, as in a copy, keeps the types of its properties."""
    body = {"PartitionKey": key, "RowKey": "r"}
    for n, (kind, text, _) in enumerate(TYPES.values()):
        body[f"P{n}"] = text if kind is None else (kind, text)
    check_status(atom.insert(body), 201)
    read = custom(read_entry(atom.point(key, "r").text))
    check_status(atom.insert({"PartitionKey": key, "RowKey": "copy", **read}), 201)
    assert shared.stored(key, "copy") == shared.stored(key, "r")
    assert custom(read_entry(atom.point(key, "copy").text)) == read == custom(body)


def bare(properties, prefix="d", meta="m", atom_prefix=""):
    """Returns an entry with the given prefixes and only its content."""
    own = f"{atom_prefix}:" if atom_prefix else ""
    declared = f"xmlns:{atom_prefix}" if atom_prefix else "xmlns"
    return (f'<{own}entry xmlns:{prefix}="{DATA_SPACE}" xmlns:{meta}="{METADATA_SPACE}" {declared}="http://www.w3.org/2005/Atom">'
            f'<{own}content type="application/xml"><{meta}:properties>{properties}</{meta}:properties></{own}content></{own}entry>')


def keyed(key, inside="<d:A>a</d:A>"):
    return f"<d:PartitionKey>{key}</d:PartitionKey><d:RowKey>r</d:RowKey>{inside}"


# Forms that clients and libraries write. Each of them stores A = "a" under the row key "r".
SPELLINGS = {
    "as-clients-do": lambda k: entry(keyed(k)),
    "bare": lambda k: bare(keyed(k)),
    "other-prefixes": lambda k: bare(keyed(k).replace("d:", "data:"), "data", "meta", "atom"),
    "with-declaration": lambda k: DECLARATION + bare(keyed(k)),
    "single-quotes": lambda k: bare(keyed(k)).replace('"', "'"),
    "byte-order-mark": lambda k: b"\xef\xbb\xbf" + entry(keyed(k)).encode(),
    "typed-strings": lambda k: bare(keyed(k).replace("Key>", 'Key m:type="Edm.String">', 1).replace("<d:A>", '<d:A m:type="Edm.String">')),
    "keys-last": lambda k: bare("<d:A>a</d:A>" + keyed(k, "")),
    "timestamp": lambda k: bare(keyed(k) + '<d:Timestamp m:type="Edm.DateTime">0001-01-01T00:00:00</d:Timestamp>'),
    "null": lambda k: bare(keyed(k) + '<d:B m:type="Edm.Int32" m:null="true" /><d:C m:null="true"></d:C>'),
    "blanks-between": lambda k: bare(keyed(k).replace("><d:", ">\n    <d:")),
    "comments": lambda k: bare(keyed(k) + "<!-- nothing -->"),
    "character-data": lambda k: bare(keyed(k, "<d:A><![CDATA[a]]></d:A>")),
    "references": lambda k: bare(keyed(k, "<d:A>&#97;</d:A>")),
    "hexadecimal-references": lambda k: bare(keyed(k, "<d:A>&#x61;</d:A>")),
    "extra-elements": lambda k: entry(keyed(k)).replace(
        "<id />", '<id>http://x/t(1)</id><category term="x" scheme="y" /><link rel="edit" href="t(1)" /><summary>s</summary>'),
    "preserve": lambda k: bare(keyed(k, '<d:A xml:space="preserve">a</d:A>')),
    "trailing-line-end": lambda k: bare(keyed(k)) + "\r\n",
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_tolerated_spelling(shared, atom, key, name):
    check_status(atom.insert(SPELLINGS[name](key)), 201)
    assert shared.stored(key, "r") == {"A": "a"}


@pytest.mark.parametrize("content_type", [ATOM, "application/atom+xml;type=entry", "application/atom+xml; charset=utf-8",
                                          'application/atom+xml;charset="utf-8";type=entry', "Application/Atom+XML"])
def test_content_type(shared, atom, key, content_type):
    check_status(atom.insert(entry(keyed(key)), headers={"Content-Type": content_type}), 201)
    assert shared.stored(key, "r") == {"A": "a"}


BOMB = ('<?xml version="1.0"?><!DOCTYPE entry [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)) + "]>")

# Bodies that are refused with 400 and change nothing.
BAD = {
    "empty": lambda k: "",
    "not-xml": lambda k: "hello",
    "json": lambda k: '{"PartitionKey":"p","RowKey":"r"}',
    "cut": lambda k: entry(keyed(k))[:-20],
    "wrong-end": lambda k: entry(keyed(k)).replace("</d:A>", "</d:B>"),
    "unknown-entity": lambda k: entry(keyed(k, "<d:A>&nbsp;</d:A>")),
    "unbound-prefix": lambda k: entry(keyed(k, "<x:A>a</x:A>")),
    "unknown-type": lambda k: entry(keyed(k, element("A", ("Edm.Decimal", "1")))),
    "bad-int32": lambda k: entry(keyed(k, element("A", ("Edm.Int32", "2147483648")))),
    "bad-int64": lambda k: entry(keyed(k, element("A", ("Edm.Int64", "1.5")))),
    "bad-double": lambda k: entry(keyed(k, element("A", ("Edm.Double", "much")))),
    "bad-boolean": lambda k: entry(keyed(k, element("A", ("Edm.Boolean", "yes")))),
    "bad-time": lambda k: entry(keyed(k, element("A", ("Edm.DateTime", "noon")))),
    "bad-guid": lambda k: entry(keyed(k, element("A", ("Edm.Guid", "0b0c")))),
    "bad-binary": lambda k: entry(keyed(k, element("A", ("Edm.Binary", "%")))),
    "empty-int32": lambda k: entry(keyed(k, '<d:A m:type="Edm.Int32" />')),
    "nested": lambda k: entry(keyed(k, "<d:A><d:B>b</d:B></d:A>")),
    "entities-in-entities": lambda k: BOMB + bare(keyed(k, "<d:A>&j;</d:A>")),
    "outside-file": lambda k: '<!DOCTYPE entry [<!ENTITY f SYSTEM "file:///etc/hostname">]>' + bare(keyed(k, "<d:A>&f;</d:A>")),
    "not-utf-8": lambda k: entry(keyed(k)).encode().replace(b"<d:A>a", b"<d:A>\xff"),
    "feed": lambda k: bare(keyed(k)).replace("entry", "feed"),
    "two-roots": lambda k: bare(keyed(k)) * 2,
}


@pytest.mark.parametrize("name", BAD)
def test_refused_body(shared, atom, key, name):
    answer = atom.insert(BAD[name](key))
    check_problem(answer, 400, "InvalidInput", message=read_message(answer), form="odata")
    assert answer.header("Content-Type") == ERROR
    check_status(shared.point(key, "r"), 404)


def read_message(answer):
    """Returns the message without comparing it, because the message of the real service is not always known."""
    return re.search(r'<message xml:lang="en-US">(.*?)\nRequestId', answer.text, re.S).group(1)


def test_depth_is_bounded(shared, atom, key):
    answer = atom.insert("<a>" * 100000)
    check_problem(answer, 400, "InvalidInput", message=read_message(answer), form="odata")


def test_missing_row_key(atom, key):
    answer = atom.insert({"PartitionKey": key})
    check_problem(answer, 400, "PropertiesNeedValue", form="odata")


ERRORS = {
    "entity-missing": (lambda w, t: t.point("no", "no"), 404, "ResourceNotFound"),
    "table-missing": (lambda w, t: atom_send(w, "GET", "/tnosuchtable()"), 404, "TableNotFound"),
    "filter": (lambda w, t: t.query({"$filter": "A eq"}), 400, "InvalidInput"),
    "top": (lambda w, t: t.query({"$top": "1001"}), 400, "InvalidInput"),
    "table-name": (lambda w, t: atom_send(w, "POST", "/Tables", {"TableName": "a-b"}), 400, "InvalidResourceName"),
    "table-exists": (lambda w, t: atom_send(w, "POST", "/Tables", {"TableName": t.name}), 409, "TableAlreadyExists"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_xml(wire, shared, atom, name):
    call, status, code = ERRORS[name]
    answer = call(wire, atom)
    check_problem(answer, status, code, message=read_message(answer), form="odata")
    assert answer.header("Content-Type") == ERROR and answer.header("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize("verb", ["PUT", "MERGE", "PATCH"])
def test_update_needs_no_keys_in_the_body(shared, atom, key, verb):
    check_status(atom.insert({"PartitionKey": key, "RowKey": "r", "Z": ("Edm.Int32", "0")}), 201)
    answer = check_status(atom.write(verb, key, "r", {"A": "a", "Z": None}, if_match="*"), 204)
    assert answer.body == b"" and answer.header("Content-Type") is None and check_etag(answer)
    assert shared.stored(key, "r") == ({"A": "a"} if verb == "PUT" else {"Z": 0, "A": "a"})


def test_method_override(shared, atom, key):
    check_status(atom.insert({"PartitionKey": key, "RowKey": "r", "Z": ("Edm.Int32", "0")}), 201)
    answer = atom.write("POST", key, "r", {"A": "a"}, if_match="*", headers={"X-HTTP-Method": "MERGE"})
    check_status(answer, 204)
    assert shared.stored(key, "r") == {"Z": 0, "A": "a"}
