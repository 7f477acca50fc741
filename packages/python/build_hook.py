"""Puts the program into the wheel as a script of the environment, and sets the wheel's platform tag.

scripts/package-python.sh passes both in environment variables. An editable installation needs neither of them: it runs
the program that ROWHOUSE_BINARY names.
"""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            return
        program, tag = os.environ.get("WHEEL_PROGRAM"), os.environ.get("WHEEL_TAG")
        if not program or not tag:
            raise SystemExit("a wheel of rowhouse-tables contains the program: build it with scripts/package-python.sh")
        build_data["pure_python"] = False
        build_data["tag"] = tag
        build_data["shared_scripts"] = {program: Path(program).name}
