"""Authentication with SharedKey and SharedKeyLite, its failures, and the version header (07, 02 §7, 06 §3)."""

import base64
import hashlib
from datetime import datetime, timezone

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.data.tables import TableServiceClient

from expect import check_problem, check_refused, check_status
from wire import DEVELOPMENT_ACCOUNT, NONE, VERSION, Wire, now_text, signature, string_to_sign

SCHEMES = ["SharedKey", "SharedKeyLite"]
WRONG_KEY = base64.b64encode(bytes(64)).decode("ascii")
MINUTE = 60


@pytest.fixture
def stranger(wire):
    """Returns the same endpoint with a wrong key."""
    return Wire(wire.base, wire.account, WRONG_KEY)


def check_failed(answer, form):
    """Checks for 403 AuthenticationFailed with the headers of a failed authentication."""
    check_problem(answer, 403, "AuthenticationFailed", form=form)
    assert answer.header("Content-Type") == ("application/json" if form == "json" else "application/xml")
    assert answer.header("x-ms-error-code") == "AuthenticationFailed"
    assert answer.header("Content-Length") is not None
    for name in ("x-ms-version", "Cache-Control", "X-Content-Type-Options"):
        assert answer.header(name) is None, name


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_verb(wire, shared, key, scheme):
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r"}, scheme=scheme), 201)
    for verb in ("PUT", "MERGE", "PATCH"):
        check_status(shared.write(verb, key, "r", {"A": 1}, if_match="*", scheme=scheme), 204)
    check_status(shared.query({"$filter": "A eq 1", "$top": "5"}, scheme=scheme), 200)
    check_status(shared.point(key, "r", scheme=scheme), 200)
    check_status(wire.send("GET", f"/{shared.name}?comp=acl", scheme=scheme), 200)
    check_status(wire.send("GET", "/?restype=service&comp=properties", scheme=scheme), 200)
    check_status(shared.delete(key, "r", scheme=scheme), 204)


def signed_with_the_account_once(wire, method, target, scheme):
    """Returns the Authorization header of go-autorest for the emulator, whose paths already contain the account."""
    headers = {"x-ms-date": now_text()}
    text = string_to_sign(scheme, wire.account, method, wire.prefix + target, headers).replace(f"/{wire.account}", "", 1)
    return {**headers, "Authorization": f"{scheme} {wire.account}:{signature(wire.key, text)}"}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("target", ["/Tables?$top=1", "?restype=service&comp=properties"])
def test_the_emulators_account_may_be_signed_once(wire, scheme, target):
    if not wire.path_style or wire.account != DEVELOPMENT_ACCOUNT:
        pytest.skip("needs the emulator's account and a path-style address")
    headers = signed_with_the_account_once(wire, "GET", target, scheme)
    check_status(wire.send("GET", target, headers=headers), 200)
    elsewhere = signed_with_the_account_once(wire, "GET", "/Tables('x')", scheme)
    check_failed(wire.send("GET", target, headers={**elsewhere, "Accept": None}), "front")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("accept, form", [("application/json", "json"), (NONE, "json"), (None, "front")],
                         ids=["plain-json", "no-metadata", "no-accept"])
def test_wrong_key(stranger, scheme, accept, form):
    check_failed(stranger.send("GET", "/Tables", headers={"Accept": accept}, scheme=scheme), form)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("minutes", [-16, -24 * 60])
def test_stale_date(wire, scheme, minutes):
    headers = {"x-ms-date": now_text(minutes * MINUTE)}
    check_failed(wire.send("GET", "/Tables?$top=1", headers=headers, scheme=scheme), "json")


@pytest.mark.parametrize("minutes", [-14, 14])
def test_date_within_the_window(wire, minutes):
    check_status(wire.send("GET", "/Tables?$top=1", headers={"x-ms-date": now_text(minutes * MINUTE)}), 200)


def test_future_date(wire):
    check_status(wire.send("GET", "/Tables?$top=1", headers={"x-ms-date": now_text(60 * MINUTE)}), 403, 200)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_missing_date(wire, scheme):
    check_failed(wire.send("GET", "/Tables?$top=1", headers={"x-ms-date": None}, scheme=scheme), "json")


@pytest.mark.parametrize("text", ["yesterday", "2031-03-14T08:15:30Z", "0"])
def test_unparsable_date(wire, text):
    check_failed(wire.send("GET", "/Tables?$top=1", headers={"x-ms-date": text}), "json")


@pytest.mark.parametrize("name", ["x-ms-date", "Date"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_date_in_the_form_of_rfc_850(wire, scheme, name):
    """The reference documents this form, too. It is signed as it was sent (07 §5)."""
    names = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
    now = datetime.now(timezone.utc)
    for year, status in [(now.strftime("%y"), 200), (now.strftime("%Y"), 403)]:
        text = f"{names[now.weekday()]}, {now:%d-%b}-{year} {now:%H:%M:%S} GMT"
        headers = {"x-ms-date": None, name: text}
        check_status(wire.send("GET", "/Tables?$top=1", headers=headers, scheme=scheme), status)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_date_header_instead_of_x_ms_date(wire, scheme):
    headers = {"x-ms-date": None, "Date": now_text()}
    check_status(wire.send("GET", "/Tables?$top=1", headers=headers, scheme=scheme), 200)


def test_x_ms_date_wins_over_date(wire):
    signed_over_first = {"x-ms-date": now_text(), "Date": now_text(-5 * MINUTE)}
    check_status(wire.send("GET", "/Tables?$top=1", headers=signed_over_first), 200)
    target = wire.prefix + "/Tables"
    authorization = wire.authorization("GET", target, {"Date": signed_over_first["Date"]})
    check_failed(wire.send("GET", "/Tables", headers={**signed_over_first, "Authorization": authorization}), "json")


MALFORMED = {
    "unknown-scheme": "SharedSecret {account}:{signature}",
    "basic": "Basic dXNlcjpwYXNz",
    "no-colon": "SharedKey {account}{signature}",
    "no-account": "SharedKey :{signature}",
    "no-signature": "SharedKey {account}:",
    "scheme-only": "SharedKey",
    "nonsense": "x",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_header(wire, name):
    value = MALFORMED[name].format(account=wire.account, signature=WRONG_KEY[:43] + "=")
    check_problem(wire.send("GET", "/Tables", headers={"Authorization": value}), 400, "InvalidAuthenticationInfo")


@pytest.mark.parametrize("text", ["AAAA", "not*base64", base64.b64encode(bytes(31)).decode(), base64.b64encode(bytes(33)).decode()],
                         ids=["short", "alphabet", "31-bytes", "33-bytes"])
def test_signature_of_wrong_form(wire, text):
    check_failed(wire.send("GET", "/Tables", headers={"Authorization": f"SharedKey {wire.account}:{text}"}), "json")


@pytest.mark.parametrize("account", ["otheraccount", "{account}x", "{account}-secondary", "UPPER"])
def test_wrong_account_in_header(wire, account):
    name = account.format(account=wire.account)
    headers = {"x-ms-date": now_text()}
    text = string_to_sign("SharedKey", name, "GET", wire.prefix + "/Tables", headers)
    headers["Authorization"] = f"SharedKey {name}:{signature(wire.key, text)}"
    check_failed(wire.send("GET", "/Tables", headers=headers), "json")


def test_unknown_account_in_the_address(wire):
    if not wire.path_style:
        pytest.skip("only a path-style address can name an unknown account")
    other = Wire(wire.base.removesuffix(wire.account) + "nosuchaccount0", "nosuchaccount0", wire.key)
    check_status(other.send("GET", "/Tables"), 403, 404)


SIGNED_PARTS = {
    "verb": ("GET", "/Tables", {}, "DELETE", "/Tables", {}),
    "path": ("GET", "/Tables", {}, "GET", "/Tables()", {}),
    "content-type": ("GET", "/Tables", {"Content-Type": "text/plain"}, "GET", "/Tables", {"Content-Type": "text/html"}),
    "comp": ("GET", "/?restype=service", {}, "GET", "/?restype=service&comp=properties", {}),
    "content-md5": ("GET", "/Tables", {}, "GET", "/Tables", {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}),
}


@pytest.mark.parametrize("name", SIGNED_PARTS)
def test_every_signed_part_matters(wire, name):
    signed_method, signed_target, signed_headers, method, target, headers = SIGNED_PARTS[name]
    date = {"x-ms-date": now_text()}
    authorization = wire.authorization(signed_method, wire.prefix + signed_target, {**date, **signed_headers})
    check_failed(wire.send(method, target, headers={**date, **headers, "Authorization": authorization}), "json")


def test_lite_signs_neither_verb_nor_type(wire, shared, key):
    date = {"x-ms-date": now_text()}
    authorization = wire.authorization("GET", f"{wire.prefix}/{shared.name}", date, "SharedKeyLite")
    check_status(shared.insert({"PartitionKey": key, "RowKey": "r"}, headers={**date, "Authorization": authorization}), 201)


def test_query_options_are_not_signed(wire):
    date = {"x-ms-date": now_text()}
    authorization = wire.authorization("GET", wire.prefix + "/Tables", date)
    check_status(wire.send("GET", "/Tables?$top=1&timeout=30", headers={**date, "Authorization": authorization}), 200)


def test_matching_content_md5_is_signed_and_accepted(shared, key):
    body = b'{"PartitionKey":"%s","RowKey":"r"}' % key.encode()
    digest = base64.b64encode(hashlib.md5(body).digest()).decode("ascii")
    check_status(shared.insert(body, headers={"Content-MD5": digest}), 201)


def test_explicitly_empty_content_type_signs_as_empty(wire):
    check_status(wire.send("GET", "/Tables?$top=1", headers={"Content-Type": ""}), 200)


ANONYMOUS = {
    "batch": ("POST", "/$batch", {"Content-Type": "multipart/mixed; boundary=batch_a"}, b"--batch_a--\r\n"),
    "tables": ("GET", "/Tables", {}, None),
    "entities": ("GET", "/nosuchtable()", {}, None),
    "properties": ("GET", "/?restype=service&comp=properties", {}, None),
}


@pytest.mark.parametrize("accept", ["*/*", NONE, None], ids=["any", "json", "no-accept"])
@pytest.mark.parametrize("version", ["2012-02-12", "2019-02-02"])
@pytest.mark.parametrize("name", ANONYMOUS)
def test_anonymous_before_2020_12_06(wire, name, accept, version):
    """Recorded for a batch at 2019-02-02, with `*/*`: nothing seems to exist (07 §9)."""
    method, target, headers, body = ANONYMOUS[name]
    answer = wire.send(method, target, body, headers={**headers, "Accept": accept}, version=version, scheme=None)
    accepts_json = accept == NONE
    form = "odata" if version == "2012-02-12" else "json" if accepts_json else "front"
    check_problem(answer, 404, "ResourceNotFound", form=form)
    assert answer.reason == "The specified resource does not exist."
    content_type = "application/json" if accepts_json else "application/xml"
    assert (answer.header("Content-Type"), answer.header("x-ms-version")) == (content_type, version)
    assert answer.header("x-ms-error-code") == "ResourceNotFound"
    assert answer.header("Cache-Control") is None and answer.header("X-Content-Type-Options") is None


@pytest.mark.parametrize("version", [None, "2009-09-19", "2011-08-18"])
@pytest.mark.parametrize("name", ANONYMOUS)
def test_anonymous_before_2012_02_12(wire, name, version):
    """Reported without a version: XML even if the client accepts JSON, and then with that media type (07 §9, §10)."""
    method, target, headers, body = ANONYMOUS[name]
    for accept, media_type in [(NONE, "application/json"), (None, "application/xml")]:
        sent = {**headers, "Accept": accept}
        answer = wire.send(method, target, body, headers=sent, version=version, scheme=None)
        check_problem(answer, 403, "AuthenticationFailed", form="odata")
        assert answer.header("Content-Type") == media_type


@pytest.mark.parametrize("name", ANONYMOUS)
def test_anonymous_since_2020_12_06(wire, name):
    """Expects 401 with a challenge if the endpoint offers bearer tokens (recorded for Create Table), and otherwise a
    failed authentication (07 §9)."""
    method, target, headers, body = ANONYMOUS[name]
    answer = wire.send(method, target, body, headers=headers, version="2020-12-06", scheme=None)
    if check_status(answer, 401, 403).status == 403:
        check_failed(answer, "json")
    else:
        check_problem(answer, 401, "NoAuthenticationInformation", form="json")
        assert answer.header("WWW-Authenticate").startswith("Bearer ")
        assert (answer.header("Content-Type"), answer.header("x-ms-version")) == ("application/json", "2020-12-06")


# Versions with JSON that some client library declares (02 §7).
VERSIONS = """
    2013-08-15 2014-02-14 2015-02-21 2015-04-05 2015-07-08 2015-12-11 2016-05-31 2017-04-17 2017-07-29 2017-11-09 2018-03-28
    2018-11-09 2019-02-02 2019-07-07 2019-10-10 2019-12-12 2020-02-10 2020-04-08 2020-06-12 2020-08-04 2020-10-02 2020-12-06
    2021-02-12 2021-04-10 2021-06-08 2021-08-06 2021-10-04 2021-12-02 2022-11-02 2023-01-03 2023-05-03 2023-08-03 2023-11-03
    2024-02-04 2024-05-04 2024-08-04 2024-11-04 2025-01-05 2025-05-05 2025-07-05 2025-11-05 2026-02-06 2026-04-06 2026-06-06
    2026-10-06 2026-12-06
""".split()


@pytest.mark.parametrize("version", VERSIONS)
def test_known_versions(shared, version):
    assert check_status(shared.query(version=version), 200).json()["value"] is not None


@pytest.mark.parametrize("version", ["2027-03-04", "2030-01-01", "2099-12-31"])
def test_newer_versions(shared, version):
    """The service refuses versions newer than itself; Rowhouse deliberately accepts them (`expected_differences`)."""
    assert check_status(shared.query(version=version), 200).json()["value"] is not None


@pytest.mark.parametrize("version", ["abc", "2019", "2019-2-2", "20190202", "2019-02-02x", "2019/02/02", "02-02-2019", "latest"])
def test_malformed_version(wire, version):
    answer = wire.send("GET", "/Tables", version=version)
    check_problem(answer, 400, "InvalidHeaderValue")


def test_client_with_a_wrong_key(wire):
    credential = AzureNamedKeyCredential(wire.account, WRONG_KEY)
    with TableServiceClient(endpoint=wire.base, credential=credential, retry_total=0) as client:
        with pytest.raises(ClientAuthenticationError) as raised:
            list(client.list_tables())
    assert raised.value.error_code == "AuthenticationFailed"
    assert raised.value.status_code == 403


def test_absurd_authorization_headers(wire):
    for value in ("SharedKey " + "a" * 5000, "Bearer x.y.z", "SharedKey a:b:c:d", ":", " "):
        check_refused(wire.send("GET", "/Tables", headers={"Authorization": value}, version=VERSION))
