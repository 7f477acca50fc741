"""Shared access signatures: every permission against every operation, and the causes of invalid tokens (08)."""

import itertools

import pytest
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableClient, TableCorsRule, TableServiceClient, UpdateMode

import sas
from batch_body import Operation, post_changeset
from expect import MESSAGE, check_problem, check_status, read_problem
from sas import CANNOT, TokenWire, own_account_token, own_table_token, time_text, with_account_token, with_table_token
from wire import NONE, TableWire

LETTERS = ["".join(letters) for count in range(5) for letters in itertools.combinations("raud", count)]


def open_table(wire, name, token):
    return TableClient(wire.base, name, credential=AzureSasCredential(token), retry_total=0)


def open_service(wire, token):
    return TableServiceClient(wire.base, credential=AzureSasCredential(token), retry_total=0)


def entity(key, row="old"):
    return {"PartitionKey": key, "RowKey": row, "A": 1}


# Name: the permissions that the operation requires, and the client call.
ENTITY_OPERATIONS = {
    "get": ("r", lambda client, key: client.get_entity(key, "old")),
    "query": ("r", lambda client, key: list(client.query_entities(f"PartitionKey eq '{key}'"))),
    "list": ("r", lambda client, key: list(client.list_entities())),
    "insert": ("a", lambda client, key: client.create_entity(entity(key, "new"))),
    "replace": ("u", lambda client, key: client.update_entity(entity(key), mode=UpdateMode.REPLACE)),
    "merge": ("u", lambda client, key: client.update_entity(entity(key), mode=UpdateMode.MERGE)),
    "insert-or-replace": ("au", lambda client, key: client.upsert_entity(entity(key), mode=UpdateMode.REPLACE)),
    "insert-or-merge": ("au", lambda client, key: client.upsert_entity(entity(key, "new"), mode=UpdateMode.MERGE)),
    "delete": ("d", lambda client, key: client.delete_entity(key, "old")),
    "batch-insert": ("a", lambda client, key: client.submit_transaction([("create", entity(key, "new"))])),
    "batch-merge": ("u", lambda client, key: client.submit_transaction([("update", entity(key))])),
    "batch-upsert": ("au", lambda client, key: client.submit_transaction([("upsert", entity(key))])),
    "batch-delete": ("d", lambda client, key: client.submit_transaction([("delete", entity(key))])),
    "batch-mixed": ("aud", lambda client, key: client.submit_transaction(
        [("create", entity(key, "new")), ("upsert", entity(key, "other")), ("delete", entity(key))])),
}


def code_of(call):
    """Returns None if the call succeeds, and otherwise the status and code of the error."""
    try:
        call()
    except HttpResponseError as error:
        if getattr(error, "index", None) is not None:
            return error.status_code, getattr(error.error_code, "value", error.error_code)
        return error.status_code, read_problem(error.response.text()).code
    return None


@pytest.mark.parametrize("letters", LETTERS[1:])
@pytest.mark.parametrize("operation", ENTITY_OPERATIONS)
def test_table_permissions(shared, key, letters, operation):
    needed, call = ENTITY_OPERATIONS[operation]
    check_status(shared.insert(entity(key)), 201)
    client = open_table(shared.wire, shared.name, sas.table_token(shared.wire, shared.name, letters))
    allowed = set(needed) <= set(letters)
    expected = None if allowed else (403, "AuthorizationPermissionMismatch")
    assert code_of(lambda: call(client, key)) == expected
    if not allowed:
        assert shared.stored(key, "old") == {"A": 1}
        check_status(shared.point(key, "new"), 404)


RULE = TableCorsRule(["https://nobody.example"], ["GET"])

# Name: the resource types and the permissions (one of each is required), and the operation.
ACCOUNT_OPERATIONS = {
    "get-properties": ("s", "r", lambda service, table, key: service.get_service_properties()),
    # This operation must change nothing, because the account is shared. An error about the XML shows that the request
    # was allowed.
    "set-properties": ("s", "w", lambda service, table, key: service.set_service_properties(cors=[RULE] * 6)),
    "list-tables": ("c", "l", lambda service, table, key: next(iter(service.list_tables(results_per_page=1)))),
    "create-table": ("c", "cw", lambda service, table, key: service.create_table("t" + key)),
    "delete-table": ("c", "d", lambda service, table, key: service.delete_table("n" + key)),
}


REFUSED_DOCUMENT = (400, "InvalidXmlDocument")


@pytest.mark.parametrize("operation", ACCOUNT_OPERATIONS)
@pytest.mark.parametrize("resource", "sco")
@pytest.mark.parametrize("letter", "rwdlacu")
def test_account_permissions(wire, shared, key, operation, resource, letter):
    resources, letters, call = ACCOUNT_OPERATIONS[operation]
    service = open_service(wire, sas.account_token(wire, resource, letter))
    expected = None
    if resource not in resources:
        expected = (403, "AuthorizationResourceTypeMismatch")
    elif letter not in letters:
        expected = (403, "AuthorizationPermissionMismatch")
    found = code_of(lambda: call(service, shared, key))
    wire.send("DELETE", f"/Tables('t{key}')")
    if found == (501, "NotImplemented"):
        pytest.skip("the endpoint has no service properties")
    assert found == (REFUSED_DOCUMENT if expected is None and operation == "set-properties" else expected)


@pytest.mark.parametrize("operation", ENTITY_OPERATIONS)
@pytest.mark.parametrize("resource", "sco")
def test_account_permissions_on_entities(shared, key, operation, resource):
    needed, call = ENTITY_OPERATIONS[operation]
    for letters in ["r", "a", "u", "d", "au", "aud", "wlc"]:
        row_key = f"{key}-{letters}"
        check_status(shared.insert(entity(row_key)), 201)
        client = open_table(shared.wire, shared.name, sas.account_token(shared.wire, resource, letters))
        expected = None
        if resource != "o":
            expected = (403, "AuthorizationResourceTypeMismatch")
        elif not set(needed) <= set(letters):
            expected = (403, "AuthorizationPermissionMismatch")
        assert code_of(lambda: call(client, row_key)) == expected, letters


@pytest.mark.parametrize("method, target, body", [
    ("GET", "/Tables", None),
    ("GET", "/Tables('{table}')", None),
    ("POST", "/Tables", {"TableName": "tnever"}),
    ("DELETE", "/Tables('{table}')", None),
    ("GET", "/{table}?comp=acl", None),
    ("PUT", "/{table}?comp=acl", b""),
])
def test_a_table_sas_is_for_entities_only(wire, shared, method, target, body):
    token = with_table_token(shared, "raud").wire
    answer = token.send(method, target.format(table=shared.name), body)
    check_problem(answer, 403, "AuthorizationFailure", form="front" if "comp" in target else "json")


@pytest.mark.parametrize("method, body", [("GET", None), ("PUT", b"")])
def test_no_account_sas_reaches_the_policies(shared, method, body):
    token = with_account_token(shared, "sco", "rwdlacu").wire
    check_problem(token.send(method, f"/{shared.name}?comp=acl", body), 403, "AuthorizationFailure", form="front")


def test_a_denial_has_the_negotiated_form(shared, key):
    check_status(shared.insert(entity(key)), 201)
    answer = with_table_token(shared, "a").point(key, "old")
    check_problem(answer, 403, "AuthorizationPermissionMismatch", CANNOT + " using this permission.", form="json")
    assert answer.header("Content-Type") == "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
    assert answer.header("Cache-Control") == "no-cache"
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert answer.header("x-ms-version") == "2019-02-02"


def test_a_denial_comes_before_existence(wire, new_name):
    name = new_name()
    denied = TableWire(TokenWire(wire, own_table_token(wire, name, sp="a")), name)
    check_problem(denied.point("p", "r"), 403, "AuthorizationPermissionMismatch")
    allowed = TableWire(TokenWire(wire, own_table_token(wire, name)), name)
    check_problem(allowed.point("p", "r"), 404, "TableNotFound")


def refused(wire, table, token, accept=NONE):
    """Checks that the authentication fails."""
    answer = TokenWire(wire, token).send("GET", f"/{table.name}()?$top=1", accept=accept)
    check_problem(answer, 403, "AuthenticationFailed", MESSAGE["AuthenticationFailed"])
    assert answer.header("x-ms-error-code") == "AuthenticationFailed"


def accepted(wire, table, token):
    check_status(TokenWire(wire, token).send("GET", f"/{table.name}()?$top=1", accept=NONE), 200)


VERSIONS = ["2012-02-12", "2013-08-15", "2014-02-14", "2015-02-21", "2015-04-05", "2017-07-29", "2019-02-02", "2020-12-06",
            "2021-12-02", "2023-05-03", "2026-12-06"]


@pytest.mark.parametrize("version", VERSIONS)
def test_signed_versions_of_a_table_sas(wire, shared, version):
    accepted(wire, shared, own_table_token(wire, shared.name, sv=version))
    accepted(wire, shared, own_table_token(wire, shared.name, sv=version, spk="a", srk="b", epk="c", erk="d"))


@pytest.mark.parametrize("version", VERSIONS[4:])
def test_signed_versions_of_an_account_sas(wire, shared, version):
    accepted(wire, shared, own_account_token(wire, sv=version))


@pytest.mark.parametrize("name", ["st", "se", "sp", "si", "sip", "spr", "sv", "spk", "srk", "epk", "erk", "sig"])
def test_every_signed_field_counts(wire, shared, name):
    fields = {"st": time_text(-1), "spk": "a", "srk": "b", "epk": "c", "erk": "d"}
    token = own_table_token(wire, shared.name, **fields)
    accepted(wire, shared, token)
    pairs = dict(pair.split("=", 1) for pair in token.split("&"))
    changed = {"st": time_text(-2), "se": time_text(2), "sp": "r", "si": "x", "sip": "0.0.0.0-255.255.255.255",
               "spr": "https,http", "sv": "2017-07-29"}.get(name, "x" + pairs.get(name, ""))
    refused(wire, shared, "&".join(f"{k}={v}" for k, v in {**pairs, name: changed}.items()))
    without = "&".join(f"{k}={v}" for k, v in pairs.items() if k != name)
    if name == "sig":
        # This request has no credential (07 §2, §9).
        answer = TokenWire(wire, without).send("GET", f"/{shared.name}()?$top=1", accept=NONE)
        check_problem(answer, 404, "ResourceNotFound", form="json")
    elif name in pairs:
        refused(wire, shared, without)


@pytest.mark.parametrize("fields", [
    {"se": time_text(-1)},
    {"st": time_text(1), "se": time_text(2)},
    {"st": time_text(2), "se": time_text(1)},
    {"se": "tomorrow"},
    {"se": None},
    {"sp": None},
    {"sp": "x"},
    {"si": "nothing", "sp": None, "se": None},
    {"srk": "a"},
    {"spk": "a", "erk": "a"},
    {"sip": "nowhere"},
    {"spr": "http"},
    {"sv": "2009-09-19"},
], ids=str)
def test_signed_and_still_refused(wire, shared, fields):
    refused(wire, shared, own_table_token(wire, shared.name, **fields))


@pytest.mark.parametrize("fields", [
    {"se": time_text(-1)}, {"se": None}, {"sp": None}, {"srt": "x"}, {"srt": None}, {"ss": None}, {"si": "p"},
    {"sv": "2014-02-14"},
], ids=str)
def test_account_sas_signed_and_still_refused(wire, shared, fields):
    refused(wire, shared, own_account_token(wire, **fields))


@pytest.mark.parametrize("expiry", ["{date}", "{date}T06:30Z", "{date}T06:30:15Z", "{date}T06:30:15.1234567Z",
                                    "{date}T06:30:15+02:00"])
def test_forms_of_time(wire, shared, expiry):
    accepted(wire, shared, own_table_token(wire, shared.name, se=expiry.format(date=time_text(72)[:10])))


def test_a_token_of_another_key(wire, shared):
    other = type(wire)(wire.base, wire.account, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==")
    for accept in (NONE, "application/json"):
        refused(wire, shared, own_table_token(other, shared.name), accept)
        refused(wire, shared, own_account_token(other), accept)


def test_names_and_the_table_in_another_case(wire, shared):
    token = own_table_token(wire, shared.name)
    accepted(wire, shared, token.replace(f"tn={shared.name}", f"tn={shared.name.upper()}"))
    answer = TokenWire(wire, token).send("GET", f"/{shared.name.upper()}()?$top=1")
    check_status(answer, 200)


def test_another_table(wire, shared, table):
    token = TokenWire(wire, own_table_token(wire, shared.name))
    check_problem(token.send("GET", f"/{table.name}()?$top=1"), 403, "AuthorizationFailure")
    check_problem(token.send("POST", f"/{table.name}", {"PartitionKey": "p", "RowKey": "r"}), 403, "AuthorizationFailure")
    part = Operation("POST", f"{wire.base}/{table.name}", {"PartitionKey": "p", "RowKey": "r"})
    answers = post_changeset(token, [part])
    assert [(a.status, read_problem(a.text).code) for a in answers] == [(403, "AuthorizationFailure")]
    check_status(table.point("p", "r"), 404)


@pytest.mark.parametrize("address, code", [
    ("127.0.0.0-127.255.255.255", None), ("127.0.0.1", None), ("203.0.113.4", "AuthorizationSourceIPMismatch"),
    ("10.0.0.0-10.0.0.9", "AuthorizationSourceIPMismatch"),
])
def test_source_addresses(wire, shared, address, code):
    if wire.host != "127.0.0.1":
        pytest.skip("the client address that the endpoint sees is not known")
    answer = with_table_token(shared, "r", ip_address_or_range=address).query({"$top": 1})
    if code is None:
        check_status(answer, 200)
    else:
        check_problem(answer, 403, code, CANNOT + " using this source IP 127.0.0.1.", form="json")


def test_protocols(wire, shared):
    check_status(with_table_token(shared, "r", protocol="https,http").query({"$top": 1}), 200)
    answer = with_table_token(shared, "r", protocol="https").query({"$top": 1})
    if wire.scheme == "https":
        check_status(answer, 200)
    else:
        check_problem(answer, 403, "AuthorizationProtocolMismatch", CANNOT + " using this protocol.", form="json")


def test_services(wire, shared):
    answer = TokenWire(wire, own_account_token(wire, ss="bqf")).send("GET", f"/{shared.name}()?$top=1")
    check_problem(answer, 403, "AuthorizationServiceMismatch", CANNOT + " using this service.", form="json")
    accepted(wire, shared, own_account_token(wire, ss="bqtf", srt="ocs", sp="ucaldwrpyx"))


@pytest.mark.parametrize("headers, query, expected", [
    ({"x-ms-version": None}, "", "2015-02-21"),
    ({"x-ms-version": "2019-02-02"}, "", "2019-02-02"),
    ({"x-ms-version": "2019-02-02"}, "&api-version=2017-07-29", "2017-07-29"),
])
def test_the_version_of_the_request(wire, shared, headers, query, expected):
    token = TokenWire(wire, own_table_token(wire, shared.name, sv="2015-02-21"))
    answer = token.send("GET", f"/{shared.name}()?$top=1{query}", headers=headers, accept=NONE)
    check_status(answer, 200)
    assert answer.header("x-ms-version") == expected
