"""Raw HTTP against a Table service endpoint, signed with Shared Key.

`Wire` sends exactly the bytes that a test specifies and returns an `Answer`; `TableWire` adds the entity operations of
one table. Only `expect` checks responses.
"""

import base64
import email.utils
import hashlib
import hmac
import http.client
import json
import os
import socket
import ssl
import time
import urllib.parse
from dataclasses import dataclass

DEVELOPMENT_ACCOUNT = "devstoreaccount1"
DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2019-02-02"
TIMEOUT_SECONDS = 60

NONE = "application/json;odata=nometadata"
MINIMAL = "application/json;odata=minimalmetadata"
FULL = "application/json;odata=fullmetadata"


@dataclass(frozen=True)
class Answer:
    """An HTTP response whose body has been read."""

    status: int
    reason: str
    headers: tuple
    body: bytes

    def header(self, name):
        """Returns the value of a header, or None. Ignores the case of header names."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else None

    @property
    def text(self):
        return self.body.decode("utf-8")

    def json(self):
        return json.loads(self.text)


def encode_key(text):
    """Returns a key, percent-encoded as in the Python client and in the service's own URLs, without quotes."""
    return urllib.parse.quote(text.replace("'", "''"), safe="")


def encode_options(options):
    """Returns the query string for a mapping of query options. Does not encode the names."""
    return "&".join(f"{name}={urllib.parse.quote(str(value), safe='')}" for name, value in options.items())


def to_bytes(body):
    """Returns the bytes of a request body given as bytes, a string or a JSON value."""
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode("utf-8")
    return json.dumps(body, ensure_ascii=False).encode("utf-8")


def now_text(offset_seconds=0):
    """Returns the current time in the form of the Date header."""
    return email.utils.formatdate(time.time() + offset_seconds, usegmt=True)


def string_to_sign(scheme, account, verb, target, headers):
    """Returns the string to sign of SharedKey or SharedKeyLite for a request target as sent."""
    lower = {name.lower(): value for name, value in headers.items()}
    path, _, query = target.partition("?")
    resource = f"/{account}{path or '/'}"
    for part in query.split("&"):
        if part.startswith("comp="):
            resource += "?" + part
            break
    date = lower.get("x-ms-date") or lower.get("date") or ""
    if scheme == "SharedKeyLite":
        return f"{date}\n{resource}"
    return "\n".join([verb, lower.get("content-md5", ""), lower.get("content-type", ""), date, resource])


def signature(key, text):
    digest = hmac.new(base64.b64decode(key), text.encode("utf-8"), hashlib.sha256).digest()
    return base64.b64encode(digest).decode("ascii")


class Wire:
    """An endpoint with its account name and key."""

    def __init__(self, endpoint, account, key):
        parts = urllib.parse.urlsplit(endpoint.rstrip("/"))
        self.scheme, self.netloc, self.prefix = parts.scheme, parts.netloc, parts.path
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.base = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self.account, self.key = account, key
        self._connection = None

    @classmethod
    def from_environment(cls):
        account = os.environ.get("TABLES_ACCOUNT", DEVELOPMENT_ACCOUNT)
        endpoint = os.environ.get("TABLES_ENDPOINT", f"http://127.0.0.1:10002/{account}")
        return cls(endpoint, account, os.environ.get("TABLES_KEY", DEVELOPMENT_KEY))

    @property
    def path_style(self):
        return self.prefix.strip("/") != ""

    def default_headers(self, accept, version, has_body):
        headers = {"x-ms-date": now_text(), "x-ms-version": version, "Accept": accept, "DataServiceVersion": "3.0"}
        if has_body:
            headers["Content-Type"] = "application/json"
        return headers

    def authorization(self, method, target, headers, scheme="SharedKey"):
        text = string_to_sign(scheme, self.account, method, target, headers)
        return f"{scheme} {self.account}:{signature(self.key, text)}"

    def prepare(self, method, target, body, headers, accept, version, scheme):
        """Returns the whole request target and all headers of a request, which is signed unless `scheme` is None."""
        target = self.prefix + target
        merged = self.default_headers(accept, version, body is not None)
        merged.update(headers or {})
        merged = {name: value for name, value in merged.items() if value is not None}
        if scheme and not any(name.lower() == "authorization" for name in merged):
            merged["Authorization"] = self.authorization(method, target, merged, scheme)
        if not any(name.lower() in ("content-length", "transfer-encoding") for name in merged):
            if body is not None or method in ("POST", "PUT", "MERGE", "PATCH"):
                merged["Content-Length"] = str(len(body or b""))
        return target, merged

    def send(self, method, target, body=None, *, headers=None, accept=MINIMAL, version=VERSION, scheme="SharedKey"):
        """Sends one request. A header with the value None is omitted. A header with a list of values is sent several
        times."""
        body = to_bytes(body)
        target, merged = self.prepare(method, target, body, headers, accept, version, scheme)
        reused = self._connection is not None
        try:
            return self._exchange(method, target, merged, body)
        except (http.client.RemoteDisconnected, ConnectionError, http.client.CannotSendRequest):
            self._connection = None
            if not reused:
                raise
            return self._exchange(method, target, merged, body)

    def _exchange(self, method, target, headers, body):
        if self._connection is None:
            maker = http.client.HTTPSConnection if self.scheme == "https" else http.client.HTTPConnection
            self._connection = maker(self.host, self.port, timeout=TIMEOUT_SECONDS)
        connection = self._connection
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": self.netloc, **headers}.items():
                for single in value if isinstance(value, list) else [value]:
                    connection.putheader(name, single)
            connection.endheaders(body)
            response = connection.getresponse()
            data = response.read()
        except Exception:
            connection.close()
            self._connection = None
            raise
        if response.will_close:
            connection.close()
            self._connection = None
        return Answer(response.status, response.reason, tuple(response.getheaders()), data)

    def compose(self, method, target, body=None, *, headers=None, accept=MINIMAL, version=VERSION):
        """Returns the bytes of a signed request that asks the server to close the connection afterwards."""
        body = to_bytes(body)
        target, merged = self.prepare(method, target, body, headers, accept, version, "SharedKey")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.netloc}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in merged.items()]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")

    def connect(self):
        """Returns an open socket to the endpoint, with TLS if the endpoint uses it."""
        plain = socket.create_connection((self.host, self.port), timeout=TIMEOUT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.scheme == "https":
            return ssl.create_default_context().wrap_socket(plain, server_hostname=self.host)
        return plain

    def talk(self, data, half_close=False):
        """Sends bytes on a new connection, and returns all bytes until the server closes the connection. Raises an
        error if the server hangs.
        """
        with self.connect() as stream:
            try:
                stream.sendall(data)
                if half_close:
                    stream.shutdown(socket.SHUT_WR)
            except TimeoutError:
                raise
            except OSError:
                pass  # The server may refuse a request and close before the request is fully sent.
            return read_all(stream)


def read_all(stream):
    """Returns all bytes from a socket until the other side closes or resets it."""
    received = b""
    while True:
        try:
            piece = stream.recv(65536)
        except ConnectionError:
            return received
        if not piece:
            return received
        received += piece


def status_of(data):
    """Returns the status of the last response in raw bytes, or None if there is no response. Skips interim 100
    responses."""
    while data.startswith(b"HTTP/1.1 100"):
        data = data.partition(b"\r\n\r\n")[2]
    return int(data.split(b" ", 2)[1]) if data.startswith(b"HTTP/") else None


class TableWire:
    """The entity operations of one table, each a single raw request."""

    def __init__(self, wire, name):
        self.wire, self.name = wire, name

    def address(self, partition_key, row_key):
        return f"/{self.name}(PartitionKey='{encode_key(partition_key)}',RowKey='{encode_key(row_key)}')"

    def insert(self, entity, **kwargs):
        return self.wire.send("POST", f"/{self.name}", entity, **kwargs)

    def point(self, partition_key, row_key, options=None, **kwargs):
        query = "?" + encode_options(options) if options else ""
        return self.wire.send("GET", self.address(partition_key, row_key) + query, **kwargs)

    def write(self, verb, partition_key, row_key, properties, if_match=None, headers=None, **kwargs):
        """Replaces (PUT) or merges (MERGE, PATCH). Without If-Match, upserts."""
        headers = {"If-Match": if_match, **(headers or {})}
        return self.wire.send(verb, self.address(partition_key, row_key), properties, headers=headers, **kwargs)

    def delete(self, partition_key, row_key, if_match="*", headers=None, **kwargs):
        headers = {"If-Match": if_match, **(headers or {})}
        return self.wire.send("DELETE", self.address(partition_key, row_key), headers=headers, **kwargs)

    def query(self, options=None, **kwargs):
        query = "?" + encode_options(options) if options else ""
        return self.wire.send("GET", f"/{self.name}(){query}", **kwargs)

    def stored(self, partition_key, row_key):
        """Returns the custom properties of an entity that must exist, without annotations and Timestamp."""
        answer = self.point(partition_key, row_key, accept=NONE)
        assert answer.status == 200, answer
        return {k: v for k, v in answer.json().items() if k not in ("PartitionKey", "RowKey", "Timestamp")}

    def row_keys(self, filter_text):
        """Returns the row keys that a $filter selects, in the order of the response (one page)."""
        answer = self.query({"$filter": filter_text}, accept=NONE)
        assert answer.status == 200, answer
        return [entity["RowKey"] for entity in answer.json()["value"]]
