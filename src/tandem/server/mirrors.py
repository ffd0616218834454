"""`/git/PROJECT`: the broker's mirror of a project, for git on the machines of reviewers. It is only read."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Final

from tandem.errors import Forbidden, InvalidInput, NotFound
from tandem.git import mirror
from tandem.reviews.context import Services
from tandem.server.asgi.exchange import Exchange, MethodNotAllowed, read_body, run_watched
from tandem.server.catalogue import REGISTRY

PREFIX: Final = "/git/"
_ABOUT, _PACK = "info/refs", "git-upload-pack"
_QUERY = b"service=git-upload-pack"
_ROLES = REGISTRY.get("get_base_files").roles
_NEVER_KEPT = (b"cache-control", b"no-store")
_MOST_AT_ONCE = 4


class MirrorRoutes:
    """Answers git. Who may read a project's rounds may read its mirror."""

    def __init__(self, services: Services, body_limit_bytes: int) -> None:
        """Make the routes.

        Args:
            services: The services.
            body_limit_bytes: The largest request, with and without compression.
        """
        self._services = services
        self._limit_bytes = body_limit_bytes
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request of somebody who was let in.

        Raises:
            Forbidden: The token is for something else.
            NotFound: There is no such mirror.
            InvalidInput: It is not what git asks, in version 2 of its protocol.
        """
        asked = exchange.path.removeprefix(PREFIX)
        what = next((one for one in (_ABOUT, _PACK) if asked.endswith(f"/{one}")), "")
        project = asked.removesuffix(f"/{what}")
        self._check(exchange, project)
        if not what or (what == _ABOUT and exchange.query != _QUERY):
            raise NotFound(f"Git can only fetch from '{project}'.", path=exchange.path[:200])
        if exchange.headers.get(b"git-protocol") != mirror.PROTOCOL.encode():
            raise InvalidInput("Use version 2 of git's protocol: git -c protocol.version=2 fetch", field="Git-Protocol")
        request = None
        if what == _PACK:
            if exchange.method != "POST":
                raise MethodNotAllowed("POST")
            request = await read_body(exchange, self._limit_bytes)
            if exchange.headers.get(b"content-encoding") == b"gzip":
                request = await asyncio.to_thread(mirror.inflated, request, self._limit_bytes)
        folder = await self._folder(project, mirror.wanted(request or b""))
        await run_watched(self._answer(exchange, folder, request), exchange.receive)

    def _check(self, exchange: Exchange, project: str) -> None:
        access = exchange.access
        if access is None:
            return
        if access.project not in {None, project} or not _ROLES & access.roles:
            raise Forbidden(f"This token is not for reading the project '{project[:200]}'.", allowed=sorted(_ROLES))

    async def _folder(self, project: str, wanted: tuple[str, ...]) -> Path:
        projects = self._services.projects
        repository = await projects.repository(project, *wanted)
        mirror = projects.mirror(project)
        if mirror is None:
            raise NotFound(f"This broker keeps no mirror of '{project[:200]}'.", project=project[:200])
        if repository is None:
            raise mirror.unavailable()
        return mirror.files.git_folder

    async def _answer(self, exchange: Exchange, folder: Path, request: bytes | None) -> None:
        kind = "advertisement" if request is None else "result"
        headers = ((b"content-type", f"application/x-git-upload-pack-{kind}".encode()), _NEVER_KEPT)
        async with (
            self._places,
            asyncio.timeout(self._services.projects.mirror_seconds),
            mirror.answer(self._services.projects.git.program, folder, request) as said,
            aclosing(said),
        ):
            await exchange.send({"type": "http.response.start", "status": 200, "headers": list(headers)})
            async for piece in said:
                await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
            await exchange.send({"type": "http.response.body", "body": b""})
