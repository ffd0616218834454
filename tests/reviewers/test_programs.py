"""One program is run with limits, and nothing of it is left, however it behaves."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tandem.core import platforms
from tandem.core.platforms import ProcessIdentity
from tandem.errors import Unavailable
from tandem.pool.reviewers import Finished, processes
from tests.reviewers.running import START_SECONDS, acts, is_gone, number_in, run, until

MEGABYTE = 1024 * 1024
only_posix = pytest.mark.skipif(sys.platform == "win32", reason="platform: signals and sessions are of POSIX")


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """A run leaves no thread, no descriptor and no dead child behind; what tests before it left may end meanwhile."""
    before = held()
    yield
    assert held() - before == set()


def held() -> set[object]:
    """Threads, children and open descriptors of this process."""
    descriptors: set[object] = set()
    for entry in list(Path("/dev/fd").iterdir()) if sys.platform != "win32" else ():
        # The descriptor by which the folder itself was read is closed by now.
        with contextlib.suppress(OSError):
            found = os.fstat(int(entry.name))
            descriptors.add((entry.name, found.st_dev, found.st_ino))
    return {*threading.enumerate(), *psutil.Process().children(), *descriptors}


ENDS: dict[str, tuple[tuple[str, ...], dict[str, Any], tuple[str, bytes], int | None]] = {
    # The program's acts and limits; how it ends, its output, and its status where that is certain.
    "by itself": (("echo",), {}, ("itself", "13 what says é?\n".encode()), 0),
    "with a status": (("say", "half a", "leave", "3"), {}, ("itself", b"half a\n"), 3),
    "by a signal": (("die-by", "11"), {}, ("itself", b""), -11),
    "without output": (("close-output", "sleep", "0.5", "leave", "4"), {}, ("itself", b""), 4),
    "late": (("say", "I think", "sleep", "300"), {"total_seconds": START_SECONDS}, ("timeout", b"I think\n"), None),
    "never speaking": (("sleep", "300"), {"start_seconds": 0.5}, ("timeout", b""), None),
    "silent": (
        ("say", "well", "sleep", "300"), {"start_seconds": 30.0, "silence_seconds": 0.5}, ("silence", b"well\n"), None,
    ),
    "standing still": (("stop-itself",), {"total_seconds": 0.5, "grace_seconds": 0.5}, ("timeout", b""), -9),
}  # fmt: skip
OF_POSIX = {"by a signal", "standing still"}


@pytest.mark.parametrize("way", ENDS)
def test_a_run_ends_and_says_how(tmp_path: Path, way: str) -> None:
    if sys.platform == "win32" and way in OF_POSIX:
        pytest.skip("platform: signals and sessions are of POSIX")
    deeds, limits, expected, status = ENDS[way]
    done = run(acts(*deeds, folder=tmp_path, stdin="what says é?".encode()), **limits)
    assert (done.ended_by, done.stdout, done.output_was_cut) == (*expected, False)
    assert status is None or done.exit_code == status
    assert limits.get("total_seconds", 0) < done.seconds < 60


def test_a_program_that_speaks_only_at_its_end_is_given_the_time(tmp_path: Path) -> None:
    quiet = acts("sleep", "1", "say", "at last", folder=tmp_path, talks=False)
    done = run(quiet, start_seconds=0.2, silence_seconds=30.0)
    assert (done.ended_by, done.stdout) == ("itself", b"at last\n")


def test_a_large_prompt_reaches_whoever_reads_it(tmp_path: Path) -> None:
    done = run(acts("echo", folder=tmp_path, stdin=b"x" * (8 * MEGABYTE) + b"the end"))
    assert done.stdout.split()[0] == b"8388615"
    assert b"the end" in done.stdout


def test_a_large_prompt_that_nobody_reads_blocks_nobody(tmp_path: Path) -> None:
    done = run(acts("say", "an answer", folder=tmp_path, stdin=b"x" * (8 * MEGABYTE)))
    assert (done.exit_code, done.stdout) == (0, b"an answer\n")


def test_tells_which_process_it_is_while_it_runs(tmp_path: Path) -> None:
    seen: list[tuple[ProcessIdentity, bool]] = []

    def look(identity: ProcessIdentity) -> None:
        seen.append((identity, platforms.is_alive(identity)))
        (tmp_path / "seen").touch()

    run(acts("note", str(tmp_path / "pid"), "wait-for", str(tmp_path / "seen"), folder=tmp_path), on_start=look)
    (identity, was_alive), *more = seen
    assert was_alive
    assert not more
    assert identity.pid == number_in(tmp_path / "pid")
    assert not platforms.is_alive(identity)


@pytest.mark.parametrize(("hears", "status"), [(("note-sigterm", "ASKED"), 7), (("ignore-sigterm",), -9)])
def test_is_asked_to_end_and_killed_if_it_does_not_hear(tmp_path: Path, hears: tuple[str, ...], status: int) -> None:
    if sys.platform == "win32" and status < 0:
        pytest.skip("platform: signals and sessions are of POSIX")
    cancelled, asked = threading.Event(), tmp_path / "asked"
    words = [str(asked) if word == "ASKED" else word for word in hears]
    waiting = acts(*words, "say", "ready", "sleep", "300", folder=tmp_path)
    done = run(waiting, cancelled=cancelled, log=lambda _: cancelled.set(), grace_seconds=10 if status > 0 else 0.5)
    assert (done.ended_by, done.exit_code, asked.exists()) == ("cancelled", status, status > 0)


def test_what_was_cancelled_before_is_not_started(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    started: list[ProcessIdentity] = []
    done = run(acts("say", "never", folder=tmp_path), cancelled=cancelled, on_start=started.append)
    assert done == Finished(None, b"", b"", "cancelled", 0.0, output_was_cut=False)
    assert started == []


def test_its_children_end_with_it(tmp_path: Path) -> None:
    done = run(acts("stubborn-child", str(tmp_path / "pid"), "wait-for", str(tmp_path / "pid"), folder=tmp_path))
    assert done.ended_by == "itself"
    assert is_gone(number_in(tmp_path / "pid"))


@only_posix
@pytest.mark.parametrize(
    ("ending", "seconds", "ended_by"), [("leave 0", 60.0, "itself"), ("sleep 300", START_SECONDS, "timeout")]
)
def test_children_that_left_its_session_end_with_it(tmp_path: Path, ending: str, seconds: float, ended_by: str) -> None:
    done = run(acts("runaway", str(tmp_path / "pid"), *ending.split(), folder=tmp_path), total_seconds=seconds)
    assert done.ended_by == ended_by
    assert is_gone(number_in(tmp_path / "pid"))


@only_posix
def test_whoever_hid_from_us_cannot_keep_us_waiting(tmp_path: Path) -> None:
    done = run(acts("stranger", str(tmp_path / "pid"), "say", "an answer", folder=tmp_path))
    hidden = psutil.Process(number_in(tmp_path / "pid"))
    hidden.kill()
    assert (done.ended_by, done.stdout) == ("itself", b"an answer\n")
    assert done.seconds < 60
    for _ in until("the hidden process is gone"):
        if is_gone(hidden.pid):
            break


@pytest.mark.parametrize(
    ("changes", "said", "named"),
    [({"argv": ("no-such-program", "review")}, "Install it", "program"), ({"folder": "gone"}, "no folder", "path")],
)
def test_what_is_not_there_is_named(tmp_path: Path, changes: dict[str, Any], said: str, named: str) -> None:
    with pytest.raises(Unavailable, match=said) as caught:
        run(replace(acts("say", "x", folder=tmp_path), **changes))
    assert caught.value.details == {named: "gone" if named == "path" else "no-such-program"}


def test_complaints_without_end_neither_block_it_nor_fill_our_memory(tmp_path: Path) -> None:
    done = run(acts("fill-stderr", "20", "say", "an answer", folder=tmp_path))
    assert (done.exit_code, done.stdout) == (0, b"an answer\n")
    assert len(done.stderr_tail) == 16 * 1024
    assert done.stderr_tail.endswith(b"last complaint\n")
    assert not done.output_was_cut


def test_of_too_much_output_the_end_is_kept_and_the_cut_is_told(tmp_path: Path) -> None:
    done = run(acts("print-megabytes", "5", "say", "the answer", folder=tmp_path))
    assert (done.exit_code, done.ended_by, done.output_was_cut) == (0, "itself", True)
    assert len(done.stdout) == MEGABYTE
    assert done.stdout.endswith(b"othe answer\n")


def test_output_without_end_is_ended(tmp_path: Path) -> None:
    done = run(acts("print-for-ever", folder=tmp_path))
    assert (done.ended_by, done.output_was_cut, len(done.stdout)) == ("too_much_output", True, MEGABYTE)


def test_a_log_that_cannot_be_written_costs_no_review(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with (tmp_path / "log").open("rb") as not_for_writing:
        done = run(acts("say", "an answer", folder=tmp_path), log=not_for_writing.write)
    assert (done.exit_code, done.stdout) == (0, b"an answer\n")


def test_nothing_is_left_when_the_caller_fails(tmp_path: Path) -> None:
    seen: list[ProcessIdentity] = []

    def fail(identity: ProcessIdentity) -> None:
        seen.append(identity)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(acts("sleep", "300", folder=tmp_path), on_start=fail)
    assert not platforms.is_alive(seen[0])


def test_its_environment_is_what_was_given_and_a_token(tmp_path: Path) -> None:
    done = run(acts("show-environment", folder=tmp_path))
    variables = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    # Python itself sets the last one where it finds no language.
    assert set(variables) - {"LC_CTYPE"} == {"PATH", "TANDEM_REVIEWER", "TANDEM_RUN"}


def test_everything_of_a_reviewer_can_be_ended_from_outside(tmp_path: Path) -> None:
    # Other tests run beside this one, and this ends all that have the name.
    name = f"codex-r1-{secrets.token_hex(8)}"
    parent = acts("child", str(tmp_path / "pid"), "sleep", "300", folder=tmp_path)
    marks = processes.marks_of(name, "sv_of_this_test")
    parent.environment.update(marks)
    ended: list[int] = []

    def end_it(_: ProcessIdentity) -> None:
        number_in(tmp_path / "pid")
        ended.append(processes.end_marked(marks))

    done = run(parent, on_start=end_it)
    assert ended == [2]
    assert (done.ended_by, is_gone(number_in(tmp_path / "pid"))) == ("itself", True)
    assert processes.end_marked(marks) == 0


@only_posix
def test_the_environment_of_what_has_just_been_started_is_waited_for() -> None:
    # Read at once, that of a few in a hundred is empty: by its marks such a process would not be found.
    marks = {"TANDEM_REVIEWER": f"tests-r1-{secrets.token_hex(6)}"}
    for _ in range(200):
        process = processes.start_program(["sleep", "300"], "/", marks, stdin=0, stdout=1, stderr=2)
        try:
            assert processes.environment_of(psutil.Process(process.pid)) == marks
        finally:
            process.kill()
            process.wait()
