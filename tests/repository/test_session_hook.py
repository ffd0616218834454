"""The hook of a session's start: one line about the gate, and the overlay of GSD put back after an update."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.repository.agents import Agent, Client, account, hook
from tests.repository.gating import Gated

PATIENCE_SECONDS = 60


def told(folder: Path, *options: str, client: Client = "claude") -> str:
    """Returns the text that the hook adds to a session's context."""
    answer = hook(account(client, "start", folder), "--client", client, *options, cwd=folder, name="session")
    assert answer.passes
    if not answer.stdout:
        return ""
    document = json.loads(answer.stdout)["hookSpecificOutput"]
    assert document["hookEventName"] == "SessionStart"
    return document["additionalContext"]


def test_says_that_the_gate_is_on_and_whether_it_can_be_asked(gated: Gated) -> None:
    text = told(gated.root)
    assert told(gated.root, client="codex") == text
    assert Agent("gemini", gated.root).git in told(gated.root, client="gemini"), "it switches git's hooks off"
    assert f"gate is on for the project '{gated.project}'" in text
    assert "tandem-review" in text
    assert text.endswith("The broker runs.")
    right = gated.switch
    gated.rewrite(broker="http://127.0.0.1:9")
    assert "tandem up --background" in told(gated.root)
    gated.gate_file.write_text("{", "utf-8")
    assert "tandem gate on" in told(gated.root)
    gated.gate_file.write_text(json.dumps(right | {"enabled": False}), "utf-8")
    assert told(gated.root) == ""


def test_without_a_gate_it_says_nothing(plain: Path, tmp_path: Path) -> None:
    assert told(plain) == ""
    assert told(tmp_path) == "", "no repository at all"
    for said in (b"", b"nonsense", b"[]"):
        answer = hook(said, "--client", "claude", cwd=plain, name="session")
        assert (answer.passes, answer.stdout) == (True, "")


def test_has_the_overlay_put_back_when_gsd_was_updated(plain: Path, tmp_path: Path) -> None:
    data_dir, client = tmp_path / "data", tmp_path / "client"
    version = client / "get-shit-done" / "VERSION"
    workflow = client / "get-shit-done" / "workflows" / "verify-work.md"
    workflow.parent.mkdir(parents=True)
    data_dir.mkdir()
    version.write_text("1.42.2\n", "utf-8")
    workflow.write_text("Commit the UAT file:\n", "utf-8")
    overlay = {"client": "claude", "scope": "user", "version": "1.42.2", "files": dict[str, str]()}
    store = data_dir / "gsd-overlay.json"
    store.write_text(json.dumps({"version": 1, "installs": {str(client): overlay}}), "utf-8")
    assert told(plain, "--data-dir", str(data_dir)) == ""
    version.write_text("1.42.3\n", "utf-8")
    said = account("claude", "start", plain)
    answer = hook(said, "--client", "claude", "--data-dir", str(data_dir), cwd=plain, name="session")
    assert "tandem gsd overlay --refresh" in answer.stdout
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "1.42.3" not in store.read_text("utf-8") or "tandem gate verification" not in workflow.read_text("utf-8"):
        assert time.monotonic() < deadline, (store.read_text("utf-8"), workflow.read_text("utf-8"))
        time.sleep(0.05)
    assert told(plain, "--data-dir", str(data_dir)) == ""
