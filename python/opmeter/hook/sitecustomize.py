"""Run by every Python that `opmeter record` starts, whose PYTHONPATH begins with this folder.

Watches for frameworks being imported, then gives way to the sitecustomize that Python would have
found otherwise. Nothing here may fail the program.
"""
import sys


def _watch():
    try:
        import opmeter_hook
        opmeter_hook.watch()
    except Exception as error:
        sys.stderr.write(f"opmeter: this Python is not recorded: {error!r}\n")


def _next():
    """The sitecustomize of the user, of a virtual environment or of the distribution, if any."""
    import importlib.machinery
    import importlib.util
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    rest = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_watch()
_next()
