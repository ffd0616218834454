"""Stories: command lines that are typed one after another, and what each has to print.

    $ tandem submit --staged -m 'Upload'    a line that is typed; `&` at its end leaves it running
    rv_*  round 1                           is printed, in this order; `*` stands for anything
    [10]                                    its exit status, if that is not 0
    $ fg                                    waits for the end of the line that was left running last
    > yes                                   typed at a terminal, when the command asks
    @ review rv_[a-z0-9]+                   what matched is {review} in the lines below
    < src/upload.py                         writes a file, of the lines that follow with `| `
    + claude codex                          it is played without clients, with the first of these, with each more

`guides.py` has the lines that play a guide. Everything is real: `tandem` is a process of its own, and all else is run
by a shell.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from io import FileIO
from pathlib import Path

from tandem import examples
from tests.commandline import repository
from tests.forked import Started, run_tandem, start_tandem
from tests.repository.terminal import at_a_terminal, without_agents

COMMAND_SECONDS = 30
_CHUNK = 65536
_LOG_LETTERS = 4000
SCRIPTED = str(files(examples).joinpath("scripted_reviewer.py"))
STORIES = Path(__file__).with_name("stories")
CLIENT = "#!/bin/sh\necho '9.9.9 (a client)'\n"
_SHELL = re.compile(r"[|<>;&$*`]|^(?!\S+=\S+ |tandem )")


@dataclass
class Step:
    """A line that is typed, and its expected output and status; see the module."""

    where: str
    line: str
    printed: list[str] = field(default_factory=list[str])
    kept: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    typed: str = ""
    status: int = 0
    page: str = ""
    of_guide: bool = False
    unplayed: str = ""
    differs: str = ""

    def expect(self, line: str) -> None:
        """Take a line of the story that is below the one that is typed."""
        if line.startswith("> "):
            self.typed += f"{line[2:]}\n"
        elif line.startswith("@ "):
            name, _, pattern = line[2:].partition(" ")
            self.kept.append((name, pattern))
        elif ended := re.fullmatch(r"\[(\d+)\]", line):
            self.status = int(ended[1])
        elif self.of_guide and line.startswith("- "):
            self.unplayed = line[2:]
        elif self.of_guide and line.startswith("~ "):
            self.differs = line[2:]
        else:
            self.printed.append(line)


def steps_of(name: str, text: str) -> Iterator[Step | tuple[str, str]]:
    """The steps of a story, and the files that it writes between them."""
    step: Step | None = None
    file, content = "", ""
    for number, line in enumerate([*text.splitlines(), "#"], 1):
        if line.startswith("|"):
            content += f"{line[2:]}\n"
            continue
        if file:
            yield file, content
            file = content = ""
        if step and (line[:2] in {"$ ", "% ", "< ", "<%", "= ", "# "} or line in {"", "#"}):
            yield step
            step = None
        if line.startswith(("$ ", "% ")):
            step = Step(f"{name}:{number}", line[2:], of_guide=line[0] == "%")
        elif line.startswith("= "):
            yield Step(f"{name}:{number}", "", page=line[2:])
        elif line.startswith("< "):
            file = line[2:]
        elif line.startswith("<% "):
            yield line[1:], ""
        elif step:
            step.expect(line)


def played_with(text: str) -> list[tuple[str, ...]]:
    """The clients that are installed where a story is played, each time that it is."""
    clients = " ".join(re.findall(r"(?m)^\+ (.*)$", text)).split()
    return [tuple(clients[:count]) for count in range(len(clients) + 1)]


class Player:
    """Plays a story in a folder of its own, with a home, settings and a broker of its own."""

    def __init__(self, folder: Path, clients: Iterable[str] = ()) -> None:
        """Make the folder `shop`, a repository, in which the story begins, and a home beside it."""
        self._folder = folder
        self._names = {"folder": str(folder), "python": sys.executable, "base": sys.base_prefix, "scripted": SCRIPTED}
        self._left: list[tuple[Started, FileIO]] = []
        self._wrong: list[str] = []
        (folder / "home").mkdir()
        shutil.copy(Path(os.environ["HOME"]) / ".gitconfig", folder / "home" / ".gitconfig")
        (folder / "programs").mkdir()
        for name in clients:
            program = folder / "programs" / name
            program.write_text(CLIENT, "utf-8")
            program.chmod(0o755)
        self._environment = {
            **without_agents(),
            "HOME": str(folder / "home"),
            "PATH": os.pathsep.join([str(folder / "programs"), os.environ["PATH"]]),
            # Several stories are played at once; each broker takes the port that is free.
            "TANDEM_PORT": "0",
            "COLUMNS": "200",
        }
        self._cwd = repository(folder / "shop", {"a.txt": b"one\ntwo\n", "src/app.py": b"ATTEMPTS = 3\n"})

    def play(self, steps: Iterable[Step | tuple[str, str]]) -> None:
        """Play a story to its end, and end the processes that it left running."""
        self._wrong.clear()
        try:
            for step in steps:
                if isinstance(step, Step):
                    self._play(step)
                else:
                    name, text = step
                    at = self._cwd / self._filled(re.sub("^~", "{folder}/home", name))
                    at.parent.mkdir(parents=True, exist_ok=True)
                    at.write_text(self._filled(text), "utf-8")
        finally:
            self._cwd = self._folder
            self._run("tandem down", "")
            for process, output in self._left:
                process.kill()
                with process, output:
                    pass
        assert not self._wrong, "\n\n".join([*self._wrong, *self._log()])

    def _log(self) -> Iterator[str]:
        """The brokers' logs, for a failure of theirs that no command shows."""
        for path in (self._folder / "home").glob(".local/state/tandem/logs/*.jsonl*"):
            yield path.read_text("utf-8")[-_LOG_LETTERS:]

    def _play(self, step: Step) -> None:
        line = self._filled(step.line)
        # A test that fails or hangs shows how far the story went.
        sys.stderr.write(f"{step.where}: $ {line}\n")
        if line.startswith(("cd ", "export ")):
            self._set(*line.split(" ", 1))
            return
        if line.endswith(" &"):
            status, said = 0, self._leave(line.removesuffix(" &"), step)
        else:
            try:
                status, said = self._run(line, self._filled(step.typed))
            except subprocess.TimeoutExpired:
                status, said = -1, "It did not end."
        wrong = [] if status == step.status else [f"the exit status is {status}, not {step.status}"]
        wrong += [f"not printed, or not in this order: {one}" for one in self._missing(step, said)]
        for name, pattern in step.kept:
            found = re.search(pattern, said)
            wrong += [] if found else [f"nothing matches {pattern}"]
            self._names[name] = found[found.re.groups] if found else "NOTHING"
        if wrong:
            self._wrong.append("\n".join([f"{step.where}: $ {line}", *wrong, said]))

    def _filled(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self._names.get(found[1], found[0]), text)

    def _set(self, verb: str, value: str) -> None:
        if verb == "cd":
            self._cwd = (self._cwd / re.sub("^~", self._environment["HOME"], value)).resolve(strict=True)
        else:
            for one in shlex.split(value):
                name, _, rest = one.partition("=")
                self._environment[name] = rest

    def _run(self, line: str, typed: str) -> tuple[int, str]:
        """Run a line to its end; its exit status, and its output."""
        if line == "fg":
            process, output = self._left[-1]
            status = process.wait(COMMAND_SECONDS)
            self._left.pop()
            with process, output:
                return status, output.read().decode()
        line, _, given = line.partition(" < ") if line.startswith(("tandem ", "TANDEM_")) else (line, "", "")
        told = (self._cwd / given).read_bytes() if given else b""
        line, _, appended = line.partition(" >> ") if line.startswith("tandem ") else (line, "", "")
        before, piped, command = line.partition(" | tandem ")
        if piped:
            # A command that the shell starts is no fork.
            told = subprocess.check_output(["bash", "-c", before], cwd=self._cwd, env=self._environment)
            line = f"tandem {command}"
        if _SHELL.search(re.sub("'[^']*'", "''", line)):
            ended = subprocess.run(
                ["bash", "-c", f"exec 2>&1; {line}"], cwd=self._cwd, env=self._environment, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=COMMAND_SECONDS, check=False,
            )  # fmt: skip
            return ended.returncode, ended.stdout
        environment, words = self._words(line)
        if typed:
            # Input from before the question is discarded.
            after = "Type yes: " if typed == "yes\n" else "Type the project's name ("
            return at_a_terminal(words, self._cwd, typed=typed, after=after, **environment)
        ended = run_tandem(words, self._cwd, environment, told=told, seconds=COMMAND_SECONDS)
        if appended:
            with (self._cwd / re.sub("^~", self._environment["HOME"], appended)).open("a", encoding="utf-8") as file:
                file.write(ended.stdout)
        return ended.returncode, ended.stdout + ended.stderr

    def _words(self, line: str) -> tuple[Mapping[str, str], list[str]]:
        words = [re.sub("^~(?=/)", self._environment["HOME"], word) for word in shlex.split(line)]
        program = words.index("tandem")
        return {**self._environment, **dict(one.split("=", 1) for one in words[:program])}, words[program + 1 :]

    def _missing(self, step: Step, said: str) -> list[str]:
        """The expected lines that a step did not print, or not in their order."""
        missing: list[str] = []
        position = 0
        for wanted in step.printed:
            # A long path breaks a line where a short one does not.
            words = (r"\s+".join(map(re.escape, re.split(r"\s", part))) for part in self._filled(wanted).split("*"))
            pattern = ".*".join(words)
            found = re.compile(pattern).search(said, position)
            missing += [] if found else [wanted]
            position = found.end() if found else position
        return missing

    def _leave(self, line: str, step: Step) -> str:
        """Start a line, and leave it running once it has printed the expected text."""
        environment, words = self._words(line)
        heard, told = os.pipe()
        process = start_tandem(words, self._cwd, environment, stdout=told, stderr=told)
        os.close(told)
        output = FileIO(heard)
        self._left.append((process, output))
        said, until = b"", time.monotonic() + COMMAND_SECONDS
        while self._missing(step, said.decode(errors="replace")):
            if not select.select([output], [], [], max(0, until - time.monotonic()))[0]:
                break
            if not (shown := output.read(_CHUNK)):
                break
            said += shown
        return said.decode()
