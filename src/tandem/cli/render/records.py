"""Renderings of the log, of statistics, gates, commits, projects, tokens, files and reviewer pools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tandem.cli.render import parts
from tandem.cli.render.answers import renders
from tandem.cli.render.parts import Cell, ago, block, duration, facts, listing, plain, state
from tandem.present.text import Column, Group, Table, Text, Whole

if TYPE_CHECKING:
    from tandem.access import contract as access_contract
    from tandem.gate import contract as gate_contract
    from tandem.pool import contract
    from tandem.present.text import Drawable
    from tandem.reviews import answers
    from tandem.reviews import page_contract as file_answers

_COUNTS = ("submitted", "revised", "approved", "changes_requested", "rejected", "comments", "withdrawn")
_ELSEWHERE = "on other machines"
_PERCENT = 100
_SHORT = 12
"""Letters of a commit's id in a list."""


@renders
def _(answer: answers.AuditPage) -> Drawable:
    if not answer.events:
        return Text("No events.", style="dim")
    more = "More with" if answer.more else "Go on from here with"
    return Group(_events(answer.events), Text(f"{more} --cursor {answer.cursor}", style="dim"))


def _events(events: tuple[answers.EventView, ...]) -> Table:
    def cells(event: answers.EventView) -> tuple[Cell, ...]:
        change = f"{event.old or ''} → {event.new}" if event.new and event.new != event.old else ""
        return str(event.seq or ""), ago(event.at), event.kind, event.subject, event.actor, change

    return listing("seq!, when!, kind!, subject!, actor, change", map(cells, events))


@renders
def _(answer: answers.ActivityFeed) -> Drawable:
    def cells(entry: answers.FeedEntry) -> tuple[Cell, ...]:
        review, event = entry.review, entry.last_event
        shown = state(review.status, review.outcome)
        return review.review_id, shown, review.intent, event.kind, event.actor, ago(event.at)

    columns, rows = "id!, state!, intent, last event!, by, when!", map(cells, answer.entries)
    return parts.page(columns, rows, answer.next_page, empty="Nothing has happened yet.")


@renders
def _(answer: answers.Statistics) -> Drawable:
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


@renders
def _(answer: gate_contract.GateDecision) -> Drawable:
    word = Text("allowed", style="bold green") if answer.allowed else Text("refused", style="bold red")
    table = Table([Column(), Column(), Column(), Column()])
    for path in answer.paths:
        by = f"{path.review_id} round {path.round}" if path.review_id else ""
        mark = Text(path.kind or "not approved", style="green" if path.allowed else "red")
        table.add(mark, plain(path.path), by, plain(path.reason, "dim"))
    return Group(Text.assemble(word, "  ", plain(answer.reason)), table)


@renders
def _(answer: access_contract.Login) -> Drawable:
    return Whole(Text(answer.path))


@renders
def _(answer: file_answers.RoundFile) -> Drawable:
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
        return Whole(*lines)
    return Whole(*lines, Text(f"{answer.total_lines} lines; more with --first-line {shown + 1}", style="dim"))


@renders
def _(answer: file_answers.CounterPatchDraft) -> Drawable:
    return Group(parts.diff(answer.counter_patch), _applies(answer), parts.files(answer.affected_files))


@renders
def _(answer: contract.ReviewerLog) -> Drawable:
    if not answer.available:
        return plain(
            f"The log of {answer.reviewer_id} is not on the broker's machine; it runs on {answer.host}.", "dim"
        )
    return Whole(*map(block, answer.lines))


@renders
def _(answer: gate_contract.ProjectSettings) -> Drawable:
    def cells(one: gate_contract.SettingView) -> list[Cell]:
        style = "dim" if one.origin == "default" and one.ignored is None else ""
        value = one.value if isinstance(one.value, str) else json.dumps(one.value, ensure_ascii=False)
        return [plain(text, style) for text in (one.name, value, one.origin, one.ignored)]

    table = listing("setting!, value, from, ignored", map(cells, answer.settings))
    return table if answer.gate is None else Group(parts.fields("GateState", answer.gate), table)


def _applies(answer: file_answers.CounterPatchDraft) -> Text:
    if answer.applies:
        return Text.assemble(("applies", "bold green"), f"  digest {parts.digest(answer.digest)}")
    return Text.assemble(("does not apply: ", "bold red"), plain(answer.problem))


_POOL_STYLES = {
    "running": "green",
    "paused": "yellow",
    "rate_limited": "yellow",
    "circuit_open": "bold red",
    "lost": "bold red",
    "ended": "dim",
}
_REVIEWER_STYLES = {"active": "green", "draining": "yellow", "terminated": "dim"}
_NO_FAULTS = frozenset({"verdict", "cancelled"})
"""How a run can end that is not the program's failure: somebody stopped it."""

_THOUSAND = 1000
_MILLION = 1_000_000
_REASONS_SHOWN = 3
_SHORT_SECONDS = 10

HOW_TO_BEGIN = (
    "No reviewer pool. Enable it in your configuration ([reviewer_pool] enabled = true) and restart the broker,"
    " or run one beside it: tandem reviewers --broker URL"
)


@renders
def _(answer: contract.ReviewerList) -> Drawable:
    if not answer.pools:
        return plain(HOW_TO_BEGIN, "dim")
    return Group(_pools(answer.pools), *_reviewers(answer.reviewers))


@renders
def _(answer: contract.PoolsChanged) -> Drawable:
    return _pools(answer.pools)


@renders
def _(answer: contract.ReviewerView) -> Drawable:
    return facts(
        [
            ("reviewer", _name(answer)),
            ("project", answer.project),
            ("state", _state(answer)),
            ("program", _program(answer)),
            ("process", answer.pid and f"{answer.pid} on {answer.host}"),
            ("reviews", answer.review_id),
            ("done", f"{answer.reviews_completed}, {_rate(answer)} approved" if answer.reviews_completed else None),
            ("failed", _failed(answer)),
            ("ended", answer.ended_at and f"{ago(answer.ended_at)}{_exit(answer)}"),
            ("why", answer.end_reason),
        ]
    )


def _pools(pools: Iterable[contract.PoolView]) -> Drawable:
    rows: list[tuple[Cell, ...]] = []
    reasons: list[Text] = []
    for pool in pools:
        style = _POOL_STYLES.get(pool.state, "")
        count, spent = f"{pool.active} of {pool.max_pool_size}", _spent(pool.spent_today_usd, pool.tokens_today)
        shown = Text(pool.state, style=style), count, spent, _program(pool)
        rows.append((pool.supervisor_id, *shown, pool.host, ago(pool.last_seen_at)))
        if pool.why:
            until = f", next try {ago(pool.circuit_open_until)}" if pool.state == "circuit_open" else ""
            reasons.append(plain(f"  {pool.supervisor_id} starts nothing{until}: {pool.why}", style))
    columns = "pool!, state!, reviewers, spent today, program, host, last heard of"
    return Group(listing(columns, rows), *reasons)


def _reviewers(reviewers: tuple[contract.ReviewerView, ...]) -> Iterable[Drawable]:
    if not reviewers:
        yield Text("No reviewer has run yet; one is started when a proposal waits.", style="dim")
        return
    columns = "reviewer!, project, state!, reviews now!, started!, done, approved, mean!, failed, cost"
    yield listing(columns, map(_cells, reviewers))
    bad: dict[str, list[str]] = {}
    for one in reviewers:
        if one.end_reason and one.exit_code != 0:
            bad.setdefault(one.end_reason, []).append(one.reviewer_id)
    for reason, ended in list(bad.items())[:_REASONS_SHOWN]:
        yield plain(f"  {', '.join(ended)}: {reason}", "dim")


def _cells(one: contract.ReviewerView) -> tuple[Cell, ...]:
    now = _name(one), one.project, _state(one), _work(one), ago(one.spawned_at)
    done = str(one.reviews_completed), _rate(one), _mean(one.mean_review_seconds), _failed(one) or "–"
    return *now, *done, _spent(one.cost_usd, one.tokens_in + one.tokens_out)


def _name(reviewer: contract.ReviewerView) -> Text:
    """The id, which begins with the name."""
    return Text.assemble((reviewer.name, "bold"), (reviewer.reviewer_id.removeprefix(reviewer.name), "dim"))


def _state(reviewer: contract.ReviewerView) -> Text:
    why = f" ({reviewer.drain_reason})" if reviewer.state == "draining" and reviewer.drain_reason else ""
    return Text(reviewer.state + why, style=_REVIEWER_STYLES.get(reviewer.state, ""))


def _work(reviewer: contract.ReviewerView) -> str:
    if reviewer.ended_at is not None:
        return ""
    if reviewer.pid is None:
        return "(is started)"
    return reviewer.review_id or "(idle)"


def _program(of: contract.ReviewerView | contract.PoolView) -> Text:
    return plain(", ".join(part for part in (of.provider, of.model, of.mode) if part))


def _rate(reviewer: contract.ReviewerView) -> str:
    return "–" if reviewer.approval_rate is None else f"{reviewer.approval_rate * _PERCENT:.0f} %"


def _mean(seconds: float | None) -> str:
    return f"{seconds:.1f} s" if seconds is not None and seconds < _SHORT_SECONDS else duration(seconds)


def _failed(reviewer: contract.ReviewerView) -> str:
    """Runs without a verdict, by how they ended."""
    failed = {name: count for name, count in reviewer.outcomes.items() if name not in _NO_FAULTS and count}
    return ", ".join(f"{count} {name}" for name, count in failed.items())


def _exit(reviewer: contract.ReviewerView) -> str:
    return "" if reviewer.exit_code is None else f" with status {reviewer.exit_code}"


def _spent(usd: float, tokens: int) -> str:
    """Money and tokens, as far as the program tells of them."""
    parts = [f"{usd:.2f} USD"] if usd else []
    if tokens:
        parts.append(f"{_short(tokens)} tokens")
    return ", ".join(parts) or "–"


def _short(count: int) -> str:
    if count < _THOUSAND:
        return str(count)
    return f"{count / _THOUSAND:.0f}k" if count < _MILLION else f"{count / _MILLION:.1f}M"
