"""What the folder of an archived cycle has in it: everything that a reader needs later, and no secret."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

from tandem.cycles.answers import CycleHistory, HandoffView
from tandem.cycles.payloads import text_of

FORMAT = 1
MANIFEST = "manifest.json"
_ABOUT = ("cycle_id", "project", "workflow", "feature", "created_at", "completed_at", "archived_at")


def archive_files(history: CycleHistory) -> dict[str, bytes]:
    """The files by name: manifest, state, lock, workflow, and each hand-off's payload.

    The manifest has every other file's SHA-256, so that a copy can be checked.
    """
    files = {
        "state.json": _json(asdict(history.cycle)),
        "lock.json": _json(asdict(history.lock)),
        "workflow.json": _json({"name": history.cycle.workflow, **history.definition}),
        **{_name(handoff): _json(handoff.payload) for handoff in history.handoffs},
    }
    manifest = {
        "format": FORMAT,
        **{name: getattr(history.cycle, name) for name in _ABOUT},
        "handoffs": [{"file": _name(handoff), **_facts(handoff)} for handoff in history.handoffs],
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    return {MANIFEST: _json(manifest), **files}


def _name(handoff: HandoffView) -> str:
    return f"handoffs/{handoff.number:03}-{handoff.target}.json"


def _facts(handoff: HandoffView) -> dict[str, Any]:
    return {name: value for name, value in asdict(handoff).items() if name != "payload"}


def _json(value: dict[str, Any]) -> bytes:
    return text_of(value).encode()
