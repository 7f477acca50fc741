"""Bearer tokens through the official client, with an issuer and a server started by the suite."""

import http.client
import os
import ssl
import time
import urllib.parse
import uuid
import xml.etree.ElementTree

import pytest
from azure.core.credentials import AccessToken, AzureSasCredential
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.data.tables import TableServiceClient
from sas import delegated_string_to_sign, encode_token, time_text
from wire import signature

pytest.importorskip("cryptography", reason="the package cryptography generates the issuer's keys")
from issuer import AUDIENCE, TENANT, Issuer, Server  # noqa: E402

BINARY = os.environ.get("ROWHOUSE_BINARY")
pytestmark = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")

ACCOUNT = "devstoreaccount1"
CONFIGURATION = """
[oauth]
authorization-uri = "https://login.example.net/{tenant}/oauth2/authorize"
allow-plain-http-issuer-on-loopback = true
[[oauth.issuers]]
issuer = "{issuer}"
[[oauth.assignments]]
principal = {{ oid = "reader" }}
role = "reader"
scope = "{account}"
[[oauth.assignments]]
principal = {{ oid = "writer" }}
role = "contributor"
scope = "{account}"
[[oauth.assignments]]
principal = {{ oid = "local" }}
role = "contributor"
scope = "{account}/local*"
[[oauth.assignments]]
principal = {{ oid = "local" }}
role = "delegator"
scope = "{account}"
[[oauth.assignments]]
principal = {{ oid = "writer" }}
role = "delegator"
scope = "{account}"
"""


class StaticCredential:
    """Returns prepared tokens in order, and records the requested scopes."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)
        self.asked = []

    def get_token(self, *scopes, **options):
        self.asked.append((scopes, options.get("tenant_id")))
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        return AccessToken(token, int(time.time()) + 3600)


@pytest.fixture(scope="module")
def issuer():
    with Issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def server(issuer, tmp_path_factory):
    configuration = CONFIGURATION.format(tenant=TENANT, issuer=issuer.name, account=ACCOUNT)
    with Server(BINARY, tmp_path_factory.mktemp("server"), configuration) as server:
        yield server


@pytest.fixture
def connect(server):
    """Returns a function that creates clients with a credential. The clients are closed at the end of the test."""
    clients = []

    def make(credential, **options):
        client = TableServiceClient(
            f"{server.endpoint}/{ACCOUNT}", credential=credential, connection_verify=str(server.certificate),
            retry_total=0, **options,
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def service(connect, issuer):
    """Returns a function that creates clients for a principal."""
    return lambda oid, **options: connect(StaticCredential(issuer.token(oid)), **options)


@pytest.fixture
def table(service):
    """Returns a new, empty table."""
    name = "t" + uuid.uuid4().hex
    service("writer").create_table(name)
    yield name
    service("writer").delete_table(name)


def denied(call, *arguments, **options):
    with pytest.raises(HttpResponseError) as raised:
        call(*arguments, **options)
    assert raised.value.status_code == 403
    assert raised.value.response.headers["x-ms-error-code"] == "AuthorizationPermissionMismatch"


ENTITY = {"PartitionKey": "p", "RowKey": "r", "n": 1}


def test_a_writer_does_everything_with_tables_and_entities(service, table):
    client = service("writer").get_table_client(table)
    client.create_entity(ENTITY)
    client.upsert_entity({**ENTITY, "n": 2})
    client.update_entity({**ENTITY, "n": 3})
    assert client.get_entity("p", "r")["n"] == 3
    assert [entity["n"] for entity in client.query_entities("n eq 3")] == [3]
    client.submit_transaction([("create", {"PartitionKey": "p", "RowKey": str(i)}) for i in range(3)])
    assert len(list(client.list_entities())) == 4
    client.delete_entity("p", "r")
    assert table in [entry.name for entry in service("writer").list_tables()]


def test_a_reader_reads_and_no_more(service, table):
    service("writer").get_table_client(table).create_entity(ENTITY)
    reader = service("reader")
    client = reader.get_table_client(table)
    assert client.get_entity("p", "r")["n"] == 1
    assert len(list(client.list_entities())) == 1
    assert table in [entry.name for entry in reader.list_tables()]
    denied(client.create_entity, {"PartitionKey": "p", "RowKey": "other"})
    denied(client.upsert_entity, ENTITY)
    denied(client.update_entity, ENTITY)
    denied(client.delete_entity, "p", "r")
    denied(reader.create_table, "t" + uuid.uuid4().hex)
    denied(reader.delete_table, table)
    denied(client.get_table_access_policy)
    with pytest.raises(HttpResponseError) as raised:
        client.submit_transaction([("upsert", {"PartitionKey": "p", "RowKey": "other"})])
    assert raised.value.status_code == 403
    assert len(list(client.list_entities())) == 1, "no part of the transaction may be applied"


def test_a_role_on_some_tables(service, table):
    name = "local" + uuid.uuid4().hex
    service("writer").create_table(name)
    local = service("local")
    local.get_table_client(name).upsert_entity(ENTITY)
    assert len(list(local.get_table_client(name).list_entities())) == 1
    denied(local.get_table_client(table).get_entity, "p", "r")
    denied(lambda: list(local.list_tables()))
    local.delete_table(name)


def test_nobody_without_a_role(service, table):
    denied(service("stranger").get_table_client(table).get_entity, "p", "r")


@pytest.mark.parametrize("version", ["2019-02-02", "2020-12-06"])
def test_a_refused_token(connect, issuer, version):
    client = connect(StaticCredential(issuer.token("reader", exp=1)), api_version=version)
    with pytest.raises(ClientAuthenticationError) as raised:
        list(client.list_tables())
    expected = (401, "InvalidAuthenticationInfo") if version == "2020-12-06" else (403, "AuthenticationFailed")
    assert (raised.value.status_code, raised.value.response.headers["x-ms-error-code"]) == expected


def test_the_challenge_names_tenant_and_scope(connect, issuer):
    credential = StaticCredential(issuer.token("reader", exp=1), issuer.token("reader"))
    list(connect(credential, api_version="2020-12-06").list_tables())
    assert credential.asked[-1] == ((f"{AUDIENCE}/.default",), TENANT)


class DelegationKey:
    """A user delegation key, and signatures made with it. The official client supports neither."""

    def __init__(self, server, token, expiry=1, version="2025-07-05"):
        address = urllib.parse.urlsplit(server.endpoint)
        context = ssl.create_default_context(cafile=str(server.certificate))
        connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=60, context=context)
        body = f"<KeyInfo><Start>{time_text(-1)}</Start><Expiry>{time_text(expiry)}</Expiry></KeyInfo>"
        headers = {"Authorization": f"Bearer {token}", "x-ms-version": version, "Content-Type": "application/xml"}
        connection.request("POST", f"/{ACCOUNT}/?restype=service&comp=userdelegationkey", body, headers)
        response = connection.getresponse()
        self.status, self.code, content = response.status, response.getheader("x-ms-error-code"), response.read()
        connection.close()
        self.fields = {element.tag: element.text for element in xml.etree.ElementTree.fromstring(content)}

    def sign(self, table, permission, **fields):
        names = {"skoid": "Oid", "sktid": "Tid", "skt": "Start", "ske": "Expiry", "sks": "Service", "skv": "Version"}
        fields = {name: self.fields[f"Signed{tag}"] for name, tag in names.items()} | {
            "sv": "2025-07-05", "tn": table, "sp": permission, "se": self.fields["SignedExpiry"], **fields,
        }
        fields["sig"] = signature(self.fields["Value"], delegated_string_to_sign(ACCOUNT, fields))
        return AzureSasCredential(encode_token(fields))


def test_signatures_with_a_user_delegation_key(connect, server, issuer, table):
    key = DelegationKey(server, issuer.token("writer"))
    assert key.status == 200
    assert (key.fields["SignedOid"], key.fields["SignedService"]) == ("writer", "t")
    client = connect(key.sign(table, "raud")).get_table_client(table)
    client.create_entity(ENTITY)
    client.upsert_entity({**ENTITY, "n": 2})
    client.submit_transaction([("create", {"PartitionKey": "p", "RowKey": str(i)}) for i in range(3)])
    assert [entity["n"] for entity in client.query_entities("n eq 2")] == [2]
    reader = connect(key.sign(table, "r", spk="p", srk="1", epk="p", erk="2")).get_table_client(table)
    assert [entity["RowKey"] for entity in reader.list_entities()] == ["1", "2"]
    denied(reader.delete_entity, "p", "1")


def test_a_signature_allows_no_more_than_its_maker_may_do(connect, server, issuer, table):
    key = DelegationKey(server, issuer.token("local"))
    denied(connect(key.sign(table, "raud")).get_table_client(table).get_entity, "p", "r")


def test_who_gets_no_user_delegation_key(server, issuer):
    refused = DelegationKey(server, issuer.token("reader"))
    assert (refused.status, refused.code) == (403, "AuthorizationPermissionMismatch")
    too_long = DelegationKey(server, issuer.token("writer"), expiry=24 * 8)
    assert (too_long.status, too_long.code) == (400, "InvalidXmlNodeValue")
    too_old = DelegationKey(server, issuer.token("writer"), version="2020-12-06")
    assert (too_old.status, too_old.code) == (400, "InvalidQueryParameterValue")
