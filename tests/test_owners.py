"""CODEOWNERS is read as GitHub and GitLab read it."""

from __future__ import annotations

import time

import pytest

from tandem.rulings.owners import groups

SOON_SECONDS = 2.0

GITHUB = """
# Comments, blank lines
*       @global-1 @global-2

*.js    @js-owner # inline
*.go docs@example.com
/build/logs/ @doctocat
docs/*  docs-of-files@example.com
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @logs
/apps/github
/with\\ space/ @space
/\\#hash @hash
"""


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("a.txt", "@global-1 @global-2"),
        ("deep/er/a.txt", "@global-1 @global-2"),
        ("a.js", "@js-owner"),
        ("src/a.js", "@js-owner"),
        ("src/a.go", "docs@example.com"),
        ("build/logs/x", "@logs"),
        ("build/logsx", "@global-1 @global-2"),
        ("docs/a.md", "@doctocat"),
        ("mydocs/a.md", "@global-1 @global-2"),
        ("src/apps/x", "@octocat"),
        ("apps/x.js", "@octocat"),
        ("apps", "@global-1 @global-2"),
        ("apps/github", ""),
        ("apps/github/a.js", ""),
        ("scripts/a/b", "@doctocat @octocat"),
        ("src/logs", "@logs"),
        ("with space/x", "@space"),
        ("#hash", "@hash"),
        # Look-alikes
        ("SCRIPTS/a", "@doctocat @octocat"),
        ("scripts./a", "@doctocat @octocat"),
        ("src/../scripts/a", "@doctocat @octocat"),
    ],
)
def test_the_last_pattern_that_fits_names_the_owners(path: str, owners: str) -> None:
    assert groups(GITHUB.encode(), [path]) == ({frozenset(owners.split()): (path,)} if owners else {})


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("docs/*", ["docs/a"], ["docs/a/b", "x/docs/a"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["docs", "x/docs/a"]),
        ("/*", ["a"], ["a/b"]),
        ("*", ["a", "a/b"], []),
        ("**", ["a", "a/b"], []),
        ("src/*/api/", ["src/a/api/x", "src/a/api/y/z"], ["src/a/api", "src/api/x", "src/a/b/api/x"]),
        ("src/**/api", ["src/api", "src/a/b/api/x"], ["api", "src/xapi"]),
        ("test?/", ["test1/a", "x/test1/a"], ["test1", "test/a"]),
        ("a**b", ["a-b", "x/ab"], ["a/b"]),
        ("[x", ["[x"], ["x"]),
        ("Makefile", ["makefile", "src/Makefile", "Makefile/x"], ["Makefile.am"]),
        ("**/caf\u00e9/", ["cafe\u0301/x"], ["cafe/x"]),
    ],
)
def test_patterns_are_those_of_gitignore(pattern: str, fitting: list[str], others: list[str]) -> None:
    assert groups(f"{pattern} @o".encode(), [*fitting, *others]) == {frozenset(["@o"]): tuple(fitting)}


GITLAB = b"""
* @default

[Database][2] @dba
/db/
/db/special/ @special
!/db/generated/

^[Documentation] @writers
*.md

[Security]
/src/auth/ @security @@maintainer
/src/auth/README.md

[DATABASE]
*.sql
"""


def test_every_section_that_is_not_optional_has_owners_of_its_own() -> None:
    paths = ("a.md", "db/a.md", "db/special/x.sql", "db/generated/x", "x.sql", "src/auth/a", "src/auth/README.md")
    assert groups(GITLAB, paths) == {
        frozenset(["@default"]): paths,
        frozenset(["@dba"]): ("db/a.md",),
        frozenset(["@security", "@@maintainer"]): ("src/auth/a",),
    }


def test_sections_of_one_name_are_one_and_required_if_one_of_them_is() -> None:
    content = b"^[A] @first\n/x\n[a] @second\n/y\n/x/z @third\n"
    assert groups(content, ["x", "y", "x/z"]) == {
        frozenset(["@first"]): ("x",),
        frozenset(["@second"]): ("y",),
        frozenset(["@third"]): ("x/z",),
    }


def test_a_line_without_any_owner_in_its_list_is_left_out() -> None:
    assert groups(b"* @a\n/docs nobody else\n/src bad @b\n\xff\xfe @c\n\\", ["docs", "src"]) == {
        frozenset(["@a"]): ("docs",),
        frozenset(["@b"]): ("src",),
    }


def test_an_empty_file_has_no_owners() -> None:
    assert groups(b"", ["a"]) == {}
    assert groups(b"* @a", []) == {}


def test_a_large_file_and_hostile_patterns_take_no_time() -> None:
    kinds = ("/src/mod{0}/ @o", "lib{0}/ @o", "*.e{0} @o", "/src/*/x{0}/ @o", "/apps/**/y{0}.ts @o")
    rules = [kinds[number % len(kinds)].format(number) for number in range(1000)]
    rules += ["*a*a*a*a*a*a*a*a*a*b @o", "/**/a/**/a/**/a/**/a/**/b @o"]
    paths = [f"src/mod{number}/a/b.e{number}" for number in range(300)]
    started = time.perf_counter()
    assert groups("\n".join(rules).encode(), [*paths, "a" * 1000, "a/" * 400 + "c"])
    assert time.perf_counter() - started < SOON_SECONDS
