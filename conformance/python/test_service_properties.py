"""Service properties (the exact XML, partial updates and refusals), statistics, and the secondary endpoint."""

import email.utils
import re
import time

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableAnalyticsLogging, TableCorsRule, TableMetrics, TableRetentionPolicy

from expect import WRITES_REFUSED, check_problem, check_refused, check_status
from service_document import (
    BYTE_ORDER_MARK, DECLARATION, LOGGING, NO_METRICS, NO_RETENTION, PROPERTIES, STATS, cors, document, read_properties,
    restored, retention, rule, set_properties, set_sections,
)
from wire import NONE

BAD_XML = "XML specified is not syntactically valid."
BAD_NODE_VALUE = "The value for one of the XML nodes is not in the correct format."
METRICS = f"<Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>{retention(7)}"


@pytest.fixture(autouse=True)
def untouched(wire):
    """Sets known properties before every case, and restores the account's properties afterwards."""
    with restored(wire):
        set_sections(wire, LOGGING, f"<HourMetrics>{NO_METRICS}</HourMetrics>", f"<MinuteMetrics>{NO_METRICS}</MinuteMetrics>",
                     cors())
        yield


def section(text, name):
    """Returns one section of the XML, unchanged."""
    found = re.search(rf"<{name}>.*?</{name}>|<{name} />", text)
    assert found, text
    return found.group()


# The XML

def test_get_to_the_byte(wire):
    set_sections(wire, f"<HourMetrics>{METRICS}</HourMetrics>", cors(rule(), rule("http://a,http://b", "GET,PUT", "x-one,x-*", "", 0)))
    answer = wire.send("GET", PROPERTIES, accept="application/xml")
    expected = DECLARATION + document(
        LOGGING, f"<HourMetrics>{METRICS}</HourMetrics>", f"<MinuteMetrics>{NO_METRICS}</MinuteMetrics>",
        cors(rule(), rule("http://a,http://b", "GET,PUT", "x-one,x-*", "", 0)))
    assert (answer.status, answer.text.removeprefix(BYTE_ORDER_MARK)) == (200, expected)
    assert answer.header("Content-Type") == "application/xml"
    assert answer.header("Cache-Control") is None
    assert answer.header("X-Content-Type-Options") is None
    assert answer.header("x-ms-version") == "2019-02-02"
    assert answer.header("x-ms-request-id")


def test_set_answers_202_without_a_body(wire):
    answer = set_properties(wire, document(LOGGING))
    assert (answer.status, answer.reason, answer.body) == (202, "Accepted", b"")
    assert answer.header("Content-Type") is None
    assert answer.header("Cache-Control") is None


@pytest.mark.parametrize("accept", [None, "*/*", NONE, "application/atom+xml", "text/html"])
def test_accept_does_not_matter(wire, accept):
    answer = check_status(wire.send("GET", PROPERTIES, accept=accept), 200)
    assert answer.header("Content-Type") == "application/xml"


@pytest.mark.parametrize("content_type", ["application/xml", "application/atom+xml", "text/plain", None])
def test_content_type_does_not_matter(wire, content_type):
    check_status(set_properties(wire, document(LOGGING), headers={"Content-Type": content_type}), 202)


@pytest.mark.parametrize("query", ["comp=properties&restype=service", "comp=properties&RESTYPE=service&timeout=30"])
def test_order_and_case_of_parameters(wire, query):
    check_status(wire.send("GET", f"/?{query}"), 200)


# Updates

def test_a_section_alone_keeps_the_others(wire):
    set_sections(wire, cors(rule("http://a")), f"<MinuteMetrics>{METRICS}</MinuteMetrics>")
    logging = f"<Logging><Version>1.0</Version><Read>true</Read><Write>false</Write><Delete>true</Delete>{retention(5)}</Logging>"
    set_sections(wire, logging)
    text = read_properties(wire)
    assert section(text, "Logging") == logging
    assert section(text, "MinuteMetrics") == f"<MinuteMetrics>{METRICS}</MinuteMetrics>"
    assert section(text, "HourMetrics") == f"<HourMetrics>{NO_METRICS}</HourMetrics>"
    assert section(text, "Cors") == cors(rule("http://a"))


@pytest.mark.parametrize("empty", ["<Cors/>", "<Cors></Cors>", "<Cors>\n</Cors>"])
def test_an_empty_cors_section_clears_the_rules(wire, empty):
    set_sections(wire, cors(rule()))
    set_sections(wire, LOGGING)
    assert section(read_properties(wire), "Cors") == cors(rule()), "an absent section must keep its rules"
    set_sections(wire, empty)
    assert section(read_properties(wire), "Cors") == "<Cors />"


def test_children_in_any_order_and_booleans_in_any_case(wire):
    set_sections(wire, (
        "<HourMetrics><RetentionPolicy><Days>2</Days><Enabled>True</Enabled></RetentionPolicy><IncludeAPIs>FALSE</IncludeAPIs>"
        "<Enabled>True</Enabled><Version>1.0</Version></HourMetrics>"))
    assert section(read_properties(wire), "HourMetrics") == (
        f"<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>{retention(2)}</HourMetrics>")


@pytest.mark.parametrize("before", ["\ufeff", "<?xml version='1.0' encoding='utf-8'?>\n", "\ufeff<?xml version=\"1.0\"?>\r\n",
                                    "<!-- a comment -->", ""])
def test_what_clients_put_before_the_document(wire, before):
    text = before + document("\n  ", cors(rule("http://a")), "<!-- and another -->\n")
    check_status(set_properties(wire, text), 202)
    assert section(read_properties(wire), "Cors") == cors(rule("http://a"))


def test_text_is_escaped_both_ways(wire):
    set_sections(wire, cors(rule("http://a?&lt;b&gt;&amp;c")))
    assert section(read_properties(wire), "Cors") == cors(rule("http://a?&lt;b&gt;&amp;c"))


def test_header_lists_come_back_with_prefixes_last(wire):
    set_sections(wire, cors(rule(allowed="x-p*, x-a,x-q*,x-b", exposed="*,etag")))
    assert section(read_properties(wire), "Cors") == cors(rule(allowed="x-a,x-b,x-p*,x-q*", exposed="etag,*"))


def test_the_document_of_2012(wire):
    text = read_properties(wire, version="2012-02-12")
    assert text == DECLARATION + document(LOGGING, f"<Metrics>{NO_METRICS}</Metrics>")
    set_sections(wire, cors(rule()))
    check_status(set_properties(wire, document(f"<Metrics>{METRICS}</Metrics>", LOGGING), version="2012-02-12"), 202)
    now = read_properties(wire)
    assert section(now, "HourMetrics") == f"<HourMetrics>{METRICS}</HourMetrics>"
    assert section(now, "Cors") == cors(rule()), "settings unknown to the old version must stay"
    for body in (document(LOGGING), document(f"<Metrics>{METRICS}</Metrics>")):
        check_problem(set_properties(wire, body, version="2012-02-12"), 400, "InvalidXmlDocument", form="front")


# Refusals

def logging_with(old, new):
    return document(LOGGING.replace(old, new, 1))


def hour_metrics(content):
    return document(f"<HourMetrics>{content}</HourMetrics>")


def rules(*parts):
    return document(cors(*parts))


ITEM = "x" * 100
BAD_DOCUMENTS = {
    "no-byte": "",
    "not-xml": "StorageServiceProperties",
    "open-element": "<StorageServiceProperties>",
    "wrong-end": "<StorageServiceProperties></Cors>",
    "two-roots": document(LOGGING) * 2,
    "not-utf8": b"<StorageServiceProperties>\xff</StorageServiceProperties>",
    "document-type": f"<!DOCTYPE a>{document(LOGGING)}",
    "entity": '<!DOCTYPE a [<!ENTITY e "true">]>' + logging_with("<Read>false", "<Read>&e;"),
    "external-entity": '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/hostname">]>' + rules(rule("&e;")),
    "unknown-entity": rules(rule("&nbsp;")),
    "deep": "<a>" * 2000 + "</a>" * 2000,
    "wide": document("<Cors/>" * 5000),
    "empty-root": "<StorageServiceProperties/>",
    "other-root": "<ServiceProperties><Cors/></ServiceProperties>",
    "unknown-section": document("<StaticWebsite/>"),
    "section-of-2012": document(f"<Metrics>{METRICS}</Metrics>"),
    "section-twice": document("<Cors/><Cors/>"),
    "child-twice": logging_with("<Read>false</Read>", "<Read>false</Read><Read>false</Read>"),
    "unknown-child": logging_with("<Read>", "<Reads/><Read>"),
    "missing-child": logging_with("<Delete>false</Delete>", ""),
    "missing-retention": hour_metrics(NO_METRICS.replace(NO_RETENTION, "")),
    "missing-version": hour_metrics(NO_METRICS.replace("<Version>1.0</Version>", "")),
    "other-version": hour_metrics(NO_METRICS.replace("1.0", "1.1")),
    "bad-boolean": logging_with("<Read>false", "<Read>maybe"),
    "empty-boolean": logging_with("<Read>false", "<Read>"),
    "apis-missing": hour_metrics(NO_METRICS.replace("false", "true", 1)),
    "days-366": hour_metrics(METRICS.replace("7", "366")),
    "days-0": hour_metrics(METRICS.replace("7", "0")),
    "days-not-a-number": hour_metrics(METRICS.replace("7", "a week")),
    "days-missing": hour_metrics(METRICS.replace("<Days>7</Days>", "")),
    "days-without-retention": hour_metrics(NO_METRICS.replace("</Enabled></Ret", "</Enabled><Days>7</Days></Ret")),
    "six-rules": rules(*[rule()] * 6),
    "other-rule": document("<Cors><Rule/></Cors>"),
    "no-origin": rules(rule(origins="")),
    "65-origins": rules(rule(origins=",".join(["a"] * 65))),
    "long-origin": rules(rule(origins="h" * 257)),
    "no-method": rules(rule(methods="")),
    "unknown-method": rules(rule(methods="GET,BREW")),
    "65-headers": rules(rule(allowed=",".join(["a"] * 65))),
    "three-prefixes": rules(rule(exposed="a*,b*,c*")),
    "long-header": rules(rule(exposed="h" * 257)),
    "missing-headers": rules(rule()).replace("<AllowedHeaders />", ""),
    "negative-age": rules(rule(age=-1)),
    "empty-age": rules(rule(age="")),
    "more-than-2-KiB": rules(rule(origins=",".join([ITEM] * 10)), rule(origins=",".join([ITEM] * 11))),
}


# Violations of the limits for a single rule (tested by the .NET client). Violations of the limits for all rules
# together make the XML invalid.
BAD_VALUES = {"no-origin", "65-origins", "long-origin", "no-method", "unknown-method", "65-headers", "three-prefixes", "long-header"}


@pytest.mark.parametrize("name", BAD_DOCUMENTS)
def test_bad_documents(wire, name):
    before = read_properties(wire)
    answer = set_properties(wire, BAD_DOCUMENTS[name])
    code, message = ("InvalidXmlNodeValue", BAD_NODE_VALUE) if name in BAD_VALUES else ("InvalidXmlDocument", BAD_XML)
    check_problem(answer, 400, code, message, form="front")
    assert answer.header("Content-Type") == "application/xml"
    assert answer.header("x-ms-error-code") == code
    assert answer.header("Cache-Control") is None
    assert answer.header("X-Content-Type-Options") is None
    assert read_properties(wire) == before, "a refused request must not change any property"


def test_the_reason_phrase_repeats_the_message(wire):
    assert set_properties(wire, "<StorageServiceProperties/>").reason == BAD_XML


def test_documents_at_the_limits(wire):
    many = ",".join(["a"] * 64)
    set_sections(wire, f"<HourMetrics>{METRICS.replace('7', '365')}</HourMetrics>", cors(*[rule()] * 5))
    set_sections(wire, cors(rule(origins=many, allowed=many, exposed=many + ",x*,y*")))
    set_sections(wire, cors(rule(origins="h" * 256, methods="DELETE,GET,HEAD,MERGE,POST,OPTIONS,PUT,PATCH,TRACE,CONNECT")))


def test_a_body_above_1_mib(wire):
    text = document(LOGGING, " " * (1024 * 1024))
    check_problem(set_properties(wire, text), 413, "RequestBodyTooLarge", form="front")
    check_status(set_properties(wire, text[:-30 - 1024 * 1024 // 2] + "</StorageServiceProperties>"), 202)


@pytest.mark.parametrize("verb, target", [
    *((verb, target) for verb in ["POST", "DELETE", "MERGE", "PATCH", "HEAD"] for target in [PROPERTIES, STATS]), ("PUT", STATS)])
def test_verbs(wire, verb, target):
    answer = wire.send(verb, target)
    if verb == "HEAD":
        assert answer.status == 405
    else:
        check_problem(answer, 405, "UnsupportedHttpVerb", "The resource doesn't support the specified HTTP verb.", form="front")


@pytest.mark.parametrize("query", ["comp=properties", "restype=service", "restype=service&comp=nonsense",
                                   "restype=account&comp=properties", "restype=service&comp=acl"])
def test_incomplete_or_unknown_parameters(wire, query):
    assert check_refused(wire.send("GET", f"/?{query}")).status == 400


def test_an_unsigned_request(wire):
    answer = wire.send("GET", PROPERTIES, accept="application/xml", scheme=None)
    check_problem(answer, 404, "ResourceNotFound", form="front")


# The client

def test_client_round_trip(service):
    keep = TableRetentionPolicy(enabled=True, days=5)
    log = TableAnalyticsLogging(read=True, write=True, delete=False, retention_policy=keep)
    hour = TableMetrics(enabled=True, include_apis=True, retention_policy=keep)
    one = TableCorsRule(["www.xyz.com"], ["GET"])
    two = TableCorsRule(["www.xyz.com", "www.ab.com"], ["GET", "PUT"], max_age_in_seconds=500,
                        exposed_headers=["x-ms-meta-data*", "x-ms-meta-abc"], allowed_headers=["x-ms-meta-data*", "x-ms-meta-xyz"])
    service.set_service_properties(analytics_logging=log, hour_metrics=hour, minute_metrics=TableMetrics(), cors=[one, two])
    found = service.get_service_properties()
    assert found["analytics_logging"].read and found["analytics_logging"].write and not found["analytics_logging"].delete
    assert found["analytics_logging"].retention_policy.days == 5
    assert found["hour_metrics"].enabled and found["hour_metrics"].include_apis
    assert not found["minute_metrics"].enabled
    first, second = found["cors"]
    assert (first.allowed_origins, first.allowed_methods, first.max_age_in_seconds) == (["www.xyz.com"], ["GET"], 0)
    assert second.exposed_headers == ["x-ms-meta-abc", "x-ms-meta-data*"]
    assert second.allowed_headers == ["x-ms-meta-xyz", "x-ms-meta-data*"]
    assert second.max_age_in_seconds == 500


def test_client_sees_the_refusal(service):
    with pytest.raises(HttpResponseError) as caught:
        service.set_service_properties(cors=[TableCorsRule(["www.xyz.com"], ["GET"])] * 6)
    assert (caught.value.status_code, caught.value.error_code) == (400, "InvalidXmlDocument")


# Statistics and the secondary endpoint

STATISTICS = re.compile(
    re.escape(DECLARATION) + r"<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>([^<]+)</LastSyncTime>"
    r"</GeoReplication></StorageServiceStats>")


def test_statistics_to_the_byte(secondary):
    answer = check_status(secondary.send("GET", STATS, accept="application/xml"), 200)
    found = STATISTICS.fullmatch(answer.text.removeprefix(BYTE_ORDER_MARK))
    assert found, answer.text
    assert found.group(1).endswith(" GMT")
    assert email.utils.parsedate_to_datetime(found.group(1)).timestamp() <= time.time() + 60
    assert answer.header("Content-Type") == "application/xml"
    assert answer.header("Cache-Control") is None


def test_statistics_through_the_client(service):
    """In path style, the client signs a different path from the one that it sends."""
    stats = service.get_service_stats()
    assert stats["geo_replication"]["status"] == "live"
    assert stats["geo_replication"]["last_sync_time"]


def test_statistics_are_for_the_secondary_endpoint(wire):
    answer = wire.send("GET", STATS, accept="application/xml")
    check_problem(answer, 400, "InvalidQueryParameterValue", form="front")


def test_the_secondary_endpoint_reads(wire, secondary, table):
    table.insert({"PartitionKey": "p", "RowKey": "r", "A": 1})
    deadline = time.monotonic() + 20
    while (answer := secondary.send("GET", table.address("p", "r"), accept=NONE)).status == 404 and time.monotonic() < deadline:
        time.sleep(1)  # A server with a real second copy may lag.
    assert check_status(answer, 200).json()["A"] == 1
    assert check_status(secondary.send("GET", f"/{table.name}()", accept=NONE), 200).json()["value"]
    check_status(secondary.send("GET", "/Tables", accept=NONE), 200)
    assert read_properties(secondary) == read_properties(wire)


SECONDARY_WRITES = {
    "create-table": ("POST", "/Tables", {"TableName": "never"}),
    "insert": ("POST", "/{table}", {"PartitionKey": "p", "RowKey": "r"}),
    "upsert": ("PUT", "/{table}(PartitionKey='p',RowKey='r')", {"A": 1}),
    "merge": ("MERGE", "/{table}(PartitionKey='p',RowKey='r')", {"A": 1}),
    "delete-entity": ("DELETE", "/{table}(PartitionKey='p',RowKey='r')", None),
    "delete-table": ("DELETE", "/Tables('{table}')", None),
    "set-properties": ("PUT", PROPERTIES, document(LOGGING)),
}


@pytest.mark.parametrize("name", SECONDARY_WRITES)
def test_the_secondary_endpoint_does_not_write(secondary, shared, name):
    verb, target, body = SECONDARY_WRITES[name]
    answer = secondary.send(verb, target.format(table=shared.name), body)
    is_of_front_end = name == "set-properties"
    check_problem(answer, 403, "InsufficientAccountPermissions", WRITES_REFUSED, form="front" if is_of_front_end else "json")
    if not is_of_front_end:  # Recorded.
        assert answer.reason == "Forbidden"
        assert answer.header("Cache-Control") == "no-cache"
