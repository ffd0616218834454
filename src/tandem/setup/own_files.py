"""The approval of what `tandem init` wrote: exactly those bytes, so that nobody overrides their own gate for them.

It is a review like any other, put up for `tandem init` and approved by the person who ran it. A file is in it only if
HEAD's content with nothing but init's edits is what stands there now; whatever else anybody wrote is not approved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.errors import TandemError
from tandem.git.hunks import only_files
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.reviews.rules import INIT
from tandem.rulings import git
from tandem.rulings.person import agent_mark
from tandem.rulings.state import HookRepository
from tandem.setup.edits.changes import edited
from tandem.setup.edits.edit import Edit, content_of, located
from tandem.setup.registration import Call

_INTENT: Final = "What tandem init wrote: the server, permissions, instructions and commands of the agents' clients."


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Files that init wrote and that are not committed yet.

    Attributes:
        paths: From the top of the working tree; what git ignores is none of them.
        review_id: The review that approves them, just made; null where none was needed, or none could be made.
        remark: Why they are not approved; empty if they are.
    """

    paths: tuple[str, ...] = ()
    review_id: str | None = None
    remark: str = ""


async def approve(
    call: Call, place: HookRepository, project: str, person: str, wanted: Sequence[Edit], former: Sequence[Edit]
) -> OwnFiles:
    """Approve what `wanted` made of HEAD's files, unless that is approved already.

    Args:
        call: Calls the broker.
        place: The repository.
        project: The project.
        person: Who ran init.
        wanted: Every edit of init's in the working tree.
        former: Edits of an older version, which init took out.
    """
    root = Path(place.top or place.git_dir)
    own = tuple(_exactly_ours(place, root, wanted, former))
    with Repository.discover(root) as repository:
        found = repository.working_diff(Scope(new_files=own))
        diff = only_files(found.diff, own)
        content = repository.validate_diff(diff, found.base) if diff else None
    if content is None:
        return OwnFiles()
    paths = tuple(change.path for change in content.changes)
    if not set(paths) <= set(own):
        return OwnFiles(paths, remark=_not_approved("other files were renamed to them"))
    if (await call("check_gate", {"project": project, "digest": content.digest}))["allowed"]:
        return OwnFiles(paths)
    if (mark := agent_mark()) is not None:
        return OwnFiles(paths, remark=_not_approved(f"an agent ran this command ({mark} is set)"))
    review: dict[str, str] = {}
    try:
        stated = {"project": project, "intent": _INTENT, "agent_type": "tandem-init", "proposer_id": INIT}
        review = {"review_id": (await call("create_review", {**stated, "diff": diff, "base": found.base}))["review_id"]}
        claim = await call("claim_review", {**review, "reviewer_id": person})
        decided = {"verdict": "approved", "claim_generation": claim["claim_generation"], "reviewer_id": person}
        await call("submit_verdict", {**review, **decided, "reason": "tandem init wrote it, and nobody else."})
        await call("close_review", review)
    except TandemError as error:
        with suppress(TandemError):
            if review:
                await call("close_review", review)
        return OwnFiles(paths, remark=_not_approved(error.message))
    return OwnFiles(paths, review["review_id"])


def _not_approved(why: str) -> str:
    return (
        f"What init wrote is not approved: {why}. Submit it: git add FILES, then tandem submit --staged --wait"
        " -m 'Set up Tandem'."
    )


def _exactly_ours(place: HookRepository, root: Path, wanted: Sequence[Edit], former: Sequence[Edit]) -> Iterable[str]:
    """The files that are HEAD's with our edits and nothing else."""
    by_path: dict[Path, list[Edit]] = {}
    for edit in wanted:
        by_path.setdefault(located(edit.path, root), []).append(edit)
    for path, edits in by_path.items():
        name = path.relative_to(root.resolve()).as_posix()
        gone = [edit for edit in former if located(edit.path, root) == path]
        before = _committed(place, name)
        after, _, _ = edited(path, before, None, edits, "init", gone)
        if _lines(after) == _lines(content_of(path)) != _lines(before):
            yield name


def _committed(place: HookRepository, name: str) -> bytes | None:
    """What HEAD has of a file; null if it has none."""
    found = git.run(place, ["cat-file", "blob", f"HEAD:{name}"], accept=(0, 128))
    return None if found.status_code else found.stdout


def _lines(content: bytes | None) -> bytes | None:
    # Git may have changed the line ends when the file was checked out.
    return None if content is None else content.replace(b"\r\n", b"\n")
