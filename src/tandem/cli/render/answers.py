"""One rendering for each answer about reviews: a review, lists of them, the inbox and searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tandem.cli.render import checks, parts
from tandem.cli.render.parts import ago, block, facts, listing, more_pages, plain, renders, state
from tandem.present.facts import facts as shown_facts
from tandem.present.text import Framed, Group, Rule, Text
from tandem.present.words import WHY
from tandem.rulings import next_steps

if TYPE_CHECKING:
    from tandem.inbox import contract as inbox_contract
    from tandem.present.text import Drawable
    from tandem.reviews import answers
    from tandem.reviews import page_contract as file_answers


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
    return parts.fields(kind, answer, *onward)


@renders
def _(answer: answers.ReviewCreated) -> Drawable:
    name, round_ = (answer.review_id, "bold"), f"  round {answer.round}  "
    checked = f"digest {parts.digest(answer.digest)}" if answer.validated else "not validated: it opens no gate"
    about = [("project", answer.project), ("category", answer.category), ("content", checked)]
    about += [("note", note) for note in answer.notes]
    known = facts([*about, *_nobody(answer.no_reviewer), *_next(answer)])
    head = Text.assemble(name, round_, state(answer.status), f"  {answer.priority}")
    if answer.existed:
        head.append("  is there already, with the same content: nothing new was submitted")
    return Group(head, known, parts.files(answer.affected_files))


@renders
def _status(answer: answers.ReviewStatus) -> Drawable:
    verdict = answer.verdict and Text(answer.verdict, style=parts.STATUS_STYLES.get(answer.verdict, ""))
    patch = answer.counter_patch_id and f"{answer.counter_patch_id} ({answer.counter_patch_status})"
    lease = answer.lease_expires_at and f"ends {ago(answer.lease_expires_at)}"
    return facts(
        [
            ("review", Text.assemble((answer.review_id, "bold"), "  ", state(answer.status, answer.outcome))),
            ("project", answer.project),
            ("round", f"{answer.round}, digest {parts.digest(answer.digest)}"),
            ("verdict", verdict),
            ("reason", block(answer.verdict_reason)),
            ("closed because", answer.closed_reason and block(answer.closed_reason)),
            ("contents", answer.removed_at and f"removed {ago(answer.removed_at)}: retention_days"),
            ("reviewer", answer.reviewer_id),
            ("claim", f"generation {answer.claim_generation}" if answer.claim_generation else None),
            ("lease", lease),
            ("counter-patch", patch),
            ("checks", answer.checks and Text(answer.checks, style=checks.OUTCOME_STYLES[answer.checks])),
            ("attention", answer.attention),
            *_nobody(answer.no_reviewer),
            ("turn", answer.turn),
            *_next(answer),
            ("cursor", Text(answer.cursor, style="dim")),
        ]
    )


def _nobody(none: answers.NoReviewer | None) -> list[tuple[str, str | None]]:
    # Where no person is needed, `next` says it.
    return [("no reviewer", none and none.message), ("what helps", none.remedy if none and none.needs_person else None)]


def _next(answer: answers.ReviewStatus | answers.ReviewCreated) -> list[tuple[str, str]]:
    """What the proposer does now, a row for each command."""
    steps = next_steps.commands(cast("dict[str, Any]", answer))
    return [("" if number else "next", step) for number, step in enumerate(steps)]


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
                ("file", answer.path),
                ("base", answer.base_commit or answer.base),
                *([] if answer.ground is None else [("stands on", answer.ground.stands_on)]),
                *(("look at this", plain(note, "yellow")) for note in (answer.ground.notes if answer.ground else ())),
                ("digest", answer.digest or "none: not validated"),
                ("diff", None if answer.drawn else "as it was sent: its lines and places need not be right"),
                *(("note", note) for note in answer.notes),
                ("follows", answer.parent_id),
                ("followed by", ", ".join(answer.child_ids)),
            ]
        ),
    )


def _counter_patch(patch: answers.CounterPatchView) -> list[Drawable]:
    known = [("author", patch.author), ("status", patch.status), ("made", ago(patch.created_at))]
    about: list[Drawable] = [facts([*known, ("reason", block(patch.reason))]), parts.files(patch.affected_files)]
    if patch.description:
        about.append(block(patch.description))
    title = Text(f"counter-patch {patch.id}")
    panel = Framed(Group(*about), title=title)
    return [panel, parts.diff(patch.diff)] if patch.diff else [panel]


@renders
def _(answer: answers.ReviewPage) -> Drawable:
    # What is the same in all rows would only take the width from the intents.
    same = [name for name in ("priority", "project") if len({getattr(row, name) for row in answer.reviews}) == 1]
    names = ("id!", "state!", "priority", "project", "intent", "by", "turn", "active!")
    shown = [index for index, name in enumerate(names) if name not in same]
    cells = ((*parts.review_cells(row), row.turn, ago(row.updated_at)) for row in answer.reviews)
    rows = ([row[index] for index in shown] for row in cells)
    columns = ", ".join(names[index] for index in shown)
    return parts.page(columns, rows, answer.next_page, empty="No such reviews. All there are: tandem review list --all")


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
def _(answer: answers.VerdictGiven) -> Drawable:
    stands = Text.assemble(answer.review_id, "  ", state(answer.status))
    verdict = f"{answer.verdict} on round {answer.round} ({answer.verdict_id})"
    notes = [("note", note) for note in answer.notes]
    return facts([("review", stands), ("verdict", verdict), ("counter-patch", answer.counter_patch_id), *notes])


@renders
def _discussion(answer: answers.Discussion) -> Drawable:
    if not answer.entries:
        return Text("Nothing has been said yet.", style="dim")
    return Group(*(_entry(entry) for entry in answer.entries), more_pages(answer.next_page))


def _entry(entry: answers.DiscussionEntry) -> Drawable:
    place = "" if entry.file is None else f"  {entry.file}" + ("" if entry.line is None else f":{entry.line}")
    settled = f"  settled by {entry.resolved_by}" if entry.resolved_by else ""
    what = entry.verdict or entry.kind.replace("_", "-")
    head = Text.assemble(
        plain(entry.author, "bold"),
        f"  {entry.sender_role}, round {entry.round}, {ago(entry.at)}  ",
        (what, parts.STATUS_STYLES.get(what, "cyan")),
        (f"  {entry.id}", "dim"),
        plain(place + settled, "dim"),
    )
    shown: list[Drawable] = [head]
    shown += [Framed(block(text), left=2) for text in (entry.body, entry.description) if text]
    if entry.diff:
        shown.append(Framed(parts.diff(entry.diff), left=2))
    return Framed(Group(*shown), after=1)


@renders
def _(answer: answers.FullReview) -> Drawable:
    found = [checks.table(answer.checks)] if answer.checks else []
    return Group(_status(answer.status), *found, _proposal(answer.proposal), _discussion(answer.discussion))


@renders
def _(answer: inbox_contract.Inbox) -> Drawable:
    trays = (
        ("Your turn", "bold green", answer.your_turn, answer.counts.your_turn),
        ("Waiting on others", "bold", answer.waiting, answer.counts.waiting),
        ("Problems", "bold red", answer.problems, answer.counts.problems),
    )
    shown = [_tray(name, style, items, count) for name, style, items, count in trays if items]
    return Group(*shown) if shown else Text("Nothing waits for anybody.", style="dim")


def _tray(name: str, style: str, items: tuple[inbox_contract.InboxItem, ...], count: int) -> Drawable:
    number = f"{len(items)}+" if count > len(items) else str(count)
    rows = ((_id(item), WHY.get(item.why, item.why), _what(item), item.who, ago(item.since)) for item in items)
    return Group(Text.assemble((f"{name} ", style), (number, "dim")), listing("id!, why, what, who, for!", rows))


def _id(item: inbox_contract.InboxItem) -> str:
    if item.review is not None:
        return item.review.review_id
    return item.pool.supervisor_id if item.pool is not None else ""


def _what(item: inbox_contract.InboxItem) -> Text:
    about = plain(item.review.intent if item.review is not None else "")
    if item.detail:
        about.append("\n" if about.plain else "").append(plain(item.detail, "dim"))
    return about


@renders
def _(answer: file_answers.SearchPage) -> Drawable:
    rows = ((*parts.review_cells(row), str(row.files), ago(row.created_at)) for row in answer.reviews)
    columns = "id!, state!, priority, project, intent, by, files!, age!"
    shown = [parts.page(columns, rows, empty="Found nothing.")]
    if answer.searched_back_to is not None:
        shown.append(Text(f"Searched back to {ago(answer.searched_back_to)}.", style="dim"))
    return Group(*shown, more_pages(answer.next_page))
