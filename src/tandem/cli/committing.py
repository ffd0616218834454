"""The two runs of `git commit` behind `tandem commit`: one says what would be committed, one commits exactly that.

Both are git itself, with all of its options. `core.hooksPath` names scripts of ours (`commit_hook.sh`), each of which
calls the repository's own hook of its name by that hook's own path. In the first run `pre-commit` runs, and git waits
in front of the editor: it goes on where its content may be committed, and ends where it may not yet. In the second one
`pre-commit` does not run again. Between the two no lock is held.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tandem.cli.terminal import Exit, say, show_data
from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.core.stand_ins import NamedTuple
from tandem.git.place import first_line
from tandem.git.runner import started
from tandem.rulings import git, person
from tandem.rulings.state import FOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping, Sequence

    from tandem.git.place import HookRepository
    from tandem.git.runner import Process

_SCRIPT = Path(__file__).with_name("commit_hook.sh")
_HOOKS = (
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-rewrite",
    "reference-transaction",
    "post-index-change",
    "pre-auto-gc",
)
"""Those that `git commit` calls."""
_SCISSORS = re.compile(r"^.? ?-+ >8 -+$.*", re.MULTILINE | re.DOTALL)
_EXECUTABLE = 0o755
_STDERR = 2
_HEARS, _ASKS = 8, 9
"""The descriptors by which the script is answered, and asks."""
_WORDS_ASKED = 4
"""The message's file, the index, and where the message comes from."""
_PIPE_BYTES = 4096
_OWN_HOOKS = {"take": {"prepare-commit-msg"}, "make": {"pre-commit", "prepare-commit-msg"}}
"""Those for which the script does more than to call the repository's own; behind an editor it does for another."""
_BEHIND_EDITOR = "commit-msg"
_PAUSE_SECONDS = 0.05
_MOST_PAUSES = 600
_CLEANUP = re.compile(r"--cleanup[= ](\w+)")
_TIDIES: dict[str, list[str] | None] = {"verbatim": None, "whitespace": [], "scissors": []}
"""The options of `git stripspace` for what `--cleanup` takes, where comments are not removed; None if nothing is."""
_OF_STDIN = re.compile(r"-|--[a-z-]+=-|-[aeinopqsvz]*F-")
"""A word by which git reads standard input."""
_UNTOLD = frozenset({"", "template"})
"""Where git has a message from that no one wrote for this commit."""


def has_editor() -> bool:
    """Whether a person at the terminal can write a message in the editor."""
    return os.isatty(0) and person.agent_mark() is None


def for_git() -> dict[str, str]:
    """The environment for git, in which no editor opens where no one would end it: the message stays the same."""
    return {**os.environ, **({} if has_editor() else {"GIT_EDITOR": ":"})}


class Taken(NamedTuple):
    """What git would commit.

    Attributes:
        tree: Its tree.
        message: The message so far.
        source: Where that comes from, as git tells `prepare-commit-msg`.
        is_staged: Whether it is the index as it is, and not what `-a` or paths make of it.
        is_held: Whether git waits for the word to commit it.
    """

    tree: str
    message: str
    source: tuple[str, ...]
    is_staged: bool
    is_held: bool = False

    @property
    def is_told(self) -> bool:
        """Whether somebody gave the message in this run, or git has it from a commit or a merge."""
        return not _UNTOLD.issuperset(self.source[:1])


class Commits:
    """Runs git in a working tree, one at a time.

    Args:
        place: The working tree.
        quiet: Whether git's answers belong to standard error, as standard output has an envelope.

    Attributes:
        folder: The files that both runs share.
        message_file: The message of the last run, for git and its hooks.
    """

    _process: Process

    def __init__(self, place: HookRepository, *, quiet: bool) -> None:
        self._place, self._quiet = place, quiet
        self.folder = Path(place.git_dir, FOLDER, "commit")
        self.message_file = self.folder / "message"
        self._started, self._refused = self.folder / "started", self.folder / "refused"
        self._prepared, self._own = self.folder / "prepared", self.folder / "own"
        self._own.mkdir(parents=True, exist_ok=True)
        self._line: _Line | None = None

    @property
    def is_refused(self) -> bool:
        """Whether `pre-commit` refused in the last run of `take`."""
        return self._refused.exists()

    @property
    def is_prepared(self) -> bool:
        """Whether the repository's `prepare-commit-msg` has run in front of the editor in the last run of `take`."""
        return self._prepared.exists()

    @contextmanager
    def taking(self, words: Sequence[str], *, edits: bool) -> Generator[Taken | int]:
        """What git would commit, once `pre-commit` has run; or git's exit status, where that would be nothing.

        Where it is held, git waits until `go_on`, and ends at the end of the block without that.

        Args:
            words: The options of `git commit`.
            edits: Whether a missing message is written in the editor.
        """
        with self._turn(), ExitStack() as until_end:
            tree_file = self.folder / "tree"
            for file in (tree_file, self._refused, self._prepared):
                file.unlink(missing_ok=True)
            self._line = line = None if edits else _Line.opened()
            asked = {"TANDEM_COMMIT_EDITS": "1" if edits else "", "TANDEM_COMMIT_ASKS": "1" if line else ""}
            self._start("take", words, {} if line is None else line.ends, **asked)
            until_end.callback(self._wait)
            if line is not None:
                until_end.enter_context(line)
            held = self._held()
            yield self._wait_and_read(tree_file) if held is None else held

    def go_on(self) -> int:
        """Have the git that waits make the commit; its exit status."""
        if self._line is not None:
            self._line.let()
        return self._wait()

    def make(self, words: Sequence[str], tree: str, *, is_prepared: bool) -> int:
        """Commit a tree that was taken with the same words; git's exit status.

        Args:
            words: The options of `git commit`.
            tree: The tree.
            is_prepared: Whether the repository's `prepare-commit-msg` has seen the message already.
        """
        with self._turn():
            prepared = "1" if is_prepared else ""
            self._start("make", words, {}, TANDEM_COMMIT_TREE=tree, TANDEM_COMMIT_PREPARED=prepared)
            return self._wait()

    def _held(self) -> Taken | None:
        """What the git that waits would commit; None where none does."""
        asked = None if self._line is None else self._line.asked(self._process)
        if asked is None:
            return None
        file, index, *source = asked
        folder = Path(self._place.top or self._place.git_dir)
        message = (folder / file).read_bytes()
        self.message_file.write_bytes(message)
        tree = git.written_tree(self._place, str(folder / index))
        is_staged = not index.endswith(".lock")
        text = message.decode("utf-8", "surrogateescape")
        return Taken(tree, text, tuple(filter(None, source)) or ("",), is_staged, is_held=True)

    def _wait_and_read(self, tree_file: Path) -> Taken | int:
        status = self._wait()
        tree = first_line(str(tree_file))
        if not tree:
            return status
        index, *source = (self.folder / "source").read_text("utf-8").split("\n")
        message = self.message_file.read_bytes().decode("utf-8", "surrogateescape")
        return Taken(tree, message, tuple(filter(None, source)) or ("",), not index.endswith(".lock"))

    def cleaned(self, text: str, words: Sequence[str] = ()) -> str:
        """What a person has written in the editor, without what git put there and cuts off by these options."""
        told = _CLEANUP.search(" ".join(words))
        mode = told[1] if told else git.run(self._place, ["config", "commit.cleanup"], accept=(0, 1)).text
        options = _TIDIES.get(mode, ["--strip-comments"])
        written = _SCISSORS.sub("", text)
        if options is None:
            return written
        kept = git.run(self._place, ["stripspace", *options], stdin=written.encode("utf-8", "surrogateescape")).stdout
        return kept.decode("utf-8", "surrogateescape")

    def _start(self, step: str, words: Sequence[str], ends: Mapping[int, int], **more: str) -> None:
        environment = {
            **for_git(),
            "TANDEM_COMMIT_STEP": step,
            "TANDEM_COMMIT_FOLDER": str(self.folder),
            "TANDEM_COMMIT_GIT": self._place.git_dir,
            "TANDEM_COMMIT_COMMON": self._place.common_dir,
            "TANDEM_COMMIT_PARAMETERS": os.environ.get("GIT_CONFIG_PARAMETERS", ""),
            # Where git's configuration has them: a client that switches hooks off for its commands has no say.
            "TANDEM_COMMIT_HOOKS": self._hooks,
            **more,
        }
        behind_editor = [_BEHIND_EDITOR] if environment.get("TANDEM_COMMIT_EDITS") else []
        settings = ["-c", f"core.hooksPath={self._own_hooks({*_OWN_HOOKS[step], *behind_editor})}"]
        self._disown()
        with ExitStack() as opened:
            ends = {**ends, **({1: _STDERR} if self._quiet else {})}
            if any(map(_OF_STDIN.fullmatch, words)):
                ends[0] = opened.enter_context(self._stdin.open("rb")).fileno()
            self._process = started([*settings, "commit", *words], environment, ends)
        self._started.write_text(f"{self._process.pid}\n", "ascii")

    def _wait(self) -> int:
        status = self._process.wait()
        self._started.unlink(missing_ok=True)
        self._disown()
        return status

    def _disown(self) -> None:
        """Forget which locks were git's."""
        for link in self._own.iterdir():
            link.unlink()

    @cached_property
    def _stdin(self) -> Path:
        """What standard input says, which both runs read."""
        file = self.folder / "stdin"
        file.write_bytes(sys.stdin.buffer.read())
        return file

    @cached_property
    def _hooks(self) -> str:
        """The repository's own folder of hooks."""
        return git.run(self._place, ["rev-parse", "--path-format=absolute", "--git-path", "hooks"]).text

    def _own_hooks(self, ours: Collection[str]) -> str:
        """The folder of the scripts: for hooks of ours, and those that the repository has, as each costs a process."""
        folder, script = self.folder / "hooks", _SCRIPT.read_bytes()
        for name in _HOOKS:
            file = folder / name
            if name not in ours and not Path(self._hooks, name).exists():
                file.unlink(missing_ok=True)
            elif not file.exists() or file.read_bytes() != script:
                folder.mkdir(exist_ok=True, parents=True)
                write_atomically(file, script, mode=_EXECUTABLE, durable=False)
        return str(folder)

    @contextmanager
    def _turn(self) -> Generator[None]:
        """The time in which no other run works in this working tree, after what a killed one left is tidied up."""
        with (self.folder / "lock").open("ab") as lock:
            if not platforms.lock_file(lock.fileno()):
                say("Another tandem commit has its turn in this working tree.")
                while not platforms.lock_file(lock.fileno()):
                    time.sleep(_PAUSE_SECONDS)
            self._tidy()
            yield

    def _tidy(self) -> None:
        """Wait for the git of a run that was killed; if it was killed as well, remove the locks that it left.

        A lock is another git's unless it is a file to which the hooks made a link while theirs held it.
        """
        number = first_line(str(self._started))
        if not number:
            return
        for _ in range(_MOST_PAUSES):
            if platforms.has_ended(int(number)):
                break
            time.sleep(_PAUSE_SECONDS)
        else:
            # Git reports the lock itself.
            return
        own, branch = [link.stat() for link in self._own.iterdir()], git.branch(self._place)
        left = [Path(self._place.git_dir, name) for name in ("HEAD.lock", "index.lock")]
        left += [Path(self._place.common_dir, f"{git.HEADS}{branch}.lock")] if branch else []
        for lock in left:
            if lock.exists() and any(os.path.samestat(lock.stat(), one) for one in own):
                lock.unlink()
        Path(self._place.git_dir, f"next-index-{number}.lock").unlink(missing_ok=True)
        self._started.unlink()


class _Line:
    """Two pipes by which the script asks, and is answered; where this process ends, it reads the end.

    Attributes:
        ends: The script's descriptors, by their numbers there.
    """

    def __init__(self, questions: tuple[int, int], answers: tuple[int, int]) -> None:
        self._asked, asks = questions
        hears, self._answer = answers
        self.ends = {_HEARS: hears, _ASKS: asks}
        self._open = {*questions, *answers}

    @classmethod
    def opened(cls) -> Self | None:
        """One that is closed at the end of its block; None where a child can have none."""
        questions, answers = platforms.inheritable_pipe(), platforms.inheritable_pipe()
        return None if questions is None or answers is None else cls(questions, answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close(*self._open)

    def asked(self, process: Process) -> list[str] | None:
        """What the script of a process of git says once it is ready; None if git ends before."""
        self._close(*self.ends.values())
        said = b""
        while said.count(b"\0") < _WORDS_ASKED:
            # A hook may have left a process that keeps the pipe open.
            if not select.select([self._asked], [], [], _PAUSE_SECONDS)[0]:
                if process.poll() is not None:
                    return None
            elif piece := os.read(self._asked, _PIPE_BYTES):
                said += piece
            else:
                return None
        return os.fsdecode(said).split("\0")[:_WORDS_ASKED]

    def let(self) -> None:
        """Let git make the commit."""
        with suppress(BrokenPipeError):
            os.write(self._answer, b"go\n")

    def _close(self, *descriptors: int) -> None:
        for one in descriptors:
            os.close(one)
        self._open.difference_update(descriptors)


def show_outcome(
    done: Sequence[str], review: str | None, made: str | None, ended: Exit, steps: Sequence[str], stands: str
) -> None:
    """Print how `tandem commit` ended, as an envelope.

    Args:
        done: Its steps, a word each, in order.
        review: The review.
        made: The commit, if there is one.
        ended: The exit status.
        steps: What to do next, a line each.
        stands: The review's state; `committed`, or `nothing` where git had nothing to commit.
    """
    facts = {"done": [*done], "review_id": review, "state": stands, "commit": made, "next": [*steps]}
    show_data({**facts, "exit_status": int(ended)})
