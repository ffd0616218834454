"""The clients that agents run in: how they are found, and what each one's files have to hold.

One module each says where a client keeps its MCP servers and permissions, and what a person has to know. What agents
are taught is the same for all of them and stands in `workflow/teaching`.
"""

from __future__ import annotations

from typing import Final

from tandem.errors import InvalidInput
from tandem.workflow.clients.claude import Claude
from tandem.workflow.clients.codex import Codex
from tandem.workflow.clients.cursor import Cursor
from tandem.workflow.clients.gemini import Gemini
from tandem.workflow.clients.opencode import Opencode
from tandem.workflow.clients.site import SERVER, Client, Site

CLIENTS: Final[tuple[Client, ...]] = (Claude(), Codex(), Gemini(), Opencode(), Cursor())
NAMES: Final = tuple(client.name for client in CLIENTS)

__all__ = ["CLIENTS", "NAMES", "SERVER", "Client", "Site", "client"]


def client(name: str) -> Client:
    """The client of a name.

    Raises:
        InvalidInput: There is none.
    """
    found = next((one for one in CLIENTS if one.name == name), None)
    if found is None:
        raise InvalidInput(
            f"There is no client {name!r}; choose from {', '.join(NAMES)}.", field="client", allowed=list(NAMES)
        )
    return found
