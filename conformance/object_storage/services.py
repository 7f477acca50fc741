"""Storage services, behind a proxy that can be disconnected."""

import select
import socket
import threading
import time
import urllib.request
from dataclasses import dataclass

import boto3
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import BlobServiceClient

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
BUCKET = "rowhouse"


# An address at which nothing listens.
CLOSED = "127.0.0.1:1"
reservations = []


def free_port():
    """Returns a port that no other test gets: all of them reserve ports as test-support/src/port.rs does."""
    for port in range(12000, 20000):
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            reservation.close()
            continue
        reservations.append(reservation)
        return port
    raise AssertionError("all ports for tests are in use")


def wait_until_open(port, process):
    for _ in range(2400):
        assert process.poll() is None, "the service ended"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError("the service did not start")


class Proxy:
    """Forwards connections to a port. While it is disconnected, it accepts none, and existing ones break."""

    def __init__(self, target):
        self.target = target
        self.port = free_port()
        self.listener = None
        self.connections = set()
        # The number of bytes that clients may still send. None if there is no limit.
        self.bytes_left = None

    def connect(self):
        self.bytes_left = None
        if self.listener is None:
            self.listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self.accept, args=[self.listener], daemon=True).start()

    def disconnect(self):
        if self.listener is not None:
            # Also wakes up the thread that accepts connections.
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        for connection in list(self.connections):
            connection.close()
        self.connections.clear()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=[client], daemon=True).start()

    def forward(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            self.connections |= {client, server}
            try:
                while True:
                    for source in select.select([client, server], [], [])[0]:
                        data = source.recv(65536)
                        if not data:
                            return
                        if source is client and self.bytes_left is not None:
                            self.bytes_left -= len(data)
                            while self.bytes_left is not None and self.bytes_left < 0:
                                time.sleep(0.05)
                        (server if source is client else client).sendall(data)
            except (OSError, ValueError):
                return
            finally:
                self.connections -= {client, server}


@dataclass
class Place:
    """A prefix in a bucket."""

    service: "S3 | Blob"
    prefix: str

    @property
    def address(self):
        return f"{self.service.scheme}://{BUCKET}/{self.prefix}"

    def names(self, folder=""):
        start = len(self.prefix) + 1
        return sorted(name[start:] for name in self.service.names(f"{self.prefix}/{folder}"))

    def read(self, name):
        return self.service.read(f"{self.prefix}/{name}")

    def write(self, name, content):
        self.service.write(f"{self.prefix}/{name}", content)

    def delete(self, name):
        self.service.delete(f"{self.prefix}/{name}")


class Service:
    def __init__(self, port):
        self.proxy = Proxy(port)
        self.connect()

    def connect(self):
        self.proxy.connect()

    def close(self):
        self.proxy.disconnect()

    def place(self, prefix):
        return Place(self, prefix)


class S3(Service):
    scheme = "s3"
    denied = "check AWS_ACCESS_KEY_ID"
    missing = "the bucket 'no-such-place' does not exist"

    def __init__(self, port):
        super().__init__(port)
        url = f"http://127.0.0.1:{port}"

        def client(name, key="admin", secret="admin"):
            return boto3.client(name, endpoint_url=url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret)

        iam = client("iam")
        iam.create_user(UserName="backup")
        policy = '{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}'
        iam.put_user_policy(UserName="backup", PolicyName="all", PolicyDocument=policy)
        key = iam.create_access_key(UserName="backup")["AccessKey"]
        self.client = client("s3", key["AccessKeyId"], key["SecretAccessKey"])
        self.client.create_bucket(Bucket=BUCKET)
        # From here on, Moto checks credentials.
        headers = {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset-auth", b"0", headers)).close()
        self.variables = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.port}",
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
            "AWS_REGION": "us-east-1",
        }
        self.wrong_key = {"AWS_SECRET_ACCESS_KEY": "wrong"}
        self.unreachable = {"AWS_ENDPOINT_URL": f"http://{CLOSED}"}

    def names(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def read(self, name):
        return self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read()

    def write(self, name, content):
        self.client.put_object(Bucket=BUCKET, Key=name, Body=content)

    def delete(self, name):
        self.client.delete_object(Bucket=BUCKET, Key=name)


class Blob(Service):
    scheme = "az"
    denied = "check AZURE_STORAGE_ACCOUNT_NAME"
    missing = "the container 'no-such-place' does not exist"

    def __init__(self, port):
        super().__init__(port)
        client = BlobServiceClient(f"http://127.0.0.1:{port}/{ACCOUNT}", ACCOUNT_KEY)
        self.container = client.get_container_client(BUCKET)
        try:
            self.container.create_container()
        except ResourceExistsError:
            pass
        self.variables = {
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.proxy.port}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
        }
        self.wrong_key = {"AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc="}
        self.unreachable = {"AZURE_STORAGE_ENDPOINT": f"http://{CLOSED}/{ACCOUNT}"}

    def names(self, prefix):
        return list(self.container.list_blob_names(name_starts_with=prefix))

    def read(self, name):
        return self.container.download_blob(name).readall()

    def write(self, name, content):
        self.container.upload_blob(name, content, overwrite=True)

    def delete(self, name):
        self.container.delete_blob(name)
