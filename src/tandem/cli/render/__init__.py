"""Answers as people want to read them; most by the labels and kinds of their fields, these otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tandem.bridge.credentials import LOCK_VARIABLE, SESSION_VARIABLE
from tandem.cli.render import checks, cycles, parts
from tandem.cli.render.parts import STYLES, Cell, ago, block, clock, facts, listing, more_pages, plain, renders, state
from tandem.present import inbox
from tandem.present.facts import facts as shown_facts
from tandem.present.facts import given, worded, work
from tandem.present.findings import BEFORE, come_from, met, together
from tandem.present.text import Column, Framed, Group, Rule, Table, Text, Whole
from tandem.reviews.finding_rules import OPEN, headline
from tandem.rulings import next_steps
from tandem.rulings.person import told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tandem.access import contract as access_contract
    from tandem.gate import contract as gate_contract
    from tandem.inbox import contract as inbox_contract
    from tandem.pool import contract
    from tandem.present.text import Drawable
    from tandem.reviews import answers, page_contract
    from tandem.reviews import page_contract as file_answers
    from tandem.reviews.finding_contract import FindingPage, FindingView, LessonPage, LessonView
    from tandem.reviews.tally_contract import Statistics

__all__ = ["cycles", "finding_line", "finding_place", "render"]

_HOW_TO_BEGIN = (
    "No reviewer pool. Choose a program that reviews: tandem reviewers setup. Or run a pool beside the broker:"
    " tandem reviewers --broker URL"
)
_NOTHING_OPEN = "Nothing waits for anybody. To begin: {} in a repository, then {} submits a change.".format(
    *inbox.TO_BEGIN
)
_REASONS_SHOWN = 3
_REMARKS = {
    "AuditPage": "Go on from here with --cursor {cursor}",
    "CycleCompleted": "{active_role} archives it.",
    "CycleStatus": "cursor {cursor}",
    "CycleStarted": f"The lock is {{active_role}}'s: give it as --lock-token, or in {LOCK_VARIABLE}.",
    "KeyRevoked": "The workflow rests until there is a new one: tandem cycle rotate {role}",
    "LockAcquired": f"Give it as --lock-token, or in {LOCK_VARIABLE}; it changes with the active role.",
    "ReviewStatus": "cursor {cursor}",
    "SessionOpened": f"Give it as --session-token, or in {SESSION_VARIABLE}.",
}
"""How to go on, below an answer of a type."""


def render(kind: str, answer: Any) -> Drawable:
    """An answer for a terminal; one that has no rendering of its own by the labels and kinds of its fields.

    Args:
        kind: The name of its type.
        answer: Its data, as a record.
    """
    own = parts.RENDERINGS.get(kind)
    if own is not None:
        return own(answer)
    onward = [*_nobody(answer.no_reviewer), *_next(answer)] if answer.next_action is not None else []
    onward[:0] = [("findings", headline((), answer.findings))] if kind == "ReviewStatus" else []
    shown = parts.fields(kind, answer, *onward)
    remark = _REMARKS.get(kind)
    return Group(shown, plain(remark.format_map(answer), "dim")) if remark is not None else shown


@renders
def _(answer: answers.ReviewCreated) -> Drawable:
    name, round_ = (answer.review_id, "bold"), f"  round {answer.round}  "
    checked = f"digest {parts.digest(answer.digest)}" if answer.validated else "not validated: it opens no gate"
    about = [("project", answer.project), ("category", answer.category), ("content", checked)]
    about += [("note", note) for note in answer.notes] + [("missing", one) for one in answer.missing]
    known = facts([*about, *_nobody(answer.no_reviewer), *_next(answer)])
    head = Text.assemble(name, round_, state(answer.status), f"  {answer.priority}")
    if answer.existed:
        head.append("  is there already, with the same content: nothing new was submitted")
    return Group(head, known, parts.files(answer.affected_files))


def _nobody(none: answers.NoReviewer | None) -> list[tuple[str, str | None]]:
    # Where no person is needed, `next` says it.
    return [
        ("no reviewer", none and none.message),
        ("what helps", told(none.remedy) if none and none.needs_person else None),
    ]


def _next(answer: answers.ReviewStatus | answers.ReviewCreated) -> list[tuple[str, str]]:
    """What the proposer does now, a row for each command."""
    steps = next_steps.commands(cast("dict[str, Any]", answer))
    return [("" if number else "next", told(step)) for number, step in enumerate(steps)]


@renders
def _proposal(answer: answers.Proposal) -> Drawable:
    title = Text.assemble((answer.review_id, "bold"), "  ", state(answer.status))
    about: list[Drawable] = [_heading(answer), parts.files(answer.affected_files)]
    if answer.description:
        about.append(Framed(block(answer.description), before=1))
    # Diffs stand outside of the panel, so that they can be copied.
    shown: list[Drawable] = [Framed(Group(*about), title=title)]
    if answer.interdiff is not None:
        shown += [Rule("since the earlier round"), parts.diff(answer.interdiff), Rule()]
    if answer.diff:
        shown.append(parts.diff(answer.diff))
    if answer.counter_patch:
        shown += _counter_patch(answer.counter_patch)
    return Group(*shown)


def _heading(answer: answers.Proposal) -> Drawable:
    of = "" if answer.round == answer.current_round else f" of {answer.current_round}"
    return Group(
        plain(answer.intent, "bold"),
        facts(
            [
                ("from", f"{answer.proposer_id} ({answer.agent_type}, {answer.agent_role})"),
                ("kind", f"{answer.category}, {answer.priority}"),
                *((fact.label, fact.words) for fact in shown_facts("Work", answer)),
                ("round", f"{answer.round}{of}, {ago(answer.created_at)}, by {answer.author} ({answer.origin})"),
                ("accepted by", answer.accepted_by),
                ("file", answer.path),
                ("base", answer.base_commit or answer.base),
                *([] if answer.ground is None else [("stands on", answer.ground.stands_on)]),
                *(("look at this", plain(note, "yellow")) for note in (answer.ground.notes if answer.ground else ())),
                ("digest", answer.digest or "none: not validated"),
                ("diff", None if answer.drawn else "as it was sent: its lines and places need not be right"),
                *(("note", note) for note in answer.notes),
                ("follows", answer.parent_id),
                ("followed by", ", ".join(answer.child_ids)),
                *_given(answer),
            ]
        ),
    )


def _given(answer: answers.Proposal | answers.DiscussionEntry) -> Iterator[tuple[str, Text]]:
    """The facts that the writer added for readers."""
    for fact in given("metadata", answer.metadata or {}):
        yield fact.label, block(fact.words)


def _counter_patch(patch: answers.CounterPatchView) -> list[Drawable]:
    known = [("author", patch.author), ("status", patch.status), ("made", ago(patch.created_at))]
    about: list[Drawable] = [facts([*known, ("reason", block(patch.reason))]), parts.files(patch.affected_files)]
    if patch.description:
        about.append(block(patch.description))
    title = Text(f"counter-patch {patch.id}")
    panel = Framed(Group(*about), title=title)
    return [panel, parts.diff(patch.diff)] if patch.diff else [panel]


@renders
def _(answer: answers.Claim) -> Drawable:
    if answer.review is None:
        return Text("Nothing to review.", style="dim")
    fits = {True: "applies to HEAD", False: "does not apply to HEAD as it is", None: ""}[answer.applies_to_head]
    head = facts(
        [
            ("claimed", Text.assemble((answer.review_id or "", "bold"), f"  round {answer.round}")),
            ("generation", answer.claim_generation),
            ("lease", f"ends {ago(answer.lease_expires_at)}"),
            ("base", fits),
        ]
    )
    return Group(head, _proposal(answer.review))


@renders
def _discussion(answer: answers.Discussion) -> Drawable:
    if not answer.entries:
        return Text("Nothing has been said yet.", style="dim")
    return Group(*(_entry(entry) for entry in answer.entries), more_pages(answer.next_page))


def _entry(entry: answers.DiscussionEntry) -> Drawable:
    place = "" if entry.file is None else f"  {entry.file}" + ("" if entry.line is None else f":{entry.line}")
    settled = f"  {entry.status}" if entry.status else f"  settled by {entry.resolved_by}" if entry.resolved_by else ""
    what = entry.verdict or " ".join(filter(None, (entry.severity, entry.kind.replace("_", "-"))))
    head = Text.assemble(
        plain(entry.author, "bold"),
        f"  {entry.sender_role}, {come_from(entry) or f'round {entry.round}'}, {ago(entry.at)}  ",
        (what, STYLES.get(what, "cyan")),
        (f"  {entry.id}", "dim"),
        plain(place + settled, "dim"),
    )
    shown: list[Drawable] = [head]
    shown += [Framed(block(text), left=2) for text in (entry.body, entry.description) if text]
    shown.append(Framed(facts(_given(entry)), left=2))
    if entry.diff:
        shown.append(Framed(parts.diff(entry.diff), left=2))
    return Framed(Group(*shown), after=1)


@renders
def _(answer: answers.FullReview) -> Drawable:
    found = [checks.table(answer.checks)] if answer.checks else []
    # A single round is in the proposal's heading.
    found += [parts.table("RoundRow", answer.rounds)] if len(answer.rounds) > 1 else []
    found += _findings(answer.findings)
    if answer.holder is not None and (does := _does(answer.holder)):
        command = f". End it and take over: tandem review claim {answer.status.review_id} --take-over"
        found[:0] = [Text.assemble((answer.holder.name, "bold"), " ", does, command)]
    return Group(
        render("ReviewStatus", answer.status), *found, _proposal(answer.proposal), _discussion(answer.discussion)
    )


@renders
def _(answer: inbox_contract.Inbox) -> Drawable:
    shown = [_section(one) for one in inbox.sections(answer) if one.items]
    return Group(*shown) if shown else plain(_NOTHING_OPEN, "dim")


_SECTION_STYLES = {"problems": "bold red", "your_turn": "bold green", "unclaimed": "dim"}


def _section(section: inbox.Section) -> Drawable:
    title = Text.assemble((f"{section.title} ", _SECTION_STYLES.get(section.name, "bold")), (section.count, "dim"))
    items = [item for _, group in section.groups for item in section.unfolded(group)]
    folded = ((len(group) - len(section.unfolded(group)), project) for project, group in section.groups)
    more = [plain(f"{count} more in {project}: tandem review list", "dim") for count, project in folded if count]
    return Group(title, listing("id!, what, change!, why, for!", map(_row, items)), *more)


def _row(item: inbox_contract.InboxItem) -> tuple[Cell, ...]:
    review_id = item.review.review_id if item.review else ""
    return review_id, _what(item), inbox.size(item), _why(item), ago(item.since)


def _what(item: inbox_contract.InboxItem) -> Text:
    review = item.review
    about = plain(inbox.said(item) if review is None else review.intent)
    where = [] if review is None else [review.project, "" if review.priority == "normal" else review.priority]
    held = [f"{one.intent} ({one.review_id})" for one in item.holds_up]
    held += [f"and {item.held_up - len(held)} more"] if item.held_up > len(held) else []
    for more in (", ".join(filter(None, where)), work(review), *held):
        if more:
            about.append("\n").append(plain(more, "dim"))
    return about


def _why(item: inbox_contract.InboxItem) -> Text:
    if item.review is None:
        return plain(inbox.helps(item) or "")
    told = plain(inbox.said(item))
    return told.append("\n").append(plain(item.detail, "dim")) if item.detail else told


@renders
def _(answer: Statistics) -> Drawable:
    waiting = worded("counts", {name: count for name, count in answer.open.items() if name != "closed"}) or "none"
    head = facts(
        [("project", answer.project or "all"), ("since", answer.since or "the beginning"), ("open now", waiting)]
    )
    named = {"all": answer.total, **{f"by {name}": tally for name, tally in answer.by_reviewer.items()}}
    named |= {f"with {name}": tally for name, tally in (answer.by_model or {}).items()}
    found = {name: tally.findings for name, tally in named.items()}
    found |= {f"about {name}": tally for name, tally in (answer.by_finding_category or {}).items()}
    found = {
        name: tally for name, tally in found.items() if any(one.value for one in shown_facts("FindingTally", tally))
    }
    tallies = {"all": answer.total, **answer.by_category, **named}
    shown = [head, parts.table("Tally", [*tallies.values()], [*tallies])]
    return Group(
        *shown, *([Text("\nfindings"), parts.table("FindingTally", [*found.values()], [*found])] if found else ())
    )


@renders
def _(answer: gate_contract.GateDecision) -> Drawable:
    word = Text("allowed", style="bold green") if answer.allowed else Text("refused", style="bold red")
    table = Table([Column(), Column(), Column(), Column()])
    for path in answer.paths:
        by = " round ".join(str(one) for one in (path.review_id, path.round) if one)
        mark = plain((path.kind or "not approved").replace("_", " "), "green" if path.allowed else "red")
        table.add(mark, plain(path.path), by, plain(path.reason, "dim"))
    return Group(Text.assemble(word, "  ", plain(answer.reason)), table)


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
def _(answer: contract.ReviewerLog) -> Drawable:
    if not answer.available:
        return plain(
            f"The log of {answer.reviewer_id} is not on the broker's machine; it runs on {answer.host}.", "dim"
        )
    return Whole(*map(block, answer.lines))


@renders
def _(answer: contract.ReviewerList) -> Drawable:
    if not answer.pools:
        return plain(_HOW_TO_BEGIN, "dim")
    return Group(_pools(answer.pools), *_reviewers(answer.reviewers))


@renders
def _(answer: page_contract.DraftPage) -> Drawable:
    if not answer.drafts:
        return Text("There are no drafts.", style="dim")
    columns = "review!, draft!, kind, where, text, saved!"
    return Group(listing(columns, map(_drafted, answer.drafts)), more_pages(answer.next_page))


def _drafted(one: page_contract.Draft) -> tuple[Cell, ...]:
    lines = "" if one.line is None else f":{one.line}" + (f"-{one.end_line}" if one.end_line else "")
    lost = " (lines changed or gone)" if one.place is not None and one.place.changed else ""
    begins = (one.body.strip() or one.failure or one.suggestion or "").partition("\n")[0]
    text = plain(": ".join(filter(None, (one.severity, BEFORE if one.pre_existing else None, begins))))
    text.is_cut = True
    where = f"{one.file}{lines}{lost}" if one.file else ""
    return one.review_id, one.draft_id, one.kind, where, text, ago(one.updated_at)


@renders
def _(answer: access_contract.Login) -> Drawable:
    return Whole(plain(answer.path))  # alone, for scripts


@renders
def _(answer: contract.PoolsChanged) -> Drawable:
    return _pools(answer.pools)


def _pools(pools: Sequence[contract.PoolView]) -> Drawable:
    reasons: list[Text] = []
    for pool in pools:
        if pool.why:
            until = f" until {clock(pool.circuit_open_until)}" if pool.circuit_open_until else ""
            onward = ". Resume now: tandem reviewers resume" if pool.state in inbox.PAUSED else ""
            words = f"  {pool.provider} on {pool.host} starts nothing{until}: {pool.why.removesuffix('.')}{onward}"
            reasons.append(plain(words, STYLES.get(pool.state, "")))
        reasons += [_profile(one) for one in pool.profiles if pool.state != "ended"]
    return Group(parts.table("PoolView", pools), *reasons)


def _profile(one: contract.ProfileView) -> Text:
    model = f" with {one.model}" if one.model else ""
    vote = "" if one.voting else ", without a vote"
    why = f"; starts nothing: {one.why.removesuffix('.')}" if one.why else ""
    return plain(f"  profile {one.name}: {one.provider}{model}{vote}{why}", "yellow" if one.why else "dim")


def _reviewers(reviewers: Sequence[contract.ReviewerView]) -> Iterator[Drawable]:
    if not reviewers:
        yield Text("No reviewer has run yet; one is started when a proposal waits.", style="dim")
        return
    yield parts.table("ReviewerView", reviewers)
    bad: dict[str, list[contract.ReviewerView]] = {}
    for one in reviewers:
        if one.end_reason and one.exit_code != 0:
            bad.setdefault(one.end_cause or one.end_reason, []).append(one)
    for cause, ended in list(bad.items())[:_REASONS_SHOWN]:
        yield plain(f"  {len(ended)} ended: {cause} ({', '.join(one.name for one in ended)})")
        yield plain(f"    {ended[0].end_reason}", "dim")


def _does(one: answers.Holder) -> Text | None:
    """That it is silent, or waits for checks, and for how long; None for what needs no words."""
    if one.doing not in ("silent", "waits_for_checks"):
        return None
    words = f"{one.doing.replace('_', ' ')} for {ago(one.doing_since).removesuffix(' ago')}"
    return plain(words, "red" if one.doing == "silent" else "")


def finding_place(one: FindingView) -> str:
    """Where it stands in the round, as far as it stands anywhere: `src/a.py:3-5`."""
    place = one.place or one
    file = place.file or one.file
    if file is None:
        return "the whole change"
    last = f"-{place.end_line}" if place.end_line not in {None, place.line} else ""
    old = " before the change" if one.side == "old" else ""
    return file if place.line is None else f"{file}:{place.line}{last}{old}"


def finding_line(one: FindingView) -> str:
    """What its proposer has to know of it, as a remark."""
    known = (one.severity, "blocking" if one.blocking else "", BEFORE if one.pre_existing else "", come_from(one))
    marks = ", ".join(filter(None, known))
    said = [f"{one.finding_id} ({marks}) {finding_place(one)}: {one.claim}"]
    said += [f"how it fails: {one.failure}"] if one.failure else []
    said += [f"suggestion:\n{one.suggestion}"] if one.suggestion is not None else []
    return "\n".join(said)


@renders
def _(answer: FindingPage) -> Drawable:
    is_of_project = answer.counts is None
    told = _findings_told(answer.findings, with_review=is_of_project)
    return Group(Text(headline(answer.findings, answer.counts)), *told, more_pages(answer.next_page))


def _findings(found: Sequence[FindingView]) -> list[Drawable]:
    """All findings of a review below their numbers; nothing if it has none."""
    return [Text(headline(found)), *_findings_told(found)] if found else []


def _findings_told(found: Sequence[FindingView], *, with_review: bool = False) -> Iterator[Drawable]:
    """Each of them, those on the same lines below one heading."""
    for group in together(found):
        told = [_finding(one, with_review=with_review) for one in group]
        if len(told) == 1:
            yield from told
        else:
            yield Framed(Group(plain(met(group)), Framed(Group(*told), left=2)), before=1)


def _finding(one: FindingView, *, with_review: bool = False) -> Drawable:
    head = Text.assemble(
        (f"{one.severity}  ", "bold red" if one.blocking else "bold"),
        (one.state, STYLES.get(one.state, "")),
        ("  blocking" if one.blocking else "", "bold red"),
        (f"  {BEFORE}" if one.pre_existing else "", "yellow"),
        plain(f"  {finding_place(one)}"),
        ("  changed since" if one.place is not None and one.place.changed else "", "yellow"),
        (f"  {one.finding_id}", "dim"),
        plain(f"  {one.review_id}  round {one.round}" if with_review else "", "dim"),
        plain(f"  {one.author}, {ago(one.created_at)}", "dim"),
        (f"  {come_from(one)}" if one.found_in else "", "yellow"),
    )
    # Whose words they are stands before each, so that none is mistaken for another's.
    answered = one.answer and f"{one.answered_by}: {one.answer}"
    settled = one.settled_by and f"{one.settled_by}{f': {one.settled_reason}' if one.settled_reason else ''}"
    suggestion = "delete the lines" if one.suggestion == "" else one.suggestion
    more = [("kind", one.category), ("how it fails", one.failure), ("suggestion", suggestion)]
    more += [("answer", answered), ("settled by" if one.state not in OPEN else "reopened by", settled)]
    about = facts((name, block(value)) for name, value in more if value)
    return Framed(Group(head, Framed(Group(block(one.claim), about), left=2)), before=1)


@renders
def _(answer: LessonPage) -> Drawable:
    if not answer.lessons:
        return Text("No lessons.", style="dim")
    told = [Framed(Group(_lesson(one), Framed(block(one.claim), left=2)), after=1) for one in answer.lessons]
    return Group(*told, more_pages(answer.next_page))


def _lesson(one: LessonView) -> Text:
    why = f"  {one.settled_by} agreed: {one.answer}"
    return Text.assemble(plain(one.finding_id, "bold"), plain(f"  {one.file}"), plain(why, "dim"))
