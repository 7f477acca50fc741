"""Stands in for the package with which the vendor's suites create accounts and record exchanges, and which is not published.

The cases run live: no exchange is recorded. The transports send requests for the recorded service's hosts to the server that
`TABLES_ENDPOINT` names, and leave the host in the header, so that the URLs contain no account.
"""

import contextlib
import hashlib
import inspect
import os
import urllib.parse

import azure.identity
import azure.identity.aio
from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport

SERVICES = (".table.cosmos.azure.com", ".table.core.windows.net")

# The account of the vendor's emulator, by the names of the arguments of a case.
ARGUMENTS = {
    "tables_cosmos_account_name": "localhost",
    "tables_primary_cosmos_account_key":
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
}


def is_live():
    return True


def get_credential(is_async):
    """Returns what some cases pass to clients that send nothing."""
    return azure.identity.aio.DefaultAzureCredential() if is_async else azure.identity.DefaultAzureCredential()


class ResponseCallback:
    """Imported by a module of which only the transports are used."""


class AzureRecordedTestCase:
    is_live = True

    def get_resource_name(self, prefix):
        """Returns the same name whenever a case asks for it, and a different one in every case."""
        case = os.environ["PYTEST_CURRENT_TEST"].split(" ")[0]
        return prefix + hashlib.sha256(case.encode()).hexdigest()[:8]

    def generate_sas(self, function, *arguments, **options):
        return function(*arguments, **options)

    def sleep(self, seconds):
        """Does not wait: the server has no delays."""


class PowerShellPreparer:
    """A decorator that passes the account's name and key to a case."""

    def __init__(self, _folder, **_placeholders):
        pass

    def __call__(self, case):
        if inspect.iscoroutinefunction(case):
            async def prepared(*arguments, **options):
                return await case(*arguments, **options, **ARGUMENTS)
        else:
            def prepared(*arguments, **options):
                return case(*arguments, **options, **ARGUMENTS)
        return prepared


def recorded_by_proxy(case):
    return case


def set_custom_default_matcher(**_options):
    pass


@contextlib.contextmanager
def redirected(request):
    """Replaces the address of a request to the service while it is sent."""
    url = urllib.parse.urlsplit(request.url)
    if not url.hostname or not url.hostname.endswith(SERVICES):
        yield
        return
    original = request.url
    server = urllib.parse.urlsplit(os.environ["TABLES_ENDPOINT"])
    request.url = url._replace(scheme=server.scheme, netloc=server.netloc).geturl()
    request.headers["Host"] = url.netloc
    try:
        yield
    finally:
        request.url = original
        del request.headers["Host"]


def redirect_transports():
    send, send_async = RequestsTransport.send, AioHttpTransport.send

    def send_to_server(self, request, **options):
        with redirected(request):
            return send(self, request, **options)

    async def send_to_server_async(self, request, **options):
        with redirected(request):
            return await send_async(self, request, **options)

    RequestsTransport.send, AioHttpTransport.send = send_to_server, send_to_server_async


redirect_transports()
