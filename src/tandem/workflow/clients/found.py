"""Which clients are installed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from tandem.workflow.clients import CLIENTS, Client, Site


@dataclass(frozen=True, slots=True)
class Found:
    """A client that is set up, and why.

    Attributes:
        client: The client.
        program: Where its program is on PATH; null if it is not.
        folder: Its configuration folder; null if there is none.
    """

    client: Client
    program: str | None
    folder: str | None

    @property
    def is_installed(self) -> bool:
        """Whether there is a trace of it."""
        return self.program is not None or self.folder is not None


def look(site: Site) -> list[Found]:
    """All clients, and what of them is there."""
    return [_look_for(client, site) for client in CLIENTS]


def _look_for(client: Client, site: Site) -> Found:
    path = site.environment.get("PATH")
    programs = (shutil.which(program, path=path) for program in client.programs)
    folder = site.user_file(client.folder)
    return Found(client, next(filter(None, programs), None), str(folder) if folder.is_dir() else None)
