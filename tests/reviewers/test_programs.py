"""One program is run with limits, and nothing of it is left, however it behaves."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tandem.core import platforms
from tandem.core.platforms import ProcessIdentity
from tandem.errors import Unavailable
from tandem.pool.reviewers import Finished, processes
from tests.reviewers.running import START_SECONDS, acts, is_gone, number_in, run, until

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

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


class SetsWhenWritten(io.BytesIO):
    """A log that says when the program has said something."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__()
        self._event = event

    def write(self, data: Buffer, /) -> int:
        self._event.set()
        return super().write(data)


def test_gives_the_prompt_and_takes_the_answer(tmp_path: Path) -> None:
    done = run(acts("echo", folder=tmp_path, stdin="what says é?".encode()))
    assert (done.exit_code, done.ended_by, done.output_was_cut) == (0, "itself", False)
    assert done.stdout.decode() == "13 what says é?\n"
    assert 0 < done.seconds < 30


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


def test_an_exit_status_is_told(tmp_path: Path) -> None:
    done = run(acts("say", "half a", "leave", "3", folder=tmp_path))
    assert (done.exit_code, done.ended_by, done.stdout) == (3, "itself", b"half a\n")


@only_posix
def test_an_end_by_a_signal_is_told(tmp_path: Path) -> None:
    done = run(acts("die-by", str(int(signal.SIGSEGV)), folder=tmp_path))
    assert (done.exit_code, done.ended_by) == (-signal.SIGSEGV, "itself")


def test_a_program_that_hangs_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    done = run(acts("say", "I think", "sleep", "300", folder=tmp_path), total_seconds=START_SECONDS)
    assert (done.ended_by, done.stdout) == ("timeout", b"I think\n")
    assert START_SECONDS < done.seconds < 60


def test_a_program_that_never_begins_to_speak_is_ended_early(tmp_path: Path) -> None:
    done = run(acts("sleep", "300", folder=tmp_path), start_seconds=0.5)
    assert done.ended_by == "timeout"
    assert done.seconds < 60


def test_a_program_that_falls_silent_is_ended(tmp_path: Path) -> None:
    done = run(acts("say", "well", "sleep", "300", folder=tmp_path), start_seconds=30.0, silence_seconds=0.5)
    assert (done.ended_by, done.stdout) == ("silence", b"well\n")


def test_a_program_that_speaks_only_at_its_end_is_given_the_time(tmp_path: Path) -> None:
    quiet = acts("sleep", "1", "say", "at last", folder=tmp_path, talks=False)
    done = run(quiet, start_seconds=0.2, silence_seconds=0.2)
    assert (done.ended_by, done.stdout) == ("itself", b"at last\n")


def test_is_ended_in_order_if_it_hears(tmp_path: Path) -> None:
    cancelled = threading.Event()
    asked = tmp_path / "asked"
    waiting = acts("note-sigterm", str(asked), "say", "ready", "sleep", "300", folder=tmp_path)
    done = run(waiting, cancelled=cancelled, log=SetsWhenWritten(cancelled))
    assert (done.ended_by, asked.read_text()) == ("cancelled", "asked")
    assert done.exit_code == 7


@only_posix
def test_is_killed_if_it_does_not_hear(tmp_path: Path) -> None:
    cancelled = threading.Event()
    deaf = acts("ignore-sigterm", "say", "ready", "sleep", "300", folder=tmp_path)
    done = run(deaf, cancelled=cancelled, log=SetsWhenWritten(cancelled), grace_seconds=0.5)
    assert (done.ended_by, done.exit_code) == ("cancelled", -signal.SIGKILL)
    assert 0.5 < done.seconds < 60


@only_posix
def test_one_that_stands_still_is_killed(tmp_path: Path) -> None:
    done = run(acts("stop-itself", folder=tmp_path), total_seconds=0.5, grace_seconds=0.5)
    assert (done.ended_by, done.exit_code) == ("timeout", -signal.SIGKILL)


def test_what_was_cancelled_before_is_not_started(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    started: list[ProcessIdentity] = []
    done = run(acts("say", "never", folder=tmp_path), cancelled=cancelled, on_start=started.append)
    assert done == Finished(None, b"", b"", "cancelled", 0.0, output_was_cut=False)
    assert started == []


@pytest.mark.parametrize("kind", ["child", "stubborn-child"])
def test_its_children_end_with_it(tmp_path: Path, kind: str) -> None:
    done = run(acts(kind, str(tmp_path / "pid"), "wait-for", str(tmp_path / "pid"), folder=tmp_path))
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


def test_a_program_without_output_is_waited_for(tmp_path: Path) -> None:
    done = run(acts("close-output", "sleep", "0.5", "leave", "4", folder=tmp_path))
    assert (done.exit_code, done.ended_by, done.stdout) == (4, "itself", b"")


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


def test_both_outputs_go_to_the_log(tmp_path: Path) -> None:
    log = io.BytesIO()
    run(acts("say", "a word", "fill-stderr", "0", folder=tmp_path), log=log)
    assert b"a word\n" in log.getvalue()
    assert b"last complaint\n" in log.getvalue()


def test_a_log_that_cannot_be_written_costs_no_review(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with (tmp_path / "log").open("rb") as not_for_writing:
        done = run(acts("say", "an answer", folder=tmp_path), log=not_for_writing)
    assert (done.exit_code, done.stdout) == (0, b"an answer\n")


def test_nothing_is_left_when_the_caller_fails(tmp_path: Path) -> None:
    seen: list[ProcessIdentity] = []

    def fail(identity: ProcessIdentity) -> None:
        seen.append(identity)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(acts("sleep", "300", folder=tmp_path), on_start=fail)
    assert not platforms.is_alive(seen[0])


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Install it") as caught:
        run(replace(acts(folder=tmp_path), argv=("no-such-program", "review")))
    assert caught.value.details == {"program": "no-such-program"}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no folder"):
        run(acts("say", "x", folder=tmp_path / "gone"))


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


NASTY = ["$(touch x)", "`touch x`", "; touch x", "a b", "a\nb", "|touch x", "&& touch x", "'\"", "*", "~", "%PATH%", ""]


def test_no_argument_is_ever_interpreted_by_a_shell(tmp_path: Path) -> None:
    folder = tmp_path / "a $(touch x) ; `touch x`\n folder"
    folder.mkdir()
    done = run(acts("show-arguments", *NASTY, folder=folder, stdin=b"$(touch x); `touch x`"))
    assert done.stdout.decode().splitlines() == [repr(one) for one in NASTY]
    assert list(folder.iterdir()) == []


@only_posix
def test_the_environment_of_what_has_just_been_started_is_waited_for() -> None:
    # Read at once, that of a few in a hundred is empty: by its marks such a process would not be found.
    marks = {"TANDEM_REVIEWER": f"tests-r1-{secrets.token_hex(6)}"}
    for _ in range(1000):
        process = processes.start_program(["sleep", "300"], "/", marks, stdin=0, stdout=1, stderr=2)
        try:
            assert processes.environment_of(psutil.Process(process.pid)) == marks
        finally:
            process.kill()
            process.wait()
