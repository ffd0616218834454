"""The change that a command reads of the repository, from the working tree, commits or a file; `tandem gate check`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tandem.cli.calls import Inputs, present
from tandem.cli.connection_options import ConnectionOptions, need_project, need_worktree
from tandem.cli.declared import Misused, Option, without
from tandem.cli.terminal import Exit, progress
from tandem.errors import InvalidInput, TandemError
from tandem.git.place import HookRepository
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.rulings import git, state
from tandem.rulings.planning import base_branch

_USUAL_BASES = ("main", "master")
"""Without a gate, which names the base branches."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a change comes from; at most one of these, none for the working tree.

    Attributes:
        staged: What the index holds.
        commit: What one commit changed.
        range: What changed between two commits.
        text: One file, whole.
    """

    staged: Annotated[bool, Option(help="What the index holds.")] = False
    commit: Annotated[str | None, Option(metavar="REV", help="What one commit changed.")] = None
    range: Annotated[str | None, Option(metavar="A..B", help="What changed between two commits, as one change.")] = None
    text: Annotated[Path | None, Option(metavar="FILE", help="One file, whole: a plan, a context, a report.")] = None

    def __post_init__(self) -> None:
        if sum((self.staged, self.commit is not None, self.range is not None, self.text is not None)) > 1:
            raise Misused("Choose one of --staged, --commit, --range and --text.")
        if self.range is not None and ".." not in self.range:
            raise Misused("Write it as A..B.", "--range")
        if self.commit is not None and ".." in self.commit:
            raise Misused("This is a range; use --range.", "--commit")

    @property
    def is_default(self) -> bool:
        """Whether nothing was chosen."""
        return self == Source()


def here() -> Repository:
    """The repository that the command runs in.

    Raises:
        InvalidInput: It runs in none, or in a git folder.
    """
    need_worktree()
    return Repository.discover(Path.cwd())


def base_and_branch(place: HookRepository, name: str | None) -> tuple[str, str]:
    """The base branch that a branch comes from, and its own name.

    Raises:
        InvalidInput: It is no branch, or a base branch, or there is no base branch here.
    """
    branch = name or git.branch(place)
    if branch is None or git.resolve(place, git.HEADS + branch) is None:
        said = f"'{name}' is no branch here." if name else "No branch is checked out here."
        raise InvalidInput(f"{said} Name one behind --branch.", field="branch")
    gate = state.find(place)
    names = gate.branches if gate is not None and gate.enabled else _USUAL_BASES
    if branch in names:
        raise InvalidInput(
            f"{branch} is a base branch: others are submitted against it. Switch to your branch, or name it behind"
            " --branch.",
            field="branch",
        )
    bases = [one for known in names for one in (known, f"origin/{known}") if git.resolve(place, one) is not None]
    if not bases:
        raise InvalidInput(
            f"None of the base branches is here: {', '.join(names)}. Fetch one, or name the commits with --range.",
            field="branch",
        )

    def beside(base: str) -> int:
        return int(git.run(place, ["rev-list", "--count", f"{base}..{branch}", "--"]).text)

    return min(bases, key=beside), branch


def content(repository: Repository, source: Source, warn: Callable[[str], None]) -> dict[str, Any]:
    """The fields of `create_review` that hold the content.

    Raises:
        InvalidInput: There is nothing to submit, or the file cannot be.
    """
    if source.text is not None:
        return text_content(repository, source.text)
    found = repository.working_diff(Scope(staged=source.staged, revision=source.commit or source.range))
    for one in found.left_out:
        warn(f"left out: {one}")
    if not found.diff:
        raise InvalidInput(f"Nothing to submit: {_emptiness(source)}.", field="diff", base=found.base)
    return {"diff": found.diff, "base": found.base}


def text_content(repository: Repository, file: Path) -> dict[str, Any]:
    """A file as a text with its path from the repository's root.

    Raises:
        InvalidInput: It cannot be read, is not UTF-8, or is not in this repository.
    """
    # The file's own name is kept: a link is refused by the broker, not followed here.
    absolute = file.expanduser().parent.resolve() / file.name
    root = repository.root.resolve()
    if not absolute.is_relative_to(root):
        raise InvalidInput(f"{file} is not in the repository at {root}.", field="text")
    repository.layout.ensure_outside([absolute.relative_to(root).as_posix()])
    try:
        text = absolute.read_bytes().decode()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.", field="text") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{file} is not UTF-8; submit it as a change to files, without --text.", field="text"
        ) from error
    return {"path": absolute.relative_to(root).as_posix(), "description": text}


def _changes(source: Source) -> list[dict[str, Any]]:
    """The raw changes that a gate is asked about: of a commit or a range of this repository, else of its index.

    Raises:
        InvalidInput: A revision names nothing, or the command runs in no repository.
    """
    target, base = None, None
    with here() as repository:
        if source.commit is not None or source.range is not None:
            base = repository.working_diff(Scope(revision=source.commit or source.range)).base
            target = source.commit or re.split(r"\.\.\.?", source.range or "", maxsplit=1)[-1] or "HEAD"
        return [change._asdict() for change in repository.raw_changes(base, target)]


def _emptiness(source: Source) -> str:
    if source.staged:
        return "the index equals HEAD; git add what you want reviewed"
    if source.commit or source.range:
        return f"{source.commit or source.range} changes nothing"
    return "the working tree equals HEAD; submit earlier commits with --commit or --range"


@without("text")
def check(
    *,
    source: Source,
    digest: Annotated[str | None, Option(help="A round's digest instead of content.")] = None,
    changes: Annotated[
        str | None, Option(metavar="JSON", help="Raw changes: JSON, @FILE or - for standard input.")
    ] = None,
    options: ConnectionOptions,
) -> Exit:
    """Ask whether every change is approved, to the byte: by default the staged ones. Exit status 0 if so, else 1."""
    if sum((digest is not None, changes is not None, not source.is_default)) > 1:
        raise Misused("Choose one of --staged, --commit, --range, --digest and --changes.")
    read = None if changes is None else Inputs().json("--changes", changes)
    with options.session() as session, progress("checking"):
        asked: dict[str, Any] = {"project": need_project(session, options)}
        if digest is not None:
            asked["digest"] = digest
        elif changes is not None:
            asked["changes"] = read
        else:
            asked |= {"branch": _base_branch(), "changes": _changes(source)}
        envelope = session.call("check_gate", asked)
    status = present(envelope, "check_gate", as_json=options.as_json)
    if status is Exit.DONE and not json.loads(envelope)["data"]["allowed"]:
        return Exit.REFUSED
    return status


def _base_branch() -> str | None:
    """The base branch that is checked out here: a commit would be one to that."""
    with suppress(TandemError):
        gate = state.find_enabled(".")
        return None if gate is None else base_branch(gate, git.branch(gate.place))
    return None
