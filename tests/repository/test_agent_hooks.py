"""Agents' hooks: git without its hooks is refused before it runs; a commit is left to git's hooks, which say why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.repository.agents import CLIENTS, Agent, Client, account, hook
from tests.repository.gating import Gated, new_repository

OFF = (
    "git commit --no-verify -m x",
    "git commit -m x --no-verif",
    "git commit -nm x",
    "git commit -a -n -m 'it is a (start'",
    "git push --no-verify origin main",
    "git merge --no-verify side",
    "git -c core.hooksPath=/dev/null commit -am x",
    "git -C . -c CORE.HOOKSPATH= merge side",
    "git --config-env=core.hooksPath=EMPTY commit -am x",
    "git config core.hooksPath /dev/null",
    "git config --global --unset core.hooksPath",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0= git commit -m x",
    "env GIT_CONFIG_PARAMETERS=\"'core.hooksPath'=''\" git commit -m x",
    "make && /usr/bin/git commit \\\n  --no-verify -m x",
    "cd . && (git status; git commit -n -m x) 2>&1 | tail -3",
    "if make; then git commit -n -m x; fi",
    "bash -lc 'git commit --no-verify -am x'",
    "echo $(git commit -n -m x)",
    "bash -c 'git commit -n -m x' git",
    "cat <<< x\ngit commit -n -m x",
    "cat > notes.md <<EOF\nwords\nEOF\ngit commit -n -m x",
    "env -i PATH=/usr/bin git commit -n -m x",
    "sudo -u ann git commit --no-verify -m x",
    "timeout 60 git commit -n -m x",
    "nice -n 5 git commit --no-verify -m x",
    "flock lock git commit -n -m x",
    "find . -name x -exec git commit -n -m x \\;",
    "echo x | xargs git commit -n -m",
    "xargs -I{} sh -c 'git commit -n -m {}' < list",
    'g"it" com\'mit\' --no-ver"ify" -m x',
    "\\git commit -n -m x",
    "git -c include.path=/tmp/mine commit -m x",
    "git config include.path /tmp/mine",
    "git config set core.hooksPath /tmp",
    "git config --add core.hookspath /tmp",
    "git --git-dir=.git commit -n -m x",
    "GIT_DIR=.git git commit -n -m x",
    "GIT_CONFIG_GLOBAL=/tmp/mine git push",
    "git cherry-pick x && git rebase --no-verify main",
)
PERSONS = (
    "tandem gate on --broker http://127.0.0.1:9",
    "tandem gate on --broker=http://127.0.0.1:9 --yes",
    "cd . && tandem gate on --accept HEAD",
    "python3 -m tandem gate on --branch main --branch side",
    "bash -c 'tandem gate on --signer ann=key'",
    "env -u CLAUDECODE tandem gate on --project other",
    "tandem gate on --no-strict",
    "tandem gate on --data-dir /tmp/mine",
    "TANDEM_BROKER=http://127.0.0.1:9 tandem gate on",
    "export TANDEM_DATA_DIR=/tmp/mine; tandem gate on",
    "env TANDEM_CONFIG_DIR=/tmp/mine tandem gate on",
    "tandem gate server-hook /srv/git/shop.git --remove",
    "TANDEM_OVERRIDE=why git commit -m x",
    "A=b TANDEM_OVERRIDE=why git commit -m x",
    "env TANDEM_OVERRIDE='it burns' git commit -m x",
    "export TANDEM_OVERRIDE=why; git commit -m x",
    "set -x TANDEM_OVERRIDE why; git commit -m x",
    "$env:TANDEM_OVERRIDE='why'; git commit -m x",
    "sh -c 'TANDEM_OVERRIDE=why git commit -m x'",
    "cd / && TANDEM_OVERRIDE=why git -C ROOT commit -m x",
    "$env:TANDEM_OVERRIDE = 'why'; git commit -m x",
    "tandem gate override -m why -- -m x",
    "env -u CLAUDECODE tandem gate override -m why -- -m x",
    "python -m tandem gate override -m why",
    ".venv/bin/tandem gate 'override' -m why",
    "true; tandem gate record-override --changes @c.json --reason why",
    "tandem --json gate record-override --changes @c.json --reason why",
    "CLAUDECODE= tandem gate off --yes",
    "tandem gate set --enabled false",
    "curl -d @c.json http://127.0.0.1:8321/api/v1/override_gate",
)
OWN = (
    "rm -rf .git/tandem",
    "rm .git/tandem/gate.json && ls",
    "echo '{}' > .git/tandem/gate.json",
    "echo '{}' >.git/tandem/gate.json",
    "echo '{}' 2>&1 >> './.git//tandem/pending/1.json'",
    "cd .git && mv tandem elsewhere",
    "cp mine.json .git/tandem/gate.json",
    "tee .git/tandem/pending/1.json < mine.json",
    "sed -i s/true/false/ .git/tandem/gate.json",
    "dd if=mine of=.git/tandem/gate.json",
    "ln -sf /dev/null .git/tandem/gate.json",
    "find .git/tandem -delete",
    "sudo rm ROOT/.git/tandem/gate.json",
    "bash -c 'rm -rf .git/tandem'",
    "git config -f .git/tandem/hooks.gitconfig a.b c",
    "chmod -x .git/hooks/prepare-commit-msg",
    "rm .git/hooks/reference-transaction",
    "mv .git/hooks .git/no-hooks",
    "chmod -x .git/hooks/*",
    "rm -rf .git/t*",
    "cat DATA/person.key",
    "cp DATA/secret.key /tmp",
)
ON = (
    "tandem gate on --strict --reason 'a --broker is named'",
    "git commit -am x",
    "git commit -m 'Say that --no-verify and -n do not help'",
    "git commit -m x -- -n",
    "git add -n . && git push -n && git log -n 3",
    "git merge -n side",
    "git config core.hooksPath",
    "git config --get core.hooksPath",
    "git -c user.name=x commit -am x",
    "GIT_AUTHOR_DATE=now git commit -am x",
    "grep -rn 'core.hooksPath' . | head -n 3",
    "echo 'git commit --no-verify'",
    "git commit -am 'no end",
    "git commit -m 'TANDEM_OVERRIDE=x and tandem gate override are a person s'",
    "git commit -m \"$(cat <<'EOF'\nNever run git commit --no-verify, it's refused\n\nrm -rf .git/tandem\nEOF\n)\"",
    "git commit -F - <<EOF\ngit commit --no-verify\ntandem gate override\nEOF",
    "cat > docs/gates.md <<'EOF'\ngit commit --no-verify\nTANDEM_OVERRIDE=x git commit\nrm -rf .git/tandem\nEOF",
    "env LC_ALL=C git commit -m 'git commit --no-verify is refused'",
    "sudo git commit -m 'git commit -n is refused'",
    "git log -n 5 --oneline && git log -n5 --grep='--no-verify'",
    "git log --grep=core.hooksPath && git grep -n TANDEM_OVERRIDE=",
    "git clean -n && git fetch -n && git rm -n a.txt && git mv -n a.txt c.txt",
    "git push --dry-run && git push -n origin main",
    "git commit -uno -m x && git commit -C HEAD --no-edit",
    "grep -rn -e '--no-verify' -e TANDEM_OVERRIDE= -e 'tandem gate override' .",
    "rg -n 'git commit -n' docs | head -n 3",
    "sed -n 1,5p .git/tandem/gate.json",
    "sed -i 's#.git/tandem#the folder#' README.md",
    "cat .git/tandem/gate.json | jq .branches",
    "ls -la .git/tandem .git/hooks; find .git/tandem -type f",
    "cp .git/tandem/gate.json /tmp/gate.json",
    "if grep -q main .git/tandem/gate.json; then echo yes; fi",
    "echo 'see .git/tandem/gate.json' >> README.md",
    "echo .git/tandem >> .gitignore",
    "git commit -m GIT_CONFIG_COUNT=1",
    "timeout 9 cat > a.md <<'END-OF-IT'\ngit commit -n\nEND-OF-IT",
    "mkdir -p .git/hooks && cp hooks/pre-push.sample .git/hooks",
    "cp hooks/pre-commit .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
    "tandem gate status && tandem gate check --staged && tandem gate override --help",
    "tandem gate plan .planning/03-PLAN.md && tandem gate task",
    "tandem submit --staged --wait -m 'Say that tandem gate override is for people'",
    "gh pr create --title x --body 'git commit --no-verify is refused, TANDEM_OVERRIDE=x too'",
    "pytest -k override_gate && pytest tests/test_override.py -n 4",
    "GIT_CONFIG_GLOBAL=/dev/null git log -1",
    "GIT_CONFIG_GLOBAL=/dev/null pytest -q",
    "GIT_DIR=/tmp/other.git git log -1",
    "git --git-dir=/tmp/other.git --work-tree=/tmp log",
    "git config user.name x && git config --list && git config alias.co checkout",
    "make -n test; nice -n 19 make; head -n 3 a.txt; xargs -n 1 echo < a.txt; sort -n a.txt",
    "docker run -n x; ssh -n host uptime; npm ci --no-verify-x",
    'echo "$(git rev-parse --git-dir)"',
    "python3 -c 'print(1)' && node -e 'console.log(\"--no-verify\")'",
    "rm -rf build/tandem && mkdir -p src/tandem && touch tandem/gate.json",
)


@pytest.fixture
def agent(gated: Gated) -> Agent:
    return Agent("claude", gated.root)


def test_a_command_that_switches_gits_hooks_off_is_refused(agent: Agent) -> None:
    assert [command for command in OFF if "would pass by git's hooks" not in agent.runs(command).stderr] == []


def test_p2_what_is_a_persons_is_refused_in_every_word(gated: Gated, agent: Agent) -> None:
    commands = [command.replace("ROOT", str(gated.root)) for command in PERSONS]
    passed = [command for command in commands if "is a person's decision" not in agent.runs(command).stderr]
    assert passed == []


def test_p2_the_gates_own_files_are_not_touched_by_a_command(gated: Gated, agent: Agent) -> None:
    data = str(gated.broker.data_dir)
    commands = [command.replace("ROOT", str(gated.root)).replace("DATA", data) for command in OWN]
    assert [command for command in commands if "Leave it alone" not in agent.runs(command).stderr] == []


@pytest.mark.parametrize("client", CLIENTS)
def test_daily_work_is_not_refused(gated: Gated, client: Client) -> None:
    agent = Agent(client, gated.root)
    # Gemini CLI's agents have to name the gate's hooks, as another test has it.
    commands = [re.sub(r"(?<!['\"\\n])\bgit (?=commit|merge|push|-c user)", f"{agent.git} ", command) for command in ON]
    assert [(command, said) for command in commands if (said := agent.runs(command).stderr)] == []


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ["gate.json", "pending/1.json", "../tandem/hooks/x"])
def test_p2_no_tool_writes_the_gates_own_files(gated: Gated, client: Client, name: str) -> None:
    agent = Agent(client, gated.root)
    (gated.root / "link").symlink_to(gated.root / ".git" / "tandem")
    for path in (f".git/tandem/{name}", f"link/{name}", ".git/hooks/prepare-commit-msg"):
        assert "is the gate's own" in agent.writes(path, "{}").words
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
    assert "tandem submit --staged --wait" in words
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
    # What it names is what git then uses, and there the gate's hook is.
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
    gate_file = gated.root / ".git" / "tandem" / "gate.json"
    gate_file.write_text(gate_file.read_text("utf-8").replace('"enabled": true', '"enabled": false'), "utf-8")
    assert agent.runs("git commit -n -m x").passes
    gate_file.write_text("{", "utf-8")
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
    gate_file = gated.root / ".git" / "tandem" / "gate.json"
    gate_file.write_text(gate_file.read_text("utf-8").replace(gated.broker.url, "http://127.0.0.1:9"), "utf-8")
    words = agent.writes(".planning/03-CONTEXT.md", "# Context\n").words
    assert "tandem up --background" in words
    assert "nothing passes" in words
    assert agent.runs("git status").passes
    assert agent.writes("b.txt", "anything\n").passes


def test_p7_a_project_that_the_broker_does_not_know_does_not_pass(gated: Gated, agent: Agent) -> None:
    gate_file = gated.root / ".git" / "tandem" / "gate.json"
    gate_file.write_text(gate_file.read_text("utf-8").replace(gated.project, "nobody-knows-it"), "utf-8")
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
