"""The file with the broker's secret: the same for all processes, private, refused when it is not right."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from tandem.core import secret_key
from tandem.core.secret_key import load_or_make
from tandem.errors import ConfigInvalid
from tests.racing import PATIENCE_SECONDS, all_at_once, await_ready, start, survives

PROCESSES = 4
FILES = 25
KEY = bytes(range(32))

NO_LINKS = """
import errno, os

def link(source, target):
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))

os.link = link
"""
MAKE_WITH_OTHERS = """
import sys
from pathlib import Path
from tandem.core.secret_key import load_or_make
from tests.racing import wait_for_start

wait_for_start()
for number in range(int(sys.argv[2])):
    print(load_or_make(Path(sys.argv[1]) / str(number)).hex())
"""
DIE = """
import sys
from pathlib import Path
from tandem.core.secret_key import load_or_make
from tests.racing import die_before_change

die_before_change(int(sys.argv[2]))
load_or_make(Path(sys.argv[1]))
"""
MAKE_AND_PAUSE = """
import sys
from pathlib import Path
from tandem.core.secret_key import load_or_make
from tests.racing import pause_before

pause_before("os.link")
print(load_or_make(Path(sys.argv[1])).hex())
"""
READ = """
import sys
from pathlib import Path
from tandem.core import secret_key
from tests.racing import before_each_change

secret_key._PATIENCE_SECONDS = 60
before_each_change(lambda: print("opening", flush=True))
print(secret_key.load_or_make(Path(sys.argv[1])).hex())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "secret.key"


def holding(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_key_is_made_once_and_kept_as_text(path: Path) -> None:
    key = load_or_make(path)
    assert len(key) == 32
    assert path.read_text("ascii") == key.hex() + "\n"
    assert load_or_make(path) == key
    assert load_or_make(path.with_name("another")) != key
    assert names(path.parent) == ["another", "secret.key"]


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows has no modes")
def test_only_the_user_can_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        load_or_make(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("system", ["", NO_LINKS], ids=["links", "no-links"])
def test_processes_that_start_at_once_get_the_same_key(tmp_path: Path, system: str) -> None:
    said = all_at_once(system + MAKE_WITH_OTHERS, [(str(tmp_path), str(FILES))] * PROCESSES)
    kept = [(tmp_path / str(number)).read_text("ascii") for number in range(FILES)]
    assert said == ["".join(kept)] * PROCESSES
    assert len(set(kept)) == FILES
    assert names(tmp_path) == sorted(map(str, range(FILES)))


def test_who_is_second_takes_the_key_of_the_first_who_has_cleared_everything_else_away(path: Path) -> None:
    with start(MAKE_AND_PAUSE, str(path)) as second:
        await_ready(second)
        key = load_or_make(path)
        assert names(path.parent) == [path.name]
        assert second.communicate("go\n", timeout=PATIENCE_SECONDS)[0] == key.hex() + "\n"
    assert second.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows flushes no folders")
def test_the_key_is_on_the_disk_before_it_gets_its_name_and_then_the_name_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int | str] = []
    fsync, link = os.fsync, os.link

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        steps.append(os.fstat(descriptor).st_ino)

    def note_link(source: Path, target: Path) -> None:
        link(source, target)
        steps.append("named")

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "link", note_link)
    load_or_make(path)
    assert steps == [path.stat().st_ino, "named", path.parent.stat().st_ino]


def test_a_kill_at_any_step_leaves_no_key_or_a_whole_one_and_nothing_beside_it(tmp_path: Path) -> None:
    made: set[bool] = set()
    for step in count(1):
        path = tmp_path / str(step) / "secret[1].key"
        if survives(DIE, str(path), str(step)):
            break
        before = path.read_text("ascii").strip() if path.exists() else None
        made.add(before is not None)
        key = load_or_make(path)
        assert before in (None, key.hex())
        assert names(path.parent) == [path.name]
    assert made == {False, True}


def test_a_key_that_is_just_being_written_is_waited_for(path: Path) -> None:
    half, rest = KEY.hex()[:20], KEY.hex()[20:]
    holding(path, half.encode())
    with start(READ, str(path)) as child:
        assert child.stdout is not None
        # The second look comes after the first found half a key.
        assert [child.stdout.readline() for _ in range(2)] == ["opening\n"] * 2
        with path.open("a", encoding="ascii") as stream:
            stream.write(rest)
        said = child.communicate(timeout=PATIENCE_SECONDS)[0].split()
    assert KEY.hex() in said


@pytest.mark.parametrize("content", [KEY.hex().upper().encode(), b" " + KEY.hex().encode() + b"\r\n"])
def test_a_key_that_a_person_put_there_may_look_a_little_different(path: Path, content: bytes) -> None:
    assert load_or_make(holding(path, content)) == KEY


WRONG = {
    "empty": b"",
    "too short": b"c0ffee" * 10,
    "too long": b"c0ffee" * 11,
    "not hexadecimal": b"coffee" * 10 + b"1234",
    "not text": b"\xff\xfe" * 32,
    "two lines": KEY.hex().encode() + b"\n" + KEY.hex().encode(),
    "much too long": b"a" * 1_000_000,
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_a_file_that_holds_something_else_is_refused_without_its_content(
    path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_key, "_PATIENCE_SECONDS", 0.02)
    with pytest.raises(ConfigInvalid, match="delete it") as refused:
        load_or_make(holding(path, content))
    assert str(path) in refused.value.message
    assert refused.value.details == {"setting": "secret_key_file"}
    assert "c0ffee" not in refused.value.message
    assert "coffee" not in refused.value.message
    assert path.read_bytes() == content


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows has no modes")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_open_is_refused_with_what_to_run(tmp_path: Path, mode: int) -> None:
    path = holding(tmp_path / "my keys" / "secret.key", KEY.hex().encode(), mode)
    with pytest.raises(ConfigInvalid) as refused:
        load_or_make(path)
    assert f"(mode {mode:04o})" in refused.value.message
    assert KEY.hex() not in refused.value.message
    command = refused.value.message.partition("Run: ")[2].partition(". ")[0]
    subprocess.run(shlex.split(command), check=True)
    assert load_or_make(path) == KEY
    path.chmod(0o400)
    assert load_or_make(path) == KEY


def test_a_place_that_cannot_be_read_or_made_is_refused(tmp_path: Path, path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ConfigInvalid, match="choose another place with secret_key_file") as refused:
        load_or_make(path)
    assert str(path) in refused.value.message
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigInvalid, match="cannot be used"):
        load_or_make(tmp_path / "file" / "secret.key")
