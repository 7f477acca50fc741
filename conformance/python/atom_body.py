"""Atom entries and feeds: builds them as old clients do, and reads them strictly by namespace.

`AtomTable` sends the operations of a table as a client with a version before 2015-12-11 does.
"""

import xml.etree.ElementTree as ElementTree
from xml.sax.saxutils import escape, quoteattr

from batch_body import entity_operation, insert_operation
from wire import TableWire

ATOM = "application/atom+xml"
ENTRY = "application/atom+xml;type=entry;charset=utf-8"
FEED = "application/atom+xml;type=feed;charset=utf-8"
ERROR = "application/xml;charset=utf-8"
VERSION = "2014-02-14"


def media_types(version):
    """Returns the types of entries, feeds and errors. Before 2012-02-12, they lack details, and errors have none."""
    if version is None or version < "2012-02-12":
        return (f"{ATOM};charset=utf-8", f"{ATOM};charset=utf-8", None)
    return (ENTRY, FEED, ERROR)


ATOM_SPACE = "http://www.w3.org/2005/Atom"
DATA_SPACE = "http://schemas.microsoft.com/ado/2007/08/dataservices"
METADATA_SPACE = DATA_SPACE + "/metadata"
NAMES = {"a": ATOM_SPACE, "d": DATA_SPACE, "m": METADATA_SPACE}
DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'
TWO = {"DataServiceVersion": "2.0;NetFx", "MaxDataServiceVersion": "2.0;NetFx"}


def element(name, value):
    """Returns the element of a property: a string, None for null, or a pair of type and text."""
    if value is None:
        return f'<d:{name} m:null="true" />'
    if isinstance(value, tuple):
        return f"<d:{name} m:type={quoteattr(value[0])}>{escape(value[1])}</d:{name}>"
    return f"<d:{name}>{escape(value)}</d:{name}>"


def entry(inside):
    """Returns a request entry. The properties are a mapping, or the XML of their elements."""
    text = inside if isinstance(inside, str) else "".join(element(name, value) for name, value in inside.items())
    return (f'<?xml version="1.0" encoding="utf-8" standalone="yes"?>\n<entry xmlns:d="{DATA_SPACE}" xmlns:m="{METADATA_SPACE}" '
            f'xmlns="{ATOM_SPACE}">\n<title /><updated>2013-05-06T07:08:09.1+00:00</updated><author><name /></author><id />\n'
            f'<content type="application/xml">\n  <m:properties xml:space="preserve">{text}</m:properties></content></entry>')


def read_properties(node):
    """Returns the properties of an entry: strings unchanged, null as None, and values of other types as pairs of type
    and text.
    """
    content = node.find("a:content", NAMES)
    assert content.get("type") == "application/xml"
    found = {}
    for one in content.find("m:properties", NAMES):
        space, name = one.tag[1:].split("}")
        assert space == DATA_SPACE and name not in found, one.tag
        kind, text = one.get(f"{{{METADATA_SPACE}}}type"), one.text or ""
        if one.get(f"{{{METADATA_SPACE}}}null") == "true":
            found[name] = None
        else:
            found[name] = text if kind is None else (kind, text)
    return found


def read_entry(text):
    root = ElementTree.fromstring(text)
    assert root.tag == f"{{{ATOM_SPACE}}}entry", root.tag
    return read_properties(root)


def read_feed(text):
    root = ElementTree.fromstring(text)
    assert root.tag == f"{{{ATOM_SPACE}}}feed", root.tag
    return [read_properties(node) for node in root.findall("a:entry", NAMES)]


def custom(properties):
    return {name: value for name, value in properties.items() if name not in ("PartitionKey", "RowKey", "Timestamp")}


def atom_send(wire, method, target, body=None, *, headers=None, accept=ATOM, version=VERSION, **kwargs):
    """Sends one request as an Atom client does. If the body is a mapping, it is sent as an entry."""
    typed = {"Content-Type": ATOM} if body is not None else {}
    body = entry(body) if isinstance(body, dict) else body
    return wire.send(method, target, body, headers={**TWO, **typed, **(headers or {})}, accept=accept, version=version, **kwargs)


class AtomTable(TableWire):
    """A table that sends each request as an Atom client does."""

    def __init__(self, table: TableWire):
        super().__init__(self, table.name)
        self.plain = table.wire

    def send(self, *args, **kwargs):
        return atom_send(self.plain, *args, **kwargs)


def atom_part(operation, properties):
    """Returns the operation as Atom clients send it: with an entry as the body and no Accept header."""
    operation.body = entry(properties)
    operation.headers = {**operation.headers, "Accept": None, "Content-Type": "application/atom+xml;type=entry"}
    return operation


def atom_insert(table, properties, **headers):
    return atom_part(insert_operation(table, None, **headers), properties)


def atom_write(table, method, partition_key, row_key, properties, **headers):
    return atom_part(entity_operation(table, method, partition_key, row_key, **headers), properties)


def atom_delete(table, partition_key, row_key, **headers):
    operation = entity_operation(table, "DELETE", partition_key, row_key, **headers)
    operation.headers["Accept"] = None
    return operation
