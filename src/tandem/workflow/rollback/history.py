"""The commits of a branch, and what their messages say of reviews."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tandem.hooks.message import DEPENDS_ON, REVIEW, UNREVIEWED, plan_key
from tandem.workflow.rollback.checkout import Checkout

ROLLBACK = "Tandem-Rollback"
"""The trailer of the commits that a rollback makes: which review it was for."""

_RAW = ("--root", "-r", "-z", "--raw", "--no-renames", "--full-index", "--ignore-submodules=none")
_TRAILER = re.compile(
    rf"^[ \t]*(?P<name>{REVIEW}|{DEPENDS_ON}|{ROLLBACK})[ \t]*:(?P<value>.*)$", re.IGNORECASE | re.MULTILINE
)
_REVERTS = re.compile(r"\bThis reverts commit (?P<commit>[0-9a-f]{7,64})\b")
_SUBJECT = re.compile(r"[a-z]+\((?P<phase>\d+(?:\.\d+)*[A-Za-z]?)-(?P<plan>\d+)(?:-(?P<task>\d+))?\)!?:")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit and what its message says.

    Attributes:
        id: Its full id.
        parents: Its parents' ids.
        subject: The first line of its message.
        review_ids: The reviews that its trailers name; they survive a squash, wherever in the message they stand.
        is_unreviewed: Whether it is marked as let through before a review.
        depends_on: The reviews or tasks that it declares to depend on.
        rollback_of: The review whose rollback made it; null if none did.
        reverts: The commits that it says to revert, maybe shortened.
    """

    id: str
    parents: tuple[str, ...]
    subject: str
    review_ids: tuple[str, ...]
    is_unreviewed: bool
    depends_on: tuple[str, ...]
    rollback_of: str | None
    reverts: tuple[str, ...]

    @property
    def is_merge(self) -> bool:
        """Whether it has more than one parent."""
        return len(self.parents) > 1

    @property
    def plan(self) -> str | None:
        """The plan that its subject names, as in `feat(03-02): retry uploads`; null if it names none."""
        found = _SUBJECT.match(self.subject)
        return plan_key(found["phase"], found["plan"], None) if found else None

    @property
    def task(self) -> str | None:
        """The task that its subject names; null if it names none."""
        found = _SUBJECT.match(self.subject)
        return found["task"] if found else None


@dataclass(frozen=True, slots=True)
class Difference:
    """What a commit changed against its first parent.

    Attributes:
        paths: The paths, before and after; a rename is two of them.
        digest: What an approval of exactly this difference is bound to.
        text_digest: What the approval of a text is bound to; null if it changed more than one file, or took one away.
    """

    paths: frozenset[str]
    digest: str
    text_digest: str | None


def parse(record: str) -> Commit:
    """A commit from its id, its parents and its message, a line each."""
    commit, parents, message = record.split("\n", 2)
    said: dict[str, list[str]] = {}
    for found in _TRAILER.finditer(message):
        words = [word for word in re.split(r"[\s,]+", found["value"]) if word]
        said.setdefault(found["name"].lower(), []).extend(words)
    reviews = said.get(REVIEW.lower(), [])
    rollbacks = said.get(ROLLBACK.lower(), [])
    return Commit(
        id=commit,
        parents=tuple(parents.split()),
        subject=message.partition("\n")[0].strip(),
        review_ids=tuple(dict.fromkeys(word for word in reviews if word != UNREVIEWED)),
        is_unreviewed=UNREVIEWED in reviews,
        depends_on=tuple(dict.fromkeys(said.get(DEPENDS_ON.lower(), []))),
        rollback_of=rollbacks[-1] if rollbacks else None,
        reverts=tuple(_REVERTS.findall(message)),
    )


def log(checkout: Checkout, *arguments: str) -> list[Commit]:
    """The commits that `git log` answers with, newest first; a child always stands before its parents."""
    options = ["-z", "--topo-order", "--no-show-signature", "--encoding=UTF-8", "--format=%H%n%P%n%B"]
    output = checkout.run(["-c", "log.showSignature=false", "log", *options, *arguments, "--"])
    records = output.stdout.decode("utf-8", "replace").split("\0")
    return [parse(record) for record in records if record.strip()]


def line_from(checkout: Checkout, oldest: Iterable[str], head: str) -> list[Commit]:
    """Some commits and all that came to the branch since, newest first."""
    wanted = sorted(set(oldest))
    common = wanted[:1] if len(wanted) == 1 else _common(checkout, wanted)
    before = [parent for commit in common for parent in log(checkout, "-1", commit)[0].parents]
    return log(checkout, head, *(f"^{parent}" for parent in before))


def _common(checkout: Checkout, commits: Sequence[str]) -> list[str]:
    return checkout.text("merge-base", "--octopus", *commits, accept=(0, 1)).split()[:1]


def reverted_by(line: Sequence[Commit]) -> dict[str, str]:
    """For each commit that a later one reverts, that one; a revert that is reverted itself does not count.

    Args:
        line: Commits, newest first.
    """
    gone: dict[str, str] = {}
    for commit in line:
        if commit.id in gone:
            continue
        for named in commit.reverts:
            for other in line:
                if other.id.startswith(named) and other.id not in gone:
                    gone[other.id] = commit.id
    return gone


def differences(checkout: Checkout, commits: Sequence[Commit]) -> dict[str, Difference]:
    """What each commit changed; merges change nothing here."""
    wanted = [commit.id for commit in commits if not commit.is_merge]
    found = {commit.id: _difference([]) for commit in commits}
    if not wanted:
        return found
    asked = "".join(f"{commit}\n" for commit in wanted).encode()
    fields = checkout.run(["diff-tree", "--stdin", *_RAW], stdin=asked).stdout.split(b"\0")[:-1]
    entries: dict[str, list[bytes]] = {}
    at = 0
    current: list[bytes] = []
    while at < len(fields):
        if fields[at].startswith(b":"):
            current += fields[at : at + 2]
            at += 2
        else:
            current = entries.setdefault(fields[at].decode("ascii"), [])
            at += 1
    found.update({commit: _difference(listed) for commit, listed in entries.items()})
    return found


def _difference(fields: Sequence[bytes]) -> Difference:
    raw = b"".join(field + b"\0" for field in fields)
    paths = [os.fsdecode(path) for path in fields[1::2]]
    text = None
    if len(paths) == 1:
        blob_after = fields[0].split(b" ")[3].decode("ascii")
        text = f"{blob_after}:{paths[0]}" if blob_after.strip("0") else None
    return Difference(frozenset(paths), hashlib.sha256(raw).hexdigest(), text)
