"""How answers leave: JSON bodies and refusals, over plain ASGI."""

from __future__ import annotations

from starlette.types import Send

from tandem.errors import InvalidInput, TandemError
from tandem.operations.dispatch import Outcome

Headers = tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json")
# Answers are never to be guessed at, framed as pages or kept by a cache on the way.
_API_HEADERS: Headers = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class MethodNotAllowed(InvalidInput):
    """An address was asked in a way that it does not answer; `details.allowed` lists the others."""

    status = 405

    def __init__(self, *methods: str) -> None:
        super().__init__(f"Use {' or '.join(methods)} here.", field="method", allowed=list(methods))

    @property
    def allow(self) -> str:
        """The header `Allow`."""
        return ", ".join(self.details["allowed"])


async def send_bytes(send: Send, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
    """A whole response at once."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def send_outcome(send: Send, outcome: Outcome, status: int | None = None, headers: Headers = ()) -> None:
    """An envelope, with its own HTTP status unless another is given."""
    await send_bytes(send, status or outcome.status, outcome.body(), (JSON, *_API_HEADERS, *headers))


async def send_refusal(send: Send, error: TandemError, status: int | None = None, headers: Headers = ()) -> None:
    """The envelope of an error, with its own HTTP status unless another is given."""
    await send_outcome(send, Outcome(error=error), status, headers)
