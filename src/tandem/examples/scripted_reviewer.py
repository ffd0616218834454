"""A reviewer program without a model: it reads the prompt, follows fixed rules, and prints the answer.

    [reviewer_pool]
    enabled = true
    provider = "custom"
    command = ["python3", "/path/to/scripted_reviewer.py"]

It shows what any program has to do to review for Tandem, and needs the standard library only. Its rules: an added line
with `eval(`, or with a note that something is still to be done, is a defect; a change without any is approved. Words in
the intent make it misbehave, for a demonstration or a test: `CRASH` ends it with status 1, `GARBAGE` has it print no
answer, `HANG` has it never end, and `SLOW` has it take its time.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DEFECTS = {
    re.compile(r"\bTOD[O]\b"): "This line says itself that it is not done. Finish it, or leave it out.",
    re.compile(
        r"\beval\("
    ): "eval runs any text that it is given. Use a parser that only reads values, such as ast.literal_eval.",
}
"""Defects of an added line, each with its words."""

_SLOW_SECONDS = 0.7
_HANG_SECONDS = 3600.0

_FRAME = re.compile(
    r"^=== BEGIN DATA (?P<mark>\w+): (?P<label>[^\n]*)\n(?P<text>.*?)\n=== END DATA (?P=mark)$",
    re.MULTILINE | re.DOTALL,
)
"""Other people's text is between two lines with a mark that its author could not know beforehand."""

_NONCE = re.compile(r'^For `nonce` write "(?P<nonce>[0-9a-f]+)":', re.MULTILINE)
"""Shows that an answer is of this run: a quotation from a proposal cannot have it."""

_READ = re.compile(r'^The nonce of file (?P<file>[0-9]+) is "(?P<nonce>[0-9a-f]+)"\.$', re.MULTILINE)
"""Follows each file of the change: shows that the file was read to its end."""

_EARLIER = "earlier findings (JSON)"
"""The frame of the earlier findings that have to be answered."""

_DIGEST = re.compile(r'^For `digest` write (?P<digest>"[^"\n]*"|null):', re.MULTILINE)
_DIFF_FILE = re.compile(
    r"^It is too long for this text: [^\n]* The file `(?P<name>[^`\n]+)` holds all of it", re.MULTILINE
)
_HUNK = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+(?P<line>\d+)(?:,(?P<new>\d+))? @@")


def main() -> int:
    """Review what standard input says; the exit status."""
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    frames = {found["label"]: found["text"] for found in _FRAME.finditer(prompt)}
    facts = json.loads(frames.get("facts (JSON)", "{}"))
    intent = str(facts.get("intent", ""))
    if "CRASH" in intent:
        sys.stderr.write("the model cannot be reached\n")
        return 1
    if "GARBAGE" in intent:
        sys.stdout.write("Looks good to me, ship it!\n")
        return 0
    if "HANG" in intent:
        time.sleep(_HANG_SECONDS)
    if "SLOW" in intent:
        time.sleep(_SLOW_SECONDS)
    # The text of others cannot pass for the prompt's own.
    ours = _FRAME.sub("", prompt)
    nonce = _NONCE.search(ours)
    too_long = _DIFF_FILE.search(ours)
    given = Path(too_long["name"]).read_bytes().decode("utf-8", "replace") if too_long is not None else None
    answer = _answer(_content(frames, facts, given), _digest(ours, facts), json.loads(frames.get(_EARLIER, "[]")))
    read = [
        {"file": int(one["file"]), "nonce": one["nonce"], "looked_at": "each added line", "unread": None}
        for one in _READ.finditer(given or ours)
    ]
    sys.stdout.write(json.dumps({"nonce": nonce["nonce"] if nonce else None, "files": read, **answer}) + "\n")
    return 0


def _answer(
    content: list[tuple[str, int, str]] | None, digest: str | None, earlier: list[dict[str, Any]]
) -> dict[str, Any]:
    found = [
        (file, line, words)
        for file, line, text in content or ()
        for mark, words in DEFECTS.items()
        if mark.search(text)
    ]
    places = ", ".join(f"{file}:{line}" if file else f"line {line}" for file, line, _ in found)
    reason = f"This must not go in as it is; see {places}." if found else "No line of it has a defect."
    findings = [_finding(*one) for one in found]
    known = {(one.get("file"), one["claim"]) for one in earlier}
    return {
        "digest": digest,
        "summary": f"{len(content or ())} lines, looked through for {len(DEFECTS)} kinds of defects.",
        "answers": [_settled(one, findings) for one in earlier],
        "findings": [one for one in findings if (one["file"], one["claim"]) not in known],
        "reason": "There is nothing to read in it." if content is None else reason,
        "verdict": "changes_requested" if found or content is None else "approved",
        "counter_patch": None,
    }


def _finding(file: str, line: int, words: str) -> dict[str, Any]:
    place = {"file": file, "line": line} if file else {"file": None, "line": None}
    claim = words if file else f"Line {line}: {words}"
    about = {"severity": "major", "category": None, "claim": claim, "failure": None, "suggestion": None}
    return {**place, "end_line": None, **about, "pre_existing": False}


def _settled(earlier: dict[str, Any], findings: list[dict[str, Any]]) -> dict[str, Any]:
    """What became of an earlier finding: a defect that is still there is not corrected, by any answer."""
    is_there = (earlier.get("file"), earlier["claim"]) in {(one["file"], one["claim"]) for one in findings}
    answer, reason = ("reopened", "It is still there.") if is_there else ("verified", None)
    return {"finding_id": earlier["finding_id"], "answer": answer, "reason": reason}


def _digest(ours: str, facts: dict[str, Any]) -> str | None:
    """The digest of the reviewed round, which the verdict names."""
    named = _DIGEST.search(ours)
    stated: str | None = json.loads(named["digest"]) if named else facts.get("digest")
    return stated


def _content(frames: dict[str, str], facts: dict[str, Any], given: str | None) -> list[tuple[str, int, str]] | None:
    """Every added line with its file and its number there, or each line of a text; None if there is nothing."""
    files = [text for label, text in frames.items() if label.startswith("diff of file")]
    if given is not None or files:
        return list(_added(given or "\n".join(files)))
    if "description" in frames:
        file = str(facts.get("path") or "")
        return [(file, number, text) for number, text in enumerate(frames["description"].split("\n"), 1)]
    return None


def _added(diff: str) -> Iterator[tuple[str, int, str]]:
    """The added lines of a unified diff."""
    file, line, old, new = "", 0, 0, 0
    for text in diff.split("\n"):
        if old > 0 or new > 0:
            # Within a hunk only the first character counts.
            if text.startswith("+"):
                yield file, line, text[1:]
            old -= not text.startswith(("+", "\\"))
            new -= not text.startswith(("-", "\\"))
            line += not text.startswith(("-", "\\"))
        elif text.startswith("+++ "):
            file = text[4:].split("\t")[0].removeprefix("b/")
        elif hunk := _HUNK.match(text):
            line = int(hunk["line"])
            old, new = (1 if count is None else int(count) for count in (hunk["old"], hunk["new"]))


if __name__ == "__main__":
    sys.exit(main())
