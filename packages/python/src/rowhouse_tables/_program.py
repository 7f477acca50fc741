"""Finds the program that the wheel brought."""

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

_NAME = "rowhouse.exe" if sys.platform == "win32" else "rowhouse"


def program_path() -> Path:
    """The absolute path of the program: ROWHOUSE_BINARY if that is set, else that of the installed wheel.

    Raises FileNotFoundError, with a message that says what to do, if there is none.
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
        "the program of the package rowhouse-tables is not there: install the wheel "
        "of this platform (pip install ./rowhouse_tables-*.whl), or set ROWHOUSE_BINARY to the path of a program"
    )


def _installed() -> Iterator[Path]:
    """Where the program may be, the likely place first."""
    # The list of installed files says where the scripts of this environment are, be it a virtual or a user's one.
    try:
        files = metadata.files("rowhouse-tables") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _NAME and file.parent.name in ("bin", "Scripts"):
            yield Path(str(file.locate())).resolve()
    # `pip install --target` moves scripts, and does not correct the list.
    yield Path(__file__).resolve().parent.parent / "bin" / _NAME
