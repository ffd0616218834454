"""What proposers and reviewers do, said shortly, and everything of a review that anybody can see."""

from __future__ import annotations

import difflib
import hashlib
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.broker import Caller

T = TypeVar("T")
PROPOSER = "prop-1"
REVIEWER = "rev-1"
OTHER = "rev-2"
WHY = "Because the second line is wrong."


class Desk(Caller):
    """A project in which changes are proposed and answered."""

    def register(self, root: Path) -> None:
        """Make the project a registered one."""
        self.do_unscoped("register_project", root=str(root), name=self.project)

    def do_unscoped(self, operation: str, **arguments: Any) -> Any:
        """A call of an operation that belongs to no project; its data."""
        envelope = self.envelope_unscoped(operation, **arguments)
        assert envelope["ok"], envelope["error"]
        return envelope["data"]

    def envelope_unscoped(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """A call of an operation that belongs to no project; its envelope."""
        return self._http.post(f"/api/v1/{operation}", json=arguments).json()

    def put_up(self, **content: Any) -> str:
        """A new review by `PROPOSER`; its id."""
        return self.put_up_whole(**content)["review_id"]

    def put_up_whole(self, **content: Any) -> dict[str, Any]:
        """A new review by `PROPOSER`; the whole answer."""
        if not content.keys() & {"diff", "description"}:
            content["description"] = "The change in words."
        return self.do("create_review", **{**PROPOSAL, **content})

    def put_up_claimed(self, **content: Any) -> str:
        """A new review by `PROPOSER` that `REVIEWER` holds; its id."""
        review = self.put_up(**content)
        self.claim(review)
        return review

    def put_up_approved(self, **content: Any) -> str:
        """A new review by `PROPOSER` that `REVIEWER` has approved; its id."""
        review = self.put_up(**content)
        self.approve(review)
        return review

    def revise(self, review_id: str, **content: Any) -> dict[str, Any]:
        """A new round by `PROPOSER`."""
        return self.put_up_whole(review_id=review_id, **content)

    def claim(self, review_id: str, reviewer: str = REVIEWER) -> int:
        """A claim; its generation."""
        return self.do("claim_review", review_id=review_id, reviewer_id=reviewer)["claim_generation"]

    def verdict(self, review_id: str, verdict: str, generation: int | None = None, **more: Any) -> dict[str, Any]:
        """A verdict with a reason, under the current claim unless another generation is given."""
        if generation is None:
            generation = self.status(review_id)["claim_generation"]
        reason = {} if verdict == "approved" else {"reason": WHY}
        return self.do(
            "submit_verdict", review_id=review_id, verdict=verdict, claim_generation=generation, **{**reason, **more}
        )

    def decide(self, review_id: str, verdict: str, **more: Any) -> dict[str, Any]:
        """Claim, and give a verdict."""
        return self.verdict(review_id, verdict, self.claim(review_id), **more)

    def approve(self, review_id: str, reviewer: str = REVIEWER) -> None:
        """Claim and approve."""
        self.verdict(review_id, "approved", self.claim(review_id, reviewer))

    def accept(self, review_id: str, counter_patch_id: str) -> dict[str, Any]:
        """Accept a counter-patch as `PROPOSER`, by name: else it might be its author's doing."""
        with Desk(self.url, self.project, agent=PROPOSER) as proposer:
            return proposer.do("accept_counter_patch", review_id=review_id, counter_patch_id=counter_patch_id)

    def say(self, review_id: str, side: str, body: str = "A word.", **more: Any) -> dict[str, Any]:
        """A message; a reviewer's is sent by `REVIEWER` unless something else is said."""
        if side == "reviewer" and not more.keys() & {"reviewer_id", "claim_generation"}:
            more["reviewer_id"] = REVIEWER
        return self.do("add_message", review_id=review_id, sender_role=side, body=body, **more)

    def status(self, review_id: str) -> dict[str, Any]:
        """Where it stands."""
        return self.do("get_review_status", review_id=review_id)

    def events(self, review_id: str) -> list[dict[str, Any]]:
        """Its timeline."""
        return self.do("get_review_timeline", review_id=review_id)["events"]

    def kinds(self, review_id: str) -> list[str]:
        """The kinds of its events, oldest first."""
        return [event["kind"] for event in self.events(review_id)]

    def pages(self, operation: str, **wanted: Any) -> list[dict[str, Any]]:
        """Every answer of a list that comes by pages."""
        answers: list[dict[str, Any]] = [self.do(operation, **wanted)]
        while (page := answers[-1]["next_page"]) is not None:
            answers.append(self.do(operation, page=page, **wanted))
        return answers

    def rows(self, operation: str, name: str, **wanted: Any) -> list[dict[str, Any]]:
        """Every row of such a list."""
        return [row for answer in self.pages(operation, **wanted) for row in answer[name]]

    def discussion(self, review_id: str, **more: Any) -> list[dict[str, Any]]:
        """One page of the discussion."""
        return self.do("get_discussion", review_id=review_id, **more)["entries"]

    def everything(self, review_id: str) -> dict[str, Any]:
        """All that can be seen of a review; equal when nothing about it was changed."""
        return {
            "status": self.status(review_id),
            "proposal": self.do("get_proposal", review_id=review_id),
            "discussion": self.discussion(review_id),
            "events": self.events(review_id),
        }

    @contextmanager
    def unchanged(self, review_id: str) -> Generator[None]:
        """What happens inside must leave no trace on the review, not even a longer lease."""
        before = self.everything(review_id)
        yield
        assert self.everything(review_id) == before

    def is_open_for(self, digest: str | None) -> bool:
        """Whether the gate lets a digest through."""
        assert digest is not None
        return self.do("check_gate", digest=digest)["allowed"]


class AgentDesk(Desk):
    """The same for an agent, which calls over MCP at the endpoint of its role: its word is no person's."""

    role = "reviewer"

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call; its envelope."""
        return self.over_mcp(operation, {"project": self.project, **arguments}, self.role)


class ProposerDesk(AgentDesk):
    """An agent that proposes."""

    role = "proposer"


PROPOSAL = {"intent": "Improve it", "agent_type": "claude-code", "proposer_id": PROPOSER}
"""What every proposal of these tests says of itself."""


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run all calls at the same moment, a thread each; their results in order."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(run, call) for call in calls]]


def drawn(line: int = 2, text: str = "better", name: str = "a.txt") -> str:
    """As `edited`, as git draws it: with three lines of context, and the ids of the blobs."""
    before = [f"line {number}\n" for number in range(1, 11)]
    after = [*before[: line - 1], f"{text}\n", *before[line:]]
    old, new = (hashlib.sha1(f"blob {len(one)}\0{one}".encode()).hexdigest() for one in map("".join, (before, after)))
    hunk = list(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))
    return "".join([f"diff --git a/{name} b/{name}\nindex {old}..{new} 100644\n", *hunk])


def edited(name: str = "a.txt", line: int = 2, text: str = "better", *, end: str = "\n") -> str:
    """A diff that replaces one line of a file of `repo`, with one line of context on either side."""
    before, after = f" line {line - 1}\n", f" line {line + 1}"
    hunk = f"@@ -{line - 1},3 +{line - 1},3 @@\n{before}-line {line}\n+{text}\n{after}"
    return f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n{hunk}{end}"
