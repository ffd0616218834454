"""What every question about one repository is answered with."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tandem.core.stand_ins import Closing
from tandem.errors import InvalidInput, Unavailable
from tandem.git.changes import Entry
from tandem.git.layout import Layout, Scratch, fetching, layout_at, neutral_folder
from tandem.git.objects import GitObject, ObjectReader
from tandem.git.place import branch_tip, head_commit
from tandem.git.raw import GITLINK, decode_path
from tandem.git.runner import Git, Output

_HEAD = "HEAD"
_HEADS = "refs/heads/"
_UNUSABLE = ("\n", "\r", "\0")
_HEX = re.compile(r"[0-9a-f]+")
# What references say (a branch, a tag, an entry of a log), and the way from there through objects.
_EXPRESSION = re.compile(r"((?:@\{[^}]*\}|[^~^:])*)(.*)")
_ASK = ("rev-parse", "--verify", "--end-of-options")
_ANSWERS = (0, 1, 128)
_NO_WORDS = ("", "Needed a single revision")


@dataclass(frozen=True, slots=True)
class Base:
    """A tree that changes are made against.

    Attributes:
        oid: Id of the commit, or of the tree when no commit was named.
        tree: Id of the tree.
        stated: Id of the commit that this one stands for, where only some of its files are known.
    """

    oid: str
    tree: str
    stated: str | None = None

    @property
    def name(self) -> str:
        """Id of what the change was made against."""
        return self.stated or self.oid


class Handle(Closing):
    """One repository, which is read when it is first asked something.

    Attributes:
        root: Top level of the work tree, or the common git folder of one that has none.
        git: The program.
        bases: All that is known of it, where it was made of the files of some bases; None for a whole repository.
    """

    def __init__(self, root: Path, git: Git | None = None) -> None:
        self.root = root
        self.git = git or Git()
        self.bases: Mapping[str, Base] | None = None
        self._lock = threading.Lock()
        self._opened: tuple[Layout, ObjectReader] | None = None

    def close(self) -> None:
        """Ends the processes kept for this repository; it may still be used, and closed again."""
        if self._opened is not None:
            self._opened[1].close()

    @property
    def layout(self) -> Layout:
        """The repository's folders."""
        return self._open()[0]

    @property
    def objects(self) -> ObjectReader:
        """Its commits and trees."""
        return self._open()[1]

    def _open(self) -> tuple[Layout, ObjectReader]:
        with self._lock:
            if self._opened is None:
                layout = self._found_layout()
                self._opened = layout, ObjectReader(self.git, layout)
            return self._opened

    def _found_layout(self) -> Layout:
        if not self.root.is_dir():
            raise Unavailable(
                f"The repository at {self.root} is no longer there; restore it. If it was moved, or that was one of its"
                " working trees, run `tandem project move` where it is now.",
                path=str(self.root),
            )
        layout = layout_at(self.git, self.root)
        if not layout.root.samefile(self.root):
            raise InvalidInput(
                f"{self.root} is not the top of its repository; use {layout.root}.",
                field="root",
                expected=str(layout.root),
            )
        return layout

    def scratch(self, *, large: bool = False) -> Scratch:
        """A private repository over the objects of this one; see `Scratch`."""
        return Scratch(self.git, self.layout, large=large)

    def ensure_fits(self, entries: Iterable[Entry], more_bytes: int = 0) -> None:
        """Checks, before git takes up any of it, that it is not asked to hold too much at once.

        Args:
            entries: Files before the change; one counts as often as it comes, because git holds it as often.
            more_bytes: Size of other content.

        Raises:
            TooLarge: It is.
        """
        if self.git.limits is None:
            return
        oids = [entry.oid for entry in entries if entry.mode != GITLINK]
        sizes = self.objects.sizes(oids)
        actual = more_bytes + sum(sizes.get(oid, 0) for oid in oids)
        if actual > self.git.limits.content_bytes:
            raise self.git.limits.exceeded(actual)

    def base(self, name: str | None, field: str = "base") -> Base:
        """The commit or tree that a name stands for; HEAD without a name, the empty tree before the first commit.

        Raises:
            InvalidInput: There is no such commit or tree; `field` says which argument named it.
            Unavailable: The repository is gone or damaged.
        """
        self.layout.ensure_present()
        if self.bases is not None:
            return self._known(name, field)
        revision = name or _HEAD
        if any(letter in revision for letter in _UNUSABLE):
            raise InvalidInput(f"The {field} has a line break or a NUL byte; name one commit.", field=field)
        oid, words = self.resolve(revision)
        commit = self._find(oid, "commit")
        if commit is not None:
            # A commit begins with `tree <id>`.
            return Base(commit.oid, commit.content[5 : 5 + 2 * self.layout.objects.size_bytes].decode("ascii"))
        if revision == _HEAD:
            return self._unborn(oid, field)
        tree = self._find(oid, "tree")
        if tree is None and self._is_id(revision):
            raise InvalidInput(
                f"The {field} {revision} is not in the repository at {self.layout.root}: it was never fetched, or git"
                f" has removed it. {fetching(self.git, self.layout.root, revision)}",
                field=field,
                actual=revision,
            )
        if tree is None:
            reason = f"; git says: {words}" if words not in _NO_WORDS else ""
            raise InvalidInput(
                f"{revision!r} is no commit or tree of the repository at {self.layout.root}{reason}. Name one that is.",
                field=field,
                actual=revision,
            )
        return Base(tree.oid, tree.oid)

    def ensure_there(self, entries: Mapping[bytes, Entry]) -> None:
        """Checks that the contents of files are here, as they need not be in a partial clone.

        Raises:
            Unavailable: One is not; names it and the command that brings it.
        """
        named = {entry.oid: path for path, entry in entries.items() if entry.mode != GITLINK}
        missing = named.keys() - self.objects.sizes(named)
        if missing:
            oid = min(missing, key=named.__getitem__)
            raise Unavailable(
                f"The repository at {self.layout.root} lacks the content of {decode_path(named[oid])} before the"
                f" change, as a partial clone does. {fetching(self.git, self.layout.root, oid)}",
                path=decode_path(named[oid]),
                actual=oid,
            )

    def _known(self, name: str | None, field: str) -> Base:
        found = (self.bases or {}).get(name or "")
        if found is None:
            raise InvalidInput(f"Of {name or _HEAD!r} no files are known here.", field=field, actual=name)
        return found

    def _find(self, oid: str | None, kind: str) -> GitObject | None:
        """What an id comes to as a commit or a tree. No client's expression gets to the process that stays."""
        return None if oid is None else self.objects.find([f"{oid}^{{{kind}}}".encode("ascii")])[0]

    def resolve(self, revision: str) -> tuple[str | None, str]:
        """Id of the object that a revision names; None if it names nothing, with git's reason.

        Only its start is looked up in the repository, where git reads references, and no object. The way from there,
        such as `~3`, leads through objects, and is gone without the repository's configuration.

        Raises:
            Unavailable: The repository cannot be read.
        """
        parts = _EXPRESSION.fullmatch(revision)
        start, way = parts.groups() if parts else ("", "")
        oid, words = (start, "") if self._is_id(start) else self._named(start)
        if oid is None or not way:
            return oid, words
        with self.scratch() as scratch:
            return self._answer(scratch.run([*_ASK, oid + way], accept=_ANSWERS))

    def tip(self, branch: str) -> str | None:
        """Id of a branch's newest commit; of the checked-out commit, for `HEAD`; None if there is no such branch.

        Raises:
            Unavailable: The repository cannot be read.
        """
        if branch == _HEAD:
            return self.resolve(_HEAD)[0]
        return branch_tip(str(self.layout.common_dir), _HEADS + branch) or self.resolve(_HEADS + branch)[0]

    def tips(self, branches: Iterable[str]) -> dict[str, str]:
        """Ids of the newest commits of those branches that there are; `HEAD` is the checked-out commit."""
        return {name: tip for name in branches if (tip := self.tip(name)) is not None}

    def branches_with(self, commit: str) -> list[str]:
        """The branches that have a commit; none if it is no longer there."""
        asked = ["for-each-ref", "--format=%(refname:lstrip=2)", f"--contains={commit}", "refs/heads"]
        return self._run(asked, accept=(0, 1, 128, 129)).text.splitlines()

    def _named(self, name: str) -> tuple[str | None, str]:
        oid = head_commit(str(self.layout.git_dir), str(self.layout.common_dir)) if name == _HEAD else None
        if oid is not None:
            return oid, ""
        output = self._run([*_ASK, name], accept=_ANSWERS)
        if output.status_code:
            # Of a repository that cannot be used at all git says so again.
            self._run(["rev-parse", "--git-dir"])
        return self._answer(output)

    def _is_id(self, text: str) -> bool:
        return len(text) == 2 * self.layout.objects.size_bytes and _HEX.fullmatch(text) is not None

    def _answer(self, output: Output) -> tuple[str | None, str]:
        said = output.stdout.decode("ascii", "replace").strip()
        return (said if self._is_id(said) else None), output.words.removeprefix("fatal: ")

    def _run(self, arguments: Sequence[str], accept: Sequence[int] = (0,)) -> Output:
        """Git in the repository itself, for what only its references say."""
        environment = self.layout.environment(isolated=True)
        return self.git.run(arguments, cwd=neutral_folder(), environment=environment, accept=accept)

    def _unborn(self, oid: str | None, field: str) -> Base:
        """The empty tree, if HEAD is a branch without a commit."""
        if oid is not None:
            raise Unavailable(f"HEAD of the repository at {self.layout.root} cannot be read; run `git fsck`.")
        if self._run(["symbolic-ref", "--quiet", _HEAD], accept=(0, 1)).status_code != 0:
            raise InvalidInput(f"HEAD of the repository at {self.layout.root} is no commit.", field=field)
        empty = self.layout.objects.empty_tree
        return Base(empty, empty)
