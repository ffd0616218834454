"""A program that listens on this machine, answers, and is no broker."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress


@contextmanager
def listening(answer: Callable[[bytes], bytes]) -> Generator[tuple[int, list[bytes]]]:
    """A stranger's program; its port, and all that it is told."""
    told: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                # Who leaves without reading all of the answer resets the connection.
                with connection, suppress(ConnectionError):
                    while said := connection.recv(65536):
                        told.append(said)
                        connection.sendall(answer(said))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], told
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@contextmanager
def dripping(answer: bytes, drop: bytes, every_seconds: float = 0.05) -> Generator[int]:
    """A stranger's program that begins each answer like this, and then goes on without end; its port."""
    gone = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(answer)
            while not gone.wait(every_seconds):
                connection.sendall(drop)

    def listen(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=listen, args=(server,), daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            gone.set()
            server.shutdown(socket.SHUT_RDWR)
    thread.join(10)
