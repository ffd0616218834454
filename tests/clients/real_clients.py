"""The real client programs, run by our providers against scripted models: `tools/clients.py` runs this.

Not collected by the normal run (its name is no test's): it needs the programs, which are large.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tandem.pool.reviewers import Finished, Invocation, ProgramOutput, RunContext, RunLimits, programs
from tandem.pool.reviewers.programs import lay_out
from tandem.pool.reviewers.providers import provider
from tandem.pool.reviewers.verdicts import SCHEMA, read_answer
from tests.broker import BrokerProcess, Caller
from tests.clients.models import ScriptedModel, serving
from tests.clients.traps import SECRET, TRAP, Place, laid

BIN = os.environ["TANDEM_CLIENTS_PATH"]
"""The folders with the programs and their Node, as a PATH."""

LATE_SECONDS = float(os.environ.get("TANDEM_LATE_SECONDS", "0"))
"""How late a late verdict comes, in place of the short time that the suite allows."""
SECONDS = 200 + LATE_SECONDS


def program_environment(home: Path, **more: str) -> dict[str, str]:
    """The variables of a program in a home folder of its own."""
    return {
        "PATH": os.pathsep.join([BIN, str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        **more,
    }


def run_program(command: Sequence[str], folder: Path, home: Path, **environment: str) -> str:
    """The output of a program in a home folder of its own, or its standard error if that is empty. It must not fail."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=program_environment(home, **environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout or done.stderr


DIGEST = "sha256:0123456789abcdef"
NONCE = "0f" * 16
ANSWER: dict[str, Any] = {
    "nonce": NONCE,
    "digest": DIGEST,
    "files": [],
    "summary": "Read README.md.",
    "answers": [],
    "findings": [
        {
            "file": "README.md",
            "line": 1,
            "end_line": None,
            "severity": "minor",
            "category": None,
            "claim": "“Déjà vu” $(touch x)",
            "failure": None,
            "suggestion": None,
            "pre_existing": False,
        }
    ],
    "reason": "It says nothing.",
    "verdict": "changes_requested",
    "counter_patch": None,
}
LIMITS = RunLimits(
    start_seconds=None, total_seconds=200.0, silence_seconds=None, output_bytes=16 * 1024 * 1024, grace_seconds=5.0
)
PROMPT = """Review this. $(touch x) `touch x` ; touch x
@README.md @{outside} @link $trap [$trap]({skill}) /trap /init !`touch x` #trap user@example.com
"""


@dataclass(frozen=True)
class Client:
    """A program: its credentials, and the names of its tools.

    Attributes:
        name: Of its provider.
        model: A name that it accepts.
        key: The variable of its key.
        address: The variable of its service's address, and what follows the address there.
        reads: The tool that reads a file, and the arguments for one.
        writes: Attempts to write a file.
    """

    name: str
    model: str
    key: str
    address: tuple[str, str]
    reads: tuple[str, str]
    writes: tuple[tuple[str, dict[str, str]], ...]
    silent_cost: bool = True

    def read_step(self, file: Path) -> tuple[str, dict[str, Any]]:
        tool, argument = self.reads
        return tool, {argument: f"cat '{file}'" if argument == "cmd" else str(file)}

    def write_steps(self, file: Path) -> list[tuple[str, dict[str, Any]]]:
        return [
            (tool, {name: text.format(file=file) for name, text in arguments.items()})
            for tool, arguments in self.writes
        ]


_CHOSEN = os.environ["TANDEM_CLIENTS"].split(",")
_KNOWN = (
    Client(
        "codex", "scripted-model", "CODEX_API_KEY", ("OPENAI_BASE_URL", "/v1"), ("exec_command", "cmd"),
        (("exec_command", {"cmd": "touch '{file}'"}), ("apply_patch", {"input": "*** Add File: {file}\n+x"})),
    ),
    Client(
        "claude", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", ("ANTHROPIC_BASE_URL", ""), ("Read", "file_path"),
        (("Bash", {"command": "touch '{file}'"}), ("Write", {"file_path": "{file}", "content": "x"})),
        silent_cost=False,
    ),
    Client(
        "gemini", "gemini-2.5-pro", "GEMINI_API_KEY", ("GOOGLE_GEMINI_BASE_URL", ""), ("read_file", "file_path"),
        (("run_shell_command", {"command": "touch '{file}'"}), ("write_file", {"file_path": "{file}", "content": "x"})),
    ),
    Client(
        "opencode", "scripted/model-1", "SCRIPTED_API_KEY", ("SCRIPTED_BASE_URL", "/v1"), ("read", "filePath"),
        (
            ("bash", {"command": "touch '{file}'", "description": "x"}),
            ("write", {"filePath": "{file}", "content": "x"}),
        ),
    ),
)  # fmt: skip
CLIENTS = tuple(client for client in _KNOWN if client.name in _CHOSEN)


@dataclass
class Run:
    """The run of one review, and its results."""

    invocation: Invocation
    finished: Finished
    reply: ProgramOutput
    log: list[bytes] = field(default_factory=list[bytes])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return laid(tmp_path, "project $(touch x) ; `touch x`")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "run 1"
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    return request.param


def service(client: Client, place: Place, model: ScriptedModel) -> dict[str, str]:
    """The variables by which a program finds its user's home, and the model behind its service."""
    variable, path = client.address
    return {"HOME": str(place.home), client.key: "key-of-the-reviewer", variable: f"{model.address}{path}"}


def room(client: Client, place: Place, scratch: Path, model: ScriptedModel, **further: str) -> RunContext:
    environment = {
        "PATH": f"{BIN}{os.pathsep}{os.defpath}",
        "LANG": "C.UTF-8",
        "SOME_TOKEN": SECRET,
        **service(client, place, model),
        **further,
    }
    return RunContext(
        workspace=str(place.workspace),
        scratch=str(scratch),
        model=client.model,
        effort="high",
        schema=SCHEMA,
        environment={name: value for name, value in environment.items() if value},
        reviewer_id="clients-r1-abcdef",
    )


def review(client: Client, where: RunContext, prompt: str = "Review this.") -> Run:
    program = provider(client.name)
    invocation = program.review(where, prompt)
    lay_out(Path(where.scratch), invocation.files)
    Path(where.scratch, "given", "change.diff").write_text("the whole diff\n")
    finished = programs.run(invocation, LIMITS, on_start=lambda _: None, cancelled=threading.Event())
    return Run(invocation, finished, program.read(finished, where))


def test_gives_a_verdict(client: Client, place: Place, scratch: Path) -> None:
    with serving(ScriptedModel([client.read_step(place.workspace / "README.md")], ANSWER)) as model:
        run = review(client, room(client, place, scratch, model), "Review this: é “”" + " long" * 200_000)
    assert (run.finished.ended_by, run.finished.exit_code) == ("itself", 0), run.finished.stderr_tail.decode()
    assert run.reply.text is not None
    answer = read_answer(run.reply.text, nonce=NONCE, digest=DIGEST, files=None)
    assert (answer.verdict, answer.findings[0].claim) == ("changes_requested", "“Déjà vu” $(touch x)")
    assert "What this project is for." in model.results[0]
    assert (run.reply.tokens_in, run.reply.tokens_out) == (200, 40)
    assert (run.reply.cost_usd is None) == client.silent_cost
    assert "long long long" in model.requests()


def test_reads_the_repository_and_what_is_given_and_nothing_else_and_starts_nothing_of_it(
    client: Client, place: Place, scratch: Path
) -> None:
    skill = place.workspace / ".codex" / "skills" / "trap" / "SKILL.md"
    before = sorted(place.workspace.rglob("*"))
    inside = [place.workspace / "README.md", place.workspace / "deep" / "README.md", scratch / "given" / "change.diff"]
    outside = [place.outside, Path("/proc/self/environ")]
    if client.name != "opencode":
        # opencode follows the links that a repository has already.
        outside.append(place.workspace / "link")
    written = place.workspace / "written"
    steps = [client.read_step(file) for file in (*inside, *outside)]
    steps += [*client.write_steps(written), *client.write_steps(scratch / "written")]
    with serving(ScriptedModel(steps, ANSWER)) as model:
        run = review(client, room(client, place, scratch, model), PROMPT.format(outside=place.outside, skill=skill))
    assert run.reply.text is not None, run.finished.stderr_tail.decode()
    assert place.sprung() == []
    assert len(model.results) >= len(steps)
    assert "What this project is for." in model.results[0]
    assert "The deep folder." in model.results[1]
    assert "the whole diff" in model.results[2]
    # To read a file of a folder brings no memory of that folder along.
    assert TRAP not in model.requests()
    assert SECRET not in model.requests()
    assert "key-of-the-reviewer" not in json.dumps([one.body for one in model.seen])
    assert sorted(place.workspace.rglob("*")) == before
    assert not (scratch / "written").exists()


def test_needs_a_key_unless_it_is_told_of_another_service(client: Client, place: Place, scratch: Path) -> None:
    with serving(ScriptedModel([], ANSWER)) as model:
        run = review(client, room(client, place, scratch, model, **{client.key: ""}))
    if client.name in {"codex", "opencode"}:
        assert run.reply.text is not None, run.finished.stderr_tail.decode()
    else:
        assert (run.reply.text, run.finished.exit_code == 0, model.seen) == (None, False, [])


# Not Gemini's: its program asks Google's servers about it first.
LOGINS: dict[str, tuple[str, dict[str, Any]]] = {
    "codex": (
        ".codex/auth.json",
        {"auth_mode": "apikey", "OPENAI_API_KEY": "key-of-the-login", "tokens": None, "last_refresh": None},
    ),
    "claude": (
        ".claude/.credentials.json",
        {
            "claudeAiOauth": {
                "accessToken": "sk-ant-oat01-key-of-the-login",
                "refreshToken": SECRET,
                "expiresAt": 4_102_444_800_000,
                "scopes": ["user:inference", "user:profile"],
                "subscriptionType": "pro",
            },
            "mcpOAuth": {"server": {"accessToken": SECRET}},
        },
    ),
    "opencode": (
        ".local/share/opencode/auth.json",
        {"scripted": {"type": "api", "key": "key-of-the-login"}, "other": {"type": "api", "key": SECRET}},
    ),
}


@pytest.mark.parametrize("client", [one for one in CLIENTS if one.name in LOGINS], ids=lambda one: one.name)
def test_uses_the_users_login_and_no_more_of_it(client: Client, place: Place, scratch: Path) -> None:
    path, content = LOGINS[client.name]
    login = place.home / path
    login.parent.mkdir(parents=True, exist_ok=True)
    login.write_text(json.dumps(content))
    with serving(ScriptedModel([], ANSWER)) as model:
        where = room(client, place, scratch, model, **{client.key: ""})
        run = review(client, where)
    assert run.reply.text is not None, run.finished.stderr_tail.decode()
    assert all("key-of-the-login" in one.headers["authorization"] for one in model.seen)
    assert json.loads(login.read_text()) == content
    copy = scratch / "home" / path
    if client.name == "codex":
        assert not copy.exists(), "a login that is only a key is handed over as one"
        return
    assert copy.stat().st_mode & 0o777 == 0o600
    assert SECRET not in copy.read_text()


TOOLS = {"codex": "mcp__tandem/{}", "claude": "mcp__tandem__{}", "gemini": "mcp_tandem_{}", "opencode": "tandem_{}"}


def test_reviews_as_an_agent_over_mcp(client: Client, place: Place, scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker") as broker, Caller(broker.url, "shop") as caller:
        put_up = {"intent": "Be clear", "agent_type": "author", "category": "plan_review", "description": "The plan."}
        review_id = caller.do("create_review", **put_up)["review_id"]
        tool = TOOLS[client.name].format
        mine = {"review_id": review_id, "reviewer_id": "clients-r1-abcdef"}
        steps = [
            (tool("claim_review"), mine),
            (tool("submit_verdict"), {**mine, "claim_generation": 1, "verdict": "approved", "reason": "Clear."}),
        ]
        with serving(ScriptedModel(steps, ANSWER)) as model:
            where = room(client, place, scratch, model)
            invocation = provider(client.name).agent(where, "Review what there is.", f"{broker.url}/mcp?project=shop")
            lay_out(scratch, invocation.files)
            done = programs.run(invocation, LIMITS, on_start=lambda _: None, cancelled=threading.Event())
        assert (done.ended_by, done.exit_code) == ("itself", 0), done.stderr_tail.decode()
        became = caller.do("get_review_status", review_id=review_id)
    assert (became["status"], place.sprung()) == ("approved", []), (
        model.results,
        model.tools,
        done.stderr_tail.decode(),
    )
    assert SECRET not in model.requests()
    assert TRAP not in model.requests()
