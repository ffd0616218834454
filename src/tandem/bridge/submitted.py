"""Which reviews agents have submitted from a working tree, so that a hook can tell them what becomes of these.

A file for each review, in the working tree's own git folder: agents in other working trees never see it.
"""

from __future__ import annotations

import json
import os

from tandem.core.files import write_atomically
from tandem.git.place import find_repository

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from typing import Any

ORIGIN = "submitted_from"
"""Where an agent's proposal says in its metadata where it comes from."""

_FOLDER = os.path.join("tandem", "submitted")
_CREATE, _CLOSE = "create_review", "close_review"
REMEMBERED = frozenset({_CREATE, _CLOSE})
"""The operations of which something is remembered."""


class Submission:
    """A review that an agent submitted here.

    Attributes:
        review_id: The review.
        intent: Its purpose, if that was stated here.
        session: A hash of the agent's session; None if that is not known.
        told: By session, "" for one that is not known: what an agent was told of the review last.
    """

    def __init__(self, path: str, facts: dict[str, Any]) -> None:
        self._path = path
        self.review_id = os.path.basename(path)
        self.intent: str = facts.get("intent") or ""
        self.session: str | None = facts.get("session")
        self.told: dict[str, str] = facts.get("told") or {}

    def keep(self) -> None:
        """Write the facts down.

        Raises:
            OSError: It cannot be written.
        """
        facts = {"intent": self.intent, "session": self.session, "told": self.told}
        write_atomically(self._path, json.dumps(facts).encode(), durable=False)

    def forget(self) -> None:
        """The review is over.

        Raises:
            OSError: The file cannot be removed.
        """
        os.unlink(self._path)


def submissions(folder: str | None = None) -> list[Submission]:
    """The reviews that were submitted from the working tree of a folder and are not known to be over, newest first."""
    within = _folder(folder)
    found: list[tuple[float, Submission]] = []
    try:
        names = os.listdir(within) if within else []
    except OSError:
        names = []
    for name in names:
        path = os.path.join(str(within), name)
        try:
            with open(path, "rb") as file:
                found.append((os.fstat(file.fileno()).st_mtime, Submission(path, json.load(file))))
        except (OSError, ValueError, AttributeError):
            continue  # half gone, or no file of ours
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def remember(folder: str | None, operation: str, request: dict[str, Any], data: dict[str, Any]) -> None:
    """Note a review that an agent submitted from a folder's working tree, or closed there; nothing else.

    That a note cannot be written keeps nothing from being done: the agent is then told less.

    Args:
        folder: Where the agent works; None for the present folder.
        operation: The operation that was called.
        request: Its arguments; a proposal's metadata say that an agent made it.
        data: Its answer.
    """
    try:
        facts = {"intent": request.get("intent")}
        if operation == _CREATE:
            facts["session"] = request["metadata"][ORIGIN].get("session")
        within = _folder(folder)
        if within is not None:
            known = Submission(os.path.join(within, os.path.basename(data["review_id"])), facts)
            if operation == _CLOSE:
                known.forget()
                return
            os.makedirs(within, exist_ok=True)
            known.keep()
    except (OSError, LookupError, TypeError, AttributeError):
        return  # a person's, a refusal, or it cannot be written


def _folder(folder: str | None) -> str | None:
    place = find_repository(folder)
    return None if place is None else os.path.join(place.git_dir, _FOLDER)
