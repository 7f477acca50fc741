"""Entity group transactions: tolerated request forms, response framing, and the result of each operation (05 §2–§4)."""

import re

import pytest

from batch_body import (BATCH, Operation, between, boundary_of, changeset_body, entity_operation, insert_operation, post_batch,
                        post_changeset, query_body, read_parts)
from expect import ETAG, GUID, check_status
from wire import FULL, MINIMAL, NONE, VERSION

JSON_TYPE = f"{MINIMAL};streaming=true;charset=utf-8"


def entity(key, row_key, **properties):
    return {"PartitionKey": key, "RowKey": row_key, **properties}


def present(table, key):
    return table.row_keys(f"PartitionKey eq '{key}'")


def test_outer_answer(wire, shared, key):
    answer = post_batch(wire, changeset_body([insert_operation(shared, entity(key, "1"))]))
    check_status(answer, 202)
    boundary_of(answer.header("Content-Type"), "batchresponse")
    assert answer.header("Cache-Control") == "no-cache"
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert answer.header("x-ms-version") == VERSION
    assert re.fullmatch(GUID, answer.header("x-ms-request-id"))


@pytest.mark.parametrize("method", ["PUT", "MERGE", "PATCH"])
@pytest.mark.parametrize("condition", ["*", None], ids=["existing", "upsert"])
def test_the_address_wins_over_keys_in_the_body(wire, shared, key, method, condition):
    check_status(shared.insert(entity(key, "r", A=1)), 201)
    headers = {"If_Match": condition} if condition else {}
    body = entity(key + "x", "other", A=9)
    [part] = post_changeset(wire, [entity_operation(shared, method, key, "r", body, **headers)])
    assert part.status == 204
    assert (present(shared, key), present(shared, key + "x")) == (["r"], [])
    assert shared.stored(key, "r")["A"] == 9


def test_exact_framing_of_three_operations(wire, shared, key):
    """Checks the whole body of 05 §4: insert without content, merge, delete, each with a Content-ID."""
    for row_key in "23":
        check_status(shared.insert(entity(key, row_key)), 201)
    answer = post_batch(wire, changeset_body([
        insert_operation(shared, entity(key, "1"), Prefer="return-no-content", Content_ID="1"),
        entity_operation(shared, "MERGE", key, "2", {"A": 2}, If_Match="*", Content_ID="2"),
        entity_operation(shared, "DELETE", key, "3", If_Match="*", Content_ID="3"),
    ]))
    batch = boundary_of(answer.header("Content-Type"), "batchresponse")
    changeset = re.search(rf"changesetresponse_{GUID}", answer.text).group(0)
    etags = [f'"odata.etag":"{e}"' for e in re.findall(r"ETag: (.*)\r\n", answer.text)]
    assert len(etags) == 2 and all(ETAG.search(e) for e in etags)
    location = f"{wire.base}/{shared.name}(PartitionKey='{key}',RowKey='1')"
    part = [f"--{changeset}", "Content-Type: application/http", "Content-Transfer-Encoding: binary", "", "HTTP/1.1 204 No Content"]
    common = ["X-Content-Type-Options: nosniff", "Cache-Control: no-cache"]
    wanted = [
        f"--{batch}", f"Content-Type: multipart/mixed; boundary={changeset}", "",
        *part, "Content-ID: 1", *common, "Preference-Applied: return-no-content", "DataServiceVersion: 3.0;",
        f"Location: {location}", f"DataServiceId: {location}", "ETag: *", "", "",
        *part, "Content-ID: 2", *common, "DataServiceVersion: 1.0;", "ETag: *", "", "",
        *part, "Content-ID: 3", *common, "DataServiceVersion: 1.0;", "", "",
        f"--{changeset}--", f"--{batch}--", "",
    ]
    assert re.sub(r"ETag: .*", "ETag: *", answer.text.replace("\r\n", "\n")).split("\n") == wanted
    assert answer.text.count("\r\n") == answer.text.count("\n")


def test_exact_framing_of_an_insert_with_content(wire, shared, key):
    [part] = post_changeset(wire, [insert_operation(shared, entity(key, "1", A=1), Content_ID="7")])
    assert (part.status, part.reason) == (201, "Created")
    assert part.names == ["DataServiceVersion", "Content-Type", "Content-ID", "X-Content-Type-Options", "Cache-Control", "Location", "ETag"]
    assert part.header("DataServiceVersion") == "3.0;"
    assert part.header("Content-Type") == JSON_TYPE
    assert part.header("Content-ID") == "7"
    assert part.header("Location") == f"{wire.base}/{shared.name}(PartitionKey='{key}',RowKey='1')"
    assert part.header("ETag") == shared.point(key, "1").header("ETag")
    assert part.text == shared.point(key, "1").text


def test_no_content_id_no_line(wire, shared, key):
    parts = post_changeset(wire, [insert_operation(shared, entity(key, "1"), Prefer="return-no-content"),
                                  entity_operation(shared, "PUT", key, "2", {"A": 1})])
    assert all(part.names[0] == "X-Content-Type-Options" for part in parts)


def test_content_id_of_the_part_headers_is_not_echoed(wire, shared, key):
    operation = insert_operation(shared, entity(key, "1"), Prefer="return-no-content")
    operation.part_headers = ["Content-ID: 5"]
    [part] = post_changeset(wire, [operation])
    assert part.status == 204 and part.header("Content-ID") is None


def test_content_ids_are_any_tokens(wire, shared, key):
    ids = ["0", "x", "x", "99"]
    operations = [insert_operation(shared, entity(key, str(n)), Content_ID=value, Prefer="return-no-content")
                  for n, value in enumerate(ids)]
    assert [part.header("Content-ID") for part in post_changeset(wire, operations)] == ids


@pytest.mark.parametrize("level", [NONE, MINIMAL, FULL])
def test_inner_accept_decides(wire, shared, key, level):
    operation = insert_operation(shared, entity(key, "1", A=1), Accept=level)
    [part] = post_changeset(wire, [operation], accept="application/atom+xml,application/xml")
    assert part.header("Content-Type") == f"{level};streaming=true;charset=utf-8"
    assert part.text == shared.point(key, "1", accept=level).text


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "multipart/mixed"])
def test_any_outer_accept(wire, shared, key, accept):
    body = changeset_body([insert_operation(shared, entity(key, "1"))])
    check_status(post_batch(wire, body, headers={"Accept": accept}), 202)
    assert present(shared, key) == ["1"]


OPERATIONS = {
    "insert": lambda t, k: insert_operation(t, entity(k, "new", A=1)),
    "insert-no-content": lambda t, k: insert_operation(t, entity(k, "new", A=1), Prefer="return-no-content"),
    "update": lambda t, k: entity_operation(t, "PUT", k, "old", {"A": 1}, If_Match="*"),
    "merge": lambda t, k: entity_operation(t, "MERGE", k, "old", {"A": 1}, If_Match="*"),
    "patch": lambda t, k: entity_operation(t, "PATCH", k, "old", {"A": 1}, If_Match="*"),
    "insert-or-replace": lambda t, k: entity_operation(t, "PUT", k, "new", {"A": 1}),
    "insert-or-merge": lambda t, k: entity_operation(t, "MERGE", k, "new", {"A": 1}),
    "insert-or-merge-patch": lambda t, k: entity_operation(t, "PATCH", k, "new", {"A": 1}),
    "delete": lambda t, k: entity_operation(t, "DELETE", k, "old", If_Match="*"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation(wire, shared, key, name):
    check_status(shared.insert(entity(key, "old", Z=0)), 201)
    [part] = post_changeset(wire, [OPERATIONS[name](shared, key)])
    assert part.status == (201 if name == "insert" else 204)
    if name == "delete":
        assert part.header("ETag") is None and present(shared, key) == []
        return
    row_key = "old" if name in ("update", "merge", "patch") else "new"
    assert part.header("ETag") == shared.point(key, row_key).header("ETag")
    kept = {"Z": 0} if name in ("merge", "patch") else {}
    assert shared.stored(key, row_key) == {**kept, "A": 1}
    if not name.startswith("insert-no") and name != "insert":
        assert part.header("Location") is None and part.header("DataServiceVersion") == "1.0;"


def lf(operations, **kwargs):
    return changeset_body(operations, newline=b"\n", **kwargs)


SPELLINGS = {
    "crlf": changeset_body,
    "lf": lf,
    "no-final-delimiter": lambda o: changeset_body(o, final=False),
    "lf-no-final-delimiter": lambda o: lf(o, final=False),
    # The end of a batch as sent by the Rust client `azure_data_tables` 0.21.
    "lf-final-delimiter-without-hyphens": lambda o: lf(o, final=False).rstrip() + f"\n--{BATCH}\n".encode(),
    # The form of the C++ client `azure-data-tables-cpp`: nothing between a body and the next delimiter.
    "delimiter-after-a-body": lambda o: lf(o).replace(b"}\n--changeset_77", b"}--changeset_77"),
    # The headers of every part from the Go client `aztables`.
    "empty-headers": lambda o: changeset_body(o).replace(b"Accept:", b"DataServiceVersion: \r\nx-ms-version: \r\nAccept:"),
    "preamble": lambda o: b"\r\n\r\nThis is a multipart message.\r\n" + changeset_body(o),
    "leading-blank-lines": lambda o: b"\r\n\r\n" + changeset_body(o),
    "epilogue": lambda o: changeset_body(o) + b"\r\nnothing to see\r\n",
    "no-final-line-end": lambda o: changeset_body(o).rstrip(b"\r\n"),
    "trailing-blank-after-delimiter": lambda o: changeset_body(o).replace(b"--changeset_77\r\n", b"--changeset_77  \r\n"),
    "header-case": lambda o: changeset_body(o).replace(b"Content-Type: application/http", b"content-TYPE :application/http"),
    "no-transfer-encoding": lambda o: changeset_body(o).replace(b"Content-Transfer-Encoding: binary\r\n", b""),
    "no-part-headers": lambda o: changeset_body(o).replace(
        b"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n", b""),
    "part-headers-swapped": lambda o: changeset_body(o).replace(
        b"Content-Type: application/http\r\nContent-Transfer-Encoding: binary", b"Content-Transfer-Encoding: binary\r\nContent-Type: application/http"),
    "quoted-changeset-boundary": lambda o: changeset_body(o).replace(b"boundary=changeset_77", b'boundary="changeset_77"'),
    "blank-lines-after-parts": lambda o: changeset_body(o).replace(b"\r\n--changeset_77", b"\r\n\r\n\r\n--changeset_77"),
    "mixed-line-ends": lambda o: changeset_body(o).replace(b"Content-Transfer-Encoding: binary\r\n", b"Content-Transfer-Encoding: binary\n"),
}


def test_a_batch_as_the_retired_java_client_writes_it(wire, shared, key):
    """The client counts the line break after a body as part of the body, and adds `X-HTTP-Method: MERGE` to a MERGE
    request."""
    check_status(shared.insert(entity(key, "1")), 201)
    text = f'{{"PartitionKey":"{key}","RowKey":"2","A":1}}'
    operations = [entity_operation(shared, "MERGE", key, "1", {"A": 1}, If_Match="*", X_HTTP_Method="MERGE"),
                  insert_operation(shared, text, Content_Length=str(len(text) + 2), Prefer="return-no-content")]
    assert [part.status for part in post_changeset(wire, operations)] == [204, 204]
    assert (shared.stored(key, "1"), shared.stored(key, "2")) == ({"A": 1}, {"A": 1})


@pytest.mark.parametrize("name", SPELLINGS)
def test_tolerated_spelling_of_the_body(wire, shared, key, name):
    check_status(shared.insert(entity(key, "2")), 201)
    check_status(shared.insert(entity(key, "3")), 201)
    body = SPELLINGS[name]([
        insert_operation(shared, entity(key, "1", A="x"), Prefer="return-no-content"),
        entity_operation(shared, "MERGE", key, "2", {"A": "y"}, If_Match="*"),
        entity_operation(shared, "DELETE", key, "3", If_Match="*"),
    ])
    parts = read_parts(check_status(post_batch(wire, body), 202))
    assert [part.status for part in parts] == [204, 204, 204], parts
    assert present(shared, key) == ["1", "2"]
    assert (shared.stored(key, "1"), shared.stored(key, "2")) == ({"A": "x"}, {"A": "y"})


CONTENT_TYPES = [f'multipart/mixed; boundary="{BATCH}"', f"multipart/mixed;boundary={BATCH}", f"Multipart/Mixed; Boundary={BATCH}",
                 f"multipart/mixed; charset=utf-8; boundary={BATCH}"]


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
def test_spelling_of_the_outer_content_type(wire, shared, key, content_type):
    body = changeset_body([insert_operation(shared, entity(key, "1"))])
    check_status(post_batch(wire, body, content_type=content_type), 202)
    assert present(shared, key) == ["1"]


def test_long_boundary(wire, shared, key):
    boundary = "b" * 70
    body = changeset_body([insert_operation(shared, entity(key, "1"))], batch=boundary, changeset="c" * 70)
    assert read_parts(check_status(post_batch(wire, body, boundary), 202))[0].status == 201


@pytest.mark.parametrize("scheme", ["SharedKey", "SharedKeyLite"])
@pytest.mark.parametrize("target", ["/$batch", "/%24batch"])
def test_spelling_of_the_batch_target(wire, shared, key, target, scheme):
    body = changeset_body([insert_operation(shared, entity(key, "1"))])
    headers = {"Content-Type": f"multipart/mixed; boundary={BATCH}"}
    check_status(wire.send("POST", target, body, headers=headers, scheme=scheme), 202)
    assert present(shared, key) == ["1"]


TARGETS = {
    "absolute": lambda w, path: w.base + path,
    "absolute-other-host": lambda w, path: "https://elsewhere.example" + w.prefix + path,
    "absolute-path": lambda w, path: w.prefix + path,
    "path-without-account": lambda w, path: path,
    "relative": lambda w, path: path[1:],
}


@pytest.mark.parametrize("name", TARGETS)
def test_inner_target(wire, shared, key, name):
    check_status(shared.insert(entity(key, "2")), 201)
    first, second = f"/{shared.name}", shared.address(key, "2")
    spell = TARGETS[name]
    parts = post_changeset(wire, [Operation("POST", spell(wire, first), entity(key, "1")),
                                  Operation("MERGE", spell(wire, second), {"A": 1}, {"If-Match": "*"})])
    assert [part.status for part in parts] == [201, 204]
    assert present(shared, key) == ["1", "2"]


def test_mixed_targets(wire, shared, key):
    operations = [Operation("POST", spell(wire, f"/{shared.name}"), entity(key, str(n)), {"Prefer": "return-no-content"})
                  for n, spell in enumerate(TARGETS.values())]
    assert [part.status for part in post_changeset(wire, operations)] == [204] * len(TARGETS)


@pytest.mark.parametrize("row_key", ["O'Neil", "Söhne", "a b", "100%", "a+b", "a`b", "\U0001F600", "", "x" * 512])
def test_keys_in_targets(wire, shared, key, row_key):
    for verb, status in (("PUT", 204), ("MERGE", 204), ("DELETE", 204)):
        body = None if verb == "DELETE" else {"A": "é"}
        headers = {"If_Match": "*"} if verb != "PUT" else {}
        [part] = post_changeset(wire, [entity_operation(shared, verb, key, row_key, body, **headers)])
        assert part.status == status, (verb, part)
    [part] = post_changeset(wire, [insert_operation(shared, entity(key, row_key, A="日本"))])
    assert part.status == 201
    assert shared.stored(key, row_key) == {"A": "日本"}


def test_inner_content_length(wire, shared, key):
    body = b'{"PartitionKey":"%s","RowKey":"1"}' % key.encode()
    operation = Operation("POST", f"/{shared.name}", body + b"   ", {"Content-Length": str(len(body))})
    [part] = post_changeset(wire, [operation])
    assert part.status == 201


def test_inner_method_override(wire, shared, key):
    check_status(shared.insert(entity(key, "1", Z=0)), 201)
    operation = entity_operation(shared, "POST", key, "1", {"A": 1}, If_Match="*")
    operation.headers["X-HTTP-Method"] = "MERGE"
    [part] = post_changeset(wire, [operation])
    assert part.status == 204 or 400 <= part.status < 500
    if part.status == 204:
        assert shared.stored(key, "1") == {"Z": 0, "A": 1}


def test_inner_authorization_and_dates_are_ignored(wire, shared, key):
    operation = insert_operation(shared, entity(key, "1"))
    operation.headers |= {"Authorization": "SharedKey nobody:nothing", "x-ms-date": "yesterday", "x-ms-version": "2009-09-19",
                          "Host": "elsewhere.example", "Date": "x"}
    [part] = post_changeset(wire, [operation])
    assert part.status == 201


def test_chunked_outer_body(wire, shared, key):
    body = changeset_body([insert_operation(shared, entity(key, "1"))])
    headers = {"Content-Type": f"multipart/mixed; boundary={BATCH}", "Transfer-Encoding": "chunked"}
    request = wire.compose("POST", "/$batch", headers=headers) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    assert wire.talk(request).startswith(b"HTTP/1.1 202")
    assert present(shared, key) == ["1"]


def test_empty_changeset(wire):
    answer = check_status(post_batch(wire, changeset_body([])), 202)
    inside = between(answer.text, boundary_of(answer.header("Content-Type"), "batchresponse"))
    assert re.fullmatch(rf"Content-Type: multipart/mixed; boundary=(changesetresponse_{GUID})\r\n\r\n--\1--", inside), inside


def test_point_query_hit(wire, shared, key):
    check_status(shared.insert(entity(key, "1", A=1)), 201)
    operation = entity_operation(shared, "GET", key, "1")
    [part] = read_parts(check_status(post_batch(wire, query_body(operation)), 202))
    point = shared.point(key, "1")
    assert (part.status, part.reason) == (200, "OK")
    assert part.headers == (("DataServiceVersion", "3.0;"), ("Content-Type", JSON_TYPE), ("X-Content-Type-Options", "nosniff"),
                            ("Cache-Control", "no-cache"), ("ETag", point.header("ETag")))
    assert part.text == point.text


def test_point_query_hit_with_lf(wire, shared, key):
    check_status(shared.insert(entity(key, "1", A=1)), 201)
    body = query_body(entity_operation(shared, "GET", key, "1"), newline=b"\n")
    [part] = read_parts(check_status(post_batch(wire, body), 202))
    assert part.status == 200 and '"A":1' in part.text


def test_entity_query(wire, shared, key):
    for row_key in "12":
        check_status(shared.insert(entity(key, row_key)), 201)
    target = f"{wire.base}/{shared.name}()?$filter=PartitionKey%20eq%20'{key}'"
    [part] = read_parts(check_status(post_batch(wire, query_body(Operation("GET", target))), 202))
    assert part.status == 200
    assert part.text.count('"RowKey"') == 2
