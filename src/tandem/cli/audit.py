"""`tandem audit …`: are these commits approved? And the log of everything that happened, with its proof."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tandem.bridge.session import Session, data_of
from tandem.cli.connection_options import (
    ConnectionOptions,
    need_project,
)
from tandem.cli.declared import Argument, Option
from tandem.cli.render.parts import Cell, listing, plain
from tandem.cli.terminal import Exit, progress, say, tell
from tandem.core.visible import shortened
from tandem.errors import InvalidInput, NotFound, TandemError, Unavailable
from tandem.present.text import Group, Text
from tandem.rulings import git, next_steps, pending, state
from tandem.rulings.ask import Refused
from tandem.rulings.findings import SIGNED
from tandem.rulings.git import HEADS
from tandem.rulings.planning import base_branch
from tandem.rulings.ranges import CommitResult, Judgement, RangeChecker
from tandem.rulings.state import GateFile
from tandem.setup import gate_status
from tandem.setup.registration import awaited

if TYPE_CHECKING:
    from tandem.present.text import Drawable

_RANGE = re.compile(r"(?P<start>.*?)(?P<dots>\.\.\.?)(?P<end>.*)", re.DOTALL)
_STEPS_BACK = re.compile(r"[~^]")
_SHORT = 10
_SHOWN_PATHS = 5
_STYLES = {"unapproved": "red", "unreviewed": "yellow", "overridden": "magenta"}
_TOO_MUCH = frozenset({"INVALID_INPUT", "TOO_LARGE"})


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """The commits to judge, and their repository.

    Attributes:
        place: The repository.
        gate: Its switch; None if it never had one.
        old: The commit that the range begins after; None if it has no beginning of its own.
        new: The commit at its end.
        branch: The base branch that this is the end of; None if it is of none.
    """

    place: state.HookRepository
    gate: GateFile | None
    old: str | None
    new: str
    branch: str | None


def commits(
    revisions: Annotated[
        str,
        Argument(
            metavar="RANGE", help="A..B; or one branch or commit: all that it has since the gate was switched on."
        ),
    ],
    *,
    offline: Annotated[bool, Option(help="Take remote-tracking branches as they were fetched last.")] = False,
    options: ConnectionOptions,
) -> Exit:
    """Check every commit of a range: is its content approved, to the byte? Exit status 0 if all is, else 1.

    Finds what went round the hooks, and is for CI too. A commit passes by itself, or together with its neighbours
    where they were approved as one change. Waived requirements that are still to be reviewed, and overrides that no
    person has seen, are counted; a requirement whose review is overdue fails. What a remote-tracking branch such as
    origin/main is, its remote is asked.
    """
    asked = _asked(revisions, offline=offline)
    say(*(f"The broker has refused a record: {one}" for one in pending.refused(asked.place)))
    with options.session(asked.gate) as session, progress("judging"):
        project = need_project(session, options, asked.gate)
        accepted, on_tip = _accepted(session, project)
        differences = _replaced(asked)
        if asked.gate is not None and asked.gate.enabled:
            differences[:0] = asyncio.run(gate_status.differences(awaited(session), asked.gate))
        about: dict[str, Any] = {"project": project, "branch": asked.branch}
        if on_tip and asked.branch is not None:
            about["tips"] = git.mainline(asked.place, asked.old, asked.new)
        judgement, left_out = _judgement(asked, accepted, asking(session, about))
    say(*differences)
    owed = list(dict.fromkeys(debt for one in judgement.commits for debt in one.finding.owed))
    overdue = list(dict.fromkeys(debt for one in judgement.commits for debt in one.finding.overdue))
    debts = {"owed": owed, "overdue": overdue}
    facts = {**_data(project, asked, judgement), "left_out": left_out, "differences": differences, **debts}
    tell(facts, Group(_table(asked, judgement, left_out), *_debts(owed, overdue)), as_json=options.as_json)
    return Exit.DONE if judgement.passes and not differences and not overdue else Exit.REFUSED


def _replaced(asked: AuditRequest) -> list[str]:
    """What git shows in place of the judged commits, here and on the base branches, each with its fix."""
    bases = [] if asked.gate is None else [*git.Bases(asked.gate, ()).tips.values()]
    return [f"{what} What to do: {fix}" for what, fix in git.replaced(asked.place, [asked.new, *bases]).items()]


def _accepted(session: Session, project: str) -> tuple[Sequence[str], bool]:
    """The commits that are taken as they are, with their ancestors; and whether checks have to have run on the tip."""
    try:
        gate = session.data("get_gate", {"project": project})
    except NotFound:
        # A mere label has approvals, and no gate.
        return (), False
    return gate["accepted"], gate["checks_on_tip"]


def _asked(revisions: str, *, offline: bool) -> AuditRequest:
    place = state.find_repository(".")
    if place is None:
        raise InvalidInput("This folder is in no git repository; go to one and run it again.", field="range")
    gate = state.find(place)
    match = _RANGE.fullmatch(revisions)
    if match is None:
        old, new = None, _resolved(place, revisions, offline=offline)
    else:
        old, new = (_resolved(place, match[side], offline=offline) for side in ("start", "end"))
    if match is not None and match["dots"] == "...":
        old = git.run(place, ["merge-base", old or "", new], accept=(0, 1)).text or None
    return AuditRequest(place, gate, old, new, _base_branch(place, gate, match["end"] if match else revisions))


def _base_branch(place: state.HookRepository, gate: GateFile | None, revision: str) -> str | None:
    """The base branch that a revision names, here or at a remote."""
    if gate is None:
        return None
    name = git.branch(place) if revision in ("", "HEAD") else revision
    with suppress(Unavailable):
        # A remote that is not known follows no branch.
        followed = git.followed(place, name) if name else None
        name = followed[1] if followed else name
    return base_branch(gate, name and name.removeprefix(HEADS))


def _resolved(place: state.HookRepository, revision: str, *, offline: bool) -> str:
    """The id of a commit; that of a remote-tracking branch as its remote has it."""
    steps = _STEPS_BACK.search(revision)
    name, back = (revision[: steps.start()], revision[steps.start() :]) if steps else (revision, "")
    followed = git.followed(place, name) if name and not offline else None
    if followed:
        found = git.resolve(place, _there(place, name, *followed) + back)
    else:
        # An agent that can move the branch can also make a tag, or a file in git's folder, that git takes for it.
        found = git.resolve(place, HEADS + revision) or git.resolve(place, revision or "HEAD")
    if found is None:
        raise InvalidInput(
            f"'{revision or 'HEAD'}' is neither a command of 'tandem audit' nor a commit. Name a range, such as"
            " main..HEAD; a shallow clone may lack its beginning.",
            field="range",
        )
    return found


def _there(place: state.HookRepository, name: str, remote: str, ref: str) -> str:
    """What a remote has as the branch that is followed here under a name; that it differs is said."""
    try:
        there = git.remote_tips(place, remote, ref).get(ref)
    except TandemError as error:
        raise Unavailable(
            f"The remote {remote} does not say which commit {ref} has: {error.message}\n"
            "Run it again when it can be reached; with --offline the commits that were fetched last are judged.",
            **error.details,
        ) from error
    if there is None:
        raise InvalidInput(f"The remote {remote} has no {ref}. Run: git fetch --prune {remote}", field="range")
    if not git.known_commits(place, [there]):
        raise InvalidInput(
            f"The remote {remote} has {there[:_SHORT]} as {ref}, which is not here yet. Run: git fetch {remote}",
            field="range",
        )
    here = git.resolve(place, name)
    if here != there:
        is_here = here[:_SHORT] if here else "missing"
        say(f"The remote {remote} has {there[:_SHORT]} as {ref}, which is judged; {name} here is {is_here}.")
    return there


def _left_out(place: state.HookRepository, old: str | None, new: str, without: tuple[str, ...]) -> int:
    """How many commits of the range are never judged."""
    start = [f"^{old}"] if old else []
    counts = [
        int(git.run(place, ["rev-list", "--count", new, *start, *more]).text)
        for more in ((), tuple(f"^{oid}" for oid in without))
    ]
    return counts[0] - counts[1]


def asking(session: Session, about: dict[str, Any]) -> Callable[[list[git.Change], Sequence[str]], dict[str, Any]]:
    """How the judge asks the broker."""

    def check(changes: list[git.Change], signed: Sequence[str]) -> dict[str, Any]:
        envelope = session.call("check_gate", {**about, "changes": changes, "signed": [*signed]})
        content = json.loads(envelope)
        if not content["ok"] and content["error"]["code"] in _TOO_MUCH:
            error = content["error"]
            raise Refused(error["code"], error["message"], error["details"])
        return data_of(envelope)

    return check


def _judgement(
    asked: AuditRequest, accepted: Sequence[str], check: Callable[[list[git.Change], Sequence[str]], dict[str, Any]]
) -> tuple[Judgement, int]:
    """The judgement of the range, and how many of its commits are not judged."""
    without = tuple(git.known_commits(asked.place, accepted))
    with RangeChecker(asked.place, check) as judge:
        judgement = judge.judge(asked.new, old=asked.old, without=without)
    return judgement, _left_out(asked.place, asked.old, asked.new, without)


def _data(project: str, asked: AuditRequest, judgement: Judgement) -> dict[str, Any]:
    return {
        "approved": judgement.passes,
        "project": project,
        "old": asked.old,
        "new": asked.new,
        "commits": [
            {"commit": one.commit, "subject": one.subject}
            | {name: getattr(one.finding, name) for name in ("verdict", "review_ids", "reason")}
            | {"paths": [{"path": path, "reason": reason} for path, reason in one.finding.paths]}
            for one in judgement.commits
        ],
    }


def _table(asked: AuditRequest, judgement: Judgement, left_out: int) -> Drawable:
    wrong = [commit for commit in judgement.commits if not commit.passes]
    parts: list[Drawable] = []
    if judgement.commits:
        parts.append(listing("commit!, subject, verdict!, review", map(_cells, judgement.commits)))
    parts += [line for commit in wrong for line in _reasons(commit)]
    parts += [_line(commit, commit.dropped) for commit in judgement.commits if commit.dropped]
    count = f"{len(judgement.commits)} commit{'' if len(judgement.commits) == 1 else 's'}"
    if judgement.passes:
        parts.append(Text.assemble(("approved", "bold green"), f"  {count}"))
    else:
        parts.append(Text.assemble(("not approved", "bold red"), f"  {len(wrong)} of {count}"))
        if asked.old is not None:
            change = f"{asked.old[:_SHORT]}..{asked.new[:_SHORT]}"
            submit = next_steps.SUBMIT.replace("--staged", f"--range {change}")
            parts.append(Text(f"As one change: {submit}", style="dim"))
    if left_out:
        told = f"not judged: {left_out} more, from before the gate or accepted by a person"
        parts.append(Text(told, style="dim"))
    return Group(*parts)


def _debts(owed: Sequence[str], overdue: Sequence[str]) -> list[Text]:
    """The reviews after the fact, and looks at overrides, that the range still owes; and what ends those overdue."""
    count = f"{len(owed)} look{'' if len(owed) == 1 else 's'} after the fact"
    told = [Text.assemble(("owed", "yellow"), f"  {count}"), *map(plain, owed)] if owed else []
    if overdue:
        told.append(Text.assemble(("overdue", "bold red"), f"  {len(overdue)}"))
    reviews = dict.fromkeys(debt.partition(":")[0] for debt in overdue)
    return [*told, *(plain(f"Review it, then: 'tandem review settle {one} approved'") for one in reviews)]


def _cells(one: CommitResult) -> tuple[Cell, ...]:
    finding = one.finding
    verdict = Text(finding.verdict, style=_STYLES.get(finding.verdict, "green"))
    told = finding.reason if finding.verdict == SIGNED else ", ".join(finding.review_ids)
    reviews = plain(told, "" if one.passes else "dim")
    return one.commit[:_SHORT], one.subject, verdict, reviews


def _reasons(commit: CommitResult) -> list[Text]:
    """Why a commit does not pass."""
    paths = commit.finding.paths
    lines = shortened([f"{path}: {reason}" for path, reason in paths], _SHOWN_PATHS, "and {} more paths")
    return [_line(commit, line) for line in lines or [commit.finding.reason]]


def _line(commit: CommitResult, said: str) -> Text:
    return Text.assemble((f"{commit.commit[:_SHORT]}  ", "dim"), plain(said))
