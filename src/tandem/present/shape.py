"""How people see the fields of an answer: each has a label and a kind, declared beside its description.

`Annotated[str, Field(description="…"), Shown("money", label="spent")]` says both; without it, label and kind come from
the field's name and type. `make docs` writes those of all answers into `shapes`, so that no renderer has to import the
answers: they read the data as records, of which `facts` makes rows for the terminal, the pages and the exports.

    text, block         words; words of several lines
    name                a name of the contract, such as a kind of event, which pages show with blanks
    state, flag         a state's name; yes or no
    time, duration      ISO 8601 in UTC; seconds
    count, number       whole; with a fraction
    money, percent      US dollars; a rate from 0 to 1
    size                bytes
    person, review      the name of who did something; the id of a review
    path, id            a path; a digest, a commit or another id
    words, counts, json several texts; numbers by their names; any other object
    details, given      an object whose entries are facts: ours, by their names and values; those that others named
    record, table       another answer; several, one a row
    copied              a key or the like, which is never broken, so that it can be copied
    files, diff         the files of a change; a unified diff
    step                the next step, with operations, for which the terminal has commands
    hidden              nothing for people, such as a cursor
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `text`
if TYPE_CHECKING:
    from typing import Any, Final

OF_NUMBERS: Final = frozenset({"duration", "money", "percent", "size"})
"""Kinds that a number can have by its name."""
_BELOW: Final = frozenset({"table", "files", "diff"})
_LONG: Final = frozenset({"block", "json", "hidden", "copied", "step", "details", "given"})
_SHORT: Final = frozenset(
    {"text", "name", "state", "flag", "time", "count", "number", "person", "review", "path", "id"}
)
KINDS: Final = OF_NUMBERS | _BELOW | _LONG | _SHORT | {"words", "counts", "record"}
IN_TABLES: Final = KINDS - _BELOW - _LONG
"""Kinds that have room in a row of a table."""
NEVER_BROKEN: Final = frozenset(
    {"name", "state", "flag", "time", "duration", "count", "money", "percent", "review", "id"}
)
"""Kinds that stay in one line."""

_BY_NAME: Final = {
    "status": "state",
    "state": "state",
    "verdict": "state",
    "at": "time",
    "since": "time",
    "until": "time",
    "actor": "person",
    "author": "person",
    "person": "person",
    "who": "person",
    "submitter": "person",
    "proposer_id": "person",
    "reviewer_id": "person",
    "review": "review",
    "review_id": "review",
    "parent_id": "review",
    "path": "path",
    "file": "path",
    "folder": "path",
    "root": "path",
    "digest": "id",
    "commit": "id",
    "diff": "diff",
    "interdiff": "diff",
    "description": "block",
    "body": "block",
    "affected_files": "files",
    "seconds": "duration",
    "cursor": "hidden",
    "changed": "hidden",
    "next_action": "hidden",
    "next_page": "hidden",
}
_BY_ENDING: Final = {
    "_at": "time",
    "_until": "time",
    "_since": "time",
    "_by": "person",
    "_id": "id",
    "_hash": "id",
    "_commit": "id",
    "_usd": "money",
    "_rate": "percent",
    "_seconds": "duration",
    "_s": "duration",
    "_bytes": "size",
    "_token": "copied",
}
_LEFT_OUT_OF_LABELS: Final = ("_at", "_id", "_usd", "_seconds", "_s", "_bytes")


class Shown:
    """How people see a field; a part of its `Annotated` type that validation ignores.

    Attributes:
        kind: One of `KINDS`; empty for that of its name and type.
        label: Its name for people; empty for its name with blanks.
        empty: The words for an empty value: in its place, or in place of a list's rows.
    """

    __slots__ = ("empty", "kind", "label")

    def __init__(self, kind: str = "", *, label: str = "", empty: str = "") -> None:
        self.kind, self.label, self.empty = kind, label, empty


class ShownField:
    """One field of an answer, as people see it.

    Attributes:
        name: Its name in the contract.
        label: Its name for people.
        kind: One of `KINDS`.
        inner: The type of a record, or of a table's rows; else empty.
        empty: The words for an empty value; may be empty.
    """

    __slots__ = ("empty", "inner", "kind", "label", "name")

    def __init__(self, name: str, label: str, kind: str, inner: str = "", empty: str = "") -> None:
        self.name, self.label, self.kind, self.inner, self.empty = name, label, kind, inner, empty


def label_of(name: str) -> str:
    """What a field is called that does not say it."""
    ending = next((one for one in _LEFT_OUT_OF_LABELS if name.endswith(one)), "")
    return name.removesuffix(ending).replace("_", " ")


def kind_of(name: str) -> str | None:
    """The kind of a text or number of that name; None if its name tells none."""
    known = _BY_NAME.get(name)
    return known or next((kind for ending, kind in _BY_ENDING.items() if name.endswith(ending)), None)


class Record(dict[str, "Any"]):
    """A JSON object whose fields are attributes; None for one that it lacks, as types share renderers.

    Objects in it are records, too, and lists are tuples.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        # Before the methods of a dictionary: an answer may call a field `keys`.
        if super().__contains__(name):
            return super().__getitem__(name)
        try:
            return super().__getattribute__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            return None


def record(value: Any) -> Any:
    """JSON values with their objects as records."""
    if isinstance(value, dict):
        return Record((name, record(value[name])) for name in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any JSON value
    if isinstance(value, list):
        return tuple(record(inner) for inner in value)  # pyright: ignore[reportUnknownVariableType] any JSON value
    return value
