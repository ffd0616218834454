"""`tandem trust`: nothing that stands in a repository loosens anything until a person has trusted it by its hash."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import planning, trust
from tests.commandline import Ended, Inside, git, repository
from tests.repository.terminal import Terminal, at_a_terminal, without_agents

NOT_WINDOWS = pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
LOOSE = {"mode": "yolo", "tandem_enabled": True, "execution_mode": "optimistic"}


@dataclass
class Shop:
    """A repository, and the configuration folder of the person who works in it."""

    root: Path
    config_dir: Path

    def settings(self, text: str) -> Path:
        path = self.root / ".tandem" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def planning(self, **settings: Any) -> Path:
        path = self.root / ".planning" / "config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(settings, indent=2), "utf-8")
        return path

    def run(self, *arguments: str) -> Ended:
        return Inside("http://127.0.0.1:9", self.root).run(*arguments)

    def at_terminal(self, *arguments: str, typed: str = "yes\n", **environment: str) -> tuple[int, str]:
        return at_a_terminal(arguments, self.root, typed=typed, after="Type yes: ", **environment)

    def shown(self) -> dict[str, Any]:
        return self.run("config", "show", "--json").data

    @property
    def effective(self) -> planning.PlanningFile:
        found = planning.read(str(self.root))
        return planning.effective(found, trusted=trust.trusts(str(self.config_dir), found.root, found.sources))


@pytest.fixture
def shop(tmp_path: Path, config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    root = repository(tmp_path / "shop")
    monkeypatch.chdir(root)
    for name in os.environ.keys() - without_agents().keys():
        monkeypatch.delenv(name)
    return Shop(root, config_dir)


@NOT_WINDOWS
def test_a_person_sees_exactly_what_they_trust_and_then_it_counts(shop: Shop) -> None:
    path = shop.settings("page_limit = 1000\ngit_executable = '/opt/git'\n")
    planned = shop.planning(**LOOSE)
    assert shop.shown()["settings"]["page_limit"]["value"] == 200
    mode = {"value": "blocking", "origin": str(planned), "ignored": "optimistic"}
    assert shop.shown()["workflow"]["execution_mode"] == mode
    assert "ignored: execution_mode" in shop.run("config", "show").stderr
    status, shown = shop.at_terminal("trust")
    assert status == 0
    for line in ("page_limit = 1000", "git_executable = '/opt/git'", '"execution_mode": "optimistic"'):
        assert line in shown
    # GSD's own keys are not trusted, and so they are not shown.
    assert "yolo" not in shown
    told = shop.shown()
    assert told["settings"]["page_limit"] | {"description": ""} == {
        "value": 1000,
        "origin": str(path),
        "description": "",
        "takes_effect": "at once",
        "advanced": True,
    }
    assert told["settings"]["git_executable"]["value"] == "/opt/git"
    assert told["trusted"] == [str(path)]
    assert told["ignored"] == []
    assert told["workflow"]["execution_mode"] == {**mode, "value": "optimistic", "ignored": None}
    assert shop.effective.mode == "optimistic"
    status, shown = shop.at_terminal("trust")
    assert (status, shown.count("trusted already")) == (0, 2)


@NOT_WINDOWS
def test_another_content_file_or_project_is_not_trusted(shop: Shop, tmp_path: Path) -> None:
    shop.settings("page_limit = 1000")
    assert shop.at_terminal("trust")[0] == 0
    assert shop.shown()["settings"]["page_limit"]["value"] == 1000
    shop.planning(mode="yolo", review_granularity="per_plan")
    assert shop.effective.granularity == "per_task"
    (shop.root / ".planning" / "config.json").unlink()
    shop.settings("page_limit = 1000 ")
    other = Shop(repository(tmp_path / "other"), shop.config_dir)
    other.settings("page_limit = 1000")
    for root in (shop.root, other.root):
        os.chdir(root)
        told = shop.shown()
        assert told["settings"]["page_limit"]["value"] == 200
        assert [one["key"] for one in told["ignored"]] == ["page_limit"]


@NOT_WINDOWS
def test_gsd_may_write_its_own_keys_and_their_order_anew(shop: Shop) -> None:
    shop.planning(**LOOSE)
    assert shop.at_terminal("trust", ".planning/config.json")[0] == 0
    shop.planning(**dict(reversed(LOOSE.items())), granularity="fine")
    assert shop.effective.mode == "optimistic"
    shop.planning(**{**LOOSE, "review_granularity": "per_plan"})
    assert (shop.effective.is_strict, shop.effective.refused) == (True, ("review_granularity", "execution_mode"))


@NOT_WINDOWS
@pytest.mark.parametrize("typed", ["y\n", "no\n"])
def test_any_other_answer_trusts_nothing(shop: Shop, typed: str) -> None:
    shop.settings("page_limit = 1000")
    status, shown = shop.at_terminal("trust", typed=typed)
    assert status == 1
    assert "page_limit = 1000" in shown
    assert "Nothing was trusted" in shown
    assert not (shop.config_dir / trust.STORE).exists()


@NOT_WINDOWS
def test_an_agent_is_refused_and_told_who_can(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.settings("page_limit = 1000")
    for name in ("CLAUDECODE", "CODEX_SANDBOX_NETWORK_DISABLED", "GEMINI_CLI"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            refusal = shop.run("trust").refusal
        assert f"FORBIDDEN: Only a person may trust a repository's files, and {name}" in refusal
        assert "'tandem trust .tandem/config.toml'" in refusal
    # At a terminal, too.
    status, shown = shop.at_terminal("trust", CURSOR_AGENT="1")
    assert (status, "FORBIDDEN" in shown) == (1, True)
    assert not (shop.config_dir / trust.STORE).exists()


COLUMNS, LINES = 80, 24
"""Of a terminal that does not say how many it has."""


def checks(shop: Shop, count: int, comments: int) -> list[str]:
    """A file of checks between comments; the last word of each command."""
    words = [f"command-number-{number}" for number in range(count)]
    text = [f"[[check]]\nname = 'c{at}'\ncommand = ['make', '{word}']\n" for at, word in enumerate(words)]
    comment = "# " + "This check is harmless, and the next one, too. " * 3 + "\n"
    path = shop.settings("")
    path.unlink()
    path.with_name("checks.toml").write_text((comment * comments).join(["", *text, ""]), "utf-8")
    return words


@NOT_WINDOWS
def test_all_that_would_run_is_on_the_screen_with_the_question_however_long_the_file(shop: Shop) -> None:
    for count, comments in ((3, 0), (12, 0), (12, 30), (30, 3)):
        words = checks(shop, count, comments)
        status, shown = shop.at_terminal("trust")
        assert status == 0
        screen = shown[: shown.index("Trust exactly this? Type yes: ")].split("\n")
        assert len(screen) < LINES
        assert all(len(line) < COLUMNS for line in screen)
        # Text that scrolled away would not count; a word may go on in the next row.
        assert [word for word in words if word not in "".join(screen)] == []


@NOT_WINDOWS
def test_what_is_too_much_for_one_screen_is_asked_in_parts_and_no_to_any_trusts_nothing(shop: Shop) -> None:
    words = checks(shop, 50, 3)
    seen = ""
    for answers in (["no"], ["yes", "no"], ["yes"] * 3):
        with Terminal(("trust",), shop.root, without_agents()) as terminal:
            for answer in answers:
                part = terminal.read_until("Type yes: ").split("\n")
                assert len(part) <= LINES
                seen += "\n".join(part)
                terminal.type(answer)
            assert terminal.wait() == int("no" in answers)
        assert (shop.config_dir / trust.STORE).exists() == ("no" not in answers)
    assert [word for word in words if word not in re.findall(r"[\w-]+", seen)] == []


@NOT_WINDOWS
def test_a_long_file_of_settings_is_shown_by_what_it_sets(shop: Shop) -> None:
    shop.settings("#\n" * 200 + "page_limit = 1000\n" + "#\n" * 200 + "[reviewer_pool]\nmax_pool_size = 3\n")
    status, shown = shop.at_terminal("trust")
    assert status == 0
    last = shown[: shown.index("Type yes: ")].split("\n")[-LINES:]
    assert "    page_limit = 1000" in last
    assert "    reviewer_pool.max_pool_size = 3" in last


@NOT_WINDOWS
def test_what_is_trusted_is_listed_with_its_state_and_can_be_taken_back(shop: Shop) -> None:
    shop.settings("page_limit = 1000")
    planned = shop.planning(**LOOSE)
    shop.at_terminal("trust")
    shop.settings("page_limit = 1001")
    listed = shop.run("trust", "--list", "--json").data["trusted"]
    assert [(one["file"], one["state"]) for one in listed] == [
        (".tandem/config.toml", "changed"),
        (".planning/config.json", "holds"),
    ]
    assert {one["root"] for one in listed} == {str(shop.root)}
    planned.unlink()
    gone = shop.run("trust", "--revoke", ".planning/config.json", "--json").data["revoked"]
    assert [one["file"] for one in gone] == [".planning/config.json"]
    assert shop.run("trust", "--revoke").status == 0
    assert "Nothing is trusted" in shop.run("trust", "--list").stderr


@NOT_WINDOWS
def test_a_linked_working_tree_shares_the_trust_of_its_content(shop: Shop, tmp_path: Path) -> None:
    shop.settings("page_limit = 1000")
    git(shop.root, "add", "--all")
    git(shop.root, "commit", "--quiet", "--message", "settings")
    git(shop.root, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    shop.at_terminal("trust")
    os.chdir(tmp_path / "linked")
    assert shop.shown()["settings"]["page_limit"]["value"] == 1000
    (tmp_path / "linked/.tandem/config.toml").write_text("page_limit = 1001", "utf-8")
    assert shop.shown()["settings"]["page_limit"]["value"] == 200


def test_a_list_that_is_damaged_trusts_nothing_and_is_not_written_over(shop: Shop) -> None:
    path = shop.settings("page_limit = 1000")
    sha256 = trust.digest(trust.PROJECT_FILE, path.read_bytes())
    entry = {"root": str(shop.root), "file": trust.PROJECT_FILE, "sha256": sha256, "at": "", "by": ""}
    store = shop.config_dir / trust.STORE
    store.write_text(json.dumps({"version": 1, "trusted": [entry]}), "utf-8")
    assert shop.shown()["settings"]["page_limit"]["value"] == 1000
    damages: list[Any] = [{"version": 2, "trusted": [entry]}, {"version": 1, "trusted": [{**entry, "by": None}]}, []]
    for damage in damages:
        store.write_text(json.dumps(damage), "utf-8")
        assert shop.shown()["settings"]["page_limit"]["value"] == 200
        assert str(store) in shop.run("trust", "--revoke").refusal
        assert json.loads(store.read_bytes()) == damage


def test_only_files_with_settings_can_be_trusted(shop: Shop) -> None:
    shop.settings("page_limit = 1000")
    assert "a.txt is no file that Tandem takes settings from" in shop.run("trust", "a.txt").refusal
    for text, why in (("page_limit =", "is not valid TOML"), ("zzz = 1", "there is no setting 'zzz'")):
        shop.settings(text)
        assert why in shop.run("trust").refusal
    (shop.root / ".tandem" / "config.toml").unlink()
    shop.planning(mode="yolo")
    assert "there is nothing to trust" in shop.run("trust").refusal


@NOT_WINDOWS
def test_the_pool_of_gsds_file_may_only_tighten_until_it_is_trusted(shop: Shop) -> None:
    pool = {"enabled": True, "max_pool_size": 2, "model": "big", "min_pool_size": 1, "no_such": 1}
    path = shop.planning(reviewer_pool=pool)
    told = shop.shown()
    assert told["settings"]["reviewer_pool"]["value"] == {"max_pool_size": 2}
    assert told["reviewer_pool_origins"] == {"max_pool_size": str(path)}
    ignored = {one["key"]: one["reason"] for one in told["ignored"]}
    assert set(ignored) == {f"reviewer_pool.{key}" for key in ("enabled", "model", "min_pool_size", "no_such")}
    assert "only tighten this: to false" in ignored["reviewer_pool.enabled"]
    assert "a repository may not set this" in ignored["reviewer_pool.model"]
    assert "a lower value than 0" in ignored["reviewer_pool.min_pool_size"]
    del pool["no_such"]
    path = shop.planning(reviewer_pool=pool)
    assert shop.at_terminal("trust")[0] == 0
    told = shop.shown()
    assert told["settings"]["reviewer_pool"]["value"] == pool
    assert told["reviewer_pool_origins"] == dict.fromkeys(pool, str(path))
    assert (told["ignored"], told["trusted"]) == ([], [str(path)])


def test_the_pool_of_the_user_is_tightened_and_never_loosened(shop: Shop) -> None:
    mine = "[reviewer_pool]\nenabled = true\nmax_pool_size = 2\nquiet_hours = ['22:00-07:00']\nbudget_per_day = 5\n"
    (shop.config_dir / "config.toml").write_text(mine, "utf-8")
    shop.planning(reviewer_pool={"enabled": False, "max_pool_size": 3, "quiet_hours": [], "budget_per_day": 4})
    told = shop.shown()
    # Settings with their default value, such as `enabled` now, are not shown.
    assert told["settings"]["reviewer_pool"]["value"] == {
        "max_pool_size": 2,
        "quiet_hours": ["22:00-07:00"],
        "budget_per_day": 4.0,
    }
    assert [one["key"] for one in told["ignored"]] == ["reviewer_pool.max_pool_size", "reviewer_pool.quiet_hours"]
