"""The ground of a change: the tip of its base branch, and what lies between that branch and the change's base.

`base` says what a diff applies to. It is the proposer's word, so nothing else is taken from it: what no base branch
holds is listed commit by commit, for the gate and for reviewers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tandem.errors import InvalidInput
from tandem.git.changes import Change, parse_raw
from tandem.git.handle import Base, Handle
from tandem.git.layout import Scratch
from tandem.git.raw import TREE_OPTIONS, by_commit, decode_path, digest_of, encode_path, merge_arguments, signatures

LOOKED_AT: Final = 200
"""Commits between that are looked at; further ones are counted, and count as not approved."""
_LISTED = 10_000
_ENTRIES = 500
"""Raw entries that are kept of the commits between, and again of all of them as one change; beyond, digests count."""
_PATHS = 10
_SHORT = 12
_TWO = 2
_NO_ANCESTOR = 1
NOTHING_THERE = 128
"""Git's exit status when a name stands for nothing."""
_CONFLICT = 1


@dataclass(frozen=True, slots=True)
class GroundCommit:
    """A commit that `base` has and no base branch.

    Attributes:
        id: Its id.
        paths: The files that it changes, at most 10; of a merge, those that git alone would have merged otherwise.
        more_paths: How many further ones.
        digest: Over its raw difference; None for a merge.
        changes: Its raw difference; None for a merge, and where there is too much of it.
        signed: The signatures that its message has.
    """

    id: str
    paths: tuple[str, ...]
    more_paths: int = 0
    digest: str | None = None
    changes: tuple[Change, ...] | None = None
    signed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ground:
    """What a change stands on.

    Attributes:
        base: What the change applies to.
        branch: The base branch; None where the project has none, so that the base was taken as it came.
        tip: The branch's commit.
        commits: What lies between the branch and `base`, newest first.
        more_commits: How many further commits do.
        net: All of that as one change, without what the tip has as well; None if it is too much.
        net_digest: Over all of that as one change.
        start: Id of the commit (or tree) that it begins after; None if nothing lies between.
        problem: Why there is no tree of tip and change, and what helps; None if there is one.
        conflict: The files that do not merge.
        commit: The commit of the tree that was made of it, for a check.
    """

    base: str
    branch: str | None = None
    tip: str | None = None
    commits: tuple[GroundCommit, ...] = ()
    more_commits: int = 0
    net: tuple[Change, ...] | None = ()
    net_digest: str | None = None
    start: str | None = None
    problem: str | None = None
    conflict: tuple[str, ...] = ()
    commit: str | None = None

    @property
    def between(self) -> str | None:
        """What lies between, as `A..B`; None for nothing."""
        return None if self.start is None else f"{self.start[:_SHORT]}..{self.base[:_SHORT]}"


def find(handle: Handle, base: str, branches: Sequence[str], accepted: Iterable[str], on: str | None) -> Ground:
    """The ground of a change, as it is now; see `Repository.ground`."""
    every = handle.tips(branches)
    tips = every if on is None else {name: tip for name, tip in every.items() if name == on}
    if branches and not tips:
        none = (
            f"The repository has no branch {on or ' or '.join(branches)}, on which changes stand: make it, or fetch it."
        )
        return Ground(base, problem=none)
    first = next(iter(tips), None)
    try:
        found = handle.base(base)
    except InvalidInput:
        missing = f"The commit {base[:12]}, which the change was made against, is not in the repository: push it."
        return Ground(base, first, tips.get(first or ""), problem=missing)
    name = next((name for name, tip in tips.items() if tip == found.oid), None)
    if name is not None or first is None:
        return Ground(base, name, tips.get(name or ""))
    if found.oid == found.tree:
        problem = f"The change was made against a tree: make it against a commit of {first}."
        return Ground(base, first, tips[first], problem=problem)
    with handle.scratch() as scratch:
        between = {name: _between(scratch, found.oid, [tip]) for name, tip in tips.items()}
        name = min(between, key=lambda name: len(between[name]))
        if not between[name]:
            return Ground(found.oid, name, tips[name])
        # What a person accepted, but not as a part of another base branch: an update of this one brings none of that.
        others = {tip for other, tip in every.items() if other != name}
        known = [oid for oid in handle.objects.sizes(accepted) if not any(has(scratch, tip, oid) for tip in others)]
        return _beside(handle, scratch, found, (name, tips[name]), known)


def _beside(handle: Handle, scratch: Scratch, base: Base, branch: tuple[str, str], accepted: Sequence[str]) -> Ground:
    """The ground of a base on a branch that lacks commits of it."""
    name, tip = branch
    held = [tip, *accepted]
    left = _between(scratch, base.oid, held)
    commits = _described(scratch, left[:LOOKED_AT])
    more = len(left[LOOKED_AT:])
    start = (relation(scratch, base.oid, *held) or handle.layout.objects.empty_tree) if commits else None
    net = () if start is None else scratch.difference(start, base.oid)
    beside = _without(handle, net, tip) if len(net) <= _ENTRIES else None
    return Ground(base.oid, name, tip, commits, more, beside, digest_of(net), start)


def is_held(handle: Handle, ground: Ground) -> bool:
    """Whether its base branch holds by now what a ground had beside it: its commits, or what these come to."""
    tip = None if ground.branch is None else handle.tip(ground.branch)
    if tip is None:
        return False
    if ground.net is not None and not _without(handle, ground.net, tip):
        return True
    with handle.scratch() as scratch:
        return not _between(scratch, ground.base, [tip], most=1)


def parents_of(scratch: Scratch, commit: str) -> list[str] | None:
    """The ids of a commit's parents; None if there is no such commit."""
    asked = ["rev-list", "--parents", "--no-walk", commit, "--"]
    ids = scratch.run(asked, accept=(0, NOTHING_THERE)).text.split()
    return ids[1:] if ids else None


def has(scratch: Scratch, descendant: str, commit: str) -> bool | None:
    """Whether a commit is among another's ancestors, or is it; None if one of them is not there."""
    asked = ["merge-base", "--is-ancestor", commit, descendant]
    return {0: True, 1: False}.get(scratch.run(asked, accept=(0, 1, NOTHING_THERE)).status_code)


def relation(scratch: Scratch, one: str, *others: str) -> str | None:
    """The best commit that one has in common with others, which may be one of them; None if there is none."""
    output = scratch.run(["merge-base", one, *others], accept=(0, _NO_ANCESTOR))
    return output.text.split()[0] if output.status_code == 0 else None


def merged(scratch: Scratch, one: str, other: str) -> tuple[str | None, tuple[str, ...]]:
    """The tree that git alone makes of two commits, and the files that do not merge; no tree if they are unrelated."""
    arguments = merge_arguments(scratch.folder.name)
    output = scratch.run([*arguments, "--name-only", "-z", one, other], accept=(0, _CONFLICT, NOTHING_THERE))
    if output.status_code not in (0, _CONFLICT):
        return None, ()
    tree, *names = output.stdout.split(b"\0")
    return tree.decode("ascii"), tuple(decode_path(name) for name in names if name)


_AS_US = ("-c", "user.name=Tandem", "-c", "user.email=tandem@localhost")


def _between(scratch: Scratch, commit: str, held: Iterable[str], most: int = _LISTED) -> list[tuple[str, ...]]:
    """The commits that one has and others have not, each with its parents, newest first."""
    asked = "".join(f"{line}\n" for line in (commit, *(f"^{oid}" for oid in held))).encode()
    listing = ["rev-list", "--topo-order", "--parents", f"--max-count={most}", "--stdin"]
    return [tuple(line.split()) for line in scratch.run(listing, stdin=asked).text.splitlines()]


def _described(scratch: Scratch, commits: Sequence[tuple[str, ...]]) -> tuple[GroundCommit, ...]:
    """The changes of each commit; merges that change nothing themselves are left out."""
    plain = [oid for oid, *parents in commits if len(parents) < _TWO]
    changes = dict(zip(plain, _differences(scratch, plain), strict=True))
    signed = dict(zip(plain, _signatures(scratch, plain), strict=True))
    found: list[GroundCommit] = []
    kept = 0
    for oid, *parents in commits:
        entries = changes[oid] if oid in changes else _of_merge(scratch, oid, parents)
        if not entries:
            continue
        paths = [change.path for change in entries]
        kept += len(entries)
        is_whole = oid in changes and kept <= _ENTRIES
        more = len(paths[_PATHS:])
        digest = digest_of(entries) if oid in changes else None
        whole = tuple(entries) if is_whole else None
        found.append(GroundCommit(oid, tuple(paths[:_PATHS]), more, digest, whole, signed.get(oid, ())))
    return tuple(found)


def _signatures(scratch: Scratch, commits: Sequence[str]) -> list[tuple[str, ...]]:
    """What looks like a signature in the message of each commit."""
    if not commits:
        return []
    # Git prints no line that would be empty.
    shape = "--format=:%(trailers:key=Tandem-Signed,valueonly,unfold,separator=%x20)"
    listing = ["rev-list", "--no-walk=unsorted", "--no-commit-header", shape, "--stdin"]
    output = scratch.run(listing, stdin="".join(f"{oid}\n" for oid in commits).encode()).stdout
    lines = output.decode("utf-8", "replace").split("\n")[:-1]
    return [signatures(line[1:].split()) for line in lines]


def _differences(scratch: Scratch, commits: Sequence[str]) -> list[Sequence[Change]]:
    """What each commit changes against its parent; the first commit of all, against nothing."""
    if not commits:
        return []
    asked = "".join(f"{oid}\n" for oid in commits).encode()
    arguments = ["diff-tree", "--stdin", "--always", "--root", "-r", *TREE_OPTIONS]
    return [parse_raw(entries) for entries in by_commit(scratch.run(arguments, stdin=asked).stdout)]


def _of_merge(scratch: Scratch, commit: str, parents: Sequence[str]) -> Sequence[Change]:
    """What a merge has otherwise than git alone would have merged it; where git cannot, otherwise than any parent."""
    before, *others = parents
    for place, other in enumerate(others, 1):
        tree, _ = merged(scratch, before, other)
        if tree is None:
            found = {change.path: change for parent in parents for change in scratch.difference(parent, commit)}
            return tuple(found.values())
        # Only a commit can be merged with the next one.
        made = [*_AS_US, "commit-tree", tree, "-p", before, "-p", other]
        before = tree if place == len(others) else scratch.run(made, stdin=b"").text
    return scratch.difference(before, commit)


def _without(handle: Handle, changes: Sequence[Change], tip: str) -> tuple[Change, ...]:
    """The changes of files that a commit has otherwise."""
    wanted = {encode_path(change.path): change for change in changes}
    there = handle.objects.entries(handle.base(tip).tree, wanted).entries
    absent = handle.layout.objects.absent
    return tuple(change for path, change in wanted.items() if there.get(path, absent) != change.after)
