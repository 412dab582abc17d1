"""machine.py -- which instruction sets the machine under test has, and how much time it needs."""
import os
import re
import subprocess
import tempfile
from pathlib import Path

PATIENCE = int(os.environ.get("OPMETER_TEST_PATIENCE", "1"))  # times the seconds that a command has


def instruction_sets(opmeter):
    """Names that OPMETER_ISA may have, plain C first."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([Path(opmeter).resolve(), "run", "zoo:mlp"], cwd=folder, text=True,
                              env={**os.environ, "OPMETER_ISA": "none-such"}, capture_output=True,
                              timeout=60 * PATIENCE)
    told = re.search(r"no such instruction set; there is: (.+)", done.stderr)
    if not told:
        raise RuntimeError(f"which instruction sets are there? {done.stderr}")
    return told[1].split(", ")
