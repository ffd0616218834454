"""The files that a reviewer's program reads: the round itself, laid out in a folder of ours.

The project's own folder may be on another branch, behind, or in the middle of a merge, and has private
files. It is read only where there is no repository, or none that can be read from here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tandem.bridge.location import targets
from tandem.bridge.tls import ca_file
from tandem.core.atomic_dirs import turn
from tandem.core.scratch import remove_tree
from tandem.errors import TandemError
from tandem.git.base_files import parse
from tandem.git.mirror import MirrorFolder
from tandem.git.repository import Repository
from tandem.git.reviewed_tree import ReviewedTree, RoundContent
from tandem.git.runner import Git, Limits
from tandem.pool.reviewers import ELSEWHERE, RunContext
from tandem.pool.reviewers.broker_client import BrokerUnreachable, Claimed
from tandem.pool.reviewers.providers import clean_room

_TREE, _INDEX = "tree", "index"
_LIMIT_BYTES = 50_000_000
"""Of what a change makes of files that came from a broker."""
_MOST_BYTES = 2**40
"""Of a mirror: the broker has limited its own."""
_HAS_NONE = "' not found"
"""What git says of an address that is answered so."""
MIRRORS = "mirrors"
"""Beside the reviewers' own folders: the mirrors that they fetch from their brokers."""
_SECONDS = 600.0
"""How long git may take for a folder; the first one takes as long as a checkout."""

_IS_THE_ROUND = (
    "It holds exactly what this round comes to, in a git repository made for this review: `HEAD` is the change as one "
    "commit on its ground, which `ground` of the facts names. git show, log, blame and grep work there, with "
    "the project's history; nothing that is not committed is in it, and a symbolic link is a file with its text."
)
_IS_ITS_BASE = (
    "It holds exactly what this round stands on, in a git repository made for this review, with the project's history; "
    "nothing that is not committed is in it."
)
_IS_ON_ITS_BASE = (
    " It could not be merged with the tip of the base branch ({why}): the files that the change leaves alone may be "
    "older than that."
)
_IS_HEAD = (
    "There are no files of this round: {why} It holds the newest commit of the project's own branch instead, in a git "
    "repository made for this review. The proposal may be meant for another commit: say so where that matters."
)
_IS_WHAT_IS_TOUCHED = (
    "It holds only the files that this round touches, as they are with the change, in a git repository made for this "
    "review: `HEAD` is the change as one commit on those files at its base. The project is on another machine. All "
    "its other files, and its history, are missing here: that a file is not here does not mean that the project lacks "
    "it. Say so where a verdict would depend on a missing file."
)
_IS_NOTHING = (
    "It is empty. There are no files of this round: {why} The project itself is on another machine. Review the content "
    "of this prompt, and say so where a verdict would depend on a missing file."
)
_IS_THE_PROJECTS = (
    "There are no files of this round: {why} It is the project's own folder as it happens to be, on any branch, "
    "with or without the change."
)
_NO_BASE = "it names no commit that it was made against."


@dataclass(frozen=True, slots=True)
class RoundFolder:
    """The folder of a claimed round, which its program reads.

    Attributes:
        context: With the project's folder as its workspace.
        claimed: The review.
        scratch: The reviewer's own folder; the tree that the last round left in it is used again.
        note: Is told of problems.
        base_files: Gets the answer of `get_base_files`, where the project is on another machine.
        whole: Gets a repository that has a commit, where the broker has a mirror of it; else None.
    """

    context: RunContext
    claimed: Claimed
    scratch: Path
    note: Callable[[str], None]
    base_files: Callable[[], dict[str, Any]]
    whole: Callable[[str], Path | None] = lambda _: None

    def lay_out(self) -> tuple[RunContext, str]:
        """The context of a run whose workspace is the round's own folder, and what to say of that folder."""
        context, content = self.context, _content(self.claimed.proposal)
        if context.workspace == ELSEWHERE:
            folder = None
            if content is not None and context.wsl_distro is None:
                folder = self._mirrored(content.base)
                if folder is not None and (tip := _tip(self.claimed.proposal)) is not None:
                    self._mirrored(tip)
            if folder is None:
                return self._of_touched(content)
            context = replace(context, workspace=str(folder))
        if context.wsl_distro is not None:
            return context, _IS_THE_PROJECTS.format(why="they cannot be made inside WSL.")
        try:
            repository = Repository.discover(Path(context.workspace), Git(timeout_seconds=_SECONDS))
        except TandemError as error:
            return context, _IS_THE_PROJECTS.format(why=f"its folder is read without git ({error.code}).")
        with repository:
            tree, words = self._of_round(repository, content)
            return _within(context, tree), words

    def _of_round(self, repository: Repository, content: RoundContent | None) -> tuple[ReviewedTree, str]:
        """The round on its merged ground, else on its base, else the newest commit; and what to say of it."""
        why, remark = _NO_BASE, ""
        for tip in dict.fromkeys((_tip(self.claimed.proposal), None)) if content is not None else ():
            try:
                tree = self._laid_out(repository, content or RoundContent("HEAD"), tip)
            except TandemError as error:
                on = "its base" if tip is None else "the base branch"
                self._note(f"there are no files of it on {on}: {error.code}: {error.message}")
                why, remark = f"they cannot be made here ({error.code}).", _IS_ON_ITS_BASE.format(why=error.code)
            else:
                return tree, (_IS_THE_ROUND if tree.base is not None else _IS_ITS_BASE) + remark
        return self._laid_out(repository, RoundContent("HEAD")), _IS_HEAD.format(why=why)

    def _of_touched(self, content: RoundContent | None) -> tuple[RunContext, str]:
        """The round's folder with the touched files alone."""
        why = _NO_BASE
        if content is not None:
            try:
                found = self.base_files()
                bases = {found["base"]: parse(found["files"])}
                with Repository.of_files(bases, Git("git", _SECONDS, Limits(_LIMIT_BYTES))) as repository:
                    tree = self._laid_out(repository, content)
            except (TandemError, BrokerUnreachable) as error:
                code = error.code if isinstance(error, TandemError) else type(error).__name__
                self._note(f"there are no files of it: {code}: {error}")
                why = f"they cannot be made here ({code})."
            else:
                return replace(self.context, workspace=str(tree.folder)), _IS_WHAT_IS_TOUCHED
        remove_laid_out(self.scratch)
        (self.scratch / _TREE).mkdir(mode=0o700)
        return replace(self.context, workspace=str(self.scratch / _TREE)), _IS_NOTHING.format(why=why)

    def _mirrored(self, commit: str) -> Path | None:
        try:
            return self.whole(commit)
        except (TandemError, OSError) as error:
            self._note(f"it is read without the project's other files: {error}")
            return None

    def _laid_out(self, repository: Repository, content: RoundContent, tip: str | None = None) -> ReviewedTree:
        title = f"Round {self.claimed.round} of {self.claimed.review_id}"
        return repository.lay_out(content, self.scratch / _TREE, title, self.scratch / _INDEX, tip=tip)

    def _note(self, problem: str) -> None:
        self.note(f"review {self.claimed.review_id}: {problem}")


def copy_for_agent(context: RunContext, place: str, note: Callable[[str], None]) -> RunContext:
    """The context of an agent that reads a copy of the project's newest commit; nothing where there is none.

    Args:
        context: With the project's folder as its workspace.
        place: Where the copy lies, below the scratch folder.
        note: Is told what did not work.

    Raises:
        OSError: The folder cannot be made.
    """
    folder = Path(context.scratch, place)
    folder.mkdir(mode=0o700, parents=True)
    if context.workspace != ELSEWHERE and context.wsl_distro is None:
        try:
            with Repository.discover(Path(context.workspace), Git(timeout_seconds=_SECONDS)) as repository:
                return _within(context, repository.lay_out(RoundContent("HEAD"), folder, "The project"))
        except TandemError as error:
            note(f"there is no copy of the project: {error.code}: {error.message}")
    return replace(context, workspace=clean_room.path(context, place))


def from_broker(broker: str, project: str, access: str | None, folder: Path, base: str) -> Path | None:
    """A repository with a commit and its history, fetched from the broker's mirror; None where it has none.

    Args:
        broker: The broker's URL, or several.
        project: The project.
        access: The token that the broker lets the reviewer in with.
        folder: Where this machine's reviewers keep their mirrors.
        base: The id of the commit.

    Raises:
        TandemError: There is a mirror, and it cannot be fetched.
        OSError: The folder cannot be written.
    """
    extra = {"GIT_ALLOW_PROTOCOL": "http:https"}
    if access is not None:
        # In the environment: the arguments of a process are for all to see.
        extra |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader"}
        extra["GIT_CONFIG_VALUE_0"] = f"Authorization: Bearer {access}"
    if authority := ca_file():
        extra["GIT_SSL_CAINFO"] = authority
    here = folder / hashlib.sha256(f"{broker} {project}".encode()).hexdigest()[:16]
    problem: TandemError | None = None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with turn(here.with_suffix(".lock"), _SECONDS):
        for target in targets(broker):
            url = f"{target.url}/git/{quote(project, safe='')}"
            mirror = MirrorFolder(here, url, "git", timeout_seconds=_SECONDS, limit_bytes=_MOST_BYTES)
            try:
                if not mirror.has(base):
                    mirror.fetch(extra, base)
            except TandemError as error:
                problem = error
            else:
                return here
    if problem is None or _HAS_NONE in str(problem.details.get("git")):
        return None
    raise problem


def remove_laid_out(scratch: Path) -> None:
    """Removes the folder of the last round: a reviewer may outlive the supervisor that would remove it."""
    remove_tree(str(scratch / _TREE))


def _within(context: RunContext, tree: ReviewedTree) -> RunContext:
    objects = tuple(map(str, tree.objects))
    return replace(context, workspace=str(tree.folder), project_folder=context.workspace, objects=objects)


def _tip(proposal: dict[str, Any]) -> str | None:
    """What the round is merged with: the tip of its base branch by now; None if that is unknown."""
    ground: dict[str, Any] = proposal.get("ground") or {}
    return ground.get("moved_to") or ground.get("tip")


def _content(proposal: dict[str, Any]) -> RoundContent | None:
    base = proposal.get("base_commit")
    if base is None:
        return None
    diff = proposal.get("diff")
    return RoundContent(base, proposal.get("digest"), diff, proposal.get("path"), proposal.get("description"))
