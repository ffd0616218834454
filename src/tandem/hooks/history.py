"""A range of commits, read in as few calls of git as there are kinds of questions.

Parents are read from the commits themselves: what a commit-graph file or a graft says of them is not asked.
"""

from __future__ import annotations

from tandem.hooks import git

TYPE_CHECKING = False  # every commit waits for what is imported here; see `tuples`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import NamedTuple

    from tandem.hooks.git import Change
    from tandem.hooks.state import Place
else:
    from tandem.hooks.tuples import NamedTuple

_TRAILERS = "%(trailers:key=Tandem-Review,valueonly,unfold,separator=%x2C)"
_FORMAT = f"%T%x00%s%x00{_TRAILERS}%x00"
_OPTIONS = ("--topo-order", "--reverse", "--parents", "--boundary", "--encoding=UTF-8", f"--format={_FORMAT}")
_RAW = tuple(option for option in git.RAW_OPTIONS if option != "--ita-invisible-in-index")
_LIST = ("-c", "core.commitGraph=false", "rev-list")


class Commit(NamedTuple):
    """One commit.

    Attributes:
        oid: Its id.
        parents: The ids of its parents, in order.
        tree: The id of its tree.
        subject: The first paragraph of its message, as one line.
        reviews: What its `Tandem-Review` trailers say; a remark, never a proof.
    """

    oid: str
    parents: tuple[str, ...]
    tree: str
    subject: str
    reviews: tuple[str, ...]


class Range(NamedTuple):
    """What can be reached from a commit and not from others.

    Attributes:
        commits: Its commits; a parent comes before its children.
        edge: The commits next to it that are not in it, by id.
    """

    commits: tuple[Commit, ...]
    edge: dict[str, Commit]


def commits(place: Place, tip: str, without: Iterable[str] = ()) -> Range:
    """The commits that can be reached from `tip` and from none of `without`.

    Args:
        place: The repository.
        tip: The id of a commit.
        without: Ids of commits that are there.

    Raises:
        GitTrouble: One of them is not there.
    """
    asked = "".join(f"{line}\n" for line in (tip, *(f"^{oid}" for oid in without)))
    listed = git.run(place, [*_LIST, *_OPTIONS, "--stdin"], stdin=asked.encode()).stdout
    inside: list[Commit] = []
    edge: dict[str, Commit] = {}
    for is_edge, commit in _read(listed):
        if is_edge:
            edge[commit.oid] = commit
        else:
            inside.append(commit)
    return Range(tuple(inside), edge)


def _read(listed: bytes) -> Iterator[tuple[bool, Commit]]:
    for record in listed.decode("utf-8", "replace").split("\0\n")[:-1]:
        head, _, body = record.partition("\n")
        _, oid, *parents = head.split(" ")
        tree, subject, reviews = body.split("\0")
        said = tuple(dict.fromkeys(word.strip() for word in reviews.split(",") if word.strip()))
        yield oid.startswith("-"), Commit(oid.lstrip("-"), tuple(parents), tree, subject, said)


def known_commits(place: Place, oids: Iterable[str]) -> list[str]:
    """Those of some ids that name commits which are there."""
    asked = list(dict.fromkeys(oids))
    if not asked:
        return []
    lines = "".join(f"{oid}\n" for oid in asked).encode()
    answers = git.run(place, ["cat-file", "--batch-check"], stdin=lines).text.splitlines()
    return [oid for oid, answer in zip(asked, answers, strict=True) if answer.split(" ")[1:2] == ["commit"]]


def differences(place: Place, pairs: Sequence[tuple[str | None, str]]) -> list[list[Change] | str]:
    """What changed between pairs of commits; from nothing where the first is null.

    The answer for a pair is a sentence where it has a path that no approval can name.

    Raises:
        GitTrouble: A commit is not there.
    """
    if not pairs:
        return []
    lines = "".join(f"{after} {before}\n" if before else f"{after}\n" for before, after in pairs)
    arguments = ["diff-tree", "--stdin", "--always", "--root", "-r", *_RAW]
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
        raise git.GitTrouble("git diff-tree did not answer for every commit")
    return found


def _parsed(raw: list[bytes]) -> list[Change] | str:
    try:
        return git.parse_raw(b"".join(field + b"\0" for field in raw))
    except git.GitTrouble as trouble:
        return str(trouble)


def amended(place: Place, limit: int = 2000) -> dict[tuple[str, ...], list[str]]:
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
