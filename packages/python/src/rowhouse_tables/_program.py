"""Finds the program that the wheel installed."""

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

_NAME = "rowhouse.exe" if sys.platform == "win32" else "rowhouse"


def program_path() -> Path:
    """Returns the absolute path of the program: ROWHOUSE_BINARY if set, or else the program of the installed wheel.

    Raises FileNotFoundError if the program is missing. The message explains what to do.
    """
    chosen = os.environ.get("ROWHOUSE_BINARY")
    if chosen:
        program = Path(chosen).absolute()
        if not program.is_file():
            raise FileNotFoundError(f"ROWHOUSE_BINARY names a file that does not exist: {chosen}")
        return program
    for program in _installed():
        if program.is_file():
            return program
    raise FileNotFoundError(
        "the program of the package rowhouse-tables is missing: install the wheel "
        "for this platform (pip install ./rowhouse_tables-*.whl), or set ROWHOUSE_BINARY to the path of a program"
    )


def _installed() -> Iterator[Path]:
    """Yields the possible paths of the program, starting with the most likely one."""
    # The list of installed files contains the scripts of this environment, whether it is a virtual or a user
    # environment.
    try:
        files = metadata.files("rowhouse-tables") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _NAME and file.parent.name in ("bin", "Scripts"):
            yield Path(str(file.locate())).resolve()
    # `pip install --target` moves scripts without updating the list.
    yield Path(__file__).resolve().parent.parent / "bin" / _NAME
