"""Cases that an endpoint is known to fail, with the reason; the variable TABLES_SERVER names the endpoint's list.

An expected failure still runs, and fails the run if it passes, so the list stays correct.
"""

EXPECTED = {
    "rowhouse": {
    },
}
