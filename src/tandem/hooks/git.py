"""Asking git, from a hook: argument lists only, a clean environment, a limit to time.

What git tells its hooks of the index and of objects that are still in quarantine is kept; every other `GIT_*`
variable is not, as whoever commits can set it.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # every commit waits for what is imported here, and `typing` takes a third of a start
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tandem.hooks.state import Place

TIMEOUT_SECONDS = 30.0
RAW_OPTIONS = ("--raw", "-z", "--no-renames", "--full-index", "--ignore-submodules=none", "--ita-invisible-in-index")
"""The options of the digest: none of the user's settings changes what they give."""

TREE_OPTIONS = tuple(option for option in RAW_OPTIONS if option != "--ita-invisible-in-index")
"""Those that hold without an index."""

Change = dict[str, str]
"""One entry of a raw difference, as `check_gate` takes it."""

_PIPE_BYTES = 4096
"""What a pipe takes at once, on every system."""
_CHUNK_BYTES = 65_536
_KILL = 9
_KEPT = ("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH")
_ALWAYS = {
    "LC_ALL": "C",
    # Like replacements, grafts lie about parents.
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
_HEX = "0123456789abcdef"
_ID_LENGTHS = (40, 64)
_ABSENT_MODE = "000000"
_SYMBOLIC = "ref: "
_REFTABLE = "refs/heads/.invalid"
_HEADS = "refs/heads/"


class GitTrouble(Exception):
    """Git did not answer, or not as it should; the hook then refuses."""


class Overdue(Exception):
    """A process did not end in time, and was ended."""


class Output:
    """What a finished git said.

    Attributes:
        status: Its exit status.
        stdout: Its output; git's paths and messages need not be text.
    """

    __slots__ = ("status", "stdout")

    def __init__(self, status: int, stdout: bytes) -> None:
        self.status = status
        self.stdout = stdout

    @property
    def text(self) -> str:
        """Its output as text, without the last line end."""
        return os.fsdecode(self.stdout).rstrip("\n")


def run(
    place: Place,
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
        GitTrouble: It is missing, hangs, or ended with another status.
    """
    command = ["git", "-C", place.top or place.git_dir, *arguments]
    variables = {**environment(place), **(extra or {})}
    try:
        status, stdout, stderr = finished(command, variables, stdin, TIMEOUT_SECONDS)
    except Overdue as error:
        raise GitTrouble(f"git {arguments[0]} did not end within {TIMEOUT_SECONDS:g} s") from error
    except OSError as error:
        raise GitTrouble(f"git cannot be started: {error.strerror}") from error
    if status not in accept:
        words = stderr.decode("utf-8", "replace").strip()
        raise GitTrouble(f"git {arguments[0]} failed: {words or f'exit status {status}'}")
    return Output(status, stdout)


def finished(
    command: list[str], environment: Mapping[str, str], stdin: bytes, timeout_seconds: float
) -> tuple[int, bytes, bytes]:
    """Run a program to its end; exit status (negative: a signal's number), standard output, standard error.

    By `posix_spawn` where that is simple: `subprocess` takes longer to import than git to answer.

    Raises:
        OSError: It cannot be started.
        Overdue: The time was up.
    """
    if not hasattr(os, "posix_spawnp") or len(stdin) > _PIPE_BYTES:
        import subprocess

        try:
            done = subprocess.run(
                command, env=environment, input=stdin, capture_output=True, check=False, timeout=timeout_seconds
            )
        except subprocess.TimeoutExpired as error:
            raise Overdue from error
        return done.returncode, done.stdout, done.stderr
    pipes = [os.pipe() for _ in range(3)]
    (theirs_in, ours_in), (ours_out, theirs_out), (ours_words, theirs_words) = pipes
    try:
        os.write(ours_in, stdin)
        theirs = (theirs_in, theirs_out, theirs_words)
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
        pid = os.posix_spawnp(command[0], command, environment, file_actions=actions)
        for end in (ours_in, *theirs):
            os.close(end)
        pipes = [(ours_out, ours_words)]
        try:
            output, words = _read_both(ours_out, ours_words, time.monotonic() + timeout_seconds)
        except Overdue:
            os.kill(pid, _KILL)
            raise
        finally:
            _, status = os.waitpid(pid, 0)
    finally:
        for pair in pipes:
            for end in pair:
                os.close(end)
    return os.waitstatus_to_exitcode(status), output, words


def _read_both(one: int, other: int, deadline: float) -> tuple[bytes, bytes]:
    """What is written into two pipes until both are closed."""
    import select

    read: dict[int, list[bytes]] = {one: [], other: []}
    watched = select.poll()
    for end in read:
        watched.register(end, select.POLLIN)
    open_ends = {one, other}
    while open_ends:
        ready = watched.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            raise Overdue
        for end, _ in ready:
            piece = os.read(end, _CHUNK_BYTES)
            read[end].append(piece)
            if not piece:
                watched.unregister(end)
                open_ends.discard(end)
    return b"".join(read[one]), b"".join(read[other])


def interactively(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run git as the person would, with their terminal, for as long as it takes; answers with its exit status.

    Args:
        arguments: What follows `git`.
        environment: The whole environment.
    """
    import subprocess  # the hooks do without it

    return subprocess.run(["git", *arguments], env=dict(environment), check=False).returncode


def environment(place: Place) -> dict[str, str]:
    """The environment for git in this repository."""
    # Git names the index by a path from where the hook was started.
    kept = {name: os.path.abspath(os.environ[name]) for name in _KEPT[:1] if os.environ.get(name)}
    kept |= {name: os.environ[name] for name in _KEPT[1:] if name in os.environ}
    others = {name: value for name, value in os.environ.items() if not name.upper().startswith("GIT_")}
    where = {"GIT_DIR": place.git_dir} | ({"GIT_WORK_TREE": place.top} if place.top else {})
    return {**others, **_ALWAYS, **kept, **where}


def head_ref(place: Place) -> str | None:
    """The ref that HEAD stands for, e.g. `refs/heads/main`; null if it is detached.

    Raises:
        GitTrouble: It cannot be found out.
    """
    try:
        with open(os.path.join(place.git_dir, "HEAD"), encoding="utf-8", errors="surrogateescape") as file:
            text = file.read().strip()
    except OSError as error:
        raise GitTrouble(f"HEAD cannot be read: {error.strerror}") from error
    if text.startswith(_SYMBOLIC) and text.removeprefix(_SYMBOLIC) != _REFTABLE:
        return text.removeprefix(_SYMBOLIC)
    return run(place, ["symbolic-ref", "--quiet", "HEAD"], accept=(0, 1)).text or None


def branch(place: Place) -> str | None:
    """The branch that is checked out, or the one that is being rebased; null if HEAD is detached.

    Raises:
        GitTrouble: It cannot be found out.
    """
    ref = head_ref(place) or rebased(place)
    return ref.removeprefix(_HEADS) if ref is not None and ref.startswith(_HEADS) else None


def rebased(place: Place) -> str | None:
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


def head(place: Place) -> str | None:
    """The id of the commit that HEAD stands for; null before the first commit.

    Raises:
        GitTrouble: It cannot be found out.
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


def resolve(place: Place, revision: str, kind: str = "commit") -> str | None:
    """The id of what a revision names, followed to the kind (`commit` or `tree`); null if there is none such."""
    named = f"{revision}^{{{kind}}}"
    return run(place, ["rev-parse", "--quiet", "--verify", "--end-of-options", named], accept=(0, 1, 128)).text or None


def empty_tree(place: Place) -> str:
    """The id of the tree without entries, by the repository's own hash."""
    return run(place, ["hash-object", "-t", "tree", "--stdin"]).text


def staged(place: Place, base: str) -> list[Change]:
    """What a commit of the index would change against a commit or tree.

    Raises:
        GitTrouble: There is no such base, or a path is not UTF-8.
    """
    return parse_raw(run(place, ["diff-index", "--cached", *RAW_OPTIONS, base, "--"]).stdout)


def between(place: Place, before: str, after: str) -> list[Change]:
    """What changed from one commit or tree to another.

    Raises:
        GitTrouble: One of them is not there, or a path is not UTF-8.
    """
    return parse_raw(run(place, ["diff-tree", "-r", *TREE_OPTIONS, before, after, "--"]).stdout)


def digest(changes: list[Change]) -> str:
    """What an approval of these changes binds to, as the broker computes it."""
    from hashlib import sha256  # takes longer to import than most hooks to judge

    raw = b"".join(
        f":{one['mode_before']} {one['mode_after']} {one['blob_before']} {one['blob_after']} {_status(one)}".encode()
        + b"\0%s\0" % one["path"].encode()
        for one in sorted(changes, key=lambda one: one["path"].encode())
    )
    return sha256(raw).hexdigest()


def _status(change: Change) -> str:
    before, after = change["mode_before"], change["mode_after"]
    if _ABSENT_MODE in {before, after}:
        return "A" if before == _ABSENT_MODE else "D"
    return "M" if before[:2] == after[:2] else "T"


def parse_raw(data: bytes) -> list[Change]:
    """The entries in git's own raw output, in its order.

    Raises:
        GitTrouble: A path is unmerged or not UTF-8, or it is no raw output.
    """
    fields = data.split(b"\0")
    changes: list[Change] = []
    try:
        for facts, path in zip(fields[:-1:2], fields[1::2], strict=True):
            before, after, old, new, status = facts[1:].decode("ascii").split(" ")
            name = path.decode()
            if status.startswith("U"):
                raise GitTrouble(f"{name} has unresolved conflicts")
            changes.append(
                {"path": name, "mode_before": before, "blob_before": old, "mode_after": after, "blob_after": new}
            )
    except UnicodeDecodeError as error:
        raise GitTrouble("a path is not UTF-8, so that no approval can name it; rename the file") from error
    except ValueError as error:
        raise GitTrouble("its raw difference cannot be read") from error
    return changes
