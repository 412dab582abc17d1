"""connect(): ranks of distributed jobs in a catalogue, asked from Python.

The questions are those of `opmeter job`, which answers them: the same figures whatever the
database. A password in the URL goes to it through the environment.
"""
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Dict, List, Optional
from urllib.parse import unquote, urlsplit

from . import _tool
from ._need import need
from ._opmeter import Error

if TYPE_CHECKING:
    import pandas

_PASSWORD = "OPMETER_CLICKHOUSE_PASSWORD"


def _frame(rows: List[Dict[str, Any]]) -> "pandas.DataFrame":
    return need("pandas", "a DataFrame").DataFrame(rows)


class Fleet:
    """A catalogue: a file such as runs.db, or clickhouse://HOST:8123/DATABASE."""

    def __init__(self, url: Any) -> None:
        self._url, self._env = os.fspath(url), dict(os.environ)
        if "://" in self._url:
            parts = urlsplit(self._url)
            who, at, hosts = parts.netloc.rpartition("@")
            name, colon, password = who.partition(":")
            if colon:
                self._env[_PASSWORD] = unquote(password)
                self._url = parts._replace(netloc=f"{name}{at}{hosts}").geturl()

    def _ask(self, *args: str) -> Any:
        command = _tool.path()
        if command is None:
            raise Error("the opmeter command was not installed with the package")
        done = subprocess.run([command, *args], env=self._env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        if done.returncode:
            message = done.stderr.decode("utf-8", "replace").strip()
            raise Error(message[len("opmeter: "):] if message.startswith("opmeter: ") else message)
        return json.loads(done.stdout or b"[]")

    def rows(self, sql: str) -> List[Dict[str, Any]]:
        """Rows of one SELECT, as dictionaries."""
        return self._ask("query", self._url, sql, "--json")

    def query(self, sql: str) -> "pandas.DataFrame":
        """The same as a DataFrame."""
        return _frame(self.rows(sql))

    def jobs(self) -> "pandas.DataFrame":
        """The jobs that there are, the latest first."""
        return _frame(self._ask("job", self._url, "--json"))

    def hosts(self) -> "pandas.DataFrame":
        """Machines over all jobs: on which of them ranks are late."""
        return _frame(self._ask("job", self._url, "--show", "hosts", "--json"))

    def job(self, job: str) -> "Job":
        """One of them."""
        return Job(self, job)

    def __repr__(self) -> str:
        return f"<opmeter catalogue {self._url!r}>"


class Job:
    """A distributed job. Every table is a DataFrame; `opmeter job --show` prints the same."""

    def __init__(self, fleet: Fleet, job: str) -> None:
        self._fleet, self.id = fleet, job

    def table(self, name: str) -> "pandas.DataFrame":
        """Any table by its name."""
        return _frame(self._fleet._ask("job", self._fleet._url, self.id, "--show", name, "--json"))

    def late(self) -> "pandas.DataFrame":
        """Ranks that the others wait for at collectives, and what that costs the job."""
        return self.table("late")

    def late_ranks(self) -> List[int]:
        """Those of them that hold up the job."""
        rows = self._fleet._ask("job", self._fleet._url, self.id, "--show", "late", "--json")
        return [row["rank"] for row in rows if row["late"]]

    def heatmap(self, value: str = "cost_ns") -> "pandas.DataFrame":
        """Ranks by steps: total_ns, own_ns, waited_ns or cost_ns."""
        return self.table("heatmap").pivot(index="rank", columns="num", values=value)

    def path(self) -> "pandas.DataFrame":
        """The critical path through collectives."""
        return self.table("path")

    def links(self) -> "pandas.DataFrame":
        """Bandwidth by pair and size, and of collectives."""
        return self.table("links")

    def outliers(self) -> "pandas.DataFrame":
        """Operators that take longer on some ranks."""
        return self.table("outliers")

    def ops(self) -> "pandas.DataFrame":
        """Operators over all ranks and steps."""
        return self.table("ops")

    def steps(self) -> "pandas.DataFrame":
        """Steps over ranks."""
        return self.table("steps")

    def drift(self) -> "pandas.DataFrame":
        """Steps over time."""
        return self.table("drift")

    def memory(self) -> "pandas.DataFrame":
        """The most memory of every rank."""
        return self.table("memory")

    def ranks(self) -> "pandas.DataFrame":
        """Every rank: machine, recordings, and where its trace lies."""
        return self.table("ranks")

    def open(self, rank: int) -> Any:
        """The recording of a rank as a trace, if it lies on this machine."""
        from . import trace

        rows = self._fleet._ask("job", self._fleet._url, self.id, "--show", "ranks", "--json")
        paths: List[Optional[str]] = [row["trace"] for row in rows if row["rank"] == rank]
        if not paths:
            raise Error(f"job {self.id} has no rank {rank}")
        return trace.open(paths[0])

    def __repr__(self) -> str:
        return f"<opmeter job {self.id!r} of {self._fleet!r}>"


def connect(url: Any) -> Fleet:
    """A catalogue of ranks and jobs that `opmeter add --job` filled."""
    return Fleet(url)
