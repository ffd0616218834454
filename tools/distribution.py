"""What hatchling asks for when it builds: the version, from git's tags, and the README, with whole addresses.

The newest tag behind the commit, `v1.2.3`, is the version; commits after it are on the way to the next one:
`1.2.4.dev7+g1a2b3c4`. Where there are no tags, the newest version of CHANGELOG.md stands for them. An sdist has both
written down, and hatchling takes them from there.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parent.parent
_RELEASED = re.compile(r"(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$")
_DESCRIBED = re.compile(r"v(?P<tag>\d+\.\d+\.\d+)-(?P<commits>\d+)-(?P<commit>g[0-9a-f]+)")
_TARGET = re.compile(
    r"(?P<image>!?)(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<path>[^()\s#:]+)(?P<fragment>#[^()\s]*)?\)"
)


class Readme(MetadataHookInterface):
    """Gives the project its description, as an index of packages shows it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the facts of the project."""
        text, repository = (ROOT / "README.md").read_text("utf-8"), metadata["urls"]["Repository"]
        page = with_addresses(text, repository, f"v{released()[0]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


def released() -> list[str]:
    """The versions of the changelog, newest first."""
    return _RELEASED.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))


def server_name(repository: str) -> str:
    """The name of the MCP server in the MCP registry, which follows from the repository's address."""
    owner, name = repository.rsplit("/", 2)[-2:]
    return f"io.github.{owner}/{name}"


def version() -> str:
    """What git says of this checkout, or the changelog."""
    if described := _DESCRIBED.fullmatch(_git("describe", "--tags", "--long", "--match", "v[0-9]*")):
        tag, commits, commit = described["tag"], int(described["commits"]), described["commit"]
        return f"{_next(tag)}.dev{commits}+{commit}" if commits else tag
    commit = _git("rev-parse", "--short", "HEAD")
    return f"{_next(released()[0])}.dev0" + (f"+g{commit}" if commit else "")


def _next(tag: str) -> str:
    numbers, _, last = tag.rpartition(".")
    return f"{numbers}.{int(last) + 1}"


def _git(*arguments: str) -> str:
    """What git answers of exactly this folder; nothing without a repository, a commit or git."""
    if not (ROOT / ".git").exists():
        return ""
    # A hook around the build must not name another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def with_addresses(text: str, repository: str, revision: str) -> str:
    """A Markdown text whose links and images into the repository are whole addresses."""

    def whole(found: re.Match[str]) -> str:
        kind = "raw" if found["image"] else "blob"
        address = f"{repository}/{kind}/{revision}/{found['path']}{found['fragment'] or ''}"
        return f"{found['image']}{found['text']}({address})"

    return _TARGET.sub(whole, text)
