"""Renderings of the log, of statistics, gates, commits, projects, tokens, files and reviewer pools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tandem.cli.render import parts
from tandem.cli.render.answers import renders
from tandem.cli.render.parts import Cell, ago, block, copied, duration, facts, listing, plain, state
from tandem.present.text import Column, Group, Table, Text, Whole

if TYPE_CHECKING:
    from tandem.access import contract as access_contract
    from tandem.gate import contract as gate_contract
    from tandem.pool import contract
    from tandem.present.text import Drawable
    from tandem.projects import contract as project_contract
    from tandem.reviews import answers
    from tandem.reviews import page_answers as file_answers
    from tandem.webhooks import contract as webhook_contract

_COUNTS = ("submitted", "revised", "approved", "changes_requested", "rejected", "comments", "withdrawn")
_ELSEWHERE = "on other machines"
_PERCENT = 100
_PROBLEM = 60
"""Letters of a receiver's answer in a list."""
_SHORT = 12
"""Letters of a commit's id in a list."""
_STATE_STYLES = {"valid": "green", "expired": "dim", "revoked": "dim"}


@renders
def _(answer: answers.Timeline) -> Drawable:
    return _events(answer.events)


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
def _(answer: project_contract.ProjectView) -> Drawable:
    name, mirror = ("project", plain(answer.project, "bold")), answer.mirror
    if mirror is None:
        return facts([name, ("folder", answer.root or _ELSEWHERE)])
    # The key is to be copied.
    shown = facts([name, ("mirror of", mirror.url), ("fetched", _fetched(mirror))])
    return Group(shown, copied([("deploy key", mirror.deploy_key)]))


def _place(one: project_contract.ProjectView) -> str:
    if one.mirror is None:
        return one.root or _ELSEWHERE
    return f"mirror of {one.mirror.url}{' (not fetched)' if one.mirror.problem is not None else ''}"


def _fetched(mirror: project_contract.MirrorView) -> str:
    if mirror.problem is not None:
        return f"no: {mirror.problem}"
    return "being fetched" if mirror.fetched_at is None else ago(mirror.fetched_at)


@renders
def _(answer: project_contract.ProjectList) -> Drawable:
    rows = ((one.project, _place(one), ago(one.registered_at)) for one in answer.projects)
    nothing = "No project is registered; in a repository: tandem project add"
    return parts.page("project!, folder, registered!", rows, empty=nothing)


@renders
def _(answer: project_contract.ProjectRemoved) -> Drawable:
    return Text.assemble("removed  ", plain(answer.project, "bold"))


@renders
def _gate(answer: gate_contract.GateState) -> Drawable:
    word = Text("on", style="bold green") if answer.enabled else Text("off", style="bold yellow")
    switched = answer.switched_at and f"{ago(answer.switched_at)}, by {answer.switched_by}"
    rows: list[tuple[str, object]] = [
        ("gate", Text.assemble(word, "  ", plain(answer.project))),
        ("branches", ", ".join(answer.branches)),
        ("accepted", ", ".join(answer.accepted)),
        ("signers", ", ".join(answer.signers)),
        ("public key", answer.public_key),
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


@renders
def _(answer: gate_contract.GateOverridden) -> Drawable:
    when = f"{ago(answer.overridden_at)}, by {answer.overridden_by}"
    name = Text(answer.override_id, style="bold")
    return facts([("override", name), ("project", answer.project), ("digest", answer.digest), ("when", when)])


@renders
def _(answer: gate_contract.CommitRecord) -> Drawable:
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


@renders
def _(answer: gate_contract.CommitPage) -> Drawable:
    rows = (
        (one.commit[:_SHORT], one.plan, _reviews(one), _became(one), ago(one.recorded_at)) for one in answer.commits
    )
    return parts.page("commit!, plan, reviews, became, recorded!", rows, answer.next_page, empty="No commits.")


@renders
def _(answer: gate_contract.RollbackRecorded) -> Drawable:
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


@renders
def _(answer: access_contract.TokenList) -> Drawable:
    def cells(token: access_contract.TokenView) -> tuple[Cell, ...]:
        what = token.token_id, token.name, ", ".join(token.roles), token.project or "all"
        life = ago(token.created_at), token.created_by, ago(token.expires_at) or "never"
        return *what, Text(token.state, style=_STATE_STYLES.get(token.state, "")), *life

    columns, rows = "id!, name, for, project, state!, made!, by, expires", map(cells, answer.tokens)
    nothing = "No tokens. Make one with: tandem token create NAME --role ROLE"
    return parts.page(columns, rows, answer.next_page, empty=nothing)


@renders
def _(answer: access_contract.TokenRevoked) -> Drawable:
    return Text(f"{answer.token_id} is void since {ago(answer.revoked_at)}.")


@renders
def _(answer: webhook_contract.WebhookList) -> Drawable:
    def cells(one: webhook_contract.WebhookView) -> tuple[Cell, ...]:
        failed = Text(str(one.failed), style="bold red" if one.failed else "")
        what = one.webhook_id, one.url, ", ".join(one.events) or "all", one.project or "all", one.format
        return (
            *what,
            str(one.waiting),
            failed,
            ago(one.delivered_at),
            plain(one.problem and one.problem[:_PROBLEM], "red"),
        )

    columns = "id!, posts to, events, project, format, waiting!, failed!, last arrived!, problem"
    nothing = "No webhooks. Add one with: tandem webhook add URL"
    return parts.page(columns, map(cells, answer.webhooks), empty=nothing)


@renders
def _(answer: webhook_contract.DeliveryList) -> Drawable:
    def cells(one: webhook_contract.DeliveryView) -> tuple[Cell, ...]:
        state = Text(one.state, style={"failed": "bold red", "delivered": "green"}.get(one.state, ""))
        when = ago(one.ended_at or one.next_try_at)
        said = " ".join(str(part) for part in (one.status, one.answer) if part)
        return str(one.seq), one.kind, one.subject, state, str(one.attempts), when, plain(said)

    columns = "seq!, kind!, subject, state!, tries, ended or next try, answer"
    return parts.page(columns, map(cells, answer.deliveries), empty="Nothing was to be delivered yet.")


@renders
def _(answer: webhook_contract.WebhookRemoved) -> Drawable:
    return Text(f"{answer.webhook_id} gets nothing any more.")


@renders
def _(answer: webhook_contract.WebhookTested) -> Drawable:
    word = Text("delivered", style="bold green") if answer.delivered else Text("not delivered", style="bold red")
    status = [("status", answer.status), ("answer", block(answer.answer)), ("took", f"{answer.seconds:.2f} s")]
    return Group(word, facts(status))


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
def _(answer: file_answers.CounterPatchCheck) -> Drawable:
    return Group(_applies(answer), parts.files(answer.affected_files))


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
    return table if answer.gate is None else Group(_gate(answer.gate), table)


def _applies(answer: file_answers.CounterPatchCheck | file_answers.CounterPatchDraft) -> Text:
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


@renders
def _(answer: contract.Registered) -> Drawable:
    rows = [("supervisor", answer.supervisor_id), ("incarnation", answer.incarnation)]
    return copied([*rows, ("cursor", answer.cursor)])


@renders
def _(answer: contract.Orders) -> Drawable:
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


@renders
def _(answer: contract.OutcomeReported) -> Drawable:
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
