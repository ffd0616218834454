"""Ports that stay reserved while nothing listens at them: for servers that tests stop and start again."""

from __future__ import annotations

import os
import socket
import sys

from tandem.core.platforms import claim_address


class HeldPort:
    """A port of this machine that is kept from `hold` to `release`.

    On Linux a bound socket that does not listen keeps the port from programs that ask for any port, and not from one
    that asks for this port. Elsewhere nothing is held: a port is found that is free.

    Attributes:
        number: The port; 0 until there is one.
    """

    def __init__(self) -> None:
        self.number = 0
        self._descriptor: int | None = None

    def hold(self) -> int:
        """Hold it from now on, whichever it is the first time; twice is safe."""
        if self._descriptor is None:
            with socket.socket() as bound:
                claim_address(bound)
                bound.bind(("127.0.0.1", self.number))
                self.number = int(bound.getsockname()[1])
                if sys.platform == "linux":
                    self._descriptor = bound.detach()
        return self.number

    def release(self) -> None:
        """Let others have it; twice is safe."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
