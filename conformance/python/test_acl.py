"""Stored access policies: Get and Set Table ACL, and their effect on shared access signatures (10 §7, 08 §7)."""

import pytest
from azure.data.tables import TableAccessPolicy

import sas
from conftest import create_table, delete_table
from expect import check_problem, check_status
from sas import TokenWire, own_table_token, time_text, with_table_token
from wire import NONE, TableWire

HEAD = b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>'
XML = {"Content-Type": "application/xml"}


def identifier(policy_id, content=""):
    policy = f"<AccessPolicy>{content}</AccessPolicy>" if content else ""
    return f"<SignedIdentifier><Id>{policy_id}</Id>{policy}</SignedIdentifier>"


def document(*identifiers):
    return "<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers>" + "".join(identifiers) + "</SignedIdentifiers>"


def set_acl(table, body, headers=XML):
    return table.wire.send("PUT", f"/{table.name}?comp=acl", body, headers=headers, accept="application/xml")


def get_acl(table, method="GET", **kwargs):
    return table.wire.send(method, f"/{table.name}?comp=acl", **kwargs)


def policies(table):
    """Returns the part of the XML after the XML declaration, which must be present."""
    answer = check_status(get_acl(table), 200)
    # The service sends a byte order mark first, but clients accept the XML without it.
    text = answer.text.lstrip("\ufeff")
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>'), text
    return text.split("?>", 1)[1]


def test_a_new_table_has_no_policies(table):
    answer = check_status(get_acl(table), 200)
    assert answer.body == HEAD + b"<SignedIdentifiers />"
    assert answer.header("Content-Type") == "application/xml"
    assert answer.header("Cache-Control") is None
    assert answer.header("X-Content-Type-Options") is None


@pytest.mark.parametrize("sent, expected", [
    (document(identifier("x")), "<SignedIdentifiers>" + identifier("x") + "</SignedIdentifiers>"),
    (document(), "<SignedIdentifiers />"),
    (
        document(identifier("pol-1", "<Start>2031-03-01T09:30:00Z</Start><Expiry>2031-04-01T09:30:15Z</Expiry>"
                                     "<Permission>raud</Permission>"), identifier("pol-2")),
        "<SignedIdentifiers>" + identifier("pol-1", "<Start>2031-03-01T09:30:00.0000000Z</Start><Expiry>"
                                                    "2031-04-01T09:30:15.0000000Z</Expiry><Permission>raud</Permission>")
        + identifier("pol-2") + "</SignedIdentifiers>",
    ),
    (
        document(identifier("day", "<Start>2031-03-01</Start>")),
        "<SignedIdentifiers>" + identifier("day", "<Start>2031-03-01T00:00:00.0000000Z</Start>") + "</SignedIdentifiers>",
    ),
    (
        document(identifier("z", "<Permission>ra</Permission>"), identifier("a", "<Expiry>2031-03-01T01:00+01:00</Expiry>")),
        "<SignedIdentifiers>" + identifier("z", "<Permission>ra</Permission>")
        + identifier("a", "<Expiry>2031-03-01T00:00:00.0000000Z</Expiry>") + "</SignedIdentifiers>",
    ),
    (
        "\ufeff<?xml version=\"1.0\"?><!-- c --> <SignedIdentifiers> <SignedIdentifier> <AccessPolicy/> <Id>&lt;é&gt;</Id>"
        " </SignedIdentifier> </SignedIdentifiers>",
        "<SignedIdentifiers>" + identifier("&lt;é&gt;") + "</SignedIdentifiers>",
    ),
], ids=["empty-policy", "none", "full", "date", "order-and-offset", "mark-comment-blanks"])
def test_what_is_set_is_read_back(table, sent, expected):
    answer = check_status(set_acl(table, sent), 204)
    assert answer.body == b""
    assert policies(table) == expected


@pytest.mark.parametrize("headers", [XML, {}], ids=["xml", "no-type"])
def test_an_empty_body_removes_all(table, headers):
    check_status(set_acl(table, document(identifier("x"))), 204)
    check_status(set_acl(table, b"", headers={"Content-Type": None, **headers}), 204)
    assert policies(table) == "<SignedIdentifiers />"


@pytest.mark.parametrize("body", [
    document(*(identifier(f"id{n}") for n in range(6))),
    document(identifier("a"), identifier("a")),
    document(identifier("")),
    document(identifier("x" * 65)),
    document(identifier("a", "<Permission>x</Permission>")),
    document(identifier("a", "<Start>tomorrow</Start>")),
    "<SignedIdentifiers>",
    "<Other/>",
    "no xml",
    '<!DOCTYPE a [<!ENTITY b "c">]>' + document(identifier("&b;")).split("\n")[1],
], ids=["six", "twice", "no-id", "long-id", "permission", "time", "open", "root", "text", "doctype"])
def test_what_is_wrong_changes_nothing(table, body):
    check_status(set_acl(table, document(identifier("kept"))), 204)
    message = "XML specified is not syntactically valid."
    answer = set_acl(table, body)
    check_problem(answer, 400, "InvalidXmlDocument", message, form="front")
    assert answer.header("x-ms-error-code") == "InvalidXmlDocument"
    assert "kept" in policies(table)


@pytest.mark.parametrize("method, body", [("GET", None), ("PUT", b""), ("PUT", document(identifier("x")))])
@pytest.mark.parametrize("accept", [NONE, None, "application/xml"])
def test_a_missing_table(wire, new_name, method, body, accept):
    answer = wire.send(method, f"/{new_name()}?comp=acl", body, headers={**XML, "Accept": accept})
    check_problem(answer, 404, "TableNotFound", form="front")


def test_head(table):
    answer = check_status(get_acl(table, "HEAD"), 200)
    assert answer.body == b""


@pytest.mark.parametrize("method", ["POST", "DELETE", "MERGE"])
def test_other_methods(table, method):
    check_status(table.wire.send(method, f"/{table.name}?comp=acl", b"" if method != "DELETE" else None), 405)


def test_the_client(client):
    start, expiry = sas.in_hours(-1).replace(microsecond=0), sas.in_hours(1).replace(microsecond=0)
    client.set_table_access_policy({"full": TableAccessPolicy(start=start, expiry=expiry, permission="raud"), "bare": None})
    read = client.get_table_access_policy()
    assert list(read) == ["full", "bare"]
    assert (read["full"].start, read["full"].expiry, read["full"].permission) == (start, expiry, "raud")
    client.set_table_access_policy({})
    assert client.get_table_access_policy() == {}


def status(token):
    """Returns "works" if the token of a policy is currently valid, and otherwise the error."""
    answer = token.query({"$top": 1}, accept=NONE)
    if answer.status == 200:
        return "works"
    return check_problem(answer, 403, answer.json()["odata.error"]["code"]).code


def full(permission="raud", hours=1):
    return f"<Start>{time_text(-1)}</Start><Expiry>{time_text(hours)}</Expiry><Permission>{permission}</Permission>"


def test_policies_take_effect_at_once(table):
    token = with_table_token(table, policy_id="pol")
    assert status(token) == "AuthenticationFailed"
    for identifiers, expected in [
        ([identifier("pol", full())], "works"),
        ([identifier("pol", full("a"))], "AuthorizationPermissionMismatch"),
        ([identifier("other", full())], "AuthenticationFailed"),
        ([identifier("other"), identifier("pol", full("r"))], "works"),
        ([identifier("pol", full(hours=-0.5))], "AuthenticationFailed"),
        ([identifier("pol", full())], "works"),
        ([], "AuthenticationFailed"),
        ([identifier("pol")], "AuthenticationFailed"),
    ]:
        check_status(set_acl(table, document(*identifiers)), 204)
        assert status(token) == expected, identifiers


@pytest.mark.parametrize("content, fields, works", [
    (full(), {}, True),
    (f"<Expiry>{time_text(1)}</Expiry>", {"sp": "r"}, True),
    ("<Permission>r</Permission>", {"se": time_text(1)}, True),
    ("", {"sp": "r", "se": time_text(1)}, True),
    (f"<Start>{time_text(-1)}</Start>", {"sp": "r", "se": time_text(1)}, True),
    (f"<Start>{time_text(1)}</Start>", {"sp": "r", "se": time_text(2)}, False),
    ("", {"sp": "r"}, False),
    ("", {"se": time_text(1)}, False),
    (full("r"), {"sp": "r"}, False),
    (full("r"), {"se": time_text(1)}, False),
    (full("r"), {"st": time_text(-1)}, False),
], ids=str)
def test_token_and_policy_complete_each_other(table, content, fields, works):
    check_status(set_acl(table, document(identifier("pol", content))), 204)
    token = own_table_token(table.wire, table.name, **{"si": "pol", "sp": None, "se": None, **fields})
    found = status(TableWire(TokenWire(table.wire, token), table.name))
    assert found == ("works" if works else "AuthenticationFailed")


def test_a_policy_confines_with_the_range_of_the_token(table):
    check_status(set_acl(table, document(identifier("pol", full("ra")))), 204)
    token = with_table_token(table, policy_id="pol", start_pk="b", end_pk="b")
    check_status(token.insert({"PartitionKey": "b", "RowKey": "r"}), 201)
    check_problem(token.insert({"PartitionKey": "c", "RowKey": "r"}), 403, "AuthorizationFailure")
    check_problem(token.delete("b", "r"), 403, "AuthorizationPermissionMismatch")


def test_policies_go_with_the_table(wire, new_name):
    table = create_table(wire, new_name())
    check_status(set_acl(table, document(identifier("pol", full()))), 204)
    token, ad_hoc = with_table_token(table, policy_id="pol"), with_table_token(table, "r")
    assert status(token) == "works"
    delete_table(wire, table.name)
    check_problem(ad_hoc.query({"$top": 1}), 404, "TableNotFound")
    check_problem(token.query({"$top": 1}), 403, "AuthenticationFailed")
    create_table(wire, table.name)
    assert policies(table) == "<SignedIdentifiers />"
    assert status(ad_hoc) == "works", "a token without a policy is bound to the table name"
    assert status(token) == "AuthenticationFailed"
