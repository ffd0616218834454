"""Which project the bridge says a folder belongs to, with git's own folders and files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from tandem.bridge.project import owner, top_level
from tandem.git.place import find_repository
from tests.commandline import running_broker
from tests.interfaces.bridging import Reply, Request, answered, bridge, peer


def git(*arguments: str, folder: Path) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "main"
    (root / "src" / "deep").mkdir(parents=True)
    git("init", "-q", folder=root)
    git("commit", "-q", "--allow-empty", "-m", "begin", folder=root)
    return root.resolve()


def home(folder: Path) -> str:
    """The folder that the project of a folder is registered for."""
    place = find_repository(str(folder))
    assert place is not None
    return place.home


def test_a_folder_belongs_to_the_repository_around_it(repository: Path) -> None:
    assert top_level(str(repository / "src" / "deep")) == str(repository)
    assert top_level(str(repository)) == home(repository) == str(repository)


def test_outside_of_git_there_is_no_repository(tmp_path: Path) -> None:
    assert top_level(str(tmp_path)) is None


def test_a_linked_worktree_is_of_the_project_of_the_main_one(repository: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", str(linked), folder=repository)
    (linked / "src").mkdir()
    assert top_level(str(linked / "src")) == str(linked.resolve())
    assert home(linked / "src") == str(repository)
    assert owner(str(linked), {"main": str(repository)}) == "main"


def test_a_repository_inside_of_a_project_is_none_of_its(repository: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git("init", "-q", folder=inner)
    git("commit", "-q", "--allow-empty", "-m", "begin", folder=inner)
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "part", folder=repository)
    git("clone", "-q", str(inner), str(repository / "src" / "clone"), folder=tmp_path)
    for folder in (repository / "part", repository / "src" / "clone"):
        assert top_level(str(folder)) == str(folder)
        assert owner(str(folder), {"outer": str(repository)}) is None
    assert owner(str(repository / "src" / "deep"), {"outer": str(repository)}) == "outer"


def test_a_folder_reached_by_a_link_is_the_folder(repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    try:
        link.symlink_to(repository, target_is_directory=True)
    except OSError:
        pytest.skip("platform: links need a privilege here")
    assert owner(str(link / "src"), {"main": str(repository)}) == "main"


def listing(root: Path) -> Reply:
    projects = [{"project": "mine & yours", "root": str(root), "registered_at": "2026-01-01T00:00:00Z"}]
    return Reply(json.dumps({"ok": True, "data": {"projects": projects}}).encode())


def test_the_bridge_finds_the_project_once_and_sends_it_with_what_concerns_one(
    repository: Path, tmp_path: Path
) -> None:
    def script(request: Request) -> Reply:
        return listing(repository) if request.path.startswith("/api/") else answered(request, {})

    with peer(script) as broker, bridge("--broker", broker.url, folder=repository / "src") as client:
        client.call("tools/list")
        client.call("tools/call", {"name": "list_reviews", "arguments": {}})
        client.call("resources/list")
        client.call("tools/call", {"name": "list_reviews", "arguments": {"project": "other"}})
        paths = [broker.next().path for _ in range(5)]
        assert paths == [
            "/mcp",
            "/api/v1/list_projects",
            "/mcp?project=mine%20%26%20yours",
            "/mcp?project=mine%20%26%20yours",
            "/mcp",
        ]
    environment = {"CLAUDE_PROJECT_DIR": str(repository)}
    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path, **environment) as client:
        client.call("resources/list")
        assert [broker.next().path for _ in range(2)][1] == "/mcp?project=mine%20%26%20yours"


def test_a_folder_that_nobody_registered_is_left_to_the_broker(repository: Path, tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return listing(repository) if request.path.startswith("/api/") else answered(request, {})

    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        client.call("resources/list")
        assert [broker.next().path for _ in range(2)][1] == "/mcp"


def test_a_diff_of_a_linked_worktree_is_against_what_is_checked_out_there(repository: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", "-b", "feature", str(linked), folder=repository)
    (linked / "only-here.txt").write_text("one\n")
    git("add", ".", folder=linked)
    git("commit", "-q", "-m", "only here", folder=linked)
    diff = "--- a/only-here.txt\n+++ b/only-here.txt\n@@ -1 +1 @@\n-one\n+two\n"
    proposal = {"name": "create_review", "arguments": {"intent": "two", "agent_type": "a", "diff": diff}}
    with running_broker(tmp_path / "data") as url:
        httpx.post(f"{url}/api/v1/register_project", json={"root": str(repository)}).raise_for_status()
        for folder, is_taken in ((repository, False), (linked, True)):
            with bridge("--broker", url, folder=folder) as client:
                answer = client.call("tools/call", proposal)["result"]["structuredContent"]
                assert answer["ok"] is is_taken, answer
        git("checkout", "-q", "--detach", folder=linked)
        with bridge("--broker", url, folder=linked) as client:
            assert client.call("tools/call", proposal)["result"]["structuredContent"]["ok"]
