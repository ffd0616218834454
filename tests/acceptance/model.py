"""A review in a few lines: what the contract says happens, without a database, a network or a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

HELD = ("claimed", "in_review")


class Refused(Exception):
    """The contract refuses this; `codes` are the answers that it allows."""

    def __init__(self, *codes: str) -> None:
        super().__init__(*codes)
        self.codes = codes


def is_one(name: str | None, other: str | None) -> bool:
    """Whether two names are one principal's: with tokens what follows a slash is a label; other names have none."""
    return name is not None and other is not None and name.partition("/")[0] == other.partition("/")[0]


@dataclass
class Round:
    """Which content, by whom, and whether it is an accepted counter-patch: then of whom, to whose content."""

    content: str
    author: str
    is_accepted_patch: bool = False
    accepted_by: str | None = None
    submitter: str = ""

    def __post_init__(self) -> None:
        self.submitter = self.submitter or self.author


@dataclass
class Patch:
    """An undecided counter-patch."""

    id: str
    content: str
    author: str
    sent_by: str | None = None


@dataclass
class ModelReview:
    """A review as the contract describes it. Methods raise `Refused`, or change it."""

    proposer: str
    rounds: list[Round]
    state: str = "pending"
    generation: int = 0
    holder: str | None = None
    claim_round: int | None = None
    last_reviewer: str | None = None
    speaker: str | None = None
    approved: Round | None = None
    patch: Patch | None = None
    effective: dict[int, int] = field(default_factory=dict[int, int])
    """How many effective verdicts each generation gave."""
    requests: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Which persons asked for changes of which rounds, and no one said that they are made."""

    @property
    def round(self) -> int:
        return len(self.rounds)

    @property
    def held(self) -> bool:
        return self.state in HELD

    def _only_in(self, *states: str) -> None:
        if self.state not in states:
            raise Refused("INVALID_TRANSITION")

    def _begin_round(self, content: Round) -> None:
        self.rounds.append(content)
        self.approved = self.speaker = self.last_reviewer = None

    def _free(self) -> None:
        self.generation += 1
        self.holder = self.claim_round = None

    def revise(self, author: str, content: str) -> None:
        self._only_in("pending", *HELD, "changes_requested", "approved")
        if self.held:
            self._free()
        self.state, self.patch = "pending", None
        self._begin_round(Round(content, author))

    def claim(self, reviewer: str) -> None:
        if self.held:
            if self.holder != reviewer:
                raise Refused("ALREADY_CLAIMED")
            self.claim_round = self.round
            return
        self._only_in("pending", "changes_requested")
        if self.is_own(reviewer):
            raise Refused("SELF_APPROVAL")
        self.generation += 1
        self.state, self.holder, self.claim_round, self.speaker = "claimed", reviewer, self.round, None

    def is_offered_to(self, reviewer: str) -> bool:
        return self.state == "pending" and not self.is_own(reviewer)

    def is_own(self, reviewer: str) -> bool:
        current = self.rounds[-1]
        if is_one(reviewer, self.proposer) or is_one(reviewer, current.submitter):
            return True
        is_seen = current.accepted_by is not None and not is_one(reviewer, current.accepted_by)
        return is_one(reviewer, current.author) and not is_seen

    def _admit(self, generation: int, *states: str) -> None:
        if generation < self.generation:
            raise Refused("STALE_CLAIM")
        self._only_in(*states)

    def renew(self, generation: int) -> None:
        self._admit(generation, *HELD)

    def release(self, generation: int) -> None:
        self._admit(generation, *HELD)
        self._free()
        self.state = "pending"

    def verdict(self, generation: int, verdict: str, round_number: int | None) -> None:
        self._admit(generation, *HELD)
        assert self.holder is not None
        wrong = [
            *(["STALE_ROUND"] if (round_number or self.claim_round) != self.round else []),
            *(["SELF_APPROVAL"] if self.is_own(self.holder) else []),
        ]
        if wrong:
            raise Refused(*wrong)
        if verdict == "approved":
            if any(who != self.holder and number == self.round for who, number in self.requests):
                raise Refused("OPEN_FINDINGS")
            self.requests.clear()
        if verdict == "changes_requested":
            self.requests.add((self.holder, self.round))
        self.speaker = "reviewer"
        if verdict == "comment":
            self.state = "in_review"
            return
        self.effective[generation] = self.effective.get(generation, 0) + 1
        self.patch = None
        self.state, self.last_reviewer = verdict, self.holder
        self.holder = self.claim_round = None
        self.approved = self.rounds[-1] if verdict == "approved" else None

    def offered(self, patch: Patch) -> None:
        """A verdict that was let through brought a counter-patch along."""
        self.patch = patch

    def accept(self, patch_id: str, who: str | None) -> None:
        self._decide(patch_id)
        patch = self.patch
        assert patch is not None
        if is_one(who, patch.author) or is_one(who, patch.sent_by):
            raise Refused("SELF_APPROVAL")
        # Who says no name is the proposer, unless the author said none either.
        accepted_by = who or (self.proposer if patch.sent_by else None)
        submitter = self.rounds[-1].submitter
        accepted = Round(patch.content, patch.author, True, accepted_by, submitter)
        if not self.held:
            self.state = "pending"
        self.patch = None
        self._begin_round(accepted)

    def reject(self, patch_id: str) -> None:
        self._decide(patch_id)
        self.patch, self.speaker = None, "proposer"

    def _decide(self, patch_id: str) -> None:
        self._only_in("pending", *HELD, "changes_requested")
        if self.patch is None or self.patch.id != patch_id:
            raise Refused("NO_COUNTER_PATCH")

    def proposer_message(self) -> None:
        self._only_in("pending", *HELD, "changes_requested", "approved")
        self._speak("proposer")

    def reviewer_message(self, generation: int) -> None:
        self._admit(generation, *HELD, "changes_requested", "approved")
        self._speak("reviewer")

    def _speak(self, side: str) -> None:
        if self.speaker == side:
            raise Refused("TURN_VIOLATION")
        self.speaker = side
        if self.held:
            self.state = "in_review"

    def close(self) -> None:
        if self.held:
            self._free()
        self.state, self.patch = "closed", None


def codes_of(change: Callable[[], None]) -> tuple[str, ...]:
    """Change the model; the codes with which the contract refuses that, none if it does not."""
    try:
        change()
    except Refused as refused:
        return refused.codes
    return ()
