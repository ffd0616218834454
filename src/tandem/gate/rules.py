"""The records of gates: switches, overrides, recorded commits, and changes that were rolled back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from tandem.rulings.state import REVIEWED


class Gate(NamedTuple):
    """The switch of one project. Field order is the column order of its table.

    JSON lists: `branches` are the base branches; `accepted` the commits that are taken as they are, with their
    ancestors; `folders` the git folders where it is on; `trusted` the contents of settings that a person trusts, as
    SHA-256 and file; `signers` whose brokers' signatures count, each as `NAME=KEY`. Times are microseconds
    since the epoch, UTC.
    """

    project: str
    enabled: int
    branches: str
    accepted: str
    reason: str | None
    switched_at: int
    switched_by: str
    event_seq: int = 0
    event_hash: str = ""
    folders: str | None = None
    trusted: str | None = None
    signers: str | None = None
    commits: str | None = None
    """How commits on other branches are treated; None is `reviewed`."""
    threshold: str | None = None
    """The severity from which on an open finding keeps an approval back; None is the usual one."""

    @property
    def subject(self) -> str:
        """The subject of its events."""
        return f"gate:{self.project}"


class Override(NamedTuple):
    """One difference that a person let through. Field order is the column order of its table.

    `overridden_at` is when the person did it, `recorded_at` when the broker heard of it.
    """

    project: str
    id: str
    digest: str
    branch: str | None
    reason: str
    overridden_at: int
    overridden_by: str
    recorded_at: int
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """The subject of its event."""
        return f"override:{self.project}/{self.id}"


class CommitRow(NamedTuple):
    """One commit that a hook told of. Field order is the column order of its table.

    `review_ids` and `depends_on` are JSON lists; `inverse` is the digest of the change that reverts it, without
    exempt paths, and None if no change does (a merge, a commit that changes nothing).
    """

    project: str
    id: str
    parent: str | None
    branch: str | None
    phase: str | None
    plan: str | None
    task: str | None
    review_ids: str
    unreviewed: int
    depends_on: str
    replaces: str | None
    inverse: str | None
    recorded_at: int
    recorded_by: str
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """The subject of its event."""
        return f"commit:{self.project}/{self.id}"


LISTS = ("branches", "accepted", "folders", "trusted", "signers")
"""The JSON lists of a switch."""


def commits_of(gate: Gate | None) -> str:
    """How commits on branches that are no base branch are treated."""
    return (gate and gate.commits) or REVIEWED


def names(listed: str | None) -> list[str]:
    """One of the JSON lists of a row; empty if there is none."""
    return orjson.loads(listed or "[]")


def names_of(gate: Gate | None, which: str) -> list[str]:
    """One of the `LISTS` of a switch; empty where there is none."""
    return names(getattr(gate, which, None))


def as_list(items: Iterable[object]) -> str:
    """A JSON list of a row, each item once."""
    return orjson.dumps(list(dict.fromkeys(items))).decode()


def commit_reviews_of(commit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that follow from a recorded commit: one for each review that it names."""
    shared = {"project": commit["project"], "commit_id": commit["id"], "plan": commit["plan"]}
    return [{**shared, "review_id": review} for review in dict.fromkeys(orjson.loads(commit["review_ids"]))]
