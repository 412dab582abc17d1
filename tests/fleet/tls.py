"""tls.py -- ClickHouse over TLS, and where passwords may be seen."""
import http.server
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import clickhouse
import rig
from fleet_job import Job
from rig import Failure, Skip, add, counts, expect, one_line, page, run

SECRET = "a-secret-that-nobody-else-says"


def certificates(folder):
    """An authority, and what it signed: for 127.0.0.1 and for another host. (ca, name -> (file, key))"""
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed (Debian's package)")

    def make(name, *more):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                        "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"), *more],
                       check=True, capture_output=True, timeout=120)
        return folder / f"{name}.pem", folder / f"{name}.key"

    ca = make("authority")
    signed = ("-CA", str(ca[0]), "-CAkey", str(ca[1]), "-addext")
    return ca[0], {"right": make("right", *signed, "subjectAltName=IP:127.0.0.1"),
                   "other": make("other", *signed, "subjectAltName=DNS:db.example")}


def over_tls(folder):
    """The same answers over TLS; certificates that nobody we trust signed, or for others, are refused."""
    if not clickhouse.available():
        raise Skip("clickhouse-server is not installed (Debian's package)")
    ca, signed = certificates(folder)
    paths = Job(ranks=4, steps=8, late=2).write(folder / "job")
    db = folder / "runs.db"
    add(db, "j", paths)
    with clickhouse.Cluster(folder / "right", tls=signed["right"]) as c:
        url = c.secure_url("fleet", f"ca={ca}")
        add(url, "j", paths)
        expect("answers over TLS", page(url, "j"), page(db, "j"))
        expect("rows over TLS", counts(url, "j"), counts(db, "j"))
        for option in ("tls=1", "secure=1"):
            other = f"clickhouse://127.0.0.1:{c.https[0]}/fleet?{option}&ca={ca}"
            expect(f"rows with {option}", counts(other, "j"), counts(db, "j"))

        none = c.secure_url("nothing")
        mute = socket.create_server(("127.0.0.1", 0))  # takes connections and says nothing
        for wrong, parts in (
                (none, ("certificate", "ca=FILE", "127.0.0.1")),
                (c.secure_url("nothing", f"ca={signed['other'][0]}"), ("certificate", "ca=FILE")),
                (c.secure_url("nothing", f"ca={folder / 'none.pem'}"), (str(folder / "none.pem"),)),
                (c.secure_url("nothing", f"ca={paths[0]}"), (str(paths[0]),)),
                (f"clickhouses://127.0.0.1:{c.http[0]}/nothing?ca={ca}&tries=2", ("TLS",)),
                (f"clickhouse://127.0.0.1:{c.https[0]}/nothing?tries=2", ("TLS", "clickhouses://")),
                (f"clickhouses://127.0.0.1:{mute.getsockname()[1]}/nothing?tries=1&timeout=2", ("TLS", "no answer for 2 s"))):
            one_line(run("add", "-q", paths[0], "--to", wrong, "--job", "j", status=1), *parts)
        if "nothing" in c.ask("SHOW DATABASES").split():
            raise Failure("something was made before the certificate was known to be right")
    with clickhouse.Cluster(folder / "other", tls=signed["other"]) as c:
        one_line(run("job", c.secure_url("fleet", f"ca={ca}"), "j", status=1), "certificate", "127.0.0.1")


def command_lines():
    """Of all processes that there are, but for this one."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield (entry / "cmdline").read_bytes()
            except OSError:
                pass


class Looking(http.server.ThreadingHTTPServer):
    """A server that looks, while it is asked, whether a command line has the password."""
    daemon_threads = True

    def __init__(self):
        self.asked, self.seen, self.authorized = 0, [], 0
        super().__init__(("127.0.0.1", 0), LookingHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class LookingHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        self.server.authorized += "Authorization" in self.headers
        self.server.seen += [line for line in command_lines() if SECRET.encode() in line]
        answer = b"Code: 516. DB::Exception: nobody: Authentication failed. (AUTHENTICATION_FAILED)\n"
        self.send_response(403)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def passwords(folder):
    """A password comes from the environment or a file, and is on no command line, of children neither."""
    paths = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    (folder / "secret").write_text(SECRET + "\n")
    from_env, from_file = {"OPMETER_CLICKHOUSE_PASSWORD": SECRET}, {"OPMETER_CLICKHOUSE_PASSWORD_FILE": str(folder / "secret")}
    server = Looking()
    url = f"clickhouse://writer@127.0.0.1:{server.server_address[1]}/perf"
    try:
        for env in (from_env, from_file):
            one_line(run("add", "-q", paths[0], "--to", url, "--job", "j", env=env, status=1), "writer")
            done = run("record", "-q", "-o", folder / "r.opm", "--add-to", url, "--job", "j", "--",
                       rig.opmeter, "run", "-q", "zoo:mlp", "-n", "1", "-o", folder / "out", env={**env, "RANK": "0"}, status=None)
            if SECRET in done.stderr + done.stdout:
                raise Failure(f"the password is said: {done.stderr}")
        expect("requests with a user", (server.asked >= 4, server.authorized), (True, server.asked))
        asked = server.asked
        python = os.environ.get("OPMETER_TEST_PYTHON", "/usr/bin/python3")
        code = ("import opmeter, os\n"
                "try: opmeter.connect(os.environ['URL']).rows('SELECT 1')\n"
                "except opmeter.Error as why: print(why)")
        env = {**os.environ, "PYTHONPATH": str(rig.opmeter.parent / "python"),
               "URL": url.replace("writer@", f"writer:{SECRET}@")}
        if subprocess.run([python, "-c", "import opmeter._opmeter"], env=env, capture_output=True).returncode == 0:
            done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, timeout=120)
            if "writer" not in done.stdout or SECRET in done.stdout + done.stderr or server.asked == asked:
                raise Failure(f"Python says {done.stdout!r} {done.stderr!r}")
        expect("command lines with the password", server.seen, [])
    finally:
        server.shutdown()
        server.server_close()


def not_clickhouse(folder):
    """What answers on the port is no ClickHouse, or goes away in the midst: one line, nothing read as rows."""
    db = Job(ranks=3, steps=4, layers=2).write(folder / "job")
    for answer, part in ((b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>hi</html>", "ClickHouse"),
                         (b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot here\n", "not here"),
                         (b"SSH-2.0-OpenSSH_9.2\r\n", "cannot be reached"),
                         (b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\nmax(version)\n", "cannot be reached"),
                         (b"", "cannot be reached")):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            def serve():
                while True:
                    try:
                        client, _ = listening.accept()
                    except OSError:
                        return
                    with client:
                        client.recv(65536)
                        client.sendall(answer)
                        client.shutdown(socket.SHUT_WR)
                        client.recv(65536)

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            url = f"clickhouse://127.0.0.1:{listening.getsockname()[1]}/x?tries=2"
            for args in (("query", url, "SELECT job FROM rank_file"), ("add", "-q", db[0], "--to", url, "--job", "j")):
                one_line(run(*args, status=1, timeout=60), part)
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(30)


TESTS = (over_tls, passwords, not_clickhouse)
