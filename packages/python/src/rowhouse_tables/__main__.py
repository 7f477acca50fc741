"""Replaces the interpreter with the program: `python -m rowhouse_tables serve`."""

import os
import subprocess
import sys

from ._program import program_path


def main() -> None:
    try:
        program = str(program_path())
    except FileNotFoundError as error:
        sys.exit(f"rowhouse: {error}")
    command = [program, *sys.argv[1:]]
    if sys.platform != "win32":
        os.execv(program, command)
    # Windows cannot replace a process. The console sends Ctrl-C to both processes, and the program exits first.
    process = subprocess.Popen(command)
    while True:
        try:
            sys.exit(process.wait())
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    main()
