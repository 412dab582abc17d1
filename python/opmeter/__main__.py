"""python -m opmeter [-o FILE] [-m MODULE | SCRIPT] ARGUMENTS: run a program and record it.

Frameworks that it imports are recorded too, and so are the processes that it starts.
"""
import argparse
import datetime
import importlib.util
import os
import runpy
import shutil
import sys

from . import Error, _opmeter, frameworks
from . import open as open_trace


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m opmeter", usage="python -m opmeter [-o FILE] [-m MODULE | SCRIPT] ...",
        description="Run a Python program and record it, with the frameworks that it imports and "
        "the processes that it starts.")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="where the trace goes; the extension picks the format "
                        "(default: opmeter.out/NAME_DATE.opm)")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module as a script")
    parser.add_argument("--level", type=int, choices=range(4), default=None,
                        help="1: application, 2: and framework, 3: all")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT ...",
                        help="the program and its arguments")
    args = parser.parse_args(arguments)
    words = args.program
    if words and words[0] == "--":
        words = words[1:]
    if not words and not args.module:
        parser.error("what is to be run?")
    args.script = None if args.module else words[0]
    args.words = words if args.module else words[1:]
    return args


def default_output(args):
    name = args.module or os.path.splitext(os.path.basename(args.script))[0]
    when = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    return os.path.join("opmeter.out", f"{name}_{when}.opm")


def format_of(path):
    """The export format that a file's extension stands for."""
    extension = os.path.splitext(path)[1]
    for name, known, _ in _opmeter.export_formats():
        if known == extension:
            return name
    raise SystemExit(f"opmeter: no format has the extension {extension!r}: {path}")


def watch(parts, level):
    """Record this process and those that it starts."""
    hook = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook")
    os.environ["OPMETER_RECORD_DIR"] = parts
    os.environ["OPMETER_OUTPUT"] = os.path.join(parts, "%p.opm")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [hook] + [path for path in [os.environ.get("PYTHONPATH")] if path])
    if level is not None:
        os.environ["OPMETER_LEVEL"] = str(level)
    _opmeter.start(os.path.join(parts, f"{os.getpid()}.opm"), level=-1 if level is None else level)
    spec = importlib.util.spec_from_file_location("opmeter_hook",
                                                  os.path.join(hook, "opmeter_hook.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.watch()


def run(args):
    """The program, in place of this one. Its exceptions are its own."""
    if args.module:
        sys.argv = [args.module] + args.words
        sys.path.insert(0, os.getcwd())
        runpy.run_module(args.module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [args.script] + args.words
        sys.path.insert(0, os.path.dirname(os.path.abspath(args.script)))
        runpy.run_path(args.script, run_name="__main__")


def unite(parts, output, format):
    """One trace of all parts, which are kept if that fails."""
    try:
        with open_trace(parts) as trace:
            trace.export(output, format)
            spans = trace.value("SELECT count(*) FROM span")
            processes = trace.value("SELECT count(DISTINCT pid) FROM track WHERE pid IS NOT NULL")
    except Error as error:
        sys.stderr.write(f"opmeter: {error}; the parts of the trace are in {parts}\n")
        return
    shutil.rmtree(parts, ignore_errors=True)
    sys.stderr.write(f"opmeter: {spans} spans of {processes} "
                     f"process{'es' if processes != 1 else ''} in {output}: opmeter top {output}\n")


def main(arguments=None):
    args = parse(sys.argv[1:] if arguments is None else arguments)
    if args.script and not os.path.exists(args.script):
        raise SystemExit(f"opmeter: {args.script}: no such file")
    if frameworks.folder():
        sys.stderr.write("opmeter: a recording is under way; the program is part of it\n")
        run(args)
        return
    output = os.path.abspath(args.output or default_output(args))
    format = format_of(output)
    parts = output + ".parts"
    os.makedirs(parts, exist_ok=True)
    watch(parts, args.level)
    pid = os.getpid()
    try:
        run(args)
    finally:
        if os.getpid() == pid:  # not in a fork that came back here
            frameworks.finish()
            if "opmeter.session" in sys.modules:
                sys.modules["opmeter.session"].flush()
            _opmeter.stop()
            unite(parts, output, format)


if __name__ == "__main__":
    main()
