"""Agents' hooks: a commit that would hold what is not approved is refused before it is tried, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.agents import CLIENTS, Agent, hook
from tests.workflow.gating import Gated, new_repository

MESSAGE = """git add -A && git commit -m "$(cat <<'EOF'
feat: it's a (start

with ) and " and $HOME
EOF
)" && git push"""
"""As Claude Code writes a message of several lines."""

REFUSED = (
    "git commit -m x -a",
    "git commit -am 'Count in digits'",
    'git commit --all --message="$(date)"',
    "git commit a.txt -m x",
    "git commit -m x -- a.txt",
    "git commit --include -m x a.txt",
    "git commit --amend --no-edit -a",
    "git commit --no-verify -am x",
    "git -c core.hooksPath=/dev/null commit -am x",
    "GIT_AUTHOR_DATE=now git commit -am x",
    "env A=b git commit -am x",
    "cd . && git commit -am x",
    "git status --short; git commit -am x || true",
    "(git commit -am x) 2>&1 | tail -3",
    "if git diff --quiet; then git commit -am x; fi",
    "bash -lc 'git commit -am x'",
    "git add -A && git commit -m x",
    "git add a.txt\ngit commit -m x",
    "git add $FILES && git commit -m x",
    "echo done # a comment's end\ngit commit -am x",
    MESSAGE,
)
NOT_JUDGED = (
    "git commit -m x",
    "git commit --dry-run -a",
    "git commit --help",
    "make && git commit -am x",
    "sed -i s/two/2/ a.txt && git commit -am x",
    "echo four >> a.txt && git commit -am x",
    "tandem submit --staged --wait -m x && git commit -am x",
    "tandem apply rv_1 --index && git commit -m x",
    "git stash pop && git commit -am x",
    "GIT_DIR=/elsewhere git commit -am x",
    "git --git-dir=/elsewhere commit -am x",
    "$GIT commit -am x",
    "cd $SOMEWHERE && git commit -am x",
    "git add nothing-there && git commit -m x",
    "git commit -am 'no end",
    "echo 'git commit -am x'",
    "git log --grep commit",
    "grep -rn commit .",
)


@pytest.fixture
def agent(gated: Gated) -> Agent:
    return Agent("claude", gated.root)


def test_refuses_each_clients_commit_until_exactly_it_is_approved(gated: Gated) -> None:
    for number, client in enumerate(CLIENTS):
        agent = Agent(client, gated.root)
        commit = f"{agent.git} commit -m 'Count in digits'"
        gated.stage({"a.txt": f"one\n2\nthree\n{number}\n"})
        words = agent.runs(commit).words
        assert "a.txt: no approved round has this content" in words
        assert "tandem submit --staged --wait" in words
        review = gated.submit()
        assert not agent.runs(commit).passes
        gated.decide(review)
        assert agent.runs(commit).passes
        gated.stage({"a.txt": f"one\n2\nthree\n{number}.\n"})
        assert not agent.runs(commit).passes


def test_gemini_has_to_switch_on_the_hooks_that_it_switches_off(gated: Gated, tmp_path: Path) -> None:
    agent = Agent("gemini", gated.root)
    gated.stage({"a.txt": "one\n2\nthree\n"})
    gated.approve()
    for command in (
        "git commit -m x",
        "make && git commit -m x",
        "git merge side",
        "git -c core.hooksPath= commit -m x",
    ):
        words = agent.runs(command).words
        assert agent.git in words
    for command in ("git cherry-pick x", "git push origin main", "cd $X && git rebase x", "git commit -m 'no end"):
        assert not agent.runs(command).passes, command
    assert agent.runs(f"make && {agent.git} commit -m x").passes
    assert agent.runs(f"{agent.git} merge side && git status && git log -1").passes
    assert agent.runs("git status; git diff; git branch; git add -A").passes
    # What it names is what git then uses, and there the gate's hook is.
    gated.environment.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="core.hooksPath", GIT_CONFIG_VALUE_0="")
    gated.stage({"b.txt": "beta\n"})
    _, option, setting = agent.git.split(" ")
    gated.refused(option, setting, "commit", "-m", "x")
    assert gated.try_git("commit", "-m", "x").ok, "and else the commit would go unseen"
    elsewhere = Agent("gemini", new_repository(tmp_path / "elsewhere"))
    assert elsewhere.runs("git commit -m x; git merge side").passes


def test_sees_the_commit_however_it_is_written(gated: Gated, agent: Agent) -> None:
    gated.write({"a.txt": "one\n2\nthree\n"})
    before = gated.git("status", "--porcelain"), gated.git("count-objects")
    passed = [command for command in REFUSED if "a.txt: no approved round" not in agent.runs(command).stderr]
    assert passed == []
    assert (gated.git("status", "--porcelain"), gated.git("count-objects")) == before, "it looks, and leaves nothing"
    gated.git("add", "--all")
    gated.approve()
    gated.git("reset", "--quiet")
    refused = [command for command in REFUSED if not agent.runs(command).passes]
    assert refused == []


def test_leaves_to_the_git_hook_what_only_running_it_would_tell(gated: Gated, agent: Agent) -> None:
    gated.write({"a.txt": "one\n2\nthree\n"})
    refused = [command for command in NOT_JUDGED if not agent.runs(command).passes]
    assert refused == []


def test_a_commit_is_what_its_arguments_make_of_it(gated: Gated, agent: Agent) -> None:
    gated.stage({"a.txt": "one\n2\nthree\n"})
    gated.approve()
    gated.stage({"b.txt": "beta\n"})
    assert "b.txt" in agent.runs("git commit -m x").words
    assert agent.runs("git commit -m x a.txt").passes
    assert "b.txt" in agent.runs("git commit -m x a.txt b.txt").words
    assert "b.txt" in agent.runs("git commit -m x --include a.txt").words
    gated.git("reset", "--quiet", "b.txt")
    assert agent.runs("git commit -m x").passes
    assert "b.txt" in agent.runs("git commit -am x").words
    assert agent.runs("git add a.txt && git commit -m x").passes
    gated.write({"new.txt": "new\n"})
    assert "new.txt" in agent.runs("git add new.txt && git commit -m x").words
    assert agent.runs("git add -u -- a.txt && git commit -m x").passes


def test_what_cannot_be_told_is_refused_only_where_nothing_of_it_is_approved(gated: Gated, agent: Agent) -> None:
    gated.stage({"a.txt": "one\n2\nthree\n"})
    gated.git("reset", "--quiet")
    assert "a.txt" in agent.runs("git add *.txt && git commit -m x").words
    assert "a.txt" in agent.runs("git commit --patch -m x").words
    gated.git("add", "a.txt")
    gated.approve()
    gated.write({"b.txt": "beta\n"})
    assert agent.runs("git add *.txt && git commit -m x").passes
    assert agent.runs("git commit --patch -m x").passes


def test_judges_the_repository_that_the_commit_is_in(gated: Gated, tmp_path: Path) -> None:
    elsewhere = new_repository(tmp_path / "elsewhere")
    (elsewhere / "a.txt").write_text("changed\n", "utf-8")
    gated.write({"a.txt": "one\n2\nthree\n", "inner/c.txt": "c\n"})
    outside = Agent("codex", elsewhere)
    assert outside.runs("git commit -am x").passes
    assert not outside.runs(f"git -C {gated.root} commit -am x").passes
    assert not outside.runs(f"cd '{gated.root}' && git commit -am x").passes
    inside = Agent("gemini", gated.root)
    assert inside.runs(f"cd {elsewhere} && git commit -am x").passes
    assert inside.runs(f"(cd {elsewhere} && git status) && git -C {elsewhere} commit -am x").passes
    assert not inside.runs(f"(cd {elsewhere} && git status) && {inside.git} commit -am x").passes
    adding = f"git add c.txt; {inside.git} commit -m x"
    assert "inner/c.txt" in inside.asks("shell_elsewhere", path="inner", command=adding).words


def test_linked_working_trees_count_too(gated: Gated, tmp_path: Path) -> None:
    linked = gated.linked(tmp_path / "linked", "side")
    gated.stage({"a.txt": "one\n2\nthree\n"}, linked)
    agent = Agent("claude", linked)
    assert "a.txt" in agent.runs("git commit -m x").words
    gated.approve(cwd=linked)
    assert agent.runs("git commit -m x").passes


def test_an_amend_is_approved_as_a_whole_or_by_its_part(gated: Gated, agent: Agent) -> None:
    gated.approved_commit({"a.txt": "one\n2\nthree\n"})
    gated.stage({"b.txt": "beta\n"})
    assert not agent.runs("git commit --amend --no-edit").passes
    gated.approve("--range", f"{gated.head('HEAD^')}..{gated.git('stash', 'create')}")
    assert agent.runs("git commit --amend --no-edit").passes


def test_what_the_settings_let_through_first_is_the_git_hooks_to_judge(gated: Gated, agent: Agent) -> None:
    gated.settings(tandem_enabled=True, execution_mode="optimistic")
    gated.write({"a.txt": "one\n2\nthree\n"})
    assert not agent.runs("git commit -am x").passes, "the base branch stays strict"
    gated.git("switch", "--quiet", "-c", "feature")
    assert agent.runs("git commit -am x").passes
    gated.settings(trusted=False, tandem_enabled=True, review_granularity="per_plan")
    assert not agent.runs("git commit -am x").passes, "nobody has trusted that"


def test_a_merge_is_the_git_hooks_to_judge(gated: Gated, agent: Agent) -> None:
    gated.approved_commit({"a.txt": "one\n2\nthree\n"})
    gated.git("switch", "--quiet", "-c", "side", "HEAD^")
    gated.approved_commit({"b.txt": "beta\n"})
    gated.git("merge", "--no-commit", "--no-ff", "main")
    assert agent.runs("git commit -m 'Merge main'").passes


def test_the_first_commit_of_a_repository_is_judged(gated: Gated, agent: Agent) -> None:
    gated.git("switch", "--quiet", "--orphan", "fresh")
    gated.write({"z.txt": "z\n"})
    assert "z.txt" in agent.runs("git add -A && git commit -m first").words


def test_without_a_gate_nothing_is_asked_and_nothing_said(plain: Path) -> None:
    (plain / "a.txt").write_text("changed\n", "utf-8")
    for client in CLIENTS:
        agent = Agent(client, plain)
        assert agent.runs("git commit -am x").passes
        assert agent.writes(".planning/phases/03/03-CONTEXT.md", "# Context\n").passes
        assert hook(b"nonsense", "--client", client, cwd=plain).passes
    assert hook(b"nonsense", cwd=plain).passes


def test_switched_off_it_lets_everything_through(gated: Gated, agent: Agent) -> None:
    gated.write({"a.txt": "one\n2\nthree\n"})
    assert not agent.runs("git commit -am x").passes
    gate_file = gated.root / ".git" / "tandem" / "gate.json"
    gate_file.write_text(gate_file.read_text("utf-8").replace('"enabled": true', '"enabled": false'), "utf-8")
    assert agent.runs("git commit -am x").passes
    gate_file.write_text("{", "utf-8")
    assert "tandem gate on" in agent.runs("git commit -am x").words


def test_p7_what_it_cannot_read_does_not_pass(gated: Gated) -> None:
    accounts = (
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"tool_name": "Bash", "tool_input": {}}',
        b'{"tool_name": "Write", "tool_input": {"file_path": 3}}',
        b"[" * 100_000,
    )
    for said in accounts:
        words = hook(said, "--client", "claude", cwd=gated.root).words
        assert words.startswith("tandem: refused: Whether this is approved cannot be found out")
        assert "tandem gate status" in words
    for arguments in ((), ("--client",), ("--client", "notepad"), ("--strict",)):
        assert "--client" in hook(b"{}", *arguments, cwd=gated.root).words


def test_p7_without_a_broker_nothing_passes_but_what_is_no_commit(gated: Gated, agent: Agent) -> None:
    gate_file = gated.root / ".git" / "tandem" / "gate.json"
    gate_file.write_text(gate_file.read_text("utf-8").replace(gated.broker.url, "http://127.0.0.1:9"), "utf-8")
    gated.write({"a.txt": "one\n2\nthree\n"})
    words = agent.runs("git commit -am x").words
    assert "tandem up --background" in words
    assert "nothing passes" in words
    assert not agent.writes(".planning/03-CONTEXT.md", "# Context\n").passes
    assert agent.runs("git status").passes
    assert agent.writes("b.txt", "anything\n").passes


def test_p7_a_project_that_the_broker_does_not_know_does_not_pass(gated: Gated, agent: Agent) -> None:
    gate_file = gated.root / ".git" / "tandem" / "gate.json"
    gate_file.write_text(gate_file.read_text("utf-8").replace(gated.project, "nobody-knows-it"), "utf-8")
    gated.write({"a.txt": "one\n2\nthree\n"})
    assert not agent.runs("git commit -am x").passes


def test_the_environment_cannot_name_another_broker(gated: Gated) -> None:
    gated.write({"a.txt": "one\n2\nthree\n"})
    said = {"cwd": str(gated.root), "tool_name": "Bash", "tool_input": {"command": "git commit -am x"}}
    answer = hook(said, "--client", "claude", cwd=gated.root, TANDEM_BROKER="http://127.0.0.1:9")
    assert "a.txt: no approved round" in answer.words


@pytest.mark.parametrize(
    "command", ["tandem review claim {}", "env -u CLAUDECODE tandem review verdict {} --verdict x"]
)
def test_refuses_a_review_of_what_the_same_client_proposed(gated: Gated, agent: Agent, command: str) -> None:
    gated.stage({"a.txt": "one\n2\nthree\n"})
    own, others = (gated.put_up(proposer_id=name) for name in ("claude-code", "codex"))
    words = agent.runs(command.format(own)).words
    assert "an agent does not review its own work" in words
    assert agent.runs(command.format(others)).passes
    assert agent.runs(f"tandem review status {own}").passes
    assert Agent("codex", gated.root).runs(command.format(own)).passes
