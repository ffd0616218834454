"""What this repository offers to others' pipelines: the action for GitHub, and the hook for pre-commit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.repository.gating import Gated

ZEROS = "0" * 40


@pytest.fixture(scope="module")
def audit_script() -> str:
    """The last step of the action, which judges; the one before it installs Tandem."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return str(action["runs"]["steps"][-1]["run"])


@pytest.mark.parametrize(
    "event", [{"BASE": "main"}, {"BEFORE": "origin/main"}, {"BEFORE": ZEROS}, {"RANGE": "HEAD^..HEAD"}]
)
def test_the_action_fails_where_a_commit_is_not_approved(
    event: dict[str, str], audit_script: str, gated: Gated, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    gated.git("clone", "--quiet", str(gated.root), str(clone))

    def audit() -> subprocess.CompletedProcess[str]:
        inputs = {"BASE": "", "BEFORE": "", "RANGE": "", "PROJECT": gated.project, "TANDEM_TOKEN": ""}
        environment = {**os.environ, **inputs, **event, "TANDEM_BROKER": gated.broker.url}
        command = ["bash", "-eo", "pipefail", "-c", audit_script]
        return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)

    gated.approved_commit({"a.txt": "approved\n"})
    gated.git("push", "--quiet", str(clone), "HEAD:refs/heads/proposed")
    gated.git("checkout", "--quiet", "proposed", cwd=clone)
    if event.get("BEFORE") != ZEROS:
        passed = audit()
        assert passed.returncode == 0, passed.stdout + passed.stderr
    (clone / "b.txt").write_text("not approved\n", "utf-8")
    gated.git("commit", "--quiet", "-am", "Not approved", cwd=clone)
    refused = audit()
    assert refused.returncode == 1
    assert "b.txt: no approved round has this content at this path" in refused.stdout


def test_pre_commit_runs_the_hook_that_a_clone_of_this_repository_offers(gated: Gated, tmp_path: Path) -> None:
    offer = tmp_path / "offer"
    offer.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", offer)
    for command in (["init", "-q"], ["add", "--all"], ["commit", "-qm", "Offer"]):
        gated.git(*command, cwd=offer)
    hook = {"repo": str(offer), "rev": gated.head(cwd=offer), "hooks": [{"id": "tandem-gate"}]}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"repos": [hook]}), "utf-8")

    def run() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "TANDEM_BROKER": gated.broker.url, "PRE_COMMIT_HOME": str(tmp_path / "home")}
        command = ["pre-commit", "run", "--config", str(config)]
        return subprocess.run(command, cwd=gated.root, env=environment, capture_output=True, text=True, check=False)

    gated.stage({"a.txt": "proposed\n"})
    refused = run()
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "a.txt" in refused.stdout
    gated.approve()
    passed = run()
    assert passed.returncode == 0, passed.stdout + passed.stderr
