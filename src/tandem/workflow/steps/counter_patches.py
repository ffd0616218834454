"""Bringing the working tree from what was put up to the counter-patch that was accepted instead."""

from __future__ import annotations

import secrets
from pathlib import Path, PurePosixPath

from tandem.bridge.scratch import ScratchFolder
from tandem.domain.answers import CounterPatchView, Proposal
from tandem.errors import InvalidInput, NoCounterPatch
from tandem.git import Repository, Scope
from tandem.git.layout import Layout, layout_at
from tandem.git.runner import Git


def pending(proposal: Proposal) -> CounterPatchView:
    """The counter-patch that can be accepted.

    Raises:
        NoCounterPatch: None waits for a decision.
    """
    found = proposal.counter_patch
    if found is None or found.status != "pending":
        raise NoCounterPatch(
            f"{proposal.review_id} has no counter-patch to accept; run the command again without --accept.",
            review_id=proposal.review_id,
        )
    return found


def bring(repository: Repository, proposal: Proposal, patch: CounterPatchView) -> tuple[str, ...]:
    """Bring the files that a round touches from its content to the counter-patch's, or change nothing.

    What `tandem apply` does from a base to an approved content, done from one content to the other.

    Returns:
        The files that were written or deleted.

    Raises:
        InvalidInput: A file is neither as the round has it nor as the counter-patch does.
    """
    if proposal.path is not None:
        return _bring_text(repository, proposal.path, proposal.description or "", patch.description or "")
    git = Git()
    layout = layout_at(git, repository.root)
    base = proposal.base_commit or proposal.base or "HEAD"
    trees = [_tree(git, layout, base, diff or "") for diff in (proposal.diff, patch.diff)]
    way = repository.working_diff(Scope(revision="..".join(trees)))
    if not way.diff:
        return ()
    update = repository.apply_to_worktree(way.diff, way.base)
    return (*update.written, *update.deleted)


def _tree(git: Git, layout: Layout, base: str, diff: str) -> str:
    """The tree that a diff makes of its base, kept in the repository as `git stash` would, for git to tidy up."""
    with ScratchFolder("steps") as folder:
        environment = {**layout.environment(), "GIT_INDEX_FILE": str(Path(folder, "index"))}

        def run(*arguments: str, stdin: bytes = b"") -> str:
            output = git.run(arguments, cwd=layout.root, environment=environment, stdin=stdin)
            return output.stdout.decode("ascii", "replace").strip()

        run("read-tree", base)
        if diff:
            run("apply", "--cached", "--whitespace=nowarn", "-", stdin=diff.encode())
        return run("write-tree")


def _bring_text(repository: Repository, path: str, before: str, after: str) -> tuple[str, ...]:
    """Replace a whole file, unless it is another one by now."""
    file = repository.root.joinpath(*PurePosixPath(path).parts)
    if file.is_symlink() or not file.is_file():
        raise InvalidInput(f"{path} is no file any more; write it, then run the command again.", field="worktree")
    present = file.read_bytes()
    if present == after.encode():
        return ()
    if present != before.encode():
        raise InvalidInput(
            f"{path} has changed since it was put up, so that the counter-patch does not fit; nothing was written. "
            "Undo that change, or put it up by running the command without --accept.",
            field="worktree",
            paths=[path],
        )
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        temporary.write_bytes(after.encode())
        temporary.chmod(file.stat().st_mode)
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", field="worktree") from error
    return (path,)
