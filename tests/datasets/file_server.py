"""A web server on this machine that can misbehave as servers do."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer:
    """Files by path, as bytes; what is asked for is written down."""

    def __init__(self):
        self.files = {}
        self.headers = {}  # further ones, by path
        self.redirects = {}  # path -> (path, headers of the redirect)
        self.cut = []  # bytes after which the next answers end, one a request
        self.knows_ranges = True
        self.shift = 0  # bytes by which it misses the place that was asked for
        self.silent = threading.Event()  # once set, no answer is ever given
        self.asked = []  # (path, Range header)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request):
        """One answer to a GET."""
        self.asked.append((request.path, request.headers.get("Range")))
        if self.silent.wait(0.001):
            request.rfile.read(1)  # until the other side gives up
            return
        if request.path in self.redirects:
            place, headers = self.redirects[request.path]
            respond(request, 302, {"Location": self.url + place, "Content-Length": "0"} | headers)
            return
        content = self.files.get(request.path)
        if content is None:
            request.send_error(404)
            return
        tag = f'"{hash(content)}"'
        headers = {"ETag": tag} | self.headers.get(request.path, {})
        asked, start = request.headers.get("Range"), 0
        if asked and self.knows_ranges and request.headers.get("If-Range") == headers["ETag"]:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                respond(request, 416, {"Content-Length": "0"})
                return
            headers["Content-Range"] = f"bytes {start + self.shift}-{len(content) - 1}/{len(content)}"
        body = content[start:]
        respond(request, 206 if "Content-Range" in headers else 200, {"Content-Length": str(len(body))} | headers)
        request.wfile.write(body[: self.cut.pop(0)] if self.cut else body)
        request.close_connection = True


def respond(request, status, headers):
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()


@contextlib.contextmanager
def serving():
    """A running FileServer."""
    files = FileServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            files.answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    files.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
