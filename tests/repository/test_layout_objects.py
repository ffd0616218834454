"""Parts that some layouts lack: paths outside of a sparse checkout, objects of partial clones, submodules."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.broker import BrokerProcess, fresh_project
from tests.commandline import git
from tests.interfaces.bridging import bridge
from tests.modes import VARIATION
from tests.repository.gating import Gated, new_repository
from tests.repository.layouts import add_submodule, lay, paths_of, source


def set_up(broker: BrokerProcess, root: Path, *command: str) -> Gated:
    """The repository as a project, by this command."""
    here = Gated(broker, root, fresh_project())
    assert here.tandem(*command, "--name", here.project).status == 0
    return here


def approved_with_all_files(here: Gated, folder: Path, files: Mapping[str, str | bytes | None]) -> str:
    """An approved review of a person who has all files in a working tree of their own."""
    here.git("worktree", "add", "--quiet", "-b", "whole", str(folder))
    here.git("sparse-checkout", "disable", cwd=folder)
    here.stage(files, folder)
    review_id = here.submit(cwd=folder)
    here.decide(review_id)
    return review_id


@pytest.mark.parametrize("layout", ["with_sparse_checkout", pytest.param("with_partial_clone", marks=VARIATION)])
def test_apply_writes_what_a_sparse_checkout_leaves_out_and_says_how_to_stage_it(
    layout: str, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay(layout, tmp_path)
    here = set_up(shared_broker, laid.first, "init", "--gate", "--yes")
    review_id = approved_with_all_files(
        here, tmp_path / "whole", {"a.txt": "near\n", "far/c.txt": "changed\n", "far/new.txt": "new\n"}
    )
    applied = here.tandem("apply", review_id)
    assert applied.status == 0, applied.stderr
    assert (laid.first / "far" / "c.txt").read_text() == "changed\n"
    [command] = re.findall("Stage the change with: tandem (.*)", applied.stdout)
    assert here.tandem(*command.split()).status == 0
    here.git("commit", "--quiet", "-m", "whole")
    assert here.git("show", "--name-only", "--format=").split() == ["a.txt", "far/c.txt", "far/new.txt"]


def test_a_content_that_a_partial_clone_lacks_is_named_with_the_command_that_brings_it(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay("with_partial_clone", tmp_path)
    here = set_up(shared_broker, laid.first, "init", "--gate", "--yes")
    diff = "--- a/far/c.txt\n+++ b/far/c.txt\n@@ -1 +1 @@\n-far\n+near\n"
    propose = ("review", "create", "--intent", "x", "--diff", diff, "--base", here.head())
    refused = here.tandem(*propose)
    assert "far/c.txt" in refused.stderr
    run_as_told(refused.stderr)
    review_id = here.tandem(*propose, "--json").data["review_id"]
    here.decide(review_id)
    assert here.tandem("apply", review_id, "--index").status == 0
    here.git("commit", "--quiet", "-m", "near")


def test_a_base_that_git_has_removed_is_named_with_the_command_that_brings_it(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    origin = source(tmp_path)
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", str(origin), str(work))
    here = set_up(shared_broker, work, "project", "add")
    here.git("commit", "--quiet", "--allow-empty", "-m", "soon gone")
    base = here.head()
    here.git("push", "--quiet", "origin", "HEAD:refs/heads/kept")
    here.stage({"a.txt": "changed\n"})
    review_id = here.submit()
    here.decide(review_id)
    here.git("reset", "--quiet", "--hard", "HEAD~1")
    here.git("update-ref", "-d", "refs/remotes/origin/kept")
    here.git("reflog", "expire", "--expire=now", "--all")
    here.git("gc", "--quiet", "--prune=now")
    refused = here.tandem("apply", review_id)
    assert base in refused.stderr
    run_as_told(refused.stderr)
    assert here.tandem("apply", review_id).status == 0
    assert (work / "a.txt").read_text() == "changed\n"


@pytest.mark.parametrize("filter_", ["blob:none", pytest.param("tree:0", marks=VARIATION)])
def test_of_a_partial_clone_earlier_commits_are_submitted_once_the_command_that_is_named_was_run(
    shared_broker: BrokerProcess, tmp_path: Path, filter_: str
) -> None:
    origin = source(tmp_path)
    for content in ("second", "third", "fourth"):
        (origin / "a.txt").write_text(f"{content}\n", "utf-8")
        git(origin, "commit", "--quiet", "-am", content)
    main = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-local", f"--filter={filter_}", origin.as_uri(), str(main))
    here = set_up(shared_broker, main, "project", "add")
    for source_ in (("--commit", "HEAD~1"), ("--range", "HEAD~3..HEAD~2")):
        refused = here.tandem("submit", "-m", "x", *source_)
        assert "lacks the object" in refused.stderr
        run_as_told(refused.stderr)
        assert paths_of(here.tandem("submit", "-m", "x", *source_, "--json")) == ["a.txt"]


def run_as_told(words: str) -> None:
    """Run the command that a message names, word by word."""
    [command] = re.findall("Bring it with `(git [^`]*)`", words)
    subprocess.run(shlex.split(command), check=True, capture_output=True, cwd=tempfile.gettempdir())


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("nested", marks=VARIATION),
        "renamed",
        pytest.param("in a linked working tree", marks=VARIATION),
        "not absorbed, in a linked one",
        "not initialised",
    ],
)
def test_a_submodules_commit_is_found_in_whatever_folder_git_keeps_it(gated: Gated, kind: str) -> None:
    origin = new_repository(gated.root.parent / "origin")
    new = new_commit(origin)
    top, path = gated.root, "libs/part"
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
    if "linked" in kind:
        top = gated.linked(gated.root.parent / "linked", "feature")
    if kind == "renamed":
        gated.git(*add, "--name", "another", str(origin), path)
    elif kind == "nested":
        gated.git(*add, "--name", "outer/inner", str(origin), path)
    elif "not absorbed" in kind:
        git(top, "clone", "--quiet", str(origin), path)
    else:
        gated.git(*add, str(origin), path, cwd=top)
    git(top / path, "checkout", "--quiet", new)
    gated.git("add", "--all", cwd=top)
    if top == gated.root:
        # Else its own folder would say enough.
        gated.git("submodule", "deinit", "--force", "--quiet", path)
    gated.decide(gated.submit(cwd=top))
    gated.git("commit", "--quiet", "-m", "part", cwd=top)


def test_apply_names_the_commands_that_change_a_submodule(gated: Gated) -> None:
    part = add_submodule(gated)
    gated.approve()
    gated.git("commit", "--quiet", "-m", "part")
    new = new_commit(gated.root.parent / "origin")
    git(part, "fetch", "--quiet")
    git(part, "checkout", "--quiet", new)
    gated.stage({"a.txt": "with it\n"})
    review_id = gated.approve()
    gated.git("reset", "--quiet", "--hard")
    gated.git("submodule", "update", "--quiet")
    refused = gated.tandem("apply", review_id)
    [way] = re.findall("then run this again: (git .*)", refused.stderr)
    subprocess.run(["sh", "-ec", way], check=True, capture_output=True, cwd=tempfile.gettempdir())
    applied = gated.tandem("apply", review_id, "--index")
    assert applied.status == 0, applied.stderr
    gated.git("commit", "--quiet", "-m", "newer")
    assert new in gated.git("ls-tree", "HEAD", "libs/part")


def test_a_base_that_a_submodule_without_its_folder_lacks_is_named_with_the_command_that_brings_it(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay("as_submodule", tmp_path)
    assert laid.second is not None
    here = set_up(shared_broker, laid.second, "project", "add")
    new = new_commit(tmp_path / "source")
    shutil.rmtree(laid.first)
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    propose = ("review", "create", "--intent", "x", "--diff", diff, "--base", new)
    refused = here.tandem(*propose)
    assert new in refused.stderr
    run_as_told(refused.stderr)
    assert here.tandem(*propose).status == 0


def test_an_agent_in_a_submodule_of_no_project_proposes_nothing_to_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    laid = lay("as_submodule", tmp_path)
    outer = tmp_path / "outer"
    with BrokerProcess(tmp_path / "broker") as broker:
        here = Gated(broker, outer, "outer")
        assert here.tandem("project", "add").status == 0
        diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        stated = {"intent": "x", "agent_type": "tests", "diff": diff}
        with bridge("--broker", broker.url, folder=laid.first) as agent:
            refused = agent.tool("create_review", **stated)
            assert "tandem project add" in refused["error"]["message"]
            assert agent.tool("list_reviews")["ok"]
        assert here.call("list_reviews")["reviews"] == []
        assert here.tandem("project", "add", cwd=laid.first).status == 0
        with bridge("--broker", broker.url, folder=laid.first) as agent:
            assert agent.tool("create_review", **stated)["ok"]


def new_commit(root: Path) -> str:
    """A commit in a repository, which a clone of it brings."""
    git(root, "commit", "--quiet", "--allow-empty", "-m", "new")
    return git(root, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize("is_checked_out", [True, False])
def test_a_submodules_commit_that_is_nowhere_is_named_with_the_command_that_brings_it(
    gated: Gated, is_checked_out: bool
) -> None:
    part = add_submodule(gated)
    gated.approve()
    gated.git("commit", "--quiet", "-m", "part")
    new = new_commit(gated.root.parent / "origin")
    if not is_checked_out:
        gated.git("submodule", "deinit", "--force", "--quiet", "libs/part")
        shutil.rmtree(gated.root / ".git" / "modules")
    gated.git("update-index", "--cacheinfo", f"160000,{new},libs/part")
    refused = gated.tandem("submit", "--staged", "-m", "newer")
    assert new in refused.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_ALLOW_PROTOCOL", "file")
        run_as_told(refused.stderr)
    gated.decide(gated.submit())
    gated.git("commit", "--quiet", "-m", "newer")
    assert part.is_dir()
