"""Runs the Python snippets from the documentation; packages/python/tests runs the snippets about tests."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from issuer import write_certificate

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "docs/getting-started.md"]
LOCAL = "http://127.0.0.1:10002/devstoreaccount1"
# Some snippets start their own server.
BINARY = os.environ.get("ROWHOUSE_BINARY")
needs_binary = pytest.mark.skipif(not BINARY, reason="set ROWHOUSE_BINARY to the server program")


def snippets(kind, language="python"):
    """Returns the fenced blocks whose opening line has the given text after the language, each with the name of its
    page."""
    return list(find(kind, language))


def find(kind, language):
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        for note, body in re.findall(rf"^```{language} ?([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if note.split("=")[0] == kind:
                yield pytest.param(note, body, id=f"{document}-{note or 'script'}")


def run(arguments, folder, **environment):
    """Runs Python, which must succeed, and returns its output."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kind_of_snippet_is_there():
    kinds = [snippets(kind) for kind in ("", "tls")]
    assert [len(found) for found in kinds] == [2, 1]


@pytest.mark.parametrize(("note", "body"), snippets(""))
def test_script(wire, new_name, tmp_path, note, body):
    assert LOCAL in body and '"cars"' in body
    table = new_name()
    body = body.replace(LOCAL, wire.base.rstrip("/")).replace('"cars"', f'"{table}"')
    body = body.replace("devstoreaccount1", wire.account) if wire.account not in body else body
    body = re.sub(r"(AccountKey=)[^;]*", lambda found: found[1] + wire.key, body)
    (tmp_path / "snippet.py").write_text(body, encoding="utf-8")
    assert "0007" in run(["snippet.py"], tmp_path)


@needs_binary
@pytest.mark.parametrize(("note", "body"), snippets("tls"))
def test_script_over_tls(tmp_path, note, body):
    certificate, key = write_certificate(tmp_path)
    os.rename(certificate, tmp_path / "ca.pem")
    command = [BINARY, "serve", "--in-memory", "--listen", "127.0.0.1:0", "--tls-cert", tmp_path / "ca.pem", "--tls-key", key]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().removeprefix("listening on ").strip()
            assert "https://127.0.0.1:10002" in body
            (tmp_path / "snippet.py").write_text(body.replace("https://127.0.0.1:10002", address), encoding="utf-8")
            assert run(["snippet.py"], tmp_path) == "[]\n"
        finally:
            server.kill()
