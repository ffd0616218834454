"""What hooks have of their own instead of the standard library's, which takes too long to import, does the same."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tandem.hooks import jsontext, processes, tuples, wire

_LEAVES = some.none() | some.booleans() | some.integers(-(2**70), 2**70) | some.text()
VALUES = some.recursive(_LEAVES, lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner), max_leaves=20)


@given(VALUES)
def test_what_is_written_is_json_and_what_is_read_is_the_same(value: Any):
    assert json.loads(jsontext.dumps(value)) == value
    assert jsontext.loads(json.dumps(value, indent=2).encode()) == value


@pytest.mark.parametrize("text", [b"", b" ", b"{", b'{"a":}', b"[1,]", b"1 2", b"nul", b"\xff", b"[" * 100_000, b"'a'"])
def test_what_is_no_json_is_an_error(text: bytes):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong, it is this
        jsontext.loads(text)


def test_named_places_are_those_of_the_standard_library():
    class Theirs(NamedTuple):
        one: int
        two: tuple[str, ...] = ()

        @property
        def both(self) -> int:
            return self.one + len(self.two)

    class Ours(tuples.NamedTuple):
        one: int
        two: tuple[str, ...] = ()

        @property
        def both(self) -> int:
            return self.one + len(self.two)

    kinds: tuple[Any, ...] = (Theirs, Ours)
    for kind in kinds:
        made = kind(1)
        assert made == (1, ()) == kind(one=1)
        assert hash(made) == hash((1, ()))
        assert (made.one, made.two, made.both) == (1, (), 1)
        assert made._replace(two=("a",)) == (1, ("a",))
        for wrong in ({}, {"one": 1, "three": 3}):
            with pytest.raises(TypeError):
                kind(**wrong)
        more: Any = (1, (), 3)
        with pytest.raises(TypeError):
            kind(*more)


def python(code: str, cwd: Path, stdin: bytes = b"", timeout_seconds: float = 30) -> tuple[int, bytes, bytes]:
    """A program that is called as git is: the first arguments are `-C` and the folder."""
    program = cwd / "program"
    text = f"import os, sys, time\nos.chdir(sys.argv[2])\n{code}\n"
    # By way of the shell: the path of an interpreter may hold a space, which no first line of a script may.
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-c", text])} "$@"\n', "utf-8")
    program.chmod(0o755)
    return processes.run(
        [str(program), "argument"], cwd=str(cwd), environment=os.environ, stdin=stdin, timeout_seconds=timeout_seconds
    )


def test_a_process_gets_its_input_and_gives_both_outputs_however_long_they_are(tmp_path: Path):
    code = "data = sys.stdin.buffer.read(); sys.stderr.write('e' * 300_000); sys.stdout.buffer.write(data); sys.exit(3)"
    sent = bytes(range(256)) * 4_000
    assert python(code, tmp_path, sent) == (3, sent, b"e" * 300_000)


def test_a_process_that_does_not_read_or_is_killed_is_no_trouble(tmp_path: Path):
    assert python("os.close(0); time.sleep(0.1); print(os.getcwd())", tmp_path, b"x" * 1_000_000)[0] == 0
    assert python("os.kill(os.getpid(), 9)", tmp_path)[0] == -9


def test_a_process_that_hangs_is_ended(tmp_path: Path):
    with pytest.raises(processes.Overdue):
        python("time.sleep(60)", tmp_path, timeout_seconds=0.5)
    with pytest.raises(OSError, match="nothing"):
        processes.run(["nothing-of-that-name"], cwd=".", environment={}, stdin=b"", timeout_seconds=1)


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
    assert wire.port_of(url) == port
