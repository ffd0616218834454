"""Mirrors of projects' repositories that this broker fetches itself, each with the project's deploy key.

All brokers on a database share the registration; each fetches its own mirror when it first needs it.
The key is derived from the brokers' secret, so that all of them show the same one to the forge.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.core.clock import Clock
from tandem.core.files import write_atomically
from tandem.core.platforms import make_private
from tandem.core.scratch import remove_tree
from tandem.core.secret_key import Tokens
from tandem.errors import InternalError, TandemError, Unavailable
from tandem.git.mirror import MirrorFolder, ssh_command

FOLDER: Final = "mirrors"
"""Below the data folder."""
PATIENCE_SECONDS = 30.0
"""How long a call waits for a fetch; that goes on without it."""
PAUSE_SECONDS = 10.0
"""How long no call tries again after a fetch that failed: each would wait as long as the one before."""
_KEY, _KNOWN_HOSTS = ".key", "known_hosts"
_SLUG = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_SLUG = 40
_LOG = logging.getLogger("tandem.mirrors")


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """How mirrors are fetched.

    Attributes:
        folder: Where they are kept.
        tokens: The brokers' secret, from which deploy keys come.
        clock: The clock.
        git: The program.
        timeout_seconds: How long one fetch may take.
        limit_bytes: Most bytes of one mirror.
    """

    folder: Path
    tokens: Tokens
    clock: Clock
    git: str
    timeout_seconds: float
    limit_bytes: int

    def deploy_key(self, project: str) -> tuple[bytes, str]:
        """A project's private key as ssh reads it, and the line of the public one for the forge."""
        # As in `gate.signing`: the library is large.
        from tandem.projects import ed25519

        private, public = ed25519.openssh(self.tokens.deploy_seed(project))
        return private, f"{public} tandem-{_slug(project)}"


def _slug(project: str) -> str:
    return _SLUG.sub("-", project)[:_LONGEST_SLUG].strip("-") or "project"


class Mirror:
    """A project's mirror at this broker.

    Attributes:
        url: Where it is fetched from.
        folder: Where it is.
        files: Its objects and branches.
        running: The fetch that is under way.
        public_key: The deploy key that the forge must admit.
        fetched_at: When it was last fetched, in microseconds since the epoch; None if not since the broker's start.
        problem: Why the last fetch failed; None if it did not.
    """

    def __init__(self, project: str, url: str, settings: MirrorSettings) -> None:
        name = f"{_slug(project)}-{hashlib.sha256(f'{url} {project}'.encode()).hexdigest()[:12]}"
        self.url = url
        self.folder = settings.folder / name
        self.fetched_at: int | None = None
        self.problem: TandemError | None = None
        self._failed_at = -PAUSE_SECONDS
        self._settings = settings
        self._key = settings.folder / f"{name}{_KEY}"
        self._private, self.public_key = settings.deploy_key(project)
        self.files = MirrorFolder(
            self.folder,
            url,
            settings.git,
            timeout_seconds=settings.timeout_seconds,
            limit_bytes=settings.limit_bytes,
        )
        self.running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The names of its own files in the folder of mirrors."""
        return self.folder.name, self._key.name

    def unavailable(self) -> Unavailable:
        """The error for a caller that needs an object which is not in it."""
        problem = self.problem.message if self.problem is not None else "It is still being fetched; try again."
        return Unavailable(f"The project's mirror has not what this is about. {problem}", url=self.url)

    async def refresh(self) -> None:
        """As `fetch`, unless that has failed just now."""
        if time.monotonic() - self._failed_at >= PAUSE_SECONDS:
            await self.fetch()

    async def fetch(self) -> None:
        """Fetch the URL's newest commits, or note why that failed; waits no longer than `PATIENCE_SECONDS`.

        The fetch begins after this call; all waiting callers share it.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self.running), name="mirror")
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        self.running, self._next = self._next, None
        try:
            await asyncio.to_thread(self._fetch)
        except TandemError as error:
            self.problem = error
        except OSError as error:
            self.problem = InternalError(f"The mirror cannot be written: {error}")
        else:
            self.problem, self.fetched_at = None, self._settings.clock.now_us()
        finally:
            if self.running is asyncio.current_task():
                self.running = None
        if self.problem is not None:
            self._failed_at = time.monotonic()
            _LOG.warning("a mirror was not fetched: %s", self.problem.message)

    def _fetch(self) -> None:
        folder = self._settings.folder
        make_private(str(folder))
        write_atomically(self._key, self._private, durable=False)
        self.files.fetch({"GIT_SSH_COMMAND": ssh_command(self._key, folder / _KNOWN_HOSTS)})

    async def close(self) -> None:
        """End a fetch that is under way."""
        self.files.stop()
        under_way = [task for task in (self.running, self._next) if task is not None]
        await asyncio.gather(*under_way, return_exceptions=True)


def remove_others(settings: MirrorSettings, mirrors: Iterable[Mirror]) -> None:
    """Remove what belongs to no registered project; blocks."""
    kept = {_KNOWN_HOSTS, *(name for one in mirrors for name in one.names)}
    with suppress(OSError):
        for found in settings.folder.iterdir():
            if found.name not in kept:
                remove_tree(str(found))
