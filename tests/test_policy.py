"""The needs of a change by the rules of a policy, over all its paths."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE, EXECUTABLE, GITLINK, REGULAR, SYMLINK
from tandem.reviews.finding_rules import SEVERITIES as SEVERITIES_OF_FINDINGS
from tandem.reviews.rules import Category
from tandem.rulings.policy import CATEGORIES, SEVERITIES, Facts, Need, Policy, Requirements
from tandem.rulings.policy_file import parse
from tests.modes import VARIATION

OWN = ".tandem/policy.toml"

TEAM = """
[risk]
auth = ["src/auth/**", "**/migrations/**"]

[[rule]]
name = "documents"
paths = ["docs/**", "*.md"]
not_paths = ["docs/security/**"]
needs = ["checks"]

[[rule]]
name = "generated"
generated = true
needs = ["checks"]

[[rule]]
name = "auth"
risk = ["auth"]
needs = ["agent:security", "person"]
threshold = "minor"
rounds = 2

[[rule]]
name = "small"
paths = ["src/**"]
lines = "<=20"
files = "<=3"
needs = ["agent"]
threshold = "major"

[[rule]]
name = "large"
lines = ">400"
needs = ["owner"]

[[rule]]
name = "releases"
branches = ["release/*"]
needs = ["person", "checks"]

[[rule]]
name = "plans of agents"
categories = ["plan_review"]
by = ["agent"]
needs = ["agent:other-provider"]
rounds = 5
"""


def change(path: str, before: str = REGULAR, after: str = REGULAR) -> Change:
    return Change(path, before, "1" * 40, after, "2" * 40)


def facts(
    *paths: str,
    lines: int = 100,
    branch: str | None = "main",
    category: str = "code_change",
    by: str = "claude",
    is_agent: bool = True,
    generated: tuple[str, ...] = (),
    is_validated: bool = True,
) -> Facts:
    changes = tuple(map(change, paths))
    return Facts(changes, frozenset(generated), lines, branch, category, by, is_agent, is_validated)


def needed(policy: str | Policy, asked: Facts) -> list[str]:
    policy = policy if isinstance(policy, Policy) else parse(policy.encode())
    return [one.word for one in policy.requirements(asked).needs]


def checks_for(*globs: str) -> Policy:
    return parse(f'[[rule]]\npaths = {list(globs)!r}\nneeds = ["checks"]\n'.encode())


def test_severities_and_categories_are_those_of_reviews() -> None:
    assert SEVERITIES == SEVERITIES_OF_FINDINGS
    assert get_args(Category) == CATEGORIES


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (facts("docs/a.md", "README.md"), ["checks"]),
        (facts("docs/a.md", "lib/b.py"), ["checks", "review"]),
        (facts("lib/docs.md"), ["review"]),
        (facts("docs/security/a.md"), ["review"]),
        (facts("docs/a.md", "src/a.py", lines=20), ["checks", "agent"]),
        (facts("src/a.py", "lib/b.py", lines=20), ["agent"]),
        (facts("src/a.py", lines=21), ["review"]),
        (facts("src/a.py", "src/b.py", "src/c.py", "src/d.py", lines=4), ["review"]),
        (facts("src/a.py", lines=401), ["owner"]),
        (facts("src/auth/a.py"), ["agent:security", "person"]),
        (facts("lib/db/migrations/1.sql", "docs/a.md", lines=5), ["checks", "agent:security", "person"]),
        (facts("src/auth/a.py", lines=5), ["agent", "agent:security", "person"]),
        (facts("uv.lock", generated=("uv.lock",)), ["checks"]),
        (facts("uv.lock", "lib/b.py", generated=("uv.lock",)), ["checks", "review"]),
        (facts("docs/a.md", branch="release/1"), ["checks", "person"]),
        (facts("docs/a.md", branch="release/1/2"), ["checks"]),
        (facts("docs/a.md", branch=None), ["checks", "person"]),
        (facts(category="plan_review"), ["agent:other-provider"]),
        (facts(category="plan_review", is_agent=False), ["review"]),
        (facts(), ["review"]),
        (facts("docs/a.md", is_validated=False), ["checks", "review"]),
        (facts("src/auth/a.py", is_validated=False), ["agent:security", "person"]),
    ],
)
def test_a_change_needs_what_the_rules_of_all_its_paths_ask(asked: Facts, words: list[str]) -> None:
    assert needed(TEAM, asked) == words


@pytest.mark.parametrize(
    ("by", "proposer", "is_agent", "applies"),
    [
        ("agent", "claude", True, True),
        ("agent", "ada", False, False),
        ("person", "ada", False, True),
        ("person", "claude", True, False),
        ("ada", "ada", False, True),
        ("ada", "Ada", False, False),
        # A name cannot pass for a kind.
        ("person", "person", True, False),
        ("agent", "agent", False, False),
    ],
)
def test_a_rule_may_be_for_a_kind_of_proposer_or_for_one(by: str, proposer: str, is_agent: bool, applies: bool) -> None:
    rule = f'[[rule]]\nby = ["{by}"]\nneeds = ["checks"]'
    assert needed(rule, facts("a", by=proposer, is_agent=is_agent)) == (["checks"] if applies else ["review"])


@pytest.mark.parametrize(
    ("size", "within", "outside"),
    [("<=20", 20, 21), ("<20", 19, 20), (">20", 21, 20), (">=20", 20, 19), ("5-20", 5, 4), ("5 - 20", 20, 21)],
)
def test_a_size_has_ends(size: str, within: int, outside: int) -> None:
    rule = f'[[rule]]\nlines = "{size}"\nneeds = ["checks"]'
    assert needed(rule, facts("a", lines=within)) == ["checks"]
    assert needed(rule, facts("a", lines=outside)) == ["review"]


FIRST = """
match = "first"
[[rule]]
name = "api"
paths = ["docs/api/**"]
needs = ["agent"]
[[rule]]
name = "documents"
paths = ["docs/**"]
needs = ["checks"]
[[rule]]
name = "rest"
needs = ["owner", "checks"]
"""


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["docs/api/a.md"], ["agent"]),
        (["docs/a.md"], ["checks"]),
        (["src/a.py"], ["checks", "owner"]),
        (["docs/a.md", "docs/api/a.md"], ["checks", "agent"]),
    ],
)
def test_where_the_file_says_so_only_the_first_rule_of_a_path_counts(paths: list[str], words: list[str]) -> None:
    assert needed(FIRST, facts(*paths)) == words


def test_the_first_rule_that_may_be_of_another_branch_hides_none() -> None:
    policy = """
match = "first"
[[rule]]
branches = ["dev"]
needs = ["agent"]
[[rule]]
branches = ["try/*"]
needs = ["checks"]
[[rule]]
needs = ["person"]
"""
    assert needed(policy, facts("a", branch="dev")) == ["agent"]
    assert needed(policy, facts("a", branch="try/1")) == ["checks"]
    assert needed(policy, facts("a", branch=None)) == ["agent", "person"]


def test_the_strictest_threshold_and_the_fewest_rounds_count() -> None:
    found = parse(TEAM.encode()).requirements(facts("src/auth/a.py", "docs/a.md", lines=5))
    assert (found.threshold, found.rounds) == ("minor", 2)
    assert found.by_rule == ("documents", "auth", "small")
    assert not found.only_checks
    assert parse(TEAM.encode()).requirements(facts("docs/a.md")).only_checks


def test_a_need_says_what_is_needed_by_which_rule_and_where() -> None:
    found = parse(TEAM.encode()).requirements(
        facts("src/auth/x.py", "docs/a", "docs/b", "docs/c", "lib/\u202eb", lines=5)
    )
    assert [one.words for one in found.needs] == [
        "passed checks (rule 'documents': docs/a, docs/b, …)",
        "a review by the agent security (rule 'auth': src/auth/x.py)",
        "a person's review (rule 'auth': src/auth/x.py)",
    ]
    alone = parse(TEAM.encode()).requirements(facts("lib/\u202eb", OWN))
    assert [one.words for one in alone.needs] == [f"a person's review (the policy's own path: {OWN})"]
    assert parse(TEAM.encode()).requirements(facts("lib/\u202eb")).needs[0].words == (
        "a review by somebody other than its author (no rule fits: lib/\\u202eb)"
    )


def test_requirements_are_stored_and_read_again() -> None:
    found = parse(TEAM.encode()).requirements(facts("src/auth/é.py", "docs/a.md", '"docs/\\377"', lines=5))
    assert Requirements.from_json(found.as_json()) == found
    assert found.as_json().encode()
    many = parse(TEAM.encode()).requirements(facts(*(f"docs/{number}" for number in range(300))))
    assert many.needs == (Need("checks", ("documents",), tuple(f"docs/{number}" for number in range(5))),)


def test_a_rule_has_its_text_and_the_file_its_hash() -> None:
    first = b"[[rule]] # one\r\nneeds = [\r\n  'agent',\r\n]\r\n\r\n"
    content = first + b"# of two\r\n[[rule]]\r\nname='b'\r\nneeds=['person']\r\n"
    policy = parse(content)
    assert policy.text_of("rule 1") == "[[rule]] # one\nneeds = [\n  'agent',\n]"
    assert policy.text_of("b") == "[[rule]]\nname='b'\nneeds=['person']"
    assert len(policy.source) == 64
    assert parse(content + b"#").source != policy.source


# Paths that no policy can leave to checks alone


@pytest.mark.parametrize(
    "path",
    [
        OWN,
        ".Tandem/POLICY.toml",
        ".tandem/policy.toml.",
        ".tandem./policy.toml",
        ".tandem /policy.toml ",
        ".tandem/policy.toml::$DATA",
        ".tandem\\policy.toml",
        "./.tandem/policy.toml",
        "docs/../.tandem/policy.toml",
        ".tandem//policy.toml",
        ".tandem/policy.toml/",
        ".tan\u200cdem/policy.toml",
        ".tandem/policy.toml/inside",
        ".tandem/policy.toml . .",
    ],
)
def test_the_policy_needs_a_person_however_its_path_is_written(path: str) -> None:
    assert needed(checks_for("**"), facts(path)) == ["checks", "person"]
    assert needed(checks_for("docs/**"), facts("docs/a.md", path)) == ["checks", "person"]


@pytest.mark.parametrize(
    "path",
    [
        ".tandem",
        ".tandem/checks.toml",
        ".TANDEM/Checks.toml",
        ".github/workflows/test.yml",
        ".github/workflows/deep/x.yml",
        ".GitHub/Workflows/test.yml",
        '".github/workflows/\\377.yml"',
        ".github/actions/a/action.yml",
        ".gitlab-ci.yml",
        ".gitlab/ci/a.yml",
        "CODEOWNERS",
        "docs/CODEOWNERS",
        ".github/codeowners",
        ".gitlab/CODEOWNERS",
        "REVIEW.md",
        "docs/Review.md",
        "src/a/AGENTS.md",
        "CLAUDE.md",
        ".gitattributes",
        "docs/.gitattributes",
        ".gitmodules",
        ".git\u200dmodules",
        # Names that another system reads as another path.
        "docs/../src/a.py",
        "./docs/a.md",
        "docs/",
        "docs/a.md.",
        "docs/a ",
        "docs\\..\\src",
        "docs/a.md:stream",
        "src\u200c/a.py",
    ],
)
def test_some_paths_need_more_than_checks(path: str) -> None:
    assert needed(checks_for("**"), facts(path)) == ["checks", "review"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (REGULAR, REGULAR, ["checks"]),
        (ABSENT_MODE, REGULAR, ["checks"]),
        (REGULAR, ABSENT_MODE, ["checks"]),
        (ABSENT_MODE, SYMLINK, ["checks", "review"]),
        (REGULAR, SYMLINK, ["checks", "review"]),
        (SYMLINK, ABSENT_MODE, ["checks", "review"]),
        (ABSENT_MODE, GITLINK, ["checks", "review"]),
        (ABSENT_MODE, EXECUTABLE, ["checks", "review"]),
        (REGULAR, EXECUTABLE, ["checks", "review"]),
        (EXECUTABLE, REGULAR, ["checks", "review"]),
    ],
)
def test_checks_alone_cover_plain_files_only(before: str, after: str, words: list[str]) -> None:
    asked = Facts((change("docs/a", before, after),), frozenset(), 1, "main", "code_change", "a", is_agent=True)
    assert needed(checks_for("docs/**"), asked) == words


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("src/auth/**", "SRC/Auth/login.py"),
        ("src/auth/**", "src/auth./login.py"),
        ("src/auth/**", "src\\auth\\login.py"),
        ("src/auth/**", "docs/../src/auth/login.py"),
        ("src/auth/**", "./src//auth/login.py"),
        ("src/auth/**", "src/au\u200cth/login.py"),
        ("caf\u00e9/**", "cafe\u0301/x"),
        ("cafe\u0301/**", "CAF\u00c9/x"),
        ("stra\u00dfe/**", "STRASSE/x"),
        ("src/\u212a/**", "src/k/x"),
    ],
)
def test_a_look_alike_of_a_path_does_not_escape_its_rule(glob: str, path: str) -> None:
    rule = f'[[rule]]\npaths = ["{glob}"]\nneeds = ["person"]\n'
    assert needed(rule, facts(path)) == ["person"]
    # A strict rule leaves paths out by their exact names only, a lenient one by any.
    assert needed(f'[[rule]]\nnot_paths = ["{glob}"]\nneeds = ["person"]\n', facts(path)) == ["person"]
    assert needed(f'[[rule]]\nnot_paths = ["{glob}"]\nneeds = ["checks"]\n', facts(path)) == ["review"]


def test_a_rename_is_a_file_deleted_and_one_added() -> None:
    moved = (change("src/auth/a.md", REGULAR, ABSENT_MODE), change("docs/a.md", ABSENT_MODE, REGULAR))
    asked = Facts(moved, frozenset(), 0, "main", "code_change", "a", is_agent=True)
    assert needed(TEAM, asked) == ["checks", "agent", "agent:security", "person"]
    away = (change(OWN, REGULAR, ABSENT_MODE), change("docs/a.toml", ABSENT_MODE, REGULAR))
    assert needed(checks_for("**"), Facts(away, *_rest(asked))) == ["checks", "person"]


def _rest(asked: Facts) -> tuple[frozenset[str], int, str | None, str, str, bool]:
    return asked.generated, asked.lines, asked.branch, asked.category, asked.proposer, asked.is_agent


def test_a_review_beside_other_reviewers_in_one_rule_is_one_more() -> None:
    rest = "[[rule]]\nneeds = ['review']\n"
    both = "[[rule]]\nneeds = ['agent', 'review']\n"
    assert needed(both, facts("a")) == ["agent", "review"]
    assert needed(both.replace("agent", "checks"), facts("a")) == ["checks", "review"]
    # Where each is written by itself, one approval is both.
    assert needed(both.replace(", 'review'", "") + rest, facts("a")) == ["agent"]
    assert needed(both + rest, facts("a")) == ["agent", "review"]


# Policies at random

WORDS = ("checks", "agent", "person", "owner", "review", "agent:security", "agent:other-provider")
PATHS = ("docs/a.md", "docs/api/b.md", "src/a.py", "SRC/auth/b.py", "x", OWN, ".github/workflows/x", "docs/AGENTS.md")
GLOBS = ("**", "docs/**", "*", "src/**", "**/auth/*", "docs/?.md", ".github/**")
_lists = st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3, unique=True)


@st.composite
def _rules(draw: st.DrawFn) -> str:
    lines = ["[[rule]]", f"needs = {draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True))!r}"]
    for key in ("paths", "not_paths"):
        globs = draw(st.none() | _lists)
        lines += [f"{key} = {globs!r}"] if globs else []
    lines += draw(st.lists(st.sampled_from(("lines = '<=20'", "by = ['agent']")), unique=True, max_size=2))
    lines += draw(st.lists(st.sampled_from(("branches = ['main']", "generated = true")), unique=True, max_size=2))
    return "\n".join(lines)


_changes = st.lists(st.sampled_from(PATHS), min_size=1, unique=True).flatmap(
    lambda paths: st.builds(
        facts,
        *map(st.just, paths),
        lines=st.sampled_from((5, 50)),
        branch=st.sampled_from(("main", "dev", None)),
        is_agent=st.booleans(),
        generated=st.lists(st.sampled_from(paths)).map(tuple),
    )
)


@settings(max_examples=100)
@given(rules=st.lists(_rules(), min_size=1, max_size=6), match=st.sampled_from(("all", "first")), asked=_changes)
def test_a_change_needs_the_union_of_what_its_paths_need(rules: list[str], match: str, asked: Facts) -> None:
    policy = parse("\n".join([f'match = "{match}"', *rules]).encode())
    words = set(needed(policy, asked))
    alone = {word for one in asked.changes for word in needed(policy, Facts((one,), *_rest(asked)))}
    assert words
    assert alone - {"review"} <= words
    if words == {"checks"}:
        assert not alone - {"checks"}
    if "review" in alone:
        assert words - {"checks"}


@VARIATION
@settings(max_examples=100)
@given(rules=st.lists(_rules(), min_size=2, max_size=6), asked=_changes)
def test_another_rule_takes_no_need_from_a_path_that_has_one(rules: list[str], asked: Facts) -> None:
    fewer, more = (parse("\n".join(some).encode()).requirements(asked) for some in (rules[:-1], rules))
    kept = {one.word for one in fewer.needs if one.word != "review"}
    assert kept <= {one.word for one in more.needs}
    asks = any(set(one.rules) - {"no rule fits"} for one in fewer.needs if one.word == "review")
    if asks:
        assert {one.word for one in more.needs} - {"checks"}


@settings(max_examples=100)
@given(rules=st.lists(_rules(), min_size=1, max_size=6), asked=_changes, path=st.sampled_from(PATHS[5:]))
def test_no_policy_leaves_certain_paths_to_checks(rules: list[str], asked: Facts, path: str) -> None:
    others = tuple(one for one in asked.changes if one.path != path)
    found = parse("\n".join(rules).encode()).requirements(Facts((change(path), *others), *_rest(asked)))
    assert not found.only_checks
    assert path != OWN or "person" in {one.word for one in found.needs}
