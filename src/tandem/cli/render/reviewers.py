"""Renderings of reviewer pools and of the reviewers that they start."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from tandem.cli.render.answers import render
from tandem.cli.render.parts import Cell, ago, copied, duration, facts, listing, plain
from tandem.domain import pool_answers as answers

_POOL_STYLES = {"running": "green", "paused": "yellow", "circuit_open": "bold red", "lost": "bold red", "ended": "dim"}
_REVIEWER_STYLES = {"active": "green", "draining": "yellow", "terminated": "dim"}
_NO_FAULTS = frozenset({"verdict", "cancelled"})
"""How a run can end that is not the program's failure: somebody stopped it."""

_PERCENT = 100
_THOUSAND = 1000
_MILLION = 1_000_000
_REASONS_SHOWN = 3
_SHORT_SECONDS = 10

HOW_TO_BEGIN = (
    "No reviewer pool. Enable it in your configuration ([reviewer_pool] enabled = true) and restart the broker,"
    " or run one beside it: tandem reviewers --broker URL"
)


@render.register
def _(answer: answers.ReviewerList) -> RenderableType:
    if not answer.pools:
        return plain(HOW_TO_BEGIN, "dim")
    return Group(_pools(answer.pools), *_reviewers(answer.reviewers))


@render.register
def _(answer: answers.PoolsChanged) -> RenderableType:
    return _pools(answer.pools)


@render.register
def _(answer: answers.ReviewerView) -> RenderableType:
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


@render.register
def _(answer: answers.Registered) -> RenderableType:
    rows = [("supervisor", answer.supervisor_id), ("incarnation", answer.incarnation)]
    return copied([*rows, ("cursor", answer.cursor)])


@render.register
def _(answer: answers.Orders) -> RenderableType:
    until = answer.circuit_open_until
    head = [
        ("paused", answer.paused),
        ("circuit", f"open, {ago(until)}" if until else None),
        ("again", f"in {duration(answer.again_s)} at the latest"),
        ("cursor", answer.cursor),
    ]
    if not answer.reviewers:
        return Group(facts(head), Text("No reviewers.", style="dim"))
    rows = (
        (one.reviewer_id, one.project, one.wanted, one.drain_reason, one.review_id, one.root)
        for one in answer.reviewers
    )
    return Group(facts(head), listing("id!, project, wanted, why, reviews, folder", rows))


@render.register
def _(answer: answers.OutcomeReported) -> RenderableType:
    return facts(
        [
            ("review", answer.review_id),
            ("state", answer.status),
            ("failed runs", answer.attempts or None),
            ("next try", answer.not_before and ago(answer.not_before)),
            ("attention", answer.attention),
            ("paused", answer.paused),
        ]
    )


def _pools(pools: Iterable[answers.PoolView]) -> RenderableType:
    rows: list[tuple[Cell, ...]] = []
    reasons: list[Text] = []
    for pool in pools:
        style = _POOL_STYLES.get(pool.state, "")
        count, spent = f"{pool.active} of {pool.max_pool_size}", _spent(pool.spent_today_usd, pool.tokens_today)
        shown = Text(pool.state, style=style), count, spent, _program(pool)
        rows.append((pool.supervisor_id, *shown, pool.host, ago(pool.last_seen_at)))
        if pool.why:
            until = f", until {pool.circuit_open_until}" if pool.state == "circuit_open" else ""
            reasons.append(plain(f"  {pool.supervisor_id} starts nothing{until}: {pool.why}", style))
    columns = "pool!, state!, reviewers, spent today, program, host, last heard of"
    return Group(listing(columns, rows), *reasons)


def _reviewers(reviewers: tuple[answers.ReviewerView, ...]) -> Iterable[RenderableType]:
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


def _cells(one: answers.ReviewerView) -> tuple[Cell, ...]:
    now = _name(one), one.project, _state(one), _work(one), ago(one.spawned_at)
    done = str(one.reviews_completed), _rate(one), _mean(one.mean_review_seconds), _failed(one) or "–"
    return *now, *done, _spent(one.cost_usd, one.tokens_in + one.tokens_out)


def _name(reviewer: answers.ReviewerView) -> Text:
    """The id, which begins with the name."""
    return Text.assemble((reviewer.name, "bold"), (reviewer.reviewer_id.removeprefix(reviewer.name), "dim"))


def _state(reviewer: answers.ReviewerView) -> Text:
    why = f" ({reviewer.drain_reason})" if reviewer.state == "draining" and reviewer.drain_reason else ""
    return Text(reviewer.state + why, style=_REVIEWER_STYLES.get(reviewer.state, ""))


def _work(reviewer: answers.ReviewerView) -> str:
    if reviewer.ended_at is not None:
        return ""
    if reviewer.pid is None:
        return "(is started)"
    return reviewer.review_id or "(idle)"


def _program(of: answers.ReviewerView | answers.PoolView) -> Text:
    return plain(", ".join(part for part in (of.provider, of.model, of.mode) if part))


def _rate(reviewer: answers.ReviewerView) -> str:
    return "–" if reviewer.approval_rate is None else f"{reviewer.approval_rate * _PERCENT:.0f} %"


def _mean(seconds: float | None) -> str:
    return f"{seconds:.1f} s" if seconds is not None and seconds < _SHORT_SECONDS else duration(seconds)


def _failed(reviewer: answers.ReviewerView) -> str:
    """Runs without a verdict, by how they ended."""
    failed = {name: count for name, count in reviewer.outcomes.items() if name not in _NO_FAULTS and count}
    return ", ".join(f"{count} {name}" for name, count in failed.items())


def _exit(reviewer: answers.ReviewerView) -> str:
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
