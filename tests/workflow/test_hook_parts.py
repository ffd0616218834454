"""What hooks have of their own instead of the standard library's, which takes too long to import, does the same."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tandem.hooks import ask, git


def python(code: str, cwd: Path, stdin: bytes = b"", timeout_seconds: float = 30) -> tuple[int, bytes, bytes]:
    """A program that is called as git is: the first arguments are `-C` and the folder."""
    program = cwd / "program"
    text = f"import os, sys, time\nos.chdir(sys.argv[2])\n{code}\n"
    # By way of the shell: the path of an interpreter may hold a space, which no first line of a script may.
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", text])} "$@"\n', "utf-8")
    program.chmod(0o755)
    return git.finished([str(program), "-C", str(cwd)], dict(os.environ), stdin, timeout_seconds)


def test_a_process_gets_its_input_and_gives_both_outputs_however_long_they_are(tmp_path: Path):
    code = "data = sys.stdin.buffer.read(); sys.stderr.write('e' * 300_000); sys.stdout.buffer.write(data); sys.exit(3)"
    for sent in (b"", bytes(range(256)) * 16, bytes(range(256)) * 4_000):
        assert python(code, tmp_path, sent) == (3, sent, b"e" * 300_000)


def test_a_process_that_does_not_read_or_is_killed_is_no_trouble(tmp_path: Path):
    for size in (1_000, 1_000_000):
        assert python("os.close(0); time.sleep(0.1); print(os.getcwd())", tmp_path, b"x" * size)[0] == 0
    assert python("os.kill(os.getpid(), 9)", tmp_path)[0] == -9


def test_a_process_that_hangs_is_ended(tmp_path: Path):
    for sent in (b"", b"x" * 10_000):
        with pytest.raises(git.Overdue):
            python("time.sleep(60)", tmp_path, sent, timeout_seconds=0.5)
    with pytest.raises(OSError, match="nothing"):
        git.finished(["nothing-of-that-name"], {}, b"", 1)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:8321", 8321),
        ("http://127.0.0.1:8321/", 8321),
        ("http://127.0.0.1:0", None),
        ("http://127.0.0.1:99999", None),
        ("http://127.0.0.1", None),
        ("http://127.0.0.1:8321/prefix", None),
        ("http://127.0.0.1:8321@evil.example", None),
        ("https://127.0.0.1:8321", None),
        ("http://localhost:8321", None),
        ("http://127.0.0.1:\u0663", None),
    ],
)
def test_only_a_plain_address_of_this_machine_is_asked_the_short_way(url: str, port: int | None):
    assert ask.port_of(url) == port
