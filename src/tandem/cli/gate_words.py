"""How the outcome of a workflow's step is printed: its word alone on the first line, then what to do."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from rich.text import Text

from tandem.cli.exits import Exit
from tandem.cli.render.parts import block, plain
from tandem.cli.terminal import Unbroken, show, show_envelope
from tandem.workflow.steps.outcomes import Outcome, Word

EXITS: dict[Word, Exit] = {
    Word.SOLO: Exit.DONE,
    Word.APPROVED: Exit.DONE,
    Word.GO: Exit.DONE,
    Word.NOTHING: Exit.DONE,
    Word.CHANGES: Exit.CHANGES_REQUESTED,
    Word.REJECTED: Exit.REJECTED,
    Word.WAITING: Exit.WAITING,
    Word.ESCALATE: Exit.REFUSED,
    Word.ROLLBACK: Exit.CHANGES_REQUESTED,
}
"""The exit status of each word; part of the contract."""

_STYLES = {
    Word.APPROVED: "bold green",
    Word.CHANGES: "bold magenta",
    Word.REJECTED: "bold red",
    Word.ESCALATE: "bold red",
    Word.ROLLBACK: "bold red",
    Word.WAITING: "bold yellow",
}


def show_outcome(outcome: Outcome, *, as_json: bool) -> Exit:
    """Print an outcome; answers with the exit status."""
    status = EXITS[outcome.word]
    if as_json:
        show_envelope(orjson.dumps({"ok": True, "data": {**outcome.facts(), "exit_status": int(status)}}))
    else:
        show(Unbroken(*_lines(outcome)))
    return status


def _lines(outcome: Outcome) -> Iterator[Text]:
    head = f"{outcome.word} {outcome.review_id}" if outcome.word is Word.ROLLBACK else str(outcome.word)
    yield Text(head, style=_STYLES.get(outcome.word, "bold"))
    if outcome.review_id is not None and outcome.round is not None:
        yield plain(f"{outcome.review_id}, round {outcome.round}: {outcome.status}")
    yield from _labelled("reason", outcome.reason)
    for remark in outcome.remarks:
        where = ":".join(str(part) for part in (remark.file, remark.line) if part is not None)
        yield from _labelled(where or "remark", remark.body)
    yield from _labelled("the reviewer asks", outcome.question)
    patch = outcome.counter_patch
    if patch is not None:
        yield plain(f"counter-patch {patch.id} by {patch.author}: {', '.join(patch.files)}")
        content = patch.content if patch.content is not None else "(long; read it with: tandem review proposal)"
        yield from (block(f"  {line}") for line in content.splitlines())
    for step in outcome.next:
        yield plain(f"- {step}")
    for part in outcome.parts:
        yield Text("")
        yield from _lines(part)


def _labelled(label: str, text: str | None) -> Iterator[Text]:
    """A text by others under a label, its further lines indented so that none is mistaken for ours."""
    first, *rest = (text or "").splitlines() or [""]
    if first or rest:
        yield plain(f"{label}: {first}")
        yield from (block(f"  {line}") for line in rest)
