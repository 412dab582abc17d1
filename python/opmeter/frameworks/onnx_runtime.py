"""ONNX Runtime: its own profile of every session."""
import itertools
import weakref

from . import at_end, folder, part

_numbers = itertools.count()


def install(onnxruntime):
    """Profile sessions that are made from now on; those that the program profiles are left
    alone."""
    if folder() is None:
        return
    session = onnxruntime.InferenceSession
    make = session.__init__
    options = onnxruntime.SessionOptions
    live = weakref.WeakSet()

    def __init__(self, path_or_bytes, sess_options=None, *args, **kwargs):
        given = sess_options if sess_options is not None else options()
        if given.enable_profiling:
            make(self, path_or_bytes, sess_options, *args, **kwargs)
            return
        prefix = given.profile_file_prefix
        given.enable_profiling = True
        given.profile_file_prefix = part(f"ort-{next(_numbers)}")
        try:
            make(self, path_or_bytes, given, *args, **kwargs)
        finally:  # they are the caller's
            given.enable_profiling = False
            given.profile_file_prefix = prefix
        live.add(self)

    def end():
        for one in list(live):
            one.end_profiling()  # one that is gone has written its profile

    session.__init__ = __init__
    at_end(end)
