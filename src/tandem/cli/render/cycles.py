"""Renderings of hand-off cycles, their sessions, locks and keys."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from tandem.bridge.credentials import FILE_VARIABLE, KEY_VARIABLE
from tandem.cli.render import parts
from tandem.cli.render.parts import ago, block, copied, facts, plain, renders, state
from tandem.present.text import Group, Text, Whole
from tandem.settings.workflows import COMPLETE

if TYPE_CHECKING:
    from tandem.cycles import answers
    from tandem.present.text import Drawable
    from tandem.reviews.answers import ReviewStatus

_CURRENT = "bold cyan"
_MADE_KEY_PREFIX = "psk_"

GIVE_KEYS = (
    f"Each key is shown this once. Give it to its role's client: in the environment as {KEY_VARIABLE},"
    f" or in a file of its own that {FILE_VARIABLE} names."
)
GIVE_FILES = f"Each file has one key. Name it to its role's client in the environment: {FILE_VARIABLE}=FILE"


@renders
def keys(answer: answers.KeysMade, given: Mapping[str, str] | None = None) -> Drawable:
    """Keys that were made; `given` says by role where those of one's own came from, which are not shown."""
    own = given or {}
    shown = {role: own.get(role) or key for role, key in answer.keys.items()}
    return _made(answer, shown, "" if answer.keys.keys() <= own.keys() else GIVE_KEYS)


def key_files(answer: answers.KeysMade, files: Mapping[str, str]) -> Drawable:
    """The files that keys were written to, instead of the keys."""
    return _made(answer, files, GIVE_FILES if files else "")


def unseen(answer: answers.KeysMade, given: Container[str]) -> list[str]:
    """Roles whose keys an earlier try of the same call made, and did not show if its answer was lost."""
    return [role for role, key in answer.keys.items() if role not in given and not key.startswith(_MADE_KEY_PREFIX)]


def _made(answer: answers.KeysMade, shown: Mapping[str, str], how: str) -> Drawable:
    """Keys or their files by role, how to give them away, and further remarks on the roles."""
    remarks = [how] if how else []
    if answer.kept:
        kept = ", ".join(answer.kept)
        remarks.append(f"Kept: {kept}. To replace a key: tandem cycle rotate {answer.kept[0]}")
    if answer.sessions_ended:
        remarks.append(f"Sessions that ended: {answer.sessions_ended}.")
    return copied([("project", answer.project), ("workflow", answer.workflow), *shown.items()], *remarks)


@renders
def _(answer: answers.CycleStatus) -> Drawable:
    workflow = ("workflow", f"{answer.workflow}, {answer.mode}")
    end = [("next", parts.shown("step", answer.next_step)), ("cursor", Text(answer.cursor, style="dim"))]
    if answer.cycle_id is None:
        return facts([("cycle", Text("none under way", style="dim")), ("project", answer.project), workflow, *end])
    rows: list[tuple[str, object]] = [
        ("cycle", plain(answer.cycle_id, "bold")),
        ("feature", answer.feature),
        ("project", answer.project),
        workflow,
        ("phase", Text.assemble(plain(answer.phase, _CURRENT), plain(f", {answer.active_role}'s turn"))),
        ("lock", _lock(answer.lock)),
    ]
    rows += [(f"for {role}", _handoff_state(handoff)) for role, handoff in answer.handoffs.items()]
    rows.append(("review", _gated(answer.review)))
    return facts([*rows, *end])


def _handoff_state(handoff: answers.HandoffState) -> Text:
    if handoff.status == "empty":
        return Text("nothing yet", style="dim")
    return plain(f"{handoff.status}, {ago(handoff.updated_at)}")


def _lock(lock: answers.LockState) -> str:
    if not lock.locked:
        return "free"
    return f"{lock.role}, {'taken ' + ago(lock.acquired_at) if lock.acquired_at else 'not taken yet'}"


def _gated(review: answers.HandoffReview | None) -> Text | None:
    if review is None:
        return None
    text = Text.assemble(plain(f"{review.review_id} for {review.target}, round {review.round}: "))
    text.append(state(review.status, review.outcome))
    return text.append(block(f": {review.reason}")) if review.reason else text


@renders
def history(answer: answers.CycleHistory, review: ReviewStatus | None = None) -> Drawable:
    """A whole cycle, without its payloads.

    Args:
        answer: The cycle.
        review: The review of its hand-off that was written last, if that has one and has not advanced the cycle.
    """
    cycle = answer.cycle
    head = facts(
        [
            ("cycle", plain(cycle.cycle_id, "bold")),
            ("feature", cycle.feature),
            ("project", cycle.project),
            ("workflow", f"{cycle.workflow}, {cycle.mode}"),
            ("phases", _track(answer)),
            ("turn", None if cycle.archived_at else cycle.active_role),
            ("lock", _lock(answer.lock)),
            ("review", _review(review)),
            ("begun", _moment(cycle.created_at)),
            ("completed", _moment(cycle.completed_at)),
            ("archived", _moment(cycle.archived_at)),
            ("payloads", cycle.removed_at and f"removed {ago(cycle.removed_at)}: retention_days"),
        ]
    )
    if not answer.handoffs:
        return Group(head, Text("Nothing has been handed over yet.", style="dim"))
    return Group(head, parts.table("HandoffView", answer.handoffs))


def _track(answer: answers.CycleHistory) -> Text:
    """The phases as they are declared: those that were left are ticked, the current one is marked."""
    phases: dict[str, dict[str, Any]] = answer.definition["phases"]
    current = answer.cycle.phase
    left = {handoff.phase for handoff in answer.handoffs if handoff.advanced_at is not None}
    if current == COMPLETE:
        left |= set(phases)
    track = Text()
    for name in (*phases, COMPLETE):
        role = f" ({phases[name]['role']})" if name in phases else ""
        mark, style = ("▶ ", _CURRENT) if name == current else ("✓ ", "green") if name in left else ("", "dim")
        track.append(Text(" → ", style="dim") if track else Text())
        track.append(plain(f"{mark}{name}{role}", style))
    return track


def _review(review: ReviewStatus | None) -> Text | None:
    if review is None:
        return None
    text = Text.assemble(plain(f"{review.review_id}, round {review.round}: "), state(review.status, review.outcome))
    if review.verdict and review.verdict != review.status:
        text.append(plain(f", {review.verdict}"))
    if review.reviewer_id:
        text.append(plain(f" by {review.reviewer_id}"))
    return text.append(block(f": {review.verdict_reason}")) if review.verdict_reason else text


def _moment(at: str | None) -> str | None:
    return at and f"{ago(at)} ({at})"


def payloads(answer: answers.CycleHistory) -> Whole:
    """The payloads of a cycle, each with its producer and target."""
    lines: list[Text] = []
    for handoff in answer.handoffs:
        lines += [plain(f"{handoff.number}: {handoff.producer} to {handoff.target}", "bold"), _json(handoff.payload)]
    return Whole(*lines)


@renders
def payload(content: dict[str, Any]) -> Whole:
    """A payload, as JSON that is harmless to a terminal and that other programs can read."""
    return Whole(_json(content))


def _json(content: dict[str, Any]) -> Text:
    return block(json.dumps(content, indent=2, ensure_ascii=False))
