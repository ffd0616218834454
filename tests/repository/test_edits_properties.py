"""In any file, with any text of a person around our part: removing the part leaves the rest as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from tandem.errors import ConfigInvalid
from tandem.setup.edits import Edit, FileRecord, edited
from tandem.setup.edits.edit import MarkedBlock, TomlTable
from tandem.setup.edits.json_edits import JsonItems, JsonMember
from tests.repository.documents import jsonc, markdown, plain, tables, toml

BOM = b"\xef\xbb\xbf"
FILE = Path("/somewhere/file")
SERVER: dict[str, Any] = {"command": "tandem", "args": ["mcp"], "env": {}}
TABLE = '[mcp_servers.tandem]\ncommand = "tandem"\n\n[mcp_servers.tandem.env]\nA = "b"\n'

json_edits = st.sampled_from(
    [
        JsonMember(FILE, ("mcpServers", "tandem"), SERVER),
        JsonMember(FILE, ("top",), SERVER),
        JsonMember(FILE, ("a", "b", "c"), 1),
        JsonItems(FILE, ("permissions", "allow"), ("mcp__tandem__*",)),
        JsonItems(FILE, ("permissions", "allow"), (SERVER, {"other": [1]}, "a")),
        JsonItems(FILE, ("a",), ("one", "two")),
    ]
)
toml_edits = st.sampled_from(
    [TomlTable(FILE, ("mcp_servers", "tandem"), TABLE, above) for above in ((), ("# GSD",), ("[t", "[[l"))]
)
blocks = st.sampled_from(
    [MarkedBlock(FILE, "review", "Do this.\n\nAnd that.\n"), MarkedBlock(FILE, "review", "Do this.")]
)


def put_in(before: bytes | None, *edits: Edit) -> tuple[bytes, FileRecord]:
    """The file with our parts in it; examples in which a place is taken are left out."""
    try:
        after, record, remarks = edited(FILE, before, None, edits, "init")
    except ConfigInvalid:
        assume(False)
        raise
    assume(record is not None and len(record.edits) == len(edits) and not remarks)
    assert after is not None
    assert record is not None
    return after, record


def taken_out(content: bytes, record: FileRecord) -> bytes | None:
    return edited(FILE, content, record, [], "init")[0]


def is_there(edit: Edit, content: bytes) -> bool:
    return edit.put(content) == (content, "")


def expected(document: Any, edit: Edit) -> Any:
    """Returns the value of a JSON file with an edit in it."""
    document = {} if document is None else document
    inner = document
    if isinstance(edit, JsonMember):
        for key in edit.keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[edit.keys[-1]] = edit.value
    elif isinstance(edit, JsonItems):
        for key in edit.keys[:-1]:
            inner = inner.setdefault(key, {})
        items = inner.setdefault(edit.keys[-1], [])
        items += [item for item in edit.items if item not in items]
    return document


@given(jsonc() | st.none(), json_edits)
def test_json_comes_back_to_the_byte_and_says_what_was_asked(before: bytes | None, edit: Edit) -> None:
    after, record = put_in(before, edit)
    assert plain(after) == expected(plain(before), edit)
    assert is_there(edit, after)
    assert taken_out(after, record) == before


@given(jsonc() | st.none(), st.lists(json_edits, min_size=2, max_size=4, unique_by=repr))
def test_several_edits_of_one_file_come_back_to_the_byte(before: bytes | None, edits: list[Edit]) -> None:
    after, record = put_in(before, *edits)
    less, record = edited(FILE, after, record, edits[1:], "init")[:2]
    assert less is not None
    assert record is not None
    assert (less, len(record.edits)) == (put_in(before, *edits[1:])[0], len(edits) - 1)
    assert taken_out(less, record) == before


@given(toml() | st.none(), toml_edits)
def test_toml_comes_back_to_the_byte_and_says_what_was_asked(before: bytes | None, edit: TomlTable) -> None:
    after, record = put_in(before, edit)
    said = tables(after)
    assert said["mcp_servers"].pop("tandem") == {"command": "tandem", "env": {"A": "b"}}
    if not said["mcp_servers"] and "mcp_servers" not in tables(before):
        del said["mcp_servers"]
    assert said == tables(before)
    assert is_there(edit, after)
    assert taken_out(after, record) == before


@given(markdown() | st.none(), blocks)
def test_text_comes_back_to_the_byte(before: bytes | None, edit: MarkedBlock) -> None:
    after, record = put_in(before, edit)
    assert b"tandem:review begin" in after
    assert is_there(edit, after)
    assert taken_out(after, record) == before


SNIPPETS = [
    *(b" ", b"\n", b"\r\n\t", b"/* mine */", b"/**/", b"// mine\n"),
    *(b'"mine": 1,', b', "mine": 2', b"3,", b", 4", b",", b"*/", b"*/,", b"//", b"/*"),
]
TOP = JsonMember(FILE, ("top",), SERVER)


def changed_alike(
    content: bytes, other: bytes, place: int, snippet: bytes, understood: Callable[[bytes], Any]
) -> tuple[bytes, bytes]:
    """The same change by a person in the file with our part and in the one without, where both stay readable."""
    common_start = next((n for n, (x, y) in enumerate(zip(content, other, strict=False)) if x != y), len(other))
    common_end = next(
        (n for n, (x, y) in enumerate(zip(reversed(content), reversed(other), strict=False)) if x != y), len(other)
    )
    if place < min(common_start, len(other) - common_end):
        mine, theirs = content[:place] + snippet + content[place:], other[:place] + snippet + other[place:]
    else:
        behind = len(other) - place
        assume(behind < common_end and behind < len(other) - common_start)
        at = len(content) - behind
        mine, theirs = content[:at] + snippet + content[at:], other[:place] + snippet + other[place:]
    assume(understood(mine) is not None and understood(theirs) is not None)
    return mine, theirs


@given(jsonc(), json_edits, st.integers(0, 10_000), st.sampled_from(SNIPPETS))
# A line break in a comment makes a comma or a member of the rest of it, behind ours.
@example('{"é b":{}\n\n    // b ,\n}'.encode(), TOP, 21, b"\n")
@example(b'{"a":[1\n// b ,\n]}', JsonItems(FILE, ("a",), ("one", "two")), 13, b"\n")
@example(b'{"a":1\n  // one , "b": 2\n}', TOP, 16, b"// mine\n")
# The member before ours becomes a comment, and our comma with it.
@example(b'{"a":1 // x\n// b ,\n}', TOP, 1, b"//")
def test_what_a_person_wrote_elsewhere_in_json_stays_to_the_byte(
    before: bytes, edit: Edit, place: int, snippet: bytes
) -> None:
    after, record = put_in(before, edit)
    mine, theirs = changed_alike(after, before, place % (len(before) + 1), snippet, plain)
    assume(is_there(edit, mine) and not is_there(edit, theirs))
    left = taken_out(mine, record)
    if b"," in snippet or snippet in {b"//", b"/*"}:
        # A comma that a person wrote in front of ours is not left at the end: not every program reads that.
        # One of ours that a person's comment swallowed is text of that comment, and stays.
        assert left is not None
        assert plain(left) == plain(theirs)
        assert left.replace(b",", b"") == theirs.replace(b",", b"")
    else:
        assert left == theirs


@given(jsonc(), json_edits, st.integers(0, 10_000), st.sampled_from(SNIPPETS))
def test_what_a_person_wrote_right_beside_ours_in_json_stays_in_meaning(
    before: bytes, edit: Edit, place: int, snippet: bytes
) -> None:
    after, record = put_in(before, edit)
    place %= len(after) + 1
    mine = after[:place] + snippet + after[place:]
    said = plain(mine)
    assume(said is not None and is_there(edit, mine))
    left = taken_out(mine, record)
    assert left is None or left.strip(b"\xef\xbb\xbf \t\r\n") == b"" or plain(left) is not None or b"/" in left
    if snippet in {b'"mine": 1,', b', "mine": 2'} and b"mine" in repr(said).encode():
        assert left is not None
        assert "mine" in repr(plain(left))


@given(toml(), toml_edits, st.integers(0, 20), st.sampled_from([b"# mine\n", b"\n", b"[mine]\nx = 1\n", b"# mine"]))
def test_what_a_person_wrote_around_ours_in_toml_stays(
    before: bytes, edit: TomlTable, place: int, snippet: bytes
) -> None:
    after, record = put_in(before, edit)
    lines = after.splitlines(keepends=True)
    place %= len(lines) + 1
    offset = len(b"".join(lines[:place]))
    assume(offset <= after.index(b"[mcp_servers.tandem]") or offset > after.index(b'A = "b"') + 7)
    lines.insert(place, snippet)
    mine = b"".join(lines)
    said = tables(mine)
    assume(said is not None and said["mcp_servers"]["tandem"] == {"command": "tandem", "env": {"A": "b"}})
    left = taken_out(mine, record)
    assert left is not None
    del said["mcp_servers"]["tandem"]
    if not said["mcp_servers"] and "mcp_servers" not in tables(left):
        del said["mcp_servers"]
    assert tables(left) == said
    assert snippet.strip() in left


@given(markdown(), blocks, st.integers(0, 20), st.sampled_from([b"mine\n", b"\n", b"mine"]))
def test_what_a_person_wrote_around_a_block_stays(before: bytes, edit: MarkedBlock, place: int, snippet: bytes) -> None:
    before = before.removeprefix(BOM)
    after, record = put_in(before, edit)
    lines = after.splitlines(keepends=True)
    place %= len(lines) + 1
    inside = b"".join(lines[:place])
    assume(inside.count(b"begin") == inside.count(b"end"))
    assume(snippet.endswith(b"\n") if place < len(lines) else after.endswith(b"\n"))
    lines.insert(place, snippet)
    left = taken_out(b"".join(lines), record)
    assert left is not None
    kept = [line for line in left.splitlines() if line.strip()]
    wanted = [line for line in before.splitlines() if line.strip()]
    if snippet.strip():
        assert kept.count(b"mine") == 1
        kept.remove(b"mine")
    assert kept == wanted
