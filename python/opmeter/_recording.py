"""One recording: of this process, and of those that it starts by fork or spawn.

Each process writes a file of its own. A forked child's is NAME-PID.opm beside its parent's, which
is the recorder's doing; programs started meanwhile are asked for the same by the environment. All
of them are parts of the recording.
"""
import os
import re
import shutil
import sys
import tempfile
import weakref

from . import _opmeter

PASSED_ON = ("OPMETER_OUTPUT", "OPMETER_LEVEL", "OPMETER_CATEGORIES")


def _remove(folder, pid):
    if os.getpid() == pid:  # a forked child must not take its parent's files away
        shutil.rmtree(folder, ignore_errors=True)


class Recording:
    """Parts are in a folder that goes with this object, or beside `path` if that is given.

    taking_part: a recording was under way already; this one is a part of it, and reads its file.
    """

    def __init__(self, path=None, categories=None, level=None, buffer_mb=0, overflow="block"):
        self.path = None if path is None else os.path.abspath(os.fspath(path))
        self.options = {"categories": categories, "level": -1 if level is None else level,
                        "buffer_mb": buffer_mb, "overflow": overflow}
        self.taking_part = False
        self.running = False
        self._old_environment = {}
        self._old_parts = set()

    def start(self):
        if self.running:
            raise ValueError("the recording runs already")
        if self.path is None:
            folder = tempfile.mkdtemp(prefix="opmeter-")
            self._folder = weakref.finalize(self, _remove, folder, os.getpid())
            self.path = os.path.join(folder, "trace.opm")
        self._old_parts = set(self._siblings())
        self.taking_part = not _opmeter.start(self.path, **self.options)
        self.running = True
        self.path = _opmeter.path()
        if not self.taking_part:
            self._pass_on()

    def stop(self):
        """Close the file. Its errors are raised after all has been put back in order."""
        if not self.running:
            return
        self.running = False
        self._restore()
        if "opmeter.session" in sys.modules:  # engines that report only when asked
            sys.modules["opmeter.session"].flush()
        _opmeter.stop()

    def parts(self):
        """The files of all processes that recorded something, this one's first."""
        if self.taking_part:
            return [self.path]
        return [self.path] + sorted(path for path in self._siblings()
                                    if path not in self._old_parts)

    def unite(self, trace):
        """Replace the parts by one file, now that `trace` has them all."""
        parts = self.parts()
        if len(parts) == 1 or self.taking_part:
            return
        united = self.path + ".united"
        trace.export(united, "opm")
        os.replace(united, self.path)
        for part in parts[1:]:
            pid = re.search(r"-(\d+)\.opm$", part)
            if not os.path.exists(f"/proc/{pid[1]}"):  # one that still runs still writes
                os.unlink(part)
                if os.path.exists(part + "-live"):
                    os.unlink(part + "-live")

    def _siblings(self):
        folder, name = os.path.split(self.path)
        own = re.compile(re.escape(os.path.splitext(name)[0]) + r"-\d+\.opm")
        try:
            return [os.path.join(folder, other) for other in os.listdir(folder)
                    if own.fullmatch(other)]
        except OSError:
            return []

    def _pass_on(self):
        """Have programs that are started from now on record, too."""
        self._old_environment = {name: os.environ.get(name) for name in PASSED_ON}
        os.environ["OPMETER_OUTPUT"] = os.path.splitext(self.path)[0] + "-%p.opm"
        if self.options["level"] >= 0:
            os.environ["OPMETER_LEVEL"] = str(self.options["level"])
        if self.options["categories"]:
            os.environ["OPMETER_CATEGORIES"] = self.options["categories"]

    def _restore(self):
        for name, value in self._old_environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._old_environment = {}


def _after_fork():
    """In a forked child: have multiprocessing close the child's file, since it leaves by _exit()."""
    _opmeter._forked()
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _stop_quietly, exitpriority=-100)


def _stop_quietly():
    try:
        _opmeter.stop()
    except _opmeter.Error:
        pass  # nothing was recorded, or nobody is left to tell


os.register_at_fork(after_in_child=_after_fork)
