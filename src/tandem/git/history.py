"""What git says of commits, read for hooks and broker alike. Quick to import, as each commit waits for it."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tandem.git.runner import BoundGit

NOTHING_THERE = 128
"""Git's exit status when a name stands for nothing."""

_MOST_SIGNATURES = 10
_SIGNATURE_LETTERS = 99


def signatures(stated: Iterable[str]) -> tuple[str, ...]:
    """Those of a message's values that look like signatures, as many as the broker is asked about."""
    found = (one for one in dict.fromkeys(stated) if len(one) == _SIGNATURE_LETTERS and one.isascii())
    return tuple(found)[:_MOST_SIGNATURES]


def by_commit(data: bytes) -> list[bytes]:
    """The output of `git diff-tree --stdin --always -z`, as the raw difference of each commit."""
    found: list[list[bytes]] = []
    fields: Iterator[bytes] = iter(data.split(b"\0")[:-1])
    for field in fields:
        if field.startswith(b":"):
            found[-1] += (field, next(fields))
        else:
            found.append([])
    return [b"".join(field + b"\0" for field in entries) for entries in found]


def parents_of(git: BoundGit, commit: str) -> list[str] | None:
    """The ids of a commit's parents; None if there is no such commit."""
    asked = ["rev-list", "--parents", "--no-walk", commit, "--"]
    ids = git.run(asked, accept=(0, NOTHING_THERE)).text.split()
    return ids[1:] if ids else None


def has(git: BoundGit, descendant: str, commit: str) -> bool | None:
    """Whether a commit is among another's ancestors, or is it; None if one of them is not there."""
    asked = ["merge-base", "--is-ancestor", commit, descendant]
    return {0: True, 1: False}.get(git.run(asked, accept=(0, 1, NOTHING_THERE)).status_code)
