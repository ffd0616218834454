"""Whether two rounds make the same change of two bases: only then approvals may carry over."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from tandem.git.repository import Repository
from tandem.git.rounds import RoundPatch
from tests.git.sandbox import Sandbox

Files = Mapping[str, bytes | str | None]

LINES = [f"line {number}\n" for number in range(1, 31)]
TEXT = "".join(LINES)
BETTER = TEXT.replace("line 20\n", "better\n")
FUNCTIONS = "".join(f"def {name}():\n    one\n    two\n    three\n    four\n    five\n    six\n\n" for name in "ab")
BINARY = bytes(range(256))


def above(text: str) -> str:
    return f"new line\n{text}"


def in_a(text: str, new: str = "    better\n") -> str:
    return text.replace("    four\n", new, 1)


def in_b(text: str, new: str = "    better\n") -> str:
    a, b = text.split("def b")
    return f"{a}def b{in_a(b, new)}"


def write(sandbox: Sandbox, files: Files, *, executable: frozenset[str] = frozenset()) -> None:
    for path, content in files.items():
        if content is None:
            (sandbox.root / path).unlink()
        else:
            sandbox.write(path, content, executable=path in executable)


def proposed(sandbox: Sandbox, base: Files, change: Files, executable: frozenset[str] = frozenset()) -> RoundPatch:
    """A round that does this to a new commit with these files."""
    write(sandbox, base)
    commit = sandbox.commit()
    write(sandbox, change, executable=executable)
    sandbox.git("add", "--all")
    diff = sandbox.diff("--cached", "-M")
    sandbox.git("reset", "--quiet", "--hard")
    with Repository(sandbox.root) as repository:
        found = repository.validate_diff(diff, commit)
    return RoundPatch(commit, found.content, found.changes)


def is_rebase(sandbox: Sandbox, one: RoundPatch, other: RoundPatch) -> bool:
    with Repository(sandbox.root) as repository:
        found = repository.is_rebase(one, other)
        assert repository.is_rebase(other, one) is found
        return found


SAME: dict[str, tuple[Files, Files, Files, Files]] = {
    "lines come above": ({"a": TEXT}, {"a": BETTER}, {"a": above(TEXT)}, {"a": above(BETTER)}),
    "another file changes": ({"a": TEXT, "b": "1\n"}, {"a": BETTER}, {"b": "2\n"}, {"a": BETTER}),
    "lines far below change": (
        {"a": TEXT},
        {"a": BETTER},
        {"a": TEXT.replace("line 28", "x")},
        {"a": BETTER.replace("line 28", "x")},
    ),
    "beside it a new and a binary file": (
        {"a": TEXT, "b": BINARY},
        {"a": BETTER, "b": BINARY * 2, "c": "new\n"},
        {"a": above(TEXT)},
        {"a": above(BETTER), "b": BINARY * 2, "c": "new\n"},
    ),
    "a file is renamed as it is": (
        {"a": TEXT, "b": TEXT},
        {"b": None, "c": TEXT},
        {"a": "x\n"},
        {"b": None, "c": TEXT},
    ),
    "one of two functions": (
        {"a": FUNCTIONS},
        {"a": in_b(FUNCTIONS)},
        {"a": above(FUNCTIONS)},
        {"a": above(in_b(FUNCTIONS))},
    ),
}

OTHER: dict[str, tuple[Files, Files, Files, Files]] = {
    "the same hunk in another function": (
        {"a": FUNCTIONS},
        {"a": in_a(FUNCTIONS)},
        {"a": above(FUNCTIONS)},
        {"a": above(in_b(FUNCTIONS))},
    ),
    "the same hunk elsewhere on the same base": ({"a": FUNCTIONS}, {"a": in_a(FUNCTIONS)}, {}, {"a": in_b(FUNCTIONS)}),
    "the same hunk at lines that say the same": (
        {"a": TEXT * 2},
        {"a": BETTER + TEXT},
        {"a": above(TEXT * 2)},
        {"a": above(TEXT + BETTER)},
    ),
    "the functions changed places": (
        {"a": FUNCTIONS},
        {"a": in_a(FUNCTIONS)},
        {"a": FUNCTIONS.replace("def b", "def c").replace("def a", "def b").replace("def c", "def a")},
        {"a": in_a(FUNCTIONS.replace("def b", "def c").replace("def a", "def b").replace("def c", "def a"))},
    ),
    "the function has another name": (
        {"a": FUNCTIONS},
        {"a": in_b(FUNCTIONS, "    four\n    better\n    four\n")},
        {"a": FUNCTIONS.replace("def b", "def delete_all")},
        {"a": in_b(FUNCTIONS, "    four\n    better\n    four\n").replace("def b", "def delete_all")},
    ),
    "a line around it": (
        {"a": TEXT},
        {"a": BETTER},
        {"a": TEXT.replace("line 22", "x")},
        {"a": BETTER.replace("line 22", "x")},
    ),
    "a blank in the new line": (
        {"a": TEXT},
        {"a": BETTER},
        {"a": above(TEXT)},
        {"a": above(BETTER).replace("better", "better ")},
    ),
    "an indentation": (
        {"a": TEXT},
        {"a": BETTER},
        {"a": above(TEXT)},
        {"a": above(BETTER).replace("better", " better")},
    ),
    "a line end": (
        {"a": TEXT},
        {"a": BETTER},
        {"a": above(TEXT)},
        {"a": above(BETTER).replace("better\n", "better\r\n")},
    ),
    "no line end at the end": (
        {"a": TEXT},
        {"a": f"{TEXT}end\n"},
        {"a": above(TEXT)},
        {"a": f"{above(TEXT)}end"},
    ),
    "one more hunk": ({"a": TEXT}, {"a": BETTER}, {"a": above(TEXT)}, {"a": above(BETTER).replace("line 9", "x")}),
    "one hunk fewer": ({"a": TEXT}, {"a": BETTER.replace("line 9", "x")}, {"a": above(TEXT)}, {"a": above(BETTER)}),
    "a file beside it": ({"a": TEXT}, {"a": BETTER}, {"a": above(TEXT)}, {"a": above(BETTER), "b": "new\n"}),
    "a file less": ({"a": TEXT}, {"a": BETTER, "b": "new\n"}, {"a": above(TEXT)}, {"a": above(BETTER)}),
    "another file of that text": ({"a": TEXT, "b": TEXT}, {"a": BETTER}, {"a": above(TEXT)}, {"b": BETTER}),
    "another binary file": (
        {"a": TEXT, "b": BINARY},
        {"a": BETTER, "b": BINARY * 2},
        {"a": above(TEXT)},
        {"a": above(BETTER), "b": BINARY * 3},
    ),
    "a binary file of another one": ({"b": BINARY}, {"b": BINARY * 2}, {"b": BINARY * 3}, {"b": BINARY * 2}),
    "a new file with more in it": ({"a": TEXT}, {"c": "new\n"}, {"a": above(TEXT)}, {"c": "new\nbad\n"}),
    "another file is removed": ({"a": TEXT}, {"a": None}, {"a": above(TEXT)}, {"a": None}),
    "what a renamed file holds": (
        {"a": TEXT},
        {"a": None, "b": TEXT},
        {"a": above(TEXT)},
        {"a": None, "b": above(TEXT)},
    ),
}


@pytest.mark.parametrize("rounds", [pytest.param(rounds, id=name) for name, rounds in SAME.items()])
def test_the_same_hunks_on_another_base_are_a_rebase(
    sandbox: Sandbox, rounds: tuple[Files, Files, Files, Files]
) -> None:
    first, change, second, again = rounds
    assert is_rebase(sandbox, proposed(sandbox, first, change), proposed(sandbox, second, again))


@pytest.mark.parametrize("rounds", [pytest.param(rounds, id=name) for name, rounds in OTHER.items()])
def test_anything_else_is_none(sandbox: Sandbox, rounds: tuple[Files, Files, Files, Files]) -> None:
    first, change, second, again = rounds
    assert not is_rebase(sandbox, proposed(sandbox, first, change), proposed(sandbox, second, again))


def test_another_mode_is_none(sandbox: Sandbox) -> None:
    make = partial(proposed, executable=frozenset("a"))
    plain = proposed(sandbox, {"a": TEXT}, {"a": BETTER})
    assert not is_rebase(sandbox, plain, make(sandbox, {"a": above(TEXT)}, {"a": above(BETTER)}))
    assert is_rebase(
        sandbox, make(sandbox, {"a": TEXT}, {"a": BETTER}), make(sandbox, {"a": above(TEXT)}, {"a": above(BETTER)})
    )


def test_a_link_that_leads_elsewhere_is_none(sandbox: Sandbox) -> None:
    def linked(to: str, content: str) -> RoundPatch:
        write(sandbox, {"a": content, "z": None} if (sandbox.root / "z").exists() else {"a": content})
        commit = sandbox.commit()
        (sandbox.root / "z").symlink_to(to)
        sandbox.git("add", "--all")
        diff = sandbox.diff("--cached")
        sandbox.git("reset", "--quiet", "--hard")
        with Repository(sandbox.root) as repository:
            found = repository.validate_diff(diff, commit)
        return RoundPatch(commit, found.content, found.changes)

    assert not is_rebase(sandbox, linked("a", "1\n"), linked("b", "2\n"))
    assert is_rebase(sandbox, linked("a", "3\n"), linked("a", "4\n"))
