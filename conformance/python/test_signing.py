"""Checks the suite's own signer against the specification's examples (07 §15). Needs no server.

Every other case would fail with a wrong signature, so these cases check the strings to sign.
"""

import base64

import pytest

from wire import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Wire, signature, string_to_sign

ACCOUNT = "orchardacct"
KEY_ONE = base64.b64encode(bytes(range(64))).decode("ascii")
KEY_TWO = base64.b64encode(bytes(range(64, 128))).decode("ascii")
DATE = "Fri, 14 Mar 2031 08:15:30 GMT"
JSON_TYPE = "application/json;odata=nometadata"
PYTHON_FORM = "/Harvest(PartitionKey='O%27%27Neil%20%26%20S%C3%B6hne',RowKey='a%20b%2Fc%25d%2Be%23f%3Fg')"
JAVASCRIPT_FORM = "/Harvest(PartitionKey='O''Neil%20%26%20S%C3%B6hne',RowKey='a%20b%2Fc%25d%2Be%23f%3Fg')"
BATCH_TYPE = "multipart/mixed; boundary=batch_70492a19-9861-4577-8a60-06bcd7a0382d"

# name: (scheme, account, key, verb, target, content type, signature)
EXAMPLES = {
    "path-style-create": ("SharedKey", ACCOUNT, KEY_ONE, "POST", "/orchardacct/Tables", JSON_TYPE,
                          "q/mb/Zunjuas41qQB7pKXu4ijhIYPwZ3whcknXs5MdE="),
    "path-style-create-lite": ("SharedKeyLite", ACCOUNT, KEY_ONE, "POST", "/orchardacct/Tables", JSON_TYPE,
                               "gXFCHjnLSEf8jvHXmduo7mcp1RjmItmWsSnoTCk1DpM="),
    "second-key": ("SharedKey", ACCOUNT, KEY_TWO, "POST", "/orchardacct/Tables", JSON_TYPE,
                   "VTeLzBaDXy8P6IcsGktiu+N/2d6lOcMRilHhBvT65Dg="),
    "host-style-create": ("SharedKey", ACCOUNT, KEY_ONE, "POST", "/Tables", JSON_TYPE,
                          "gOga3CHw6Ne/1ICXtpcDT8Xo2Iw37gbJdi9CIATuNSs="),
    "query-options-are-not-signed": ("SharedKey", ACCOUNT, KEY_ONE, "GET",
                                     "/orchardacct/Harvest()?$top=5&$filter=PartitionKey%20eq%20%27north%27", "",
                                     "lpY/k/STdKCUPFKnCtbp0ayDGd9DAinGKcpvgRmVThA="),
    "python-encoding": ("SharedKey", ACCOUNT, KEY_ONE, "GET", PYTHON_FORM, "",
                        "I0o747A0EMvFXNu43lHEHNo7NaTw+mcHFQjtAO16mzM="),
    "javascript-encoding": ("SharedKeyLite", ACCOUNT, KEY_ONE, "GET", JAVASCRIPT_FORM, "",
                            "gRSSzk9yeeSj9wQCoK/QXY3EPR5J5UcVMZr9i2JCu0E="),
    "comp": ("SharedKey", ACCOUNT, KEY_ONE, "PUT", "/orchardacct/Harvest?comp=acl", "application/xml",
             "qToxA3dVynnlz5c+zDCEOVEuo/bd1q1ZfrJrESJo4vU="),
    "comp-after-restype": ("SharedKey", ACCOUNT, KEY_ONE, "GET", "/orchardacct/?restype=service&comp=properties", "",
                           "4sShuFMlNXku3Ni6gcrKxP1YT0zPuC4XlF/HRQUxX7s="),
    "development-account": ("SharedKey", DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, "GET", "/devstoreaccount1/Tables", "",
                            "7YRwk9IINoADGo0/xJ2T+zoCBntNqNdBT2pfXyEQk/w="),
    "development-account-lite": ("SharedKeyLite", DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, "GET", "/devstoreaccount1/Tables", "",
                                 "cC3ZFDFjlWRvd6r2WF+pGIsSCF9PVWrneVAp7/MmKvc="),
    "batch": ("SharedKey", ACCOUNT, KEY_ONE, "POST", "/$batch", BATCH_TYPE,
              "gBf95ZI7o8gU6UQ16wVZr93aAc1IS+fNgz0Z10UoIQw="),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_example(name):
    scheme, account, key, verb, target, content_type, wanted = EXAMPLES[name]
    headers = {"x-ms-date": DATE, "Content-Type": content_type}
    assert signature(key, string_to_sign(scheme, account, verb, target, headers)) == wanted


def test_endpoint_styles():
    path_style = Wire("http://127.0.0.1:10002/orchardacct/", ACCOUNT, KEY_ONE)
    host_style = Wire("https://orchardacct.table.example", ACCOUNT, KEY_ONE)
    assert (path_style.base, path_style.prefix, path_style.path_style) == ("http://127.0.0.1:10002/orchardacct", "/orchardacct", True)
    assert (host_style.base, host_style.prefix, host_style.port, host_style.path_style) == (
        "https://orchardacct.table.example", "", 443, False)
