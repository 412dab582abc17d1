#!/usr/bin/env python3
"""dockerfile.py -- do what the Dockerfile says, without Docker, and use what comes of it.

usage: sudo tests/install/dockerfile.py [--dir DIR]

Every stage starts from a minimal Debian of debootstrap; COPY, RUN, WORKDIR and ENTRYPOINT are done as
Docker does. Then the last stage runs `help` and a model. Prints one `ok` or `not ok` line.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT / "tools"))
from roots import apart, call, fail, inside, make_base, mount, prepare  # noqa: E402

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
       "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
SUITE = re.compile(r"^debian:(\w+)(-slim)?$")


def instructions():
    """Lines of the Dockerfile as (instruction, rest)."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            yield line.split(None, 1)


def must(root, folder, command, minutes=60):
    with tempfile.NamedTemporaryFile("w+") as log:
        status = inside(root, "root", f"cd {folder} && {command}", log, minutes, ENV)
        if status != 0:
            fail(f"{command}: exit {status}\n{Path(log.name).read_text(errors='replace')[-4000:]}")
        return Path(log.name).read_text(errors="replace")


def copy(words, stages, root):
    source = ROOT
    if words[0].startswith("--from="):
        source = stages[words.pop(0).removeprefix("--from=")]
    *patterns, to = words
    if patterns == ["."]:
        # What .dockerignore leaves: the files of the project.
        names = call("git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files").splitlines()
        (root / to.lstrip("/")).mkdir(parents=True)
        subprocess.run(["tar", "-C", str(ROOT), "-cf", "-", "--files-from=-"], check=True, text=True,
                       input="\n".join(names), stdout=open(root / "source.tar", "w"))
        call("tar", "-C", root / to.lstrip("/"), "-xf", root / "source.tar")
        (root / "source.tar").unlink()
        return
    found = [path for pattern in patterns for path in source.glob(pattern.lstrip("/"))]
    if not found:
        fail(f"COPY {words}: there is nothing")
    target = root / to.lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    for path in found:
        shutil.copy(path, target)


def build(args):
    stages, root, folder, entry = {}, None, "/", []
    for what, rest in instructions():
        if what == "FROM":
            words = rest.split()
            suite = SUITE.match(words[0])
            if not suite:
                fail(f"FROM {rest}: no release of Debian")
            base = args.dir / f"base-{suite[1]}"
            place = args.dir / f"docker-{len(stages)}"
            shutil.rmtree(place, ignore_errors=True)
            root, folder = prepare(place, base), "/"
            mount(root)
            (root / "tmp").chmod(0o1777)
            stages[words[2] if len(words) > 2 else ""] = root
        elif what == "COPY":
            copy(rest.split(), stages, root)
        elif what == "WORKDIR":
            folder = rest
            (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif what == "RUN":
            must(root, folder, rest)
        elif what == "ENTRYPOINT":
            entry = json.loads(rest)
        elif what not in ("EXPOSE", "CMD"):
            fail(f"{what}: not known to this test")
    command = " ".join(entry)
    if "usage: opmeter" not in must(root, folder, f"{command} help"):
        fail("it gives no help")
    if "Gemm" not in must(root, folder, f"{command} run zoo:mlp -n 3"):
        fail("it runs no model")
    must(root, folder, "python3 -c 'import opmeter'")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, default=ROOT / "build" / "fresh")
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    if os.geteuid() != 0:
        print("1..0 # SKIP chroot and mount need root")
        return 77
    (args.dir / "logs").mkdir(parents=True, exist_ok=True)
    for suite in {SUITE.match(rest.split()[0])[1] for what, rest in instructions() if what == "FROM"}:
        make_base(args.dir / f"base-{suite}", suite, args.dir / "logs")
    ok = apart(build, args)
    print(f"{'ok' if ok else 'not ok'} - Dockerfile")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
