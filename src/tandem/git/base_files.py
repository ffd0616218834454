"""The files that a change touches, as its base has them: all that a broker without the repository needs to apply it.

A client with the repository reads them from git objects, never from the working tree; the other side makes a repository
of its own from them, for one question. A path is only ever a name in git's trees there, and a link its text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tandem.errors import InvalidInput, TooLarge
from tandem.git.changes import FORMATS, ObjectFormat
from tandem.git.handle import Base, Handle
from tandem.git.hunks import read_patches
from tandem.git.layout import IMPORTING, Layout, imported_commit, neutral_folder
from tandem.git.objects import ObjectReader
from tandem.git.raw import EXECUTABLE, GITLINK, REGULAR, SYMLINK, decode_path, encode_path, quote, unsafe_reason
from tandem.git.rounds import read_blobs
from tandem.git.runner import Git, clean_environment, make_git_folder
from tandem.git.validation import encoded, repaired

FIELD = "base_files"
LIMIT_BYTES = 10_000_000
"""Of the contents together; more than any client sends, and than a broker takes by default."""
MOST_FILES = 2_000

_MODES = frozenset({REGULAR, EXECUTABLE, SYMLINK, GITLINK})
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FORMAT_OF = {2 * one.size_bytes: one for one in FORMATS.values()}


class BaseFile(NamedTuple):
    """One path at the base.

    Attributes:
        path: From the repository's root.
        mode: Git's mode: of a file, a link or a submodule.
        blob: Id of its content; of a submodule, its commit.
        content: What a file holds, or a link says; empty for a submodule.
    """

    path: str
    mode: str
    blob: str
    content: bytes

    def as_json(self) -> dict[str, str]:
        """As it travels and is kept."""
        return {**self._asdict(), "content": base64.b64encode(self.content).decode("ascii")}


def touched(diff: str | None, path: str | None) -> set[bytes]:
    """The paths that a proposal names: those of its diff, or the file that its text is.

    Raises:
        InvalidDiff: The diff is no text that git could read.
    """
    if diff is None:
        return set() if path is None else {encode_path(path)}
    return {name for patch in read_patches(encoded(repaired(diff))) for name in (patch.old, patch.new) if name}


def read(handle: Handle, diff: str | None, path: str | None, base: str | None) -> tuple[str, list[BaseFile]]:
    """Id of the base, and the files there that a change touches: what a broker without the repository needs.

    Args:
        handle: The repository.
        diff: The change.
        path: The file that a text is the whole content of, where there is no diff.
        base: What the change is against; HEAD by default.

    Raises:
        InvalidDiff: The diff is none.
        InvalidInput: `base` names nothing.
        TooLarge: They are too many, or too large.
    """
    found = handle.base(base)
    names = sorted(touched(diff, path))
    entries = handle.objects.entries(found.tree, names).entries
    blobs = {entry.oid for entry in entries.values() if entry.mode != GITLINK}
    ensure_within(len(entries), sum(handle.objects.sizes(blobs).values()))
    with handle.scratch() as scratch:
        contents = read_blobs(scratch, blobs)
    return found.name, [
        BaseFile(decode_path(name), mode, oid, b"" if mode == GITLINK else contents[oid] or b"")
        for name, (mode, oid) in entries.items()
    ]


def ensure_within(count: int, size: int, limit: int = LIMIT_BYTES) -> None:
    """Checks that files are not too many, or too large.

    Raises:
        TooLarge: They are.
    """
    for actual, most, what in ((count, MOST_FILES, "files"), (size, limit, "bytes at their base")):
        if actual > most:
            raise TooLarge(
                f"The change touches {actual} {what}; {most} can be sent to a broker without the repository. Submit it"
                " in parts, or push the base, and have the broker keep a mirror: tandem project add --mirror URL",
                field=FIELD,
                limit=most,
                actual=actual,
            )


def parse(sent: Sequence[Mapping[str, Any]], limit: int = LIMIT_BYTES) -> list[BaseFile]:
    """Files as they came from somebody else; each content is what its id says.

    Raises:
        InvalidInput: One is no file of a repository, comes twice, or has another content than its id says.
        TooLarge: They are too many, or too large.
    """
    ensure_within(len(sent), sum(len(one["content"]) for one in sent) * 3 // 4, limit)
    found = {one["path"]: _parsed(one) for one in sent}
    if len(found) != len(sent):
        raise InvalidInput("Every path may come once.", field=FIELD)
    for path in found:
        parts = path.split("/")
        if any("/".join(parts[:depth]) in found for depth in range(1, len(parts))):
            raise _refused(path, "lies below another file")
    return list(found.values())


def _parsed(sent: Mapping[str, Any]) -> BaseFile:
    path, mode, blob = sent["path"], sent["mode"], sent["blob"]
    reason = unsafe_reason(path)
    if reason is not None:
        raise _refused(path, reason)
    if mode not in _MODES or not _ID.fullmatch(blob):
        raise _refused(path, f"has a mode or an id that git does not know: {mode} {blob[:64]}")
    try:
        content = base64.b64decode(sent["content"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refused(path, "has a content that is not base64") from error
    if content if mode == GITLINK else format_of(blob).object_id("blob", content) != blob:
        raise _refused(path, f"has another content than its id {blob} says")
    return BaseFile(path, mode, blob, content)


def _refused(path: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"{path!r} in {FIELD} {reason}. Send what `git ls-tree` and `git cat-file` say of it at the base, as tandem"
        " submit and tandem mcp do.",
        field=FIELD,
        path=path,
    )


def is_name(base: str) -> bool:
    """Whether a base is no whole id, so that it may name another commit later."""
    return _ID.fullmatch(base) is None


def format_of(oid: str) -> ObjectFormat:
    """How a repository names its objects in which something has this id.

    Raises:
        InvalidInput: It is no whole id.
    """
    if not _ID.fullmatch(oid):
        raise InvalidInput(
            f"With {FIELD}, base has to be the whole id of a commit: git rev-parse HEAD", field="base", actual=oid
        )
    return _FORMAT_OF[len(oid)]


def opened(
    git: Git, bases: Mapping[str, Iterable[BaseFile]], folder: Path
) -> tuple[tuple[Layout, ObjectReader], dict[str, Base]]:
    """A repository made of such files alone, and a stand-in commit in it for each base.

    Args:
        git: The program.
        bases: The files of each base, by the base's id.
        folder: Empty, and used by no one else.

    Raises:
        InvalidInput: The ids are of different kinds.
    """
    formats = {format_of(base) for base in bases} | {format_of(one.blob) for files in bases.values() for one in files}
    if len(formats) != 1:
        raise InvalidInput("The ids of base and files are of different lengths.", field=FIELD)
    layout = Layout(folder / "none", folder, folder, formats.pop())
    make_git_folder(str(folder), layout.objects.name)
    environment = clean_environment(
        {"GIT_DIR": str(folder), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}, isolated=True
    )
    message = "The files that the change touches, as they are at {}"
    stream = b"".join(
        imported_commit(number, b"0 +0000", message.format(base), map(_imported, files))
        for number, (base, files) in enumerate(bases.items(), 1)
    )
    said = git.run(IMPORTING, cwd=neutral_folder(), environment=environment, stdin=stream)
    objects = ObjectReader(git, layout)
    made = dict(zip(bases, said.text.split(), strict=True))
    trees = objects.find([f"{commit}^{{tree}}".encode("ascii") for commit in made.values()])
    stand_ins = {
        base: Base(commit, tree.oid, stated=base)
        for (base, commit), tree in zip(made.items(), trees, strict=True)
        if tree is not None
    }
    return (layout, objects), stand_ins


def _imported(file: BaseFile) -> bytes:
    name = quote(encode_path(file.path))
    if file.mode == GITLINK:
        return b"M %s %s %s" % (file.mode.encode(), file.blob.encode(), name)
    return b"M %s inline %s\ndata %d\n%s" % (file.mode.encode(), name, len(file.content), file.content)
