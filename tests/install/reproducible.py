#!/usr/bin/env python3
"""reproducible.py -- script/package gives the same bytes wherever it is built.

usage: tests/install/reproducible.py [deb | archive | wheel]...

The commit is cloned into two folders with names of different lengths, and packed in both, at other
times, with other time zones, languages and masks of modes. Prints one `ok` or `not ok` line per file.
"""
import filecmp
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WAYS = [("a", {"TZ": "UTC", "LC_ALL": "C"}, 0o022),
        ("another-folder-with-a-long-name", {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}, 0o077)]


def git(*words):
    return subprocess.run(["git", "-c", f"safe.directory={ROOT}", *map(str, words)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


def pack(commit, folder, env, mask, kinds):
    git("clone", "-q", "--no-hardlinks", "--no-checkout", ROOT, folder)
    git("-C", folder, "checkout", "-q", commit)
    done = subprocess.run([sys.executable, "tools/package.py", *kinds], cwd=folder, text=True,
                          env={**os.environ, **env}, umask=mask, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"not ok - tools/package.py in {folder}\n{done.stdout[-4000:]}")
    out = folder / "build" / "package"
    return {path.name: path for path in out.iterdir() if path.is_file()}


def main():
    commit = git("-C", ROOT, "rev-parse", "HEAD")
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="opmeter-same-", dir=ROOT / "build") as temp:
        first, second = (pack(commit, Path(temp) / name, env, mask, sys.argv[1:])
                         for name, env, mask in WAYS)
        failed = 0
        if not first or first.keys() != second.keys():
            print(f"not ok - files: {sorted(first)} and {sorted(second)}")
            return 1
        for name in sorted(first):
            same = filecmp.cmp(first[name], second[name], shallow=False)
            failed += not same
            print(f"{'ok' if same else 'not ok'} - {name}: {'the same' if same else 'other'} bytes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
