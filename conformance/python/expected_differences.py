"""Known differences between an endpoint and the service, with the reasons; `run.py` reports these as different.

Cases are named as in `features`: `test_etag::test_any[PUT]`. The name of a function stands for all its parameters.
"""

# Cases that are expected to fail on an endpoint. The variable TABLES_SERVER selects the endpoint's list. These cases
# still run. If one of them passes, the run fails, so that the list stays correct.
EXPECTED = {
    "rowhouse": {
    },
}

_NEWER_VERSIONS = "any newer version is accepted"
_CORS_UNSEEN = "without a valid credential, only an origin that a rule allows gets CORS headers"

# Cases that assert Rowhouse's intended behaviour where the service behaves differently. docs/compatibility.md gives the
# reasons.
ASSERTED = {
    "test_authentication::test_newer_versions": _NEWER_VERSIONS,
    "test_cors::test_reads_without_a_valid_credential[no-origin-exact-rule]": _CORS_UNSEEN,
    "test_cors::test_reads_without_a_valid_credential[no-origin-any-rule]": _CORS_UNSEEN,
    "test_cors::test_reads_without_a_valid_credential[origin-no-match]": _CORS_UNSEEN,
    "test_cors::test_reads_without_a_valid_credential[rule-for-another-method]": _CORS_UNSEEN,
}
