"""The overlay on the stock GSD package: put in, survived by GSD's own updater, and taken out to the byte."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import planning
from tests.commandline import Ended, Inside, git
from tests.modes import VARIATION
from tests.repository.gsd_package import DEFAULT, NEWEST, files, install, timeless, versions

MARK = "<!-- tandem:"
TOOL = "mcp__tandem__*"
FOLDERS = {
    ("claude", "user"): ".claude",
    ("claude", "project"): "project/.claude",
    ("codex", "user"): ".codex",
    ("codex", "project"): "project/.codex",
    ("gemini", "user"): ".gemini",
    ("gemini", "project"): "project/.gemini",
    ("opencode", "user"): ".config/opencode",
    ("opencode", "project"): "project/.opencode",
}
WITHOUT_CODEX = "1.20.5"
"""The version that knew no Codex yet."""


@dataclass
class Home:
    """A user's home folder with a project in it, and Tandem's data folder beside it."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def data_dir(self) -> Path:
        return self.folder.parent / "data"

    def run(self, *arguments: str) -> Ended:
        return Inside("http://127.0.0.1:9", self.project).run("gsd", "overlay", *arguments)

    def overlay(self, *arguments: str) -> list[dict[str, Any]]:
        return self.run(*arguments, "--json").data["installs"]

    def client(self, client: str, scope: str = "user") -> Path:
        return self.folder / FOLDERS[client, scope]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config_dir: Path) -> Home:
    home = Home(tmp_path / "home")
    home.project.mkdir(parents=True)
    git(home.project, "init", "--quiet")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CONFIG_DIR", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, folder in (("HOME", home.folder), ("USERPROFILE", home.folder), ("TANDEM_DATA_DIR", home.data_dir)):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.chdir(home.project)
    return home


def lists_true_hashes(folder: Path) -> bool:
    listed = json.loads((folder / "gsd-file-manifest.json").read_bytes())["files"]
    there = {name: folder / name for name in listed if (folder / name).exists()}
    return all(hashlib.sha256(path.read_bytes()).hexdigest() == listed[name] for name, path in there.items())


def overlaid(folder: Path) -> set[str]:
    return {name for name, (content, _) in files(folder).items() if MARK.encode() in content}


# The upgrade from an earlier version is the next test.
@pytest.mark.parametrize(
    "version", [pytest.param(one, marks=VARIATION if one == DEFAULT[0] else []) for one in versions()]
)
def test_every_version_is_as_stock_after_the_overlay_was_taken_out(home: Home, version: str) -> None:
    # Other clients' projects differ from their homes in nothing that matters here.
    for client, scope in FOLDERS if version == NEWEST else [one for one in FOLDERS if one[1] == "user"]:
        if not (client == "codex" and version == WITHOUT_CODEX):
            install(version, client, scope, home.folder)
    stock = files(home.folder)
    shown = {(one["client"], one["scope"]): one for one in home.overlay()}
    for (client, scope), one in shown.items():
        folder = home.client(client, scope)
        assert one["folder"] == str(folder)
        assert one["version"] == version
        assert one["pointers"] >= 13 or (client, version) == ("gemini", "1.20.5")
        assert lists_true_hashes(folder)
    assert set(shown) == {place for place in FOLDERS if home.client(*place).exists()}
    with_overlay = files(home.folder)
    assert [one["changed"] for one in home.overlay()] == [[]] * len(shown)
    assert files(home.folder) == with_overlay
    assert home.run("--remove").status == 0
    assert files(home.folder) == stock
    assert not (home.data_dir / planning.OVERLAY_FILE).exists()


@pytest.mark.parametrize(
    "place", [("claude", "user"), ("codex", "user"), pytest.param(("gemini", "user"), marks=VARIATION)]
)
def test_gsds_updater_sees_no_patch_and_a_refresh_puts_it_in_again(home: Home, place: tuple[str, str]) -> None:
    first, *later = [one for one in versions() if one != WITHOUT_CODEX]
    folder = home.client(*place)
    install(first, *place, home.folder)
    before = files(home.folder)
    home.overlay()
    for version in later:
        said = install(version, *place, home.folder)
        assert "locally modified" not in said
        assert not (folder / "gsd-local-patches").exists()
        assert planning.outdated_overlays(str(home.data_dir)) == [str(folder)]
        [refreshed] = home.overlay("--refresh")
        assert refreshed["version"] == version
        assert refreshed["missing"] == []
        assert planning.outdated_overlays(str(home.data_dir)) == []
        assert lists_true_hashes(folder)
    home.overlay("--remove")
    after = timeless(files(home.folder))
    restore(home.folder, before)
    for version in later:
        install(version, *place, home.folder)
    assert after == timeless(files(home.folder))


def restore(folder: Path, stock: dict[str, tuple[bytes, int]]) -> None:
    for name in files(folder).keys() - stock.keys():
        (folder / name).unlink()
    for name, (content, mode) in stock.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(mode)


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest version for all four clients, to copy."""
    folder = tmp_path_factory.mktemp("newest") / "home"
    (folder / "project").mkdir(parents=True)
    for client in ("claude", "codex", "gemini", "opencode"):
        install(NEWEST, client, "user", folder)
    return folder


@pytest.fixture
def stocked(home: Home, newest: Path) -> Home:
    restore(home.folder, files(home.folder) | files(newest))
    return home


@pytest.fixture
def for_claude(home: Home, newest: Path) -> Home:
    """With the newest version for Claude Code alone."""
    shutil.copytree(newest / ".claude", home.client("claude"))
    return home


DRAFT = "`tandem gate verification FILE --content DRAFT`"
BEHIND, BEFORE = 1, -1
STEPS = (
    ("agents/gsd-planner", BEHIND, '<step name="write_phase_prompt">', "`tandem gate plan FILE`"),
    ("agents/gsd-planner", BEHIND, '<step name="git_commit">', "`tandem gate plan FILE`"),
    ("workflows/plan-phase", BEHIND, "## 13d. Commit Plans if commit_docs is true", "tandem gate plan"),
    ("workflows/plan-phase", BEFORE, "5. **Commit per-plan:**", "tandem gate plan"),
    ("workflows/discuss-phase", BEFORE, "Write the file.", "`tandem gate context FILE --content DRAFT`"),
    ("workflows/discuss-phase-assumptions", BEHIND, '<step name="write_context">', "tandem gate context"),
    ("workflows/discuss-phase-power", BEHIND, '<step name="finalize">', "tandem gate context"),
    ("agents/gsd-executor", BEFORE, "- Commit (see task_commit_protocol)", "`tandem gate task"),
    ("agents/gsd-executor", BEHIND, "<task_commit_protocol>", "tandem gate task"),
    ("agents/gsd-executor", BEHIND, "<summary_creation>", "`tandem gate wave"),
    ("workflows/execute-plan", BEHIND, "<task_commit>", "tandem gate task"),
    ("workflows/execute-plan", BEHIND, '<step name="create_summary">', "tandem gate wave"),
    (
        "workflows/execute-phase",
        BEFORE,
        '5.5. **Worktree cleanup (when `isolation="worktree"` was used):**',
        "gate wave",
    ),
    ("agents/gsd-verifier", BEHIND, "## Create VERIFICATION.md", DRAFT),
    ("workflows/verify-phase", BEHIND, '<step name="create_report">', DRAFT),
    ("workflows/verify-work", BEFORE, "Commit the UAT file:", "`tandem gate verification FILE`"),
)
"""Where each gate is named: the file, on which side of which line, and the words."""


def test_each_gate_is_named_at_its_step_and_its_tools_are_allowed_in_each_clients_words(stocked: Home) -> None:
    def head(file: Path) -> list[str]:
        return file.read_text("utf-8").split("\n---\n", 1)[0].splitlines()

    stocked.overlay()
    claude, codex, gemini, opencode = (stocked.client(name) for name in ("claude", "codex", "gemini", "opencode"))
    for name, side, anchor, words in STEPS:
        file = claude / name.replace("workflows/", "get-shit-done/workflows/")
        lines = [one.strip() for one in file.with_suffix(".md").read_text("utf-8").splitlines()]
        assert words in lines[lines.index(anchor) + side], (name, anchor)
        pointers = [line for line in lines if MARK in line]
        assert all("SOLO" in line and line.endswith("<!-- /tandem -->") for line in pointers)
    # The agents of Codex stay TOML, with the pointers in their instructions.
    for name, command in (("planner", "plan"), ("executor", "task"), ("verifier", "verification")):
        said = tomllib.loads((codex / f"agents/gsd-{name}.toml").read_text("utf-8"))["developer_instructions"]
        assert f"tandem gate {command}" in said
        assert f"tandem gate {command}" in (codex / f"agents/gsd-{name}.md").read_text("utf-8")
    assert f"  - {TOOL}" in head(claude / "skills/gsd-plan-phase/SKILL.md")
    tools = next(line for line in head(claude / "agents/gsd-executor.md") if line.startswith("tools:"))
    assert tools.endswith(f", {TOOL}")
    assert head(gemini / "agents/gsd-executor.md")[-1] == "  - mcp_tandem_*"
    assert "  tandem_*: true" in head(opencode / "command/gsd-execute-phase.md")
    assert "tandem" not in "".join(head(claude / "skills/gsd-new-project/SKILL.md"))


def test_a_tool_that_somebody_had_allowed_and_windows_line_ends_stay(for_claude: Home) -> None:
    skill = for_claude.client("claude") / "skills/gsd-plan-phase/SKILL.md"
    skill.write_text(skill.read_text("utf-8").replace("  - Bash\n", f"  - Bash\n  - {TOOL}\n", 1), "utf-8")
    executor = for_claude.client("claude") / "agents/gsd-executor.md"
    executor.write_bytes(executor.read_bytes().replace(b"\n", b"\r\n"))
    before = skill.read_bytes(), executor.read_bytes()
    for_claude.overlay()
    after = executor.read_bytes()
    assert after.count(b"\r\n") == after.count(b"\n") == before[1].count(b"\n") + 3
    assert f", {TOOL}\r\n".encode() in after
    for_claude.overlay("--remove")
    assert (skill.read_bytes(), executor.read_bytes()) == before


def test_somebodys_own_patch_stays_and_is_still_seen_by_gsds_updater(for_claude: Home) -> None:
    folder = for_claude.client("claude")
    before, after = folder / "agents/gsd-executor.md", folder / "get-shit-done/workflows/verify-work.md"
    stock = {path: path.read_text("utf-8") for path in (before, after)}
    before.write_text("My rule comes first.\n" + stock[before], "utf-8")
    for_claude.overlay()
    after.write_text(after.read_text("utf-8") + "\nMy rule comes last.\n", "utf-8")
    for_claude.overlay()
    assert "tandem gate task" in before.read_text("utf-8")
    said = install(NEWEST, "claude", "user", shutil.copytree(for_claude.folder, for_claude.folder.with_name("copy")))
    assert "Found 2 locally modified" in said
    for_claude.overlay("--remove")
    assert before.read_text("utf-8") == "My rule comes first.\n" + stock[before]
    assert after.read_text("utf-8") == stock[after] + "\nMy rule comes last.\n"
    assert "Found 2 locally modified" in install(NEWEST, "claude", "user", for_claude.folder)


def test_an_anchor_that_is_gone_is_reported_and_the_rest_is_put_in(stocked: Home) -> None:
    verifier = stocked.client("claude") / "agents/gsd-verifier.md"
    changed = verifier.read_text("utf-8").replace("## Create VERIFICATION.md", "## Write VERIFICATION.md")
    verifier.write_text(changed, "utf-8")
    (stocked.client("claude") / "get-shit-done/workflows/verify-phase.md").unlink()
    [one] = stocked.overlay("--client", "claude")
    assert sorted(problem.partition(":")[0] for problem in one["missing"]) == [
        "agents/gsd-verifier.md",
        "get-shit-done/workflows/verify-phase.md",
    ]
    assert any("## Create VERIFICATION.md" in problem for problem in one["missing"])
    assert one["pointers"] == 14
    shown = stocked.run("--client", "claude")
    assert shown.status == 0
    assert "note: agents/gsd-verifier.md: no line" in shown.stderr
    assert not overlaid(stocked.client("gemini"))
    stocked.overlay("--remove")
    assert TOOL not in verifier.read_text("utf-8")


def test_a_dry_run_shows_a_diff_that_git_applies_and_changes_nothing(for_claude: Home) -> None:
    stock = files(for_claude.folder)
    shown = for_claude.run("--dry-run", "--client", "claude")
    assert files(for_claude.folder) == stock
    assert not for_claude.data_dir.exists() or not list(for_claude.data_dir.iterdir())
    folder = for_claude.client("claude")
    applied = subprocess.run(["git", "apply", "-"], cwd=folder, input=shown.stdout.encode(), check=False)
    assert applied.returncode == 0
    by_git = files(folder)
    restore(for_claude.folder, stock)
    for_claude.overlay("--client", "claude")
    assert files(folder) == by_git


@VARIATION
def test_another_data_folder_takes_it_out_as_well(for_claude: Home) -> None:
    stock = files(for_claude.folder)
    for_claude.overlay()
    (for_claude.data_dir / planning.OVERLAY_FILE).unlink()
    for_claude.overlay("--remove")
    assert files(for_claude.folder) == stock


def test_a_link_out_of_the_installation_is_not_followed(for_claude: Home, tmp_path: Path) -> None:
    executor = for_claude.client("claude") / "agents/gsd-executor.md"
    elsewhere = tmp_path / "elsewhere.md"
    executor.rename(elsewhere)
    executor.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    [one] = for_claude.overlay("--client", "claude")
    assert elsewhere.read_bytes() == before
    assert any("gsd-executor.md" in problem for problem in one["skipped"])


def test_without_gsd_there_is_nothing_to_do_and_that_is_said(home: Home) -> None:
    assert "GSD is not installed here" in home.run().refusal
    assert home.overlay("--refresh") == []
