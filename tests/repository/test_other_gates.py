"""The action for GitHub and the hook for pre-commit, which other projects use in their pipelines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.broker import BrokerProcess, fresh_project
from tests.repository.gating import Gated, new_repository

ZEROS = "0" * 40


@pytest.fixture(scope="module")
def audit_script() -> str:
    """The last step of the action, which judges; the one before it installs Tandem."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return str(action["runs"]["steps"][-1]["run"])


def test_the_action_fails_where_a_commit_is_not_approved(audit_script: str, gated: Gated, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    gated.git("clone", "--quiet", str(gated.root), str(clone))

    def audit(event: dict[str, str]) -> subprocess.CompletedProcess[str]:
        inputs = {"BASE": "", "BEFORE": "", "RANGE": "", "PROJECT": gated.project, "TANDEM_TOKEN": ""}
        environment = {**os.environ, **inputs, **event, "TANDEM_BROKER": gated.broker.url}
        command = ["bash", "-eo", "pipefail", "-c", audit_script]
        return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)

    events = ({"BASE": "main"}, {"BEFORE": "origin/main"}, {"RANGE": "HEAD^..HEAD"})
    gated.approved_commit({"a.txt": "approved\n"})
    gated.git("push", "--quiet", str(clone), "HEAD:refs/heads/proposed")
    gated.git("checkout", "--quiet", "proposed", cwd=clone)
    passed = audit(events[0])
    assert passed.returncode == 0, passed.stdout + passed.stderr
    (clone / "b.txt").write_text("not approved\n", "utf-8")
    gated.git("commit", "--quiet", "-am", "Not approved", cwd=clone)
    # The last one has no commit before it.
    for event in (*events, {"BEFORE": ZEROS}):
        refused = audit(event)
        assert refused.returncode == 1, event
        assert "b.txt: no approved round has this content at this path" in refused.stdout


def as_pre_commit_has_it(here: Gated, folder: Path) -> Path:
    """A configuration of pre-commit with the hook that a clone of this repository offers."""
    offer = folder / "offer"
    offer.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", offer)
    for command in (["init", "-q"], ["add", "--all"], ["commit", "-qm", "Offer"]):
        here.git(*command, cwd=offer)
    hook = {"repo": str(offer), "rev": here.head(cwd=offer), "hooks": [{"id": "tandem-gate"}]}
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"repos": [hook]}), "utf-8")
    return config


@pytest.mark.parametrize("kind", ["a script", "pre-commit"])
def test_p2_a_pre_commit_hook_judges_what_is_committed_and_not_what_is_staged(
    kind: str, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    root = new_repository(tmp_path / "root")
    here = Gated(shared_broker, root, fresh_project())
    assert here.tandem("project", "add", "--name", here.project).status == 0
    here.environment |= {"TANDEM_BROKER": shared_broker.url, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    if kind == "pre-commit":
        config = as_pre_commit_has_it(here, tmp_path)
        install = ["pre-commit", "install", "--config", str(config)]
        subprocess.run(install, cwd=root, env={**os.environ, **here.environment}, check=True, capture_output=True)
    else:
        script = root / ".git" / "hooks" / "pre-commit"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\nexec {Path(sys.executable).with_name('tandem')} gate check\n", "utf-8")
        script.chmod(0o755)
    here.write({"a.txt": "changed\n"})
    for way in (["-a"], ["a.txt"], ["-o", "a.txt"], ["-i", "a.txt"])[: 2 if kind == "pre-commit" else 4]:
        said = here.try_git("commit", "-m", "x", *way)
        assert not said.ok, way
        assert "a.txt" in said.stdout + said.stderr
    here.decide(here.submit("--description", "all of it"))
    here.git("commit", "--quiet", "-am", "approved")
