"""A server for tests: the program as a child process, and its accounts, clock and snapshots.

The server keeps everything in memory and listens on a free port of this machine. It stops when the Python process
exits, even if that process is killed, because it stops when its standard input is closed. Child processes that were
forked while the server was running hold that pipe too, so after a kill, the server stops when the last of them exits.
`stop()` does not wait for them. This module does not depend on pytest.
"""

from __future__ import annotations

import collections
import http.client
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import IO, Any

from ._program import program_path

# In seconds. The server is ready after a few milliseconds; on a busy machine or with a large --seed, it takes longer.
_START_TIMEOUT = 120
# In seconds. A server that is shutting down cancels requests in flight after ten seconds.
_STOP_TIMEOUT = 20
_REQUEST_TIMEOUT = 60
# The server prints this instead of the key of an account from a file.
_HIDDEN_KEY = "AccountKey=<key>;"
# The maximum number of log lines that are kept.
_LOG_LINES = 1000


class RowhouseError(Exception):
    """Raised if the server did not start, has stopped, or refused a request. The message gives the reason."""


class Account:
    """An account on a server. Accounts do not share tables."""

    def __init__(self, server: Server, account: str, key: str, endpoint: str, connection_string: str) -> None:
        self.server = server
        #: The name.
        self.account = account
        #: The key, in Base64.
        self.key = key
        #: The URL of its tables, such as `http://127.0.0.1:40123/orchard`.
        self.endpoint = endpoint
        #: The connection string for client libraries, which contains all of the above.
        self.connection_string = connection_string

    @property
    def clock(self) -> Clock:
        """The clock of the server, which all of its accounts share."""
        return self.server.clock

    def snapshot(self) -> Snapshot:
        """Takes a snapshot of the content of all accounts on the server."""
        return self.server.snapshot()

    def seed(self, folder: str | os.PathLike[str]) -> None:
        """Creates tables from entity files, one file per table, in the format of `rowhouse export`."""
        self.server._import(os.fspath(folder), self.connection_string)

    def delete(self) -> None:
        """Deletes the account and its tables. Does nothing if it was already deleted."""
        self.server._request("DELETE", f"/test/accounts/{self.account}", accepts_missing=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.endpoint}>"


class Clock:
    """The clock of a server, used for Timestamps and the expiry of signatures. It is the system clock until it is
    changed.

    Requests signed with the system clock are accepted even if the server's clock differs.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # The number of changes, from which a fixture determines whether to restore the clock.
        self._changes = 0

    def now(self) -> datetime:
        """Returns the server's time, in UTC."""
        # The time is in ticks of 100 ns; a datetime cannot hold the last digit.
        text = self._server._request("GET", "/test/clock")["now"]
        return datetime.strptime(text[:26], "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=timezone.utc)

    def set(self, time: datetime) -> None:
        """Sets the time. The clock stops there until `resume()`."""
        if time.tzinfo is None:
            raise ValueError("the time has no time zone: write datetime(…, tzinfo=timezone.utc)")
        self._change(now=time.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z"))

    def advance(self, by: timedelta | float) -> None:
        """Advances the clock by a timedelta or a number of seconds."""
        self._change(advanceSeconds=by.total_seconds() if isinstance(by, timedelta) else by)

    def stop(self) -> None:
        """Stops the clock; it can still be set and advanced."""
        self._change(stopped=True)

    def resume(self) -> None:
        """Restarts a stopped clock from its current time."""
        self._change(stopped=False)

    def reset(self) -> None:
        """Returns to the system clock."""
        self._change(system=True)

    def _change(self, **body: Any) -> None:
        self._changes += 1
        self._server._request("PUT", "/test/clock", body)


class Snapshot:
    """The content of all accounts on a server at one point in time.

    Taking or restoring a snapshot takes milliseconds, regardless of the number of entities. `with server.snapshot():`
    restores the snapshot at the end of the block.
    """

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self.name = name

    def restore(self) -> None:
        """Restores the content. Can be called more than once."""
        self._server._request("POST", f"/test/snapshots/{self.name}/restore", {})

    def delete(self) -> None:
        """Frees the memory of the snapshot. Does nothing if it was already deleted."""
        self._server._request("DELETE", f"/test/snapshots/{self.name}", accepts_missing=True)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.restore()
        finally:
            self.delete()


class Server(Account):
    """A server that stops when `stop()` is called, at the end of its `with` block, or when this process exits. As an
    account, it is its first account.

    `options` are options of `rowhouse serve`, such as `["--seed", "tests/data"]`; their paths are relative to `folder`.
    Environment variables do not affect the server, except `ROWHOUSE_BINARY`, which names the program.
    """

    def __init__(self, options: Iterable[str] = (), folder: str | os.PathLike[str] | None = None) -> None:
        try:
            self._program = str(program_path())
        except FileNotFoundError as error:
            raise RowhouseError(str(error)) from None
        self._log: collections.deque[str] = collections.deque(maxlen=_LOG_LINES)
        try:
            self._process = subprocess.Popen(
                [self._program, "serve", "--in-memory", "--test-controls", "--stop-with-stdin", *options],
                # The port is set in an environment variable, so that an option can override it.
                env={**_environment(), "ROWHOUSE_LISTEN": "127.0.0.1:0"},
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                # Ctrl-C must reach only the tests, which stop the server when they have finished.
                **_apart(),
            )
        except OSError as error:
            raise RowhouseError(f"{self._program} cannot be run: {error}") from error
        lines: queue.Queue[str | None] = queue.Queue()
        # Read both streams to their end, so that the server never blocks on writing.
        self._readers = [
            _read_lines(self._process.stdout, lines.put, lambda: lines.put(None)),
            _read_lines(self._process.stderr, self._log.append),
        ]
        try:
            found = self._read_addresses(lines)
        except BaseException:
            self.stop()
            raise
        self._admin = found["admin on "].rpartition("/")[2]
        connection_string = found["connection string: "]
        fields = dict(field.split("=", 1) for field in connection_string.split(";") if field)
        super().__init__(self, fields["AccountName"], fields["AccountKey"], fields["TableEndpoint"], connection_string)
        self._clock = Clock(self)

    @property
    def clock(self) -> Clock:
        """The server's clock."""
        return self._clock

    def new_account(self) -> Account:
        """Creates an empty account."""
        made = self._request("POST", "/test/accounts", {})
        return Account(self, made["name"], made["key"], made["endpoint"], made["connectionString"])

    def snapshot(self) -> Snapshot:
        """Takes a snapshot of the content of all accounts."""
        return Snapshot(self, self._request("POST", "/test/snapshots", {})["snapshot"])

    def reset(self) -> None:
        """Returns to the initial content, including `--seed`. Accounts created since then are removed."""
        self._request("POST", "/test/reset", {})

    def delete(self) -> None:
        """Always raises RowhouseError, because the first account of a server cannot be deleted."""
        raise RowhouseError("the first account of a server cannot be deleted; reset() removes what was written to it")

    def log(self) -> str:
        """Returns the last 1000 lines of the server's log."""
        return "\n".join(self._log)

    def stop(self) -> None:
        """Stops the server and waits until it has exited. Does nothing if it has already exited."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        if os.name != "nt":
            # Forked children may hold the pipe open; the signal shuts the server down just as cleanly.
            process.terminate()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _read_addresses(self, lines: queue.Queue[str | None]) -> dict[str, str]:
        """Waits until the server is ready, and returns the addresses in its first lines by their prefixes."""
        found: dict[str, str] = {}
        while "admin on " not in found:
            try:
                line = lines.get(timeout=_START_TIMEOUT)
            except queue.Empty:
                raise RowhouseError(f"the server was not ready after {_START_TIMEOUT} s\n{self.log()}") from None
            if line is None:
                raise RowhouseError(f"the server did not start: {self._end()}")
            for beginning in ("listening on ", "connection string: ", "admin on "):
                if line.startswith(beginning):
                    found[beginning] = line[len(beginning) :]
        if _HIDDEN_KEY in found["connection string: "]:
            raise RowhouseError("--accounts hides the keys: leave it out; new_account() creates accounts with their own keys")
        return found

    def _end(self) -> str:
        """Describes how a server that closed its standard output or refuses connections exited."""
        try:
            code = self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            return f"it is running but does not respond\n{self.log()}"
        for reader in self._readers:
            reader.join()
        return f"it exited with code {code}\n{self.log()}"

    def _request(self, method: str, path: str, body: Any = None, accepts_missing: bool = False) -> Any:
        """Sends a request to the test controls, and returns the JSON of the response, if any."""
        # Bypass proxies, whatever the environment configures.
        connection = http.client.HTTPConnection(self._admin, timeout=_REQUEST_TIMEOUT)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {} if body is None else {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            if self._process.poll() is None:
                raise RowhouseError(f"{method} {path} failed: {error}") from error
            raise RowhouseError(f"the server is no longer running: {self._end()}") from error
        finally:
            connection.close()
        if response.status < 300:
            return json.loads(text) if text else None
        if response.status == 404 and accepts_missing:
            return None
        raise RowhouseError(f"{method} {path} was refused: {_reason(text)}")

    def _import(self, folder: str, connection_string: str) -> None:
        """Runs the command that imports a folder into an account."""
        with tempfile.TemporaryDirectory() as state:
            done = subprocess.run(
                [self._program, "import", "--from", os.path.abspath(folder)],
                # The key is not passed on the command line, where other users of the machine could read it.
                env={**_environment(), "ROWHOUSE_TO": connection_string},
                # The command keeps a progress file in its current folder.
                cwd=state,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        if done.returncode != 0:
            raise RowhouseError(f"{folder} was not imported: {done.stderr.strip()}")


def _reason(text: str) -> str:
    """Returns the error message from the response to a refused request."""
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text


def _environment() -> dict[str, str]:
    """Returns the environment without ROWHOUSE_ variables, which a developer may have set for another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROWHOUSE_")}


def _apart() -> dict[str, Any]:
    """Returns the options that start a process which does not receive this process's Ctrl-C."""
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP")}
    return {"start_new_session": True}


def _read_lines(
    stream: IO[str] | None, take: Callable[[str], None], at_end: Callable[[], None] = lambda: None
) -> threading.Thread:
    """Passes the lines of a stream to `take` in a thread, and closes the stream at its end."""
    assert stream is not None, "the process was started with a pipe"

    def read() -> None:
        with stream:
            for line in stream:
                take(line.rstrip("\r\n"))
        at_end()

    thread = threading.Thread(target=read, name="rowhouse", daemon=True)
    thread.start()
    return thread
