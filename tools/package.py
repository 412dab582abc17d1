#!/usr/bin/env python3
"""package.py -- build Debian packages, an archive and a wheel; see script/package.

usage: tools/package.py [--out DIR] [deb | archive | wheel]...

One portable build (tools/portable/) serves all of them. The same commit gives the same bytes wherever
it is built with the same compiler: times are those of the commit, or SOURCE_DATE_EPOCH.
"""
import argparse
import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = (ROOT / "VERSION").read_text().strip()
MACHINE = platform.machine()
GLIBC = re.search(r"set\(OPMETER_GLIBC ([\d.]+)\)",
                  (ROOT / "tools/portable/portable.cmake").read_text())[1]
# Debian packages of the libraries that are inside, for their notices.
INSIDE = ["libsqlite3-dev", "zlib1g-dev", "libzstd-dev", "libpcre2-dev", "libmicrohttpd-dev"]
# Licenses of theirs whose text must come along; the notices only say where Debian has it.
TEXTS = ["LGPL-2.1"]
DEBIAN = ROOT / "tools" / "debian"


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}package.py: {' '.join(map(str, command))}: exit {done.returncode}")
    return done.stdout


def epoch():
    """Time of what is packed, in seconds."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    try:
        done = subprocess.run(["git", "-C", str(ROOT), "-c", f"safe.directory={ROOT}", "log", "-1",
                               "--format=%ct"], capture_output=True, text=True)
    except FileNotFoundError:  # in the Dockerfile's first stage there is no git
        done = None
    if done and done.returncode == 0:
        return int(done.stdout)
    return int((ROOT / "VERSION").stat().st_mtime)


def build(folder, libdir, prefix):
    """Bring the build up to date for libraries in `libdir`, and install it under `prefix`."""
    run("cmake", "--preset", "release", "-B", folder, "-DOPMETER_PORTABLE=ON", "-DOPMETER_BENCH=OFF",
        "-DBUILD_TESTING=OFF", "-DCMAKE_INSTALL_PREFIX=/usr", f"-DCMAKE_INSTALL_LIBDIR={libdir}",
        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", cwd=ROOT)
    run("cmake", "--build", folder, "--target", "opmeter_installed", "opmeter_python", "--parallel",
        os.cpu_count() or 1)
    shutil.rmtree(prefix, ignore_errors=True)
    run("cmake", "--install", folder, "--prefix", prefix)
    for path in prefix.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        if ".so" in path.suffixes:
            run("strip", "--strip-unneeded", "--remove-section=.comment", path)
        elif path.suffix == ".a":
            run("strip", "--strip-debug", "--remove-section=.comment", "--enable-deterministic-archives",
                path)
        elif path.parent.name == "bin":
            run("strip", "--remove-section=.comment", path)


def licenses(folder):
    """Notices of the libraries that are inside."""
    folder.mkdir(parents=True)
    for package in INSIDE:
        notice = Path("/usr/share/doc") / package / "copyright"
        if not notice.exists():
            sys.exit(f"package.py: no {notice}, which must go with what is linked")
        shutil.copyfile(notice, folder / package.removesuffix("-dev"))
    for name in TEXTS:
        shutil.copyfile(Path("/usr/share/common-licenses") / name, folder / name)


def python_files(folder, to):
    """The Python package, whose libraries are elsewhere."""
    shutil.copytree(folder / "python" / "opmeter", to,
                    ignore=shutil.ignore_patterns("__pycache__", "bin", "lib*.so*"))
    for path in to.glob("*.so"):
        run("strip", "--strip-unneeded", "--remove-section=.comment", path)


def settle(folder, time):
    """Modes and times that depend on nobody."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or path.parent.name in ("bin", "DEBIAN") and path.suffix == "" \
                and path.name not in ("control", "md5sums", "shlibs", "triggers")
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (time, time), follow_symlinks=False)


# ---- archive ----

def archive(folder, out, time):
    name = f"opmeter-{VERSION}-linux-{MACHINE}"
    root = out / "stage" / name
    shutil.rmtree(root, ignore_errors=True)
    build(folder, "lib", root)
    licenses(root / "share/doc/opmeter/licenses")
    python_files(folder, root / "lib/opmeter/python/opmeter")
    shutil.copyfile(ROOT / "tools/portable/README", root / "README")
    settle(root, time)
    path = out / f"{name}.tar.gz"
    packed = subprocess.Popen(["tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner",
                               f"--mtime=@{time}", "--format=gnu", "-C", str(root.parent), "-c", name],
                              stdout=subprocess.PIPE)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=time) as zipped:
        shutil.copyfileobj(packed.stdout, zipped)
    if packed.wait() != 0:
        sys.exit("package.py: tar failed")
    return [path]


# ---- wheel ----

def packer():
    """A Python that can make wheels: this one, or the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import setuptools, wheel"], capture_output=True,
                          cwd="/").returncode == 0:
            return python
    sys.exit("package.py: setuptools and wheel are needed (Debian: python3-setuptools python3-wheel)")


def wheel(folder, out, time):
    build(folder, "lib", out / "stage" / "wheel-install")
    source, made = out / "stage" / "wheel", out / "stage" / "wheel-made"
    for path in (source, made):
        shutil.rmtree(path, ignore_errors=True)
    # A copy, because setuptools writes beside the sources.
    shutil.copytree(ROOT / "python", source / "python",
                    ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    for name in ("VERSION", "CMakeLists.txt"):
        shutil.copyfile(ROOT / name, source / name)
    licenses(source / "python/opmeter/licenses")
    settle(source, time)
    run(packer(), "setup.py", "-q", "bdist_wheel", "--plat-name",
        f"manylinux_{GLIBC.replace('.', '_')}_{MACHINE}", "--dist-dir", made,
        cwd=source / "python", env={**os.environ, "OPMETER_BUILD": str(folder),
                                    "SOURCE_DATE_EPOCH": str(time)})
    paths = list(made.glob("*.whl"))
    return [Path(shutil.move(path, out / path.name)) for path in paths]


# ---- Debian ----

def split():
    """Which package has which file: (package, pattern of its path), the first that fits."""
    table = [line.split() for line in (DEBIAN / "split").read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    return [(package, re.compile(pattern)) for package, pattern in table]


def control_fields():
    """The paragraphs of tools/debian/control by package."""
    text = (DEBIAN / "control").read_text().replace("@VERSION@", VERSION)
    return {re.search(r"^Package: (\S+)", part, re.MULTILINE)[1]: part.strip()
            for part in text.split("\n\n") if part.strip()}


def compressed(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(data)


def needed_glibc(root):
    """libc6 (>= the newest version that a file needs)."""
    versions = set()
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            versions |= set(re.findall(r"GLIBC_([\d.]+)", run("readelf", "-V", path)))
    if not versions:
        return ""
    newest = max(versions, key=lambda text: tuple(map(int, text.split("."))))
    if tuple(map(int, newest.split("."))) > tuple(map(int, GLIBC.split("."))):
        sys.exit(f"package.py: {root.name} needs glibc {newest}")
    return f"libc6 (>= {newest})"


def stage_debian(folder, out):
    """Everything as it is installed, under one folder."""
    triplet = run("gcc", "-print-multiarch").strip()
    root = out / "stage" / "debian"
    build(folder, f"lib/{triplet}", root / "usr")
    lib = root / "usr" / "lib" / triplet
    (lib / "opmeter").mkdir()
    for name in ("libopmeter-cuda.so", "libopmeter-llama.so"):
        (lib / name).rename(lib / "opmeter" / name)
    python_files(folder, root / "usr/lib/python3/dist-packages/opmeter")
    info = root / f"usr/lib/python3/dist-packages/opmeter-{VERSION}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: opmeter\nVersion: {VERSION}\n")
    (info / "INSTALLER").write_text("debian\n")
    # Libraries are where the dynamic linker looks.
    for path in root.rglob("*.so*"):
        if path.is_file() and not path.is_symlink():
            run("cmake", "-D", f"FILE={path}", "-P", ROOT / "tools/portable/no_rpath.cmake")
    for path in (root / "usr/share/man").rglob("*.1"):
        compressed(path.with_suffix(".1.gz"), path.read_bytes())
        path.unlink()
    shutil.rmtree(root / "usr/share/doc/opmeter")
    docs = root / "usr/share/doc/opmeter-doc"
    shutil.copytree(ROOT / "docs", docs / "docs", ignore=shutil.ignore_patterns("man"))
    for name in ("README.md", "SECURITY.md"):
        shutil.copyfile(ROOT / name, docs / name)
    shutil.copytree(ROOT / "examples", docs / "examples",
                    ignore=shutil.ignore_patterns("__pycache__", "CMakeLists.txt"))
    return root


def notices():
    """Debian's copyright file: whose what is, and under what."""
    text = (DEBIAN / "copyright").read_text()
    text += "\n".join(["", "", "Notices of what is inside", "-" * 25, "",
                       (ROOT / "THIRD-PARTY-NOTICES").read_text()])
    for package in INSIDE:
        notice = Path("/usr/share/doc") / package / "copyright"
        text += f"\n{package.removesuffix('-dev')}\n{'-' * len(package)}\n\n{notice.read_text()}"
    return text


def debian(folder, out, time):
    everything = stage_debian(folder, out)
    architecture = run("dpkg", "--print-architecture").strip()
    changes = (f"opmeter ({VERSION}-0upstream1) unstable; urgency=medium\n\n  * Release {VERSION}; "
               "/usr/share/doc/opmeter/changelog.gz has what is new.\n\n"
               " -- opmeter developers <opmeter@users.noreply.github.com>  "
               f"{format_datetime(datetime.fromtimestamp(time, timezone.utc))}\n")
    fields, rules, packages = control_fields(), split(), {}
    for path in sorted(everything.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = "/" + str(path.relative_to(everything))
        package = next((package for package, pattern in rules if pattern.search(name)), None)
        if package is None:
            sys.exit(f"package.py: tools/debian/split has no package for {name}")
        to = packages.setdefault(package, out / "stage" / package) / name[1:]
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to, follow_symlinks=False)
    made = []
    for package, text in fields.items():
        root = packages[package]
        doc = root / "usr/share/doc" / package
        doc.mkdir(parents=True, exist_ok=True)
        (doc / "copyright").write_text(notices())
        compressed(doc / "changelog.Debian.gz", changes.encode())
        if package == "opmeter":
            compressed(doc / "changelog.gz", (ROOT / "CHANGELOG.md").read_bytes())
        overrides = DEBIAN / f"{package}.lintian-overrides"
        if overrides.exists():
            to = root / "usr/share/lintian/overrides" / package
            to.parent.mkdir(parents=True)
            shutil.copyfile(overrides, to)
        meta = root / "DEBIAN"
        meta.mkdir()
        for extra in ("shlibs", "triggers", "postinst", "prerm"):
            if (DEBIAN / f"{package}.{extra}").exists():
                shutil.copyfile(DEBIAN / f"{package}.{extra}", meta / extra)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        text = re.sub(r"^Architecture: any$", f"Architecture: {architecture}", text,
                      flags=re.MULTILINE)
        text = text.replace("@GLIBC@", needed_glibc(root))
        (meta / "control").write_text(
            text.replace("\nDescription:", f"\nInstalled-Size: {(size + 1023) // 1024}\nDescription:")
            + "\n")
        (meta / "md5sums").write_text("".join(
            f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.is_symlink() and meta not in path.parents))
        settle(root, time)
        kind = re.search(r"^Architecture: (\S+)", text, re.MULTILINE)[1]
        path = out / f"{package}_{VERSION}-0upstream1_{kind}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(time)})
        made.append(path)
    return made


KINDS = {"deb": debian, "archive": archive, "wheel": wheel}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", metavar="deb | archive | wheel")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "package")
    args = parser.parse_args()
    unknown = [kind for kind in args.kinds if kind not in KINDS]
    if unknown:
        sys.exit(f"package.py: there is no '{unknown[0]}' to make; there are {', '.join(KINDS)}")
    out, time = args.out.resolve(), epoch()
    os.umask(0o022)
    shutil.rmtree(out / "stage", ignore_errors=True)
    (out / "stage").mkdir(parents=True)
    for kind in args.kinds or KINDS:
        for path in KINDS[kind](out / "build", out, time):
            print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}  "
                  f"{path.stat().st_size / 1e6:.1f} MB", flush=True)
    shutil.rmtree(out / "stage")
    return 0


if __name__ == "__main__":
    sys.exit(main())
