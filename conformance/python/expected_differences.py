"""Cases that an endpoint is known to fail, with the reason; the variable TABLES_SERVER names the endpoint's list.

An expected failure is run all the same, and one that passes fails the run: so the list never goes stale.
"""

EXPECTED = {
    "rowhouse": {
    },
}
