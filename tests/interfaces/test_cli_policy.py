"""A policy at the command line: a repository's first one, its mistakes, and its needs for commits and reviews."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tandem.rulings.policy import FILE
from tests.commandline import Inside, git, repository

RULES = """\
match = "first"

[[rule]]
name = "documents"
paths = ["docs/**", "*.md"]
lines = "<=50"
needs = ["checks"]

[[rule]]
name = "access"
paths = ["src/auth/**"]
branches = ["main"]
needs = ["agent", "person"]
threshold = "minor"

[[rule]]
name = "by agents"
by = ["agent"]
needs = ["agent:other-provider"]

[[rule]]
name = "made"
generated = true
needs = ["agent"]

[[rule]]
name = "plans"
categories = ["plan_review"]
needs = ["person"]
"""


def committed(root: Path, files: dict[str, bytes], message: str) -> str:
    """A commit that writes these files; its id."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)
    return git(root, "rev-parse", "HEAD").strip()


@pytest.fixture
def history(tandem: Inside) -> Inside:
    """A repository with a policy that is not committed, and a commit for each of its rules."""
    root = tandem.cwd
    committed(root, {".gitattributes": b"*.lock linguist-generated\n"}, "attributes")
    committed(root, {"docs/a.md": b"words\n", "README.md": b"more\n"}, "Words")
    committed(root, {"docs/a.png": b"\0\1\2"}, "A picture")
    committed(root, {"src/auth/a.py": b"1\n", "docs/a.md": b"other\n"}, "Login")
    committed(root, {"src/b.py": b"1\n"}, "By an agent\n\nCo-authored-by: Claude <noreply@anthropic.com>")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "nothing")
    committed(root, {"a.lock": b"1\n"}, "Locks")
    (root / FILE).parent.mkdir()
    (root / FILE).write_text(RULES, "utf-8")
    return tandem


def test_the_last_commits_are_counted_by_what_they_would_have_needed(history: Inside) -> None:
    told = history.run("policy", "check", "-n", "200")
    assert told.stdout == (
        "Of the last 7 changes 1 needs a person, 1 an agent of another provider, 1 an agent, 3 a review,"
        " 1 checks alone. 1 more changes nothing.\nFits none of them: plans.\n"
    )
    data = history.run("policy", "check", "-n", "200", "--json").data
    assert data["needs"] == {"person": 1, "agent:other-provider": 1, "agent": 1, "review": 3, "checks": 1}
    assert [one["subject"] for one in data["commits"]][:3] == ["Locks", "nothing", "By an agent"]
    assert data["commits"][1]["needs"] is None
    assert (data["branch"], data["policy"]["rules"], data["unused"]) == ("main", 5, ["plans"])


def test_a_range_is_explained_commit_by_commit(history: Inside) -> None:
    told = history.run("policy", "check", "HEAD~6..HEAD~2", "--explain").stdout
    assert [line.split("  ", 1)[1] for line in told.splitlines()[:-2]] == [
        "By an agent",
        "a review by an agent of another provider (rule 'by agents': src/b.py)",
        "Login",
        "passed checks (rule 'documents': docs/a.md)",
        "an agent's review (rule 'access': src/auth/a.py)",
        "a person's review (rule 'access': src/auth/a.py)",
        "threshold minor",
        "A picture",
        # A binary file has more lines than any rule takes.
        "a review by somebody other than its author (no rule fits: docs/a.png)",
        "Words",
        "passed checks (rule 'documents': README.md, docs/a.md)",
    ]
    assert "Of the 4 changes of HEAD~6..HEAD~2 1 needs a person, 1 an agent of another provider" in told


def test_one_commit_is_explained_on_the_branch_that_is_named(history: Inside) -> None:
    assert "a person's review (rule 'access'" in history.run("policy", "check", "HEAD~3").stdout
    elsewhere = history.run("policy", "check", "HEAD~3", "--branch", "dev").stdout
    assert "a review by somebody other than its author (no rule fits: src/auth/a.py)" in elsewhere
    git(history.cwd, "switch", "--quiet", "--create", "dev")
    assert "no rule fits" in history.run("policy", "check", "HEAD~3").stdout
    assert "rule 'access'" in history.run("policy", "check", "main", "--last", "4", "--explain").stdout


def test_a_merge_counts_once_against_its_first_parent(history: Inside) -> None:
    root = history.cwd
    (root / FILE).rename(root.parent / "policy.toml")
    git(root, "switch", "--quiet", "--create", "side", "HEAD~1")
    committed(root, {"src/auth/c.py": b"1\n"}, "one")
    committed(root, {"docs/c.md": b"1\n"}, "two")
    git(root, "switch", "--quiet", "main")
    git(root, "merge", "--quiet", "--no-ff", "--message", "Merge", "side")
    tried = history.run("policy", "check", "main~1..main", "--policy", str(root.parent / "policy.toml"), "--json").data
    (merge,) = tried["commits"]
    assert merge["subject"] == "Merge"
    assert [(one["need"], one["paths"]) for one in merge["needs"]] == [
        ("checks", ["docs/c.md"]),
        ("agent", ["src/auth/c.py"]),
        ("person", ["src/auth/c.py"]),
    ]


def test_a_review_is_explained_as_the_broker_has_it_and_by_another_policy(history: Inside) -> None:
    git(history.cwd, "add", FILE)
    git(history.cwd, "commit", "--quiet", "--message", "Policy")
    git(history.cwd, "mv", "docs/a.md", "docs/b.md")
    git(history.cwd, "rm", "--quiet", "docs/a.png")
    (history.cwd / "src/auth/a.py").write_bytes(b"2\n")
    (history.cwd / FILE).write_text("# A remark.\n" + RULES, "utf-8")
    submitted = history.run("submit", "-m", "Shorter", "--agent", "robot", "--json").data["review_id"]
    told = history.run("policy", "check", submitted).stdout
    assert told == (
        f"{submitted}  Shorter\n"
        "  an agent's review (rule 'access': src/auth/a.py)\n"
        f"  a person's review (rule 'access', the policy's own path: {FILE}, src/auth/a.py)\n"
        "  threshold minor\n"
    )
    missing = history.run("review", "status", submitted, "--json").data["missing"]
    assert [f"  {one}" for one in missing] == told.splitlines()[1:-1]
    stricter = b'[[rule]]\nname = "all"\nneeds = ["agent:security"]\n'
    data = history.run("policy", "check", submitted, "--policy", "-", "--json", stdin=stricter).data
    assert [one["need"] for one in data["needs"]] == ["agent:security", "person"]
    assert sorted(data["needs"][0]["paths"]) == [FILE, "docs/a.md", "docs/a.png", "docs/b.md", "src/auth/a.py"]
    assert "NOT_FOUND" in history.run("policy", "check", "rv_nothere").refusal
    assert history.run("policy", "check", submitted, "--explain").status == 2


def test_a_mistake_is_told_with_its_line(tandem: Inside) -> None:
    missing = tandem.run("policy", "check")
    assert "tandem policy init" in missing.refusal
    (tandem.cwd / FILE).parent.mkdir()
    (tandem.cwd / FILE).write_text(RULES, "utf-8")
    assert tandem.run("policy", "check").stdout == f"{FILE} has no mistake: 5 rules, match = 'first'\n"
    wrong = RULES.replace('"agent", "person"', '"agent", "persn"').encode()
    told = tandem.run("policy", "check", "--policy", "-", stdin=wrong)
    assert "standard input, line 13: needs is a list: there is no word 'persn'; did you mean 'person'?" in told.refusal
    told = tandem.run("policy", "check", "-n", "3", "--policy", "-", "--json", stdin=wrong)
    assert (told.status, told.envelope["error"]["details"]["line"]) == (1, 13)
    assert "no review and no commit" in tandem.run("policy", "check", "nowhere..HEAD").refusal
    assert tandem.run("policy", "check", "HEAD...main").status == 2
    assert "name a range" in tandem.run("policy", "check", "--explain").stderr


def test_a_first_policy_is_written_once_from_the_repositorys_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"README.md": b"", "src/auth/a.py": b"", ".github/CODEOWNERS": b"* @ann\n", "deep/down/x": b""}
    root = repository(tmp_path / "shop", files)
    (root / ".tandem").mkdir()
    (root / ".tandem/checks.toml").write_text('[[check]]\nname = "lint"\ncommand = ["true"]\n', "utf-8")
    monkeypatch.chdir(root / "deep/down")
    alone = Inside("http://127.0.0.1:9", root)
    printed = alone.run("policy", "init", "--print").stdout
    assert not (root / FILE).exists()
    assert '[risk]\naccess = ["**/auth/**"]' in printed
    assert 'needs = ["agent", "owner"]' in printed
    assert "# By these checks: lint." in printed
    before = git(root, "status", "--porcelain", "--untracked-files=all")
    written = alone.run("policy", "init")
    assert written.stdout == f"wrote {FILE}: 3 rules\n"
    assert "tandem policy check -n 200" in written.stderr
    assert (root / FILE).read_bytes() == printed.encode()
    assert git(root, "status", "--porcelain", "--untracked-files=all").replace(f"?? {FILE}\n", "") == before
    assert "3 rules" in alone.run("policy", "check").stdout
    (root / FILE).write_text("# ours\n", "utf-8")
    assert "stays as it is" in alone.run("policy", "init").refusal
    assert (root / FILE).read_text("utf-8") == "# ours\n"
    (root / ".tandem/checks.toml").write_text("no", "utf-8")
    assert "checks.toml cannot be read" in alone.run("policy", "init", "--print").refusal


@pytest.mark.skipif(os.name == "nt", reason="platform: a file's name is UTF-8 there")
def test_a_path_that_is_no_utf_8_is_tried_like_others(history: Inside) -> None:
    named = os.fsencode(history.cwd / "src/auth") + b"/\xff.py"
    Path(os.fsdecode(named)).write_bytes(b"1\n")
    git(history.cwd, "add", "src")
    git(history.cwd, "commit", "--quiet", "--message", "odd")
    assert "a person's review (rule 'access'" in history.run("policy", "check", "HEAD").stdout


def test_an_agent_that_this_machine_does_not_have_is_remarked(tandem: Inside) -> None:
    needs = '["agent:security", "agent:advice", "agent:deep", "agent:codex", "agent:other-provider"]'
    (tandem.cwd / FILE).parent.mkdir()
    (tandem.cwd / FILE).write_text(f'[[rule]]\nname = "all"\nneeds = {needs}\n', "utf-8")
    pool = {"profile": [{"name": "security"}, {"name": "advice", "voting": False}]}
    told = tandem.run("policy", "check", TANDEM_REVIEWER_POOL=json.dumps(pool))
    assert told.status == 0
    assert told.stdout.splitlines()[1:] == [
        "warning: rule 'all' needs agent:advice: that profile has no vote",
        "warning: rule 'all' needs agent:deep: no profile of the pool here, and no client, is it",
    ]
    assert len(tandem.run("policy", "check", "--json").data["warnings"]) == 3
