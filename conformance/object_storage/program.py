"""Rowhouse: a server with a data folder, and the commands for backups."""

import json
import os
import queue
import re
import signal
import subprocess
import threading

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableServiceClient

from services import ACCOUNT, ACCOUNT_KEY

PROGRAM = os.environ.get("ROWHOUSE_BINARY", "rowhouse")


def environment(service, **variables):
    other = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_", "ROWHOUSE_"))}
    return other | service.variables | variables


class Server:
    def __init__(self, data):
        self.data = data

    def __enter__(self):
        command = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data", str(self.data), "--keep-log", "1h"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if found := re.search(r"listening on (http://\S+)", line):
                break
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        credential = AzureNamedKeyCredential(ACCOUNT, ACCOUNT_KEY)
        self.table = TableServiceClient(f"{found[1]}/{ACCOUNT}", credential=credential).get_table_client("Cars")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait() == 0

    def put(self, first, count, value):
        """Writes entities of 1 KiB that differ from each other."""
        for start in range(first, first + count, 100):
            rows = range(start, min(start + 100, first + count))
            self.table.submit_transaction([("upsert", entity(row, value)) for row in rows])

    def state(self):
        return {found["RowKey"]: (found["Value"], found.metadata["etag"]) for found in self.table.list_entities()}


def entity(row, value):
    return {"PartitionKey": "p", "RowKey": f"{row:06}", "Value": value, "Fill": os.urandom(512).hex()}


def run(service, *arguments, **variables):
    """Runs a command. Returns its exit code, its output and its messages."""
    env = environment(service, **variables)
    done = subprocess.run([PROGRAM, *map(str, arguments)], env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def succeed(service, *arguments):
    """Runs a command that must succeed. Returns the objects that it prints."""
    code, output, messages = run(service, *arguments, "--json")
    assert code == 0, messages
    return [json.loads(line) for line in output.splitlines()]


def back_up(repository, server, *options):
    return succeed(repository.service, "backup", "--data", server.data, "--to", repository.address, *options)[0]


def restore(repository, folder, *options):
    """Restores into a folder, and returns what a server reads from it."""
    succeed(repository.service, "restore", "--from", repository.address, "--data", folder, *options)
    with Server(folder) as restored:
        return restored.state()


class Follower:
    """A running `backup --follow`."""

    def __init__(self, repository, server, every="1s"):
        command = [PROGRAM, "backup", "--data", server.data, "--to", repository.address, "--follow", "--every", every, "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment(repository.service), text=True, **pipes)
        self.steps, self.messages = queue.Queue(), queue.Queue()
        self.threads = []
        for source, target in [(self.process.stdout, self.steps), (self.process.stderr, self.messages)]:
            read = lambda source=source, target=target: [target.put(line) for line in source]
            self.threads.append(threading.Thread(target=read))
            self.threads[-1].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.code = self.process.wait()
        for thread in self.threads:
            thread.join()

    def wait_for_step(self, is_wanted):
        while not is_wanted(step := json.loads(self.steps.get(timeout=120))):
            pass
        return step

    def wait_until_covered(self, time):
        return self.wait_for_step(lambda step: step.get("restorable_to", "") >= time)

    def wait_for_message(self, text):
        while text not in (message := self.messages.get(timeout=120)):
            pass
        return message
