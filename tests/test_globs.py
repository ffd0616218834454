"""Patterns of paths fit by their meaning, and no name takes long to match."""

from __future__ import annotations

import time
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.rulings.globs import matches

SOON_SECONDS = 2.0


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.md", ["a.md", ".md"], ["docs/a.md", "a.mdx", "a.MD"]),
        ("docs/**", ["docs/a", "docs/a/b", "docs/"], ["docs", "docsx", "x/docs/a"]),
        ("**/a/*.sql", ["a/x.sql", "b/c/a/x.sql"], ["a/b/x.sql", "ba/x.sql"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/a/b/test_.py"], ["test_a.py", "src/atest_a.py"]),
        ("**/a/**/b/**", ["a/b/c", "x/a/y/b/z", "a/a/b/b/c"], ["a/b", "b/a/c"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("*a*b*c", ["abc", "xaxbxc", "aabbcc"], ["acb", "a/b/c"]),
        ("[a].x", ["[a].x"], ["a.x"]),
    ],
)
def test_a_pattern_is_of_a_whole_path(pattern: str, fitting: list[str], others: list[str]) -> None:
    assert [path for path in (*fitting, *others) if matches(path, [pattern])] == fitting
    assert not any(matches(path, []) for path in fitting)


def fits(path: str, pattern: str) -> bool:
    """The meaning of a pattern, letter by letter."""

    @cache
    def rest(at: int, of: int) -> bool:
        if of == len(pattern):
            return at == len(path)
        if pattern.startswith("**/", of) and not pattern.startswith("*", of - 1 if of else len(pattern)):
            ends = [end + 1 for end in range(at, len(path)) if path[end] == "/"]
            return rest(at, of + 3) or any(rest(end, of + 3) for end in ends if "" not in path[at:end].split("/")[:-1])
        if pattern.startswith("**", of):
            return any(rest(end, of + 2) for end in range(at, len(path) + 1))
        if pattern[of] == "*":
            end = path.find("/", at)
            return any(rest(to, of + 1) for to in range(at, (len(path) if end < 0 else end) + 1))
        return (
            at < len(path)
            and (path[at] == pattern[of] or (pattern[of] == "?" and path[at] != "/"))
            and rest(at + 1, of + 1)
        )

    return rest(0, 0)


_parts = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6).map("/".join)
_patterns = st.lists(st.just("**") | st.text("ab*?", min_size=1, max_size=5), min_size=1, max_size=6).map("/".join)


@settings(max_examples=500)
@given(path=_parts, pattern=_patterns.filter(lambda pattern: "***" not in pattern))
def test_a_pattern_fits_what_it_means(path: str, pattern: str) -> None:
    assert matches(path, [pattern]) is fits(path, pattern)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*a*a*b", "**/a/**/a/**/a/**/a/**/a/b", "**/*a*a*a*a*a*a*b/**/x"])
def test_no_name_takes_long(pattern: str) -> None:
    started = time.perf_counter()
    for path in ("a" * 1000, "/".join("a" * 500), "a/" * 500 + "c"):
        assert not matches(path, [pattern])
    assert time.perf_counter() - started < SOON_SECONDS
