"""Frameworks that are recorded without a change to the program.

Each module has install(framework), called when the framework has been imported, while
OPMETER_RECORD_DIR says where the parts of a recording go. What a framework's own profiler writes
goes there too, and becomes one trace with the rest.
"""
import atexit
import os
import sys
from multiprocessing import util

_registered = False
_finishers = []
# What is to be written at the end is the parent's.
os.register_at_fork(after_in_child=_finishers.clear)


def folder():
    """Where the parts of the recording under way go; None: there is none."""
    return os.environ.get("OPMETER_RECORD_DIR") or None


def part(name):
    """The path of a part of this process."""
    return os.path.join(folder(), f"{os.getpid()}.{name}")


def say(text):
    """A line for the user."""
    sys.stderr.write(f"opmeter: {text}\n")


def at_end(function):
    """Call it once, when this process ends or the recording does."""
    global _registered
    if not _registered:
        _registered = True
        atexit.register(finish)
        # Processes of multiprocessing end without atexit, and begin without what was to be
        # finalised in their parent.
        _finalize()
        util.register_after_fork(finish, _finalize)
    _finishers.append(function)


def _finalize(_=None):
    util.Finalize(None, finish, exitpriority=100)


def finish():
    """Have all frameworks write what they have. More than once is fine."""
    while _finishers:
        function = _finishers.pop()
        try:
            function()
        except Exception as error:
            say(f"a part of the recording is lost: {type(error).__name__}: {error}")
