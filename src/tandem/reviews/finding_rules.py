"""Findings: faults that a reviewer names, their states, and when they keep an approval back.

Nothing bypasses `STEPS`: every answer and every settling asks `after()` where it leads.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from tandem.contract.caller import Names
from tandem.core.stand_ins import hex_digest
from tandem.errors import InvalidTransition, OpenFindings

Severity = Literal["blocker", "major", "minor", "nit"]
Answer = Literal["fixed", "refuted", "deferred"]
Settling = Literal["verified", "reopened", "upheld"]
Source = Literal["person", "agent", "check", "advice"]
ADVICE: Final = "advice"
"""The source of what a reviewer without a vote finds: it keeps nothing back."""

SEVERITIES: Final[tuple[Severity, ...]] = ("blocker", "major", "minor", "nit")
"""The gravest first."""
CATEGORIES: Final = ("correctness", "security", "performance", "concurrency", "tests", "documentation", "style")
"""Suggested to people; any word will do."""
SAID_BY_FINDINGS: Final = frozenset({"changes_requested", "comment"})
"""Verdicts for which findings are reason enough."""
SEE_FINDINGS: Final = "See the findings on the lines."
APPROVES: Final = "A reviewer approves"
"""So begins why a person decides about an approval that was stored as a comment."""
THRESHOLD: Final[Severity] = "major"
"""From which on an open finding keeps an approval back, unless the gate says otherwise."""
_SYNONYMS: Final[dict[str, Severity]] = {
    **dict.fromkeys(("p0", "critical", "fatal", "blocking", "blocker", "security"), "blocker"),
    **dict.fromkeys(("p1", "high", "error", "major", "important", "bug"), "major"),
    **dict.fromkeys(("p2", "medium", "moderate", "warning", "warn", "minor"), "minor"),
    **dict.fromkeys(("p3", "low", "info", "information", "note", "nit", "nitpick", "trivial", "style"), "nit"),
}

ANSWERS: Final = frozenset({"fixed", "refuted", "deferred"})
"""What the proposer says of a finding."""
OPEN: Final = frozenset({"open", "reopened", *ANSWERS})
"""States in which no one but the proposer, or no one, has settled it."""
_KEPT: Final = frozenset({"late"})
"""States in which it can be answered, and keeps nothing back."""
CONTESTED: Final = frozenset({"refuted", "deferred"})
"""Answers after which nothing is left to correct."""
OVER: Final = frozenset({"verified", "upheld"})
"""States in which a reviewer settled it."""
STEPS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(ANSWERS, OPEN | _KEPT),
    "verified": OPEN | _KEPT,
    # It was no fault of this change, or none that is corrected here: the proposer is right.
    "upheld": frozenset({"refuted", "deferred"}),
    # Also of one that was not answered: it still fails.
    "reopened": OPEN | OVER | _KEPT | {"suppressed"},
}
"""The answers that a finding takes, and the states in which it takes them."""

_NAMED: Final = 20
"""So many open findings a refusal names."""
MOST_ANSWERS: Final = 3
"""So many answers to one finding that did not hold, and a person decides."""


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """What a program says of a change, as `submit_verdict` and `report_check` take it.

    `line` to `end_line` are both included; `suggestion` is the text for them, empty to delete them.
    """

    file: str | None
    line: int | None
    end_line: int | None
    severity: str
    category: str | None
    claim: str
    suggestion: str | None = None
    failure: str | None = None
    pre_existing: bool = False


class Finding(NamedTuple):
    """What a reviewer says of a place. Field order is the column order of its table.

    Where it stands in another round is computed when it is read.
    """

    id: str
    """`fn_…`."""
    review_id: str
    """The review."""
    project: str
    """Its project."""
    seq: int
    """The number of the event that brought it."""
    position: int
    """Its order among the findings of one verdict."""
    round: int
    """The round that it was written on."""
    verdict_id: str | None
    """The verdict that it came with; None for a check's."""
    source: str
    """Who found it: a `Source`."""
    author: str
    """The name of who found it."""
    file: str | None
    """The file; None for the whole change."""
    line: int | None
    """The first line, from 1; None for the whole file."""
    end_line: int | None
    """The last line; None where it is the first."""
    side: str
    """`new`: the lines as the change leaves the file; `old`: as it found it."""
    severity: str
    """A `Severity`."""
    category: str | None
    """What kind of fault it is, in a word or two."""
    claim: str
    """The fault, in words."""
    failure: str | None
    """How it fails."""
    suggestion: str | None
    """What would replace the lines."""
    pre_existing: int
    """1 if it was there before the change."""
    lines: str | None
    """The lines as they were when it was written."""
    fingerprint: str | None
    """By which the same finding is known again; None without lines."""
    state: str
    """`open`, an `Answer`, a `Settling`, `late` or `suppressed`."""
    created_at: int
    """Microseconds since the epoch, UTC."""
    answer: str | None = None
    """The reason of the proposer's latest answer."""
    answered_by: str | None = None
    """Who gave it."""
    settled_by: str | None = None
    """Who settled or reopened it last."""
    settled_reason: str | None = None
    """Their reason."""
    reopenings: int = 0
    """How often a reviewer reopened it."""
    lesson: int = 0
    """1 while it teaches that the same finding is a false alarm."""
    suppressed_by: str | None = None
    """The lesson that it repeats."""
    is_request: int = 0
    """1 if it stands for a person's request for changes, which counts however grave it is."""
    blob: str | None = None
    """The file as the change left it when it was written. None for the whole change, and for a file that the change
    does not touch: it counts for that whole change."""
    changed: int | None = None
    """1 if its lines were other ones already when it came to this review."""
    settled_round: int | None = None
    """The round in which it was verified: those before it have the fault."""
    written_by: str | None = None
    """Who wrote the content that it was found on, a JSON list: wherever it goes on, they do not settle it."""
    telling: str | None = None
    """A hash of the most telling of its lines, or of those of its file or change: by it they are found again."""
    found_in: str | None = None
    """The review that it was found in first; None for this one."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What a finding has wherever its change comes again."""
        said = (self.file, self.lines, self.category, self.claim, self.severity, self.pre_existing)
        return (*said, self.source, self.author, self.is_request)

    @property
    def where(self) -> str:
        """Its place, for people."""
        line = "" if self.line is None else f":{self.line}"
        return "the whole change" if self.file is None else f"{self.file}{line}"

    @property
    def by(self) -> str:
        """Who found it, and in which other review, for people."""
        return self.author if self.found_in is None else f"{self.author} in {self.found_in}"

    @property
    def authors(self) -> list[str]:
        """Who wrote the content that it was found on, where that is known."""
        return json.loads(self.written_by or "[]")

    @property
    def is_open(self) -> bool:
        """Whether no one has settled it."""
        return self.state in OPEN


def severity_of(word: str) -> Severity | None:
    """The severity that a word of ours or of another tool means; None if it is none."""
    return _SYNONYMS.get(word.strip().lower())


def left_to(names: Names, found: Iterable[Finding], number: int, settled: Collection[str]) -> list[Finding]:
    """Those that somebody's approval answers for: not those of a round that others are at work on, and answer for.

    Args:
        names: The somebody's.
        found: The findings.
        number: The round; 0 for none.
        settled: The ids of those that the approval settles.
    """
    return [one for one in found if one.round != number or one.id in settled or names.include(one.author)]


def blocks(finding: Finding, threshold: str) -> bool:
    """Whether a finding keeps an approval back. A check keeps it back by its own result, not by its findings."""
    if not finding.is_open or finding.pre_existing or finding.source in ("check", ADVICE):
        return False
    return bool(finding.is_request) or is_grave(finding.severity, threshold)


def answers_due(known: Collection[Finding], threshold: str) -> set[str]:
    """The states of the findings that the proposer answers first: those that block, or all that are open."""
    return {one.state for one in known if blocks(one, threshold)} or {one.state for one in known if one.is_open}


def is_grave(severity: str, threshold: str) -> bool:
    """Whether a severity is at a threshold, or above it."""
    names: tuple[str, ...] = SEVERITIES
    return names.index(severity) <= names.index(threshold)


def may_settle(finding: Finding, *, is_person: bool) -> bool:
    """Whether a reviewer may settle it: a person's finding only a person."""
    return is_person or finding.source != "person"


def changes(said: str, state: str) -> bool:
    """Whether an answer makes something else of a finding in a state that takes it."""
    return state in STEPS[said] and state != said and (said, state) != ("reopened", "open")


def after(finding: Finding, said: str, who: str, reason: str | None, number: int | None = None) -> Finding:
    """The finding after an answer of the proposer, or after a reviewer settled or reopened it in the round `number`.

    Raises:
        InvalidTransition: Its state does not take that.
    """
    if finding.state not in STEPS[said]:
        raise InvalidTransition(
            f"The finding {finding.id} is {finding.state}; it takes"
            f" {', '.join(one for one, states in STEPS.items() if finding.state in states) or 'nothing more'},"
            f" not '{said}'.",
            finding_id=finding.id,
            status=finding.state,
            allowed=[one for one, states in STEPS.items() if finding.state in states],
        )
    if said in ANSWERS:
        # A finding that keeps nothing back does not begin to by an answer.
        state = finding.state if finding.state in _KEPT else said
        return finding._replace(state=state, answer=reason, answered_by=who)
    reopenings = finding.reopenings + int(changes(said, finding.state) and said == "reopened")
    teaches = said == "upheld" and finding.state == "refuted" and finding.fingerprint is not None
    return finding._replace(
        state=said,
        settled_by=who,
        settled_reason=reason,
        lesson=int(teaches),
        suppressed_by=None,
        reopenings=reopenings,
        settled_round=number if said == "verified" else None,
    )


def brought_back(finding: Finding, file: str | None = None) -> Finding:
    """A finding that was corrected, and whose lines come again as they were, in its file or another."""
    where = "" if file in (None, finding.file) else f", in {file}"
    return after(finding, "reopened", "broker", f"Its lines are back{where}.")


def fingerprint(category: str | None, path: str, around: str, claim: str) -> str:
    """By what a finding is known again: its kind, its file, and the lines around it but for their blanks.

    One without a kind is known by its words.
    """
    lines = (" ".join(line.split()) for line in around.split("\n"))
    kind = (category or "").strip().lower() or f"\0{' '.join(claim.split())}"
    return hex_digest("\0".join((kind, path, *filter(None, lines))).encode())


def bare(line: str) -> str:
    """A line without blanks and invisible characters: as it is known again."""
    said = "".join(line.split())
    return said if said.isprintable() else "".join(char for char in said if char.isprintable())


def key_of(line: str) -> str | None:
    """By what a bare line is looked up; None if it is blank."""
    return hex_digest(line.encode())[:16] if line else None


def keeping_back(review_id: str, found: Sequence[Finding]) -> OpenFindings:
    """The refusal of an approval over findings, of its own review or others on the same content."""
    kept = ("review_id", "severity", "file", "line", "author", "found_in")
    named = [{"finding_id": one.id, **{name: getattr(one, name) for name in kept}} for one in found[:_NAMED]]
    said = "; ".join(
        f"{one.id} ({one.severity}, {one.where}, by {one.by}{f', {one.state}' if one.state != 'open' else ''})"
        for one in found[:_NAMED]
    )
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    elsewhere = sorted({one.review_id for one in found} - {review_id})
    # An agent's approval says a word of small ones, too, which alone keep nothing back.
    what = (
        f"Open findings of {', '.join(elsewhere)} on the same content keep the approval back"
        if elsewhere
        else "Open findings need a word each before an approval"
    )
    how = "first, there (answer_finding)" if elsewhere else "in answers"
    return OpenFindings(
        f"{what}: {said}{more}. Say of each {how} whether it is verified (it is"
        " corrected), upheld (it was refuted or deferred, rightly) or reopened (it still fails); or ask for"
        " changes.",
        review_id=review_id,
        findings=named,
        count=len(found),
    )


def headline(found: Sequence[Any], counts: Any = None) -> str:
    """How many there are: `4 findings: 1 verified, 3 open (2 keep the approval back)`.

    Args:
        found: The findings, as views of them.
        counts: The numbers of the review, where `found` has not all of it.
    """
    still = sum(one.state in OPEN for one in found)
    total, blocking = len(found), sum(one.blocking for one in found)
    settled = Counter(one.state for one in found if one.state not in OPEN)
    if counts is not None and counts.total != total:
        total, still, blocking, settled = counts.total, counts.open, counts.blocking, Counter[str]()
    if not total:
        return "No findings."
    said = [f"{number} {state}" for state, number in settled.items()]
    back = f" ({blocking} keep{'s' if blocking == 1 else ''} the approval back)" if blocking else ""
    said += [f"{still} open{back}"] if still or not settled else []
    return f"{total} finding{'s' if total > 1 else ''}: {', '.join(said)}"
