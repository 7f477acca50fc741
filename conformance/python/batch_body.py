"""Builds `$batch` requests and reads their responses: the MIME envelope, the changeset and its operations.

Bodies are built byte by byte, so that a test can choose line endings, boundaries and the position of a header.
"""

import re
from dataclasses import dataclass, field

from wire import MINIMAL, TableWire, to_bytes

BATCH = "batch_0a1b"
CHANGESET = "changeset_77"
MIME_PART = ["Content-Type: application/http", "Content-Transfer-Encoding: binary"]


@dataclass
class Operation:
    """One part of a batch: request line, HTTP headers, MIME part headers and body."""

    method: str
    target: str
    body: object = None
    headers: dict = field(default_factory=dict)
    part_headers: list = field(default_factory=list)

    def to_bytes(self, newline):
        """Returns the part after its delimiter line: MIME headers, request line, HTTP headers, blank line, body."""
        body = to_bytes(self.body)
        inner = {"Accept": MINIMAL}
        if body is not None:
            inner["Content-Type"] = "application/json"
        inner.update(self.headers)
        lines = [*MIME_PART, *self.part_headers, "", f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in inner.items() if value is not None]
        return newline.join(line.encode("utf-8") for line in [*lines, "", ""]) + (body or b"")


def changeset_body(operations, newline=b"\r\n", final=True, batch=BATCH, changeset=CHANGESET):
    """Returns the body of a batch with one changeset, without the batch's closing delimiter if `final` is false."""
    outer, inner = b"--" + batch.encode(), b"--" + changeset.encode()
    head = [outer, f"Content-Type: multipart/mixed; boundary={changeset}".encode(), b""]
    parts = [part for operation in operations for part in (inner, operation.to_bytes(newline))]
    tail = [inner + b"--"] + ([outer + b"--", b""] if final else [b""])
    return newline.join([*head, *parts, *tail])


def query_body(operation, newline=b"\r\n"):
    """Returns the body of a batch with a single GET outside any changeset."""
    outer = b"--" + BATCH.encode()
    return newline.join([outer, operation.to_bytes(newline), outer + b"--", b""])


def post_batch(wire, body, boundary=BATCH, content_type=None, **kwargs):
    """Sends a batch body; `kwargs` are passed to `Wire.send`."""
    headers = {"Content-Type": content_type or f"multipart/mixed; boundary={boundary}", **kwargs.pop("headers", {})}
    kwargs.setdefault("accept", "application/json")
    return wire.send("POST", "/$batch", body, headers=headers, **kwargs)


def post_changeset(wire, operations, **kwargs):
    """Sends the operations as one changeset and returns the responses of its parts."""
    answer = post_batch(wire, changeset_body(operations), **kwargs)
    assert answer.status == 202, (answer.status, answer.body[:600])
    return read_parts(answer)


@dataclass(frozen=True)
class Part:
    """The response to one operation of a batch."""

    status: int
    reason: str
    headers: tuple
    text: str

    def header(self, name):
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return values[0] if values else None

    @property
    def names(self):
        """Returns the header names in the order and spelling of the response."""
        return [key for key, _ in self.headers]

    @property
    def body(self):
        return self.text.encode("utf-8")


def boundary_of(content_type, prefix):
    found = re.fullmatch(rf"multipart/mixed; boundary=({prefix}_[0-9a-f-]{{36}})", content_type)
    assert found, content_type
    return found.group(1)


def read_parts(answer):
    """Returns the parts of the changeset response, or of the batch response itself. The framing must be exact (05
    §4)."""
    boundary = boundary_of(answer.header("Content-Type"), "batchresponse")
    inside = between(answer.text, boundary)
    if inside.startswith("Content-Type: multipart/mixed"):
        line, separator, rest = inside.partition("\r\n\r\n")
        assert separator, inside
        boundary = boundary_of(line.removeprefix("Content-Type: "), "changesetresponse")
        if rest == f"--{boundary}--":
            return []
        inside = between(rest + "\r\n", boundary)
    return [read_part(text) for text in inside.split(f"\r\n--{boundary}\r\n")]


def between(text, boundary):
    """Returns the content between the first and the closing delimiter of a multipart body."""
    start, end = f"--{boundary}\r\n", f"\r\n--{boundary}--\r\n"
    assert text.startswith(start), text[:400]
    assert text.endswith(end), text[-400:]
    return text[len(start):-len(end)]


def read_part(text):
    """Parses one application/http part."""
    start = "\r\n".join([*MIME_PART, "", ""])
    assert text.startswith(start), text[:400]
    head, separator, body = text[len(start):].partition("\r\n\r\n")
    assert separator, text
    status_line, *lines = head.split("\r\n")
    version, status, reason = status_line.split(" ", 2)
    assert version == "HTTP/1.1", status_line
    return Part(int(status), reason, tuple(tuple(line.split(": ", 1)) for line in lines), body)


def insert_operation(table: TableWire, entity, **headers):
    return Operation("POST", f"{table.wire.base}/{table.name}", entity, spelled(headers))


def entity_operation(table: TableWire, method, partition_key, row_key, body=None, **headers):
    return Operation(method, table.wire.base + table.address(partition_key, row_key), body, spelled(headers))


def spelled(headers):
    """Returns headers whose names come from keywords: `If_Match` becomes If-Match."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def fill(table, entities):
    """Inserts entities into any partitions, in changesets of at most a hundred."""
    groups = {}
    for entity in entities:
        groups.setdefault(entity["PartitionKey"], []).append(entity)
    for group in groups.values():
        for start in range(0, len(group), 100):
            operations = [insert_operation(table, e, Prefer="return-no-content") for e in group[start:start + 100]]
            body = changeset_body(operations)
            answer = post_batch(table.wire, body)
            assert answer.status == 202 and answer.body.count(b"HTTP/1.1 204") == len(operations), answer.body[:600]
