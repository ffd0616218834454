"""Where lines of one round stand in another: where `git blame` has them, or said to be changed."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest

from tandem.git.repository import Repository
from tandem.git.rounds import RoundPatch
from tandem.git.travel import Spot, Version
from tests.architecture.source import ROOT
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.replaying.clone import GitFailed
from tests.replaying.clone import Repository as History
from tests.replaying.strict import LINE

PAIRS = 250
BLAMED = re.compile(rb"^([0-9a-f]{40}) (\d+) (\d+)", re.MULTILINE)


def landed(commit: str) -> Version:
    """Returns the version of a commit."""
    return Version(RoundPatch(commit, None, ()), commit)


# --- Every line of real files.


def histories(count: int) -> list[tuple[bytes, bytes]]:
    """Versions of this project's files next to each other, or some apart; none of what a clone has no history of."""
    asked = ("log", "--raw", "-z", "--no-renames", "--full-index", "--diff-filter=M", "--format=", "--no-merges")
    with closing(History(ROOT)) as history:
        try:
            fields = history.git(*asked).decode().split("\0")
        except GitFailed:
            return []
        steps: dict[str, list[str]] = {}
        for facts, path in zip(fields[:-1:2], fields[1::2], strict=True):
            steps.setdefault(path, []).append(facts.split(" ")[3])
        pairs = [
            (oids[at + apart], oids[at])
            for oids in steps.values()
            for apart in (1, 4)
            for at in range(0, len(oids) - apart, apart)
            if oids[at + apart] != oids[at]
        ]
        sample = random.Random(1).sample(pairs, min(count, len(pairs)))
        return [(history.content(before), history.content(after)) for before, after in sample]


def edited(content: bytes, chance: random.Random) -> bytes:
    """A file after some edits of the kinds that people make: lines go, come, move, are indented, or come again."""
    lines: list[bytes] = LINE.findall(content)
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(lines))
        some = lines[at : at + chance.choice((1, 2, 5, 20))]
        match chance.choice(("go", "come", "move", "indent", "again")):
            case "go":
                del lines[at : at + len(some)]
            case "come":
                lines[at:at] = [b"    return %d\n" % chance.randint(0, 9), b"\n"][: chance.randint(1, 2)]
            case "move":
                del lines[at : at + len(some)]
                there = chance.randint(0, len(lines))
                lines[there:there] = some
            case "indent":
                lines[at : at + len(some)] = [b"    " + line for line in some]
            case _:
                lines[at:at] = some
    return b"".join(lines)


def made_up(count: int, chance: random.Random) -> list[tuple[bytes, bytes]]:
    files = [file.read_bytes() for file in sorted((ROOT / "src").rglob("*.py"))]
    pairs = ((content, edited(content, chance)) for content in (chance.choice(files) for _ in range(2 * count)))
    return [pair for pair in pairs if pair[0] != pair[1]][:count]


def imported(sandbox: Sandbox, pairs: Sequence[tuple[bytes, bytes]]) -> tuple[str, str]:
    """Two commits, each with one side of all pairs."""
    stream: list[bytes] = []
    for side in (0, 1):
        stream.append(b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\ndata 0\n" % (side + 1))
        for at, pair in enumerate(pairs):
            stream.append(b"M 100644 inline %d\ndata %d\n%s\n" % (at, len(pair[side]), pair[side]))
    sandbox.git("fast-import", "--quiet", "--force", stdin=b"".join(stream))
    return sandbox.git("rev-parse", "main^").strip(), sandbox.git("rev-parse", "main").strip()


def blamed(sandbox: Sandbox, path: str, before: str) -> dict[int, int]:
    """The lines that a file kept since a commit: their numbers now by those that they had."""
    said = sandbox.run("blame", "--porcelain", "main", "--", path).stdout
    return {int(old): int(new) for commit, old, new in BLAMED.findall(said) if commit.decode() == before}


@VARIATION
def test_every_line_of_real_files_stands_where_blame_has_it(
    sandbox: Sandbox, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.delenv(name)
    pairs = histories(PAIRS * 4 // 5)
    pairs += made_up(PAIRS - len(pairs), chance)
    # From old to new, and from new to old.
    pairs = [(after, before) if at % 2 else (before, after) for at, (before, after) in enumerate(pairs)]
    assert len(pairs) >= PAIRS
    before, after = imported(sandbox, pairs)
    spots = [
        Spot(f"{at} {line}", 1, "after", str(at), line)
        for at, (content, _) in enumerate(pairs)
        for line in range(1, len(LINE.findall(content)) + 1)
    ]
    with Repository(sandbox.root) as repository:
        places = repository.find_places({1: landed(before), 2: landed(after)}, spots, 2)
    with ThreadPoolExecutor(4) as threads:
        kept = list(threads.map(partial(blamed, sandbox, before=before), map(str, range(len(pairs)))))
    lengths = [len(LINE.findall(content)) for _, content in pairs]
    wrong = [
        (spot, found)
        for spot in spots
        for found, at in ((places[spot.id], int(spot.file or "")),)
        if (None if found.changed else found.line) != kept[at].get(spot.line or 0)
        or (found.line is not None and not 1 <= found.line <= lengths[at])
    ]
    assert not wrong, wrong[:5]
