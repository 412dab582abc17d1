"""program.py -- ask the program under test. Nothing else here knows how it is called."""
import json
import os
import subprocess
from pathlib import Path

PATIENCE = int(os.environ.get("OPMETER_TEST_PATIENCE", "1"))  # times the seconds that a command has


class Unanswered(Exception):
    """opmeter ended with a failure instead of an answer."""


class Opmeter:
    """The program of a build. Every question is a fresh process, as it is for a user."""

    def __init__(self, build):
        self.build = Path(build).resolve()
        self.program = self.build / "opmeter"

    def text(self, *args, cwd=None, env=None, timeout_s=300):
        done = subprocess.run([self.program, *map(str, args)], cwd=cwd, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=timeout_s * PATIENCE)
        if done.returncode != 0:
            raise Unanswered(f"opmeter {args[0]}: exit status {done.returncode}: "
                             + done.stderr.decode("utf-8", "replace").strip()[:300])
        return done.stdout.decode("utf-8", "replace")

    def json(self, *args, **how):
        return json.loads(self.text(*args, **how))

    def query(self, traces, sql):
        """The rows of a query, as dictionaries. `traces`: one path or several."""
        if isinstance(traces, (str, Path)):
            traces = [traces]
        return self.json("query", "--json", *traces, sql)

    def value(self, traces, sql):
        """The only value of the only row; None if there is no row."""
        rows = self.query(traces, sql)
        return next(iter(rows[0].values())) if rows else None
