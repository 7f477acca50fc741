#!/usr/bin/env python3
"""Replays exchanges recorded from Azure Cosmos DB for Table, and compares every response: status, code and body.

usage: replay.py ENDPOINT FOLDER

ENDPOINT is the URL of a server that was started with --service cosmos. FOLDER keeps the source packages with the
recordings, which are downloaded if they are missing. Deletes every table of the account. expected.py lists the runs that
differ, with the reasons. A listed run without a difference is also a failure, so that the list stays correct.
"""

import base64
import http.client
import json
import pathlib
import re
import sys
import urllib.parse
import zipfile

import yaml

import sources
from expected import RECORDINGS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from wire import now_text, signature, string_to_sign  # noqa: E402

VERSIONS = ("12.0.0", "12.2.0")

# The account of the vendor's emulator.
ACCOUNT = "localhost"
KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
WRONG_KEY = base64.b64encode(b"0" * 64).decode()

RECORDED_HOST = re.compile(r"https?://\w+(?:-secondary)?\.table\.(?:cosmos\.azure\.com|core\.windows\.net)(?::443)?")
ETAG = re.compile(r"""W/\\?"datetime'[^']*'\\?\"""")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z")
IDENTIFIER = re.compile(r"(RequestID:|ActivityId: )[0-9a-fA-F-]{36}")
# What the client makes for each connection or signs again, and what the recorder did not keep.
OMITTED_HEADERS = {"accept-encoding", "authorization", "connection", "content-length", "date", "host", "transfer-encoding",
                   "x-ms-date"}
CONTINUATIONS = ("nextpartitionkey", "nextrowkey", "nexttablename")
PLAIN = {"accept": "application/json;odata=nometadata", "content-type": "application/json", "prefer": "return-no-content",
         "x-ms-version": "2019-02-02"}


class Exchange:
    """A recorded request and its response."""

    def __init__(self, recorded):
        request, response = recorded["request"], recorded["response"]
        self.method = request["method"]
        self.url = request["uri"]
        self.target = RECORDED_HOST.sub("", self.url, count=1)
        self.request_headers = single(request["headers"])
        self.request_body = request["body"]
        self.status = response["status"]["code"]
        self.headers = single(response["headers"])
        self.body = response["body"].get("string") or ""
        path = urllib.parse.unquote(self.target.split("?")[0])
        self.is_batch = path == "/$batch"
        self.is_list = self.method == "GET" and '"value":[' in self.body
        self.created = None
        self.deleted = None
        self.used = set()
        if path == "/Tables" and self.method == "POST":
            self.created = json.loads(self.request_body).get("TableName")
        elif deletion := re.fullmatch(r"/Tables\('(.*)'\)", path):
            self.deleted = deletion.group(1)
        elif self.is_batch:
            self.used = set(re.findall(r"^[A-Z]+ https?://[^/]+/(\w+)", self.request_body or "", re.MULTILINE))
        elif used := re.match(r"/(\w+)(?:\(|$)", path):
            self.used = {used.group(1)} - {"Tables"}

    def missing_tables(self, present):
        """Returns the tables that must have existed before the run, given those that it has created."""
        if self.created and self.status == 409:
            return {self.created} - present
        if self.deleted and self.status == 204:
            return {self.deleted} - present
        # A batch fails with the same code if an entity does not exist, but then with its index.
        is_missing = self.status == 404 or (self.is_batch and re.search(r'"value":"The specified resource', self.body))
        return set() if is_missing else self.used - present


def single(headers):
    """Returns headers with names in lower case and one value each."""
    return {name.lower(): value[0] if isinstance(value, list) else value for name, value in headers.items()}


class Server:
    def __init__(self, endpoint):
        url = urllib.parse.urlsplit(endpoint)
        self.address = f"{url.scheme}://{url.netloc}"
        self.connection = http.client.HTTPConnection(url.netloc, timeout=30)

    def send(self, method, target, headers, body, key=KEY):
        """Signs and sends a request. Returns the status, the headers and the body of the response."""
        headers = dict(headers)
        if "sig=" not in target.partition("?")[2]:
            headers["x-ms-date"] = now_text()
            text = string_to_sign("SharedKey", ACCOUNT, method, target, headers)
            headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature(key, text)}"
        content = None if body is None else body.encode()
        self.connection.request(method, target, content, headers)
        response = self.connection.getresponse()
        received = response.read().decode()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, received

    def create_table(self, name):
        status, _, body = self.send("POST", "/Tables", PLAIN, json.dumps({"TableName": name}))
        if status != 204:
            raise RuntimeError(f"the table {name} cannot be created: {status} {body}")

    def delete_tables(self):
        status, _, body = self.send("GET", "/Tables", PLAIN, None)
        if status != 200:
            raise RuntimeError(f"the tables cannot be listed: {status} {body}")
        for table in json.loads(body)["value"]:
            self.send("DELETE", f"/Tables('{table['TableName']}')", PLAIN, None)


def sign_again(query):
    """Returns a query with a valid table signature: the recorder removed the original one."""
    fields = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    for name, time in (("st", "2020-01-01T00:00:00Z"), ("se", "2099-01-01T00:00:00Z")):
        if name in fields:
            fields[name] = time
    order = ["sp", "st", "se", "", "si", "sip", "spr", "sv", "spk", "srk", "epk", "erk"]
    values = [fields.get(name, "") if name else f"/table/{ACCOUNT}/{fields['tn'].lower()}" for name in order]
    fields["sig"] = signature(KEY, "\n".join(values))
    return urllib.parse.urlencode(fields)


class Run:
    """One recorded run of a test. Values that the recorded service chose are replaced by values from the server."""

    def __init__(self, server, exchanges):
        self.server = server
        self.exchanges = exchanges
        # ETags and continuation tokens: from the recorded to the received one.
        self.tags = {}
        self.tokens = {}
        self.created = {exchange.created for exchange in exchanges if exchange.created}
        # The recorded and the received entries of a query's pages.
        self.pages = ([], [])

    def differences(self):
        present = set()
        for exchange in self.exchanges:
            for name in sorted(exchange.missing_tables(present)):
                self.server.create_table(name)
                present.add(name)
                self.created.add(name)
            if exchange.created and exchange.status < 300:
                present.add(exchange.created)
        found = []
        for number, exchange in enumerate(self.exchanges):
            where = f"#{number} {exchange.method} {exchange.target[:100]}"
            found += [f"{where}: {line}" for line in self.replay(exchange)]
        return found

    def replay(self, exchange):
        if exchange.status == 429:
            return ["the service throttled the recorded run"]
        target, headers, body = self.request(exchange)
        key = WRONG_KEY if exchange.status in (401, 403) else KEY
        status, received_headers, received = self.server.send(exchange.method, target, headers, body, key)
        self.learn(exchange, received_headers, received)
        if status != exchange.status:
            return [f"status {status} instead of {exchange.status}: {received[:300]}"]
        wanted = content(exchange.headers.get("content-type", ""), exchange.body, RECORDED_HOST)
        found = content(received_headers.get("content-type", ""), received, re.compile(re.escape(self.server.address)))
        if exchange.is_list and isinstance(found, dict) and isinstance(found.get("value"), list):
            return self.compare_page(exchange, wanted, found)
        return difference(wanted, found)

    def request(self, exchange):
        """Returns the target, the headers and the body to send."""
        path, _, query = exchange.target.partition("?")
        if "sig=" in query:
            query = sign_again(query)
        target = path + ("?" + self.continued(query) if query else "")
        target = urllib.parse.quote(target, safe="%/:=&?~#+!$,;'@()*[]")
        headers = {name: self.replaced(str(value)) for name, value in exchange.request_headers.items() if name not in OMITTED_HEADERS}
        body = exchange.request_body
        if body is not None:
            body = RECORDED_HOST.sub(self.server.address, self.replaced(body)) if exchange.is_batch else self.replaced(body)
        return target, headers, body

    def continued(self, query):
        """Returns a query with the server's continuation tokens. Each recorded client has its own way to escape them."""
        fields = [field.partition("=") for field in query.split("&")]
        return "&".join(name + equals + (self.token(value) if name.lower() in CONTINUATIONS else value) for name, equals, value in fields)

    def token(self, value):
        recorded = urllib.parse.unquote(value)
        return urllib.parse.quote(self.tokens.get(recorded, recorded), safe="")

    def replaced(self, text):
        for recorded, received in self.tags.items():
            text = text.replace(recorded, received)
        return text

    def learn(self, exchange, headers, body):
        """Remembers ETags and continuation tokens, which later requests send back."""
        tags = [(exchange.headers.get("etag"), headers.get("etag"))]
        recorded, received = ([tag.replace("\\", "") for tag in ETAG.findall(text)] for text in (exchange.body, body))
        if len(recorded) == len(received):
            tags += zip(recorded, received)
        self.tags |= {recorded: received for recorded, received in tags if recorded and received}
        for name in (f"x-ms-continuation-{name}" for name in CONTINUATIONS):
            if name in exchange.headers and name in headers:
                self.tokens[exchange.headers[name]] = headers[name]

    def compare_page(self, exchange, wanted, found):
        """Compares the sizes of a query's pages, and after the last page, the entries of all its pages in any order."""
        is_tables = exchange.target.startswith("/Tables")
        if not any(f"{name}=" in exchange.target.lower() for name in CONTINUATIONS):
            self.pages = ([], [])
        has_more = any(f"x-ms-continuation-{name}" in exchange.headers for name in CONTINUATIONS)
        lines = []
        if not is_tables and len(wanted["value"]) != len(found["value"]):
            lines.append(f"{len(found['value'])} entities instead of {len(wanted['value'])}")
        for entries, page in zip(self.pages, (wanted, found)):
            # The recorded account had tables of other runs.
            entries += [entry for entry in page.pop("value") if not is_tables or entry["TableName"] in self.created]
        if not has_more:
            recorded, received = (sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True)) for entries in self.pages)
            lines += difference(recorded, received)
        return lines + difference(wanted, found)


def content(media_type, body, host):
    """Returns a comparable form of a body: values that differ from run to run have placeholders."""
    if media_type.startswith("multipart/"):
        boundary = re.search(r"boundary=(\S+)", body).group(1)
        parts = [re.search(r"HTTP/1\.1 (\d+).*?(?:\r?\n){2}(.*)", part, re.DOTALL) for part in body.split(f"--{boundary}")]
        return [{"status": int(part.group(1)), "body": content("", part.group(2), host)} for part in parts if part]
    try:
        return normal(json.loads(body), host)
    except ValueError:
        return normal(body.strip(), host)


def normal(value, host, name=None):
    if isinstance(value, dict):
        return {name: normal(inner, host, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner, host) for inner in value]
    if not isinstance(value, str):
        return value
    if name == "Timestamp":
        return "{TIME}" if TIME.fullmatch(value) else value
    if name == "odata.type":
        return re.sub(r"^\w+\.", "{ACCOUNT}.", value)
    return IDENTIFIER.sub(r"\1{ID}", ETAG.sub("{ETAG}", host.sub("{ENDPOINT}", value)))


def difference(wanted, found, where="body"):
    """Returns the differences between two values, one line each."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        names = list(wanted) + [name for name in found if name not in wanted]
        absent = object()
        return [line for name in names for line in difference(wanted.get(name, absent), found.get(name, absent), f"{where}.{name}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found))
        return [line for number, (one, other) in pairs for line in difference(one, other, f"{where}[{number}]")]
    if type(wanted) is type(found) and wanted == found:
        return []
    one, other = ("nothing" if type(value) is object else f"{value!r:.300}" for value in (found, wanted))
    return [f"{where} is {one} instead of {other}"]


def runs(archive):
    """Yields the name and the exchanges of each recorded run in a source package."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with zipfile.ZipFile(archive) as package:
        for name in sorted(package.namelist()):
            if re.search(r"/tests/recordings/[^/]*cosmos[^/]*\.yaml$", name):
                recorded = yaml.load(package.read(name), Loader=loader)["interactions"]
                yield pathlib.PurePosixPath(name).stem, [Exchange(exchange) for exchange in recorded]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    server, passed, failed, names = Server(sys.argv[1]), 0, 0, set()
    for version, archive in sources.archives(VERSIONS, sys.argv[2]).items():
        equal = total = 0
        for run, exchanges in runs(archive):
            name = f"{version}/{run}"
            names.add(name)
            server.delete_tables()
            found = Run(server, exchanges).differences()
            total += 1
            equal += not found
            is_expected = bool(found) == (name in RECORDINGS)
            passed += is_expected
            failed += not is_expected
            if found and not is_expected:
                print("\n    ".join([f"{name} differs:"] + found))
            elif not is_expected:
                print(f"{name} has no difference: take it off conformance/cosmos/expected.py")
        print(f"{version}: {equal} of {total} recorded runs are equal")
    for reason in sorted(set(RECORDINGS.values())):
        print(f"runs that differ: {list(RECORDINGS.values()).count(reason)}, {reason}")
    if unknown := sorted(RECORDINGS.keys() - names):
        sys.exit(f"conformance/cosmos/expected.py names runs that do not exist: {', '.join(unknown)}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
