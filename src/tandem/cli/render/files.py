"""Renderings of files of rounds, drafts, reviewers' logs and projects' settings."""

from __future__ import annotations

import json

from rich.console import Group, RenderableType
from rich.text import Text

from tandem.cli.render import parts
from tandem.cli.render.answers import render
from tandem.cli.render.parts import block, listing, plain
from tandem.cli.terminal import Unbroken
from tandem.domain import file_answers as answers


@render.register
def _(answer: answers.RoundFile) -> RenderableType:
    if not answer.exists:
        return plain(f"There is no {answer.path} {answer.side} round {answer.round}.", "dim")
    if answer.binary:
        facts = f"{answer.size_bytes:,} bytes, SHA-256 {answer.sha256}"
        return plain(f"{answer.path} is binary, or not in UTF-8: {facts}.", "dim")
    width = len(str(answer.first_line + len(answer.lines)))
    numbered = enumerate(answer.lines, answer.first_line)
    lines = (Text.assemble((f"{number:>{width}}  ", "dim"), block(line)) for number, line in numbered)
    shown = answer.first_line + len(answer.lines) - 1
    if shown >= answer.total_lines:
        return Unbroken(*lines)
    return Unbroken(*lines, Text(f"{answer.total_lines} lines; more with --first-line {shown + 1}", style="dim"))


@render.register
def _(answer: answers.CounterPatchCheck) -> RenderableType:
    return Group(_applies(answer), parts.files(answer.affected_files))


@render.register
def _(answer: answers.CounterPatchDraft) -> RenderableType:
    return Group(parts.diff(answer.counter_patch), _applies(answer), parts.files(answer.affected_files))


@render.register
def _(answer: answers.ReviewerLog) -> RenderableType:
    if not answer.available:
        return plain(
            f"The log of {answer.reviewer_id} is not on the broker's machine; it runs on {answer.host}.", "dim"
        )
    return Unbroken(*map(block, answer.lines))


@render.register
def _(answer: answers.ProjectSettings) -> RenderableType:
    table = listing("setting", "value", "from", "ignored", fixed=("setting",))
    for one in answer.settings:
        style = "dim" if one.origin == "default" and one.ignored is None else ""
        value = one.value if isinstance(one.value, str) else json.dumps(one.value, ensure_ascii=False)
        table.add_row(*(plain(text, style) for text in (one.name, value, one.origin, one.ignored)))
    return table if answer.gate is None else Group(render(answer.gate), table)


def _applies(answer: answers.CounterPatchCheck | answers.CounterPatchDraft) -> Text:
    if answer.applies:
        return Text.assemble(("applies", "bold green"), f"  digest {parts.digest(answer.digest)}")
    return Text.assemble(("does not apply: ", "bold red"), plain(answer.problem))
