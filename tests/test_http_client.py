"""The HTTP client for calls to a broker: which URLs it takes, how much of an answer, and where it goes on."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self

import pytest

from tandem.bridge import http, reading
from tandem.bridge.http import Exchange, HttpClient, HttpResponse
from tandem.bridge.location import Aborted, NotSent, ResponseLost, Target, targets
from tests.commandline import NOBODY
from tests.stranger import dripping


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
    monkeypatch.setattr(reading, "LARGEST_ANSWER_BYTES", 1000)
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


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "drop"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b" "),
        (CHUNKED + b"fff\r\n", b" "),
        (CHUNKED, b"1\r\n \r\n"),
        (CHUNKED + b"0\r\n", b"X: y\r\n"),
    ],
)
def test_p12_an_answer_that_never_ends_keeps_nobody(answer: bytes, drop: bytes):
    with dripping(answer, drop) as port:
        client = HttpClient(Target(f"http://127.0.0.1:{port}"), silence_seconds=0.5)
        began = time.monotonic()
        with pytest.raises(ResponseLost, match="timed out"):
            client.request("GET", "/", b"", {}).read()
        client.close()
        assert time.monotonic() - began < 5


def test_p12_a_stream_goes_on_for_as_long_as_whole_pieces_come():
    with dripping(CHUNKED, b"3\r\n: \n\r\n") as port:
        client = HttpClient(Target(f"http://127.0.0.1:{port}"), silence_seconds=0.5)
        began = time.monotonic()
        lines = client.request("GET", "/", b"", {}).lines()
        while time.monotonic() - began < 1:
            assert next(lines) == b": "
        client.close()


class Server:
    """Takes a request on each connection, and gives it one answer; hangs up where that is empty."""

    def __init__(self, *answers: bytes) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, args=answers)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self, *answers: bytes) -> None:
        for answer in answers:
            connected, _ = self._listener.accept()
            with connected:
                self.requests.append(connected.recv(65_536))
                connected.sendall(answer)


class Quiet:
    """Is silent, also at `/healthz` where `healths` says so; answers all when the last of these is true."""

    def __init__(self, *healths: bool) -> None:
        self.release, self.asked, self._healths = threading.Event(), threading.Event(), [*healths]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.client = HttpClient(Target(f"http://127.0.0.1:{self._listener.getsockname()[1]}"), asks_health=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self.client.close()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listener.accept()[:1], daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with connected, suppress(OSError):
            if b"/healthz" not in connected.recv(65_536):
                self.release.wait()
            else:
                self.asked.set()
                is_well = self._healths.pop(0)
                if not self._healths and is_well:
                    self.release.set()
                elif not is_well:
                    self.release.wait()
            connected.sendall(OK)


@pytest.fixture
def short_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(http, "_HEALTH_SECONDS", 0.5)


@pytest.mark.usefixtures("short_quiet")
@pytest.mark.parametrize("healths", [(True,), (False, True), (True, False, True)])
def test_p12_a_silent_broker_is_waited_for_while_it_answers_elsewhere(healths: tuple[bool, ...]):
    with Quiet(*healths) as server:
        assert status_of(server.client) == 200


@pytest.mark.usefixtures("short_quiet")
def test_p12_a_silent_broker_that_answers_nowhere_is_given_up():
    with Quiet(False, False) as server:
        began = time.monotonic()
        with pytest.raises(ResponseLost, match="timed out"):
            status_of(server.client)
        assert time.monotonic() - began < 10


def test_a_request_can_be_given_up_while_the_broker_is_asked_after(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(http, "_HEALTH_SECONDS", 60.0)
    exchange = Exchange()
    with Quiet(False) as server, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(server.client.request, "POST", "/x", b"", {}, exchange)
        assert server.asked.wait(60)
        exchange.abort()
        with pytest.raises(Aborted):
            asking.result(10)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def status_of(client: HttpClient) -> int:
    """The status of an answer that is read whole."""
    answer = client.request("POST", "/x", b"", {})
    answer.read()
    return answer.status


def test_a_connection_in_use_ends_with_its_client():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = HttpClient(Target(f"http://127.0.0.1:{server.getsockname()[1]}"))
        asking = threading.Thread(target=lambda: answers.append(client.request("POST", "/x", b"", {})))
        answers: list[HttpResponse] = []
        asking.start()
        connected, _ = server.accept()
        with connected:
            connected.settimeout(60)
            connected.recv(65_536)
            connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            asking.join()
            client.close()
            assert answers[0].read() == b"{}"
            assert connected.recv(1) == b""


def test_what_was_not_sent_goes_to_the_next_broker_and_the_next_requests_too():
    with Server(OK, OK) as second:
        client = HttpClient(*targets(f"{NOBODY}, {second.url}"))
        for _ in range(2):
            assert status_of(client) == 200
        client.close()
    assert len(second.requests) == 2


def test_what_may_have_had_an_effect_is_not_sent_to_the_next_broker_by_itself():
    with Server(b"") as first, Server(OK) as second:
        client = HttpClient(*targets(f"{first.url},{second.url}"))
        with pytest.raises(ResponseLost):
            client.request("POST", "/once", b"", {})
        assert second.requests == []
        client.request("POST", "/next", b"", {}).read()
        client.close()
    assert [request.split(b" ")[1] for request in second.requests] == [b"/next"]


def test_a_broker_that_serves_nobody_now_is_left_for_the_next_one():
    with Server(AWAY) as first, Server(OK) as second:
        client = HttpClient(*targets(f"{first.url},{second.url}"))
        assert [status_of(client) for _ in range(2)] == [503, 200]
        client.close()
    assert len(second.requests) == 1


def test_each_broker_is_tried_once():
    client = HttpClient(*targets(f"{NOBODY},{NOBODY}"))
    with pytest.raises(NotSent):
        client.request("GET", "/", b"", {})
    client.close()
