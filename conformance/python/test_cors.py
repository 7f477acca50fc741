"""CORS as browsers use it: preflight requests, and the headers in responses to actual requests."""

import pytest

from expect import check_problem, check_status
from service_document import PROPERTIES, cors, restored, rule, set_sections
from wire import NONE

HERE, THERE = "https://here.example", "https://there.example"


@pytest.fixture(autouse=True, scope="module")
def untouched(wire):
    with restored(wire):
        yield


@pytest.fixture
def rules(wire):
    """Returns a function that sets the rules of a case; each case starts without rules."""
    set_sections(wire, cors())

    def use(*rules):
        set_sections(wire, cors(*rules))

    return use


def preflight(wire, target="/Tables", origin=HERE, method="GET", headers=None, **more):
    """Sends a preflight request as a browser does: without credentials, version or date."""
    merged = {"Accept": "*/*", "Origin": origin, "Access-Control-Request-Method": method,
              "Access-Control-Request-Headers": headers, "x-ms-date": None, "x-ms-version": None, "DataServiceVersion": None,
              **more}
    return wire.send("OPTIONS", target, headers=merged, scheme=None)


def cors_headers(answer):
    """Returns the headers of a response that browsers and caches use."""
    names = [name.lower() for name, _ in answer.headers]
    wanted = {name for name in names if name.startswith("access-control-")} | ({"vary"} & set(names))
    return {name.removeprefix("access-control-"): answer.header(name) for name in wanted}


# Preflight requests

def test_preflight_allowed(wire, rules):
    rules(rule(HERE, "GET,PUT", "x-ms-*,accept", "", 77))
    answer = preflight(wire, method="PUT", headers="x-ms-date,X-MS-Version,Accept")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("Content-Length") == "0"
    assert cors_headers(answer) == {
        "allow-origin": HERE, "allow-methods": "PUT", "allow-headers": "x-ms-date,X-MS-Version,Accept", "max-age": "77",
        "allow-credentials": "true"}
    assert answer.header("x-ms-request-id")


def test_preflight_without_requested_headers(wire, rules):
    rules(rule(HERE, "GET", "", "", 0))
    assert cors_headers(preflight(wire)) == {
        "allow-origin": HERE, "allow-methods": "GET", "max-age": "0", "allow-credentials": "true"}


def test_preflight_for_any_origin(wire, rules):
    rules(rule("*", "DELETE", "*"))
    answer = check_status(preflight(wire, method="DELETE", headers="x-anything"), 200)
    assert answer.header("Access-Control-Allow-Origin") in ("*", HERE)
    assert answer.header("Access-Control-Allow-Headers") == "x-anything"


@pytest.mark.parametrize("target", ["/", "/Tables", "/nosuchtable()", "/nosuchtable(PartitionKey='p',RowKey='r')", "/$batch",
                                    "/a/b/c", PROPERTIES, "/t?$filter=%ZZ"])
def test_preflight_on_any_path(wire, rules, target):
    rules(rule(HERE))
    check_status(preflight(wire, target), 200)
    check_problem(preflight(wire, target, origin=THERE), 403, "CorsPreflightFailure")


@pytest.mark.parametrize("credential", ["SharedKey devstoreaccount1:AAAA", "Bearer x", "nonsense"])
def test_preflight_looks_at_no_credential(wire, rules, credential):
    rules(rule(HERE))
    check_status(preflight(wire, Authorization=credential), 200)
    check_status(preflight(wire, **{"x-ms-version": "1999-01-01"}), 200)


PREFLIGHTS_REFUSED = {
    "no-rules": ([], {}),
    "other-origin": ([rule(THERE)], {}),
    "origin-in-other-case": ([rule(HERE)], {"origin": "https://HERE.example"}),
    "other-scheme": ([rule(HERE)], {"origin": "http://here.example"}),
    "other-port": ([rule(HERE)], {"origin": HERE + ":8443"}),
    "other-method": ([rule(HERE, "PUT")], {}),
    "header-not-allowed": ([rule(HERE, "GET", "x-one")], {"headers": "x-one,x-two"}),
    "no-header-allowed": ([rule(HERE)], {"headers": "x-one"}),
    "prefix-not-met": ([rule(HERE, "GET", "x-ms-*")], {"headers": "x-m"}),
    # The second rule is the first that matches the origin and the method, so only the second rule applies.
    "third-rule-trap": ([rule(HERE, "PUT", "*"), rule(HERE, "GET", "x-one"), rule("*", "GET", "*")], {"headers": "x-two"}),
}


@pytest.mark.parametrize("name", PREFLIGHTS_REFUSED)
def test_preflight_refused(wire, rules, name):
    given, request = PREFLIGHTS_REFUSED[name]
    rules(*given)
    answer = preflight(wire, **request)
    check_problem(answer, 403, "CorsPreflightFailure", "CORS not enabled or no matching rule found for this request.", form="front")
    assert cors_headers(answer) == {}


@pytest.mark.parametrize("missing", [{"origin": None}, {"method": None}, {"origin": None, "method": None}])
@pytest.mark.parametrize("given", [[], [rule("*")]])
def test_preflight_incomplete(wire, rules, missing, given):
    rules(*given)
    answer = preflight(wire, **missing)
    check_problem(answer, 400, "InvalidHeaderValue", "A required CORS header is not present.", form="front")
    assert cors_headers(answer) == {}


def test_preflight_of_an_unknown_account(wire, rules):
    if not wire.path_style:
        pytest.skip("needs a path-style address; in host style the account is in the host name")
    rules(rule("*", "GET", "*"))
    prefix, wire.prefix = wire.prefix, "/nosuchaccount"
    try:
        check_problem(preflight(wire), 403, "CorsPreflightFailure")
    finally:
        wire.prefix = prefix


# The origin may have a wildcard for subdomains.

@pytest.mark.parametrize("origin, status", [
    ("https://www.shop.example", 200), ("https://a.b.shop.example", 200), ("https://shop.example", 403),
    ("https://evilshop.example", 403), ("http://www.shop.example", 403), ("https://www.shop.example.evil.example", 403)])
def test_sub_domains(wire, rules, origin, status):
    rules(rule("https://*.shop.example"))
    check_status(preflight(wire, origin=origin), status)


# Actual requests: the documentation's table, row by row

EXACT, ANY = rule(HERE, "GET,HEAD,PUT,POST", "", "etag,x-ms-version"), rule("*", "GET,HEAD,PUT,POST", "", "etag,x-ms-version")
ONE_ORIGIN = {"allow-origin": HERE, "allow-credentials": "true", "expose-headers": "x-ms-version,etag"}
ANY_ORIGIN = {"allow-origin": "*", "expose-headers": "x-ms-version,etag"}
VARY = {"vary": "Origin"}
TABLE = {
    "no-origin-no-rules": (None, [], {}),
    "no-origin-exact-rule": (None, [EXACT], VARY),
    "no-origin-any-rule": (None, [ANY], ANY_ORIGIN),
    "origin-no-rules": (HERE, [], {}),
    "origin-exact-rule": (HERE, [EXACT], {**ONE_ORIGIN, **VARY}),
    "origin-no-match": (THERE, [EXACT], VARY),
    "origin-any-rule": (HERE, [ANY], ANY_ORIGIN),
    "first-rule-wins": (HERE, [EXACT, ANY], {**ONE_ORIGIN, **VARY}),
    "later-rule-matches": (THERE, [EXACT, ANY], ANY_ORIGIN),
    "rule-for-another-method": (HERE, [rule(HERE, "DELETE")], VARY),
}


def sorted_list(headers):
    """Sorts the names of exposed headers in lower case, because their order and letter case have no meaning."""
    return {name: sorted(value.lower().split(",")) if name == "expose-headers" else value for name, value in headers.items()}


@pytest.mark.parametrize("name", TABLE)
def test_reads(wire, rules, shared, name):
    origin, given, expected = TABLE[name]
    rules(*given)
    for method, target in [("GET", "/Tables"), ("GET", f"/{shared.name}()"), ("GET", PROPERTIES)]:
        answer = check_status(wire.send(method, target, headers={"Origin": origin}), 200)
        assert sorted_list(cors_headers(answer)) == sorted_list(expected), (method, target)


@pytest.mark.parametrize("name", TABLE)
def test_reads_that_fail(wire, rules, new_name, name):
    origin, given, expected = TABLE[name]
    rules(*given)
    headers = {"Origin": origin}
    requests = {
        404: wire.send("GET", f"/{new_name()}()", headers=headers),
        400: wire.send("GET", "/Tables?$top=-1", headers=headers),
        415: wire.send("GET", "/Tables", headers=headers, accept="image/png"),
    }
    for status, answer in requests.items():
        assert sorted_list(cors_headers(check_status(answer, status))) == sorted_list(expected), status


@pytest.mark.parametrize("name", TABLE)
def test_reads_without_a_valid_credential(wire, rules, name):
    """Only an origin that a rule allows learns that there are rules. (This is an intended difference: the service tells
    every origin.)"""
    origin, given, expected = TABLE[name]
    rules(*given)
    expected = expected if origin and "allow-origin" in expected else {}
    bad_signature = {"Origin": origin, "Authorization": f"SharedKey {wire.account}:{'A' * 43}="}
    for answer, status in [(wire.send("GET", "/Tables", headers={"Origin": origin}, scheme=None), 404),
                           (wire.send("GET", "/Tables", headers=bad_signature), 403)]:
        assert sorted_list(cors_headers(check_status(answer, status))) == sorted_list(expected)


@pytest.mark.parametrize("name", TABLE)
def test_writes_never_vary(rules, shared, key, name):
    origin, given, expected = TABLE[name]
    rules(*given)
    # Without an origin, only reads follow the rules (recorded).
    expected = {name: value for name, value in expected.items() if name != "vary"} if origin else {}
    entity = {"PartitionKey": key, "RowKey": "r"}
    for answer, status in [(shared.insert(entity, headers={"Origin": origin}), 201),
                           (shared.insert(entity, headers={"Origin": origin}), 409),
                           (shared.write("PUT", key, "r", {"A": 1}, headers={"Origin": origin}), 204)]:
        assert sorted_list(cors_headers(check_status(answer, status))) == sorted_list(expected), status


def test_exposed_headers_are_spelled_out(wire, rules, shared, key):
    shared.insert({"PartitionKey": key, "RowKey": "r"})
    rules(rule(HERE, "GET", "", "x-ms-request*,x-not-there,etag"))
    answer = shared.point(key, "r", headers={"Origin": HERE})
    names = answer.header("Access-Control-Expose-Headers").lower().split(",")
    assert sorted(names) == ["etag", "x-ms-request-id", "x-not-there"]
    rules(rule(HERE, "GET", "", "*"))
    answer = shared.point(key, "r", headers={"Origin": HERE})
    names = answer.header("Access-Control-Expose-Headers").lower().split(",")
    assert {"etag", "x-ms-request-id", "x-ms-version", "content-type"} <= set(names)
    assert names[-3:] == ["content-length", "date", "transfer-encoding"] and len(set(names)) == len(names)
    assert not any(name.startswith("access-control") for name in names)
    rules(rule(HERE, "GET", "", "x-not-there-*"))
    assert shared.point(key, "r", headers={"Origin": HERE}).header("Access-Control-Expose-Headers") is None


def test_allowed_headers_do_not_matter_for_actual_requests(wire, rules):
    rules(rule(HERE))
    answer = wire.send("GET", "/Tables", accept=NONE, headers={"Origin": HERE, "x-ms-anything": "1"})
    assert check_status(answer, 200).header("Access-Control-Allow-Origin") == HERE


def test_an_origin_is_no_permission(wire, rules):
    rules(rule("*", "GET", "*", "*"))
    answer = wire.send("GET", "/Tables", headers={"Origin": HERE}, scheme=None)
    check_problem(answer, 404, "ResourceNotFound")
    assert answer.header("Access-Control-Allow-Origin") == "*"
