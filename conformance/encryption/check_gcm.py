"""Decrypts the entity in `authenticated.txt` without the library, to check the format that docs/client-encryption.md
describes.

usage: check_gcm.py (needs only the package `cryptography`)
"""

import base64
import json
import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

PARTITION, ROW = "Größe", "r"
KEY_ENCRYPTION_KEY = bytes(range(32))
VECTOR = Path(__file__).parent.parent.parent / "client/src/encryption/vectors/authenticated.txt"


def context(name, edm_type):
    return b"".join(struct.pack(">I", len(part)) + part for part in (text.encode() for text in (PARTITION, ROW, name, edm_type)))


entity = dict(line.split(" = ", 1) for line in VECTOR.read_text(encoding="utf-8").splitlines())
metadata = json.loads(entity["_ClientEncryptionMetadata1"])
assert metadata["EncryptionAgent"] == {"Protocol": "1.0", "EncryptionAlgorithm": "AES_GCM_256_ROWHOUSE"}
wrapped = metadata["WrappedContentKey"]
assert (wrapped["KeyId"], wrapped["Algorithm"]) == ("key-aes", "A256KW")
content_key = aes_key_unwrap(KEY_ENCRYPTION_KEY, base64.b64decode(wrapped["EncryptedKey"]))
salt = base64.b64decode(metadata["ContentEncryptionIV"])
cipher = AESGCM(HKDF(SHA256(), 32, salt, b"rowhouse-client AES-256-GCM 1").derive(content_key))


def value(number, name, edm_type):
    return cipher.decrypt(number.to_bytes(12, "big"), bytes.fromhex(entity[name]), context(name, edm_type))


names = json.loads(value(0, "_ClientEncryptionMetadata2", "Edm.String"))
assert names == [["Secret", "Edm.String"], ["Count", "Edm.Int32"]], names
values = [value(at + 1, name, edm_type) for at, (name, edm_type) in enumerate(names)]
assert values == ["attack at dawn".encode(), (-7).to_bytes(4, "big", signed=True)], values
print("ok decrypted the entity of authenticated.txt")
