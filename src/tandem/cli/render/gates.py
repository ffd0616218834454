"""Renderings of gates, and of the commits that hooks told of."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from tandem.cli.render.answers import render
from tandem.cli.render.parts import ago, block, facts, listing, more_pages, plain
from tandem.domain import gate_answers as answers

_SHORT = 12
"""Letters of a commit's id in a list."""


@render.register
def _(answer: answers.GateState) -> RenderableType:
    word = Text("on", style="bold green") if answer.enabled else Text("off", style="bold yellow")
    switched = answer.switched_at and f"{ago(answer.switched_at)}, by {answer.switched_by}"
    rows: list[tuple[str, object]] = [
        ("gate", Text.assemble(word, "  ", plain(answer.project))),
        ("branches", ", ".join(answer.branches)),
        ("accepted", ", ".join(answer.accepted)),
        ("switched", switched),
        ("reason", block(answer.reason)),
    ]
    plan = answer.plan
    if plan is not None:
        rows += [
            ("plan", f"{plan.plan}, {plan.mode}"),
            ("against", ", ".join(plan.against)),
            ("rolled back", ", ".join(plan.rolled_back)),
        ]
    return facts(rows)


@render.register
def _(answer: answers.GateOverridden) -> RenderableType:
    return facts(
        [
            ("override", Text(answer.override_id, style="bold")),
            ("project", answer.project),
            ("digest", answer.digest),
            ("when", f"{ago(answer.overridden_at)}, by {answer.overridden_by}"),
        ]
    )


@render.register
def _(answer: answers.CommitRecord) -> RenderableType:
    return facts(
        [
            ("commit", Text(answer.commit, style="bold")),
            ("project", answer.project),
            ("branch", answer.branch),
            ("work", ", ".join(part for part in (answer.phase, answer.plan, answer.task) if part)),
            ("reviews", _reviews(answer)),
            ("depends on", ", ".join(answer.depends_on)),
            ("replaces", answer.replaces),
            ("replaced by", answer.replaced_by),
            ("rolled back", answer.rolled_back_by and f"by {answer.rolled_back_by}"),
            ("recorded", f"{ago(answer.recorded_at)}, by {answer.recorded_by}"),
        ]
    )


@render.register
def _(answer: answers.CommitPage) -> RenderableType:
    if not answer.commits:
        return Text("No commits.", style="dim")
    table = listing("commit", "plan", "reviews", "became", "recorded", fixed=("commit", "recorded"))
    for one in answer.commits:
        reviews = plain(_reviews(one) or "")
        table.add_row(one.commit[:_SHORT], plain(one.plan or ""), reviews, _became(one), ago(one.recorded_at))
    return Group(table, more_pages(answer.next_page))


@render.register
def _(answer: answers.RollbackRecorded) -> RenderableType:
    return facts(
        [
            ("rolled back", Text(answer.review_id, style="bold")),
            ("plan", f"{answer.plan}, in blocking mode from now on"),
            ("branch", f"{answer.branch}, {answer.head_before[:_SHORT]} to {answer.head_after[:_SHORT]}"),
            ("reverted", ", ".join(one.commit[:_SHORT] for one in answer.reverted)),
            ("carried", ", ".join(f"{one.commit[:_SHORT]} as {one.becomes[:_SHORT]}" for one in answer.carried)),
            ("rework", ", ".join(commit[:_SHORT] for commit in answer.rework)),
        ]
    )


def _reviews(commit: answers.CommitRecord) -> str | None:
    return ", ".join(commit.review_ids) or ("unreviewed" if commit.unreviewed else None)


def _became(commit: answers.CommitRecord) -> str:
    if commit.rolled_back_by is not None:
        return f"reverted by {commit.rolled_back_by[:_SHORT]}"
    return commit.replaced_by[:_SHORT] if commit.replaced_by is not None else ""
