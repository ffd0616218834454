"""What every question about one repository is answered with."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.errors import InvalidInput, Unavailable
from tandem.git.batch import GitObject
from tandem.git.layout import Layout, neutral_folder
from tandem.git.objects import ObjectReader
from tandem.git.runner import Git

_HEAD = "HEAD"
_UNUSABLE = ("\n", "\r", "\0")


@dataclass(frozen=True, slots=True)
class Base:
    """A tree that changes are made against.

    Attributes:
        oid: Id of the commit, or of the tree when no commit was named.
        tree: Id of the tree.
    """

    oid: str
    tree: str


@dataclass(frozen=True, slots=True)
class Handle:
    """One repository, ready to be asked.

    Attributes:
        git: The program.
        layout: The repository's folders.
        objects: Its commits and trees.
    """

    git: Git
    layout: Layout
    objects: ObjectReader

    def base(self, name: str | None, field: str = "base") -> Base:
        """The commit or tree that a name stands for; HEAD without a name, the empty tree before the first commit.

        Raises:
            InvalidInput: There is no such commit or tree; `field` says which argument named it.
            Unavailable: The repository is gone or damaged.
        """
        self.layout.ensure_present()
        revision = name or _HEAD
        commit = self._find(f"{revision}^{{commit}}", field)
        if commit is not None:
            # A commit begins with `tree <id>`.
            return Base(commit.oid, commit.content[5 : 5 + 2 * self.layout.objects.size_bytes].decode("ascii"))
        if revision == _HEAD:
            return self._unborn(field)
        tree = self._find(f"{revision}^{{tree}}", field)
        if tree is None:
            raise InvalidInput(
                f"{revision!r} is no commit or tree of the repository at {self.layout.root}; name one that is.",
                field=field,
                actual=revision,
            )
        return Base(tree.oid, tree.oid)

    def _find(self, name: str, field: str) -> GitObject | None:
        """One object by an expression; `cat-file` reads names from lines, so that none is ever an option."""
        if any(letter in name for letter in _UNUSABLE):
            raise InvalidInput(f"The {field} has a line break or a NUL byte; name one commit.", field=field)
        return self.objects.find([name.encode("utf-8", "surrogateescape")])[0]

    def _unborn(self, field: str) -> Base:
        """The empty tree, if HEAD is a branch without a commit."""
        known = self.git.run(
            ["rev-parse", "--quiet", "--verify", _HEAD],
            cwd=neutral_folder(),
            environment=self.layout.environment(),
            accept=(0, 1),
        )
        if known.status_code == 0:
            raise Unavailable(f"HEAD of the repository at {self.layout.root} cannot be read; run `git fsck`.")
        branch = self.git.run(
            ["symbolic-ref", "--quiet", _HEAD],
            cwd=neutral_folder(),
            environment=self.layout.environment(),
            accept=(0, 1),
        )
        if branch.status_code != 0:
            raise InvalidInput(f"HEAD of the repository at {self.layout.root} is no commit.", field=field)
        empty = self.layout.objects.empty_tree
        return Base(empty, empty)
