"""A repository as a hook sees it: where HEAD is, what is staged, what changed between commits.

What git tells its hooks of the index and of objects that are still in quarantine is kept; every other `GIT_*`
variable is not, as whoever commits can set it.
"""

from __future__ import annotations

import os

from tandem.errors import Unavailable
from tandem.git import raw
from tandem.git.runner import Git, clean_environment

TYPE_CHECKING = False  # every commit waits for what is imported here, and `typing` takes a third of a start
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tandem.git.runner import Output
    from tandem.hooks.state import HookRepository

Change = dict[str, str]
"""One entry of a raw difference, as `check_gate` takes it."""

_GIT = Git(timeout_seconds=30.0)
_KEPT = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH")
_HEX = "0123456789abcdef"
_ID_LENGTHS = (40, 64)
_SYMBOLIC = "ref: "
_REFTABLE = "refs/heads/.invalid"
_HEADS = "refs/heads/"


def run(
    place: HookRepository,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    accept: Sequence[int] = (0,),
    extra: Mapping[str, str] | None = None,
) -> Output:
    """Run git in a repository.

    Args:
        place: The repository.
        arguments: What follows `git`.
        stdin: What it reads.
        accept: The exit statuses that are answers.
        extra: Variables to add, such as another `GIT_INDEX_FILE`.

    Raises:
        TandemError: Git is missing, hangs, or ended with another status.
    """
    command = ["-C", place.top or place.git_dir, *arguments]
    variables = {**environment(place), **(extra or {})}
    return _GIT.run(command, environment=variables, stdin=stdin, accept=accept)


def interactively(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run git as the person would, with their terminal, for as long as it takes; answers with its exit status.

    Args:
        arguments: What follows `git`.
        environment: The whole environment.
    """
    import subprocess  # the hooks do without it

    return subprocess.run(["git", *arguments], env=dict(environment), check=False).returncode


def environment(place: HookRepository) -> dict[str, str]:
    """The environment for git in this repository."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if os.environ.get("GIT_INDEX_FILE"):
        # Git names the index by a path from where the hook was started.
        kept["GIT_INDEX_FILE"] = os.path.abspath(os.environ["GIT_INDEX_FILE"])
    where = {"GIT_DIR": place.git_dir} | ({"GIT_WORK_TREE": place.top} if place.top else {})
    # Like replacements, grafts lie about parents.
    return clean_environment({"GIT_GRAFT_FILE": os.devnull, **kept, **where}, isolated=False)


def head_ref(place: HookRepository) -> str | None:
    """The ref that HEAD stands for, e.g. `refs/heads/main`; null if it is detached.

    Raises:
        TandemError: It cannot be found out.
    """
    try:
        with open(os.path.join(place.git_dir, "HEAD"), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read().strip()
    except OSError as error:
        raise Unavailable(f"HEAD cannot be read: {error.strerror}") from error
    if text.startswith(_SYMBOLIC) and text.removeprefix(_SYMBOLIC) != _REFTABLE:
        return text.removeprefix(_SYMBOLIC)
    return run(place, ["symbolic-ref", "--quiet", "HEAD"], accept=(0, 1)).text or None


def branch(place: HookRepository) -> str | None:
    """The branch that is checked out, or the one that is being rebased; null if HEAD is detached.

    Raises:
        TandemError: It cannot be found out.
    """
    ref = head_ref(place) or rebased(place)
    return ref.removeprefix(_HEADS) if ref is not None and ref.startswith(_HEADS) else None


def rebased(place: HookRepository) -> str | None:
    """The ref that will move when the rebase ends that is going on; null if none is."""
    for folder in ("rebase-merge", "rebase-apply"):
        try:
            with open(
                os.path.join(place.git_dir, folder, "head-name"), encoding="utf-8", errors="surrogateescape"
            ) as file:
                return file.read().strip()
        except OSError:
            continue
    return None


def head(place: HookRepository) -> str | None:
    """The id of the commit that HEAD stands for; null before the first commit.

    Raises:
        TandemError: It cannot be found out.
    """
    ref = head_ref(place)
    # Nearly always it is in a file, and a start of git is a tenth of what a hook takes.
    path = os.path.join(place.common_dir, ref) if ref else os.path.join(place.git_dir, "HEAD")
    try:
        with open(path, encoding="ascii") as file:
            oid = file.read().strip()
    except (OSError, ValueError):
        oid = ""
    return oid if len(oid) in _ID_LENGTHS and not oid.strip(_HEX) else resolve(place, "HEAD")


def resolve(place: HookRepository, revision: str, kind: str = "commit") -> str | None:
    """The id of what a revision names, followed to the kind (`commit` or `tree`); null if there is none such."""
    named = f"{revision}^{{{kind}}}"
    return run(place, ["rev-parse", "--quiet", "--verify", "--end-of-options", named], accept=(0, 1, 128)).text or None


def empty_tree(place: HookRepository) -> str:
    """The id of the tree without entries, by the repository's own hash."""
    return run(place, ["hash-object", "-t", "tree", "--stdin"]).text


def staged(place: HookRepository, base: str) -> list[Change]:
    """What a commit of the index would change against a commit or tree.

    Raises:
        TandemError: There is no such base, or a path is not UTF-8.
    """
    return changes_in(run(place, ["diff-index", "--cached", *raw.RAW_OPTIONS, base, "--"]).stdout)


def between(place: HookRepository, before: str, after: str) -> list[Change]:
    """What changed from one commit or tree to another.

    Raises:
        TandemError: One of them is not there, or a path is not UTF-8.
    """
    return changes_in(run(place, ["diff-tree", "-r", *raw.TREE_OPTIONS, before, after, "--"]).stdout)


def changes_in(data: bytes) -> list[Change]:
    """The entries in git's own raw output, in its order.

    Raises:
        InvalidInput: A path is unmerged or not UTF-8, so that no approval can name it.
    """
    return [dict(zip(raw.FIELDS, entry, strict=True)) for entry in raw.parse_raw(data)]
