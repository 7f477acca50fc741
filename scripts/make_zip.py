#!/usr/bin/env python3
"""Packs a folder as a zip archive whose bytes depend only on the names, the contents and the given time.

usage: scripts/make_zip.py FOLDER ARCHIVE SECONDS
"""

import sys
import time
import zipfile
from pathlib import Path


def main() -> None:
    folder, archive, seconds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    moment = time.gmtime(seconds)[:6]
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix(), moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Make all entries regular Unix files, whatever system they are packed on. Programs are executable.
            entry.create_system = 3
            entry.external_attr = (0o100755 if path.parent.name == "bin" else 0o100644) << 16
            packed.writestr(entry, path.read_bytes(), compresslevel=9)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
