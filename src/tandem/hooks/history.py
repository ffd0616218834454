"""Commits and where base branches are, read in as few calls of git as there are kinds of questions.

Parents are read from the commits themselves: what a commit-graph file or a graft says of them is not asked.
"""

from __future__ import annotations

from tandem.errors import InvalidInput, Unavailable
from tandem.git.raw import TREE_OPTIONS
from tandem.hooks import git

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tandem.hooks.git import Change
    from tandem.hooks.state import GateFile, HookRepository

HEADS = "refs/heads/"
STARTS = "refs/tandem/gate-start/"
"""Where the base branches were when the gate was switched on, a ref for each."""

_REF_FORMAT = "%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)"

_TRAILERS = "%(trailers:key=Tandem-Review,valueonly,unfold,separator=%x2C)"
_FORMAT = f"%T%x00%s%x00{_TRAILERS}%x00"
_OPTIONS = ("--topo-order", "--reverse", "--parents", "--encoding=UTF-8", f"--format={_FORMAT}")
_LIST = ("-c", "core.commitGraph=false", "rev-list")


class Bases:
    """The refs that judging begins at, as they are when this is made.

    Attributes:
        tips: The base branches that exist, by their full names, with the commits they are at.
        never_judged: The commits of the accepted refs and of the gate's start: they and their ancestors are taken
            as they are.
    """

    def __init__(self, gate: GateFile) -> None:
        """Read them.

        Raises:
            TandemError: Git does not answer.
        """
        self._place = gate.place
        self.tips: dict[str, str] = {}
        accepted: list[str] = []
        self._starts: list[str] = []
        wanted = {HEADS + branch for branch in gate.branches}
        patterns = [*sorted(wanted), STARTS, *gate.accepted]
        for line in git.run(gate.place, ["for-each-ref", f"--format={_REF_FORMAT}", *patterns]).text.splitlines():
            kind, oid, inner_kind, inner_oid, ref = line.split(" ", 4)
            commit = oid if kind == "commit" else inner_oid if inner_kind == "commit" else None
            if commit is None:
                continue
            if ref.startswith(STARTS):
                self._starts.append(commit)
            elif ref in wanted:
                self.tips[ref] = commit
            # A pattern also finds what is below it, which nobody accepted.
            if ref in gate.accepted:
                accepted.append(commit)
        self.never_judged = tuple(dict.fromkeys((*accepted, *self._starts)))

    def earlier(self) -> set[str]:
        """What the base branches have been at since the gate was switched on, as far as git has kept it.

        Raises:
            TandemError: Git does not answer.
        """
        been: set[str] = set()
        for ref in self.tips:
            # No log was kept where git fails here.
            log = git.run(self._place, ["log", "-g", "--format=%H", ref, "--"], accept=(0, 128))
            for oid in log.text.splitlines():
                been.add(oid)
                if oid in self._starts:
                    break
        return been


class Commit:
    """One commit.

    Attributes:
        oid: Its id.
        parents: The ids of its parents, in order.
        tree: The id of its tree.
        subject: The first paragraph of its message, as one line.
        reviews: What its `Tandem-Review` trailers say; a remark, never a proof.
    """

    __slots__ = ("oid", "parents", "reviews", "subject", "tree")

    def __init__(self, record: str) -> None:
        """Take a record as `_FORMAT` has it."""
        head, _, body = record.partition("\n")
        _, self.oid, *parents = head.split(" ")
        self.parents = tuple(parents)
        self.tree, self.subject, reviews = body.split("\0")
        self.reviews = tuple(dict.fromkeys(word.strip() for word in reviews.split(",") if word.strip()))


def commits(place: HookRepository, tip: str, without: Iterable[str] = ()) -> tuple[Commit, ...]:
    """The commits that can be reached from `tip` and from none of `without`; a parent comes before its children.

    Args:
        place: The repository.
        tip: The id of a commit.
        without: Ids of commits that are there.

    Raises:
        TandemError: One of them is not there.
    """
    asked = "".join(f"{line}\n" for line in (tip, *(f"^{oid}" for oid in without)))
    listed = git.run(place, [*_LIST, *_OPTIONS, "--stdin"], stdin=asked.encode()).stdout
    return tuple(Commit(record) for record in listed.decode("utf-8", "replace").split("\0\n")[:-1])


def read(place: HookRepository, oid: str) -> tuple[list[str], str]:
    """The parents and the message of a commit, from its object.

    Raises:
        TandemError: There is none.
    """
    head, _, text = git.run(place, ["cat-file", "commit", oid]).stdout.decode("utf-8", "replace").partition("\n\n")
    return [line.removeprefix("parent ") for line in head.split("\n") if line.startswith("parent ")], text


def known_commits(place: HookRepository, oids: Iterable[str]) -> list[str]:
    """Those of some ids that name commits which are there."""
    asked = list(dict.fromkeys(oids))
    if not asked:
        return []
    lines = "".join(f"{oid}\n" for oid in asked).encode()
    answers = git.run(place, ["cat-file", "--batch-check"], stdin=lines).text.splitlines()
    return [oid for oid, answer in zip(asked, answers, strict=True) if answer.split(" ")[1:2] == ["commit"]]


def differences(place: HookRepository, pairs: Sequence[tuple[str | None, str]]) -> list[list[Change] | str]:
    """What changed between pairs of commits; from nothing where the first is null.

    The answer for a pair is a sentence where it has a path that no approval can name.

    Raises:
        TandemError: A commit is not there.
    """
    if not pairs:
        return []
    lines = "".join(f"{after} {before}\n" if before else f"{after}\n" for before, after in pairs)
    arguments = ["diff-tree", "--stdin", "--always", "--root", "-r", *TREE_OPTIONS]
    fields = git.run(place, arguments, stdin=lines.encode()).stdout.split(b"\0")
    found: list[list[Change] | str] = []
    raw: list[bytes] = []
    at = 0
    while at < len(fields) - 1:
        if fields[at].startswith(b":"):
            raw += fields[at : at + 2]
            at += 2
            continue
        if at:
            found.append(_parsed(raw))
        raw = []
        at += 1
    found.append(_parsed(raw))
    if len(found) != len(pairs):
        raise Unavailable("git diff-tree did not answer for every commit.")
    return found


def _parsed(raw: list[bytes]) -> list[Change] | str:
    try:
        return git.changes_in(b"".join(field + b"\0" for field in raw))
    except InvalidInput as trouble:
        return str(trouble)


def amended(place: HookRepository, limit: int = 2000) -> dict[tuple[str, ...], list[str]]:
    """Commits that HEAD and the branches have been at, newest first, by their parents.

    An amended commit stands where an earlier one stood: its siblings are what it was made from.
    """
    arguments = ["-c", "core.commitGraph=false", "log", "-g", "--all", f"--max-count={limit}", "--format=%H %P"]
    # Without a log of the refs there is nothing to find, and git says so by its status.
    lines = git.run(place, arguments, accept=(0, 1, 128)).text.splitlines()
    found: dict[tuple[str, ...], list[str]] = {}
    for oid, *parents in (line.split(" ") for line in dict.fromkeys(lines)):
        found.setdefault(tuple(parents), []).append(oid)
    return found
