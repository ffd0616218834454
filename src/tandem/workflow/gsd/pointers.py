"""What the overlay says in GSD's files, and at which of their lines.

A pointer is one line of its own that names the command to run. It stands between two marks, so that it can be found
and taken out whatever has become of the file around it. GSD's files change with every version: an anchor is a whole
line (white space aside), several may be named for one place, and one that is not there is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOOL: Final = "mcp__gsdreview__*"
"""Every tool of the MCP server, as Claude Code names them."""

TOOLS: Final = {"claude": TOOL, "gemini": "mcp_gsdreview_*", "opencode": "gsdreview_*"}
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

NOT_BEFORE: Final = {"discuss-phase-assumptions": (1, 28)}
"""Files that older versions do not have."""

COMMANDS: Final = ("plan-phase", "execute-phase", "discuss-phase", "verify-work")
"""The commands whose lists of allowed tools get the review's."""
