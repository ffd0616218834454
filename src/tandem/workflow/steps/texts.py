"""The steps whose content is a document: a plan, a context, a verification."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tandem.errors import InvalidInput
from tandem.git import Repository
from tandem.workflow.steps import tasks
from tandem.workflow.steps.documents import FOLDER, Identity, front_matter, identify, newest
from tandem.workflow.steps.orders import Order
from tandem.workflow.steps.situation import Situation
from tandem.workflow.steps.subjects import Subject

PASSED, FAILED = "passed", "failed"
_PASSED = frozenset({"passed", "pass", "complete", "completed", "verified"})
# A complete UAT.md is one whose tests all have a result, whatever the results are.
_ISSUES = re.compile(r"^issues:[ \t]*[1-9]", re.MULTILINE)
_FAILED = frozenset({"failed", "fail", "gaps_found", "diagnosed", "issues_found"})


@dataclass(frozen=True, slots=True)
class Document:
    """A document that is to be put up.

    Attributes:
        file: Where it is, or is to be.
        text: What it says.
        is_draft: Whether the text is not in the file yet.
    """

    file: Path
    text: str
    is_draft: bool


def planning_dirs(situation: Situation) -> list[Path]:
    """Where this working tree's documents are, then the main one's: a linked tree may lack an ignored `.planning`."""
    workstream = situation.planning.workstream
    inner = [Path("workstreams", workstream)] if workstream else []
    folders = [root / FOLDER / part for root in (situation.root, situation.main_root) for part in (*inner, Path())]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def read(situation: Situation, step: str, file: Path | None, draft: bytes | None) -> Document:
    """The document that a step is about.

    Args:
        situation: Where the command runs.
        step: `plan`, `context` or `verification`.
        file: The file that was named; by default the newest of its kind.
        draft: What the file is to hold, when that is not in it yet.

    Raises:
        InvalidInput: There is no such file, or it is not UTF-8.
    """
    if file is None:
        file = newest(step, planning_dirs(situation) or [situation.root / FOLDER])
    file = _absolute(situation, file)
    try:
        present = file.read_bytes() if draft is None or file.is_file() else None
        content = present if draft is None else draft
        text = (content or b"").decode()
    except OSError as error:
        words = f"{file} cannot be read: {error.strerror}. Name the file to review."
        raise InvalidInput(words, field="file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file.name} is not UTF-8; write it as UTF-8 text.", field="file") from error
    return Document(file, text, is_draft=draft is not None and draft != present)


def repository_of(situation: Situation, document: Document) -> Repository:
    """The working tree that a document is in: this one, else the main one.

    Raises:
        InvalidInput: It is in neither.
    """
    for root in dict.fromkeys((situation.root, situation.main_root)):
        if document.file.is_relative_to(root.resolve()):
            return Repository(root)
    raise InvalidInput(
        f"{document.file} is not in the repository at {situation.root}; name a file of it.", field="file"
    )


def subject(situation: Situation, repository: Repository, order: Order, document: Document) -> Subject:
    """What is put up for a document."""
    path = document.file.relative_to(repository.root.resolve()).as_posix()
    identity = order.identity.over(identify(document.file, document.text))
    content = repository.text_change(path, document.text)
    change = content.changes[0]
    return Subject(
        step=order.step,
        identity=identity,
        intent=_intent(order.step, identity, document),
        description=document.text,
        changes=content.changes,
        digest=content.digest or "",
        command=order.command,
        accept_command=order.accept_command,
        path=path,
        branch=situation.branch,
        is_draft=document.is_draft,
        is_committed=not document.is_draft and change.blob_before == change.blob_after,
    )


def claimed(subject: Subject, result: str) -> Subject:
    """The same, with whether the work passed: an approval is then of that as well."""
    metadata = {"result": result}
    return replace(subject, claim=result, metadata=metadata, intent=f"{subject.intent}: {result}")


def missing_path(situation: Situation, file: Path) -> str | None:
    """The path from the root of a document that is not in its file yet; null if it is, or is not in the repository."""
    file = _absolute(situation, file)
    root = situation.root.resolve()
    return file.relative_to(root).as_posix() if file.is_relative_to(root) and not file.exists() else None


def _absolute(situation: Situation, file: Path) -> Path:
    """The file's own name is kept: a link is refused by the broker, not followed here."""
    file = situation.folder / file.expanduser()
    return file.parent.resolve() / file.name


def claim(document: Document, stated: str | None) -> str:
    """Whether a verification says that the work passed.

    Raises:
        InvalidInput: Neither the caller nor the document's head says it.
    """
    if stated is not None:
        return stated
    status = front_matter(document.text).get("status", "").casefold()
    if status in _FAILED or (status in _PASSED and _ISSUES.search(document.text)):
        return FAILED
    if status in _PASSED:
        return PASSED
    raise InvalidInput(
        f"{document.file.name} does not say in its head whether the work passed (status: {status or 'none'}); "
        "say it: --passed or --failed",
        field="result",
    )


def _intent(step: str, identity: Identity, document: Document) -> str:
    subject = identity.words or document.file.name
    if step == "plan":
        goal = tasks.objective(document.text)
        return f"{subject[:1].upper()}{subject[1:]}" + (f": {goal[:200]}" if goal else "")
    return f"{'Context' if step == 'context' else 'Verification'} of {subject}"
