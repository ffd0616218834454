"""The reviewer pool's settings: the contract's defaults and ranges, and how a wrong value is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from tandem.errors import ConfigInvalid
from tandem.pool.contract import PoolRules
from tandem.pool.reviewers import Effort, providers
from tandem.pool.reviewers.job import Mode
from tandem.settings import pool as pool_settings
from tandem.settings.pool import PoolSettings, load


def refusal(**table: Any) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as refused:
        load(table)
    return refused.value


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = load({})
    expected = {
        "enabled": False,
        "provider": "codex",
        "mode": "worker",
        "model": None,
        "reasoning_effort": "high",
        "workspace_path": "auto",
        "wsl_distro": "Ubuntu",
        "max_pool_size": 3,
        "min_pool_size": 0,
        "scaling_ratio": 3,
        "idle_timeout_seconds": 300,
        "max_ttl_seconds": 3600,
        "spawn_cooldown_seconds": 10,
        "background_check_interval_seconds": 30,
        "prompt_template_path": None,
        "budget_per_review": None,
        "budget_per_day": 20,
        "token_budget_per_day": 20_000_000,
        "quiet_hours": (),
    }
    assert {name: getattr(settings, name) for name in expected} == expected
    assert settings == PoolSettings()


def test_the_brokers_rules_are_settings_with_the_same_defaults() -> None:
    settings = load({})
    assert {name: getattr(settings, name) for name in PoolRules.model_fields} == PoolRules().model_dump()


def test_the_choices_are_those_of_the_reviewers() -> None:
    fields = PoolSettings.model_fields
    assert get_args(fields["provider"].annotation) == providers.NAMES
    assert get_args(fields["reasoning_effort"].annotation) == get_args(Effort)
    assert get_args(fields["mode"].annotation) == get_args(Mode)


@pytest.mark.parametrize("model", ["gpt-5.2-codex", "anthropic/claude-opus-4:beta", "a_b", "x" * 100])
def test_a_model_that_is_taken_can_be_given_to_a_program(model: str) -> None:
    assert load({"model": model, "allowed_models": ["gpt-5", model]}).model == model


def test_settings_that_were_read_stay_as_they_are() -> None:
    settings = load({"max_pool_size": 5})
    assert load(settings) is settings


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("max_pool_size", 1, 10),
        ("idle_timeout_seconds", 60, 86_400),
        ("max_ttl_seconds", 300, 86_400),
        ("spawn_cooldown_seconds", 0, 86_400),
        ("scaling_ratio", 1, 100),
        ("background_check_interval_seconds", 1, 86_400),
        ("drain_seconds", 0, 86_400),
    ],
)
def test_a_number_has_its_range(key: str, least: float, most: float) -> None:
    for fine in (least, most):
        assert getattr(load({key: fine}), key) == fine
    for wrong in (least - 1, most + 1, float("nan"), "many"):
        refused = refusal(**{key: wrong})
        assert refused.message.startswith(f"reviewer_pool.{key}: ")
        assert refused.details["setting"] == f"reviewer_pool.{key}"


def _with_profile(**table: Any) -> dict[str, Any]:
    return {"profile": [{"name": "security", **table}]}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"provider": "gpt"}, "'codex', 'claude', 'gemini', 'opencode' or 'custom'"),
        ({"mode": "boss"}, "'worker' or 'agent'"),
        ({"reasoning_effort": "extreme"}, "'low', 'medium' or 'high'"),
        ({"provider": "custom"}, "needs a command"),
        ({"command": "codex --yes; rm -rf ."}, "write it as a list of texts"),
        ({"command": [" "]}, "has to name a program"),
        ({"command": ["a", "b\0c"]}, "NUL"),
        ({"model": "gpt-5; touch x"}, "letters, digits"),
        ({"model": "--dangerous"}, "no hyphen first"),
        ({"model": ""}, "1 to 100"),
        ({"model": "x" * 101}, "1 to 100"),
        ({"model": "gpt-4", "allowed_models": ["gpt-5", "o9"]}, "'gpt-4' is not among them"),
        ({"allowed_models": ["gpt-5"]}, "no model is set"),
        ({"allowed_models": "gpt-5"}, "write it as a list of texts"),
        ({"workspace_path": ""}, "name a folder"),
        ({"workspace_path": "a\nb"}, "name a folder"),
        ({"workspace_wsl_path": "C:\\project"}, "as the distribution calls it"),
        ({"wsl_distro": "-d evil"}, "no hyphen first"),
        ({"min_pool_size": 4}, "min_pool_size (4) is over max_pool_size (3)"),
        ({"min_pool_size": -1}, "greater than or equal to 0"),
        ({"max_pool_size": True}, "it is true or false; write the value itself"),
        ({"prompt_template_path": ""}, "cannot be empty"),
        ({"budget_per_review": 0}, "greater than 0"),
        ({"token_budget_per_day": 0}, "greater than or equal to 1"),
        *(
            ({"quiet_hours": [text]}, "no part of the day")
            for text in ("", "22:00", "22-07", "24:00-07:00", "22:60-07:00", "7:00-8:00", "a-b", "22:00 to 07:00")
        ),
        ({"quiet_hours": ["07:00-07:00"]}, "no part of the day"),
        ({"quiet_hours": "22:00-07:00"}, "write it as a list of texts"),
        ({"grace_seconds": 601}, "less than or equal to 600"),
        ({"log_backups": -1}, "greater than or equal to 0"),
        ({"claim_timeout_seconds": 1200}, "a setting of the broker itself"),
        ({"review_deadline_seconds": 3600}, "a setting of the broker itself"),
        ({"profile": {"name": "security"}}, "profile: each profile is a table of a list: [[reviewer_pool.profile]]"),
        (_with_profile(name="Security"), "profile[1].name: use 2 to 30 small letters"),
        (_with_profile(name="codex"), "profile[1].name: 'codex' has another meaning in a policy"),
        (_with_profile(name="other-provider"), "has another meaning in a policy"),
        (_with_profile(path=["a"]), "profile[1]: there is no setting 'path'. Did you mean 'paths'"),
        (_with_profile(paths="src/**"), "profile[1].paths: write it as a list of texts"),
        (_with_profile(effort="huge"), "profile[1].effort: "),
        (_with_profile(effort="low", provider="gemini"), "profile 'security': effort: the program of 'gemini' cannot"),
        (_with_profile(provider="custom"), "profile 'security': the provider 'custom' needs a command"),
        (_with_profile(model="--x"), "profile[1].model: use 1 to 100"),
        (_with_profile(rubric=[" "]), "profile[1].rubric: write a list of headings"),
        (_with_profile(budget_per_day=0), "profile[1].budget_per_day: Input should be greater than 0"),
        ({"profile": [{"name": "aa"}, {"name": "aa"}]}, "profile 'aa' is there more than once"),
        ({"profile": [{"name": "aa"}], "mode": "agent"}, "profile needs the mode 'worker'"),
        (
            {"profile": [{"name": "aa", "model": "o1"}], "model": "o2", "allowed_models": ["o2"]},
            "profile 'aa': model: allowed_models has o2",
        ),
        ({"pool_size": 3}, "there is no setting 'pool_size'. Did you mean 'min_pool_size' or 'max_pool_size'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_would_be(table: dict[str, Any], says: str) -> None:
    refused = refusal(**table)
    assert says in refused.message
    assert refused.message.startswith("reviewer_pool")
    assert str(refused.details["setting"]).startswith("reviewer_pool")


def test_a_value_is_not_repeated_where_it_may_be_a_secret() -> None:
    assert "s3cret" not in refusal(command="tool --key s3cret").message


@pytest.mark.parametrize("value", [3, "x", ["enabled"], None])
def test_what_is_no_table_is_refused(value: object) -> None:
    with pytest.raises(ConfigInvalid, match="must be a table"):
        load(value)


def test_paths_do_not_depend_on_where_one_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load({"prompt_template_path": "review.md", "workspace_path": "copy"})
    assert settings.prompt_template_path == tmp_path / "review.md"
    assert settings.workspace_path == str(tmp_path / "copy")
    assert load({"workspace_path": "~/copy"}).workspace_path == str(Path.home() / "copy")


def test_on_windows_alone_the_workspace_in_wsl_has_to_be_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_settings, "THROUGH_WSL", True)
    assert not load({}).enabled
    assert "set workspace_wsl_path" in refusal(enabled=True).message
    assert load({"enabled": True, "workspace_wsl_path": "/home/me/p"}).workspace_wsl_path == "/home/me/p"
    monkeypatch.setattr(pool_settings, "THROUGH_WSL", False)
    assert load({"enabled": True}).enabled


def test_of_what_a_profile_leaves_out_the_pools_holds() -> None:
    own = {"name": "own", "provider": "claude", "effort": "low"}
    settings = load({"model": "gpt-5", "command": ["my-codex"], "profile": [{"name": "same"}, own]})
    same, other = settings.of("same"), settings.of("own")
    assert (same.provider, same.model, same.command, same.reasoning_effort) == ("codex", "gpt-5", ("my-codex",), "high")
    # The other program's are none of its own.
    assert (other.provider, other.model, other.command, other.reasoning_effort) == ("claude", None, (), "low")
    assert settings.of(None) is settings
    with pytest.raises(ConfigInvalid, match="no profile 'gone'"):
        settings.of("gone")
