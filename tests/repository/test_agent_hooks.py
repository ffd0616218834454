"""Agents' hooks: git without its hooks is refused before it runs; a commit is left to git's hooks, which say why."""

from __future__ import annotations

import re
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

from tandem.hooks import agent_commands
from tests.modes import VARIATION
from tests.repository.agents import CLIENTS, Agent, Client, account, hook
from tests.repository.gating import Gated, new_repository


def commands(section: str, **words: object) -> list[str]:
    """The commands of a section of `agent_commands.txt`, with values for these words in capitals."""
    lines = Path(__file__).with_name("agent_commands.txt").read_text("utf-8").partition(f"= {section}\n")[2].split("\n")
    found = [line.replace("\\n", "\n") for line in takewhile(str.strip, lines) if not line.startswith("#")]
    for word, meant in words.items():
        found = [command.replace(word.upper(), str(meant)) for command in found]
    return found


@pytest.fixture
def agent(gated: Gated) -> Agent:
    return Agent("claude", gated.root)


def test_a_command_that_switches_gits_hooks_off_is_refused(agent: Agent) -> None:
    passed = [one for one in commands("hooks off") if "would pass by git's hooks" not in agent.runs(one).stderr]
    assert passed == []


def test_p2_what_is_a_persons_is_refused_in_every_word(gated: Gated, agent: Agent) -> None:
    listed = commands("a person's", root=gated.root)
    assert [one for one in listed if "is a person's decision" not in agent.runs(one).stderr] == []


def test_p2_the_gates_own_files_are_not_touched_by_a_command(gated: Gated, agent: Agent) -> None:
    (gated.root / "git-key").symlink_to(gated.broker.data_dir / "secret.key")
    listed = commands("the gate's own", root=gated.root, data=gated.broker.data_dir)
    assert [one for one in listed if "Leave it alone" not in agent.runs(one).stderr] == []


@pytest.mark.parametrize("name", agent_commands._VALUES)
def test_git_takes_the_next_word_as_the_value_of_each_option_that_is_listed(plain: Path, name: str) -> None:
    def complaint(*words: str) -> str:
        return subprocess.run(["git", name, *words], cwd=plain, capture_output=True, text=True, check=False).stderr

    is_commit = name == "commit"
    for option in (*agent_commands._VALUES[name].split(), *(f"-{letter}" for letter in "CFcmtU" if is_commit)):
        # Some are of newer versions of git.
        assert re.search(r"requires a value|unknown (?:option|switch)", complaint(option)), option
    for letter in "aeinopqsvz" if is_commit else "":
        assert "unknown option `no-such-option'" in complaint(f"-{letter}", "--no-such-option"), letter


# Codex's commands are read as Claude Code's are.
@pytest.mark.parametrize("client", ["claude", pytest.param("gemini", marks=VARIATION)])
def test_daily_work_is_not_refused(gated: Gated, client: Client) -> None:
    agent = Agent(client, gated.root)
    # Gemini CLI's agents have to name the gate's hooks, as another test has it.
    named = re.compile(r"(?<!['\"\\n])\bgit (?=commit|merge|push|-c user)")
    listed = [named.sub(f"{agent.git} ", one) for one in commands("daily work")]
    assert [(one, said) for one in listed if (said := agent.runs(one).stderr)] == []


def test_p2_no_tool_writes_the_gates_own_files(gated: Gated) -> None:
    (gated.root / "link").symlink_to(gated.root / ".git" / "tandem")
    (gated.root / "hooks").symlink_to(gated.root / ".git" / "hooks")
    names, folders = ("gate.json", "pending/1.json", "../tandem/hooks/x"), (".git/tandem", "link", ".git/Tandem")
    own = [f"{folder}/{name}" for folder in (*folders, "link/../tandem") for name in names]
    own += [".git/hooks/prepare-commit-msg", ".git/hooks/Prepare-Commit-Msg", "hooks/../hooks/pre-push"]
    for client in CLIENTS:
        agent = Agent(client, gated.root)
        assert [path for path in own if "is the gate's own" not in agent.writes(path, "{}").words] == [], client
        assert "is the gate's own" in agent.edits(".git/tandem/gate.json", "{", "}").words
        assert agent.writes(".git/hooks/pre-commit", "exit 0\n").passes
        assert agent.writes("tandem/gate.json", "{}\n").passes


def test_p2_a_linked_worktree_has_the_same_gate(gated: Gated, tmp_path: Path) -> None:
    agent = Agent("claude", gated.linked(tmp_path / "linked", "side"))
    assert "Leave it alone" in agent.runs(f"rm {gated.root}/.git/tandem/gate.json").words
    assert "Leave it alone" in agent.runs(f"cd {gated.root} && rm .git/tandem/gate.json").words
    assert agent.runs("tandem gate override -m x").words


def test_codex_may_say_a_command_as_words(gated: Gated) -> None:
    for words, passes in (
        (["git", "commit", "-n", "-m", "x"], False),
        (["bash", "-lc", "git commit -n -m x"], False),
        (["git", "commit", "-m", "git commit -n"], True),
    ):
        said = account("codex", "shell", gated.root, command="x")
        answer = hook({**said, "tool_input": {"command": words}}, "--client", "codex", cwd=gated.root)
        assert answer.passes == passes, words


def test_it_counts_in_which_repository_git_is_called(gated: Gated, tmp_path: Path) -> None:
    elsewhere = new_repository(tmp_path / "elsewhere")
    outside, inside = Agent("codex", elsewhere), Agent("gemini", gated.root)
    assert outside.runs("git commit -n -m x").passes
    assert not outside.runs(f"git -C {gated.root} commit -n -m x").passes
    assert not outside.runs(f"cd '{gated.root}' && git commit -n -m x").passes
    assert inside.runs(f"cd {elsewhere} && git commit -m x").passes
    assert inside.runs(f"(cd {elsewhere} && git status) && git -C {elsewhere} commit -m x").passes
    assert not inside.runs(f"(cd {elsewhere} && git status) && git commit -m x").passes
    assert not inside.asks("shell_elsewhere", path="inner", command="git commit -m x").passes


def test_the_commit_itself_is_left_to_gits_hook_which_holds_and_says_why(gated: Gated) -> None:
    gated.stage({"a.txt": "one\n2\nthree\n"})
    for client in CLIENTS:
        agent = Agent(client, gated.root)
        assert agent.runs(f"{agent.git} commit -m x").passes
    words = gated.refused("commit", "-m", "x")
    assert "a.txt: no approved round has this content" in words
    assert "tandem commit -m" in words
    gated.refused("commit", "--no-verify", "-m", "x")
    gated.approve()
    gated.git("commit", "-m", "x")


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
    # Git then uses the folder that the option names, which has the gate's hook.
    gated.environment.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="core.hooksPath", GIT_CONFIG_VALUE_0="")
    gated.stage({"b.txt": "beta\n"})
    _, option, setting = agent.git.split(" ")
    gated.refused(option, setting, "commit", "-m", "x")
    assert gated.try_git("commit", "-m", "x").ok, "and else the commit would go unseen"
    elsewhere = Agent("gemini", new_repository(tmp_path / "elsewhere"))
    assert elsewhere.runs("git commit -m x; git merge side").passes


def test_without_a_gate_nothing_is_asked_and_nothing_said(plain: Path) -> None:
    (plain / "a.txt").write_text("changed\n", "utf-8")
    for client in CLIENTS:
        agent = Agent(client, plain)
        assert agent.runs("git commit -am x").passes
        assert agent.writes(".planning/phases/03/03-CONTEXT.md", "# Context\n").passes
        assert hook(b"nonsense", "--client", client, cwd=plain).passes
    assert hook(b"nonsense", cwd=plain).passes


def test_switched_off_it_lets_everything_through(gated: Gated, agent: Agent) -> None:
    assert not agent.runs("git commit -n -m x").passes
    gated.rewrite(enabled=False)
    assert agent.runs("git commit -n -m x").passes
    gated.gate_file.write_text("{", "utf-8")
    assert "tandem gate on" in agent.runs("git commit -n -m x").words


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


def test_p7_without_a_broker_no_document_passes(gated: Gated, agent: Agent) -> None:
    gated.rewrite(broker="http://127.0.0.1:9")
    words = agent.writes(".planning/03-CONTEXT.md", "# Context\n").words
    assert "tandem up --background" in words
    assert "nothing passes" in words
    assert agent.runs("git status").passes
    assert agent.writes("b.txt", "anything\n").passes


def test_p7_a_project_that_the_broker_does_not_know_does_not_pass(gated: Gated, agent: Agent) -> None:
    gated.rewrite(project="unknown-project")
    assert not agent.writes(".planning/03-CONTEXT.md", "# Context\n").passes


def test_the_environment_cannot_name_another_broker(gated: Gated) -> None:
    path = str(gated.root / ".planning/03-CONTEXT.md")
    said = {"cwd": str(gated.root), "tool_name": "Write", "tool_input": {"file_path": path, "content": "# Context"}}
    answer = hook(said, "--client", "claude", cwd=gated.root, TANDEM_BROKER="http://127.0.0.1:9")
    assert "it is not: no approved round" in answer.words


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
