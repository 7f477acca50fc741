"""Invalid input, much of it over a raw socket: always a 4xx or a closed connection, never a 500 and never a hang.

After every case, the server must still answer an ordinary request.
"""

import pytest

from expect import PROCESSING, check_problem, check_refused, check_status
from wire import read_all, status_of

BODY_BYTES_MAX = 4 * 1024 * 1024


@pytest.fixture(autouse=True)
def still_alive(wire):
    yield
    check_status(wire.send("GET", "/Tables?$top=1"), 200)


def check_refused_or_closed(data):
    """Checks that a response in raw bytes is a 4xx, or 501 or 505 from the HTTP layer, or empty (connection closed)."""
    status = status_of(data)
    assert status is None or 400 <= status < 500 or status in (501, 505), data[:400]


MALFORMED_JSON = {
    "open-object": b'{"PartitionKey":"p","RowKey":"r"',
    "trailing-comma": b'{"PartitionKey":"p","RowKey":"r",}',
    "comment": b'{"PartitionKey":"p",/* c */"RowKey":"r"}',
    "trailing-text": b'{"PartitionKey":"p","RowKey":"r"} x',
    "two-objects": b'{"PartitionKey":"p","RowKey":"r"}{}',
    "array": b'[{"PartitionKey":"p","RowKey":"r"}]',
    "string": b'"text"',
    "number": b"5",
    "null": b"null",
    "blank": b"   ",
    "short-escape": b'{"PartitionKey":"p","RowKey":"r","A":"\\u12"}',
    "invalid-utf8": b'{"PartitionKey":"p","RowKey":"r","A":"\xff"}',
    "overlong-utf8": b'{"PartitionKey":"p","RowKey":"r","A":"\xc0\xaf"}',
    "truncated-utf8": b'{"PartitionKey":"p","RowKey":"r","A":"\xe2\x82"}',
    "utf16": '{"PartitionKey":"p","RowKey":"r"}'.encode("utf-16"),
    "xml": b"<entry/>",
    "nothing-but-nul": b"\x00\x00\x00",
}


# Bodies that are not JSON by its grammar, although some parsers accept them. The error code is not known.
NOT_QUITE_JSON = {
    "single-quotes": b"{'PartitionKey':'p','RowKey':'r'}",
    "bare-name": b'{PartitionKey:"p","RowKey":"r"}',
    "nan": b'{"PartitionKey":"p","RowKey":"r","A":NaN}',
    "leading-zero": b'{"PartitionKey":"p","RowKey":"r","A":012}',
    "plus": b'{"PartitionKey":"p","RowKey":"r","A":+1}',
    "half-number": b'{"PartitionKey":"p","RowKey":"r","A":1.}',
    "hexadecimal": b'{"PartitionKey":"p","RowKey":"r","A":0x10}',
    "true-capital": b'{"PartitionKey":"p","RowKey":"r","A":True}',
    "raw-line-feed": b'{"PartitionKey":"p","RowKey":"r","A":"a\nb"}',
    "bad-escape": b'{"PartitionKey":"p","RowKey":"r","A":"\\x41"}',
    "surrogate-utf8": b'{"PartitionKey":"p","RowKey":"r","A":"\xed\xa0\x80"}',
}


@pytest.mark.parametrize("name", NOT_QUITE_JSON)
def test_not_quite_json(shared, name):
    check_refused(shared.insert(NOT_QUITE_JSON[name]))


@pytest.mark.parametrize("name", MALFORMED_JSON)
def test_malformed_json_on_insert(shared, name):
    check_problem(shared.insert(MALFORMED_JSON[name]), 400, "InvalidInput", PROCESSING, form="json")


@pytest.mark.parametrize("verb", ["PUT", "MERGE", "PATCH"])
@pytest.mark.parametrize("name", ["open-object", "trailing-comma", "array", "null", "invalid-utf8"])
def test_malformed_json_on_upsert(shared, key, verb, name):
    answer = shared.write(verb, key, "r", MALFORMED_JSON[name])
    check_problem(answer, 400, "InvalidInput", PROCESSING, form="json")
    assert shared.point(key, "r").status == 404


@pytest.mark.parametrize("verb", ["POST", "PUT", "MERGE"])
def test_empty_body(shared, key, verb):
    answer = shared.insert(b"") if verb == "POST" else shared.write(verb, key, "r", b"")
    assert answer.status < 500
    if verb == "POST":
        check_refused(answer)


def test_lone_surrogates(shared, key):
    for text in (r"\ud800", r"\udc00", r"\udc00\ud800", r"a\ud83d"):
        answer = shared.insert(f'{{"PartitionKey":"{key}","RowKey":"r","A":"{text}"}}')
        assert answer.status < 500
        shared.delete(key, "r")


DEEP = {
    "arrays": b'{"PartitionKey":"p","RowKey":"deep","A":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "objects": b'{"PartitionKey":"p","RowKey":"deep","A":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "open-arrays": b"[" * 1_000_000,
    "open-objects": b'{"a":' * 400_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_json(shared, name):
    check_refused(shared.insert(DEEP[name]))


def test_many_members(shared):
    body = "{" + ",".join(f'"P{i}":{i}' for i in range(200_000)) + ',"PartitionKey":"p","RowKey":"r"}'
    check_refused(shared.insert(body))


def padded(key, size):
    start = f'{{"PartitionKey":"{key}","RowKey":"r"'.encode()
    return start + b" " * (size - len(start) - 1) + b"}"


def test_body_of_exactly_four_mib(shared, key):
    check_status(shared.insert(padded(key, BODY_BYTES_MAX)), 201)


@pytest.mark.parametrize("method", ["POST", "PUT", "MERGE"])
def test_body_over_four_mib(wire, shared, key, method):
    target = f"/{shared.name}" if method == "POST" else shared.address(key, "r")
    data = wire.talk(wire.compose(method, target, padded(key, BODY_BYTES_MAX + 1)))
    assert status_of(data) in (413, None)
    assert shared.point(key, "r").status == 404


def test_body_over_four_mib_problem(shared, key):
    answer = shared.insert(padded(key, BODY_BYTES_MAX + 1))
    check_problem(answer, 413, "RequestBodyTooLarge")


def test_announced_body_over_four_mib_is_refused_early(wire, shared):
    head = wire.compose("POST", f"/{shared.name}", headers={"Content-Length": "99999999999", "Content-Type": "application/json"})
    data = wire.talk(head + b"{", half_close=True)
    check_refused_or_closed(data)


def chunked(pieces, last=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + last


def compose_chunked(wire, method, target, payload):
    headers = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    return wire.compose(method, target, headers=headers) + payload


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_chunked_body(wire, shared, key, size):
    body = f'{{"PartitionKey":"{key}","RowKey":"r","A":"é{"x" * 100}"}}'.encode()
    pieces = [body[i:i + size] for i in range(0, len(body), size)]
    data = wire.talk(compose_chunked(wire, "POST", f"/{shared.name}", chunked(pieces)))
    assert status_of(data) == 201
    assert shared.stored(key, "r") == {"A": "é" + "x" * 100}


def test_chunk_extension_and_trailer(wire, shared, key):
    body = f'{{"PartitionKey":"{key}","RowKey":"r"}}'.encode()
    payload = b"%x;a=b\r\n%s\r\n0\r\nX-Trailer: y\r\n\r\n" % (len(body), body)
    assert status_of(wire.talk(compose_chunked(wire, "POST", f"/{shared.name}", payload))) == 201


def test_chunked_body_over_four_mib(wire, shared):
    payload = chunked([b" " * 65_536] * 65)
    status = status_of(wire.talk(compose_chunked(wire, "POST", f"/{shared.name}", payload)))
    assert status in (413, None)


@pytest.mark.parametrize("payload", [b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n{}", b"5\r\n{}\r\n0\r\n\r\n"],
                         ids=["not-hex", "negative", "overflow", "short-chunk"])
def test_malformed_chunks(wire, shared, payload):
    check_refused_or_closed(wire.talk(compose_chunked(wire, "POST", f"/{shared.name}", payload), half_close=True))


def test_expect_100_continue(wire, shared, key):
    body = f'{{"PartitionKey":"{key}","RowKey":"r"}}'.encode()
    request = wire.compose("POST", f"/{shared.name}", body, headers={"Expect": "100-continue"})
    head = request[:-len(body)]
    with wire.connect() as stream:
        stream.sendall(head)
        interim = stream.recv(4096)
        assert interim.startswith(b"HTTP/1.1 100")
        stream.sendall(body)
        assert status_of(interim + read_all(stream)) == 201


TRUNCATED = {
    "nothing": lambda request: b"",
    "half-line": lambda request: request[:9],
    "half-headers": lambda request: request[:request.index(b"\r\n\r\n") - 4],
    "no-blank-line": lambda request: request[:request.index(b"\r\n\r\n") + 2],
    "no-body": lambda request: request[:request.index(b"\r\n\r\n") + 4],
    "half-body": lambda request: request[:-10],
}


@pytest.mark.parametrize("name", TRUNCATED)
def test_truncated_request(wire, shared, key, name):
    request = wire.compose("POST", f"/{shared.name}", {"PartitionKey": key, "RowKey": "r", "A": "x" * 50})
    check_refused_or_closed(wire.talk(TRUNCATED[name](request), half_close=True))
    assert shared.point(key, "r").status == 404


def test_truncated_chunked_request(wire, shared, key):
    payload = b"40\r\n" + f'{{"PartitionKey":"{key}","RowKey":"r"}}'.encode()
    check_refused_or_closed(wire.talk(compose_chunked(wire, "POST", f"/{shared.name}", payload), half_close=True))


def with_lines(*lines):
    """Inserts raw header lines after the request line of an otherwise valid request."""
    def change(request):
        first, rest = request.split(b"\r\n", 1)
        return first + b"\r\n" + b"\r\n".join(lines) + b"\r\n" + rest
    return change


ABSURD = {
    "header-of-1-mib": with_lines(b"X-Long: " + b"x" * 1_048_576),
    "ten-thousand-headers": with_lines(*[b"X-%d: y" % i for i in range(10_000)]),
    "header-without-colon": with_lines(b"nonsense"),
    "header-name-with-blank": with_lines(b"X Y: z"),
    "header-with-nul": with_lines(b"X-Nul: a\x00b"),
    "empty-header-name": with_lines(b": x"),
    "negative-length": with_lines(b"Content-Length: -1"),
    "length-not-a-number": with_lines(b"Content-Length: abc"),
    "two-lengths": with_lines(b"Content-Length: 1", b"Content-Length: 2"),
    "unknown-encoding": with_lines(b"Transfer-Encoding: rot13"),
    "no-host": lambda request: b"\r\n".join(line for line in request.split(b"\r\n") if not line.startswith(b"Host:")),
    "garbage": lambda request: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http at all\r\n\r\n",
    "no-target": lambda request: request.replace(request.split(b" ", 2)[1], b"", 1),
    "http-9": lambda request: request.replace(b"HTTP/1.1", b"HTTP/9.9", 1),
    "method-of-100-kib": lambda request: b"X" * 102_400 + request,
    "target-of-1-mib": lambda request: request.replace(b"/Tables", b"/Tables" + b"a" * 1_048_576, 1),
    "raw-blank-in-target": lambda request: request.replace(b"/Tables", b"/Tab les", 1),
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_request(wire, name):
    request = wire.compose("GET", "/Tables?$top=1")
    check_refused_or_closed(wire.talk(ABSURD[name](request), half_close=True))


def test_length_beside_chunks(wire, shared, key):
    """Either the chunks determine the body, or the request is refused. Content-Length must never be used."""
    body = f'{{"PartitionKey":"{key}","RowKey":"r"}}'.encode()
    request = compose_chunked(wire, "POST", f"/{shared.name}", chunked([body]))
    status = status_of(wire.talk(with_lines(b"Content-Length: 5")(request), half_close=True))
    assert status in (201, 400, None)


def test_no_host_is_400(wire):
    request = ABSURD["no-host"](wire.compose("GET", "/Tables"))
    assert status_of(wire.talk(request)) == 400


TARGETS = ["/%", "/%zz", "/Tables%", "/Tables('%ff%fe')", "/Tables(", "/Tables('", "/Tables(')", "/()", "/(", "/%00", "//",
           "/abc/def", "/abc()/PartitionKey", "/$batch/x", "/Tables?%", "/Tables?$filter=%", "/Tables?$filter=%ff",
           "/Tables?$top=%zz", "/'", "/abc(PartitionKey='%ff',RowKey='r')", "/abc(PartitionKey='%u0041',RowKey='r')"]


@pytest.mark.parametrize("target", TARGETS)
def test_strange_target(wire, target):
    status = wire.send("GET", target).status
    assert status == 200 or 400 <= status < 500 or status == 501


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "MERGE", "PATCH"])
@pytest.mark.parametrize("target", ["/", "/$batch", "/$metadata", "/Tables('a')/x"])
def test_every_method_on_odd_resources(wire, method, target):
    status = wire.send(method, target, None if method in ("GET", "DELETE") else b"{}").status
    assert status < 500 or status == 501


@pytest.mark.parametrize("method", ["FROB", "TRACE", "CONNECTX", "get"])
def test_unknown_method(wire, method):
    assert wire.send(method, "/Tables").status in (400, 403, 405, 501)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_neither_length_nor_chunks(wire, shared, method):
    target = f"/{shared.name}" if method == "POST" else shared.address("p", "no length")
    request = wire.compose(method, target, headers={"Content-Type": "application/json"})
    request = request.replace(b"Content-Length: 0\r\n", b"")
    assert status_of(wire.talk(request)) == 411


def test_address_of_eight_kib_is_accepted(shared):
    options = {"$filter": " or ".join(f"RowKey eq '{number:04}'" for number in range(350))}
    check_status(shared.query(options), 200)


def test_pipelined_requests_are_answered_in_order(wire):
    one = wire.compose("GET", "/Tables('nosuchtable0')").replace(b"Connection: close\r\n", b"")
    two = wire.compose("GET", "/Tables?$top=1")
    data = wire.talk(one + two)
    assert data.index(b" 404 ") < data.index(b" 200 ")
