"""The clients that agents run in: how they are found, and what each one's files have to hold.

What a client keeps where, and what a person has to know about it, was measured with Claude Code 2.1.330, Codex 0.169,
Gemini CLI 0.61 and OpenCode 1.18. What agents are taught is the same for all clients and stands in `teaching`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tandem.errors import ConfigInvalid, InvalidInput
from tandem.setup import teaching
from tandem.setup.edits import Edit
from tandem.setup.edits.edit import MarkedBlock, TomlTable, WholeFile, at, content_of
from tandem.setup.edits.json_edits import JsonItems, JsonMember, JsonText
from tandem.setup.fresh_machine import run_program, unseen_in_login_shells
from tandem.setup.teaching import SERVER, ClientName

BLOCK: Final = "review"
"""The name of the marked block of instructions."""

_TOOL_TIMEOUT_SECONDS: Final = 120
"""A call waits for 50 seconds at most; OpenCode's own limit of 60 would be close."""

_START_TIMEOUT_SECONDS: Final = 30
"""The first call may have to start the broker."""

_MOVED: Final = {
    ".claude": ("CLAUDE_CONFIG_DIR", ""),
    ".codex": ("CODEX_HOME", ""),
    ".gemini": ("GEMINI_CLI_HOME", ".gemini"),
    ".config": ("XDG_CONFIG_HOME", ""),
}
"""Folders of the home folder that a variable moves: its name, and the path below the folder that it names."""

_CODEX_VARIABLES: Final = (
    "TANDEM_BROKER", "TANDEM_TOKEN", "TANDEM_DATA_DIR", "TANDEM_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME",
)  # fmt: skip
"""The variables that locate the broker and hold the token for it."""

_GSD_BANNER: Final = "# GSD Agent Configuration"
"""GSD's installer deletes everything below this line of its own."""

_OPENCODE_SCHEMA: Final = "https://opencode.ai/config.json"

_IMPORTS_SHARED: Final = re.compile(rb"^@(?:\./)?AGENTS\.md[ \t]*\r?$", re.MULTILINE)

_ANSWER_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """How Tandem is called.

    Attributes:
        words: The program and its first arguments.
        notes: What a person has to know about it.
    """

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_portable(self) -> bool:
        """Whether the words hold on other machines too, so that they may stand in a file that a team shares."""
        return self.words == ("tandem",)


@dataclass(frozen=True)
class Site:
    """Where clients are set up.

    Attributes:
        root: The top of the working tree.
        home: The user's home folder.
        program: How Tandem is called.
        environment: The user's variables.
        broker: The URL that the person named; None for the broker that runs for this user.
    """

    root: Path
    home: Path
    program: Program
    environment: Mapping[str, str]
    broker: str | None = None

    def file(self, scope: Literal["project", "user"], path: str) -> Path:
        """A file of the project, or one below the home folder, whose first folder the user's variables may have moved.

        Args:
            scope: Which of the two.
            path: With slashes, such as `.codex/hooks.json`.
        """
        if scope == "project":
            return self.root / path
        first, _, rest = path.partition("/")
        moved = self._moved().get(first)
        return self.home / path if moved is None else moved / rest

    def tree_of(self, file: Path) -> Path:
        """The folder that a user's file is in: the home folder, else the one that a variable names."""
        if file.is_relative_to(self.home):
            return self.home
        return next(folder for folder in self._moved().values() if file.is_relative_to(folder))

    def _moved(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for first, (variable, below) in _MOVED.items():
            stated = self.environment.get(variable, "").strip()
            if stated and Path(stated).expanduser().is_absolute():
                found[first] = Path(stated).expanduser() / below
        return found

    def server(self, agent: str, **more: Any) -> dict[str, Any]:
        """The MCP server as most clients have it: the proposer's tools over standard input and output."""
        program, *arguments = self.server_command
        return {"command": program, "args": arguments, "env": {"TANDEM_AGENT": agent}, **more}

    @property
    def server_command(self) -> list[str]:
        """The command of the MCP server."""
        stated = ["--broker", self.broker] if self.broker else []
        return [*self.program.words, "mcp", "--role", "proposer", *stated]


@dataclass(frozen=True, slots=True)
class AgentClient:
    """A client program.

    Attributes:
        name: As on the command line.
        title: As people call it.
        programs: Its names on PATH.
        edits: Its MCP server and permissions, all in the project.
        note: What a person has to know or do; empty if nothing.
    """

    name: ClientName
    title: str
    programs: tuple[str, ...]
    edits: Callable[[Site], list[Edit]]
    note: Callable[[Site], str]


def _claude_edits(site: Site) -> list[Edit]:
    settings = site.root / ".claude/settings.json"
    server = site.server("claude-code", timeout=_TOOL_TIMEOUT_SECONDS * 1000)
    return [
        JsonMember(site.root / ".mcp.json", ("mcpServers", SERVER), server),
        # A project's server waits for approval unless it is named here.
        JsonItems(settings, ("enabledMcpjsonServers",), (SERVER,)),
        JsonItems(settings, ("permissions", "allow"), (f"mcp__{SERVER}__*",)),
    ]


def _claude_note(site: Site) -> str:
    # Beside the configuration folder by default, in it where a variable names one.
    moved = site.environment.get("CLAUDE_CONFIG_DIR")
    state = site.file("user", ".claude/.claude.json") if moved else site.home / ".claude.json"
    if says(state, "projects", str(site.root), "hasTrustDialogAccepted") is True:
        return ""
    return "Claude Code connects to the server once you have trusted this folder: start claude here and say yes."


def _codex_edits(site: Site) -> list[Edit]:
    # Tools need no list of permissions: ours say that they destroy nothing and stay local, and such run unasked.
    program, *arguments = site.server_command
    lines = [
        f"[mcp_servers.{SERVER}]",
        f"command = {_toml(program)}",
        f"args = [{', '.join(map(_toml, arguments))}]",
        'env = { TANDEM_AGENT = "codex" }',
        # The server's process gets a stripped environment, but for these.
        f"env_vars = [{', '.join(map(_toml, _CODEX_VARIABLES))}]",
        f"startup_timeout_sec = {_START_TIMEOUT_SECONDS}",
        f"tool_timeout_sec = {_TOOL_TIMEOUT_SECONDS}",
        # Without it a run of `codex exec` does not wait for the server.
        "required = true",
    ]
    table = "\n".join(lines) + "\n"
    return [TomlTable(site.root / ".codex/config.toml", ("mcp_servers", SERVER), table, (_GSD_BANNER,))]


def _codex_note(site: Site) -> str:
    if says(site.file("user", ".codex/config.toml"), "projects", str(site.root), "trust_level") == "trusted":
        return ""
    note = "Codex reads .codex/config.toml once this project is trusted: start codex here and say yes."
    return f"{note} Until then it warns of untrusted configuration, and has no {SERVER} tools."


def _gemini_edits(site: Site) -> list[Edit]:
    # With `trust` its tools run unasked.
    server = site.server("gemini", timeout=_TOOL_TIMEOUT_SECONDS * 1000, trust=True)
    return [JsonMember(site.root / ".gemini/settings.json", ("mcpServers", SERVER), server)]


def _gemini_note(site: Site) -> str:
    trusted = says(site.file("user", ".gemini/trustedFolders.json"), str(site.root))
    off = says(site.file("user", ".gemini/settings.json"), "security", "folderTrust", "enabled") is False
    if off or trusted == "TRUST_FOLDER":
        return ""
    return "Gemini CLI connects to the server once this folder is trusted: start gemini here and say yes."


def _opencode_edits(site: Site) -> list[Edit]:
    file = _opencode_file(site)
    server = {
        "type": "local",
        "command": site.server_command,
        "environment": {"TANDEM_AGENT": "opencode"},
        "timeout": _TOOL_TIMEOUT_SECONDS * 1000,
    }
    edits: list[Edit] = [JsonMember(file, ("mcp", SERVER), server)]
    if says(file, "$schema") in {None, _OPENCODE_SCHEMA}:
        # It writes one into a file that has none.
        edits.insert(0, JsonMember(file, ("$schema",), _OPENCODE_SCHEMA))
    if isinstance(says(file, "permission"), dict):
        # Tools run unasked unless there are rules.
        edits.append(JsonMember(file, ("permission", f"{SERVER}_*"), "allow"))
    return edits


def _opencode_note(site: Site) -> str:
    rule = says(_opencode_file(site), "permission")
    if not isinstance(rule, str) or rule == "allow":
        return ""
    note = f"OpenCode asks before it uses a tool ('permission' is '{rule}' in {_opencode_file(site).name}): to let it"
    return f'{note} use ours, write it as {{"*": "{rule}", "{SERVER}_*": "allow"}}.'


def _opencode_file(site: Site) -> Path:
    with_comments = site.root / "opencode.jsonc"
    return with_comments if with_comments.exists() else site.root / "opencode.json"


def _cursor_edits(site: Site) -> list[Edit]:
    permissions = site.root / ".cursor/cli.json"
    return [
        JsonMember(site.root / ".cursor/mcp.json", ("mcpServers", SERVER), site.server("cursor")),
        JsonItems(permissions, ("permissions", "allow"), (f"Mcp({SERVER}:*)",)),
        # The program refuses a file that has the one list without the other.
        JsonItems(permissions, ("permissions", "deny"), ()),
    ]


def _cursor_note(_: Site) -> str:
    # Cursor keeps its approvals where no other program can look.
    note = f"Cursor asks before it starts a project's server: enable {SERVER} in its settings under MCP, or with"
    return f"{note} 'cursor-agent mcp enable {SERVER}'. Its editor keeps a list of its own of what runs unasked."


CLIENTS: Final = (
    AgentClient("claude", "Claude Code", ("claude",), _claude_edits, _claude_note),
    AgentClient("codex", "Codex", ("codex",), _codex_edits, _codex_note),
    AgentClient("gemini", "Gemini CLI", ("gemini",), _gemini_edits, _gemini_note),
    AgentClient("opencode", "OpenCode", ("opencode",), _opencode_edits, _opencode_note),
    AgentClient("cursor", "Cursor", ("cursor-agent", "cursor"), _cursor_edits, _cursor_note),
)
NAMES: Final = teaching.CLIENTS


@dataclass(frozen=True, slots=True)
class FoundClient:
    """A client, and what of it is installed.

    Attributes:
        client: The client.
        program: Where its program is on PATH; None if it is not.
        folder: Its configuration folder; None if there is none.
    """

    client: AgentClient
    program: str | None
    folder: str | None

    @property
    def is_installed(self) -> bool:
        """Whether there is a trace of it."""
        return self.program is not None or self.folder is not None


def find_clients(site: Site) -> list[FoundClient]:
    """All clients, and what of them is there."""
    path = site.environment.get("PATH")
    found: list[FoundClient] = []
    for client in CLIENTS:
        programs = (shutil.which(program, path=path) for program in client.programs)
        folder = site.file("user", teaching.folder_of(client.name))
        program = next(filter(None, programs), None)
        found.append(FoundClient(client, program, str(folder) if folder.is_dir() else None))
    return found


def refuse_unknown(names: Iterable[str]) -> None:
    """Refuse names that no client has.

    Raises:
        InvalidInput: There is one.
    """
    for name in names:
        if name not in NAMES:
            raise InvalidInput(
                f"There is no client {name!r}; choose from {', '.join(NAMES)}.", field="client", allowed=list(NAMES)
            )


@dataclass
class ClientSetup:
    """What clients need.

    Attributes:
        project: Edits of files of the project.
        user: Edits of files of the user's own.
        notes: What a person has to know or do.
        hook_notes: The same about the agents' hooks, when they are new.
    """

    project: list[Edit] = field(default_factory=list[Edit])
    user: list[Edit] = field(default_factory=list[Edit])
    notes: list[str] = field(default_factory=list[str])
    hook_notes: list[str] = field(default_factory=list[str])


def setup_for(clients: Iterable[AgentClient], site: Site, *, gate: bool) -> ClientSetup:
    """Everything that these clients need; with the gate also the agents' hooks, which refuse early.

    Raises:
        ConfigInvalid: A file that decides what to write cannot be read.
    """
    setup = ClientSetup()
    by_scope = {"project": setup.project, "user": setup.user}
    for client in clients:
        setup.project += client.edits(site)
        block = MarkedBlock(_block_file(client, site), BLOCK, teaching.block())
        if block not in setup.project:
            setup.project.append(block)
        for file in teaching.files(client.name):
            by_scope[file.scope].append(WholeFile(site.file(file.scope, file.path), file.text))
        setup.notes += filter(None, [client.note(site)])
        if gate:
            command = (*site.program.words, "hook")
            for entry in teaching.hooks(client.name, command):
                by_scope[entry.scope].append(JsonItems(site.file(entry.scope, entry.path), entry.keys, entry.items))
            if (plugin := teaching.plugin(client.name, command)) is not None:
                by_scope[plugin.scope].append(WholeFile(site.file(plugin.scope, plugin.path), plugin.text))
            setup.hook_notes += teaching.notes(client.name)
    return setup


def _block_file(client: AgentClient, site: Site) -> Path:
    """The file for the block: AGENTS.md where the client's own file imports that one, or it would be read twice."""
    own, shared = site.root / teaching.block_file(client.name), site.root / teaching.SHARED_FILE
    return shared if own != shared and _IMPORTS_SHARED.search(content_of(own) or b"") else own


def says(file: Path, *keys: str) -> Any:
    """What a client's own file says at a place; None if there is no such file or place, or it cannot be read."""
    try:
        content = file.read_bytes()
        if file.suffix == ".toml":
            found: Any = tomllib.loads(content.decode("utf-8-sig"))
        else:
            root = JsonText(file, content).root
            found = None if root is None else root.value
    except (OSError, ValueError, ConfigInvalid):
        return None
    return at(found, keys)


def _toml(value: str) -> str:
    """A text as TOML: written as in JSON, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def home_folder() -> Path:
    """The user's home folder.

    Raises:
        ConfigInvalid: HOME is not set, and the system has no entry for this user that would say it.
    """
    try:
        return Path.home()
    except RuntimeError as error:
        raise ConfigInvalid(
            "HOME is not set, and this system knows no home folder of this user: neither git, nor agents, nor Tandem"
            " find settings and data.",
            setting="HOME",
        ) from error


def find_program(environment: Mapping[str, str]) -> Program:
    """`tandem` if PATH has it and it is ours, on Windows as well; else this interpreter with `-m tandem`.

    Args:
        environment: The user's variables.
    """
    found = shutil.which("tandem", path=environment.get("PATH"))
    if found is not None and _is_ours(found):
        virtual = environment.get("VIRTUAL_ENV")
        if virtual and Path(found).is_relative_to(virtual):
            note = f"tandem is on PATH only while the virtual environment {virtual} is active: start the agents from"
            return Program(("tandem",), (f"{note} there, or install tandem for the user too (pipx or uv tool).",))
        line = unseen_in_login_shells(found, environment)
        note = f"Login shells, such as those of Codex's commands, do not find tandem. So that they do: {line}"
        return Program(("tandem",), (note,) if line else ())
    why = "tandem is not on PATH" if found is None else f"the tandem on PATH ({found}) is another program"
    note = (
        f"{why}, so the files name this machine's {sys.executable}. Before you share them: install tandem so that it is"
        " on PATH (pipx or uv tool), and run 'tandem init' again."
    )
    # -P, else Python would import modules that stand in the repository that it is started in.
    return Program((sys.executable, "-P", "-m", "tandem"), (note,))


def _is_ours(found: str) -> bool:
    if Path(found).parent == Path(sys.executable).parent:
        return True
    try:
        return version_of(found).startswith("tandem ")
    except (OSError, subprocess.SubprocessError):
        return False


def version_of(program: str, seconds: float = _ANSWER_SECONDS) -> str:
    """What a program says of its version.

    Raises:
        OSError: It cannot be started.
        SubprocessError: It does not end.
    """
    return run_program([program, "--version"], seconds).stdout.decode("utf-8", "replace")
