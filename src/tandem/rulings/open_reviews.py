"""Which review a command that is run again goes on with: kept in the git folder, by branch, agent and session."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from tandem.core.files import json_object, write_atomically
from tandem.core.stand_ins import hex_digest
from tandem.errors import AlreadyLanded, Forbidden, InvalidTransition, NotFound
from tandem.git.place import find_repository
from tandem.rulings.state import FOLDER

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tandem.bridge.session import Session

_FOLDER = "reviews"
_TAKES_NO_ROUND = frozenset(one.code for one in (AlreadyLanded, Forbidden, InvalidTransition, NotFound))
AGAIN = "again"
"""The fact that is the command to run again; of a status, too, for `next_steps`."""
STAGED = "staged"
"""The fact whether the review's content was the index as it was; of a status, too."""


class OpenReview:
    """The record of a review; each fact is there after a kill, too.

    Args:
        git_dir: That of one working tree, or the common one, where any working tree may go on.
        of: Whose it is: the command, the branch, and who runs it.

    Attributes:
        facts: By their names; `review_id` is the review, `follows` one that ended without approval.
    """

    def __init__(self, git_dir: str, *of: str | None) -> None:
        name = f"{hex_digest(json.dumps(of).encode())[:16]}.json"
        self._path = os.path.join(git_dir, FOLDER, _FOLDER, name)
        self.facts = json_object(self._path)

    def keep(self, **facts: Any) -> None:
        """Change some facts; None removes one."""
        self.facts = {name: value for name, value in {**self.facts, **facts}.items() if value is not None}
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        write_atomically(self._path, json.dumps(self.facts).encode(), durable=False)

    def forget(self) -> None:
        """Begin with the next change."""
        self.facts = {}
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def is_overtaken(self) -> bool:
        """Whether another run has gone on with this review since, with other content or another message."""
        kept = json_object(self._path)
        changed = {name for name in ("digest", "message", "amends") if kept.get(name) != self.facts.get(name)}
        return bool(changed) and kept.get("review_id") == self.facts.get("review_id")

    def status(self, session: Session) -> dict[str, Any] | None:
        """Where the review stands; None if there is none, also where the broker has another database by now."""
        with suppress(NotFound):
            if (review_id := self.facts.get("review_id")) is not None:
                return session.data("get_review_status", {"review_id": review_id})
        return None

    def submit(self, session: Session, ask: Callable[[Any], dict[str, Any]], content: dict[str, Any]) -> bytes:
        """Submit as a new round where the review takes one, else as a review; the envelope of `create_review`.

        After a kill, too, there is only one review.

        Args:
            session: The broker.
            ask: The request for a content, without the review.
            content: The content, as JSON has it.
        """
        pending = self.facts.get("pending")
        if pending is not None and pending["content"] != content:
            self._create(session, ask, **pending)
        status = self.status(session)
        has_ended = status is not None and status["status"] in {"rejected", "closed"}
        if status is not None and not has_ended:
            envelope = session.call("create_review", {**ask(content), "review_id": status["review_id"]})
            if self._kept(envelope) not in _TAKES_NO_ROUND:
                return envelope
        follows = status["review_id"] if has_ended and status and status["outcome"] != "approved" else None
        follows = follows or self.facts.get("follows")
        self.keep(review_id=None, pending={"content": content, "parent": follows})
        return self._create(session, ask, content, follows)

    def _create(
        self, session: Session, ask: Callable[[Any], dict[str, Any]], content: dict[str, Any], parent: str | None
    ) -> bytes:
        request = {**ask(content), **({"parent_id": parent} if parent else {})}
        key = hex_digest(json.dumps(request, sort_keys=True).encode())
        envelope = session.call("create_review", {**request, "idempotency_key": f"again-{key}"})
        self._kept(envelope)
        return envelope

    def _kept(self, envelope: bytes) -> str | None:
        """Remember the review of an answer; the code of a refusal."""
        answer: dict[str, Any] = json.loads(envelope)
        if answer["ok"]:
            created = answer["data"]
            self.keep(review_id=created["review_id"], digest=created["digest"], pending=None, follows=None)
            return None
        return answer["error"]["code"]


def record(review_id: str) -> dict[str, Any]:
    """The facts that a command which goes on with a review keeps in this working tree; none if none was run here."""
    place = find_repository()
    for git_dir in {place.git_dir, place.common_dir} if place is not None else ():
        folder = os.path.join(git_dir, FOLDER, _FOLDER)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            facts = json_object(os.path.join(folder, name))
            if review_id in {facts.get("review_id"), facts.get("follows")}:
                return facts
    return {}
