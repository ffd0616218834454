"""A web server of somebody else, whose pages the person's browser also shows."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playwright.sync_api import Page

HERE = ("127.0.0.1", "localhost")


class Elsewhere:
    """Serves pages that a test writes, under every name that leads to this machine.

    Attributes:
        port: Of 127.0.0.1.
        pages: The HTML at each path.
        heard: The path and headers of each request, the names in lower case.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.pages: dict[str, str] = {}
        self.heard: list[tuple[str, dict[str, str]]] = []

    def at(self, host: str, path: str = "/") -> str:
        """The address of a page under a name of this machine."""
        return f"http://{host}:{self.port}{path}"

    def lure(self, page: Page) -> list[dict[str, str]]:
        """The headers that a window sends here when its person comes by, under each name of this machine."""
        self.pages["/bait"] = "<!doctype html><title>a fine page</title>"
        for host in HERE:
            page.goto(self.at(host, "/bait"))
            assert page.evaluate("document.referrer") == ""
        got = [headers for path, headers in self.heard if path == "/bait"]
        assert len(got) == len(HERE)
        return got


@contextmanager
def serving_elsewhere() -> Generator[Elsewhere]:
    """The server, for the length of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.heard.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            page = site.pages.get(self.path.partition("?")[0])
            body = (page or "").encode()
            self.send_response(204 if page is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            if page is not None:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: Any) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        site = Elsewhere(server.server_address[1])
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield site
        finally:
            server.shutdown()
            serving.join()
