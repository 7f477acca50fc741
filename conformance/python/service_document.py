"""The XML of the service properties: sections to send, and the complete XML that is returned."""

from contextlib import contextmanager

BYTE_ORDER_MARK = "\ufeff"
DECLARATION = '<?xml version="1.0" encoding="utf-8"?>'
PROPERTIES = "/?restype=service&comp=properties"
STATS = "/?restype=service&comp=stats"
XML_BODY = {"Content-Type": "application/xml"}
NO_RETENTION = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>"
NO_METRICS = f"<Version>1.0</Version><Enabled>false</Enabled>{NO_RETENTION}"
LOGGING = f"<Logging><Version>1.0</Version><Read>false</Read><Write>true</Write><Delete>false</Delete>{NO_RETENTION}</Logging>"


def document(*sections):
    """Returns the XML with the given sections, as a client sends it."""
    return f"<StorageServiceProperties>{''.join(sections)}</StorageServiceProperties>"


def retention(days):
    return f"<RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy>"


def rule(origins="*", methods="GET", allowed="", exposed="", age=60):
    """Returns one CORS rule, with its elements in the order of the service's responses."""
    def element(name, text):
        return f"<{name}>{text}</{name}>" if text else f"<{name} />"
    return ("<CorsRule>" + element("AllowedMethods", methods) + element("AllowedOrigins", origins)
            + element("AllowedHeaders", allowed) + element("ExposedHeaders", exposed)
            + element("MaxAgeInSeconds", str(age)) + "</CorsRule>")


def cors(*rules):
    return f"<Cors>{''.join(rules)}</Cors>" if rules else "<Cors />"


def read_properties(wire, **kwargs):
    answer = wire.send("GET", PROPERTIES, accept="application/xml", **kwargs)
    assert answer.status == 200, (answer.status, answer.body)
    return answer.text.removeprefix(BYTE_ORDER_MARK)


def set_properties(wire, body, *, headers=None, **kwargs):
    headers = {**XML_BODY, **(headers or {})}
    return wire.send("PUT", PROPERTIES, body, headers=headers, accept="application/xml", **kwargs)


def set_sections(wire, *sections):
    answer = set_properties(wire, document(*sections))
    assert answer.status == 202, (answer.status, answer.body)


@contextmanager
def restored(wire):
    """Restores the properties after a case, because they belong to the whole account."""
    found = read_properties(wire)
    try:
        yield
    finally:
        answer = set_properties(wire, found)
        assert answer.status == 202, (answer.status, answer.body)
