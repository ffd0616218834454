"""Renderings of the log, of statistics, gates, commits, projects, tokens and files."""

from __future__ import annotations

import json

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tandem.cli.render import parts
from tandem.cli.render.answers import render
from tandem.cli.render.parts import Cell, ago, block, duration, facts, listing, plain, state
from tandem.cli.terminal import Unbroken
from tandem.domain import answers, file_answers, pool_answers
from tandem.operations import access_contract, gate_contract, project_contract

_COUNTS = ("submitted", "revised", "approved", "changes_requested", "rejected", "comments", "withdrawn")
_PERCENT = 100
_SHORT = 12
"""Letters of a commit's id in a list."""
_STATE_STYLES = {"valid": "green", "expired": "dim", "revoked": "dim"}


@render.register
def _(answer: answers.Timeline) -> RenderableType:
    return _events(answer.events)


@render.register
def _(answer: answers.AuditPage) -> RenderableType:
    if not answer.events:
        return Text("No events.", style="dim")
    more = "More with" if answer.more else "Go on from here with"
    return Group(_events(answer.events), Text(f"{more} --cursor {answer.cursor}", style="dim"))


def _events(events: tuple[answers.EventView, ...]) -> Table:
    def cells(event: answers.EventView) -> tuple[Cell, ...]:
        change = f"{event.old or ''} → {event.new}" if event.new and event.new != event.old else ""
        return str(event.seq or ""), ago(event.at), event.kind, event.subject, event.actor, change

    return listing("seq!, when!, kind!, subject!, actor, change", map(cells, events))


@render.register
def _(answer: answers.ActivityFeed) -> RenderableType:
    def cells(entry: answers.FeedEntry) -> tuple[Cell, ...]:
        review, event = entry.review, entry.last_event
        shown = state(review.status, review.outcome)
        return review.review_id, shown, review.intent, event.kind, event.actor, ago(event.at)

    columns, rows = "id!, state!, intent, last event!, by, when!", map(cells, answer.entries)
    return parts.page(columns, rows, answer.next_page, empty="Nothing has happened yet.")


@render.register
def _(answer: answers.Statistics) -> RenderableType:
    waiting = ", ".join(f"{count} {name}" for name, count in answer.open.items() if count) or "none"
    head = facts(
        [("project", answer.project or "all"), ("since", answer.since or "the beginning"), ("open now", waiting)]
    )
    by_reviewer = {f"by {name}": tally for name, tally in answer.by_reviewer.items()}
    rows = [("all", answer.total), *answer.by_category.items(), *by_reviewer.items()]
    columns = ", ".join(("!", *_COUNTS, "approval", "to claim", "to verdict"))
    return Group(head, listing(columns, (_tally_cells(*row) for row in rows)))


def _tally_cells(name: str, tally: answers.Tally) -> tuple[Cell, ...]:
    rate = "–" if tally.approval_rate is None else f"{tally.approval_rate * _PERCENT:.0f} %"
    means = duration(tally.mean_seconds_to_claim), duration(tally.mean_seconds_to_verdict)
    return name, *(str(getattr(tally, count)) for count in _COUNTS), rate, *means


@render.register
def _(answer: gate_contract.GateDecision) -> RenderableType:
    word = Text("allowed", style="bold green") if answer.allowed else Text("refused", style="bold red")
    table = Table.grid(padding=(0, 2))
    for path in answer.paths:
        by = f"{path.review_id} round {path.round}" if path.review_id else ""
        mark = Text(path.kind or "not approved", style="green" if path.allowed else "red")
        table.add_row(mark, plain(path.path), by, plain(path.reason, "dim"))
    return Group(Text.assemble(word, "  ", plain(answer.reason)), table)


@render.register
def _(answer: project_contract.ProjectView) -> RenderableType:
    return facts([("project", plain(answer.project, "bold")), ("folder", answer.root)])


@render.register
def _(answer: answers.ProjectList) -> RenderableType:
    rows = ((one.project, one.root, ago(one.registered_at)) for one in answer.projects)
    nothing = "No project is registered; in a repository: tandem project add"
    return parts.page("project!, folder, registered!", rows, empty=nothing)


@render.register
def _(answer: project_contract.ProjectRemoved) -> RenderableType:
    return Text.assemble("removed  ", plain(answer.project, "bold"))


@render.register
def _(answer: gate_contract.GateState) -> RenderableType:
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
def _(answer: gate_answers.GateOverridden) -> RenderableType:
    when = f"{ago(answer.overridden_at)}, by {answer.overridden_by}"
    name = Text(answer.override_id, style="bold")
    return facts([("override", name), ("project", answer.project), ("digest", answer.digest), ("when", when)])


@render.register
def _(answer: gate_contract.CommitRecord) -> RenderableType:
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
def _(answer: gate_answers.CommitPage) -> RenderableType:
    rows = (
        (one.commit[:_SHORT], one.plan, _reviews(one), _became(one), ago(one.recorded_at)) for one in answer.commits
    )
    return parts.page("commit!, plan, reviews, became, recorded!", rows, answer.next_page, empty="No commits.")


@render.register
def _(answer: gate_contract.RollbackRecorded) -> RenderableType:
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


def _reviews(commit: gate_contract.CommitRecord) -> str | None:
    return ", ".join(commit.review_ids) or ("unreviewed" if commit.unreviewed else None)


def _became(commit: gate_contract.CommitRecord) -> str:
    if commit.rolled_back_by is not None:
        return f"reverted by {commit.rolled_back_by[:_SHORT]}"
    return commit.replaced_by[:_SHORT] if commit.replaced_by is not None else ""


@render.register
def _(answer: access_answers.TokenList) -> RenderableType:
    def cells(token: access_answers.TokenView) -> tuple[Cell, ...]:
        what = token.token_id, token.name, ", ".join(token.roles), token.project or "all"
        life = ago(token.created_at), token.created_by, ago(token.expires_at) or "never"
        return *what, Text(token.state, style=_STATE_STYLES.get(token.state, "")), *life

    columns, rows = "id!, name, for, project, state!, made!, by, expires", map(cells, answer.tokens)
    nothing = "No tokens. Make one with: tandem token create NAME --role ROLE"
    return parts.page(columns, rows, answer.next_page, empty=nothing)


@render.register
def _(answer: access_contract.TokenRevoked) -> RenderableType:
    return Text(f"{answer.token_id} is void since {ago(answer.revoked_at)}.")


@render.register
def _(answer: access_contract.Login) -> RenderableType:
    return Unbroken(Text(answer.path))


@render.register
def _(answer: file_answers.RoundFile) -> RenderableType:
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
def _(answer: file_answers.CounterPatchCheck) -> RenderableType:
    return Group(_applies(answer), parts.files(answer.affected_files))


@render.register
def _(answer: file_answers.CounterPatchDraft) -> RenderableType:
    return Group(parts.diff(answer.counter_patch), _applies(answer), parts.files(answer.affected_files))


@render.register
def _(answer: pool_answers.ReviewerLog) -> RenderableType:
    if not answer.available:
        return plain(
            f"The log of {answer.reviewer_id} is not on the broker's machine; it runs on {answer.host}.", "dim"
        )
    return Unbroken(*map(block, answer.lines))


@render.register
def _(answer: file_answers.ProjectSettings) -> RenderableType:
    def cells(one: file_answers.SettingView) -> list[Cell]:
        style = "dim" if one.origin == "default" and one.ignored is None else ""
        value = one.value if isinstance(one.value, str) else json.dumps(one.value, ensure_ascii=False)
        return [plain(text, style) for text in (one.name, value, one.origin, one.ignored)]

    table = listing("setting!, value, from, ignored", map(cells, answer.settings))
    return table if answer.gate is None else Group(render(answer.gate), table)


def _applies(answer: file_answers.CounterPatchCheck | file_answers.CounterPatchDraft) -> Text:
    if answer.applies:
        return Text.assemble(("applies", "bold green"), f"  digest {parts.digest(answer.digest)}")
    return Text.assemble(("does not apply: ", "bold red"), plain(answer.problem))
