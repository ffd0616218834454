"""Little that stands for much: a change is measured before git takes it up, and git itself is held to a limit."""

from __future__ import annotations

import base64
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.reviewing import PROPOSAL, Desk, edited
from tests.broker import StartBroker, fresh_project
from tests.git.sandbox import Sandbox

LIMIT = 1_000_000
NOTHING = zlib.compress(b"")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def desk(start_broker: StartBroker, repo: Sandbox) -> Iterator[Desk]:
    broker = start_broker(inflated_limit_bytes=LIMIT)
    with Desk(broker.url, fresh_project()) as opened:
        opened.register(repo.root)
        yield opened


def part(kind: str, size: int, packed: bytes) -> str:
    """One part of a binary patch: lines of base 85, each with how many bytes it has."""
    rows = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    padded = [row + b"\0" * (-len(row) % 4) for row in rows]
    lines = [LETTERS[len(row) - 1] + base64.b85encode(more).decode() for row, more in zip(rows, padded, strict=True)]
    return f"{kind} {size}\n" + "".join(f"{line}\n" for line in lines) + "\n"


def binary(repo: Sandbox, path: str, after: bytes, forward: str) -> str:
    """A binary patch of a file, or of a new one."""
    there = (repo.root / path).exists()
    before = repo.git("rev-parse", f"HEAD:{path}").strip() if there else "0" * 40
    blob = repo.git("hash-object", "--stdin", stdin=after).strip()
    return (
        f"diff --git a/{path} b/{path}\n"
        + ("" if there else "new file mode 100644\n")
        + f"index {before}..{blob}{' 100644' if there else ''}\nGIT binary patch\n"
        + forward
        + part("literal", 0, NOTHING)
    )


def zeros(repo: Sandbox, path: str, size: int) -> str:
    """A new file of so many NUL bytes, in a thousandth of that."""
    content = bytes(size)
    return binary(repo, path, content, part("literal", size, zlib.compress(content)))


def number(value: int) -> bytes:
    """As a delta's head has it."""
    return bytes([value]) if value <= 0x7F else bytes([value & 0x7F | 0x80]) + number(value >> 7)


def copied(repo: Sandbox, path: str, times: int) -> str:
    """A file that becomes itself many times over, by a delta of a few bytes a time."""
    before = repo.read(path)
    copy = b"\xb0" + len(before).to_bytes(2, "little")
    delta = number(len(before)) + number(len(before) * times) + copy * times
    return binary(repo, path, before * times, part("delta", len(delta), zlib.compress(delta)))


def test_a_small_change_that_stands_for_much_is_refused_with_the_setting_that_says_so(desk: Desk, repo: Sandbox):
    repo.write("large.txt", "a line\n" * 200_000)
    repo.write("half.txt", "a line of text\n" * 40_000)
    repo.write("times.bin", b"0123456789abcde\0" * 1_000)
    repo.commit()
    review = desk.put_up(diff=edited("b.txt"))
    first_lines = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1,2 @@\n {1}\n+another\n"
    copies = "diff --git a/half.txt b/copy{0}\nsimilarity index 100%\ncopy from half.txt\ncopy to copy{0}\n"
    refused: list[tuple[str, str]] = [
        ("one file", zeros(repo, "zeros.bin", LIMIT + 1)),
        ("many files", "".join(zeros(repo, f"zeros{count}.bin", LIMIT // 8) for count in range(9))),
        ("a delta", copied(repo, "times.bin", 70)),
        ("a delta in a delta's clothes", copied(repo, "times.bin", 70).replace("delta ", "delta +")),
        ("a length below nothing", zeros(repo, "zeros.bin", 10).replace("literal 10", "literal -10")),
        ("a line of a large file", first_lines.format("large.txt", "a line")),
        ("copies", copies.format(1) + copies.format(2)),
    ]
    for name, diff in refused:
        assert len(diff) < 20_000, name
        details = desk.refused("TOO_LARGE", "create_review", **PROPOSAL, diff=diff)
        assert details == {"limit": LIMIT, "actual": details["actual"], "setting": "inflated_limit_bytes"}, name
        assert details["actual"] > LIMIT, name
        with desk.unchanged(review):
            desk.refused("TOO_LARGE", "create_review", **PROPOSAL, review_id=review, diff=diff)
    desk.refused("TOO_LARGE", "create_review", **PROPOSAL, path="large.txt", description="little\n")
    offer = {"review_id": review, "verdict": "comment", "reason": "So.", "claim_generation": desk.claim(review)}
    desk.refused("TOO_LARGE", "submit_verdict", **offer, counter_patch=copied(repo, "times.bin", 70))
    # What stays under it is taken, and is what git makes of it.
    for diff in (zeros(repo, "zeros.bin", LIMIT // 2), copied(repo, "times.bin", 20), copies.format(1)):
        assert desk.put_up_whole(diff=diff)["validated"]


@pytest.mark.skipif(sys.platform != "linux", reason="platform: only Linux bounds a process from outside")
def test_git_takes_up_no_more_memory_than_it_may(start_broker: StartBroker, repo: Sandbox):
    """Git keeps 24 bytes of each line, so that a file of nothing but line ends takes more than was foreseen."""
    lines = 10_000_000
    repo.write("empty.txt", "\n" * lines)
    repo.commit()
    broker = start_broker(inflated_limit_bytes=lines + 1000)
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(repo.root)
        diff = "diff --git a/empty.txt b/empty.txt\n--- a/empty.txt\n+++ b/empty.txt\n@@ -1,3 +1,4 @@\n+x\n \n \n \n"
        details = desk.refused("TOO_LARGE", "create_review", **PROPOSAL, diff=diff)
        assert details == {"limit": lines + 1000, "setting": "inflated_limit_bytes"}
        desk.put_up(diff=edited())


@pytest.mark.skipif(sys.platform != "linux", reason="platform: only Linux bounds a process from outside")
def test_git_writes_no_larger_file_than_it_may(start_broker: StartBroker, repo: Sandbox, tmp_path: Path):
    program = tmp_path / "git"
    program.write_text(
        f"""#!/bin/sh
[ "$1" = apply ] && exec dd if=/dev/zero of=large bs=1M count=300
exec "{shutil.which("git")}" "$@"
"""
    )
    program.chmod(0o755)
    broker = start_broker(inflated_limit_bytes=LIMIT, git_executable=program)
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(repo.root)
        desk.refused("TOO_LARGE", "create_review", **PROPOSAL, diff=edited())
