"""`tandem doctor` where the real programs are: it asks Codex whether it runs our hooks, which only Codex knows."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.clients.codex_hooks import CodexHooks
from tests.clients.real_clients import BIN
from tests.repository.gating import Gated, gate_on, new_repository

CLIENT = "codex"


@pytest.mark.client(CLIENT)
def test_a_hook_that_codex_skips_for_want_of_trust_is_a_problem(
    broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    home = tmp_path / "home"
    (home / f".{CLIENT}").mkdir(parents=True)
    path = os.pathsep.join([BIN, str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"HOME": str(home), "PATH": path, "TANDEM_DATA_DIR": str(broker.data_dir)}
    gated = replace(gate_on(broker, new_repository(tmp_path / "repository")), environment=environment)
    for name in ("name", "email"):
        gated.git("config", f"user.{name}", "ada@example.org")
    assert gated.tandem("init", "--gate", "--yes").status == 0
    assert any("has not trusted its present form" in one for one in problems(gated))
    with CodexHooks(gated.root, {**os.environ, **environment}) as hooks:
        hooks.trust_all()
    left = problems(gated)
    # No one has logged in from this home folder.
    assert "Codex is not logged in." in left
    assert [one for one in left if "is not logged in" not in one] == []


def problems(gated: Gated) -> list[str]:
    """The problems that the doctor reports."""
    findings = gated.tandem("doctor", "--json").data["findings"]
    return [one["message"] for one in findings if one["state"] == "problem"]
