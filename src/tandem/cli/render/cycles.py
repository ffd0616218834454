"""Renderings of hand-off cycles, their sessions, locks and keys."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from tandem.bridge.credentials import FILE_VARIABLE, KEY_VARIABLE
from tandem.cli.render import parts
from tandem.cli.render.parts import block, copied, plain, renders
from tandem.present.text import Group, Text, Whole
from tandem.settings.workflows import COMPLETE

if TYPE_CHECKING:
    from tandem.cycles import answers
    from tandem.present.text import Drawable

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
def history(answer: answers.CycleHistory) -> Drawable:
    """A whole cycle, without its payloads: its phases, and its hand-offs."""
    handoffs = [parts.table("HandoffView", answer.handoffs)] if answer.handoffs else []
    return Group(_track(answer), parts.fields("CycleRow", answer.cycle), *handoffs)


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
        mark, style = ("▶ ", "bold cyan") if name == current else ("✓ ", "green") if name in left else ("", "dim")
        track.append(Text(" → ", style="dim") if track else Text())
        track.append(plain(f"{mark}{name}{role}", style))
    return track


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
