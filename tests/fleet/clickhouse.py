"""clickhouse.py -- ClickHouse servers on loopback for tests, a folder for each.

    with Cluster(folder, servers=3) as c: c.url("perf"), c.url("perf", cluster=True), ...

Cluster(folder, tls=(CERTIFICATE, KEY)) speaks TLS, too: c.secure_url("perf", "ca=FILE").

available() says whether there is a server to start; every server that is started is ended by its
own process id. As a program it starts servers, prints their URL, and ends them when its standard
input ends: clickhouse.py FOLDER [SERVERS].
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

CONFIG = """<yandex>
 <logger><level>warning</level><log>{path}/server.log</log><errorlog>{path}/error.log</errorlog></logger>
 <http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
 <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path><users_config>users.xml</users_config>
 <default_profile>default</default_profile><default_database>default</default_database>
 <mark_cache_size>67108864</mark_cache_size><max_connections>200</max_connections>
 <remote_servers><fleet>{shards}</fleet><fleet-two>{shards}</fleet-two></remote_servers>{tls}
</yandex>
"""
TLS = """
 <https_port>{port}</https_port>
 <openSSL><server><certificateFile>{certificate}</certificateFile><privateKeyFile>{key}</privateKeyFile>
  <verificationMode>none</verificationMode><loadDefaultCAFile>false</loadDefaultCAFile></server></openSSL>"""
SHARD = "<shard><replica><host>127.0.0.1</host><port>{}</port></replica></shard>"
USERS = """<yandex>
 <profiles><default><max_memory_usage>4000000000</max_memory_usage><max_threads>2</max_threads></default>
  <readonly><readonly>1</readonly></readonly></profiles>
 <users>
  <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
  <writer><password>secret word</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></writer>
  <reader><password></password><networks><ip>127.0.0.1</ip></networks><profile>readonly</profile><quota>default</quota></reader>
 </users>
 <quotas><default></default></quotas>
</yandex>
"""


def program():
    return shutil.which("clickhouse-server", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")


def available():
    return program() is not None


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    def __init__(self, folder, servers=1, tls=None):
        self.folder, self.n, self.tls = Path(folder).resolve(), servers, tls
        ports = free_ports(3 * servers)
        self.http, self.tcp, self.https = (ports[i * servers:(i + 1) * servers] for i in range(3))
        self.processes = [None] * servers

    def start(self, i):
        path = self.folder / f"server{i}"
        for name in ("data", "tmp"):
            (path / name).mkdir(parents=True, exist_ok=True)
        shards = "".join(SHARD.format(p) for p in self.tcp)
        tls = TLS.format(port=self.https[i], certificate=self.tls[0], key=self.tls[1]) if self.tls else ""
        (path / "config.xml").write_text(CONFIG.format(path=path, http=self.http[i], tcp=self.tcp[i],
                                                       shards=shards, tls=tls))
        (path / "users.xml").write_text(USERS)
        log = open(path / "output.log", "ab")
        self.processes[i] = subprocess.Popen([program(), f"--config-file={path}/config.xml"], cwd=path,
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             start_new_session=True)
        log.close()

    def wait(self, i, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.processes[i].poll() is not None:
                raise RuntimeError(f"server {i} ended: see {self.folder}/server{i}")
            try:
                if self.ask("SELECT 1", i, database=None).strip() == "1":
                    return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError(f"server {i} did not start within {seconds} s: see {self.folder}/server{i}")

    def stop(self, i, how=signal.SIGTERM):
        process = self.processes[i]
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes[i] = None

    def ask(self, sql, i=0, database="default", timeout=60):
        where = f"http://127.0.0.1:{self.http[i]}/" + (f"?database={database}" if database else "")
        with urllib.request.urlopen(urllib.request.Request(where, data=sql.encode()), timeout=timeout) as r:
            return r.read().decode("utf-8", "replace")

    def url(self, database, cluster=False, user=None, host=0, options=""):
        """cluster: its name, or True."""
        who = f"{user}@" if user else ""
        if not cluster:
            return f"clickhouse://{who}127.0.0.1:{self.http[host]}/{database}{'?' + options if options else ''}"
        hosts = ",".join(f"127.0.0.1:{p}" for p in self.http)
        return f"clickhouse://{who}{hosts}/{database}?cluster={'fleet' if cluster is True else cluster}{'&' + options if options else ''}"

    def secure_url(self, database, options="", user=None):
        who = f"{user}@" if user else ""
        return f"clickhouses://{who}127.0.0.1:{self.https[0]}/{database}{'?' + options if options else ''}"

    def __enter__(self):
        try:
            for i in range(self.n):
                self.start(i)
            for i in range(self.n):
                self.wait(i)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for i in range(self.n):
            self.stop(i)


if __name__ == "__main__":
    with Cluster(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1) as started:
        print(started.url("perf", cluster=started.n > 1), flush=True)
        sys.stdin.read()
