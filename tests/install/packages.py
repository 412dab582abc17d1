#!/usr/bin/env python3
"""packages.py -- install what script/package made where there is nothing else, and use it.

usage: sudo tests/install/packages.py [--packages DIR] [--suites bullseye,bookworm,trixie] [--dir DIR]

In a minimal Debian of each release, made by debootstrap, with neither compiler nor network: the
archive, the Debian packages and, with Python, the wheel are installed, each alone; a model is run, a
program recorded, the page asked for; then it is removed, and nothing may be left. In one with compilers
programs are built with what is installed (run.py --installed). Before, that no file needs more than
glibc 2.28 and no library that is not inside, and what lintian says, if it is installed. Prints one `ok`
or `not ok` line per test, with the seconds that it took from nothing to a first report.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT / "tools"))
from roots import apart, call, inside, make_base, mount, prepare  # noqa: E402

SUITES = ["bullseye", "bookworm", "trixie"]
GLIBC = (2, 28)
# What is added to bare systems.
MORE = {"python": "python3 python3-venv libcurl4",
        "compilers": "gcc g++ libc6-dev make cmake pkg-config python3 binutils"}
# What every system has: glibc's own, and what is inside itself.
ALLOWED = re.compile(r"^(libc|libm|libpthread|libdl|librt)\.so\.\d+$|^ld-linux.*\.so\.\d+$|^libopmeter")
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
       "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}

# The first report: `opmeter` must be in PATH.
REPORT = r"""
set -e
cd /tmp
rm -rf out report.html out.xlsx ls.opm
opmeter run zoo:mlp -n 5 -w 1 -o out >run.txt
grep -q Gemm run.txt
opmeter report out/trace.opm -o report.html
grep -q '<html' report.html
"""
# Records a program, asks for the page.
USE = r"""
set -e
cd /tmp
! command -v cc && ! command -v gcc
opmeter version
opmeter query --csv out/trace.opm "SELECT count(*) > 0 AS ok FROM span WHERE op IS NOT NULL" | grep -qx 1
opmeter record -o ls.opm -- ls / >/dev/null
opmeter info ls.opm >/dev/null
# It is given our environment, which doctor looks at, too.
SEEN=yes opmeter record -o env.opm -- env >env.txt 2>&1
grep -qx SEEN=yes env.txt
opmeter doctor >doctor.txt || [ $? = 1 ]
grep -q system doctor.txt
opmeter serve out --port 18080 >serve.txt 2>&1 &
server=$!
for i in $(seq 600); do grep -q http serve.txt && break; sleep 0.1; done
exec 3<>/dev/tcp/127.0.0.1/18080
printf 'GET / HTTP/1.0\r\nHost: 127.0.0.1:18080\r\n\r\n' >&3
cat <&3 >page.txt
kill -INT $server
wait $server
grep -q '<html' page.txt
# Libraries that are loaded where there are some, or one line says that there are none.
says() { "${@:2}" 2>said.txt && return 1; [ "$(wc -l <said.txt)" = 1 ] && grep -q "$1" said.txt; }
if ldconfig -p | grep -q libxlsxwriter; then
    opmeter export out/trace.opm -o out.xlsx
    head -c 2 out.xlsx | grep -q PK
else
    says 'needs libxlsxwriter' opmeter export out/trace.opm -o out.xlsx
fi
# An image that needs no library, and one that does.
printf 'P6\n2 2\n255\n123456789012' >tiny.ppm
opmeter run zoo:mobilenetv2 -n 1 -w 0 -q -i input:tiny.ppm -o image >/dev/null
printf '\377\330\377\340' >tiny.jpg
ldconfig -p | grep -q libturbojpeg || says 'needs libturbojpeg' opmeter run zoo:mobilenetv2 -i input:tiny.jpg
if ldconfig -p | grep -q libcurl; then
    says 127.0.0.1:9 opmeter job 'clickhouse://127.0.0.1:9/x?tries=1' job
else
    says 'needs libcurl' opmeter job 'clickhouse://127.0.0.1:9/x?tries=1' job
fi
"""
# Where manual pages and completions belong, and what the latter say.
PAGES = r"""
set -e
ls "$share"/man/man1/opmeter.1* "$share"/man/man1/opmeter-run.1* >/dev/null
test -s "$share"/zsh/site-functions/_opmeter
test -s "$share"/fish/vendor_completions.d/opmeter.fish
bash -c '. "$0/bash-completion/completions/opmeter" && complete -p opmeter' "$share" >/dev/null
"""
PYTHON = r"""
cat >use.py <<'END'
import opmeter
with opmeter.profile(file="/tmp/py.opm") as p:
    with opmeter.span("work"):
        pass
assert opmeter.open("/tmp/py.opm")
END
python3 use.py
opmeter query --csv py.opm "SELECT count(*) AS n FROM span WHERE name = 'work'" | grep -qx 1
cat >train.py <<'END'
import time
time.sleep(0.01)
END
opmeter record -o train.opm -- python3 train.py >said.txt 2>&1
! grep -q 'not hooked' said.txt
"""


class Failure(Exception):
    pass


def binaries(path, to):
    """The ELF files of a package, unpacked into a folder."""
    if path.suffix == ".deb":
        call("dpkg-deb", "-x", path, to)
    elif path.suffix == ".whl":
        with zipfile.ZipFile(path) as file:
            file.extractall(to)
    else:
        with tarfile.open(path) as file:
            file.extractall(to, filter="fully_trusted") if hasattr(tarfile, "data_filter") \
                else file.extractall(to)
    return [file for file in sorted(to.rglob("*")) if file.is_file() and not file.is_symlink()
            and file.read_bytes()[:4] == b"\x7fELF"]


def needs_little(path):
    """No file of it needs a newer glibc, or a library that is not part of opmeter."""
    with tempfile.TemporaryDirectory() as temp:
        files = binaries(path, Path(temp))
        for file in files:
            table = call("readelf", "-W", "-V", file)
            for version in re.findall(r"GLIBC_([\d.]+)", table):
                if tuple(map(int, version.split("."))) > GLIBC:
                    raise Failure(f"{file.relative_to(temp)} needs GLIBC_{version}")
            for library in re.findall(r"NEEDED.*\[(.*)\]", call("readelf", "-W", "-d", file)):
                if not ALLOWED.match(library):
                    raise Failure(f"{file.relative_to(temp)} needs {library}")
        names = {str(file.relative_to(temp)) for file in Path(temp).rglob("*")}
        if path.suffix == ".deb":
            wanted = ["copyright"]
        else:
            wanted = ["bin/opmeter", "libopmeter-cuda.so", "libopmeter.so.0", "LICENSE",
                      "THIRD-PARTY-NOTICES", "licenses/libsqlite3", "licenses/LGPL-2.1"]
        for name in wanted:
            if not any(file.endswith(name) for file in names):
                raise Failure(f"{path.name} has no {name}")
        text = notices_of(path, Path(temp))
        for name in ("Apache", "preact", "uPlot", "Cephes", "Eigen", "sqlite", "zlib", "zstd", "PCRE2",
                     "microhttpd"):
            if name.lower() not in text.lower():
                raise Failure(f"{path.name} has no notice of {name}")


def notices_of(path, folder):
    """All that the licenses and notices of a package say."""
    names = ("copyright",) if path.suffix == ".deb" else ("LICENSE", "THIRD-PARTY-NOTICES")
    return "".join(file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()
                   and (file.name in names or file.parent.name == "licenses"))


def lintian(packages):
    """Debian's own checks of the Debian packages, where lintian is installed."""
    debs = [str(path) for path in packages if path.suffix == ".deb"]
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0",
                           *debs], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"exit {done.returncode}\n{done.stdout}{done.stderr}")


def files_of(root):
    """All files that a package could leave behind; what a user's programs keep is the user's."""
    found = set()
    for folder in ("usr", "opt", "etc", "var/lib", "root"):
        for path in (root / folder).rglob("*"):
            name = str(path.relative_to(root))
            if not name.startswith(("var/lib/dpkg", "var/lib/apt", "etc/ld.so.cache")) \
                    and "__pycache__" not in name and not name.startswith("root/.cache"):
                found.add(name)
    return found


def sh(root, script, minutes=10):
    with tempfile.NamedTemporaryFile("w+") as log:
        status = inside(root, "root", script, log, minutes, ENV)
        if status != 0:
            raise Failure(f"exit {status}\n{Path(log.name).read_text(errors='replace')}")


def install_and_use(root, how, name):
    """Install, use, remove: nothing is left. Seconds to the first report."""
    before = files_of(root)
    install, path, use, remove = how
    start = time.monotonic()
    sh(root, install)
    sh(root, path + REPORT)
    took = time.monotonic() - start
    sh(root, path + use)
    sh(root, remove)
    left = sorted(files_of(root) - before)
    if left:
        raise Failure(f"{name} leaves {left[:10]}")
    return took


def documented(start):
    """What docs/install.md says to type, as root."""
    lines = (ROOT / "docs" / "install.md").read_text().splitlines()
    line = next(line for line in lines if line.startswith(start))
    return line.split("  #")[0].strip().removeprefix("sudo ")


def as_documented(with_python):
    """The commands of docs/install.md, word for word; what is in ways() but for that."""
    here = "cd /tmp/packages && "
    unpack = here + documented("tar -xzf opmeter-")
    yield "archive, as documented", (unpack, f"{unpack}\n", "opmeter version",
                                     "rm -r /tmp/packages/opmeter-*-linux-*/")
    yield "deb, as documented", (here + documented("sudo apt-get install ./") + " --yes", "",
                                 "opmeter version", "apt-get purge --yes opmeter libopmeter0")
    if with_python:
        yield "wheel, as documented", (
            here + documented("python3 -m venv"), ". /tmp/packages/env/bin/activate\n",
            "opmeter version", ". /tmp/packages/env/bin/activate && pip uninstall --yes opmeter && "
                               "rm -r /tmp/packages/env")


def ways(packages, with_python):
    """(name, (install, path, use, remove)) of each kind of package."""
    archive = next(path.name for path in packages if path.name.endswith(".tar.gz"))
    wheel = next(path.name for path in packages if path.suffix == ".whl")
    debs = [path for path in packages if path.suffix == ".deb"
            and (with_python or "python3" not in path.name)]
    files = " ".join(f"/tmp/packages/{path.name}" for path in debs)
    purge = f"dpkg --purge {' '.join(path.name.split('_')[0] for path in debs)}"
    name = archive.removesuffix(".tar.gz")
    folder = "/opt/some place/opmeter"
    python = PYTHON if with_python else ""
    yield "archive, moved", (
        f"tar -xzf /tmp/packages/{archive} -C /opt && mkdir '/opt/some place' && "
        f"mv /opt/{name} '{folder}'",
        f"export PATH='{folder}/bin':$PATH PYTHONPATH='{folder}/lib/opmeter/python'\n",
        f"{USE}\nshare='{folder}/share'\n{PAGES}{python}",
        "rm -rf '/opt/some place'")
    yield "deb", (f"dpkg -i {files}", "", f"{USE}\nshare=/usr/share\n{PAGES}{python}", purge)
    if with_python:
        yield "deb by apt", (f"apt-get install -y --no-install-recommends {files}", "", USE + python,
                             purge)
        yield "wheel", (f"python3 -m venv /opt/env && "
                        f"/opt/env/bin/pip install --no-index /tmp/packages/{wheel}",
                        ". /opt/env/bin/activate\n", USE + PYTHON,
                        "/opt/env/bin/pip uninstall -y opmeter && "
                        "! find /opt/env -name '*opmeter*' | grep . && rm -rf /opt/env")


def programs(args, suite, packages):
    """C, C++, pkg-config, CMake, with what is installed. In namespaces of its own."""
    root = copy_of(args, suite, "compilers", packages)
    source = root / "tmp/source"
    call("mkdir", "-p", source / "tests", source / "docs")
    call("cp", "-r", HERE, source / "tests")
    for name in ("README.md", "include"):
        call("cp", "-r", ROOT / name, source)
    archive = next(path.name for path in packages if path.name.endswith(".tar.gz"))
    debs = " ".join(f"/tmp/packages/{path.name}" for path in packages
                    if path.suffix == ".deb" and "python3" not in path.name)
    run = "python3 /tmp/source/tests/install/run.py --installed"
    ok = True
    for name, install, prefix in (
            ("archive", f"tar -xzf /tmp/packages/{archive} -C /opt",
             f"/opt/{archive.removesuffix('.tar.gz')}"),
            ("deb", f"dpkg -i {debs}", "/usr")):
        try:
            sh(root, f"{install} && {run} {prefix}")
            print(f"ok - {suite}: programs with {name}", flush=True)
        except Failure as error:
            ok = False
            print(f"not ok - {suite}: programs with {name}")
            print("".join(f"# {line}\n" for line in str(error).splitlines()), end="", flush=True)
    return ok


def copy_of(args, suite, kind, packages):
    """A copy of a base, mounted, with the packages and without a network."""
    base = args.dir / f"base-{suite}{kind and '-' + kind}"
    folder = args.dir / f"packages-{suite}{kind and '-' + kind}"
    call("rm", "-rf", folder)
    root = prepare(folder, base)
    mount(root)
    call("mkdir", root / "tmp/packages")
    for path in packages:
        call("cp", path, root / "tmp/packages")
    no_network()
    return root


def suite_tests(args, suite, with_python, packages):
    """In namespaces of its own. True if all went well."""
    root = copy_of(args, suite, "python" if with_python else "", packages)
    ok = True
    for name, how in [*ways(packages, with_python), *as_documented(with_python)]:
        what = f"{suite}{' with Python' if with_python else ''}: {name}"
        try:
            took = install_and_use(root, how, name)
            print(f"ok - {what} # from nothing to a report: {took:.1f} s", flush=True)
        except Failure as error:
            ok = False
            print(f"not ok - {what}")
            print("".join(f"# {line}\n" for line in str(error).splitlines()), end="", flush=True)
    return ok


def no_network():
    """Only the loopback device, in a network namespace of its own."""
    import ctypes
    if ctypes.CDLL(None).unshare(0x40000000) != 0:
        raise Failure("unshare of the network failed")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def add(args, base, suite, kind):
    """A base with more in it; the only thing that is fetched."""
    root = prepare(args.dir / f"make-{suite}-{kind}", base)
    mount(root)
    # Of the library for workbooks the release's own version, if it has one.
    sh(root, f"apt-get -q update && apt-get -q install -y --no-install-recommends {MORE[kind]} "
             "$(apt-cache search --names-only '^libxlsxwriter[0-9]' | cut -d' ' -f1)", 30)
    to = args.dir / f"base-{suite}-{kind}"
    call("rm", "-rf", to)
    to.mkdir()
    for name in sorted(os.listdir(root)):
        if name in ("dev", "proc", "sys", "run", "tmp"):
            (to / name).mkdir()
        else:
            call("cp", "-a", root / name, to)
    (to / ".complete").write_text(suite)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", type=Path, default=ROOT / "build" / "package")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--dir", type=Path, default=ROOT / "build" / "fresh")
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    if os.geteuid() != 0:
        print("1..0 # SKIP chroot and mount need root")
        return 77
    packages = sorted(path for pattern in ("*.deb", "*.tar.gz", "*.whl")
                      for path in args.packages.glob(pattern))
    if len(packages) < 7:
        print(f"not ok - {args.packages} has {len(packages)} packages; script/package makes them")
        return 1
    ok = True
    for path in packages:
        try:
            needs_little(path)
            print(f"ok - {path.name}: needs little")
        except Failure as error:
            ok = False
            print(f"not ok - {path.name}: {error}")
    if not shutil.which("lintian"):
        print("ok - lintian # SKIP lintian is not installed")
    else:
        try:
            lintian(packages)
            print("ok - lintian")
        except Failure as error:
            ok = False
            print("not ok - lintian\n" + "".join(f"# {line}\n" for line in str(error).splitlines()), end="")
    (args.dir / "logs").mkdir(parents=True, exist_ok=True)
    for suite in args.suites.split(","):
        base = args.dir / f"base-{suite}"
        make_base(base, suite, args.dir / "logs")
        for kind in MORE:
            if not (args.dir / f"base-{suite}-{kind}" / ".complete").exists():
                ok &= apart(add, args, base, suite, kind)
        ok &= apart(suite_tests, args, suite, False, packages)
        ok &= apart(suite_tests, args, suite, True, packages)
        ok &= apart(programs, args, suite, packages)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
