"""What git itself makes of a merge: the tree of one that needed nobody's decision.

Computed in a git folder of our own over the repository's objects. In the repository itself its settings and
attributes would have a say, and a merge driver that somebody has set there could make any content look merged.
"""

from __future__ import annotations

import os
from typing import Self

from tandem.core.scratch import ScratchFolder
from tandem.hooks import git
from tandem.hooks.state import HookRepository

_SHA256_DIGITS = 64
_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tbare = true\n"
_EXTENSION = "[extensions]\n\tobjectFormat = sha256\n"
_CLEAN = 0


class Merges:
    """Merges of one repository's commits. Their folder is made for the first one, and gone after `close`."""

    def __init__(self, place: HookRepository) -> None:
        self._place = place
        self._folder: ScratchFolder | None = None
        self._trees: dict[tuple[str, str], str | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Tidy up; twice is safe."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def tree(self, ours: str, theirs: str) -> str | None:
        """The id of the merged tree; null if git alone cannot merge the two commits.

        Null as well for what a special merge (another strategy, a driver of the user's) would give: such a merge
        is reviewed as the change that it is.

        Raises:
            TandemError: Git does not answer.
        """
        if (ours, theirs) not in self._trees:
            self._trees[ours, theirs] = self._merged(ours, theirs)
        return self._trees[ours, theirs]

    def _merged(self, ours: str, theirs: str) -> str | None:
        folder = self._made(len(ours))
        # No driver has the name of a folder that was made just now: all files are merged as git does by itself.
        settings = {
            "merge.default": os.path.basename(folder),
            "core.attributesFile": os.devnull,
            "merge.renames": "true",
            "merge.directoryRenames": "conflict",
            "core.fsync": "none",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        arguments = [*options, "merge-tree", "--write-tree", "--no-messages", ours, theirs]
        # 128: no ancestor in common, or an object is missing; 129: a git without this command.
        done = git.run(HookRepository(folder, folder, None), arguments, accept=(0, 1, 128, 129))
        return done.text.split("\n", 1)[0] if done.status_code == _CLEAN else None

    def _made(self, digits: int) -> str:
        if self._folder is not None:
            return self._folder.name
        self._folder = ScratchFolder("merge")
        folder = self._folder.name
        is_sha256 = digits == _SHA256_DIGITS
        files = {
            "config": _CONFIG.format(version=int(is_sha256)) + (_EXTENSION if is_sha256 else ""),
            "HEAD": "ref: refs/heads/none\n",
            "objects/info/alternates": os.path.join(self._place.common_dir, "objects") + "\n",
        }
        os.makedirs(os.path.join(folder, "objects", "info"))
        os.mkdir(os.path.join(folder, "refs"))
        for name, text in files.items():
            path = os.path.join(folder, *name.split("/"))
            with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                file.write(text)
        return folder
