#!/usr/bin/env python3
"""Packs the inputs that fuzzing found into fuzz/corpus.tar.gz. For each target, goes through the inputs from the
shortest to the longest, and keeps each input that reaches an edge of the program that no earlier input reaches.

usage: scripts/pack_corpus.py       after scripts/fuzz.sh, which builds the targets and collects inputs in fuzz/corpus
"""

import gzip
import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

FUZZ = Path(__file__).resolve().parent.parent / "fuzz"
# The maximum size of a packed input, in bytes.
INPUT_BYTES_MAX = 1024


def first_to_reach(program, target, folders):
    """Returns the inputs in the given folders that reach an edge that no shorter input reaches."""
    with tempfile.TemporaryDirectory() as scratch:
        control = Path(scratch, "control")
        merged = Path(scratch, "merged")
        merged.mkdir()
        options = ["-merge=1", f"-max_len={INPUT_BYTES_MAX}", f"-merge_control_file={control}"]
        environment = os.environ | {"FUZZ_TARGET": target}
        subprocess.run([program, *options, merged, *folders], check=True, stderr=subprocess.DEVNULL, env=environment)
        lines = control.read_text().splitlines()
    # The lines contain the number of inputs, the number of inputs in the first folder, the inputs in order of length,
    # and the edges that each input reaches.
    inputs = lines[2 : 2 + int(lines[0])]
    reached = (line.split() for line in lines[2 + len(inputs) :])
    return [Path(inputs[int(words[1])]) for words in reached if words[:1] == ["COV"] and len(words) > 2]


def main():
    target_folder = Path(os.environ.get("FUZZ_TARGET_DIR", FUZZ / "target"))
    packed = io.BytesIO()
    count = 0
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed, tarfile.open(fileobj=compressed, mode="w") as archive:
        (program,) = target_folder.glob("*/release/rowhouse-fuzz")
        for seeds in sorted((FUZZ / "seeds").iterdir()):
            target = seeds.name
            corpus = FUZZ / "corpus" / target
            chosen = [path for path in first_to_reach(program, target, [seeds, corpus]) if path.parent == corpus]
            for path in sorted(chosen):
                entry = tarfile.TarInfo(f"corpus/{target}/{path.name}")
                entry.size = path.stat().st_size
                archive.addfile(entry, io.BytesIO(path.read_bytes()))
            count += len(chosen)
    (FUZZ / "corpus.tar.gz").write_bytes(packed.getvalue())
    print(f"{count} inputs in {len(packed.getvalue())} bytes")


if __name__ == "__main__":
    main()
