"""A reviewer that comes by itself: proposed to the person, written to their configuration, taken up by the broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tandem.errors import ConfigInvalid
from tandem.examples import scripted_reviewer
from tandem.settings import writing
from tests.broker import BrokerProcess
from tests.commandline import Ended, git, repository
from tests.forked import run_tandem
from tests.repository.terminal import Terminal, without_agents

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="platform: there reviewers run in WSL")
HOUR_MS = 3_600_000
# As Claude Code answers, by the rules of the scripted reviewer.
CLAUDE = """\
#!{python} -IS
import json, subprocess, sys
told = subprocess.run([sys.executable, "-IS", {scripted!r}], stdin=sys.stdin, capture_output=True, check=True).stdout
print(json.dumps({{"type": "result", "is_error": False, "structured_output": json.loads(told)}}))
"""


@dataclass
class Fresh:
    """A machine on which somebody begins: an empty home, a repository, and a broker that runs already.

    Attributes:
        home: The home folder.
        root: The repository.
        broker: The broker.
        variables: More of the person's environment.
    """

    home: Path
    root: Path
    broker: BrokerProcess
    variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def file(self) -> Path:
        return self.home / "config" / "config.toml"

    @property
    def environment(self) -> dict[str, str]:
        there = {"HOME": str(self.home), "TANDEM_CONFIG_DIR": str(self.file.parent), "PATH": path_of(self.home)}
        return {**without_agents(), **there, "TANDEM_DATA_DIR": str(self.broker.data_dir), **self.variables}

    def install(self, name: str, text: str = "#!/bin/sh\n") -> None:
        """A client's program on the PATH."""
        program = self.home / "bin" / name
        program.write_text(text, "utf-8")
        program.chmod(0o755)

    def log_in(self, name: str, hours: int = 2) -> None:
        """A client's login, as it saves it."""
        tokens = {"accessToken": "a", "refreshToken": "b", "expiresAt": int(time.time() * 1000) + hours * HOUR_MS}
        file, login = {
            "claude": (".claude/.credentials.json", {"claudeAiOauth": tokens}),
            "codex": (".codex/auth.json", {"tokens": {"access_token": "a"}}),
            "gemini": (".gemini/oauth_creds.json", {"access_token": "a"}),
        }[name]
        path = self.home / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(login), "utf-8")

    def run(self, *arguments: str, **more: str) -> Ended:
        """A command without a terminal."""
        ended = run_tandem(arguments, self.root, {**self.environment, **more}, seconds=60, session="own")
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def ask(self, arguments: list[str], *answers: tuple[str, str]) -> tuple[int, str]:
        """A command at a terminal, with questions and what a person types; its status and its whole output."""
        with Terminal(arguments, self.root, {**self.environment, "TERM": "dumb", "COLUMNS": "200"}) as terminal:
            for question, answer in answers:
                terminal.read_until(question)
                terminal.type(answer)
            return terminal.wait(), terminal.shown


def path_of(home: Path) -> str:
    return os.pathsep.join([str(home / "bin"), str(Path(sys.executable).parent), os.defpath])


@pytest.fixture(name="fresh")
def make_fresh(tmp_path: Path) -> Iterator[Fresh]:
    home = tmp_path / "home"
    for folder in ("bin", "config"):
        (home / folder).mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Test\n\temail = test@example.invalid\n", "utf-8")
    root = repository(tmp_path / "shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        broker = BrokerProcess(tmp_path, config_dir=str(home / "config"), PATH=path_of(home))
        with broker:
            yield Fresh(home, root, broker)


def test_without_a_client_nothing_is_asked_and_the_command_says_what_helps(fresh: Fresh) -> None:
    status, shown = fresh.ask(["init"])
    assert status == 0, shown
    assert "No reviewer comes by itself: a person chooses one with 'tandem reviewers setup'." in shown
    said = fresh.run("reviewers", "setup", "--yes").refusal
    assert "Codex: not installed" in said
    assert "Claude Code: not installed" in said
    assert not fresh.file.exists()
    for name in ("codex", "opencode"):
        fresh.install(name)
    said = " ".join(fresh.run("reviewers", "setup", "--yes").refusal.split())
    assert "Codex: installed, no login found; codex login" in said
    assert "no login found for the model's service (--model SERVICE/MODEL)" in said


def test_the_only_client_is_proposed_in_its_clean_room_and_reviews_without_a_restart(fresh: Fresh) -> None:
    fresh.install("claude", CLAUDE.format(python=sys.executable, scripted=scripted_reviewer.__file__))
    fresh.log_in("claude")
    fresh.file.write_text("# mine\ndiff_limit_bytes = 100_000  # enough\n", "utf-8")
    before = fresh.broker.health()
    status, shown = fresh.ask(["init"], ("Go on?", "yes"), ("Go on? Type yes: ", "yes"))
    assert status == 0, shown
    for words in (
        "probably logged in",
        "in a clean room",
        "costs about $0.23",
        "claude setup-token",
        'provider = "claude"',
    ):
        assert words in shown
    assert "Claude Code reviews: " in shown
    assert fresh.file.read_text("utf-8") == (
        '# mine\ndiff_limit_bytes = 100_000  # enough\n\n[reviewer_pool]\nenabled = true\nprovider = "claude"\n'
    )
    after = fresh.broker.health()
    assert (after["instance_id"], after["reviewer_pool"]) == (before["instance_id"], "claude, at most 3")
    (fresh.root / "a.txt").write_text("better\n", "utf-8")
    done = fresh.run("submit", "-m", "Better", "--wait", "--json")
    assert done.status == 0, done
    assert done.data["reviewer_id"].startswith("claude-r1-")
    # A pool that is configured is not asked about again.
    status, shown = fresh.ask(["init"])
    assert (status, "reviewer" in shown) == (0, False), shown


def test_of_two_the_one_that_does_not_propose_is_proposed_and_a_no_is_heard(fresh: Fresh) -> None:
    for name in ("claude", "codex"):
        fresh.install(name)
        fresh.log_in(name)
    status, shown = fresh.ask(["init"], ("Go on?", "yes"), ("Go on? Type yes: ", "no"))
    assert status == 0, shown
    assert "Codex: installed, probably logged in. Have it review by itself, when a proposal waits?" in shown
    assert "a person chooses one with 'tandem reviewers setup'" in shown
    assert not fresh.file.exists()
    found = fresh.run("reviewers", "setup", "--yes", "--json").data
    assert [found[name] for name in ("provider", "login", "changed", "notes")] == ["codex", "a saved login", True, []]
    assert [one["provider"] for one in found["candidates"] if one["program"]] == ["codex", "claude"]
    assert fresh.broker.health()["reviewer_pool"] == "codex, at most 3"
    again = fresh.run("reviewers", "setup", "--provider", "claude", "--model", "claude-x", "--yes", "--json").data
    assert again["proposes"]
    assert fresh.broker.health()["reviewer_pool"] == "claude, at most 3"
    assert not fresh.run("reviewers", "setup", "--provider", "claude", "--yes", "--json").data["changed"]
    assert 'model = "claude-x"' in fresh.file.read_text("utf-8")


def test_what_somebody_has_written_beside_the_choice_is_shown_before_it_holds(fresh: Fresh) -> None:
    fresh.install("codex")
    fresh.log_in("codex")
    fresh.file.write_text('[reviewer_pool]\ncommand = ["codex", "--odd"]\n', "utf-8")
    [note] = fresh.run("reviewers", "setup", "--yes", "--json").data["notes"]
    assert "settings that no person was shown" in note
    assert fresh.broker.health()["reviewer_pool"] == "off"
    status, shown = fresh.ask(["reviewers", "setup"], ('command = ["codex", "--odd"]', "yes"))
    assert (status, "has not taken it up" in shown) == (0, False), shown
    assert fresh.broker.health()["reviewer_pool"] == "codex, at most 3"
    fresh.file.write_text("[reviewer_pool]\nenabled = false\n", "utf-8")
    assert any("The reviewer pool is off in" in one for one in fresh.run("init", "--yes", "--json").data["notes"])


def test_a_login_that_has_run_out_is_none_and_a_key_is_said_to_be_one(fresh: Fresh) -> None:
    fresh.install("claude")
    fresh.log_in("claude", hours=-1)
    assert "Claude Code: installed, no login found" in fresh.run("reviewers", "setup", "--yes").refusal
    found = fresh.run("reviewers", "setup", "--yes", "--json", ANTHROPIC_API_KEY="k").data
    assert found["login"] == "ANTHROPIC_API_KEY"
    [note] = found["notes"]
    assert "The broker has to have ANTHROPIC_API_KEY in its environment, too" in note


def test_only_a_person_chooses_and_wrong_names_are_refused(fresh: Fresh) -> None:
    fresh.install("codex")
    fresh.log_in("codex")
    agent = fresh.run("reviewers", "setup", "--yes", "--json", CLAUDECODE="1")
    assert agent.envelope["error"]["code"] == "FORBIDDEN"
    assert "There is no terminal to ask at. Run it with --yes." in fresh.run("reviewers", "setup").refusal
    assert "choose from codex" in fresh.run("reviewers", "setup", "--provider", "cursor", "--yes").refusal
    assert "--model SERVICE/MODEL" in fresh.run("reviewers", "setup", "--provider", "opencode", "--yes").refusal
    assert not fresh.file.exists()
    missing = fresh.run("reviewers", "setup", "--provider", "gemini", "--yes", "--json").data
    assert "Gemini CLI: not installed." in missing["notes"]
    assert any("does not find 'gemini' on its own PATH" in note for note in missing["notes"])


def test_a_broker_that_does_not_run_takes_the_choice_up_when_it_starts(fresh: Fresh) -> None:
    fresh.install("codex")
    fresh.log_in("codex")
    fresh.broker.stop()
    found = fresh.run("reviewers", "setup", "--yes", "--json").data
    assert (found["broker"], found["notes"]) == (None, ["No broker runs: the next start takes it up."])
    fresh.broker.start()
    assert fresh.broker.health()["reviewer_pool"] == "codex, at most 3"


def test_a_person_who_submits_without_a_reviewer_is_offered_the_page(fresh: Fresh) -> None:
    opened = fresh.home / "opened"
    fresh.install("browser", f'#!/bin/sh\necho "$1" >{opened}.new && mv {opened}.new {opened}\n')
    fresh.variables["BROWSER"] = str(fresh.home / "bin" / "browser")
    assert fresh.run("project", "add").status == 0
    (fresh.root / "a.txt").write_text("better\n", "utf-8")
    question = "A person has to review it. Open its page in your browser now? Type yes, or Enter for no: "
    submit = ["submit", "-m", "Better"]
    for answer in ("", "yes"):
        status, shown = fresh.ask(submit, (question, answer))
        assert status == 0, shown
        assert opened.exists() == (answer == "yes")
    # By an address that makes the browser known as a person's.
    assert "/you?proof=" in opened.read_text("utf-8")
    assert "%2Freviews%2Frv_" in opened.read_text("utf-8")
    fresh.variables["CLAUDECODE"] = "1"
    status, shown = fresh.ask(submit)
    assert question not in shown


def test_a_fresh_machine_is_told_what_it_lacks_with_the_line_that_fixes_it(fresh: Fresh) -> None:
    assert fresh.run("project", "add").status == 0
    (fresh.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n", "utf-8")
    (fresh.root / "a.txt").write_text("better\n", "utf-8")
    line = "git config --global user.name 'Your Name' && git config --global user.email you@example.com"
    refused = fresh.run("commit", "--all", "-m", "Better")
    assert (refused.status, line in refused.unwrapped) == (1, True), refused
    assert fresh.run("review", "list", "--json").data["reviews"] == []
    assert line in " ".join(fresh.run("submit", "-m", "Better").stderr.split())
    assert any(line in note for note in fresh.run("init", "--yes", "--json").data["notes"])
    git(fresh.root, "config", "user.email", "a@example.invalid")
    git(fresh.root, "config", "user.name", "A")
    assert line not in fresh.run("submit", "-m", "Better").unwrapped
    missing = fresh.run("submit", "-m", "Better", PATH=os.defpath).unwrapped
    assert f"tandem is not on PATH: export PATH={Path(sys.executable).parent}:" in missing


def test_login_shells_that_do_not_find_the_program_are_told_and_the_line_helps(fresh: Fresh) -> None:
    shell = fresh.home / "bin" / "bash"
    # As /etc/profile of Debian does, on every machine.
    fresh.install(
        "bash", '#!/bin/sh\nPATH=/usr/bin:/bin\n[ -f ~/.profile ] && . ~/.profile\nshift\nexec /bin/sh "$@"\n'
    )
    fresh.variables["SHELL"] = str(shell)
    notes = fresh.run("init", "--yes", "--json").data["notes"]
    [note] = [one for one in notes if one.startswith("Login shells")]
    line = note.partition("So that they do: ")[2]
    doctor = fresh.run("doctor", "--json").data["findings"]
    assert [line in one["message"] for one in doctor].count(True) == 1
    (fresh.home / "fix.sh").write_text(line, "utf-8")
    subprocess.run(["sh", str(fresh.home / "fix.sh")], env=fresh.environment, check=True, timeout=60)
    assert not [one for one in fresh.run("init", "--yes", "--json").data["notes"] if one.startswith("Login shells")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[reviewer_pool]\nenabled = true\nprovider = "claude"\n'),
        (
            '[reviewer_pool]\n# off\nenabled = false # now\nprovider = "codex"\nmodel = "m"\nmax_pool_size=2\n\n[x]\n',
            '[reviewer_pool]\n# off\nenabled = true # now\nprovider = "claude"\nmax_pool_size=2\n\n[x]\n',
        ),
        (
            "reviewer_pool = {max_pool_size = 1}\n",
            'reviewer_pool = {max_pool_size = 1,enabled = true,provider = "claude"}\n',
        ),
    ],
)
def test_all_else_of_the_file_stays(before: str, after: str) -> None:
    assert writing.with_reviewer(before, "claude", None) == after


def test_what_would_not_be_valid_is_not_written(config_dir: Path) -> None:
    with pytest.raises(ConfigInvalid, match="allowed_models"):
        writing.with_reviewer('[reviewer_pool]\nallowed_models = ["m"]\nmodel = "m"\n', "claude", "other")
    with pytest.raises(ConfigInvalid, match="must be a table"):
        writing.with_reviewer("reviewer_pool = 1\n", "claude", None)
    there = config_dir / "dotfiles.toml"
    there.write_text("", "utf-8")
    there.chmod(0o644)
    (config_dir / "config.toml").symlink_to(there)
    writing.write("port = 1\n", asked=True)
    assert (there.read_text("utf-8"), there.stat().st_mode & 0o777) == ("port = 1\n", 0o644)
    assert (config_dir / "config.toml").is_symlink()
