"""Traces: whatever the opmeter command reads, asked in SQL."""
import os

from . import _opmeter
from ._reports import Reports
from .frames import Frames


def open(*paths, format=None, max_bytes=0, meta=None, max_memory=0, max_seconds=0,
         capture=None):
    """Open a trace of any format, or several as one (processes, ranks, instances).

    format names an importer instead of having it detected; meta adds facts that analyses look at
    (`step.fp_point`, `step.bp_point`). What unpacks to more than max_bytes, or takes more memory
    (bytes) or time (seconds) to read, is refused; 0 is the default of the opmeter command. capture:
    a file or folder, or several, with the capture of graphs that the trace replays, from which their
    kernels take operators. Raises opmeter.Error.
    """
    if isinstance(capture, (str, bytes, os.PathLike)):
        capture = (capture,)
    if len(paths) == 1 and isinstance(paths[0], (list, tuple)):
        paths = tuple(paths[0])
    if not paths:
        raise TypeError("open() needs at least one path")
    handle = _opmeter.open_trace(paths, format=format, max_bytes=max_bytes, meta=meta,
                                 max_memory=max_memory, max_seconds=max_seconds, captures=capture)
    return Trace(handle, paths)


class Trace(Frames, Reports):
    """An open trace. A context manager; may be used from any thread.

    It has the reports of profile(), so that a file that one left, such as its CSV, gives them again.
    """

    def __init__(self, handle, paths):
        self._handle = handle
        self.paths = tuple(os.fspath(path) for path in paths)

    @property
    def trace(self):
        return self

    def rows(self, sql):
        """The rows of a query, as a list of dicts."""
        names, rows = self._handle.query(sql)
        return [dict(zip(names, row)) for row in rows]

    def value(self, sql):
        """The first cell of a query's first row; None if there is no row."""
        _, rows = self._handle.query(sql)
        return rows[0][0] if rows else None

    def export(self, path, format, table=None):
        """Write the trace in another format; formats() of this module lists them."""
        self._handle.export(format, path, table=table)

    def close(self):
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __repr__(self):
        return f"<opmeter trace {', '.join(map(str, self.paths))}>"
