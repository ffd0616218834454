"""Settings: which place wins, what a repository may do, and how a wrong value is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import ConfigInvalid
from tandem.settings.config import Settings, load_settings, masked
from tandem.settings.instance import LastRun, Running
from tandem.settings.policy import Policy
from tests.forked import run_tandem

pytestmark = pytest.mark.usefixtures("config_dir")

GATED = "[workflows.frontend-backend]\nmode = 'approval'"
FOLDERS_AND_FILES = ("data_dir", "archive_dir", "secret_key_file")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with room for a configuration file."""
    root = tmp_path / "project"
    (root / ".tandem").mkdir(parents=True)
    return root


def user_says(config_dir: Path, text: str) -> str:
    (config_dir / "config.toml").write_text(text, "utf-8")
    return str(config_dir / "config.toml")


def project_says(project: Path, text: str) -> str:
    (project / ".tandem" / "config.toml").write_text(text, "utf-8")
    return str(project / ".tandem" / "config.toml")


def refused() -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as caught:
        load_settings()
    return caught.value


def test_without_any_word_the_defaults_hold() -> None:
    loaded = load_settings()
    assert (loaded.settings.host, loaded.settings.port) == ("127.0.0.1", 8321)
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.settings.database == f"sqlite:///{loaded.settings.data_dir.as_posix()}/tandem.db"


def test_the_nearest_place_wins_and_is_named(config_dir: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = user_says(config_dir, "page_limit = 400\nport = 1111\nlog_level = 'debug'\nsweep_interval_seconds = 20")
    near = project_says(project, "page_limit = 300\n")
    monkeypatch.setenv("TANDEM_PORT", "2222")
    monkeypatch.setenv("TANDEM_LOG_LEVEL", "warning")
    loaded = load_settings({"port": 3333, "host": None}, project)
    expected = {
        "sweep_interval_seconds": (20.0, user),
        "page_limit": (300, near),
        "log_level": ("warning", "TANDEM_LOG_LEVEL"),
        "port": (3333, "--port"),
        "host": ("127.0.0.1", "default"),
    }
    for key, (value, origin) in expected.items():
        assert (getattr(loaded.settings, key), loaded.origins[key]) == (value, origin)


def test_the_broker_itself_reads_no_repository(project: Path) -> None:
    project_says(project, "diff_limit_bytes = 1000")
    assert load_settings({}).settings.diff_limit_bytes == 5_000_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("git_executable = './evil'", "a repository may not set this"),
        ("port = 9", "a repository may not set this"),
        ("workflows = { frontend-backend = { mode = 'approval' } }", "a repository may not set this"),
        ("workflows = 3", "a repository may not set this"),
        ("no_such_setting = 1", "there is no setting 'no_such_setting'"),
        ("page_limit = 201", "a lower value than 200"),
        ("page_limit = 200", "a lower value than 200"),
        ("durability = 'normal'", "to full"),
        ("checks_on_tip = false", "to true"),
    ],
)
def test_a_repository_may_only_tighten_and_the_rest_is_reported(project: Path, text: str, reason: str) -> None:
    place = project_says(project, text)
    loaded = load_settings({}, project)
    assert loaded.settings == load_settings({}).settings
    [ignored] = loaded.ignored
    assert (ignored.key, ignored.origin) == (text.partition(" ")[0], place)
    assert reason in ignored.reason


def test_a_repository_may_make_a_limit_stricter_than_the_users_own(config_dir: Path, project: Path) -> None:
    user_says(config_dir, "diff_limit_bytes = 1000\ndurability = 'normal'")
    project_says(project, "diff_limit_bytes = 2000\ndurability = 'full'\nchecks_on_tip = true")
    loaded = load_settings({}, project)
    assert (loaded.settings.diff_limit_bytes, loaded.settings.durability) == (1000, "full")
    assert loaded.settings.checks_on_tip
    assert [ignored.key for ignored in loaded.ignored] == ["diff_limit_bytes"]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("TANDEM_PORT", "high", "TANDEM_PORT: port: "),
        ("TANDEM_PORT", "65536", "less than or equal to 65535"),
        ("TANDEM_SWEEP_INTERVAL_SECONDS", "0", "greater than 0"),
        ("TANDEM_SWEEP_INTERVAL_SECONDS", "nan", "TANDEM_SWEEP_INTERVAL_SECONDS: sweep_interval_seconds: "),
        ("TANDEM_DURABILITY", "none", "'full' or 'normal'"),
        ("TANDEM_DATABASE_URL", "mysql://me:hunter2@host/db", "TANDEM_DATABASE_URL: database_url: "),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigInvalid) as refused:
        load_settings()
    assert says in refused.value.message
    assert refused.value.details["origin"] == variable
    assert refused.value.details["allowed"]
    # A refused value may be a secret.
    assert "hunter2" not in json.dumps(refused.value.as_dict(), default=str)


@pytest.mark.parametrize(
    ("stated", "meant"),
    [
        ("TANDEM_CLAIM_TIMEOUT_SECOND", "TANDEM_CLAIM_TIMEOUT_SECONDS"),
        ("TANDEM_PROT", "TANDEM_PORT"),
        ("TANDEM_TOKN", "TANDEM_TOKEN"),
    ],
)
def test_a_misspelt_variable_is_reported(monkeypatch: pytest.MonkeyPatch, stated: str, meant: str) -> None:
    monkeypatch.setenv(stated, "60")
    monkeypatch.setenv("TANDEM_AGENT", "rita")
    [ignored] = load_settings().ignored
    assert (ignored.origin, f"Did you mean {meant}?" in ignored.reason) == (stated, True)


@pytest.mark.parametrize(
    ("text", "says", "allowed"),
    [
        ("port = ", "not valid TOML", None),
        ("prot = 1", "no setting 'prot'. Did you mean 'port'", sorted(Settings.model_fields)),
        ("port = 'x'", "port: ", None),
        ("port = true", "port: it is true or false; write the value itself", None),
        ('database_url = "a\\u0000"', "database_url: it has a NUL character", None),
        ("page_limit = 199", "greater than or equal to 200", None),
        *((f"{key} = ''", f"{key}: a path cannot be empty. ", None) for key in FOLDERS_AND_FILES),
        (f"session_idle_seconds = {30 * 24 * 3600 + 1}", "less than or equal to 2592000", None),
        (
            '[workflows.second]\nlike = "frontend-backend"\nmode = "gated"\n',
            "workflows.second.mode: there is no mode 'gated'. There are: direct, approval.",
            ["direct", "approval"],
        ),
    ],
)
def test_a_wrong_file_is_named_with_the_place_in_it(
    config_dir: Path, text: str, says: str, allowed: list[str] | None
) -> None:
    place = user_says(config_dir, text)
    with pytest.raises(ConfigInvalid) as refused:
        load_settings()
    assert place in refused.value.message
    assert says in refused.value.message
    assert allowed is None or refused.value.details["allowed"] == allowed


def test_folders_do_not_depend_on_where_one_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings({"data_dir": Path("here")}).settings.data_dir == tmp_path / "here"
    monkeypatch.setenv("TANDEM_DATA_DIR", "~/there")
    assert load_settings().settings.data_dir == Path.home() / "there"


def test_hosts_may_be_listed_with_commas(config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_says(config_dir, "allowed_hosts = ['one.test']")
    assert load_settings().settings.allowed_hosts == ("one.test",)
    monkeypatch.setenv("TANDEM_ALLOWED_HOSTS", "one.test, two.test,")
    assert load_settings().settings.allowed_hosts == ("one.test", "two.test")


def test_archives_and_the_key_are_with_the_data_unless_they_are_set_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = load_settings({"data_dir": tmp_path}).settings
    assert (usual.archives, usual.secret_key) == (tmp_path / "archives", tmp_path / "secret.key")
    monkeypatch.setenv("TANDEM_ARCHIVE_DIR", "~/old")
    monkeypatch.setenv("TANDEM_SECRET_KEY_FILE", "~/key")
    moved = load_settings({"data_dir": tmp_path}).settings
    assert (moved.archives, moved.secret_key) == (Path.home() / "old", Path.home() / "key")


def test_an_unused_session_lasts_half_a_day_and_never_more_than_thirty(config_dir: Path) -> None:
    assert load_settings().settings.session_idle_seconds == 12 * 3600
    user_says(config_dir, f"session_idle_seconds = {30 * 24 * 3600}")
    assert load_settings().settings.session_idle_seconds == 30 * 24 * 3600


def test_the_environments_workflows_are_json_and_replace_the_files(
    config_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().settings.workflows == {}
    place = user_says(config_dir, GATED)
    loaded = load_settings()
    assert (loaded.settings.workflows, loaded.origins["workflows"]) == (
        {"frontend-backend": {"mode": "approval"}},
        place,
    )
    monkeypatch.setenv("TANDEM_WORKFLOWS", '{"second": {"like": "frontend-backend"}}')
    loaded = load_settings()
    assert loaded.settings.workflows == {"second": {"like": "frontend-backend"}}
    assert loaded.origins["workflows"] == "TANDEM_WORKFLOWS"


@pytest.mark.parametrize(
    ("text", "setting", "says"),
    [
        ('{"relay": {}}', "workflows.relay", "TANDEM_WORKFLOWS: workflows.relay: it defines nothing."),
        ('{"relay"', "workflows", "TANDEM_WORKFLOWS: workflows: this is not valid JSON: "),
        ("[" * 30_000, "workflows", "TANDEM_WORKFLOWS: workflows: this is not valid JSON: "),
        ("[]", "workflows", "TANDEM_WORKFLOWS: workflows: Input should be a valid dictionary. Hand-off workflows"),
    ],
    ids=["unsound", "unfinished", "deep", "a list"],
)
def test_a_mistake_in_the_environments_workflows_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, text: str, setting: str, says: str
) -> None:
    monkeypatch.setenv("TANDEM_WORKFLOWS", text)
    error = refused()
    assert error.message.startswith(says)
    assert (error.details["setting"], error.details["origin"]) == (setting, "TANDEM_WORKFLOWS")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@db.test:5432/tandem?x=1", "postgresql://me:***@db.test:5432/tandem?x=1"),
        ("postgresql://me@db.test/tandem", "postgresql://me@db.test/tandem"),
        ("postgresql:///tandem?user=me&password=hunter2", "postgresql:///tandem?user=me&password=***"),
        (None, None),
    ],
)
def test_the_databases_password_is_not_shown(url: str | None, shown: str | None) -> None:
    assert masked("database_url", url) == shown
    assert "hunter2" not in repr(load_settings({"database_url": url}).settings)


def config_show(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_tandem(["config", "show", *options], folder, os.environ, seconds=60)


def test_config_show_names_each_value_its_origin_and_what_was_ignored(
    config_dir: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / "src").mkdir()
    user = user_says(config_dir, f"port = 1111\n{GATED}")
    near = project_says(project, "diff_limit_bytes = 1000\nport = 2")
    monkeypatch.setenv("TANDEM_DATABASE_URL", "postgresql://me:hunter2@db.test/tandem")
    ended = config_show(project / "src", "--json")
    shown: dict[str, Any] = json.loads(ended.stdout)["data"]
    assert ended.returncode == 0
    assert shown["settings"].keys() == Settings.model_fields.keys()
    assert (shown["settings"]["port"]["value"], shown["settings"]["port"]["origin"]) == (1111, user)
    assert shown["settings"]["diff_limit_bytes"]["origin"] == near
    assert shown["settings"]["workflows"]["value"] == {"frontend-backend": {"mode": "approval"}}
    assert shown["settings"]["database_url"]["origin"] == "TANDEM_DATABASE_URL"
    assert [(one["key"], one["origin"]) for one in shown["ignored"]] == [("port", near)]

    readable = config_show(project / "src")
    assert "diff_limit_bytes" in readable.stdout
    assert "frontend-backend" in readable.stdout
    assert "ignored: port" in readable.stderr
    assert "hunter2" not in ended.stdout + readable.stdout


def test_no_settings_show_a_secret_in_a_log_or_traceback() -> None:
    url, command = "postgresql://me:hunter2@db.test/tandem", ["review", "--api-key", "hunter2"]
    pool = {"provider": "custom", "command": command}
    loaded = load_settings({"database_url": url, "verify_command": command, "reviewer_pool": pool})
    assert "hunter2" in loaded.settings.database
    running = Running("http://127.0.0.1:1", 1, 1, "1", "i", token="hunter2")
    policy = Policy._make(getattr(loaded.settings, name) for name in Policy._fields)
    for one in (
        loaded,
        loaded.settings,
        loaded.settings.reviewer_pool,
        LastRun(1, {"database_url": url}),
        running,
        policy,
    ):
        assert "hunter2" not in f"{one!r} {one}"


def test_config_show_refuses_what_the_broker_would_refuse(config_dir: Path, tmp_path: Path) -> None:
    user_says(config_dir, "prot = 1")
    ended = config_show(tmp_path)
    assert ended.returncode == 1
    assert "CONFIG_INVALID" in ended.stderr
