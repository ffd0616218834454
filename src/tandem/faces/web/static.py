"""Styles and scripts, under addresses that name their content, so that browsers keep them for good."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.responses import Response

from tandem.errors import NotFound
from tandem.faces.web.page import PageRequest

FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
_STAMP_DIGITS = 12


class StaticFiles:
    """All static files, read once; a request names one of them and never a path of the disk."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): (path.read_bytes(), _TYPES[path.suffix])
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        self._stamps = {
            name: hashlib.sha256(body).hexdigest()[:_STAMP_DIGITS] for name, (body, _) in self._files.items()
        }

    def address(self, name: str) -> str:
        """Where a file is, by its path under `static/`."""
        return f"/static/{self._stamps[name]}/{name}"

    async def serve(self, request: PageRequest) -> Response:
        """Answer with a file.

        Raises:
            NotFound: There is none of that name.
        """
        name, stamp = request.path("name"), request.path("stamp")
        found = self._files.get(name)
        if found is None:
            raise NotFound("There is no such file.", path=name[:200])
        current = stamp == self._stamps[name]
        headers = {"cache-control": _FOREVER if current else "no-cache"}
        return Response(found[0], media_type=found[1], headers=headers)
