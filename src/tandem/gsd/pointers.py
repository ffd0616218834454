"""What the overlay says in GSD's files, at which of their lines, and how it gets in and out of their text. No I/O.

A pointer is one line of its own that names the command to run. It stands between two marks, so that it can be found
and taken out however the file around it has changed. GSD's files change with every version: an anchor is a whole
line (white space aside), several may be named for one place, and one that is not there is reported.

A tool is a whole line or one word of a line. So nothing else of a file is touched: what was there before comes back to
the byte, also after GSD or a person has changed the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tandem.setup.teaching import SERVER

TOOL: Final = f"mcp__{SERVER}__*"
"""Every tool of the MCP server, as Claude Code names them."""

TOOLS: Final = {"claude": TOOL, "gemini": f"mcp_{SERVER}_*", "opencode": f"{SERVER}_*"}
"""The same in each client's words. Codex lists no tools: its agents have those of its configuration."""

_DO: Final = "do what it prints. At SOLO, or where there is no such command, go on as usual."

_TEXTS: Final = {
    "plan": "before a PLAN.md is committed or executed, run `tandem gate plan FILE` for it",
    "context": "before CONTEXT.md is written, save it elsewhere as a draft and run "
    "`tandem gate context FILE --content DRAFT`",
    "task": "before each task's commit, run `tandem gate task --plan PHASE-PLAN --task N` (both numbers of this task)",
    "wave": "after a plan's last task, before its commits are merged, run `tandem gate wave --plan PHASE-PLAN`",
    "verification": "before VERIFICATION.md is written, save it elsewhere as a draft and run "
    "`tandem gate verification FILE --content DRAFT`",
    "uat": "before UAT.md is committed, run `tandem gate verification FILE` for it",
}

_POINTER_LINE = re.compile(r"^[ \t]*(?:- )?<!-- tandem:[a-z]+ --> [^\n]* <!-- /tandem -->\r?\n", re.MULTILINE)
_HEAD = re.compile(r"---\r?\n(?P<head>(?:[^\n]*\n)*?)---\r?(?:\n|\Z)")
_KEY = re.compile(r"^(?:allowed-tools|tools):(?P<inline>[^\r\n]*)(?P<end>\r?\n)", re.MULTILINE)
_ITEM = re.compile(r"(?P<indent>[ \t]+)(?:-[ \t]+(?P<item>[^\r\n]*?)|(?P<key>[^\s:][^:\r\n]*):[^\r\n]*)(?P<end>\r?\n)")


@dataclass(frozen=True, slots=True)
class Pointer:
    """One pointer in one file.

    Attributes:
        gate: What it says: a key of the texts.
        anchors: The lines to look for, in this order; the first that is there counts, at its first place.
        is_prefix: Whether an anchor is only how the line begins.
        is_behind: Whether the pointer goes behind the anchor's line; else before it.
        since: The first version of GSD that has it; in older ones it is not missed.
    """

    gate: str
    anchors: tuple[str, ...]
    is_prefix: bool = False
    is_behind: bool = False
    since: tuple[int, int] = (1, 20)

    @property
    def line(self) -> str:
        """The line, without indentation and line end."""
        return f"<!-- tandem:{self.gate} --> Review gate: {_TEXTS[self.gate]}, and {_DO} <!-- /tandem -->"


def _inside(gate: str, tag: str, since: tuple[int, int] = (1, 20)) -> Pointer:
    return Pointer(gate, (tag,), is_behind=True, since=since)


_PLANNER = (_inside("plan", '<step name="write_phase_prompt">'), _inside("plan", '<step name="git_commit">'))
_EXECUTOR = (
    Pointer("task", ("- Commit (see task_commit_protocol)",)),
    _inside("task", "<task_commit_protocol>"),
    _inside("wave", "<summary_creation>"),
)
_VERIFIER = (Pointer("verification", ("## Create VERIFICATION.md",), is_behind=True),)

AGENTS: Final = {"gsd-planner": _PLANNER, "gsd-executor": _EXECUTOR, "gsd-verifier": _VERIFIER}
"""By agent; its file is Markdown, and in Codex TOML as well."""

WORKFLOWS: Final = {
    "discuss-phase": (Pointer("context", ("Write the file.", "Write file.")),),
    "discuss-phase-assumptions": (_inside("context", '<step name="write_context">', (1, 28)),),
    "discuss-phase-power": (_inside("context", '<step name="finalize">', (1, 32)),),
    "plan-phase": (
        Pointer(
            "plan",
            (
                "## 13d. Commit Plans if commit_docs is true",
                "## 13b. Record Planning Completion in STATE.md",
                "## 14. Present Final Status",
                "## 13. Present Final Status",
            ),
            is_behind=True,
        ),
        Pointer("plan", ("5. **Commit per-plan:**",), since=(1, 39)),
    ),
    "execute-plan": (_inside("task", "<task_commit>"), _inside("wave", '<step name="create_summary">')),
    "execute-phase": (
        Pointer(
            "wave", ("5.5. **Worktree cleanup", "5. **Report completion", "4. **Report completion"), is_prefix=True
        ),
    ),
    "verify-phase": (_inside("verification", '<step name="create_report">'),),
    "verify-work": (Pointer("uat", ("Commit the UAT file:",)),),
}
"""By workflow, `get-shit-done/workflows/NAME.md`."""

NOT_BEFORE: Final = {"discuss-phase-assumptions": (1, 28), "discuss-phase-power": (1, 32)}
"""Files that older versions do not have."""

COMMANDS: Final = ("plan-phase", "execute-phase", "discuss-phase", "verify-work")
"""The commands whose lists of allowed tools get the review's."""


def has_pointers(text: str) -> bool:
    """Whether a pointer of ours stands in it, of this or another version of Tandem."""
    return _POINTER_LINE.search(text) is not None


def without_pointers(text: str) -> str:
    """The text without our lines."""
    return _POINTER_LINE.sub("", text)


def with_pointers(text: str, pointers: Iterable[Pointer]) -> tuple[str, list[Pointer]]:
    """The text with each pointer once, at its anchor, and the pointers whose anchors it does not have."""
    lines = without_pointers(text).splitlines(keepends=True) if "\n" in text else [text]
    missing: list[Pointer] = []
    for pointer in pointers:
        place = _place(lines, pointer)
        if place is None:
            missing.append(pointer)
            continue
        anchor = lines[place]
        indent = anchor[: len(anchor) - len(anchor.lstrip())]
        bullet = "- " if anchor.lstrip().startswith("- ") else ""
        end = "\r\n" if anchor.endswith("\r\n") else "\n"
        lines.insert(place + pointer.is_behind, f"{indent}{bullet}{pointer.line}{end}")
    return "".join(lines), missing


def _place(lines: list[str], pointer: Pointer) -> int | None:
    """The anchor's line; one that ends the file without a newline is none, as nothing could follow it."""
    for anchor in pointer.anchors:
        for number, line in enumerate(lines):
            stripped = line.strip()
            if line.endswith("\n") and (stripped.startswith(anchor) if pointer.is_prefix else stripped == anchor):
                return number
    return None


def with_tool(text: str, tool: str) -> str:
    """The text with a tool at the end of the list in its front matter; as it is without a list, or with it there."""
    listed = _tools(text)
    if listed is None or tool in listed.names:
        return text
    if not listed.is_inline:
        return f"{text[: listed.end]}{listed.indent}{listed.written(tool)}{listed.newline}{text[listed.end :]}"
    return f"{text[: listed.end]}, {tool}{text[listed.end :]}"


def without_tool(text: str, tool: str) -> str:
    """The text without what `with_tool` put in; as it is where that is not there."""
    listed = _tools(text)
    if listed is None or tool not in listed.names:
        return text
    part = text[listed.start : listed.end]
    ours = f", {tool}" if listed.is_inline else f"{listed.indent}{listed.written(tool)}{listed.newline}"
    before, found, behind = part.rpartition(ours)
    return text[: listed.start] + before + behind + text[listed.end :] if found else text


@dataclass(frozen=True, slots=True)
class _Tools:
    """A list of tools, in one of the three ways in which GSD writes them.

    Attributes:
        start: Where the list begins in the text.
        end: Where the next one would go.
        names: The tools.
        is_inline: Whether they stand on one line, with commas.
        is_mapping: Whether each is a member that says true.
        indent: What stands before each, where each has its line.
        newline: What ends a line.
    """

    start: int
    end: int
    names: tuple[str, ...]
    is_inline: bool = False
    is_mapping: bool = False
    indent: str = ""
    newline: str = "\n"

    def written(self, tool: str) -> str:
        return f"{tool}: true" if self.is_mapping else f"- {tool}"


def _tools(text: str) -> _Tools | None:
    head = _HEAD.match(text)
    key = _KEY.search(text, head.start("head"), head.end("head")) if head else None
    if head is None or key is None:
        return None
    inline = key["inline"].strip()
    if inline.startswith("["):
        # GSD writes none of these; a person's own form is left alone.
        return None
    if inline:
        end = key.start("inline") + len(key["inline"].rstrip())
        return _Tools(key.start("inline"), end, tuple(word.strip() for word in inline.split(",")), is_inline=True)
    names: list[str] = []
    place, last = key.end(), None
    while (item := _ITEM.match(text, place, head.end("head"))) and (last is None or item["indent"] == last["indent"]):
        names.append((item["item"] or item["key"]).strip())
        place, last = item.end(), item
    if last is None:
        return None
    return _Tools(
        key.end(), place, tuple(names), is_mapping=last["key"] is not None, indent=last["indent"], newline=last["end"]
    )
