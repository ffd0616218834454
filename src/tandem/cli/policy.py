"""`tandem policy`: a first policy, its mistakes, and what one asks for, of a review and of past commits."""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from tandem.cli.connection_options import ConnectionOptions, need_worktree
from tandem.cli.declared import Argument, Misused, Option, without
from tandem.cli.render.parts import plain
from tandem.cli.sources import here
from tandem.cli.terminal import EnvelopeOption, Exit, progress, say, tell
from tandem.core.visible import visible_line
from tandem.errors import InvalidInput, NotFound
from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE, EXECUTABLE, REGULAR
from tandem.present.text import Group, Text
from tandem.rulings import git, owners, policy_file, policy_trial
from tandem.rulings.person import family
from tandem.rulings.policy import (
    AGENT,
    CHECKS,
    FILE,
    OTHER_PROVIDER,
    OWNER,
    PERSON,
    REVIEW,
    Facts,
    Policy,
    lines_in,
)
from tandem.rulings.policy_file import PolicyError
from tandem.settings import checks
from tandem.settings.config import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.git.place import HookRepository
    from tandem.present.text import Drawable
    from tandem.rulings.policy import Requirements

_STANDARD = "-"
_REVIEW_ID = re.compile(r"rv_\w+")
_SHORT = 10
_KINDS = {
    PERSON: "a person",
    OWNER: "an owner",
    OTHER_PROVIDER: "an agent of another provider",
    AGENT: "an agent",
    REVIEW: "a review",
    CHECKS: "checks alone",
}
"""The words by which a change is counted: once, by the first of these that it needs; a named agent before a review."""

_NEXT = "Read it, try it on past commits (tandem policy check -n 200), then commit it."


class _Tried(NamedTuple):
    """A change of which the policy was asked.

    Attributes:
        name: The commit's id, or the review's.
        subject: The commit's, or the intent.
        needs: The policy's answer; None if it changes nothing.
    """

    name: str
    subject: str
    needs: Requirements | None


@dataclass(frozen=True, slots=True)
class History:
    """Which commits are tried.

    Attributes:
        last: How many of the newest.
        branch: Where they went, by default the range's end, or the branch here.
        explain: Whether each is explained.
    """

    last: Annotated[
        int | None, Option("--last", "-n", metavar="N", min=1, help="Only the newest N commits, by default of HEAD.")
    ] = None
    branch: Annotated[
        str | None, Option(metavar="NAME", help="The base branch; default: the range's end, or the one checked out.")
    ] = None
    explain: Annotated[bool, Option(help="Name the needs of each commit, with the rules and paths.")] = False


def init(
    *,
    print_only: Annotated[bool, Option("--print", help="Print it; write nothing.")] = False,
    as_json: EnvelopeOption = False,
) -> Exit:
    """Write a first .tandem/policy.toml, with comments, from this repository's folders, CODEOWNERS and checks.

    A policy that is there already stays as it is.
    """
    place = need_worktree()
    top = Path(place.top or ".")
    text = _draft(place, top)
    rules = len(policy_file.parse(text.encode()).rules)
    facts = {"file": FILE, "text": text, "rules": rules, "written": not print_only}
    if print_only and not as_json:
        # As it is: a terminal's width breaks no line of it.
        sys.stdout.write(text)
        return Exit.DONE
    if not print_only:
        _write(top / FILE, text)
    tell(facts, f"wrote {FILE}: {rules} rule{'' if rules == 1 else 's'}", as_json=as_json)
    if not print_only:
        say(_NEXT)
    return Exit.DONE


@without("project", "new")
def check(
    what: Annotated[
        str | None,
        Argument(metavar="REVIEW|RANGE", completes="review", help="A review's id; A..B; one commit. Default: none."),
    ] = None,
    *,
    file: Annotated[
        str | None,
        Option("--policy", metavar="FILE", help="Try this file; - is standard input. Default: .tandem/policy.toml."),
    ] = None,
    history: History,
    options: ConnectionOptions,
) -> Exit:
    """Try a policy: find its mistakes, and see its needs for a review, or for past commits.

    The working tree's file is tried, which need not be committed. Each commit counts as one change, as it would have
    been submitted by itself; those along the first parents are tried. It changes nothing.
    """
    is_review = what is not None and _REVIEW_ID.fullmatch(what) is not None
    if (is_review or (what is None and history.last is None)) and history != History():
        raise Misused("--last, --branch and --explain are for commits: name a range, or how many with -n.")
    name, policy = _policy(file)
    about = {"file": name, "sha256": policy.source, "match": policy.match, "rules": len(policy.rules)}
    if what is None and history.last is None:
        words = f"{name} has no mistake: {_counted(len(policy.rules), 'rule')}, match = {policy.match!r}"
        unknown = _unknown_agents(policy)
        lines = (words, *(f"warning: {one}" for one in unknown))
        told = Group(*(Text(visible_line(line)) for line in lines))
        return tell({"policy": about, "warnings": unknown}, told, as_json=options.as_json)
    if is_review:
        tried = [_of_review(policy, what or "", options)]
        return tell({"policy": about, **_data(tried[0])}, _explained(tried[0]), as_json=options.as_json)
    place = need_worktree()
    with progress("reading commits") as now:
        listed, branch = _listed(place, what, history)
        now(f"trying {_counted(len(listed), 'commit')}")
        tried = _of_commits(place, policy, listed, branch)
    counts = _counts(tried)
    used = {name for one in tried if one.needs is not None for name in one.needs.by_rule}
    unused = [rule.name for rule in policy.rules if rule.name not in used]
    facts = {"policy": about, "branch": branch, "needs": counts, "unused": unused, "commits": [*map(_data, tried)]}
    parts = [_explained(one) for one in tried] if history.explain or len(tried) == 1 else []
    if len(tried) != 1:
        parts.append(Text(_summary(tried, counts, what)))
    if unused and len(tried) > 1:
        parts.append(Text(f"Fits none of them: {', '.join(unused)}.", "dim"))
    return tell(facts, Group(*parts), as_json=options.as_json)


def _policy(file: str | None) -> tuple[str, Policy]:
    """The policy to try, with the name of its file.

    Raises:
        NotFound: There is none.
        InvalidInput: It cannot be read, or has a mistake, whose line is among the details.
    """
    name = "standard input" if file == _STANDARD else file or FILE
    try:
        if file == _STANDARD:
            content = sys.stdin.buffer.read()
        else:
            content = (Path(file) if file else Path(need_worktree().top or ".") / FILE).read_bytes()
        return name, policy_file.parse(content)
    except FileNotFoundError:
        way = "" if file else " Without one a review is all that a change needs. Write a first one: tandem policy init"
        raise NotFound(f"There is no {name} here.{way}", path=name) from None
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}.", field="policy") from error
    except PolicyError as error:
        raise InvalidInput(f"{name}, line {error.line}: {error.message}", field="policy", line=error.line) from None


def _unknown_agents(policy: Policy) -> list[str]:
    """The agents that rules name and this machine has not: its pool no profile, and no client is called so."""
    kinds = {one.name: one for one in load_settings().settings.reviewer_pool.profile}
    found: dict[str, str] = {}
    for rule in policy.rules:
        for need in rule.needs:
            prefix, _, name = need.partition(":")
            if prefix != AGENT or need == OTHER_PROVIDER or not name or name in found or family(name) is not None:
                continue
            if name not in kinds:
                found[name] = f"rule '{rule.name}' needs {need}: no profile of the pool here, and no client, is it"
            elif not kinds[name].voting:
                found[name] = f"rule '{rule.name}' needs {need}: that profile has no vote"
    return [*found.values()]


def _listed(
    place: HookRepository, what: str | None, history: History
) -> tuple[list[policy_trial.TriedCommit], str | None]:
    """The commits to try, newest first, and the branch that they went to."""
    start, dots, end = (what or "HEAD").rpartition("..")
    if start.endswith("."):
        raise Misused("Write it as A..B.", "RANGE")
    found = _resolved(place, end)
    limit = history.last if dots or history.last else 1
    listed = policy_trial.commits(place, found, start=_resolved(place, start) if dots else None, limit=limit)
    is_branch = git.resolve(place, git.HEADS + end) is not None
    return listed, history.branch or (end if is_branch else git.branch(place))


def _resolved(place: HookRepository, revision: str) -> str:
    found = git.resolve(place, revision or "HEAD")
    if found is None:
        raise InvalidInput(
            f"'{revision or 'HEAD'}' is no review and no commit here. Name a range such as main~50..main, or the"
            " newest commits with -n 200.",
            field="range",
        )
    return found


def _of_commits(
    place: HookRepository, policy: Policy, listed: Sequence[policy_trial.TriedCommit], branch: str | None
) -> list[_Tried]:
    asks_generated = any(rule.generated is not None for rule in policy.rules)
    base = listed[0].first if listed and asks_generated else None
    with here() as repository:

        def unread(paths: Sequence[str]) -> frozenset[str]:
            return repository.unread(base, paths) if base is not None else frozenset()

        return [
            _Tried(one.oid, one.subject, policy.requirements(facts) if facts.changes else None)
            for one, facts in policy_trial.facts(place, listed, branch=branch, unread=unread)
        ]


def _of_review(policy: Policy, review_id: str, options: ConnectionOptions) -> _Tried:
    with options.session() as session, progress("asking the broker"):
        found = session.data("get_proposal", {"review_id": review_id, "files": []})
        files: list[dict[str, Any]] = found["affected_files"] if found["validated"] else []
        lines = lines_in(files, lambda: session.data("get_proposal", {"review_id": review_id})["diff"])
    facts = Facts(
        changes=tuple(change for file in files for change in _changes(file)),
        generated=frozenset(file["path"] for file in files if file["generated"]),
        lines=lines,
        branch=found["ground"] and found["ground"]["branch"],
        category=found["category"],
        proposer=found["proposer_id"],
        is_agent=family(found["proposer_id"], found["agent_type"]) is not None,
        is_validated=found["validated"],
    )
    return _Tried(review_id, found["intent"], policy.requirements(facts))


def _changes(file: dict[str, Any]) -> list[Change]:
    """The entries of one of a review's files, whose answer has no ids, and of modes only that one changes."""
    operation = file["operation"]
    before = ABSENT_MODE if operation in {"added", "renamed"} else REGULAR
    after = {"deleted": ABSENT_MODE, "mode": EXECUTABLE}.get(operation, REGULAR)
    changes = [Change(file["path"], before, "", after, "")]
    if operation == "renamed":
        changes.append(Change(file["old_path"], REGULAR, "", ABSENT_MODE, ""))
    return changes


def _kind(needs: Requirements) -> str:
    """By which word a change is counted."""
    words = [one.word for one in needs.needs]
    first = next((word for word in _KINDS if word in words), words[0])
    named = next((word for word in words if word not in _KINDS), None)
    return named if named is not None and first in {REVIEW, CHECKS} else first


def _counts(tried: Sequence[_Tried]) -> dict[str, int]:
    counted = Counter(_kind(one.needs) for one in tried if one.needs is not None)
    order = [*_KINDS]
    return dict(sorted(counted.items(), key=lambda item: order.index(item[0] if item[0] in _KINDS else AGENT)))


def _summary(tried: Sequence[_Tried], counts: dict[str, int], what: str | None) -> str:
    total = sum(counts.values())
    empty = len(tried) - total
    told = f" {empty} more change{'s' if empty == 1 else ''} nothing." if empty else ""
    if not total:
        return f"No commit here changes a file.{told}" if tried else "There is no commit to try."
    parts = [f"{count} {_KINDS.get(word) or 'the agent ' + word.partition(':')[2]}" for word, count in counts.items()]
    which = f"{total} changes of {what}" if what else f"last {total} changes"
    need = "needs" if next(iter(counts.values())) == 1 else "need"
    first = parts[0].replace(" ", f" {need} ", 1)
    return visible_line(f"Of the {which} {', '.join([first, *parts[1:]])}.{told}")


def _explained(one: _Tried) -> Drawable:
    head = Text.assemble((one.name if one.name.startswith("rv_") else one.name[:_SHORT], "bold"), "  ")
    lines: list[Drawable] = [head.append(plain(one.subject))]
    if one.needs is None:
        return Group(*lines, Text("  changes nothing"))
    lines += [Text(f"  {need.words}") for need in one.needs.needs]
    more = {"threshold": one.needs.threshold, "rounds": one.needs.rounds}
    if said := [f"{name} {value}" for name, value in more.items() if value is not None]:
        lines.append(Text(f"  {', '.join(said)}", "dim"))
    return Group(*lines)


def _data(one: _Tried) -> dict[str, Any]:
    kind = "review_id" if one.name.startswith("rv_") else "commit"
    found: dict[str, Any] = {kind: one.name, "subject": one.subject, "needs": None}
    if one.needs is None:
        return found
    needs = [
        {"need": need.word, "rules": need.rules, "paths": need.paths, "words": need.words} for need in one.needs.needs
    ]
    settings = {"threshold": one.needs.threshold, "rounds": one.needs.rounds}
    return {**found, "needs": needs, **settings, "rules": one.needs.by_rule}


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _write(path: Path, text: str) -> None:
    try:
        with suppress(FileExistsError):
            path.parent.mkdir()
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(
            f"{FILE} is there already and stays as it is. See what would be written: tandem policy init --print",
            field="path",
        ) from None
    except OSError as error:
        raise InvalidInput(f"{FILE} cannot be written: {error.strerror}.", field="path") from error


def _draft(place: HookRepository, top: Path) -> str:
    listed = git.run(place, ["ls-files", "-z"]).stdout.decode("utf-8", "replace").split("\0")[:-1]
    names: list[str] = []
    if (file := top / checks.FILE).is_file():
        try:
            names = [one.name for one in checks.parsed(file.read_bytes())]
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{checks.FILE} cannot be read: {error}", field="path") from error
    has_owners = not set(owners.PLACES).isdisjoint(listed)
    return policy_file.init_text(listed, has_codeowners=has_owners, checks=names)
