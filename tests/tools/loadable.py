"""loadable.py -- which libraries a program under test can load: one for another machine, as an emulator
runs it, or with another C library finds none of those that Python finds."""
import ctypes
import os
import subprocess


def loads(program, library):
    """Whether this machine has a library for Python, and its loader has one for the program."""
    with open(program, "rb") as file:
        if b"/ld-musl-" in file.read(4096):
            return False
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    # The loader says what it cannot load first. Sanitizers would rather come first themselves.
    sanitizers = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    done = subprocess.run([program, "--version"], capture_output=True, text=True,
                          env={**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": sanitizers})
    return done.returncode == 0 and library not in done.stderr
