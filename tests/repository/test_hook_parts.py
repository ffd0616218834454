"""Our replacement for `subprocess`, whose import takes hooks too long, behaves the same."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tandem.errors import TimedOut, Unavailable
from tandem.git.runner import Git
from tandem.rulings import person


def python(code: str, cwd: Path, stdin: bytes = b"", timeout_seconds: float = 30) -> tuple[int, bytes, str]:
    """A program that is called as git is: the first arguments are `-C` and the folder."""
    program = cwd / "program"
    text = f"import os, sys, time\nos.chdir(sys.argv[2])\n{code}\n"
    # By way of the shell: the path of an interpreter may hold a space, which no first line of a script may.
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", text])} "$@"\n', "utf-8")
    program.chmod(0o755)
    done = Git(str(program), timeout_seconds).run(
        ["-C", str(cwd), "go"], environment=dict(os.environ), stdin=stdin, accept=range(-64, 256)
    )
    return done.status_code, done.stdout, done.words


def test_a_process_gets_its_input_and_gives_both_outputs_however_long_they_are(tmp_path: Path):
    code = "data = sys.stdin.buffer.read(); sys.stderr.write('e' * 300_000); sys.stdout.buffer.write(data); sys.exit(3)"
    for sent in (b"", bytes(range(256)) * 16, bytes(range(256)) * 4_000):
        assert python(code, tmp_path, sent) == (3, sent, "e" * 16_384)


def test_a_process_that_does_not_read_or_is_killed_is_no_trouble(tmp_path: Path):
    for size in (1_000, 1_000_000):
        assert python("os.close(0); time.sleep(0.1); print(os.getcwd())", tmp_path, b"x" * size)[0] == 0
    assert python("os.kill(os.getpid(), 9)", tmp_path)[0] == -9


def test_a_process_that_hangs_is_ended(tmp_path: Path):
    for sent in (b"", b"x" * 10_000):
        with pytest.raises(TimedOut):
            python("time.sleep(60)", tmp_path, sent, timeout_seconds=0.5)
    with pytest.raises(Unavailable, match="nothing"):
        Git("nothing-of-that-name").run(["version"], environment={})


@pytest.mark.parametrize(
    ("marks", "seconds"),
    [
        ({}, None),
        ({"CLAUDECODE": "1"}, 100),
        ({"CLAUDECODE": "1", "BASH_DEFAULT_TIMEOUT_MS": "600000"}, 500),
        ({"CLAUDECODE": "1", "BASH_DEFAULT_TIMEOUT_MS": "soon"}, 100),
        ({"OPENCODE": "1", "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": "60000"}, 50),
        ({"GEMINI_CLI": "1"}, 250),
        ({"GEMINI_CLI": "1", "CLAUDECODE": "1"}, 100),
        ({"CODEX_THREAD_ID": "one"}, 100),
        ({"AI_AGENT": "other"}, 100),
    ],
)
def test_a_wait_is_shorter_than_what_the_agents_client_allows(
    marks: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
):
    for mark in list(os.environ):
        if person.agent_mark({mark: "1"}) is not None or mark == "BASH_DEFAULT_TIMEOUT_MS":
            monkeypatch.delenv(mark)
    for mark, value in marks.items():
        monkeypatch.setenv(mark, value)
    assert person.wait_seconds() == seconds
