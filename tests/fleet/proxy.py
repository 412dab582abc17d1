"""proxy.py -- between opmeter and a server: what is lost or changed on the way."""
import socket
import threading
import time


class Proxy:
    """cut(number of the request, its head) says what happens to it: None, "before" (the connection is closed
    before the server sees it), "half" (the server gets half of what is sent, then meanwhile() is called), "after"
    (when the server has done it; meanwhile() is called), "swallow" (the server never sees it, `swallowed` answers) or
    seconds to wait with the answer. change(head, answer) makes the answer."""

    def __init__(self, port, cut=None, change=None, meanwhile=None, swallowed=b""):
        self.port, self.cut, self.change, self.meanwhile, self.seen = port, cut, change, meanwhile, 0
        self.swallowed = swallowed
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.listen = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        try:
            with client, socket.create_connection(("127.0.0.1", self.port)) as server:
                self.exchange(client, server)
        except OSError:
            pass  # the server or opmeter was killed

    def exchange(self, client, server):
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(65536)
                if not piece:
                    return
                head += piece
            head, body = head.split(b"\r\n\r\n", 1)
            length = int(next(l.split(b":")[1] for l in head.lower().split(b"\r\n") if l.startswith(b"content-length:")))
            while len(body) < length:
                piece = client.recv(65536)
                if not piece:
                    return
                body += piece
            self.seen += 1
            what = self.cut(self.seen, head) if self.cut else None
            if what == "before":
                return
            if what == "swallow":
                client.sendall(self.swallowed)
                return
            server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n\r\n"
                           + body[:len(body) // 2 if what == "half" else None])
            if what == "half":
                self.meanwhile()
                return
            answer = b""
            for piece in iter(lambda: server.recv(65536), b""):
                answer += piece
            if what == "after":
                if self.meanwhile:
                    self.meanwhile()
                return
            time.sleep(what or 0)
            client.sendall(self.change(head, answer) if self.change else answer)
            return
