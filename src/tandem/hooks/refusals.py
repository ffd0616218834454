"""What is said of a range of commits that is not approved."""

from __future__ import annotations

from tandem.hooks import git
from tandem.hooks.speech import say
from tandem.hooks.visible import visible_line

TYPE_CHECKING = False  # every commit waits for what is imported here; see `tuples`
if TYPE_CHECKING:
    from tandem.hooks.ranges import Judgement
    from tandem.hooks.state import GateFile

REFUSED = 1
_SHOWN_COMMITS = 10
_SHOWN_PATHS = 3
_SHORT = 10


def described(judgement: Judgement) -> list[str]:
    """The commits that do not pass, a line each, with the paths that are in the way."""
    wrong = [commit for commit in judgement.commits if not commit.passes]
    lines: list[str] = []
    for commit in wrong[:_SHOWN_COMMITS]:
        lines.append(f"  {commit.commit[:_SHORT]} {visible_line(commit.subject) or '(no subject)'}: {commit.verdict}")
        lines += [f"    {visible_line(path)}: {reason}" for path, reason in commit.paths[:_SHOWN_PATHS]]
        if len(commit.paths) > _SHOWN_PATHS:
            lines.append(f"    and {len(commit.paths) - _SHOWN_PATHS} more paths")
        if not commit.paths:
            lines.append(f"    {commit.reason}")
    if len(wrong) > _SHOWN_COMMITS:
        lines.append(f"  and {len(wrong) - _SHOWN_COMMITS} more commits")
    return lines


def advice(gate: GateFile, judgement: Judgement, old: str | None, new: str) -> list[str]:
    """What to do about it.

    Args:
        gate: The switch.
        judgement: What was found.
        old: The commit to compare with; null if there is none.
        new: The commit that is refused.
    """
    lines = ["Look at all of it with: tandem audit " + (f"{old[:_SHORT]}..{new[:_SHORT]}" if old else new[:_SHORT])]
    if old is not None:
        change = f"{old[:_SHORT]}..{new[:_SHORT]}"
        lines.append(f"Put it up as one change: tandem submit --range {change} --wait -m 'what it is for'")
        lines.append("and when it is approved, run the same git command again.")
    wrong = next((commit.commit for commit in judgement.commits if not commit.passes), None)
    origin = _from_elsewhere(gate, wrong) if wrong is not None else None
    if origin is not None:
        lines.append(f"Take all that comes from there as it is: tandem gate on --accept {origin}")
    return lines


def refuse(gate: GateFile, reasons: list[str], net: tuple[str | None, str] | None, branch: str | None) -> int:
    """Say why not, unless a person at the terminal overrides it; answers with the exit status.

    Args:
        gate: The switch.
        reasons: A line each; the first says what is refused.
        net: The commits before and after, whose difference a person may let through; null if nothing can be.
        branch: The branch that is moved or pushed to.
    """
    from tandem.hooks import override  # only when something is refused

    why = override.wanted() if net is not None else None
    if net is None or why is None:
        say(f"refused: {reasons[0]}", *reasons[1:])
        return REFUSED
    before, after = net
    changes = git.between(gate.place, before or git.empty_tree(gate.place), after)
    return REFUSED if override.asked(gate, why, reasons, changes, branch) is None else 0


def _from_elsewhere(gate: GateFile, commit: str) -> str | None:
    """A remote-tracking branch that has a commit; null if it was made here."""
    listed = git.run(gate.place, ["for-each-ref", "--format=%(refname)", f"--contains={commit}", "refs/remotes/"])
    return next((ref for ref in listed.text.splitlines() if not ref.endswith("/HEAD")), None)
