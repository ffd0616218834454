"""A project with something of everything in it, for tests that call every operation."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tandem.cycles.payloads import ARRAYS
from tandem.rulings.trust import CHECKS_FILE
from tests.acceptance.pooling import Steward
from tests.acceptance.receiving import NOBODY, added
from tests.acceptance.reviewing import Desk, edited
from tests.broker import CALL_SECONDS
from tests.git.sandbox import Sandbox

AGENT = "agent-7"
CHANGES = [{"path": "a.txt", "mode_after": "100644", "blob_after": "1" * 40}]
"""The raw difference of some commit."""


@dataclass(frozen=True)
class Shop:
    """A registered project; whatever is asked for in it is made then, and answered by its id."""

    desk: Desk
    root: str

    def furnished(self) -> Shop:
        """The same, with one review in each of several states."""
        assert self.pending
        assert self.claimed
        assert self.offered
        assert self.approved
        return self

    @cached_property
    def pending(self) -> str:
        """A review that waits, of a rejected one's change; nothing is left out that a proposal may say."""
        parent = self.desk.put_up(diff=edited())
        self.desk.claim(parent)
        self.desk.verdict(parent, "rejected")
        return self.desk.put_up(diff=edited(), parent_id=parent, metadata={"a": [1]}, phase="1", plan="2", task="3")

    @cached_property
    def claimed(self) -> str:
        """A review whose second round somebody holds, in the first generation."""
        review = self.desk.put_up(diff=edited())
        self.desk.revise(review, diff=edited(text="best"))
        self.desk.claim(review)
        return review

    @cached_property
    def _offer(self) -> tuple[str, str]:
        review = self.desk.put_up(description="# Plan\n", path="plan.md")
        self.desk.claim(review)
        asked = self.desk.say(review, "reviewer")["message_id"]
        self.desk.say(review, "proposer", resolves=asked)
        remark = {"file": "plan.md", "line": 1, "body": "Odd."}
        patch = self.desk.verdict(review, "changes_requested", comments=[remark], counter_patch="# A plan\n")
        return review, patch["counter_patch_id"]

    @property
    def offered(self) -> str:
        """A review with messages, a remark, and a counter-patch that nobody has decided about."""
        return self._offer[0]

    @property
    def patch(self) -> str:
        """That counter-patch."""
        return self._offer[1]

    @cached_property
    def approved(self) -> str:
        """An approved review."""
        review = self.desk.put_up(diff=edited("b.txt"))
        self.desk.approve(review)
        return review

    @cached_property
    def checked(self) -> str:
        """A review whose base names a check, which nobody has trusted."""
        repository = Sandbox(Path(self.root))
        repository.write(CHECKS_FILE, "[[check]]\nname = 'tests'\ncommand = ['true']\n")
        repository.commit("checks")
        return self.desk.put_up(diff=edited())

    @cached_property
    def rolled_back(self) -> str:
        """A plan with two recorded commits, whose change was rolled back; its key."""
        for commit in ("a" * 40, "b" * 40):
            self.desk.do("record_commit", commit=commit, plan="03-02", review_ids=[self.approved])
        heads = {"head_before": "b" * 40, "head_after": "c" * 40}
        self.desk.do("record_rollback", review_id=self.approved, branch="feature", **heads)
        return "03-02"

    def marked(self) -> str:
        """A review with a file that was marked as viewed."""
        mark = {"review_id": self.claimed, "round": 1, "path": "a.txt", "viewed": True, "person": AGENT}
        self.desk.do("mark_viewed", **mark)
        return self.claimed

    def overriding(self) -> dict[str, Any]:
        """A request for an override, with the proof that a person answered."""
        with Desk(self.desk.url, self.desk.project, agent=AGENT) as person:
            return person.proved(changes=CHANGES, reason="The shop is down.")

    def webhook(self) -> str:
        """A webhook to where nothing listens; its id."""
        return added(self.desk, NOBODY)["webhook_id"]

    def token(self) -> str:
        """An access token; its id."""
        return self.desk.do("create_token", name="bob", roles=["proposer"])["token_id"]

    @cached_property
    def staff(self) -> Staff:
        """A pool with one reviewer; made for whoever asks."""
        # Nobody is started while nothing waits.
        assert self.pending
        return Staff.begin(self.desk)

    def settle(self) -> None:
        """Wait for what goes on beside the test: its calls are not to outlive it."""
        if "staff" in vars(self):
            self.staff.settle()
        for webhook in self.desk.do_unscoped("list_webhooks")["webhooks"]:
            if webhook["project"] == self.desk.project:
                self.desk.do("remove_webhook", webhook_id=webhook["webhook_id"])

    @cached_property
    def team(self) -> Team:
        """A hand-off cycle under way; made for whoever asks."""
        return Team.begin(self.desk)


@dataclass
class Staff:
    """A pool with one reviewer, which holds a review."""

    steward: Steward
    reviewer: str
    claim: dict[str, Any]
    starting: threading.Thread | None = None

    @classmethod
    def begin(cls, desk: Desk) -> Staff:
        steward = Steward(desk)
        steward.register()
        reviewer = steward.one()
        return cls(steward, reviewer, desk.do("claim_review", reviewer_id=reviewer))

    def hiring(self) -> dict[str, Any]:
        """Nothing, but the supervisor starts whom it is told to, meanwhile."""
        known = set(self.steward.known)

        def start() -> None:
            while set(self.steward.beat(wait=True, timeout_s=5) and self.steward.known) == known:
                pass
            self.steward.beat()

        self.starting = threading.Thread(target=start, daemon=True)
        self.starting.start()
        return {}

    def settle(self) -> None:
        """Wait until the supervisor has said what it started, if it was to start anybody."""
        if self.starting is not None:
            self.starting.join(CALL_SECONDS)

    def paused(self) -> bool:
        """True, with the pool paused."""
        return bool(self.steward.desk.do("pause_reviewers", supervisor_id=self.steward.supervisor_id))

    def failing(self) -> dict[str, Any]:
        return {
            "reviewer_id": self.reviewer,
            "review_id": self.claim["review_id"],
            "claim_generation": self.claim["claim_generation"],
            "outcome": "unreadable",
            "reason": "It said nothing.",
            "tokens_in": 5,
        }


@dataclass
class Team:
    """A hand-off cycle of the built-in workflow in its first phase, with a session of each role."""

    desk: Desk
    keys: dict[str, str]
    sessions: dict[str, str]
    cycle_id: str

    @classmethod
    def begin(cls, desk: Desk) -> Team:
        keys = desk.do("cycle_init")["keys"]
        sessions = {role: desk.do("session_open", role=role, psk=key)["session_token"] for role, key in keys.items()}
        return cls(desk, keys, sessions, desk.do("cycle_start", feature="Answers")["cycle_id"])

    def tokens(self, role: str) -> dict[str, Any]:
        session = {"session_token": self.sessions[role]}
        return {**session, "lock_token": self.desk.do("lock_acquire", **session)["lock_token"]}

    def handing(self, role: str, target: str) -> dict[str, Any]:
        payload: dict[str, Any] = {name: ["something"] for name in ARRAYS}
        payload.update(cycle_id=self.cycle_id, feature="Answers", producer=role, consumer=target)
        return {"target": target, "payload": payload, **self.tokens(role)}

    def completing(self) -> dict[str, Any]:
        self.desk.do("handoff_write", **self.handing("gemini", "codex"))
        self.desk.do("handoff_write", **self.handing("codex", "gemini"))
        return self.tokens("gemini")

    def archiving(self) -> dict[str, Any]:
        self.desk.do("cycle_complete", **self.completing())
        return self.tokens("gemini")

    def archived(self) -> dict[str, Any]:
        self.desk.do("cycle_archive", **self.archiving())
        return {}
