"""Expected responses of the Table service: messages, error bodies, ETags, and the checks for them."""

import json
import re
from dataclasses import dataclass

GUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
TAIL = re.compile(rf"\nRequestId:({GUID})\nTime:(\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{7}}Z)\Z")
ETAG = re.compile(r"W/\"datetime'(\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(?:\.\d{0,6}[1-9])?Z)'\"")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{0,6}[1-9])?Z")

METADATA_NAMESPACE = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"
XML_DECLARATION = r'<\?xml version="1\.0" encoding="utf-8"\?>'
ODATA_XML = re.compile(
    rf'{XML_DECLARATION}<error xmlns="{METADATA_NAMESPACE}"><code>(\w+)</code>'
    r'<message xml:lang="en-US">(.*)</message></error>', re.S)
# Versions before 2012-02-12 write the same error in several lines.
FIRST_ODATA_XML = re.compile(
    rf'<\?xml version="1.0" encoding="utf-8" standalone="yes"\?>\r\n<error xmlns="{METADATA_NAMESPACE}">\r\n  <code>(\w+)</code>\r\n'
    r'  <message xml:lang="en-US">(.*)</message>\r\n</error>', re.S)
FRONT_XML = re.compile(
    rf'{XML_DECLARATION}<m:error xmlns:m="{METADATA_NAMESPACE}"><m:code>(\w+)</m:code>'
    r'<m:message xml:lang="en-US">(.*)</m:message></m:error>', re.S)

MESSAGE = {
    "TableAlreadyExists": "The table specified already exists.",
    "TableNotFound": "The table specified does not exist.",
    "ResourceNotFound": "The specified resource does not exist.",
    "EntityAlreadyExists": "The specified entity already exists.",
    "UpdateConditionNotSatisfied": "The update condition specified in the request was not satisfied.",
    "EntityTooLarge": "The entity is larger than the maximum allowed size (1MB).",
    "PropertyValueTooLarge": (
        "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 "
        "encoded and the maximum number of characters should be 32K or less."),
    "TooManyProperties": (
        "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. "
        "Each entity also has 3 system properties."),
    "PropertyNameTooLong": "The property name exceeds the maximum allowed length (255).",
    "PropertiesNeedValue": "The values are not specified for all properties in the entity.",
    "InvalidResourceName": "The specifed resource name contains invalid characters.",
    "RequestBodyTooLarge": "The request body is too large and exceeds the maximum permissible limit.",
    "NotImplemented": "The requested operation is not implemented on the specified resource.",
    "MethodNotAllowed": "The requested method is not allowed on the specified resource.",
    "AtomFormatNotSupported": "Atom format is not supported.",
    "JsonFormatNotSupported": "JSON format is not supported.",
    "MediaTypeNotSupported": "None of the provided media types are supported",
    "XMethodNotUsingPost": "The request uses X-HTTP-Method with an HTTP verb other than POST.",
    "XMethodIncorrectValue": "The specified X-HTTP-Method is invalid.",
    "AuthenticationFailed": (
        "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly "
        "including the signature."),
    "InvalidAuthenticationInfo": (
        "Authentication information is not given in the correct format. Check the value of Authorization header."),
    "NoAuthenticationInformation": (
        "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."),
    "InvalidHeaderValue": "The value for one of the HTTP headers is not in the correct format.",
    "InvalidDuplicateRow": (
        "The batch request contains multiple changes with same row key. An entity can appear only once in a batch "
        "request."),
    "CommandsInBatchActOnDifferentPartitions": "All commands in a batch must operate on same entity group.",
}

INPUT_NOT_VALID = "One of the request inputs is not valid."
INPUT_OUT_OF_RANGE = "One of the request inputs is out of range."
PROCESSING = "An error occurred while processing this request."
WRITES_REFUSED = "Write operations are not allowed."
QUERY_SYNTAX = "Bad Request - Error in query syntax."
NAME_LENGTH = "The specified resource name length is not within the permissible limits."
TOO_MANY_CHANGES = "The batch request operation exceeds the maximum 100 changes per change set."
BOTH_CONDITIONS = (
    "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of "
    "the headers or none of them.")


def out_of_range(name, value):
    return f"The '{name}' parameter of value '{value}' is out of range."


def bad_etag(value):
    return (f"The etag value '{value}' specified in one of the request headers is not valid. Please make sure only one "
            "etag value is specified and is valid.")


@dataclass(frozen=True)
class Problem:
    """An error body: its form (json, odata, front), code, message without the last lines, and the request ID in these
    lines."""

    form: str
    code: str
    message: str
    request_id: str


def read_problem(text):
    """Parses an error body strictly in one of its forms."""
    if text.startswith("{"):
        value = json.loads(text)
        assert list(value) == ["odata.error"], text
        error = value["odata.error"]
        assert list(error) == ["code", "message"], text
        assert list(error["message"]) == ["lang", "value"], text
        assert error["message"]["lang"] == "en-US", text
        form, code, message = "json", error["code"], error["message"]["value"]
    # A failed authentication has a byte order mark in these versions.
    elif found := ODATA_XML.fullmatch(text) or FIRST_ODATA_XML.fullmatch(text.removeprefix("\ufeff")):
        form, code, message = "odata", *map(unescape_xml, found.groups())
    else:
        found = FRONT_XML.fullmatch(text)
        assert found, f"unknown form of error body: {text!r}"
        form, code, message = "front", *map(unescape_xml, found.groups())
    tail = TAIL.search(message)
    assert tail, f"the message does not end with RequestId and Time: {message!r}"
    return Problem(form, code, message[:tail.start()], tail.group(1))


def unescape_xml(text):
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(entity, character)
    return text


def check_problem(answer, status, code, message=None, form=None):
    """Checks that the response is the given error. If `message` is None, expects the usual message of the code, if
    there is one."""
    assert answer.status == status, (answer.status, answer.body[:600])
    problem = read_problem(answer.text)
    assert problem.code == code, problem
    wanted = MESSAGE.get(code) if message is None else message
    if wanted is not None:
        assert problem.message == wanted, problem
    if form is not None:
        assert problem.form == form, answer.text
    request_id = answer.header("x-ms-request-id")
    assert request_id is None or request_id == problem.request_id, (request_id, problem)
    return problem


def check_status(answer, *statuses):
    assert answer.status in statuses, (answer.status, answer.body[:600])
    return answer


def check_refused(answer):
    """Checks for any 4xx status, because the response of the real service is unknown."""
    assert 400 <= answer.status < 500, (answer.status, answer.body[:600])
    return answer


def check_etag(answer):
    """Checks that the response has a well-formed ETag, and returns the ETag."""
    etag = answer.header("ETag")
    assert etag and ETAG.fullmatch(etag), etag
    return etag


def etag_of_timestamp(timestamp):
    """Returns the ETag that belongs to a Timestamp string."""
    return "W/\"datetime'" + timestamp.replace(":", "%3A") + "'\""
