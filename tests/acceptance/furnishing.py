"""A project with something of everything in it, for tests that call every operation."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

from tandem.rulings import proof
from tandem.rulings.policy import FILE as POLICY_FILE
from tandem.rulings.trust import CHECKS_FILE
from tandem.server.catalogue import REGISTRY
from tests.acceptance.gated import Team
from tests.acceptance.pooling import Steward
from tests.acceptance.receiving import NOBODY, added, proved
from tests.acceptance.reviewing import Desk, edited
from tests.acceptance.tables import table
from tests.broker import CALL_SECONDS, DATA_DIRS
from tests.git.sandbox import Sandbox

AGENT = "agent-7"
REQUESTS: dict[str, list[dict[str, Any]]] = table("requests")
"""Requests that are right, by operation; `$name` stands for a value of the shop."""


def filled(part: Any, look_up: Callable[[str], Any]) -> Any:
    """A part of a request with the value of each `$name`; a name without a value gives fields, or nothing."""
    if isinstance(part, str) and part.startswith("$"):
        return look_up(part[1:])
    if isinstance(part, list):
        return [filled(one, look_up) for one in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    found: dict[str, Any] = {}
    for name, inner in cast("dict[str, Any]", part).items():
        if not name.startswith("$"):
            found[name] = filled(inner, look_up)
        elif isinstance(given := look_up(name[1:]), dict):
            found |= cast("dict[str, Any]", given)
    return found


@dataclass(frozen=True)
class Shop:
    """A registered project; each thing in it is made when it is asked for, and answered by its id."""

    desk: Desk
    root: str
    changes: ClassVar = [{"path": "a.txt", "mode_after": "100644", "blob_after": "1" * 40}]
    """The raw difference of some commit."""
    diff: ClassVar = edited()
    other_diff: ClassVar = edited(text="else")
    diff_of_b: ClassVar = edited("b.txt")

    @cached_property
    def asker(self) -> Desk:
        """Who sends the requests."""
        return Desk(self.desk.url, self.desk.project, agent=AGENT).admitted_as(self.desk)

    def request(self, operation: str, number: int) -> dict[str, Any]:
        """One of `REQUESTS`, with its project, and a key where it can have one."""
        request = self.arguments(operation, number)
        fields = REGISTRY.get(operation).request.model_fields
        if "project" in fields:
            request["project"] = self.desk.project
        if "idempotency_key" in fields:
            request["idempotency_key"] = "key-1"
        return request

    def arguments(self, operation: str, number: int) -> dict[str, Any]:
        """The same as it stands there, without project and key."""
        return filled(REQUESTS[operation][number], self._look_up)

    def _look_up(self, name: str) -> Any:
        found: Any = self
        for word in name.split("."):
            found = cast("dict[str, Any]", found)[word] if isinstance(found, dict) else getattr(found, word)
        made: Any = found() if callable(found) else found
        return made

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
        """A review with messages, a remark, and an undecided counter-patch."""
        return self._offer[0]

    @property
    def patch(self) -> str:
        """That counter-patch."""
        return self._offer[1]

    @property
    def finding(self) -> str:
        """A finding of that review."""
        return self.desk.do("list_findings", review_id=self.offered)["findings"][0]["finding_id"]

    @cached_property
    def approved(self) -> str:
        """An approved review."""
        review = self.desk.put_up(diff=edited("b.txt"))
        self.desk.approve(review)
        return review

    @cached_property
    def checked(self) -> str:
        """A review whose base names a check that no person has trusted."""
        repository = Sandbox(Path(self.root))
        repository.write(CHECKS_FILE, "[[check]]\nname = 'tests'\ncommand = ['true']\n")
        repository.commit("checks")
        return self.desk.put_up(diff=edited())

    def waiving(self) -> dict[str, Any]:
        """A request that waives what the policy asks for, with the proof of a person."""
        repository = Sandbox(Path(self.root))
        repository.write(POLICY_FILE, "[[rule]]\nneeds = ['person']\n")
        repository.commit("policy")
        review = self.desk.put_up(diff=edited())
        due = (datetime.now(tz=UTC) + timedelta(days=3)).isoformat()
        stated = {"review_id": review, "need": "person", "until": due, "reason": "The shop is down.", "round": 1}
        facts = proof.waiver_facts(review, "person", 1, due, "ann", "The shop is down.")
        return {**stated, "waived_by": "ann", "proof": self._sealed(facts)}

    def settling(self) -> dict[str, Any]:
        """A request that settles a waiver, with the proof of a person."""
        review = self.desk.do("waive_requirement", **self.waiving())["review_id"]
        stated = {"review_id": review, "verdict": "approved", "reviewer_id": "bob"}
        return {**stated, "proof": self._sealed(proof.settling_facts(review, None, "approved", "bob", None))}

    def _sealed(self, facts: list[object]) -> str:
        return proof.prove({proof.PERSON: (DATA_DIRS[self.desk.url] / proof.FILE).read_text().strip()}, facts)

    @cached_property
    def rolled_back(self) -> str:
        """A plan with two recorded commits, whose change was rolled back; its key."""
        for commit in ("a" * 40, "b" * 40):
            self.desk.do("record_commit", commit=commit, plan="03-02", review_ids=[self.approved])
        heads = {"head_before": "b" * 40, "head_after": "c" * 40}
        self.desk.do("record_rollback", review_id=self.approved, branch="feature", **heads)
        return "03-02"

    def drafted(self) -> str:
        """A review on which there is a draft."""
        draft = {"review_id": self.claimed, "draft_id": "d1", "round": 1, "kind": "finding", "body": "Why?"}
        self.desk.do("save_draft", **draft, person=AGENT)
        return self.claimed

    def overriding(self) -> dict[str, Any]:
        """A request for an override, with the proof that a person answered."""
        return self.asker.proved(changes=self.changes, reason="The shop is down.")

    def overridden(self) -> str:
        """An override; its id."""
        return self.asker.do("override_gate", **self.overriding())["override_id"]

    def loosening(self) -> dict[str, Any]:
        """A request that switches the gate off, with the proof of a person."""
        return self.desk.loosening(enabled=False, reason="A pause.")

    def webhook(self) -> str:
        """A webhook to where nothing listens; its id."""
        return added(self.desk, NOBODY)["webhook_id"]

    def proved_webhook(self, **options: Any) -> dict[str, Any]:
        """A request for such a webhook."""
        return proved(self.desk, NOBODY, project=self.desk.project, **options)

    def proved_slack_webhook(self) -> dict[str, Any]:
        """The same, for Slack and for reviews only."""
        return self.proved_webhook(events=["review_"], format="slack")

    def address(self) -> str:
        """Where a mirror of the project finds it."""
        return Path(self.root).as_uri()

    def nowhere(self) -> str:
        """Where a mirror finds nothing."""
        return Path(self.root, "none").as_uri()

    def secret(self) -> str:
        """A supervisor's secret."""
        return secrets.token_hex(32)

    def token(self) -> str:
        """An access token; its id."""
        return self.desk.do("create_token", name="bob", roles=["proposer"])["token_id"]

    @cached_property
    def staff(self) -> Staff:
        """A pool with one reviewer."""
        # No reviewer is started while nothing waits.
        assert self.pending
        return Staff.begin(self.desk)

    def settle(self) -> None:
        """Wait for the calls beside the test, which must not outlive it."""
        if "staff" in vars(self):
            self.staff.settle()
        for webhook in self.desk.do_unscoped("list_webhooks")["webhooks"]:
            if webhook["project"] == self.desk.project:
                self.desk.do("remove_webhook", webhook_id=webhook["webhook_id"])
        for name in {"asker", "team"} & vars(self).keys():
            vars(self)[name].close()

    @cached_property
    def team(self) -> Team:
        """A hand-off cycle of the built-in workflow in its first phase, with a session of each role."""
        team = Team(self.desk.url, self.desk.project).admitted_as(self.desk)
        team.enrol()
        team.begin()
        return team

    def handing(self) -> dict[str, Any]:
        """The request of the first hand-off."""
        return self.team.handing("gemini", "codex")

    def completing(self) -> dict[str, Any]:
        """The request that completes the cycle, which has come so far."""
        self.team.pass_on("gemini", "codex")
        self.team.pass_on("codex", "gemini")
        return self.team.tokens("gemini")

    def refined(self) -> bool:
        """True, with the cycle in its last phase."""
        return bool(self.completing())

    def archiving(self) -> dict[str, Any]:
        """The request that archives the cycle, which is complete."""
        self.team.do("cycle_complete", **self.completing())
        return self.team.tokens("gemini")

    def archived(self) -> bool:
        """True, with the cycle archived."""
        return bool(self.team.do("cycle_archive", **self.archiving()))


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
        """Wait until the supervisor has reported the reviewers that it started, if any."""
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
