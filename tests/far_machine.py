"""A machine of its own, as far as the network goes, that can vanish: a network namespace, and links into it.

It lasts as long as its processes, which end with the tests, however these end: nothing is left behind.
"""

from __future__ import annotations

import ipaddress
import secrets
import shutil
import subprocess
import sys
from typing import Self

import pytest

_RANGE = ipaddress.ip_network("198.18.0.0/15")
"""For tests of networks (RFC 2544): no machine is there."""
_PROGRAMS = ("ip", "nsenter", "unshare")


class FarMachine:
    """A namespace with some links from here; each is a subnet of its own.

    Attributes:
        near: Our address at each link.
        far: The machine's.
    """

    def __init__(self, links: int) -> None:
        subnets = secrets.SystemRandom().sample(range(0, _RANGE.num_addresses, 4), links)
        self.near, self.far = ([str(_RANGE[subnet + host]) for subnet in subnets] for host in (1, 2))
        self._names = [f"far{secrets.token_hex(4)}" for _ in subnets]

    def __enter__(self) -> Self:
        """Make it.

        Raises:
            Skipped: This system, or this user, makes no network namespaces.
        """
        if sys.platform != "linux" or not all(map(shutil.which, _PROGRAMS)):
            pytest.skip("platform: there are no network namespaces, or no programs to make one with")
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            self._lay_links()
        except (OSError, subprocess.CalledProcessError):
            self._keeper.communicate()
            pytest.skip("platform: who runs the tests may make no network namespaces here")
        return self

    def __exit__(self, *_: object) -> None:
        self._keeper.communicate(timeout=60)

    @property
    def inside(self) -> list[str]:
        """The words in front of a command that make it run there."""
        return ["nsenter", f"--net=/proc/{self._keeper.pid}/ns/net"]

    def unplug(self, link: int) -> None:
        """Silently drop everything on a link from now on, in both directions."""
        self._set(link, "down")

    def plug(self, link: int) -> None:
        """Everything goes over it again."""
        self._set(link, "up")

    def _set(self, link: int, state: str) -> None:
        _run(*self.inside, "ip", "link", "set", self._names[link], state)

    def _lay_links(self) -> None:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.write(b"there\n")
        self._keeper.stdin.flush()
        if self._keeper.stdout.readline() != b"there\n":
            raise OSError
        _run(*self.inside, "ip", "link", "set", "lo", "up")
        for name, near, far in zip(self._names, self.near, self.far, strict=True):
            _run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", str(self._keeper.pid))
            for where, address in (([], near), (self.inside, far)):
                _run(*where, "ip", "address", "add", f"{address}/30", "dev", name)
                _run(*where, "ip", "link", "set", name, "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
