"""embedded.py -- ClickHouse's library of today behind a small HTTP server, as a server of ClickHouse answers.

usage: embedded.py LIBRARY FOLDER

LIBRARY is libchdb.so (npm's @chdb/lib-linux-x64-gnu): all of ClickHouse in a process, tables in FOLDER. What
opmeter sends over HTTP (statements, RowBinary in gzip, settings in the query) is handed to its C interface, one
statement after the other. Prints the port, and ends when its standard input does. The cluster `one` has one shard,
which is this process.
"""
import ctypes
import gzip
import http.server
import os
import re
import sys
import threading
import urllib.parse
from pathlib import Path

CONFIG = """<clickhouse><remote_servers><one><shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard></one>
</remote_servers><tcp_port>9000</tcp_port></clickhouse>"""
OWN = ("query", "database", "wait_end_of_query", "enable_http_compression")


class Library:
    """Answers of libchdb; a statement at a time, and every database by its name."""

    def __init__(self, path, folder):
        lib = ctypes.CDLL(path)
        lib.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
        lib.chdb_query_n.restype = ctypes.c_void_p
        lib.chdb_query_n.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        for name, kind in (("buffer", ctypes.c_void_p), ("length", ctypes.c_size_t), ("error", ctypes.c_char_p)):
            getattr(lib, f"chdb_result_{name}").restype = kind
            getattr(lib, f"chdb_result_{name}").argtypes = [ctypes.c_void_p]
        lib.chdb_destroy_query_result.argtypes = [ctypes.c_void_p]
        config = Path(folder) / "config.xml"
        config.write_text(CONFIG)
        argv = [b"clickhouse", f"--path={folder}/data".encode(), f"--config-file={config}".encode()]
        self.lib, self.connection = lib, lib.chdb_connect(len(argv), (ctypes.c_char_p * len(argv))(*argv))
        if not self.connection:
            raise SystemExit("libchdb cannot be started")

    def ask(self, sql):
        """(answer, None) or (None, exception)."""
        sql = sql.encode() if isinstance(sql, str) else sql
        result = self.lib.chdb_query_n(self.connection[0], sql, len(sql), b"TabSeparated", len(b"TabSeparated"))
        error = self.lib.chdb_result_error(result)
        answer = None
        if not error:
            length = self.lib.chdb_result_length(result)
            answer = ctypes.string_at(self.lib.chdb_result_buffer(result), length) if length else b""
        self.lib.chdb_destroy_query_result(result)
        return answer, error


def literal(value):
    return value if re.fullmatch(r"-?\d+", value) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    library = folder = None
    lock = threading.Lock()

    def answer(self, sql, rows, where):
        """Statements before it choose database and settings, as parameters of a request do."""
        settings = {k: v for k, v in where.items() if k not in OWN}
        answer, error = self.library.ask(f"USE `{where.get('database', 'default')}`")
        if error:
            return answer, error
        if rows is not None:
            body = Path(self.folder) / "rows"
            body.write_bytes(rows)
            sql = sql.replace(b" FORMAT ", f" FROM INFILE '{body}' FORMAT ".encode(), 1)
        if sql.lstrip().upper().startswith(b"SELECT") and settings:
            sql += (" SETTINGS " + ", ".join(f"{k} = {literal(v)}" for k, v in settings.items())).encode()
        else:
            for key, value in settings.items():
                answer, error = self.library.ask(f"SET {key} = {literal(value)}")
                if error:
                    return answer, error
        return self.library.ask(sql)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        where = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
        sql, rows = (where["query"].encode(), body) if "query" in where else (body, None)
        with self.lock:
            answer, error = self.answer(sql, rows, where)
        if error:
            code = int(re.match(rb"Code: (\d+)", error)[1]) if error.startswith(b"Code: ") else 0
            answer = error + b" (version 26.0 (official build))\n"
            self.send_response(404 if code in (60, 81) else 400 if code in (47, 62) else 500)
            self.send_header("X-ClickHouse-Exception-Code", str(code))
        else:
            self.send_response(200)
            if "gzip" in self.headers.get("Accept-Encoding", "") and where.get("enable_http_compression") == "1":
                answer = gzip.compress(answer, 1)
                self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def main():
    Handler.folder = sys.argv[2]
    Handler.library = Library(sys.argv[1], sys.argv[2])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)  # the library's own threads need no farewell


if __name__ == "__main__":
    main()
