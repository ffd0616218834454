"""A folder whose files are edited, and its content."""

from __future__ import annotations

from pathlib import Path

from tandem.setup.edits import Edit, Manifest, install, plan
from tandem.setup.edits.edit import MarkedBlock, TomlTable, WholeFile
from tandem.setup.edits.json_edits import JsonItems, JsonMember

SERVER = {"command": "tandem", "args": ["mcp"]}
TABLE = '[mcp_servers.tandem]\ncommand = "tandem"\n'


class Tree:
    """A folder that is edited, with its manifest beside it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self.root.mkdir()
        self.file = folder / "state" / "installed.json"

    @property
    def manifest(self) -> Manifest:
        return Manifest.load(self.file, self.root)

    def write(self, name: str, content: bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def put(self, *edits: Edit, owner: str = "init") -> list[str]:
        """Install; returns the remarks."""
        planned = plan(edits, self.manifest, owner=owner)
        install(planned)
        return planned.remarks

    def take(self, owner: str = "init") -> list[str]:
        return self.put(owner=owner)

    def all(self) -> dict[str, bytes | None]:
        """Every file, folder and link."""
        found = {path.relative_to(self.root).as_posix(): path for path in sorted(self.root.rglob("*"))}
        return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}

    def times(self) -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in [*self.root.rglob("*"), self.file]}

    def of_every_kind(self, version: str = "1") -> list[Edit]:
        return [
            JsonMember(self.root / ".mcp.json", ("mcpServers", "tandem"), SERVER),
            JsonItems(self.root / ".claude/settings.json", ("permissions", "allow"), (f"mcp{version}",)),
            JsonItems(self.root / ".claude/settings.json", ("hooks", "PreToolUse"), ({"v": version},)),
            JsonItems(self.root / ".claude/settings.json", ("hooks", "SessionStart"), ({"same": True},)),
            TomlTable(self.root / ".codex/config.toml", ("mcp_servers", "tandem"), f"{TABLE}v = {version}\n"),
            MarkedBlock(self.root / "CLAUDE.md", "review", f"Text {version}."),
            WholeFile(self.root / ".claude/skills/x/SKILL.md", f"skill {version}\n"),
        ]
