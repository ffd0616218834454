"""A made-up history with what real ones have seldom: a commit for each kind of file, name, place and change."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.replaying.strict import GITLINK

File = tuple[str, bytes]
Step = tuple[str, Mapping[str | bytes, File | None]]
"""A commit: its message, and the files that it writes or, with None, deletes."""

_PLAIN, _PROGRAM, _LINK = "100644", "100755", "120000"
_PERSON = b"Ada <ada@example.invalid> 1700000000 +0000"


def text(*lines: str, end: str = "\n", last: bool = True) -> File:
    """A text file of these lines."""
    joined = end.join(lines)
    return _PLAIN, (joined + end if last and lines else joined).encode()


def numbered(count: int, changes: Mapping[int, str] | None = None, end: str = "\n") -> File:
    """A text of many lines, some of them replaced."""
    given = changes or {}
    return text(*(given.get(number, f"line {number}") for number in range(1, count + 1)), end=end)


def blocks(*extra: int) -> File:
    """A text whose blocks all look alike, some with a line more."""
    more = (["    b"] if at in extra else [] for at in range(9))
    return text(*(line for own in more for line in ("def f():", "    if a:", *own, "    return", "")))


def _lines() -> Iterator[Step]:
    """Lines that change, in files that say nothing more."""
    yield "The start", {"a.txt": numbered(60), "run.sh": text("#!/bin/sh", "exit 0"), "blocks.py": blocks()}
    yield "A line in the middle", {"a.txt": numbered(60, {30: "thirty"})}
    yield "Both ends", {"a.txt": numbered(60, {1: "first", 30: "thirty", 60: "last"})}
    yield "Lines only added", {"a.txt": numbered(60, {1: "first", 20: "a\nb\nc", 30: "thirty", 60: "last"})}
    yield "Lines only removed", {"a.txt": numbered(55)}
    yield "One of many equal blocks", {"blocks.py": blocks(4)}
    yield "Another two of them", {"blocks.py": blocks(1, 4, 7)}
    yield "Lines that look like a diff", {
        "odd.txt": text(
            "--- a/a.txt", "+++ b/a.txt", "@@ -1,2 +1,3 @@", "diff --git a/a b/a", "-- ", "- x", "+ y", "",
            "\\ No newline at end of file", "GIT binary patch", "Binary files a and b differ", "rename from a",
        ),
    }  # fmt: skip
    yield "Such lines removed", {"odd.txt": text("+++ b/a.txt", "-- ", "+ y", "", "rename from a")}
    yield (
        "Odd white space",
        {"space.txt": ("100644", "\ufeffbom\n\ttab \nform\x0cfeed\x0bvt\nlone\rcr\nnel\x85 ls\u2028\n\n \n".encode())},
    )
    yield (
        "Odd white space again",
        {"space.txt": ("100644", "\ufeffBOM\n\ttab\t\nform\x0cFeed\x0bvt\nlone\rCR\nnel\x85 LS\u2028\n\n\n".encode())},
    )
    heading = f"def a{'ä' * 60}():"
    yield "A heading beyond ASCII", {"heading.py": text(heading, *(f"    x = {at}" for at in range(20)))}
    yield "A hunk below it", {"heading.py": text(heading, *(f"    x = {at}" for at in range(19)), "    x = 0")}
    yield (
        "A message with a diff\n\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n\ndiff --git a/b b/b\n---\nend",
        {"a.txt": numbered(54)},
    )
    yield "", {"a.txt": numbered(53)}


def _ends() -> Iterator[Step]:
    """Line ends, and none at all."""
    yield "CRLF", {"crlf.txt": numbered(30, end="\r\n")}
    yield "A line of CRLF", {"crlf.txt": numbered(30, {9: "nine"}, end="\r\n")}
    yield "CRLF becomes LF", {"crlf.txt": numbered(30, {9: "nine"})}
    yield "Mixed ends", {"crlf.txt": numbered(30, {9: "nine\r", 20: "twenty\r"})}
    yield "LF becomes CRLF", {"crlf.txt": numbered(30, {9: "nine"}, end="\r\n")}
    yield "Attributes that change line ends", {".gitattributes": text("*.dos text eol=crlf", "*.lock -diff")}
    yield "A file with such attributes", {"a.dos": numbered(10), "b.lock": numbered(10)}
    yield "It changes", {"a.dos": numbered(10, {5: "five"}), "b.lock": numbered(10, {5: "five"})}
    yield "CRLF in spite of them", {"a.dos": numbered(10, {5: "FIVE"}, end="\r\n")}
    yield "No final newline", {"end.txt": text("one", "two", last=False)}
    yield "A line before it", {"end.txt": text("one", "more", "two", last=False)}
    yield "The last line, still without", {"end.txt": text("one", "more", "TWO", last=False)}
    yield "With a final newline", {"end.txt": text("one", "more", "TWO")}
    yield "Without it again", {"end.txt": text("one", "more", "TWO", last=False)}
    yield "Lines behind the last", {"end.txt": text("one", "more", "TWO", "three", last=False)}
    yield "A single newline", {"newline.txt": text("")}
    yield "An empty file", {"empty.txt": text(), "sub/empty": text()}
    yield "It is filled", {"empty.txt": text("full", last=False)}
    yield "It is emptied", {"empty.txt": text(), "newline.txt": text()}
    yield "An empty file goes", {"empty.txt": None}


def _types(modules: tuple[str, ...]) -> Iterator[Step]:
    """Modes, links, submodules, folders and binary files."""
    yield "A mode", {"run.sh": (_PROGRAM, b"#!/bin/sh\nexit 0\n")}
    yield "A mode and a line", {"run.sh": (_PLAIN, b"#!/bin/sh\nexit 1\n")}
    yield "A new program", {"bin/tool": (_PROGRAM, b"#!/bin/sh\n")}
    yield "An empty program", {"bin/none": (_PROGRAM, b"")}
    yield "A link", {"sub/link": (_LINK, b"../a.txt"), "loop": (_LINK, b"loop")}
    yield "It leads elsewhere", {"sub/link": (_LINK, b"empty")}
    yield "A link that leads out", {"out": (_LINK, b"../../etc/passwd")}
    yield "The link becomes a file", {"loop": text("a file")}
    yield "A file becomes a link", {"loop": (_LINK, b"a.txt")}
    yield "The link goes", {"loop": None}
    first, second = (module.encode() for module in modules)
    module = '[submodule "vendor/lib"]\n\tpath = vendor/lib\n\turl = ../lib\n'
    yield "A submodule", {"vendor/lib": (GITLINK, first), ".gitmodules": (_PLAIN, module.encode())}
    yield "It moves on", {"vendor/lib": (GITLINK, second)}
    yield "It moves on with a file", {"vendor/lib": (GITLINK, first), "a.txt": numbered(52)}
    yield "To a commit that is nowhere", {"vendor/lib": (GITLINK, b"1" * 40)}
    yield "The submodule goes", {"vendor/lib": None, ".gitmodules": None}
    yield "A file becomes a folder", {"bin/none": None, "bin/none/x": text("x")}
    yield "The folder becomes a file", {"bin/none/x": None, "bin/none": text("x")}
    yield "Binary files", {"pic.bin": (_PLAIN, bytes(range(256)) * 40), "small.bin": (_PLAIN, b"\0")}
    yield "One of them changes", {"pic.bin": (_PLAIN, bytes(range(256)) * 20 + b"x" + bytes(range(256)) * 20)}
    yield "Binary beside text", {"small.bin": (_PLAIN, b"\1\0"), "a.txt": numbered(51)}
    yield "A binary file goes", {"pic.bin": None}
    yield "Binary becomes text", {"small.bin": text("text")}
    late = ("0123456789abcdef" * 4 + "\n") * 200
    yield "NUL after much text", {"late.txt": (_PLAIN, late.encode() + b"\0\n")}
    yield "A line far from it", {"late.txt": (_PLAIN, b"new\n" + late.encode() + b"\0\n")}
    yield "Latin-1", {"latin.txt": (_PLAIN, "über\nein\nzwei\n".encode("latin-1"))}
    yield "Latin-1 changes", {"latin.txt": (_PLAIN, "über\neine\nzwei\n".encode("latin-1"))}
    yield "UTF-16", {"wide.txt": (_PLAIN, "one\ntwo\n".encode("utf-16"))}
    yield "Latin-1 becomes UTF-8", {"latin.txt": text("über", "eine", "zwei")}


NAMES: tuple[str, ...] = (
    "with space.txt", " leading", "trailing ", "two  spaces/in it", 'quo"te', "back\\slash", "tab\there",
    "line\nfeed", "größe.txt", "日本語/ファイル.txt", "nfd-e\u0301.txt", "emoji-🎉.txt", "-dash", "--- a/x", "a/x",
    "b/x", "x", "a/a/x", "b b/x", "dev/null", "dollar$HOME", "semi;colon", "star*", "[brackets]", "#hash", "!bang",
    "per%20cent", "Case", "'single'", "x b/x", "=>", "{a => b}", "HEAD", "i/x", "c/x", "old/x", "new/x", "\x7fdel",
    "\x01ctl", f"long/{'n' * 200}",
)  # fmt: skip
"""Names that something on the way could take for something else."""


def _names() -> Iterator[Step]:
    yield "Names", {name: numbered(12, {1: f"file {at}"}) for at, name in enumerate(NAMES)}
    for at, name in enumerate(NAMES):
        yield f"Name {at} changes", {name: numbered(12, {1: f"file {at}", 6: "six"})}
    for at, name in enumerate(NAMES[::4]):
        yield f"Name {at * 4} moves", {name: None, f"moved/{at}": numbered(12, {1: f"file {at * 4}", 6: "six"})}
    yield (
        "All of them change",
        {name: numbered(12, {1: f"file {at}", 11: "eleven"}) for at, name in enumerate(NAMES) if at % 4},
    )
    yield "Some go", dict.fromkeys(NAMES[1::4])
    yield "Only case", {"Case": None, "case": numbered(12, {1: "file 27", 11: "eleven"})}
    yield "A name that is not UTF-8", {b"caf\xe9.txt": text("x")}
    yield "It goes", {b"caf\xe9.txt": None}


def _moves() -> Iterator[Step]:
    many = {at: f"this is line {at} of the one" for at in range(1, 80)}
    other = {at: f"and line {at} of the other" for at in range(1, 80)}
    yield "Two files", {"one.txt": numbered(79, many), "other.txt": numbered(79, other)}
    yield "A rename", {"one.txt": None, "dir/renamed.txt": numbered(79, many)}
    changed = {**many, 40: "forty", 70: "seventy"}
    yield "A rename with a change", {"dir/renamed.txt": None, "renamed.txt": numbered(79, changed)}
    yield "A copy", {"copy.txt": numbered(79, changed)}
    yield "A copy with a change", {"copy-2.txt": numbered(79, {**changed, 5: "five"})}
    yield (
        "A copy of what changes",
        {
            "other.txt": numbered(79, {**other, 9: "nine"}),
            "other-2.txt": numbered(79, {**other, 60: "sixty"}),
        },
    )
    yield "Two files change places", {"other.txt": numbered(79, changed), "renamed.txt": numbered(79, other)}
    yield "A rename with a mode", {"copy.txt": None, "copied": (_PROGRAM, numbered(79, changed)[1])}
    yield "All lines are new", {"other.txt": numbered(40, {at: f"quite new {at}" for at in range(1, 41)})}
    yield "Much at once", {f"many/{at:03}.txt": numbered(5, {1: f"file {at}"}) for at in range(300)}
    yield "Some of it", {f"many/{at:03}.txt": numbered(5, {3: "three", 1: f"file {at}"}) for at in range(0, 300, 3)}
    yield (
        "A folder moves",
        {
            name: content
            for at in range(1, 300, 3)
            for name, content in ((f"many/{at:03}.txt", None), (f"moved/{at:03}.txt", numbered(5, {1: f"file {at}"})))
        },
    )
    yield "A large file", {"large.txt": numbered(100_000)}
    yield "A line of it", {"large.txt": numbered(100_000, {70_000: "here"})}
    yield "A long line", {"long.txt": text("start", "x" * 1_000_000, "end")}
    yield "It changes", {"long.txt": text("start", "x" * 500_000 + "y" + "x" * 500_000, "end")}
    wide = {at: f"{'z' * 60} {at}" for at in range(1, 90_000)}
    yield "More than a diff may have", {"large.txt": numbered(100_000, wide)}


def build(root: Path) -> Path:
    """Make the repository, with a submodule whose commits are there."""
    modules = _submodule(root / "vendor/lib")
    _git(root, "init", "--quiet", "--initial-branch=main")
    steps = [*_lines(), *_ends(), *_types(modules), *_moves(), *_names()]
    stream = b"".join(_command(at, step) for at, step in enumerate(steps, 1))
    _git(root, "fast-import", "--quiet", stdin=stream + _merge(len(steps)))
    return root


def _submodule(root: Path) -> tuple[str, str]:
    root.mkdir(parents=True)
    _git(root, "init", "--quiet", "--initial-branch=main")
    for name in ("first", "second"):
        _git(root, "commit", "--quiet", "--allow-empty", "-m", name)
    first, second = _git(root, "rev-list", "--reverse", "main").decode().split()
    return first, second


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, input=stdin, stdout=subprocess.PIPE, check=True).stdout


def _command(mark: int, step: Step) -> bytes:
    message, files = step
    parts = [b"commit refs/heads/main\nmark :%d\ncommitter %s\n" % (mark, _PERSON), _data(message.encode())]
    # A file can stand in a folder's place only once the folder is empty.
    for name, file in sorted(files.items(), key=lambda item: item[1] is not None):
        parts.append(_file(name if isinstance(name, bytes) else name.encode(), file))
    return b"".join(parts)


def _merge(last: int) -> bytes:
    """A branch with two commits, and its merge."""
    begin = b"commit refs/heads/%s\nmark :%d\ncommitter %s\n%sfrom :%d\n"
    parts: list[bytes] = []
    for at in (last + 1, last + 2):
        parts += [begin % (b"side", at, _PERSON, _data(b"Side"), at - 1), _file(b"side.txt", numbered(at))]
    parts += [begin % (b"main", last + 3, _PERSON, _data(b"Merge"), last), b"merge :%d\n" % (last + 2)]
    return b"".join(parts) + _file(b"side.txt", numbered(last + 2))


def _file(name: bytes, file: File | None) -> bytes:
    quoted = b'"%s"' % b"".join(b"\\%03o" % byte for byte in name)
    if file is None:
        return b"D %s\n" % quoted
    mode, content = file
    if mode == GITLINK:
        return b"M 160000 %s %s\n" % (content, quoted)
    return b"M %s inline %s\n" % (mode.encode(), quoted) + _data(content)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)
