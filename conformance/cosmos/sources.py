"""Provides source packages of the official client, which contain recordings and test suites of its makers.

They are downloaded with pip once, checked against their hashes, and kept in a folder. Nothing of them is part of this
repository.
"""

import hashlib
import os
import pathlib
import subprocess
import sys

HASHES = {
    "12.0.0": "f5511630b2ad282932e177aa6090ee9c3be5f9158f9072bc123081919d4892ab",
    "12.2.0": "d214baf781a3a416ae1735d05292347e38174c4fe486dd6e0e4c807692b41c28",
    "12.7.0": "b14fc94a3223a2835ff5688e17d8e107b27c7cd7c4114138f2ac81373723705d",
}

# How often and how long pip tries to reach the registry, in seconds.
PATIENCE = ["--retries", "2", "--timeout", "20"]


def archives(versions, folder):
    """Returns the archive of each version. Exits if one cannot be downloaded: in CI with an error, otherwise with a note."""
    found = {}
    for version in versions:
        archive = in_folder(version, folder)
        if archive is None:
            download(version, folder)
            archive = in_folder(version, folder)
        if archive is None:
            sys.exit(f"the download of azure-data-tables {version} has an unexpected name or hash")
        found[version] = archive
    return found


def in_folder(version, folder):
    """Returns the archive with the expected hash, or None."""
    for archive in pathlib.Path(folder).glob(f"azure[-_]data[-_]tables-{version}.*"):
        if hashlib.sha256(archive.read_bytes()).hexdigest() == HASHES[version]:
            return archive
    return None


def download(version, folder):
    # Without isolation, pip reads the metadata with the build tools of this environment, and downloads no others.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", *PATIENCE,
               "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", folder,
               f"azure-data-tables=={version}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        return
    reason = f"the source package of azure-data-tables {version} cannot be downloaded"
    if os.environ.get("CI") == "true":
        sys.exit(f"{done.stdout}\n{reason}")
    print(f"SKIPPED, because {reason}")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
