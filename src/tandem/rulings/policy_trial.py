"""The needs that a policy gives real commits: each is looked at as a change of its first parent's content."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tandem.errors import Unavailable
from tandem.git import raw
from tandem.git.changes import Change, parse_raw
from tandem.rulings import git
from tandem.rulings.person import family
from tandem.rulings.policy import BINARY_LINES, Facts
from tandem.rulings.state import HookRepository

_BATCH = 500
_TRAILERS = "".join(f"key={key}," for key in ("Co-authored-by", "Assisted-by", "Generated-by"))
_FORMAT = f"%an%x00%s%x00%(trailers:{_TRAILERS}valueonly,unfold,separator=%x1f)%x00"
_COUNTED = ("--numstat", "--no-textconv", "--no-ext-diff")
_CATEGORY = "code_change"


class TriedCommit(NamedTuple):
    """A commit of which a policy is asked.

    Attributes:
        oid: Its id.
        first: The id of its first parent; None if it has none.
        subject: Of its message.
        author: The name that it has.
        is_agent: Whether a trailer names a client that helped; else it counts as a person's.
    """

    oid: str
    first: str | None
    subject: str
    author: str
    is_agent: bool


def commits(
    place: HookRepository, end: str, *, start: str | None = None, limit: int | None = None
) -> list[TriedCommit]:
    """The commits along the first parents from `end`, newest first.

    Args:
        place: The repository.
        end: The id of the newest one.
        start: The id of a commit; it and its ancestors are left out.
        limit: How many at most.

    Raises:
        TandemError: Git does not answer.
    """
    some = [] if limit is None else [f"--max-count={limit}"]
    without = [] if start is None else [f"^{start}"]
    options = ["--first-parent", "--parents", "--encoding=UTF-8", f"--format={_FORMAT}", *some]
    # Ignores the parents in a commit-graph file.
    listed = git.run(place, ["-c", "core.commitGraph=false", "rev-list", *options, end, *without, "--"]).stdout
    return [_commit(record) for record in listed.decode("utf-8", "replace").split("\0\n")[:-1]]


def _commit(record: str) -> TriedCommit:
    head, _, body = record.partition("\n")
    _, oid, *parents = head.split(" ")
    author, subject, trailers = body.split("\0")
    words = trailers.replace("\x1f", " ").split()
    return TriedCommit(oid, next(iter(parents), None), subject, author, is_agent=family(*words) is not None)


def facts(
    place: HookRepository,
    listed: Sequence[TriedCommit],
    *,
    branch: str | None,
    unread: Callable[[Sequence[str]], frozenset[str]],
) -> Iterator[tuple[TriedCommit, Facts]]:
    """The commits with what the rules ask about each; those that change nothing have no changes.

    Args:
        place: The repository.
        listed: The commits.
        branch: Where they went; None if that is not known.
        unread: Those of some paths that a program made.

    Raises:
        TandemError: Git does not answer.
    """
    for at in range(0, len(listed), _BATCH):
        some = listed[at : at + _BATCH]
        asked = "".join(f"{one.oid} {one.first}\n" if one.first else f"{one.oid}\n" for one in some).encode()
        options = ["--stdin", "--always", "--root", "-r", *raw.TREE_OPTIONS, *_COUNTED]
        found = _counted(git.run(place, ["diff-tree", *options], stdin=asked).stdout)
        if len(found) != len(some):
            raise Unavailable("git diff-tree did not answer for every commit.")
        made = unread(list({change.path for changes, _ in found for change in changes}))
        for one, (changes, lines) in zip(some, found, strict=True):
            generated = made.intersection(change.path for change in changes)
            yield one, Facts(changes, generated, lines, branch, _CATEGORY, one.author, one.is_agent)


def _counted(data: bytes) -> list[tuple[tuple[Change, ...], int]]:
    """The changes of each commit and their lines, as `git diff-tree --stdin --raw --numstat -z` prints them."""
    entries: list[list[bytes]] = []
    lines: list[int] = []
    fields = iter(data.split(b"\0")[:-1])
    for field in fields:
        if field.startswith(b":"):
            entries[-1] += (field, next(fields))
        elif b"\t" in field:
            added, removed, _ = field.split(b"\t", 2)
            lines[-1] += BINARY_LINES if added == b"-" else int(added) + int(removed)
        else:
            entries.append([])
            lines.append(0)
    return [
        (parse_raw(b"".join(field + b"\0" for field in one)), count) for one, count in zip(entries, lines, strict=True)
    ]
