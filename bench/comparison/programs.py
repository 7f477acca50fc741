"""Starts, queries, observes and kills the two programs that are compared.

Both run as child processes on a free port of this machine, with the development account. Their output is written to a
file. This module must not depend on what is measured.
"""

import base64
import hashlib
import hmac
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

ACCOUNT = "devstoreaccount1"
# The key of the development account, which is public.
KEY = base64.b64decode("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 60
# A program that uses less than this share of a processor is at rest.
REST_SHARE = 0.05
REST_SAMPLE_SECONDS = 0.5


class ProgramFailed(Exception):
    """The program has exited or does not respond."""


class Program:
    """The name, version and start command of one of the two programs."""

    def __init__(self, name, title, version, command):
        self.name, self.title, self.version, self.command = name, title, version, command


def rowhouse(path):
    version = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]

    def command(port, folder):
        data = ["--in-memory"] if folder is None else ["--data", str(folder)]
        return [path, "serve", "--listen", f"127.0.0.1:{port}", *data]

    return Program("rowhouse", "Rowhouse", version, command)


def emulator(path):
    version = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout.strip()

    def command(port, folder):
        data = ["--inMemoryPersistence"] if folder is None else ["--location", str(folder)]
        # Disable telemetry, which would send data off this machine, and the console output for each request.
        return [path, "--tableHost", "127.0.0.1", "--tablePort", str(port), "--disableTelemetry", "--silent", *data]

    return Program("emulator", "Azurite", version, command)


def reserve_port():
    """Returns a socket that reserves the TCP port of the same number. While it is open, no test of this repository gets
    the port: all of them reserve ports as test-support/src/port.rs does.
    """
    for port in range(12000, 20000):
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            reservation.close()
            continue
        return reservation
    raise ProgramFailed("all ports are in use")


class Connection:
    """A connection that signs its requests. Not thread-safe."""

    def __init__(self, port):
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def request(self, method, path, query="", body=None):
        """Returns the status, the headers and the body."""
        date, content_type = formatdate(usegmt=True), "application/json" if body is not None else ""
        resource = f"/{ACCOUNT}/{ACCOUNT}{path}"
        signed = hmac.new(KEY, f"{method}\n\n{content_type}\n{date}\n{resource}".encode(), hashlib.sha256).digest()
        headers = {
            "Accept": "application/json;odata=nometadata",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}",
            "Prefer": "return-no-content",
            "x-ms-date": date,
            "x-ms-version": "2019-02-02",
        }
        if content_type:
            headers["Content-Type"] = content_type
        self.http.request(method, f"/{ACCOUNT}{path}{query}", None if body is None else json.dumps(body), headers)
        response = self.http.getresponse()
        return response.status, response.headers, response.read()

    def keys(self, table):
        """Returns the keys of all entities of a table, or None if the table does not exist."""
        found, query = set(), "?$select=PartitionKey,RowKey"
        following = ""
        while True:
            status, headers, body = self.request("GET", f"/{table}()", query + following)
            if status == 404:
                return None
            if status != 200:
                raise ProgramFailed(f"a query returned {status}")
            found.update((entity["PartitionKey"], entity["RowKey"]) for entity in json.loads(body)["value"])
            names = ("NextPartitionKey", "NextRowKey")
            tokens = [(name, headers.get(f"x-ms-continuation-{name}")) for name in names]
            following = "".join(f"&{name}={quote(value, safe='')}" for name, value in tokens if value)
            if not following:
                return found


class Server:
    """A running program, killed at the end of its `with` block."""

    def __init__(self, program, folder, log):
        self.program, self.reservation = program, reserve_port()
        self.port = self.reservation.getsockname()[1]
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with open(log, "ab") as output:
            # Use a separate working directory, because the emulator writes its log there.
            place = folder if folder is not None else Path(log).parent
            self.child = subprocess.Popen(
                program.command(self.port, folder), cwd=place, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            self.wait_for_answer(began)
        except BaseException:
            self.kill()
            raise
        self.start_seconds = time.monotonic() - began

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def wait_for_answer(self, began):
        """Lists the tables until the program responds."""
        while True:
            self.check()
            try:
                status, _, body = Connection(self.port).request("GET", "/Tables")
            except OSError:
                if time.monotonic() - began > START_SECONDS_MAX:
                    raise ProgramFailed(f"it did not respond within {START_SECONDS_MAX} s") from None
                time.sleep(0.002)
                continue
            if status != 200:
                raise ProgramFailed(f"listing the tables returned {status}: {body[:300]}")
            return

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def exit_status(self):
        """Returns how the program exited, or None while it runs."""
        code = self.child.poll()
        if code is None:
            return None
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def check(self):
        if self.exit_status() is not None:
            raise ProgramFailed(f"the program exited with {self.exit_status()}")

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.reservation.close()

    def stop(self):
        """Terminates the program, and kills it if it does not exit in time."""
        self.child.terminate()
        try:
            self.child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def cpu_seconds(self):
        self.check()
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        """Returns the current resident memory and its peak so far."""
        self.check()
        status = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in status)
        return tuple(round(int(sizes[name].split()[0]) / 1024, 1) for name in ("VmRSS", "VmHWM"))

    def rest(self, at_least, at_most):
        """Waits until the program is at rest, for `at_least` to `at_most` seconds."""
        time.sleep(at_least)
        until, before, calm = time.monotonic() + at_most, self.cpu_seconds(), 0
        while calm < 2 and time.monotonic() < until:
            time.sleep(REST_SAMPLE_SECONDS)
            now = self.cpu_seconds()
            calm = calm + 1 if now - before <= REST_SHARE * REST_SAMPLE_SECONDS else 0
            before = now


def folder_mib(folder):
    sizes = (file.stat().st_blocks * 512 for file in Path(folder).rglob("*") if file.is_file())
    return round(sum(sizes) / 2**20, 1)
