"""What the screen says in words: states, refusals, a review and its discussion; and its keys, from the table of all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Markdown, Static

from tandem.cli.render import checks
from tandem.cli.render.parts import STYLES, ago
from tandem.cli.review_screen.desk import LoadedReview, ScreenClient
from tandem.client import Unreachable
from tandem.core.texts import loses_cells
from tandem.core.visible import visible, visible_line
from tandem.errors import OpenFindings, TandemError
from tandem.git.changes import origins_of
from tandem.git.hunks import join_renames, parse
from tandem.pool.rules import readable
from tandem.present import keys
from tandem.present.facts import facts
from tandem.present.findings import come_from
from tandem.present.words import reviewer_name
from tandem.reviews import finding_rules
from tandem.reviews.answers import CounterPatchView, DiscussionEntry, Proposal, ReviewHead
from tandem.reviews.finding_rules import headline as numbers
from tandem.reviews.unusual import of_diff, of_round, of_text

OWN = "It is your own: somebody else gives the verdict."
VERDICTS = {
    "approved": "Approve",
    "changes_requested": "Request changes",
    "rejected": "Reject",
    "comment": "Comment",
}
GIVEN = {
    "approved": "approved",
    "changes_requested": "requested changes",
    "rejected": "rejected",
    "comment": "commented",
}
SEVERITIES = {name: name.capitalize() for name in finding_rules.SEVERITIES}
SAID = {
    "verified": "Verified: it is corrected",
    "upheld": "Upheld: the proposer is right",
    "reopened": "Reopened: it does not hold",
    "fixed": "For its proposer: fixed",
    "refuted": "For its proposer: refuted, it is no fault",
    "deferred": "For its proposer: deferred, it is not for this change",
}
"""The lines of a finding."""
_MOST_CHECKS = 5
_ID = re.compile(r"[0-9a-f]{8}", re.IGNORECASE)
UNDECIDED = frozenset({"pending", "claimed", "in_review"})
_HELP = {
    "STALE_CLAIM": "Your text is kept. If it is still open, sending it again claims it again.",
    "STALE_ROUND": "Your text is kept. Go back (Escape), look at the new round (]]), and come here again.",
    "ALREADY_CLAIMED": "Your text is kept. It can be yours once they have released it.",
    "TURN_VIOLATION": "Your text is kept. You can send it once the other side has answered.",
    "OPEN_FINDINGS": "Everything is as it was. Back (Escape), ]c goes to each finding, and S says what became of it.",
    "SELF_APPROVAL": "Somebody else has to decide; X releases your claim.",
    "INVALID_TRANSITION": "Your text is kept. The review has gone on: see its new state.",
}
_NEXT = {
    "wait": "waits for its reviewer, or its checks",
    "answer_message": "its proposer has to answer",
    "decide_counter_patch": "its proposer has to decide the counter-patch (+ accepts, - declines)",
    "revise": "its proposer has to revise it",
    "apply_and_close": "its proposer applies and closes it",
    "revert": "its proposer takes it back",
    "escalate": "a person has to decide how it goes on",
    "none": "it is over",
}

_OWED_KEY = keys.key_of("review", "owed")


def bindings(screen: str) -> list[BindingType]:
    """The bindings of a screen, or of a part of one."""
    found: dict[str, BindingType] = {}
    for one in keys.of_screens(screen):
        for pressed, act in one.bound():
            first, *more = pressed.split()
            key = first if len(first) == 1 else first.lower()
            does = one.in_footer or one.does
            found[key] = Binding(key, f"chord('{first}')" if more else act, does, show=bool(one.in_footer))
    return list(found.values())


def help_text(*screens: str) -> str:
    """The keys of screens under their headings."""
    groups = [
        (group, [(", ".join(key.replace(" ", "") for key, _ in one.bound()), one.does) for one in found])
        for group, found in keys.grouped(*screens)
    ]
    width = max(len(names) for _, rows in groups for names, _ in rows)
    return "\n\n".join(
        "\n".join([group, *(f"  {names:<{width}}  {does}" for names, does in rows)]) for group, rows in groups
    )


def chord(screen: str, first: str) -> tuple[str, dict[str, str]]:
    """What the keys behind a first one do, in words, and the act of each."""
    found = [one for one in keys.of_screens(screen) if f"{first} " in one.keys]
    acts = {key[2:]: act for one in found for key, act in one.bound() if key.startswith(f"{first} ")}
    return "    ".join(f"{one.keys}  {one.does}" for one in found), acts


def state(status: str, outcome: str | None) -> Text:
    """A review's state in its colour."""
    text = Text(visible(status).replace("_", " "), style=STYLES.get(status, ""))
    return text.append(f" ({visible(outcome)})") if outcome else text


def refusal(error: TandemError) -> str:
    """A refusal with what helps at the screen."""
    following = _HELP.get(error.code)
    if isinstance(error, OpenFindings) and error.elsewhere:
        where = error.elsewhere[0]["review_id"]
        following = f"Everything is as it was. They stand in another review: tandem findings {where}"
    if isinstance(error, Unreachable):
        following = "Your text is kept. Try again once it is back."
    return f"{error.message}\n{following}" if following else error.message


def name_of(one: ReviewHead) -> str:
    """What people call its proposer: an agent whose name is a session's id by its kind."""
    return one.agent_type if _ID.search(one.proposer_id) else one.proposer_id


def since(at: str) -> str:
    """How long something has been so: `3 min`."""
    return ago(at).removesuffix(" ago")


def lease(until: str | None) -> str:
    """How long a claim lasts still."""
    if until is None:
        return ""
    is_over = datetime.fromisoformat(until) <= datetime.now(tz=UTC)
    return "claim has ended" if is_over else f"claim ends {ago(until)}"


def headline(reading: LoadedReview) -> Text:
    """What the change is for."""
    return Text(visible_line(reading.proposal.intent), no_wrap=True, overflow="ellipsis")


def lines(reading: LoadedReview, person: str, since: int | None) -> Text:
    """Where it stands, in a line or two, and one for the checks."""
    status, proposal = reading.status, reading.proposal
    first = Text().append_text(state(status.status, status.outcome))
    first.append(f"  {_round(reading, since)}  {visible_line(status.project)}  by {visible_line(name_of(proposal))}")
    if proposal.author not in {proposal.proposer_id, proposal.agent_type}:
        first.append(f" ({visible_line(proposal.author)})")
    if not proposal.validated:
        first.append("  not validated", style="yellow")
    second = Text(_held(reading, person))
    second.append(f"  {_NEXT.get(status.next_action, status.next_action)}")
    if reading.is_own(person) and status.status in UNDECIDED:
        second.append(f"  {OWN}", style="yellow")
    if status.attention:
        second.append(f"  {visible_line(readable(status.attention))}", style="bold red")
    elif (none := status.no_reviewer) is not None and none.reason != "no_pool":
        second.append(f"  {visible_line(none.message)}", style="yellow")
    more = [Text(f"{visible_line(one.words)}. {_OWED_KEY} gives it.", style="yellow") for one in status.owed]
    more += [_checks(reading)] if reading.checks else []
    more += [_findings(reading, person)] if reading.findings else []
    return Text("\n").join((first, second, *more))


def _findings(reading: LoadedReview, person: str) -> Text:
    own = [one for one in reading.findings if one.author == person]
    said = [f"Your {numbers(own)}"] if own else []
    said += [f"{'In all ' if own else ''}{numbers(reading.findings)}"] if len(own) < len(reading.findings) else []
    return Text(". ".join(said))


def _checks(reading: LoadedReview) -> Text:
    said = Text("checks: ")
    shown = [
        Text.assemble(f"{visible_line(one.name)} ", *checks.status(one).spans) for one in reading.checks[:_MOST_CHECKS]
    ]
    said.append_text(Text(", ").join(shown))
    if len(reading.checks) > _MOST_CHECKS:
        said.append(f" and {len(reading.checks) - _MOST_CHECKS} more")
    return said.append(f"  {gate(reading)}", style="yellow")


def gate(reading: LoadedReview) -> str:
    """What the checks make of the gate for the current round; empty if they do not keep it closed."""
    outcome = reading.status.checks or "passed"
    return checks.COMES_TO.get(outcome, "") if reading.is_current and outcome != "passed" else ""


def _round(reading: LoadedReview, since: int | None) -> str:
    shown, current = reading.proposal.round, reading.status.round
    said = f"round {shown} of {current}" if current > 1 else f"round {shown}"
    if since is not None:
        said += f", what changed since round {since}"
    if shown != current:
        said += f": ]] goes to round {shown + 1}"
    return said


def _held(reading: LoadedReview, person: str) -> str:
    status = reading.status
    others = "".join(f" {visible_line(reviewer_name(one))} is at work, too." for one in status.beside)
    if reading.is_held_by(person):
        return f"yours, {lease(status.lease_expires_at)}.{others}"
    if reading.is_held:
        holder = visible_line(reviewer_name(status.reviewer_id or "a reviewer"))
        return f"with {holder}, {lease(status.lease_expires_at)}.{others}"
    if status.waived_by:
        who = visible_line(reviewer_name(status.waived_by))
        return f"{who} waived the last missing requirement on round {status.round}, and approved nothing."
    if status.verdict and status.reviewer_id:
        given = GIVEN.get(status.verdict, status.verdict)
        return f"{visible_line(reviewer_name(status.reviewer_id))} {given} on round {status.round}."
    return "no one holds it."


def claim_first(reading: LoadedReview, person: str) -> str:
    """What a verdict still needs, if somebody else has the claim, or no one; empty if it is the person's."""
    if not reading.is_held:
        return "You have not claimed it; sending claims it first."
    holder = visible_line(reviewer_name(reading.status.reviewer_id or "A reviewer"))
    return "" if reading.is_held_by(person) else f"{holder} has it; yours can be sent once they have released it."


def about_verdict(reading: LoadedReview, desk: ScreenClient, found: Iterable[str]) -> str:
    """The facts to know before a verdict, and the drafts that it sends."""
    said = [visible(" ".join(reading.proposal.intent.split())), *look_at(found)]
    said += filter(None, [claim_first(reading, desk.person), gate(reading)])
    drafts, review_id = desk.drafts, reading.status.review_id
    unsent = ((len(reading.drafts), "finding"), (len(drafts.answers(review_id)), "answer"))
    if with_it := [f"{number} {name}{'s' if number > 1 else ''}" for number, name in unsent if number]:
        said.append(f"Goes with it: {' and '.join(with_it)}.")
    if review_id in drafts.typed("finding "):
        said.append("Not with it: the finding that you began and left. Go on with it at its line.")
    earlier = [(spot, one) for spot, one in reading.unsent if one.round != reading.proposal.round]
    said += [f"{visible_line(spot.place)}: your draft from round {one.round}." for spot, one in earlier]
    return "\n".join(said)


def owed(reading: LoadedReview, found: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The debts in words, and the choices: a verdict and its need each."""
    debts = reading.status.owed
    about = "\n".join([*(f"{visible_line(one.words)}." for one in debts), *look_at(found)])
    said = {"approved": "It is good", "objects": "Object: say why"}
    needs = {one.need: f", {one.need}" if len(debts) > 1 else "" for one in debts}
    choices = {f"{verdict} {need}": words + which for need, which in needs.items() for verdict, words in said.items()}
    return about, choices


def about_finding(reading: LoadedReview, *, is_on_file: bool) -> str:
    """When a finding is sent, and the place that it is on."""
    claims = "" if reading.is_held else ", which claims the review"
    place = " It is on the file as a whole." if is_on_file else ""
    return f"It goes with your next verdict{claims}. F2 chooses how grave it is.{place}"


def offered(proposal: Proposal, patch: CounterPatchView) -> Proposal:
    """The round as a counter-patch to it would be one."""
    known = {name: getattr(patch, name) for name in ("diff", "description", "affected_files")}
    return replace(proposal, **known)


def unusual(proposal: Proposal) -> tuple[str, ...]:
    """The unusual things that are named beside Approve."""
    if proposal.diff is None:
        found = of_text(proposal.path or "description", proposal.description or "")
    else:
        files = join_renames(parse(proposal.diff), origins_of(proposal.affected_files))
        found = (*of_round(drawn=proposal.drawn, notes=proposal.notes), *of_diff(files))
    notes = proposal.ground.notes if proposal.ground is not None else ()
    return tuple(visible_line(one) for one in (*notes, *(one.line for one in found)))


def look_at(found: Iterable[str]) -> list[str]:
    """The unusual things, as lines of a dialog."""
    lines = [f"• {one}" for one in found]
    return ["Look at these before you decide:", *lines] if lines else []


def markdown(reading: LoadedReview) -> str:
    """The texts as Markdown: the description, or the whole text that is up for review; and the last reason."""
    status, proposal = reading.status, reading.proposal
    shown: list[str] = []
    if proposal.path is None:
        shown += ["# " + " ".join(visible(proposal.intent).split())]
    if status.verdict_reason and reading.is_current:
        shown += ["> **The last verdict:** " + visible(status.verdict_reason).replace("\n", "\n> ")]
    shown.append(visible(proposal.description or "*There is no description.*"))
    if proposal.path is None:
        shown.append(_table(reading))
    return "\n\n".join(part for part in shown if part)


def _table(reading: LoadedReview) -> str:
    proposal = reading.proposal
    known = (
        ("review", proposal.review_id),
        *((fact.label, fact.words) for fact in facts("Work", proposal)),
        ("category", proposal.category),
        ("priority", proposal.priority),
        ("base", proposal.base_commit or proposal.base),
        ("stands on", proposal.ground and proposal.ground.stands_on),
        ("follows", proposal.parent_id),
        ("followed by", ", ".join(proposal.child_ids)),
    )
    rows = [f"| {name} | {_cell(value)} |" for name, value in known if value]
    return "\n".join(["| | |", "| --- | --- |", *rows])


def _cell(value: str) -> str:
    line = " ".join(visible(value).split())
    return "".join(f"\\{char}" if char in "\\`*_{}[]()#+-.!|<>~" else char for char in line)


_LONGEST = 20_000
"""Characters of one entry that are shown; the rest is for `tandem review discussion`."""


class MarkdownView(Markdown):
    """A rendered text. HTML and comments in it are shown as they were written; a link names where it leads."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id, parser_factory=_parser, open_links=False)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("gfm-like", {"html": False})
    # What defines a link is not shown, and an entity may stand for what cannot be seen.
    parser.disable(["reference", "entity"])
    parser.core.ruler.push("hide_nothing", _hide_nothing)
    return parser


def _hide_nothing(state: StateCore) -> None:
    """Shows where links lead, and what the parser or the widget would leave out."""
    if loses_cells(state.tokens, state.src):
        lines = state.src.count("\n") + 1
        state.tokens[:] = [Token("fence", "code", 0, content=state.src, map=[0, lines], block=True)]
    for token in state.tokens:
        if token.children:
            token.children = _with_targets(token.children)
        if token.type == "fence" and len(token.info.split()) > 1:
            token.content = f"{token.info}\n{token.content}"


def _with_targets(tokens: list[Token]) -> list[Token]:
    found: list[Token] = []
    target, begun = "", 0
    for token in tokens:
        found.append(token)
        title = f' "{token.attrGet("title")}"' if token.attrGet("title") else ""
        if token.type == "link_open":
            target, begun = str(token.attrGet("href") or "") + title, len(found)
        elif token.type == "link_close":
            said = "".join(one.content for one in found[begun:])
            if target not in {said, f"mailto:{said}", f"http://{said}"}:
                found.append(Token("text", "", 0, content=f" ({target})"))
        elif token.type == "image":
            found.append(Token("text", "", 0, content=f" ({token.attrGet('src')}{title})"))
    return found


class TextEntry(Static, can_focus=True):
    """One thing that was said."""

    def __init__(self, entry: DiscussionEntry) -> None:
        super().__init__(_text(entry), classes="entry", markup=False)
        self.entry = entry


class DiscussionView(VerticalScroll):
    """All of it, oldest first."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("talk")

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._shown: tuple[DiscussionEntry, ...] | None = None

    @property
    def chosen(self) -> DiscussionEntry | None:
        """The entry that has the focus."""
        focused = self.screen.focused
        return focused.entry if isinstance(focused, TextEntry) else None

    async def show_entries(self, entries: tuple[DiscussionEntry, ...], *, is_whole: bool) -> None:
        """Show the entries; the focus stays on the entry that it is on."""
        if entries == self._shown:
            return
        self._shown = entries
        chosen = self.chosen
        shown: list[Widget] = [TextEntry(entry) for entry in entries]
        if not entries:
            shown.append(Static("Nothing has been said yet.", markup=False))
        if not is_whole:
            shown.append(Static("There is more: see 'tandem review discussion REVIEW'.", markup=False))
        await self.remove_children()
        await self.mount_all(shown)
        for one in self.query(TextEntry):
            if chosen is not None and one.entry.id == chosen.id:
                one.focus()

    def action_step(self, by: int) -> None:
        """Put the focus on the next, or previous, entry."""
        entries = list(self.query(TextEntry))
        focused = self.screen.focused
        at = entries.index(focused) + by if isinstance(focused, TextEntry) and focused in entries else 0
        if entries:
            entries[max(0, min(at, len(entries) - 1))].focus()


def _text(entry: DiscussionEntry) -> Text:
    text = Text()
    text.append(visible(reviewer_name(entry.author)), style="bold")
    text.append(f"  {visible(_what(entry))}")
    text.append(f"  {come_from(entry) or f'round {entry.round}'}, {ago(entry.at)}", style="dim")
    if entry.resolved_by:
        text.append("  settled", style="green")
    body = entry.body or ""
    text.append("\n" + visible(body[:_LONGEST]))
    if len(body) > _LONGEST:
        text.append(f" … {len(body) - _LONGEST} more characters", style="dim")
    return text


def _what(entry: DiscussionEntry) -> str:
    match entry.kind:
        case "verdict":
            return GIVEN.get(entry.verdict or "", entry.verdict or "")
        case "finding":
            place = f" on {visible_line(entry.file)}" if entry.file else ""
            line = "" if entry.line is None else f", line {entry.line}"
            return f"{entry.severity} finding{place}{line}: {entry.status}"
        case "counter_patch":
            return f"counter-patch ({entry.status})"
        case "question":
            return "asks the proposer"
        case _:
            return f"as {entry.sender_role}"
