"""Every kind of repository that git makes is one project: set up, gated, reviewed, looked at and left behind."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from tests.broker import BrokerProcess, fresh_project
from tests.commandline import Ended, Shell, git
from tests.interfaces.bridging import bridge
from tests.repository.gating import START, Gated, new_repository
from tests.repository.routes.second_git import NoSecondGit, second_git

Environment = Mapping[str, str]


@dataclass(frozen=True)
class Laid:
    """A repository as it was laid out.

    Attributes:
        first: The working tree where `init` runs.
        second: Another one of the same repository; null if it has none.
        common: Its common git folder.
        main: The main working tree, if the git folder is in it.
        environment: Variables for every command.
    """

    first: Path
    second: Path | None
    common: Path
    main: Path | None = None
    environment: Environment = field(default_factory=dict[str, str])

    @property
    def root(self) -> str:
        """The folder that the project is registered for."""
        return str(self.main or self.common)


def source(folder: Path) -> Path:
    """A repository that lets itself be cloned in part, with a folder that a sparse checkout can leave out."""
    made = new_repository(folder / "source", {**START, "far/c.txt": b"far\n"})
    git(made, "config", "uploadpack.allowFilter", "true")
    return made


def with_bare_folder(folder: Path) -> Laid:
    home = folder / "app"
    git(folder, "clone", "--quiet", "--bare", str(source(folder)), str(home / ".bare"))
    (home / ".git").write_text("gitdir: ./.bare\n", "utf-8")
    git(home, "worktree", "add", "--quiet", "main")
    git(home, "worktree", "add", "--quiet", "-b", "feature", "feature")
    return Laid(home / "main", home / "feature", home / ".bare")


def with_bare_git(folder: Path) -> Laid:
    home = folder / "app"
    git(folder, "clone", "--quiet", "--bare", str(source(folder)), str(home / ".git"))
    git(home, "worktree", "add", "--quiet", "main")
    git(home, "worktree", "add", "--quiet", "-b", "feature", "feature")
    return Laid(home / "main", home / "feature", home / ".git")


def with_own_configurations(folder: Path) -> Laid:
    laid = with_bare_git(folder)
    # Git then moves `core.bare` to another file.
    git(laid.second or laid.first, "sparse-checkout", "set", "far")
    return laid


def with_separate_folder(folder: Path) -> Laid:
    work, common = folder / "work", folder / "kept" / "repository"
    common.parent.mkdir()
    git(folder, "clone", "--quiet", f"--separate-git-dir={common}", str(source(folder)), str(work))
    git(work, "worktree", "add", "--quiet", "-b", "feature", str(folder / "feature"))
    return Laid(work, folder / "feature", common)


def with_git_folder_inside(folder: Path) -> Laid:
    work, common = folder / "work", folder / "work" / "kept"
    git(folder, "clone", "--quiet", str(source(folder)), str(work))
    git(work, "init", "--quiet", f"--separate-git-dir={common}")
    return Laid(work, None, common)


def with_linked_git_folder(folder: Path) -> Laid:
    work, common = source(folder), folder / "kept"
    (work / ".git").rename(common)
    (work / ".git").symlink_to(common)
    git(work, "worktree", "add", "--quiet", "-b", "feature", str(folder / "feature"))
    return Laid(work, folder / "feature", common)


def as_submodule(folder: Path) -> Laid:
    outer = new_repository(folder / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(source(folder)), "libs/part")
    git(outer, "commit", "--quiet", "-m", "part")
    part = outer / "libs" / "part"
    git(part, "worktree", "add", "--quiet", "-b", "feature", str(folder / "feature"))
    return Laid(part, folder / "feature", outer / ".git" / "modules" / "libs" / "part")


def as_worktree_of_submodule(folder: Path) -> Laid:
    laid = as_submodule(folder)
    return Laid(laid.second or laid.first, laid.first, laid.common)


def as_dotfiles(folder: Path) -> Laid:
    home = folder / "person"
    common = home / ".dotfiles"
    git(folder, "clone", "--quiet", "--bare", str(source(folder)), str(common))
    environment = {"GIT_DIR": str(common), "GIT_WORK_TREE": str(home)}
    git(home, f"--git-dir={common}", f"--work-tree={home}", "reset", "--quiet", "--hard")
    (home / "unrelated.txt").write_text("not in the repository\n", "utf-8")
    (common / "info").mkdir(exist_ok=True)
    (common / "info" / "exclude").write_text("unrelated.txt\n.dotfiles\n", "utf-8")
    return Laid(home, None, common, environment=environment)


def as_dotfiles_with_settings(folder: Path) -> Laid:
    laid = as_dotfiles(folder)
    git(laid.common, "config", "core.bare", "false")
    git(laid.common, "config", "core.worktree", str(laid.first))
    return Laid(laid.first, None, laid.common, environment={"GIT_DIR": str(laid.common)})


def with_linked_worktree(folder: Path) -> Laid:
    main = source(folder)
    git(main, "worktree", "add", "--quiet", "-b", "feature", str(folder / "feature"))
    return Laid(folder / "feature", main, main / ".git", main)


def with_sparse_checkout(folder: Path) -> Laid:
    main = folder / "clone"
    git(folder, "clone", "--quiet", "--sparse", str(source(folder)), str(main))
    git(main, "worktree", "add", "--quiet", "-b", "feature", str(folder / "feature"))
    assert not (main / "far").exists()
    return Laid(folder / "feature", main, main / ".git", main)


def with_partial_clone(folder: Path) -> Laid:
    main = folder / "clone"
    url = source(folder).as_uri()
    git(folder, "clone", "--quiet", "--no-local", "--filter=blob:none", "--sparse", url, str(main))
    git(main, "worktree", "add", "--quiet", "-b", "feature", str(folder / "feature"))
    return Laid(folder / "feature", main, main / ".git", main)


def with_reftable(folder: Path) -> Laid:
    main = folder / "main"
    git(folder, "init", "--quiet", "--initial-branch=main", "--ref-format=reftable", str(main))
    git(main, "commit", "--quiet", "--allow-empty", "-m", "start")
    for name, content in START.items():
        (main / name).write_bytes(content)
    git(main, "add", "--all")
    git(main, "commit", "--quiet", "-m", "files")
    git(main, "worktree", "add", "--quiet", "-b", "feature", str(folder / "feature"))
    return Laid(folder / "feature", main, main / ".git", main)


LAYOUTS: dict[str, Callable[[Path], Laid]] = {
    "a folder .bare": with_bare_folder,
    "a bare .git": with_bare_git,
    "configurations of working trees": with_own_configurations,
    "a separate git folder": with_separate_folder,
    "a git folder behind a symbolic link": with_linked_git_folder,
    "a submodule": as_submodule,
    "a working tree of a submodule": as_worktree_of_submodule,
    "dotfiles by the environment": as_dotfiles,
    "dotfiles by core.worktree": as_dotfiles_with_settings,
    "a linked working tree": with_linked_worktree,
    "a sparse checkout": with_sparse_checkout,
    "a partial clone": with_partial_clone,
}


def work_through(here: Gated, top: Path, text: str) -> None:
    """Refused, proposed, approved, committed, and nothing else with it; nothing is wrong then."""
    here.stage({"a.txt": f"one\n{text}\nthree\n"}, top)
    assert "not approved" in here.refused("commit", "-m", "x", cwd=top)
    here.decide(here.submit(cwd=top))
    here.stage({"b.txt": f"{text}\n"}, top)
    here.refused("commit", "-m", "x", cwd=top)
    here.git("reset", "--quiet", "b.txt", cwd=top)
    here.git("checkout", "--quiet", "--", "b.txt", cwd=top)
    here.git("commit", "--quiet", "-m", text, cwd=top)
    looked = here.tandem("doctor", "--json", cwd=top).data["findings"]
    assert [one for one in looked if one["state"] == "problem"] == []


def let_an_agent_in(here: Gated, top: Path, text: str) -> None:
    """An agent's server in a working tree has its project, and what is checked out there as the base."""
    known = here.call("list_reviews")["reviews"][0]["review_id"]
    diff = f"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-{text}\n+by an agent\n three\n"
    with bridge("--broker", here.broker.url, folder=top, **here.environment) as agent:
        assert known in str(agent.tool("list_reviews"))
        created = agent.tool("create_review", intent="by an agent", agent_type="tests", diff=diff)
    assert created["ok"], created
    assert here.call("get_proposal", review_id=created["data"]["review_id"])["base_commit"] == here.head(cwd=top)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_project_is_its_common_git_folder(
    name: str, shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    live_in(LAYOUTS[name](tmp_path), shared_broker)


def test_a_project_is_its_common_git_folder_with_reftable(
    tmp_path: Path, config_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        monkeypatch.setenv("PATH", str(second_git()), prepend=os.pathsep)
        laid = with_reftable(tmp_path)
    except NoSecondGit as error:
        pytest.skip(f"platform: {error}")
    except CalledProcessError:
        pytest.skip("platform: the second git here knows no reftable")
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker", PATH=os.environ["PATH"]) as broker:
        live_in(laid, broker)


def live_in(laid: Laid, broker: BrokerProcess) -> None:
    """Set a layout up, work in all its working trees, and go on after the removal of the one that was set up."""
    here = Gated(broker, laid.first, fresh_project(), dict(laid.environment))
    done = here.tandem("init", "--gate", "--yes", "--name", here.project, "--json")
    assert done.data["project"] == here.project
    # In whichever of its working trees: it is no second project.
    assert here.tandem("project", "add", "--json", cwd=laid.second).data["project"] == here.project
    assert roots(here) == [laid.root]
    work_through(here, laid.first, "first")
    let_an_agent_in(here, laid.first, "first")
    if laid.second is None:
        return
    work_through(here, laid.second, "second")
    shutil.rmtree(laid.first)
    here.git("worktree", "prune", cwd=laid.second)
    work_through(here, laid.second, "third")
    let_an_agent_in(here, laid.second, "third")
    assert here.tandem("gate", "on", cwd=laid.second).status == 0
    assert roots(replace(here, root=laid.second)) == [laid.root]


@pytest.mark.parametrize("layout", [with_bare_folder, with_linked_worktree])
def test_beside_its_working_trees_a_repository_says_where_they_are(
    layout: Callable[[Path], Laid], shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = layout(tmp_path)
    beside = laid.common if laid.main else laid.common.parent
    here = Gated(shared_broker, beside, fresh_project())
    for command in (("init", "--yes"), ("gate", "on"), ("submit", "-m", "x", "--project", here.project, "--new")):
        refused = here.tandem(*command)
        assert refused.status == 1
        assert str(laid.first) in refused.stderr


def test_of_dotfiles_only_tracked_files_are_submitted(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = as_dotfiles(tmp_path)
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


def paths_of(proposed: Ended) -> list[str]:
    """The files of a proposal that was just made."""
    return [one["path"] for one in proposed.data["affected_files"]]


@pytest.mark.parametrize("layout", [as_dotfiles, with_git_folder_inside])
def test_a_git_folder_in_the_work_tree_is_never_submitted_or_changed(
    layout: Callable[[Path], Laid], shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = layout(tmp_path)
    own = laid.common.relative_to(laid.first).as_posix()
    here = Gated(shared_broker, laid.first, fresh_project(), dict(laid.environment))
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
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


@pytest.mark.parametrize("layout", [with_linked_worktree, with_bare_folder, as_submodule])
def test_hooks_of_a_folder_that_is_set_refuse_after_a_move_in_every_working_tree(
    layout: Callable[[Path], Laid], shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    (tmp_path / "was").mkdir()
    laid = layout(tmp_path / "was")
    git(laid.common, "config", "core.hooksPath", ".githooks")
    here = Gated(shared_broker, laid.first, fresh_project())
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
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
    for number, top in enumerate((first, second)):
        work_through(moved, top, f"{number}")


def test_a_refused_commit_of_dotfiles_by_an_alias_names_the_variables_that_commands_need(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = as_dotfiles(tmp_path)
    here = Gated(shared_broker, laid.first, fresh_project(), dict(laid.environment))
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
    by_alias = replace(here, environment={})
    dots = (f"--git-dir={laid.common}", f"--work-tree={laid.first}")
    here.write({"a.txt": "changed\n"})
    refused = by_alias.refused(*dots, "commit", "-am", "x")
    assert "GIT_DIR and GIT_WORK_TREE" in by_alias.tandem("submit", "-m", "x").stderr
    [stated] = re.findall("export (.*)", refused)
    told = replace(here, environment=dict(one.split("=", 1) for one in shlex.split(stated)))
    told.decide(told.submit("--description", "all"))
    by_alias.git(*dots, "commit", "--quiet", "-am", "x")


def test_with_longer_ids_every_hook_refuses_what_is_not_approved(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    here = Gated(shared_broker, new_repository(tmp_path / "work", None, ["--object-format=sha256"]), fresh_project())
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
    work_through(here, here.root, "long")


def test_doctor_names_where_a_clone_says_whose_objects_it_borrows(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    lender = source(tmp_path)
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", "--shared", str(lender), str(work))
    here = Gated(shared_broker, work, fresh_project())
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
    moved = lender.rename(tmp_path / "moved")
    found = here.tandem("doctor", "--json").data["findings"]
    alternates = work / ".git" / "objects" / "info" / "alternates"
    fixes = [one["fix"] for one in found if one["check"] == "hooks" and one["state"] == "problem"]
    assert fixes == [f"write where that folder is now into {alternates}"]
    alternates.write_text(f"{moved}/.git/objects\n", "utf-8")
    work_through(here, work, "lent")


def test_a_work_tree_that_borrows_its_hooks_leaves_the_gate_of_the_other_alone(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    here = Gated(shared_broker, new_repository(tmp_path / "root"), fresh_project())
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
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


def roots(here: Gated) -> list[str]:
    """The folders that the broker has under the project's name, and of others in the same place."""
    listed = here.tandem("project", "list", "--json").data["projects"]
    base = str(here.root.parent)
    return [one["root"] for one in listed if one["project"] == here.project or one["root"].startswith(base)]


def test_a_submodule_is_a_project_of_its_own_and_the_outer_one_judges_its_link_alone(gated: Gated) -> None:
    part = add_submodule(gated)
    gated.approve()
    gated.git("commit", "--quiet", "-m", "part")
    # Nobody has set the inner one up: its commits are no business of the outer gate.
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
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = with_bare_folder(tmp_path)
    assert laid.second is not None
    here = Gated(shared_broker, laid.first, fresh_project())
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
    here.settings(trusted=False, tandem_enabled=True, review_granularity="per_plan")
    for top in (laid.first, laid.second):
        found = here.tandem("gate", "status", "--json", cwd=top).data
        assert (found["granularity"], found["untrusted"]) == ("per_task", ["review_granularity"])
    here.settings(tandem_enabled=True, review_granularity="per_plan")
    for top in (laid.first, laid.second):
        assert here.tandem("gate", "status", "--json", cwd=top).data["granularity"] == "per_plan"
    here.stage({"a.txt": "by a plan\n"}, laid.second)
    here.git("commit", "--quiet", "-m", "feat(03-02): pass", cwd=laid.second)


@pytest.mark.parametrize(
    ("layout", "name"), [(with_bare_folder, "app"), (with_separate_folder, "work"), (as_dotfiles, "dotfiles")]
)
def test_the_usual_name_of_a_project_says_what_it_is(
    layout: Callable[[Path], Laid], name: str, tmp_path: Path, config_dir: Path
) -> None:
    laid = layout(tmp_path)
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker") as broker:
        here = Gated(broker, laid.first, name, dict(laid.environment))
        for command in (("project", "add"), ("init", "--yes", "--gate"), ("gate", "on")):
            assert here.tandem(*command, "--json").data["project"] == name
            assert roots(here) == [laid.root]
            if command[0] == "project":
                assert here.tandem("project", "remove", name).status == 0


def add_submodule(here: Gated) -> Path:
    """A staged submodule `libs/part`."""
    origin = new_repository(here.root.parent / "origin")
    here.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "libs/part")
    return here.root / "libs" / "part"


def approved_with_all_files(here: Gated, folder: Path, files: Mapping[str, str | bytes | None]) -> str:
    """A review of somebody who has all files in a working tree of their own, approved."""
    here.git("worktree", "add", "--quiet", "-b", "whole", str(folder))
    here.git("sparse-checkout", "disable", cwd=folder)
    here.stage(files, folder)
    review_id = here.submit(cwd=folder)
    here.decide(review_id)
    return review_id


@pytest.mark.parametrize("layout", [with_sparse_checkout, with_partial_clone])
def test_apply_writes_what_a_sparse_checkout_leaves_out_and_says_how_to_stage_it(
    layout: Callable[[Path], Laid], shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = layout(tmp_path)
    here = Gated(shared_broker, laid.first, fresh_project())
    assert here.tandem("init", "--gate", "--yes", "--name", here.project).status == 0
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


def test_apply_deletes_what_a_sparse_checkout_leaves_out(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = with_sparse_checkout(tmp_path)
    here = Gated(shared_broker, laid.first, fresh_project())
    assert here.tandem("init", "--gate", "--yes", "--name", here.project).status == 0
    review_id = approved_with_all_files(here, tmp_path / "whole", {"far/c.txt": None})
    applied = here.tandem("apply", review_id)
    [command] = re.findall("Stage the change with: tandem (.*)", applied.stdout)
    assert here.tandem(*command.split()).status == 0
    here.git("commit", "--quiet", "-m", "gone")
    assert "far" not in here.git("ls-tree", "-r", "--name-only", "HEAD")


def test_a_content_that_a_partial_clone_lacks_is_named_with_the_command_that_brings_it(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = with_partial_clone(tmp_path)
    here = Gated(shared_broker, laid.first, fresh_project())
    assert here.tandem("init", "--gate", "--yes", "--name", here.project).status == 0
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
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    origin = source(tmp_path)
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", str(origin), str(work))
    here = Gated(shared_broker, work, fresh_project())
    assert here.tandem("project", "add", "--name", here.project).status == 0
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


@pytest.mark.parametrize("filter_", ["blob:none", "tree:0"])
def test_of_a_partial_clone_earlier_commits_are_submitted_once_the_command_that_is_named_was_run(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path, filter_: str
) -> None:
    origin = source(tmp_path)
    for content in ("second", "third", "fourth"):
        (origin / "a.txt").write_text(f"{content}\n", "utf-8")
        git(origin, "commit", "--quiet", "-am", content)
    main = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--no-local", f"--filter={filter_}", origin.as_uri(), str(main))
    here = Gated(shared_broker, main, fresh_project())
    assert here.tandem("project", "add", "--name", here.project).status == 0
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
    "kind", ["nested", "renamed", "in a linked working tree", "not absorbed, in a linked one", "not initialised"]
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
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = as_submodule(tmp_path)
    assert laid.second is not None
    here = Gated(shared_broker, laid.second, fresh_project())
    assert here.tandem("project", "add", "--name", here.project).status == 0
    new = new_commit(tmp_path / "source")
    shutil.rmtree(laid.first)
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    propose = ("review", "create", "--intent", "x", "--diff", diff, "--base", new)
    refused = here.tandem(*propose)
    assert new in refused.stderr
    run_as_told(refused.stderr)
    assert here.tandem(*propose).status == 0


def test_an_agent_in_a_submodule_of_no_project_proposes_nothing_to_the_only_one(
    tmp_path: Path, config_dir: Path
) -> None:
    (tmp_path / "broker").mkdir()
    laid = as_submodule(tmp_path)
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


def test_a_working_tree_that_has_lost_its_git_folder_is_named_with_the_command_that_brings_it(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    laid = with_linked_worktree(tmp_path)
    here = Gated(shared_broker, laid.first, fresh_project())
    assert here.tandem("gate", "on", "--project", here.project, "--new").status == 0
    assert laid.main is not None
    moved = laid.main.rename(tmp_path / "moved")
    way = ensure_said(here, "the repository was moved")
    assert way == f"git worktree repair {laid.first}"
    git(moved, *shlex.split(way)[1:])
    assert here.tandem("project", "move").status == 0
    work_through(here, laid.first, "moved")
    # Moved by itself, and forgotten by git.
    away = laid.first.rename(tmp_path / "away")
    git(moved, "worktree", "prune")
    way = ensure_said(replace(here, root=away), "git has removed its record")
    subprocess.run(shlex.split(way.partition(",")[0]), check=True, capture_output=True)
    work_through(replace(here, root=tmp_path / "away-again"), tmp_path / "away-again", "again")


def ensure_said(here: Gated, words: str) -> str:
    """All commands name the same trouble, and nothing else; the way out of it."""
    for command in ("gate on", "gate status", "init --gate --yes", "project add", "submit -m x", "gate check"):
        refused = here.tandem(*command.split())
        assert refused.status == 1
        assert words in refused.stderr, command
    found = [one for one in here.tandem("doctor", "--json").data["findings"] if one["state"] == "problem"]
    [trouble] = found
    assert words in trouble["message"]
    return trouble["fix"].removeprefix("where it is now, run: ")


@pytest.mark.parametrize(("name", "words"), [("a\nb", "has a line end"), ("a\udcff", "is not UTF-8")])
def test_a_path_that_cannot_be_used_is_named_with_the_reason(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path, name: str, words: str
) -> None:
    here = Gated(shared_broker, new_repository(tmp_path / name), fresh_project())
    ensure_said(here, words)


DELETED = "was deleted. Go to one that is there: cd "


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("submit -m x", 1),
        ("doctor --json", 1),
        ("gate task", 1),
        ("up", 1),
        ("mcp", 1),
        ("hook reference-transaction prepared", 1),
        ("hook post-commit", 0),
        ("hook session --client claude", 0),
        ("hook agent --client claude", 0),
    ],
)
def test_in_a_folder_that_was_deleted_a_code_and_a_sentence_are_the_answer(
    tmp_path: Path, command: str, status: int
) -> None:
    script = Path(sys.executable).with_name("tandem")
    there = tmp_path / "there"
    gone = there / "gone" / "inner"
    gone.mkdir(parents=True)
    deleted = f"cd {gone} && rm -r {gone.parent} && exec {script} {command}"
    call = b'{"tool_name": "Bash", "tool_input": {"command": "cd /"}}'
    ended = subprocess.run(["sh", "-c", deleted], input=call, capture_output=True, check=False, timeout=60)
    said = ended.stdout.decode() + ended.stderr.decode()
    assert ended.returncode == status, said
    assert "Traceback" not in said
    assert "NOT_FOUND" in said
    assert f"({gone}) {DELETED}{there}" in said


def test_doctor_offers_a_copy_with_a_gate_no_second_project_but_one_with_a_gate_of_its_own(gated: Gated) -> None:
    copy = replace(gated, root=shutil.copytree(gated.root, gated.root.with_name("copy"), symlinks=True))
    fix = fix_of(copy)
    assert "project add" not in fix
    known = roots(copy)
    for command in (
        "gate on",
        "init --gate --yes",
        "init --yes",
        "project add",
        "submit -m x --staged",
        "project move",
    ):
        refused = copy.tandem(*command.split())
        assert refused.status == 1, command
        assert fix in refused.stderr, command
    # Without a person nothing is half done.
    assert copy.tandem(*shlex.split(fix)[1:]).status == 1
    assert roots(copy) == known == [str(gated.root)]
    # It lets go of the original's gate, which a person decides.
    assert copy.person(*shlex.split(fix)[1:]).ok
    copy = replace(copy, project=shlex.split(fix)[4])
    assert copy.tandem("gate", "status", "--json").data["project"] == copy.project
    work_through(copy, copy.root, "copied")
    assert gated.tandem("gate", "status", "--json").data["project"] == gated.project
    work_through(gated, gated.root, "original")


def test_doctor_heals_a_copy_whose_gate_asks_for_the_originals_approvals(gated: Gated) -> None:
    copy = replace(gated, root=shutil.copytree(gated.root, gated.root.with_name("copied"), symlinks=True))
    # As an earlier version left it.
    copy = replace(copy, project=fresh_project())
    stated = {"root": str(copy.root), "name": copy.project}
    Shell(gated.broker.url, copy.root).ask(lambda client: client.data("register_project", stated))
    fix = fix_of(copy)
    assert replace(copy, project=gated.project).person(*shlex.split(fix)[1:]).ok
    work_through(copy, copy.root, "healed")


def test_a_copy_of_a_repository_whose_gate_is_off_gets_a_project_and_a_gate_of_its_own(gated: Gated) -> None:
    assert gated.person("gate", "off").ok
    copy = replace(gated, root=shutil.copytree(gated.root, gated.root.with_name("offcopy"), symlinks=True))
    fix = fix_of(copy)
    assert fix == "tandem project add"
    assert fix in copy.tandem("gate", "on").stderr
    copy = replace(copy, project=copy.tandem(*shlex.split(fix)[1:], "--json").data["project"])
    assert copy.tandem("gate", "on").status == 0
    work_through(copy, copy.root, "copied")


def test_a_second_repository_of_the_same_name_is_offered_another_one(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    name = fresh_project()
    first, second = (
        Gated(shared_broker, new_repository(tmp_path / folder / name), name) for folder in ("one", "another")
    )
    assert first.tandem("init", "--gate", "--yes").status == 0
    for command in ("init --gate --yes", "project add"):
        refused = second.tandem(*command.split())
        assert "gate off" not in refused.stderr
        assert f"--name {name}-2 " in refused.stderr
    assert f"--project {name}-2 --new" in second.tandem("gate", "on").stderr
    assert fix_of(second) == f"tandem project add --name {name}-2"
    second = replace(second, project=f"{name}-2")
    assert second.tandem("init", "--gate", "--yes", "--name", second.project).status == 0
    work_through(second, second.root, "second")
    assert first.tandem("gate", "status", "--json").data["enabled"]


def test_doctor_names_what_brings_back_a_project_that_the_broker_has_lost(gated: Gated) -> None:
    gated.loosen(enabled=False, reason="lost")
    assert gated.tandem("project", "remove", gated.project).status == 0
    assert "with: tandem gate on" in gated.tandem("submit", "--staged", "-m", "x").stderr
    assert fix_of(gated) == "tandem gate on"
    assert gated.tandem("gate", "on").status == 0
    work_through(gated, gated.root, "again")


def fix_of(here: Gated) -> str:
    """What doctor says is to be done about the project."""
    found = here.tandem("doctor", "--json").data["findings"]
    [fix] = [one["fix"] for one in found if one["check"] == "project" and one["state"] == "problem"]
    return fix
