"""An issuer of bearer tokens and a server under test that trusts it, both started on this machine for one run.

`Issuer` serves a discovery document and a key set over plain HTTP and signs tokens with a new key. `Server` is the
server under test with a new certificate, because the official client sends tokens only over HTTPS.
"""

import base64
import datetime
import http.server
import ipaddress
import json
import subprocess
import threading
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

AUDIENCE = "https://storage.azure.com"
TENANT = "66666666-7777-8888-9999-000000000000"


def encode(content):
    """Returns Base64 in the form used in tokens (URL-safe, without padding)."""
    if not isinstance(content, bytes):
        content = json.dumps(content).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Issuer:
    """A running issuer, which stops at the end of its `with` block."""

    def __init__(self):
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(issuer.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"http://127.0.0.1:{self.server.server_port}"

    def document(self, path):
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.name, "jwks_uri": f"{self.name}/keys"}
        numbers = self.key.public_key().public_numbers()
        modulus = encode(numbers.n.to_bytes(256, "big"))
        return {"keys": [{"kty": "RSA", "use": "sig", "kid": "k1", "n": modulus, "e": encode(b"\x01\x00\x01")}]}

    def token(self, oid, **change):
        """Returns a token for a principal. `change` replaces claims."""
        now = int(time.time())
        claims = {"iss": self.name, "aud": AUDIENCE, "iat": now, "nbf": now, "exp": now + 3600, "oid": oid, "sub": oid}
        text = f"{encode({'typ': 'JWT', 'alg': 'RS256', 'kid': 'k1'})}.{encode({**claims, **change})}"
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{encode(signature)}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def write_certificate(folder):
    """Creates files with a certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    builder = builder.add_extension(names, False).add_extension(x509.BasicConstraints(True, 0), True)
    certificate = builder.sign(key, hashes.SHA256())
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
    return paths


class Server:
    """The server under test, with TLS and a configuration. It stops at the end of its `with` block."""

    def __init__(self, binary, folder, configuration):
        self.certificate, key = write_certificate(folder)
        path = folder / "rowhouse.toml"
        path.write_text(configuration)
        arguments = ["serve", "--in-memory", "--listen", "127.0.0.1:0", "--config", path]
        arguments += ["--tls-cert", self.certificate, "--tls-key", key]
        self.process = subprocess.Popen([binary, *arguments], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on https://"), line
        self.endpoint = line.split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()
