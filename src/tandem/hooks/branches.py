"""`reference-transaction`, `pre-push` and a server's `pre-receive`: where a branch moves to has to be approved.

Also a fast-forward, a reset, a pull and `git update-ref` come to the first, which call no hook for commits: it judges
base branches. The second is the last look before others see it, and finds what went round the other hooks: nothing
that is not approved goes to a base branch elsewhere, nor anywhere where each task is reviewed. The third is the same
as the first in a repository that others push to, with or without hooks of their own.
"""

from __future__ import annotations

import os
import shlex
import sys
from functools import cache, partial

from tandem.core.stand_ins import NamedTuple
from tandem.core.visible import say, shortened, visible_line
from tandem.errors import TandemError
from tandem.git import raw
from tandem.git.place import first_line
from tandem.hooks.judging import guarded, landing, overridden, override_wanted
from tandem.rulings import git, next_steps, planning
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.git import HEADS, Bases
from tandem.rulings.ranges import CommitResult, Judgement, RangeChecker

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tandem.rulings.state import GateFile

    Net = tuple[str | None, str]
    """The commits before and after, whose difference a person may let through."""


class Refusal(NamedTuple):
    """Why a branch may not move, or be pushed.

    Attributes:
        reasons: A line each, with what to do; the first names the refused command.
        net: What a person may let through; None if nothing can be.
        branch: The branch that is moved or pushed to.
    """

    reasons: list[str]
    net: Net | None = None
    branch: str | None = None


_REFUSED = 1
_PREPARED = "prepared"
_SYMBOLIC = "ref:"
_NOTES = "refs/notes/"
_RENAMED = "logs/refs/.tmp-renamed-log"
"""Where git keeps the log of a branch that it is about to rename."""
_SHOWN_COMMITS = 10
_SHOWN_PATHS = 3
_SHORT = 10
_MERGING = ("merge", "pull")
"""How git's name for an action begins that changes files, and may make a commit, before it moves the branch."""


def update(gate: GateFile, arguments: Sequence[str]) -> int:
    """Let a transaction be, or refuse it whole and say what to do; answers with the exit status.

    Standard input has a line for each ref, with its old and its new value.

    Args:
        gate: The switch, which is on.
        arguments: Git's: which state the transaction is in.
    """
    lines = _input()
    return _execute(gate, _updated(gate, lines), lines) if list(arguments[:1]) == [_PREPARED] else 0


def receive(gate: GateFile, _arguments: Sequence[str]) -> int:
    """Take a push to this repository, or refuse all of it; answers with the exit status.

    Standard input is as for `update`. The objects are in quarantine.

    Args:
        gate: The switch, which is on.
    """
    listed = git.run(gate.place, ["for-each-ref", "--format=%(refname) %(symref)", HEADS]).text.splitlines()
    # A branch that stands for another one is pushed by its own name.
    meant = dict(line.split(" ", 1) for line in listed if not line.endswith(" "))
    lines = [[old, new, meant.get(ref, ref)] for old, new, ref in _input()]
    return _execute(gate, _updated(gate, lines, is_server=True))


def _input() -> list[list[str]]:
    text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    return [line.split(" ", 2) for line in text.splitlines()]


def _updated(gate: GateFile, lines: list[list[str]], *, is_server: bool = False) -> Refusal | None:
    """Why a transaction may not be; None if it may.

    Args:
        gate: The switch.
        lines: Each ref with its old value, its new value and its name.
        is_server: Whether this is a repository that others push to, and in which no client writes.
    """
    bases = guarded(gate)
    # Whether two names are one is not left to the file system's case.
    moves = [(ref, new) for _, new, ref in lines if ref.casefold() in bases and not _is_renaming(gate, new)]
    # The script of the hook filters by base branch too: the broker is asked about any other branch that comes here.
    branches = [(ref, new) for _, new, ref in lines if ref.casefold().startswith(HEADS)]
    if not moves and (is_server or not branches):
        return None
    ref, new = (moves or branches)[0]
    name = ref.removeprefix(HEADS)
    with GateClient(gate, is_server=is_server, starts=True) as asker:
        try:
            return _moved(gate, asker, moves)
        except Unreachable as error:
            is_one = len(moves) == 1 and new.strip("0") and not new.startswith(_SYMBOLIC)
            net = (git.resolve(gate.place, ref), new) if is_one else None
            return Refusal([f"{name} cannot be judged: {error}"], net, name)
        except (Refused, TandemError, OSError) as error:
            return Refusal([f"{name} cannot be judged: {error}"])


def _is_renaming(gate: GateFile, new: str) -> bool:
    """Whether git deletes a branch only to rename it, or to rename another one to it: refused, it would lose both."""
    return not new.strip("0") and os.path.exists(os.path.join(gate.place.common_dir, _RENAMED))


def _moved(gate: GateFile, asker: GateClient, moves: Sequence[tuple[str, str]]) -> Refusal | None:
    """Why the base branches may not move; nothing moves unless everything may."""
    bases = Bases(gate, asker.get_gate()["accepted"])
    with RangeChecker(gate.place, asker.check_gate) as judge:
        found = (_move(gate, asker, judge, bases, ref, new) for ref, new in moves)
        return next((refusal for refusal in found if refusal is not None), None)


def _move(gate: GateFile, asker: GateClient, judge: RangeChecker, bases: Bases, ref: str, new: str) -> Refusal | None:
    name = ref.removeprefix(HEADS)
    if new.startswith(_SYMBOLIC):
        reason = f"{name} is a base branch: it cannot stand for {new.removeprefix(_SYMBOLIC)}."
        return Refusal([reason, "Merge that branch instead, when it is approved."])
    # What git says was there before is what the caller expects, or nothing at all.
    old = bases.tips.get(ref) or git.resolve(gate.place, ref)
    if not new.strip("0"):
        return _deleted(gate, judge, ref, old)
    if new == old:
        return None
    tips = tuple(bases.tips.values())
    _ask_about(gate, asker, judge, ref, (old, new))
    judgement = judge.judge(new, old=old, without=bases.never_judged, tips=tips, earlier=bases.earlier)
    if judgement.passes and len(tips) > 1:
        judgement = _checked(judge, judgement, new, old, bases)
    judgement = _with_rules(judge, judgement, (old, new))
    ways = _ways_on(gate, ref, old, new)
    return _refusal(gate, judgement, f"{name} stays where it is", (old, new), name, ways=ways)


def _ways_on(gate: GateFile, ref: str, old: str | None, new: str) -> tuple[str, str]:
    """The command after the approval, and the one before a landing, where the same cannot be run again; else empty."""
    place = gate.place
    if (git.rebased(place) or f"{HEADS}{git.branch(place)}") == ref and (going_on := next_steps.stopped()) is not None:
        # A rebase that goes on meanwhile would move the base branch back when it ends.
        return going_on, "git rebase --abort && " if going_on.endswith("git rebase --continue") else ""
    patches = os.path.join(place.git_dir, "rebase-apply")
    head, begun_at = (first_line(os.path.join(place.git_dir, file)) for file in ("HEAD", "ORIG_HEAD"))
    if head != new or (begun_at != old and not os.path.isdir(patches)):
        return "", ""
    # The end of a rebase by the backend "apply", which git does not continue.
    name = shlex.quote(ref.removeprefix(HEADS))
    leave = "git rebase --quit && " if os.path.isdir(patches) else ""
    back = " && git stash pop" if os.path.exists(os.path.join(patches, "autostash")) else ""
    return f"{leave}git switch -C {name} {new[:_SHORT]}{back}", f"{leave}git switch {name}{back} && "


def _deleted(gate: GateFile, judge: RangeChecker, ref: str, old: str | None) -> Refusal | None:
    """Why a base branch may not be deleted: made once more at an older commit, it would have the rules of then."""
    if old is None or not judge.has_policy(old) or git.is_packed(gate.place, ref, old):
        return None
    reason = f"{ref.removeprefix(HEADS)} is a base branch with a policy: it is not deleted."
    return Refusal([reason, "Where another branch takes its place, a person says so: tandem gate on --branch NAME"])


def _with_rules(judge: RangeChecker, judgement: Judgement, net: Net) -> Judgement:
    """The judgement of a base branch's update, which may not go back behind the rules for it."""
    old, new = net
    lost = judge.rules_lost(old, new) if judgement.passes and old is not None else None
    return judgement if lost is None else Judgement(passes=False, commits=[CommitResult(new, "goes back", lost)])


def _checked(judge: RangeChecker, judgement: Judgement, new: str, old: str | None, bases: Bases) -> Judgement:
    """What another base branch holds is approved, but the checks of this one may not have run on it, or failed."""
    known = [one for one in (old, *bases.never_judged) if one is not None]
    strict = judge.judge(new, old=old, without=known, tips=() if old is None else (old,))
    held = [commit for commit in strict.commits if commit.finding.code is not None and not commit.passes]
    return judgement if strict.passes or not held else Judgement(passes=False, commits=held)


def _ask_about(gate: GateFile, asker: GateClient, judge: RangeChecker, ref: str, net: Net) -> None:
    """Have the broker know which base branch it is asked about: checks have to have run on that one."""
    asker.branch = planning.base_branch(gate, ref.removeprefix(HEADS))
    asker.tips = git.mainline(gate.place, *net) if asker.on_tip and asker.branch is not None else ()
    judge.forget()


def push(gate: GateFile, arguments: Sequence[str]) -> int:
    """Let a push go on, or refuse it and say what to do; answers with the exit status.

    Standard input has a line for each ref, with its name and id here and there.

    Args:
        gate: The switch, which is on.
        arguments: Git's: the remote's name (or URL) and its URL.
    """
    # The name here may hold blanks: it is what the user typed.
    sent = [tuple(" ".join(line).rsplit(" ", 3)[1:]) for line in _input()]
    # Zeros: it is deleted there.
    sent = [(oid, ref, there) for oid, ref, there in sent if oid.strip("0")]
    return _execute(gate, _pushed(gate, arguments[0], arguments[1], sent)) if sent else 0


def _pushed(gate: GateFile, name: str, url: str, sent: list[tuple[str, str, str]]) -> Refusal | None:
    """Why nothing is pushed; None if everything may be.

    If the broker is away, a push that it need not judge goes on.
    """
    judged = [one for one in sent if _is_judged(gate, one[1])]
    with GateClient(gate, starts=bool(judged)) as asker:
        try:
            known = Bases(gate, asker.get_gate()["accepted"]).never_judged
            with RangeChecker(gate.place, asker.check_gate) as judge:
                remote = None if name == url else name
                # Asked once, and only if it matters.
                commits = cache(partial(_commits_at, gate, url))
                # Others first, whose answers are remembered.
                judged.sort(key=lambda one: one[1].casefold() in guarded(gate))
                found = (_sent(gate, asker, judge, known, (remote, commits), *one) for one in judged)
                return next((refusal for refusal in found if refusal is not None), None)
        except (Unreachable, Refused, TandemError, OSError) as error:
            if not judged and isinstance(error, Unreachable):
                return None
            return Refusal([f"The push cannot be judged: {error}"])


def _commits_at(gate: GateFile, url: str) -> list[str]:
    """Those of a remote's branches and tags that are here as well; none, which is said, if it cannot be asked."""
    try:
        return git.known_commits(gate.place, git.remote_tips(gate.place, url).values())
    except TandemError as error:
        say(f"What the remote has already could not be asked, so all of it is judged: {error}")
        return []


def _is_judged(gate: GateFile, ref: str) -> bool:
    """Whether a push to a ref has to be approved."""
    if ref.casefold() in guarded(gate):
        return True
    return planning.enforcement(gate, None) == planning.STRICT and not ref.startswith(_NOTES)


def _sent(
    gate: GateFile,
    asker: GateClient,
    judge: RangeChecker,
    known: tuple[str, ...],
    remote: tuple[str | None, Callable[[], list[str]]],
    oid: str,
    ref: str,
    there: str,
) -> Refusal | None:
    """Why one ref is not pushed; None if it may be.

    Args:
        gate: The switch.
        asker: To ask the broker with.
        judge: Judges the commits.
        known: The commits that are never judged.
        remote: Where it is pushed to: its name, if it has one, and what gives its commits.
        oid: What the ref becomes there.
        ref: Its full name there.
        there: Its commit there now; zeros if it does not exist.
    """
    place, (name, commits) = gate.place, remote
    is_base = ref.casefold() in guarded(gate)
    new = git.resolve(place, oid)
    if new is None:
        return Refusal([f"{ref} would become {oid}, which is no commit and cannot be judged."])
    old = next(iter(git.known_commits(place, [there])), None)
    if is_base:
        _ask_about(gate, asker, judge, ref, (old, new))
        # Only commits that are there already are known, regardless of the refs here.
        judgement = _with_rules(judge, judge.judge(new, old=old, without=known, tips=()), (old, new))
    else:
        judgement = judge.judge(new, old=old, without=known) if old is not None else None
        if judgement is None or not judgement.passes:
            judgement = judge.judge(new, old=old, without=[*known, *commits()])
    return _refusal(gate, judgement, f"{ref} is not pushed", (old, new), ref.removeprefix(HEADS), name)


def _refusal(
    gate: GateFile,
    judgement: Judgement,
    refused: str,
    net: Net,
    branch: str,
    remote: str | None = None,
    ways: tuple[str, str] = ("", ""),
) -> Refusal | None:
    """The problem of a range, and what to do, `ways` as `_ways_on` has them; None if there is none."""
    if judgement.passes:
        return None
    old, new = net
    wrong = [commit for commit in judgement.commits if not commit.passes]
    held = bool(wrong) and all(commit.finding.code is not None for commit in wrong)
    by_policy = any(commit.finding.code == "REQUIREMENT_MISSING" for commit in wrong)
    what = f"approved, and kept back by {'the policy' if by_policy else 'a required check'}" if held else "not approved"
    lines = [f"{refused}: {len(wrong)} of {len(judgement.commits)} commits are {what}."]
    for commit in wrong[:_SHOWN_COMMITS]:
        subject = visible_line(commit.subject) or "(no subject)"
        finding = commit.finding
        lines.append(f"  {commit.commit[:_SHORT]} {subject}: {finding.code or finding.verdict}")
        paths = [f"    {visible_line(path)}: {reason}" for path, reason in finding.paths]
        lines += shortened(paths, _SHOWN_PATHS, "    and {} more paths")
        if not finding.paths:
            lines.append(f"    {finding.reason}")
    if len(wrong) > _SHOWN_COMMITS:
        lines.append(f"  and {len(wrong) - _SHOWN_COMMITS} more commits")
    if old is None and judgement.commits:
        old = git.resolve(gate.place, f"{judgement.commits[0].commit}^")
    again = f": {ways[0]}" if ways[0] else ", run the same git command again."
    change = f"{old[:_SHORT]}..{new[:_SHORT]}" if old is not None else new[:_SHORT]
    lines.append(f"Look at all of it with: tandem audit {change}")
    if held:
        on = f" --branch {branch}" if branch in gate.branches else ""
        every = dict.fromkeys(review_id for commit in wrong for review_id in commit.finding.review_ids)
        reviews = [*every][:_SHOWN_COMMITS]
        if by_policy:
            lines += [f"See its next step: tandem review status {review_id}" for review_id in reviews]
            return Refusal([*lines, f"and when that is done{again}"], net, branch)
        lines += [f"Its checks: tandem checks list {review_id}" for review_id in reviews]
        lines += [f"Run again: tandem checks run {review_id}{on}" for review_id in reviews]
        lines.append(f"Fix their findings; or when they have passed{again}")
    elif old is not None:
        land = landing(gate, new, branch, *(["--remote", remote] if remote is not None else []))
        lines += _approving(land and ways[1] + land, change, again)
    origin = _from_elsewhere(gate, wrong[0].commit) if wrong else None
    if origin is not None:
        lines.append(f"A person can accept the commits that are there by now: tandem gate on --accept {origin}")
    return Refusal(lines, net, branch)


def _approving(land: str | None, change: str, again: str) -> list[str]:
    """How it gets there, a line each: as a branch that ends with the commit, where one is here, else as commits."""
    if land is not None:
        return [f"Have it reviewed as one change, and landed: {land}"]
    submit = f"Submit it as one change: tandem submit --range {change} --wait -m 'why'"
    return [submit, f"and when it is approved{again}"]


def _from_elsewhere(gate: GateFile, commit: str) -> str | None:
    """A remote-tracking branch that has a commit; None if it was made here."""
    listed = git.run(gate.place, ["for-each-ref", "--format=%(refname)", f"--contains={commit}", "refs/remotes/"])
    return next((ref for ref in listed.text.splitlines() if not ref.endswith("/HEAD")), None)


def _restoring(gate: GateFile, lines: list[list[str]]) -> list[str]:
    """What to say of the index and the files, where git has changed them before it asked to move the branch."""
    place, head = gate.place, git.head(gate.place)
    new = next((new for _, new, ref in lines if ref.casefold() in guarded(gate)), None)
    try:
        wanted = git.between(place, head, new) if head is not None and new is not None else []
        staged = git.staged(place, head) if wanted and head is not None else []
        if new is None or not wanted or any(change not in staged for change in wanted) or not _was_there(gate, new):
            return []
        paths = {change["path"] for change in wanted}
        written = git.changes_in(git.run(place, ["diff-files", *raw.RAW_OPTIONS]).stdout)
    except TandemError:
        return []
    if not paths.isdisjoint(change["path"] for change in written):
        return ["Git has already changed the index here; to bring it back: git reset"]
    own = os.listdir(place.git_dir)
    if "MERGE_HEAD" in own:
        back = "git merge --abort"
    else:
        # Git allows staged changes beside a fast-forward; `git reset --merge` would discard them.
        back = f"git read-tree -m -u {new[:_SHORT]} HEAD"
        back += " && git merge --quit && git stash pop --index" if "MERGE_AUTOSTASH" in own else ""
    return [f"Git has already changed the files and the index here; to bring both back: {back}"]


def _was_there(gate: GateFile, new: str) -> bool:
    """Whether a commit was there before the command, or is its merge; that of `git commit` was staged by the user."""
    if os.environ.get("GIT_REFLOG_ACTION", "").split(" ")[0] in _MERGING:
        return True
    return bool(git.run(gate.place, ["for-each-ref", "--count=1", f"--contains={new}"]).text)


def _execute(gate: GateFile, refusal: Refusal | None, lines: list[list[str]] | None = None) -> int:
    """Say why not, unless a person at the terminal overrides it; answers with the exit status.

    Args:
        gate: The switch.
        refusal: Why not, if so.
        lines: Those of a transaction here, before which git may have changed files.
    """
    if refusal is None:
        return 0
    reasons, net, branch = refusal
    why = override_wanted()
    if net is None or why is None:
        say(f"refused: {reasons[0]}", *reasons[1:], *_restoring(gate, lines or []))
        return _REFUSED
    changes = git.between(gate.place, *net)
    return _REFUSED if overridden(gate, why, reasons, changes, branch) is None else 0
