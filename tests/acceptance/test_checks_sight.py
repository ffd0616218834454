"""What a check cannot see: no file that any setting names, wherever it is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tandem.settings import names
from tandem.settings.checks import named_files
from tandem.settings.config import Settings
from tandem.settings.names import Mark
from tandem.settings.pool import PoolSettings
from tests.acceptance.checking import Checked, check, checked
from tests.acceptance.reviewing import edited
from tests.certifying import Authority

PROGRAMS = {"git_executable", "command", "verify_command"}
"""Run by their names."""
ELSEWHERE = {"workspace_wsl_path"}
"""A path of another system."""
_NAMES_A_PATH = re.compile(r"\b(files?|folders?|paths?|sqlite)\b|_(file|dir|path)$", re.IGNORECASE)


def _fields() -> Iterator[tuple[type[BaseModel], str, FieldInfo]]:
    for owner in (Settings, PoolSettings):
        for name, field in owner.model_fields.items():
            if name != "reviewer_pool":
                yield owner, name, field


def _naming() -> list[tuple[type[BaseModel], str]]:
    """Every setting that names files, but for what checks may read."""
    return [
        (owner, name)
        for owner, name, field in _fields()
        if names.has(owner, name, Mark.NAMES_FILES)
        or ("Path" in str(field.annotation) and not names.has(owner, name, Mark.READABLE))
    ]


def test_every_setting_that_speaks_of_files_says_whether_it_names_some() -> None:
    marked = {name for _, name in _naming()}
    spoken = {
        name
        for _, name, field in _fields()
        if "str" in str(field.annotation) and _NAMES_A_PATH.search(f"{field.description} {name}")
    }
    # Patterns of paths in a repository, and limits of files, name none.
    assert spoken - marked - PROGRAMS - ELSEWHERE - {"gate_exempt"} == set()
    assert {"database_url", "tls_key_file", "secret_key_file", "ca_file", "workspace_path"} < marked
    url = "postgresql://broker@db/tandem?sslmode=verify-full&sslkey=/srv/keys/db.pem"
    assert Path("/srv/keys/db.pem") in named_files(Settings.model_validate({"database_url": url}))


def _written(vault: Path, name: str) -> Path:
    """A file, or a folder with one in it, for a setting to name."""
    place = vault / name.replace("_", "-")
    if name.endswith("_dir") or name == "workspace_path":
        place.mkdir(parents=True)
        (place / "inside").write_text("secret", "utf-8")
    else:
        place.write_text("secret", "utf-8")
    return place


def _named(vault: Path) -> dict[str, Path]:
    """What each setting names in these tests."""
    named: dict[str, Path] = {}
    for _, name in _naming():
        if name == "data_dir":
            continue  # what a broker of these tests has anyway
        named[name] = vault / "tandem.db" if name == "database_url" else _written(vault, name)
    authority = Authority(vault)
    authority.issue(named["tls_certificate_file"], named["tls_key_file"], "127.0.0.1")
    named["ca_file"].write_bytes(authority.file.read_bytes())
    named["secret_key_file"].unlink()
    return named


def _stated(named: dict[str, Path]) -> dict[str, Any]:
    """The settings, as the broker's environment has them."""
    owners = {name: owner for owner, name in _naming()}
    pool = {name: str(path) for name, path in named.items() if owners[name] is PoolSettings}
    own: dict[str, Any] = {name: path for name, path in named.items() if owners[name] is Settings}
    return {
        **own,
        "database_url": f"sqlite:///{named['database_url']}",
        "reviewer_pool": json.dumps(pool),
        "tls_port": 0,
    }


_LOOK = """\
import os, sys
for name in sys.argv[1:]:
    try:
        found = os.listdir(name) if os.path.isdir(name) else open(name, 'rb').read(1)
    except OSError:
        found = None
    print('sees' if found else 'lacks', name)
"""


def _seen(project: Checked, *paths: Path) -> dict[str, str]:
    """What a real check sees of these."""
    project.have({**check("looks", _LOOK), "command": [*check("looks", _LOOK)["command"], *map(str, paths)]})
    review = project.put_up(diff=edited())
    assert project.statuses(review) == {"looks": "passed"}
    lines = project.log(review, "looks").splitlines()
    return {path: word for word, _, path in (line.partition(" ") for line in lines)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_check_sees_no_file_that_a_setting_names(tmp_path: Path, mode: int) -> None:
    """Not even within a folder that it may read; of a folder that others may not enter it sees nothing else, either."""
    tools = tmp_path / "tools"
    vault = tools / "vault"
    vault.mkdir(parents=True)
    vault.chmod(mode)
    visible, beside = tools / "visible.txt", vault / "beside.txt"
    visible.write_text("for all", "utf-8")
    beside.write_text("the key that comes next", "utf-8")
    named = _named(vault)
    readable = f"{sys.prefix},{sys.base_prefix},{tools}"
    with checked(tmp_path, **_stated(named), checks_readable=readable) as project:
        data, log = project.broker.data_dir, named["database_url"].with_name("tandem.db-wal")
        wanted = [*named.values(), log, data / "broker.json", data / "logs" / "broker.jsonl", project.config_dir]
        assert all(path.exists() for path in wanted)
        expected = {str(path): "lacks" for path in wanted}
        expected |= {str(visible): "sees", str(beside): "sees" if mode == 0o755 else "lacks"}
        assert _seen(project, visible, beside, *wanted) == expected
