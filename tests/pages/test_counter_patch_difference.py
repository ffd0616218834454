"""The difference of two diffs against the same commit is what git says of their results."""

from __future__ import annotations

import random

from tandem.git.hunks import FileDiff
from tandem.web.review.counter_patch import between
from tests.git.sandbox import Sandbox
from tests.pages.changes import every_kind, staged

FILE = "text.txt"
BASE = [f"line {number}" for number in range(1, 60)]


def diff_to(repo: Sandbox, lines: list[str]) -> str:
    repo.write(FILE, "".join(f"{line}\n" for line in lines))
    return staged(repo)


def edited(chance: random.Random) -> list[str]:
    lines = list(BASE)
    for _ in range(chance.randrange(1, 7)):
        at = chance.randrange(len(lines))
        match chance.randrange(3):
            case 0:
                lines.insert(at, f"new {chance.randrange(5)}")
            case 1:
                lines.pop(at)
            case _:
                lines[at] = f"changed {chance.randrange(5)}"
    return lines


def applied(lines: list[str], file: FileDiff) -> list[str]:
    """What becomes of lines; fails where the difference does not fit them."""
    made: list[str] = []
    at = 1
    for hunk in file.hunks:
        made += lines[at - 1 : hunk.old_first - 1]
        at = hunk.old_first
        assert len(made) + 1 == hunk.new_first
        for line in hunk.walk():
            if line.old_number is not None:
                assert (lines[at - 1], at) == (line.text, line.old_number)
                at += 1
            if line.new_number is not None:
                made.append(line.text)
    return made + lines[at - 1 :]


def test_it_leads_from_the_one_result_to_the_other(repo: Sandbox, chance: random.Random) -> None:
    repo.write(FILE, "".join(f"{line}\n" for line in BASE))
    repo.commit()
    for _ in range(12):
        first, second = edited(chance), edited(chance)
        found = between(diff_to(repo, first), diff_to(repo, second))
        if first == second:
            assert not found
            continue
        assert [file.path for file in found] == [FILE]
        assert applied(first, found[0]) == second


def test_files_that_both_leave_alike_are_left_out(repo: Sandbox) -> None:
    diff = every_kind(repo)
    assert between(diff, diff) == ()
    other = between(diff, diff.replace("a better line 3", "the best line 3"))
    assert [(file.path, file.kind) for file in other] == [("a.txt", "modified")]
    assert (other[0].added, other[0].deleted) == (1, 1)


def test_a_file_that_only_one_of_them_touches(repo: Sandbox) -> None:
    repo.write("a.txt", repo.read("a.txt").replace(b"line 3", b"a better line 3"))
    first = staged(repo)
    repo.write("new.txt", "new\n")
    (repo.root / "b.txt").unlink()
    second = staged(repo)
    kinds = {file.path: (file.kind, file.added, file.deleted) for file in between(first, second)}
    assert kinds == {"a.txt": ("modified", 1, 1), "b.txt": ("deleted", 0, 10), "new.txt": ("added", 1, 0)}
