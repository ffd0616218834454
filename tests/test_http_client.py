"""The HTTP client for calls to a broker: which URLs it takes, and how much of an answer."""

from __future__ import annotations

import socket
import threading

import pytest

from tandem.bridge import http
from tandem.bridge.http import HttpClient, ResponseLost, Target


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://127.0.0.1:8321", ("127.0.0.1", 8321, "127.0.0.1:8321", "")),
        ("http://127.0.0.1:8321/", ("127.0.0.1", 8321, "127.0.0.1:8321", "")),
        ("https://tandem.example/prefix/", ("tandem.example", 443, "tandem.example", "/prefix")),
        ("http://[::1]:80/@", ("::1", 80, "[::1]:80", "/@")),
        ("http://127.0.0.1:99999", None),
        ("http://127.0.0.1:8321@evil.example", None),
        ("http://127.0.0.1:\u0663", None),
        ("http://:80", None),
        ("http://[evil.example]", None),
        ("http://a?b", None),
        ("ftp://127.0.0.1", None),
        ("127.0.0.1:8321", None),
    ],
)
def test_a_url_names_a_broker_or_is_refused(url: str, parts: tuple[str, int, str, str] | None):
    if parts is None:
        with pytest.raises(ValueError, match="is not a URL"):
            Target(url)
    else:
        target = Target(url)
        assert (target.host, target.port, target.authority, target.prefix) == parts


@pytest.mark.parametrize(
    "head", ["Content-Length: 2000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n7d0\r\n", "Connection: close\r\n\r\n"]
)
def test_an_answer_may_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch, head: str):
    monkeypatch.setattr(http, "LARGEST_ANSWER_BYTES", 1000)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connected, _ = server.accept()
            with connected:
                connected.recv(65_536)
                connected.sendall(f"HTTP/1.1 200 OK\r\n{head}".encode() + b"x" * 2000)

        thread = threading.Thread(target=answer)
        thread.start()
        client = HttpClient(Target(f"http://127.0.0.1:{server.getsockname()[1]}"))
        with pytest.raises(ResponseLost, match="more than 1000 bytes"):
            client.request("GET", "/", b"", {}).read()
        client.close()
        thread.join()
