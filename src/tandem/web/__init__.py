"""The pages for people, behind the application: imported in a thread when somebody first asks for one."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

from tandem.server.asgi.exchange import Exchange

_ADDRESS = re.compile(
    "/(?:(?:activity|cycles|events|inbox|login|logout|projects|queue|reviewers|reviews|static|statistics|webhooks|you)"
    "(?:/.*)?)?",
    re.DOTALL,
)
_SITE_MODULE = "tandem.web.site"


class Pages:
    """The site, from the first request on. Agents that only call tools never pay for templates."""

    def __init__(self, **arguments: Any) -> None:
        """Nothing is imported yet; `arguments` are those of `tandem.web.site.PagesApp`."""
        self._arguments = arguments
        self._serve: Callable[[Exchange], Awaitable[None]] | None = None
        self._importing = asyncio.Lock()

    def has(self, path: str) -> bool:
        """Whether an address is one of the pages'."""
        return _ADDRESS.fullmatch(path) is not None

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request for a page."""
        if self._serve is None:
            async with self._importing:
                if self._serve is None:
                    self._serve = await asyncio.to_thread(self._make)
        await self._serve(exchange)

    def _make(self) -> Callable[[Exchange], Awaitable[None]]:
        return importlib.import_module(_SITE_MODULE).PagesApp(**self._arguments).serve
