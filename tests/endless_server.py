"""An HTTP server whose answers do not end, are packed a thousandfold, or come byte by byte: by the path that is asked for."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

BOMB: Final = gzip.compress(b" " * (80 << 20), 9)
_PIECE: Final = b" " * (1 << 20)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind = self.path.strip("/").partition("/")[0]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if kind == "bomb":
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(BOMB)))
        elif kind == "large":
            self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        try:
            if kind == "bomb":
                self.wfile.write(BOMB)
            while kind != "bomb":
                self.wfile.write(b" " if kind == "slow" else _PIECE)
                self.wfile.flush()
                if kind == "slow":
                    time.sleep(0.05)
        except OSError:  # the client has had enough
            self.close_connection = True

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Tests have no use for it."""


@contextmanager
def endless_server() -> Iterator[str]:
    """Its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
