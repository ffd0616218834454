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
