"""The opmeter command that came with the package."""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def path():
    """The command: the package's own, else the build folder's or an installed one; or None."""
    for own in (os.path.join(HERE, "bin", "opmeter"), os.path.join(HERE, "..", "..", "opmeter")):
        if os.path.isfile(own) and os.access(own, os.X_OK):
            return os.path.normpath(own)
    return shutil.which("opmeter")


def provide():
    """The recorder has the command convert what the environment asked for; tell it where it is."""
    if not os.environ.get("OPMETER_TOOL") and shutil.which("opmeter") is None and path():
        os.environ["OPMETER_TOOL"] = path()


def main():
    """`opmeter`, where pip has installed it."""
    command = path()
    if command is None:
        sys.exit("opmeter: the command was not installed with the package")
    os.execv(command, ["opmeter", *sys.argv[1:]])
