"""Layouts of repositories: where git folder and working trees are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.commandline import Ended, git
from tests.interfaces.bridging import bridge
from tests.repository.gating import START, Gated, new_repository

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


def paths_of(proposed: Ended) -> list[str]:
    """The files of a proposal that was just made."""
    return [one["path"] for one in proposed.data["affected_files"]]


def roots(here: Gated) -> list[str]:
    """The folders that the broker has under the project's name, and of others in the same place."""
    listed = here.tandem("project", "list", "--json").data["projects"]
    base = str(here.root.parent)
    return [one["root"] for one in listed if one["project"] == here.project or one["root"].startswith(base)]


def fix_of(here: Gated) -> str:
    """What doctor says is to be done about the project."""
    found = here.tandem("doctor", "--json").data["findings"]
    [fix] = [one["fix"] for one in found if one["check"] == "project" and one["state"] == "problem"]
    return fix


def add_submodule(here: Gated) -> Path:
    """A staged submodule `libs/part`."""
    origin = new_repository(here.root.parent / "origin")
    here.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "libs/part")
    return here.root / "libs" / "part"
