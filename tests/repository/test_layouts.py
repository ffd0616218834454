"""Every kind of repository that git makes is one project: set up, gated, reviewed, looked at and left behind."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tests.broker import BrokerProcess, fresh_project
from tests.commandline import git
from tests.modes import VARIATION
from tests.repository.gating import Gated, gate_on, new_repository
from tests.repository.layouts import (
    ROWS,
    Laid,
    add_submodule,
    fix_of,
    lay,
    let_an_agent_in,
    paths_of,
    roots,
    source,
    work_through,
)
from tests.repository.routes.second_git import NoSecondGit, second_git


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(row.name, marks=VARIATION if row.is_variation else [])
        for row in ROWS.values()
        if row.section == "each"
    ],
)
def test_a_project_is_its_common_git_folder(name: str, shared_broker: BrokerProcess, tmp_path: Path) -> None:
    live_in(lay(name, tmp_path), shared_broker, tmp_path / "home")


@VARIATION
def test_a_project_is_its_common_git_folder_with_reftable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        monkeypatch.setenv("PATH", str(second_git()), prepend=os.pathsep)
        laid = lay("with_reftable", tmp_path)
    except NoSecondGit as error:
        pytest.skip(f"platform: {error}")
    except CalledProcessError:
        pytest.skip("platform: the second git here knows no reftable")
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker", PATH=os.environ["PATH"]) as broker:
        live_in(laid, broker, tmp_path / "home")


def live_in(laid: Laid, broker: BrokerProcess, home: Path) -> None:
    """Set a layout up, work in it, and go on in another working tree after the removal of the one that was set up.

    In a home of its own, where no client's files would be outside of a sparse checkout.
    """
    home.mkdir(exist_ok=True)
    shutil.copy(Path.home() / ".gitconfig", home)
    here = Gated(broker, laid.first, fresh_project(), {**laid.environment, "HOME": str(home)})
    done = here.tandem("init", "--gate", "--commits", "reviewed", "--yes", "--name", here.project, "--json")
    assert done.data["project"] == here.project
    # In whichever of its working trees: it is no second project.
    assert here.tandem("project", "add", "--json", cwd=laid.second).data["project"] == here.project
    assert roots(here) == [laid.root]
    work_through(here, laid.first, "first", looks=laid.second is None)
    if laid.second is None:
        let_an_agent_in(here, laid.first, "first")
        return
    shutil.rmtree(laid.first)
    here.git("worktree", "prune", cwd=laid.second)
    work_through(here, laid.second, "second")
    let_an_agent_in(here, laid.second, "second")
    assert here.tandem("gate", "on", cwd=laid.second).status == 0
    assert roots(replace(here, root=laid.second)) == [laid.root]


@pytest.mark.parametrize("layout", ["with_bare_folder", "with_linked_worktree"])
def test_beside_its_working_trees_a_repository_says_where_they_are(
    layout: str, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay(layout, tmp_path)
    beside = laid.common if laid.main else laid.common.parent
    here = Gated(shared_broker, beside, fresh_project())
    for command in (("init", "--yes"), ("gate", "on"), ("submit", "-m", "x", "--project", here.project, "--new")):
        assert str(laid.first) in here.tandem(*command).refusal


def test_of_dotfiles_only_tracked_files_are_submitted(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    laid = lay("as_dotfiles", tmp_path)
    (laid.common / "info" / "exclude").unlink()
    here = Gated(shared_broker, laid.first, fresh_project(), dict(laid.environment))
    here.git("config", "status.showUntrackedFiles", "no")
    done = here.tandem("init", "--gate", "--yes", "--name", here.project, "--client", "claude")
    assert "not approved" not in done.stderr
    here.write({"a.txt": "changed\n", ".ssh/id_rsa": "PRIVATE\n"})
    proposed = here.tandem("submit", "-m", "x", "--json")
    assert "git add FILE" in proposed.stderr
    assert paths_of(proposed) == ["a.txt"]
    here.decide(proposed.data["review_id"])
    here.git("commit", "--quiet", "-m", "changed", "a.txt")
    # A new file is submitted once somebody adds it.
    here.write({".vimrc": "new\n"})
    here.git("add", ".vimrc")
    assert paths_of(here.tandem("submit", "-m", "x", "--json")) == [".vimrc"]


def test_what_git_ignores_by_settings_of_the_environment_is_not_submitted(
    gated: Gated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ignored").write_text(".env\n", "utf-8")
    for name, value in (("COUNT", "1"), ("KEY_0", "core.excludesFile"), ("VALUE_0", str(tmp_path / "ignored"))):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    gated.write({"a.txt": "changed\n", ".env": "PRIVATE\n"})
    assert paths_of(gated.tandem("submit", "-m", "x", "--json")) == ["a.txt"]


@pytest.mark.parametrize("layout", ["as_dotfiles", "with_git_folder_inside"])
def test_a_git_folder_in_the_work_tree_is_never_submitted_or_changed(
    layout: str, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay(layout, tmp_path)
    own = laid.common.relative_to(laid.first).as_posix()
    here = Gated(shared_broker, laid.first, fresh_project(), dict(laid.environment))
    assert here.tandem("gate", "on", "--commits", "reviewed", "--project", here.project, "--new").status == 0
    git(laid.first, "init", "--quiet", "--bare", "other/some")
    here.write({"a.txt": "changed\n"})
    (laid.common / "info" / "exclude").write_text("unrelated.txt\n", "utf-8")
    proposed = here.tandem("submit", "-m", "x", "--json")
    assert paths_of(proposed) == ["a.txt"]
    for folder in (own, "other/some"):
        assert f"left out: {folder}/ is a git folder" in proposed.stderr
    config = f"{own}/config"
    here.git("add", "--force", config)
    ways = (
        ("submit", "-m", "x"),
        ("submit", "--staged", "-m", "x"),
        ("submit", "--text", config, "-m", "x"),
        ("gate", "context", config, "--agent-type", "tests"),
    )
    said = ""
    for way in ways:
        refused = here.tandem(*way)
        said = refused.stderr + refused.stdout
        assert f"{config} is in {own}, the git folder itself" in said, way
    [command] = re.findall("take it out: git (.*)", said)
    here.git(*shlex.split(command))
    diff = f"--- /dev/null\n+++ b/{own}/hooks/post-checkout\n@@ -0,0 +1 @@\n+#!/bin/sh\n"
    hook = here.call("create_review", intent="x", agent_type="tests", diff=diff)["review_id"]
    here.decide(hook)
    assert "the git folder itself" in here.tandem("apply", hook).stderr
    assert not (laid.common / "hooks" / "post-checkout").exists()


@pytest.mark.parametrize(
    "layout",
    ["with_linked_worktree", *(pytest.param(one, marks=VARIATION) for one in ("with_bare_folder", "as_submodule"))],
)
def test_hooks_of_a_folder_that_is_set_refuse_after_a_move_in_every_working_tree(
    layout: str, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    (tmp_path / "was").mkdir()
    laid = lay(layout, tmp_path / "was")
    git(laid.common, "config", "core.hooksPath", ".githooks")
    here = gate_on(shared_broker, laid.first)
    (tmp_path / "was").rename(tmp_path / "now")
    first, second, common = (
        tmp_path / "now" / path.relative_to(tmp_path / "was")
        for path in (laid.first, laid.second or laid.first, laid.common)
    )
    git(common, "worktree", "repair", str(first), str(second))
    for top in (first, second):
        here.stage({"a.txt": "changed\n"}, top)
        assert "tandem project move" in here.refused("commit", "-m", "x", cwd=top)
    moved = replace(here, root=first)
    assert moved.tandem("project", "move").status == 0
    work_through(moved, second, "moved")


def test_a_refused_commit_of_dotfiles_by_an_alias_names_the_variables_that_commands_need(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay("as_dotfiles", tmp_path)
    here = Gated(shared_broker, laid.first, fresh_project(), dict(laid.environment))
    assert here.tandem("gate", "on", "--commits", "reviewed", "--project", here.project, "--new").status == 0
    by_alias = replace(here, environment={})
    dots = (f"--git-dir={laid.common}", f"--work-tree={laid.first}")
    here.write({"a.txt": "changed\n"})
    refused = by_alias.refused(*dots, "commit", "-am", "x")
    assert "GIT_DIR and GIT_WORK_TREE" in by_alias.tandem("submit", "-m", "x").stderr
    [stated] = re.findall("export (.*)", refused)
    told = replace(here, environment=dict(one.split("=", 1) for one in shlex.split(stated)))
    told.decide(told.submit("--description", "all"))
    by_alias.git(*dots, "commit", "--quiet", "-am", "x")


def test_doctor_names_where_a_clone_says_whose_objects_it_borrows(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    lender = source(tmp_path)
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", "--shared", str(lender), str(work))
    here = gate_on(shared_broker, work)
    moved = lender.rename(tmp_path / "moved")
    found = here.tandem("doctor", "--json").data["findings"]
    alternates = work / ".git" / "objects" / "info" / "alternates"
    fixes = [one["fix"] for one in found if one["check"] == "hooks" and one["state"] == "problem"]
    assert fixes == [f"write where that folder is now into {alternates}"]
    alternates.write_text(f"{moved}/.git/objects\n", "utf-8")
    work_through(here, work, "lent")


def test_a_work_tree_that_borrows_its_hooks_leaves_the_gate_of_the_other_alone(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    here = gate_on(shared_broker, new_repository(tmp_path / "root"))
    # As git-new-workdir does.
    work = tmp_path / "work"
    (work / ".git" / "logs").mkdir(parents=True)
    for name in ("config", "refs", "logs/refs", "objects", "info", "hooks", "packed-refs"):
        (work / ".git" / name).symlink_to(here.root / ".git" / name)
    shutil.copy(here.root / ".git" / "HEAD", work / ".git")
    git(work, "checkout", "--quiet", "-f")
    there = replace(here, root=work)
    for command in ("gate on", "gate off", "init --gate --yes", "gate on --project another --new"):
        assert "through symbolic links" in there.tandem(*command.split()).stderr, command
    way = fix_of(there).partition(",")[0]
    assert [one["fix"] for one in there.tandem("doctor", "--json").data["findings"] if one["state"] == "problem"] == [
        fix_of(there)
    ]
    there.stage({"a.txt": "changed\n"})
    there.refused("commit", "-m", "x")
    subprocess.run(shlex.split(way), check=True, capture_output=True)
    work_through(here, tmp_path / "work-linked", "linked")


def test_p2_a_submodule_is_a_project_of_its_own_and_the_outer_one_judges_its_link_alone(gated: Gated) -> None:
    part = add_submodule(gated)
    gated.approve()
    gated.git("commit", "--quiet", "-m", "part")
    # The inner project is not set up, and the outer gate does not judge its commits.
    inner = Gated(gated.broker, part, fresh_project())
    inner.stage({"a.txt": "inner\n"})
    inner.git("commit", "--quiet", "-m", "free")
    unregistered = inner.tandem("submit", "--staged", "-m", "x")
    assert "not registered" in unregistered.stderr
    inner = replace(inner, project=inner.tandem("gate", "on", "--json").data["project"])
    assert inner.project == "part"
    assert roots(inner) == [str(gated.root / ".git" / "modules" / "libs" / "part")]
    for here, name in ((gated, gated.project), (inner, inner.project)):
        assert here.tandem("gate", "status", "--json").data["project"] == name
    inner.stage({"a.txt": "approved\n"})
    inner.refused("commit", "-m", "x")
    inner.decide(inner.submit())
    inner.git("commit", "--quiet", "-m", "approved")
    # The outer one is held to its own approvals.
    gated.git("add", "libs/part")
    assert "libs/part" in gated.refused("commit", "-m", "x")
    gated.decide(gated.submit())
    gated.git("commit", "--quiet", "-m", "part")


def test_settings_of_a_bare_repository_are_those_of_the_worktree_with_its_own_branch(
    shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    laid = lay("with_bare_folder", tmp_path)
    assert laid.second is not None
    here = gate_on(shared_broker, laid.first)
    here.settings(trusted=False, tandem_enabled=True, review_granularity="per_plan")
    for top in (laid.first, laid.second):
        found = here.tandem("gate", "status", "--json", cwd=top).data
        assert (found["granularity"], found["untrusted"]) == ("per_task", ["review_granularity"])
    here.settings(tandem_enabled=True, review_granularity="per_plan")
    for top in (laid.first, laid.second):
        assert here.tandem("gate", "status", "--json", cwd=top).data["granularity"] == "per_plan"
    here.stage({"a.txt": "by a plan\n"}, laid.second)
    here.git("commit", "--quiet", "-m", "feat(03-02): pass", cwd=laid.second)


def test_the_usual_name_of_a_project_says_what_it_is(tmp_path: Path) -> None:
    names = {"with_bare_folder": "app", "with_separate_folder": "work", "as_dotfiles": "dotfiles"}
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker") as broker:
        for layout, name in names.items():
            (tmp_path / layout).mkdir()
            laid = lay(layout, tmp_path / layout)
            here = Gated(broker, laid.first, name, dict(laid.environment))
            for command in (("project", "add"), ("init", "--yes", "--gate"), ("gate", "on")):
                assert here.tandem(*command, "--json").data["project"] == name
                assert roots(here) == [laid.root]
                if command[0] == "project":
                    assert here.tandem("project", "remove", name).status == 0
