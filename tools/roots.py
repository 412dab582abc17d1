"""roots.py -- minimal Debians in folders, for tools/fresh and tests/install/packages.py.

All of it needs root, or what as_root() makes of somebody else: root of a user namespace. What is
mounted is in a namespace that ends with the process (apart()).
"""
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path

DEVICES = ("null", "zero", "full", "random", "urandom")


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).name}: {text}")


def call(*command, log=None, **more):
    """Run a command of this machine that must succeed."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          stdout=log or subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout or ''}")
    return done.stdout


def as_root():
    """Somebody who is not root becomes root of a user namespace, with the ids that /etc/subuid grants."""
    if os.geteuid() == 0:
        return
    user = pwd.getpwuid(os.getuid()).pw_name
    for name in ("/etc/subuid", "/etc/subgid"):
        path = Path(name)
        if not path.is_file() or not re.search(rf"^({re.escape(user)}|{os.getuid()}):", path.read_text(),
                                               re.MULTILINE):
            fail(f"needs root, or ids for {user} in {name} (usermod --add-subuids, --add-subgids)")
    if not shutil.which("newuidmap"):
        fail("needs root, or newuidmap (Debian: uidmap)")
    os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--map-auto", sys.executable, *sys.argv])


def contained():
    """Whether we are root of a user namespace only: nobody makes devices there."""
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]


def apt_files():
    """Where apt of this machine gets packages from, and how: no programs, no credentials."""
    folder = Path("/etc/apt")
    for path in [folder / "sources.list", *folder.glob("sources.list.d/*.list"),
                 *folder.glob("sources.list.d/*.sources"), *folder.glob("apt.conf.d/*")]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if path.parent.name == "apt.conf.d":
            text = "".join(f"{line}\n" for line in text.splitlines()
                           if re.match(r"\s*Acquire::", line))
        if text.strip():
            yield path, text


def mirror(suite):
    """The first archive of Debian among the sources of this machine."""
    for _, text in apt_files():
        found = re.search(r"^URIs:\s*(\S+/debian)/?\s*$", text, re.MULTILINE) \
            or re.search(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+/debian)/?\s+" + suite, text, re.MULTILINE)
        if found:
            return found[1]
    sys.exit("this system names no source of Debian's packages in /etc/apt; debootstrap needs one")


def make_base(base, suite, logs):
    """A minimal system; about a minute and 300 MB."""
    if (base / ".complete").exists():
        return
    if not shutil.which("debootstrap"):
        fail("debootstrap is not installed; apt-get install debootstrap")
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
    print(f"making a minimal Debian ({suite}) in {base}", flush=True)
    if not apart(bootstrap, base, suite, logs / "debootstrap.log"):
        fail(f"debootstrap failed; see {logs / 'debootstrap.log'}")
    here = suite in Path("/etc/os-release").read_text()
    for path, text in apt_files():
        # Another release than this machine's has only what debootstrap knows of.
        if here or path.parent.name == "apt.conf.d":
            (base / path.relative_to("/")).write_text(text)
    if here and any(path.suffix == ".sources" for path, _ in apt_files()):
        (base / "etc/apt/sources.list").unlink(missing_ok=True)
    (base / ".complete").write_text(suite)


def bootstrap(base, suite, log):
    env = dict(os.environ)
    if contained():
        (base / "dev").mkdir()
        call("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", base / "dev")
        devices(base / "dev")
        env["container"] = "lxc"  # so that it does not try to make them
    with open(log, "w") as file:
        call("debootstrap", "--variant=minbase", suite, base, mirror(suite), log=file, env=env)
    return True


def devices(dev):
    for name in (*DEVICES, "tty"):
        (dev / name).touch()
        call("mount", "--bind", f"/dev/{name}", dev / name)


def mount(root):
    """What programs expect of a running system, in a mount namespace that ends with us."""
    # No longer than this process: nothing stays mounted, whatever happens.
    for path, kind, how in (("proc", "proc", ""), ("dev", "tmpfs", "mode=755"),
                            ("tmp", "tmpfs", "mode=1777"), ("run", "tmpfs", "mode=755")):
        call("mount", "-t", kind, *(["-o", how] if how else []), kind, root / path)
    # Of a network that is not ours sysfs shows nothing, so the kernel mounts none.
    call("mount", *(["--rbind", "/sys"] if contained() else ["-t", "sysfs", "-o", "ro", "sysfs"]), root / "sys")
    dev = root / "dev"
    devices(dev)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    call("mount", "-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620,gid=5", "devpts", dev / "pts")
    call("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", dev / "shm")
    (dev / "ptmx").symlink_to("pts/ptmx")
    for name, to in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (dev / name).symlink_to(to)
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(f"/etc/{name}", root / "etc" / name)


def prepare(folder, base):
    """A copy of the base for one scenario; on what overlayfs cannot do, a real one."""
    root = folder / "root"
    for name in ("root", "upper", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "overlay", "-o",
                           f"lowerdir={base},upperdir={folder / 'upper'},workdir={folder / 'work'}"
                           + (",userxattr" if contained() else ""), "overlay", str(root)], capture_output=True)
    if done.returncode != 0 and not (root / "etc").exists():
        call("cp", "-a", f"{base}/.", root)
    return root


def inside(root, user, command, log, minutes, env):
    """Exit status of a line of shell in the root, None if it took too long."""
    shell = ["chroot", str(root), "/usr/bin/env", "-i", *(f"{k}={v}" for k, v in env.items())]
    if user != "root":
        shell += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
    process = subprocess.Popen([*shell, "/bin/bash", "-c", command], stdin=subprocess.DEVNULL,
                               stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.wait(minutes * 60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def apart(work, *args):
    """Run work(*args) where what it mounts and starts ends with it. Its result, a bool."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            unshare()
            init = os.fork()  # the first process of its namespace: what it leaves behind dies with it
            if init:
                os._exit(os.waitstatus_to_exitcode(os.waitpid(init, 0)[1]) & 0xff)
            call("mount", "--make-rprivate", "/")
            code = 0 if work(*args) else 1
        except SystemExit as end:
            print(end, file=sys.stderr)
            code = 2
        except BaseException:
            traceback.print_exc()
            code = 2
        sys.stdout.flush()
        os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status == 0


def unshare():
    """os.unshare() is of Python 3.12."""
    import ctypes
    new_mounts_and_processes = 0x00020000 | 0x20000000
    if ctypes.CDLL(None, use_errno=True).unshare(new_mounts_and_processes) != 0:
        fail(f"unshare: {os.strerror(ctypes.get_errno())}")
