"""Findings in a few lines: which there are, what each takes, and what keeps an approval back, as the guide says it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tests.acceptance.model import HELD, ModelReview, Refused, Round, is_one
from tests.acceptance.reviewing import WHY, edited

FILES = {name: tuple(f"line {number}" for number in range(1, 11)) for name in ("a.txt", "b.txt")}
EDITS = {
    "better": {"a.txt": "better"},
    "best": {"a.txt": "best"},
    "other": {"b.txt": "better"},
    "wider": {"a.txt": "better", "b.txt": "better"},
}
"""By content: the files whose second line it replaces, and by what."""
CONTENTS = {name: "".join(edited(file, text=text) for file, text in edits.items()) for name, edits in EDITS.items()}

GRAVITY = ("nit", "minor", "major", "blocker")
ANSWERS = ("fixed", "refuted", "deferred")
SETTLINGS = ("verified", "upheld", "reopened")
UNSETTLED = {"open", "reopened", *ANSWERS}
_OPEN = UNSETTLED | {"late"}
TAKES: dict[str, set[str]] = {
    **dict.fromkeys(ANSWERS, _OPEN),
    "verified": _OPEN,
    "upheld": {"refuted", "deferred"},
    "reopened": {*_OPEN, "verified", "upheld", "suppressed"},
}
"""The states in which a finding takes an answer."""
TALKED = ("pending", *HELD, "changes_requested", "approved")
"""The states of a review in which its proposer answers."""
MOST = 3
"""So many rounds, or answers to one finding that did not hold, and a person decides."""


class Actor(NamedTuple):
    """An actor.

    Attributes:
        name: The name that they state.
        is_person: Whether their word is a person's.
        is_proposer: Whether they are the proposer, under whichever name.
        roles: Those of their token or endpoint.
    """

    name: str
    is_person: bool = False
    is_proposer: bool = False
    roles: frozenset[str] = frozenset(("proposer", "reviewer", "admin"))

    def require(self, role: str) -> None:
        """Refuse what another role does; at the endpoint of a role there is no tool for it."""
        if role not in self.roles:
            raise Refused("FORBIDDEN", "NOT_FOUND")


class Fault(NamedTuple):
    """A finding as it is given."""

    severity: str
    place: tuple[str | None, int | None] = (None, None)
    category: str | None = None
    claim: str = "It is wrong."
    pre_existing: bool = False

    @property
    def sent(self) -> dict[str, Any]:
        """The same in a request."""
        facts = self._asdict()
        file, line = facts.pop("place")
        return {**facts, "file": file, "line": line}

    @property
    def of_file(self) -> Fault:
        """The same of the whole file."""
        return self._replace(place=(self.place[0], None))


class Said(NamedTuple):
    """A verdict with everything that comes along."""

    verdict: str
    found: Sequence[Fault] = ()
    answers: dict[str, str] = {}  # noqa: RUF012 - never changed
    read_all: bool = False
    patch: str | None = None

    @property
    def sent(self) -> dict[str, Any]:
        """The same in a request."""
        answers = [{"finding_id": name, "answer": answer, "reason": WHY} for name, answer in self.answers.items()]
        found = {"findings": [one.sent for one in self.found], "answers": answers, "read_all": self.read_all}
        patch = {"counter_patch": CONTENTS[self.patch]} if self.patch else {}
        return {"verdict": self.verdict, "reason": WHY, **found, **patch}


@dataclass(frozen=True)
class ModelFinding:
    """A finding; a change is a new one."""

    fault: Fault
    author: str
    is_person: bool
    round: int
    state: str = "open"
    is_request: bool = False
    lines: str | None = None
    known_by: tuple[str, ...] | None = None
    """By what the same finding is known again."""
    bytes: tuple[str, ...] | None = None
    """Its file as the change left it; None for the whole change, and where that does not touch it."""
    changed: bool = False
    """Whether its lines were other ones already when it came to its review."""
    answered_by: str | None = None
    born: int = 0
    reopenings: int = 0
    is_lesson: bool = False
    settled_round: int = 0
    """The round in which it was verified: those before it have the fault."""
    written_by: tuple[str, ...] = ()
    """Who wrote the content that it was found on."""
    is_doubtful: bool = False
    """Whether it counts for nothing, and may be right."""

    def blocks(self, threshold: str) -> bool:
        """Whether it keeps an approval back."""
        if self.state not in UNSETTLED or self.fault.pre_existing:
            return False
        return self.is_request or GRAVITY.index(self.fault.severity) >= GRAVITY.index(threshold)

    def differs(self, content: str, other: str) -> bool:
        """Whether two contents have other lines at its place."""
        file, line = self.fault.place
        if file is None:
            return False
        was, now = lines_of(content, file), lines_of(other, file)
        return was != now if line is None else was[line - 1] != now[line - 1]

    def is_on(self, content: str) -> bool:
        """Whether a content brings the file that it was written on."""
        return self.bytes is not None and self.bytes == bytes_of(content, self.fault.place[0])

    def met(self, was: str, content: str) -> set[str]:
        """Its file, or any of the whole change, where a content brings that as it was in another one."""
        files = [file for file in FILES if file == self.fault.place[0] or self.bytes is None]
        return {file for file in files if bytes_of(was, file) == bytes_of(content, file) is not None}

    @property
    def identity(self) -> tuple[object, ...]:
        """The facts that tell it from others where its change comes again."""
        return (self.fault.of_file, self.lines, self.author, self.is_person, self.is_request)


@dataclass
class Shop:
    """A project with its reviews, by their ids, and its threshold."""

    threshold: str = "major"
    has_tokens: bool = False
    """Whether it is certain who is a person."""
    reviews: dict[str, Reviewed] = field(default_factory=dict[str, "Reviewed"])
    clock: Iterator[int] = field(default_factory=itertools.count)

    def elsewhere(self, review: Reviewed, here: Iterable[ModelFinding], *, is_person: bool) -> list[ModelFinding]:
        """What other reviews keep an approval of the same content, or a part of it, back by."""
        others = [one for one in self.reviews.values() if one is not review]
        whose = {one.born: other.content_of(one) for other in others for one in other.findings.values()}
        found = newest(
            (one, stands)
            for other in others
            for one, stands in other.met_by(review.content, lambda one, at=other: one.is_person or not at.is_approved)
        )
        blocking = (one for one in found if one.blocks(self.threshold))
        kept = [one for one in blocking if not review.has_settled(one, whose[one.born], here)]
        return [one for one in kept if not is_person or (one.is_person and not one.is_request)]

    def _going_on(self, content: str, parent: str | None) -> list[tuple[ModelFinding, Reviewed]]:
        came_from = {id(one): other for other in self.reviews.values() for one in other.findings.values()}
        there = self.reviews[parent].findings.values() if parent else ()
        known = [(one, True) for one in there if one.state in UNSETTLED]
        for other in self.reviews.values():
            met = other.met_by(content, lambda _, at=other: at.is_over)
            known += ((one, stands) for one, stands in met if other.is_over or one.state in SETTLED or stands)
        return [(one, came_from[id(one)]) for one in newest(known, as_is=True)]

    def going_on(self, content: str, parent: str | None) -> list[ModelFinding]:
        """The open findings of the parent of a new review, and those on its content without approval."""
        return [
            replace(
                back(one), round=0, settled_round=0, changed=one.changed or one.differs(other.content_of(one), content)
            )
            for one, other in self._going_on(content, parent)
        ]

    def stopped_after(self, content: str, parent: str | None) -> int | None:
        """After how many rounds a new review waits for a person, as one does that it goes on with; None if none."""
        known = [self.reviews[parent]] if parent else []
        known += (other for one, other in self._going_on(content, parent) if back(one).blocks(self.threshold))
        return max((after for one in known if (after := one.stopped_after) is not None), default=None)

    def lesson(self, known_by: tuple[str, ...] | None, severity: str) -> ModelFinding | None:
        """The first that was refuted before, at least as grave."""
        known = (one for review in self.reviews.values() for one in review.findings.values() if one.is_lesson)
        same = (one for one in known if one.known_by == known_by)
        graver = GRAVITY.index(severity)
        found = (one for one in same if GRAVITY.index(one.fault.severity) >= graver)
        return min(found, key=lambda one: one.born, default=None)


SETTLED = ("verified", "upheld")


def newest(known: Iterable[tuple[ModelFinding, bool]], *, as_is: bool = False) -> list[ModelFinding]:
    """Those that stand, of each that went on to other reviews the newest; opened again unless `as_is`."""
    found = {one.identity: (one, stands) for one, stands in sorted(known, key=lambda pair: pair[0].born)}
    return [one if as_is else back(one) for one, stands in found.values() if stands]


def back(one: ModelFinding) -> ModelFinding:
    """A finding whose lines come again as they were."""
    return one if one.state in UNSETTLED else replace(one, state="reopened", reopenings=one.reopenings + 1)


def lines_of(content: str, file: str) -> list[str]:
    """A file as a content leaves it."""
    lines = list(FILES[file])
    lines[1] = EDITS[content].get(file, lines[1])
    return lines


def bytes_of(content: str, file: str | None) -> tuple[str, ...] | None:
    """A file that a content touches, as it leaves it."""
    return tuple(lines_of(content, file)) if file in EDITS[content] else None


@dataclass
class Reviewed(ModelReview):
    """A review with its findings, by their ids."""

    findings: dict[str, ModelFinding] = field(default_factory=dict[str, ModelFinding])
    new: list[ModelFinding] = field(default_factory=list[ModelFinding])
    """Those whose ids only the broker knows."""
    attention: bool = False
    """Whether agents do not agree, so that a person decides."""
    decided: dict[int, str] = field(default_factory=dict[int, str])
    """The contents of the rounds that were decided, by their numbers."""
    asked: bool = False
    """Whether the person who holds it commented last."""
    approved_at: str = "major"
    """The threshold at which it was approved."""
    touched: int = 0
    objections: int = 0
    objected_round: int = 0
    waited: int | None = None
    """After how many such rounds it was closed while it waited for a person, who did not close it."""

    @property
    def is_stopped(self) -> bool:
        """Whether only a person has it go on."""
        is_ended = self.state == "changes_requested" or self.objected_round < self.round
        return self.attention or (self.objections >= MOST and is_ended)

    @property
    def stopped_after(self) -> int | None:
        """After how many rounds it waits for a person, or did when it was closed; None if it does not."""
        return self.waited if self.state == "closed" else self.objections if self.is_stopped else None

    def _object(self) -> None:
        if self.objected_round != self.round:
            self.objections, self.objected_round = self.objections + 1, self.round

    @property
    def content(self) -> str:
        return self.rounds[-1].content

    def content_of(self, one: ModelFinding) -> str:
        """What a finding was written on."""
        return self.rounds[max(one.round, 1) - 1].content

    def has_settled(self, one: ModelFinding, written_on: str, here: Iterable[ModelFinding]) -> bool:
        """Whether the same finding was settled here, on the same bytes."""
        over = (mine for mine in here if mine.state in ("verified", "upheld"))
        same = [mine for mine in over if (mine.identity, mine.bytes) == (one.identity, one.bytes)]
        met = one.met(written_on, self.content)
        contents = [self.content_of(mine) for mine in same]
        return any(
            one.bytes is not None or was == self.content or (met and met <= one.met(was, self.content))
            for was in contents
        )

    def _begin_round(self, content: Round) -> None:
        before, after = self.content, content.content
        super()._begin_round(content)
        self.attention |= self.objections >= MOST
        back = {name: one for name, one in self.findings.items() if self._is_back(one, before, after)}
        self.findings |= {
            name: replace(one, state="reopened", reopenings=one.reopenings + 1) for name, one in back.items()
        }

    def _is_back(self, one: ModelFinding, before: str, after: str) -> bool:
        """Whether a round brings back what a finding was written on."""
        if one.state not in ("fixed", "verified"):
            return False
        own = self.content_of(one)
        if not one.changed and one.differs(own, before) and not one.differs(own, after):
            return True
        if one.bytes is None:
            return own == after != before or bool(one.met(own, after) - one.met(before, after))
        return one.is_on(after) and not one.is_on(before)

    def met_by(self, content: str, stands: Callable[[ModelFinding], bool]) -> Iterator[tuple[ModelFinding, bool]]:
        """The findings on a content that comes again, and which of them stand there."""
        for one in self.findings.values():
            rounds = [(at, now.content) for at, now in enumerate(self.rounds, 1) if at >= max(one.round, 1)]
            if one.state in UNSETTLED and any(was == content or one.met(was, content) for _, was in rounds):
                yield one, stands(one)
            elif one.state in SETTLED:
                wrong = self.rounds[one.settled_round - 1].content if one.settled_round else None
                whole = [at for at, was in rounds if was == content]
                part = {at: met for at, was in rounds if (met := one.met(was, content))}
                is_back = one.state == "verified" and wrong is not None
                again = is_back and wrong != content and any(at < one.settled_round for at in whole)
                kept = one.met(wrong, content) if wrong is not None else set[str]()
                again |= is_back and any(at < one.settled_round and met - kept for at, met in part.items())
                if whole or part:
                    yield one, again

    @property
    def is_approved(self) -> bool:
        return self.approved is not None or self.state == "approved"

    @property
    def is_over(self) -> bool:
        """Whether it ended without an approval that stands."""
        return self.state == "rejected" or (self.state == "closed" and self.approved is None)

    # ------------------------------------------------------------------------------------------- claims

    def claim_by(self, by: Actor) -> None:
        by.require("reviewer")
        if self.attention and not by.is_person:
            raise Refused("INVALID_TRANSITION")
        self.claim(by.name)

    def retry(self, by: Actor) -> None:
        by.require("admin")
        if self.state != "pending" and not self.is_stopped:
            raise Refused("INVALID_TRANSITION")
        if self.is_stopped and not by.is_person:
            raise Refused("FORBIDDEN")
        self.objections = 0 if self.is_stopped else self.objections
        self.attention = False

    def close_by(self, by: Actor) -> None:
        if self.state == "closed":
            return
        is_decided = by.is_person and by.name != self.proposer
        if self.state not in ("approved", "rejected") and not is_decided:
            self.waited = self.objections if self.attention or self.objections >= MOST else None
        super().close()
        self.attention = False

    def accept(self, patch_id: str, who: str | None) -> None:
        is_stopped = self.objections >= MOST and not self.attention
        super().accept(patch_id, who)
        if is_stopped and self.held:
            self._free()
            self.state, self.asked = "pending", False

    def revise(self, author: str, content: str) -> None:
        super().revise(author, content)
        self._hear_first()

    def release(self, generation: int) -> None:
        super().release(generation)
        self._hear_first()

    def _hear_first(self) -> None:
        """A person whose claim has ended reads the answer first."""
        self.attention, self.asked = self.attention or self.asked, False

    def withdraw(self, by: Actor) -> None:
        if self.approved is None:
            raise Refused("INVALID_TRANSITION")
        if not by.is_person and by.name != self.last_reviewer:
            raise Refused("NOT_CLAIMANT")
        self.approved = None
        self.decided[self.round] = self.content
        self.new = [self._requested(by)] if by.is_person else []
        self._object()
        if self.state == "approved":
            self.state, self.last_reviewer = "changes_requested", by.name

    # ------------------------------------------------------------------------------------------- verdicts

    def judge(self, shop: Shop, by: Actor, generation: int, said: Said) -> None:
        """A verdict of the claim's holder."""
        self._admit(generation, *HELD)
        if wrong := [
            *(["STALE_ROUND"] if self.claim_round != self.round else []),
            *(["SELF_APPROVAL"] if self.is_own(by.name) else []),
        ]:
            raise Refused(*wrong)
        now = self.rounds[-1]
        changed = {
            name: settled(self.findings[name], now, answer, by, self.round) for name, answer in said.answers.items()
        }
        if said.verdict == "approved" and by.is_person:
            changed = self._requests_met(by) | changed
        new = [self._made(shop, by, one) for one in said.found]
        asks = said.verdict == "changes_requested"
        refuses = by.is_person and said.verdict in ("changes_requested", "rejected")
        if refuses and not any(one.blocks(shop.threshold) for one in (*changed.values(), *new)):
            new.append(self._requested(by))
        known = self.findings | changed
        blocking = [one for one in (*known.values(), *new) if one.blocks(shop.threshold)]
        is_met = bool(shop.elsewhere(self, known.values(), is_person=by.is_person))
        late = not blocking and any(
            one.is_doubtful and replace(one, state="open").blocks(shop.threshold) for one in new
        )
        stored = self._stored(by, said, blocking, new, is_met=is_met, is_late=late)
        self.findings, self.new = known, new
        goes_on = stored == said.verdict != "rejected" and not by.is_person and (asks or blocking)
        self.asked = stored == "comment" and by.is_person and not said.found
        is_decided = by.is_person and (stored == "approved" or (refuses and (self.is_stopped or shop.has_tokens)))
        if stored != "approved":
            self._object()
        often = self.objections >= MOST or late or any(one.reopenings >= MOST for one in blocking)
        self.objections = 0 if is_decided else self.objections
        self._after_verdict(shop, stored, is_disputed=bool(goes_on and often))

    def _stored(
        self,
        by: Actor,
        said: Said,
        blocking: list[ModelFinding],
        new: list[ModelFinding],
        *,
        is_met: bool,
        is_late: bool,
    ) -> str | None:
        """The verdict that is stored; None if the review is left to a person."""
        if said.verdict == "approved":
            if any(one in new or by.is_person or not one.is_person for one in blocking) or (by.is_person and is_met):
                raise Refused("OPEN_FINDINGS")
            return None if blocking or is_met else "approved"
        is_small = said.found and said.read_all and not blocking and not is_late and said.patch is None
        if said.verdict == "changes_requested" and not by.is_person and is_small and not is_met:
            return "approved"
        return said.verdict

    def _after_verdict(self, shop: Shop, stored: str | None, *, is_disputed: bool) -> None:
        if stored is None or (stored == "comment" and is_disputed):
            self._free()
            self.state, self.attention = "pending", True
        elif stored == "comment":
            self.state = "in_review"
        else:
            self.decided[self.round] = self.content
            self.state, self.last_reviewer, self.patch = stored, self.holder, None
            self.holder = self.claim_round = None
            self.approved = self.rounds[-1] if stored == "approved" else None
            self.approved_at = shop.threshold
            self.attention = is_disputed

    def _requested(self, by: Actor) -> ModelFinding:
        """The finding for a person's decision against the change."""
        request, number = Fault("major", claim=WHY), self.round
        return ModelFinding(request, by.name, by.is_person, number, is_request=True, written_by=self._authors)

    def _requests_met(self, by: Actor) -> dict[str, ModelFinding]:
        """A person who approves a later round, or their own request, says that it is met."""
        met = {name: one for name, one in self.findings.items() if one.is_request and one.state in UNSETTLED}
        return {
            name: replace(one, state="verified", settled_round=self.round)
            for name, one in met.items()
            if one.round < self.round or one.author == by.name
        }

    def _made(self, shop: Shop, by: Actor, fault: Fault) -> ModelFinding:
        (file, line), content = fault.place, self.content
        text, known_by, state, lesson = None, None, "open", None
        if file is not None and line is not None:
            lines = lines_of(content, file)
            text = lines[line - 1]
            around = lines[max(0, line - 3) : line + 2]
            known_by = (f"[{fault.category}]" if fault.category else fault.claim, file, *around)
        if by.is_person:
            pass
        elif known_by and (lesson := shop.lesson(known_by, fault.severity)):
            state = "suppressed"
        elif fault.severity != "blocker" and self._is_old(file, line):
            state = "late"
        written_on = bytes_of(content, file)
        is_other = lesson is not None and lesson.fault.claim != fault.claim
        is_doubtful = state == "late" or (is_other and fault.severity == "blocker")
        found = ModelFinding(fault, by.name, by.is_person, self.round, state, lines=text, known_by=known_by)
        return replace(found, bytes=written_on, is_doubtful=is_doubtful, written_by=self._authors)

    @property
    def _authors(self) -> tuple[str, ...]:
        return (self.proposer, self.rounds[-1].submitter, self.rounds[-1].author)

    def _is_old(self, file: str | None, line: int | None) -> bool:
        """Whether a place is as the round had it that was decided on before."""
        before = [content for number, content in sorted(self.decided.items()) if number < self.round]
        if file is None or not before:
            return False
        was, lines = lines_of(before[-1], file), lines_of(self.content, file)
        return was == lines if line is None else was[line - 1] == lines[line - 1]

    # ------------------------------------------------------------------------------------------- answers

    def answer(self, shop: Shop, by: Actor, name: str, answer: str) -> None:
        """What the proposer says of a finding; contested ones go back to a reviewer."""
        self._only_in(*TALKED)
        by.require("proposer")
        before = self.findings[name]
        if before.state not in TAKES[answer]:
            raise Refused("INVALID_TRANSITION")
        # A late one keeps nothing back, and no answer alters that.
        state = before.state if before.state == "late" else answer
        self.findings[name] = replace(before, state=state, answered_by=by.name)
        known = self.findings.values()
        asked = [one for one in known if one.blocks(shop.threshold)] or [one for one in known if one.state in UNSETTLED]
        if self.held and all(one.state in ANSWERS for one in asked):
            self.asked = False
        is_contested = all(one.state in ("refuted", "deferred") for one in asked)
        if is_contested and self.state == "changes_requested" and self.patch is None:
            self.state, self.last_reviewer = "pending", None

    def forget_lesson(self, by: Actor, name: str) -> None:
        by.require("admin")
        self.findings[name] = replace(self.findings[name], is_lesson=False)

    def settle(self, shop: Shop, by: Actor, name: str, answer: str) -> None:
        """What a reviewer says of a finding, beside a verdict."""
        by.require("reviewer")
        if not by.is_person:
            self._only_in(*HELD, "changes_requested", "approved")
            if by.name != (self.holder if self.held else self.last_reviewer):
                raise Refused("NOT_CLAIMANT")
        if self.is_own(by.name):
            raise Refused("SELF_APPROVAL")
        found = settled(self.findings[name], self.rounds[-1], answer, by, self.round)
        if self.approved is not None and found.blocks(shop.threshold):
            raise Refused("INVALID_TRANSITION")
        self.findings[name] = found


def settled(before: ModelFinding, now: Round, answer: str, by: Actor, number: int) -> ModelFinding:
    """A finding as a reviewer settles or reopens it."""
    wrote = (*before.written_by, *([now.author] if now.is_accepted_patch else []))
    if any(is_one(by.name, one) for one in wrote) and not is_one(by.name, before.author):
        raise Refused("SELF_APPROVAL")
    if is_one(by.name, before.answered_by):
        raise Refused("SELF_APPROVAL")
    if before.is_person and not by.is_person:
        raise Refused("FORBIDDEN")
    if before.state not in TAKES[answer]:
        raise Refused("INVALID_TRANSITION")
    teaches = answer == "upheld" and before.state == "refuted" and before.known_by is not None
    again = answer == "reopened" and before.state not in ("open", "reopened")
    return replace(
        before,
        state=answer,
        is_lesson=teaches,
        reopenings=before.reopenings + again,
        settled_round=number if answer == "verified" else 0,
    )


def fresh(proposer: str, content: str) -> Reviewed:
    """A review that was just proposed."""
    return Reviewed(proposer, [Round(content, proposer)])
