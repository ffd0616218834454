"""The gate's hooks beside those that are there: they are called first, respected, and put back to the byte."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.rulings import liveness
from tandem.setup import gate_switch, githooks
from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.repository.agents import Agent
from tests.repository.foreign_hooks import MANAGERS, called
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository
from tests.repository.test_session_hook import told as session

NOTE = '#!/bin/sh\nprintf "%s %s\\n" "${0##*/}" "$*" >>"$(git rev-parse --git-common-dir)/called"\n'
READS = NOTE + 'cat >>"$(git rev-parse --git-common-dir)/told"\n'


def hook(folder: Path, name: str, text: str = NOTE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text, "utf-8")
    file.chmod(0o755)
    return file


def picture(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything that the gate may have touched in a git folder."""
    seen: dict[str, tuple[int, str]] = {}
    for file in [folder / "config", *sorted((folder / "hooks").rglob("*")), *sorted((folder / "tandem").rglob("*"))]:
        name = str(file.relative_to(folder))
        if file.is_symlink():
            seen[name] = (0, str(file.readlink()))
        elif file.is_file():
            seen[name] = (file.stat().st_mode, hashlib.sha256(file.read_bytes()).hexdigest())
        else:
            seen[name] = (file.stat().st_mode, "folder")
    return seen


def kept(folder: Path) -> dict[str, tuple[int, str]]:
    """Returns the hooks and configuration in a git folder, without Tandem's own folder."""
    return {name: facts for name, facts in picture(folder).items() if not name.startswith("tandem")}


def commits_only_what_is_approved(gated: Gated) -> None:
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "x")
    called(gated.root)
    gated.approve()
    gated.git("commit", "-m", "x")


def own_hooks(root: Path) -> None:
    hook(root / ".git/hooks", "prepare-commit-msg")
    hook(root / ".git/hooks", "pre-commit")
    hook(root / ".git/hooks", "reference-transaction", READS)


def linked_hook(root: Path) -> None:
    hook(root / "scripts", "their-hook")
    (root / ".git/hooks").mkdir(exist_ok=True)
    (root / ".git/hooks/prepare-commit-msg").symlink_to("../../scripts/their-hook")


def no_hooks(root: Path) -> None:
    for file in (root / ".git/hooks").iterdir():
        file.unlink()
    (root / ".git/hooks").rmdir()


def sleeping_hook(root: Path) -> None:
    hook(root / ".git/hooks", "prepare-commit-msg").chmod(0o644)


def relative_folder(root: Path) -> None:
    """As husky has it: a relative folder, whose hooks look at their own names."""
    inner = root / ".husky/_"
    hook(inner, "h", '#!/usr/bin/env sh\nn=$(basename "$0")\ns=$(dirname "$(dirname "$0")")/$n\nsh -e "$s" "$@"\n')
    for name in ("prepare-commit-msg", "pre-commit", "commit-msg"):
        hook(inner, name, '#!/usr/bin/env sh\n. "$(dirname "$0")/h"\n')
        hook(root / ".husky", name)
    (inner / ".gitignore").write_text("*", "utf-8")
    subprocess.run(["git", "config", "core.hooksPath", ".husky/_"], cwd=root, check=True)


def without_a_last_line_end(root: Path) -> None:
    relative_folder(root)
    config = root / ".git/config"
    config.write_bytes(config.read_bytes().rstrip(b"\n"))


def shared_folder(root: Path) -> None:
    """A hook folder that is a link to one that others use too."""
    no_hooks(root)
    hook(root / "githooks", "prepare-commit-msg")
    (root / ".git/hooks").symlink_to("../githooks")


BEFORE: dict[Callable[[Path], None], set[str]] = {
    own_hooks: {"prepare-commit-msg", "pre-commit", "reference-transaction"},
    linked_hook: {"their-hook"},
    no_hooks: set(),
    sleeping_hook: set(),
    without_a_last_line_end: {"prepare-commit-msg", "pre-commit", "commit-msg"},
    shared_folder: {"prepare-commit-msg"},
}
"""Hooks from before the gate, and which of them a commit then calls."""


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(before, id=before.__name__, marks=VARIATION if before in (linked_hook, sleeping_hook) else [])
        for before in BEFORE
    ],
)
def test_what_was_there_works_on_and_comes_back_to_the_byte(
    shared_broker: BrokerProcess, plain: Path, before: Callable[[Path], None]
):
    before(plain)
    first = picture(plain / ".git")
    gated = gate_on(shared_broker, plain)
    commits_only_what_is_approved(gated)
    assert {line.partition(" ")[0] for line in called(gated.root)} == BEFORE[before]
    ended = gated.person("gate", "off")
    assert ended.ok, ended.stdout
    assert kept(plain / ".git") == first
    assert set(picture(plain / ".git")) - set(first) == {"tandem/gate.json", "tandem/project.json"}
    assert gated.git("for-each-ref", "refs/tandem") == ""
    gated.stage({"b.txt": "no gate\n"})
    gated.git("commit", "-m", "x")


def test_a_hook_that_refuses_is_respected_and_one_that_changes_the_message_too(
    shared_broker: BrokerProcess, plain: Path
):
    theirs = hook(plain / ".git/hooks", "prepare-commit-msg", "#!/bin/sh\nexit 7\n")
    gated = gate_on(shared_broker, plain)
    gated.stage(DIGITS)
    review = gated.approve()
    assert not gated.try_git("commit", "-m", "x").ok
    moved = gated.root / ".git/tandem/chained" / theirs.name
    hook(moved.parent, theirs.name, '#!/bin/sh\nprintf "TICKET-1 %s" "$(cat "$1")" >"$1"\n')
    gated.git("commit", "-m", "x")
    assert gated.message() == f"TICKET-1 x\n\nTandem-Review: {review}"


def test_a_hook_that_reads_is_told_what_git_tells(shared_broker: BrokerProcess, plain: Path):
    hook(plain / ".git/hooks", "reference-transaction", READS)
    gated = gate_on(shared_broker, plain)
    gated.git("branch", "side")
    told = (gated.root / ".git/told").read_text("utf-8")
    line = f"{'0' * 40} {gated.head()} refs/heads/side\n"
    assert told == line * 2
    assert called(gated.root)[-2:] == ["reference-transaction prepared", "reference-transaction committed"]
    hook(gated.root / ".git/tandem/chained", "reference-transaction", "#!/bin/sh\nexit 1\n")
    assert not gated.try_git("branch", "other").ok


def test_what_is_fetched_costs_no_process_beside_the_shell_and_nobody_is_asked(
    shared_broker: BrokerProcess, plain: Path, tmp_path: Path
):
    gated = gate_on(shared_broker, plain)
    gated.rewrite(broker="http://127.0.0.1:9")
    gated.git("clone", "--quiet", "--bare", str(plain), str(tmp_path / "away.git"))
    made = "".join(f"create refs/heads/b{number} {gated.head()}\n" for number in range(20))
    gated.git("update-ref", "--stdin", cwd=tmp_path / "away.git", stdin=made.encode())
    gated.git("fetch", "--quiet", str(tmp_path / "away.git"), "refs/heads/b*:refs/remotes/away/b*")
    assert len(gated.git("for-each-ref", "refs/remotes/away").splitlines()) == 20
    # The shell cannot start a program that it does not find.
    line = f"{'0' * 40} {gated.head()} refs/remotes/away/b0\n"
    for state in ("preparing", "prepared", "committed"):
        command = [gated.root / ".git/hooks/reference-transaction", state]
        done = subprocess.run(
            command, input=line, env={"PATH": str(tmp_path)}, cwd=plain, check=True, capture_output=True, text=True
        )
        assert (done.stdout, done.stderr) == ("", "")


SWAPS = """\
#!/bin/sh
[ -z "$SWAPPING" ] && [ -s "$(git rev-parse --git-common-dir)/swap" ] || exit 0
index=$(git rev-parse --git-dir)/index
[ -e "$index.lock" ] && index=$index.lock
cp "$index" "$index.other"
export SWAPPING=1
GIT_INDEX_FILE=$index.other git update-index --cacheinfo "100644,$(cat "$(git rev-parse --git-common-dir)/swap"),a.txt"
cat "$index.other" >"$index"
"""
"""A hook that puts an approved file into the index, in place of the one that git has read from there already."""


@pytest.mark.parametrize(
    ("name", "folder", "branch"),
    [
        ("post-index-change", ".git/hooks", "main"),
        pytest.param("post-index-change", ".husky/_", "feature", marks=VARIATION),
        pytest.param("prepare-commit-msg", ".git/hooks", "main", marks=VARIATION),
        ("prepare-commit-msg", ".husky/_", "feature"),
    ],
)
def test_p2_a_hook_that_swaps_the_index_gets_nothing_committed_that_was_not_judged(
    shared_broker: BrokerProcess, plain: Path, name: str, folder: str, branch: str
):
    hook(plain / folder, name, SWAPS)
    if folder != ".git/hooks":
        Gated(shared_broker, plain, "none").git("config", "core.hooksPath", folder)
    (plain / ".git/info/exclude").write_text(".husky\n", "utf-8")
    gated = gate_on(shared_broker, plain)
    gated.git("switch", "--quiet", "-C", branch)
    gated.stage(DIGITS)
    gated.approve()
    approved = gated.git("rev-parse", ":a.txt")
    gated.git("tag", "start")
    for command in (("commit", "-m", "x"), ("commit", "-a", "-m", "x"), ("commit", "--amend", "--no-edit")):
        gated.git("reset", "--quiet", "--hard")
        (gated.root / ".git/swap").write_text(approved, "ascii")
        gated.write({"a.txt": "EVIL\n"})
        if "-a" not in command:
            gated.git("add", "a.txt", SWAPPING="1")
        # So that git writes the index, and says so, once more.
        (gated.root / "b.txt").touch()
        said = gated.try_git(*command)
        assert gated.git("show", "HEAD:a.txt") != "EVIL", command
        # Where git has a hook for it, git reads the index once more: then it commits approved content.
        assert not said.ok or gated.git("rev-parse", "HEAD:a.txt") == approved
        assert said.ok or "tandem: refused" in said.stderr
        gated.git("reset", "--quiet", "--hard", "start", SWAPPING="1")
    (gated.root / ".git/swap").unlink()
    gated.stage(DIGITS)
    gated.git("commit", "-m", "x")
    assert not list((gated.root / ".git").rglob("tandem-index-*"))


EMPTIES = '#!/bin/sh\nfor one in .git/tandem/judged/*; do : >"$one"; done\n'


@pytest.mark.parametrize("manager", ["none", "pre-commit"])
def test_p2_a_judgement_that_a_hook_empties_is_none(shared_broker: BrokerProcess, plain: Path, manager: str):
    hook(plain / ".git/hooks", "commit-msg", EMPTIES)
    gated = gate_on(shared_broker, plain)
    if manager != "none":
        MANAGERS[manager](plain)
    gated.git("switch", "--quiet", "-C", "feature")
    gated.stage(DIGITS)
    gated.approve()
    assert "This commit is not what the gate has judged" in gated.refused("commit", "-m", "x")


def test_p2_a_hook_that_swaps_the_index_does_not_get_by_where_pre_commit_calls_the_gates(
    shared_broker: BrokerProcess, plain: Path
):
    hook(plain / ".git/hooks", "prepare-commit-msg", SWAPS)
    gated = gate_on(shared_broker, plain)
    MANAGERS["pre-commit"](plain)
    gated.git("switch", "--quiet", "-C", "feature")
    gated.stage(DIGITS)
    gated.approve()
    approved = gated.git("rev-parse", ":a.txt")
    (gated.root / ".git/swap").write_text(approved, "ascii")
    gated.stage({"a.txt": "EVIL\n"})
    assert "a.txt: no approved round has this content" in gated.refused("commit", "-m", "x")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="staged"),
        pytest.param(("-a",), id="all", marks=VARIATION),
        pytest.param(("--", "a.txt"), id="a path"),
    ],
)
def test_what_prepare_commit_msg_stages_is_in_no_commit_as_without_a_gate(
    shared_broker: BrokerProcess, plain: Path, words: tuple[str, ...]
):
    hook(plain / ".git/hooks", "prepare-commit-msg", "#!/bin/sh\necho more >>b.txt\ngit add b.txt\n")
    gated = gate_on(shared_broker, plain)
    gated.stage(DIGITS)
    gated.approve()
    if words:
        gated.git("reset", "--quiet")
    gated.git("commit", "-m", "x", *words)
    assert gated.git("show", "--format=", "--name-only") == "a.txt"
    assert gated.git("status", "--porcelain") == ("M  b.txt" if words[:1] != ("--",) else " M b.txt")


def test_p2_what_a_rebase_or_a_merge_makes_of_a_branch_is_what_was_judged(shared_broker: BrokerProcess, plain: Path):
    gated = gate_on(shared_broker, plain)
    gated.git("switch", "--quiet", "-c", "feature")
    picked = gated.approved_commit(DIGITS)
    gated.approved_commit({"a.txt": "one\n2\n3\n"})
    gated.git("switch", "--quiet", "-c", "side", "main")
    gated.approved_commit({"b.txt": "alpha\ngamma\n"})
    # Each moves HEAD several times in one process of git.
    gated.git("rebase", "--quiet", "side", "feature")
    gated.git("rebase", "--quiet", "--force-rebase", "main~0", "feature")
    gated.git("switch", "--quiet", "-c", "other", "main")
    gated.git("cherry-pick", picked)
    gated.git("merge", "--quiet", "--no-edit", "side")
    gated.git("merge", "--quiet", "--no-edit", "--no-ff", "feature~1")
    gated.git("commit", "--quiet", "--amend", "-m", "y")
    # Nor does an aborted commit stand in the way of later ones.
    gated.stage({"b.txt": "alpha\nbeta\ngamma\n"})
    gated.approve()
    assert not gated.try_git("commit", GIT_EDITOR="false").ok
    gated.git("reset", "--quiet", "--hard", "feature")


def test_a_relative_folder_counts_from_each_working_tree(shared_broker: BrokerProcess, plain: Path, tmp_path: Path):
    relative_folder(plain)
    gated = gate_on(shared_broker, plain)
    linked = gated.linked(tmp_path / "linked", "feature")
    hook(linked / ".husky/_", "pre-commit", "#!/bin/sh\nexit 1\n")
    gated.stage(DIGITS, linked)
    gated.git("reset", "--quiet", ".husky", cwd=linked)
    gated.approve(cwd=linked)
    assert not gated.try_git("commit", "-m", "x", cwd=linked).ok
    gated.git("commit", "--no-verify", "-m", "x", cwd=linked)


def test_a_folder_for_all_repositories_is_called_and_left_alone(
    shared_broker: BrokerProcess, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    everywhere = tmp_path / "everywhere"
    hook(everywhere, "commit-msg")
    configuration = tmp_path / "gitconfig"
    configuration.write_text(
        f"[user]\n\tname = A\n\temail = a@b.c\n[core]\n\thooksPath = {everywhere.as_posix()}\n", "utf-8"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    gated = gate_on(shared_broker, plain)
    commits_only_what_is_approved(gated)
    assert [line.partition(" ")[0] for line in called(gated.root)] == ["commit-msg"]
    assert [file.name for file in everywhere.iterdir()] == ["commit-msg"]
    # Another repository of the same person has no gate.
    other = new_repository(tmp_path / "other")
    assert gate_switch.switch(gate_switch.place_at(other)) is None


# That of pre-commit, the slowest, has the two tests of P2 above.
@pytest.mark.parametrize(
    ("manager", "order"),
    [
        *(
            pytest.param(name, "manager gate manager", marks=VARIATION if name == "pre-commit" else [])
            for name in MANAGERS
        ),
        ("husky", "gate manager"),
    ],
)
def test_the_gate_and_a_manager_of_hooks_hold_in_any_order_and_what_the_manager_has_remains(
    shared_broker: BrokerProcess, plain: Path, tmp_path: Path, manager: str, order: str
):
    hook(plain / ".git/hooks", "prepare-commit-msg", "#!/bin/sh\necho the one before >>.git/called\n")
    twin = Path(shutil.copytree(plain, tmp_path / "twin", symlinks=True))
    gated: Gated | None = None
    for step in order.split():
        if step == "gate":
            gated = gate_on(shared_broker, plain)
            continue
        MANAGERS[manager](plain)
        if gated is None:
            continue
        status = gated.tandem("gate", "status", "--json")
        if manager == "lefthook":
            # It moves existing hooks out of the way, and does not call them.
            assert status.status == 1
            assert "prepare-commit-msg, pre-push; they are not in" in status.data["problems"][0]
            committed = gated.try_git("commit", "--allow-empty", "-m", "x")
            assert committed.ok
            assert "does not start the gate's hook prepare-commit-msg" in committed.stderr
            assert gated.tandem("gate", "on").status == 0
            called(plain)
        else:
            assert status.status == 0, status.stdout
        commits_only_what_is_approved(gated)
        before = ["the one before"] if manager == "pre-commit" else []
        assert sorted(called(plain)) == [f"{manager} pre-commit", f"{manager} prepare-commit-msg", *before]
    assert gated is not None
    gated.git("init", "--quiet", "--bare", str(tmp_path / "away.git"))
    gated.git("push", str(tmp_path / "away.git"), "main")
    assert called(plain) == [f"{manager} pre-push"]
    gated.stage({"a.txt": "not approved\n"})
    slipped = gated.git("commit-tree", "-p", "HEAD", "-m", "x", gated.git("write-tree"))
    gated.refused("push", str(tmp_path / "away.git"), f"{slipped}:refs/heads/main")
    assert gated.person("gate", "off").ok
    for _ in range(order.count("manager")):
        MANAGERS[manager](twin)
    assert kept(plain / ".git") == kept(twin / ".git")
    assert {file.name for file in (plain / ".git/tandem").iterdir()} == {"gate.json", "project.json"}


def test_whatever_takes_the_place_of_the_gates_hooks_is_named_wherever_one_looks(gated: Gated):
    hook(gated.root / ".githooks", "prepare-commit-msg")
    gated.git("config", "core.hooksPath", ".githooks")
    gated.stage(DIGITS)
    named = [gated.tandem("submit", "-m", "x", "--staged").stderr, session(gated.root)]
    named += [gated.tandem("gate", "status").stdout, gated.tandem("doctor").stdout]
    named += [Agent(client, gated.root).runs("git commit -m x").words for client in ("claude", "codex")]
    for text in named:
        assert "does not start these hooks of the gate: prepare-commit-msg" in " ".join(text.split())
    assert Agent("claude", gated.root).runs("git log").passes
    assert gated.tandem("gate", "on").status == 0
    assert gated.tandem("submit", "-m", "x", "--staged").stderr == ""
    assert Agent("claude", gated.root).runs("git commit -m x").passes
    gated.refused("commit", "-m", "x")
    # The gate's folder wins by now, and calls one that is no longer meant.
    gated.git("config", "core.hooksPath", ".otherhooks")
    gated.refused("commit", "-m", "x")
    problem = gated.tandem("gate", "status", "--json").data["problems"]
    assert [".githooks first" in one and ".otherhooks by now" in one for one in problem] == [True]


def test_a_setting_that_would_silence_the_hooks_is_an_error_and_changes_nothing(
    shared_broker: BrokerProcess, plain: Path
):
    gated = Gated(shared_broker, plain, "silenced")
    gated.git("config", "extensions.worktreeConfig", "true")
    first = picture(plain / ".git")
    gated.git("config", "--worktree", "core.hooksPath", "/nowhere")
    assert "core.hooksPath" in gated.tandem("gate", "on").refusal
    assert kept(plain / ".git") == first


def test_the_hooks_are_those_that_git_starts(gated: Gated):
    place = gate_switch.place_at(gated.root)
    installed = githooks.found(place)
    assert set(liveness.alive(place, installed.directory).values()) == {True}
    (gated.root / ".git/hooks/pre-push").chmod(0o644)
    assert liveness.alive(place, installed.directory)["pre-push"] is False
    # Git takes it for the root folder, where there are none.
    gated.git("config", "core.hooksPath", "")
    assert set(liveness.alive(place, installed.directory).values()) == {False}
