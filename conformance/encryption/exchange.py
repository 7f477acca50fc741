"""Writes and reads encrypted entities through `azure-cosmosdb-table` 1.0.

usage: exchange.py write TABLE | read TABLE WRITER | refuse TABLE WRITER | tamper TABLE WRITER | dump TABLE

`tamper` changes a byte in copies of one entity and stores the copies in two other tables, because a copy in the same
table would need a different key. `refuse` expects that these copies cannot be read. `dump` prints the shorter entities
as they are stored.
"""

import base64
import json
import os
import sys
from pathlib import Path

from azure.common import AzureException
from azure.cosmosdb.table import EdmType, EntityProperty, TableService
from azure.cosmosdb.table.common.retry import no_retry
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
from cryptography.hazmat.primitives.serialization import load_pem_private_key

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "legacy_python"))

from address import DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Address  # noqa: E402, F401

WRITER = "python"
AES_SECRET = bytes(range(32))
VECTORS = HERE.parent.parent / "client/src/encryption/vectors"
METADATA = ["_ClientEncryptionMetadata1", "_ClientEncryptionMetadata2"]
# The entity to change, and a property whose ciphertext has at least two blocks.
CHANGED_PARTITION, CHANGED_ROW, CHANGED_PROPERTY = "long", "row", "Third"


class AesKey:
    def __init__(self, kid, secret):
        self.kid, self.secret = kid, secret

    def wrap_key(self, key):
        return aes_key_wrap(self.secret, key)

    def unwrap_key(self, key, algorithm):
        assert algorithm == "A256KW", algorithm
        return aes_key_unwrap(self.secret, key)

    def get_key_wrap_algorithm(self):
        return "A256KW"

    def get_kid(self):
        return self.kid


class RsaKey:
    padding = OAEP(mgf=MGF1(algorithm=SHA1()), algorithm=SHA1(), label=None)

    def __init__(self, kid, pem):
        self.kid, self.private = kid, load_pem_private_key(pem, password=None)

    def wrap_key(self, key):
        return self.private.public_key().encrypt(key, self.padding)

    def unwrap_key(self, key, algorithm):
        assert algorithm == "RSA-OAEP", algorithm
        return self.private.decrypt(key, self.padding)

    def get_key_wrap_algorithm(self):
        return "RSA-OAEP"

    def get_kid(self):
        return self.kid


KEYS = {"aes": AesKey("key-aes", AES_SECRET), "rsa": RsaKey("local:key-rsa", (VECTORS / "rsa-for-tests.pem").read_bytes())}


def text(value):
    count, star, piece = value.partition("*")
    return piece * int(count) if star and count.isdigit() else value


def cases():
    """Returns the entities in `cases.txt`: partition key, row key, properties, and encrypted property names."""
    found = []
    for line in (VECTORS / "cases.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        kind, first, second = line.split("\t")
        if kind == "entity":
            found.append((first, second, {}, []))
            continue
        found[-1][2][first] = int(second) if kind == "int32" else text(second)
        if kind == "encrypted":
            found[-1][3].append(first)
    return found


def connect(key=None):
    address = Address.from_environment()
    service = TableService(account_name=address.account, account_key=address.key, protocol=address.protocol,
                           endpoint_suffix=address.suffix.removeprefix(".table."))
    service.retry = no_retry
    service.key_encryption_key = key
    return service


def write(table):
    for kind, key in KEYS.items():
        service = connect(key)
        for partition, row, properties, encrypted in cases():
            entity = {name: EntityProperty(EdmType.INT32, value) if isinstance(value, int) else value for name, value in properties.items()}
            service.encryption_resolver_function = lambda _partition, _row, name, encrypted=encrypted: name in encrypted
            service.insert_entity(table, {"PartitionKey": partition, "RowKey": f"{WRITER}-{kind}-{row}", **entity})
            print(f"ok wrote {kind} {partition}")


def plain(value):
    return value.value if isinstance(value, EntityProperty) else value


def read(table, writer):
    for kind, key in KEYS.items():
        service = connect(key)
        service.require_encryption = True
        for partition, row, properties, _ in cases():
            entity = service.get_entity(table, partition, f"{writer}-{kind}-{row}")
            found = {name: plain(value) for name, value in entity.items() if name not in ("PartitionKey", "RowKey", "Timestamp", "etag")}
            assert found == properties, (writer, kind, partition, found)
            print(f"ok read {writer} {kind} {partition}")
        # If a query selects properties, the library adds the encryption metadata to the selection.
        [found] = service.query_entities(table, f"PartitionKey eq 'plain' and RowKey eq '{writer}-{kind}-row'", "PartitionKey,RowKey,Secret")
        assert found["Secret"] == "attack at dawn" and "Open" not in found, found
        print(f"ok selected {writer} {kind}")
    # One resolver provides both keys.
    service = connect()
    service.key_resolver_function = {key.get_kid(): key for key in KEYS.values()}.get
    for kind in KEYS:
        assert service.get_entity(table, "plain", f"{writer}-{kind}-row")["Secret"] == "attack at dawn"
    print(f"ok resolved {writer}")


def tamper(table, writer):
    service = connect()
    stored = service.get_entity(table, CHANGED_PARTITION, f"{writer}-aes-{CHANGED_ROW}")
    del stored["etag"]

    # Changing the last byte before the last block makes the padding longer than a block.
    changed = bytearray(stored[CHANGED_PROPERTY].value)
    changed[-17] ^= 0xFF
    service.create_table(table + "Value")
    service.insert_entity(table + "Value", {**stored, CHANGED_PROPERTY: EntityProperty(EdmType.BINARY, bytes(changed))})

    metadata = json.loads(stored[METADATA[0]])
    wrapped = bytearray(base64.b64decode(metadata["WrappedContentKey"]["EncryptedKey"]))
    wrapped[20] ^= 1
    metadata["WrappedContentKey"]["EncryptedKey"] = base64.b64encode(wrapped).decode()
    service.create_table(table + "Wrapped")
    service.insert_entity(table + "Wrapped", {**stored, METADATA[0]: json.dumps(metadata)})
    print(f"ok changed {writer}")


def refused(what, service, table, partition, row):
    try:
        found = service.get_entity(table, partition, row)
    except (AzureException, ValueError) as failure:
        print(f"ok refused {what}: {failure}")
        return
    raise SystemExit(f"{what} was read: {found}")


def refuse(table, writer):
    row = f"{writer}-aes-{CHANGED_ROW}"
    if writer.endswith("gcm"):
        refused(f"{writer}", connect(KEYS["aes"]), table, CHANGED_PARTITION, row)
        return
    for changed in ["Value", "Wrapped"]:
        refused(f"a changed {changed} of {writer}", connect(KEYS["aes"]), table + changed, CHANGED_PARTITION, row)
    refused(f"another key for {writer}", connect(AesKey("key-aes", bytes(32))), table, CHANGED_PARTITION, row)
    refused(f"a missing key for {writer}", connect(AesKey("key-other", AES_SECRET)), table, CHANGED_PARTITION, row)


def dump(table):
    found = []
    for entity in connect().query_entities(table, "PartitionKey ne 'long'"):
        properties = {}
        for name, value in sorted(entity.items()):
            if name in ("PartitionKey", "RowKey", "Timestamp", "etag"):
                continue
            is_binary = isinstance(value, EntityProperty) and value.type == EdmType.BINARY
            properties[name] = {"binary": base64.b64encode(value.value).decode()} if is_binary else plain(value)
        found.append({"partition": entity["PartitionKey"], "row": entity["RowKey"], "properties": properties})
    json.dump(found, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    action, *arguments = sys.argv[1:]
    {"write": write, "read": read, "refuse": refuse, "tamper": tamper, "dump": dump}[action](*arguments)
